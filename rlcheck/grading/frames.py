"""The grader's end of the wire to a worker: questions with a nonce, answers with a code over it.

A question is its length, a nonce and MessagePack; an answer is its length, a code and MessagePack.
The code is the keyed BLAKE2b of the question's nonce and the answer. The key goes ahead of the
first question, and only the worker's own frames hold it, so that a stray write, a late answer or a
second one is no answer.
"""

import hashlib
import hmac
import secrets
import socket
import struct
import time
from typing import Any

from rlcheck.grading.wire import pack, unpack

__all__ = ["Broken", "Ended", "Frames"]

KEY_BYTES, NONCE_BYTES, CODE_BYTES = 32, 16, 16
SPARE_BYTES = 2**18
KINDS_OF_MESSAGES = {"answer", "raised", "provided"}


class Ended(Exception):
    """The other end is closed."""


class Broken(Exception):
    """What came is no answer to what was asked."""


class Frames:
    """One worker's socket."""

    def __init__(self, channel: socket.socket) -> None:
        self._socket = channel
        self._key = secrets.token_bytes(KEY_BYTES)
        self._greeting = self._key  # goes ahead of the first question

    def ask(self, question: Any, seconds: float) -> dict[str, Any]:
        """The answer, in plain data.

        It may be somewhat larger than the question, and return that too.

        Raises:
            TimeoutError: it is not there in time.
            Ended: the worker is gone.
            Broken: it is too large, not authentic or no message, or something came before it.
        """
        deadline = time.monotonic() + seconds
        data, nonce = pack(question), secrets.token_bytes(NONCE_BYTES)
        if self._is_talking():
            raise Broken
        self._send(self._greeting + struct.pack("<Q", len(data)) + nonce + data, seconds)
        self._greeting = b""
        return self._receive(nonce, SPARE_BYTES + 4 * len(data), deadline)

    def _is_talking(self) -> bool:
        """Whether something has come that nobody asked for."""
        self._socket.setblocking(False)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _send(self, data: bytes, seconds: float) -> None:
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError:
            raise Ended from None

    def _receive(self, nonce: bytes, largest: int, deadline: float) -> dict[str, Any]:
        length, code = struct.unpack("<Q16s", self._read(8 + CODE_BYTES, deadline))
        if length > largest:
            raise Broken
        data = self._read(length, deadline)
        true = hashlib.blake2b(nonce, key=self._key, digest_size=CODE_BYTES)
        true.update(data)
        if not hmac.compare_digest(code, true.digest()):
            raise Broken
        try:
            message = unpack(memoryview(data))
        except Exception:  # whatever a hostile answer provokes
            raise Broken from None
        if not isinstance(message, dict) or not message.keys() & KINDS_OF_MESSAGES:
            raise Broken
        return message

    def _read(self, length: int, deadline: float) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            self._socket.settimeout(max(deadline - time.monotonic(), 1e-3))
            try:
                got = self._socket.recv_into(view)
            except TimeoutError:
                raise
            except OSError:
                got = 0
            if not got:
                raise Ended
            view = view[got:]
        return data
