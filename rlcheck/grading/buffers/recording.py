"""Replay buffers that a law asks for, and the rows that they give out.

A buffer is made with `capacity, n, gamma, seed`. It takes steps one by one, in the order of
Gymnasium's answers, and gives out rows: all of them by `rows()`, k drawn ones by `sample(k)`. A row
is (observation, action, reward, next observation, discount, terminated), and the target of
Q-learning reward + discount · max Q(next observation), or the reward alone where it terminated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from rlcheck.grading.buffers.steps import Case, Step
from rlcheck.grading.compare import Mismatch

__all__ = ["Buffers", "Filled", "Row", "Window", "near"]

NEAR = 1e-4  # of float32; sums of γ^i r_i that differ are 1/256 apart or more


class Row(NamedTuple):
    """A row as plain numbers."""

    observation: float
    action: int
    reward: float
    next_observation: float
    discount: float
    terminated: bool


class Window(NamedTuple):
    """A row, and the steps that it stands for."""

    row: Row
    k: int  # steps, as its discount says
    taken: list[Step]  # as many from its first on, if there are
    whole: list[Step]  # as many as it may take

    @property
    def last(self) -> Step:
        """The step that it ends with."""
        return self.taken[-1]

    def paid(self, gamma: float) -> float:
        """Σ γ^i r_i, exact: γ is a binary fraction, and the sum a short one."""
        return sum(gamma**i * step.reward for i, step in enumerate(self.taken))


@dataclass
class Filled:
    """A buffer that a case was written to."""

    case: Case
    buffer: Any

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of their actions."""
        return sorted(map(_row, self.buffer.rows()), key=lambda row: row.action)

    def sample(self, count: int) -> list[Row]:
        """Drawn rows."""
        return [_row(row) for row in self.buffer.sample(count)]

    @property
    def windows(self) -> list[Window]:
        """The rows with their steps."""
        return [self._window(row) for row in self.rows]

    def _window(self, row: Row) -> Window:
        if not 0 <= row.action < len(self.case.steps):
            raise Mismatch("the action of a row", expected="one that was written", got=row)
        k = self._length(row)
        taken = self.case.steps[row.action : row.action + k]
        return Window(row, k, taken, self.case.whole(row.action))

    def _length(self, row: Row) -> int:
        """How many steps a row's discount γ^k stands for."""
        gamma, n = self.case.gamma, self.case.n
        found = next((k for k in range(1, n + 1) if near(gamma**k, row.discount)), None)
        if found is None:
            raise Mismatch("the discount of a row", expected=f"{gamma}^k, 1 ≤ k ≤ {n}", got=row)
        return found


@dataclass
class Buffers:
    """Makes the buffers that a law asks for."""

    kind: Callable[..., Any]  # of capacity, n, gamma and seed
    made: list[Any] = field(default_factory=list)

    @property
    def several(self) -> bool:
        """Whether it sums rewards of several steps."""
        return bool(getattr(self.kind, "several", True))

    def fill(
        self, case: Case, capacity: int | None = None, seed: int = 0, written_over: bool = False
    ) -> Filled:
        """A new buffer with the steps of a case.

        Args:
            case: the steps, and n.
            capacity: of the buffer; None leaves room for all steps.
            seed: of the buffer.
            written_over: whether the arrays of a step are written over once it was added.
        """
        case = case if self.several else replace(case, n=1)
        room = len(case.steps) + case.room if capacity is None else capacity
        buffer = self.kind(capacity=room, n=case.n, gamma=case.gamma, seed=seed)
        self.made.append(buffer)
        for step in case.steps:
            for array in write(buffer, step):
                array[:] = -1 if written_over else array
        return Filled(case, buffer)

    def close(self) -> None:
        """Let go of all that was made."""
        self.made.clear()


def write(buffer: Any, step: Step) -> tuple[Any, Any]:
    """Add a step; the observations that were passed."""
    before, after = (np.array([x], np.float32) for x in (step.observation, step.next_observation))
    buffer.add(before, step.number, float(step.reward), after, step.terminated, step.truncated)
    return before, after


def near(one: float, other: float) -> bool:
    """Whether two numbers are the same in float32."""
    return abs(one - other) < NEAR * (1 + abs(one))


def _row(given: Sequence[Any]) -> Row:
    observation, action, reward, after, discount, terminated = given
    numbers = float(reward), float(after), float(discount)
    return Row(float(observation), int(action), *numbers, bool(terminated))
