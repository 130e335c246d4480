"""Stable-Baselines3 2.9.2: replay buffers for one environment.

A step is written as `OffPolicyAlgorithm` writes it: `done` is either flag, and the info of a step
that was truncated and did not terminate says "TimeLimit.truncated". Buffers have no seed of their
own; `set_random_seed` seeds NumPy's.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common import buffers
from stable_baselines3.common.utils import set_random_seed

__all__ = ["MemoryOptimized", "NStepReplayBuffer", "ReplayBuffer"]

SPACES = (spaces.Box(-1, 1000, (1,), np.float32), spaces.Discrete(64))


class ReplayBuffer:
    """`ReplayBuffer`; the discount of a row is the algorithm's γ."""

    several = False

    def __init__(self, capacity: int, n: int, gamma: float, seed: int) -> None:
        set_random_seed(seed)
        self.gamma = gamma
        self.buffer = self.made(capacity, n)

    def made(self, capacity: int, n: int) -> Any:
        """The library's buffer."""
        return buffers.ReplayBuffer(capacity, *SPACES, "cpu")

    def add(
        self,
        observation: Any,
        action: int,
        reward: float,
        next_observation: Any,
        terminated: bool,
        truncated: bool,
    ) -> None:
        """`add`."""
        self.buffer.add(
            observation[None],
            next_observation[None],
            np.array([[action]]),
            np.array([reward]),
            np.array([terminated or truncated]),
            [{"TimeLimit.truncated": truncated and not terminated}],
        )

    def rows(self) -> list[tuple[Any, ...]]:
        """`_get_samples` at every place."""
        return self.told(self.buffer._get_samples(np.arange(self.buffer.size())))

    def sample(self, count: int) -> list[tuple[Any, ...]]:
        """`sample`."""
        return self.told(self.buffer.sample(count))

    def told(self, found: Any) -> list[tuple[Any, ...]]:
        """A batch as rows."""
        discounts = found.discounts
        if discounts is None:
            discounts = np.full((len(found.rewards), 1), self.gamma)
        columns = (found.observations, found.actions, found.rewards, found.next_observations)
        whole = (*columns, discounts, found.dones)
        return list(zip(*(np.asarray(each)[:, 0].tolist() for each in whole), strict=True))


class NStepReplayBuffer(ReplayBuffer):
    """`NStepReplayBuffer`."""

    several = True

    def made(self, capacity: int, n: int) -> Any:
        """The library's buffer."""
        return buffers.NStepReplayBuffer(capacity, *SPACES, "cpu", n_steps=n, gamma=self.gamma)


class MemoryOptimized(ReplayBuffer):
    """`ReplayBuffer` with `optimize_memory_usage`, which excludes `handle_timeout_termination`."""

    def made(self, capacity: int, n: int) -> Any:
        """The library's buffer."""
        options = {"optimize_memory_usage": True, "handle_timeout_termination": False}
        return buffers.ReplayBuffer(capacity, *SPACES, "cpu", **options)

    def rows(self) -> list[tuple[Any, ...]]:
        """`_get_samples` at every place that `sample` draws from."""
        held, full = self.buffer, self.buffer.full
        places = np.arange(int(full), held.size()) + (held.pos if full else 0)
        return self.told(held._get_samples(places % held.buffer_size))
