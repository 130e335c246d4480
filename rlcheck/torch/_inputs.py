"""Reading arguments as tensors: dtype and device are kept, refusals are those of the reference.

Floating tensors keep their dtype and device, and half precision is promoted to float32: a
log-probability rounded to bfloat16 is off by 0.03 (genlm/genlm-backend#66, huggingface/trl#7084).
Lists, arrays and integer tensors become float64, unless a floating tensor beside them decides.
Values are not checked while `torch.compile` traces, because a check would break the graph;
shapes and options always are.
"""

from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcheck import _inputs as reference
from rlcheck._inputs import Allowed, as_numbers, place

HALF_PRECISION_SLACK = 2e-2  # bfloat16 keeps eight bits
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def as_tensor(name: str, value: Any) -> Tensor:
    """Any array-like of real numbers as a tensor of its own dtype; arrays of floats as float64."""
    if isinstance(value, Tensor):
        if value.is_complex():
            raise TypeError(f"{name} is complex; real numbers are due")
        return value
    array = as_numbers(name, value)
    kind = np.float64 if array.dtype.kind == "f" else array.dtype.newbyteorder("=")
    return torch.tensor(np.asarray(array, dtype=kind))


def real_tensors(**named: Any) -> list[Tensor]:
    """The arguments as tensors of one floating dtype, on one device."""
    given = {name: as_tensor(name, value) for name, value in named.items()}
    own = [value for value in named.values() if isinstance(value, Tensor)]
    floating = [tensor.dtype for tensor in own if tensor.is_floating_point()]
    dtype = reduce(torch.promote_types, floating, torch.float32) if floating else torch.float64
    device = own[0].device if own else torch.device("cpu")
    return [tensor.to(device=device, dtype=dtype) for tensor in given.values()]


def flag_tensor(name: str, value: Any, like: Tensor) -> Tensor:
    """Booleans from 0/1 of any dtype, of the shape and on the device of `like`."""
    tensor = as_tensor(name, value).to(like.device)
    check_shape(name, tensor, like.shape)
    if tensor.dtype == torch.bool:
        return tensor
    refuse_where(name, tensor, (tensor != 0) & (tensor != 1), "0 or 1")
    return tensor == 1


def index_tensor(name: str, value: Any, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Ids or actions: integers by dtype, so that 1.0 is refused here."""
    tensor = as_tensor(name, value).to(device)
    check_shape(name, tensor, shape)
    if tensor.dtype not in INTEGERS:
        refuse_where(
            name, tensor, torch.ones_like(tensor, dtype=torch.bool), "an integer, not a float"
        )
    return tensor.to(torch.int64)


def check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse any other shape."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; it must have shape {tuple(shape)}"
        )


def refuse_where(name: str, values: Tensor, wrong: Tensor, rule: str) -> None:
    """Raise for the first entry where `wrong` holds; `rule` completes "must be …"."""
    if torch.compiler.is_compiling():
        return
    if wrong.any():
        index = tuple(int(i) for i in wrong.nonzero()[0])
        value = values.detach()[index].item()
        raise ValueError(f"{place(name, index)} is {value}; it must be {rule}")


def check_values(name: str, values: Tensor, allow: Allowed = "finite", rule: str = "") -> None:
    """Refuse NaN and infinities, as far as `allow` excludes them.

    Smallest and largest, which NaN passes through, take one look at the values.
    """
    if torch.compiler.is_compiling() or values.numel() == 0:
        return
    extremes = torch.stack(torch.aminmax(values.detach()))
    if allow == "finite" and not extremes.isfinite().all():
        refuse_where(name, values, ~values.isfinite(), rule or "finite")
    elif allow == "infinite" and extremes.isnan().any():
        refuse_where(name, values, values.isnan(), rule or "a number, not NaN")


def axis_of(name: str, value: Any, ndim: int) -> int:
    """An axis of a tensor of rank `ndim`, counted from the front."""
    if type(value) is int and -ndim <= value < ndim:
        return value % ndim
    return reference.axis_of(name, value, ndim)


def logit_rows(name: str, logits: Tensor, axis: int) -> None:
    """Refuse rows along `axis` without an entry or a finite maximum; −inf is a logit."""
    if logits.shape[axis] == 0:
        raise ValueError(f"{name} has shape {tuple(logits.shape)}; a distribution needs an entry")
    refuse_where(name, logits, logits.isnan() | (logits == torch.inf), "finite or -inf")
    impossible = logits.detach().amax(axis) == -torch.inf
    if not torch.compiler.is_compiling() and impossible.any():
        index = [str(i) for i in impossible.nonzero()[0].tolist()]
        index.insert(axis, ":")
        raise ValueError(f"{name}[{', '.join(index)}] is all -inf; one logit must be finite")


def sum_slack(probabilities: Any) -> float:
    """By how much probabilities may miss their sum of 1, as they came."""
    dtype = str(getattr(probabilities, "dtype", ""))
    if dtype.endswith("float16"):
        return HALF_PRECISION_SLACK
    single = dtype.endswith("float32")
    return reference.SINGLE_PRECISION_SLACK if single else reference.DOUBLE_PRECISION_SLACK


def within(like: Tensor, bound: float) -> float:
    """A bound, lowered to the largest number that the dtype of `like` holds."""
    return min(bound, torch.finfo(like.dtype).max)
