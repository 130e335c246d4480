"""Replay buffers and datasets of public libraries under rlcheck's laws: one adapter a library.

`NAME.py` has a class for each kind of buffer or dataset that the library has; it maps conventions
only, and imports nothing of rlcheck. `NAME.toml` says what must be installed, and which laws a kind
is known not to keep, as "Kind::law", and why.
"""

import ast
from functools import cache
from pathlib import Path

from rlcheck.subjects import Subject, declared_in

__all__ = ["BufferSubject", "buffer_subject", "buffer_subjects"]

HERE = Path(__file__).resolve().parent


class BufferSubject(Subject, frozen=True, forbid_unknown_fields=True):
    """A library with buffers or datasets."""

    @property
    def path(self) -> Path:
        """The adapter."""
        return HERE / f"{self.name}.py"

    @property
    def module(self) -> str:
        """The adapter's dotted name."""
        return f"{__name__}.{self.name}"

    @property
    def provides(self) -> list[str]:
        """The kinds, read from the adapter's source."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


@cache
def buffer_subject(name: str) -> BufferSubject | None:
    """A library by its adapter's name; None where there is none."""
    return declared_in(HERE, name, BufferSubject)


def buffer_subjects() -> tuple[BufferSubject, ...]:
    """All libraries that have an adapter of buffers or datasets, by name."""
    found = (buffer_subject(path.stem) for path in sorted(HERE.glob("*.toml")))
    return tuple(entry for entry in found if entry is not None)
