"""`ploff report`: one page about runs."""

import dataclasses
import pathlib
from typing import Annotated

import tyro


@dataclasses.dataclass
class Report:
    """Write one HTML page about runs: tables, curves, the metric, states."""

    runs: Annotated[tuple[pathlib.Path, ...], tyro.conf.Positional]
    """Folders that `ploff train` or `ploff benchmark` made."""
    out: pathlib.Path = pathlib.Path("report.html")
    """HTML file to write."""
    pictures: bool = True
    """Draw states and their nearest neighbors, for locomotion."""

    def run(self) -> None:
        """Gathers, draws, and writes."""
        from ploff.report import write_report
        from ploff.utils.errors import PloffError
        from ploff.utils.progress import say

        if not self.runs:
            raise PloffError("name at least one folder that `ploff train` or `ploff benchmark` made")
        path = write_report(self.runs, self.out, pictures=self.pictures)
        say(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
