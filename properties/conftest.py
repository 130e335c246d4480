"""One fixture for each public function, named like it: the implementation that is judged."""

from collections.abc import Callable
from typing import Any

import pytest

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import Graded
from rlcheck.grading.implementation import Implementation


def _fixture(name: str) -> Callable[..., Any]:
    @pytest.fixture(scope="session", name=name)
    def graded(rlcheck_implementation: Implementation) -> Graded:
        resolution = rlcheck_implementation.resolutions[name]
        if resolution.status != "provided":
            where = rlcheck_implementation.target
            pytest.fail(f"{name} of {where} is {resolution.status}. {resolution.message}".rstrip())
        return rlcheck_implementation.graded(name)

    return graded


globals().update({f"{name}_fixture": _fixture(name) for name in FUNCTIONS})
