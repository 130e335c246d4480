"""Training code: small agents that are held against the exact optimum of their task."""

from rlcheck.agents.actor_critic import ActorCriticSettings, train_actor_critic
from rlcheck.agents.collection import Batch, Transition, collect_batch, collect_episode
from rlcheck.agents.contracts import rollout_contract_from_transitions
from rlcheck.agents.curves import area_under_curve, write_curve_csv, write_curve_tensorboard
from rlcheck.agents.evaluation import evaluate_policy, exact_success_probability
from rlcheck.agents.networks import ActorCritic, FeedForwardActorCritic, RecurrentActorCritic

__all__ = [
    "ActorCritic",
    "ActorCriticSettings",
    "Batch",
    "FeedForwardActorCritic",
    "RecurrentActorCritic",
    "Transition",
    "area_under_curve",
    "collect_batch",
    "collect_episode",
    "evaluate_policy",
    "exact_success_probability",
    "rollout_contract_from_transitions",
    "train_actor_critic",
    "write_curve_csv",
    "write_curve_tensorboard",
]
