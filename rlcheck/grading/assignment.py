"""An assignment: which functions are asked for, what each law is worth, who sees it.

A TOML file:

    title = "Module 5, practical 1"
    seed = "per-submission"               # or a number; the secret is RLCHECK_SECRET
    due = 2026-12-24T23:59:00+03:00

    [functions.dqn_targets]
    weight = 4                            # points, shared by its laws
    laws."*_refuse" = {visibility = "hidden", hint = "read the contract's refusals"}

    [functions.double_dqn_targets]
    weight = 2
    partial = false                       # all its laws, or no points
    requires = ["dqn_targets"]            # where that fails, these laws are blocked

    [groups.refusals]
    laws = ["q_targets::*_refuse"]
    cap = 1.5                             # the most that these laws count together
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from rlcheck.catalogue import FUNCTIONS, select
from rlcheck.grading.laws import Law, laws_of
from rlcheck.grading.report import LawReport
from rlcheck.grading.seal import SECRET, secret_seed

__all__ = ["Assignment", "Terms", "Visibility", "awaits", "read_assignment"]

Visibility = Literal["public", "hidden", "after-due"]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class LawTerms(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What an assignment says of some laws of a function."""

    weight: Weight = 1.0
    visibility: Visibility | None = None
    hint: str = ""
    requires: tuple[str, ...] = ()


class FunctionTerms(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What an assignment says of a function; the keys of `laws` are patterns of law names."""

    weight: Weight = 1.0
    partial: bool = True
    visibility: Visibility = "public"
    hint: str = ""
    requires: tuple[str, ...] = ()
    laws: dict[str, LawTerms] = {}


class Group(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Laws, by patterns of their ids, that count `cap` points at the most."""

    laws: tuple[str, ...]
    cap: Weight


@dataclass(frozen=True)
class Terms:
    """What one law is worth, and how it is shown."""

    points: float = 1.0
    visibility: Visibility = "public"
    hint: str = ""
    requires: tuple[str, ...] = ()


class Assignment(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is asked for; see the module's text for the file that it is read from."""

    functions: dict[str, FunctionTerms]
    title: str = ""
    seed: int | Literal["per-submission"] = 0
    examples: Annotated[int, msgspec.Meta(ge=1)] | None = None
    gradients: bool = False
    tensors: bool = False
    due: datetime | None = None
    groups: dict[str, Group] = {}

    def laws(self) -> list[Law]:
        """The laws of all functions that are asked for, in order."""
        return [
            law
            for name in self.functions
            if name in FUNCTIONS
            for gradients in ((False, True) if self.gradients else (False,))
            for law in laws_of(FUNCTIONS[name], gradients=gradients)
        ]

    def terms(self, laws: Iterable[Law]) -> dict[str, Terms]:
        """What each law is worth: a function's weight, shared by its laws' weights."""
        found = list(laws)
        own = {law.id: self._law_terms(law) for law in found}
        shared: dict[str, float] = {}
        for law in found:
            shared[law.function] = shared.get(law.function, 0.0) + own[law.id].weight
        return {law.id: self._terms(law, own[law.id], shared[law.function]) for law in found}

    def _law_terms(self, law: Law) -> LawTerms:
        matching = [
            terms
            for pattern, terms in self.functions[law.function].laws.items()
            if fnmatchcase(law.name, pattern)
        ]
        return matching[-1] if matching else LawTerms()

    def _terms(self, law: Law, own: LawTerms, shared: float) -> Terms:
        function = self.functions[law.function]
        return Terms(
            points=function.weight * own.weight / shared if shared else 0.0,
            visibility=own.visibility or function.visibility,
            hint=own.hint or function.hint,
            requires=(*function.requires, *own.requires),
        )

    def is_hidden(self, visibility: Visibility, *, now: datetime | None = None) -> bool:
        """Whether a law's input stays out of reports at that moment, by default now."""
        if visibility == "after-due":
            return self.due is None or _zoned(now or datetime.now(UTC)) < _zoned(self.due)
        return visibility == "hidden"

    def total(self, laws: Sequence[LawReport], *, at_best: bool = False) -> float:
        """The points of the laws that passed, or of all: all or nothing by function, capped."""
        kept = [law for law in laws if at_best or law.status == "passed"]
        whole = {name for name, function in self.functions.items() if not function.partial}
        lost = {law.function for law in laws if law not in kept} & whole
        kept = [law for law in kept if law.function not in lost]
        surplus = 0.0
        for group in self.groups.values():
            inside = (law.points for law in kept if _any_matches(group.laws, law.id))
            surplus += max(0.0, sum(inside) - group.cap)
        return round(sum(law.points for law in kept) - surplus, 6)

    def check_secret(self, environment: Mapping[str, str] = os.environ) -> None:
        """Raise ValueError where seeds are per submission, and RLCHECK_SECRET is not set."""
        if self.seed == "per-submission" and not environment.get(SECRET):
            raise ValueError(f"the assignment's seed is per submission; set {SECRET}")

    def seed_of(self, content: bytes, environment: Mapping[str, str] = os.environ) -> int:
        """The seed of a submission: one for all, or the HMAC of its content under the secret.

        Raises:
            ValueError: the seed is per submission, and RLCHECK_SECRET is not set.
        """
        if self.seed != "per-submission":
            return self.seed
        self.check_secret(environment)
        return secret_seed(content, environment[SECRET])

    def kept_back(self) -> frozenset[str]:
        """The ids of the laws whose inputs are hidden, or were until the due date."""
        terms = self.terms(self.laws()).items()
        return frozenset(law for law, term in terms if term.visibility != "public")

    def hidden(self) -> frozenset[str]:
        """The ids of the laws whose inputs are hidden now."""
        terms = self.terms(self.laws()).items()
        return frozenset(law for law, term in terms if self.is_hidden(term.visibility))


def read_assignment(path: Path) -> Assignment:
    """The assignment in a TOML file, held against the functions and laws that there are.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no assignment; the text names the file, and the key or the name.
    """
    try:
        assignment = msgspec.toml.decode(path.read_bytes(), type=Assignment)
        _check(assignment)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    return assignment


def _check(assignment: Assignment) -> None:
    """Every name and every pattern of an assignment names something."""
    if not assignment.functions:
        raise ValueError("functions is empty; it must name what is asked for")
    select(list(assignment.functions))
    laws = assignment.laws()
    for name, function in assignment.functions.items():
        if name not in FUNCTIONS:
            raise ValueError(f"functions.{name} is no function, but several; name each")
        own = [law.name for law in laws if law.function == name]
        _must_match(f"functions.{name}.laws", function.laws, own)
        _must_match(f"functions.{name}.requires", function.requires, _names(laws))
        for key, terms in function.laws.items():
            _must_match(f"functions.{name}.laws.{key}.requires", terms.requires, _names(laws))
    for name, group in assignment.groups.items():
        _must_match(f"groups.{name}.laws", group.laws, [law.id for law in laws])
    for law in laws:
        inside = [n for n, group in assignment.groups.items() if _any_matches(group.laws, law.id)]
        if len(inside) > 1:
            raise ValueError(f"groups {inside[0]} and {inside[1]} both cap {law.id}")
    _refuse_circles(assignment, laws)
    if not sum(terms.points for terms in assignment.terms(laws).values()):
        raise ValueError("all that is asked for is worth nothing")


def _must_match(where: str, patterns: Iterable[str], names: Iterable[str]) -> None:
    known = list(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise ValueError(f"{where}: {pattern!r} matches nothing that is asked for")


def _names(laws: Iterable[Law]) -> set[str]:
    return {name for law in laws for name in (law.id, law.function)}


def _refuse_circles(assignment: Assignment, laws: Sequence[Law]) -> None:
    """A law that waits for itself would never be judged."""
    terms = assignment.terms(laws)
    waits = {law.id: [other.id for other in laws if awaits(terms[law.id], other)] for law in laws}
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        raise ValueError(f"requires goes in a circle: {' → '.join(error.args[1])}") from None


def awaits(terms: Terms, other: Law | LawReport) -> bool:
    """Whether a law of these terms is blocked where the other one does not hold."""
    return _any_matches(terms.requires, other.id) or _any_matches(terms.requires, other.function)


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _zoned(moment: datetime) -> datetime:
    """A moment without a zone is meant in this machine's."""
    return moment if moment.tzinfo else moment.astimezone()
