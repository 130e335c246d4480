"""RLax 0.1.9: returns, Q-learning targets, losses and distributions in JAX.

RLax has no flags: its `discount_t` is γ (1 − terminated_t), and a truncation cuts the trace through
a λ of its own at that step. All is computed in float64 (`jax_enable_x64`), and compiled for each
shape, as RLax is used. RLax has no groups, no masks of tokens, no top-k and no top-p.
"""

import importlib.metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rlax

jax.config.update("jax_enable_x64", True)

__version__ = importlib.metadata.version("rlax")
__all__ = [
    "causal_response_logprobs",
    "clipped_policy_terms",
    "collector_target",
    "discounted_return",
    "discounted_td_sum",
    "double_dqn_targets",
    "dqn_targets",
    "exact_kl_from_logits",
    "expectile_loss",
    "fqe_targets",
    "generalized_advantages",
    "lambda_returns",
    "return_to_go",
    "semi_markov_return",
    "stable_log_softmax",
    "td_residuals",
]

_td_learning = jax.jit(jax.vmap(rlax.td_learning))
_q_learning = jax.jit(jax.vmap(rlax.q_learning))
_double_q_learning = jax.jit(jax.vmap(rlax.double_q_learning))
_expected_sarsa = jax.jit(jax.vmap(rlax.expected_sarsa))
_discounted_returns = jax.jit(rlax.discounted_returns)
_advantages = jax.jit(rlax.truncated_generalized_advantage_estimation)
_lambda_returns = jax.jit(rlax.lambda_returns)
_td_lambda = jax.jit(rlax.td_lambda)
_expectile_loss = jax.jit(rlax.expectile_loss)
_kl = jax.jit(rlax.categorical_kl_divergence)
_log_prob = jax.jit(lambda sample, logits: rlax.softmax().logprob(sample, logits))
_clipped_loss = jax.jit(jax.vmap(rlax.clipped_surrogate_pg_loss, in_axes=(0, 0, None)))


def _floats(values: Any) -> Any:
    return np.asarray(values, dtype=float)


def _discounts(gamma: float, terminated: Any) -> Any:
    return gamma * (1.0 - _floats(terminated))


def discounted_return(rewards: Any, gamma: float) -> float:
    """`rlax.discounted_returns` with γ at each step and the value 0 at the end: its first."""
    return float(return_to_go(rewards, gamma)[0])


def return_to_go(rewards: Any, gamma: float = 1.0) -> Any:
    """`rlax.discounted_returns` with the discount γ at each step and the value 0 at the end."""
    rewards = _floats(rewards)
    return np.asarray(_discounted_returns(rewards, np.full_like(rewards, gamma), 0.0))


def semi_markov_return(rewards: Any, durations: Any, gamma: float) -> float:
    """`rlax.discounted_returns` with the discount γ^τ_k at macro-step k: its first."""
    discounts = float(gamma) ** _floats(durations)
    return float(_discounted_returns(_floats(rewards), discounts, 0.0)[0])


def td_residuals(rewards: Any, values: Any, gamma: float, terminated: Any = None) -> Any:
    """`rlax.td_learning`, mapped over the steps, discount γ (1 − d)."""
    rewards, values = _floats(rewards), _floats(values)
    ended = np.zeros_like(rewards) if terminated is None else terminated
    return np.asarray(_td_learning(values[:-1], rewards, _discounts(gamma, ended), values[1:]))


def discounted_td_sum(deltas: Any, gamma: float) -> float:
    """`rlax.truncated_generalized_advantage_estimation` of rewards δ, values 0, λ = 1."""
    deltas = _floats(deltas)
    values = np.zeros(len(deltas) + 1)
    return float(_advantages(deltas, np.full_like(deltas, gamma), 1.0, values)[0])


def collector_target(reward: Any, next_value: Any, *, gamma: float, terminated: Any) -> Any:
    """`rlax.td_learning` with the value 0 before the step, mapped over the broadcast arguments."""
    ended = _discounts(gamma, terminated)
    reward, next_value, discount = np.broadcast_arrays(_floats(reward), _floats(next_value), ended)
    flat = [values.ravel() for values in (np.zeros_like(reward), reward, discount, next_value)]
    return np.asarray(_td_learning(*flat)).reshape(reward.shape)


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
    """`rlax.td_lambda`, discount γ (1 − terminated) and λ (1 − truncated).

    `rlax.truncated_generalized_advantage_estimation` cannot say what a truncated step inside the
    sequence ended in: it takes one value a state.
    """
    return np.asarray(
        _td_lambda(
            _floats(values),
            _floats(rewards),
            _discounts(gamma, terminated),
            _floats(next_values),
            _discounts(lam, truncated),
        )
    )


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
    """`rlax.lambda_returns`, discount γ (1 − terminated) and λ (1 − truncated); no `values`."""
    return np.asarray(
        _lambda_returns(
            _floats(rewards),
            _discounts(gamma, terminated),
            _floats(next_values),
            _discounts(lam, truncated),
        )
    )


def _no_prediction(rewards: Any, next_q: Any) -> tuple[Any, Any]:
    """Values 0 and the action 0 before the step: what RLax returns is then the target itself."""
    return np.zeros((len(rewards), next_q.shape[-1])), np.zeros(len(rewards), dtype=int)


def dqn_targets(rewards: Any, terminal: Any, next_q: Any, gamma: float) -> Any:
    """`rlax.q_learning`, mapped over the batch, with the prediction 0."""
    rewards, next_q = _floats(rewards), _floats(next_q)
    before = _no_prediction(rewards, next_q)
    return np.asarray(_q_learning(*before, rewards, _discounts(gamma, terminal), next_q))


def double_dqn_targets(
    rewards: Any, terminal: Any, online_next_q: Any, target_next_q: Any, gamma: float
) -> Any:
    """`rlax.double_q_learning`, mapped, with the prediction 0; the online values select."""
    rewards, online, target = _floats(rewards), _floats(online_next_q), _floats(target_next_q)
    before = _no_prediction(rewards, target)
    discounts = _discounts(gamma, terminal)
    return np.asarray(_double_q_learning(*before, rewards, discounts, target, online))


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


def stable_log_softmax(logits: Any, axis: int = -1) -> Any:
    """`rlax.softmax().logprob` of each index along the axis."""
    rows = np.moveaxis(_floats(logits), axis, -1)
    samples = np.arange(rows.shape[-1]).reshape(-1, *[1] * (rows.ndim - 1))
    samples = np.broadcast_to(samples, (rows.shape[-1], *rows.shape[:-1]))
    return np.moveaxis(np.asarray(_log_prob(samples, rows)), 0, axis)


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`rlax.softmax().logprob` of token t + 1 under the logits at t; the mask is only shifted."""
    ids = np.asarray(input_ids)[:, 1:]
    mask = np.asarray(response_mask, dtype=bool)[:, 1:]
    return np.asarray(_log_prob(ids, _floats(logits)[:, :-1])), mask


def exact_kl_from_logits(q_logits: Any, p_logits: Any, axis: int = -1) -> Any:
    """`rlax.categorical_kl_divergence`, first distribution q; the axis is moved last."""
    q_rows, p_rows = (np.moveaxis(_floats(rows), axis, -1) for rows in (q_logits, p_logits))
    return np.asarray(_kl(q_rows, p_rows))


def clipped_policy_terms(
    ratios: Any,
    advantages: Any,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Any:
    """`rlax.clipped_surrogate_pg_loss` of each pair alone: one ε, no dual clip."""
    if clip_low != clip_high or dual_clip is not None:
        raise NotImplementedError("rlax.clipped_surrogate_pg_loss has one epsilon, no dual clip")
    ratios, advantages = jnp.broadcast_arrays(_floats(ratios), _floats(advantages))
    losses = _clipped_loss(ratios.reshape(-1, 1), advantages.reshape(-1, 1), clip_low)
    return np.asarray(losses).reshape(ratios.shape)
