"""Views of the environments for learners."""

import gymnasium as gym
import numpy as np

from rlcheck.envs.keydoor_agent import OBSERVATION_INDEX, OBSERVATIONS

__all__ = ["ObservationIndex"]


class ObservationIndex(
    gym.ObservationWrapper[np.int64, np.int64, str], gym.utils.RecordConstructorArgs
):
    """Texts of the key-door agent as their indices in OBSERVATIONS: Discrete(9)."""

    def __init__(self, env: gym.Env[str, np.int64]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self.observation_space = gym.spaces.Discrete(len(OBSERVATIONS))

    def observation(self, observation: str) -> np.int64:
        """The index of a text."""
        return np.int64(OBSERVATION_INDEX[observation])
