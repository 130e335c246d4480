"""Laws of `rlcheck.rollouts`."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.grading.calls import Graded, Raised
from rlcheck.grading.compare import (
    Mismatch,
    assert_in_range,
    assert_refuses,
    assert_same,
    assert_untouched,
    number,
    record,
)
from rlcheck.grading.laws import law

from .ordinary import Sample, law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import digits, evenly, examples, steps

ABSENT = "(absent)"  # in place of a value: the field is deleted


def _small_batch(**changes: Any) -> dict[str, Any]:
    """A sound batch of three sequences, but for the changes."""
    batch: dict[str, Any] = {
        "response_ids": [[5, 6, 7], [5, 8, 0], [4, 9, 0]],
        "response_mask": [[1, 1, 1], [1, 1, 0], [1, 1, 0]],
        "old_logprobs": [[-1.0, -0.5, 0.0], [-2.0, -1.0, 0.0], [-0.25, -3.0, 0.0]],
        "ref_logprobs": [[-1.0, -0.5, 0.0], [-2.0, -1.0, 0.0], [-0.25, -3.0, 0.0]],
        "sequence_rewards": [1.0, 0.0, 0.5],
        "terminated": [True, False, True],
        "truncated": [False, True, True],
        "stop_reason": ["eos", "length", "eos"],
    }
    batch |= changes
    return {name: value for name, value in batch.items() if value is not ABSENT}


def _logprobs(row: int, value: Any) -> list[list[Any]]:
    """Log-probabilities with something else at the second token of one row."""
    rows: list[list[Any]] = [[-1.0, -1.0, -1.0] for _ in range(3)]
    rows[row][1] = value
    return rows


_BATCH_REFUSALS = (
    *(refuse(_small_batch(**{name: ABSENT}), says=f"{name} is missing") for name in _small_batch()),
    refuse(_small_batch(response_ids=[[5, -6, 7]] + [[1, 1, 1]] * 2), says="row 0: response_ids"),
    refuse(_small_batch(response_ids=[[5, 6.5, 7]] + [[1, 1, 1]] * 2), says="response_ids[0, 1]"),
    refuse(_small_batch(response_ids=[[5.0, 6.0, 7.0]] * 3), says="response_ids[0, 0] is 5.0"),
    refuse(_small_batch(response_ids=[[1, 1, 1]] * 2), says="response_ids has shape (2, 3)"),
    refuse(_small_batch(response_ids=[[1, 1]] * 3), says="response_ids has shape (3, 2)"),
    refuse(_small_batch(response_ids=[1, 1, 1]), says="response_ids has shape (3,)"),
    refuse(_small_batch(response_ids=[[1, 1, 1], [1, 1], [1, 1]]), says="response_ids is ragged"),
    refuse(_small_batch(response_mask=[[1, 1, 2], [1, 1, 0], [1, 1, 0]]), says="row 0: response_m"),
    refuse(_small_batch(response_mask=[[1, 1, 0.5]] * 3), says="row 2: response_mask[2, 2] is 0.5"),
    refuse(_small_batch(response_mask=[[1, 1, -1]] * 3), says="row 1: response_mask[1, 2] is -1"),
    refuse(_small_batch(response_mask=None), says="response_mask is None"),
    refuse(_small_batch(old_logprobs=_logprobs(0, math.nan)), says="row 0: old_logprobs[0, 1]"),
    refuse(_small_batch(old_logprobs=_logprobs(1, -math.inf)), says="row 1: old_logprobs[1, 1]"),
    refuse(_small_batch(old_logprobs=_logprobs(2, 0.5)), says="row 2: old_logprobs[2, 1] is 0.5"),
    refuse(_small_batch(old_logprobs=_logprobs(2, math.inf)), says="row 2: old_logprobs[2, 1]"),
    refuse(_small_batch(old_logprobs=_logprobs(2, None)), says="old_logprobs[2, 1] is None"),
    refuse(_small_batch(old_logprobs=[[-1.0]] * 3), says="old_logprobs has shape (3, 1)"),
    refuse(_small_batch(old_logprobs=-1.0), says="old_logprobs has shape ()"),
    refuse(_small_batch(ref_logprobs=_logprobs(0, math.nan)), says="row 0: ref_logprobs[0, 1]"),
    refuse(
        _small_batch(ref_logprobs=_logprobs(1, 1e-3)), says="row 1: ref_logprobs[1, 1] is 0.001"
    ),
    refuse(_small_batch(ref_logprobs=_logprobs(2, math.inf)), says="row 2: ref_logprobs[2, 1]"),
    refuse(_small_batch(ref_logprobs="none"), says="ref_logprobs is 'none'"),
    refuse(_small_batch(sequence_rewards=[1.0, math.nan, 0.0]), says="row 1: sequence_rewards[1]"),
    refuse(_small_batch(sequence_rewards=[1.0, 0.0, math.inf]), says="row 2: sequence_rewards[2]"),
    refuse(_small_batch(sequence_rewards=[1.0, 0.0]), says="sequence_rewards has shape (2,)"),
    refuse(_small_batch(sequence_rewards=[[1.0], [1.0], [0.0]]), says="sequence_rewards has shape"),
    refuse(_small_batch(terminated=[1, 0, 2]), says="row 2: terminated[2] is 2"),
    refuse(_small_batch(terminated=[True]), says="terminated has shape (1,)"),
    refuse(_small_batch(truncated=[0, 1, math.nan]), says="row 2: truncated[2] is nan"),
    refuse(_small_batch(truncated=[0, 1, 1, 0]), says="truncated has shape (4,)"),
    refuse(_small_batch(stop_reason=["eos", None, "eos"]), says="row 1: stop_reason is None"),
    refuse(_small_batch(stop_reason=["", "length", "eos"]), says="row 0: stop_reason is ''"),
    refuse(_small_batch(stop_reason=["eos", "length"]), says="stop_reason has shape (2,)"),
    refuse(_small_batch(stop_reason=None), says="stop_reason is None"),
    refuse(None, says="batch is None"),
    refuse([1, 2], says="batch is [1, 2]"),
)
REFUSALS = {
    "classify_stop_event": (
        refuse("eos", terminal_reasons=["eos"], says="truncation_reasons"),
        refuse("eos", truncation_reasons=["length"], says="terminal_reasons"),
        refuse("length", says="terminal_reasons"),
        refuse("len", terminal_reasons="length", truncation_reasons=[], says="terminal_reasons"),
        refuse("eos", terminal_reasons=[], truncation_reasons="eos", says="truncation_reasons"),
        refuse(terminal_reasons=["eos"], truncation_reasons=["length"], says="reason"),
    ),
    "validate_rollout_batch": _BATCH_REFUSALS,
}

EVENT = ("reason", "terminated", "truncated")
REASONS = (
    "length",
    "eos",
    "max_length",
    "EOS",
    "goal",
    "horizon",
    "task_horizon",
    "tool_calls",
    "stop",
    "timeout",
)


SPELLINGS = ("{}", " {}", "{} ", "{}s", "{}.")


@dataclass(frozen=True)
class Stop:
    """A reason, and two collections of reasons as bits."""

    index: int
    terminal_bits: int
    truncation_bits: int

    @property
    def reason(self) -> str:
        return REASONS[self.index]

    @property
    def collections(self) -> dict[str, list[str]]:
        return {
            "terminal_reasons": self._listed(self.terminal_bits),
            "truncation_reasons": self._listed(self.truncation_bits),
        }

    @property
    def flags(self) -> tuple[bool, bool]:
        return bool(self.terminal_bits >> self.index & 1), bool(
            self.truncation_bits >> self.index & 1
        )

    def _listed(self, bits: int) -> list[str]:
        return [reason for i, reason in enumerate(REASONS) if bits >> i & 1]


def stops() -> st.SearchStrategy[Stop]:
    """Reasons in either collection, in both and in neither, equally often."""
    return evenly(len(REASONS) * 2 * 2 * 4**9).map(_stop)


def _stop(code: int) -> Stop:
    index, terminal, truncation, *others = digits(code, len(REASONS), 2, 2, 2**9, 2**9)
    below = (1 << index) - 1  # the other nine reasons make room for the bit of the reason itself
    terminal_bits, truncation_bits = [(bits & ~below) << 1 | bits & below for bits in others]
    return Stop(index, terminal_bits | terminal << index, truncation_bits | truncation << index)


def texts(got: Any) -> list[str]:
    """An answer as a list of texts."""
    if not isinstance(got, list) or not all(isinstance(entry, str) for entry in got):
        raise Mismatch("the answer is no list of texts", expected="a list of texts", got=got)
    return got


def assert_at_least(got: Any, count: int) -> None:
    """A list of so many violations or more."""
    assert_in_range(len(texts(got)), count, math.inf)


ENDINGS: tuple[tuple[bool, bool, Any], ...] = (
    (True, False, "eos"),
    (False, False, None),
    (False, True, "length"),
    (True, True, "length"),
    (True, True, "success"),
    (True, False, "user_left"),
    (False, True, "user_left"),
    (True, True, "user_left"),
    (True, False, "task_horizon"),
    (False, True, "collector_limit"),
    (True, False, "success"),
    (False, True, "max_turns"),
)
REWARDS = (0.0, 1, -0.5, 100.0, -1e300)
CONTAINERS: tuple[Callable[[Any], Any], ...] = (list, tuple, np.array)


@dataclass(frozen=True)
class Turn:
    """A turn whose log-probability is exact: eighths, one for each token."""

    eighths: tuple[int, ...]
    reward: float
    version: int
    container: int | None  # None: the tokens are not recorded

    def fields(self, index: int) -> dict[str, Any]:
        fields = {
            "turn": index,
            "observation": f"seen {index}",
            "action": "inspect",
            "behavior_logprob": -sum(self.eighths) / 8,
            "reward": self.reward,
            "terminated": False,
            "truncated": False,
        }
        if self.container is not None:
            build = CONTAINERS[self.container]
            fields["token_ids"] = build([7 * eighth for eighth in self.eighths])
            fields["token_logprobs"] = build([-eighth / 8 for eighth in self.eighths])
        return fields


@dataclass(frozen=True)
class Rollout:
    """What a sound record is built from; every record is a new one."""

    turns: tuple[Turn, ...]
    ending: int = 0
    text_keys: bool = False
    slack: int | None = None  # how far max_staleness lies above the oldest turn's staleness
    learner_only: bool = False

    def record(self) -> dict[str, Any]:
        turns = [turn.fields(index) for index, turn in enumerate(self.turns)]
        turns[-1]["terminated"], turns[-1]["truncated"], reason = ENDINGS[self.ending]
        key = str if self.text_keys else int
        built = {
            "task_id": "key-door-7",
            "environment_version": "1.2",
            "policy_versions": {key(i): turn.version for i, turn in enumerate(self.turns)},
            "turns": turns,
            "stop_reason": reason,
        }
        if self.slack is not None or self.learner_only:
            built["learner_version"] = 5
        if self.slack is not None:
            built["max_staleness"] = 5 - min(turn.version for turn in self.turns) + self.slack
        return built


def rollouts(min_turns: int = 1) -> st.SearchStrategy[Rollout]:
    """Sound rollouts of up to four turns, of every ending, with and without tokens."""

    def turn(count: int, first: int, rest: int, reward: int, version: int, container: int) -> Turn:
        eighths = (first, *[rest] * (count - 1)) if count else (first,)
        kept = None if count == 0 else container
        return Turn(eighths, REWARDS[reward], version, kept)

    def build(drawn: tuple[int, list[Turn]]) -> Rollout:
        code, turns = drawn
        ending, text_keys, slack, learner_only = digits(code, len(ENDINGS), 2, 3, 2)
        limit = None if slack == 0 else slack - 1
        return Rollout(tuple(turns), ending, bool(text_keys), limit, bool(learner_only))

    turns = steps(turn, 4, 20, 20, len(REWARDS), 6, 3, min_size=min_turns, max_size=4)
    return st.tuples(evenly(len(ENDINGS) * 12), turns).map(build)


def ordinary_rollout(sample: Sample) -> Rollout:
    """A sound rollout of two to fifty turns with up to a dozen tokens each."""
    count = sample.columns + 1
    lengths = sample.integers("lengths", 1, sample.rows + 1, count)
    kept = sample.integers("kept", -1, len(CONTAINERS), count).tolist()
    turns = tuple(
        Turn(
            tuple(sample.integers(f"eighths {t}", 0, 20, lengths[t]).tolist()),
            sample.choice(f"reward {t}", *REWARDS),
            int(sample.integers(f"version {t}", 0, 6)),
            None if kept[t] < 0 else kept[t],
        )
        for t in range(count)
    )
    ending = int(sample.integers("ending", 0, len(ENDINGS)))
    text_keys, learner_only = sample.flags("options", 2, share=0.5).tolist()
    return Rollout(turns, ending, text_keys, sample.choice("slack", None, 0, 1), learner_only)


@dataclass(frozen=True)
class Fault:
    """A change that makes a sound record unsound, at a place where no other fault is hidden."""

    place: str
    name: str
    plant: Callable[[dict[str, Any], int], None]

    def __repr__(self) -> str:
        return f"{self.place} {self.name}"


def _put(fields: dict[str, Any], key: str, value: Any) -> None:
    if isinstance(value, str) and value == ABSENT:
        fields.pop(key, None)
    else:
        fields[key] = value


def _in_record(place: str, key: str, *values: Any) -> list[Fault]:
    """Faults that are wrong values of one field of the record."""
    return [
        Fault(
            place, f"{key} is {value!r}", lambda record, at, value=value: _put(record, key, value)
        )
        for value in values
    ]


def _in_turn(place: str, key: str, *values: Any) -> list[Fault]:
    """Faults that are wrong values of one field of one turn."""
    return [
        Fault(
            place,
            f"{key} is {value!r}",
            lambda record, at, value=value: _put(_turn(record, at), key, value),
        )
        for value in values
    ]


def _turn(record: dict[str, Any], at: int) -> dict[str, Any]:
    return record["turns"][at % len(record["turns"])]


def _forget_version(record: dict[str, Any], at: int) -> None:
    versions = record["policy_versions"]
    del versions[list(versions)[at % len(versions)]]


def _count_from_one(record: dict[str, Any], at: int) -> None:
    for turn in record["turns"]:
        turn["turn"] += 1


def _skip_a_number(record: dict[str, Any], at: int) -> None:
    for turn in record["turns"][at % len(record["turns"]) :]:
        turn["turn"] += 1


def _end_early(flag: str) -> Callable[[dict[str, Any], int], None]:
    def plant(record: dict[str, Any], at: int) -> None:
        record["turns"][at % (len(record["turns"]) - 1)][flag] = True

    return plant


def _tokens(ids: list[Any], logprobs: list[float]) -> Callable[[dict[str, Any], int], None]:
    def plant(record: dict[str, Any], at: int) -> None:
        _turn(record, at).update(token_ids=ids, token_logprobs=logprobs)

    return plant


def _sum_to(logprob: float, logprobs: list[float]) -> Callable[[dict[str, Any], int], None]:
    """Tokens beside the log-probability of their turn."""

    def plant(record: dict[str, Any], at: int) -> None:
        _tokens([3] * len(logprobs), logprobs)(record, at)
        _turn(record, at)["behavior_logprob"] = logprob

    return plant


def _drop_half_of_the_tokens(half: str) -> Callable[[dict[str, Any], int], None]:
    def plant(record: dict[str, Any], at: int) -> None:
        turn = _turn(record, at)
        turn.update(token_ids=[1], token_logprobs=[-1.0])
        del turn[half]

    return plant


def _contradict_the_flags(record: dict[str, Any], at: int) -> None:
    last = record["turns"][-1]
    if last["terminated"] and last["truncated"]:
        record["stop_reason"] = None
    elif last["terminated"]:
        record["stop_reason"] = ("length", "timeout", "collector_limit", "max_tokens")[at % 4]
    elif last["truncated"]:
        record["stop_reason"] = ("success", "failure", "task_horizon", "goal")[at % 4]
    else:
        record["stop_reason"] = "eos"


def _lose_the_reason(record: dict[str, Any], at: int) -> None:
    last = record["turns"][-1]
    if not (last["terminated"] or last["truncated"]):
        last["terminated"] = True
    record["stop_reason"] = None


def _lose_the_learner(record: dict[str, Any], at: int) -> None:
    record["max_staleness"] = 10
    record.pop("learner_version", None)


def _overtake(record: dict[str, Any], at: int) -> None:
    versions = record["policy_versions"]
    record["learner_version"] = 9 + min(versions.values())
    record["max_staleness"] = 8


FAULTS: tuple[Fault, ...] = (
    *_in_record("task", "task_id", ABSENT, "", None, 3, ["key-door-7"]),
    *_in_record("environment", "environment_version", ABSENT, "", None, 1.2, ["1.2"]),
    *_in_record("versions", "policy_versions", ABSENT, {}, None, 3),
    Fault("versions", "one is missing", _forget_version),
    Fault("versions", "staleness has no learner", _lose_the_learner),
    Fault("versions", "staleness is exceeded", _overtake),
    *_in_turn("numbers", "turn", ABSENT, None, -1, "first", 700),
    Fault("numbers", "count from 1", _count_from_one),
    Fault("numbers", "skip one", _skip_a_number),
    *_in_turn("observation", "observation", ABSENT),
    *_in_turn("action", "action", ABSENT),
    *_in_turn("logprob", "behavior_logprob", ABSENT, math.nan, -math.inf, math.inf, 0.5, 1e-6),
    *_in_turn("logprob", "behavior_logprob", None, "-1", [-1.0]),
    Fault("logprob", "is not the sum of its tokens", _tokens([1, 2], [-100.0, -2.0])),
    Fault("logprob", "has tokens that sum to NaN", _tokens([1, 2], [-1.0, math.nan])),
    Fault("logprob", "is below the sum of its tokens", _sum_to(-3.0, [-1.0, -1.0])),
    Fault("logprob", "is little above the sum", _sum_to(-1.5, [-1.0, -0.5625])),
    Fault("logprob", "is little below the sum", _sum_to(-1.5, [-1.0, -0.4375])),
    Fault("logprob", "is a thousandth off the sum", _sum_to(-20.0, [-10.0, -10.02])),
    Fault("logprob", "has a token above 0", _sum_to(-1.0, [-2.0, 1.0])),
    Fault("logprob", "has half a token id", _tokens([0.5], [-1.0])),
    *_in_turn("reward", "reward", ABSENT, math.nan, math.inf, -math.inf, None, "1", [1.0]),
    *_in_turn("end", "terminated", ABSENT, 0, 1, None, "False", 0.0),
    *_in_turn("end", "truncated", ABSENT, 0, 1, None, "False", 1.0),
    Fault("end", "terminated is true early", _end_early("terminated")),
    Fault("end", "truncated is true early", _end_early("truncated")),
    Fault("end", "stop_reason contradicts the flags", _contradict_the_flags),
    Fault("end", "stop_reason is lost", _lose_the_reason),
    *_in_record("end", "stop_reason", 3, ["eos"], ""),
    Fault("logprob", "has too few token log-probabilities", _tokens([1, 2, 3], [-1.0, -1.0])),
    Fault("logprob", "has too few token ids", _tokens([1], [-1.0, -1.0])),
    Fault("logprob", "has no token log-probabilities", _drop_half_of_the_tokens("token_logprobs")),
    Fault("logprob", "has no token ids", _drop_half_of_the_tokens("token_ids")),
)
FORGOTTEN = tuple(
    fault
    for fault in FAULTS
    if fault.name in ("policy_versions is '(absent)'", "policy_versions is {}", "one is missing")
)


FAULTS_BY_PLACE = {
    place: tuple(fault for fault in FAULTS if fault.place == place)
    for place in dict.fromkeys(fault.place for fault in FAULTS)
}


def fault_sets() -> st.SearchStrategy[list[Fault]]:
    """Two or more faults at different places, none of which can hide another."""
    bases = [base for faults in FAULTS_BY_PLACE.values() for base in (3, len(faults))]

    def build(code: int) -> list[Fault]:
        chosen = digits(code, *bases)
        picked = [
            faults[i] for faults, i in zip(FAULTS_BY_PLACE.values(), chosen[1::2], strict=True)
        ]
        kept = [fault for fault, out in zip(picked, chosen[::2], strict=True) if out == 1]
        return kept if len(kept) > 1 else picked[-2:]

    return evenly(math.prod(bases)).map(build)


def planted(rollout: Rollout, faults: list[Fault], at: int = 0) -> dict[str, Any]:
    """A record with faults; an early end needs a turn that is not the last."""
    if len(rollout.turns) == 1 and any("early" in fault.name for fault in faults):
        rollout = replace(rollout, turns=rollout.turns * 2)
    record = rollout.record()
    for fault in faults:
        fault.plant(record, at)
    return record


GARBAGE: tuple[Any, ...] = (
    *(None, 3, "x", [], {}, math.nan, -1.5, True, 10**30, math.inf, [None], [1, "a"], {"a": []}),
    *(np.array([1.0, 2.0]), np.zeros((2, 2)), np.array(3), [[1], [2, 3]], (), {3: None}, ""),
)
RECORD_FIELDS = (
    *("task_id", "environment_version", "policy_versions", "turns", "stop_reason"),
    *("max_staleness", "learner_version"),
)
TURN_FIELDS = (
    *("turn", "observation", "action", "behavior_logprob", "reward", "terminated", "truncated"),
    *("token_ids", "token_logprobs"),
)


def spoiled(rollout: Rollout, kind: int) -> list[dict[str, Any]]:
    """The record with something of another type in each of its places, one after the other."""
    records = [rollout.record() | {field: GARBAGE[kind]} for field in RECORD_FIELDS]
    for field in (*TURN_FIELDS, ""):
        for index in range(len(rollout.turns)):
            record = rollout.record()
            turn = record["turns"][index]
            record["turns"][index] = turn | {field: GARBAGE[kind]} if field else GARBAGE[kind]
            records.append(record)
    for key in rollout.record()["policy_versions"]:
        records.append(rollout.record())
        records[-1]["policy_versions"][key] = GARBAGE[kind]
    return records


KNOWN_REASONS = {
    **dict.fromkeys(("length", "timeout", "collector_limit", "max_tokens", "max_turns"), "cut"),
    **dict.fromkeys(("success", "failure", "eos", "goal", "trap", "task_horizon"), "end"),
    **dict.fromkeys(("user_left", "eos_token", "over"), "either"),
}

ONE_TURN = Rollout((Turn((8,), 0.0, 3, None),))
TWO_TURNS = Rollout((Turn((8,), 0.0, 3, None), Turn((8, 8), 1.0, 4, 0)), ending=1)
THREE_TURNS = Rollout((*TWO_TURNS.turns, Turn((3, 1), -0.5, 4, 2)), ending=2, text_keys=True)


@law(stop=stops())
@example(stop=Stop(0, 0b11, 0b01))
def test_stop_reason_is_looked_up_in_both_collections(classify_stop_event, stop):
    """A reason terminates when it is a terminal one, truncates when it is a truncating one.

    terminated = reason ∈ terminal_reasons and truncated = reason ∈ truncation_reasons: both in
    both, neither in neither.
    """
    terminated, truncated = stop.flags
    got = record(classify_stop_event(stop.reason, **stop.collections), *EVENT)
    assert_same(list(got), [stop.reason, terminated, truncated])


@law(stop=stops())
def test_stop_flags_swap_with_their_collections(classify_stop_event, stop):
    """Exchanging the two collections exchanges the two flags: neither takes precedence."""
    swapped = Stop(stop.index, stop.truncation_bits, stop.terminal_bits)
    there = record(classify_stop_event(stop.reason, **stop.collections), *EVENT)
    back = record(classify_stop_event(stop.reason, **swapped.collections), *EVENT)
    assert_same(back[1], number(there[2]))
    assert_same(back[2], number(there[1]))


@law(stop=stops(), part=st.sampled_from(("max_", "task_", "e", "")), end=st.sampled_from(("s", "")))
@example(stop=Stop(0, 0b1, 0), part="max_", end="")
def test_stop_reason_is_compared_as_a_whole(classify_stop_event, stop, part, end):
    """A reason that contains a listed one, or is contained in one, is another reason.

    "max_length" is not "length", and "EOS" is not "eos"; listed itself, it is found.
    """
    reason = f"{part}{stop.reason}{end}."
    listed = [stop.reason, *stop.collections["terminal_reasons"]]
    for here, there in ((reason, listed), (stop.reason, [reason, stop.reason.title()])):
        got = classify_stop_event(here, terminal_reasons=there, truncation_reasons=there)
        assert_same(list(record(got, *EVENT)), [here, False, False])
    got = classify_stop_event(reason, terminal_reasons=[reason], truncation_reasons=listed)
    assert_same(list(record(got, *EVENT)), [reason, True, False])


@law(stop=stops(), kind=st.sampled_from((list, tuple, set)), at=st.integers(0, 9))
@example(stop=Stop(1, 0b10, 0), kind=set, at=0)
def test_stop_reasons_are_a_collection_without_order(classify_stop_event, stop, kind, at):
    """Lists, tuples and sets, in any order, mean the same, and stay as they were."""
    terminal, truncation = stop.collections.values()
    terminal = kind([*terminal[at:], *terminal[:at], *terminal[:1]])
    truncation = kind([*truncation[::-1], *truncation[at:]])
    given = {"terminal_reasons": terminal, "truncation_reasons": truncation}
    assert_untouched(classify_stop_event, stop.reason, **given)
    got = record(classify_stop_event(stop.reason, **given), *EVENT)
    assert_same(list(got), [stop.reason, *stop.flags])


@law_of_ordinary_sizes
def test_stop_reasons_are_told_apart_among_many(classify_stop_event, sample):
    """Among many reasons, some of which differ by case, spaces or a stroke, each is its own.

    terminated = reason ∈ terminal_reasons and truncated = reason ∈ truncation_reasons.
    """
    known = [s.format(reason) for reason in REASONS[: sample.rows] for s in SPELLINGS]
    known += [change(r) for r in REASONS[: sample.rows] for change in (str.upper, str.title)]
    known = list(dict.fromkeys([*known, *(r.replace("_", "-") for r in known)]))
    share = sample.choice("share", 0.5, 0.1)
    listed = [sample.flags(name, len(known), share=share) for name in ("terminal", "truncation")]
    at = int(sample.integers("reason", 0, len(known)))
    kinds = [sample.choice(f"kind {i}", list, tuple, set) for i in range(2)]
    terminal, truncation = (
        kind(reason for reason, one in zip(known, those, strict=True) if one)
        for kind, those in zip(kinds, listed, strict=True)
    )
    got = classify_stop_event(known[at], terminal_reasons=terminal, truncation_reasons=truncation)
    assert_same(list(record(got, *EVENT)), [known[at], bool(listed[0][at]), bool(listed[1][at])])


@law_of_refusals(REFUSALS["classify_stop_event"])
def test_classify_stop_event_refuses(classify_stop_event, bad):
    """Which reasons terminate and which truncate is for the caller to say, every time."""
    assert_refuses(classify_stop_event, *bad.args, **bad.kwargs)


@law(rollout=rollouts())
@example(rollout=ONE_TURN)
@example(rollout=TWO_TURNS)
@example(rollout=Rollout((Turn((8,), 0.0, 3, None),) * 60))
def test_sound_record_has_no_violations(validate_rollout_record, rollout):
    """A record that keeps every promise gives an empty list.

    Turn indices may be integer or text keys, both flags may be set with any reason, tokens and
    staleness are optional, and a turn as stale as is allowed is not stale.
    """
    assert_same(validate_rollout_record(rollout.record()), [])


@law(rollout=rollouts(), fault=st.sampled_from(FAULTS))
@examples({"rollout": r, "fault": f} for f in FAULTS for r in (ONE_TURN, TWO_TURNS, THREE_TURNS))
# PrimeIntellect-ai/prime-rl#606: samples of 3 and 2 tokens, each short of one log-probability
@example(
    rollout=TWO_TURNS,
    fault=Fault("logprob", "is packed", _tokens([5, 6, 7, 5, 6], [-0.25, -0.5, -0.25])),
)
def test_every_violation_is_found(validate_rollout_record, rollout, fault):
    """Each single fault in a sound record is reported, in whichever turn it stands."""
    for at in range(len(rollout.turns)):
        assert_at_least(validate_rollout_record(planted(rollout, [fault], at)), 1)


@law(rollout=rollouts(), faults=fault_sets(), at=st.integers(0, 3))
def test_all_violations_are_reported_at_once(validate_rollout_record, rollout, faults, at):
    """Faults at different places of one record are all reported, not the first one alone.

    A record with n of them has n violations or more, and one fault fewer has fewer violations.
    """
    got = texts(validate_rollout_record(planted(rollout, faults, at)))
    assert_at_least(got, len(faults))
    fewer = texts(validate_rollout_record(planted(rollout, faults[:-1], at)))
    if not any("early" in fault.name for fault in faults):
        assert_in_range(len(fewer), 0, len(got) - 1)


@law(rollout=rollouts(), fault=st.sampled_from(FORGOTTEN), at=st.integers(0, 3))
@example(rollout=TWO_TURNS, fault=FORGOTTEN[-1], at=0)  # NVIDIA-NeMo/labs-molt#124
def test_missing_policy_versions_are_named(validate_rollout_record, rollout, fault, at):
    """Without the version of every turn, a text begins "missing policy versions".

    One version for the whole rollout would hide a weight update in its middle.
    """
    got = texts(validate_rollout_record(planted(rollout, [fault], at)))
    assert_same(any(text.startswith("missing policy versions") for text in got), True)


@law(kind=st.integers(0, len(GARBAGE) - 1), rollout=rollouts())
@examples({"kind": kind, "rollout": replace(TWO_TURNS, slack=0)} for kind in range(len(GARBAGE)))
def test_malformed_record_never_raises(validate_rollout_record, kind, rollout):
    """Whatever stands in a field, the answer is a list of texts and no exception."""
    for malformed in spoiled(rollout, kind):
        texts(validate_rollout_record(malformed))


@law(
    rollout=rollouts(),
    kind=st.integers(0, len(GARBAGE) - 1),
    field=st.sampled_from(("turns", "last", None)),
)
@examples(
    {"rollout": ONE_TURN, "kind": kind, "field": field}
    for kind in range(len(GARBAGE))
    for field in ("turns", "last", None)
)
def test_what_is_no_record_is_a_violation(validate_rollout_record, rollout, kind, field):
    """None, numbers, texts and lists in place of the record, its turns or one turn are reported."""
    record = rollout.record()
    if field is None:
        record = GARBAGE[kind]
    elif field == "turns":
        record["turns"] = GARBAGE[kind]
    else:
        record["turns"][-1] = GARBAGE[kind]
    assert_at_least(validate_rollout_record(record), 1)


@law(rollout=rollouts(), faults=fault_sets(), at=st.integers(0, 3))
def test_violations_come_in_a_stable_order(validate_rollout_record, rollout, faults, at):
    """Equal records have equal reports, however often and in whatever order of their keys."""
    record = planted(rollout, faults, at)
    first = texts(validate_rollout_record(record))
    assert_same(texts(validate_rollout_record(planted(rollout, faults, at))), first)
    turned = dict(reversed(record.items()))
    turned["turns"] = [dict(reversed(turn.items())) for turn in record["turns"]]
    assert_same(texts(validate_rollout_record(turned)), first)


@law(rollout=rollouts(), key=st.sampled_from(("seed", "reward", 0, "violations", "info")))
def test_further_keys_of_a_record_are_ignored(validate_rollout_record, rollout, key):
    """What else a record or a turn holds is no violation, and the record stays as it was."""
    record = rollout.record() | {key: None}
    record["turns"] = [turn | {"info": {"k": [1]}, 0: math.nan} for turn in record["turns"]]
    assert_untouched(validate_rollout_record, record)
    assert_same(validate_rollout_record(record), [])


@law(
    rollout=rollouts(),
    reason=st.sampled_from(tuple(KNOWN_REASONS)),
    flags=st.tuples(st.booleans(), st.booleans()),
)
@examples(
    {"rollout": ONE_TURN, "reason": reason, "flags": (ended, cut)}
    for reason in KNOWN_REASONS
    for ended in (True, False)
    for cut in (True, False)
)
def test_stop_reason_agrees_with_the_flags(validate_rollout_record, rollout, reason, flags):
    """Limits of the collector truncate, ends of the task terminate, other texts go with either.

    A task horizon is part of the task and terminates; a token limit is not and truncates; with
    both flags any reason agrees, and with neither flag none does.
    """
    record = rollout.record() | {"stop_reason": reason}
    record["turns"][-1] |= {"terminated": flags[0], "truncated": flags[1]}
    wanted = {"end": flags[0], "cut": flags[1], "either": any(flags)}
    got = validate_rollout_record(record)
    if wanted[KNOWN_REASONS[reason]]:
        assert_same(got, [])
    else:
        assert_at_least(got, 1)


@law(
    versions=steps(lambda version: version, 6, min_size=1, max_size=4),
    lead=st.integers(-6, 3),
    limit=st.integers(0, 5),
)
@example(versions=[3, 3, 4], lead=1, limit=1)  # verl-project/verl#7569
@example(versions=[0], lead=1, limit=0)  # ViperEkura/AstrAI#59
@example(versions=[4, 5], lead=-3, limit=0)
def test_turn_is_stale_beyond_the_limit_and_not_at_it(
    validate_rollout_record, versions, lead, limit
):
    """A turn is stale when the learner is further ahead of it than max_staleness.

    learner_version − version > max_staleness for the version of each turn, not of the last; a
    turn that is newer than the learner is not stale.
    """
    turns = tuple(replace(ONE_TURN.turns[0], version=version) for version in versions)
    learner = max(versions) + lead
    ages = {"learner_version": learner, "max_staleness": limit}
    got = validate_rollout_record(Rollout(turns).record() | ages)
    if learner - min(versions) > limit:
        assert_at_least(got, 1)
    else:
        assert_same(got, [])


@law_of_ordinary_sizes
def test_rollout_records_of_ordinary_length(validate_rollout_record, sample):
    """A sound record of many turns has no violation; with faults in any turn, all are reported."""
    rollout = ordinary_rollout(sample)
    assert_same(validate_rollout_record(rollout.record()), [])
    places = [p for p in FAULTS_BY_PLACE if sample.choice(f"{p} fails", True, False, False)]
    faults = [sample.choice(f"{p} fault", *FAULTS_BY_PLACE[p]) for p in places]
    at = int(sample.integers("at", 0, len(rollout.turns)))
    if faults:
        assert_at_least(validate_rollout_record(planted(rollout, faults, at)), len(faults))


SUMMARY = (
    "batch_size",
    "active_tokens",
    "terminated_sequences",
    "truncated_sequences",
    "unfinished_sequences",
)
WIDTH = 4  # bits of a row's mask
FILLERS = ((0, 0.0, 0.0), (-100, math.nan, math.nan), (-1, math.inf, -math.inf), (-7, 5.0, 3.0))


@dataclass(frozen=True)
class Row:
    """One sequence: its mask as bits, its flags as bits, and a seed for its numbers."""

    mask: int
    flags: int
    seed: int

    @property
    def reason(self) -> str | None:
        return (None, "eos", "length", "eos")[self.flags]

    def token(self, t: int) -> tuple[int, float, float]:
        """The id and both log-probabilities of a token that counts."""
        impossible = (self.seed + t) % 7 == 0
        ref = -math.inf if impossible else -((3 * self.seed + t) % 9) / 4
        return (5 * self.seed + t) % 32, -((self.seed + t) % 5) / 8, ref


@dataclass(frozen=True)
class Sequences:
    """Rows of equal width, and what fills the places that do not count."""

    rows: list[Row]
    width: int
    filler: int = 0

    def active(self, row: int) -> list[int]:
        return [t for t in range(self.width) if self.rows[row].mask >> t & 1]

    def batch(self) -> dict[str, Any]:
        cells = [
            [
                row.token(t) if row.mask >> t & 1 else FILLERS[(self.filler + t) % len(FILLERS)]
                for t in range(self.width)
            ]
            for row in self.rows
        ]
        batch = {
            "response_ids": [[cell[0] for cell in row] for row in cells],
            "response_mask": [[row.mask >> t & 1 for t in range(self.width)] for row in self.rows],
            "old_logprobs": [[cell[1] for cell in row] for row in cells],
            "ref_logprobs": [[cell[2] for cell in row] for row in cells],
            "sequence_rewards": [float(row.seed) - 8.0 for row in self.rows],
            "terminated": [bool(row.flags & 1) for row in self.rows],
            "truncated": [bool(row.flags & 2) for row in self.rows],
            "stop_reason": [row.reason for row in self.rows],
        }
        if not self.rows:  # an empty list would not say that it has two axes
            tables = ("response_ids", "response_mask", "old_logprobs", "ref_logprobs")
            batch |= {name: np.zeros((0, self.width), dtype=np.int64) for name in tables}
        return batch

    def counts(self) -> list[int]:
        """The summary, one row after the other."""
        flags = [row.flags for row in self.rows]
        return [
            len(self.rows),
            sum(len(self.active(b)) for b in range(len(self.rows))),
            sum(flag in (1, 3) for flag in flags),
            sum(flag in (2, 3) for flag in flags),
            flags.count(0),
        ]


def sequences(min_rows: int = 0) -> st.SearchStrategy[Sequences]:
    """Sound batches with gaps in their masks, rows without tokens, and up to four rows."""
    rows = steps(Row, 2**WIDTH, 4, 16, min_size=min_rows, max_size=4)
    return st.tuples(evenly(20), rows).map(_as_sequences)


def busy_sequences() -> st.SearchStrategy[Sequences]:
    """Batches of one to four rows that begin with a token and are finished."""
    rows = steps(
        lambda mask, flags, seed: Row(mask | 1, flags + 1, seed),
        2**WIDTH,
        3,
        16,
        min_size=1,
        max_size=4,
    )
    return st.tuples(evenly(16), rows).map(_as_sequences)


def ordinary_sequences(sample: Sample) -> Sequences:
    """A sound batch of up to twelve rows of up to fifty columns, with a token in each row."""
    mask = sample.flags("mask", *sample.shape, share=0.6)
    mask[range(sample.rows), sample.integers("token", 0, sample.columns, sample.rows)] = True
    bits = [sum(1 << int(t) for t in np.flatnonzero(row)) for row in mask]
    flags = sample.integers("flags", 0, 4, sample.rows).tolist()
    seeds = sample.integers("seeds", 0, 16, sample.rows).tolist()
    filler = int(sample.integers("filler", 0, len(FILLERS)))
    return Sequences(list(map(Row, bits, flags, seeds)), sample.columns, filler)


def _as_sequences(drawn: tuple[int, list[Row]]) -> Sequences:
    code, rows = drawn
    missing, filler = divmod(code, 4)
    return Sequences(rows, WIDTH - missing, filler)


SQUARE = Sequences([Row(0b111, 1, 1), Row(0b011, 2, 2), Row(0b011, 3, 3)], 3)
WIDE = Sequences([Row(0b0101, 2, 8), Row(0b1111, 3, 15), Row(0b0001, 1, 6)], 4, 1)

# What may be wrong with one row: the field, and what stands there instead.
ROW_FAULTS: tuple[tuple[str, Any], ...] = (
    ("old_logprobs", math.nan),
    ("old_logprobs", -math.inf),
    ("old_logprobs", math.inf),
    ("old_logprobs", 0.5),
    ("old_logprobs", 1e-6),
    ("ref_logprobs", math.nan),
    ("ref_logprobs", math.inf),
    ("ref_logprobs", 1e-6),
    ("response_ids", -1),
    ("response_ids", -100),
    ("response_mask", 2),
    ("response_mask", -1),
    ("sequence_rewards", math.nan),
    ("sequence_rewards", math.inf),
    ("sequence_rewards", -math.inf),
    ("terminated", 2),
    ("terminated", 0.5),
    ("truncated", -1),
    ("stop_reason", None),
    ("stop_reason", ""),
    ("stop_reason", 3),
)


def plant(batch: dict[str, Any], row: int, fault: int, at: int = -1) -> None:
    """Put a fault into a row: at an active token, the last one by default, or in its column."""
    field, value = ROW_FAULTS[fault]
    if isinstance(batch[field][row], list):
        active = [t for t, flag in enumerate(batch["response_mask"][row]) if flag == 1]
        batch[field][row][active[at if at < 0 else at % len(active)]] = value
    else:
        batch[field][row] = value


def refusal(function: Graded, batch: Any) -> str:
    """The text with which a batch is refused."""
    try:
        answer = function(batch)
    except Raised as raised:
        if raised.is_refusal:
            return raised.text
        raise
    raise Mismatch("the batch was not refused", expected="ValueError", got=answer)


def assert_named(text: str, rows: list[int]) -> None:
    """The text of a refusal names all these rows."""
    if any(re.search(rf"\brow {row}\b", text) is None for row in rows):
        due = ", ".join(f"row {row}: …" for row in rows)
        raise Mismatch("the refusal does not name every bad row", expected=due, got=text)


@law(drawn=sequences())
@example(drawn=SQUARE)
@example(drawn=Sequences([Row((1 << 60) - 1, 1, 1), Row((1 << 100) - 1, 2, 2)], 100))
def test_batch_summary_counts_rows_and_tokens(validate_rollout_batch, drawn):
    """The summary counts sequences, tokens under the mask, and each flag for itself.

    Sequences of 3, 2 and 2 tokens that ended by eos, by length, and by both at once give
    (3, 7, 2, 2, 0).
    """
    assert_same(list(record(validate_rollout_batch(drawn.batch()), *SUMMARY)), drawn.counts())


@law(first=sequences(), second=sequences())
def test_batch_summaries_add_up(validate_rollout_batch, first, second):
    """Two batches of one width, put together, have the sum of their summaries."""
    second = replace(second, width=first.width)
    whole = replace(first, rows=first.rows + second.rows)
    parts = [record(validate_rollout_batch(part.batch()), *SUMMARY) for part in (first, second)]
    sums = [number(here) + number(there) for here, there in zip(*parts, strict=True)]
    assert_same(list(record(validate_rollout_batch(whole.batch()), *SUMMARY)), sums)


@law(drawn=sequences(1))
def test_flags_of_a_batch_are_counted_independently(validate_rollout_batch, drawn):
    """A sequence with both flags counts under both, and one with neither is unfinished.

    terminated + truncated − both + unfinished = B
    """
    size, _, terminated, truncated, unfinished = record(
        validate_rollout_batch(drawn.batch()), *SUMMARY
    )
    both = sum(row.flags == 3 for row in drawn.rows)
    assert_same(number(terminated) + number(truncated) + number(unfinished), number(size) + both)


@law(drawn=sequences(1), filler=st.integers(1, 3), columns=st.integers(0, 2))
def test_padding_of_a_batch_is_inert(validate_rollout_batch, drawn, filler, columns):
    """What stands where the mask is 0, NaN and label ids too, is neither counted nor refused.

    Masked columns may be added on the right.
    """
    rows = [replace(row, mask=row.mask % 2**drawn.width) for row in drawn.rows]
    padded = Sequences(rows, drawn.width + columns, drawn.filler + filler)
    assert_same(list(record(validate_rollout_batch(padded.batch()), *SUMMARY)), drawn.counts())


@law(rows=st.integers(0, 3), width=st.integers(0, 3), flags=st.integers(0, 3), seed=evenly(1000))
@example(rows=0, width=3, flags=0, seed=8)
def test_batch_without_tokens_is_fine(validate_rollout_batch, rows, width, flags, seed):
    """Neither a batch without sequences nor sequences without tokens are refused."""
    empty = np.zeros((rows, width))
    batch = Sequences([Row(0, flags, seed)] * rows, width).batch() | {
        "response_ids": empty.astype(int),
        "response_mask": empty.astype(bool),
        "old_logprobs": empty,
        "ref_logprobs": empty,
    }
    got = record(validate_rollout_batch(batch), *SUMMARY)
    expected = [rows, 0, rows * (flags & 1), rows * (flags >> 1), rows * (flags == 0)]
    assert_same(list(got), expected)


@law(
    drawn=busy_sequences(),
    kind=st.sampled_from((np.int64, np.int8, np.float32, np.bool_)),
    single=st.booleans(),
)
def test_rollout_batch_takes_any_array_like(validate_rollout_batch, drawn, kind, single):
    """Masks and flags of any dtype, float32 and tuples mean the same, and stay as they were.

    Further keys are ignored.
    """
    batch = drawn.batch() | {"prompt_ids": None, "seed": 3}
    for name in ("response_mask", "terminated", "truncated"):
        batch[name] = np.array(batch[name], dtype=kind)
    for name in ("old_logprobs", "ref_logprobs", "sequence_rewards"):
        batch[name] = np.array(batch[name], dtype=np.float32 if single else np.float64)
    batch["response_ids"] = np.array(batch["response_ids"], np.int32 if single else np.int64)
    batch["stop_reason"] = tuple(batch["stop_reason"])
    assert_untouched(validate_rollout_batch, batch)
    assert_same(list(record(validate_rollout_batch(batch), *SUMMARY)), drawn.counts())


@law(drawn=busy_sequences(), fault=st.integers(0, len(ROW_FAULTS) - 1), row=st.integers(0, 3))
@example(drawn=SQUARE, fault=0, row=0)  # rllm-org/rllm#816: a token without its log-probability
@examples(
    {"drawn": drawn, "fault": fault, "row": row}
    for fault in range(len(ROW_FAULTS))
    for row in range(3)
    for drawn in (SQUARE, WIDE)
)
def test_one_bad_row_spoils_a_batch(validate_rollout_batch, drawn, fault, row):
    """A single wrong entry under the mask, or a wrong flag, reward or reason, is refused."""
    batch = drawn.batch()
    plant(batch, row % len(drawn.rows), fault)
    assert_refuses(validate_rollout_batch, batch)


@law(drawn=busy_sequences(), faults=st.lists(st.integers(0, len(ROW_FAULTS)), max_size=4))
@example(drawn=Sequences([Row(1, 1, 1)], 1), faults=[0])
def test_one_refusal_names_every_bad_row(validate_rollout_batch, drawn, faults):
    """All bad rows of a batch are named by one error, "row b: …", counted from 0."""
    batch = drawn.batch()
    bad = {
        row: fault
        for row, fault in zip(range(len(drawn.rows)), faults, strict=False)
        if fault < len(ROW_FAULTS)
    }
    for row, fault in bad.items():
        plant(batch, row, fault)
    if bad:
        assert_named(refusal(validate_rollout_batch, batch), list(bad))


@law_of_ordinary_sizes
def test_rollout_batches_of_ordinary_size(validate_rollout_batch, sample):
    """A sound batch of many long rows is counted, and with faults all of its bad rows are named.

    Each fault stands at any active token of its row, or in the row's own fields.
    """
    drawn = ordinary_sequences(sample)
    batch = drawn.batch()
    arrays = {name: np.array(part) for name, part in batch.items() if name != "stop_reason"}
    given = sample.choice("given", batch, batch | arrays)
    assert_same(list(record(validate_rollout_batch(given), *SUMMARY)), drawn.counts())
    faults = sample.integers("faults", 0, len(ROW_FAULTS), sample.rows)
    finished = [row.flags > 0 for row in drawn.rows]  # those that need a reason
    bad = np.flatnonzero(sample.flags("bad", sample.rows, share=0.3) & finished).tolist()
    for row, at in zip(bad, sample.integers("places", 0, 1000, len(bad)), strict=True):
        plant(batch, row, faults[row], at)
    if bad:
        assert_named(refusal(validate_rollout_batch, batch), bad)


@law_of_refusals(REFUSALS["validate_rollout_batch"])
def test_validate_rollout_batch_refuses(validate_rollout_batch, bad):
    """Every field is there, fits the mask, and holds under the mask what it must."""
    assert_refuses(validate_rollout_batch, *bad.args, **bad.kwargs)
