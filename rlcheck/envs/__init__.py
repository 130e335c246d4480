"""Environments with exact solutions, as Gymnasium environments registered under `rlcheck/`."""

import gymnasium as gym

from rlcheck.envs.drawing import plot_grid
from rlcheck.envs.keydoor_agent import ACTIONS, OBSERVATIONS, KeyDoorAgentEnv
from rlcheck.envs.keydoor_grid import ACTION_NAMES, GridState, KeyDoorGrid
from rlcheck.envs.keydoor_grid_vector import KeyDoorGridVector
from rlcheck.envs.wrappers import ObservationIndex

__all__ = [
    "ACTIONS",
    "ACTION_NAMES",
    "OBSERVATIONS",
    "GridState",
    "KeyDoorAgentEnv",
    "KeyDoorGrid",
    "KeyDoorGridVector",
    "ObservationIndex",
    "plot_grid",
]

gym.register("rlcheck/KeyDoorAgent-v0", entry_point="rlcheck.envs:KeyDoorAgentEnv")
gym.register(
    "rlcheck/KeyDoorGrid-v0",
    entry_point="rlcheck.envs:KeyDoorGrid",
    vector_entry_point="rlcheck.envs:KeyDoorGridVector",
)
