"""Losses, weights and masks of offline Q-learning: CQL, IQL, and batch-constrained support."""

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import (
    Flags,
    Floats,
    Integers,
    choice,
    indices_below,
    real_array,
    refuse_where,
    scalar,
)

__all__ = [
    "behavior_support_mask",
    "cql_discrete_penalty",
    "expectile_loss",
    "iql_advantage_weights",
]


def cql_discrete_penalty(q_values: ArrayLike, action: ArrayLike) -> float | Floats:
    """Conservative penalty: how far the soft maximum stands above the data action's value.

    log Σ_a exp Q(s, a) − Q(s, a_data)

    It is −log softmax(Q)[a_data]: never negative, and the same for Q + c.

    Args:
        q_values: [A] values of one state, or [N, A] of N states; A ≥ 1, finite.
        action: the data action of that state, or [N] actions; integers in [0, A).

    Returns:
        A float for one state, else [N]; inf where a difference is beyond float64.

    Raises:
        ValueError: a shape, a non-finite value or an action; the text names index and value.

    Reference:
        Kumar, Zhou, Tucker and Levine (2020), Conservative Q-learning, equation 4.
    """
    q_values = real_array("q_values", q_values)
    if q_values.ndim not in (1, 2) or q_values.shape[-1] == 0:
        raise ValueError(f"q_values has shape {q_values.shape}; it must be [A] or [N, A], A ≥ 1")
    action = _actions(action, q_values)
    # Differences to the maximum first: the logarithm of a sum of exp(1e8) would not notice them.
    with np.errstate(over="ignore"):
        below = q_values - q_values.max(axis=-1, keepdims=True)  # [..., A], each ≤ 0
        taken = np.take_along_axis(below, action[..., np.newaxis], axis=-1)[..., 0]
    penalty = np.log(np.exp(below).sum(axis=-1)) - taken  # [..., A] → [...]
    return float(penalty) if penalty.ndim == 0 else penalty


def _actions(action: ArrayLike, q_values: Floats) -> Integers:
    """The data actions as indices; one action alone may be 1.0, an array must hold integers."""
    if q_values.ndim == 1:
        single = scalar("action", action)
        action = int(single) if single == int(single) else single
    return indices_below("action", action, q_values.shape[-1], shape=q_values.shape[:-1])


def expectile_loss(
    differences: ArrayLike, expectile: float = 0.7, *, reduction: str = "mean"
) -> float | Floats:
    """Asymmetric squared loss, whose minimiser is the expectile of the targets.

    mean of |τ − 1[u < 0]| u²

    Differences are target − prediction, so that τ > ½ weighs underestimates more.

    Args:
        differences: [N] u = Q(s, a) − V(s), finite; any shape will do.
        expectile: τ in (0, 1).
        reduction: "mean" over all entries, or "none" for the terms.

    Returns:
        The mean as a float, or the terms in the shape of `differences`; inf beyond float64.

    Raises:
        ValueError: a non-finite difference, τ outside (0, 1), an unknown reduction, or a mean
            of nothing.

    Reference:
        Kostrikov, Nair and Levine (2021), Offline RL with implicit Q-learning, equations 3
        and 5; Newey and Powell (1987).
    """
    differences = real_array("differences", differences)
    expectile = scalar("expectile", expectile, allow="anything")
    if not 0.0 < expectile < 1.0:
        raise ValueError(f"expectile is {expectile}; it must lie in (0, 1)")
    reduction = choice("reduction", reduction, ("mean", "none"))
    weighted = np.where(differences < 0, 1.0 - expectile, expectile) * differences
    with np.errstate(over="ignore"):
        terms = weighted * differences  # in this order: u² alone may overflow
        if reduction == "none":
            return float(terms) if terms.ndim == 0 else terms
        if terms.size == 0:
            raise ValueError("differences is empty; a mean needs one")
        mean = float(np.mean(terms))
        return mean if np.isfinite(mean) else float(np.sum(weighted / terms.size * differences))


def iql_advantage_weights(
    advantages: ArrayLike, beta: float = 3.0, max_weight: float = 100.0
) -> float | Floats:
    """Weights of advantage-weighted regression, bounded from above.

    w_i = min(exp(β A_i), w_max)

    Args:
        advantages: [N] advantages A_i = Q(s, a) − V(s), finite; any shape will do.
        beta: inverse temperature β ≥ 0; 0 is behaviour cloning.
        max_weight: upper bound w_max > 0.

    Returns:
        Weights in the shape of `advantages`, each in [0, w_max]; a float for one number.

    Raises:
        ValueError: a non-finite advantage, β < 0 or w_max ≤ 0; the text names index and value.

    Reference:
        Kostrikov, Nair and Levine (2021), Offline RL with implicit Q-learning, equation 7.
    """
    advantages = real_array("advantages", advantages)
    beta = scalar("beta", beta)
    if beta < 0:
        raise ValueError(f"beta is {beta}; it must be ≥ 0")
    max_weight = scalar("max_weight", max_weight)
    if max_weight <= 0:
        raise ValueError(f"max_weight is {max_weight}; it must be > 0")
    with np.errstate(over="ignore", under="ignore"):
        weights = np.minimum(np.exp(beta * advantages), max_weight)
    return float(weights) if weights.ndim == 0 else weights


def behavior_support_mask(probabilities: ArrayLike, threshold_ratio: float) -> Flags:
    """Which actions the behaviour policy takes often enough to be trusted.

    p_a / max_b p_b ≥ ratio

    Args:
        probabilities: [..., A] behaviour probabilities or counts along the last axis, A ≥ 1,
            finite and ≥ 0, not all 0 in a row; their sum is not checked.
        threshold_ratio: ratio in [0, 1]; 0 supports every action, 1 the most likely ones only.

    Returns:
        [..., A] booleans; the most likely action is always supported.

    Raises:
        ValueError: no action, a negative or non-finite probability, a row of zeros, or a ratio
            outside [0, 1]; the text names index and value.

    Reference:
        Fujimoto, Conti, Ghavamzadeh and Pineau (2019), Benchmarking batch deep reinforcement
        learning algorithms, equation 10.
    """
    probabilities = real_array("probabilities", probabilities)
    ratio = scalar("threshold_ratio", threshold_ratio, allow="anything")
    if not 0.0 <= ratio <= 1.0:
        raise ValueError(f"threshold_ratio is {ratio}; it must lie in [0, 1]")
    if probabilities.ndim == 0 or probabilities.shape[-1] == 0:
        raise ValueError(f"probabilities has shape {probabilities.shape}; a row needs an action")
    refuse_where("probabilities", probabilities, probabilities < 0, "≥ 0")
    most = probabilities.max(axis=-1, keepdims=True)  # [..., 1]
    refuse_where("probabilities", most, most == 0, "above 0 somewhere in its row")
    # Divided, not ratio · max, which rounds to 0 for the smallest probabilities.
    supported: Flags = probabilities / most >= ratio
    return supported
