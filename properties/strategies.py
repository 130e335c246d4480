"""What the laws draw, named by meaning.

Cheap to draw and quick to shrink: a step of an episode is one bounded integer, whose digits
choose a reward, a value and a flag from fixed tables. The tables begin with the simplest
entries, so that a shrunk integer is a simple step. Lists shrink best when each entry is one draw,
which is why lengths are not drawn first.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

S = TypeVar("S")

_GOLDEN = 0.6180339887498949
_SIMPLE = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 10.0, -10.0, 0.1, -0.1, 100.0)
_ROUGH = tuple((i * _GOLDEN % 1.0) * 10.0 - 5.0 for i in range(1, 256 - len(_SIMPLE) + 1))

REALS: tuple[float, ...] = _SIMPLE + _ROUGH  # 256 numbers: one byte chooses one
DISCOUNTS: tuple[float, ...] = (1.0, 0.5, 0.9, 0.0, 0.99, 0.3, 0.95, 1.0 - 2**-30, 1e-3)
MAX_STEPS = 12


def digits(code: int, *bases: int) -> list[int]:
    """The mixed-radix digits of a code, least significant first."""
    out = []
    for base in bases:
        code, digit = divmod(code, base)
        out.append(digit)
    return out


def discounts() -> st.SearchStrategy[float]:
    """γ or λ in [0, 1], both ends often."""
    return st.sampled_from(DISCOUNTS)


def steps(
    decode: Callable[..., S], *bases: int, min_size: int = 0, max_size: int = MAX_STEPS
) -> st.SearchStrategy[list[S]]:
    """Lists of records, one integer each, decoded from its digits in the given bases."""
    codes = st.lists(evenly(math.prod(bases)), min_size=min_size, max_size=max_size)
    return codes.map(lambda drawn: [decode(*digits(code, *bases)) for code in drawn])


def evenly(size: int) -> st.SearchStrategy[int]:
    """Integers in [0, size), each as likely as any other.

    Hypothesis draws integers near 0 far more often than others: half of those below 2^18 are
    below 2^11, which would leave the later digits of a code at 0. Away from 0 it draws evenly,
    and shrinks as well; but it goes through floats, and beyond 2^44 the first digits would be 0.
    """
    away = 4 * size
    assert away <= 2**44, f"a code of {size} values has digits that are hardly ever drawn"
    return st.integers(away, away + size - 1).map(lambda code: code - away)


def near(*numbers: float) -> st.SearchStrategy[float]:
    """One of the numbers, or one of a million between it and its half."""

    def decode(code: int) -> float:
        index, part = digits(code, len(numbers), 2**20)
        return numbers[index] * (1.0 - part / 2**21)

    return evenly(len(numbers) * 2**20).map(decode)


def long_row(size: int = 100) -> list[float]:
    """Eighths between −6 and 6, none like its neighbours: more of them than a law draws."""
    return [((37 * i) % 97 - 48) / 8 for i in range(size)]


LAYOUTS = ("vector", "row", "column", "table", "blocks")


def layouts(*among: str) -> st.SearchStrategy[str]:
    """How `laid_out` lays out tokens that are drawn one after the other."""
    return st.sampled_from(among or LAYOUTS)


def laid_out(values: Any, layout: str) -> Any:
    """An array of the values: a vector, a row, a column, two different rows, or a block of them.

    One value may also be laid out as a "scalar".
    """
    vector = np.array(values, dtype=float)
    if layout == "scalar":
        return vector.item()
    if layout == "row":
        return vector[np.newaxis]
    if layout == "column":
        return vector[:, np.newaxis]
    if layout == "table":
        return np.stack([vector, vector[::-1]])
    return np.stack([vector, vector[::-1]])[:, np.newaxis] if layout == "blocks" else vector


def reals(min_size: int = 0, max_size: int = MAX_STEPS) -> st.SearchStrategy[list[float]]:
    """Lists of ordinary real numbers."""
    return steps(REALS.__getitem__, 256, min_size=min_size, max_size=max_size)


def examples(cases: Iterable[dict[str, Any]]) -> Callable[[Callable[..., None]], Any]:
    """As many explicit examples of a law, tried in this order."""
    last_first = list(cases)[::-1]  # what is declared last is tried first

    def declare(body: Callable[..., None]) -> Any:
        for case in last_first:
            body = example(**case)(body)
        return body

    return declare


def _array_of(dtype: type) -> Callable[[list[Any]], Any]:
    def convert(values: list[Any]) -> Any:
        return np.array(values, dtype=dtype)

    return convert


BOOLEANS = _array_of(np.bool_)  # a vector of zeros and ones as most code keeps its flags
BYTES = _array_of(np.uint8)
WHOLE: tuple[int, ...] = (0, 1, -1, 2, -2, 3, -3, 5, -5, 7)
FORMS: tuple[Callable[[list[Any]], Any], ...] = (
    list,
    tuple,
    *map(_array_of, (np.float64, np.int64, np.float32, np.int8)),
)


def whole_numbers(min_size: int = 0, max_size: int = 6) -> st.SearchStrategy[list[int]]:
    """Lists of small integers, which every form of FORMS holds exactly."""
    return steps(WHOLE.__getitem__, len(WHOLE), min_size=min_size, max_size=max_size)


def forms() -> st.SearchStrategy[Callable[[list[Any]], Any]]:
    """What makes a vector of a list: lists, tuples, arrays of several dtypes."""
    return st.sampled_from(FORMS)
