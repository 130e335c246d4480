"""Datasets of episodes that a law asks for, and the episodes that are written to them.

A dataset is made with an empty folder. It writes episodes, reads all of them, and may draw some by
`sample(count, seed)`. An episode is a mapping of `observations` [T + 1] and `actions`, `rewards`,
`terminations`, `truncations` [T], of plain numbers and booleans. `steps()`, where there is one,
counts the steps of all episodes.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlcheck.grading.buffers.steps import Case
from rlcheck.grading.calls import identical
from rlcheck.grading.compare import Mismatch

__all__ = ["Datasets", "compared", "episodes_of", "read_whole", "same"]


@dataclass
class Datasets:
    """Makes the datasets that a law asks for, each in a folder of its own."""

    kind: Callable[[Path], Any]  # of a folder
    folders: list[Any] = field(default_factory=list)

    def make(self) -> Any:
        """A new one."""
        self.folders.append(tempfile.TemporaryDirectory(prefix="rlcheck-"))
        return self.kind(Path(self.folders[-1].name))

    def written(self, case: Case) -> tuple[Any, list[dict[str, Any]]]:
        """A new one with the episodes of a case, and those."""
        made, episodes = self.make(), episodes_of(case)
        made.write(episodes_of(case))
        return made, episodes

    def close(self) -> None:
        """Remove all that was written."""
        while self.folders:
            self.folders.pop().cleanup()


def episodes_of(case: Case) -> list[dict[str, Any]]:
    """The episodes of a case."""
    found, steps = [], iter(case.steps)
    for rewards, _ in case.episodes:
        own = [next(steps) for _ in rewards]
        found.append(
            {
                "observations": [step.observation for step in own] + [own[-1].next_observation],
                "actions": [step.number for step in own],
                "rewards": [float(step.reward) for step in own],
                "terminations": [step.terminated for step in own],
                "truncations": [step.truncated for step in own],
            }
        )
    return found


def same(where: str, expected: Any, got: Any) -> None:
    """Two trees of plain values are the same."""
    if not identical(expected, got):
        raise Mismatch(where, expected=expected, got=got)


def compared(datasets: Datasets, case: Case, *names: str) -> None:
    """Some columns of every episode are read as they were written."""
    made, episodes = datasets.written(case)
    for index, (one, other) in enumerate(zip(episodes, made.read(), strict=False)):
        for name in names:
            same(f"{name} of episode {index}", one[name], other[name])


def read_whole(datasets: Datasets, case: Case) -> None:
    """As many episodes are read as were written, each with all that its steps hold."""
    made, episodes = datasets.written(case)
    read = made.read()
    same("the number of episodes", len(episodes), len(read))
    for name in ("actions", "rewards", "terminations", "truncations"):
        same(name, [one[name] for one in episodes], [one[name] for one in read])
