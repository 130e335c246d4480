"""Files that are written whole or not at all, and through nobody's link."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["DEVICES", "write_whole"]

DEVICES = (Path("/dev"), Path("/dev/fd"))  # whose links and pipes are the system's own
MODE = 0o644


def write_whole(path: Path, data: bytes) -> None:
    """Put a file with this content in the place of what is there; a device is written to.

    It is made beside that and moved there, so that no half a file is left, and what a link leads to
    stays as it was. In a folder that takes no new files, a plain file is overwritten.

    Raises:
        OSError: it cannot be written.
    """
    if path.parent in DEVICES:
        path.write_bytes(data)
        return
    try:
        _replace(path, data)
    except OSError:
        if not _is_plain(path):
            raise
        path.write_bytes(data)


def _replace(path: Path, data: bytes) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if _is_plain(path) else MODE
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".unfinished", delete=False) as made:
        try:
            made.write(data)
            made.flush()
            os.chmod(made.name, mode)
            os.replace(made.name, path)
        except OSError:
            os.unlink(made.name)
            raise


def _is_plain(path: Path) -> bool:
    """Whether it is a file, no link, and under no other name."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        return stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return False
