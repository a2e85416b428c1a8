"""`ploff evaluate`."""

import ploff
from experiment_cases import BRIEF, TINY, swings
from ploff import cli


def test_policies_are_evaluated_in_a_table(tmp_path, capsys):
    ploff.compare(swings(), ["bc", "td3-bc"], out=tmp_path, settings=TINY, **BRIEF | {"steps": 10})
    cli.main(["evaluate", str(tmp_path), "--episodes", "2", "--seed", "3"])
    shown = capsys.readouterr().out
    assert "bc seed 0" in shown
    assert "td3-bc seed 0" in shown
    assert "95% interval" in shown
