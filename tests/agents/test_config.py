"""What methods have in common in their settings, and what each has as its own paper does."""

from ploff import agents


def test_a_method_has_the_activations_of_its_own_paper():
    own = {name: method.config().activation for name, method in agents.METHODS.items()}
    assert {name for name, kind in own.items() if kind == "tanh-elu"} == {"ploff", "ploff-l2", "td3-off"}


def test_a_method_sees_rewards_as_its_own_paper_does():
    scales = {name: getattr(method.config(), "reward_scale", None) for name, method in agents.METHODS.items()}
    assert [scales.pop(name) for name in ("bc", "iql")] == [None, "return_range"]
    assert {name for name, scale in scales.items() if scale == "unit"} == {"ploff", "ploff-l2", "td3-off"}
