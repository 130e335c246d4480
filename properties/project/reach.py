"""Whether a strategy reaches a corner often enough to test it."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy


def reaches(strategy: SearchStrategy[Any], corner: Callable[[Any], Any], *, of: int = 200) -> int:
    """How many of `of` drawn values lie in the corner."""
    hits = 0

    @seed(20260805)
    @settings(
        max_examples=of,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def count(value: Any) -> None:
        nonlocal hits
        hits += bool(corner(value))

    count()
    return hits
