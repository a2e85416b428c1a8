"""Times a step of PLOff against plain TD3 of the same code, in one run, and gives their share of the matmul peak.

    python benchmarks/agent.py [--rounds 7] [--steps 200]

On logs of Hopper's shapes. Rounds alternate between the contenders, so that a noisy machine slows all of them; medians
are printed. The last line is `ratio: R`, PLOff's default step over plain TD3's.
"""

import argparse
import statistics

from methods import ACTIONS, NEIGHBORS, STATES, Contender, dataset_with, hopper_shaped
from metric_learning import matmul_peak
from ploff import agents
from ploff.metric.pseudometric import MetricConfig


def gigaflops_per_step(name: str, config) -> float:
    """Counts the multiplications and additions of the matrix products in one step, by hand."""
    first, second = config.hidden_sizes
    critic = (STATES + ACTIONS) * first + first * second + second
    actor = STATES * first + first * second + second * ACTIONS
    # Forward 1, backward 2 (1 where the gradient goes to the inputs alone). Both critics learn; both targets and the
    # target actor look ahead; the actor learns through one critic, every `policy_delay`-th step.
    products = 2 * 3 * critic + 2 * critic + actor + (3 * actor + 2 * critic) / config.policy_delay
    if name.startswith("ploff"):
        metric = MetricConfig()
        (hidden,) = metric.hidden_sizes
        embed = (STATES + ACTIONS + metric.embedding_size) * hidden
        products += 2 * embed / config.policy_delay + (embed if config.critic_bonus_weight else 0)
    return 2 * config.batch_size * products / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    data = hopper_shaped()
    names = ("td3-off", "td3-bc", "ploff", "ploff-l2")
    contenders = {
        name: Contender(name, dataset_with(agents.get_method(name).distance, data), options.steps) for name in names
    }
    peak = matmul_peak()
    for _ in range(options.rounds):
        for contender in contenders.values():
            contender.time()
    print(f"matmul peak: {peak:.0f} GFLOP/s; {NEIGHBORS} neighbors per state")
    plain = contenders["td3-off"].times
    for name, contender in contenders.items():
        work = gigaflops_per_step(name, contender.config)
        share = work / (1e-3 * contender.milliseconds) / peak
        over = statistics.median(t / p for t, p in zip(contender.times, plain, strict=True))
        cost = f"{contender.milliseconds:6.2f} ms per step, {work:.2f} GFLOP, {share:.0%} of peak"
        print(f"{name:>9}: {cost}, {over:.2f} of TD3")
    ratio = statistics.median(t / p for t, p in zip(contenders["ploff"].times, plain, strict=True))
    print(f"ratio: {ratio:.2f}")


if __name__ == "__main__":
    main()
