"""A network with its target network and its optimizer's state, and the two steps that every learner takes."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float

Params = TypeVar("Params")
Tree = TypeVar("Tree")


class TrainState(eqx.Module, Generic[Params]):
    """Parameters (a network, a multiplier), their optimizer's state, and their moving average where one is kept."""

    params: Params
    opt_state: optax.OptState
    target: Params = None  # pyright: ignore[reportAssignmentType] - None where no target is kept

    @classmethod
    def init(
        cls, params: Params, tx: optax.GradientTransformation, *, with_target: bool = False
    ) -> "TrainState[Params]":
        """Starts with a fresh optimizer; the target, if there is one, equals the parameters."""
        target: Any = params if with_target else None
        return cls(params, tx.init(eqx.filter(params, eqx.is_array)), target)

    def apply_gradient(
        self, tx: optax.GradientTransformation, loss_fn: Callable[[Params], tuple[Array, Any]]
    ) -> tuple["TrainState[Params]", Float[Array, ""], Any]:
        """Takes one gradient step.

        Args:
          tx: the optimizer.
          loss_fn: from parameters to the loss and any auxiliary output.

        Returns:
          The new state, the loss, and the loss function's auxiliary output.
        """
        (loss, aux), gradient = eqx.filter_value_and_grad(loss_fn, has_aux=True)(self.params)
        weights = eqx.filter(self.params, eqx.is_inexact_array)  # for optimizers that decay them
        updates, opt_state = tx.update(gradient, self.opt_state, weights)
        return TrainState(eqx.apply_updates(self.params, updates), opt_state, self.target), loss, aux

    def update_target(self, tau: float | Float[Array, ""]) -> "TrainState[Params]":
        """Moves the target a share `tau` of the way to the parameters."""
        return TrainState(self.params, self.opt_state, polyak_update(self.target, self.params, tau))


def polyak_update(average: Tree, params: Tree, tau: float | Float[Array, ""]) -> Tree:
    """Moves a moving average a share `tau` of the way to the parameters."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), average, params)
