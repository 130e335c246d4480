"""RLax 0.1.9: temporal differences, Q-learning targets and the expectile loss in JAX.

RLax has no flags: its `discount_t` is γ (1 − terminated_t). All is computed in float64
(`jax_enable_x64`), and compiled for each shape, as RLax is used.
"""

import importlib.metadata
from typing import Any

import jax
import numpy as np
import rlax

jax.config.update("jax_enable_x64", True)

__version__ = importlib.metadata.version("rlax")
__all__ = [
    "collector_target",
    "discounted_td_sum",
    "dqn_targets",
    "expectile_loss",
    "fqe_targets",
    "td_residuals",
]

_td_learning = jax.jit(jax.vmap(rlax.td_learning))
_q_learning = jax.jit(jax.vmap(rlax.q_learning))
_expected_sarsa = jax.jit(jax.vmap(rlax.expected_sarsa))
_advantages = jax.jit(rlax.truncated_generalized_advantage_estimation)
_expectile_loss = jax.jit(rlax.expectile_loss)


def _floats(values: Any) -> Any:
    return np.asarray(values, dtype=float)


def _first(values: Any) -> Any:
    """The return at the start; of no steps it is 0."""
    return values[0] if len(values) else 0.0


def _discounts(gamma: float, terminated: Any) -> Any:
    return gamma * (1.0 - _floats(terminated))


def td_residuals(rewards: Any, values: Any, gamma: float, terminated: Any = None) -> Any:
    """`rlax.td_learning`, mapped over the steps, discount γ (1 − d)."""
    rewards, values = _floats(rewards), _floats(values)
    ended = np.zeros_like(rewards) if terminated is None else terminated
    return np.asarray(_td_learning(values[:-1], rewards, _discounts(gamma, ended), values[1:]))


def discounted_td_sum(deltas: Any, gamma: float) -> float:
    """`rlax.truncated_generalized_advantage_estimation` of rewards δ, values 0, λ = 1."""
    deltas = _floats(deltas)
    values = np.zeros(len(deltas) + 1)
    return float(_first(_advantages(deltas, np.full_like(deltas, gamma), 1.0, values)))


def collector_target(reward: Any, next_value: Any, *, gamma: float, terminated: Any) -> Any:
    """`rlax.td_learning` with the value 0 before the step, mapped over the broadcast arguments."""
    ended = _discounts(gamma, terminated)
    reward, next_value, discount = np.broadcast_arrays(_floats(reward), _floats(next_value), ended)
    flat = [values.ravel() for values in (np.zeros_like(reward), reward, discount, next_value)]
    return np.asarray(_td_learning(*flat)).reshape(reward.shape)


def _no_prediction(rewards: Any, next_q: Any) -> tuple[Any, Any]:
    """Values 0 and the action 0 before the step: what RLax returns is then the target itself."""
    return np.zeros((len(rewards), next_q.shape[-1])), np.zeros(len(rewards), dtype=int)


def dqn_targets(rewards: Any, terminal: Any, next_q: Any, gamma: float) -> Any:
    """`rlax.q_learning`, mapped over the batch, with the prediction 0."""
    rewards, next_q = _floats(rewards), _floats(next_q)
    before = _no_prediction(rewards, next_q)
    return np.asarray(_q_learning(*before, rewards, _discounts(gamma, terminal), next_q))


def fqe_targets(rewards: Any, terminal: Any, next_q: Any, policy_probs: Any, gamma: float) -> Any:
    """`rlax.expected_sarsa`, mapped over the batch, with the prediction 0."""
    rewards, next_q = _floats(rewards), _floats(next_q)
    before = _no_prediction(rewards, next_q)
    discounts = _discounts(gamma, terminal)
    return np.asarray(_expected_sarsa(*before, rewards, discounts, next_q, _floats(policy_probs)))


def expectile_loss(differences: Any, expectile: float = 0.7, *, reduction: str = "mean") -> Any:
    """`rlax.expectile_loss` of the targets u and the predictions 0; the mean is NumPy's."""
    differences = _floats(differences)
    terms = np.asarray(_expectile_loss(np.zeros_like(differences), differences, expectile))
    return terms if reduction == "none" else float(np.mean(terms))
