r"""A conditional variational autoencoder of the logged actions: the behaviour of BCQ and of BEAR.

    L = mean |â − a|² + ½ KL(N(μ, σ²) ‖ N(0, 1)),    â = decode(s, μ + σ ε),  μ, σ = encode(s, a)

The KL is a mean over rows and latent dimensions, as in BCQ's code. Samples take latents clipped at ±0.5, so that they
are likely ones.

Shapes: n samples, B states, S observation, A action, Z latent.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents.actor_critic import Body, Layers, beside
from ploff.agents.sampled import fixed_key
from ploff.networks import observation_encoder
from ploff.transitions import Batch

LATENT_CLIP = 0.5
LOG_DEVIATIONS = (-4.0, 15.0)  # of the latents, for finite numbers


class ActionVAE(eqx.Module):
    """Encodes logged actions, given the state, and decodes latents into actions."""

    observed: Callable[[Array], Array]
    encoder: Body
    decoder: Body
    latent: int = eqx.field(static=True)
    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(
        cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: Layers
    ) -> "ActionVAE":
        """Twice as many latents as action dimensions, as published."""
        keys = jax.random.split(key, 3)
        observed, width = observation_encoder(keys[0], shape)
        latent = 2 * space.width
        return cls(
            observed,
            encoder=Body.init(keys[1], width + space.width, hidden, 2 * latent),
            decoder=Body.init(keys[2], width + latent, hidden, space.width),
            latent=latent,
            space=space,
        )

    def encode(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "B A"]
    ) -> tuple[Float[Array, "B Z"], Float[Array, "B Z"]]:
        """μ and log σ of the latents."""
        joint = jnp.concatenate([self.observed(observations), self.space.to_unit(actions)], axis=-1)
        mean, log_deviation = jnp.split(self.encoder(joint), 2, axis=-1)
        return mean, jnp.clip(log_deviation, *LOG_DEVIATIONS)

    def decode(
        self, observations: Float[Array, "B *S"], latents: Float[Array, "n B Z"]
    ) -> Float[Array, "n B A"]:
        """Actions before tanh, in units of half their range."""
        return self.decoder(beside(self.observed(observations), latents))

    def sample_raw(
        self, key: PRNGKeyArray, observations: Float[Array, "B *S"], count: int
    ) -> Float[Array, "n B A"]:
        """`count` likely actions a state, before tanh."""
        return self.decode(observations, likely_latents(key, (count, observations.shape[0], self.latent)))

    def sample(
        self, key: PRNGKeyArray, observations: Float[Array, "B *S"], count: int
    ) -> Float[Array, "n B A"]:
        """`count` likely actions a state, in the log's units."""
        return self.space.from_unit(jnp.tanh(self.sample_raw(key, observations, count)))

    def propose(self, observations: Float[Array, "B *S"], count: int) -> Float[Array, "n B A"]:
        """As `sample`, from the same latents in every state and at every time."""
        latents = likely_latents(fixed_key(), (count, 1, self.latent))
        repeated = jnp.broadcast_to(latents, (count, observations.shape[0], self.latent))
        return self.space.from_unit(jnp.tanh(self.decode(observations, repeated)))


def likely_latents(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "n B Z"]:
    """Standard normal draws, clipped."""
    return jnp.clip(jax.random.normal(key, shape), -LATENT_CLIP, LATENT_CLIP)


def vae_loss(vae: ActionVAE, batch: Batch, key: PRNGKeyArray) -> Float[Array, ""]:
    """The loss of the module's text."""
    mean, log_deviation = vae.encode(batch.observations, batch.actions)
    latents = mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape)
    decoded = jnp.tanh(vae.decode(batch.observations, latents[None])[0])
    apart = jnp.mean(jnp.square(decoded - vae.space.to_unit(batch.actions)))
    return apart + 0.5 * jnp.mean(divergence(mean, log_deviation))


def divergence(mean: Float[Array, "*B"], log_deviation: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """KL(N(μ, σ²) ‖ N(0, 1)), each dimension by itself."""
    return 0.5 * (jnp.square(mean) + jnp.exp(2 * log_deviation) - 1) - log_deviation
