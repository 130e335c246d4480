"""Steps a second of the vector of key-door grids, beside Gymnasium's vectors of the same grid.

All take the same actions, drawn in advance, and reset within the step that ends an episode.
SyncVectorEnv steps one grid after another, AsyncVectorEnv each in a process of its own, which is
why it has a few only. Each runs for the same time, in turn, twelve times over; the best rate
counts. The last column is how many times as fast rlcheck's vector is with as many grids.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import typer
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from rich.console import Console
from rich.table import Table

from rlcheck.envs import KeyDoorGrid, KeyDoorGridVector

NUMBERS = (1, 16, 256, 4096)
PROCESSES = 16  # at most
ROUNDS = 12

Vector = gym.vector.VectorEnv[Any, Any, Any]


def vectors(number: int) -> dict[str, Callable[[], Vector]]:
    """What makes a vector of so many grids, by name."""
    same_step: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    made: dict[str, Callable[[], Vector]] = {
        "KeyDoorGridVector": partial(KeyDoorGridVector, number),
        "SyncVectorEnv": partial(SyncVectorEnv, [KeyDoorGrid] * number, **same_step),
    }
    if number <= PROCESSES:
        made["AsyncVectorEnv"] = partial(AsyncVectorEnv, [KeyDoorGrid] * number, **same_step)
    return made


def rate(vector: Vector, actions: Any, seconds: float) -> float:
    """Steps of single grids a second."""
    vector.reset(seed=1)
    for row in actions[:5]:
        vector.step(row)  # warms up
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        vector.step(actions[steps % len(actions)])
        steps += 1
    return steps * vector.num_envs / (time.perf_counter() - began)


def best_rates(number: int, seconds: float) -> dict[str, float]:
    """The best rate of each vector, all measured in turn."""
    actions = np.random.default_rng(0).integers(4, size=(200, number))
    made = {name: make() for name, make in vectors(number).items()}
    rates = [
        {name: rate(vector, actions, seconds) for name, vector in made.items()}
        for _ in range(ROUNDS)
    ]
    for vector in made.values():
        vector.close()
    return {name: max(each[name] for each in rates) for name in made}


def main(seconds: float = 0.1) -> None:
    """Print the table."""
    table = Table("grids", "vector", "steps / s", "rlcheck is faster by")
    for number in NUMBERS:
        rates = best_rates(number, seconds)
        ours = rates["KeyDoorGridVector"]
        for name, each in rates.items():
            table.add_row(f"{number:,}", name, f"{each:,.0f}", f"{ours / each:.1f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
