"""The surrogate loss of PPO, GRPO and GSPO, differentiable: ratios, clipping, aggregation."""

from typing import Any

import torch
from torch import Tensor

from rlcheck._inputs import choice, integer, scalar
from rlcheck.policy_gradients import MODES
from rlcheck.torch._inputs import (
    check_shape,
    check_values,
    flag_tensor,
    real_tensors,
    refuse_where,
    within,
)
from rlcheck.torch._ops import safe_exp

__all__ = ["aggregate_token_losses", "clipped_policy_terms", "importance_ratios"]


def importance_ratios(
    new_logprobs: Any, old_logprobs: Any, mask: Any, *, level: str = "token"
) -> Tensor:
    """Probability ratios of a policy to the one that sampled, for each token.

    token:     ρ_t = π_new(t) / π_old(t) = exp(log π_new − log π_old)
    sequence:  ρ_t = exp(mean over the row's active tokens of log π_new − log π_old)

    Args:
        new_logprobs: [B, T] log-probabilities under the policy being trained; −inf gives 0.
        old_logprobs: [B, T] those of the policy that sampled the tokens, finite.
        mask: [B, T] 1 where a token counts.
        level: "token" as in PPO and GRPO, or "sequence" as in GSPO.

    Returns:
        [B, T] ratios, 1.0 where the mask is 0. ∂ρ/∂log π_new = ρ, spread evenly over the row's
        active tokens at the sequence level; 0 where the mask is 0, and 0 wherever the loss does
        not follow an infinite ratio.

    Raises:
        ValueError: as `rlcheck.importance_ratios`.
    """
    new, old = real_tensors(new_logprobs=new_logprobs, old_logprobs=old_logprobs)
    if new.ndim != 2:
        raise ValueError(f"new_logprobs has shape {tuple(new.shape)}; it must be a matrix")
    check_shape("old_logprobs", old, new.shape)
    active = flag_tensor("mask", mask, new)
    wrong = new.isnan() | (new == torch.inf)
    refuse_where("new_logprobs", new, active & wrong, "finite or -inf")
    new, old = torch.where(active, new, 0.0), torch.where(active, old, 0.0)
    check_values("old_logprobs", old)
    level = choice("level", level, ("token", "sequence"))
    log_ratio = new - old
    if level == "sequence":
        count = active.sum(dim=-1, keepdim=True).clamp(min=1)  # [B, 1]
        log_ratio = (log_ratio / count).sum(dim=-1, keepdim=True)  # [B, T] → [B, 1]
    return torch.where(active, safe_exp(log_ratio), 1.0)


def clipped_policy_terms(
    ratios: Any,
    advantages: Any,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Tensor:
    """Clipped surrogate losses of PPO, one for each token; to be minimised.

    ℓ = −min(ρ A, clip(ρ, 1 − low, 1 + high) A), and ℓ ≤ −c A where A < 0 with a dual clip c

    Args:
        ratios: ρ ≥ 0 of any shape; inf is a ratio beyond the dtype.
        advantages: A in the shape of `ratios`, finite.
        clip_low: how far below 1 the ratio is followed, in (0, 1).
        clip_high: how far above 1, > 0.
        dual_clip: c > 1, which bounds what a ratio far above 1 costs where A < 0; None for none.

    Returns:
        Loss terms in the shape of `ratios`. ∂ℓ/∂ρ = −A while the ratio is followed, 0 where it
        is clipped.

    Raises:
        ValueError: as `rlcheck.clipped_policy_terms`.
    """
    ratios, advantages = real_tensors(ratios=ratios, advantages=advantages)
    check_shape("advantages", advantages, ratios.shape)
    check_values("ratios", ratios, allow="infinite")
    refuse_where("ratios", ratios, ratios < 0, "≥ 0")
    check_values("advantages", advantages)
    low, high = scalar("clip_low", clip_low), scalar("clip_high", clip_high)
    if not 0.0 < low < 1.0:
        raise ValueError(f"clip_low is {low}; it must lie in (0, 1)")
    if high <= 0.0:
        raise ValueError(f"clip_high is {high}; it must be > 0")
    bound = torch.inf if dual_clip is None else scalar("dual_clip", dual_clip)
    if bound <= 1.0:
        raise ValueError(f"dual_clip is {bound}; it must be > 1")
    # The surrogate follows the ratio up to 1 + high where A ≥ 0, from 1 − low on where A < 0.
    up = ratios.clamp(max=within(ratios, 1.0 + high))
    down = ratios.clamp(min=1.0 - low, max=bound if bound == torch.inf else within(ratios, bound))
    return 0.0 - torch.where(advantages < 0, down, up) * advantages  # not −0.0


def aggregate_token_losses(
    losses: Any, mask: Any, mode: str, *, max_length: int | None = None
) -> Tensor:
    """One loss from the losses of tokens: Σ w_bt ℓ_bt over the active tokens.

    With N active tokens in all, n_b in row b, and R rows that have any:

    token-mean               w = 1 / N
    seq-mean-token-mean      w = 1 / (R n_b)
    seq-mean-token-sum       w = 1 / B
    seq-mean-token-sum-norm  w = 1 / (B · max_length)

    Args:
        losses: [B, T] finite where the mask is 1, never read elsewhere.
        mask: [B, T] 1 where a token counts.
        mode: which weights.
        max_length: the normaliser of "seq-mean-token-sum-norm"; no other mode takes one.

    Returns:
        A scalar tensor, 0.0 without active tokens. ∂/∂ℓ = w under the mask, 0 elsewhere.

    Raises:
        ValueError: as `rlcheck.aggregate_token_losses`.
    """
    (losses,) = real_tensors(losses=losses)
    if losses.ndim != 2:
        raise ValueError(f"losses has shape {tuple(losses.shape)}; it must be a matrix")
    active = flag_tensor("mask", mask, losses)
    losses = torch.where(active, losses, 0.0)
    check_values("losses", losses, rule="finite under the mask")
    return (losses / _shares(active, choice("mode", mode, MODES), max_length)).sum()


def _shares(active: Tensor, mode: str, max_length: int | None) -> Tensor | int:
    """1 / w of the active tokens: one number, or [B, 1]."""
    rows = max(active.shape[0], 1)
    if mode == "seq-mean-token-sum-norm":
        if max_length is None:
            raise ValueError(f"max_length is None; mode {mode} needs it")
        return rows * integer("max_length", max_length, minimum=1)
    if max_length is not None:
        raise ValueError(f"max_length is {max_length}; mode {mode} takes none")
    if mode == "seq-mean-token-sum":
        return rows
    if mode == "token-mean":
        return active.sum().clamp(min=1)
    count = active.sum(dim=1, keepdim=True)  # [B, 1]
    return count.clamp(min=1) * (count > 0).sum().clamp(min=1)
