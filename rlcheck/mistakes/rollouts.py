"""What people get wrong about stop reasons and recorded rollouts."""

import math
from collections.abc import Mapping

import numpy as np

from rlcheck import rollouts as reference
from rlcheck.mistakes.registry import mistake


def _event(reason, terminal_reasons, truncation_reasons):
    return reference.classify_stop_event(
        reason, terminal_reasons=terminal_reasons, truncation_reasons=truncation_reasons
    )


@mistake("classify_stop_event", "clears truncated where the reason is terminal too")
def lets_termination_win(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    return event._replace(truncated=event.truncated and not event.terminated)


@mistake(
    "classify_stop_event",
    "clears terminated where the reason is truncating too",
    report="takuseno/d3rlpy#463",
)
def lets_truncation_win(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    return event._replace(terminated=event.terminated and not event.truncated)


@mistake("classify_stop_event", "takes a reason in both collections for none")
def excludes_both(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    return (
        event
        if event.terminated != event.truncated
        else event._replace(terminated=False, truncated=False)
    )


@mistake("classify_stop_event", "takes whatever does not terminate for a truncation")
def truncates_by_default(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    return event._replace(truncated=event.truncated or not event.terminated)


@mistake("classify_stop_event", "takes whatever does not truncate for a termination")
def terminates_by_default(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    return event._replace(terminated=event.terminated or not event.truncated)


@mistake("classify_stop_event", "exchanges the two flags")
def exchanges_the_flags(reason, *, terminal_reasons, truncation_reasons):
    return _event(reason, truncation_reasons, terminal_reasons)


@mistake("classify_stop_event", "ends the task at a truncation")
def terminates_at_truncations(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    return event._replace(terminated=event.terminated or event.truncated)


@mistake("classify_stop_event", "finds a listed reason inside a longer one")
def finds_listed_reasons_inside(reason, *, terminal_reasons, truncation_reasons):
    return reference.StopEvent(
        reason,
        any(listed in reason for listed in terminal_reasons),
        any(listed in reason for listed in truncation_reasons),
    )


@mistake("classify_stop_event", "finds the reason inside a longer listed one")
def finds_the_reason_inside(reason, *, terminal_reasons, truncation_reasons):
    return reference.StopEvent(
        reason,
        any(reason in listed for listed in terminal_reasons),
        any(reason in listed for listed in truncation_reasons),
    )


@mistake("classify_stop_event", "ignores upper and lower case")
def ignores_case(reason, *, terminal_reasons, truncation_reasons):
    terminal, truncation = (
        [listed.lower() for listed in reasons] for reasons in (terminal_reasons, truncation_reasons)
    )
    return _event(reason.lower(), terminal, truncation)._replace(reason=reason)


@mistake("classify_stop_event", "answers with the reason in lower case")
def lowers_the_reason(reason, *, terminal_reasons, truncation_reasons):
    return _event(reason, terminal_reasons, truncation_reasons)._replace(reason=reason.lower())


@mistake("classify_stop_event", "goes by its own list of reasons, not by those it is given")
def goes_by_its_own_list(reason, *, terminal_reasons, truncation_reasons):
    return _event(reason, reference.TERMINATION_REASONS, reference.TRUNCATION_REASONS)


@mistake("classify_stop_event", "looks at the first reason of each collection only")
def looks_at_the_first_reason(reason, *, terminal_reasons, truncation_reasons):
    return _event(reason, terminal_reasons[:1], truncation_reasons[:1])


@mistake(
    "classify_stop_event",
    "takes a tool call for an unfinished rollout whatever was listed",
    report="vllm-project/vllm#58228",
)
def hides_behind_tool_calls(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    if reason == "tool_calls":
        return event._replace(terminated=False, truncated=False)
    return event


@mistake("classify_stop_event", "refuses a reason that is listed nowhere")
def refuses_unlisted_reasons(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    if not (event.terminated or event.truncated):
        raise ValueError(f"unknown stop reason {reason!r}")
    return event


@mistake("classify_stop_event", "answers with one reason and one flag: whether the rollout is done")
def answers_with_done(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    return reason, event.terminated or event.truncated


@mistake("classify_stop_event", "has reasons of its own when none are given")
def has_default_reasons(reason="eos", *, terminal_reasons=("eos",), truncation_reasons=("length",)):
    return _event(reason, terminal_reasons, truncation_reasons)


@mistake("classify_stop_event", "takes the reason out of the lists that it was given")
def consumes_the_reasons(reason, *, terminal_reasons, truncation_reasons):
    event = _event(reason, terminal_reasons, truncation_reasons)
    for reasons in (terminal_reasons, truncation_reasons):
        if isinstance(reasons, list) and reason in reasons:
            reasons.remove(reason)
    return event


def _without(record, *parts):
    """The violations in which none of the parts of a text occurs."""
    found = reference.validate_rollout_record(record)
    return [text for text in found if not any(part in text for part in parts)]


def _turns(record):
    turns = record.get("turns") if isinstance(record, Mapping) else None
    return [t for t in turns if isinstance(t, Mapping)] if isinstance(turns, list) else []


def _reading(record, **changes):
    """The violations of the record with other values in some of its fields."""
    if not isinstance(record, Mapping):
        return reference.validate_rollout_record(record)
    return reference.validate_rollout_record({**record, **changes})


def _reading_turns(record, change):
    turns = [{**turn, **change(turn)} for turn in _turns(record)]
    whole = isinstance(record, Mapping) and isinstance(record.get("turns"), list)
    if not whole or len(turns) != len(record["turns"]):
        return reference.validate_rollout_record(record)
    return _reading(record, turns=turns)


@mistake("validate_rollout_record", "stops at the first violation")
def stops_at_the_first_violation(record):
    return reference.validate_rollout_record(record)[:1]


@mistake("validate_rollout_record", "reports one violation a turn")
def reports_one_violation_a_turn(record):
    kept = {}
    for text in reference.validate_rollout_record(record):
        kept.setdefault(text.split(".")[0] if text.startswith("turns[") else text, text)
    return list(kept.values())


@mistake("validate_rollout_record", "raises for a field that is missing or of another type")
def raises_on_malformed_records(record):
    record["task_id"], record["turns"][0]["action"], record["policy_versions"].items()
    _ = [turn["reward"] + turn["behavior_logprob"] for turn in record["turns"]]
    return reference.validate_rollout_record(record)


@mistake("validate_rollout_record", "tests token arrays for truth, which raises")
def tests_arrays_for_truth(record):
    for turn in _turns(record):
        if turn.get("token_ids") and not turn.get("token_logprobs"):
            return ["token_ids without token_logprobs"]
    return reference.validate_rollout_record(record)


@mistake("validate_rollout_record", "raises ValueError instead of answering with a list")
def raises_its_violations(record):
    if found := reference.validate_rollout_record(record):
        raise ValueError("; ".join(found))
    return found


@mistake("validate_rollout_record", "answers None for a sound record")
def answers_none_when_sound(record):
    return reference.validate_rollout_record(record) or None


@mistake("validate_rollout_record", "answers whether the record is sound")
def answers_with_a_boolean(record):
    return not reference.validate_rollout_record(record)


@mistake("validate_rollout_record", "knows turns by integers, not by the text keys of JSON")
def knows_integer_keys_only(record):
    versions = record.get("policy_versions") if isinstance(record, Mapping) else None
    if not isinstance(versions, Mapping):
        return reference.validate_rollout_record(record)
    kept = {key: version for key, version in versions.items() if isinstance(key, int)}
    return _reading(record, policy_versions=kept)


@mistake("validate_rollout_record", "knows turns by text keys only")
def knows_text_keys_only(record):
    versions = record.get("policy_versions") if isinstance(record, Mapping) else None
    if not isinstance(versions, Mapping):
        return reference.validate_rollout_record(record)
    kept = {key: version for key, version in versions.items() if isinstance(key, str)}
    return _reading(record, policy_versions=kept)


@mistake(
    "validate_rollout_record",
    "is content with one policy version for the whole rollout",
    report="NVIDIA-NeMo/labs-molt#124",
)
def is_content_with_one_version(record):
    versions = record.get("policy_versions") if isinstance(record, Mapping) else None
    if isinstance(versions, Mapping) and versions:
        return _without(record, "missing policy versions")
    return reference.validate_rollout_record(record)


@mistake("validate_rollout_record", "does not ask for policy versions")
def does_not_ask_for_versions(record):
    return _without(record, "missing policy versions")


@mistake("validate_rollout_record", "reports missing policy versions in other words")
def reports_versions_in_other_words(record):
    found = reference.validate_rollout_record(record)
    return [text.replace("missing policy versions", "policy versions missing") for text in found]


@mistake("validate_rollout_record", "calls a turn stale that is exactly as old as is allowed")
def is_stale_at_the_limit(record):
    limit = record.get("max_staleness") if isinstance(record, Mapping) else None
    return _reading(record, max_staleness=limit - 0.5) if type(limit) is int else _without(record)


@mistake(
    "validate_rollout_record",
    "judges staleness by the version of the last turn",
    report="verl-project/verl#7569",
)
def judges_by_the_last_version(record):
    stale = f"turns[{len(_turns(record)) - 1}] is stale"
    found = reference.validate_rollout_record(record)
    return [text for text in found if " is stale" not in text or text.startswith(stale)]


@mistake("validate_rollout_record", "judges staleness by the version of the first turn")
def judges_by_the_first_version(record):
    found = reference.validate_rollout_record(record)
    return [text for text in found if " is stale" not in text or text.startswith("turns[0]")]


@mistake("validate_rollout_record", "checks no staleness", report="ViperEkura/AstrAI#59")
def checks_no_staleness(record):
    return _without(record, " is stale")


@mistake("validate_rollout_record", "accepts max_staleness without the learner's version")
def accepts_staleness_without_learner(record):
    return _without(record, "learner_version is missing")


@mistake("validate_rollout_record", "asks for max_staleness where the learner's version is given")
def asks_for_max_staleness(record):
    found = reference.validate_rollout_record(record)
    if isinstance(record, Mapping) and "learner_version" in record:
        found += [] if "max_staleness" in record else ["max_staleness is missing"]
    return found


@mistake("validate_rollout_record", "accepts 0 and 1 as flags")
def accepts_numbers_as_flags(record):
    def read(turn):
        flags = {name: turn.get(name) for name in ("terminated", "truncated")}
        return {n: bool(f) for n, f in flags.items() if isinstance(f, int | float)}

    return _reading_turns(record, read)


@mistake("validate_rollout_record", "lets a rollout end before its last turn")
def accepts_early_ends(record):
    return _without(record, "only the last turn")


@mistake("validate_rollout_record", "does not hold the stop reason against the flags")
def ignores_contradictions(record):
    return _without(record, ", a truncation,", ", a termination,")


@mistake("validate_rollout_record", "takes the horizon of the task for a truncation")
def takes_the_horizon_for_a_truncation(record):
    named = isinstance(record, Mapping) and record.get("stop_reason")
    return (
        _reading(record, stop_reason="timeout")
        if isinstance(named, str) and named == "task_horizon"
        else reference.validate_rollout_record(record)
    )


@mistake("validate_rollout_record", "refuses a reason that it does not know")
def refuses_unknown_reasons(record):
    found = reference.validate_rollout_record(record)
    known = (*reference.TERMINATION_REASONS, *reference.TRUNCATION_REASONS, None)
    reason = record.get("stop_reason") if isinstance(record, Mapping) else None
    return found if not isinstance(reason, str) or reason in known else [*found, "unknown reason"]


@mistake(
    "validate_rollout_record",
    "calls a rollout with both flags contradictory",
    report="takuseno/d3rlpy#463",
)
def refuses_both_flags(record):
    both = any(t.get("terminated") is True and t.get("truncated") is True for t in _turns(record))
    return reference.validate_rollout_record(record) + ["both flags are set"] * both


@mistake("validate_rollout_record", "does not ask a finished rollout why it stopped")
def asks_for_no_reason(record):
    return _without(record, "stop_reason is None")


@mistake("validate_rollout_record", "accepts a stop reason of a rollout that goes on")
def accepts_reasons_of_unfinished_rollouts(record):
    return _without(record, "for neither flag is set")


@mistake("validate_rollout_record", "accepts a rollout without turns")
def accepts_empty_rollouts(record):
    return _without(record, "must be a list of at least one turn")


@mistake("validate_rollout_record", "lets NaN pass, for it compares false with every limit")
def lets_nan_pass(record):
    return _without(record, " is nan", " by nan")


@mistake("validate_rollout_record", "accepts infinite rewards")
def accepts_infinite_rewards(record):
    return _without(record, "reward is inf", "reward is -inf")


@mistake("validate_rollout_record", "accepts log-probabilities above 0")
def accepts_positive_logprobs(record):
    return _without(record, "it must be ≤ 0")


@mistake("validate_rollout_record", "accepts an action that the policy could not have taken")
def accepts_impossible_actions(record):
    return _without(record, "behavior_logprob is -inf")


@mistake("validate_rollout_record", "refuses the log-probability 0 of a certain action")
def refuses_certain_actions(record):
    certain = any(
        isinstance(turn.get("behavior_logprob"), float) and turn["behavior_logprob"] == 0
        for turn in _turns(record)
    )
    return reference.validate_rollout_record(record) + ["behavior_logprob is 0"] * certain


@mistake(
    "validate_rollout_record",
    "does not compare the lengths of token ids and log-probabilities",
    report="rllm-org/rllm#816, PrimeIntellect-ai/prime-rl#606",
)
def compares_no_lengths(record):
    return _without(record, "token_ids and", "misses behavior_logprob")


@mistake(
    "validate_rollout_record",
    "does not add up the tokens' log-probabilities",
    report="fw-ai/cookbook#483",
)
def adds_up_no_tokens(record):
    return _without(record, "misses behavior_logprob")


@mistake("validate_rollout_record", "sees tokens that are too many, not those that are lost")
def sees_no_lost_tokens(record):
    lost = [
        f"turns[{index}].token_logprobs misses behavior_logprob"
        for index, turn in enumerate(_turns(record))
        if _adds_up_above(turn)
    ]
    return _without(record, *lost)


def _adds_up_above(turn):
    try:
        return bool(np.sum(turn["token_logprobs"]) > turn["behavior_logprob"])
    except (KeyError, TypeError, ValueError):
        return False


@mistake("validate_rollout_record", "calls a turn stale that is newer than the learner")
def takes_the_future_for_the_past(record):
    found = reference.validate_rollout_record(record)
    try:
        learner, limit = record["learner_version"], record["max_staleness"]
        ahead = [version - learner > limit for version in record["policy_versions"].values()]
    except (AttributeError, KeyError, TypeError):
        return found
    return found + ["a turn is stale"] * any(ahead)


@mistake("validate_rollout_record", "accepts token ids whose log-probabilities are missing")
def accepts_ids_without_logprobs(record):
    return _without(record, "token_logprobs is None", "token_ids is None")


@mistake("validate_rollout_record", "holds the mean of the tokens against the turn's logarithm")
def averages_over_tokens(record):
    def read(turn):
        try:
            tokens = np.asarray(turn["token_logprobs"], dtype=float)
            return {"token_logprobs": tokens / len(tokens)}
        except (KeyError, TypeError, ValueError):
            return {}

    return _reading_turns(record, read)


@mistake("validate_rollout_record", "accepts turns in any numbering that increases")
def accepts_gaps(record):
    numbers = [turn.get("turn") for turn in _turns(record)]
    if all(type(number) is int for number in numbers) and sorted(set(numbers)) == numbers:
        return _without(record, ".turn is ")
    return reference.validate_rollout_record(record)


@mistake("validate_rollout_record", "numbers turns from 1")
def numbers_from_one(record):
    return _reading_turns(
        record, lambda turn: {"turn": turn["turn"] - 1} if type(turn.get("turn")) is int else {}
    )


@mistake("validate_rollout_record", "accepts turns without observation or action")
def accepts_turns_without_content(record):
    return _without(record, "observation is missing", "action is missing")


@mistake("validate_rollout_record", "accepts an empty or missing name of task or environment")
def accepts_nameless_records(record):
    return _without(record, "task_id is", "environment_version is")


@mistake("validate_rollout_record", "accepts texts that look like numbers")
def accepts_numbers_as_texts(record):
    return _without(record, "is '1'", "is '-1'", "is 'first'")


@mistake("validate_rollout_record", "reports keys that it does not know")
def reports_further_keys(record):
    known = ("task_id", "environment_version", "policy_versions", "turns", "stop_reason")
    known += ("max_staleness", "learner_version")
    further = [key for key in record if key not in known] if isinstance(record, Mapping) else []
    return reference.validate_rollout_record(record) + [f"{key} is unknown" for key in further]


@mistake("validate_rollout_record", "sorts the keys of a record, which may differ in type")
def sorts_the_keys(record):
    if isinstance(record, Mapping):
        sorted(record)
    return reference.validate_rollout_record(record)


@mistake("validate_rollout_record", "keeps the violations of earlier records")
def keeps_earlier_violations(record, found=[]):  # noqa: B006
    found += reference.validate_rollout_record(record)
    del found[:-40]
    return list(found)


@mistake("validate_rollout_record", "reports in the order in which the record holds its fields")
def reports_in_the_order_of_keys(record):
    found = reference.validate_rollout_record(record)
    keys = [str(key) for key in record] if isinstance(record, Mapping) else []
    return sorted(
        found, key=lambda text: next((i for i, k in enumerate(keys) if text.startswith(k)), -1)
    )


@mistake("validate_rollout_record", "fills absent fields of the record with None")
def fills_absent_fields(record):
    found = reference.validate_rollout_record(record)
    if isinstance(record, dict):
        record.setdefault("max_staleness", None)
    return found


@mistake("validate_rollout_record", "takes what is no record for an empty one without faults")
def accepts_what_is_no_record(record):
    return reference.validate_rollout_record(record) if record and _turns(record) else []


def _batch(batch, **changes):
    return reference.validate_rollout_batch({**batch, **changes})


def _array(batch, name, dtype=float):
    return np.asarray(batch[name], dtype=dtype)


@mistake("validate_rollout_batch", "counts padding as tokens")
def counts_padding(batch):
    summary = reference.validate_rollout_batch(batch)
    return summary._replace(active_tokens=np.asarray(batch["response_mask"]).size)


@mistake(
    "validate_rollout_batch",
    "counts every token up to the last of a sequence, tool tokens too",
    report="OpenRLHF/OpenRLHF#1252",
)
def counts_up_to_the_last_token(batch):
    summary = reference.validate_rollout_batch(batch)
    mask = _array(batch, "response_mask").reshape(summary.batch_size, -1)
    spans = [int(np.flatnonzero(row)[-1]) + 1 for row in mask if row.any()]
    return summary._replace(active_tokens=sum(spans))


@mistake("validate_rollout_batch", "counts a sequence with both flags as terminated only")
def lets_terminated_win(batch):
    summary = reference.validate_rollout_batch(batch)
    both = np.sum((_array(batch, "terminated") == 1) & (_array(batch, "truncated") == 1))
    return summary._replace(truncated_sequences=summary.truncated_sequences - int(both))


@mistake("validate_rollout_batch", "counts a sequence with both flags as truncated only")
def lets_truncated_win(batch):
    summary = reference.validate_rollout_batch(batch)
    both = np.sum((_array(batch, "terminated") == 1) & (_array(batch, "truncated") == 1))
    return summary._replace(terminated_sequences=summary.terminated_sequences - int(both))


@mistake("validate_rollout_batch", "subtracts sequences with both flags twice from the unfinished")
def subtracts_both_flags_twice(batch):
    summary = reference.validate_rollout_batch(batch)
    finished = summary.terminated_sequences + summary.truncated_sequences
    return summary._replace(unfinished_sequences=summary.batch_size - finished)


@mistake("validate_rollout_batch", "takes a truncated sequence for an unfinished one")
def takes_truncated_for_unfinished(batch):
    summary = reference.validate_rollout_batch(batch)
    return summary._replace(unfinished_sequences=summary.batch_size - summary.terminated_sequences)


@mistake(
    "validate_rollout_batch",
    "loses the truncation flag where the sequence ended by length",
    report="OpenRLHF/OpenRLHF#1327",
)
def loses_truncation_by_length(batch):
    summary = reference.validate_rollout_batch(batch)
    return summary._replace(
        truncated_sequences=summary.truncated_sequences - list(batch["stop_reason"]).count("length")
    )


@mistake("validate_rollout_batch", "exchanges the two flags")
def exchanges_the_flags_of_rows(batch):
    summary = reference.validate_rollout_batch(batch)
    return summary._replace(
        terminated_sequences=summary.truncated_sequences,
        truncated_sequences=summary.terminated_sequences,
    )


@mistake("validate_rollout_batch", "reports the width of the batch as its size")
def takes_the_width_for_the_size(batch):
    summary = reference.validate_rollout_batch(batch)
    return summary._replace(batch_size=np.asarray(batch["response_mask"]).shape[-1])


@mistake("validate_rollout_batch", "drops sequences without tokens from its counts")
def drops_empty_sequences(batch):
    summary = reference.validate_rollout_batch(batch)
    mask = _array(batch, "response_mask").reshape(summary.batch_size, -1)
    return summary._replace(batch_size=int(mask.any(axis=1).sum()))


@mistake("validate_rollout_batch", "reports the tokens of the longest sequence")
def reports_the_longest_sequence(batch):
    summary = reference.validate_rollout_batch(batch)
    mask = _array(batch, "response_mask").reshape(summary.batch_size, -1)
    return summary._replace(active_tokens=int(mask.sum(axis=1).max(initial=0)))


@mistake("validate_rollout_batch", "counts tokens of finished sequences, along the wrong axis")
def weighs_columns_by_row_flags(batch):
    summary = reference.validate_rollout_batch(batch)
    mask, ended = _array(batch, "response_mask"), _array(batch, "terminated")
    if mask.ndim == 2 and mask.shape[0] == mask.shape[1]:
        return summary._replace(active_tokens=int((mask * np.maximum(ended, 0.5)).sum()))
    return summary


@mistake("validate_rollout_batch", "refuses NaN in padding")
def refuses_nan_in_padding(batch):
    summary = reference.validate_rollout_batch(batch)
    if np.isnan(_array(batch, "old_logprobs")).any():
        raise ValueError("old_logprobs holds NaN")
    return summary


@mistake(
    "validate_rollout_batch",
    "multiplies by the mask, and NaN · 0 is NaN",
    report="verl-project/verl#2377",
)
def multiplies_by_the_mask(batch):
    summary = reference.validate_rollout_batch(batch)
    if np.isnan(_array(batch, "ref_logprobs") * _array(batch, "response_mask")).any():
        raise ValueError("ref_logprobs holds NaN")
    return summary


@mistake("validate_rollout_batch", "refuses positive log-probabilities in padding")
def refuses_positive_padding(batch):
    summary = reference.validate_rollout_batch(batch)
    if (_array(batch, "old_logprobs") > 0).any():
        raise ValueError("old_logprobs must be ≤ 0")
    return summary


@mistake("validate_rollout_batch", "refuses the label id −100 in padding")
def refuses_label_ids_in_padding(batch):
    summary = reference.validate_rollout_batch(batch)
    if (_array(batch, "response_ids") < 0).any():
        raise ValueError("response_ids must be ≥ 0")
    return summary


@mistake("validate_rollout_batch", "refuses tokens that the reference policy rules out")
def refuses_impossible_reference_tokens(batch):
    summary = reference.validate_rollout_batch(batch)
    active = _array(batch, "response_mask") == 1
    if np.isneginf(_array(batch, "ref_logprobs")[active]).any():
        raise ValueError("ref_logprobs must be finite")
    return summary


@mistake("validate_rollout_batch", "refuses a certain token, whose log-probability is 0")
def refuses_certain_tokens(batch):
    summary = reference.validate_rollout_batch(batch)
    active = _array(batch, "response_mask") == 1
    if (_array(batch, "old_logprobs")[active] == 0).any():
        raise ValueError("old_logprobs must be < 0")
    return summary


def _tolerant(batch, name, wrong, instead):
    """The summary of the batch with other numbers where `wrong` holds, if it can be read."""
    try:
        values = _array(batch, name)
        return _batch(batch, **{name: np.where(wrong(values), instead, values)})
    except (KeyError, TypeError):
        return reference.validate_rollout_batch(batch)


@mistake("validate_rollout_batch", "lets NaN pass under the mask, for it is not above 0")
def lets_nan_logprobs_pass(batch):
    return _tolerant(batch, "old_logprobs", np.isnan, -1.0)


@mistake("validate_rollout_batch", "accepts tokens that the old policy could not have sampled")
def accepts_impossible_tokens(batch):
    return _tolerant(batch, "old_logprobs", np.isneginf, -1.0)


@mistake("validate_rollout_batch", "accepts log-probabilities above 0")
def accepts_positive_token_logprobs(batch):
    return _tolerant(batch, "old_logprobs", lambda values: values > 0, 0.0)


@mistake("validate_rollout_batch", "does not check the reference's log-probabilities")
def accepts_any_reference(batch):
    return _tolerant(batch, "ref_logprobs", lambda values: ~(values <= 0), 0.0)


@mistake("validate_rollout_batch", "accepts rewards that are NaN or infinite")
def accepts_any_reward(batch):
    return _tolerant(batch, "sequence_rewards", lambda values: ~np.isfinite(values), 0.0)


@mistake("validate_rollout_batch", "takes every nonzero mask entry for a 1")
def accepts_any_mask(batch):
    return _tolerant(batch, "response_mask", lambda values: values != 0, 1.0)


@mistake("validate_rollout_batch", "takes negative ids for padding")
def accepts_negative_ids(batch):
    ids = np.asarray(batch["response_ids"]) if isinstance(batch, Mapping) else None
    if ids is None or ids.dtype.kind != "i":
        return reference.validate_rollout_batch(batch)
    return _batch(batch, response_ids=np.maximum(ids, 0))


@mistake("validate_rollout_batch", "cuts ids that are no integers")
def cuts_fractional_ids(batch):
    try:
        return _batch(batch, response_ids=_array(batch, "response_ids").astype(np.int64))
    except (KeyError, TypeError):
        return reference.validate_rollout_batch(batch)


@mistake("validate_rollout_batch", "accepts a finished sequence without a stop reason")
def accepts_finished_rows_without_reason(batch):
    reasons = batch.get("stop_reason") if isinstance(batch, Mapping) else None
    if not isinstance(reasons, list):
        return reference.validate_rollout_batch(batch)
    return _batch(batch, stop_reason=[reason or "unknown" for reason in reasons])


@mistake("validate_rollout_batch", "asks an unfinished sequence for a stop reason")
def asks_unfinished_rows_for_a_reason(batch):
    summary = reference.validate_rollout_batch(batch)
    if not all(batch["stop_reason"]):
        raise ValueError("stop_reason is missing")
    return summary


@mistake(
    "validate_rollout_batch",
    "refuses a sequence with both flags",
    report="takuseno/d3rlpy#463",
)
def refuses_rows_with_both_flags(batch):
    summary = reference.validate_rollout_batch(batch)
    if ((_array(batch, "terminated") == 1) & (_array(batch, "truncated") == 1)).any():
        raise ValueError("both flags are set")
    return summary


@mistake("validate_rollout_batch", "refuses a batch without tokens")
def refuses_batches_without_tokens(batch):
    summary = reference.validate_rollout_batch(batch)
    if summary.active_tokens == 0:
        raise ValueError("nothing to train on")
    return summary


@mistake("validate_rollout_batch", "refuses keys that it does not know")
def refuses_further_keys(batch):
    summary = reference.validate_rollout_batch(batch)
    if len(batch) > 8:
        raise ValueError("unknown keys")
    return summary


@mistake("validate_rollout_batch", "names the first violation and stops")
def names_the_first_violation(batch):
    try:
        return reference.validate_rollout_batch(batch)
    except ValueError as refusal:
        raise ValueError(str(refusal).split("; ")[0]) from None


@mistake("validate_rollout_batch", "counts rows from 1 in what it reports")
def counts_rows_from_one(batch):
    try:
        return reference.validate_rollout_batch(batch)
    except ValueError as refusal:
        texts = str(refusal).split("row ")
        rows = [f"{int(t.split(':')[0]) + 1}:{t.partition(':')[2]}" for t in texts[1:]]
        raise ValueError("row ".join([texts[0], *rows])) from None


@mistake("validate_rollout_batch", "broadcasts fields of another shape")
def broadcasts_other_shapes(batch):
    try:
        shape = np.shape(batch["response_mask"])
        names = ("old_logprobs", "ref_logprobs")
        wide = {name: np.broadcast_to(_array(batch, name), shape) for name in names}
    except (KeyError, TypeError, ValueError):
        return reference.validate_rollout_batch(batch)
    return _batch(batch, **wide)


@mistake("validate_rollout_batch", "clears the padding in the arrays that it was given")
def clears_padding_in_place(batch):
    summary = reference.validate_rollout_batch(batch)
    if isinstance(old := batch["old_logprobs"], np.ndarray):
        old[~(np.asarray(batch["response_mask"]) == 1)] = math.pi
    return summary
