r"""A conditional variational autoencoder of the logged actions: the behavior of BCQ and of BEAR.

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
from ploff.agents.networks import HiddenLayers, concat_samples
from ploff.agents.sampled_actions import fixed_key
from ploff.networks import MLP, observation_encoder
from ploff.transitions import Batch

LATENT_CLIP = 0.5
LOG_STD_BOUNDS = (-4.0, 15.0)  # of the latents, for finite numbers


class ActionVAE(eqx.Module):
    """Encodes logged actions, given the state, and decodes latents into actions."""

    observation_encoder: Callable[[Array], Array]
    encoder: MLP
    decoder: MLP
    latent_size: int = eqx.field(static=True)
    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: HiddenLayers) -> "ActionVAE":
        """Twice as many latents as action dimensions, as published."""
        keys = jax.random.split(key, 3)
        encoder, width = observation_encoder(keys[0], shape)
        latent_size = 2 * space.width

        def mlp(key: PRNGKeyArray, inputs: int, outputs: int) -> MLP:
            return MLP.init(key, (inputs, *hidden.sizes, outputs), activation=hidden.activation)

        return cls(
            encoder,
            encoder=mlp(keys[1], width + space.width, 2 * latent_size),
            decoder=mlp(keys[2], width + latent_size, space.width),
            latent_size=latent_size,
            space=space,
        )

    def encode(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "B A"]
    ) -> tuple[Float[Array, "B Z"], Float[Array, "B Z"]]:
        """μ and log σ of the latents."""
        joint = jnp.concatenate([self.observation_encoder(observations), self.space.to_unit(actions)], axis=-1)
        mean, log_std = jnp.split(self.encoder(joint), 2, axis=-1)
        return mean, jnp.clip(log_std, *LOG_STD_BOUNDS)

    def decode(self, observations: Float[Array, "B *S"], latents: Float[Array, "n B Z"]) -> Float[Array, "n B A"]:
        """Actions before tanh, in units of half their range."""
        return self.decoder(concat_samples(self.observation_encoder(observations), latents))

    def sample_raw(self, key: PRNGKeyArray, observations: Float[Array, "B *S"], count: int) -> Float[Array, "n B A"]:
        """`count` likely actions per state, before tanh."""
        return self.decode(observations, likely_latents(key, (count, observations.shape[0], self.latent_size)))

    def sample(self, key: PRNGKeyArray, observations: Float[Array, "B *S"], count: int) -> Float[Array, "n B A"]:
        """`count` likely actions per state, in the log's units."""
        return self.space.from_unit(jnp.tanh(self.sample_raw(key, observations, count)))

    def sample_fixed(self, observations: Float[Array, "B *S"], count: int) -> Float[Array, "n B A"]:
        """As `sample`, from the same latents in every state and at every time."""
        latents = likely_latents(fixed_key(), (count, 1, self.latent_size))
        repeated = jnp.broadcast_to(latents, (count, observations.shape[0], self.latent_size))
        return self.space.from_unit(jnp.tanh(self.decode(observations, repeated)))


def likely_latents(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "n B Z"]:
    """Standard normal draws, clipped."""
    return jnp.clip(jax.random.normal(key, shape), -LATENT_CLIP, LATENT_CLIP)


def vae_loss(vae: ActionVAE, batch: Batch, key: PRNGKeyArray) -> Float[Array, ""]:
    """The loss of the module's text."""
    mean, log_std = vae.encode(batch.observations, batch.actions)
    latents = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
    decoded = jnp.tanh(vae.decode(batch.observations, latents[None])[0])
    reconstruction = jnp.mean(jnp.square(decoded - vae.space.to_unit(batch.actions)))
    return reconstruction + 0.5 * jnp.mean(kl_to_standard_normal(mean, log_std))


def kl_to_standard_normal(mean: Float[Array, "*B"], log_std: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """KL(N(μ, σ²) ‖ N(0, 1)), each dimension by itself."""
    return 0.5 * (jnp.square(mean) + jnp.exp(2 * log_std) - 1) - log_std
