"""Elementary operations whose gradients stay finite where autograd's own are NaN."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


class _SafeExp(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,), (power,) = grads, ctx.saved_tensors
        silent = (grad == 0) & ~torch.isfinite(power)
        return grad * torch.where(silent, 0.0, power)


def safe_exp(x: Tensor) -> Tensor:
    """eˣ; whatever its value, a zero that comes back through it stays zero.

    Autograd multiplies the gradient that comes back by eˣ: 0 · inf = NaN behind every mask, clip
    or minimum that is applied after an overflow.

    Args:
        x: a floating tensor of any shape.

    Returns:
        eˣ, inf where it overflows. The gradient is g · eˣ for an incoming g ≠ 0, else 0.
    """
    apply: Callable[[Tensor], Tensor] = _SafeExp.apply
    return apply(x)


def refuse_forward_mode(x: Tensor) -> None:
    """Raise where a tangent would be lost: operators of ours have a backward pass only."""
    if torch.compiler.is_compiling():
        return
    if forward_ad.unpack_dual(x).tangent is not None:
        raise NotImplementedError("no forward-mode derivative here; use reverse mode")
