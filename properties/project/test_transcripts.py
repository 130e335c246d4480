"""Dumps of TRL and verl become rollout records, and what is wrong with a dump is said."""

import copy
import doctest
import inspect
import json
import re
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcheck import transcripts, validate_rollout_record
from rlcheck.transcripts import (
    audit_rollouts,
    record_from_trl,
    record_from_verl,
    records_from_trl,
    records_from_trl_completions,
    records_from_verl,
    records_from_verl_dump,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "transcripts.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)

EOS, PAD, STOP, CALL = 2, 0, 7, {"type": "function", "function": {"name": "f", "arguments": {}}}
NAMES: dict[str, Any] = {"task_id": "sum", "environment_version": "1.0"}
ENDS: dict[str, Any] = {**NAMES, "eos_token_ids": [EOS, STOP]}
TOLD: dict[str, Any] = {**ENDS, "policy_version": 3}

# Two turns with a tool's answer between them.
IDS = [5, 6, 2, 9, 9, 8, 2]
MASK = [1, 1, 1, 0, 0, 1, 1]
LOGPROBS = [-1.0, -2.0, -0.5, 0.0, 0.0, -0.25, -0.5]
TRL = {
    "prompt_ids": [4, 4],
    "completion_ids": IDS,
    "logprobs": LOGPROBS,
    "env_mask": MASK,
    "reward": 1.0,
}
VERL = {
    "prompt_ids": [4, 4],
    "response_ids": IDS,
    "response_mask": MASK,
    "response_logprobs": LOGPROBS,
    "reward_score": 1.0,
    "num_turns": 4,
    "extra_fields": {"min_global_steps": 3, "max_global_steps": 3},
}
RECORD = {
    "task_id": "sum",
    "environment_version": "1.0",
    "policy_versions": {0: 3, 1: 3},
    "turns": [
        {
            "turn": 0,
            "observation": [4, 4],
            "action": [5, 6, 2],
            "token_ids": [5, 6, 2],
            "token_logprobs": [-1.0, -2.0, -0.5],
            "behavior_logprob": -3.5,
            "reward": 0.0,
            "terminated": False,
            "truncated": False,
        },
        {
            "turn": 1,
            "observation": [9, 9],
            "action": [8, 2],
            "token_ids": [8, 2],
            "token_logprobs": [-0.25, -0.5],
            "behavior_logprob": -0.75,
            "reward": 1.0,
            "terminated": True,
            "truncated": False,
        },
    ],
    "stop_reason": "eos",
    "dump_violations": [],
}


def said(record: Any) -> list[str]:
    """All that is wrong with one record."""
    return audit_rollouts([record]).get(0, [])


def of_trl(**changes: Any) -> list[str]:
    return said(record_from_trl({**TRL, **changes}, **TOLD))


def of_verl(**changes: Any) -> list[str]:
    return said(record_from_verl({**VERL, **changes}, **ENDS))


def test_a_sound_rollout_is_a_sound_record() -> None:
    assert record_from_trl(TRL, **TOLD) == RECORD
    assert record_from_verl(VERL, **ENDS) == RECORD
    assert validate_rollout_record(RECORD) == []
    assert audit_rollouts([RECORD]) == {}


words = st.lists(st.integers(10, 99), max_size=4)


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """A sound record of turns of tokens, whose last turn may be cut off."""
    ended = draw(st.booleans())
    turns: list[dict[str, Any]] = []
    count = draw(st.integers(1, 4))
    for index in range(count):
        last = index == count - 1
        ids = [*draw(words), draw(st.sampled_from([EOS, STOP])) if ended or not last else 11]
        logprobs = draw(st.lists(st.floats(-20, 0, width=32), min_size=len(ids), max_size=len(ids)))
        turns.append(
            {
                "turn": index,
                "observation": [*draw(words), 12],
                "action": ids,
                "token_ids": ids,
                "token_logprobs": logprobs,
                "behavior_logprob": float(np.sum(logprobs)),
                "reward": draw(st.floats(-9, 9)) if last else 0.0,
                "terminated": last and ended,
                "truncated": last and not ended,
            }
        )
    reason = {EOS: "eos", STOP: "eos", 11: "length"}[turns[-1]["action"][-1]]
    version = draw(st.integers(0, 9))
    return {
        **NAMES,
        "policy_versions": dict.fromkeys(range(count), version),
        "turns": turns,
        "stop_reason": reason,
        "learner_version": version + draw(st.integers(0, 2)),
        "max_staleness": 2,
        "dump_violations": [],
    }


def flat(record: dict[str, Any]) -> tuple[list[int], list[int], list[int], list[float]]:
    """(prompt, ids, mask, logprobs) as a trainer lays a rollout out."""
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for turn in record["turns"]:
        between = turn["observation"] if turn["turn"] else []
        ids += [*between, *turn["action"]]
        mask += [0] * len(between) + [1] * len(turn["action"])
        logprobs += [0.0] * len(between) + turn["token_logprobs"]
    return record["turns"][0]["observation"], ids, mask, logprobs


def told(record: dict[str, Any]) -> dict[str, Any]:
    return {**ENDS, "learner_version": record["learner_version"], "max_staleness": 2}


FORMS = [list, np.array, torch.tensor, pd.Series]
forms = st.sampled_from(FORMS)


@given(records(), forms)
def test_a_record_survives_a_trl_rollout(record: dict[str, Any], form: Any) -> None:
    prompt, ids, mask, logprobs = flat(record)
    sample = {
        "prompt_ids": form(prompt),
        "completion_ids": form(ids),
        "env_mask": form(mask),
        "logprobs": form(logprobs),
        "reward": record["turns"][-1]["reward"],
    }
    version = record["policy_versions"][0]
    got = record_from_trl(sample, policy_version=version, **told(record))
    assert same(got, record)
    assert said(got) == []


@given(records(), st.integers(0, 3), st.sampled_from([PAD, EOS]))
def test_a_record_survives_the_padded_batch_of_trl(
    record: dict[str, Any], tail: int, pad: int
) -> None:
    prompt, ids, mask, logprobs = flat(record)
    batch = {
        "prompt_ids": torch.tensor([prompt]),
        "completion_ids": torch.tensor([ids + [pad] * tail]),
        "completion_mask": torch.tensor([[1] * len(ids) + [0] * tail]),
        "tool_mask": torch.tensor([mask + [1] * tail]),
        "sampling_per_token_logps": torch.tensor([logprobs + [0.0] * tail], dtype=torch.float64),
        "num_items_in_batch": torch.tensor(9),
        "reward": [record["turns"][-1]["reward"]],
    }
    version = record["policy_versions"][0]
    got = records_from_trl(batch, policy_version=version, **told(record))
    assert same(got[0], record)
    assert audit_rollouts(got) == {}


@given(records())
def test_a_record_survives_an_asynchronous_sample_of_trl(record: dict[str, Any]) -> None:
    prompt, ids, mask, logprobs = flat(record)
    sample = {
        "input_ids": np.array(prompt + ids),
        "completion_mask": np.array([0] * len(prompt) + mask),
        "old_log_probs": np.array([0.0] * len(prompt) + logprobs, np.float32),
        "model_version": record["policy_versions"][0],
        "metrics": {"reward": record["turns"][-1]["reward"]},
    }
    kind = make_dataclass("RolloutSample", list(sample))
    assert same(record_from_trl(kind(**sample), **told(record)), record)


@given(records(), forms)
def test_a_record_survives_an_agent_loop_of_verl(record: dict[str, Any], form: Any) -> None:
    prompt, ids, mask, logprobs = flat(record)
    version = record["policy_versions"][0]
    sample = {
        "prompt_ids": form(prompt),
        "response_ids": form(ids),
        "response_mask": form(mask),
        "response_logprobs": form(logprobs),
        "reward_score": record["turns"][-1]["reward"],
        "extra_fields": {"min_global_steps": version, "max_global_steps": version},
    }
    got = record_from_verl(sample, **told(record))
    assert same(got, record)
    assert said(got) == []


@given(records(), st.integers(0, 3))
def test_a_record_survives_a_padded_batch_of_verl(record: dict[str, Any], tail: int) -> None:
    prompt, ids, mask, logprobs = flat(record)
    version = np.array([record["policy_versions"][0]], object)
    batch = {
        "prompts": torch.tensor([prompt]),
        "responses": torch.tensor([ids + [EOS] * tail]),
        "response_mask": torch.tensor([mask + [0] * tail]),
        "rollout_log_probs": torch.tensor([logprobs + [0.0] * tail], dtype=torch.float64),
        "attention_mask": torch.tensor([[1] * len(prompt + ids) + [0] * tail]),
        "rm_scores": np.array([[0.0] * (len(ids) - 1) + [record["turns"][-1]["reward"]]]),
        "min_global_steps": version,
        "max_global_steps": version,
    }
    assert same(records_from_verl(batch, **told(record))[0], record)


def same(got: dict[str, Any], record: dict[str, Any]) -> bool:
    """Equal up to the single precision that a tensor may have brought."""
    for one, other in zip(got["turns"], record["turns"], strict=True):
        for name in ("token_logprobs", "behavior_logprob", "reward"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-6)
        assert {**one, **other} == other
        assert one.keys() == other.keys()
    return {**got, "turns": 0} == {**record, "turns": 0}


def test_inputs_stay_as_they_are() -> None:
    for convert, sample in ((record_from_trl, TRL), (record_from_verl, VERL)):
        before = copy.deepcopy(sample)
        convert(sample, **ENDS)["turns"][0]["token_ids"].append(1)
        assert sample == before


def test_missing_versions_are_reported() -> None:
    assert said(record_from_trl(TRL, **ENDS)) == [
        "missing policy versions: policy_versions must map each turn to its version"
    ]
    assert said(record_from_trl(TRL, policy_version={0: 3}, **ENDS)) == [
        "missing policy versions for turns 1"
    ]
    assert of_verl(extra_fields={}) == [
        "missing policy versions: policy_versions must map each turn to its version"
    ]
    # The step that drew the prompt, in a row of a batch, is no version.
    assert of_verl(extra_fields=None, global_steps=3)[0].startswith("missing policy versions")


def test_stale_versions_are_reported() -> None:
    stale = {**TOLD, "learner_version": 6, "max_staleness": 2}
    text = "is stale: version 3 of learner version 6, with max_staleness 2"
    assert said(record_from_trl(TRL, **stale)) == [f"turns[0] {text}", f"turns[1] {text}"]
    assert said(record_from_trl(TRL, **{**stale, "max_staleness": 3})) == []
    # ViperEkura/AstrAI#59: the lag counts when the rollout is consumed.
    consumed = {**TOLD, "policy_version": 0, "learner_version": 1, "max_staleness": 0}
    assert "turns[0] is stale: version 0" in said(record_from_trl(TRL, **consumed))[0]


def test_versions_of_a_span_are_not_guessed() -> None:
    spans = {"min_global_steps": 3, "max_global_steps": 4}
    assert of_verl(extra_fields=spans) == ["missing policy versions for turns 1"]
    assert of_verl(extra_fields={"min_global_steps": 4, "max_global_steps": 3}) == [
        "min_global_steps is 4, above max_global_steps 3",
        "missing policy versions: policy_versions must map each turn to its version",
    ]


def test_a_turn_that_spans_versions_has_the_oldest() -> None:
    # NVIDIA-NeMo/labs-molt#124, verl-project/verl#7569: token versions [3, 3, 4], trainer 5.
    sample = {
        **VERL,
        "response_ids": [5, 6, 2],
        "response_mask": [1, 1, 1],
        "response_logprobs": [-1.0, -1.0, -1.0],
        "extra_fields": {"min_global_steps": 3, "max_global_steps": 4},
    }
    record = record_from_verl(sample, learner_version=5, max_staleness=1, **ENDS)
    assert said(record) == [
        "turns[0] is stale: version 3 of learner version 5, with max_staleness 1"
    ]


def test_log_probabilities_that_do_not_fit_the_ids_are_reported() -> None:
    # rllm-org/rllm#816, fw-ai/cookbook#483: 3 ids, 2 log-probabilities.
    assert of_trl(completion_ids=[5, 6, 2], env_mask=None, logprobs=[-1.0, -2.0]) == [
        "logprobs has 2 entries for 3 completion_ids",
        "turns[0].behavior_logprob is missing",
        "turns[0].token_logprobs is None; numbers are due",
    ]
    assert of_trl(logprobs=[*LOGPROBS, -1.0])[0] == "logprobs has 8 entries for 7 completion_ids"
    assert of_verl(response_logprobs=LOGPROBS[:-1])[0] == (
        "response_logprobs has 6 entries for 7 response_ids"
    )


def test_missing_log_probabilities_stay_missing() -> None:
    texts = of_trl(logprobs=None)
    assert "turns[0].behavior_logprob is missing" in texts
    assert "turns[1].token_logprobs is None; numbers are due" in texts
    hole = [-1.0, None, *LOGPROBS[2:]]  # what vLLM could not score
    assert of_trl(logprobs=hole) == [
        "turns[0].behavior_logprob is missing",
        "turns[0].token_logprobs[1] is nan; it must be finite",
    ]
    assert of_trl(logprobs=[[p] for p in LOGPROBS])[0] == (
        "logprobs has shape (7, 1); it must be a vector"
    )
    assert of_trl(logprobs=[0.5, *LOGPROBS[1:]]) == [
        "turns[0].token_logprobs[0] is 0.5; it must be ≤ 0"
    ]


@pytest.mark.parametrize("filler", [0.0, None, float("nan"), -9.0])
def test_log_probabilities_of_tool_tokens_change_nothing(filler: Any) -> None:
    filled = [p if model else filler for p, model in zip(LOGPROBS, MASK, strict=True)]
    assert record_from_trl({**TRL, "logprobs": filled}, **TOLD) == RECORD


@pytest.mark.parametrize("mask", [MASK[:-1], [*MASK, 1]])
def test_a_mask_that_does_not_fit_the_ids_is_reported(mask: list[int]) -> None:
    assert of_trl(env_mask=mask) == [
        f"env_mask has {len(mask)} entries for 7 completion_ids",
        "turns is []; it must be a list of at least one turn",
    ]
    assert of_verl(response_mask=mask)[0] == (
        f"response_mask has {len(mask)} entries for 7 response_ids"
    )


def test_a_mask_that_is_none_is_reported() -> None:
    assert of_verl(response_mask=None)[0] == "response_mask is missing"
    assert of_trl(env_mask=[1, 1, 2, 0, 0, 1, 1])[0] == "env_mask[2] is 2; it must be 0 or 1"
    assert of_trl(env_mask=[1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]) == []
    assert (
        of_trl(env_mask=[1, float("nan"), 1, 0, 0, 1, 1])[0]
        == "env_mask[1] is nan; it must be 0 or 1"
    )
    for name in ("env_mask", "completion_mask"):
        assert of_trl(**{name: [0] * 7})[0] == "no token of completion_ids is the model's"
    assert of_trl(completion_mask=[1, 0, 1, 1, 1, 1, 1])[0] == (
        "completion_mask has a 0 before a 1, but padding ends completion_ids"
    )
    assert (
        of_trl(completion_mask=[1] * 8)[0] == "completion_mask has 8 entries for 7 completion_ids"
    )


def test_masks_that_contradict_each_other_are_reported() -> None:
    assert of_trl(tool_mask=MASK) == []
    assert of_trl(tool_mask=torch.tensor(MASK)) == []
    assert of_trl(tool_mask=[1, 1, 1, 1, 0, 1, 1]) == ["env_mask[3] is 0, but tool_mask[3] is 1"]
    assert of_trl(tool_mask=MASK[1:]) == ["tool_mask has 6 entries for 7 completion_ids"]
    assert of_trl(tool_mask=[2] * 7) == ["tool_mask[0] is 2; it must be 0 or 1"]
    padded = {
        "completion_ids": [*IDS, PAD],
        "logprobs": [*LOGPROBS, 0.0],
        "env_mask": [*MASK, 0],
        "tool_mask": [*MASK, 1],
    }
    assert of_trl(**padded, completion_mask=[1] * 7 + [0]) == []


def test_extra_fields_replace_no_other() -> None:
    extra: Any = VERL["extra_fields"]
    for name, value in (("response_ids", [5]), ("reward_score", 9.0), ("prompt_ids", [5])):
        record = record_from_verl({**VERL, "extra_fields": {**extra, name: value}}, **ENDS)
        assert record["turns"] == RECORD["turns"]
        (violation,) = said(record)
        assert violation.startswith(f"extra_fields[{name!r}] is {value}, but {name} is ")
    assert of_verl(extra_fields={**extra, "responses": [5]})[0].startswith(
        "extra_fields['responses'] is [5], but response_ids is "
    )
    equals = {"response_ids": np.array(IDS), "reward_score": np.float32(1), "num_turns": 9}
    assert of_verl(extra_fields={**extra, **equals, "rm_scores": [0.0, 0.5, 0.5]}) == []
    assert of_verl(extra_fields={**extra, "rm_scores": [0.0, 0.5]}) == [
        "extra_fields['rm_scores'] is [0.0, 0.5], but reward_score is 1.0"
    ]
    assert of_verl(reward_score=None, extra_fields={**extra, "reward_score": 1.0}) == []
    assert of_verl(terminated=False, truncated=True, extra_fields={**extra, "truncated": False})[
        0
    ] == ("extra_fields['truncated'] is False, but truncated is True")


class Tensors:
    """As a TensorDict: iteration is over its rows, and its names are its keys."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.items, self.keys, self.take = held.items, held.keys, held.__getitem__

    def __getitem__(self, name: str) -> Any:
        return self.take(name)


@pytest.mark.parametrize("holder", [dict, Tensors])
def test_a_batch_of_verl_keeps_its_tensors_apart(holder: Any) -> None:
    kind = make_dataclass("DataProto", ["batch", "non_tensor_batch", "meta_info"])
    tensors = {
        "prompts": torch.tensor([[4, 4]] * 2),
        "responses": torch.tensor([[*IDS, PAD]] * 2),
        "response_mask": torch.tensor([[*MASK, 0]] * 2),
        "rollout_log_probs": torch.tensor([[*LOGPROBS, 0.0]] * 2),
        "attention_mask": torch.tensor([[1] * 9 + [0]] * 2),
        "rm_scores": torch.tensor([[0.0] * 6 + [1.0, 0.0]] * 2),
    }
    others = {
        "min_global_steps": np.array([3, 3], object),
        "max_global_steps": np.array([3, 3], object),
        "raw_prompt": np.array(["a", "b"], object),
    }
    assert records_from_verl(kind(holder(tensors), others, {}), **ENDS) == [RECORD, RECORD]
    rows = [
        kind(
            holder({name: column[index] for name, column in tensors.items()}),
            {name: column[index] for name, column in others.items()},
            {},
        )
        for index in range(2)
    ]
    assert record_from_verl(rows[0], **ENDS) == RECORD
    assert records_from_verl(rows, **ENDS) == [RECORD, RECORD]
    with pytest.raises(ValueError, match="outputs has none of the columns"):
        records_from_verl(kind(None, others["raw_prompt"], {}), **ENDS)


def test_ids_that_are_none_are_reported() -> None:
    assert of_trl(completion_ids=None)[0] == "completion_ids is missing"
    assert of_trl(completion_ids=[], env_mask=[], logprobs=[])[0] == (
        "no token of completion_ids is the model's"
    )
    assert of_trl(completion_ids=[5, 6, -100, 9, 9, 8, 2])[0] == (
        "completion_ids[2] is -100; it must be ≥ 0"
    )
    assert of_trl(completion_ids=[1.0] * 7)[0] == (
        "completion_ids[0] is 1.0; it must be an integer, not a float"
    )


def test_a_missing_reward_is_reported() -> None:
    sample = {name: value for name, value in TRL.items() if name != "reward"}
    assert said(record_from_trl(sample, **TOLD)) == ["turns[1].reward is missing"]
    assert of_trl(reward=None) == ["turns[1].reward is nan; it must be finite"]
    assert of_verl(reward_score=None) == ["turns[1].reward is missing"]


def test_rewards_are_summed_over_the_functions_that_scored() -> None:
    sample = {**TRL, "accuracy": 1.0, "format": 0.5, "unit_tests": None, "style": float("nan")}
    columns = ["accuracy", "format", "unit_tests", "style"]
    record = record_from_trl(sample, reward_columns=columns, **TOLD)
    assert record["turns"][-1]["reward"] == 1.5
    assert said(record_from_trl(sample, reward_columns=["lost"], **TOLD)) == [
        "turns[1].reward is missing"
    ]


CUT = [*IDS[:-1], 11]
UNKNOWN_END = ["turns[1].terminated is missing", "turns[1].truncated is missing"]


def ending(sample: dict[str, Any], **options: Any) -> tuple[Any, Any, Any]:
    record = record_from_trl(sample, **{**TOLD, **options})
    last = record["turns"][-1]
    return last.get("terminated"), last.get("truncated"), record["stop_reason"]


def test_no_eos_at_the_end_is_a_truncation() -> None:
    # OpenRLHF/OpenRLHF#1327, huggingface/trl#5318: the sample that length stopped is marked.
    assert ending({**TRL, "completion_ids": CUT}) == (False, True, "length")
    assert of_trl(completion_ids=CUT) == []
    assert ending({**TRL, "finish_reason": "length"}) == (False, True, "length")


def test_a_stop_token_ends_the_rollout() -> None:
    # huggingface/trl#5338: stop id 7, response [5, 7]; it ended, though not by the EOS.
    sample = {**TRL, "completion_ids": [5, STOP], "env_mask": None, "logprobs": [-1.0, -1.0]}
    assert ending(sample) == (True, False, "eos")
    assert ending(sample, eos_token_ids=[EOS]) == (False, True, "length")


def test_the_last_token_before_the_padding_decides() -> None:
    # CarperAI/trlx#420: [5, EOS, PAD] ended.
    sample = {**TRL, "completion_ids": [5, EOS, PAD], "env_mask": None, "logprobs": [-1, -1, 0]}
    assert ending(sample, pad_token_id=PAD) == (True, False, "eos")
    assert ending({**sample, "completion_mask": [1, 1, 0]}) == (True, False, "eos")
    sample["completion_ids"] = [5, EOS, EOS]  # a pad that is the EOS
    assert ending(sample, pad_token_id=EOS) == (True, False, "eos")
    assert ending({**sample, "completion_mask": [1, 0, 0]}) == (False, True, "length")


def test_a_mask_that_goes_on_after_the_eos_is_reported() -> None:
    # bingreeky/MemGen#33: ids [5, 2, 2, 2], EOS 2, pad 0, mask [1, 1, 1, 1].
    texts = of_trl(completion_ids=[5, 2, 2, 2], env_mask=[1] * 4, logprobs=[-1.0] * 4)
    assert texts == [
        "completion_ids[1] is the EOS 2, but the mask counts 2 tokens after it as the model's"
    ]


def test_a_mask_without_the_eos_is_reported() -> None:
    # huggingface/trl#6357, meta-pytorch/torchtune#2967: ids [5, 6, 2, 2, 2], mask [1, 1, 0, 0, 0].
    sample = {
        **TRL,
        "completion_ids": [5, 6, 2, 2, 2],
        "env_mask": [1, 1, 0, 0, 0],
        "logprobs": [-1.0, -1.0, 0, 0, 0],
    }
    for options in ({}, {"pad_token_id": EOS}):
        text = said(record_from_trl(sample, **TOLD, **options))[0]
        assert text.startswith("completion_ids[2] is the EOS 2, but the mask leaves it out")


@pytest.mark.parametrize("reason", ["length", "max_turns"])
def test_a_truncated_sample_that_is_marked_as_ended_is_reported(reason: str) -> None:
    expected = f"stop_reason is '{reason}', a truncation, but the last turn is terminated"
    flagged = {"finish_reason": reason, "terminated": True}
    assert of_trl(**flagged) == [expected]
    extra = {**VERL["extra_fields"], **flagged}  # type: ignore[dict-item]
    assert of_verl(extra_fields=extra) == [expected]


def test_an_ending_that_the_ids_deny_is_reported() -> None:
    ids = "but completion_ids[6] is 11, none of eos_token_ids: it was cut off by length"
    assert of_trl(completion_ids=CUT, terminated=True) == [
        f"terminated is True, {ids}",
        "stop_reason is 'length', a truncation, but the last turn is terminated",
    ]
    # vllm-project/vllm#58228: tool_calls replaces length.
    for reason in ("stop", "tool_calls"):
        sample = {**TRL, "completion_ids": CUT, "finish_reason": reason}
        assert ending(sample) == (False, True, "length")
        assert said(record_from_trl(sample, **TOLD)) == [f"finish_reason is {reason!r}, {ids}"]
    # agentscope-ai/Trinity-RFT#608: the length stop got lost on the way.
    assert of_trl(completion_ids=CUT, terminated=False, truncated=False) == [
        "stop_reason is 'length'; it must be None, for neither flag is set"
    ]


@pytest.mark.parametrize("reason", ["tool_calls", "function_call"])
def test_a_stop_for_a_tool_that_nobody_answers_is_a_truncation(reason: str) -> None:
    sample = {**TRL, "finish_reason": reason}
    assert ending(sample) == (False, True, "unanswered_tool_call")
    assert ending(sample, eos_token_ids=[]) == (False, True, "unanswered_tool_call")
    assert said(record_from_trl(sample, **TOLD)) == []
    expected = ["terminated is True, but the rollout was cut off: unanswered_tool_call"]
    assert of_trl(finish_reason=reason, terminated=True) == expected
    extra = {**VERL["extra_fields"], "finish_reason": reason}  # type: ignore[dict-item]
    assert of_verl(extra_fields={**extra, "terminated": True}) == expected
    # Where the answer follows, the rollout ended otherwise.
    answer = {"completion_ids": [*IDS, 9], "env_mask": [*MASK, 0], "logprobs": [*LOGPROBS, 0]}
    assert of_trl(**answer, finish_reason=reason) == UNKNOWN_END
    assert of_trl(completion=[CHAT[0], CHAT[2], CHAT[1]], finish_reason=reason) == UNKNOWN_END


@pytest.mark.parametrize("reason", ["error", "content_filter", "pause"])
def test_an_eos_does_not_outweigh_another_reason(reason: str) -> None:
    sample = {**TRL, "finish_reason": reason}
    assert ending(sample) == (None, None, reason)
    assert said(record_from_trl(sample, **TOLD)) == UNKNOWN_END
    extra = {**VERL["extra_fields"], "finish_reason": reason}  # type: ignore[dict-item]
    assert of_verl(extra_fields=extra) == UNKNOWN_END
    assert of_trl(finish_reason=reason, completion=[CHAT[0], *CHAT[1:2], CHAT[0]]) == UNKNOWN_END
    assert ending({**sample, "truncated": True}) == (False, True, reason)
    assert ending({**sample, "terminated": False}) == (False, None, reason)


def test_flags_of_the_dump_stand() -> None:
    assert ending({**TRL, "terminated": False, "truncated": False}) == (False, False, None)
    assert ending({**TRL, "truncated": np.bool_(True)}) == (False, True, None)
    assert of_trl(truncated=True) == ["stop_reason is None; a finished rollout needs one"]
    assert of_trl(truncated=True, finish_reason="max_turns") == []
    assert of_trl(terminated=1)[0] == "terminated is 1; it must be True or False"
    assert of_trl(terminated=True, truncated=False, finish_reason="aborted") == [
        "terminated is True, but the rollout was cut off: aborted"
    ]


def test_a_tool_call_that_nobody_answers_is_a_truncation() -> None:
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "name": "f", "content": "3"},
        {"role": "assistant", "content": "", "tool_calls": np.array([CALL])},
    ]
    sample = {**TRL, "prompt": "2 + 1?", "completion": messages}
    assert ending(sample) == (False, True, "unanswered_tool_call")
    assert said(record_from_trl(sample, **TOLD)) == []
    sample["completion"] = [
        *messages[:2],
        {"role": "assistant", "content": "3", "tool_calls": None},
    ]
    assert ending(sample) == (True, False, "eos")


def test_an_ending_that_nothing_tells_is_missing() -> None:
    assert said(record_from_trl(TRL, **NAMES, policy_version=3)) == UNKNOWN_END
    speaks_last = {"completion_ids": [*IDS, 9], "env_mask": [*MASK, 0], "logprobs": [*LOGPROBS, 0]}
    assert of_trl(**speaks_last) == UNKNOWN_END
    assert of_trl(**speaks_last, finish_reason="goal") == []
    assert of_trl(finish_reason=7)[0] == "finish_reason is 7; a text is due"


CHAT = [
    {"role": "assistant", "content": "Let me add.", "tool_calls": [CALL]},
    {"role": "tool", "name": "f", "content": "3"},
    {"role": "assistant", "content": "3", "tool_calls": None},
]
LACKS = [
    "turns[0].behavior_logprob is missing",
    "turns[1].behavior_logprob is missing",
    "turns[1].terminated is missing",
    "turns[1].truncated is missing",
    "missing policy versions: policy_versions must map each turn to its version",
]


def test_messages_are_the_observations_and_actions() -> None:
    prompt = [{"role": "user", "content": "2 + 1?"}]
    record = record_from_trl({**TRL, "prompt": prompt, "completion": CHAT}, **TOLD)
    assert [turn["observation"] for turn in record["turns"]] == [prompt, CHAT[1:2]]
    assert [turn["action"] for turn in record["turns"]] == [CHAT[0], CHAT[2]]
    assert said(record) == []
    three = [*CHAT, CHAT[2]]
    assert of_trl(prompt=prompt, completion=three) == [
        "completion has 3 assistant messages for 2 runs of ids"
    ]


TABLE = {
    "step": [5, 5],
    "prompt": [[{"role": "user", "content": "2 + 1?"}], "2 + 1?"],
    "completion": [CHAT, "3"],
    "exact": [1.0, 0.5],
    "advantage": [0.5, -0.5],
}


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        pd.DataFrame(TABLE),
        [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)],
    ],
    ids=["columns", "frame", "rows"],
)
def test_a_table_of_completions_says_what_it_lacks(table: Any) -> None:
    got = records_from_trl_completions(table, reward_columns=["exact"], **NAMES)
    assert [record["turns"][-1]["reward"] for record in got] == [1.0, 0.5]
    audit = audit_rollouts(got)
    assert audit[0] == LACKS
    assert "turns[0].behavior_logprob is missing" in audit[1]


def test_a_table_gives_an_unanswered_call_its_end() -> None:
    table = {"prompt": ["2 + 1?"], "completion": [CHAT[:1]], "reward": [0.0]}
    (record,) = records_from_trl_completions(table, policy_version=3, **NAMES)
    assert record["stop_reason"] == "unanswered_tool_call"
    assert said(record) == ["turns[0].behavior_logprob is missing"]


def test_a_malformed_row_loses_no_other() -> None:
    rows = [TABLE, None, {"prompt": "a", "completion": [3]}, {"prompt": "a", "completion": "b"}]
    got = records_from_trl_completions(rows[1:], **NAMES)
    assert got[0]["dump_violations"] == ["sample is None; a mapping is due"]
    assert got[1]["dump_violations"] == ["completion[0] is 3; a message with a role is due"]
    assert [turn["action"] for turn in got[2]["turns"]] == ["b"]
    trl = records_from_trl([TRL, 3, {}], task_id=["a", "b", "c"], environment_version="1")
    assert [record["task_id"] for record in trl] == ["a", "b", "c"]
    assert trl[1]["dump_violations"] == ["sample is 3; a mapping is due"]
    assert trl[2]["dump_violations"] == ["completion_ids is missing"]
    verl = records_from_verl([VERL, "x"], **ENDS)
    assert verl[0] == RECORD
    assert verl[1]["dump_violations"] == ["sample is 'x'; a mapping is due"]


LINES = [
    json.dumps({"input": "2 + 1?", "output": "3", "gts": "3", "score": 1.0, "step": 3}),
    '{"input": "2 + 1?", "outp',
    "",
    "[1]",
    json.dumps({"input": "2 + 2?", "score": 0.0, "step": 3}),
]


def test_a_dump_of_lines_says_what_it_lacks() -> None:
    got = records_from_verl_dump(LINES, **NAMES)
    assert got[0]["policy_versions"] == {0: 3}
    assert [turn["reward"] for turn in got[0]["turns"]] == [1.0]
    audit = audit_rollouts(got)
    assert audit[0] == [
        "turns[0].behavior_logprob is missing",
        "turns[0].terminated is missing",
        "turns[0].truncated is missing",
    ]
    assert audit[1][0].startswith("line 2 is no JSON: ")
    assert audit[2][0] == "line 4 is [1]; a JSON object is due"
    assert audit[3][0] == "output is missing"


def test_the_step_of_an_asynchronous_dump_is_no_version() -> None:
    got = records_from_verl_dump(LINES[:1], step_is_version=False, **NAMES)
    assert said(got[0])[-1].startswith("missing policy versions")
    stale = records_from_verl_dump(LINES[:1], learner_version=5, max_staleness=1, **NAMES)
    assert said(stale[0])[-1].startswith("turns[0] is stale: version 3")


def test_a_folder_is_read_by_step(tmp_path: Path) -> None:
    for step in (10, 9):
        line = json.dumps({"input": "a\u2028b", "output": "c", "score": 0.0, "step": step})
        spoilt = b"\xff\n" if step == 9 else b""
        (tmp_path / f"{step}.jsonl").write_bytes(line.encode() + b"\n" + spoilt)
    got = records_from_verl_dump(tmp_path, **NAMES)
    assert [record.get("policy_versions") for record in got] == [{0: 9}, None, {0: 10}]
    assert got[1]["dump_violations"][0].startswith("9.jsonl line 2 is no JSON: ")
    assert len(records_from_verl_dump(str(tmp_path / "10.jsonl"), **NAMES)) == 1


def test_marks_ends_of_line_and_empty_files_are_no_violations(tmp_path: Path) -> None:
    line = "\ufeff" + LINES[0] + "\r\n\r\n"
    sound = records_from_verl_dump(LINES[:1], **NAMES)
    assert records_from_verl_dump([line, "\ufeff\n"], **NAMES) == sound
    (tmp_path / "1.jsonl").write_bytes(line.encode())
    assert records_from_verl_dump(tmp_path / "1.jsonl", **NAMES) == sound
    (tmp_path / "1.jsonl").write_bytes(b"")
    assert records_from_verl_dump(tmp_path, **NAMES) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"task_id": ""}, "task_id is ''"),
        ({"environment_version": None}, "environment_version is None"),
        ({"eos_token_ids": -2}, "eos_token_ids is -2"),
        ({"eos_token_ids": 2.5}, "eos_token_ids is 2.5"),
        ({"eos_token_ids": True}, "eos_token_ids is True"),
        ({"eos_token_ids": [2, -1]}, "eos_token_ids[1] is -1"),
        ({"eos_token_ids": ["</s>"]}, "eos_token_ids[0] is '</s>'"),
        ({"stop_token_ids": [7]}, "stop_token_ids"),
        ({"pad_token_id": -1}, "pad_token_id is -1"),
        ({"policy_version": ""}, "policy_version is ''"),
        ({"policy_version": float("nan")}, "policy_version is nan"),
        ({"learner_version": "6"}, "learner_version is '6'"),
        ({"max_staleness": float("inf")}, "max_staleness is inf"),
    ],
)
def test_a_bad_argument_is_refused(changes: dict[str, Any], text: str) -> None:
    for convert, sample in ((record_from_trl, TRL), (record_from_verl, VERL)):
        with pytest.raises((TypeError, ValueError), match=re.escape(text)):
            convert(sample, **{**TOLD, **changes})
    for convert_all in (records_from_trl, records_from_verl):
        with pytest.raises((TypeError, ValueError), match=re.escape(text)):
            convert_all([], **{**TOLD, **changes})


def test_a_misspelt_option_is_refused_by_the_function_that_was_called() -> None:
    calls: list[tuple[Any, Any]] = [
        (record_from_trl, TRL),
        (records_from_trl, [TRL]),
        (records_from_trl_completions, TABLE),
        (record_from_verl, VERL),
        (records_from_verl, [VERL]),
        (records_from_verl_dump, LINES),
    ]
    for convert, dump in calls:
        text = f"{convert.__name__}() got an unexpected keyword argument 'eos_token_id'; its opt"
        with pytest.raises(TypeError, match=re.escape(text)):
            convert(dump, eos_token_id=2, **NAMES)
        if "verl" in convert.__name__:
            with pytest.raises(TypeError, match="unexpected keyword argument 'reward_columns'"):
                convert(dump, reward_columns=["reward"], **NAMES)


@pytest.mark.parametrize("eos", [EOS, np.int64(EOS), torch.tensor(EOS)])
def test_one_eos_needs_no_list(eos: Any) -> None:
    assert record_from_trl(TRL, **{**TOLD, "eos_token_ids": eos}) == RECORD
    none = {**TOLD, "eos_token_ids": None}
    assert record_from_trl(TRL, **none) == record_from_trl(TRL, **{**TOLD, "eos_token_ids": ()})


def test_a_bad_container_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="sample is None"):
        record_from_trl(None, **TOLD)
    with pytest.raises(TypeError, match=r"rows is 'a\.parquet'"):
        records_from_trl_completions("a.parquet", **NAMES)
    with pytest.raises(ValueError, match="rows has columns of different length: prompt 2, compl"):
        records_from_trl_completions({"prompt": ["a", "b"], "completion": ["c"]}, **NAMES)
    with pytest.raises(ValueError, match="outputs has none of the columns"):
        records_from_verl({"x": [1]}, **ENDS)
    with pytest.raises(ValueError, match="task_id has length 1; it must have length 2"):
        records_from_trl([TRL, TRL], **{**TOLD, "task_id": ["a"]})
    with pytest.raises(TypeError, match=re.escape("task_id[1] is None")):
        records_from_trl([TRL, TRL], **{**TOLD, "task_id": ["a", None]})
    with pytest.raises(TypeError, match=re.escape("reward_columns is 'reward'")):
        record_from_trl(TRL, reward_columns="reward", **TOLD)
    with pytest.raises(TypeError, match="path_or_lines is 3"):
        records_from_verl_dump(3, **NAMES)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="it has no file"):
        records_from_verl_dump(tmp_path, **NAMES)
    with pytest.raises(TypeError, match="step_is_version is 1"):
        records_from_verl_dump([], step_is_version=1, **NAMES)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a list of records is due"):
        audit_rollouts(RECORD)


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


@given(data=st.data())
def test_no_sample_breaks_a_conversion(data: st.DataObject) -> None:
    """Whatever stands in a field, there is a record, and the audit can read it."""
    for convert, sample in ((records_from_trl, TRL), (records_from_verl, VERL)):
        fields = {*sample, "prompt", "completion", "completion_mask", "attention_mask"}
        fields |= {"finish_reason", "terminated", "model_version", "min_global_steps", "rm_scores"}
        fields |= {"input_ids", "metrics", "extra_fields", "truncated"}
        spoilt = data.draw(st.dictionaries(st.sampled_from(sorted(fields)), junk, max_size=4))
        for given_fields in ({**sample, **spoilt}, spoilt):
            got = convert([given_fields], **ENDS, pad_token_id=PAD)
            assert set(audit_rollouts(got)) <= {0}


@given(st.lists(junk | st.text(max_size=9), max_size=4))
def test_no_line_breaks_a_conversion(lines: list[Any]) -> None:
    audit_rollouts(records_from_verl_dump(lines, **NAMES))
    audit_rollouts(records_from_trl_completions(lines, **NAMES))


ODD = [
    *(
        -1,
        10**30,
        1j,
        b"x",
        {1},
        range(3),
        object(),
        int,
        pd.NA,
        pd.NaT,
        [None],
        [1, [2]],
        [1j] * 7,
    ),
    *(np.array(3), np.zeros((1, 7)), np.array(["a"] * 7), np.datetime64("now"), [10**30] * 7),
    *(torch.zeros(7, device="meta"), torch.ones(7).to_sparse(), pd.Series(["a"] * 7)),
    *(pd.DataFrame({"a": [1]}), np.ma.array([1] * 7, mask=[1] * 7), [-1] * 7, [float("inf")] * 7),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_an_odd_value_loses_no_other_sample(odd: Any) -> None:
    for convert, sample in ((records_from_trl, TRL), (records_from_verl, VERL)):
        options = TOLD if sample is TRL else ENDS
        for name in [*sample, "finish_reason", "terminated", "completion", "prompt"]:
            audit = audit_rollouts(convert([sample, {**sample, name: odd}, odd, sample], **options))
            assert {2} <= set(audit) <= {1, 2}
    for name in ("input", "output", "score", "step"):
        line = {"input": "a", "output": "b", "score": 1.0, "step": 3, name: odd}
        assert len(records_from_verl_dump([line, LINES[0]], **NAMES)) == 2


def test_tensors_that_carry_gradients_are_read() -> None:
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    for form in (logprobs, list(logprobs), logprobs.bfloat16()):
        assert record_from_trl({**TRL, "logprobs": form}, **TOLD) == RECORD


@pytest.mark.parametrize("mask", [[1] * 100_000, [1, 0] * 5_000])
def test_a_long_completion_is_read_whole(mask: list[int]) -> None:
    sample = {"completion_ids": [5] * len(mask), "logprobs": [-0.5] * len(mask), "env_mask": mask}
    record = record_from_trl({**sample, "prompt_ids": [4], "reward": 1.0}, **TOLD)
    assert sum(len(turn["token_ids"]) for turn in record["turns"]) == sum(mask)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[0])
def test_an_example_prints_what_is_there(example: str) -> None:
    parsed = doctest.DocTestParser().get_doctest(example, {}, "transcripts", "transcripts.md", 0)
    assert parsed.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(parsed).failed == 0


@pytest.mark.parametrize("name", transcripts.__all__)
def test_a_converter_is_documented(name: str) -> None:
    function = getattr(transcripts, name)
    doc = inspect.getdoc(function) or ""
    for section in ("Args:", "Returns:", "Raises:", "Reference:"):
        assert section in doc, section
    for parameter in inspect.signature(function).parameters:
        assert parameter in doc, parameter
    assert f"`{name}`" in DOCUMENT.read_text(encoding="utf-8")
