"""The distribution that tokens are really sampled from."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import (
    Floats,
    choice,
    distributions,
    integer,
    logit_rows,
    scalar,
    unit_interval,
)

__all__ = ["behavior_logprob", "decoding_distribution_with_order"]

PROCESSORS = ("temperature", "top_k", "top_p")


def decoding_distribution_with_order(
    logits: ArrayLike, *, temperature: float, top_k: int, top_p: float, order: Iterable[str]
) -> Floats:
    """Distribution of the next token after decoding processors, applied in a given order.

    temperature: p_i ∝ p_i^(1/T); top_k: keep p_i ≥ the k-th largest; top_p: keep the smallest
    set, in descending order, whose mass reaches top_p. Each acts on what the one before it
    left, renormalised, so that the order matters.

    Args:
        logits: [V] finite or −inf, at least one of them finite.
        temperature: T > 0.
        top_k: an integer ≥ 1; above V it keeps all, and ties with the k-th stay.
        top_p: in [0, 1]; at least one token stays, of equal probabilities the lower index first.
        order: any of "temperature", "top_k", "top_p", each at most once. The arguments of those
            that are absent are not looked at.

    Returns:
        [V] probabilities; 0 for tokens that were removed.

    Raises:
        ValueError: a logit, an argument or a processor is out of range, or one is repeated.

    Reference:
        Fan, Lewis and Dauphin (2018), Hierarchical neural story generation, section 5.4 (top-k);
        Holtzman et al. (2020), The curious case of neural text degeneration, section 3 (top-p).
    """
    logits = logit_rows("logits", logits, ndim=1)
    processors = _order(order)
    if "temperature" in processors:
        temperature = _positive("temperature", temperature)
    if "top_k" in processors:
        top_k = integer("top_k", top_k, minimum=1)
    if "top_p" in processors:
        top_p = unit_interval("top_p", top_p)
    with np.errstate(over="ignore"):
        scores = logits - logits.max()  # [V], each ≤ 0: a difference beyond float64 is −inf
        for processor in processors:
            if processor == "temperature":
                scores = (scores - scores.max()) / temperature
            elif processor == "top_k":
                scores = _keep_top_k(scores, top_k)
            else:
                scores = _keep_top_p(scores, top_p)
    return _softmax(scores)


def _order(order: Iterable[str]) -> list[str]:
    """The names of the processors, each checked."""
    if isinstance(order, str | bytes | Mapping | set | frozenset) or not hasattr(order, "__iter__"):
        raise TypeError(f"order is {order!r}; a sequence of processors is due")
    names: list[str] = []
    for i, name in enumerate(order):
        names.append(choice(f"order[{i}]", name, PROCESSORS))
        if name in names[:-1]:
            raise ValueError(f"order[{i}] is {name!r} again; each processor acts once")
    return names


def _positive(name: str, value: float) -> float:
    number = scalar(name, value)
    if number <= 0:
        raise ValueError(f"{name} is {number}; it must be > 0")
    return number


def _keep_top_k(scores: Floats, k: int) -> Floats:
    if k >= len(scores):
        return scores
    kth = np.partition(scores, -k)[-k]
    return np.where(scores >= kth, scores, -np.inf)


def _keep_top_p(scores: Floats, top_p: float) -> Floats:
    if top_p == 1.0:  # every token is needed, also one that rounding would not miss
        return scores
    probabilities = _softmax(scores)
    descending = np.argsort(-probabilities, kind="stable")  # equal ones: lower index first
    reached = np.cumsum(probabilities[descending])
    needed = 1 + int(np.sum(reached[:-1] < top_p))  # the token that crosses top_p stays
    kept = np.full(scores.shape, -np.inf)
    kept[descending[:needed]] = scores[descending[:needed]]
    return kept


def _softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def behavior_logprob(distribution: ArrayLike, token: int) -> float:
    """Log-probability of a token under the distribution that it was sampled from.

    log b(token), where b is the distribution after all decoding processors

    Args:
        distribution: [V] probabilities, with a sum near 1.
        token: the sampled token, an integer in [0, V).

    Returns:
        The natural logarithm; −inf for a token of probability 0.

    Raises:
        ValueError: no distribution, or a token outside it; the text names index and value.

    Reference:
        Sutton and Barto (2018), section 5.5: the behaviour policy b of an importance ratio.
    """
    distribution = distributions("distribution", distribution, ndim=1)
    token = integer("token", token, minimum=0)
    if token >= len(distribution):
        raise ValueError(f"token is {token}; it must be in [0, {len(distribution)})")
    with np.errstate(divide="ignore"):
        return float(np.log(distribution[token]))
