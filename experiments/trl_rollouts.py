"""GRPOTrainer on the key-door tools, with a tiny model, and all that it makes kept for a look."""

import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tiny_qwen import tiny_qwen, tiny_tokenizer

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_template

from rlcheck.envs.keydoor_agent import OBSERVATIONS
from rlcheck.envs.keydoor_tools import OVER, PROMPT, SYSTEM_PROMPT, Call, KeyDoorTools, prompts
from rlcheck.torch import causal_response_logprobs

END = "<|im_end|>"
TURN = "<|im_start|>assistant\n"
LENGTH = 320  # tokens of a completion, of the tools' answers too


def call(tool: str, **arguments: Any) -> str:
    """A tool call as the chat template renders it."""
    return f"<tool_call>{json.dumps({'name': tool, 'arguments': arguments})}</tool_call>"


class Last(NamedTuple):
    """A turn stretched until no more than `room` tokens are left of the completion's length.

    With a negative room its end is cut off.
    """

    text: str
    room: int


READ, FINISH = call("inspect"), call("finish")
TAKE, OPEN = call("pickup", color="red"), call("open_door", color="red")
SCRIPTS: dict[str, tuple[str | Last, ...]] = {
    "success": (READ, TAKE, OPEN, FINISH, "Done."),
    "wrong key": (READ, call("pickup", color="blue"), call("open_door", color="blue"), FINISH),
    "stall": (*[READ] * 9, "So be it."),
    "unknown color": (call("pickup", color="green"), READ, TAKE, OPEN, FINISH, "Done."),
    "answer dropped": (READ, TAKE, OPEN, Last(FINISH, room=3)),
    "call cut": (READ, TAKE, OPEN, Last(FINISH, room=-5)),
    "goes on": (READ + TAKE, OPEN + FINISH, call("pickup", color="blue"), FINISH, "Done."),
    "no tool": (call("dance"), "<tool_call>{broken</tool_call>"),
}
REWARDS = {  # by target; the scripts hope for red
    "red": (1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0),
    "blue": (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}


class Batch(NamedTuple):
    """One generation of the trainer, a rollout a row."""

    version: int  # optimizer steps that the weights had seen
    rows: list[dict[str, Any]]
    tensors: dict[str, Any]
    completions: list[list[dict[str, Any]]]
    rewards: list[float]
    environments: list[int]  # the identities of the instances
    logs: list[tuple[Call, ...]]
    logprobs: torch.Tensor  # [B, T] by plain teacher forcing, at the time of sampling

    @property
    def mask(self) -> torch.Tensor:
        """[B, T] 1 where the trainer takes a loss."""
        return self.tensors["completion_mask"] * self.tensors["tool_mask"]

    def tokens(self, row: int) -> tuple[list[int], list[int], list[int]]:
        """The prompt's ids, the completion's ids and their mask, without padding."""
        prompt = self.tensors["prompt_ids"][row][self.tensors["prompt_mask"][row] == 1]
        real = self.tensors["completion_mask"][row] == 1
        ids, mask = self.tensors["completion_ids"][row][real], self.mask[row][real]
        return prompt.tolist(), ids.tolist(), mask.tolist()

    def runs(self, row: int) -> list[tuple[bool, list[int]]]:
        """The completion as maximal runs of the model's tokens (True) and of others (False)."""
        runs: list[tuple[bool, list[int]]] = []
        _, ids, mask = self.tokens(row)
        for token, flag in zip(ids, mask, strict=True):
            if not runs or runs[-1][0] != bool(flag):
                runs.append((bool(flag), []))
            runs[-1][1].append(token)
        return runs


class RecordingTrainer(GRPOTrainer):
    """A GRPOTrainer that keeps its batches, and speaks the scripts instead of sampling."""

    def __init__(self, *args: Any, scripts: Sequence[Sequence[Any]] | None, **options: Any) -> None:
        self.scripts = scripts
        self.batches: list[Batch] = []
        super().__init__(*args, **options)

    def _generate_single_turn(
        self, prompt_ids: Any, *args: Any, **options: Any
    ) -> tuple[list[list[int]], None]:
        if self.scripts is None:
            return super()._generate_single_turn(prompt_ids, *args, **options)
        return [self._scripted(ids, row) for row, ids in enumerate(prompt_ids)], None

    def _scripted(self, ids: list[int], row: int) -> list[int]:
        """The next turn, told by the turns so far: the first one says whose they are."""
        turns = self.processing_class.decode(ids).split(TURN)[1:-1]
        if turns:
            row = int(re.match(r"\((\d+)\)", turns[0])[1])
        script = self.scripts[row]
        turn = script[len(turns)] if len(turns) < len(script) else "Done."
        text = turn.text if isinstance(turn, Last) else turn
        new = self.encode(text + END if turns else f"({row}) {text}{END}")
        if not isinstance(turn, Last):
            return new
        used = len(ids) - self.prompt_length
        stretch = self.encode(".") * (LENGTH - used - len(new) - turn.room)
        return (stretch + new)[: LENGTH - used]

    def encode(self, text: str) -> list[int]:
        return self.processing_class.encode(text, add_special_tokens=False)

    def _tokenize_prompts(self, prompts: Any) -> Any:
        result = super()._tokenize_prompts(prompts)
        self.prompt_length = len(result[0][0])  # all prompts are alike
        return result

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, ids)
        self.given = completions, rewards.sum(dim=1).tolist()
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        tensors = super()._generate_and_score_completions(inputs)
        completions, rewards = self.given
        self.batches.append(
            Batch(
                self.state.global_step,
                inputs,
                tensors,
                completions,
                rewards,
                [id(environment) for environment in self.environments],
                [environment.log for environment in self.environments],
                teacher_forced(self.model, tensors, self.temperature).detach(),
            )
        )
        return tensors


def teacher_forced(
    model: Qwen3ForCausalLM, tensors: dict[str, Any], temperature: float
) -> torch.Tensor:
    """[B, T] log-probabilities of the completions, one unpadded row at a time."""
    logprobs = torch.zeros(tensors["completion_ids"].shape)
    for row, ids in enumerate(tensors["completion_ids"]):
        prompt = tensors["prompt_ids"][row][tensors["prompt_mask"][row] == 1]
        answer = ids[tensors["completion_mask"][row] == 1]
        tokens = torch.cat([prompt, answer])[None]
        mask = (torch.arange(tokens.shape[1]) >= len(prompt))[None]
        logits = model(input_ids=tokens).logits / temperature
        selected = causal_response_logprobs(logits, tokens, mask).selected
        logprobs[row, : len(answer)] = selected[0, len(prompt) - 1 :]
    return logprobs


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer for the key-door task, whose answers TRL can parse."""
    tools = KeyDoorTools()
    methods = (tools.finish, tools.inspect, tools.open_door, tools.pickup)
    texts = [SYSTEM_PROMPT, PROMPT, OVER, *OBSERVATIONS, READ, TAKE, OPEN, FINISH]
    texts += [json.dumps(get_json_schema(method)) for method in methods]
    tokenizer = tiny_tokenizer(texts)
    tokenizer.response_template = qwen3_template
    return tokenizer


def configuration(folder: os.PathLike[str], **options: Any) -> GRPOConfig:
    """Four optimizer steps on the CPU, two on each of two generations of eight rollouts."""
    return GRPOConfig(
        **{
            "output_dir": str(folder),
            "use_cpu": True,
            "bf16": False,
            "report_to": [],
            "disable_tqdm": True,
            "save_strategy": "no",
            "shuffle_dataset": False,
            "num_generations": 8,
            "per_device_train_batch_size": 8,
            "num_iterations": 2,  # the trainer then keeps the log-probabilities of the sampler
            "max_steps": 4,
            "max_completion_length": LENGTH,
            "learning_rate": 1e-3,
            **options,
        }
    )


def train(
    folder: os.PathLike[str],
    factory: Callable[[], KeyDoorTools] = KeyDoorTools,
    scripts: Sequence[Sequence[Any]] | None = tuple(SCRIPTS.values()),
    model: Qwen3ForCausalLM | None = None,
    **options: Any,
) -> RecordingTrainer:
    """Train on a red and a blue episode, and give back the trainer.

    Args:
        folder: for the trainer's output.
        factory: makes the environments.
        scripts: the turns of each rollout of a group; None to sample.
        model: what is trained; None for random weights.
        options: of GRPOConfig.
    """
    tokenizer = make_tokenizer()
    rows = [{**row, "target": target} for row, target in zip(prompts(2), REWARDS, strict=True)]
    trainer = RecordingTrainer(
        model=tiny_qwen(tokenizer) if model is None else model,
        processing_class=tokenizer,
        args=configuration(folder, **options),
        train_dataset=Dataset.from_list(rows),
        environment_factory=factory,
        scripts=scripts,
    )
    trainer.train()
    return trainer
