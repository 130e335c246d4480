"""Each collected test carries exactly one of the markers fast, slow and notebook."""

import pytest

MARKERS = ("fast", "slow", "notebook")


class Collected:
    """A plugin that looks at every test before any is deselected."""

    def __init__(self) -> None:
        self.marks: dict[str, list[str]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            names = [mark.name for mark in item.iter_markers() if mark.name in MARKERS]
            self.marks[item.nodeid] = names


def test_each_test_carries_one_marker(pytestconfig: pytest.Config) -> None:
    collected = Collected()
    code = pytest.main(
        [
            *("--collect-only", "-q", "-q", "-p", "no:cacheprovider", "-W", "ignore"),
            str(pytestconfig.rootpath),
        ],
        plugins=[collected],
    )
    assert code == pytest.ExitCode.OK
    assert len(collected.marks) > 100
    assert {node: marks for node, marks in collected.marks.items() if len(marks) != 1} == {}
