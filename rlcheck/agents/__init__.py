"""Training code: small agents that are held against the exact optimum of their task."""

from rlcheck.agents.actor_critic import ActorCriticSettings, train_actor_critic
from rlcheck.agents.behavior_cloning import behavior_cloning
from rlcheck.agents.collection import Batch, Transition, collect_batch, collect_episode
from rlcheck.agents.contracts import rollout_contract_from_transitions
from rlcheck.agents.curves import area_under_curve, write_curve_csv, write_curve_tensorboard
from rlcheck.agents.dagger import dagger_experiment
from rlcheck.agents.dataset_files import read_minari, read_parquet, write_minari, write_parquet
from rlcheck.agents.datasets import GridEpisode, GridTransition, collect_offline_dataset
from rlcheck.agents.decision_transformer import train_decision_transformer
from rlcheck.agents.decision_transformer_evaluation import evaluate_decision_transformer
from rlcheck.agents.dqn import train_online_dqn
from rlcheck.agents.evaluation import evaluate_policy, exact_success_probability
from rlcheck.agents.fqe import fitted_q_evaluation
from rlcheck.agents.networks import ActorCritic, FeedForwardActorCritic, RecurrentActorCritic
from rlcheck.agents.offline import offline_experiment
from rlcheck.agents.replay import ReplayBuffer
from rlcheck.agents.token_offline import PROMPTS, language_offline_experiment, token_text

__all__ = [
    "PROMPTS",
    "ActorCritic",
    "ActorCriticSettings",
    "Batch",
    "FeedForwardActorCritic",
    "GridEpisode",
    "GridTransition",
    "RecurrentActorCritic",
    "ReplayBuffer",
    "Transition",
    "area_under_curve",
    "behavior_cloning",
    "collect_batch",
    "collect_episode",
    "collect_offline_dataset",
    "dagger_experiment",
    "evaluate_decision_transformer",
    "evaluate_policy",
    "exact_success_probability",
    "fitted_q_evaluation",
    "language_offline_experiment",
    "offline_experiment",
    "read_minari",
    "read_parquet",
    "rollout_contract_from_transitions",
    "token_text",
    "train_actor_critic",
    "train_decision_transformer",
    "train_online_dqn",
    "write_curve_csv",
    "write_curve_tensorboard",
    "write_minari",
    "write_parquet",
]
