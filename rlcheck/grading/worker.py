"""The process that holds a submission: `python -P worker.py SOCKET KIND TARGET MEMORY`.

It runs as a script, away from the package, and answers requests on a socket of its own:
first a greeting that says what the submission provides, then one answer for each call. What
the submission prints goes nowhere near the protocol.
"""

import importlib
import importlib.util
import os
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


def _load_submission(kind: str, target: str) -> ModuleType:
    if kind == "module":
        return importlib.import_module(target)
    path = Path(target)
    sys.path.append(str(path.parent))  # last: a sibling must not shadow the standard library
    return _load_file("submission", path)


def _frames(error: BaseException) -> str:
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [f for f in own if "importlib" not in f.filename]
    return "".join(traceback.format_list(own[-12:]))[-4000:]


def _describe(error: BaseException) -> dict[str, Any]:
    kinds = [base.__name__ for base in type(error).__mro__ if base is not object]
    try:
        text = str(error)[:2000].encode("utf-8", "backslashreplace").decode()
    except Exception:
        text = "(an exception without a readable text)"
    return {"raised": kinds, "text": text, "frames": _frames(error)}


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**24, 2**24))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


class _Channel:
    """Frames of MessagePack with a length before each."""

    def __init__(self, fd: int, wire: ModuleType) -> None:
        self._socket = socket.socket(fileno=fd)
        self._wire = wire

    def receive(self) -> Any:
        (length,) = struct.unpack("<Q", self._read(8))
        return self._wire.unpack(self._read(length))

    def _read(self, length: int) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            got = self._socket.recv_into(view)
            if not got:
                os._exit(0)  # the grader is gone
            view = view[got:]
        return data

    def send(self, message: Any) -> None:
        data = self._wire.pack(message)
        self._socket.sendall(struct.pack("<Q", len(data)) + data)


def _greet(module: ModuleType, names: list[str], wire: ModuleType) -> dict[str, Any]:
    public = [n for n in vars(module) if isinstance(n, str) and not n.startswith("_")]
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
    args, kwargs = request["args"], request["kwargs"]
    try:
        function = getattr(module, request["function"])
        if request["backward"] is not None:
            backward = tensors.Backward(*request["backward"])
            answer, gradient = tensors.differentiate(function, args, kwargs, backward)
            return {"answer": wire.plain(answer), "gradient": gradient}
        with warnings.catch_warnings(record=request["watch"]) as caught:
            if request["watch"]:
                warnings.simplefilter("always")
            if request["tensors"]:
                answer, args, kwargs = tensors.with_tensors(function, args, kwargs)
            else:
                answer = function(*args, **kwargs)
            answer = wire.plain(answer)
        if not request["watch"]:
            return {"answer": answer}
        texts = [str(w.message)[:200] for w in (caught or ())[:10]]
        return {"answer": answer, "args": args, "kwargs": kwargs, "warnings": texts}
    except (wire.Unreadable, tensors.NoGradient) as error:
        return {"raised": [type(error).__name__], "text": str(error), "frames": ""}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _describe(error)


def main() -> None:
    """Load, greet, answer until the grader closes the socket."""
    fd, kind, target, memory = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire = _load_file("_rlcheck_wire", HERE / "wire.py")
    tensors = _load_file("_rlcheck_tensors", HERE / "tensors.py")
    wire.end_with_parent()
    channel = _Channel(fd, wire)
    names = channel.receive()
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    sys.argv[:] = [target]
    sys.meta_path.insert(0, _NoReference())
    _limit(memory)
    warnings.simplefilter("ignore")
    try:
        module = _load_submission(kind, target)
        channel.send(_greet(module, names, wire))
    except BaseException as error:
        channel.send(_describe(error))
        return
    while True:
        request = channel.receive()
        reply = _answer(module, request, wire, tensors)
        try:
            channel.send(reply)
        except wire.Unreadable as error:
            channel.send({"raised": ["Unreadable"], "text": str(error), "frames": ""})


if __name__ == "__main__":
    main()
