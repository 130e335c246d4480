"""Plain data across the pipe: arguments and answers as MessagePack, never pickle.

This module stands alone (the standard library, numpy, msgspec), because the worker loads it
from its file, in a process where rlcheck itself cannot be imported.
"""

import contextlib
import ctypes
import dataclasses
import inspect
import signal
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import islice
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

ARRAY, TUPLE, TABLE, BIG_INTEGER, SET = 1, 2, 3, 4, 5

MAX_ENTRIES = 5_000_000
MAX_DEPTH = 8
MAX_DIGITS = 1000
NUMERIC_KINDS = "biuf"


class Unreadable(TypeError):
    """An answer that is no number, array, text, sequence or record."""


class TableFunction:
    """A callable given by a finite table; an argument outside it raises LookupError.

    Laws pass one where a function takes a callable, because a table can cross the pipe.
    """

    def __init__(self, table: Mapping[Any, Any]) -> None:
        self.table = dict(table)

    def __call__(self, argument: Any) -> Any:
        return self.table[argument]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableFunction) and self.table == other.table

    def __hash__(self) -> int:
        return hash(tuple(self.table))

    def __repr__(self) -> str:
        return f"{self.table!r}.__getitem__"


def plain(answer: Any, entries: int = MAX_ENTRIES) -> Any:
    """An answer rebuilt from None, bool, int, float, str, list, dict and exact numpy arrays.

    Tensors and other array types become arrays; named tuples and dataclasses become dicts of
    their fields, tuples become lists.

    Raises:
        Unreadable: anything else, more than `entries` entries, nesting beyond MAX_DEPTH.
    """
    return _plain(answer, _Budget(entries), MAX_DEPTH)


class _Budget:
    """How many entries an answer may still have."""

    def __init__(self, entries: int) -> None:
        self._all = self._left = entries

    def spend(self, entries: int) -> None:
        self._left -= entries
        if self._left < 0:
            raise Unreadable(f"the answer has more than {self._all} entries")

    def take(self, entries: Iterable[Any]) -> list[Any]:
        """The entries, whatever length they claim to have, or have no end."""
        taken = list(islice(entries, self._left + 1))
        self.spend(len(taken))
        return taken


def _plain(value: Any, budget: _Budget, depth: int) -> Any:
    kind = type(value)
    if kind is float or kind is bool or value is None or kind is int:
        return value
    if depth == 0:
        raise Unreadable(f"the answer is nested more than {MAX_DEPTH} deep")
    if kind is list or kind is tuple:
        return [_plain(entry, budget, depth - 1) for entry in budget.take(value)]
    if isinstance(value, str):
        text = str.__str__(value)
        budget.spend(len(text) // 8)
        return text
    if isinstance(value, np.float64):
        return float(value)
    if isinstance(value, Real | Decimal) and not isinstance(value, np.generic):
        return int(value) if isinstance(value, Integral) else float(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in budget.take(dataclasses.fields(value))]
        return {name: _plain(getattr(value, name), budget, depth - 1) for name in names}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {
            str(name): _plain(entry, budget, depth - 1)
            for name, entry in zip(value._fields, budget.take(value), strict=True)
        }
    if isinstance(value, SimpleNamespace):
        value = vars(value)
    if isinstance(value, Mapping):
        return {
            _plain(key, budget, 1): _plain(entry, budget, depth - 1)
            for key, entry in budget.take(value.items())
        }
    if isinstance(value, list | tuple):
        return [_plain(entry, budget, depth - 1) for entry in budget.take(value)]
    return _plain_array(value, budget, depth)


def _plain_array(value: Any, budget: _Budget, depth: int) -> Any:
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if not (isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__")):
        raise Unreadable(f"the answer holds a {type(value).__name__}")
    array = np.array(value, subok=False)
    budget.spend(array.size)
    if array.dtype.kind in NUMERIC_KINDS:
        wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
        return array.astype(np.float64) if wide else array
    if array.dtype.kind == "O" and array.ndim == 0:
        raise Unreadable(f"the answer holds a {type(value).__name__}")
    if array.dtype.kind in "OU":
        return [_plain(entry, budget, depth - 1) for entry in array.tolist()]
    raise Unreadable(f"the answer has dtype {array.dtype}")


def _tag(value: Any) -> Any:
    """What msgspec encodes natively, the rest as tagged extensions."""
    kind = type(value)
    if kind is float or kind is bool or value is None or kind is str or kind is bytes:
        return value
    if kind is int:
        if -(2**63) <= value < 2**64:
            return value
        if value.bit_length() > 3 * MAX_DIGITS:
            raise Unreadable(f"an integer has more than {MAX_DIGITS} digits")
        return msgspec.msgpack.Ext(BIG_INTEGER, str(value).encode())
    if kind is list:
        return [_tag(entry) for entry in value]
    if kind is dict:
        return {_tag(key): _tag(entry) for key, entry in value.items()}
    if kind is tuple:
        return msgspec.msgpack.Ext(TUPLE, pack(list(value)))
    if kind is set:
        return msgspec.msgpack.Ext(SET, pack(sorted(value, key=repr)))
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value).reshape(value.shape)
        header = msgspec.msgpack.encode((array.dtype.str, array.shape))
        return msgspec.msgpack.Ext(ARRAY, bytes([len(header)]) + header + array.tobytes())
    if isinstance(value, np.float64 | np.int64 | np.bool_):
        return value.item()  # as Python's own number, which an entry of a list is
    if isinstance(value, np.generic):
        return _tag(np.asarray(value))
    if isinstance(value, TableFunction):
        return msgspec.msgpack.Ext(TABLE, pack(value.table))
    raise Unreadable(f"a {kind.__name__} cannot cross the pipe")


def _untag(code: int, data: memoryview) -> Any:
    if code == ARRAY:
        length = data[0]
        dtype, shape = msgspec.msgpack.decode(data[1 : 1 + length])
        kind = np.dtype(dtype)
        if kind.kind not in NUMERIC_KINDS:
            raise Unreadable(f"an array of dtype {dtype} cannot cross the pipe")
        return np.frombuffer(bytearray(data[1 + length :]), dtype=kind).reshape(shape)
    if code == TUPLE:
        return tuple(unpack(data))
    if code == SET:
        return set(unpack(data))
    if code == TABLE:
        return TableFunction(unpack(data))
    if code == BIG_INTEGER:
        if len(data) > MAX_DIGITS:
            raise Unreadable(f"an integer has more than {MAX_DIGITS} digits")
        return int(bytes(data).decode())
    raise Unreadable(f"unknown extension {code}")


_DECODER = msgspec.msgpack.Decoder(ext_hook=_untag)


def end_with_parent() -> None:
    """Have the system kill this process when its parent dies, where the system can (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def printable(text: str) -> str:
    """Text that a terminal shows as it is: what is neither printable nor a line end is escaped."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def pack(value: Any) -> bytes:
    """A tree of plain values as MessagePack."""
    return msgspec.msgpack.encode(_tag(value))


def unpack(data: bytes | memoryview) -> Any:
    """The tree back; raises msgspec.DecodeError or Unreadable on anything else."""
    return _DECODER.decode(data)


def parameters(function: Any) -> list[tuple[str, int, bool]] | str | None:
    """(name, kind, has a default) of each parameter of a callable.

    None where Python cannot tell (some compiled functions); a text where it is no callable.
    """
    if not callable(function):
        return f"is a {type(function).__name__}, not a function"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return [
        (p.name, int(p.kind), p.default is not inspect.Parameter.empty)
        for p in signature.parameters.values()
    ]
