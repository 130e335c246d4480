"""Tests of one file share what they train, so that one worker should run them all."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group the tests of each file of this folder, for `pytest -n 2 --dist loadgroup`."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if "experiments" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
