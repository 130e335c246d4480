"""OpenRLHF 0.11.2: log-probabilities, returns, advantages, ratios, aggregation and KL terms.

Its packages import deepspeed, flash-attention, vLLM and more, most of which need a GPU. What is
graded here uses none of them: the packages on the way are entered as empty ones that have only
their folders, and deepspeed and the launcher of its actors as empty modules, so that
`openrlhf.models.utils`, `openrlhf.models.loss` and `openrlhf.trainer.ppo_utils.experience_maker`
are imported as they are. Masks are passed as booleans, which they are in its trainer. The KL terms
are float32, whatever they are given.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

__all__ = [
    "aggregate_token_losses",
    "causal_response_logprobs",
    "clipped_policy_terms",
    "discounted_return",
    "group_advantages",
    "importance_ratios",
    "kl_penalty_terms",
    "leave_one_out_advantages",
    "masked_advantages",
    "return_to_go",
]
__version__ = version("openrlhf")


def _enter(name: str, **contents: Any) -> None:
    """A module of that name without what it imports itself; a package keeps its folder."""
    module = ModuleType(name)
    root, *inner = name.split(".")
    found = find_spec(root)
    folders = (found.submodule_search_locations if found else None) or []
    module.__path__ = [str(Path(folder, *inner)) for folder in folders]
    vars(module).update(contents)
    sys.modules.setdefault(name, module)


for _package in ("openrlhf.models", "openrlhf.utils", "openrlhf.trainer.ray"):
    _enter(_package)
_enter("openrlhf.trainer.ray.launcher", RayActorGroup=object)
if find_spec("deepspeed") is None:
    _enter("deepspeed")

_utils = importlib.import_module("openrlhf.models.utils")
_loss = importlib.import_module("openrlhf.models.loss")
_experience = importlib.import_module("openrlhf.trainer.ppo_utils.experience")
_maker = importlib.import_module("openrlhf.trainer.ppo_utils.experience_maker")

_LOSS_TYPES = {"token": "ppo", "sequence": "gspo"}
_ESTIMATORS = {"std": "group_norm", "none": "dr_grpo"}


def _floats(values: Any) -> Any:
    return torch.from_numpy(np.array(values, dtype=float))


def _flags(values: Any) -> Any:
    return torch.from_numpy(np.array(values).astype(bool))


def _experience_maker(estimator: str, samples: int) -> Any:
    """A maker whose settings are those of rewards without penalties, clips and KL terms."""
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator=estimator, gamma=1.0)),
        reward=SimpleNamespace(clip_range=None),
        rollout=SimpleNamespace(n_samples_per_prompt=samples),
    )
    groups, strategy = [None] * 4, SimpleNamespace(args=args)
    return _maker.RemoteExperienceMaker(*groups, SimpleNamespace(value=0.0), strategy, None)


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`openrlhf.models.utils.log_probs_from_logits`.

    It scores labels by the logits in the same place, so it gets logits[:, :-1] and ids[:, 1:]; the
    mask moves with the ids, and ids outside it, which may be no token's, are passed as 0.
    """
    shifted, mask = _floats(logits)[:, :-1], _flags(response_mask)[:, 1:]
    labels = torch.from_numpy(np.array(input_ids, dtype=np.int64))[:, 1:] * mask
    return _utils.log_probs_from_logits(shifted, labels).numpy(), mask.numpy()


def return_to_go(rewards: Any, gamma: float = 1.0) -> Any:
    """`openrlhf.trainer.ppo_utils.experience_maker.RemoteExperienceMaker.get_cumulative_returns`.

    Of one response, all of whose tokens count.
    """
    earned = _floats(rewards)[None]
    mask = torch.ones_like(earned, dtype=torch.bool)
    maker = _maker.RemoteExperienceMaker
    return maker.get_cumulative_returns(None, earned, mask, gamma)[0].numpy()


def discounted_return(rewards: Any, gamma: float) -> float:
    """`RemoteExperienceMaker.get_cumulative_returns`: that of the first token; of none it is 0."""
    returns = return_to_go(rewards, gamma)
    return float(returns[0]) if len(returns) else 0.0


def masked_advantages(token_rewards: Any, values: Any, mask: Any, gamma: float, lam: float) -> Any:
    """`RemoteExperienceMaker.get_advantages_and_returns`, of `experience_maker`.

    Its advantages; 0 where the mask is 0, where its loss reads none.
    """
    rewards, baseline = (torch.atleast_2d(_floats(x)) for x in (token_rewards, values))
    active = torch.atleast_2d(_flags(mask))
    estimate = _maker.RemoteExperienceMaker.get_advantages_and_returns
    advantages, _ = estimate(None, baseline, rewards, active, gamma, lam)
    return torch.where(active, advantages, 0).reshape(np.shape(mask)).numpy()


def _outcome_advantages(rewards: Any, group_ids: Any, estimator: str) -> Any:
    """Advantages of responses of one token, from one call for each group."""
    scores, ids = _floats(rewards), np.asarray(group_ids)
    advantages = torch.zeros_like(scores)
    for name in dict.fromkeys(ids.tolist()):
        rows = torch.from_numpy(np.flatnonzero(ids == name))
        experience = _experience.Experience(
            rewards=scores[rows],
            kl=torch.zeros(len(rows), 1, dtype=torch.float64),
            action_mask=torch.ones(len(rows), 1, dtype=torch.bool),
            index=list(range(len(rows))),
        )
        _experience_maker(estimator, len(rows)).compute_advantages_and_returns([experience])
        advantages[rows] = experience.advantages[:, 0]
    return advantages.numpy()


def group_advantages(
    rewards: Any,
    group_ids: Any,
    *,
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    valid: Any = None,
) -> Any:
    """`RemoteExperienceMaker.compute_advantages_and_returns`, of `experience_maker`.

    `scale` "std" is its estimator "group_norm", "none" is "dr_grpo". It has no "batch", which
    raises KeyError, no `ddof` (its is 1), no `eps` (its is 1e-9) and no `valid`: these are passed
    over. All groups of a batch are of one size there, so each is passed alone.
    """
    return _outcome_advantages(rewards, group_ids, _ESTIMATORS[scale])


def leave_one_out_advantages(rewards: Any, group_ids: Any) -> Any:
    """`RemoteExperienceMaker.compute_advantages_and_returns`, estimator "rloo", group by group."""
    return _outcome_advantages(rewards, group_ids, "rloo")


def _ratio(policy: Any, new: Any, old: Any, active: Any) -> Any:
    return policy(new[None], old[None], -torch.ones_like(new)[None], active[None])[0]


def importance_ratios(
    new_logprobs: Any, old_logprobs: Any, mask: Any, *, level: str = "token"
) -> Any:
    """`openrlhf.models.loss.PolicyLoss`, of type "ppo" (token) and "gspo" (sequence).

    The ratio is the loss at advantage -1 with the clip out of reach: of every token alone, or of
    the whole row, whose tokens have one ratio. 1 where the mask is 0.
    """
    new, old, active = _floats(new_logprobs), _floats(old_logprobs), _flags(mask)
    policy = _loss.PolicyLoss(1.0, 1e300, policy_loss_type=_LOSS_TYPES[level])
    ratios = torch.ones_like(new)
    for row, column in torch.nonzero(active).tolist():
        read = slice(column, column + 1) if level == "token" else slice(None)
        ratios[row, column] = _ratio(policy, new[row, read], old[row, read], active[row, read])
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
    policy, one = _loss.PolicyLoss(clip_low, clip_high, dual_clip), torch.ones(1, 1)
    terms = [
        float(policy(log.reshape(1, 1), 0 * one, gain.reshape(1, 1), one)[0])
        for log, gain in zip(logs.reshape(-1), gains.reshape(-1), strict=True)
    ]
    return np.array(terms, dtype=float).reshape(tuple(logs.shape))[()]


def aggregate_token_losses(
    losses: Any, mask: Any, mode: str, *, max_length: int | None = None
) -> float:
    """`openrlhf.models.loss.aggregate_loss`.

    "token-mean" is its `token_level_loss`, "seq-mean-token-mean" the other. The sums are its token
    level over a number of tokens that is given, `batch_num_tokens`: here the number of rows, or
    that times `max_length`.
    """
    terms, active = _floats(losses), _flags(mask)
    if mode in ("token-mean", "seq-mean-token-mean"):
        return float(_loss.aggregate_loss(terms, active, mode == "token-mean"))
    divisor = len(terms) * (1 if max_length is None else max_length)
    return float(_loss.aggregate_loss(terms, active, batch_num_tokens=divisor))


def kl_penalty_terms(logprobs: Any, ref_logprobs: Any, estimator: str) -> Any:
    """`openrlhf.models.utils.compute_approx_kl`, in float32; its names k1, k2, k3 are the same."""
    new, base = _floats(logprobs), _floats(ref_logprobs)
    return _utils.compute_approx_kl(new, base, kl_estimator=estimator).numpy()[()]
