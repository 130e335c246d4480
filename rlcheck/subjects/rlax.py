"""RLax 0.1.9: returns, advantages, Q-learning targets and losses in JAX.

RLax has no flags: its `discount_t` is γ (1 − terminated_t), and a truncation is a λ of 0. All is
computed in float64 (`jax_enable_x64`), and compiled for each shape, as RLax is used. Its importance
ratios take logits of the whole policy, not log-probabilities, and its masks skip a step without
joining its neighbours: neither is the contract's, and both are left out.
"""

import importlib.metadata
import warnings
from functools import partial
from typing import Any

import jax
import numpy as np
import rlax

jax.config.update("jax_enable_x64", True)

__version__ = importlib.metadata.version("rlax")
__all__ = [
    "causal_response_logprobs",
    "clipped_policy_terms",
    "collector_target",
    "cql_discrete_penalty",
    "discounted_return",
    "discounted_td_sum",
    "double_dqn_targets",
    "dqn_targets",
    "exact_kl_from_logits",
    "expectile_loss",
    "fqe_targets",
    "generalized_advantages",
    "lambda_returns",
    "potential_shaping",
    "return_to_go",
    "semi_markov_return",
    "stable_log_softmax",
    "td_residuals",
]


def _quiet(function: Any) -> Any:
    """Without the warnings that RLax will deprecate it, which come at the first call of a shape."""

    def call(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            return function(*args)

    return jax.jit(call)


_td_learning = jax.jit(jax.vmap(rlax.td_learning))
_q_learning = jax.jit(jax.vmap(rlax.q_learning))
_double_q_learning = jax.jit(jax.vmap(rlax.double_q_learning))
_expected_sarsa = jax.jit(jax.vmap(rlax.expected_sarsa))
_returns = jax.jit(rlax.discounted_returns)
_advantages = jax.jit(rlax.truncated_generalized_advantage_estimation)
_lambda_returns = jax.jit(jax.vmap(rlax.lambda_returns))
_vtrace = jax.jit(jax.vmap(rlax.vtrace))
_potential = jax.jit(partial(rlax.feature_control_rewards, cumulant_type="potential"))
_logprob = _quiet(lambda tokens, logits: rlax.softmax().logprob(tokens, logits))
_kl = _quiet(rlax.categorical_kl_divergence)
_expectile_loss = jax.jit(rlax.expectile_loss)
_clipped = jax.jit(jax.vmap(rlax.clipped_surrogate_pg_loss, in_axes=(0, 0, None)))


def _floats(values: Any) -> Any:
    return np.asarray(values, dtype=float)


def _integers(values: Any) -> Any:
    return np.asarray(values, dtype=int)


def _first(values: Any) -> Any:
    """The return at the start; of no steps it is 0."""
    return values[0] if len(values) else 0.0


def _discounts(gamma: float, terminated: Any) -> Any:
    return gamma * (1.0 - _floats(terminated))


def return_to_go(rewards: Any, gamma: float = 1.0) -> Any:
    """`rlax.discounted_returns` of one discount and no value after the last step."""
    rewards = _floats(rewards)
    return np.asarray(_returns(rewards, np.full_like(rewards, gamma), 0.0))


def discounted_return(rewards: Any, gamma: float) -> float:
    """`rlax.discounted_returns`, the return of the first step."""
    return float(return_to_go(rewards, gamma)[0])


def semi_markov_return(rewards: Any, durations: Any, gamma: float) -> float:
    """`rlax.discounted_returns` of the discounts γ^τ, the return of the first step."""
    discounts = gamma ** _floats(durations)
    return float(_returns(_floats(rewards), discounts, 0.0)[0])


def potential_shaping(rewards: Any, potentials: Any, gamma: float) -> Any:
    """The rewards, plus `rlax.feature_control_rewards` "potential" of one feature, γ Φ' − Φ."""
    bonus = _potential(_floats(potentials)[:, None], discount=gamma)
    return _floats(rewards) + np.asarray(bonus)[:, 0]


def td_residuals(rewards: Any, values: Any, gamma: float, terminated: Any = None) -> Any:
    """`rlax.truncated_generalized_advantage_estimation`, λ = 0, discount γ (1 − d)."""
    rewards = _floats(rewards)
    ended = np.zeros_like(rewards) if terminated is None else terminated
    return np.asarray(_advantages(rewards, _discounts(gamma, ended), 0.0, _floats(values)))


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


def _ends(gamma: float, lam: float, terminated: Any, truncated: Any) -> tuple[Any, Any]:
    """Discounts and λ [B, T]: the discount ends at terminals, λ at either flag."""
    ended = np.atleast_2d(_floats(terminated) + _floats(truncated)) > 0
    return np.atleast_2d(_discounts(gamma, terminated)), np.where(ended, 0.0, lam)


def _rows(*sequences: Any) -> Any:
    return (np.atleast_2d(_floats(each)) for each in sequences)


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
    """`rlax.vtrace` with importance ratios of 1, mapped over the rows of a batch.

    It takes V' apart from V, which `rlax.truncated_generalized_advantage_estimation` does not.
    """
    discounts, mixing = _ends(gamma, lam, terminated, truncated)
    earned, before, after = _rows(rewards, values, next_values)
    errors = _vtrace(before, after, earned, discounts, np.ones_like(earned), mixing)
    return np.asarray(errors).reshape(np.shape(rewards))


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
    """`rlax.lambda_returns`, mapped over the rows of a batch; it reads V' only, and no `values`."""
    discounts, mixing = _ends(gamma, lam, terminated, truncated)
    earned, after = _rows(rewards, next_values)
    return np.asarray(_lambda_returns(earned, discounts, after, mixing)).reshape(np.shape(rewards))


def stable_log_softmax(logits: Any, axis: int = -1) -> Any:
    """`rlax.softmax().logprob` of each token in turn."""
    rows = np.moveaxis(_floats(logits), axis, -1)
    tokens = np.arange(rows.shape[-1]).reshape(-1, *[1] * (rows.ndim - 1))
    return np.moveaxis(np.asarray(_logprob(tokens, rows)), 0, axis)


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`rlax.softmax().logprob` of ids[:, 1:] under logits[:, :-1]; the mask moves with the ids."""
    mask = np.asarray(response_mask).astype(bool)[:, 1:]
    return np.asarray(_logprob(_integers(input_ids)[:, 1:], _floats(logits)[:, :-1])), mask


def exact_kl_from_logits(q_logits: Any, p_logits: Any, axis: int = -1) -> Any:
    """`rlax.categorical_kl_divergence`, which calls its first distribution p."""
    q, p = (np.moveaxis(_floats(logits), axis, -1) for logits in (q_logits, p_logits))
    return np.asarray(_kl(q, p))[()]


def cql_discrete_penalty(q_values: Any, action: Any) -> Any:
    """Minus `rlax.softmax().logprob` of the action, the values as logits."""
    return -np.asarray(_logprob(_integers(action), _floats(q_values)))[()]


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
    """`rlax.double_q_learning`, mapped over the batch, with the prediction 0.

    Its `q_t_selector` are the values of the online network.
    """
    rewards, online, target = (_floats(each) for each in (rewards, online_next_q, target_next_q))
    before, discounts = _no_prediction(rewards, target), _discounts(gamma, terminal)
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


def clipped_policy_terms(
    ratios: Any,
    advantages: Any,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Any:
    """`rlax.clipped_surrogate_pg_loss`, mapped over sequences of one token, less its mean.

    It has one ε, which is `clip_high` here, and no dual clip: the others are passed over.
    """
    sequences = (_floats(each).reshape(-1, 1) for each in (ratios, advantages))
    return np.asarray(_clipped(*sequences, clip_high)).reshape(np.shape(ratios))[()]
