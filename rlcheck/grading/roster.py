"""Who is in a class: the submissions that targets stand for, and what each is called."""

import contextlib
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlcheck.grading.wire import printable

__all__ = ["LINK", "Submission", "is_class", "left_out", "submissions_in"]

LINK = "it is a link; a submission is a file of its own"
NO_PYTHON = "it is a folder without a Python file right in it that can be read"
BLANK = "\n\u2800\u115f\u1160"  # besides what is a space by its class


@dataclass(frozen=True)
class Submission:
    """One piece of work: the name it is reported under, and where it lies."""

    name: str
    path: Path
    entry: Path  # what was handed in: the path, or a folder around it
    barred: str = ""  # why it is not opened
    alone: bool = False  # others lie beside it, whom it must not see


def is_class(targets: Sequence[str]) -> bool:
    """Whether the targets are many: several, or a folder that is no package."""
    if len(targets) != 1:
        return True
    path = Path(targets[0])
    return path.is_dir() and not _is_package(path)


def _is_package(folder: Path) -> bool:
    return os.path.exists(folder / "__init__.py")  # False where it cannot be entered


def submissions_in(targets: Sequence[str], *, file: str | None = None) -> list[Submission]:
    """The submissions that targets stand for, in the order of their names.

    Several targets are a submission each; one folder that is no package holds one in each of its
    Python files, notebooks and folders. Of a folder, it is `file`, or the package, or the only
    Python file. What cannot be graded of these is barred, so that it has a report, and stops nobody
    else's.

    Raises:
        ValueError: a target does not exist, or a folder holds nothing to grade.
    """
    entries = [Path(target) for target in targets]
    for entry in entries:
        if not entry.exists() and not entry.is_symlink():
            raise ValueError(f"{entry}: there is no such file or folder")
    if len(targets) == 1 and is_class(targets):
        entries = list(filter(_may_be_graded, _entries(entries[0])))
        if not any(entry.suffix == ".py" or _has_python(entry) for entry in entries):
            raise ValueError(f"{targets[0]}: the folder holds no submission that can be read")
    shared = Path(os.path.commonpath([entry.absolute().parent for entry in entries]))
    found = [_submission(shared, entry, *_within(entry, file)) for entry in entries]
    named = sorted(_told_apart(_called_by_folder(found)), key=lambda submission: submission.name)
    return list(_hidden_from_each_other(named))


def left_out(targets: Sequence[str]) -> list[str]:
    """What lies in the folder of a class and is no submission, but for hidden files."""
    entries = _entries(Path(targets[0])) if len(targets) == 1 and is_class(targets) else []
    return [printable(str(entry)) for entry in entries if not _may_be_graded(entry)]


def _hidden_from_each_other(found: list[Submission]) -> Iterator[Submission]:
    """Where another submission lies in a file's folder or below, the file is alone."""
    below = Counter(folder for s in found for folder in set(s.path.absolute().parents))
    for submission in found:
        yield replace(submission, alone=below[submission.path.absolute().parent] > 1)


def _called_by_folder(found: Sequence[Submission]) -> Iterator[Submission]:
    """Submissions of different folders; those with one name have their folders' names before it."""
    folders: dict[str, set[Path]] = {}
    for submission in found:
        folders.setdefault(_same_file(submission.name), set()).add(submission.entry.parent)
    for submission in found:
        places = [folder.absolute() for folder in folders[_same_file(submission.name)]]
        shared = os.path.commonpath(places)
        above = submission.entry.parent.absolute().relative_to(shared)
        name = "-".join([*map(_told, above.parts), submission.name])
        yield replace(submission, name=name)


def _told_apart(found: Iterable[Submission]) -> Iterator[Submission]:
    """Where several submissions have one name, all are numbered but the one with the least path.

    Nobody's mark may depend on what a neighbour calls a file.
    """
    names: set[str] = set()
    for submission in sorted(found, key=lambda s: (len(s.entry.parts), s.entry.is_dir())):
        name, number = submission.name, 1
        while _same_file(name) in names:
            number += 1
            name = f"{submission.name} ({number})"
        names.add(_same_file(name))
        yield replace(submission, name=name)


def _same_file(name: str) -> str:
    """What two names have in common that some file systems take for one."""
    return unicodedata.normalize("NFC", name).casefold()


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder and is not hidden; nothing where it cannot be read."""
    with contextlib.suppress(OSError):
        return [entry for entry in sorted(folder.iterdir()) if entry.name[0] not in "._"]
    return []


def _may_be_graded(entry: Path) -> bool:
    """Whether an entry of a class is a submission, if only one that earns nothing."""
    return entry.suffix.lower() in (".py", ".ipynb") or entry.is_dir() or entry.is_symlink()


def _submission(shared: Path, entry: Path, path: Path, barred: str) -> Submission:
    """What an entry of a class holds; a link would be graded on somebody else's work.

    What lies above the folder that the submissions share is the teacher's, and may be a link.
    """
    own = path.absolute().relative_to(shared).parts
    linked = any((shared / Path(*own[: n + 1])).is_symlink() for n in range(len(own)))
    name = entry.name if entry.is_dir() else entry.stem
    return Submission(_told(name), path, entry, LINK if linked else barred)


def _told(name: str) -> str:
    """A name as it is reported: what looks like another one, or like nothing, is escaped."""
    own = name.strip()
    before, after = name[: name.find(own)], name[name.find(own) + len(own) :]
    escaped = "".join(c.encode("unicode_escape").decode() if _misleads(c) else c for c in own)
    return f"{_codes(before)}{printable(escaped)}{_codes(after)}"


def _misleads(c: str) -> bool:
    """Whether a character looks like another one, or like nothing."""
    forms = {unicodedata.normalize(form, c) for form in ("NFC", "NFKC")}
    return len(forms) > 1 or c in BLANK


def _codes(text: str) -> str:
    return "".join(f"\\x{ord(c):02x}" for c in text)


def _has_python(folder: Path) -> bool:
    return folder.is_dir() and any(folder.glob("*.py"))


def _within(entry: Path, file: str | None) -> tuple[Path, str]:
    """What is graded of an entry, and why it is not opened, where that is so."""
    if not entry.is_dir():
        return entry, "" if entry.suffix == ".py" else "it is no Python file, NAME.py"
    if file is not None:
        return entry / file, ""  # where it is missing, its report says so
    if _is_package(entry):
        return entry, ""
    if not _has_python(entry):
        return entry, NO_PYTHON
    first, *more = sorted(entry.glob("*.py"))
    names = printable(", ".join(file.name for file in (first, *more)))
    return first, f"it holds {names}; --file says which one is graded" if more else ""
