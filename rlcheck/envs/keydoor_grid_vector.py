"""Thousands of key-door grids that step at once, by lookup in the tables of the rules."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from rlcheck._inputs import index_array, integer
from rlcheck.envs.keydoor_grid import GOAL, STEP_LIMIT, KeyDoorGrid, grid_tables

__all__ = ["KeyDoorGridVector"]

Bools = NDArray[np.bool_]


class KeyDoorGridVector(gym.vector.VectorEnv[NDArray[np.float32], NDArray[np.int64], Any]):
    """N grids as one Gymnasium vector environment, which equal N `KeyDoorGrid`, step by step.

    An episode that ends is reset within the same step: the observation is that of the new episode,
    and what the old one ended in stands in `info["final_obs"]`.

    Args:
        num_envs: N ≥ 1.
        seed: seeds the first reset, unless that brings a seed of its own.
        step_limit: steps after which an episode is truncated, ≥ 1.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  as Gymnasium has it

    def __init__(
        self, num_envs: int, seed: int | None = None, step_limit: int = STEP_LIMIT
    ) -> None:
        self.num_envs = integer("num_envs", num_envs, minimum=1)
        self.step_limit = integer("step_limit", step_limit, minimum=1)
        self.single_observation_space = gym.spaces.Box(
            0.0, 1.0, (KeyDoorGrid.observation_dim,), np.float32
        )
        self.single_action_space = gym.spaces.Discrete(KeyDoorGrid.action_dim)
        self.observation_space = gym.vector.utils.batch_space(
            self.single_observation_space, self.num_envs
        )
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self._tables = grid_tables()
        self._goal = np.array([state.cell == GOAL for state in self._tables.states])
        self._seed = seed
        self.states: NDArray[np.intp] | None = None  # [N] indices in grid_tables().states
        self._steps = np.zeros(self.num_envs, np.intp)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode in every grid.

        Args:
            seed: one seed for all N, whose starts are drawn from one stream.
            options: {"start": [N] indices in `start_positions`} asks for starts.

        Returns:
            (observations [N, 15], info).
        """
        options = dict(options or {})
        asked = options.pop("start", None)
        if options:
            raise ValueError(f"options holds {list(options)}; only 'start' is known")
        if seed is not None:
            self._seed = None
        elif self._seed is not None:
            seed, self._seed = self._seed, None
        super().reset(seed=seed)
        starts = self._draw(self.num_envs)
        if asked is not None:
            index = index_array("start", asked, shape=(self.num_envs,))
            if (index >= len(self._tables.start)).any():
                raise ValueError(f"start holds {index.max()}; there are {len(self._tables.start)}")
            starts = self._tables.start[index]
        self.states = starts
        self._steps = np.zeros(self.num_envs, np.intp)
        return self._tables.observation[starts], {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], Bools, Bools, dict[str, Any]]:
        """One step of every grid.

        Args:
            actions: [N] integers from 0 to 3.

        Returns:
            (observations [N, 15], rewards [N], terminated [N], truncated [N], info); info has
            `final_obs` [N, 15], what the step ended in before any reset, and `success` [N].

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called.
            ValueError: the actions are not N integers from 0 to 3.
        """
        if self.states is None:
            raise ResetNeeded("reset() must be called before step()")
        chosen = index_array("actions", actions, shape=(self.num_envs,))
        if (chosen >= KeyDoorGrid.action_dim).any():
            raise ValueError(f"actions holds {chosen.max()}; they are integers from 0 to 3")
        rewards = self._tables.reward[self.states, chosen]
        reached = self._tables.next_state[self.states, chosen]
        self._steps += 1
        terminated = self._tables.terminal[reached]
        truncated = (self._steps >= self.step_limit) & ~terminated
        info = {"final_obs": self._tables.observation[reached], "success": self._goal[reached]}
        over = np.flatnonzero(terminated | truncated)
        self.states = reached
        self.states[over] = self._draw(len(over))
        self._steps[over] = 0
        return self._tables.observation[self.states], rewards, terminated, truncated, info

    def _draw(self, count: int) -> NDArray[np.intp]:
        starts = self._tables.start
        return starts[self.np_random.integers(len(starts), size=count)]
