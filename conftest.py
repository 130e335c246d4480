"""Each test carries one marker: `fast`, `slow` or `notebook`, by its folder."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
MARKERS = ("fast", "slow", "notebook")
BY_FOLDER = {"properties": "fast", "experiments": "slow", "notebooks": "notebook"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its folder's marker, unless it names one of the three itself."""
    for item in items:
        if not any(item.get_closest_marker(name) for name in MARKERS):
            folder = item.path.relative_to(ROOT).parts[0]
            item.add_marker(BY_FOLDER[folder])
