"""What a submission consists of: its digest, and a copy that holds nothing else."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rlcheck.grading.layout import seen

__all__ = ["Unmeasurable", "clean_copy", "content_of"]

LARGEST = 2**30  # bytes of a submission, with all that it can read beside it
MOST_FILES = 10_000
ALONE = "submission.py"  # what a copied file is called that has nothing beside it
FILE_MODE, FOLDER_MODE = 0o644, 0o755


class Unmeasurable(ValueError):
    """What a submission is cannot be told; the text says why."""


def content_of(path: Path, *, alone: bool) -> bytes:
    """A digest of a submission: names, links and contents of all that it can read of its own.

    Args:
        path: a file, or a package's folder.
        alone: whether a file does not see what lies beside it.

    Raises:
        Unmeasurable: it cannot be read, or there is too much to read.
    """
    digest = hashlib.sha256(os.fsencode(path.name))
    with _measured():
        for entry, kind in _entries(path, alone).items():
            name = entry.relative_to(path.parent)
            link = os.readlink(entry) if kind == "link" else ""
            digest.update(os.fsencode(f"\0{name}\0{kind}\0{link}\0"))
            if kind == "file":  # a pipe would never end
                with entry.open("rb") as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.digest()


@contextlib.contextmanager
def clean_copy(path: Path, *, alone: bool) -> Iterator[Path]:
    """A copy of a submission for as long as the context lasts, and where in it the path lies.

    It has the files, folders and links of the submission. All else that its owner could write an
    answer into is the same for everybody: times, modes, attributes, the folders above, and the
    name of a file that has nothing beside it.

    Raises:
        Unmeasurable: it cannot be read, or there is too much to read.
    """
    with tempfile.TemporaryDirectory(prefix="rlcheck-", ignore_cleanup_errors=True) as made:
        home = Path(made, "submission")
        with _measured():
            entries = _entries(path, alone)
            names = {entry: entry.relative_to(path.parent) for entry in entries}
            if entries == {path: "file"}:
                names[path] = Path(ALONE)
            for entry, kind in entries.items():
                _copy(entry, kind, home / names[entry])
            for place in (*(home / name for name in reversed(names.values())), home):
                if os.path.lexists(place):
                    os.utime(place, (0, 0), follow_symlinks=False)
        yield home / names[path]


def _copy(entry: Path, kind: str, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.parent.chmod(FOLDER_MODE)
    if kind == "link":
        place.symlink_to(os.readlink(entry))
    elif kind == "folder":
        place.mkdir()
        place.chmod(FOLDER_MODE)
    elif kind == "file":
        with entry.open("rb") as source, place.open("wb") as copy:
            shutil.copyfileobj(source, copy)  # and no holes
        place.chmod(FILE_MODE)


def _entries(path: Path, alone: bool) -> dict[Path, str]:
    """Everything that a submission consists of, with its kind; what contains comes first."""
    found: dict[Path, str] = {}
    waiting = seen(path, alone=alone)
    left = LARGEST
    while waiting:
        entry = waiting.pop()
        kind = _kind(entry)
        if entry != path.parent:
            found[entry] = kind
        if kind == "folder" or entry == path.parent:
            waiting.extend(entry.iterdir())
        left -= entry.stat().st_size if kind == "file" else 0
        if left < 0:
            raise Unmeasurable(f"there are more than {LARGEST} bytes in {path.parent}")
        if len(found) > MOST_FILES:
            raise Unmeasurable(f"there are more than {MOST_FILES} files in {path.parent}")
    return dict(sorted(found.items()))


def _kind(entry: Path) -> str:
    """What is at a path, without following links."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir():
        return "folder"
    return "file" if entry.is_file() else "neither"


@contextlib.contextmanager
def _measured() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unmeasurable(f"it cannot be read: {error.strerror}") from None
