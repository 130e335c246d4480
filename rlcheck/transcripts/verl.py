"""Rollout records from verl: outputs of agent loops, and the JSONL dump."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Unpack

from rlcheck._inputs import scalar
from rlcheck.transcripts._record import ENDINGS, Record, build_record
from rlcheck.transcripts._rows import convert_each, json_lines, table_rows
from rlcheck.transcripts._sample import Sample, equal, shown, text, token_numbers
from rlcheck.transcripts._tokens import Layout, read_tokens
from rlcheck.transcripts._told import Options, Told, checked, version

AGENT_LOOP = Layout(
    ids=("response_ids", "responses"),
    mask=("response_mask",),
    logprobs=("response_logprobs", "rollout_log_probs"),
    prompt=("prompt_ids", "prompts"),
    padding=("attention_mask",),
)
OLDEST, NEWEST = "min_global_steps", "max_global_steps"
REWARDS = ("reward_score", "rm_scores")  # of the rollout, or of its tokens
KINDS = (*AGENT_LOOP.parts(), REWARDS, *((name,) for name in (*ENDINGS, OLDEST, NEWEST)))
FIELDS = {name for names in KINDS for name in names}


def record_from_verl(
    sample: Any, *, task_id: str, environment_version: str, **options: Unpack[Options]
) -> Record:
    """The rollout record of one output of a verl agent loop.

    `min_global_steps` is the version of the first turn, and of the others only if
    `max_global_steps` equals it: between the two, the output does not say which turn came from
    which weights.

    Args:
        sample: a mapping or model with `prompt_ids`, `response_ids`, `response_mask`,
            `response_logprobs`, `reward_score`, `extra_fields`; or a row of a batch, with
            `prompts`, `responses`, `rollout_log_probs`, `rm_scores`, `attention_mask`. Where
            `extra_fields` contradict another field, that one is read.
        task_id, environment_version: as in `record_from_trl`.
        options: as in `record_from_trl`, without `reward_columns`.

    Returns:
        A record, with `dump_violations` beside the fields that `validate_rollout_record` reads.

    Raises:
        TypeError, ValueError: as `record_from_trl`.

    Reference:
        verl, verl/experimental/agent_loop/agent_loop.py: `AgentLoopOutput`;
        verl/experimental/agent_loop/tool_agent_loop.py, on the versions of several turns.
    """
    told = checked("record_from_verl", Options, environment_version, options)
    held = Sample(sample)
    _read(held, told)
    return build_record(held, text("task_id", task_id), told)


def records_from_verl(
    outputs: Any,
    *,
    task_id: str | Sequence[str],
    environment_version: str,
    **options: Unpack[Options],
) -> list[Record]:
    """The records of many agent loop outputs, as `record_from_verl` makes them.

    Args:
        outputs: samples, a mapping of columns, or a batch (`DataProto`, or alike: tensors in
            `batch`, the other columns in `non_tensor_batch`).
        task_id: one text for all, or one for each output.
        environment_version, options: as in `record_from_verl`.

    Returns:
        One record for each output, in order; one that cannot be read says so.

    Raises:
        TypeError, ValueError: as `record_from_verl`; columns or task ids differ in number.

    Reference:
        verl, verl/experimental/agent_loop/agent_loop.py: `AgentLoopOutput`.
    """
    told = checked("records_from_verl", Options, environment_version, options)
    rows = table_rows("outputs", outputs, {*FIELDS, "extra_fields"})
    return convert_each(rows, task_id, told, _read)


def records_from_verl_dump(
    path_or_lines: str | PathLike[str] | Iterable[Any],
    *,
    task_id: str | Sequence[str],
    environment_version: str,
    step_is_version: bool = True,
    **options: Unpack[Options],
) -> list[Record]:
    """The records of verl's JSONL dump, which holds text alone.

    Each line has `input`, `output`, `score` and `step`. A response of several turns is one text,
    decoded without its special tokens: its turns, tokens, log-probabilities and end are missing.

    Args:
        path_or_lines: a file of `trainer.rollout_data_dir`, that folder, or the lines.
        task_id: one text for all, or one for each line that is not blank.
        environment_version, options: as in `record_from_verl`.
        step_is_version: whether `step`, at which the rollout was learnt from, names the weights
            that sampled it, as it does for a synchronous trainer. An asynchronous one learns
            from older rollouts: then pass False, and the versions are missing.

    Returns:
        One record for each line that is not blank, in order; the files of a folder by step. A
        line that is no JSON object gives a record that says so.

    Raises:
        TypeError, ValueError: an argument is not what it must be.
        OSError: there is no such file.

    Reference:
        verl, verl/trainer/ppo/ray_trainer.py: `_log_rollout_data`, `_dump_generations`.
    """
    told = checked("records_from_verl_dump", Options, environment_version, options)
    if not isinstance(step_is_version, bool):
        raise TypeError(f"step_is_version is {step_is_version!r}; True or False is due")

    def read(line: Sample, told: Told) -> None:
        turn = {
            "observation": line.read(_words, "input"),
            "action": line.read(_words, "output", due=True),
        }
        line.turns = [turn] if turn["action"] is not None else []
        line.reward = line.read(scalar, "score")
        line.version = line.read(version, "step") if step_is_version else None

    lines = json_lines("path_or_lines", path_or_lines)
    return convert_each(lines, task_id, told, read)


def _read(sample: Sample, told: Told) -> None:
    _add_extra(sample)
    read_tokens(sample, AGENT_LOOP, told)
    sample.reward, sample.version = _reward(sample), _versions(sample)


def _add_extra(sample: Sample) -> None:
    """A batch has the extra fields beside the others, which they never replace."""
    extra = sample.held.get("extra_fields")
    if not isinstance(extra, Mapping):
        return
    own, more = Sample(sample.held), Sample(extra)  # these keep their violations to themselves
    taken: set[str] = set()
    for names in KINDS:
        real, value = own.find(*names)
        if value is None:
            continue
        taken |= {*names}
        for name in names:
            _, other = more.find(name)
            if other is None or equal(value, other):
                continue
            if names != REWARDS or _reward(own) != _reward(Sample({name: other})):
                sample.violations.append(
                    f"extra_fields[{name!r}] is {shown(other)}, but {real} is {shown(value)}"
                )
    sample.held = {**own.held, **{name: v for name, v in extra.items() if name not in taken}}


def _reward(sample: Sample) -> float | None:
    reward: float | None = sample.read(scalar, REWARDS[0])
    if reward is None and (scores := sample.read(token_numbers, REWARDS[1])) is not None:
        return float(scores.sum())
    return reward


def _versions(sample: Sample) -> Any:
    """The version of all turns, or a mapping with that of the first one, the oldest."""
    oldest, newest = sample.read(version, OLDEST), sample.read(version, NEWEST)
    if isinstance(oldest, int | float) and isinstance(newest, int | float) and oldest > newest:
        sample.violations.append(f"{OLDEST} is {oldest}, above {NEWEST} {newest}")
        return None
    return oldest if oldest is None or oldest == newest else {0: oldest}


def _words(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; a text is due")
    return value
