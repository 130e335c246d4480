"""Thousands of key-door grids that step at once, by lookup in the tables of the rules."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from rlcheck._inputs import as_numbers, checked_seed, indices_below, refuse_where
from rlcheck.envs.keydoor_grid import (
    GOAL,
    STARTS,
    STEP_LIMIT,
    KeyDoorGrid,
    asked_start,
    count,
    grid_tables,
)

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

    Raises:
        ValueError: a number is no integer ≥ 1; the text names it and its value.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  as Gymnasium has it

    def __init__(
        self, num_envs: int, seed: int | None = None, step_limit: int = STEP_LIMIT
    ) -> None:
        self.num_envs = count("num_envs", num_envs)
        self.step_limit = count("step_limit", step_limit)
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
        self._reasons = np.where(self._goal, "goal", "trap").astype(object)
        self._reasons[~self._tables.terminal] = None
        self._seed = checked_seed(seed)
        self.states: NDArray[np.intp] | None = None  # [N] indices in grid_tables().states
        self._steps = np.zeros(self.num_envs, np.intp)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode in every grid.

        Args:
            seed: one seed for all N, whose starts are drawn from one stream; None goes on drawing.
            options: {"start": cell} asks for one start for all, {"start": [N, 2] cells} for each.

        Returns:
            (observations [N, 15], info), with an empty info.

        Raises:
            ValueError: a start is none, or an option is unknown.
        """
        asked = asked_start(options)
        chosen = None if asked is None else self._starts(asked)
        super().reset(seed=self._seed if seed is None else checked_seed(seed))
        self._seed = None
        drawn = self._draw(self.num_envs)
        self.states = drawn if chosen is None else chosen
        self._steps = np.zeros(self.num_envs, np.intp)
        return self._tables.observation[self.states], {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], Bools, Bools, dict[str, Any]]:
        """One step of every grid.

        Args:
            actions: [N] integers from 0 to 3.

        Returns:
            (observations [N, 15], rewards [N], terminated [N], truncated [N], info). What the step
            ended in, before any reset, is in info for every grid: `final_obs` [N, 15], `success`
            [N] and `stop_reason` [N], each with the mask `_final_obs` and so on as Gymnasium has
            it: `_final_obs` is where an episode ended, the others hold everywhere. `final_info`
            has the last two again, under the mask of ends.

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called.
            ValueError: the actions are not N integers from 0 to 3; booleans are none.
        """
        if self.states is None:
            raise ResetNeeded("reset() must be called before step()")
        chosen = _actions(actions, self.num_envs)
        taken = self.states * KeyDoorGrid.action_dim + chosen  # in the tables, row after row
        rewards = self._tables.reward.take(taken)
        reached = self._tables.next_state.take(taken)
        self._steps += 1
        terminated = self._tables.terminal.take(reached)
        truncated = (self._steps >= self.step_limit) & ~terminated
        info = self._ends(reached, terminated, truncated)
        over = np.flatnonzero(info["_final_obs"])
        reached[over] = self._draw(len(over))
        self._steps[over] = 0
        self.states = reached
        shown = self._tables.observation.take(reached, axis=0)
        return shown, rewards, terminated, truncated, info

    def _ends(
        self, reached: NDArray[np.intp], terminated: Bools, truncated: Bools
    ) -> dict[str, Any]:
        over = terminated | truncated
        success = self._goal.take(reached)
        reasons = self._reasons.take(reached)
        reasons[truncated] = "timeout"
        everywhere = np.ones(self.num_envs, np.bool_)
        return {
            "final_obs": self._tables.observation.take(reached, axis=0),
            "_final_obs": over,
            "success": success,
            "_success": everywhere,
            "stop_reason": reasons,
            "_stop_reason": everywhere.copy(),
            "final_info": {
                "success": success & over,
                "_success": over.copy(),
                "stop_reason": reasons.copy(),
                "_stop_reason": over.copy(),
            },
            "_final_info": over.copy(),
        }

    def _starts(self, asked: Any) -> NDArray[np.intp]:
        """[N] states of the starts that are asked for."""
        cells = as_numbers("start", asked)
        if cells.shape not in ((2,), (self.num_envs, 2)):
            raise ValueError(
                f"start has shape {cells.shape}; it must be a cell or {self.num_envs} of them"
            )
        same = (cells[..., np.newaxis, :] == np.array(STARTS)).all(axis=-1)  # [(N,) starts]
        if not same.any(axis=-1).all():
            wrong = cells.reshape(-1, 2)[np.flatnonzero(~same.any(axis=-1))[0]]
            raise ValueError(f"start is {tuple(wrong.tolist())}; it must be one of {STARTS}")
        return np.broadcast_to(self._tables.start[same.argmax(axis=-1)], self.num_envs).copy()

    def _draw(self, number: int) -> NDArray[np.intp]:
        starts = self._tables.start
        return starts[self.np_random.integers(len(starts), size=number)]


def _actions(given: ArrayLike, number: int) -> NDArray[np.int64]:
    """[N] integers from 0 to 3."""
    actions = as_numbers("actions", given)
    if actions.dtype.kind == "b":
        everywhere = np.ones(actions.shape, np.bool_)
        refuse_where("actions", actions, everywhere, "an integer, not a boolean")
    return indices_below("actions", actions, KeyDoorGrid.action_dim, shape=(number,))
