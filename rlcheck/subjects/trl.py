"""TRL: the log-probabilities of tokens, and the divergence of its distillation.

The losses, ratios and advantages of its trainers stand inside methods of a trainer and cannot be
called alone. Called are `trl.trainer.utils` and `trl.experimental.gkd`, in float64.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from trl.experimental.gkd import GKDTrainer
from trl.trainer.utils import selective_log_softmax

__all__ = ["causal_response_logprobs", "exact_kl_from_logits", "stable_log_softmax"]
__version__ = version("trl")


def stable_log_softmax(logits: Any, axis: int = -1) -> Any:
    """`trl.trainer.utils.selective_log_softmax`, asked for every class of the last axis."""
    scores = torch.from_numpy(np.moveaxis(np.array(logits, dtype=float), axis, -1).copy())
    every = torch.arange(scores.shape[-1]).expand(scores.shape)
    rows = selective_log_softmax(scores[None], every[None])[0]
    return np.moveaxis(rows.numpy(), -1, axis)


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`trl.trainer.utils.selective_log_softmax`.

    It scores an index by the logits in the same place, so it gets logits[:, :-1] and ids[:, 1:], as
    from TRL's trainers; the mask moves with the ids. Like them, it asks about 0 where the mask is 0
    and the id is none of the vocabulary, such as -100; the answer there is NaN.
    """
    scores = torch.from_numpy(np.array(logits, dtype=float))[:, :-1]
    index = np.array(input_ids, dtype=np.int64)[:, 1:]
    mask = np.asarray(response_mask).astype(bool)[:, 1:]
    absent = ~mask & ((index < 0) | (index >= scores.shape[-1]))
    selected = selective_log_softmax(scores, torch.from_numpy(np.where(absent, 0, index)))
    return np.where(absent, np.nan, selected.numpy()), mask


def exact_kl_from_logits(q_logits: Any, p_logits: Any, axis: int = -1) -> Any:
    """`trl.experimental.gkd.GKDTrainer.generalized_jsd_loss` with β = 1, KL(student‖teacher).

    The student is q and the teacher is p. `reduction="none"` gives the terms of each token, which
    are summed here. TRL normalises the last axis, so `axis` is moved there.
    """
    student, teacher = (
        torch.from_numpy(np.moveaxis(np.array(x, dtype=float), axis, -1).copy())
        for x in (q_logits, p_logits)
    )
    terms = GKDTrainer.generalized_jsd_loss(student, teacher, beta=1, reduction="none")
    return terms.sum(-1).numpy()[()]
