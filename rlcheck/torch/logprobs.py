"""Twins of `rlcheck.logprobs`: log-probabilities of tokens, differentiable, on any device.

A batch of logits fills gigabytes, so that the log-probability of the chosen tokens has a forward
and a backward pass of its own: both read the logits a block at a time, and the only array of
their size that is ever made is their gradient.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlcheck._inputs import place
from rlcheck.torch._inputs import (
    as_tensor,
    axis_of,
    check_shape,
    flag_tensor,
    index_tensor,
    logit_rows,
    real_tensors,
    refuse_where,
)
from rlcheck.torch._ops import refuse_forward_mode, safe_exp

__all__ = [
    "ResponseLogprobs",
    "SequenceMetrics",
    "causal_response_logprobs",
    "masked_sequence_metrics",
    "sequence_logprob_ratio",
    "stable_log_softmax",
]

# Logits that are worked on at a time, in float64 at worst. One thread is fastest within its cache;
# several, or a device, need more to do between their barriers.
SMALL_BLOCK, BLOCK = 2**20, 3 * 2**21


class ResponseLogprobs(NamedTuple):
    """Log-probability of every token but the first, and the response mask aligned with it."""

    selected: Tensor  # [B, L−1]; NaN where it is undefined
    shifted_mask: Tensor  # [B, L−1], bool


class SequenceMetrics(NamedTuple):
    """What the log-probabilities of each sequence's active tokens add up to."""

    token_count: Tensor  # [B], int64
    sum_logprob: Tensor  # [B]
    perplexity: Tensor  # [B]; NaN without tokens


def stable_log_softmax(logits: Any, axis: int = -1) -> Tensor:
    """Log-probabilities from logits, exact at any common offset.

    log p_i = (x_i − max x) − log Σ_j exp(x_j − max x)

    Args:
        logits: [..., V, ...] finite or −inf, with a finite logit in each row along `axis`.
        axis: the axis of the V alternatives.

    Returns:
        A tensor of the shape of `logits`; −inf where the logit is −inf, or lies below the
        maximum by more than the dtype can hold. Its gradient is g_i − p_i Σ_j g_j.

    Raises:
        ValueError: NaN, +inf, a row of −inf alone or without an entry, an axis out of range.
    """
    (logits,) = real_tensors(logits=logits)
    axis = axis_of("axis", axis, logits.ndim)
    logit_rows("logits", logits, axis)
    below = logits - logits.detach().amax(axis, keepdim=True)  # [..., V, ...], each ≤ 0
    return torch.sub(below, below.exp().sum(axis, keepdim=True).log())


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> ResponseLogprobs:
    """Log-probability that a causal model gave each token of its input, and the mask beside it.

    selected[b, t] = log softmax(logits[b, t])[input_ids[b, t + 1]], mask[b, t + 1] beside it

    Sums and differences are float64, and rounded once to the dtype of the result. Tensors of
    logits are read in place, a block at a time, whatever their strides.

    Args:
        logits: [B, L, V] the logits at t predict the token at t + 1; the last ones none.
        input_ids: [B, L] integers; outside the mask any, −100 labels among them.
        response_mask: [B, L] 1 where a token of the response stands; 0 at t = 0.

    Returns:
        `selected` [B, L−1], NaN outside the mask where the id is unknown or the row of logits
        holds NaN, +inf or only −inf; and `shifted_mask` [B, L−1], booleans. The gradient of a
        response token is onehot − softmax; tokens outside the mask are constants, and rows that
        predict no response token get exactly zero, whatever they hold. There is no second one.

    Raises:
        ValueError: the shapes disagree, the mask begins at t = 0, or under the mask an id lies
            outside [0, V) or a row of logits has no log-softmax.
    """
    logits = as_tensor("logits", logits)
    if not logits.is_floating_point():
        logits = logits.to(torch.float64)
    if logits.ndim != 3:
        raise ValueError(f"logits has shape {tuple(logits.shape)}; it must be [B, L, V]")
    vocabulary = logits.shape[2]
    ids = index_tensor("input_ids", input_ids, logits.shape[:2], logits.device)
    mask = flag_tensor("response_mask", response_mask, ids)
    refuse_where("response_mask", mask[:, :1], mask[:, :1], "0: nothing predicts it")
    known = (ids >= 0) & (ids < vocabulary)
    refuse_where("input_ids", ids, mask & ~known, f"in [0, {vocabulary}) under the mask")
    targets = torch.full_like(ids, -1, memory_format=torch.contiguous_format)
    targets[:, :-1] = torch.where(known, ids, -1)[:, 1:]  # the last logits score nothing
    refuse_forward_mode(logits)
    scores = _token_logprobs(logits, targets)[:, :-1]
    active = mask[:, 1:]
    _refuse_rows(logits, active & scores.isnan())
    selected = torch.where(active, scores, scores.detach())
    return ResponseLogprobs(selected.to(torch.promote_types(logits.dtype, torch.float32)), active)


@torch.library.custom_op("rlcheck::token_logprobs", mutates_args=())
def _token_logprobs(logits: Tensor, targets: Tensor) -> Tensor:
    """[B, L] float64 log softmax(logits[b, t]) at targets[b, t].

    NaN where the target is negative, or the row of logits has no log-softmax.
    """
    scores = torch.full_like(targets, torch.nan, dtype=torch.float64)
    size = _rows_of_a_block(logits)
    space = logits.new_empty((size, logits.shape[2]), dtype=torch.float64)
    for rows, ids, score in _blocks(size, logits, targets, scores):
        known = ids >= 0  # [n]
        if known.any():
            logprobs = space[: len(rows)].copy_(rows)  # [n, V]
            torch.log_softmax(logprobs, 1, out=logprobs)  # in place
            taken = logprobs.gather(1, ids.clamp(min=0).unsqueeze(1)).squeeze(1)
            score.copy_(torch.where(known, taken, torch.nan))
    return scores


@torch.library.custom_op("rlcheck::token_logprobs_backward", mutates_args=())
def _token_logprobs_backward(
    grads: Tensor, logits: Tensor, targets: Tensor, scores: Tensor
) -> Tensor:
    """g (onehot − softmax), [B, L, V], in the dtype of the logits; 0 in each row where g is 0."""
    gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
    half = logits.dtype.itemsize < 4
    size = _rows_of_a_block(logits)
    for rows, out, ids, g, score in _blocks(size, logits, gradient, targets, grads, scores):
        wanted = g != 0  # [n]
        if not wanted.any():
            out.zero_()
            continue
        softmax = rows.float().softmax(1) if half else torch.softmax(rows, 1, out=out)
        # Over a large vocabulary float32 softmax adds up to 1 ± 3e-5; each entry is better.
        factor = (-g / softmax.sum(1)).to(softmax.dtype)
        out.copy_(softmax.mul_(factor.unsqueeze(1)))
        chosen = -g * score.expm1()  # 1 − p, without cancellation at p near 1
        out.scatter_(1, ids.clamp(min=0).unsqueeze(1), chosen.to(out.dtype).unsqueeze(1))
        if not wanted.all():
            out.masked_fill_(~wanted.unsqueeze(1), 0.0)
    return gradient


def _rows_of_a_block(logits: Tensor) -> int:
    batch, length, vocabulary = logits.shape
    alone = logits.device.type == "cpu" and torch.get_num_threads() == 1
    rows = (SMALL_BLOCK if alone else BLOCK) // max(1, vocabulary)
    return max(1, min(rows, batch * length))


def _blocks(size: int, logits: Tensor, *aligned: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Views of n ≤ size rows [n, V] or [n] of every tensor [B, L, V] or [B, L]."""
    tensors = (logits, *aligned)
    flat = logits.is_contiguous()  # otherwise flatten would copy them
    sheets = [[x.flatten(0, 1) for x in tensors]] if flat else zip(*tensors, strict=True)
    for sheet in sheets:
        yield from zip(*(torch.split(x, size) for x in sheet), strict=True)


@_token_logprobs.register_fake
def _(logits: Tensor, targets: Tensor) -> Tensor:
    return torch.empty_like(targets, dtype=torch.float64)


@_token_logprobs_backward.register_fake
def _(grads: Tensor, logits: Tensor, targets: Tensor, scores: Tensor) -> Tensor:
    return torch.empty_like(logits, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs, output)


def _differentiate(ctx: Any, grads: Tensor) -> tuple[Tensor, None]:
    return _token_logprobs_backward(grads, *ctx.saved_tensors), None


_token_logprobs.register_autograd(_differentiate, setup_context=_save)


def _refuse_rows(logits: Tensor, wrong: Tensor) -> None:
    """Raise for the first row of logits under the mask that is no distribution."""
    if torch.compiler.is_compiling() or not wrong.any():
        return
    b, t = wrong.nonzero()[0].tolist()
    row = logits.detach()[b, t]
    for v in (~(row < torch.inf)).nonzero().flatten().tolist():
        where = place("logits", (b, t, v))
        raise ValueError(f"{where} is {row[v].item()}; it must be finite or -inf under the mask")
    raise ValueError(f"{place('logits', (b, t))} is all -inf; one logit must be finite")


def masked_sequence_metrics(selected: Any, mask: Any) -> SequenceMetrics:
    """Token count, log-probability and perplexity of each sequence, over its active tokens.

    n = Σ_t m_t, S = Σ_{t: m_t = 1} log p_t, perplexity = exp(−S / n)

    Args:
        selected: [B, T] log-probabilities; −inf is one, NaN and +inf are refused under the mask.
            What stands where the mask is 0 is never read.
        mask: [B, T] 1 where a token counts.

    Returns:
        `token_count`, `sum_logprob`, `perplexity`, each [B]. A sequence without active tokens
        has count 0, sum 0.0 and perplexity NaN. The gradient of an active token is 1 in the sum
        and −perplexity / n in the perplexity; elsewhere it is 0.

    Raises:
        ValueError: the shapes disagree, or NaN or +inf stands under the mask.
    """
    (selected,) = real_tensors(selected=selected)
    if selected.ndim != 2:
        raise ValueError(f"selected has shape {tuple(selected.shape)}; it must be a matrix")
    active = flag_tensor("mask", mask, selected)
    _refuse_active("selected", selected, active, allow_impossible=True)
    terms = torch.where(active, selected, 0.0)
    count = active.sum(1)  # [B, T] → [B]
    mean = _stable_sum(terms / count.clamp(min=1).unsqueeze(1))
    perplexity = torch.where(count > 0, safe_exp(-mean), torch.nan)
    return SequenceMetrics(count, _stable_sum(terms), perplexity)


def sequence_logprob_ratio(new_logprobs: Any, old_logprobs: Any, mask: Any = None) -> Tensor:
    """Probability of a whole sequence under the new policy over that under the old one.

    ρ = exp(Σ_{t: m_t = 1} (log π_new,t − log π_old,t)), along the last axis

    Args:
        new_logprobs: [..., T] log-probabilities of the sampled tokens; −inf gives 0.0.
        old_logprobs: [..., T] those of the policy that sampled them, finite.
        mask: [..., T] 1 where a token counts, None for all. What stands elsewhere is never read.

    Returns:
        [...], one ratio for each sequence; 1.0 without active tokens, inf where the ratio is
        beyond the dtype. The gradient is ρ by an active new log-probability, and −ρ by an old
        one; elsewhere it is 0.

    Raises:
        ValueError: the shapes disagree, or under the mask NaN or +inf stands, or −inf in
            `old_logprobs`, which its policy cannot have sampled.
    """
    new, old = real_tensors(new_logprobs=new_logprobs, old_logprobs=old_logprobs)
    if new.ndim == 0:
        raise ValueError(f"new_logprobs is {new.item()}, a scalar; it must have an axis of tokens")
    check_shape("old_logprobs", old, new.shape)
    everywhere = torch.ones_like(new, dtype=torch.bool)
    active = everywhere if mask is None else flag_tensor("mask", mask, new)
    _refuse_active("new_logprobs", new, active, allow_impossible=True)
    _refuse_active("old_logprobs", old, active, allow_impossible=False)
    impossible = (active & (new == -torch.inf)).any(-1)  # [..., T] → [...]
    counted = active & new.isfinite()
    new, old = torch.where(counted, new, 0.0), torch.where(counted, old, 0.0)
    return torch.where(impossible, 0.0, safe_exp(_sum_of_differences(new, old)))


def _refuse_active(name: str, values: Tensor, active: Tensor, *, allow_impossible: bool) -> None:
    """Refuse NaN and infinities under the mask; −inf, a probability of 0, may be let through."""
    wrong = active & ~values.isfinite()
    if allow_impossible:
        wrong = wrong & (values != -torch.inf)
    refuse_where(name, values, wrong, "finite or -inf" if allow_impossible else "finite")


def _stable_sum(terms: Tensor) -> Tensor:
    """[..., T] → [...] sums, in which an overflow on the way to a finite sum does no harm."""
    total = terms.sum(-1)
    return torch.where(total.isfinite(), total, (terms * 2.0**-64).sum(-1) * 2.0**64)


def _sum_of_differences(new: Tensor, old: Tensor) -> Tensor:
    """[..., T] → [...] Σ (new − old); differences first, so that equal entries cancel exactly."""
    differences = new - old
    finite = differences.isfinite().all(-1)
    joined = torch.cat((new, -old), dim=-1)
    return torch.where(finite, _stable_sum(differences), _stable_sum(joined))
