"""Times the distance lookup inside a compiled training loop, beside the critic's own update.

    python benchmarks/lookup.py [--transitions 1000000] [--rounds 9]

A batch of 256 states, 50 neighbors each, HalfCheetah's shapes, the default metric. The critic is TD3's: two networks
(256, 256) with elu, targets from the target actor with smoothing noise, Adam, moving averages. The neighbors are random
rows, the worst case for the cache. Rounds alternate between the candidates, so that a noisy machine slows all of them;
medians are printed. The last line is `ratio: R`, lookup over critic update, which must be below 1.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ploff import ActionSpace, Transitions
from ploff.metric.pseudometric import MetricConfig, build_metric, distance_bound
from ploff.neighbors import DataDistance
from ploff.networks import MLP, Linear

STATES, ACTIONS, BATCH, NEIGHBORS, STEPS = 17, 6, 256, 50, 40
OPTIMIZER = optax.adam(3e-4)
Layers = tuple[Linear, ...]


def cheetah_shaped(count: int) -> Transitions:
    """Draws random numbers of HalfCheetah's shapes: time does not depend on the values."""
    rng = np.random.default_rng(0)
    return Transitions.from_rows(
        observations=rng.standard_normal((count, STATES), np.float32),
        actions=rng.uniform(-1, 1, (count, ACTIONS)).astype(np.float32),
        rewards=rng.uniform(size=count).astype(np.float32),
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % 1000 == 999,
        action_space=ActionSpace.box(-np.ones(ACTIONS), np.ones(ACTIONS)),
    )


def network(key: jax.Array, sizes: tuple[int, ...]) -> Layers:
    return MLP.init(key, sizes).layers


def forward(layers: Layers, x: jax.Array) -> jax.Array:
    """Applies the layers with elu between them."""
    for layer in layers[:-1]:
        x = jax.nn.elu(layer(x))
    return layers[-1](x)


def value(critic: Layers, observations: jax.Array, actions: jax.Array) -> jax.Array:
    return forward(critic, jnp.concatenate([observations, actions], axis=-1))[:, 0]


def critic_update(state: Any, data: Transitions, key: jax.Array) -> Any:
    """Takes one TD3 step of both critics, from sampling the batch to the moving average of their targets."""
    critics, targets, actor, opt_state = state
    row_key, noise_key = jax.random.split(key)
    batch = data.batch(jax.random.randint(row_key, (BATCH,), 0, len(data)))
    noise = jnp.clip(0.2 * jax.random.normal(noise_key, (BATCH, ACTIONS)), -0.5, 0.5)
    next_actions = jnp.clip(jnp.tanh(forward(actor, batch.next_observations)) + noise, -1, 1)
    next_values = [value(critic, batch.next_observations, next_actions) for critic in targets]
    target = batch.rewards + 0.99 * (1 - batch.terminals) * jnp.minimum(*next_values)

    def loss(critics: Any) -> jax.Array:
        values = [value(critic, batch.observations, batch.actions) for critic in critics]
        return sum(jnp.mean(jnp.square(v - target)) for v in values)  # pyright: ignore

    updates, opt_state = OPTIMIZER.update(eqx.filter_grad(loss)(critics), opt_state)
    critics = eqx.apply_updates(critics, updates)
    targets = jax.tree.map(lambda old, new: old + 0.005 * (new - old), targets, critics)
    return critics, targets, actor, opt_state


def sample_and(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Makes a step that draws rows and actions and adds what `function` makes of them to a running total."""

    def step(total: jax.Array, logged: DataDistance, key: jax.Array) -> jax.Array:
        rows = jax.random.randint(key, (BATCH,), 0, logged.pairs.shape[0])
        actions = jax.random.uniform(key, (BATCH, ACTIONS), minval=-1.0)
        return total + jnp.sum(function(logged, rows, actions))

    return step


def distance(logged: DataDistance, rows: jax.Array, actions: jax.Array) -> jax.Array:
    return logged.distance(rows, actions)


def gradient(logged: DataDistance, rows: jax.Array, actions: jax.Array) -> jax.Array:
    return jax.grad(lambda a: jnp.sum(logged.distance(rows, a)))(actions)


def embedding(logged: DataDistance, rows: jax.Array, actions: jax.Array) -> jax.Array:
    return logged.metric.embed_pairs(logged.data.states(rows), actions)


def compiled(step: Callable[..., Any], operand: Any) -> Callable[[Any, jax.Array], Any]:
    """Compiles STEPS steps into one loop, as training runs them."""

    @eqx.filter_jit
    def loop(state: Any, operand: Any, key: jax.Array) -> Any:
        arrays, static = eqx.partition(state, eqx.is_array)

        def body(arrays: Any, key: jax.Array) -> tuple[Any, None]:
            return eqx.filter(step(eqx.combine(arrays, static), operand, key), eqx.is_array), None

        return jax.lax.scan(body, arrays, jax.random.split(key, STEPS))[0]

    return lambda state, key: jax.block_until_ready(loop(state, operand, key))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()

    data = cheetah_shaped(options.transitions).with_normalized_observations()
    config = MetricConfig()
    metric = build_metric(jax.random.key(0), (STATES,), data.action_space, config, distance_bound(data, config))
    near = np.random.default_rng(1).integers(0, len(data), (data.num_states, NEIGHBORS), np.int32)
    logged = DataDistance.init(metric, data, near)

    keys = jax.random.split(jax.random.key(1), 3)
    critics = tuple(network(k, (STATES + ACTIONS, 256, 256, 1)) for k in keys[:2])
    actor = network(keys[2], (STATES, 256, 256, ACTIONS))
    learner = (critics, critics, actor, OPTIMIZER.init(eqx.filter(critics, eqx.is_array)))
    candidates = {
        "critic update": (compiled(critic_update, logged.data), learner),
        "lookup": (compiled(sample_and(distance), logged), jnp.zeros(())),
        "lookup and its gradient to the action": (compiled(sample_and(gradient), logged), jnp.zeros(())),
        "of which Φ(s, a) alone": (compiled(sample_and(embedding), logged), jnp.zeros(())),
    }
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(options.rounds + 1):
        for name, (run, state) in candidates.items():
            began = time.perf_counter()
            run(state, jax.random.key(turn))
            if turn:  # the first compiles
                seconds[name].append((time.perf_counter() - began) / STEPS)

    print(f"{BATCH} states x {NEIGHBORS} neighbors, {options.transitions:,} transitions, {options.rounds} rounds")
    for name, times in seconds.items():
        low, middle, high = min(times), statistics.median(times), max(times)
        print(f"{name:40s} {1e3 * middle:7.2f} ms   ({1e3 * low:.2f} to {1e3 * high:.2f})")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    print(f"ratio with gradient: {medians['lookup and its gradient to the action'] / medians['critic update']:.2f}")
    print(f"ratio: {medians['lookup'] / medians['critic update']:.2f}")


if __name__ == "__main__":
    main()
