"""Stable-Baselines3 2.9.2: advantages, n-step returns, categorical distributions.

The buffers are float32. Targets of DQN and losses of PPO stand inside `train` methods, and cannot
be called.
"""

import importlib.metadata
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, RolloutBuffer
from stable_baselines3.common.distributions import CategoricalDistribution, kl_divergence

__version__ = importlib.metadata.version("stable_baselines3")
__all__ = [
    "causal_response_logprobs",
    "discounted_return",
    "exact_kl_from_logits",
    "generalized_advantages",
    "lambda_returns",
    "return_to_go",
    "stable_log_softmax",
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
    size = len(rewards)
    buffer = NStepReplayBuffer(size, _OBSERVATION, _ACTION, "cpu", n_steps=size, gamma=gamma)
    for reward in rewards:
        buffer.add(_ZERO, _ZERO, _ZERO, np.array([reward]), np.zeros(1), [{}])
    return buffer._get_samples(np.arange(size)).rewards.numpy()[:, 0]


def discounted_return(rewards: Any, gamma: float) -> Any:
    """`stable_baselines3.common.buffers.NStepReplayBuffer`, n = T: the return at the first step."""
    return _returns(_floats(rewards), gamma)[0]


def return_to_go(rewards: Any, gamma: float = 1.0) -> Any:
    """`stable_baselines3.common.buffers.NStepReplayBuffer`, n = T: the return at every step."""
    return _returns(_floats(rewards), gamma)


def td_residuals(rewards: Any, values: Any, gamma: float, terminated: Any = None) -> Any:
    """`RolloutBuffer.compute_returns_and_advantage` with λ = 0; a terminal is done."""
    values = _floats(values)
    done = np.zeros(len(rewards)) if terminated is None else _floats(terminated)
    return _rollout(_floats(rewards), values[:-1], values[-1], done, gamma, 0.0).advantages[:, 0]


def _episode(
    rewards: Any, next_values: Any, gamma: float, terminated: Any, truncated: Any
) -> tuple[Any, Any]:
    """Rewards, plus γ V' at truncated steps, and done flags: as `collect_rollouts` does."""
    ended, cut = np.asarray(terminated, dtype=bool), np.asarray(truncated, dtype=bool)
    bootstrap = np.where(cut & ~ended, _floats(next_values), 0.0)
    return _floats(rewards) + gamma * bootstrap, (ended | cut).astype(float)


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
    rewards, done = _episode(rewards, next_values, gamma, terminated, truncated)
    last = _floats(next_values)[-1]
    return _rollout(rewards, _floats(values), last, done, gamma, lam).advantages[:, 0]


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
    rewards, done = _episode(rewards, next_values, gamma, terminated, truncated)
    last = _floats(next_values)[-1]
    return _rollout(rewards, _floats(values), last, done, gamma, lam).returns[:, 0]


def _categorical(logits: Any) -> CategoricalDistribution:
    rows = torch.as_tensor(_floats(logits))
    return CategoricalDistribution(rows.shape[-1]).proba_distribution(rows)


def stable_log_softmax(logits: Any, axis: int = -1) -> Any:
    """`CategoricalDistribution(V).proba_distribution(logits).log_prob` of each index; float64."""
    rows = np.moveaxis(_floats(logits), axis, -1)
    samples = torch.arange(rows.shape[-1]).reshape(-1, *[1] * (rows.ndim - 1))
    return np.moveaxis(_categorical(rows).log_prob(samples).numpy(), 0, axis)


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`CategoricalDistribution.log_prob` of token t + 1 under the logits at t; float64."""
    ids = torch.as_tensor(np.asarray(input_ids)[:, 1:])
    mask = np.asarray(response_mask, dtype=bool)[:, 1:]
    return _categorical(_floats(logits)[:, :-1]).log_prob(ids).numpy(), mask


def exact_kl_from_logits(q_logits: Any, p_logits: Any, axis: int = -1) -> Any:
    """`stable_baselines3.common.distributions.kl_divergence` of two categoricals; float64."""
    q, p = (_categorical(np.moveaxis(_floats(rows), axis, -1)) for rows in (q_logits, p_logits))
    return kl_divergence(q, p).numpy()
