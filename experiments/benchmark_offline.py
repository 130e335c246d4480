"""1,000 gradient steps of behaviour cloning and CQL, beside d3rlpy's.

Both learn from the same log on one thread, at batch 256, with two hidden layers of 64, the same
learning rate and weight of the penalty, and the target network copied as often. d3rlpy has targets
of double Q-learning; rlcheck's default has not, and is shown with both. Value is that of the greedy
policy, exactly: so few steps are for their time. Where d3rlpy is not installed, its rows are left
out.
"""

import logging
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

from rlcheck.agents._fitting import FittingSettings
from rlcheck.agents.behavior_cloning import behavior_cloning
from rlcheck.agents.cql import conservative_q_learning
from rlcheck.agents.datasets import GridEpisode, GridTransition, collect_offline_dataset
from rlcheck.agents.q_networks import grid_scores
from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.envs.keydoor_grid_solution import greedy_policy, start_value

STEPS, BATCH, HIDDEN = 1000, 256, 64
ROWS = 8 * BATCH  # every epoch has eight full batches
EPOCHS = STEPS * BATCH // ROWS
SETTINGS = FittingSettings(batch_size=BATCH, hidden_size=HIDDEN)
ALPHA = 1.0

Scores = Any


def log_of(seed: int) -> tuple[list[GridEpisode], list[GridTransition]]:
    """Whole episodes, at least as many steps as are learned from."""
    return collect_offline_dataset(seed=seed, episodes=160, profile="mixed")


def rlcheck_cloning(seed: int, episodes: list[GridEpisode], steps: list[GridTransition]) -> Scores:
    """[S, 4] after 1,000 steps."""
    network, _ = behavior_cloning(
        np.array([step.observation for step in steps]),
        [step.action for step in steps],
        seed=seed,
        epochs=EPOCHS,
        batch_size=BATCH,
        learning_rate=SETTINGS.learning_rate,
    )
    return grid_scores(network)


def rlcheck_cql(
    seed: int,
    episodes: list[GridEpisode],
    steps: list[GridTransition],
    *,
    double: bool = False,
) -> Scores:
    """[S, 4] after 1,000 steps."""
    network, _ = conservative_q_learning(
        steps, seed=seed, epochs=EPOCHS, alpha=ALPHA, scale=1.0, double=double, settings=SETTINGS
    )
    return grid_scores(network)


def rlcheck_double_cql(
    seed: int, episodes: list[GridEpisode], steps: list[GridTransition]
) -> Scores:
    """With the targets that d3rlpy has."""
    return rlcheck_cql(seed, episodes, steps, double=True)


def d3rlpy_cloning(seed: int, episodes: list[GridEpisode], steps: list[GridTransition]) -> Scores:
    """[S, 4] of one action each."""
    import d3rlpy

    config = d3rlpy.algos.DiscreteBCConfig(
        batch_size=BATCH,
        learning_rate=SETTINGS.learning_rate,
        encoder_factory=d3rlpy.models.VectorEncoderFactory([HIDDEN, HIDDEN]),
        beta=0.0,  # no penalty on the logits
    )
    return _d3rlpy_fit(config, seed, episodes)


def d3rlpy_cql(seed: int, episodes: list[GridEpisode], steps: list[GridTransition]) -> Scores:
    """[S, 4] of one action each."""
    import d3rlpy

    config = d3rlpy.algos.DiscreteCQLConfig(
        batch_size=BATCH,
        learning_rate=SETTINGS.learning_rate,
        encoder_factory=d3rlpy.models.VectorEncoderFactory([HIDDEN, HIDDEN]),
        gamma=SETTINGS.gamma,
        target_update_interval=SETTINGS.target_interval,
        alpha=ALPHA,
    )
    return _d3rlpy_fit(config, seed, episodes)


def _d3rlpy_fit(config: Any, seed: int, episodes: list[GridEpisode]) -> Scores:
    import d3rlpy
    import structlog

    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)
    d3rlpy.seed(seed)
    logged = [_d3rlpy_episode(episode) for episode in episodes]
    learner = config.create(device=False)
    learner.fit(
        d3rlpy.dataset.create_infinite_replay_buffer(logged),
        n_steps=STEPS,
        n_steps_per_epoch=STEPS,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
    )
    return np.eye(4)[learner.predict(grid_tables().observation.copy())]


def _d3rlpy_episode(episode: GridEpisode) -> Any:
    from d3rlpy.dataset import Episode

    steps = episode.transitions
    return Episode(
        observations=np.array([step.observation for step in steps]),
        actions=np.array([[step.action] for step in steps]),
        rewards=np.array([[step.reward] for step in steps], np.float32),
        terminated=steps[-1].terminated,
    )


class Result(NamedTuple):
    """What 1,000 steps took and reached."""

    seconds: float
    value: float


LEARNERS: dict[str, tuple[str, Callable[..., Scores]]] = {
    "rlcheck": ("behavior cloning", rlcheck_cloning),
    "d3rlpy DiscreteBC": ("behavior cloning", d3rlpy_cloning),
    "rlcheck, plain targets": ("CQL", rlcheck_cql),
    "rlcheck, double targets": ("CQL", rlcheck_double_cql),
    "d3rlpy DiscreteCQL": ("CQL", d3rlpy_cql),
}


def measure(learn: Callable[..., Scores], seed: int) -> Result:
    """From the log in memory to the fitted network."""
    episodes, transitions = log_of(seed)
    began = time.perf_counter()
    scores = learn(seed, episodes, transitions[:ROWS])
    return Result(time.perf_counter() - began, start_value(greedy_policy(scores)))


def main(seeds: int = 3, first_seed: int = 1) -> None:
    """Print the table; ratios are to the rlcheck row of the same method above it."""
    torch.set_num_threads(1)
    table = Table("method", "learner", "seconds", "ratio", "values")
    fastest: dict[str, float] = {}
    for name, (method, learn) in LEARNERS.items():
        try:
            measure(learn, 0)  # warms up
            results = [measure(learn, seed) for seed in range(first_seed, first_seed + seeds)]
        except ImportError as error:
            Console().print(f"{name} is left out: {error}")
            continue
        seconds = median(result.seconds for result in results)
        base = fastest.setdefault(method, seconds)
        values = " ".join(f"{result.value:.2f}" for result in results)
        table.add_row(method, name, f"{seconds:.2f}", f"{seconds / base:.2f}", values)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
