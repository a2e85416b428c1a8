"""Which of the discrete actions are legal in a state: a mask that is logged beside the transitions."""

import numpy as np
from jaxtyping import Bool

from ploff.transitions import Transitions
from ploff.utils.errors import DataError

MASK = "action_mask"  # among a log's infos, and in an environment's


def legal_mask(data: Transitions) -> Bool[np.ndarray, "M n"] | None:
    """The legal actions of every state of a log; None where the log has no mask.

    A state in which no action was taken has no mask of its own: all actions count as legal there.
    """
    if MASK not in data.infos or data.action_space.kind != "discrete":
        return None
    mask = check_mask(data.origin.name, np.asarray(data.infos[MASK]), data.action_space.n)
    taken = mask[np.arange(len(mask)), np.asarray(data.actions)]
    if not taken.all():
        row = int(np.argmin(taken))
        raise DataError(
            f"{data.origin.name}: action {data.actions[row]} was taken in row {row}, where its mask forbids it; "
            "repair the mask, or leave that episode out"
        )
    behind = np.ones((data.num_states - len(mask), mask.shape[1]), bool)
    return np.concatenate([mask, behind])


def check_mask(source: str, mask: np.ndarray, num_actions: int) -> Bool[np.ndarray, "B n"]:
    """A mask as booleans: one per action and row, of which at least one is legal."""
    if mask.ndim != 2 or mask.shape[1] != num_actions:
        raise DataError(f"{source}: a mask has one flag per action, shape (rows, {num_actions}); got {mask.shape}")
    if not ((mask == 0) | (mask == 1)).all():
        raise DataError(f"{source}: a mask's flags are 0 or 1, got {mask.min()} … {mask.max()}")
    mask = mask.astype(bool)
    if not mask.any(axis=1).all():
        raise DataError(f"{source}: no action is legal in row {int(np.argmin(mask.any(axis=1)))} of the mask")
    return mask
