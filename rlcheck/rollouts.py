"""Rollouts: why they stopped, and whether what was recorded of them is sound."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcheck._inputs import as_numbers, index_array, place, scalar, vector

__all__ = [
    "BatchSummary",
    "StopEvent",
    "classify_stop_event",
    "validate_rollout_batch",
    "validate_rollout_record",
]

TERMINATION_REASONS = ("success", "failure", "eos", "goal", "trap", "task_horizon")
TRUNCATION_REASONS = ("length", "timeout", "collector_limit", "max_tokens", "max_turns")

# Token log-probabilities often come in float32 and were added in float32; a token that is
# missing, doubled or re-encoded changes their sum by far more.
SUM_TOLERANCE = 1e-5


class StopEvent(NamedTuple):
    """Why a rollout stopped, and whether the task ended or something outside cut it off."""

    reason: str
    terminated: bool
    truncated: bool


class BatchSummary(NamedTuple):
    """Counts of a sound batch."""

    batch_size: int
    active_tokens: int
    terminated_sequences: int
    truncated_sequences: int
    unfinished_sequences: int


def classify_stop_event(
    reason: str, *, terminal_reasons: Collection[str], truncation_reasons: Collection[str]
) -> StopEvent:
    """Whether a stop reason is a termination, a truncation, both or neither.

    terminated = reason ∈ terminal_reasons,  truncated = reason ∈ truncation_reasons

    The two are independent: a token limit may be reached on the very token that ends the task.

    Args:
        reason: why the rollout stopped; None is in neither collection unless it is listed.
        terminal_reasons: reasons that end the task itself; nothing is bootstrapped there.
        truncation_reasons: reasons outside the task; the value bootstraps.

    Returns:
        StopEvent(reason, terminated, truncated).

    Raises:
        TypeError: a collection of reasons is a single text, or no collection.

    Reference:
        Pardo et al. (2018), Time limits in reinforcement learning, section 3.
    """
    for name, reasons in (
        ("terminal_reasons", terminal_reasons),
        ("truncation_reasons", truncation_reasons),
    ):
        if isinstance(reasons, str) or not isinstance(reasons, Collection):
            raise TypeError(f"{name} is {reasons!r}; a collection of texts is due")
    return StopEvent(reason, reason in tuple(terminal_reasons), reason in tuple(truncation_reasons))


class _Violations(list[str]):
    """The violations that were met, in the order of the checks."""

    def read(self, reader: Callable[..., Any], name: str, *args: Any, **rules: Any) -> Any:
        """What the reader makes of a field; None, and a violation more, where it refuses it."""
        try:
            return reader(name, *args, **rules)
        except (TypeError, ValueError) as refusal:
            self.append(str(refusal))
            return None


def validate_rollout_record(record: Any) -> list[str]:
    """Violations of what a rollout record promises, all of them; none for a sound record.

    Args:
        record: a mapping with `task_id`, `environment_version` (non-empty text),
            `policy_versions` (turn index → version, keys integer or text), `turns` (list of
            mappings with `turn` = 0, 1, 2, …, `observation`, `action`, `behavior_logprob` finite
            and ≤ 0, `reward` finite, `terminated` and `truncated` boolean and true only on the
            last turn, optionally `token_ids` with `token_logprobs` that sum to
            `behavior_logprob`), `stop_reason` (text; None when neither flag is set), optionally
            `max_staleness` with `learner_version`. Further keys are ignored.

    Returns:
        One text for each violation, in a fixed order: the record, its turns, stop and versions.

    Raises:
        Nothing: what is no record, or holds other types, is a violation too.

    Reference:
        Espeholt et al. (2018), IMPALA, section 4, on the lag between actor and learner;
        Pardo et al. (2018), Time limits in reinforcement learning, on the two flags.
    """
    if not isinstance(record, Mapping):
        return [f"record is a {type(record).__name__}; a mapping is due"]
    found = _Violations()
    found.read(_text, "task_id", record)
    found.read(_text, "environment_version", record)
    turns = found.read(_turns, "turns", record) or []
    for index, turn in enumerate(turns):
        _check_turn(found, index, turn, last=index == len(turns) - 1)
    _check_stop_reason(found, record.get("stop_reason"), turns[-1] if turns else None)
    _check_versions(found, record, len(turns))
    return list(found)


def _field(name: str, mapping: Mapping[str, Any]) -> Any:
    """The field that a dotted name ends in."""
    key = name.rpartition(".")[2]
    if key not in mapping:
        raise ValueError(f"{name} is missing")
    return mapping[key]


def _text(name: str, mapping: Mapping[str, Any]) -> str:
    value = _field(name, mapping)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is {_shown(value)}; it must be a non-empty text")
    return value


def _turns(name: str, record: Mapping[str, Any]) -> Sequence[Any]:
    value = _field(name, record)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or not value:
        raise ValueError(f"{name} is {_shown(value)}; it must be a list of at least one turn")
    return value


def _number(name: str, mapping: Mapping[str, Any]) -> float:
    value = _field(name, mapping)
    if type(value) is float and math.isfinite(value):  # most are: records are long
        return value
    return scalar(name, value)


def _logprob(name: str, mapping: Mapping[str, Any]) -> float:
    value = _number(name, mapping)
    if value > 0:
        raise ValueError(f"{name} is {value}; it must be ≤ 0")
    return value


def _boolean(name: str, mapping: Mapping[str, Any]) -> bool:
    value = _field(name, mapping)
    if not _is_boolean(value):
        raise ValueError(f"{name} is {_shown(value)}; it must be True or False")
    return bool(value)


def _is_boolean(value: Any) -> bool:
    scalar_array = isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind == "b"
    return isinstance(value, bool | np.bool_) or scalar_array


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_turn(found: _Violations, index: int, turn: Any, *, last: bool) -> None:
    name = f"turns[{index}]"
    if not isinstance(turn, Mapping):
        found.append(f"{name} is {_shown(turn)}; a mapping is due")
        return
    number = found.read(_number, f"{name}.turn", turn)
    if number is not None and (number != index or _is_boolean(turn["turn"])):
        found.append(f"{name}.turn is {_shown(turn['turn'])}; it must be {index}")
    found.read(_field, f"{name}.observation", turn)
    found.read(_field, f"{name}.action", turn)
    logprob = found.read(_logprob, f"{name}.behavior_logprob", turn)
    found.read(_number, f"{name}.reward", turn)
    for flag in ("terminated", "truncated"):
        if found.read(_boolean, f"{name}.{flag}", turn) and not last:
            found.append(f"{name}.{flag} is True; only the last turn may end the rollout")
    _check_tokens(found, name, turn, logprob)


def _check_tokens(
    found: _Violations, name: str, turn: Mapping[str, Any], logprob: float | None
) -> None:
    ids, logprobs = turn.get("token_ids"), turn.get("token_logprobs")
    if ids is None and logprobs is None:
        return
    ids = found.read(_token_ids, f"{name}.token_ids", ids)
    logprobs = found.read(vector, f"{name}.token_logprobs", logprobs)
    if ids is None or logprobs is None:
        return
    if len(ids) != len(logprobs):
        found.append(f"{name} has {len(ids)} token_ids and {len(logprobs)} token_logprobs")
    for position in np.flatnonzero(logprobs > 0):
        entry = place(f"{name}.token_logprobs", (int(position),))
        found.append(f"{entry} is {logprobs[position]}; it must be ≤ 0")
    with np.errstate(over="ignore"):
        off = abs(float(logprobs.sum()) - logprob) if logprob is not None else 0.0
        allowed = SUM_TOLERANCE * (1.0 + float(np.abs(logprobs).sum()))
    if not off <= allowed:
        found.append(f"{name}.token_logprobs misses behavior_logprob by {off}")


def _token_ids(name: str, value: Any) -> NDArray[np.int64]:
    if np.ndim(as_numbers(name, value)) != 1:
        raise ValueError(f"{name} is {_shown(value)}; it must be a vector")
    return index_array(name, value) if len(value) else np.empty(0, np.int64)


def _check_stop_reason(found: _Violations, reason: Any, last: Any) -> None:
    """The reason against the flags of the last turn, when these are what they must be."""
    fields = last if isinstance(last, Mapping) else {}
    flags = [fields.get("terminated"), fields.get("truncated")]
    if reason is not None and (not isinstance(reason, str) or not reason):
        found.append(f"stop_reason is {_shown(reason)}; it must be a non-empty text or None")
    elif not all(map(_is_boolean, flags)):
        return
    elif reason is None and any(flags):
        found.append("stop_reason is None; a finished rollout needs one")
    elif reason is not None and not any(flags):
        found.append(f"stop_reason is {reason!r}; it must be None, for neither flag is set")
    elif reason in TRUNCATION_REASONS and not flags[1]:
        found.append(f"stop_reason is {reason!r}, a truncation, but the last turn is terminated")
    elif reason in TERMINATION_REASONS and not flags[0]:
        found.append(f"stop_reason is {reason!r}, a termination, but the last turn is truncated")


def _check_versions(found: _Violations, record: Mapping[str, Any], turns: int) -> None:
    given = record.get("policy_versions")
    if not isinstance(given, Mapping):
        found.append("missing policy versions: policy_versions must map each turn to its version")
        given = {}
    else:
        absent = [str(turn) for turn in range(turns) if _version(given, turn) is None]
        if absent:
            found.append(f"missing policy versions for turns {', '.join(absent)}")
    if record.get("max_staleness") is None:
        return
    limit = found.read(_number, "max_staleness", record)
    learner = found.read(_number, "learner_version", record)
    for turn in range(turns):
        if _version(given, turn) is None:
            continue
        version = found.read(scalar, f"policy_versions[{turn}]", _version(given, turn))
        if None in (limit, learner, version):
            continue
        if learner - version > limit:
            found.append(
                f"turns[{turn}] is stale: version {version:g} of learner version {learner:g}, "
                f"with max_staleness {limit:g}"
            )


def _version(versions: Mapping[Any, Any], turn: int) -> Any:
    """The version of a turn, by integer or text key; None where there is none."""
    known = versions.get(turn)
    return versions.get(str(turn)) if known is None else known


def validate_rollout_batch(batch: Mapping[str, Any]) -> BatchSummary:
    """Counts of a rollout batch, once every rule that it must keep has been checked.

    Args:
        batch: a mapping; further keys are ignored. mask = 1 marks the tokens that count.
            response_ids: [B, T] integers ≥ 0 under the mask.
            response_mask: [B, T] of 0 and 1.
            old_logprobs: [B, T] finite and ≤ 0 under the mask.
            ref_logprobs: [B, T] ≤ 0 under the mask, −inf included.
            sequence_rewards: [B] finite.
            terminated, truncated: [B] of 0 and 1; both may hold.
            stop_reason: [B] texts; None or "" where neither flag is set.

    Returns:
        BatchSummary(batch_size, active_tokens, terminated_sequences, truncated_sequences,
        unfinished_sequences); a sequence with both flags counts under each of them.

    Raises:
        ValueError: one, which lists every violation, those of sequence b as "row b: …".
        TypeError: batch is no mapping.

    Reference:
        Schulman et al. (2017), PPO, equation 6, whose ratio needs the old log-probability of
        every token that counts; Pardo et al. (2018), Time limits in reinforcement learning.
    """
    if not isinstance(batch, Mapping):
        raise TypeError(f"batch is {_shown(batch)}; a mapping is due")
    found = _Violations()
    read = {name: found.read(reader, name, batch) for name, reader in _READERS.items()}
    _keep_fitting(found, read)
    found.extend(_row_violations(read))
    if found:
        raise ValueError("; ".join(found))
    mask, terminated, truncated = (
        read[name] == 1 for name in ("response_mask", "terminated", "truncated")
    )
    return BatchSummary(
        len(terminated),
        int(mask.sum()),
        int(terminated.sum()),
        int(truncated.sum()),
        int((~terminated & ~truncated).sum()),
    )


def _numbers(name: str, batch: Mapping[str, Any], rank: int) -> NDArray[Any]:
    array = as_numbers(name, _field(name, batch))
    if array.shape == (0,):  # [] is a batch without sequences
        array = array.reshape((0,) * rank)
    if array.ndim != rank:
        raise ValueError(f"{name} has shape {array.shape}; its rank must be {rank}")
    return array


def _table(name: str, batch: Mapping[str, Any]) -> NDArray[Any]:
    return _numbers(name, batch, 2)


def _column(name: str, batch: Mapping[str, Any]) -> NDArray[Any]:
    return _numbers(name, batch, 1)


def _reasons(name: str, batch: Mapping[str, Any]) -> NDArray[np.object_]:
    value = _field(name, batch)
    if isinstance(value, str | bytes | Mapping | set | frozenset) or not hasattr(value, "__len__"):
        raise TypeError(f"{name} is {_shown(value)}; a list of texts is due")
    reasons = np.empty(len(value), np.object_)
    reasons[:] = list(value)
    return reasons


_READERS = {
    "response_mask": _table,
    "response_ids": _table,
    "old_logprobs": _table,
    "ref_logprobs": _table,
    "sequence_rewards": _column,
    "terminated": _column,
    "truncated": _column,
    "stop_reason": _reasons,
}


def _keep_fitting(found: _Violations, read: dict[str, Any]) -> None:
    """Report and drop every field that does not fit the shape of the mask."""
    if read["response_mask"] is None:
        read.update(dict.fromkeys(read))
        return
    shape = read["response_mask"].shape
    for name, array in read.items():
        if array is not None and array.shape != shape[: array.ndim]:
            found.append(
                f"{name} has shape {array.shape}; it must have shape {shape[: array.ndim]}"
            )
            read[name] = None


def _row_violations(read: dict[str, Any]) -> Iterator[str]:
    """What single entries break, in the fields that could be read."""
    active = read["response_mask"] == 1  # [B, T]
    rules: dict[str, tuple[Callable[[Any], Any], str]] = {
        "response_mask": (lambda x: (x == 0) | (x == 1), "0 or 1"),
        "response_ids": (lambda x: ~active | ((x >= 0) & (x.dtype.kind != "f")), "an integer ≥ 0"),
        "old_logprobs": (lambda x: ~active | (np.isfinite(x) & (x <= 0)), "finite and ≤ 0"),
        "ref_logprobs": (lambda x: ~active | (x <= 0), "≤ 0"),
        "sequence_rewards": (np.isfinite, "finite"),
        "terminated": (lambda x: (x == 0) | (x == 1), "0 or 1"),
        "truncated": (lambda x: (x == 0) | (x == 1), "0 or 1"),
    }
    for name, (holds, rule) in rules.items():
        if read[name] is not None:
            for index in np.argwhere(~holds(read[name])):
                at = tuple(int(i) for i in index)
                yield f"row {at[0]}: {place(name, at)} is {read[name][at]}; it must be {rule}"
    terminated, truncated, reasons = read["terminated"], read["truncated"], read["stop_reason"]
    if terminated is None or truncated is None or reasons is None:
        return
    for row in np.flatnonzero((terminated == 1) | (truncated == 1)):
        if not isinstance(reasons[row], str) or not reasons[row]:
            yield f"row {row}: stop_reason is {_shown(reasons[row])}; a finished row needs one"
