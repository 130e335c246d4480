"""Arguments as tensors, and gradients of answers, for submissions that are written in PyTorch.

This module stands alone (numpy, and torch where it is used), because the worker loads it from
its file, in a process where rlcheck itself cannot be imported.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class Backward(NamedTuple):
    """Which gradient to take: that of Σ weights · answer, with respect to one argument."""

    wrt: int | str  # the argument's position, or its name where it is given by name
    weights: Any = None  # of the answer's entries; None for 1 each
    field: tuple[str, int] | None = None  # of a record: its name, and its place in a tuple


class NoGradient(TypeError):
    """An answer that has no gradient to take."""


def as_tensor(value: Any) -> Any:
    """Numbers in an array, list or tuple as a tensor of their own; anything else as it is.

    Floats become float64 (arrays keep their dtype), integers int64, booleans bool.
    """
    import torch

    if isinstance(value, list | tuple):
        try:
            value_array = np.asarray(value)
        except (ValueError, OverflowError):  # ragged, or integers beyond int64
            return value
        return torch.from_numpy(value_array) if value_array.dtype.kind in "bif" else value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return torch.tensor(value.astype(value.dtype.newbyteorder("=")))
    return value


def with_tensors(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The answer to a call with tensors, and its arguments as the call left them."""
    tensors = tuple(map(as_tensor, args))
    named = {name: as_tensor(value) for name, value in kwargs.items()}
    answer = function(*tensors, **named)
    return (
        answer,
        tuple(map(_left, args, tensors)),
        {name: _left(value, named[name]) for name, value in kwargs.items()},
    )


def _left(given: Any, tensor: Any) -> Any:
    """What was given, unless the call changed the tensor that was made of it."""
    made = as_tensor(given)
    if made is given:
        return given
    same = tensor.shape == made.shape and tensor.dtype == made.dtype
    same = same and np.array_equal(tensor.detach().numpy(), made.numpy(), equal_nan=True)
    return given if same else tensor.detach().numpy()


def differentiate(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], backward: Backward
) -> tuple[Any, Any]:
    """The answer to a call with tensors, and the gradient; 0 where none flows.

    Raises:
        NoGradient: the answer, or its field, is no tensor of floats or has another shape than
            the weights.
    """
    import torch

    tensors = list(map(as_tensor, args))
    named = {name: as_tensor(value) for name, value in kwargs.items()}
    holder: Any = named if isinstance(backward.wrt, str) else tensors
    leaf = holder[backward.wrt].detach().clone()
    leaf = leaf if leaf.is_floating_point() else leaf.to(torch.float64)
    holder[backward.wrt] = leaf.requires_grad_()
    with torch.enable_grad():
        answer = function(*tensors, **named)
        picked = _pick(answer, backward.field)
        weights = torch.ones_like(picked)
        if backward.weights is not None:
            weights = torch.as_tensor(backward.weights, dtype=picked.dtype)
        if picked.shape != weights.shape:
            shape = tuple(picked.shape)
            raise NoGradient(f"the answer has shape {shape}; {tuple(weights.shape)} is due")
        gradient = None
        if picked.requires_grad:
            (gradient,) = torch.autograd.grad(picked, leaf, weights, allow_unused=True)
    return answer, (torch.zeros_like(leaf) if gradient is None else gradient).detach().numpy()


def _pick(answer: Any, field: tuple[str, int] | None) -> Any:
    """The tensor that is differentiated: the answer, or one field of a record or tuple."""
    import torch

    if field is not None:
        name, place = field
        if isinstance(answer, Mapping):
            answer = answer.get(name)
        elif isinstance(answer, list | tuple) and not hasattr(answer, name):
            answer = answer[place] if place < len(answer) else None
        else:
            answer = getattr(answer, name, None)
    if isinstance(answer, list | tuple) and all(torch.is_tensor(entry) for entry in answer):
        answer = torch.stack(tuple(answer)) if answer else None
    if not isinstance(answer, torch.Tensor) or not answer.is_floating_point():
        what = "the answer" if field is None else field[0]
        raise NoGradient(f"{what} is no tensor of floats, so that no gradient flows")
    return answer
