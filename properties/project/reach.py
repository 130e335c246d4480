"""Whether a strategy reaches a corner often enough to test it."""

import functools
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

DRAWN = 400


@functools.cache
def _drawn(strategy: SearchStrategy[Any], count: int) -> list[Any]:
    values = []

    @seed(20260805)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(value: Any) -> None:
        values.append(value)

    keep()
    return values


def reaches(strategy: SearchStrategy[Any], corner: Callable[[Any], Any], *, of: int = DRAWN) -> int:
    """How many of `of` drawn values lie in the corner; the same ones for each corner asked."""
    return sum(bool(corner(value)) for value in _drawn(strategy, of))
