"""PyTorch 2.13: log-softmax, cross-entropy and `torch.distributions`, in float64.

A yardstick: what most trainers of language models are built of.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch.distributions import Categorical, kl_divergence

__all__ = [
    "behavior_logprob",
    "causal_response_logprobs",
    "cql_discrete_penalty",
    "exact_kl_from_logits",
    "stable_log_softmax",
]

__version__ = version("torch")


def _tensor(numbers: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(numbers, dtype=float))


def stable_log_softmax(logits: Any, axis: int = -1) -> Any:
    """`torch.nn.functional.log_softmax(logits, dim=axis)`."""
    return torch.nn.functional.log_softmax(_tensor(logits), dim=axis).numpy()


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`torch.nn.functional.cross_entropy(…, reduction="none", ignore_index=-100)`, negated.

    The shift is made here: the logits before a token, the token, and the token's mask. The
    labels outside the mask stay as they are; PyTorch knows −100 as one to ignore, and gives 0.
    """
    scores = _tensor(logits)[:, :-1].transpose(1, 2)
    labels = torch.from_numpy(np.array(input_ids, dtype=np.int64))[:, 1:]
    losses = torch.nn.functional.cross_entropy(scores, labels, reduction="none", ignore_index=-100)
    return -losses.numpy(), np.asarray(response_mask).astype(bool)[:, 1:]


def exact_kl_from_logits(q_logits: Any, p_logits: Any, axis: int = -1) -> Any:
    """`torch.distributions.kl_divergence(Categorical(q), Categorical(p))`, classes last."""
    q, p = (
        Categorical(logits=_tensor(x).movedim(axis, -1), validate_args=False)
        for x in (q_logits, p_logits)
    )
    return kl_divergence(q, p).numpy()


def cql_discrete_penalty(q_values: Any, action: Any) -> Any:
    """`torch.nn.functional.cross_entropy(q_values, action, reduction="none")`."""
    chosen = torch.from_numpy(np.array(action, dtype=np.int64))
    answer = torch.nn.functional.cross_entropy(_tensor(q_values), chosen, reduction="none")
    return answer.numpy() if answer.ndim else float(answer)


def behavior_logprob(distribution: Any, token: int) -> float:
    """`torch.distributions.Categorical(probs).log_prob(token)`."""
    chances: Any = Categorical(probs=_tensor(distribution), validate_args=False)
    return float(chances.log_prob(torch.tensor(int(token))))
