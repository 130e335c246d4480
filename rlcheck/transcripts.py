"""Rollout records from the dumps of trainers: TRL and verl.

A converter copies what a dump holds into the record that `validate_rollout_record` checks, and
invents nothing: what the dump lacks is missing from the record, and is reported there. What the
converter itself sees (a mask that does not fit its tokens, say) stands in the record's
`dump_violations`; `audit_rollouts` gives both.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from rlcheck._inputs import flags, index_array, integer, real_array, scalar
from rlcheck.rollouts import TERMINATION_REASONS, TRUNCATION_REASONS, validate_rollout_record

__all__ = [
    "audit_rollouts",
    "record_from_trl",
    "record_from_verl",
    "records_from_trl",
    "records_from_trl_completions",
    "records_from_verl",
    "records_from_verl_dump",
]

Record = dict[str, Any]
Version = int | float | str

CUT_REASONS = (*TRUNCATION_REASONS, "abort", "aborted")
END_REASONS = (*TERMINATION_REASONS, "stop", "stop_token")
# verl's vLLM server says "completed" for a stop token and for a full token budget alike.
SILENT_REASONS = (None, "completed")
CALL_REASONS = ("tool_calls", "function_call")
ENDINGS = ("finish_reason", "stop_reason", "terminated", "truncated")
SEGMENTS = "behavior_version_segments"


class _Told(NamedTuple):
    """What the caller says of a dump."""

    task_id: str
    environment_version: str
    policy_version: Version | Mapping[Any, Version] | None = None
    learner_version: float | None = None
    max_staleness: float | None = None
    eos: frozenset[int] = frozenset()
    stops: frozenset[int] = frozenset()
    pad: int | None = None


class _Options(TypedDict, total=False):
    """The options that every converter of tokens shares."""

    policy_version: Version | Mapping[Any, Version] | None
    learner_version: float | None
    max_staleness: float | None
    eos_token_ids: Collection[int]
    stop_token_ids: Collection[int]
    pad_token_id: int | None


class _TRLOptions(_Options, total=False):
    reward_columns: Sequence[str] | Mapping[str, float]


class _Names(NamedTuple):
    """Where a dump keeps its tokens: for each part the names that it goes by."""

    prompt: tuple[str, ...]
    ids: tuple[str, ...]
    mask: tuple[str, ...]
    logprobs: tuple[str, ...]


TRL_ROLLOUT = _Names(
    ("prompt_ids",),
    ("completion_ids",),
    ("env_mask", "tool_mask"),
    ("logprobs", "sampling_per_token_logps"),
)
TRL_ASYNC = _Names((), ("input_ids",), ("completion_mask",), ("old_log_probs",))
VERL = _Names(
    ("prompt_ids", "prompts"),
    ("response_ids", "responses"),
    ("response_mask",),
    ("response_logprobs", "rollout_log_probs"),
)


class _Tokens(NamedTuple):
    """The tokens of one rollout after its prompt, padding removed."""

    name: str
    ids: list[int]
    mask: list[bool]
    logprobs: list[float] | None
    prompt: list[int] | None

    def runs(self) -> list[tuple[int, int]]:
        """(start, stop) of every maximal run of model tokens: one for each turn."""
        edges = np.diff(np.array([False, *self.mask, False], np.int8))
        starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        return [(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]

    def before(self, start: int) -> list[int] | None:
        """What the first action answers: the prompt and the tokens before it, if there are any."""
        if self.prompt is None and start == 0:
            return None
        return [*(self.prompt or []), *self.ids[:start]]


def record_from_trl(
    sample: Any,
    *,
    task_id: str,
    environment_version: str,
    policy_version: Version | Mapping[Any, Version] | None = None,
    learner_version: float | None = None,
    max_staleness: float | None = None,
    eos_token_ids: Collection[int] = (),
    stop_token_ids: Collection[int] = (),
    pad_token_id: int | None = None,
    reward_columns: Sequence[str] | Mapping[str, float] = ("reward",),
) -> Record:
    """The rollout record of one completion that TRL generated.

    A maximal run of mask = 1 is one turn's action; what stands between two runs is the
    observation of the later one. The rollout's reward belongs to its last turn.

    Args:
        sample: a mapping or dataclass with the fields of one completion, of what a
            `rollout_func` returns (`prompt_ids`, `completion_ids`, `logprobs`, `env_mask`), of
            the trainer's own batch (`tool_mask`, `sampling_per_token_logps`, padded, with
            `completion_mask`), or of the asynchronous trainer's samples (`input_ids`,
            `completion_mask`, `old_log_probs`, `model_version`). Without a mask all tokens are
            the model's. Optionally `prompt` and `completion` (text or messages),
            `finish_reason`, `terminated`, `truncated`.
        task_id: the record's task, a non-empty text.
        environment_version: the environment's version, a non-empty text.
        policy_version: the version of the weights that sampled every turn, or a mapping from
            turn to version; it goes before a `model_version` in the sample.
        learner_version: the version that learns from the rollout.
        max_staleness: by how much a turn's version may lag behind `learner_version`.
        eos_token_ids: ids that end the answer. Without these and stop tokens the ids do not
            say how the rollout ended.
        stop_token_ids: further ids at which generation stops.
        pad_token_id: what fills the tail where the sample has no `completion_mask`.
        reward_columns: the fields that hold rewards, summed; a mapping gives each its weight.

    Returns:
        A record, with `dump_violations` beside the fields that `validate_rollout_record` reads.

    Raises:
        TypeError, ValueError: sample is no mapping, or another argument is not what it must be;
            what a sample holds is never refused, but becomes a violation.

    Reference:
        trl 1.16, trl/trainer/grpo_trainer.py: `RolloutFunc`, `GRPOTrainer._generate`,
        `_tool_call_loop`; trl/experimental/async_grpo/async_rollout_worker.py: `RolloutSample`.
    """
    told = _told(
        task_id, environment_version, policy_version, learner_version, max_staleness
    )._replace(**_ending_ids(eos_token_ids, stop_token_ids, pad_token_id))
    weights = _weights(reward_columns)
    held = _fields("sample", sample)
    found: list[str] = []
    if "completion_ids" not in held and "input_ids" in held:
        tokens = _tokens(found, held, TRL_ASYNC, told, mask_due=True)
        pairs = None  # a conversation may be spread over several of these samples
    else:
        tokens = _tokens(found, held, TRL_ROLLOUT, told, padding="completion_mask")
        pairs = _conversation(found, held) if held.get("completion") is not None else None
    reward = _weighted_reward(held, weights)
    return _record_of_tokens(found, told, tokens, held, reward, held.get("model_version"), pairs)


def records_from_trl(
    rollouts: Any,
    *,
    task_id: str | Sequence[str],
    environment_version: str,
    **options: Unpack[_TRLOptions],
) -> list[Record]:
    """The records of many completions, as `record_from_trl` makes them.

    Args:
        rollouts: what a `rollout_func` returns (a mapping of columns), a table, or samples.
        task_id: one text for all, or one for each completion.
        environment_version: as in `record_from_trl`.
        options: the further arguments of `record_from_trl`.

    Returns:
        One record for each completion, in order; one that cannot be read says so.

    Raises:
        TypeError, ValueError: as `record_from_trl`; columns or task ids differ in number.

    Reference:
        trl 1.16, trl/trainer/grpo_trainer.py: `RolloutFunc`.
    """
    weights = _weights(options.get("reward_columns", ("reward",)))
    known = {name for names in (TRL_ROLLOUT, TRL_ASYNC) for group in names for name in group}
    known |= {"prompt", "prompt_mask", "completion", "model_version", "metrics", *ENDINGS, *weights}
    return _each(
        _rows("rollouts", rollouts, known),
        task_id,
        lambda sample, name: record_from_trl(
            sample, task_id=name, environment_version=environment_version, **options
        ),
    )


def records_from_trl_completions(
    rows: Any,
    *,
    task_id: str | Sequence[str],
    environment_version: str,
    policy_version: Version | None = None,
    learner_version: float | None = None,
    max_staleness: float | None = None,
    reward_columns: Sequence[str] | Mapping[str, float] = ("reward",),
) -> list[Record]:
    """The records of TRL's completions table, which holds text alone.

    No log-probabilities, tokens or versions stand there, and no word on how a completion ended,
    unless its last message calls a tool that never answers: all this is missing from the records.
    `step` is the step of logging, which several generations may share, so no version is read
    from it.

    Args:
        rows: the table of `log_completions`: a data frame, a mapping of columns, or rows, with
            `prompt` and `completion` (text or messages).
        task_id: one text for all, or one for each row.
        environment_version: the environment's version, a non-empty text.
        policy_version: the version of the weights behind every row, if it is known.
        learner_version: the version that learns from the rows.
        max_staleness: by how much a version may lag behind `learner_version`.
        reward_columns: the columns that hold rewards, each named after its reward function;
            the table does not tell them from columns that a user logged.

    Returns:
        One record for each row, a turn for each assistant message.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or columns differ in length.

    Reference:
        trl 1.16, trl/trainer/grpo_trainer.py: `GRPOTrainer.log`.
    """
    weights = _weights(reward_columns)

    def convert(row: Any, name: str) -> Record:
        told = _told(name, environment_version, policy_version, learner_version, max_staleness)
        held, found = _fields("row", row), list[str]()
        reward = _weighted_reward(held, weights)
        return _record_of_text(found, told, _conversation(found, held), held, reward, None)

    known = {"prompt", "completion", *ENDINGS, *weights}
    return _each(_rows("rows", rows, known), task_id, convert)


def record_from_verl(
    sample: Any,
    *,
    task_id: str,
    environment_version: str,
    policy_version: Version | Mapping[Any, Version] | None = None,
    learner_version: float | None = None,
    max_staleness: float | None = None,
    eos_token_ids: Collection[int] = (),
    stop_token_ids: Collection[int] = (),
    pad_token_id: int | None = None,
) -> Record:
    """The rollout record of one output of a verl agent loop.

    Versions come from `behavior_version_segments` where they were collected. Otherwise
    `min_global_steps` is the version of the first turn, and of the others only if
    `max_global_steps` equals it: between the two, the output does not say which turn came from
    which weights. A turn that spans versions has the oldest.

    Args:
        sample: a mapping or model with `prompt_ids`, `response_ids`, `response_mask`,
            `response_logprobs`, `reward_score`, `extra_fields`; or a row of a batch, with
            `prompts`, `responses`, `rollout_log_probs`, `rm_scores`, `attention_mask`.
        task_id, environment_version: as in `record_from_trl`.
        policy_version: as in `record_from_trl`; it goes before the versions in the sample.
        learner_version, max_staleness: as in `record_from_trl`.
        eos_token_ids, stop_token_ids: as in `record_from_trl`.
        pad_token_id: what fills the tail where the sample has no `attention_mask`.

    Returns:
        A record, with `dump_violations` beside the fields that `validate_rollout_record` reads.

    Raises:
        TypeError, ValueError: as `record_from_trl`.

    Reference:
        verl, verl/experimental/agent_loop/agent_loop.py: `AgentLoopOutput`;
        docs/advance/behavior_version_metrics.md and docs/advance/v1_async_trainer.md.
    """
    told = _told(
        task_id, environment_version, policy_version, learner_version, max_staleness
    )._replace(**_ending_ids(eos_token_ids, stop_token_ids, pad_token_id))
    held = _fields("sample", sample)
    extra = held.get("extra_fields")
    # A batch flattens the extra fields. Its global_steps is the step that drew the prompt, so
    # that one is read from the extra fields alone, where it is the server's version.
    held = {**held, "global_steps": None, **(extra if isinstance(extra, Mapping) else {})}
    found: list[str] = []
    tokens = _tokens(found, held, VERL, told, padding="attention_mask", mask_due=True)
    reward = held.get("reward_score")
    if reward is None and held.get("rm_scores") is not None:
        scores = _attempt(found, _numbers_or_nan, "rm_scores", held["rm_scores"])
        reward = None if scores is None else sum(scores)
    versions = None if tokens is None else _verl_versions(found, held, tokens)
    return _record_of_tokens(found, told, tokens, held, reward, versions, None)


def records_from_verl(
    outputs: Any,
    *,
    task_id: str | Sequence[str],
    environment_version: str,
    **options: Unpack[_Options],
) -> list[Record]:
    """The records of many agent loop outputs, as `record_from_verl` makes them.

    Args:
        outputs: samples, or a mapping of columns.
        task_id: one text for all, or one for each output.
        environment_version: as in `record_from_verl`.
        options: the further arguments of `record_from_verl`.

    Returns:
        One record for each output, in order; one that cannot be read says so.

    Raises:
        TypeError, ValueError: as `record_from_verl`; columns or task ids differ in number.

    Reference:
        verl, verl/experimental/agent_loop/agent_loop.py: `AgentLoopOutput`.
    """
    known = {name for group in VERL for name in group} | set(ENDINGS)
    known |= {"attention_mask", "reward_score", "rm_scores", "extra_fields"}
    known |= {"min_global_steps", "max_global_steps", "behavior_version_segments"}
    return _each(
        _rows("outputs", outputs, known),
        task_id,
        lambda sample, name: record_from_verl(
            sample, task_id=name, environment_version=environment_version, **options
        ),
    )


def records_from_verl_dump(
    path_or_lines: str | PathLike[str] | Iterable[Any],
    *,
    task_id: str | Sequence[str],
    environment_version: str,
    step_is_version: bool = True,
    learner_version: float | None = None,
    max_staleness: float | None = None,
) -> list[Record]:
    """The records of verl's JSONL dump, which holds text alone.

    Each line has `input`, `output`, `score` and `step`. A response of several turns is one text,
    decoded without its special tokens: its turns, tokens, log-probabilities and end are missing.

    Args:
        path_or_lines: a file of `trainer.rollout_data_dir`, that folder, or the lines.
        task_id: one text for all, or one for each line.
        environment_version: the environment's version, a non-empty text.
        step_is_version: whether `step`, at which the rollout was learnt from, names the weights
            that sampled it, as it does for a synchronous trainer. An asynchronous one learns
            from older rollouts: then pass False, and the versions are missing.
        learner_version: the version that learns from the rollouts.
        max_staleness: by how much a version may lag behind `learner_version`.

    Returns:
        One record for each line that is not blank, in order; the files of a folder by step. A
        line that is no JSON object gives a record that says so.

    Raises:
        TypeError, ValueError: an argument is not what it must be.
        OSError: there is no such file.

    Reference:
        verl, verl/trainer/ppo/ray_trainer.py: `_log_rollout_data`, `_write_generations`.
    """
    if not isinstance(step_is_version, bool):
        raise TypeError(f"step_is_version is {step_is_version!r}; True or False is due")

    def convert(row: Any, name: str) -> Record:
        told = _told(name, environment_version, None, learner_version, max_staleness)
        held = _fields("line", row)
        pairs = [(held.get("input"), held["output"])] if held.get("output") is not None else []
        found = [] if pairs else ["output is missing"]
        version = held.get("step") if step_is_version else None
        return _record_of_text(found, told, pairs, held, held.get("score"), version)

    return _each(list(_lines(path_or_lines)), task_id, convert)


def audit_rollouts(records: Iterable[Any]) -> dict[int, list[str]]:
    """What is wrong with each record: what its conversion found, then what the record lacks.

    Args:
        records: rollout records, converted or not.

    Returns:
        {index: violations} of the records that are not sound; empty when all are.

    Raises:
        TypeError: records is a single record, a text, or nothing to iterate over.

    Reference:
        `rlcheck.validate_rollout_record`, whose texts these are, `dump_violations` first.
    """
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        raise TypeError(f"records is {_shown(records)}; a list of records is due")
    violations = {
        index: [
            *(_noted(record) if isinstance(record, Mapping) else ()),
            *validate_rollout_record(record),
        ]
        for index, record in enumerate(records)
    }
    return {index: texts for index, texts in violations.items() if texts}


def _noted(record: Mapping[str, Any]) -> list[str]:
    noted = record.get("dump_violations")
    return [str(text) for text in noted] if isinstance(noted, list | tuple) else []


def _told(
    task_id: Any,
    environment_version: Any,
    policy_version: Any = None,
    learner_version: Any = None,
    max_staleness: Any = None,
) -> _Told:
    for name, text in (("task_id", task_id), ("environment_version", environment_version)):
        if not isinstance(text, str):
            raise TypeError(f"{name} is {_shown(text)}; a text is due")
        if not text:
            raise ValueError(f"{name} is ''; it must be a non-empty text")
    return _Told(
        task_id,
        environment_version,
        _version_argument(policy_version),
        None if learner_version is None else _whole(scalar("learner_version", learner_version)),
        None if max_staleness is None else _whole(scalar("max_staleness", max_staleness)),
    )


def _ending_ids(eos: Any, stops: Any, pad: Any) -> Record:
    return {
        "eos": _id_set("eos_token_ids", eos),
        "stops": _id_set("stop_token_ids", stops),
        "pad": None if pad is None else integer("pad_token_id", pad, minimum=0),
    }


def _version_argument(given: Any) -> Any:
    if isinstance(given, Mapping):
        return dict(given)
    if given is None or (isinstance(given, str) and given):
        return given
    if isinstance(given, bool | str):
        raise ValueError(f"policy_version is {given!r}; it must be a number or a non-empty text")
    return _whole(scalar("policy_version", given))


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _id_set(name: str, ids: Any) -> frozenset[int]:
    if isinstance(ids, set | frozenset):
        ids = sorted(ids)
    return frozenset(_token_ids(name, ids))


def _weights(columns: Any) -> dict[str, float]:
    """Each reward column with its weight."""
    if isinstance(columns, str | bytes) or not isinstance(columns, Mapping | Sequence):
        raise TypeError(f"reward_columns is {_shown(columns)}; a list or mapping of names is due")
    for index, name in enumerate(columns):
        if not isinstance(name, str):
            raise TypeError(f"reward_columns[{index}] is {_shown(name)}; a text is due")
    pairs = columns.items() if isinstance(columns, Mapping) else ((name, 1.0) for name in columns)
    return {name: scalar(f"reward_columns[{name!r}]", weight) for name, weight in pairs}


class _UnreadableError(TypeError):
    """A row that is no sample."""


def _fields(name: str, sample: Any) -> Mapping[str, Any]:
    """A sample as a mapping: it may also be a dataclass or a pydantic model."""
    if isinstance(sample, _UnreadableError):
        raise sample
    if isinstance(sample, Mapping):
        return sample
    if is_dataclass(sample) and not isinstance(sample, type):
        return {field.name: getattr(sample, field.name) for field in fields(sample)}
    if hasattr(type(sample), "model_fields"):
        return {field: getattr(sample, field) for field in type(sample).model_fields}
    raise _UnreadableError(f"{name} is {_shown(sample)}; a mapping is due")


def _rows(name: str, table: Any, known: set[str]) -> list[Any]:
    """The samples of a table; of one given by columns, those that are known."""
    if hasattr(table, "to_pylist"):
        return list(table.to_pylist())
    if isinstance(table, str | bytes) or not isinstance(table, Iterable):
        raise TypeError(f"{name} is {_shown(table)}; a table or a list of samples is due")
    if isinstance(table, Mapping):
        by_name = {column: table[column] for column in table if column in known}
    elif hasattr(table, "columns"):
        frame: Any = table
        by_name = {column: frame[column] for column in frame.columns if column in known}
    else:
        return list(table)
    columns = {c: _column(f"{name}[{c!r}]", v) for c, v in by_name.items() if v is not None}
    lengths = {c: len(entries) for c, entries in columns.items()}
    if not lengths:
        raise ValueError(f"{name} has none of the columns {', '.join(sorted(known))}")
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{c} {length}" for c, length in lengths.items())
        raise ValueError(f"{name} has columns of different length: {shown}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(name: str, value: Any) -> list[Any]:
    """The entries of a column; NaN, with which pandas fills a gap, is None."""
    if isinstance(value, str | bytes | Mapping):
        raise TypeError(f"{name} is {_shown(value)}; a column is due")
    try:
        return [None if isinstance(x, float) and x != x else x for x in value]
    except TypeError:
        raise TypeError(f"{name} is {_shown(value)}; a column is due") from None


def _each(rows: list[Any], task_id: Any, convert: Callable[[Any, str], Record]) -> list[Record]:
    """Convert every row; one that is no sample becomes a record that says so."""
    names = [task_id] * len(rows)
    if not isinstance(task_id, str):
        if isinstance(task_id, bytes) or not isinstance(task_id, Sequence):
            raise TypeError(f"task_id is {_shown(task_id)}; a text or a list of texts is due")
        names = list(task_id)
        if len(names) != len(rows):
            raise ValueError(f"task_id has length {len(names)}; it must have length {len(rows)}")
        for index, name in enumerate(names):
            if not isinstance(name, str) or not name:
                raise TypeError(f"task_id[{index}] is {_shown(name)}; a non-empty text is due")
    # Other bad arguments are refused here, whether there are rows or not.
    convert({}, task_id if isinstance(task_id, str) else "task")
    return [_converted(convert, row, name) for row, name in zip(rows, names, strict=True)]


def _converted(convert: Callable[[Any, str], Record], row: Any, name: str) -> Record:
    try:
        return convert(row, name)
    except _UnreadableError as refusal:
        return {**convert({}, name), "dump_violations": [str(refusal)]}


def _lines(source: Any) -> Iterator[Any]:
    """The objects of JSON lines; what is none comes as the error that says so."""
    if isinstance(source, str | PathLike):
        path = Path(source)
        files = sorted(path.glob("*.jsonl"), key=_step_of_file) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"path_or_lines is {str(source)!r}; it has no file *.jsonl")
        for file in files:
            with file.open("rb") as lines:
                yield from _parsed(lines, f"{file.name} ")
    elif isinstance(source, bytes | Mapping) or not isinstance(source, Iterable):
        raise TypeError(f"path_or_lines is {_shown(source)}; a path or a list of lines is due")
    else:
        yield from _parsed(source, "")


def _step_of_file(path: Path) -> tuple[bool, int, str]:
    return (not path.stem.isdecimal(), int(path.stem) if path.stem.isdecimal() else 0, path.name)


def _parsed(lines: Iterable[Any], place: str) -> Iterator[Any]:
    for number, line in enumerate(lines, start=1):
        if isinstance(line, str | bytes):
            if not line.strip():
                continue
            try:
                line = json.loads(line)
            except (ValueError, RecursionError) as refusal:
                yield _UnreadableError(f"{place}line {number} is no JSON: {refusal}")
                continue
        readable = isinstance(line, Mapping)
        text = f"{place}line {number} is {_shown(line)}; a JSON object is due"
        yield line if readable else _UnreadableError(text)


def _tokens(
    found: list[str],
    held: Mapping[str, Any],
    names: _Names,
    told: _Told,
    *,
    padding: str | None = None,
    mask_due: bool = False,
) -> _Tokens | None:
    """What a sample holds of its tokens; None, and a violation, where no turn can be told."""
    name, value = _named(held, names.ids)
    ids = _attempt(found, _token_ids, name, value)
    if ids is None:
        return None
    if not ids:
        found.append(f"{name} is empty")
    prompt_name, value = _named(held, names.prompt)
    prompt = None if value is None else _attempt(found, _token_ids, prompt_name, value)
    if prompt is not None and held.get("prompt_mask") is not None:
        marks = _attempt(found, _mask, "prompt_mask", held["prompt_mask"]) or []
        prompt = [i for i, real in zip(prompt, marks, strict=False) if real]
    kept = len(ids) if told.pad is None else _without_padding(ids, told)
    if padding is not None and held.get(padding) is not None:
        marks = _attempt(found, _mask, padding, held[padding]) or []
        kept = _unpadded(found, padding, marks, name, len(ids)) if marks else len(ids)
        if prompt is not None and len(marks) == len(prompt) + len(ids):  # verl marks both
            prompt = [i for i, real in zip(prompt, marks, strict=False) if real]
    mask = _model_tokens(found, held, names.mask, name, (len(ids), kept), mask_due)
    if mask is None:
        return None
    logprobs = _token_logprobs(found, held, names.logprobs, name, (len(ids), kept), mask)
    tokens = _Tokens(name, ids[:kept], mask, logprobs, prompt)
    _check_eos(found, tokens, told)
    return tokens


def _named(held: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    """The first of several fields that holds something, or the first with None."""
    for name in names:
        if held.get(name) is not None:
            return name, held[name]
    return (names[0] if names else ""), None


def _attempt(found: list[str], reader: Callable[..., Any], name: Any, value: Any) -> Any:
    """What the reader makes of a field; None, and a violation more, where it refuses it."""
    if value is None:
        found.append(f"{name} is missing")
        return None
    try:
        return reader(name, value)
    except (TypeError, ValueError) as refusal:
        found.append(str(refusal))
        return None


def _listed(name: str, value: Any) -> list[Any]:
    """The entries of a vector as Python objects."""
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__"):
        raise TypeError(f"{name} is {_shown(value)}; a list of numbers is due")
    return list(value.tolist() if hasattr(value, "tolist") else value)


def _token_ids(name: str, value: Any) -> list[int]:
    if len(_listed(name, value)) == 0:
        return []
    array = index_array(name, value)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be a vector")
    for position in np.flatnonzero(array < 0):
        raise ValueError(f"{name}[{position}] is {array[position]}; a token id is ≥ 0")
    return [int(i) for i in array]


def _mask(name: str, value: Any) -> list[bool]:
    if len(_listed(name, value)) == 0:
        return []
    array = flags(name, value)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be a vector")
    return [bool(entry) for entry in array]


def _numbers_or_nan(name: str, value: Any) -> list[float]:
    """Numbers, NaN where the dump has None: so TRL writes what vLLM could not score."""
    entries = [math.nan if entry is None else entry for entry in _listed(name, value)]
    return [float(x) for x in real_array(name, entries, ndim=1, allow="anything")]


def _unpadded(found: list[str], padding: str, marks: list[bool], name: str, length: int) -> int:
    """How many of the ids come before the padding, by a mask of it."""
    tail = marks[len(marks) - length :] if len(marks) >= length else []
    if len(marks) < length:
        found.append(f"{padding} has {len(marks)} entries for {length} {name}")
        return length
    kept = sum(tail)
    if not all(tail[:kept]):
        found.append(f"{padding} has a 0 before a 1; padding stands at the end of {name}")
        return length
    if kept == 0 < length:
        found.append(f"{padding} is 0 everywhere: the whole of {name} is masked")
    return kept


def _without_padding(ids: list[int], told: _Told) -> int:
    """The length without trailing padding; where that is a stop token, its first one is real."""
    kept = len(ids)
    while kept and ids[kept - 1] == told.pad:
        kept -= 1
    return min(kept + (told.pad in told.eos | told.stops), len(ids))


def _model_tokens(
    found: list[str],
    held: Mapping[str, Any],
    names: tuple[str, ...],
    ids_name: str,
    lengths: tuple[int, int],
    due: bool,
) -> list[bool] | None:
    name, value = _named(held, names)
    if value is None and not due:
        return [True] * lengths[1]
    mask = _attempt(found, _mask, name, value)
    if mask is None:
        return None
    if len(mask) not in lengths:
        found.append(f"{name} has {len(mask)} entries for {lengths[0]} {ids_name}")
        return None
    mask = mask[: lengths[1]]
    if mask and not any(mask):
        found.append(f"{name} is 0 everywhere: no token is the model's")
    return list(mask)


def _token_logprobs(
    found: list[str],
    held: Mapping[str, Any],
    names: tuple[str, ...],
    ids_name: str,
    lengths: tuple[int, int],
    mask: list[bool],
) -> list[float] | None:
    name, value = _named(held, names)
    logprobs = None if value is None else _attempt(found, _numbers_or_nan, name, value)
    if logprobs is None:
        return None
    if len(logprobs) in lengths:
        return list(logprobs[: lengths[1]])
    found.append(f"{name} has {len(logprobs)} entries for {lengths[0]} {ids_name}")
    if len(logprobs) != sum(mask):
        return None
    # One for each model token: which is whose is plain, though a trainer that pads would err.
    entries = iter(logprobs)
    return [next(entries) if model else 0.0 for model in mask]


def _check_eos(found: list[str], tokens: _Tokens, told: _Told) -> None:
    """Generation stops at a stop token, and that token was sampled."""
    name, ids = tokens.name, tokens.ids
    for start, stop in tokens.runs():
        inside = [i for i in range(start, stop - 1) if ids[i] in told.eos | told.stops]
        if inside:
            found.append(
                f"{name}[{inside[0]}] is the stop token {ids[inside[0]]}, but the mask counts "
                f"{stop - 1 - inside[0]} tokens after it as the model's"
            )
        after = set(ids[stop:])
        if after and after <= told.eos and ids[stop - 1] not in told.eos:
            found.append(
                f"{name}[{stop}] is the EOS {ids[stop]}, but the mask leaves it out: whether it "
                "was sampled or fills the tail cannot be told"
            )


def _conversation(found: list[str], held: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """(observation, action) of every turn, from a prompt and completion of text or messages."""
    prompt, completion = held.get("prompt"), held.get("completion")
    if completion is None:
        found.append("completion is missing")
        return []
    if isinstance(completion, str):
        return [(prompt, completion)]
    messages = _attempt(found, _messages, "completion", completion) or []
    textual = prompt is None or isinstance(prompt, str)
    seen: Any = prompt if textual else _attempt(found, _messages, "prompt", prompt)
    pairs = []
    for message in messages:
        if message["role"] == "assistant":
            pairs.append((seen, message))
            seen = []
        else:
            seen = [*(seen if isinstance(seen, list) else [seen] if seen else []), message]
    if messages and not pairs:
        found.append("completion holds no message of the assistant")
    return pairs


def _messages(name: str, value: Any) -> list[Mapping[str, Any]]:
    messages = _listed(name, value)
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise TypeError(f"{name}[{index}] is {_shown(message)}; a message with a role is due")
    return messages


def _calls_in_vain(held: Mapping[str, Any]) -> bool:
    """Whether the last message calls a tool: TRL stops so at its limits, and after an EOS."""
    completion = held.get("completion")
    if completion is None or isinstance(completion, str) or not hasattr(completion, "__len__"):
        return False
    last = list(completion)[-1] if len(completion) else None
    calls = last.get("tool_calls") if isinstance(last, Mapping) else None
    return calls is not None and hasattr(calls, "__len__") and len(calls) > 0


def _record_of_tokens(
    found: list[str],
    told: _Told,
    tokens: _Tokens | None,
    held: Mapping[str, Any],
    reward: Any,
    versions: Any,
    pairs: list[tuple[Any, Any]] | None,
) -> Record:
    if tokens is None:
        return _finished(found, told, [], held, reward, versions, None)
    runs = tokens.runs()
    if pairs is not None and len(pairs) > 1 and len(pairs) != len(runs):
        found.append(f"completion has {len(pairs)} assistant messages for {len(runs)} runs of ids")
    if pairs is None or len(pairs) != len(runs):
        pairs = [(None, None)] * len(runs)
    turns: list[Record] = []
    for (start, stop), (observation, action) in zip(runs, pairs, strict=True):
        before = tokens.ids[runs[len(turns) - 1][1] : start] if turns else tokens.before(start)
        turn = _turn(
            before if observation is None else observation,
            tokens.ids[start:stop] if action is None else action,
        )
        turns.append({**turn, **_token_fields(tokens, start, stop)})
    return _finished(found, told, turns, held, reward, versions, tokens)


def _record_of_text(
    found: list[str],
    told: _Told,
    pairs: list[tuple[Any, Any]],
    held: Mapping[str, Any],
    reward: Any,
    versions: Any,
) -> Record:
    turns = [_turn(observation, action) for observation, action in pairs]
    return _finished(found, told, turns, held, reward, versions, None)


def _turn(observation: Any, action: Any) -> Record:
    turn = {"observation": observation, "action": action}
    return {name: value for name, value in turn.items() if value is not None}


def _token_fields(tokens: _Tokens, start: int, stop: int) -> Record:
    held: Record = {"token_ids": tokens.ids[start:stop]}
    if tokens.logprobs is not None:
        logprobs = tokens.logprobs[start:stop]
        held["token_logprobs"] = logprobs
        if np.isfinite(logprobs).all():
            with np.errstate(over="ignore"):
                held["behavior_logprob"] = float(np.sum(logprobs))
    return held


def _finished(
    found: list[str],
    told: _Told,
    turns: list[Record],
    held: Mapping[str, Any],
    reward: Any,
    versions: Any,
    tokens: _Tokens | None,
) -> Record:
    """The record of turns that only lack their number, reward and flags."""
    marks, stop_reason = _ending(found, told, held, tokens)
    for index, turn in enumerate(turns):
        turn["turn"] = index
        if index < len(turns) - 1:  # the reward is the rollout's: what came before earned none
            turn.update(reward=0.0, terminated=False, truncated=False)
        else:
            turn.update(marks)
            if reward is not None:
                turn["reward"] = _plain(reward)
    record: Record = {
        "task_id": told.task_id,
        "environment_version": told.environment_version,
        "policy_versions": _policy_versions(told, versions, len(turns)),
        "turns": turns,
        "stop_reason": stop_reason,
        "learner_version": told.learner_version,
        "max_staleness": told.max_staleness,
        "dump_violations": found,
    }
    for name in ("policy_versions", "learner_version", "max_staleness"):
        if record[name] is None:
            del record[name]
    return record


def _policy_versions(told: _Told, dumped: Any, turns: int) -> Mapping[Any, Any] | None:
    given = dumped if told.policy_version is None else told.policy_version
    if isinstance(given, Mapping):
        return dict(given) or None
    return None if given is None else dict.fromkeys(range(turns), _plain(given))


def _verl_versions(found: list[str], held: Mapping[str, Any], tokens: _Tokens) -> dict[int, Any]:
    """The version of each turn that is known, the oldest where a turn spans several."""
    runs = tokens.runs()
    segments = held.get("behavior_version_segments")
    by_token = None if segments is None else _attempt(found, _spread, SEGMENTS, segments)
    if by_token is not None and len(by_token) == sum(tokens.mask):
        entries = iter(by_token)
        parts = [list(islice(entries, stop - start)) for start, stop in runs]
        return {turn: min(part) for turn, part in enumerate(parts) if None not in part}
    if by_token is not None:
        found.append(
            f"{SEGMENTS} counts {len(by_token)} tokens for {sum(tokens.mask)} of the model"
        )
    low, high = (
        None if held.get(name) is None else _attempt(found, scalar, name, _plain(held[name]))
        for name in ("min_global_steps", "max_global_steps")
    )
    if low is None and high is None and held.get("global_steps") is not None:
        low = _attempt(found, scalar, "global_steps", _plain(held["global_steps"]))
    if low is not None and high is not None and low > high:
        found.append(f"min_global_steps is {low:g}, above max_global_steps {high:g}")
        return {}
    if low is None:
        return {}
    return dict.fromkeys(range(len(runs) if low == high else min(1, len(runs))), _whole(low))


def _spread(name: str, segments: Any) -> list[Any]:
    """A version for each token, from pairs of a version (None if unknown) and a count."""
    versions: list[Any] = []
    for index, segment in enumerate(_listed(name, segments)):
        if np.shape(segment) != (2,):
            raise ValueError(f"{name}[{index}] is {_shown(segment)}; [version, tokens] is due")
        version, count = segment
        if version is not None:
            version = _whole(scalar(f"{name}[{index}, 0]", version))
        versions += [version] * integer(f"{name}[{index}, 1]", count, minimum=0)
    return versions


def _ending(
    found: list[str], told: _Told, held: Mapping[str, Any], tokens: _Tokens | None
) -> tuple[Record, Any]:
    """The flags of the last turn, as far as the dump tells, and why the rollout stopped.

    The dump's own flags stand as they are, so that a contradiction is seen. Else its reason
    decides, and where that is silent, the last token: a length stop is never hidden.
    """
    name, reason = _named(held, ENDINGS[:2])
    if reason is not None and not isinstance(reason, str):
        found.append(f"{name} is {_shown(reason)}; a text is due")
        reason = None
    by_ids = _by_last_token(told, tokens)
    in_vain = _calls_in_vain(held) and reason in (*SILENT_REASONS, *CALL_REASONS, "stop")
    marks = _marks(held, reason, by_ids, in_vain)
    ended, cut = bool(marks.get("terminated")), bool(marks.get("truncated"))
    if by_ids == "length" and reason not in CUT_REASONS:
        if tokens and (ended or reason not in SILENT_REASONS):
            says = "terminated is True" if reason is None else f"{name} is {reason!r}"
            last = len(tokens.ids) - 1
            found.append(
                f"{says}, but {tokens.name}[{last}] is {tokens.ids[last]}, none of eos_token_ids "
                "and stop_token_ids: the rollout was cut off by length"
            )
        return marks, "length"
    if reason in ("abort", "aborted") and ended and not cut:
        found.append(f"{name} is {reason!r}, but terminated is True")
    if in_vain:
        return marks, "unanswered_tool_call"
    if reason in SILENT_REASONS and by_ids is not None:
        return marks, by_ids if ended else None
    return marks, reason


def _by_last_token(told: _Told, tokens: _Tokens | None) -> str | None:
    """What the last token says: "eos", "stop_token", "length", or None where it is silent."""
    stops = told.eos | told.stops
    if not stops or tokens is None or not tokens.mask or not tokens.mask[-1]:
        return None
    last = tokens.ids[-1]
    return "eos" if last in told.eos else "stop_token" if last in stops else "length"


def _marks(
    held: Mapping[str, Any], reason: str | None, by_ids: str | None, in_vain: bool
) -> Record:
    given = {name: _plain(held[name]) for name in ENDINGS[2:] if held.get(name) is not None}
    if reason in CUT_REASONS or in_vain:
        marks = {"terminated": False, "truncated": True}
    elif reason in END_REASONS:
        marks = {"terminated": True, "truncated": False}
    elif by_ids is not None:
        marks = {"terminated": by_ids != "length", "truncated": by_ids == "length"}
    else:
        marks = {}
    for one, other in (("terminated", "truncated"), ("truncated", "terminated")):
        if given.get(one) is True:
            marks[other] = False  # unless the dump says both
    return {**marks, **given}


def _weighted_reward(held: Mapping[str, Any], weights: Mapping[str, float]) -> Any:
    """Σ w r over the reward functions that scored the rollout; None where a column is missing."""
    metrics = held.get("metrics")
    if isinstance(metrics, Mapping) and "reward" not in held:
        held = {**metrics, **held}
    if not weights or any(name not in held for name in weights):
        return None
    rewards = {name: _plain(held[name]) for name in weights}
    terms = []
    for name, reward in rewards.items():
        if reward is None or (isinstance(reward, float) and math.isnan(reward)):
            continue  # the function did not apply to this rollout
        try:
            terms.append(weights[name] * scalar(name, reward, allow="infinite"))
        except (TypeError, ValueError):
            return reward  # as it is, for the record's violation
    return sum(terms) if terms else math.nan


def _plain(value: Any) -> Any:
    """A Python scalar for one of NumPy, a tensor or an array without axes."""
    shape = getattr(value, "shape", None)
    return value.item() if shape is not None and len(shape) == 0 else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
