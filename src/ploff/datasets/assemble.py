"""From a file's rows to Transitions: flags, horizons, action spaces, checks. Every reader ends here."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ploff import tasks
from ploff.actions import ActionSpace
from ploff.datasets import validate
from ploff.datasets.columns import TableOptions
from ploff.transitions import UNKNOWN, Origin, Transitions
from ploff.utils.config import structure, structure_fields
from ploff.utils.errors import DataError

REQUIRED = ("observations", "actions", "rewards", "terminals")
FIELDS = (*REQUIRED, "timeouts", "next_observations")


@runtime_checkable
class Blocks(validate.Shaped, Iterable[np.ndarray], Protocol):
    """An array that is read a block of rows at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What a person adds to what a file says."""

    infos: bool = False  # carry the further arrays, for conversions; training needs none of them
    horizon: int | None = None  # steps after which an episode was cut, where the file does not mark it
    action_low: float | Sequence[float] | None = None  # bounds of the actions, one for all or one per dimension
    action_high: float | Sequence[float] | None = None
    choices: int | None = None  # number of actions, where they are choices
    environment: str | None = None  # where a policy is to be tried, if the file does not say
    columns: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)  # a table's, by field
    table: TableOptions = TableOptions()  # noqa: RUF009 - frozen

    @classmethod
    def of(cls, *, columns: Mapping[str, Sequence[str]] | None = None, **reading: Any) -> "Options":
        """Options from the keywords of `ploff.load`, those of tables among them."""
        own = {field.name for field in dataclasses.fields(cls)} - {"table"}
        said = {name: value for name, value in reading.items() if name not in own}
        table = TableOptions(**structure_fields(TableOptions, said, "option of tables"))
        given = {name: value for name, value in reading.items() if name in own}
        return cls(columns=columns or {}, table=table, **given)

    def __post_init__(self):
        if self.horizon is not None and self.horizon < 1:
            raise DataError(f"the horizon must be at least 1, got {self.horizon}")
        if (self.action_low is None) != (self.action_high is None):
            raise DataError("give both bounds of the actions, --action-low and --action-high, or none")


@dataclasses.dataclass(kw_only=True)
class Rows:
    """What a reader found: one row per transition in every array."""

    source: str  # how messages call the file
    arrays: dict[str, np.ndarray]  # of FIELDS, all REQUIRED ones
    next_observations: np.ndarray | Blocks | None = None
    known: np.ndarray | None = None  # where `next_observations` were logged; everywhere, if None
    infos: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    action_space: ActionSpace | None = None  # as far as the file tells
    origin: Origin = Origin()  # noqa: RUF009 - frozen
    horizon: int | None = None  # of a known task whose file has no timeouts


def assemble(rows: Rows, options: Options) -> Transitions:
    """Checks the rows and builds the container."""
    shaped: dict[str, validate.Shaped] = {**rows.arrays}
    if rows.next_observations is not None:
        shaped["next_observations"] = rows.next_observations
    shaped |= {f"infos/{name}": values for name, values in rows.infos.items()}
    validate.check_kinds(
        rows.source, {name: values for name, values in shaped.items() if not name.startswith("infos/")}
    )
    validate.check_shapes(rows.source, shaped)
    validate.check_origin(rows.source, rows.origin)
    validate.check_space(rows.source, rows.action_space)
    arrays = _canonical_arrays(rows, options)
    following = rows.next_observations
    if following is not None and rows.arrays["observations"].ndim == 1:
        flat = following if isinstance(following, np.ndarray) else np.concatenate(list(following))
        following = flat[:, None]
    told = _declared_action_space(arrays["actions"], rows.action_space, options)
    transitions = Transitions.from_rows(
        **arrays,
        timeouts=_timeouts(rows, arrays["terminals"], options.horizon),
        next_observations=following,
        known=rows.known,
        action_space=told or _inferred_action_space(arrays["actions"]),
        origin=_origin(rows, arrays, options),
        infos=rows.infos,
    )
    validate.check(transitions, rows.source)
    if told is None:
        _warn_of_inferred(rows.source, transitions.action_space)
    return transitions


def _canonical_arrays(rows: Rows, options: Options) -> dict[str, np.ndarray]:
    """The required arrays in the container's shapes: rewards and flags flat, actions and states vectors."""
    observations, actions, rewards, terminals = (rows.arrays[name] for name in REQUIRED)
    for name in ("rewards", "terminals", "timeouts"):
        shape = rows.arrays.get(name, rewards).shape
        if np.prod(shape[1:]) != 1:
            raise DataError(f"{rows.source}: {name} has shape {shape}; it needs one value per row")
    count = len(rewards)
    if actions.ndim > 2:
        raise DataError(f"{rows.source}: actions have shape {actions.shape[1:]}; write a vector a row")
    if not _are_choices(actions, rows, options):
        actions = _as_floats(actions.reshape(count, -1))
    else:
        actions = actions.reshape(count).astype(actions.dtype if actions.dtype != bool else np.int8)
    return {
        "observations": observations if observations.ndim > 1 else observations[:, None],
        "actions": actions,
        "rewards": _as_floats(rewards.reshape(count)),
        "terminals": validate.as_flags(rows.source, "terminals", terminals),
    }


def _are_choices(actions: np.ndarray, rows: Rows, options: Options) -> bool:
    """Whole numbers, one per row, unless somebody says that they lie in a box."""
    whole = actions.dtype.kind in "iub" and np.prod(actions.shape[1:]) == 1
    in_box = options.action_low is not None or (rows.action_space is not None and rows.action_space.kind == "box")
    return whole and (options.choices is not None or not in_box)


def _as_floats(values: np.ndarray) -> np.ndarray:
    """Numbers that can be subtracted without wrapping around."""
    return values if values.dtype.kind == "f" else values.astype(np.result_type(values.dtype, np.float32))


def _timeouts(rows: Rows, terminals: np.ndarray, horizon: int | None) -> np.ndarray:
    """The file's own, or cut at the horizon: the user's if given, the task's if the file has none."""
    if "timeouts" in rows.arrays:
        timeouts = validate.as_flags(rows.source, "timeouts", rows.arrays["timeouts"])
    else:
        timeouts, horizon = np.zeros(len(terminals), bool), horizon or rows.horizon
        if horizon is None:
            raise DataError(
                f"{rows.source} has no timeouts, and its task is not a known one; "
                "give --horizon N, the steps after which an episode was cut (the number of rows, if none was)"
            )
    return timeouts if horizon is None else timeouts | timeouts_at_horizon(terminals | timeouts, horizon)


def timeouts_at_horizon(ends: np.ndarray, horizon: int) -> np.ndarray:
    """Where an episode reaches `horizon` steps, counted since the last end, without ending by itself."""
    rows = np.arange(len(ends))
    starts = np.concatenate([[0], np.flatnonzero(ends) + 1])
    since_start = rows - starts[np.searchsorted(starts, rows, side="right") - 1]
    return ((since_start + 1) % horizon == 0) & ~ends


def _declared_action_space(actions: np.ndarray, told: ActionSpace | None, options: Options) -> ActionSpace | None:
    """What the user says, else what the file tells, if it speaks of such actions."""
    if actions.ndim == 1:
        if options.choices is not None:
            return ActionSpace.discrete(options.choices)
    elif options.action_low is not None and options.action_high is not None:
        low, high = (_per_dimension(bound, actions.shape[1]) for bound in (options.action_low, options.action_high))
        if not (np.isfinite([low, high]).all() and (low <= high).all()):
            raise DataError("--action-low and --action-high must be finite, and the lower bound the lower one")
        return ActionSpace.box(low, high)
    fitting = "discrete" if actions.ndim == 1 else "box"
    return told if told is not None and told.kind == fitting and told.bounded else None


def _inferred_action_space(actions: np.ndarray) -> ActionSpace:
    """The least space that holds all actions of the data."""
    if actions.ndim == 1:
        return ActionSpace.discrete(max(int(actions.max()) + 1, 1))
    return ActionSpace.box(actions.min(axis=0), actions.max(axis=0))


def _warn_of_inferred(source: str, space: ActionSpace) -> None:
    if space.kind == "discrete":
        validate.warn(f"{source}: taking the number of choices, {space.n}, from the data; --choices N says it for sure")
        return
    validate.warn(
        f"{source}: taking the actions' bounds from the data ({min(space.low):g} … {max(space.high):g}); "
        "--action-low and --action-high say them for sure"
    )


def _per_dimension(bound: float | Sequence[float], width: int) -> np.ndarray:
    values = np.atleast_1d(np.asarray(bound, float))
    if len(values) not in (1, width):
        raise DataError(f"{len(values)} bounds for actions of {width} dimensions; give one, or one per dimension")
    return np.broadcast_to(values, (width,))


def _origin(rows: Rows, arrays: Mapping[str, np.ndarray], options: Options) -> Origin:
    held = {**arrays, "timeouts": arrays["terminals"]}
    written = tuple(
        (name, str(values.dtype), values.ndim)
        for name, values in rows.arrays.items()
        if (values.dtype, values.ndim) != (held[name].dtype, held[name].ndim)
    )
    origin = dataclasses.replace(rows.origin, written_as=rows.origin.written_as or written)
    if options.environment is None:
        return origin
    known = tasks.has_reference(options.environment)
    scores = tasks.reference_scores(options.environment) if known else origin.reference_scores
    named = dataclasses.replace(origin, environment=options.environment, reference_scores=scores)
    return named if named.environment == origin.environment else dataclasses.replace(named, options="{}")


def arrays_as_written(transitions: Transitions) -> dict[str, np.ndarray]:
    """The arrays with a row per transition, as the file they come from writes them."""
    count = len(transitions)
    arrays = {
        "observations": np.asarray(transitions.observations)[:count],
        "actions": np.asarray(transitions.actions),
        "rewards": np.asarray(transitions.rewards),
        "terminals": np.asarray(transitions.terminals),
        "timeouts": np.asarray(transitions.timeouts),
    }
    for name, dtype, dimensions in transitions.origin.written_as:
        values = arrays[name].astype(dtype)
        arrays[name] = values.reshape(count) if dimensions == 1 else values.reshape(count, -1)
    return arrays


def describe(transitions: Transitions) -> str:
    """Where transitions come from and what an action may be, as one line of JSON to put beside them."""
    return json.dumps(
        {"origin": dataclasses.asdict(transitions.origin), "action_space": dataclasses.asdict(transitions.action_space)}
    )


def read_description(source: str, description: str) -> tuple[Origin, ActionSpace]:
    """Reads what `describe` wrote, in the file of that name."""
    try:
        content: dict[str, Any] = json.loads(description)
        origin = structure(Origin, content["origin"], "origin")
        return origin, structure(ActionSpace, content["action_space"], "action space")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{source}: what ploff noted in it is damaged ({error}); convert it again") from None


def next_observations_if_needed(transitions: Transitions) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The next observations and where they are known; None where the rows' order says the same already."""
    successors = np.asarray(transitions.successors)
    known = successors != UNKNOWN
    ends = np.zeros(len(transitions), bool)
    ends[transitions.episode_ends()] = True
    in_order = successors == np.arange(1, len(successors) + 1)
    if np.array_equal(known, ~ends) and in_order[~ends].all():
        return None, None
    return transitions.next_observations(), None if known.all() else known
