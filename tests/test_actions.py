import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from ploff.actions import ActionSpace
from ploff.utils.errors import DataError

fewer = settings(max_examples=8, deadline=None)  # every shape is compiled anew


@fewer
@given(st.integers(1, 6), st.integers(0, 2**31 - 1))
def test_uniform_actions_are_one_hot_or_inside_the_box(n, seed):
    key = jax.random.key(seed)
    choices = np.asarray(ActionSpace.discrete(n).sample(key, 20))
    assert choices.shape == (20, n)
    np.testing.assert_array_equal(choices.sum(axis=1), 1)
    low, high = -np.arange(1.0, n + 1), np.arange(1.0, n + 1) / 2
    actions = np.asarray(ActionSpace.box(low, high).sample(key, 20))
    assert ((actions >= low) & (actions <= high)).all()


def test_an_action_space_without_choices_or_with_uneven_bounds_is_refused():
    with pytest.raises(DataError, match="n >= 1"):
        ActionSpace.discrete(0)
    with pytest.raises(DataError, match="as many lower as upper bounds"):
        ActionSpace.box([-1, -1], [1])


BOX = ActionSpace.box([-1.0, 0.0], [1.0, 4.0])  # half ranges 1 and 2


@pytest.mark.parametrize("library", [np, jnp])
def test_actions_are_clipped_to_their_own_bounds(library):
    clipped = BOX.clip(library.asarray([[0.5, 1.0], [-3.0, -0.5], [1.5, 9.0]]))
    assert isinstance(clipped, np.ndarray if library is np else jax.Array)
    np.testing.assert_array_equal(clipped, [[0.5, 1.0], [-1.0, 0.0], [1.0, 4.0]])


@pytest.mark.parametrize("library", [np, jnp])
def test_noise_is_in_units_of_half_a_range_and_stays_inside_the_bounds(library):
    actions = library.asarray([[0.25, 1.0], [0.25, 1.0], [-1.0, 4.0]])
    noise = library.asarray([[0.5, 0.5], [-2.0, 2.0], [0.0, -0.25]])
    perturbed = BOX.perturb(actions, noise)
    assert isinstance(perturbed, np.ndarray if library is np else jax.Array)
    # 0.25 + 0.5 · 1, 1 + 0.5 · 2; −1.75 and 5 are outside; 4 − 0.25 · 2.
    np.testing.assert_array_equal(perturbed, [[0.75, 2.0], [-1.0, 4.0], [-1.0, 3.5]])


def test_one_noise_for_all_dimensions_moves_each_by_its_own_half_range():
    np.testing.assert_array_equal(BOX.perturb(np.array([0.0, 1.0]), 0.5), [0.5, 2.0])
