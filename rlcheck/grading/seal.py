"""What only this user's rlcheck knows: seals of kept results, and seeds of hidden laws.

The key is made at the first use and stays with the user. Where it can be neither read nor kept, a
run has one of its own, and nothing is resumed.
"""

import contextlib
import functools
import hashlib
import hmac
import os
from pathlib import Path

__all__ = ["SECRET", "seal", "secret", "secret_seed"]

KEY_BYTES = 32
SECRET = "RLCHECK_SECRET"  # the environment's variable, which goes before the user's key


def seal(data: bytes) -> str:
    """A code over data that only this user's rlcheck can make."""
    return hmac.new(_key(), data, hashlib.sha256).hexdigest()


def secret() -> str:
    """What seeds are made with: the text in RLCHECK_SECRET, or what stands for the user's key."""
    return os.environ.get(SECRET) or seal(b"seeds")


def secret_seed(data: bytes, key: str | None = None) -> int:
    """A seed that nobody can tell from data without the secret; it is the same every time."""
    digest = hmac.new((key or secret()).encode(), data, hashlib.sha256).digest()
    return int.from_bytes(digest[:6], "big")


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
