"""TRL's GRPOTrainer trains on KeyDoorTools: rewards, masks, log-probabilities and records.

One group of rollouts speaks scripts token by token, another is sampled from a tiny model that has
learnt them. Both go through the real trainer.
"""

import copy
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from on_trl import MARKS, one_thread  # noqa: F401

from rlcheck.envs.keydoor_agent import ENVIRONMENT_VERSION, START
from rlcheck.envs.keydoor_tools import OVER, PROMPT, Call, KeyDoorTools, prompts

if TYPE_CHECKING:  # trl takes seconds to import, and a fast run collects this file too
    from trl_rollouts import Batch, RecordingTrainer

GUIDE = Path(__file__).parents[1] / "docs" / "trl.md"

pytestmark = MARKS


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> "RecordingTrainer":
    import trl_rollouts

    return trl_rollouts.train(
        tmp_path_factory.mktemp("scripted"), temperature=0.7, top_p=0.9, top_k=20, logging_steps=1
    )


@pytest.fixture(scope="module")
def sampled(
    scripted: "RecordingTrainer", tmp_path_factory: pytest.TempPathFactory
) -> "RecordingTrainer":
    """Random weights never call a tool, so the model first learns a few of the scripts."""
    import tiny_qwen
    import trl_rollouts

    examples = []
    for batch, names in zip(
        scripted.batches, (("success", "unknown color", "goes on"), ("wrong key",)), strict=True
    ):
        for name in names:
            prompt, ids, mask = batch.tokens(list(trl_rollouts.SCRIPTS).index(name))
            examples.append((prompt + ids, [0] * len(prompt) + mask))
    model = tiny_qwen.tiny_qwen(scripted.processing_class)
    assert tiny_qwen.imitate(model, examples, steps=120, rate=1e-2) < 0.2
    folder = tmp_path_factory.mktemp("sampled")
    return trl_rollouts.train(folder, scripts=None, model=model, learning_rate=1e-4)


@pytest.fixture(params=["scripted", "sampled"])
def trainer(request: pytest.FixtureRequest) -> "RecordingTrainer":
    return request.getfixturevalue(request.param)


def replayed(log: tuple[Call, ...], target: str) -> tuple[tuple[Call, ...], float]:
    """The log and reward of a new instance that is given the same calls."""
    tools = KeyDoorTools()
    tools.reset(target=target)
    for call in log:
        try:
            getattr(tools, call.tool)(**call.arguments)
        except ValueError:
            assert not call.valid
    return tools.log, tools.get_reward()


def leaks(batch: "Batch") -> list[int]:
    """The rows whose episode is not what a new instance would have played."""
    target = batch.rows[0]["target"]
    return [
        row
        for row, (log, reward) in enumerate(zip(batch.logs, batch.rewards, strict=True))
        if replayed(log, target) != (log, reward)
    ]


def test_the_scripts_earn_what_they_deserve(scripted: "RecordingTrainer") -> None:
    import trl_rollouts

    for batch, (target, rewards) in zip(
        scripted.batches, trl_rollouts.REWARDS.items(), strict=True
    ):
        assert {row["target"] for row in batch.rows} == {target}
        assert tuple(batch.rewards) == rewards
        logs = dict(zip(trl_rollouts.SCRIPTS, batch.logs, strict=True))
        assert logs["stall"][-1].stop_reason == "task_horizon"
        assert logs["call cut"][-1].stop_reason is None
        assert logs["answer dropped"][-1].stop_reason in ("success", "failure")
        assert logs["no tool"] == ()


def test_a_sampled_policy_meets_success_and_failure(sampled: "RecordingTrainer") -> None:
    rewards = {reward for batch in sampled.batches for reward in batch.rewards}
    assert rewards == {0.0, 1.0}


def test_pooled_instances_play_as_new_ones(trainer: "RecordingTrainer") -> None:
    first, second = trainer.batches
    assert first.environments == second.environments
    assert len(set(first.environments)) == 8
    assert leaks(first) == leaks(second) == []


def test_an_instance_that_forgets_to_clear_is_found_out(tmp_path: Path) -> None:
    import trl_rollouts

    class Leaky(KeyDoorTools):
        def reset(self, **columns: Any) -> str:
            return "\n\nYou are back." if self._log else super().reset(**columns)

    trainer = trl_rollouts.train(tmp_path, Leaky)
    assert trainer.reward_func_names == ["Leaky"]
    first, second = trainer.batches
    assert leaks(first) == []
    assert leaks(second) != []
    assert second.rewards[0] == 1.0  # a success of the step before


@pytest.mark.parametrize(
    ("factory", "best"),
    [
        (partial(KeyDoorTools, task_horizon=3), 0.0),
        (lambda: KeyDoorTools(reward_mode="potential", collector_limit=3), 0.75),
    ],
)
def test_a_factory_may_set_options(
    factory: Callable[[], KeyDoorTools], best: float, tmp_path: Path
) -> None:
    import trl_rollouts

    trainer = trl_rollouts.train(tmp_path, factory, num_iterations=1, max_steps=1)
    assert max(trainer.batches[0].rewards) == best
    assert trainer.reward_func_names == ["KeyDoorTools"]


def test_every_tool_message_stands_in_the_log(trainer: "RecordingTrainer") -> None:
    """What a call answered is what the environment saw; one answer may be dropped at the end."""
    for batch in trainer.batches:
        for log, messages in zip(batch.logs, batch.completions, strict=True):
            texts = [message["content"] for message in messages if message["role"] == "tool"]
            told = [text for text in texts if text != OVER and _reached(text)]
            for call, text in zip(log, told, strict=False):
                assert call.observation in text
            dropped = len(log) - len(told)
            assert dropped == 0 or (messages[-1].get("tool_calls") and dropped > 0)


def answers(batch: "Batch", script: str) -> list[str]:
    import trl_rollouts

    messages = batch.completions[list(trl_rollouts.SCRIPTS).index(script)]
    return [message["content"] for message in messages if message["role"] == "tool"]


def test_errors_and_the_end_are_told_to_the_model(scripted: "RecordingTrainer") -> None:
    for batch in scripted.batches:
        unknown = "color is 'green'; it must be one of red, blue. Nothing happens."
        assert answers(batch, "unknown color")[0] == str({"error": unknown})
        assert answers(batch, "no tool") == [str({"error": "Tool dance not found."})]
        assert answers(batch, "goes on")[-2:] == [OVER, OVER]
        assert answers(batch, "stall")[-2:] == ["Time is up.", OVER]


def _reached(answer: str) -> bool:
    """Whether a call came as far as the environment."""
    return "not found" not in answer and "argument" not in answer


def test_a_dropped_answer_passes_for_an_end_and_a_cut_turn_does_not(
    scripted: "RecordingTrainer", tmp_path: Path
) -> None:
    import trl_rollouts

    names = list(trl_rollouts.SCRIPTS)
    dropped, cut = names.index("answer dropped"), names.index("call cut")
    for batch in scripted.batches:
        assert batch.logs[dropped][-1].tool == "finish"  # it ran, and ended the episode
        assert batch.completions[dropped][-1]["tool_calls"][0]["function"]["name"] == "finish"
    ratios = [log["completions/clipped_ratio"] for log in scripted.state.log_history[:1]]
    assert ratios == [1 / 8]
    masking = trl_rollouts.train(
        tmp_path, mask_truncated_completions=True, num_iterations=1, max_steps=1
    ).batches[0]
    silent = [row for row in range(8) if not masking.mask[row].any()]
    assert silent == [cut]
    assert dropped not in silent


def test_calls_of_the_turn_that_reaches_the_cap_do_not_run(tmp_path: Path) -> None:
    import trl_rollouts

    batch = trl_rollouts.train(
        tmp_path, max_tool_calling_iterations=2, num_iterations=1, max_steps=1
    ).batches[0]
    assert [call.tool for call in batch.logs[0]] == ["inspect", "pickup"]
    assert batch.completions[0][-1]["tool_calls"][0]["function"]["name"] == "open_door"


def test_reset_gets_every_column_and_the_reward_is_asked_for_once(tmp_path: Path) -> None:
    import trl_rollouts

    made: list[KeyDoorTools] = []
    columns_seen: list[dict[str, Any]] = []
    asked: list[KeyDoorTools] = []

    class Watched(KeyDoorTools):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def reset(self, **columns: Any) -> str:
            columns_seen.append(columns)
            return super().reset(**columns)

        def get_reward(self) -> float:
            asked.append(self)
            return super().get_reward()

    trainer = trl_rollouts.train(tmp_path, Watched, num_iterations=1, max_steps=2)
    assert len(made) == 8
    assert [set(columns) for columns in columns_seen] == [{"prompt", "target", "seed"}] * 16
    assert asked == made * 2
    prompt = trainer.processing_class.decode(trainer.batches[0].tokens(0)[0])
    assert f"{PROMPT}\n\n{START}<|im_end|>" in prompt


def test_an_undocumented_tool_is_refused_at_the_first_step(tmp_path: Path) -> None:
    import trl_rollouts
    from transformers.utils.chat_template_utils import DocstringParsingException

    class Undocumented(KeyDoorTools):
        def wait(self) -> str:
            return "You wait."

    with pytest.raises(DocstringParsingException, match="wait"):
        trl_rollouts.train(tmp_path, Undocumented)


def test_the_loss_is_taken_on_the_models_tokens_alone(trainer: "RecordingTrainer") -> None:
    decode = trainer.processing_class.decode
    answer = re.compile(
        r"\n(<\|im_start\|>tool\n.*<\|im_end\|>\n)+<\|im_start\|>assistant\n", re.DOTALL
    )
    for batch in trainer.batches:
        for row in range(8):
            for own, ids in batch.runs(row):
                assert own == (answer.fullmatch(decode(ids)) is None)
        spoken = sum(len(ids) for row in range(8) for own, ids in batch.runs(row) if own)
        assert int(batch.tensors["num_items_in_batch"]) == spoken


def test_the_scripted_tokens_come_back_as_they_were(scripted: "RecordingTrainer") -> None:
    import trl_rollouts

    for batch in scripted.batches:
        for row, script in enumerate(trl_rollouts.SCRIPTS.values()):
            turns = [ids for own, ids in batch.runs(row) if own]
            for place, (ids, turn) in enumerate(zip(turns, script, strict=False)):
                if isinstance(turn, str):
                    text = turn if place else f"({row}) {turn}"
                    assert ids == scripted.encode(text + trl_rollouts.END)


def test_log_probabilities_are_those_of_teacher_forcing(trainer: "RecordingTrainer") -> None:
    """At the temperature that samples, for padded rows too; top_p and top_k count for nothing."""
    for batch in trainer.batches:
        off = (batch.tensors["old_per_token_logps"] - batch.logprobs).abs() * batch.mask
        assert float(off.max()) < 2e-5


def test_loss_and_gradient_are_the_references(trainer: "RecordingTrainer") -> None:
    """Group advantages, clipped ratios, mean over the model's tokens; tool tokens move nothing."""
    import trl_rollouts

    from rlcheck import group_advantages
    from rlcheck.torch import aggregate_token_losses, clipped_policy_terms, importance_ratios

    batch, model = trainer.batches[0], trainer.model
    advantages = group_advantages(batch.rewards, [0] * 8, scale="std", ddof=1, eps=1e-4)
    assert batch.tensors["advantages"].tolist() == pytest.approx(advantages.tolist(), abs=1e-5)

    model.train()
    given = trainer.compute_loss(model, batch.tensors)
    new = trl_rollouts.teacher_forced(model, batch.tensors, trainer.temperature)
    ratios = importance_ratios(new, batch.tensors["old_per_token_logps"], batch.mask)
    terms = clipped_policy_terms(
        ratios, batch.tensors["advantages"][:, None].expand_as(ratios).contiguous()
    )
    due = aggregate_token_losses(terms, batch.mask, "token-mean")
    assert given.item() == pytest.approx(due.item(), abs=1e-5)
    slopes = [_slopes(model, loss) for loss in (given, due)]
    for ours, theirs in zip(*slopes, strict=True):
        assert float((ours - theirs).abs().max()) < 1e-4 * (1 + float(theirs.abs().max()))


def _slopes(model: Any, loss: Any) -> list[Any]:
    model.zero_grad()
    loss.backward()
    return [weight.grad.clone() for weight in model.parameters()]


def sample(batch: "Batch", row: int) -> dict[str, Any]:
    """One rollout of a batch, in the fields that the trainer has for it."""
    return {
        "prompt": batch.rows[row]["prompt"],
        "completion": batch.completions[row],
        **{
            name: batch.tensors[name][row].tolist()
            for name in ("completion_ids", "completion_mask", "tool_mask")
        },
        "prompt_ids": batch.tokens(row)[0],
        "logprobs": batch.tensors["old_per_token_logps"][row].tolist(),
        "reward": batch.rewards[row],
    }


def record(trainer: "RecordingTrainer", batch: "Batch", held: dict[str, Any]) -> dict[str, Any]:
    from rlcheck.transcripts import record_from_trl

    return record_from_trl(
        held,
        task_id=f"key-door {batch.rows[0]['target']}",
        environment_version=ENVIRONMENT_VERSION,
        policy_version=batch.version,
        learner_version=batch.version,
        max_staleness=0,
        eos_token_ids=[trainer.processing_class.eos_token_id],
        pad_token_id=trainer.processing_class.pad_token_id,
    )


def test_every_rollout_is_a_sound_record(trainer: "RecordingTrainer") -> None:
    from rlcheck.transcripts import audit_rollouts

    for batch in trainer.batches:
        records = [record(trainer, batch, sample(batch, row)) for row in range(8)]
        assert audit_rollouts(records) == {}
        for row, made in enumerate(records):
            turns = [ids for own, ids in batch.runs(row) if own]
            assert [turn["token_ids"] for turn in made["turns"]] == turns
            assert made["turns"][-1]["reward"] == batch.rewards[row]


def test_records_tell_a_rollout_that_was_cut(scripted: "RecordingTrainer") -> None:
    import trl_rollouts

    batch = scripted.batches[0]
    reasons = {
        name: record(scripted, batch, sample(batch, row))["stop_reason"]
        for row, name in enumerate(trl_rollouts.SCRIPTS)
    }
    assert reasons.pop("call cut") == "length"
    assert reasons.pop("answer dropped") == "unanswered_tool_call"
    assert set(reasons.values()) == {"eos"}


def test_a_broken_record_is_explained(scripted: "RecordingTrainer") -> None:
    from rlcheck.transcripts import audit_rollouts

    batch = scripted.batches[0]
    sound = sample(batch, 0)

    broken = {**sound, "tool_mask": [1] * len(sound["tool_mask"])}  # the tools' tokens learnt
    (texts,) = audit_rollouts([record(scripted, batch, broken)]).values()
    assert any("assistant messages" in text for text in texts)

    made = copy.deepcopy(record(scripted, batch, sound))
    made["turns"][1]["token_logprobs"].pop()
    (texts,) = audit_rollouts([made]).values()
    assert any(re.search(r"turns\[1\] has \d+ token_ids and \d+ token_logprobs", t) for t in texts)

    stale = {**record(scripted, batch, sound), "learner_version": 1}
    (texts,) = audit_rollouts([stale]).values()
    assert any("turns[0] is stale" in text for text in texts)


def test_the_guides_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trl_rollouts
    from tiny_qwen import tiny_qwen

    monkeypatch.chdir(tmp_path)
    tokenizer = trl_rollouts.make_tokenizer()
    tokenizer.save_pretrained("tiny")
    tiny_qwen(tokenizer).save_pretrained("tiny")
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert '"Qwen/Qwen3-0.6B"' in code
    small = "GRPOConfig(use_cpu=True, bf16=False, report_to=[], disable_tqdm=True, max_steps=1, "
    code = code.replace('"Qwen/Qwen3-0.6B"', '"tiny"').replace("GRPOConfig(", small)
    held: dict[str, Any] = {}
    exec(code, held)
    assert held["trainer"].state.global_step == 1
    assert held["trainer"].reward_func_names == ["KeyDoorTools"]
    assert len(held["trainer"].train_dataset) == len(prompts(256))
