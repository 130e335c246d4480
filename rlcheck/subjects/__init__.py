"""Public libraries under rlcheck's laws: one adapter a library, and what is declared of it.

`NAME.py` calls the library under the names of the contract and maps conventions only; it imports
nothing of rlcheck, so that it runs in any interpreter that has the library. `NAME.toml` says what
must be installed, and which laws are known to fail, and why.
"""

import ast
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import msgspec

from rlcheck.catalogue import FUNCTIONS

__all__ = ["Declared", "Subject", "declared_in", "subject", "subjects"]

HERE = Path(__file__).resolve().parent
S = TypeVar("S")


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Laws that are known to fail for one reason.

    "deviation": a wrong value in ordinary use. "edge": a wrong value, NaN or an exception at an
    edge of what the contract allows. "convention": another definition, on purpose.
    """

    kind: str
    laws: tuple[str, ...]
    reason: str
    finding: str = ""  # docs/findings/<finding>.md

    def __post_init__(self) -> None:
        if self.kind not in ("deviation", "edge", "convention"):
            raise ValueError(f"kind is {self.kind!r}")
        if self.kind != "convention" and not self.finding:
            raise ValueError(f"a {self.kind} needs a finding: {self.reason}")


class Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A library: what its adapter needs, and what is declared of it."""

    title: str
    requires: tuple[str, ...]  # names that must be importable
    distributions: tuple[str, ...]  # whose versions belong to a result
    install: str
    environment: str  # that of the Makefile which holds it
    declared: tuple[Declared, ...] = ()
    name: str = ""

    @property
    def path(self) -> Path:
        """The adapter."""
        return HERE / f"{self.name}.py"

    @property
    def module(self) -> str:
        """The adapter's dotted name."""
        return f"{__name__}.{self.name}"

    @property
    def missing(self) -> list[str]:
        """What it requires and this interpreter lacks; nothing is imported."""
        return [name for name in self.requires if find_spec(name) is None]

    @property
    def provides(self) -> list[str]:
        """The functions of the contract that the adapter has, read from its source."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        return [name for name in FUNCTIONS if name in defined]

    def expected_failures(self, laws: Iterable[str]) -> dict[str, str]:
        """Of these laws the declared ones, with kind and reason."""
        asked = set(laws)
        return {
            law: f"{entry.kind}: {entry.reason}"
            for entry in self.declared
            for law in entry.laws
            if law in asked
        }


@cache
def subject(name: str) -> Subject | None:
    """A library by its adapter's name; None where there is none."""
    return declared_in(HERE, name, Subject)


def subjects() -> tuple[Subject, ...]:
    """All libraries that have an adapter, by name."""
    found = (subject(path.stem) for path in sorted(HERE.glob("*.toml")))
    return tuple(entry for entry in found if entry is not None)


def declared_in(folder: Path, name: str, kind: type[S]) -> S | None:
    """What NAME.toml in a folder says; None where there is no such file."""
    path = folder / f"{name}.toml"
    if not name.isidentifier() or not path.is_file():
        return None
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    return msgspec.convert({**told, "name": name}, type=kind)
