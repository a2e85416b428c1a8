"""`ploff report`: one page about runs."""

import dataclasses
import pathlib
from typing import Annotated

import tyro


@dataclasses.dataclass
class Report:
    """Write one self-contained HTML page about runs: tables, curves, the metric, pictures of states."""

    runs: Annotated[tuple[pathlib.Path, ...], tyro.conf.Positional]
    """What `ploff train` or `ploff benchmark` made: run folders, folders of them, folders of suites."""
    out: pathlib.Path = pathlib.Path("report.html")
    """The page."""
    pictures: bool = True
    """Draw states and their nearest ones, for locomotion."""

    def run(self) -> None:
        """Gathers, draws, and writes."""
        from ploff.errors import PloffError
        from ploff.progress import console
        from ploff.report import write_report

        if not self.runs:
            raise PloffError("name at least one folder that `ploff train` or `ploff benchmark` made")
        path = write_report(self.runs, self.out, pictures=self.pictures)
        console.print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)", highlight=False)
