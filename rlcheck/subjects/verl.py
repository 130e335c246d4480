"""verl: log-probabilities, advantages, ratios, clipped losses, aggregation and KL terms.

Called are `verl.utils.torch_functional`, `verl.trainer.ppo.core_algos` and
`verl.trainer.ppo.rollout_corr_helper`. All of them take float64 tensors.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import verl.utils.torch_functional as functional
from verl.trainer.ppo import core_algos, rollout_corr_helper
from verl.workers.config import ActorConfig

__all__ = [
    "aggregate_token_losses",
    "causal_response_logprobs",
    "clipped_policy_terms",
    "group_advantages",
    "importance_ratios",
    "kl_penalty_terms",
    "leave_one_out_advantages",
    "masked_advantages",
    "sequence_logprob_ratio",
]
__version__ = version("verl")


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`verl.utils.torch_functional.logprobs_from_logits`.

    It scores labels by the logits in the same place, so it gets logits[:, :-1] and ids[:, 1:]; the
    mask moves with the ids.
    """
    shifted, labels = _floats(logits)[:, :-1], _integers(input_ids)[:, 1:]
    mask = np.asarray(response_mask).astype(bool)[:, 1:]
    return functional.logprobs_from_logits(shifted, labels).numpy(), mask


def masked_advantages(token_rewards: Any, values: Any, mask: Any, gamma: float, lam: float) -> Any:
    """`verl.trainer.ppo.core_algos.compute_gae_advantage_return`, less its whitening.

    It returns whitened advantages and plain returns; the advantages here are the returns minus the
    values, times the mask, for it defines none where the mask is 0.
    """
    shape = np.shape(mask)
    rewards, baseline, active = (
        _floats(x).reshape(-1, shape[-1]) for x in (token_rewards, values, mask)
    )
    _, returns = core_algos.compute_gae_advantage_return(rewards, baseline, active, gamma, lam)
    return ((returns - baseline) * active).reshape(shape).numpy()


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


def importance_ratios(
    new_logprobs: Any, old_logprobs: Any, mask: Any, *, level: str = "token"
) -> Any:
    """`verl.trainer.ppo.core_algos.compute_policy_loss_vanilla` and `compute_policy_loss_gspo`.

    The ratio of a token is the slope of its loss at advantage -1 with the clip out of reach, token
    by token: each is passed as a row of its own (vanilla), or the row is passed and the loss of
    one position is its ratio, as all positions have the same (gspo). 1 where the mask is 0.
    """
    new, old, active = _floats(new_logprobs), _floats(old_logprobs), _floats(mask)
    ratios = torch.ones_like(new)
    loss = _POLICY_LOSSES[level]
    for row in range(len(new)):
        if level == "sequence":
            if active[row].any():
                ratios[row, active[row] > 0] = _loss(loss, new[row], old[row], active[row])
            continue
        for column in torch.nonzero(active[row])[:, 0]:
            one = slice(int(column), int(column) + 1)
            ratios[row, one] = _loss(loss, new[row, one], old[row, one], active[row, one])
    return ratios.numpy()


def sequence_logprob_ratio(new_logprobs: Any, old_logprobs: Any, mask: Any = None) -> Any:
    """`verl.trainer.ppo.rollout_corr_helper.compute_rollout_correction_weights`, "sequence".

    Its threshold is put out of reach; the ratio of a row is its largest weight, for it puts 0 where
    the mask is 0.
    """
    difference = _floats(new_logprobs) - _floats(old_logprobs)
    active = torch.ones_like(difference) if mask is None else _floats(mask)
    shape = difference.shape
    weights, _ = rollout_corr_helper.compute_rollout_correction_weights(
        difference.reshape(-1, shape[-1]),
        active.reshape(-1, shape[-1]),
        rollout_is="sequence",
        rollout_is_threshold=_OUT_OF_REACH,
    )
    return weights.amax(-1).reshape(shape[:-1]).numpy()[()]


def clipped_policy_terms(
    ratios: Any,
    advantages: Any,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Any:
    """`verl.trainer.ppo.core_algos.compute_policy_loss_vanilla`, token by token.

    It takes log-probabilities, so it gets log ρ and 0. It always has a dual clip; without one,
    `clip_ratio_c` is put out of reach.
    """
    logs, gains = torch.log(_floats(ratios)), _floats(advantages)
    config = _actor(
        clip_ratio_low=clip_low, clip_ratio_high=clip_high, clip_ratio_c=dual_clip or _OUT_OF_REACH
    )
    terms = [
        _vanilla(torch.zeros(1, 1), log.reshape(1, 1), gain.reshape(1, 1), config)
        for log, gain in zip(logs.reshape(-1), gains.reshape(-1), strict=True)
    ]
    return np.array(terms, dtype=float).reshape(tuple(logs.shape))[()]


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


_OUT_OF_REACH = 1e300
_POLICY_LOSSES = {
    "token": core_algos.compute_policy_loss_vanilla,
    "sequence": core_algos.compute_policy_loss_gspo,
}


def _loss(loss: Any, new: Any, old: Any, active: Any) -> Any:
    config = _actor(clip_ratio_low=0.2, clip_ratio_high=_OUT_OF_REACH, clip_ratio_c=_OUT_OF_REACH)
    gain, *rows = (x[None] for x in (-torch.ones_like(new), old, new, active))
    value, _ = loss(rows[0], rows[1], gain, rows[2], "token-mean", config)
    return value


def _vanilla(old: Any, new: Any, gain: Any, config: ActorConfig) -> float:
    loss, _ = core_algos.compute_policy_loss_vanilla(
        old, new, gain, torch.ones_like(gain), "token-mean", config
    )
    return float(loss)


def _actor(**clip: float) -> ActorConfig:
    return ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, **clip)


def _outcomes(rewards: Any) -> Any:
    scores = _floats(rewards)[:, None].clone()  # [N, 1]
    return scores, torch.ones_like(scores)


def _floats(x: Any) -> Any:
    return torch.from_numpy(np.array(x, dtype=float))


def _integers(x: Any) -> Any:
    return torch.from_numpy(np.array(x, dtype=np.int64))
