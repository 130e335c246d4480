"""d3rlpy 2.8.1: targets, offline losses and returns, as d3rlpy's own implementations compute them.

d3rlpy reads networks. Here they are stubs that hand on a block of columns of their observation, so
that an observation is a row of action values, and the answer is what d3rlpy makes of it. Float64
where d3rlpy keeps it; a function that d3rlpy computes in float32 says so.
"""

from functools import lru_cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from d3rlpy.algos.qlearning.torch.bcq_impl import DiscreteBCQImpl, DiscreteBCQModules
from d3rlpy.algos.qlearning.torch.cql_impl import DiscreteCQLImpl
from d3rlpy.algos.qlearning.torch.dqn_impl import DoubleDQNImpl, DQNImpl, DQNModules
from d3rlpy.algos.qlearning.torch.iql_impl import IQLImpl, IQLModules
from d3rlpy.dataset import (
    BasicTrajectorySlicer,
    BasicTransitionPicker,
    Episode,
    MultiStepTransitionPicker,
)
from d3rlpy.models.torch import q_functions
from d3rlpy.ope.torch.fqe_impl import DiscreteFQEImpl, FQEBaseModules
from d3rlpy.torch_utility import TorchMiniBatch, _compute_return_to_go

__all__ = [
    "behavior_support_mask",
    "collector_target",
    "cql_discrete_penalty",
    "discounted_return",
    "double_dqn_targets",
    "dqn_targets",
    "expectile_loss",
    "fqe_targets",
    "iql_advantage_weights",
    "return_to_go",
]

__version__ = version("d3rlpy")


class _Block(torch.nn.Module):
    """A network that hands on `width` columns of its observation, as values, logits or both."""

    def __init__(self, index: int, width: int) -> None:
        super().__init__()
        self.columns = slice(index * width, (index + 1) * width)

    def forward(self, x: torch.Tensor, *_: torch.Tensor) -> Any:
        return SimpleNamespace(q_value=x[:, self.columns], logits=x[:, self.columns])


class _Value(torch.nn.Module):
    """A value function that is 0 everywhere."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)


def _column(numbers: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(numbers, dtype=float).reshape(-1, 1))


def _batch(observations: torch.Tensor, actions: torch.Tensor) -> TorchMiniBatch:
    unused = torch.zeros(len(observations), 1)
    return TorchMiniBatch(
        observations=observations,
        actions=actions,
        rewards=unused,
        next_observations=observations,
        next_actions=actions,
        returns_to_go=unused,
        terminals=unused,
        intervals=unused,
        device="cpu",
    )


def _discrete(index: int, width: int) -> q_functions.DiscreteEnsembleQFunctionForwarder:
    one = q_functions.DiscreteMeanQFunctionForwarder(_Block(index, width), width)
    return q_functions.DiscreteEnsembleQFunctionForwarder([one], width)


@lru_cache
def _implementation(kind: type, width: int, *, targets: int = 0, **options: float) -> Any:
    """d3rlpy's implementation for `width` actions; its target network reads block `targets`."""
    empty = torch.nn.ModuleList()
    modules: dict[str, Any] = {"q_funcs": empty, "targ_q_funcs": empty, "optim": None}
    common: dict[str, Any] = {
        "observation_shape": (width,),
        "action_size": width,
        "q_func_forwarder": _discrete(0, width),
        "targ_q_func_forwarder": _discrete(targets, width),
        "gamma": 1.0,  # discounts in compute_error alone
        "target_update_interval": 1,
        "device": "cpu",
    }
    if kind is DiscreteFQEImpl:
        return kind(modules=FQEBaseModules(**modules), algo=None, **common, **options)
    if kind is DiscreteBCQImpl:
        made: DQNModules = DiscreteBCQModules(**modules, imitator=_Block(1, width))
    else:
        made = DQNModules(**modules)
    return kind(modules=made, compiled=False, **common, **options)


@lru_cache
def _iql(expectile: float, weight_temp: float, max_weight: float) -> IQLImpl:
    empty = torch.nn.ModuleList()
    one = q_functions.ContinuousMeanQFunctionForwarder(_Block(0, 1))
    both = q_functions.ContinuousEnsembleQFunctionForwarder([one], 1)
    return IQLImpl(
        observation_shape=(1,),
        action_size=1,
        modules=IQLModules(torch.nn.Module(), empty, empty, None, None, _Value()),
        q_func_forwarder=both,
        targ_q_func_forwarder=both,
        gamma=1.0,
        tau=1.0,
        expectile=expectile,
        weight_temp=weight_temp,
        max_weight=max_weight,
        compiled=False,
        device="cpu",
    )


def _regression_target(rewards: Any, terminal: Any, target: torch.Tensor, gamma: float) -> Any:
    """What d3rlpy regresses Q on: compute_error hands it to its loss, which is replaced."""
    forwarder = q_functions.DiscreteMeanQFunctionForwarder(_Block(0, 1), 1)
    zeros = torch.zeros(len(target), 1, dtype=torch.long)
    with mock.patch.object(q_functions.mean_q_function, "compute_huber_loss", lambda value, y: y):
        answer = forwarder.compute_error(
            observations=zeros,
            actions=zeros,
            rewards=_column(rewards),
            target=target,
            terminals=_column(terminal),
            gamma=gamma,
            reduction="none",
        )
    return answer.numpy()[:, 0]


def dqn_targets(rewards: Any, terminal: Any, next_q: Any, gamma: float) -> Any:
    """`d3rlpy.algos.qlearning.torch.dqn_impl.DQNImpl.compute_target`, then `compute_error`.

    The next observation is `next_q`. The reward and the discount join in
    `d3rlpy.models.torch.DiscreteMeanQFunctionForwarder.compute_error`.
    """
    values = torch.from_numpy(np.array(next_q, dtype=float))
    algo = _implementation(DQNImpl, values.shape[1])
    target = algo.compute_target(_batch(values, torch.zeros(len(values), 1)))
    return _regression_target(rewards, terminal, target, gamma)


def double_dqn_targets(
    rewards: Any, terminal: Any, online_next_q: Any, target_next_q: Any, gamma: float
) -> Any:
    """`d3rlpy.algos.qlearning.torch.dqn_impl.DoubleDQNImpl.compute_target`, then `compute_error`.

    The next observation is the online network's row followed by the target network's.
    """
    pair = np.concatenate([np.asarray(online_next_q), np.asarray(target_next_q)], axis=1)
    values = torch.from_numpy(pair.astype(float))
    algo = _implementation(DoubleDQNImpl, values.shape[1] // 2, targets=1)
    target = algo.compute_target(_batch(values, torch.zeros(len(values), 1)))
    return _regression_target(rewards, terminal, target, gamma)


def fqe_targets(rewards: Any, terminal: Any, next_q: Any, policy_probs: Any, gamma: float) -> Any:
    """`d3rlpy.ope.torch.fqe_impl.DiscreteFQEImpl.compute_target`, then `compute_error`.

    d3rlpy asks the policy for its best action and has no place for probabilities: the next
    action is the likeliest one of `policy_probs`.
    """
    values = torch.from_numpy(np.array(next_q, dtype=float))
    best = torch.from_numpy(np.asarray(policy_probs, dtype=float)).argmax(dim=1)
    algo = _implementation(DiscreteFQEImpl, values.shape[1])
    target = algo.compute_target(_batch(values, best), best)
    return _regression_target(rewards, terminal, target, gamma)


def collector_target(reward: Any, next_value: Any, *, gamma: float, terminated: Any) -> Any:
    """`d3rlpy.models.torch.DiscreteMeanQFunctionForwarder.compute_error`, its target alone.

    The flag is d3rlpy's `terminals`; scalars and arrays are broadcast beforehand.
    """
    rewards, values, flags = np.broadcast_arrays(reward, next_value, terminated)
    answer = _regression_target(rewards, flags, _column(values), gamma).reshape(rewards.shape)
    return answer if rewards.shape else float(answer)


def cql_discrete_penalty(q_values: Any, action: Any) -> Any:
    """`d3rlpy.algos.qlearning.torch.cql_impl.DiscreteCQLImpl._compute_conservative_loss`.

    d3rlpy's loss is the mean of a batch, so that each state is a batch of one.
    """
    values = torch.from_numpy(np.array(q_values, dtype=float))
    rows = values.reshape(-1, values.shape[-1])
    actions = torch.from_numpy(np.atleast_1d(np.asarray(action, dtype=np.int64)))
    algo = _implementation(DiscreteCQLImpl, rows.shape[1], alpha=1.0)
    losses = [
        float(algo._compute_conservative_loss(row[None], chosen[None]))
        for row, chosen in zip(rows, actions, strict=True)
    ]
    return losses[0] if values.ndim == 1 else np.array(losses, dtype=float)


def expectile_loss(differences: Any, expectile: float = 0.7, *, reduction: str = "mean") -> Any:
    """`d3rlpy.algos.qlearning.torch.iql_impl.IQLImpl.compute_value_loss`, in float32.

    Q is the difference and V is 0. d3rlpy has the mean alone: a term is the mean of one.
    d3rlpy's weight is float32 for every Q, so that Q is given as float32 too.
    """
    column = _column(differences).float()
    algo = _iql(float(expectile), 1.0, 1.0)
    if reduction == "mean":
        return algo.compute_value_loss(_batch(column, column)).numpy()
    terms = [algo.compute_value_loss(_batch(row[None], row[None])).numpy() for row in column]
    return np.array(terms, dtype=np.float32).reshape(np.shape(differences))


def iql_advantage_weights(advantages: Any, beta: float = 3.0, max_weight: float = 100.0) -> Any:
    """`d3rlpy.algos.qlearning.torch.iql_impl.IQLImpl._compute_weight`.

    Q is the advantage and V is 0; β is `weight_temp`.
    """
    column = _column(advantages)
    algo = _iql(0.5, float(beta), float(max_weight))
    return algo._compute_weight(_batch(column, column)).numpy().reshape(np.shape(advantages))


def behavior_support_mask(probabilities: Any, threshold_ratio: float) -> Any:
    """`d3rlpy.algos.qlearning.torch.bcq_impl.DiscreteBCQImpl.inner_predict_best_action`.

    The imitator's logits are log-probabilities, the ratio is `action_flexibility`. d3rlpy
    answers with an action: an action is supported where d3rlpy takes it, its value being 1 and
    all others' 0.
    """
    chances = np.array(probabilities, dtype=float)
    width = chances.shape[-1]
    with np.errstate(divide="ignore"):
        rows = torch.from_numpy(np.log(chances.reshape(-1, 1, width)))  # [N, 1, A]
    values = torch.eye(width, dtype=torch.float64)  # row a: the state in which a is the best
    asked = torch.cat([values.expand(len(rows), -1, -1), rows.expand(-1, width, -1)], dim=2)
    algo = _implementation(
        DiscreteBCQImpl, width, action_flexibility=float(threshold_ratio), beta=0.0
    )
    taken = algo.inner_predict_best_action(asked.reshape(-1, 2 * width)).numpy()
    return (taken.reshape(-1, width) == np.arange(width)).reshape(chances.shape)


def _episode(rewards: Any, dtype: type) -> Episode:
    column: Any = np.array(rewards, dtype=dtype).reshape(-1, 1)
    return Episode(np.zeros_like(column), np.zeros_like(column), column, terminated=True)


def discounted_return(rewards: Any, gamma: float) -> float:
    """`d3rlpy.dataset.MultiStepTransitionPicker(T, gamma)(episode, 0).reward`.

    The episode is terminated, and the number of steps is its length.
    """
    episode = _episode(rewards, float)
    return float(MultiStepTransitionPicker(episode.size(), gamma)(episode, 0).reward[0])


def return_to_go(rewards: Any, gamma: float = 1.0) -> Any:
    """Without a discount `d3rlpy.dataset.BasicTrajectorySlicer`, over the whole episode.

    With one, `d3rlpy.torch_utility._compute_return_to_go` of each transition that
    `d3rlpy.dataset.BasicTransitionPicker` picks, as `TorchMiniBatch.from_batch` calls it; in
    float32, to which d3rlpy rounds the discounts.
    """
    if gamma == 1:
        episode = _episode(rewards, float)
        steps = episode.size()
        return BasicTrajectorySlicer()(episode, steps - 1, steps).returns_to_go[:, 0]
    episode = _episode(rewards, np.float32)
    picked = [BasicTransitionPicker()(episode, i) for i in range(episode.size())]
    answers = [_compute_return_to_go(gamma, one.rewards_to_go, None)[0] for one in picked]
    return np.array(answers, dtype=np.float32)
