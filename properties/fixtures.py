"""How a function that is judged reaches the laws under pytest."""

from collections.abc import Callable
from typing import Any

import pytest

from rlcheck.grading.calls import Graded


def judged(name: str, implementation: str) -> Callable[..., Any]:
    """A fixture named `name`: that function of what the fixture `implementation` gives."""

    @pytest.fixture(scope="session", name=name)
    def graded(request: pytest.FixtureRequest) -> Graded:
        loaded = request.getfixturevalue(implementation)
        resolution, where = loaded.resolutions[name], loaded.target
        # As in `rlcheck grade`: a target is judged on what it defines, and what it does not is
        # named. A target that defines nothing is refused before anything is collected.
        if resolution.status == "missing":
            pytest.skip(f"{where} does not define {name}. {resolution.message}".rstrip())
        if resolution.status == "unloadable":
            pytest.fail(f"{name} of {where} {resolution.message}")
        return loaded.graded(name)

    return graded
