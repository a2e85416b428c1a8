"""The model of the logged actions: its latents and its samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import OBSERVATIONS, SPACE
from ploff.agents.networks import HiddenLayers
from ploff.agents.vae import LATENT_CLIP, ActionVAE, kl_to_standard_normal, likely_latents

KEY = jax.random.key(0)


def test_the_divergence_of_latents_is_that_of_the_textbook():
    np.testing.assert_allclose(kl_to_standard_normal(jnp.zeros(2), jnp.zeros(2)), 0.0)
    # KL(N(1, 2²) ‖ N(0, 1)) = (1 + 4 − 1)/2 − log 2
    assert float(kl_to_standard_normal(jnp.asarray(1.0), jnp.log(2.0))) == pytest.approx(2 - np.log(2))


def test_latents_are_clipped_and_proposals_are_the_same_in_every_call():
    assert float(jnp.max(jnp.abs(likely_latents(KEY, (100, 1, 4))))) == LATENT_CLIP
    vae = ActionVAE.init(KEY, (2,), SPACE, HiddenLayers((8, 8)))
    proposed = vae.sample_fixed(OBSERVATIONS, 6)
    assert proposed.shape == (6, 5, 2)
    np.testing.assert_allclose(vae.sample_fixed(OBSERVATIONS[2:3], 6)[:, 0], proposed[:, 2], atol=1e-6)
