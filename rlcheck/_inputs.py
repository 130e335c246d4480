"""Reading arguments: every array-like becomes float64, every refusal names argument, index, value.

The functions here are the first lines of every reference function. They return new arrays or
views that nobody writes to, so that a caller's data is never modified.
"""

from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.int64]
Allowed: TypeAlias = Literal["finite", "infinite", "anything"]

SINGLE_PRECISION_SLACK = 1e-4  # a probability vector rounded to float32 or coarser
DOUBLE_PRECISION_SLACK = 1e-6  # one given in double precision


def place(name: str, index: tuple[int, ...]) -> str:
    """`name[i, j]`, or `name` alone for a scalar."""
    return f"{name}[{', '.join(str(int(i)) for i in index)}]" if index else name


def refuse_where(name: str, values: NDArray[Any], wrong: Flags, rule: str) -> None:
    """Raise for the first entry where `wrong` holds; `rule` completes "must be …"."""
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{place(name, index)} is {values[index]}; it must be {rule}")


def as_numbers(name: str, value: Any) -> NDArray[Any]:
    """Any array-like of real numbers as an array of bool, int or float dtype.

    Raises:
        TypeError: text, None, a mapping, a set, complex numbers or objects that are no numbers.
        ValueError: rows of different lengths.
    """
    if type(value) is np.ndarray and value.dtype.kind in "fbiu":
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        value = np.ma.filled(value.astype(np.float64), np.nan)  # what is masked is no number
    if isinstance(value, str | bytes | Mapping | set | frozenset) or value is None:
        raise TypeError(f"{name} is {_short(value)}; numbers are due")
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} is ragged: its rows have different lengths") from None
    if array.dtype.kind in "fbiu":
        return array
    if array.dtype.kind == "O":
        return _from_objects(name, array)
    index, entry = _first_entry(array, value)
    raise TypeError(f"{place(name, index)} is {_short(entry)}; numbers are due")


def _from_objects(name: str, array: NDArray[Any]) -> Floats:
    """Numbers that NumPy keeps as objects: large integers, fractions, decimals."""
    for index in np.ndindex(array.shape):
        entry = array[index]
        if not isinstance(entry, Real) and not hasattr(entry, "as_integer_ratio"):
            raise TypeError(f"{place(name, index)} is {_short(entry)}; numbers are due")
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} holds an integer beyond the range of float64") from None


def _first_entry(array: NDArray[Any], value: Any) -> tuple[tuple[int, ...], Any]:
    """The first entry that is no number, looked up in what the caller really gave."""
    for index in np.ndindex(array.shape):
        entry = value
        try:
            for i in index:
                entry = entry[i]
        except (TypeError, KeyError, IndexError):
            entry = array[index]
        if not isinstance(entry, Real):
            return index, entry
    return (), value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def real_array(
    name: str,
    value: ArrayLike,
    *,
    ndim: int | None = None,
    shape: tuple[int, ...] | None = None,
    allow: Allowed = "finite",
) -> Floats:
    """[...] float64; refuses another rank or shape, and what `allow` excludes.

    `allow`: "finite" refuses NaN and infinities, "infinite" refuses NaN only, "anything" neither.
    """
    with np.errstate(over="ignore"):  # of a number that is wider: it is infinite here
        array = as_numbers(name, value).astype(np.float64, copy=False)
    if ndim is not None and array.ndim != ndim:
        kind = {0: "a scalar", 1: "a vector", 2: "a matrix"}.get(ndim, f"of rank {ndim}")
        raise ValueError(f"{name} has shape {array.shape}; it must be {kind}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must have shape {shape}")
    if allow == "finite":
        refuse_where(name, array, ~np.isfinite(array), "finite")
    elif allow == "infinite":
        refuse_where(name, array, np.isnan(array), "a number, not NaN")
    return array


def vector(
    name: str, value: ArrayLike, *, length: int | None = None, allow: Allowed = "finite"
) -> Floats:
    """[T] float64, of the given length where one is due."""
    array = real_array(name, value, ndim=1, allow="anything")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has length {len(array)}; it must have length {length}")
    return real_array(name, array, allow=allow)


def scalar(name: str, value: Any, *, allow: Allowed = "finite") -> float:
    """A float; an array of one entry is refused unless it has no axes."""
    if type(value) in (float, int) and abs(value) < 2**53:
        return float(value)
    return float(real_array(name, value, ndim=0, allow=allow))


def unit_interval(name: str, value: Any) -> float:
    """A discount or trace decay: a float in [0, 1]."""
    number = scalar(name, value, allow="anything")
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} is {number}; it must lie in [0, 1]")
    return number


def integer(name: str, value: Any, *, minimum: int) -> int:
    """An integer scalar ≥ minimum; 4.0 counts as 4."""
    number = scalar(name, value)
    if number != int(number) or number < minimum:
        raise ValueError(f"{name} is {value}; it must be an integer ≥ {minimum}")
    return int(value)


def checked_seed(value: Any) -> int | None:
    """A seed, None for none."""
    return None if value is None else integer("seed", value, minimum=0)


def flags(name: str, value: ArrayLike, *, shape: tuple[int, ...] | None = None) -> Flags:
    """Booleans from 0/1 of any dtype."""
    array = as_numbers(name, value)
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must have shape {shape}")
    if array.dtype.kind != "b":
        refuse_where(name, array, (array != 0) & (array != 1), "0 or 1")
    return array.astype(np.bool_)


def index_array(name: str, value: ArrayLike, *, shape: tuple[int, ...] | None = None) -> Integers:
    """Ids or actions: integers by dtype, so that 1.0 is refused here."""
    array = as_numbers(name, value)
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must have shape {shape}")
    if array.dtype.kind == "f":
        refuse_where(name, array, np.ones(array.shape, np.bool_), "an integer, not a float")
    return array.astype(np.int64)


def indices_below(
    name: str, value: ArrayLike, size: int, *, shape: tuple[int, ...] | None = None
) -> Integers:
    """Ids or actions in [0, size)."""
    array = index_array(name, value, shape=shape)
    refuse_where(name, array, (array < 0) | (array >= size), f"in [0, {size})")
    return array


def positive_integers(name: str, value: ArrayLike, *, length: int) -> Floats:
    """[K] durations as float64: integers ≥ 1, where 4.0 counts as 4."""
    array = vector(name, value, length=length)
    refuse_where(name, array, (array < 1) | (array != np.floor(array)), "a positive integer")
    return array


def distributions(name: str, value: ArrayLike, *, ndim: int | None = None) -> Floats:
    """[..., A] probability vectors along the last axis, each with a sum near 1.

    The sum may miss 1 by 1e-6, or by 1e-4 where the vector came in single precision or less.
    """
    raw = as_numbers(name, value)
    coarse = raw.dtype.kind == "f" and raw.dtype.itemsize < 8
    array = real_array(name, raw, ndim=ndim)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} has shape {array.shape}; a distribution needs an entry")
    refuse_where(name, array, array < 0, "≥ 0")
    with np.errstate(over="ignore"):
        totals = np.asarray(array.sum(axis=-1))
    slack = SINGLE_PRECISION_SLACK if coarse else DOUBLE_PRECISION_SLACK
    wrong = np.abs(totals - 1.0) > slack
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{place(name, index)} sums to {totals[index]}; it must sum to 1")
    return array


def choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of a closed set of texts."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {_short(value)}; one of {', '.join(choices)} is due")
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    return value


def axis_of(name: str, value: Any, ndim: int) -> int:
    """An axis of an array of rank `ndim`, counted from the front."""
    if ndim == 0:
        raise ValueError(f"{name} is {value}, but a scalar has no axis")
    number = scalar(name, value, allow="anything")
    if number not in range(-ndim, ndim):
        raise ValueError(f"{name} is {value}; it must be an integer in [{-ndim}, {ndim})")
    return int(number) % ndim


def logit_rows(name: str, value: ArrayLike, axis: int = -1, *, ndim: int | None = None) -> Floats:
    """[..., V, ...] float64 logits, each row along `axis` with a finite maximum.

    −inf is a logit (the token is impossible); NaN, +inf and a row of −inf alone are refused.
    """
    array = real_array(name, value, ndim=ndim, allow="anything")
    axis = axis_of("axis", axis, array.ndim)
    if array.shape[axis] == 0:
        raise ValueError(f"{name} has shape {array.shape}; a distribution needs an entry")
    refuse_where(name, array, np.isnan(array) | (array == np.inf), "finite or -inf")
    impossible = np.argwhere(np.max(array, axis=axis) == -np.inf)
    if len(impossible):
        index = [str(i) for i in impossible[0]]
        index.insert(axis, ":")
        raise ValueError(f"{name}[{', '.join(index)}] is all -inf; one logit must be finite")
    return array
