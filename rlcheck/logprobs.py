"""Log-probabilities of tokens: from logits, per response, summed over sequences."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcheck._inputs import (
    Flags,
    Floats,
    Integers,
    as_numbers,
    axis_of,
    flags,
    index_array,
    logit_rows,
    place,
    real_array,
    refuse_where,
)

__all__ = [
    "ResponseLogprobs",
    "SequenceMetrics",
    "causal_response_logprobs",
    "masked_sequence_metrics",
    "sequence_logprob_ratio",
    "stable_log_softmax",
]

# Logits that are exponentiated at a time: in float64 they fill half of a small second-level
# cache, where exp runs several times faster than from main memory.
BLOCK = 8192


class ResponseLogprobs(NamedTuple):
    """Log-probability of every token but the first, and the response mask aligned with it."""

    selected: Floats  # [B, L−1]; NaN where it is undefined
    shifted_mask: Flags  # [B, L−1]


class SequenceMetrics(NamedTuple):
    """What the log-probabilities of each sequence's active tokens add up to."""

    token_count: Integers  # [B]
    sum_logprob: Floats  # [B]
    perplexity: Floats  # [B]; NaN without tokens


def stable_log_softmax(logits: ArrayLike, axis: int = -1) -> Floats:
    """Log-probabilities from logits, exact at any common offset.

    log p_i = (x_i − max x) − log Σ_j exp(x_j − max x)

    Args:
        logits: [..., V, ...] finite or −inf, with a finite logit in each row along `axis`.
        axis: the axis of the V alternatives.

    Returns:
        An array of the shape of `logits`; −inf where the logit is −inf, or lies below the
        maximum by more than float64 can hold.

    Raises:
        ValueError: NaN, +inf, a row of −inf alone or without an entry, an axis out of range.

    Reference:
        Blanchard, Higham and Higham (2021), Accurately computing the log-sum-exp and softmax
        functions, equation 1.3 and section 4.
    """
    logits = logit_rows("logits", logits, axis)
    axis = axis_of("axis", axis, logits.ndim)
    with np.errstate(over="ignore"):
        below = logits - logits.max(axis=axis, keepdims=True)  # [..., V, ...], each ≤ 0
    return np.asarray(below - np.log(np.exp(below).sum(axis=axis, keepdims=True)))


def causal_response_logprobs(
    logits: ArrayLike, input_ids: ArrayLike, response_mask: ArrayLike
) -> ResponseLogprobs:
    """Log-probability that a causal model gave each token of its input, and the mask beside it.

    selected[b, t] = log softmax(logits[b, t])[input_ids[b, t + 1]], mask[b, t + 1] beside it

    Rows are read a cache-sized block at a time, and only those that score a known token, so
    that no copy of the logits is made.

    Args:
        logits: [B, L, V] the logits at t predict the token at t + 1; the last ones none.
        input_ids: [B, L] integers; outside the mask any, −100 labels among them.
        response_mask: [B, L] 1 where a token of the response stands; 0 at t = 0.

    Returns:
        `selected` [B, L−1], NaN outside the mask where the id is unknown or the row of logits
        holds NaN, +inf or only −inf; and `shifted_mask` [B, L−1], booleans.

    Raises:
        ValueError: the shapes disagree, the mask begins at t = 0, or under the mask an id lies
            outside [0, V) or a row of logits has no log-softmax.

    Reference:
        Bengio, Ducharme, Vincent and Jauvin (2003), A neural probabilistic language model,
        section 1: P(w) = Π_t P(w_t | w_1 … w_{t−1}).
    """
    source: Any = logits
    if str(getattr(logits, "dtype", "")) == "torch.bfloat16":
        source = source.detach()  # NumPy has no such dtype: converted row by row, not as a whole
    else:
        source = as_numbers("logits", logits)
    if len(source.shape) != 3:
        raise ValueError(f"logits has shape {tuple(source.shape)}; it must be [B, L, V]")
    batch, length, vocabulary = source.shape
    ids = index_array("input_ids", input_ids, shape=(batch, length))
    mask = flags("response_mask", response_mask, shape=(batch, length))
    refuse_where("response_mask", mask, mask & (np.arange(length) == 0), "0: nothing predicts it")
    known = (ids >= 0) & (ids < vocabulary)
    refuse_where("input_ids", ids, mask & ~known, f"in [0, {vocabulary}) under the mask")
    selected = np.full((batch, max(length - 1, 0)), np.nan)
    rows, steps = np.nonzero(known[:, 1:])  # [N] each: the pairs (b, t) that are scored
    size = max(1, BLOCK // max(vocabulary, 1))
    for start in range(0, len(rows), size):
        b, t = rows[start : start + size], steps[start : start + size]
        block = as_numbers("logits", source[b, t])  # [n, V]
        scores = _scores(block, ids[b, t + 1])
        undefined = np.isnan(scores)
        if (undefined & mask[b, t + 1]).any():
            first = int(np.argmax(undefined & mask[b, t + 1]))
            _refuse_row(block[first], (int(b[first]), int(t[first])))
        selected[b, t] = scores
    return ResponseLogprobs(selected, mask[:, 1:])


def _scores(rows: NDArray[Any], ids: Integers) -> Floats:
    """[n] log-softmax of each row at its id; NaN for a row with NaN, +inf or only −inf."""
    top = rows.max(axis=1).astype(np.float64)  # [n]; NaN where the row holds one
    taken = rows[np.arange(len(rows)), ids].astype(np.float64)
    total = np.zeros(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, rows.shape[1], BLOCK):
            part = rows[:, start : start + BLOCK]
            below = np.subtract(part, top[:, np.newaxis], dtype=np.float64)
            total += np.exp(below, out=below).sum(axis=1)
        return np.where(np.isfinite(top), (taken - top) - np.log(total), np.nan)


def _refuse_row(row: NDArray[Any], index: tuple[int, int]) -> None:
    """Raise for logits [V] under the mask that are no distribution."""
    for v, logit in enumerate(row):
        if not logit < np.inf:
            where = place("logits", (*index, v))
            raise ValueError(f"{where} is {logit}; it must be finite or -inf under the mask")
    raise ValueError(f"{place('logits', index)} is all -inf; one logit must be finite")


def masked_sequence_metrics(selected: ArrayLike, mask: ArrayLike) -> SequenceMetrics:
    """Token count, log-probability and perplexity of each sequence, over its active tokens.

    n = Σ_t m_t, S = Σ_{t: m_t = 1} log p_t, perplexity = exp(−S / n)

    Args:
        selected: [B, T] log-probabilities; −inf is one, NaN and +inf are refused under the mask.
            What stands where the mask is 0 is never read.
        mask: [B, T] 1 where a token counts.

    Returns:
        `token_count`, `sum_logprob`, `perplexity`, each [B]. A sequence without active tokens
        has count 0, sum 0.0 and perplexity NaN.

    Raises:
        ValueError: the shapes disagree, or NaN or +inf stands under the mask.

    Reference:
        Jelinek, Mercer, Bahl and Baker (1977), Perplexity: a measure of the difficulty of
        speech recognition tasks.
    """
    selected = real_array("selected", selected, ndim=2, allow="anything")
    active = flags("mask", mask, shape=selected.shape)
    refuse_active("selected", selected, active, allow_impossible=True)
    terms = np.where(active, selected, 0.0)
    count = active.sum(axis=1)  # [B, T] → [B]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = stable_sum(terms / np.maximum(count, 1)[:, np.newaxis])
        perplexity = np.where(count > 0, np.exp(-mean), np.nan)
    return SequenceMetrics(count.astype(np.int64), stable_sum(terms), perplexity)


def sequence_logprob_ratio(
    new_logprobs: ArrayLike, old_logprobs: ArrayLike, mask: ArrayLike | None = None
) -> float | Floats:
    """Probability of a whole sequence under the new policy over that under the old one.

    ρ = exp(Σ_{t: m_t = 1} (log π_new,t − log π_old,t)), along the last axis

    Args:
        new_logprobs: [..., T] log-probabilities of the sampled tokens; −inf gives 0.0.
        old_logprobs: [..., T] those of the policy that sampled them, finite.
        mask: [..., T] 1 where a token counts, None for all. What stands elsewhere is never read.

    Returns:
        A float for one sequence, [...] for several; 1.0 without active tokens, inf where the
        ratio is beyond float64.

    Raises:
        ValueError: the shapes disagree, or under the mask NaN or +inf stands, or −inf in
            `old_logprobs`, which its policy cannot have sampled.

    Reference:
        Precup, Sutton and Singh (2000), Eligibility traces for off-policy policy evaluation,
        section 2.
    """
    new = real_array("new_logprobs", new_logprobs, allow="anything")
    if new.ndim == 0:
        raise ValueError(f"new_logprobs is {new}, a scalar; it must have an axis of tokens")
    old = real_array("old_logprobs", old_logprobs, shape=new.shape, allow="anything")
    active = np.ones(new.shape, np.bool_) if mask is None else flags("mask", mask, shape=new.shape)
    refuse_active("new_logprobs", new, active, allow_impossible=True)
    refuse_active("old_logprobs", old, active, allow_impossible=False)
    impossible = (active & (new == -np.inf)).any(axis=-1)  # [..., T] → [...]
    counted = active & np.isfinite(new)
    new, old = np.where(counted, new, 0.0), np.where(counted, old, 0.0)
    with np.errstate(over="ignore"):
        ratio = np.where(impossible, 0.0, np.exp(_sum_of_differences(new, old)))
    return float(ratio) if ratio.ndim == 0 else ratio


def refuse_active(name: str, values: Floats, active: Flags, *, allow_impossible: bool) -> None:
    """Refuse NaN and infinities under the mask; −inf, a probability of 0, may be let through."""
    wrong = active & ~np.isfinite(values)
    if allow_impossible:
        wrong &= values != -np.inf
    refuse_where(name, values, wrong, "finite or -inf" if allow_impossible else "finite")


def stable_sum(terms: Floats) -> Floats:
    """[..., T] → [...] sums, in which an overflow on the way to a finite sum does no harm."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.asarray(terms.sum(axis=-1))
        if np.isfinite(total).all():
            return total
        return np.asarray(np.ldexp(np.ldexp(terms, -64).sum(axis=-1), 64))


def _sum_of_differences(new: Floats, old: Floats) -> Floats:
    """[..., T] → [...] Σ (new − old); differences first, so that equal entries cancel exactly."""
    with np.errstate(over="ignore"):
        differences = new - old
    if np.isfinite(differences).all():
        return stable_sum(differences)
    return stable_sum(np.concatenate((new, -old), axis=-1))
