"""Episodes that are held out of what a learner sees, so that checks measure what it has not."""

import dataclasses

import numpy as np
from jaxtyping import Int

from ploff.transitions import Transitions


@dataclasses.dataclass(frozen=True)
class EpisodeSplit:
    """Rows to learn from and rows to validate on, no episode in both; every row is one to learn from."""

    train: Int[np.ndarray, "T"]
    validation: Int[np.ndarray, "V"]

    @classmethod
    def of(
        cls,
        data: Transitions,
        validation_fraction: float,
        seed: int,
        rows: Int[np.ndarray, "K"] | None = None,
    ) -> "EpisodeSplit":
        """Holds out a fraction of the episodes; of a log of one episode, its last rows. At 0, both are all.

        Args:
          data: the log.
          validation_fraction: the fraction.
          seed: decides which.
          rows: those that there are to learn from; by default all with a known successor. Episodes without any such
            row count for nothing.
        """
        rows, lengths = data.rows_with_successor() if rows is None else rows, data.episode_lengths()
        if validation_fraction == 0:
            return cls(train=rows, validation=rows)
        owners = np.repeat(np.arange(len(lengths)), lengths)[rows]
        episodes = np.unique(owners)
        if len(episodes) < 2:
            cut = max(1, int(len(rows) * (1 - validation_fraction)))
            return cls(train=rows[:cut], validation=rows[cut:] if cut < len(rows) else rows)
        count = max(1, round(validation_fraction * len(episodes)))
        chosen = np.random.default_rng(seed).permutation(episodes)[:count]
        held = np.isin(owners, chosen)
        return cls(train=rows[~held], validation=rows[held])
