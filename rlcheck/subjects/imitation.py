"""imitation 1.0.1: discounted sums and potential shaping, in float64."""

from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from imitation.data.rollout import discounted_sum
from imitation.rewards.reward_nets import RewardNet, ShapedRewardNet

__all__ = ["discounted_return", "discounted_td_sum", "potential_shaping"]

__version__ = version("imitation")


class _Base(RewardNet):  # type: ignore[misc]
    """The reward that is shaped: what stands in the place of the action."""

    def forward(
        self,
        state: torch.Tensor,
        action: torch.Tensor,
        next_state: torch.Tensor,
        done: torch.Tensor,
    ) -> torch.Tensor:
        return action


@lru_cache
def _base() -> RewardNet:
    return _Base(Box(-np.inf, np.inf, (1,)), Box(-np.inf, np.inf, (1,)))


def _potential(states: torch.Tensor) -> torch.Tensor:
    return states  # a state is its own potential


def discounted_return(rewards: Any, gamma: float) -> float:
    """`imitation.data.rollout.discounted_sum(rewards, gamma)`."""
    return float(discounted_sum(np.asarray(rewards, dtype=float), gamma))


def discounted_td_sum(deltas: Any, gamma: float) -> float:
    """`imitation.data.rollout.discounted_sum(deltas, gamma)`."""
    return float(discounted_sum(np.asarray(deltas, dtype=float), gamma))


def potential_shaping(rewards: Any, potentials: Any, gamma: float) -> Any:
    """`imitation.rewards.reward_nets.ShapedRewardNet.forward`, a batch of all transitions.

    A state is its potential, the base network answers with the action, which is the reward.
    `done` is 0 throughout: the contract's potentials are those to be used, the last one too.
    """
    states = torch.from_numpy(np.array(potentials, dtype=float))
    earned = torch.from_numpy(np.array(rewards, dtype=float))
    net = ShapedRewardNet(_base(), _potential, gamma)
    return net(states[:-1], earned, states[1:], torch.zeros_like(earned)).numpy()
