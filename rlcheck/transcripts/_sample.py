"""One rollout as a dump holds it: what cannot be read is a violation, never an exception."""

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

from numpy.typing import NDArray

from rlcheck._inputs import Flags, Floats, Integers, flags, index_array, real_array, refuse_where


class Sample:
    """The fields of one rollout, what was made of them, and the violations that were met."""

    def __init__(self, held: Any, *violations: str) -> None:
        held = joined(held)
        if is_dataclass(held) or hasattr(type(held), "model_fields"):  # the models of pydantic
            held = getattr(held, "__dict__", held)
        if not isinstance(held, Mapping):
            raise TypeError(f"sample is {shown(held)}; a mapping is due")
        self.held: Mapping[str, Any] = held
        self.violations = [*violations]
        self.turns: list[dict[str, Any]] = []  # without their number, reward and flags
        self.reward: Any = None
        self.version: Any = None  # or {turn: version}
        self.last: tuple[str, int] | None = None  # place and id of the last token, if the model's
        self.unanswered = False  # whether the last turn calls a tool in vain
        self.answered = False  # whether the last word is not the model's

    def find(self, *names: str) -> tuple[str, Any]:
        """The first of these fields that holds something, or the first name and None."""
        for name in names:
            value = plain(self.held.get(name))
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                return name, value  # NaN is what pandas fills a gap with
        return (*names, "")[0], None

    def read(self, reader: Callable[[str, Any], Any], *names: str, due: bool = False) -> Any:
        """What the reader makes of the first of these fields; None where there is none."""
        name, value = self.find(*names)
        try:
            if value is not None:
                return reader(name, value)
            if due:
                self.violations.append(f"{name} is missing")
        except (TypeError, ValueError, RuntimeError) as refusal:  # the last from a tensor
            self.violations.append(str(refusal))
        return None


def joined(held: Any) -> Any:
    """The fields of what keeps tensors apart from the others: verl's `DataProto`, or its row."""
    if isinstance(held, Mapping) or not hasattr(held, "non_tensor_batch"):
        return held
    parts: list[Any] = [held.non_tensor_batch, getattr(held, "batch", None)]  # a tensor goes first
    kept = [part for part in parts if hasattr(part, "items")]
    return {name: value for part in kept for name, value in part.items()}


def equal(one: Any, other: Any) -> bool:
    """Whether two fields hold the same, in whatever form; NaN equals NaN."""
    try:
        one, other = _entries(one), _entries(other)
        return bool(one == other) or repr(one) == repr(other)
    except (TypeError, ValueError, RuntimeError):
        return False


def _entries(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def plain(value: Any) -> Any:
    """A Python scalar for one of NumPy, a tensor or an array without axes."""
    return value.item() if getattr(value, "shape", None) == () else value


def shown(value: Any) -> str:
    """The value in a text; short however long or deep it is."""
    text = repr(value) if isinstance(value, str) else reprlib.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def text(name: str, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; a text is due")
    if not value:
        raise ValueError(f"{name} is ''; it must be a non-empty text")
    return value


def listed(name: str, value: Any, reader: Callable[[str, Any], Any] | None = None) -> list[Any]:
    """The entries of a list or column, each as the reader makes it."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(plain(value), Iterable):
        raise TypeError(f"{name} is {shown(value)}; a list is due")
    return [reader(f"{name}[{i}]", x) if reader else x for i, x in enumerate(value)]


def token_ids(name: str, value: Any) -> Integers:
    """[N] token ids, integers ≥ 0."""
    ids = _vector(name, index_array(name, value))
    refuse_where(name, ids, ids < 0, "≥ 0")
    return ids


def token_flags(name: str, value: Any) -> Flags:
    """[N] booleans from 0/1."""
    return _vector(name, flags(name, value))


def token_numbers(name: str, value: Any) -> Floats:
    """[N] numbers, NaN for None: so TRL writes a log-probability that vLLM could not give."""
    entries = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(entries, list | tuple):
        entries = [math.nan if entry is None else plain(entry) for entry in entries]
    return real_array(name, entries, ndim=1, allow="anything")


def _vector(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be a vector")
    return array
