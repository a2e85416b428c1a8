"""The page's part about judgments."""

import types

from ploff.report.judged import judgments
from ploff.utils import files

TOLD = {
    "policy": "bc seed 0",
    "value": {"value": 12.0, "low": 10.0, "high": 14.0},
    "log": {"value": 11.0, "low": 9.0, "high": 13.0},
    "support": {
        "outside": 0.25,
        "quantiles": [0.05, 0.5, 0.95],
        "logged": [0.5, 1.0, 2.0],
        "policy": [0.6, 1.5, 4.0],
        "farthest": [
            {"episode": 3, "step": 7, "distance": 9.5, "policy_action": [0.5], "logged_action": [-0.5], "reward": 1.0}
        ],
    },
    "verdict": "cannot be told",
    "reasons": ["it is <close>"],
    "notes": [],
}


def test_verdicts_reasons_and_far_states_are_on_the_page(tmp_path):
    files.write_json(tmp_path / "seed-0" / "judgment.json", TOLD)
    group = types.SimpleNamespace(task="toy", folders=(tmp_path,))
    page = judgments(types.SimpleNamespace(groups=[group]))
    for text in ("10.0 to 14.0", "25%", "cannot be told", "it is &lt;close&gt;", "9.50", "<svg"):
        assert text in page
    assert judgments(types.SimpleNamespace(groups=[])) == ""
