"""`ploff gridworld`: the paper's Figure 2."""

import dataclasses
import math
import pathlib
from typing import Literal


@dataclasses.dataclass
class Gridworld:
    """Draw the gridworld, and the distances from its central state and from its goal: exact, and learned from a log."""

    out: pathlib.Path  # folder for gridworld.png; made if it is not there
    log: Literal["q-learning", "full"] = (
        "q-learning"  # what Q-learning saw, as in the paper, or every transition once
    )
    steps: int = 20_000  # of metric learning; 0 draws the exact distances alone
    discount: float = 0.9  # γ of the distance
    seed: int = 0

    def run(self) -> None:
        """Computes the distances and draws them."""
        import numpy as np

        from ploff.figures.canvas import save_figure
        from ploff.figures.gridworld import draw_gridworld
        from ploff.gridworld import Maze, full_coverage_log, q_learning
        from ploff.metric_training import MetricTraining, learn_metric
        from ploff.progress import console
        from ploff.pseudometric import MetricConfig
        from ploff.tabular import exact_state_distances

        maze = Maze()
        exact, learned = exact_state_distances(maze.mdp(), self.discount), None
        if self.steps:
            data = (
                full_coverage_log(maze)
                if self.log == "full"
                else q_learning(maze, seed=self.seed).transitions
            )
            config = MetricConfig.exact_operator(discount=self.discount, target_rate=0.02)
            training = MetricTraining(
                steps=self.steps, settle=False, check_every=self.steps, chunk=math.gcd(self.steps, 500),
                held_out=0.0, seed=self.seed,
            )  # fmt: skip
            metric = learn_metric(data, config, training)
            learned = metric.state_distances(np.eye(len(maze.cells), dtype=np.float32))
            error = np.abs(learned - exact).mean() / exact.mean()
            console.print(
                f"learned from {data.origin.name}: mean error {error:.1%} of the mean distance",
                highlight=False,
            )
        path = self.out / "gridworld.png"
        save_figure(draw_gridworld(maze, exact, learned), path)
        console.print(f"wrote {path}", highlight=False)
