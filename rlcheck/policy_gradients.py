"""The surrogate loss of PPO, GRPO and GSPO: ratios, clipping, aggregation over tokens.

Where the mask is 1, a token of the policy counts; what stands elsewhere is never read.
"""

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import (
    Flags,
    Floats,
    choice,
    flags,
    integer,
    real_array,
    refuse_where,
    scalar,
)
from rlcheck.logprobs import refuse_active, stable_sum
from rlcheck.returns import exact_sum

__all__ = ["aggregate_token_losses", "clipped_policy_terms", "importance_ratios"]

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")


def importance_ratios(
    new_logprobs: ArrayLike, old_logprobs: ArrayLike, mask: ArrayLike, *, level: str = "token"
) -> Floats:
    """Probability ratios of a policy to the one that sampled, for each token.

    token:     ρ_t = π_new(t) / π_old(t) = exp(log π_new − log π_old)
    sequence:  ρ_t = exp(mean over the row's active tokens of log π_new − log π_old)

    Args:
        new_logprobs: [B, T] log-probabilities under the policy being trained; −inf gives 0.
        old_logprobs: [B, T] those of the policy that sampled the tokens, finite.
        mask: [B, T] 1 where a token counts.
        level: "token" as in PPO and GRPO, or "sequence" as in GSPO.

    Returns:
        [B, T] ratios: 1.0 where the mask is 0, exactly 1.0 where the log-probabilities are
        equal, inf beyond float64.

    Raises:
        ValueError: the shapes differ, a log-probability under the mask is NaN or +inf, or −inf in
            `old_logprobs`; a flag is not 0 or 1; the level is unknown.

    Reference:
        Schulman et al. (2017), Proximal policy optimization algorithms, section 3; Zheng et al.
        (2025), Group sequence policy optimization, equation 7.
    """
    new = real_array("new_logprobs", new_logprobs, ndim=2, allow="anything")
    old = real_array("old_logprobs", old_logprobs, shape=new.shape, allow="anything")
    active = flags("mask", mask, shape=new.shape)
    refuse_active("new_logprobs", new, active, allow_impossible=True)
    refuse_active("old_logprobs", old, active, allow_impossible=False)
    level = choice("level", level, ("token", "sequence"))
    new, old = np.where(active, new, 0.0), np.where(active, old, 0.0)
    with np.errstate(over="ignore"):
        log_ratio = new - old
        if level == "sequence":
            count = np.maximum(active.sum(axis=-1, keepdims=True), 1)  # [B, 1]
            share = np.where(np.isinf(log_ratio), new / count - old / count, log_ratio / count)
            log_ratio = stable_sum(share)[..., np.newaxis]  # [B, T] → [B, 1]
        return np.where(active, np.exp(log_ratio), 1.0)


def clipped_policy_terms(
    ratios: ArrayLike,
    advantages: ArrayLike,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> float | Floats:
    """Clipped surrogate losses of PPO, one for each token; to be minimised.

    ℓ = −min(ρ A, clip(ρ, 1 − low, 1 + high) A), and ℓ ≤ −c A where A < 0 with a dual clip c

    Args:
        ratios: ρ ≥ 0 of any shape; inf is a ratio beyond float64.
        advantages: A in the shape of `ratios`, finite.
        clip_low: how far below 1 the ratio is followed, in (0, 1).
        clip_high: how far above 1, > 0.
        dual_clip: c > 1, which bounds what a ratio far above 1 costs where A < 0; None for none.

    Returns:
        Loss terms in the shape of `ratios`. At ρ = inf: −(1 + high) A where A > 0, 0 where
        A = 0, inf (or −c A) where A < 0.

    Raises:
        ValueError: the shapes differ, a ratio is negative or NaN, an advantage is not finite, an
            option is out of range.

    Reference:
        Schulman et al. (2017), equation 7; Yu et al. (2025), DAPO, equation 10, for unequal
        clips; Ye et al. (2020), Mastering complex control in MOBA games, for the dual clip.
    """
    ratios = real_array("ratios", ratios, allow="infinite")
    refuse_where("ratios", ratios, ratios < 0, "≥ 0")
    advantages = real_array("advantages", advantages, shape=ratios.shape)
    low, high = scalar("clip_low", clip_low), scalar("clip_high", clip_high)
    if not 0.0 < low < 1.0:
        raise ValueError(f"clip_low is {low}; it must lie in (0, 1)")
    if high <= 0.0:
        raise ValueError(f"clip_high is {high}; it must be > 0")
    bound = np.inf if dual_clip is None else scalar("dual_clip", dual_clip)
    if bound <= 1.0:
        raise ValueError(f"dual_clip is {bound}; it must be > 1")
    # The surrogate follows the ratio up to 1 + high where A ≥ 0, from 1 − low on where A < 0.
    down = np.minimum(np.maximum(ratios, 1.0 - low), bound)
    followed = np.where(advantages < 0, down, np.minimum(ratios, 1.0 + high))
    with np.errstate(over="ignore"):
        terms = np.asarray(0.0 - followed * advantages)  # not −0.0
    return float(terms) if terms.ndim == 0 else terms


def aggregate_token_losses(
    losses: ArrayLike, mask: ArrayLike, mode: str, *, max_length: int | None = None
) -> float:
    """One loss from the losses of tokens: Σ w_bt ℓ_bt over the active tokens.

    With N active tokens in all, n_b in row b, and R rows that have any:

    token-mean               w = 1 / N
    seq-mean-token-mean      w = 1 / (R n_b)
    seq-mean-token-sum       w = 1 / B
    seq-mean-token-sum-norm  w = 1 / (B · max_length)

    Args:
        losses: [B, T] finite where the mask is 1.
        mask: [B, T] 1 where a token counts.
        mode: which weights.
        max_length: the normaliser of "seq-mean-token-sum-norm", an integer ≥ 1 (4.0 counts as
            4); no other mode takes one.

    Returns:
        The loss; 0.0 without active tokens.

    Raises:
        ValueError: the shapes differ, a loss under the mask is not finite, a flag is not 0 or 1,
            the mode is unknown, or max_length is missing, out of range or out of place.

    Reference:
        Shao et al. (2024), equation 3 (seq-mean-token-mean); Yu et al. (2025), equation 8
        (token-mean); Liu et al. (2025), Understanding R1-Zero-like training, section 3.2
        (seq-mean-token-sum-norm).
    """
    losses = real_array("losses", losses, ndim=2, allow="anything")
    active = flags("mask", mask, shape=losses.shape)
    refuse_where("losses", losses, active & ~np.isfinite(losses), "finite under the mask")
    weights = _token_weights(active, choice("mode", mode, MODES), max_length)
    return exact_sum((weights * np.where(active, losses, 0.0)).ravel())


def _token_weights(active: Flags, mode: str, max_length: int | None) -> Floats:
    """[B, 1] the weight of each active token of a row, as `aggregate_token_losses` has them."""
    rows, count = len(active), active.sum(axis=1, keepdims=True)  # [B, 1]
    if mode == "seq-mean-token-sum-norm":
        if max_length is None:
            raise ValueError(f"max_length is None; mode {mode} needs it")
        return np.full((rows, 1), 1.0 / integer("max_length", max_length, minimum=1) / max(rows, 1))
    if max_length is not None:
        raise ValueError(f"max_length is {max_length}; mode {mode} takes none")
    if mode == "seq-mean-token-sum":
        return np.full((rows, 1), 1.0 / max(rows, 1))
    if mode == "token-mean":
        return np.full((rows, 1), 1.0 / max(int(count.sum()), 1))
    share = np.maximum(count, 1) * max(int((count > 0).sum()), 1)
    return np.asarray(1.0 / share)
