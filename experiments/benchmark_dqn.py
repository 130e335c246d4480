"""Time and steps to 90 % success of DQN on the key-door grid, beside Stable-Baselines3's.

Both run on one thread with networks of the same width; both play one grid, and both are judged
after every episode: the greedy policy from all starts, exactly. Training ends when it reaches 90 %
there, or with the budget of steps. Stable-Baselines3's exploration is its own: a share of random
actions that falls to 5 % over its first steps. One row has rlcheck's settings, the other one those
that suit Stable-Baselines3; where it is not installed, they are left out.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
import typer
from rich.console import Console
from rich.table import Table

from rlcheck.agents.dqn import train_online_dqn
from rlcheck.agents.q_learner import DqnSettings
from rlcheck.agents.q_networks import evaluate_grid_policy, grid_scores
from rlcheck.envs.keydoor_grid import KeyDoorGrid

SUCCESS = 0.9
BUDGET = 40_000
SETTINGS = DqnSettings()
SHARED = {
    "learning_starts": SETTINGS.warm_up,
    "batch_size": SETTINGS.batch_size,
    "policy_kwargs": {"net_arch": [SETTINGS.hidden_size] * 2},
}
SAME = {
    "learning_rate": SETTINGS.learning_rate,
    "gamma": SETTINGS.gamma,
    "train_freq": SETTINGS.train_interval,
    "target_update_interval": SETTINGS.train_interval,
    "tau": SETTINGS.target_rate,
    "exploration_fraction": 10_000 / BUDGET,
} | SHARED
SUITED = {
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "train_freq": 4,
    "target_update_interval": 500,
    "exploration_fraction": 10_000 / BUDGET,
} | SHARED


class Result(NamedTuple):
    """What a run took, and whether it got there."""

    steps: int
    seconds: float
    processor: float  # seconds of the processor: a busy machine does not stretch them
    reached: bool


def rlcheck_run(seed: int, *, double: bool) -> Result:
    """Training until 90 % success."""
    began = time.perf_counter(), time.process_time()
    result = train_online_dqn(
        seed=seed, double=double, evaluation_interval=1, stop_at_success=SUCCESS
    )
    reached = result["evaluation"]["success_rate"] >= SUCCESS
    return Result(result["steps"], *_since(*began), reached)


def sb3_run(seed: int, settings: dict[str, Any]) -> Result:
    """The same with Stable-Baselines3."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback

    class StopAtSuccess(BaseCallback):
        """Judges the greedy policy after each episode."""

        reached = False

        def _on_step(self) -> bool:
            if self.locals["dones"][0]:
                scores = grid_scores(self.model.q_net)
                self.reached = evaluate_grid_policy(scores)["success_rate"] >= SUCCESS
            return not self.reached

    began = time.perf_counter(), time.process_time()
    learner = DQN("MlpPolicy", KeyDoorGrid(seed), seed=seed, device="cpu", **settings)
    stop = StopAtSuccess()
    learner.learn(BUDGET, callback=stop)
    return Result(learner.num_timesteps, *_since(*began), stop.reached)


def _since(wall: float, processor: float) -> tuple[float, float]:
    return time.perf_counter() - wall, time.process_time() - processor


LEARNERS: dict[str, Callable[[int], Result]] = {
    "rlcheck DQN": lambda seed: rlcheck_run(seed, double=False),
    "rlcheck Double DQN": lambda seed: rlcheck_run(seed, double=True),
    "Stable-Baselines3 DQN, same settings": lambda seed: sb3_run(seed, SAME),
    "Stable-Baselines3 DQN, its own": lambda seed: sb3_run(seed, SUITED),
}


def main(seeds: int = 3, first_seed: int = 1) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    train_online_dqn(seed=0, episodes=25)  # warms up, imports included
    columns = ("steps", "seconds", "processor", "ratio: steps", "seconds", "processor", "reached")
    table = Table("learner", *columns)
    base: Result | None = None
    for name, learn in LEARNERS.items():
        try:
            results = [learn(seed) for seed in range(first_seed, first_seed + seeds)]
        except ImportError as error:
            Console().print(f"{name} is left out: {error}")
            continue
        typical = Result(
            int(median(result.steps for result in results)),
            median(result.seconds for result in results),
            median(result.processor for result in results),
            all(result.reached for result in results),
        )
        base = base or typical
        table.add_row(
            name,
            " ".join(f"{result.steps:,}" for result in results),
            " ".join(f"{result.seconds:.2f}" for result in results),
            " ".join(f"{result.processor:.2f}" for result in results),
            f"{typical.steps / base.steps:.1f}",
            f"{typical.seconds / base.seconds:.1f}",
            f"{typical.processor / base.processor:.1f}",
            f"{sum(result.reached for result in results)} of {len(results)}",
        )
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
