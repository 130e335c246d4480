"""verl 0.9.1: log-probabilities, advantages, aggregation and KL terms.

Called are `verl.utils.torch_functional` and `verl.trainer.ppo.core_algos`, which take float64
tensors. Its ratios and clipped terms stand inside its policy losses, behind clamps of the log-ratio
and a clip that is always on: no function returns them alone, and they are left out.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import verl.utils.torch_functional as functional
from verl.trainer.ppo import core_algos

__all__ = [
    "aggregate_token_losses",
    "causal_response_logprobs",
    "group_advantages",
    "kl_penalty_terms",
    "leave_one_out_advantages",
    "masked_advantages",
]
__version__ = version("verl")


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`verl.utils.torch_functional.logprobs_from_logits`.

    It scores labels by the logits in the same place, so it gets logits[:, :-1] and ids[:, 1:]; the
    mask moves with the ids, and ids outside it, which may be no token's, are passed as 0.
    """
    shifted, labels = _floats(logits)[:, :-1], _integers(input_ids)[:, 1:]
    mask = np.asarray(response_mask).astype(bool)[:, 1:]
    labels = labels * torch.from_numpy(mask)
    return functional.logprobs_from_logits(shifted, labels).numpy(), mask


def masked_advantages(token_rewards: Any, values: Any, mask: Any, gamma: float, lam: float) -> Any:
    """`verl.trainer.ppo.core_algos.compute_gae_advantage_return`, less its whitening.

    It returns whitened advantages and plain returns; the advantages here are the returns minus the
    values, and 0 where the mask is 0, where it defines none.
    """
    rewards, baseline, active = (
        torch.atleast_2d(_floats(x)) for x in (token_rewards, values, mask)
    )
    _, returns = core_algos.compute_gae_advantage_return(rewards, baseline, active, gamma, lam)
    return torch.where(active > 0, returns - baseline, 0).reshape(np.shape(mask)).numpy()


def group_advantages(
    rewards: Any,
    group_ids: Any,
    *,
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    valid: Any = None,
) -> Any:
    """`verl.trainer.ppo.core_algos.compute_grpo_outcome_advantage`, of responses of one token.

    `scale` "std" and "none" are its `norm_adv_by_std_in_grpo`. It has no "batch", no `ddof` (its
    is 1) and no `valid`: these are passed over.
    """
    scores, mask = _outcomes(rewards)
    advantages, _ = core_algos.compute_grpo_outcome_advantage(
        scores, mask, np.asarray(group_ids), epsilon=eps, norm_adv_by_std_in_grpo=scale == "std"
    )
    return advantages[:, 0].numpy()


def leave_one_out_advantages(rewards: Any, group_ids: Any) -> Any:
    """`verl.trainer.ppo.core_algos.compute_rloo_outcome_advantage`, of responses of one token."""
    scores, mask = _outcomes(rewards)
    advantages, _ = core_algos.compute_rloo_outcome_advantage(scores, mask, np.asarray(group_ids))
    return advantages[:, 0].numpy()


def aggregate_token_losses(
    losses: Any, mask: Any, mode: str, *, max_length: int | None = None
) -> float:
    """`verl.trainer.ppo.core_algos.agg_loss`; its names of the modes are the same."""
    loss = core_algos.agg_loss(_floats(losses), _floats(mask), mode, loss_scale_factor=max_length)
    return float(loss)


def kl_penalty_terms(logprobs: Any, ref_logprobs: Any, estimator: str) -> Any:
    """`verl.trainer.ppo.core_algos.kl_penalty`; its names k1, k2 and k3 are the same."""
    terms = core_algos.kl_penalty(_floats(logprobs), _floats(ref_logprobs), estimator)
    return terms.numpy()[()]


def _outcomes(rewards: Any) -> Any:
    scores = _floats(rewards)[:, None].clone()  # [N, 1]
    return scores, torch.ones_like(scores)


def _floats(x: Any) -> Any:
    return torch.from_numpy(np.array(x, dtype=float))


def _integers(x: Any) -> Any:
    return torch.from_numpy(np.array(x, dtype=np.int64))
