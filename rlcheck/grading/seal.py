"""Seals of kept results, so that nobody else's file is taken for one.

The key is made at the first use and stays with the user. Where it can be neither read nor kept, a
run has one of its own, and nothing is resumed.
"""

import contextlib
import functools
import hashlib
import hmac
import os
from pathlib import Path

__all__ = ["seal"]

KEY_BYTES = 32


def seal(data: bytes) -> str:
    """A code over data that only this user's rlcheck can make."""
    return hmac.new(_key(), data, hashlib.sha256).hexdigest()


@functools.cache
def _key() -> bytes:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "rlcheck" / "key"
    with contextlib.suppress(OSError):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f"key.{os.getpid()}")
            fresh.touch(mode=0o600)
            fresh.write_bytes(os.urandom(KEY_BYTES))
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)  # the first of several runs makes it
            fresh.unlink()
        found = path.read_bytes()
        if len(found) == KEY_BYTES:
            return found
    return os.urandom(KEY_BYTES)
