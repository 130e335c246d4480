"""Comparisons for laws: derived bounds, structure checks, refusals.

Every failure is a `Mismatch` that carries what was expected, what came, and the error that was
allowed. Laws touch an answer through these functions only, so that an answer of a wrong shape or
type is a failed law and never a fault of the grader.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rlcheck.grading.calls import Graded, Raised, identical

# A sum of T products takes T multiplications and T additions, each off by half an ε at most, in
# any order and grouping: 2T ε bounds it with room. Short sums get the constant 64, so that exp,
# log and powers, good to a few ε each, are covered too.
SHORT_SUM = 64
# Results at the edge of underflow are off by units of the smallest subnormal, not by relative ε.
UNDERFLOW = 64 * 2.0**-1074


class Mismatch(AssertionError):
    """An answer that breaks a law."""

    def __init__(self, text: str, *, expected: Any = None, got: Any = None, allowed: Any = None):
        super().__init__(text)
        self.text = text
        self.expected = expected
        self.got = got
        self.allowed = allowed

    def __str__(self) -> str:
        tolerance = "" if self.allowed is None else f", allowed error {self.allowed}"
        return f"{self.text}: expected {self.expected}, got {self.got}{tolerance}"


def exact(value: Any) -> Fraction:
    """A float as the rational number that it is."""
    return Fraction(float(value))


def nearest_float(value: Fraction) -> float:
    """The float64 nearest to a rational number; ±inf beyond the range."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def numbers(got: Any, *, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """An answer as an array of numbers; a Mismatch where it is none or has another shape.

    Nested lists and lists of arrays count as arrays; [] counts as any shape without entries.
    """
    __tracebackhide__ = True
    try:
        array = np.asarray(got)
    except ValueError:
        raise Mismatch("the answer is ragged", expected=_shape_text(shape), got=got) from None
    if array.dtype.kind not in "biuf":
        raise Mismatch("the answer holds no numbers", expected=_shape_text(shape), got=got)
    if shape is not None and array.shape != shape:
        if array.size == 0 and 0 in shape and isinstance(got, list):
            return array.reshape(shape)
        raise Mismatch("the answer has another shape", expected=_shape_text(shape), got=got)
    return array


def number(got: Any) -> float:
    """An answer as one float; arrays without axes count, arrays of one entry and NaN do not."""
    __tracebackhide__ = True
    value = float(numbers(got, shape=()))
    if np.isnan(value):
        raise Mismatch("the answer is NaN", expected="a number", got=got)
    return value


def _shape_text(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "numbers"
    return "one number" if shape == () else f"numbers of shape {shape}"


def record(got: Any, *names: str) -> tuple[Any, ...]:
    """The fields of a record, given as a mapping or in order as a sequence."""
    __tracebackhide__ = True
    if isinstance(got, dict):
        missing = [name for name in names if name not in got]
        if missing:
            raise Mismatch(f"the answer lacks {', '.join(missing)}", expected=names, got=got)
        return tuple(got[name] for name in names)
    is_sequence = isinstance(got, list) or (isinstance(got, np.ndarray) and got.ndim > 0)
    if is_sequence and len(got) == len(names):
        return tuple(got)
    raise Mismatch(f"the answer is no record of {len(names)} fields", expected=names, got=got)


def assert_close(
    got: Any,
    expected: Any,
    *,
    terms: Any,
    count: int = 1,
    factor: Any = 1.0,
    slack: float = 0.0,
    of: Sequence[Any] = (),
) -> None:
    """|got − expected| ≤ max(64, 2·count) · ε · factor · terms + slack, entry by entry.

    Args:
        got: the answer, a number or an array of the shape of `expected`.
        expected: the truth; NaN and infinities must be met exactly.
        terms: the sum of the absolute values of the fully expanded terms, a number or one for
            each entry of `expected`.
        count: how many terms are summed.
        factor: 1 + Σ|terms| for the exponential of a sum, whose own size goes into `terms`; apart
            from it, because their product may be beyond float64.
        slack: an absolute error allowed besides, for what the law says it is.
        of: the answers that the law computed `got` from, whose precision then counts.

    ε is that of the answer: float32 answers are judged as float32, coarser ones too.
    """
    __tracebackhide__ = True
    truth = np.asarray(expected, dtype=np.float64)
    array = numbers(got, shape=truth.shape)
    single = any(_is_single(answer) for answer in (array, *map(numbers, of)))
    epsilon = float(np.finfo(np.float32 if single else np.float64).eps)
    with np.errstate(all="ignore"):
        scale = np.where(np.isfinite(terms), terms, np.finfo(np.float64).max)
        allowed = max(SHORT_SUM, 2 * count) * epsilon * np.asarray(factor) * scale
        allowed = allowed + UNDERFLOW + slack
        answer = array.astype(np.float64)
        near = np.abs(answer - truth) <= allowed
        same = (answer == truth) | (np.isnan(answer) & np.isnan(truth))
        good = np.where(np.isfinite(truth) & np.isfinite(answer), near, same)
    if not np.all(good):
        shown = np.broadcast_to(allowed, truth.shape)
        raise Mismatch("the answer is off", expected=_tidy(truth), got=got, allowed=_tidy(shown))


def _is_single(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" and array.dtype.itemsize < 8


def assert_same(got: Any, expected: Any) -> None:
    """Equality without tolerance: counts, flags, texts, sequences of them, exact floats.

    0/1 counts as a flag and 3.0 as the count 3; NaN equals NaN; empty sequences are equal.
    """
    __tracebackhide__ = True
    if not _same(got, expected):
        raise Mismatch("the answer differs", expected=expected, got=got)


def _same(got: Any, expected: Any) -> bool:
    if isinstance(expected, str) or expected is None:
        return type(got) is type(expected) and bool(got == expected)
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and got.keys() == expected.keys()
            and all(_same(got[key], expected[key]) for key in expected)
        )
    if isinstance(expected, Sequence) and any(isinstance(entry, str) for entry in expected):
        return (
            isinstance(got, list) and len(got) == len(expected) and all(map(_same, got, expected))
        )
    truth = np.asarray(expected)
    array = numbers(got, shape=truth.shape)
    return bool(np.array_equal(array, truth, equal_nan=True))


def assert_in_range(got: Any, low: float, high: float, *, shape: tuple[int, ...] = ()) -> None:
    """low ≤ got ≤ high, entry by entry; NaN is outside."""
    __tracebackhide__ = True
    array = numbers(got, shape=shape)
    if not np.all((array >= low) & (array <= high)):
        raise Mismatch("the answer is out of range", expected=f"[{low}, {high}]", got=got)


def assert_refuses(function: Graded, *args: Any, **kwargs: Any) -> None:
    """The call raises ValueError or TypeError."""
    __tracebackhide__ = True
    try:
        answer = function(*args, **kwargs)
    except Raised as raised:
        if raised.is_refusal:
            return
        raise
    raise Mismatch("the input was not refused", expected="ValueError or TypeError", got=answer)


def assert_untouched(function: Graded, *args: Any, **kwargs: Any) -> None:
    """The call leaves its arguments as they were."""
    __tracebackhide__ = True
    watched = function.watched(*args, **kwargs)
    after = (watched.args, watched.kwargs)
    if not identical((args, kwargs), after):
        raise Mismatch("the call changed its arguments", expected=(args, kwargs), got=after)


def assert_quiet(function: Graded, *args: Any, **kwargs: Any) -> Any:
    """The answer of a call that issues no warning."""
    __tracebackhide__ = True
    watched = function.watched(*args, **kwargs)
    if watched.warnings:
        raise Mismatch("the call warned", expected="no warning", got=watched.warnings[:3])
    return watched.answer


def _tidy(values: NDArray[Any]) -> Any:
    return values.item() if values.ndim == 0 else values


def total(terms: Iterable[Any]) -> float:
    """Σ|terms|, for the bound of a sum."""
    return cast(float, sum(abs(float(term)) for term in terms))


def discounted_terms(amounts: Iterable[Any], gamma: float) -> list[Fraction]:
    """γ^t · amount_t as rational numbers, with 0^0 = 1."""
    return [exact(gamma) ** t * exact(amount) for t, amount in enumerate(amounts)]


def assert_sum(got: Any, terms: Sequence[Any]) -> None:
    """The answer is the sum of the terms, which are exact, within the bound that they allow."""
    __tracebackhide__ = True
    truth = nearest_float(sum(map(Fraction, terms), Fraction(0)))
    assert_close(got, truth, terms=total(terms), count=len(terms))


def assert_sums(got: Any, rows: Sequence[Sequence[Any]], *, shape: Any = None) -> None:
    """Each entry of the answer is the sum of its own exact terms; `shape` is that of the answer."""
    __tracebackhide__ = True
    shape = (len(rows),) if shape is None else shape
    truth = [nearest_float(sum(map(Fraction, terms), Fraction(0))) for terms in rows]
    assert_close(
        got,
        np.reshape(truth, shape),
        terms=np.reshape([total(terms) for terms in rows], shape),
        count=max(map(len, rows), default=0),
    )
