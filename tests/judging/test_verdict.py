from ploff.judging.estimate import Estimate
from ploff.judging.verdict import decide


def test_better_needs_the_whole_interval_and_actions_inside_of_the_evidence():
    good = Estimate(3.0, 1.0, 5.0)
    assert decide(good, 10.0, 0.2).answer == "better"
    beyond = decide(good, 10.0, 0.9)
    assert beyond.answer == "cannot be told"
    assert "90% of its actions are outside of the evidence" in str(beyond)
    assert decide(Estimate(3.0, -0.5, 5.0), 10.0, 0.2).answer == "cannot be told"


def test_not_better_needs_the_whole_interval_below():
    assert decide(Estimate(-5.0, -7.0, -2.0), 10.0, 0.0).answer == "not better"
    assert decide(Estimate(-5.0, -7.0, -2.0), 10.0, 1.0).answer == "cannot be told"


def test_codes_are_those_of_the_manual():
    values = (Estimate(3, 2, 4), Estimate(-5, -6, -4), Estimate(0, -1, 1))
    assert [decide(value, 10.0, 0.0).exit_code for value in values] == [0, 3, 4]
