"""`ploff data`: what data there is, what is in it, and how to change its format."""

import dataclasses
import pathlib
import shlex
from typing import Annotated, Any, Literal

import tyro

from ploff.commands import Unset
from ploff.commands.reading import Reading, first_of

Format = Literal["d4rl", "minari", "npz", "parquet", "csv"]
Name = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
Names = Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME")]
Target = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TARGET")]
Environment = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")]


@dataclasses.dataclass
class List:
    """List the datasets that have a name: bundled, on this disk, and the paper's."""

    def run(self) -> None:
        """Prints one line per dataset."""
        from rich.table import Table

        from ploff.datasets import list_datasets

        table = Table("name", "kind", "where", box=None, pad_edge=False)
        for entry in list_datasets():
            absent = f"not here; Minari has {entry.minari_id}" if entry.minari_id else "not here"
            bundled = "in the package" if entry.kind == "bundled" else absent
            table.add_row(entry.name, entry.kind, str(entry.location) if entry.location else bundled)
        _print(table)


@dataclasses.dataclass
class Show(Reading):
    """Say what is in a dataset; of tables, propose what columns are."""

    name: Names
    """A file, a Minari folder, or a name that `ploff data list` shows; of tables also several, a glob or a folder."""
    format: Unset[Format] = None
    """The file's format, if it does not show it."""
    environment: Unset[str] = None
    """Where a policy is to be tried."""
    write: Unset[pathlib.Path] = None
    """Write a table's proposal into this file, to be changed and given to --table."""

    def run(self) -> None:
        """Prints a card; of a table, what its columns are or may be, and the command that says so."""
        from ploff.datasets import proposal
        from ploff.utils.errors import DataError

        first, options = first_of(self.name), self.options(self.name[1:])
        if self.format in (None, "parquet", "csv") and proposal.is_table(self.name):
            self._propose(options)
            return
        if self.write is not None:
            raise DataError(f"{first} is no table: there are no columns to write")
        self._show_card(options)

    def _propose(self, options: dict[str, Any]) -> None:
        """Prints the columns, the card of what they make, and the command that takes them so."""
        from ploff.datasets import proposal
        from ploff.datasets.assemble import Options

        read = Options.of(**options)
        given = {name: options[name] for name in ("horizon", "action_low", "action_high", "choices") if name in options}
        proposed = proposal.propose(self.name, read.columns, read.table, given)
        _print(_columns_table(proposed))
        for question in proposed.open:
            _print(f"open: {question}")
        if not proposed.open:
            self._show_card({**proposed.reading, **options})
        if self.write is not None:
            from ploff.utils.files import atomic_write

            with atomic_write(self.write) as partial:
                partial.write_text(proposed.toml())
            words = ["ploff", "train", *self.name, "--out", "run", "--table", str(self.write)]
            _print(f"\nto train so (after changing {self.write}, if need be):\n{shlex.join(words)}")
            return
        _print(f"\nto train so (change what is wrong; --write columns.toml makes a file of it):\n{proposed.command()}")

    def _show_card(self, options: dict[str, Any]) -> None:
        import warnings

        from rich.table import Table

        from ploff.datasets import load
        from ploff.datasets.summary import summary
        from ploff.utils.errors import PloffWarning

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PloffWarning)
            transitions = load(self.name[0], format=self.format, environment=self.environment, **options)
        card = Table.grid(padding=(0, 2))
        for label, text in summary(transitions):
            card.add_row(label, text)
        for warning in caught:
            card.add_row("warning", str(warning.message))
        _print(transitions.origin.name)
        _print(card)


def _columns_table(proposed: Any) -> Any:
    from rich.table import Table

    table = Table("column", "type", "range", "missing", "proposed as", "", box=None, pad_edge=False)
    for card in proposed.cards:
        missing = f"{card.missing:.1%}" if card.missing else ""
        table.add_row(card.name, card.type, card.range, missing, card.role, card.note)
    return table


@dataclasses.dataclass
class Convert(Reading):
    """Write a dataset in another format, every array and every episode's end kept."""

    source: Name
    """What `ploff data show` takes."""
    target: Target
    """FILE.hdf5, .npz, .parquet or .csv; a folder, with --format minari; or minari:NAME-v0."""
    format: Unset[Format] = None
    """The target's format, if its suffix does not show it."""
    source_format: Unset[Format] = None
    """The source's format, likewise."""
    environment: Unset[str] = None
    """Where a policy is to be tried, to be written into the target."""
    force: bool = False
    """Replace what is there."""

    def run(self) -> None:
        """Reads, checks and writes."""
        from ploff.datasets import convert

        written = convert(
            self.source,
            self.target,
            format=self.source_format,
            to=self.format,
            overwrite=self.force,
            environment=self.environment,
            **self.options(),
        )
        _print(f"wrote {written}")


@dataclasses.dataclass
class Collect:
    """Act in an environment and log it; or learn there, and log all that was seen."""

    environment: Environment
    """One of hopper, pen, …, or a Gymnasium id."""
    out: pathlib.Path
    """FILE.hdf5, .npz, .parquet or .csv."""
    policy: str = "random"
    """Who acts: `random`, a run folder that `ploff train` made, or a policy's file."""
    noise: Unset[float] = None
    """Deviation of the noise on a policy's actions, in units of half an action's range."""
    action_noise: Unset[float] = None
    """Deviation of noise that the environment adds to every executed action, in units of half an action's range; the
    logged actions are without it."""
    train: Unset[int] = None
    """Train TD3 for so many steps in the environment instead, and log them all; policies are kept beside the log."""
    snapshot_every: Unset[int] = None
    """Steps between the policies that are kept, with --train; 10,000 unless it is given."""
    transitions: Unset[int] = None
    """How many to log, without --train; 10,000 unless it is given."""
    seed: int = 0
    """Decides the episodes and the policy's actions."""
    physics: Literal["d4rl", "gymnasium"] = "d4rl"
    """Whose physics, where an environment has both."""
    force: bool = False
    """Replace what is there."""

    def run(self) -> None:
        """Collects and writes."""
        from ploff.datasets import check_target, save

        check_target(self.out, overwrite=self.force)  # before the work, not after it
        transitions, interrupted = self._learned() if self.train is not None else (self._collected(), False)
        _print(f"wrote {save(transitions, self.out, overwrite=self.force)}")
        if interrupted:
            raise KeyboardInterrupt(f"interrupted: {len(transitions):,} transitions were logged")

    def _collected(self):
        from ploff.environments.collection import collect
        from ploff.experiments import load_policy
        from ploff.utils.errors import PloffError

        if self.snapshot_every is not None:
            raise PloffError("--snapshot-every is for --train: nothing is learned without it")
        return collect(
            self.environment,
            policy="random" if self.policy == "random" else load_policy(self.policy),
            transitions=10_000 if self.transitions is None else self.transitions,
            noise=self.noise or 0.0,
            seed=self.seed,
            physics=self.physics,
            options={"distraction": {"action_noise": self.action_noise}} if self.action_noise else None,
            quiet=False,
        )

    def _learned(self):
        from ploff.agents.online import OnlineTraining, learn_online
        from ploff.utils.errors import PloffError

        left_out = (self.noise, self.transitions, self.action_noise)
        if self.policy != "random" or any(value is not None for value in left_out):
            raise PloffError(
                "--train learns a policy of its own and logs every step: leave out --policy, --noise, --action-noise "
                "and --transitions"
            )
        assert self.train is not None
        lengths = {} if self.snapshot_every is None else {"snapshot_every": self.snapshot_every}
        outcome = learn_online(
            self.environment,
            OnlineTraining(steps=self.train, seed=self.seed, **lengths),
            physics=self.physics,
            snapshots=self.out.with_name(f"{self.out.stem}-policies"),
        )
        return outcome.seen, outcome.interrupted


@dataclasses.dataclass
class Relevance(Reading):
    """Say what each column of the observations is worth, and how many directions of them matter."""

    name: Name
    """What `ploff data show` takes."""
    out: Unset[pathlib.Path] = None
    """Folder for relevance.json and a picture (extra `plot`); without it, only a table is printed."""
    seed: int = 0
    """Seeds every random draw."""

    def run(self) -> None:
        """Learns, prints a table, and writes what was asked for."""
        from rich.table import Table

        from ploff.datasets import load
        from ploff.relevance import RelevanceConfig, learn_relevance
        from ploff.relevance.summary import relevance_rows, summary

        data = load(self.name, **self.options())
        relevance = learn_relevance(data, RelevanceConfig(seed=self.seed))
        table = Table("column", "share", "95% interval", "", box=None, pad_edge=False)
        for row in relevance_rows(relevance):
            table.add_row(*row)
        _print(table)
        for line in summary(relevance):
            _print(line)
        if self.out is not None:
            from ploff.report.figures.relevance import draw_relevance

            relevance.save(self.out / "relevance.json")
            draw_relevance(relevance).savefig(self.out / "relevance.png")
            _print(f"wrote {self.out / 'relevance.json'} and relevance.png")


@dataclasses.dataclass(kw_only=True)
class Distract(Reading):
    """Add columns that mean nothing to a log, and to the environment in which its policies are tried."""

    source: Name
    """What `ploff data show` takes."""
    target: Target
    """FILE.hdf5, .npz, .parquet or .csv."""
    walks: int = 0
    """Noise columns that walk slowly."""
    noise_from: Unset[str] = None
    """A dataset whose states are noise columns."""
    rotate: bool = False
    """Mix all columns by a fixed rotation."""
    seed: int = 0
    """Decides the noise and the rotation."""
    force: bool = False
    """Replace what is there."""

    def run(self) -> None:
        """Reads, distracts and writes."""
        from ploff.datasets import check_target, load, save
        from ploff.environments.distraction import Distraction, distract

        check_target(self.target, overwrite=self.force)
        distraction = Distraction(walks=self.walks, noise_from=self.noise_from, rotate=self.rotate, seed=self.seed)
        changed = distract(load(self.source, **self.options()), distraction)
        _print(f"wrote {save(changed, self.target, overwrite=self.force)}")


@dataclasses.dataclass
class Data:
    """Look at, convert, collect and distract logs; say which of their columns matter."""

    command: tyro.conf.OmitSubcommandPrefixes[
        Annotated[List, tyro.conf.subcommand("list")]
        | Annotated[Show, tyro.conf.subcommand("show")]
        | Annotated[Convert, tyro.conf.subcommand("convert")]
        | Annotated[Collect, tyro.conf.subcommand("collect")]
        | Annotated[Relevance, tyro.conf.subcommand("relevance")]
        | Annotated[Distract, tyro.conf.subcommand("distract")]
    ]

    def run(self) -> None:
        """Runs the chosen sub-command."""
        self.command.run()


def _print(content: Any) -> None:
    """To standard output: fitted to a terminal, unbroken in a file or a pipe."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 1000
    console.print(content)
