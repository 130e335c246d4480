"""The record of a rollout: its turns, how it ended, and where the dump contradicts itself."""

from collections.abc import Mapping
from typing import Any

from rlcheck.rollouts import TERMINATION_REASONS, TRUNCATION_REASONS
from rlcheck.transcripts._sample import Sample, shown, text
from rlcheck.transcripts._told import Told

Record = dict[str, Any]

REASON, *FLAGS = ENDINGS = ("finish_reason", "terminated", "truncated")
UNANSWERED = "unanswered_tool_call"
CALLS = ("tool_calls", "function_call")
CUT = (*TRUNCATION_REASONS, "abort", "aborted", UNANSWERED)
ENDED = (*TERMINATION_REASONS, "stop")


def build_record(sample: Sample, task_id: str, told: Told) -> Record:
    """The record of a sample; what is None is left out, for the record's violations to say so.

    The reward is the rollout's, so it stands on the last turn, and 0 before it.
    """
    flags, stop_reason = _ending(sample, told)
    turns = [
        {"turn": index, **turn, "reward": 0.0, "terminated": False, "truncated": False}
        for index, turn in enumerate(sample.turns)
    ]
    for last in turns[-1:]:
        last |= {"reward": sample.reward, "terminated": None, "truncated": None, **flags}
    versions = sample.version if told.policy_version is None else told.policy_version
    if versions is not None and not isinstance(versions, Mapping):
        versions = dict.fromkeys(range(len(turns)), versions)
    record = {
        "task_id": task_id,
        "environment_version": told.environment_version,
        "policy_versions": versions,
        "turns": [_held(turn) for turn in turns],
        "learner_version": told.learner_version,
        "max_staleness": told.max_staleness,
    }
    return {**_held(record), "stop_reason": stop_reason, "dump_violations": sample.violations}


def _held(fields: Record) -> Record:
    return {name: value for name, value in fields.items() if value is not None}


def _ending(sample: Sample, told: Told) -> tuple[Record, str | None]:
    """The flags of the last turn, as far as the dump tells, and why the rollout stopped.

    The dump's own flags stand as they are, so that a contradiction is seen. Else its reason
    decides, and where there is none, the last token: a length stop is never hidden. A reason that
    neither ends nor cuts a rollout sets no flag, whatever the last token is.
    """
    reason: str | None = sample.read(text, REASON)
    place, token = sample.last or ("", None)
    last = None if token is None or not told.eos else "eos" if token in told.eos else "length"
    why = reason or last
    if last == "length" and reason not in CUT:
        why = last
    elif (reason in CALLS and not sample.answered) or (
        sample.unanswered and reason in (None, "stop", "eos")
    ):
        why = UNANSWERED
    known = why in (*CUT, *ENDED)
    flags = {"terminated": why in ENDED, "truncated": why in CUT} if known else {}
    given = _held({name: sample.read(_flag, name) for name in FLAGS})
    if True in given.values():
        flags = dict.fromkeys(FLAGS, False)
    flags |= given
    ended = flags.get("terminated") and not flags.get("truncated")
    if last == "length" and reason not in CUT and (ended or reason):
        says = "terminated is True" if reason is None else f"{REASON} is {reason!r}"
        sample.violations.append(
            f"{says}, but {place} is {token}, none of eos_token_ids: it was cut off by length"
        )
    elif ended and why in CUT and why not in TRUNCATION_REASONS:
        sample.violations.append(f"terminated is True, but the rollout was cut off: {why}")
    if reason is None and why == "eos" and not ended:
        why = None  # it ended its turn; what ended the rollout is not said
    return flags, why


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {shown(value)}; it must be True or False")
    return value
