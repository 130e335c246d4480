"""transformers: the warpers of logits in decoding, and the scores of a generated sequence.

Called are `transformers.generation.logits_process` and
`transformers.GenerationMixin.compute_transition_scores`, in float64.
"""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import GenerationMixin
from transformers.generation.logits_process import (
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

__all__ = ["causal_response_logprobs", "decoding_distribution_with_order"]
__version__ = version("transformers")


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`transformers.GenerationMixin.compute_transition_scores` with `normalize_logits=True`.

    The scores of step t are the logits before the token, so it gets logits[:, :-1] as one tensor a
    step. It asks its model for the size of the vocabulary alone, which a stand-in tells it. The
    mask moves with the ids. It is asked about 0 where the mask is 0 and the id is none of the
    vocabulary, such as -100; the answer there is NaN.
    """
    scores = torch.from_numpy(np.array(logits, dtype=float))
    ids = np.array(input_ids, dtype=np.int64)
    mask = np.asarray(response_mask).astype(bool)
    absent = (ids < 0) | (ids >= scores.shape[-1])
    absent[:, 1:] &= ~mask[:, 1:]
    text = SimpleNamespace(vocab_size=scores.shape[-1])
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text))
    selected = GenerationMixin.compute_transition_scores(
        model,  # type: ignore[arg-type]
        torch.from_numpy(np.where(absent, 0, ids)),
        tuple(scores[:, t] for t in range(scores.shape[1] - 1)),  # type: ignore[arg-type]
        normalize_logits=True,
    )
    return np.where(absent[:, 1:], np.nan, selected.numpy()), mask[:, 1:]


def decoding_distribution_with_order(
    logits: Any, *, temperature: float, top_k: int, top_p: float, order: Any
) -> Any:
    """`TemperatureLogitsWarper`, `TopKLogitsWarper`, `TopPLogitsWarper`, then torch.softmax.

    All of `transformers.generation.logits_process`, called in `order` on a batch of one.
    """
    warpers = {
        "temperature": lambda: TemperatureLogitsWarper(float(temperature)),
        "top_k": lambda: TopKLogitsWarper(int(top_k)),
        "top_p": lambda: TopPLogitsWarper(float(top_p)),
    }
    scores = torch.from_numpy(np.array(logits, dtype=float))[None]
    for name in order:
        scores = warpers[name]()(None, scores)  # type: ignore[arg-type]
    return torch.softmax(scores[0], dim=-1).numpy()
