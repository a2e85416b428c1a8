"""`ploff data`: what data there is, what is in it, and how to change its format."""

import dataclasses


@dataclasses.dataclass
class Data:
    """Look at, convert and collect logged transitions."""

    def run(self) -> None:
        """Runs the chosen sub-command."""
