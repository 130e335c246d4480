"""The Kullback-Leibler divergence: exact, and the moments of its sampled estimators.

q is the distribution that samples come from, p the other one; logarithms are natural.
"""

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import Floats, axis_of, choice, distributions, logit_rows, real_array
from rlcheck.logprobs import stable_log_softmax

__all__ = ["exact_kl_from_logits", "kl_estimator_moments", "kl_penalty_terms"]

# Below this |x|, expm1(x) − x comes from its power series, whose terms from x^18 on are below ε.
SERIES = 0.5


def exact_kl_from_logits(
    q_logits: ArrayLike, p_logits: ArrayLike, axis: int = -1
) -> float | Floats:
    """Kullback-Leibler divergence from q to p, of each row of logits.

    KL(q‖p) = Σ_i q_i (log q_i − log p_i), where q_i = 0 contributes 0

    Args:
        q_logits: [..., V, ...] finite or −inf, with a finite logit in each row along `axis`.
        p_logits: the same for p.
        axis: the axis of the V alternatives.

    Returns:
        A float for one row, else an array without that axis; never negative, inf where p_i = 0
        for an alternative with q_i > 0.

    Raises:
        ValueError: the shapes differ, NaN, +inf, a row of −inf alone or without an entry, an
            axis out of range.

    Reference:
        Kullback and Leibler (1951), On information and sufficiency, equation 2.3.
    """
    q_logits = logit_rows("q_logits", q_logits, axis)
    p_logits = logit_rows("p_logits", p_logits, axis)
    if p_logits.shape != q_logits.shape:
        raise ValueError(f"p_logits has shape {p_logits.shape}; it must be {q_logits.shape}")
    axis = axis_of("axis", axis, q_logits.ndim)
    log_q, log_p = stable_log_softmax(q_logits, axis), stable_log_softmax(p_logits, axis)
    possible = log_q > -np.inf
    log_ratio = np.where(possible, log_q, 0.0) - np.where(possible, log_p, 0.0)
    with np.errstate(invalid="ignore"):  # q_i underflows to 0 where p_i is 0: 0 · inf
        terms = np.where(log_ratio == np.inf, np.inf, np.exp(log_q) * log_ratio)
    divergence = np.maximum(terms.sum(axis=axis), 0.0)  # [..., V, ...] → [..., ...]
    return float(divergence) if divergence.ndim == 0 else divergence


def kl_estimator_moments(p: ArrayLike, q: ArrayLike) -> dict[str, float]:
    """Exact means and standard deviations of the estimators k1, k2 and k3 of KL(q‖p).

    With samples from q and r = p/q: k1 = −log r, k2 = ½ log² r, k3 = r − 1 − log r.
    E[k1] = KL(q‖p), and E[k3] = KL(q‖p) − p(q = 0): k3 is unbiased exactly when the support of
    p lies in that of q, because a sample from q never sees the rest.

    Args:
        p: [V] probabilities of the other distribution.
        q: [V] probabilities of the sampling distribution.

    Returns:
        A dictionary with `exact_kl`, and `k1_mean`, `k1_std`, `k2_mean`, `k2_std`, `k3_mean`,
        `k3_std`; all inf where p_i = 0 < q_i for some i.

    Raises:
        ValueError: no vectors of one length, a negative or non-finite entry, a sum that is not 1.

    Reference:
        Schulman (2020), Approximating KL divergence.
    """
    sampling = distributions("q", q, ndim=1)
    other = distributions("p", p, ndim=1)
    if other.shape != sampling.shape:
        raise ValueError(f"p has length {len(other)}; it must have length {len(sampling)}")
    names = ("exact_kl", *(f"k{i}_{moment}" for i in (1, 2, 3) for moment in ("mean", "std")))
    sampled = sampling > 0
    weights = sampling[sampled] / sampling.sum()  # [S], the support of q
    others = other[sampled] / other.sum()
    if (others == 0).any():
        return dict.fromkeys(names, np.inf)
    log_r = np.log(others) - np.log(weights)
    divergence = max(0.0, float(-np.dot(weights, log_r)))
    k2 = 0.5 * log_r**2
    k2_mean = float(np.dot(weights, k2))
    k3_mean = max(0.0, float((others - weights - weights * log_r).sum()))
    # √q k3 without r itself, which may lie beyond float64 where q is tiny.
    root = np.sqrt(weights)
    centred_k3 = others / root - root * (1.0 + log_r + k3_mean)
    moments = (
        divergence,
        divergence,
        _norm(root * (log_r + divergence)),
        k2_mean,
        _norm(root * (k2 - k2_mean)),
        k3_mean,
        _norm(centred_k3),
    )
    return dict(zip(names, moments, strict=True))


def kl_penalty_terms(
    logprobs: ArrayLike, ref_logprobs: ArrayLike, estimator: str
) -> float | Floats:
    """Estimates of KL(π‖ref) from tokens that π sampled, one for each token.

    With r = π_ref / π at the sampled token:

    k1 = −log r,  k2 = ½ log² r,  k3 = r − 1 − log r

    Args:
        logprobs: log π of the sampled tokens, finite, of any shape.
        ref_logprobs: log π_ref of the same tokens, finite, in the same shape.
        estimator: "k1", "k2" or "k3".

    Returns:
        Terms in the shape of `logprobs`. k2 and k3 are never negative, and good to a few ε of
        their own size at every log-ratio; inf beyond float64.

    Raises:
        ValueError: the shapes differ, a log-probability is not finite, an unknown estimator.

    Reference:
        Schulman (2020), Approximating KL divergence.
    """
    logprobs = real_array("logprobs", logprobs)
    ref_logprobs = real_array("ref_logprobs", ref_logprobs, shape=logprobs.shape)
    estimator = choice("estimator", estimator, ("k1", "k2", "k3"))
    with np.errstate(over="ignore"):
        log_r = ref_logprobs - logprobs
        terms = {"k1": _minus, "k2": _half_square, "k3": _excess}[estimator](log_r)
    return float(terms) if terms.ndim == 0 else terms


def _minus(x: Floats) -> Floats:
    return np.asarray(0.0 - x)  # not −0.0


def _half_square(x: Floats) -> Floats:
    return np.asarray(0.5 * x * x)


def _excess(x: Floats) -> Floats:
    """exp(x) − 1 − x, without the cancellation near 0 and the one of infinities far from it."""
    near = np.where(np.abs(x) < SERIES, x, 0.0)
    series = np.ones_like(near)
    for n in range(18, 2, -1):  # 2 (exp(x) − 1 − x) / x² = 1 + x/3 (1 + x/4 (1 + …))
        series = 1.0 + near / n * series
    far = np.where(np.abs(x) < SERIES, 0.0, np.minimum(x, 1e3))
    return np.where(np.abs(x) < SERIES, 0.5 * near * near * series, np.expm1(far) - far)


def _norm(weighted: Floats) -> float:
    """√Σx², without an overflow on the way."""
    scale = float(np.abs(weighted).max())
    return scale * float(np.sqrt(((weighted / scale) ** 2).sum())) if scale > 0 else 0.0
