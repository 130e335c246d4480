"""A library's buffers and datasets, judged in this interpreter or in another one."""

import json
import os
import subprocess
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from rlcheck.grading.buffers.check import EXAMPLES, check_kind
from rlcheck.grading.findings import summary
from rlcheck.subjects import Declared
from rlcheck.subjects.buffers import BufferSubject

__all__ = ["Judged", "Shown", "judge", "judge_here"]

HOLDS, NOT_APPLICABLE, NOT_PROVIDED = "holds", "nothing to judge", "not provided"
STATUSES = {"passed": HOLDS, "not_applicable": NOT_APPLICABLE}
ROOT = Path(__file__).resolve().parents[3]  # what `import rlcheck` is found in


class Shown(msgspec.Struct):
    """What one law showed of one kind of buffer or dataset."""

    law: str
    sentence: str
    status: str
    examples: int
    message: str = ""
    expected: str = ""
    got: str = ""
    counterexample: str = ""

    @property
    def broken(self) -> bool:
        """Whether the law does not hold."""
        return self.status not in STATUSES


class Judged(msgspec.Struct):
    """A library: its versions, and what the laws showed of each of its kinds."""

    name: str
    versions: dict[str, str]
    kinds: dict[str, list[Shown]]

    def undeclared(self, library: BufferSubject) -> dict[str, str]:
        """Laws that a kind breaks though nothing is declared of it."""
        declared = {law for entry in library.declared for law in entry.laws}
        return {
            f"{kind}::{shown.law}": f"{shown.message}: expected {shown.expected}, got {shown.got}, "
            f"by {shown.counterexample}"
            for kind, found in self.kinds.items()
            for shown in found
            if shown.broken and f"{kind}::{shown.law}" not in declared
        }

    def mended(self, library: BufferSubject) -> list[str]:
        """Declared laws that are not broken after all."""
        broken = {f"{k}::{s.law}" for k, found in self.kinds.items() for s in found if s.broken}
        return sorted(law for e in library.declared for law in e.laws if law not in broken)

    def word(self, library: BufferSubject, kind: str, law: str) -> str:
        """What the table says of a law: a declared kind of difference, or how it went."""
        if (shown := self.shown(kind, law)) is None:
            return NOT_PROVIDED
        if not shown.broken:
            return STATUSES[shown.status]
        entry = entry_of(library, kind, law)
        return entry.kind if entry else "undeclared"

    def shown(self, kind: str, law: str) -> Shown | None:
        """What a law showed of a kind; None where it was not asked."""
        return next((shown for shown in self.kinds[kind] if shown.law == law), None)


def entry_of(library: BufferSubject, kind: str, law: str) -> Declared | None:
    """What is declared of a law of a kind."""
    return next((entry for entry in library.declared if f"{kind}::{law}" in entry.laws), None)


def judge_here(library: BufferSubject, *, examples: int = EXAMPLES, seed: int = 0) -> Judged:
    """Judge a library that is installed in this interpreter."""
    adapter: Any = import_module(library.module)
    found = {
        name: summary(check_kind(getattr(adapter, name), examples=examples, seed=seed))
        for name in library.provides
    }
    versions = {name: version(name) for name in library.distributions}
    return msgspec.convert(
        {"name": library.name, "versions": versions, "kinds": found}, type=Judged
    )


def judge(
    library: BufferSubject, python: str, *, examples: int = EXAMPLES, seed: int = 0
) -> Judged:
    """Judge a library in an interpreter that has it, Hypothesis, NumPy, SciPy and msgspec.

    Raises:
        RuntimeError: it could not be judged; the text is what was printed last.
    """
    asked = [library.name, "--examples", str(examples), "--seed", str(seed), "--json"]
    command = [python, "-m", "rlcheck.grading.buffers", *asked]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if not (lines := done.stdout.splitlines()):
        raise RuntimeError(done.stderr[-2000:])
    return msgspec.json.decode(lines[-1], type=Judged)


def told(judged: Judged, library: BufferSubject) -> str:
    """What differs from what is declared, as text."""
    lines = [f"{law}\n    {text}" for law, text in judged.undeclared(library).items()]
    lines += [f"{law}\n    it is declared, and holds" for law in judged.mended(library)]
    counts = {kind: sum(not s.broken for s in found) for kind, found in judged.kinds.items()}
    lines += [f"{kind}: {n} of {len(judged.kinds[kind])} laws" for kind, n in counts.items()]
    return "\n".join(lines)


def as_json(judged: Judged) -> str:
    """One line."""
    return json.dumps(msgspec.to_builtins(judged))
