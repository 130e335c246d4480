"""What the tests that run TRL share; it is imported without TRL."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

__all__ = ["MARKS", "one_thread"]

MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("trl") is None, reason="the extra trl is not installed"),
    # Transformers 5.24 calls its own deprecated names.
    pytest.mark.filterwarnings("ignore:`gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing:FutureWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Several threads only wait for each other on matrices this small."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
