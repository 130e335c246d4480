"""The kill matrix: have the laws teeth, and do they let every right implementation pass?"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis.errors import UnsatisfiedAssumption

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import Graded, InProcess, Raised
from rlcheck.grading.compare import Mismatch
from rlcheck.grading.laws import EXAMPLES, Law, explore, laws_of
from rlcheck.grading.processes import pool
from rlcheck.mistakes import Mistake, mistakes_of

T = TypeVar("T")

FEW_EXAMPLES = 12


@dataclass(frozen=True)
class Matrix:
    """The kill matrix of one function under one seed; laws and mistakes by their ids."""

    function: str
    random_seed: int
    laws: tuple[str, ...]
    killers: dict[str, tuple[str, ...]]  # mistake → the laws that it breaks
    faults: tuple[str, ...]  # cells in which the law itself broke

    @property
    def survivors(self) -> tuple[str, ...]:
        """Mistakes that no law kills."""
        return tuple(mistake for mistake, laws in self.killers.items() if not laws)

    @property
    def idle(self) -> tuple[str, ...]:
        """Laws that kill no mistake."""
        busy = {law for laws in self.killers.values() for law in laws}
        return tuple(law for law in self.laws if law not in busy)

    @property
    def gaps(self) -> tuple[str, ...]:
        """What keeps the matrix from holding."""
        return (
            *(f"{mistake} survives every law" for mistake in self.survivors),
            *(f"{law} kills nothing" for law in self.idle),
            *self.faults,
        )


class _Enough(BaseException):
    """Ends a sweep that has nothing left to find; Hypothesis lets it through."""


@dataclass
class Sweep:
    """Which mistakes one law kills, and in which the law itself broke."""

    killed: set[str]
    faults: list[str]


def sweep(
    law: Law,
    mistakes: Sequence[Mistake],
    random_seed: int,
    examples: int = EXAMPLES,
    *,
    until: Callable[[Sweep], bool] = lambda _: False,
) -> Sweep:
    """Judge many mistakes by one law, each on the same examples, which are drawn only once.

    A mistake that is killed sees no further example; `until` may end the sweep early.
    """
    found = Sweep(set(), [])
    alive = {
        m.id: Graded(m.function, InProcess({m.function: m.call}, tensors=m.of_gradients))
        for m in mistakes
    }
    if not alive:
        return found

    def visit(**drawn: Any) -> None:
        for mistake, graded in list(alive.items()):
            try:
                with np.errstate(all="ignore"):
                    law.body(graded, **drawn)
            except UnsatisfiedAssumption:
                continue
            except (Mismatch, Raised):
                found.killed.add(mistake)
                del alive[mistake]
            except Exception as error:
                found.faults.append(f"{law.id} breaks on {mistake}: {type(error).__name__} {error}")
                del alive[mistake]
        if not alive or until(found):
            raise _Enough

    with contextlib.suppress(_Enough):
        explore(law, visit, random_seed=random_seed, examples=examples)
    return found


def kill_matrix(
    function: str, random_seed: int, examples: int = EXAMPLES, gradients: bool = False
) -> Matrix:
    """Every law of a function's values, or gradients, against every mistake in them."""
    laws = laws_of(FUNCTIONS[function], gradients=gradients)
    mistakes = mistakes_of(function, gradients=gradients)
    swept = {law.id: sweep(law, mistakes, random_seed, examples) for law in laws}
    return Matrix(
        function,
        random_seed,
        tuple(swept),
        {m.id: tuple(law for law, s in swept.items() if m.id in s.killed) for m in mistakes},
        tuple(fault for s in swept.values() for fault in s.faults),
    )


def gaps(
    function: str, random_seed: int, examples: int = EXAMPLES, gradients: bool = False
) -> list[str]:
    """The gaps of a function's kill matrix, without computing all of it.

    Most mistakes fall at once, so every law is tried on few examples first; the whole number of
    examples is for the mistakes that are left, and for the laws that have not killed yet.
    """
    laws = laws_of(FUNCTIONS[function], gradients=gradients)
    alive = {mistake.id: mistake for mistake in mistakes_of(function, gradients=gradients)}
    dead: dict[str, Mistake] = {}
    idle = {law.id for law in laws}
    faults: list[str] = []

    def bury(law: Law, swept: Sweep) -> None:
        faults.extend(swept.faults)
        if swept.killed:
            idle.discard(law.id)
        for mistake in swept.killed & alive.keys():
            dead[mistake] = alive.pop(mistake)

    for count in (min(FEW_EXAMPLES, examples), examples):
        for law in laws:
            bury(law, sweep(law, list(alive.values()), random_seed, count))
            if law.id in idle:
                others = list(dead.values())
                bury(law, sweep(law, others, random_seed, count, until=lambda s: bool(s.killed)))
    survivors = [f"{mistake} survives every law" for mistake in alive]
    return [*faults, *survivors, *(f"{law.id} kills nothing" for law in laws if law.id in idle)]


def in_parallel(work: Callable[..., T], jobs: list[tuple[Any, ...]], workers: int) -> Iterator[T]:
    """The results of `work(*job)`, in the order of the jobs, from several processes."""
    if workers == 1:
        yield from (work(*job) for job in jobs)
        return
    with pool(workers) as children:
        futures = [children.submit(work, *job) for job in jobs]
        yield from (future.result() for future in futures)
