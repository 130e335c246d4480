"""The same fixtures, of an implementation that answers with tensors."""

from collections.abc import Iterator

import pytest

from rlcheck.catalogue import TWINS
from rlcheck.grading import implementation as own
from rlcheck.grading.implementation import Implementation, load

from ..fixtures import judged


@pytest.fixture(scope="session")
def differentiable_implementation(
    rlcheck_implementation: Implementation,
) -> Iterator[Implementation]:
    """The implementation that is judged; in the reference's place, its twin in PyTorch."""
    if rlcheck_implementation.target != own.REFERENCE:
        yield rlcheck_implementation
        return
    pytest.importorskip("torch", reason="the laws of gradients need PyTorch")
    with load(own.TWINS, tensors=True) as twins:
        yield twins


globals().update(
    {f"{name}_fixture": judged(name, "differentiable_implementation") for name in TWINS}
)
