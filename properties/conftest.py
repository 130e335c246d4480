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
        resolution, where = rlcheck_implementation.resolutions[name], rlcheck_implementation.target
        # As in `rlcheck grade`: a target is judged on what it defines, and what it does not is
        # named. A target that defines nothing is refused before anything is collected.
        if resolution.status == "missing":
            pytest.skip(f"{where} does not define {name}. {resolution.message}".rstrip())
        if resolution.status == "unloadable":
            pytest.fail(f"{name} of {where} {resolution.message}")
        return rlcheck_implementation.graded(name)

    return graded


globals().update({f"{name}_fixture": _fixture(name) for name in FUNCTIONS})
