"""Environments with exact solutions, as Gymnasium environments registered under `rlcheck/`."""

import gymnasium as gym

from rlcheck.envs.keydoor_agent import ACTIONS, OBSERVATIONS, KeyDoorAgentEnv
from rlcheck.envs.wrappers import ObservationIndex

__all__ = ["ACTIONS", "OBSERVATIONS", "KeyDoorAgentEnv", "ObservationIndex"]

gym.register("rlcheck/KeyDoorAgent-v0", entry_point="rlcheck.envs:KeyDoorAgentEnv")
