"""rlcheck's own replay buffer and slices, under the laws that others are held to."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from rlcheck.agents import decision_transformer_windows as windows
from rlcheck.agents import replay

__all__ = ["DecisionTransformerWindows", "ReplayBuffer"]


class ReplayBuffer:
    """`rlcheck.agents.replay.ReplayBuffer`, with a generator of its own."""

    several = True
    judged = replay.ReplayBuffer

    def __init__(self, capacity: int, n: int, gamma: float, seed: int) -> None:
        self.buffer = self.judged(capacity, observation_shape=(1,), n_step=n, gamma=gamma)
        self.rng = np.random.default_rng(seed)

    def add(self, *step: Any) -> None:
        """`add`."""
        self.buffer.add(*step)

    def rows(self) -> list[tuple[Any, ...]]:
        """`windows`."""
        return self.told(self.buffer.windows())

    def sample(self, count: int) -> list[tuple[Any, ...]]:
        """`sample`."""
        return self.told(self.buffer.sample(count, self.rng))

    def told(self, found: replay.ReplayBatch) -> list[tuple[Any, ...]]:
        """A batch as rows."""
        columns = (found.observations[:, 0], found.actions, found.rewards)
        whole = (*columns, found.next_observations[:, 0], found.discounts, found.terminal)
        return list(zip(*(each.tolist() for each in whole), strict=True))


class DecisionTransformerWindows:
    """`rlcheck.agents.decision_transformer_windows.gather_windows`, of the steps up to each one."""

    def slices(self, episodes: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
        """The slice that ends with each step."""
        told = [SimpleNamespace(transitions=_transitions(episode)) for episode in episodes]
        steps = windows.episode_steps(told, state_dim=1, action_dim=64, max_steps=100)
        bounds = [(max(a, t + 1 - size), t + 1) for a, b in steps.bounds for t in range(a, b)]
        found = windows.gather_windows(steps, np.array(bounds), size)
        columns = {
            "observations": found.states[:, :, 0],
            "actions": found.actions,
            "returns_to_go": found.returns_to_go,
            "timesteps": found.timesteps,
            "mask": found.active,
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]


def _transitions(episode: dict[str, Any]) -> list[SimpleNamespace]:
    """An episode as a list of steps."""
    steps = zip(episode["observations"], episode["actions"], episode["rewards"], strict=False)
    return [SimpleNamespace(observation=[o], action=a, reward=r) for o, a, r in steps]
