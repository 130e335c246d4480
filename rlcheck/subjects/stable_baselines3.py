"""Stable-Baselines3 2.9.2: advantages, one-step targets and n-step returns.

The buffers are float32. Targets of DQN and losses of PPO stand inside `train` methods, and cannot
be called; its categorical distribution is PyTorch's.
"""

import importlib.metadata
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, RolloutBuffer

__version__ = importlib.metadata.version("stable_baselines3")
__all__ = [
    "collector_target",
    "discounted_return",
    "discounted_td_sum",
    "generalized_advantages",
    "lambda_returns",
    "return_to_go",
    "td_residuals",
]

_OBSERVATION, _ACTION = spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(2)
_ZERO = np.zeros((1, 1), np.float32)


def _floats(values: Any) -> Any:
    return np.asarray(values, dtype=float)


def _rollout(
    rewards: Any, values: Any, last_value: float, done: Any, gamma: float, lam: float
) -> RolloutBuffer:
    """A full `RolloutBuffer` of one environment; after a done step an episode starts."""
    buffer = RolloutBuffer(len(rewards), _OBSERVATION, _ACTION, "cpu", lam, gamma)
    starts = np.concatenate([[1.0], done])[: len(rewards)]
    for reward, value, start in zip(rewards, values, starts, strict=True):
        at = np.array([start], np.float32)
        buffer.add(_ZERO, _ZERO, np.array([reward]), at, torch.tensor([value]), torch.zeros(1))
    buffer.compute_returns_and_advantage(torch.tensor([last_value]), _floats(done)[-1:])
    return buffer


def _returns(rewards: Any, gamma: float) -> Any:
    """The n-step returns of `NStepReplayBuffer`, n = T, at every step of one unfinished episode."""
    size = max(len(rewards), 1)
    buffer = NStepReplayBuffer(size, _OBSERVATION, _ACTION, "cpu", n_steps=size, gamma=gamma)
    for reward in rewards:
        buffer.add(_ZERO, _ZERO, _ZERO, np.array([reward]), np.zeros(1), [{}])
    return buffer._get_samples(np.arange(len(rewards))).rewards.numpy()[:, 0]


def discounted_return(rewards: Any, gamma: float) -> Any:
    """`stable_baselines3.common.buffers.NStepReplayBuffer`, n = T: the return at the first step."""
    returns = _returns(_floats(rewards), gamma)
    return returns[0] if len(returns) else 0.0


def return_to_go(rewards: Any, gamma: float = 1.0) -> Any:
    """`stable_baselines3.common.buffers.NStepReplayBuffer`, n = T: the return at every step."""
    return _returns(_floats(rewards), gamma)


def discounted_td_sum(deltas: Any, gamma: float) -> Any:
    """`stable_baselines3.common.buffers.NStepReplayBuffer`, n = T, of the residuals as rewards."""
    return discounted_return(deltas, gamma)


def td_residuals(rewards: Any, values: Any, gamma: float, terminated: Any = None) -> Any:
    """`RolloutBuffer.compute_returns_and_advantage` with λ = 0; a terminal is done."""
    values = _floats(values)
    done = np.zeros(len(rewards)) if terminated is None else _floats(terminated)
    return _rollout(_floats(rewards), values[:-1], values[-1], done, gamma, 0.0).advantages[:, 0]


def collector_target(reward: Any, next_value: Any, *, gamma: float, terminated: Any) -> Any:
    """`RolloutBuffer.compute_returns_and_advantage`: the returns of one step of value 0.

    Each of the broadcast elements is an environment of its own; a terminal is done.
    """
    arrays = (_floats(each) for each in (reward, next_value, terminated))
    reward, next_value, done = np.broadcast_arrays(*arrays)
    count = reward.size
    buffer = RolloutBuffer(1, _OBSERVATION, _ACTION, "cpu", 1.0, gamma, n_envs=count)
    step = np.zeros((count, 1), np.float32)
    buffer.add(step, step, reward.ravel(), np.ones(count), torch.zeros(count), torch.zeros(count))
    buffer.compute_returns_and_advantage(torch.from_numpy(next_value.ravel()), done.ravel())
    return buffer.returns[0].reshape(reward.shape)[()]


def _episode(
    rewards: Any, next_values: Any, gamma: float, terminated: Any, truncated: Any
) -> tuple[Any, Any]:
    """Rewards, plus γ V' at truncated steps, and done flags: as `collect_rollouts` does."""
    ended, cut = np.asarray(terminated, dtype=bool), np.asarray(truncated, dtype=bool)
    bootstrap = np.where(cut & ~ended, _floats(next_values), 0.0)
    return _floats(rewards) + gamma * bootstrap, (ended | cut).astype(float)


def _filled(
    name: str, sequences: Any, gamma: float, lam: float, terminated: Any, truncated: Any
) -> Any:
    """The named array of the full buffer; one buffer for each row of a batch."""
    rewards, values, next_values = (_floats(each) for each in sequences)
    if rewards.ndim == 2:
        rows = zip(rewards, values, next_values, terminated, truncated, strict=True)
        filled = [_filled(name, row[:3], gamma, lam, *row[3:]) for row in rows]
        return np.array(filled).reshape(rewards.shape)
    earned, done = _episode(rewards, next_values, gamma, terminated, truncated)
    last = next_values[-1] if len(next_values) else 0.0
    return getattr(_rollout(earned, values, last, done, gamma, lam), name)[:, 0]


def generalized_advantages(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Any:
    """`RolloutBuffer.compute_returns_and_advantage`: its advantages.

    The buffer knows one flag. `OnPolicyAlgorithm.collect_rollouts` adds γ V' to the reward of a
    truncated step, and so does this adapter. Other steps end in the state of the next one, so that
    of `next_values` only the last is passed, as `last_values`.
    """
    sequences = (rewards, values, next_values)
    return _filled("advantages", sequences, gamma, lam, terminated, truncated)


def lambda_returns(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Any:
    """`RolloutBuffer.compute_returns_and_advantage`: its returns, from the same arguments."""
    sequences = (rewards, values, next_values)
    return _filled("returns", sequences, gamma, lam, terminated, truncated)
