"""The kill matrix: have the laws teeth, and do they let every right implementation pass?"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeVar

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import EXAMPLES, Law, Verdict, laws_of, run
from rlcheck.mistakes import Mistake, mistakes_of

T = TypeVar("T")

FEW_EXAMPLES = 8


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


def judge(mistake: Mistake, law: Law, random_seed: int, examples: int = EXAMPLES) -> Verdict:
    """One cell: a law against a mistake, without shrinking."""
    transport = InProcess({mistake.function: mistake.call})
    return run(law, transport, random_seed=random_seed, examples=examples, shrink=False)


def _fault(mistake: Mistake, verdict: Verdict) -> str:
    return f"{verdict.law.id} breaks on {mistake.id}: {verdict.message}"


def kill_matrix(function: str, random_seed: int, examples: int = EXAMPLES) -> Matrix:
    """Every law of a function against every mistake of it."""
    laws = laws_of(FUNCTIONS[function])
    killers: dict[str, tuple[str, ...]] = {}
    faults: list[str] = []
    for mistake in mistakes_of(function):
        verdicts = [judge(mistake, law, random_seed, examples) for law in laws]
        killers[mistake.id] = tuple(
            v.law.id for v in verdicts if v.status not in ("passed", "ungradable")
        )
        faults += [_fault(mistake, v) for v in verdicts if v.status == "ungradable"]
    return Matrix(function, random_seed, tuple(law.id for law in laws), killers, tuple(faults))


def gaps(function: str, random_seed: int, examples: int = EXAMPLES) -> list[str]:
    """The gaps of a function's kill matrix, without computing all of it.

    A cell is judged only while its mistake is alive or its law has not killed yet, at first with
    few examples, because most mistakes fall at once.
    """
    alive = {mistake.id: mistake for mistake in mistakes_of(function)}
    idle = {law.id: law for law in laws_of(FUNCTIONS[function])}
    everyone, everything = list(alive.values()), list(idle.values())
    faults: list[str] = []
    for count in (min(FEW_EXAMPLES, examples), examples):
        for law in everything:
            for mistake in everyone:
                if mistake.id not in alive and law.id not in idle:
                    continue
                verdict = judge(mistake, law, random_seed, count)
                if verdict.status == "ungradable":
                    faults.append(_fault(mistake, verdict))
                elif not verdict.holds:
                    alive.pop(mistake.id, None)
                    idle.pop(law.id, None)
    survivors = [f"{mistake} survives every law" for mistake in alive]
    return [*faults, *survivors, *(f"{law} kills nothing" for law in idle)]


def in_parallel(work: Callable[..., T], jobs: list[tuple[Any, ...]], workers: int) -> Iterator[T]:
    """The results of `work(*job)`, in the order of the jobs, from several processes."""
    if workers == 1:
        yield from (work(*job) for job in jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, *job) for job in jobs]
        yield from (future.result() for future in futures)
