"""TorchRL 0.14.1: value estimates, the targets of its losses, and its losses for language models.

Called are `torchrl.objectives.value.functional`, `torchrl.objectives` and
`torchrl.objectives.llm`. Losses read networks: here they are tables, so that an observation is a
row of action values. TorchRL turns Python numbers such as γ into tensors of PyTorch's default
dtype, or multiplies integers with them, which gives that dtype too. It is float64 during most of
the calls; one-step targets are asked for as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torchrl import _utils
from torchrl.modules import LLMMaskedCategorical, QValueActor
from torchrl.objectives import DiscreteCQLLoss, DiscreteSACLoss, DQNLoss, IQLLoss, dqn
from torchrl.objectives.llm import GRPOLoss, MCAdvantage
from torchrl.objectives.value import functional

__all__ = [
    "aggregate_token_losses",
    "causal_response_logprobs",
    "clipped_policy_terms",
    "collector_target",
    "cql_discrete_penalty",
    "discounted_return",
    "double_dqn_targets",
    "dqn_targets",
    "expectile_loss",
    "fqe_targets",
    "generalized_advantages",
    "group_advantages",
    "importance_ratios",
    "iql_advantage_weights",
    "kl_penalty_terms",
    "lambda_returns",
    "return_to_go",
    "semi_markov_return",
    "td_residuals",
]
__version__ = version("torchrl")

_utils.RL_WARNINGS = False  # as by its environment variable: no target network is updated here


def _in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called while PyTorch's default dtype is float64."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return function(*args, **kwargs)
        finally:
            torch.set_default_dtype(before)

    return call


def _floats(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(x, dtype=float))


def _flags(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(x).astype(bool))


# ---- value estimates ------------------------------------------------------------------------


def collector_target(reward: Any, next_value: Any, *, gamma: float, terminated: Any) -> Any:
    """`torchrl.objectives.value.functional.td0_return_estimate`, of float64 tensors.

    Scalars and arrays are broadcast beforehand.
    """
    rewards, values, ended = np.broadcast_arrays(reward, next_value, terminated)
    target = functional.td0_return_estimate(gamma, _floats(values), _floats(rewards), _flags(ended))
    return target.numpy()[()]


def td_residuals(rewards: Any, values: Any, gamma: float, terminated: Any = None) -> Any:
    """`torchrl.objectives.value.functional.td0_advantage_estimate`, of float64 tensors.

    The next values are values[1:]; without `terminated` nothing is.
    """
    paid, baseline = _floats(rewards), _floats(values)
    ended = torch.zeros(len(paid), dtype=torch.bool) if terminated is None else _flags(terminated)
    return functional.td0_advantage_estimate(
        gamma, baseline[:-1], baseline[1:], paid, ended, ended
    ).numpy()


@_in_float64
def discounted_return(rewards: Any, gamma: float) -> Any:
    """`torchrl.objectives.value.functional.td1_return_estimate`, at the first step.

    The next values are 0, and the last step terminates.
    """
    paid = _floats(rewards)[:, None]  # [T, 1]
    ended = torch.arange(len(paid))[:, None] == len(paid) - 1
    returns = functional.td1_return_estimate(gamma, torch.zeros_like(paid), paid, ended, ended)
    return returns.numpy()[0, 0]


@_in_float64
def semi_markov_return(rewards: Any, durations: Any, gamma: float) -> Any:
    """`torchrl.objectives.value.functional.vec_td1_return_estimate`, at the first macro-step.

    γ is a tensor with γ^τ for each macro-step; the next values are 0, and the last one terminates.
    """
    paid = _floats(rewards)[:, None]  # [K, 1]
    decays = float(gamma) ** _floats(durations)[:, None]
    ended = torch.arange(len(paid))[:, None] == len(paid) - 1
    returns = functional.vec_td1_return_estimate(decays, torch.zeros_like(paid), paid, ended, ended)
    return returns.numpy()[0, 0]


@_in_float64
def return_to_go(rewards: Any, gamma: float = 1.0) -> Any:
    """`torchrl.objectives.value.functional.reward2go`, of one episode that ends at the last step.

    `reward2go` ends it there by itself.
    """
    paid = _floats(rewards)[:, None]  # [T, 1]
    return functional.reward2go(paid, torch.zeros_like(paid, dtype=torch.bool), gamma).numpy()[:, 0]


def _estimate(
    function: Callable[..., Any], stream: tuple[Any, ...], terminated: Any, truncated: Any
) -> Any:
    """What a function of TorchRL's answers for [T] or [B, T]; `done` is either flag."""
    rewards, values, next_values, gamma, lam = stream
    paid, before, after = (_floats(x)[..., None] for x in (rewards, values, next_values))
    ended, cut = (_flags(x)[..., None] for x in (terminated, truncated))
    found = function(gamma, lam, before, after, paid, ended | cut, ended)
    return [each.numpy()[..., 0] for each in found]


@_in_float64
def generalized_advantages(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Any:
    """`torchrl.objectives.value.functional.generalized_advantage_estimate`, the loop over time.

    `done` is terminated or truncated. A last axis of one feature is added.
    """
    stream = (rewards, values, next_values, gamma, lam)
    loop = functional.generalized_advantage_estimate
    return _estimate(loop, stream, terminated, truncated)[0]


@_in_float64
def lambda_returns(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Any:
    """`torchrl.objectives.value.functional.vec_generalized_advantage_estimate`, its value target.

    `done` is terminated or truncated. A last axis of one feature is added. This is the version
    without a loop, which `torchrl.objectives.value.GAE` takes if it is told to.
    """
    stream = (rewards, values, next_values, gamma, lam)
    convolved = functional.vec_generalized_advantage_estimate
    return _estimate(convolved, stream, terminated, truncated)[1]


# ---- Q-learning and offline losses ----------------------------------------------------------


class _Table(torch.nn.Module):
    """A network that hands on one of the equal blocks of its observation."""

    def __init__(self, width: int, blocks: int = 1) -> None:
        super().__init__()
        self.blocks = (blocks, width)
        self.block = torch.nn.Parameter(torch.zeros(1, dtype=torch.long), requires_grad=False)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        chosen = observation.unflatten(-1, self.blocks).index_select(-2, self.block)
        return chosen.squeeze(-2)


def _actor(width: int, blocks: int = 1) -> QValueActor:
    return QValueActor(_Table(width, blocks), action_space="categorical")


def _transitions(observations: Any, rewards: Any, terminal: Any) -> TensorDict:
    """Transitions whose next observation is given; a terminal one is done as well."""
    ended, paid = _flags(terminal)[:, None], _floats(rewards)[:, None]
    after = {"observation": observations, "reward": paid, "done": ended, "terminated": ended}
    now = {"observation": observations, "action": torch.zeros(len(paid), dtype=torch.long)}
    return TensorDict({**now, "next": after}, [len(paid)])


@lru_cache
def _dqn(width: int, double: bool) -> DQNLoss:
    """TorchRL's loss for `width` actions; with `double` its target network reads block 1."""
    loss = DQNLoss(
        _actor(width, 1 + double),
        double_dqn=double,
        delay_value=True,
        action_space="categorical",
        reduction="none",
    )
    for block in loss.target_value_network_params.values(True, True):
        block.fill_(int(double))
    return loss


def _dqn_target(loss: DQNLoss, transitions: TensorDict, gamma: float) -> Any:
    """What the loss regresses on: it hands it to its distance, which is replaced."""
    loss.make_value_estimator(gamma=gamma)
    with mock.patch.object(dqn, "distance_loss", lambda prediction, target, *_: target):
        return loss(transitions)["loss"].numpy()


@_in_float64
def dqn_targets(rewards: Any, terminal: Any, next_q: Any, gamma: float) -> Any:
    """`torchrl.objectives.DQNLoss`, the target that it hands to its distance.

    The next observation is `next_q`, which the value network hands on.
    """
    values = _floats(next_q)
    loss = _dqn(values.shape[1], double=False)
    return _dqn_target(loss, _transitions(values, rewards, terminal), gamma)


@_in_float64
def double_dqn_targets(
    rewards: Any, terminal: Any, online_next_q: Any, target_next_q: Any, gamma: float
) -> Any:
    """`torchrl.objectives.DQNLoss` with `double_dqn`, the target that it hands to its distance.

    The next observation is the online network's row followed by the target network's.
    """
    pair = _floats(np.concatenate([np.asarray(online_next_q), np.asarray(target_next_q)], axis=1))
    loss = _dqn(pair.shape[1] // 2, double=True)
    return _dqn_target(loss, _transitions(pair, rewards, terminal), gamma)


@_in_float64
def cql_discrete_penalty(q_values: Any, action: Any) -> Any:
    """`torchrl.objectives.DiscreteCQLLoss.cql_loss`, without its reduction."""
    values = _floats(q_values)
    chosen = torch.from_numpy(np.atleast_1d(np.array(action, dtype=np.int64)))
    rows = values.reshape(-1, values.shape[-1])
    loss = _cql(rows.shape[1])
    penalties, _ = loss.cql_loss(TensorDict({"pred_val": rows, "action": chosen}, [len(rows)]))
    return penalties.reshape(values.shape[:-1]).numpy()[()]


@lru_cache
def _cql(width: int) -> DiscreteCQLLoss:
    return DiscreteCQLLoss(_actor(width), action_space="categorical", reduction="none")


@_in_float64
def expectile_loss(differences: Any, expectile: float = 0.7, *, reduction: str = "mean") -> Any:
    """`torchrl.objectives.IQLLoss.loss_value_diff`; the mean is taken here."""
    terms = IQLLoss.loss_value_diff(_floats(differences), expectile)
    return terms.numpy()[()] if reduction == "none" else float(terms.mean())


class _Policy(TensorDictModuleBase):
    """A policy whose probabilities stand beside the observation; every action is 1/e likely."""

    in_keys, out_keys = ["observation"], ["action"]

    def __init__(self) -> None:
        super().__init__()
        self.unread = torch.nn.Parameter(torch.zeros(()))  # losses look for the device of one

    def get_dist(self, tensordict: TensorDict) -> Any:
        given = tensordict.get("policy", None)
        return SimpleNamespace(probs=given, log_prob=lambda action: -torch.ones(action.shape[:-1]))


@lru_cache
def _sac(width: int) -> DiscreteSACLoss:
    """TorchRL's discrete SAC with one network of action values and the temperature 0."""
    loss = DiscreteSACLoss(
        _Policy(),
        QValueActor(torch.nn.Identity(), action_space="categorical"),
        action_space="categorical",
        num_actions=width,
        num_qvalue_nets=1,
        fixed_alpha=True,
        deactivate_vmap=True,
    )
    loss.log_alpha.fill_(-torch.inf)
    return loss


@_in_float64
def fqe_targets(rewards: Any, terminal: Any, next_q: Any, policy_probs: Any, gamma: float) -> Any:
    """`torchrl.objectives.DiscreteSACLoss._compute_target` with the temperature 0.

    Without its entropy, the soft value of a state is the expectation under the policy. The next
    observation is `next_q`, which the value network hands on; the policy is given.
    """
    values = _floats(next_q)
    loss = _sac(values.shape[1])
    loss.make_value_estimator(gamma=gamma)
    transitions = _transitions(values, rewards, terminal)
    transitions["next", "policy"] = _floats(policy_probs)
    return loss._compute_target(transitions).numpy()


@lru_cache
def _iql(temperature: float) -> IQLLoss:
    """TorchRL's loss with an observation for Q(s, a) and 0 for V(s)."""
    return IQLLoss(
        _Policy(),
        TensorDictModule(_Table(1), ["observation"], ["state_action_value"]),
        TensorDictModule(torch.zeros_like, ["observation"], ["state_value"]),
        num_qvalue_nets=1,
        temperature=temperature,
        reduction="none",
        scalar_output_mode="exclude",
        deactivate_vmap=True,
    )


@_in_float64
def iql_advantage_weights(advantages: Any, beta: float = 3.0, max_weight: float = 100.0) -> Any:
    """`torchrl.objectives.IQLLoss.actor_loss`, of actions whose log-probability is −1.

    Q is the advantage and V is 0; β is the temperature. The bound of the weights is fixed at 100:
    `max_weight` is passed over.
    """
    column = _floats(advantages).reshape(-1, 1)
    given = {"observation": column, "action": torch.zeros_like(column)}
    weights, _ = _iql(float(beta)).actor_loss(TensorDict(given, [len(column)]))
    return weights.numpy().reshape(np.shape(advantages))


# ---- losses for language models -------------------------------------------------------------


@_in_float64
def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> Any:
    """`torchrl.modules.LLMMaskedCategorical.log_prob`.

    It scores tokens by the logits in the same place, so it gets logits[:, :-1] and ids[:, 1:]; the
    mask moves with the ids. Its own mask leaves out what is no token of the vocabulary.
    """
    scores, ids = _floats(logits)[:, :-1], torch.from_numpy(np.array(input_ids, dtype=np.int64))
    known = (ids >= 0) & (ids < scores.shape[-1])
    selected = LLMMaskedCategorical(scores, known[:, 1:]).log_prob(ids[:, 1:])
    return selected.numpy(), np.asarray(response_mask).astype(bool)[:, 1:]


@_in_float64
def group_advantages(
    rewards: Any,
    group_ids: Any,
    *,
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    valid: Any = None,
) -> Any:
    """`torchrl.objectives.llm.MCAdvantage`, of trajectories of one step.

    It knows one size of groups, so there is one for each. Its scale is "std", its `ddof` 1, and in
    place of `eps` the deviation is at least 1e-6; it has no `valid`. These are passed over.
    """
    names: dict[Any, int] = {}
    codes = np.array([names.setdefault(name, len(names)) for name in list(group_ids)], dtype=int)
    sizes, advantages = np.bincount(codes)[codes], np.zeros(len(codes))
    for size in set(sizes.tolist()):
        rows = np.flatnonzero(sizes == size)
        paid = _floats(rewards)[rows].reshape(-1, 1, 1)
        given = {
            "query": torch.from_numpy(codes[rows, None]),
            "row": torch.from_numpy(rows[:, None]),
        }
        after = {"reward": paid, "done": torch.ones_like(paid, dtype=torch.bool)}
        found = MCAdvantage(size).inv(TensorDict({**given, "next": after}, [len(rows), 1]))
        advantages[found["row"].numpy()] = found["advantage"].numpy()[..., 0]
    return advantages


class _Scores(torch.nn.Module):
    """A policy whose log-probabilities and mask are given."""

    def get_dist(self, tensordict: TensorDict, logits_key: str) -> Any:
        return SimpleNamespace(mask=tensordict["mask"], log_prob=lambda _: tensordict["new"])


@lru_cache
def _grpo(*, low: float = 0.2, high: float = 0.2, aggregation: str = "token_mean") -> GRPOLoss:
    return GRPOLoss(
        _Scores(), clip_epsilon=(low, high), aggregation=aggregation, masking_strategy="generic"
    )


def _log_weights(new: Any, old: Any, mask: Any) -> Any:
    """log π_new − log π_old, [..., 1], and the estimate k1 of TorchRL's, [..., 1]."""
    given = {"new": _floats(new), "mask": _flags(mask), "log_probs": {"full": _floats(old)}}
    given["tokens"] = {"full": torch.zeros(np.shape(new), dtype=torch.long)}
    log_weight, _, k1, _ = _grpo()._log_weight(TensorDict(given, []), adv_shape=np.shape(new))
    return log_weight, k1


@_in_float64
def importance_ratios(
    new_logprobs: Any, old_logprobs: Any, mask: Any, *, level: str = "token"
) -> Any:
    """`torchrl.objectives.llm.GRPOLoss._log_weight`, then `_compute_policy_objective`.

    The advantage is 1 and the clip has no upper end, so that the objective is the ratio. It has no
    ratio of a sequence: `level` is passed over.
    """
    log_weight, _ = _log_weights(new_logprobs, old_logprobs, mask)
    unclipped = _grpo(low=0.5, high=float("inf"))
    loss, _ = unclipped._compute_policy_objective(log_weight, torch.ones_like(log_weight))
    return -loss.numpy()[..., 0]


@_in_float64
def clipped_policy_terms(
    ratios: Any,
    advantages: Any,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Any:
    """`torchrl.objectives.llm.GRPOLoss._compute_policy_objective`, which takes log-ratios.

    It has no dual clip: `dual_clip` is passed over.
    """
    loss = _grpo(low=float(clip_low), high=float(clip_high))
    terms, _ = loss._compute_policy_objective(_floats(ratios).log(), _floats(advantages))
    return terms.numpy()


@_in_float64
def aggregate_token_losses(
    losses: Any, mask: Any, mode: str, *, max_length: int | None = None
) -> float:
    """`torchrl.objectives.llm.GRPOLoss._aggregate_loss_value`.

    "token-mean" is its "token_mean" and "seq-mean-token-mean" its "prompt_mean". It has no sums of
    rows: its "none" leaves the terms of the tokens, 0 where the mask is 0, which are added here and
    divided by the rows, and by `max_length`.
    """
    names = {"token-mean": "token_mean", "seq-mean-token-mean": "prompt_mean"}
    name = names.get(mode, "none")
    terms, active = _floats(losses)[..., None], _flags(mask)  # [B, T, 1], [B, T]
    found = _grpo(aggregation=name)._aggregate_loss_value(terms, active)
    if name == "none":
        return float(found.sum()) / max(len(terms), 1) / (max_length or 1)
    return float(found)


@_in_float64
def kl_penalty_terms(logprobs: Any, ref_logprobs: Any, estimator: str) -> Any:
    """k3 is `torchrl.objectives.llm.GRPOLoss._kl_to_ref`, a mean: each token is asked for alone.

    k1 is the `kl_approx` of `GRPOLoss._log_weight`, the reference being the new policy. k2 stands
    inline in `GRPOLoss.forward`: here it is half the square of k1.
    """
    own, ref = _floats(logprobs), _floats(ref_logprobs)
    if estimator == "k3":
        pairs = zip(own.reshape(-1, 1), ref.reshape(-1, 1), strict=True)
        terms = [_kl_to_ref(*pair) for pair in pairs]
        return np.array(terms, dtype=float).reshape(own.shape)[()]
    _, k1 = _log_weights(ref, own, torch.ones_like(own))
    found = k1[..., 0].numpy()[()]
    return found if estimator == "k1" else found**2 / 2


def _kl_to_ref(own: torch.Tensor, ref: torch.Tensor) -> float:
    _, mean = _grpo()._kl_to_ref({"_cur_log_prob": own}, ref_log_prob=ref, coeff=1.0)
    return float(mean)
