"""`ploff benchmark`: many runs, their results and their tables."""

import dataclasses
import pathlib
from typing import Annotated

import tyro

from ploff.commands import Unset


@dataclasses.dataclass
class Benchmark:
    """Run a suite of tasks and methods; run again, it finishes what is missing."""

    suite: Annotated[pathlib.Path, tyro.conf.Positional]
    """TOML file of the suite; those in `reproduce/` are examples."""
    out: Unset[pathlib.Path] = None
    """Folder of results; by default runs/NAME."""
    dry_run: bool = False
    """Only print what would be run and downloaded, and how long it would take on 2, 64 and 1,024 cores."""
    workers: Unset[int] = None
    """Worker processes on this machine, by default one per core."""
    ray: Unset[str] = None
    """Address of a Ray cluster to run on instead, or `auto` (extra `ray`)."""

    def run(self) -> None:
        """Plans, runs, and prints the table."""
        from rich.console import Console
        from rich.markdown import Markdown

        from ploff.experiments import run_suite, tables
        from ploff.experiments.describe import describe
        from ploff.experiments.suite import read_suite
        from ploff.utils.errors import PloffError

        if self.workers is not None and self.ray is not None:
            raise PloffError("--workers counts processes on this machine; a Ray cluster counts its own")
        suite = read_suite(self.suite)
        out = self.out or pathlib.Path("runs") / suite.name
        console = Console(highlight=False)
        if self.dry_run:
            for line in describe(suite, out, self.workers):
                console.print(line, markup=False, soft_wrap=True)
            return
        outcome = run_suite.run_suite(suite, out, workers=self.workers, ray=self.ray)
        run_suite.report_outcome(outcome)
        for table in (tables.score_table(outcome.results), tables.summary_table(outcome.results)):
            console.print(Markdown(f"**{table.title}**\n\n{table.markdown()}"))
        console.print(f"{out}: evaluations.csv, scores.csv, table.csv, table.tex, tables.md", markup=False)
        console.print(f"next: `ploff report {out}` draws it all", markup=False)
        if outcome.failures:
            raise PloffError(f"{len(outcome.failures)} job(s) failed; the same command tries them again")
