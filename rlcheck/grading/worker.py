"""The process that holds a submission; it answers requests on a socket of its own.

It runs away from the package: first a greeting that says what the submission provides, then one
answer for each call. What the submission prints goes nowhere near the protocol. An answer carries
a code over the nonce of its request, under a key that only this module's frames hold: a stray
write, a late or a repeated answer is no answer. Code that searches this very process can find the
key; what it then forges is an answer of the submission, which the grader does not believe anyway.
"""

import contextlib
import fcntl
import hashlib
import importlib
import importlib.util
import json
import os
import random
import resource
import signal
import socket
import struct
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
KEY_BYTES, NONCE_BYTES, CODE_BYTES = 32, 16, 16
MAX_FILES = 512
CPU_SECONDS = 3600  # of one worker's whole life
REFUSAL = "a graded submission cannot import rlcheck: it is graded on its own mathematics"


class _NoReference:
    """An import hook that keeps the reference out of a submission's reach."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "rlcheck" or name.startswith("rlcheck."):
            raise ImportError(REFUSAL, name=name)


def _load_file(name: str, path: Path) -> ModuleType:
    source = path / "__init__.py" if path.is_dir() else path
    spec = importlib.util.spec_from_file_location(
        name, source, submodule_search_locations=[str(path)] if path.is_dir() else None
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_submission(kind: str, target: str, *, alone: bool) -> ModuleType:
    if kind == "module":
        return importlib.import_module(target)
    path = Path(target)
    if not alone:
        sys.path.append(str(path.parent))  # last: a sibling must not shadow the standard library
    return _load_file("submission", path)


def _frames(error: BaseException) -> str:
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [f for f in own if "importlib" not in f.filename]
    return _readable("".join(traceback.format_list(own[-12:]))[-4000:])


def _readable(text: str) -> str:
    """The text without what UTF-8 cannot hold, such as the bytes of a file name in another code."""
    return text.encode("utf-8", "backslashreplace").decode()


def _describe(error: BaseException) -> dict[str, Any]:
    kinds = [_readable(base.__name__) for base in type(error).__mro__ if base is not object]
    try:
        text = _readable(str(error)[:2000])
    except Exception:
        text = "(an exception without a readable text)"
    return {"raised": kinds, "text": text, "frames": _frames(error)}


def _limit(memory: int, processes: int) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 2**24,
        resource.RLIMIT_NOFILE: MAX_FILES,
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_NPROC: processes,
    }
    for kind, most in limits.items():
        if most or kind == resource.RLIMIT_CORE:
            _, hard = resource.getrlimit(kind)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with contextlib.suppress(ValueError, OSError):  # macOS knows no RLIMIT_AS
                resource.setrlimit(kind, (most, most))


class _Channel:
    """Frames with a length before each: requests with a nonce, answers with a code over it."""

    def __init__(self, fd: int) -> None:
        high = random.SystemRandom().randrange(MAX_FILES // 2, MAX_FILES - 8)
        self._socket = socket.socket(fileno=fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, high))
        os.close(fd)
        self._key = bytes(self._read(KEY_BYTES))
        self._nonce = b""

    def receive(self) -> bytearray:
        (length,) = struct.unpack("<Q", self._read(8))
        self._nonce = bytes(self._read(NONCE_BYTES))
        return self._read(length)

    def _read(self, length: int) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            got = self._socket.recv_into(view)
            if not got:
                os._exit(0)  # the grader is gone
            view = view[got:]
        return data

    def send(self, data: bytes) -> None:
        code = hashlib.blake2b(self._nonce, key=self._key, digest_size=CODE_BYTES)
        code.update(data)
        self._socket.sendall(struct.pack("<Q", len(data)) + code.digest() + data)


def _greet(module: ModuleType, names: list[str], wire: ModuleType) -> dict[str, Any]:
    public = [n[:100] for n in vars(module) if isinstance(n, str) and not n.startswith("_")]
    return {
        "provided": {
            name: wire.parameters(getattr(module, name)) for name in names if hasattr(module, name)
        },
        "public": public[:500],
        "version": str(getattr(module, "__version__", ""))[:100],
    }


def _answer(
    module: Any, request: dict[str, Any], wire: ModuleType, tensors: ModuleType
) -> dict[str, Any]:
    """Call, and say what came of it; each call is watched, so that none looks different."""
    args, kwargs = wire.unpack(request["call"])
    try:
        function = getattr(module, request["function"])
        if request["backward"] is not None:
            backward = tensors.Backward(*request["backward"])
            answer, gradient = tensors.differentiate(function, args, kwargs, backward)
            return {"answer": wire.plain(answer, request["entries"]), "gradient": gradient}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if request["tensors"]:
                answer, args, kwargs = tensors.with_tensors(function, args, kwargs)
            else:
                answer = function(*args, **kwargs)
            answer = wire.plain(answer, request["entries"])
        left = wire.pack([args, kwargs])
        texts = [str(w.message)[:200] for w in (caught or ())[:10]]
        changed = None if left == request["call"] else left
        return {"answer": answer, "changed": changed, "warnings": texts}
    except (wire.Unreadable, tensors.NoGradient) as error:
        return {"raised": [type(error).__name__], "text": str(error), "frames": ""}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _describe(error)


def main(spec: dict[str, Any], fd: int) -> None:
    """Load, greet, answer until the grader closes the socket."""
    if spec["kind"] == "probe":
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire = _load_file("_rlcheck_wire", HERE / "wire.py")
    tensors = _load_file("_rlcheck_tensors", HERE / "tensors.py")
    wire.end_with_parent()
    channel = _Channel(fd)
    names = wire.unpack(channel.receive())
    kind, target = spec["kind"], spec["target"]
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    sys.argv[:] = [target]
    sys.meta_path.insert(0, _NoReference())
    _limit(spec["memory"], spec["processes"])
    if spec["tier"] != "process":
        _load_file("_rlcheck_seccomp", HERE / "seccomp.py").refuse_signals_by_files()
    warnings.simplefilter("ignore")
    try:
        module = _load_submission(kind, target, alone=spec["alone"])
        greeting = wire.pack(_greet(module, names, wire))
    except BaseException as error:
        channel.send(wire.pack(_describe(error)))
        return
    channel.send(greeting)
    while True:
        request = wire.unpack(channel.receive())
        reply = _answer(module, request, wire, tensors)
        try:
            data = wire.pack(reply)
        except wire.Unreadable as error:
            data = wire.pack({"raised": ["Unreadable"], "text": str(error), "frames": ""})
        channel.send(data)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
