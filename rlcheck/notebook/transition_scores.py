"""What `generate` says of the tokens that it drew, beside what a trainer recomputes of them."""

from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from rlcheck.logprobs import causal_response_logprobs

__all__ = ["TransitionScores", "compare_transition_scores", "teacher_forced_logits"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]


class TransitionScores(NamedTuple):
    """Log-probabilities of the same sampled tokens, obtained in five ways; each [B, N]."""

    ids: Integers  # what was drawn
    tokens: list[list[str]]  # [B][N] as the tokenizer writes them
    mask: Flags  # 1 up to the first EOS, and there
    scores: Floats  # compute_transition_scores of `scores`, normalised: what was sampled from
    unprocessed: Floats  # compute_transition_scores of `logits`, normalised
    raw: Floats  # teacher forcing: log-softmax of the logits of one full pass
    tempered: Floats  # the same of logits / temperature
    processed: Floats  # the same of logits behind the processors of `generate`, in its order
    unmasked: Floats  # as raw, with the attention mask left out
    same_support: Flags  # whether sampling and teacher forcing kept the same tokens
    support: Integers  # how many tokens were left to draw from
    top_k: int  # what top-k was applied, asked for or not; 0 is none

    def gap(self, first: str, second: str) -> float:
        """Largest difference of two of the log-probabilities, over the sampled tokens.

        A token that only one side still allowed is left out where `processed` is compared: on
        the edge of top-k or top-p, rounding decides which tokens stay.
        """
        counted = self.mask & self.same_support if "processed" in (first, second) else self.mask
        differences = np.abs(getattr(self, first) - getattr(self, second))[counted]
        return float(differences.max(initial=0.0))


def compare_transition_scores(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    *,
    seed: int,
    new_tokens: int = 16,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
) -> TransitionScores:
    """Sample answers, and score their tokens as the sampler, a trainer and a careful trainer do.

    `scores` equals `processed`, whatever the settings; `unprocessed` equals `raw`; `scores`
    equals `tempered` where the temperature is the only processor, and `raw` where there is none.

    Args:
        model: a causal language model, in evaluation mode.
        tokenizer: pads on the left.
        prompts: B texts.
        seed: of torch's generator, which is put back afterwards.
        new_tokens: at most N.
        temperature: > 0, passed to `generate`.
        top_p: passed to `generate`.
        top_k: passed to `generate`, 0 for none; None leaves it out, and `generate` then takes that
            of the model's generation config, or 50.

    Returns:
        TransitionScores, each array [B, N] with N the tokens of the longest answer.
    """
    inputs = tokenizer(list(prompts), return_tensors="pt", padding=True)
    asked: dict[str, Any] = {"temperature": temperature, "top_p": top_p}
    if top_k is not None:
        asked["top_k"] = top_k
    out = _sampled(model, inputs, seed, max_new_tokens=new_tokens, **asked)
    start = inputs["input_ids"].shape[1]
    answers = out.sequences[:, start:]
    mask = _up_to_eos(answers, model.generation_config.eos_token_id)
    attention = torch.cat([inputs["attention_mask"], torch.as_tensor(mask).long()], dim=1)
    applied = _top_k_of(model) if top_k is None else top_k
    logits = teacher_forced_logits(model, out.sequences, attention)
    behind = _processed(logits, out.sequences, temperature, applied, top_p)
    kept = torch.stack(out.scores, dim=1).isfinite()  # [B, N, V]
    answer_mask = np.pad(mask, ((0, 0), (start, 0)))

    def selected(of: torch.Tensor) -> Floats:
        return causal_response_logprobs(of, out.sequences, answer_mask).selected[:, start - 1 :]

    return TransitionScores(
        ids=answers.numpy(),
        tokens=[[str(tokenizer.decode([token])) for token in row] for row in answers.tolist()],
        mask=mask,
        scores=_transition_scores(model, out.sequences, out.scores),
        unprocessed=_transition_scores(model, out.sequences, out.logits),
        raw=selected(logits),
        tempered=selected(logits / temperature),
        processed=selected(behind),
        unmasked=selected(teacher_forced_logits(model, out.sequences, None)),
        same_support=(kept == behind[:, start - 1 : -1].isfinite()).all(dim=-1).numpy(),
        support=kept.sum(dim=-1).numpy(),
        top_k=applied,
    )


def _sampled(model: Any, inputs: Any, seed: int, **asked: Any) -> Any:
    """What `generate` draws and says of it: sequences, scores, logits."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        return model.generate(
            **inputs,
            **asked,
            do_sample=True,
            repetition_penalty=1.0,  # a processor too, where the model's config asks for it
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
        )


def teacher_forced_logits(
    model: PreTrainedModel, sequences: torch.Tensor, attention_mask: torch.Tensor | None
) -> torch.Tensor:
    """Logits of one pass over whole sequences, in float32.

    The position of a token is its rank among those that are no padding, as `generate` counts it;
    where positions are absolute, the mask alone would not do.

    Args:
        model: a causal language model.
        sequences: [B, L] token ids, padded on the left.
        attention_mask: [B, L] 0 where padding stands; None attends to the padding too, a mistake.

    Returns:
        [B, L, V] logits; those at t score token t + 1.
    """
    forward: Any = model.forward
    about = {}
    if attention_mask is not None:
        about["attention_mask"] = attention_mask
        if "position_ids" in signature(forward).parameters:
            about["position_ids"] = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
    with torch.no_grad():
        logits: torch.Tensor = forward(input_ids=sequences, **about).logits
    return logits.float()


def _transition_scores(
    model: Any, sequences: torch.Tensor, scores: tuple[torch.Tensor, ...]
) -> Floats:
    """[B, N] log-softmax of each step's scores [B, V] at the token that was drawn."""
    picked = model.compute_transition_scores(sequences, scores, normalize_logits=True)
    return np.asarray(picked, np.float64)


def _top_k_of(model: PreTrainedModel) -> int:
    """The k of top-k that `generate` takes when it is not told: the model's, else 50."""
    configured: int | None = model.generation_config.top_k
    return 50 if configured is None else configured


def _processed(
    logits: torch.Tensor, sequences: torch.Tensor, temperature: float, top_k: int, top_p: float
) -> torch.Tensor:
    """[B, L, V] logits behind what `generate` makes of these settings, in its order."""
    processors: Any = LogitsProcessorList()
    if temperature != 1.0:
        processors.append(TemperatureLogitsWarper(temperature))
    if top_k:
        processors.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        processors.append(TopPLogitsWarper(top_p))
    return torch.stack([processors(sequences, step) for step in logits.unbind(dim=1)], dim=1)


def _up_to_eos(answers: torch.Tensor, eos: int | list[int] | None) -> Flags:
    """[B, N] 1 up to the first end token and there; what follows is padding."""
    ends = [] if eos is None else [eos] if isinstance(eos, int) else eos
    ended = np.isin(answers.numpy(), ends)
    return np.cumsum(ended, axis=1) - ended == 0
