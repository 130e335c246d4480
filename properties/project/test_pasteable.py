"""Values in reports: as Python that gives them again, and short where they are long."""

from typing import Any

import numpy as np
import pytest

from rlcheck.grading.calls import identical
from rlcheck.grading.pasteable import shown, source

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    "value",
    [
        [0.1] * 400,
        [1e16, *[1.0] * 399],
        [*[True] * 20, *[False] * 20],
        [[0.5] * 40, [1.5, *[0.5] * 39]],
        {"rewards": [-INF] * 20},
        ([1, 2, 3], [0] * 17),
        {"eos"},
        set(),
        list(range(50)),
        np.full(60, NAN),
        np.array([INF, *[0.0] * 30], np.float32),
        np.arange(60.0).reshape(3, 20),
        np.zeros((2, 0)),
    ],
    ids=repr,
)
def test_source_gives_the_value_again(value: Any) -> None:
    assert identical(eval(source(value), {"np": np}), value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([0.1] * 400, "[0.1] * 400"),
        (np.full(400, 0.1), "np.array([0.1] * 400)"),
        ([1e16, *[1.0] * 399], "[1e+16] + [1.0] * 399"),
        ([1.0] * 15, "[" + ", ".join(["1.0"] * 15) + "]"),
    ],
)
def test_runs_of_equal_entries_are_told_by_their_length(value: Any, text: str) -> None:
    assert source(value) == shown(value) == text


def test_of_a_long_vector_its_ends_are_shown() -> None:
    told = shown(np.arange(100.0))
    assert told is not None
    assert told.startswith("np.array([0.0, 1.0, 2.0,")
    assert "7.0, … 84 entries …, 92.0" in told
    assert told.endswith("98.0, 99.0])")
    single = shown(np.arange(100, dtype=np.float32))
    assert single is not None
    assert single.endswith("99.0], dtype=np.float32)")
    assert shown(list(range(9))) == str(list(range(9)))
    assert shown(None) is None
    assert shown("text\x1b[2J") == r"text\x1b[2J"
