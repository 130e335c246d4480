"""Rollout records from what TRL generates, batches and logs."""

import math
from collections.abc import Mapping, Sequence, Sized
from typing import Any, Unpack

from rlcheck._inputs import scalar
from rlcheck.transcripts._record import ENDINGS, Record, build_record
from rlcheck.transcripts._rows import convert_each, table_rows
from rlcheck.transcripts._sample import Sample, shown, text
from rlcheck.transcripts._tokens import Layout, read_tokens
from rlcheck.transcripts._told import Told, TRLOptions, checked, version

ROLLOUT = Layout(
    ids=("completion_ids",),
    mask=("env_mask", "tool_mask"),
    logprobs=("logprobs", "sampling_per_token_logps"),
    prompt=("prompt_ids",),
    padding=("completion_mask",),
    mask_due=False,
)
ASYNCHRONOUS = Layout(ids=("input_ids",), mask=("completion_mask",), logprobs=("old_log_probs",))
FIELDS = {*ROLLOUT.names(), *ASYNCHRONOUS.names(), *ENDINGS, "model_version", "metrics"}


def record_from_trl(
    sample: Any, *, task_id: str, environment_version: str, **options: Unpack[TRLOptions]
) -> Record:
    """The rollout record of one completion that TRL generated.

    A maximal run of mask = 1 is one turn's action; what stands between two runs is the
    observation of the later one. The rollout's reward belongs to its last turn.

    Args:
        sample: the fields of one completion: of what a `rollout_func` returns (`prompt_ids`,
            `completion_ids`, `logprobs`, `env_mask`), of the trainer's batch (`tool_mask`,
            `sampling_per_token_logps`, padded, with `completion_mask`), or of an asynchronous
            sample (`input_ids`, `completion_mask`, `old_log_probs`, `model_version`). Without
            a mask all tokens are the model's. `prompt` and `completion` (text or messages),
            `finish_reason`, `terminated` and `truncated` are read where they are.
        task_id: the record's task, a non-empty text.
        environment_version: the environment's version, a non-empty text.
        options: `policy_version`, `learner_version`, `max_staleness`, `eos_token_ids`,
            `pad_token_id`, `reward_columns`: see `docs/transcripts.md`.

    Returns:
        A record, with `dump_violations` beside the fields that `validate_rollout_record` reads.

    Raises:
        TypeError, ValueError: sample is no mapping, or another argument is not what it must be;
            what a sample holds is never refused, but becomes a violation.

    Reference:
        trl 1.16, trl/trainer/grpo_trainer.py: `RolloutFunc`, `GRPOTrainer._tool_call_loop`;
        trl/experimental/async_grpo/async_rollout_worker.py: `RolloutSample`.
    """
    told = checked("record_from_trl", TRLOptions, environment_version, options)
    held = Sample(sample)
    _read(held, told)
    return build_record(held, text("task_id", task_id), told)


def records_from_trl(
    rollouts: Any,
    *,
    task_id: str | Sequence[str],
    environment_version: str,
    **options: Unpack[TRLOptions],
) -> list[Record]:
    """The records of many completions, as `record_from_trl` makes them.

    Args:
        rollouts: what a `rollout_func` returns (a mapping of columns), a table, or samples.
        task_id: one text for all, or one for each completion.
        environment_version, options: as in `record_from_trl`.

    Returns:
        One record for each completion, in order; one that cannot be read says so.

    Raises:
        TypeError, ValueError: as `record_from_trl`; columns or task ids differ in number.

    Reference:
        trl 1.16, trl/trainer/grpo_trainer.py: `RolloutFunc`.
    """
    told = checked("records_from_trl", TRLOptions, environment_version, options)
    rows = table_rows("rollouts", rollouts, {*FIELDS, "prompt", "completion", *told.reward_columns})
    return convert_each(rows, task_id, told, _read)


def records_from_trl_completions(
    rows: Any,
    *,
    task_id: str | Sequence[str],
    environment_version: str,
    **options: Unpack[TRLOptions],
) -> list[Record]:
    """The records of TRL's completions table, which holds text alone.

    Tokens, log-probabilities and versions are missing, and so is how a completion ended, unless
    its last message calls a tool that never answers. `step` is the step of logging, which
    several generations may share, so it is no version.

    Args:
        rows: the table of `log_completions`: a data frame, a mapping of columns, or rows, with
            `prompt`, `completion` (text or messages) and a reward column for each function.
        task_id: one text for all, or one for each row.
        environment_version, options: as in `record_from_trl`.

    Returns:
        One record for each row, a turn for each assistant message.

    Raises:
        TypeError, ValueError: an argument is not what it must be, or columns differ in length.

    Reference:
        trl 1.16, trl/trainer/grpo_trainer.py: `GRPOTrainer.log`.
    """
    told = checked("records_from_trl_completions", TRLOptions, environment_version, options)
    table = table_rows("rows", rows, {"prompt", "completion", *told.reward_columns})
    return convert_each(table, task_id, told, _read_text)


def _read(sample: Sample, told: Told) -> None:
    asynchronous = "completion_ids" not in sample.held and "input_ids" in sample.held
    read_tokens(sample, ASYNCHRONOUS if asynchronous else ROLLOUT, told)
    sample.reward = _reward(sample, told)
    sample.version = sample.read(version, "model_version")
    if asynchronous or sample.find("completion")[1] is None:
        return  # a conversation may be spread over several asynchronous samples
    said = _spoken(sample)
    if len(said) == len(sample.turns):
        sample.turns = [turn | words for turn, words in zip(sample.turns, said, strict=True)]
    elif len(said) > 1:
        sample.violations.append(
            f"completion has {len(said)} assistant messages for {len(sample.turns)} runs of ids"
        )


def _read_text(sample: Sample, told: Told) -> None:
    sample.turns, sample.reward = _spoken(sample), _reward(sample, told)


def _spoken(sample: Sample) -> list[Record]:
    """Observation and action of each turn of a text or of messages."""
    seen = sample.read(_messages, "prompt")
    said = sample.read(_messages, "completion", due=True)
    if isinstance(said, str):
        return [_turn(seen, said)]
    turns: list[Record] = []
    for message in said or []:
        if message["role"] == "assistant":
            turns.append(_turn(seen, message))
            seen = []
        else:
            seen = [*([seen] if isinstance(seen, str) else seen or []), message]
    if said and not turns:
        sample.violations.append("completion holds no message of the assistant")
    # TRL stops so at its limits, and where the tool's answer did not fit, after an EOS.
    calls = said[-1].get("tool_calls") if said else None
    if said:
        sample.answered = said[-1]["role"] != "assistant"
    sample.unanswered = isinstance(calls, Sized) and len(calls) > 0
    return turns


def _turn(seen: Any, said: Any) -> Record:
    return {"action": said} if seen is None else {"observation": seen, "action": said}


def _messages(name: str, value: Any) -> Any:
    """A text, or a list of messages."""
    if isinstance(value, str):
        return value
    entries = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(entries, list | tuple):
        raise TypeError(f"{name} is {shown(value)}; a text or a list of messages is due")
    for index, message in enumerate(entries):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise TypeError(f"{name}[{index}] is {shown(message)}; a message with a role is due")
    return list(entries)


def _reward(sample: Sample, told: Told) -> float | None:
    """The sum over the functions that scored the rollout; None where a column is missing."""
    metrics = sample.held.get("metrics")  # of an asynchronous sample
    if isinstance(metrics, Mapping):
        sample.held = {**metrics, **sample.held}
    if any(name not in sample.held for name in told.reward_columns):
        return None
    rewards = [sample.read(scalar, name) for name in told.reward_columns]
    scored = [reward for reward in rewards if reward is not None]
    return sum(scored) if scored else math.nan
