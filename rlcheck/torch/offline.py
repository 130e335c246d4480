"""Losses, weights and masks of offline Q-learning, differentiable where they are losses."""

import math
from typing import Any

import torch
from torch import Tensor

from rlcheck._inputs import choice, scalar
from rlcheck.torch._inputs import (
    check_values,
    index_tensor,
    real_tensors,
    refuse_where,
    within,
)

__all__ = [
    "behavior_support_mask",
    "cql_discrete_penalty",
    "expectile_loss",
    "iql_advantage_weights",
]


def cql_discrete_penalty(q_values: Any, action: Any) -> Tensor:
    """Conservative penalty: how far the soft maximum stands above the data action's value.

    log Σ_a exp Q(s, a) − Q(s, a_data)

    Args:
        q_values: [A] values of one state, or [N, A] of N states; A ≥ 1, finite.
        action: the data action of that state, or [N] actions; integers in [0, A).

    Returns:
        A scalar tensor for one state, else [N]. ∂/∂Q = softmax(Q) − onehot(a_data).

    Raises:
        ValueError: as `rlcheck.cql_discrete_penalty`.
    """
    (q_values,) = real_tensors(q_values=q_values)
    if q_values.ndim not in (1, 2) or q_values.shape[-1] == 0:
        shape = tuple(q_values.shape)
        raise ValueError(f"q_values has shape {shape}; it must be [A] or [N, A], A ≥ 1")
    check_values("q_values", q_values)
    if q_values.ndim == 1 and isinstance(action, float) and action.is_integer():
        action = int(action)
    chosen = index_tensor("action", action, tuple(q_values.shape[:-1]), q_values.device)
    size = q_values.shape[-1]
    refuse_where("action", chosen, (chosen < 0) | (chosen >= size), f"in [0, {size})")
    below = q_values - q_values.detach().amax(dim=-1, keepdim=True)  # [..., A], each ≤ 0
    return below.exp().sum(dim=-1).log() - below.gather(-1, chosen[..., None])[..., 0]


def expectile_loss(differences: Any, expectile: float = 0.7, *, reduction: str = "mean") -> Tensor:
    """Asymmetric squared loss, whose minimiser is the expectile of the targets.

    mean of |τ − 1[u < 0]| u²

    Args:
        differences: [N] u = Q(s, a) − V(s), finite; any shape will do.
        expectile: τ in (0, 1).
        reduction: "mean" over all entries, or "none" for the terms.

    Returns:
        The mean as a scalar tensor, or the terms. ∂/∂u of a term is 2 |τ − 1[u < 0]| u.

    Raises:
        ValueError: as `rlcheck.expectile_loss`.
    """
    (differences,) = real_tensors(differences=differences)
    check_values("differences", differences)
    expectile = scalar("expectile", expectile, allow="anything")
    if not 0.0 < expectile < 1.0:
        raise ValueError(f"expectile is {expectile}; it must lie in (0, 1)")
    reduction = choice("reduction", reduction, ("mean", "none"))
    # Of two Python numbers torch.where would make float32.
    weights = torch.where(differences < 0, 1.0 - expectile, torch.full_like(differences, expectile))
    terms = weights * differences * differences  # in this order: u² alone may overflow
    if reduction == "none":
        return terms
    if terms.numel() == 0:
        raise ValueError("differences is empty; a mean needs one")
    return (terms / terms.numel()).sum()


@torch.no_grad()
def iql_advantage_weights(advantages: Any, beta: float = 3.0, max_weight: float = 100.0) -> Tensor:
    """Weights of advantage-weighted regression, bounded from above.

    w_i = min(exp(β A_i), w_max)

    Args:
        advantages: [N] advantages A_i = Q(s, a) − V(s), finite; any shape will do.
        beta: inverse temperature β ≥ 0; 0 is behaviour cloning.
        max_weight: upper bound w_max > 0.

    Returns:
        Weights in the shape of `advantages`, without a gradient: they weigh log-probabilities,
        and the critics are not trained through them.

    Raises:
        ValueError: as `rlcheck.iql_advantage_weights`.
    """
    (advantages,) = real_tensors(advantages=advantages)
    check_values("advantages", advantages)
    beta, max_weight = scalar("beta", beta), scalar("max_weight", max_weight)
    if beta < 0:
        raise ValueError(f"beta is {beta}; it must be ≥ 0")
    if max_weight <= 0:
        raise ValueError(f"max_weight is {max_weight}; it must be > 0")
    bound = within(advantages, max_weight)
    return (beta * advantages).clamp(max=math.log(bound) + 1.0).exp().clamp(max=bound)


@torch.no_grad()
def behavior_support_mask(probabilities: Any, threshold_ratio: float) -> Tensor:
    """Which actions the behaviour policy takes often enough to be trusted.

    p_a / max_b p_b ≥ ratio

    Args:
        probabilities: [..., A] behaviour probabilities or counts along the last axis, A ≥ 1.
        threshold_ratio: ratio in [0, 1]; 0 supports every action, 1 the most likely ones only.

    Returns:
        [..., A] booleans; the most likely action is always supported.

    Raises:
        ValueError: as `rlcheck.behavior_support_mask`.
    """
    (probabilities,) = real_tensors(probabilities=probabilities)
    ratio = scalar("threshold_ratio", threshold_ratio, allow="anything")
    if not 0.0 <= ratio <= 1.0:
        raise ValueError(f"threshold_ratio is {ratio}; it must lie in [0, 1]")
    if probabilities.ndim == 0 or probabilities.shape[-1] == 0:
        shape = tuple(probabilities.shape)
        raise ValueError(f"probabilities has shape {shape}; a row needs an action")
    check_values("probabilities", probabilities)
    refuse_where("probabilities", probabilities, probabilities < 0, "≥ 0")
    most = probabilities.amax(dim=-1, keepdim=True)  # [..., 1]
    refuse_where("probabilities", most, most == 0, "above 0 somewhere in its row")
    return probabilities / most >= ratio
