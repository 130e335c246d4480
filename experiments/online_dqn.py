"""The experiments with DQN and Double DQN on the key-door grid, held against its exact solution.

`python experiments/online_dqn.py` prints what the tests hold to their thresholds;
`--first-seed N` runs the same with other seeds than the registered ones.
"""

import tomllib
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from intervals import Interval, bootstrap, interquartile_mean, mean
from rich.console import Console
from rich.table import Table
from torch import Tensor
from tqdm import tqdm

from rlcheck.agents.actor_critic import one_thread
from rlcheck.agents.dqn import train_online_dqn
from rlcheck.agents.overestimation import decisive_states, max_q_overestimation
from rlcheck.agents.q_learner import DqnSettings, QLearner, TargetRule
from rlcheck.agents.q_networks import grid_scores
from rlcheck.agents.replay import ReplayBuffer
from rlcheck.envs.keydoor_grid import GOAL, STEP_LIMIT, KeyDoorGrid, grid_tables
from rlcheck.envs.keydoor_grid_solution import rollout_returns, solve_grid, uniform_policy
from rlcheck.torch import double_dqn_targets, dqn_targets

REGISTERED: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "registered" / "online_dqn.toml").read_text(encoding="utf-8")
)
LEARNERS = {"DQN": False, "Double DQN": True}


def noisy_grid(scale: float) -> type[KeyDoorGrid]:
    """The grid with normal noise on its rewards; Q* stays what it is."""

    class NoisyGrid(KeyDoorGrid):
        """Pays a noisy reward."""

        def step(self, action: Any) -> Any:
            observation, reward, terminated, truncated, info = super().step(action)
            noise = scale * float(self.np_random.standard_normal())
            return observation, reward + noise, terminated, truncated, info

    return NoisyGrid


# Planted mistakes.


def terminals_bootstrap(
    rewards: Tensor, terminal: Tensor, online_q: Tensor, target_q: Tensor, gamma: float
) -> Tensor:
    """The targets of DQN, with a value for what follows a terminal state."""
    return dqn_targets(rewards, torch.zeros_like(terminal), target_q, gamma)


def networks_swapped(
    rewards: Tensor, terminal: Tensor, online_q: Tensor, target_q: Tensor, gamma: float
) -> Tensor:
    """The targets of Double DQN, where the slow network chooses and the fast one values."""
    return double_dqn_targets(rewards, terminal, target_q, online_q, gamma)


PLANTED: dict[str, TargetRule] = {
    "terminals bootstrap": terminals_bootstrap,
    "networks swapped": networks_swapped,
}


@cache
def run(seed: int, learner: str, episodes: int) -> dict[str, Any]:
    """Train a learner, or a planted mistake, with the default settings."""
    return _train(learner, seed=seed, episodes=episodes)


@cache
def noisy_run(seed: int, learner: str) -> dict[str, Any]:
    """Train one on noisy rewards, with the registered settings, which all learners share."""
    options = REGISTERED["overestimation"]
    return _train(
        learner,
        seed=seed,
        episodes=options["episodes"],
        settings=DqnSettings(**options["settings"]),
        environment=noisy_grid(options["noise"]),
    )


def _train(learner: str, **options: Any) -> dict[str, Any]:
    return train_online_dqn(
        double=LEARNERS.get(learner, False), targets=PLANTED.get(learner), **options
    )


@cache
def same_data_run(seed: int) -> dict[str, list[float]]:
    """Overestimation, every 100 updates, of learners that see the same batches in the same order.

    They draw from all actions of all states, and each reward that is drawn has noise of its own, as
    in a log without end: what is left between the learners is the rule of their targets.
    """
    options, settings = REGISTERED["same_data"], DqnSettings()
    rng, log = np.random.default_rng(seed), every_step(settings.gamma)
    learners = {
        "DQN": QLearner(seed, settings),
        "Double DQN": QLearner(seed, settings, double_dqn_targets),
    }
    measured: dict[str, list[float]] = {name: [] for name in learners}
    with one_thread():
        for update in tqdm(range(1, options["updates"] + 1), desc=f"seed {seed}", disable=None):
            batch = log.sample(settings.batch_size, rng)
            noise = options["noise"] * rng.standard_normal(settings.batch_size)
            batch = batch._replace(rewards=batch.rewards + noise)
            for name, learner in learners.items():
                learner.learn(batch)
                if update % 100 == 0:
                    values = grid_scores(learner.network)
                    measured[name].append(max_q_overestimation(values, gamma=settings.gamma))
    return measured


def every_step(gamma: float) -> ReplayBuffer:
    """A buffer with every action of every state in which one matters, once."""
    tables, states = grid_tables(), np.flatnonzero(decisive_states())
    log = ReplayBuffer(4 * len(states), observation_shape=(15,), gamma=gamma)
    for state, action in product(states, range(4)):
        after = tables.next_state[state, action]
        log.add(
            tables.observation[state],
            action,
            float(tables.reward[state, action]),
            tables.observation[after],
            bool(tables.terminal[after]),
            False,
        )
    return log


def late_overestimation(result: dict[str, Any]) -> float:
    """By how much the highest values exceed Q*'s, a mean over the second half of training."""
    rows = result["curve"]
    return mean([row["overestimation"] for row in rows[len(rows) // 2 :]])


def highest_overestimation(result: dict[str, Any]) -> float:
    """By how much they exceed Q*'s when they do so most."""
    return max(row["overestimation"] for row in result["curve"])


def optimal_return() -> float:
    """The mean undiscounted return of the optimal policy over all starts."""
    return mean(rollout_returns(solve_grid(DqnSettings().gamma).policy).returns)


def random_success() -> float:
    """The probability that random actions reach the goal within the step limit; exact."""
    tables, policy = grid_tables(), uniform_policy()
    moves = np.zeros((len(tables.states), len(tables.states)))  # [from, to]
    for action in range(policy.shape[1]):
        np.add.at(moves, (np.arange(len(moves)), tables.next_state[:, action]), policy[:, action])
    chances = np.bincount(tables.start, minlength=len(moves)) / len(tables.start)
    chances = chances @ np.linalg.matrix_power(moves, STEP_LIMIT)
    return float(sum(chances[[state.cell == GOAL for state in tables.states]]))


def seeds_of(claim: str, first_seed: int | None = None) -> list[int]:
    """The registered seeds of a claim, or as many others."""
    registered: list[int] = REGISTERED[claim]["seeds"]
    return registered if first_seed is None else [first_seed + i for i in range(len(registered))]


# What is claimed. Each figure is taken over the seeds of its claim.


def success(learner: str, first_seed: int | None = None) -> Interval:
    """Success of the greedy policy over all starts."""
    episodes = REGISTERED["learning"]["episodes"]
    runs = [run(seed, learner, episodes) for seed in seeds_of("learning", first_seed)]
    return bootstrap([each["evaluation"]["success_rate"] for each in runs], interquartile_mean)


def share_of_optimum(learner: str, first_seed: int | None = None) -> Interval:
    """Return of the greedy policy over all starts, as a share of the optimal one."""
    episodes, optimum = REGISTERED["convergence"]["episodes"], optimal_return()
    runs = [run(seed, learner, episodes) for seed in seeds_of("convergence", first_seed)]
    return bootstrap([each["evaluation"]["mean_return"] / optimum for each in runs], mean)


def overestimation(learner: str, first_seed: int | None = None) -> Interval:
    """Overestimation with noisy rewards."""
    runs = [noisy_run(seed, learner) for seed in seeds_of("overestimation", first_seed)]
    return bootstrap([late_overestimation(each) for each in runs], mean)


def overestimation_saved(first_seed: int | None = None) -> Interval:
    """DQN's overestimation minus Double DQN's, paired by seed."""
    saved = [
        late_overestimation(noisy_run(seed, "DQN"))
        - late_overestimation(noisy_run(seed, "Double DQN"))
        for seed in seeds_of("overestimation", first_seed)
    ]
    return bootstrap(saved, mean)


def same_data_overestimation(learner: str, first_seed: int | None = None) -> Interval:
    """Overestimation of learners that see the same batches; over the second half of training."""
    runs = [same_data_run(seed)[learner] for seed in seeds_of("same_data", first_seed)]
    return bootstrap([mean(rows[len(rows) // 2 :]) for rows in runs], mean)


def same_data_saved(first_seed: int | None = None) -> Interval:
    """DQN's minus Double DQN's, paired by seed."""
    saved = []
    for seed in seeds_of("same_data", first_seed):
        one, two = (same_data_run(seed)[learner] for learner in LEARNERS)
        saved.append(mean(one[len(one) // 2 :]) - mean(two[len(two) // 2 :]))
    return bootstrap(saved, mean)


def overestimation_by_swapping(first_seed: int | None = None) -> Interval:
    """The highest overestimation with the networks swapped, minus Double DQN's, by seed."""
    added = [
        highest_overestimation(noisy_run(seed, "networks swapped"))
        - highest_overestimation(noisy_run(seed, "Double DQN"))
        for seed in seeds_of("overestimation", first_seed)
    ]
    return bootstrap(added, mean)


def terminal_biases(learner: str, first_seed: int | None = None) -> list[float]:
    """Late overestimation without noise, of each seed."""
    episodes = REGISTERED["terminals"]["episodes"]
    seeds = seeds_of("terminals", first_seed)
    return [late_overestimation(run(seed, learner, episodes)) for seed in seeds]


def main(first_seed: int | None = None) -> None:
    """Print every figure that the tests hold to a threshold."""
    table = Table("claim", "learner", "measured", "value")
    for learner in LEARNERS:
        table.add_row("learning", learner, "success, IQM", str(success(learner, first_seed)))
        share = share_of_optimum(learner, first_seed)
        table.add_row("convergence", learner, "return / optimum, mean", str(share))
        over = overestimation(learner, first_seed)
        table.add_row("overestimation", learner, "max Q − max Q*, mean", str(over))
        over = same_data_overestimation(learner, first_seed)
        table.add_row("same data", learner, "max Q − max Q*, mean", str(over))
    saved, swapped = overestimation_saved(first_seed), overestimation_by_swapping(first_seed)
    table.add_row("overestimation", "DQN − Double DQN", "max Q − max Q*, mean", str(saved))
    table.add_row("overestimation", "swapped − Double DQN", "its highest, mean", str(swapped))
    same = same_data_saved(first_seed)
    table.add_row("same data", "DQN − Double DQN", "max Q − max Q*, mean", str(same))
    for learner in ("DQN", "terminals bootstrap"):
        found = terminal_biases(learner, first_seed)
        text = f"{min(found):.3f} to {max(found):.3f} over seeds"
        table.add_row("terminals", learner, "max Q − max Q*", text)
    table.add_row("learning", "random policy", "success, exact", f"{random_success():.4f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
