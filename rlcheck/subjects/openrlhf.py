"""OpenRLHF: log-probabilities, clipped losses, aggregation and KL terms.

Its package needs deepspeed and flash_attn, which need a GPU, to be imported at all. What is graded
here uses neither: `openrlhf.models` is entered as an empty package that has only its folder, and
deepspeed as an empty module, so that `openrlhf.models.utils` and `openrlhf.models.loss` can be
imported as they are. The KL terms are float32, whatever they are given. Its advantages are methods
of a class in a module that needs vLLM's launcher, and are left out.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import torch

__all__ = [
    "aggregate_token_losses",
    "causal_response_logprobs",
    "clipped_policy_terms",
    "importance_ratios",
    "kl_penalty_terms",
]
__version__ = version("openrlhf")


def _import(name: str) -> Any:
    """A module of `openrlhf.models`, without what the package itself imports."""
    package = ModuleType("openrlhf.models")
    spec = find_spec("openrlhf")
    folders = (spec.submodule_search_locations if spec else None) or []
    package.__path__ = [f"{folder}/models" for folder in folders]
    sys.modules.setdefault("openrlhf.models", package)
    if "deepspeed" not in sys.modules and find_spec("deepspeed") is None:
        sys.modules["deepspeed"] = ModuleType("deepspeed")
    return importlib.import_module(f"openrlhf.models.{name}")


utils, loss = _import("utils"), _import("loss")


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`openrlhf.models.utils.log_probs_from_logits`.

    It scores labels by the logits in the same place, so it gets logits[:, :-1] and ids[:, 1:]; the
    mask moves with the ids.
    """
    shifted = _floats(logits)[:, :-1]
    labels = torch.from_numpy(np.array(input_ids, dtype=np.int64))[:, 1:]
    mask = np.asarray(response_mask).astype(bool)[:, 1:]
    return utils.log_probs_from_logits(shifted, labels).numpy(), mask


def importance_ratios(
    new_logprobs: Any, old_logprobs: Any, mask: Any, *, level: str = "token"
) -> Any:
    """`openrlhf.models.loss.PolicyLoss`, of type "ppo" (token) and "gspo" (sequence).

    The ratio is the loss at advantage -1 with the clip out of reach: of every token alone, or of
    the row, whose tokens have one ratio. 1 where the mask is 0.
    """
    new, old, active = _floats(new_logprobs), _floats(old_logprobs), _floats(mask)
    policy = loss.PolicyLoss(1.0, 1e300, policy_loss_type=_TYPES[level])
    policy.token_level_loss = True  # "gspo" means rows, over their length + 1e-8
    ratios = torch.ones_like(new)
    for row in range(len(new)):
        if level == "sequence":
            if active[row].any():
                ratios[row, active[row] > 0] = _ratio(policy, new[row], old[row], active[row])
            continue
        for column in torch.nonzero(active[row])[:, 0]:
            one = slice(int(column), int(column) + 1)
            ratios[row, one] = _ratio(policy, new[row, one], old[row, one], active[row, one])
    return ratios.numpy()


def clipped_policy_terms(
    ratios: Any,
    advantages: Any,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Any:
    """`openrlhf.models.loss.PolicyLoss`, token by token.

    It takes log-probabilities, so it gets log ρ and 0.
    """
    logs, gains = torch.log(_floats(ratios)), _floats(advantages)
    policy, one = loss.PolicyLoss(clip_low, clip_high, dual_clip), torch.ones(1, 1)
    terms = [
        float(policy(log.reshape(1, 1), 0 * one, gain.reshape(1, 1), one)[0])
        for log, gain in zip(logs.reshape(-1), gains.reshape(-1), strict=True)
    ]
    return np.array(terms, dtype=float).reshape(tuple(logs.shape))[()]


def aggregate_token_losses(
    losses: Any, mask: Any, mode: str, *, max_length: int | None = None
) -> float:
    """`openrlhf.models.loss.aggregate_loss`.

    "token-mean" is its `token_level_loss`, "seq-mean-token-mean" the other. It has no other mode:
    they raise NotImplementedError.
    """
    if mode not in ("token-mean", "seq-mean-token-mean"):
        raise NotImplementedError(f"OpenRLHF does not aggregate by {mode}")
    return float(loss.aggregate_loss(_floats(losses), _floats(mask), mode == "token-mean"))


def kl_penalty_terms(logprobs: Any, ref_logprobs: Any, estimator: str) -> Any:
    """`openrlhf.models.utils.compute_approx_kl`, in float32; its names k1, k2, k3 are the same."""
    terms = utils.compute_approx_kl(
        _floats(logprobs), _floats(ref_logprobs), kl_estimator=estimator
    )
    return terms.numpy()[()]


_TYPES = {"token": "ppo", "sequence": "gspo"}


def _ratio(policy: Any, new: Any, old: Any, active: Any) -> Any:
    return policy(new[None], old[None], -torch.ones_like(new)[None], active[None])[0]


def _floats(x: Any) -> Any:
    return torch.from_numpy(np.array(x, dtype=float))
