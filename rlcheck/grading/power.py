"""The kill matrix: have the laws teeth, and do they let every right implementation pass?"""

from collections.abc import Iterator
from dataclasses import dataclass

from rlcheck.catalogue import Function
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import EXAMPLES, Law, Verdict, laws_of, run
from rlcheck.mistakes import Mistake, mistakes_of


@dataclass(frozen=True)
class Row:
    """One mistake, and what each law of its function said about it."""

    mistake: Mistake
    verdicts: tuple[Verdict, ...]

    @property
    def killers(self) -> tuple[Law, ...]:
        return tuple(verdict.law for verdict in self.verdicts if not verdict.holds)


@dataclass(frozen=True)
class Matrix:
    """The kill matrix of one function under one seed."""

    function: Function
    random_seed: int
    laws: tuple[Law, ...]
    rows: tuple[Row, ...]

    @property
    def survivors(self) -> tuple[Mistake, ...]:
        """Mistakes that no law kills."""
        return tuple(row.mistake for row in self.rows if not row.killers)

    @property
    def idle(self) -> tuple[Law, ...]:
        """Laws that kill no mistake."""
        killers = {law.id for row in self.rows for law in row.killers}
        return tuple(law for law in self.laws if law.id not in killers)

    @property
    def faults(self) -> tuple[Verdict, ...]:
        """Runs in which the law itself broke."""
        return tuple(v for row in self.rows for v in row.verdicts if v.status == "ungradable")

    @property
    def holds(self) -> bool:
        return bool(self.rows) and not (self.survivors or self.idle or self.faults)


def judge(
    function: Function, mistake: Mistake, law: Law, random_seed: int, examples: int = EXAMPLES
) -> Verdict:
    """One cell: a law against a mistake, without shrinking."""
    transport = InProcess({function.name: mistake.call})
    return run(law, transport, random_seed=random_seed, examples=examples, shrink=False)


def kill_matrix(function: Function, *, random_seed: int, examples: int = EXAMPLES) -> Matrix:
    """Every law of a function against every mistake of it."""
    laws = laws_of(function)
    rows = tuple(
        Row(m, tuple(judge(function, m, law, random_seed, examples) for law in laws))
        for m in mistakes_of(function.name)
    )
    return Matrix(function, random_seed, laws, rows)


def quick_gaps(function: Function, *, random_seed: int, examples: int = EXAMPLES) -> Iterator[str]:
    """What is wrong with a function's kill matrix, without computing all of it.

    A cell is judged only while its mistake is alive or its law has not killed yet.
    """
    laws, mistakes = laws_of(function), mistakes_of(function.name)
    alive = {m.id: m for m in mistakes}
    idle = {law.id: law for law in laws}
    for law in laws:
        for m in mistakes:
            if m.id not in alive and law.id not in idle:
                continue
            verdict = judge(function, m, law, random_seed, examples)
            if verdict.status == "ungradable":
                yield f"{law.id} breaks on {m.id}: {verdict.message}"
            if not verdict.holds:
                alive.pop(m.id, None)
                idle.pop(law.id, None)
    yield from (f"{m.id} survives every law" for m in alive.values())
    yield from (f"{law.id} kills nothing" for law in idle.values())
