"""The verdict: better than the log, not better, or it cannot be told, and why."""

import dataclasses
from typing import Literal

from ploff.judging.estimate import Estimate

Answer = Literal["better", "not better", "cannot be told"]
EXIT_CODES: dict[Answer, int] = {"better": 0, "not better": 3, "cannot be told": 4}
MAX_OUTSIDE = 0.3  # share of a policy's actions outside of the evidence, beyond which no estimate is believed
TEXTS: dict[Answer, str] = {
    "better": "better than the log",
    "not better": "not better than the log",
    "cannot be told": "whether it is better than the log cannot be told",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a policy is, held against the log, and the reasons in words."""

    answer: Answer
    reasons: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0, 3 or 4, in the order of `Answer`."""
        return EXIT_CODES[self.answer]

    def __str__(self) -> str:
        return f"{TEXTS[self.answer]}: {'; '.join(self.reasons)}"


def decide(advantage: Estimate, logged: float, outside: float, *, max_outside: float = MAX_OUTSIDE) -> Verdict:
    """Decides by the interval of a policy's advantage over the log, if its actions are inside of the evidence.

    Args:
      advantage: what the policy is worth beyond the log, seen in the same way.
      logged: the log's own mean return.
      outside: the share of the policy's actions that the gate flags, at a false-alarm rate of 5%.
      max_outside: the share beyond which nothing is said.
    """
    beyond = f"{outside:.0%} of its actions are outside of the evidence, where 5% of logged ones are"
    if outside > max_outside:
        return Verdict("cannot be told", (beyond,))
    told = f"{advantage.value:+,.1f} beside the log's {logged:,.1f}, {advantage.low:+,.1f} to {advantage.high:+,.1f}"
    if advantage.low > 0:
        return Verdict("better", (told, beyond))
    return Verdict("not better" if advantage.high < 0 else "cannot be told", (told, beyond))
