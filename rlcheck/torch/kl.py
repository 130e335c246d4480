"""The Kullback-Leibler divergence and its sampled estimators, differentiable."""

from typing import Any

import torch
from torch import Tensor

from rlcheck._inputs import choice
from rlcheck.torch._inputs import axis_of, check_shape, check_values, logit_rows, real_tensors
from rlcheck.torch.logprobs import stable_log_softmax

__all__ = ["exact_kl_from_logits", "kl_penalty_terms"]

SERIES = 0.5  # below this |x|, exp(x) − 1 − x comes from its power series


def exact_kl_from_logits(q_logits: Any, p_logits: Any, axis: int = -1) -> Tensor:
    """Kullback-Leibler divergence from q to p, of each row of logits.

    KL(q‖p) = Σ_i q_i (log q_i − log p_i), where q_i = 0 contributes 0

    Args:
        q_logits: [..., V, ...] finite or −inf, with a finite logit in each row along `axis`.
        p_logits: the same for p.
        axis: the axis of the V alternatives.

    Returns:
        [..., ...] without that axis; inf where p_i = 0 < q_i. ∂/∂q_logits = q (log q/p − KL),
        ∂/∂p_logits = p − q; both 0 where the divergence is infinite.

    Raises:
        ValueError: as `rlcheck.exact_kl_from_logits`.
    """
    q_logits, p_logits = real_tensors(q_logits=q_logits, p_logits=p_logits)
    check_shape("p_logits", p_logits, q_logits.shape)
    for name, logits in (("q_logits", q_logits), ("p_logits", p_logits)):
        logit_rows(name, logits, axis_of("axis", axis, logits.ndim))
    log_q, log_p = stable_log_softmax(q_logits, axis), stable_log_softmax(p_logits, axis)
    possible = log_q > -torch.inf
    infinite = (possible & (log_p == -torch.inf)).any(dim=axis, keepdim=True)
    counts = possible & ~infinite
    log_q = torch.where(counts, log_q, 0.0)
    terms = torch.where(counts, log_q.exp() * (log_q - torch.where(counts, log_p, 0.0)), 0.0)
    divergence = terms.sum(dim=axis)
    divergence = divergence + torch.relu(-divergence).detach()  # rounding below 0, not the slope
    return torch.where(infinite.squeeze(axis), torch.inf, divergence)


def kl_penalty_terms(logprobs: Any, ref_logprobs: Any, estimator: str) -> Tensor:
    """Estimates of KL(π‖ref) from tokens that π sampled, one for each token.

    With r = π_ref / π at the sampled token: k1 = −log r, k2 = ½ log² r, k3 = r − 1 − log r

    Under samples from π, E[∇k2] is the gradient of KL(π‖ref), while E[∇k1] = 0 and E[∇k3] is
    that of KL(ref‖π) (verl-project/verl#2953): as a loss, only k2 descends the divergence that
    all three of them estimate.

    Args:
        logprobs: log π of the sampled tokens, finite, of any shape.
        ref_logprobs: log π_ref of the same tokens, finite, in the same shape.
        estimator: "k1", "k2" or "k3".

    Returns:
        Terms in the shape of `logprobs`. ∂/∂log π is 1, log π − log π_ref, or 1 − r.

    Raises:
        ValueError: as `rlcheck.kl_penalty_terms`.
    """
    logprobs, ref_logprobs = real_tensors(logprobs=logprobs, ref_logprobs=ref_logprobs)
    check_shape("ref_logprobs", ref_logprobs, logprobs.shape)
    check_values("logprobs", logprobs)
    check_values("ref_logprobs", ref_logprobs)
    estimator = choice("estimator", estimator, ("k1", "k2", "k3"))
    log_r = ref_logprobs - logprobs
    if estimator == "k1":
        return -log_r
    terms: Tensor = 0.5 * log_r * log_r if estimator == "k2" else _Excess.apply(log_r)
    return terms


class _Excess(torch.autograd.Function):
    """exp(x) − 1 − x, accurate near 0; its slope expm1(x) is 0 where no gradient comes in."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        near = x.abs() < SERIES
        small = torch.where(near, x, 0.0)
        series = torch.ones_like(x)
        for n in range(18, 2, -1):  # 2 (exp(x) − 1 − x) / x² = 1 + x/3 (1 + x/4 (1 + …))
            series = 1.0 + small / n * series
        far = torch.where(near, 0.0, x.clamp(max=1e3))
        return torch.where(near, 0.5 * small * small * series, far.expm1() - far)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(gradient == 0, 0.0, gradient * x.expm1())
