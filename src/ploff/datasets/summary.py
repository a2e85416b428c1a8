"""What is in a dataset, in a few lines that a person can read."""

import numpy as np

from ploff.transitions import UNKNOWN, Transitions

BARS = "▁▂▃▄▅▆▇█"
BINS = 24


def summary(transitions: Transitions) -> list[tuple[str, str]]:
    """Labeled lines: sizes, ranges, episodes, ends, and the normalized score of the data itself."""
    t, count = transitions, len(transitions)
    states = np.asarray(t.observations)
    lengths, returns = t.episode_lengths(), t.episode_returns()
    terminals, timeouts = (int(np.sum(flags)) for flags in (t.terminals, t.timeouts))
    last_is_marked = bool(t.terminals[-1] or t.timeouts[-1])
    unknown = int(np.sum(np.asarray(t.successors) == UNKNOWN))
    return [
        ("environment", f"{t.origin.environment} ({t.origin.physics})" if t.origin.environment else "unknown"),
        ("transitions", f"{count:,}"),
        ("states", f"{t.num_states:,}, each stored once; {t.nbytes() / 1e6:,.1f} MB in all"),
        ("observations", f"{_shape(t.observation_shape)} {states.dtype}, {_range(states[:count])}"),
        ("actions", _actions(t)),
        ("rewards", f"{np.asarray(t.rewards).dtype}, {_range(np.asarray(t.rewards))}"),
        ("episodes", f"{len(lengths):,}" + ("" if last_is_marked else ", the last cut without a mark")),
        ("terminals", f"{terminals:,}"),
        ("timeouts", f"{timeouts:,}"),
        ("unknown successors", f"{unknown:,}"),
        ("episode lengths", _spread(lengths, "{:,.0f}")),
        ("returns", _spread(returns, "{:,.1f}")),
        ("normalized score", _score(t, returns)),
    ]


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _range(values: np.ndarray) -> str:
    return f"{values.min():.4g} … {values.max():.4g}, mean {values.mean(dtype=np.float64):.4g}"


def _actions(transitions: Transitions) -> str:
    space, actions = transitions.action_space, np.asarray(transitions.actions)
    if space.kind == "discrete":
        shares = np.bincount(actions, minlength=space.n) / len(actions)
        return f"one of {space.n} choices, taken {', '.join(f'{share:.0%}' for share in shares[:12])}"
    low, high = np.asarray(space.low), np.asarray(space.high)
    same = np.all(low == low[0]) and np.all(high == high[0])
    bounds = f"[{low[0]:g}, {high[0]:g}]" if same else f"[{low.min():g}, {high.max():g}] at most"
    return f"{space.width} {actions.dtype} in {bounds}, {_range(actions)}"


def _spread(values: np.ndarray, form: str) -> str:
    """Least, median, mean and greatest, with a histogram between the extremes."""
    low, middle, mean, high = (form.format(x) for x in (values.min(), np.median(values), values.mean(), values.max()))
    text = f"{low} … {high}, median {middle}, mean {mean}"
    return text if values.min() == values.max() else f"{text}  {histogram(values)}"


def histogram(values: np.ndarray) -> str:
    """A line of bars from the least value to the greatest; an empty bin is blank."""
    counts, _ = np.histogram(values, BINS)
    levels = np.ceil(counts / counts.max() * len(BARS)).astype(int)
    return "".join(BARS[level - 1] if level else " " for level in levels)


def _score(transitions: Transitions, returns: np.ndarray) -> str:
    references = transitions.origin.reference_scores
    if references is None:
        return "no reference scores for this data"
    low, high = references
    return f"{100 * (returns.mean() - low) / (high - low):.1f} (0 is a return of {low:g}, 100 one of {high:g})"
