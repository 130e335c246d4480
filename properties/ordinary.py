"""Inputs of ordinary size, in which everything that a function knows is in use at once.

Laws of single corners draw few tokens, so that what fails is small. Code may be right there and
wrong where a batch is a batch: for the second of three prompts, beyond the twelfth token, for
fractions that come in an array. One law of nearly every function asks such inputs, entry by entry.
Its truth is the plain formula in NumPy or in rationals; whether the formula is right is for the
other laws to say.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlcheck.grading.laws import law

from .strategies import evenly, examples

T = TypeVar("T")
# Rows and columns. They are few, because some libraries compile their code for each shape anew.
SIZES = (
    *((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (1, 5), (4, 3), (3, 8)),
    *((6, 13), (2, 21), (12, 10), (1, 50), (5, 34), (8, 27), (10, 42), (12, 50)),
)
PARTS = 256  # of which a probability is made: float32 holds them, and their sums are exact


@dataclass(frozen=True)
class Sample:
    """The size of an input, and a number that decides about all else in it.

    Each part of the input is asked for by a name, and is the same however often it is.
    """

    rows: int
    columns: int
    code: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    def chance(self, name: str) -> np.random.Generator:
        """What decides about one part of the input."""
        return np.random.default_rng((self.code, zlib.crc32(name.encode())))

    def choice(self, name: str, *options: T) -> T:
        """One of the options."""
        return options[self.chance(name).integers(len(options))]

    def number(self, name: str, low: float = 0.0, high: float = 1.0) -> float:
        """A number of three decimals between the two."""
        return round(float(self.chance(name).uniform(low, high)), 3)

    def discount(self, name: str) -> float:
        """A discount or a trace decay: any, one whose powers stay large, or none."""
        return self.choice(f"{name} is", self.number(name), self.number(name, 0.9), 1.0)

    def integers(self, name: str, low: int, high: int, *shape: int) -> NDArray[np.int64]:
        """Whole numbers in [low, high)."""
        return self.chance(name).integers(low, high, shape)

    def reals(
        self, name: str, *shape: int, low: float = -6.0, high: float = 6.0
    ) -> NDArray[np.float64]:
        """Sixteenths from `low` to `high`, which float32 holds exactly."""
        return self.integers(name, int(16 * low), int(16 * high) + 1, *shape) / 16

    def distinct(self, name: str, size: int) -> NDArray[np.float64]:
        """Sixteenths around 0, no two of them equal."""
        return (self.chance(name).permutation(4 * size)[:size] - 2.0 * size) / 16

    def flags(self, name: str, *shape: int, share: float = 0.25) -> NDArray[np.bool_]:
        """Flags of which about that share is set."""
        return self.chance(name).random(shape) < share

    def distributions(self, name: str, *shape: int) -> NDArray[np.float64]:
        """Probabilities along the last axis, some of them 0."""
        chance = self.chance(name)
        weights = chance.dirichlet(np.full(shape[-1], 0.5), shape[:-1])
        return chance.multinomial(PARTS, weights / weights.sum(-1, keepdims=True)) / PARTS

    def layout(self, name: str = "layout") -> tuple[int, ...]:
        """The shape of a vector, of a table, or of a block of three axes."""
        return self.choice(name, (self.columns,), self.shape, (2, *self.shape))

    def held(self, *arrays: NDArray[Any]) -> list[Any]:
        """Each array in a container of its own: lists, tuples, or an array of a narrower dtype."""
        chance = self.chance("containers")
        return [_CONTAINERS[chance.integers(len(_CONTAINERS))](array) for array in arrays]


def _nested_tuples(entries: Any) -> Any:
    return tuple(map(_nested_tuples, entries)) if isinstance(entries, list) else entries


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype({"b": np.uint8, "i": np.int32, "f": np.float32}[array.dtype.kind])


_CONTAINERS: tuple[Callable[[NDArray[Any]], Any], ...] = (
    lambda array: array.tolist(),
    np.array,
    lambda array: _nested_tuples(array.tolist()),
    _narrow,
)


def samples() -> st.SearchStrategy[Sample]:
    """Up to twelve rows of up to fifty columns."""
    drawn = st.tuples(st.sampled_from(SIZES), evenly(2**32))
    return drawn.map(lambda parts: Sample(*parts[0], parts[1]))


def law_of_ordinary_sizes(body: Callable[..., None]) -> Any:
    """Declare the law that its function is right for a `sample`: large ones are always asked."""
    large = examples({"sample": Sample(*SIZES[-1], code)} for code in range(4))
    return law(sample=samples())(large(body))
