"""Training of actor-critics on the key-door task, with clipped surrogate losses."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from rlcheck import generalized_advantages
from rlcheck._inputs import choice, integer, scalar, unit_interval
from rlcheck.agents.collection import REWARD_MODES, Batch, collect_batch
from rlcheck.agents.evaluation import evaluate_policy
from rlcheck.agents.networks import ActorCritic, RecurrentActorCritic
from rlcheck.envs.keydoor_agent import KeyDoorAgentEnv
from rlcheck.torch import aggregate_token_losses, clipped_policy_terms, importance_ratios

__all__ = ["ActorCriticSettings", "train_actor_critic"]


@dataclass(frozen=True)
class ActorCriticSettings:
    """What training needs to be told.

    `epochs` is how often each batch of episodes is used, with the advantages that it had at first.
    With weights of 0 for policy and entropy only values are learned: the policy's head stays what
    it is, and so does the policy unless it reads features that the values share with it and its
    head has learned to read them.

    Raises:
        ValueError: gamma or lam lies outside [0, 1], the learning rate or the norm is not above 0,
            epochs is no integer ≥ 1, or a weight is negative; the text names it.
    """

    gamma: float = 0.99
    lam: float = 0.6
    learning_rate: float = 0.02
    epochs: int = 2
    policy_weight: float = 1.0
    value_weight: float = 0.5
    entropy_weight: float = 0.1
    max_gradient_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("gamma", "lam"):
            unit_interval(name, getattr(self, name))
        object.__setattr__(self, "epochs", integer("epochs", self.epochs, minimum=1))
        for name in ("policy_weight", "value_weight", "entropy_weight"):
            if (weight := scalar(name, getattr(self, name))) < 0:
                raise ValueError(f"{name} is {weight}; it must be ≥ 0")
        rate = scalar("learning_rate", self.learning_rate)
        norm = scalar("max_gradient_norm", self.max_gradient_norm, allow="infinite")
        for name, value in (("learning_rate", rate), ("max_gradient_norm", norm)):
            if value <= 0:
                raise ValueError(f"{name} is {value}; it must be > 0")


def train_actor_critic(
    *,
    seed: int,
    reward_mode: str,
    updates: int = 30,
    episodes_per_update: int = 48,
    evaluation_interval: int = 3,
    evaluation_episodes: int = 100,
    task_horizon: int = 8,
    collector_limit: int | None = None,
    model: ActorCritic | None = None,
    environment: type[KeyDoorAgentEnv] = KeyDoorAgentEnv,
    settings: ActorCriticSettings | None = None,
) -> tuple[ActorCritic, list[dict[str, Any]]]:
    """Train an actor-critic, and evaluate it on the way.

    Each update collects one episode from every environment, estimates advantages with
    `generalized_advantages` (a truncated episode bootstraps from the state it ended in, as
    `collector_target` has it; a terminated one does not), and follows

    L = Σ −min(ρ A, clip(ρ) A) + c_V (V − G)² − c_H H(π),  a mean over the steps that were taken

    with A normalised over the batch. It is deterministic: one seed gives one result on one machine,
    whatever torch's global generator holds. A bar shows the progress on a terminal.

    Args:
        seed: an integer ≥ 0; initial weights, actions and targets are drawn from it.
        reward_mode: "sparse" or "potential".
        updates: how many, ≥ 1.
        episodes_per_update: how many environments step together, ≥ 1.
        evaluation_interval: updates between two evaluations, ≥ 1; the last one is evaluated too.
        evaluation_episodes: episodes of an evaluation, ≥ 1, with targets drawn from another stream
            than the training's.
        task_horizon: of the environments.
        collector_limit: of the environments that are trained on; evaluation has none.
        model: what is trained, in place; None makes a `RecurrentActorCritic`.
        environment: the class of the environments that are trained on.
        settings: None for the defaults.

    Returns:
        (model, curve): a row of the curve has `update` (−1 before training),
        `environment_steps` so far, what `evaluate_policy` says of the greedy policy, and of the
        update before it `training_success_rate`, `loss` and `entropy` (NaN before training).

    Raises:
        ValueError: the mode is unknown, or a number is out of range; the text names it.

    Reference:
        Schulman et al. (2017), Proximal policy optimization algorithms, equation 9.
    """
    reward_mode = choice("reward_mode", reward_mode, REWARD_MODES)
    updates = integer("updates", updates, minimum=1)
    interval = integer("evaluation_interval", evaluation_interval, minimum=1)
    count = integer("episodes_per_update", episodes_per_update, minimum=1)
    integer("evaluation_episodes", evaluation_episodes, minimum=1)
    settings = settings or ActorCriticSettings()
    streams = np.random.SeedSequence(integer("seed", seed, minimum=0)).spawn(4)
    weights, actions, evaluation = (int(s.generate_state(1)[0]) for s in streams[:3])
    envs = [
        environment(task_horizon, collector_limit, seed=int(state))
        for state in streams[3].generate_state(count)
    ]
    trained = _initial_model(weights) if model is None else model
    learner = _Learner(trained, reward_mode, settings)
    generator = torch.Generator().manual_seed(actions)

    def row(update: int, steps: int, report: dict[str, float]) -> dict[str, Any]:
        metrics = evaluate_policy(
            trained,
            episodes=evaluation_episodes,
            seed=evaluation,
            task_horizon=task_horizon,
            gamma=settings.gamma,
        )
        return {"update": update, "environment_steps": steps} | metrics | report

    with one_thread():
        curve, steps = [row(-1, 0, dict.fromkeys(REPORTED, math.nan))], 0
        for update in tqdm(range(updates), desc=f"{reward_mode}, seed {seed}", disable=None):
            batch = collect_batch(trained, envs, gamma=settings.gamma, generator=generator)
            steps += int(batch.active.sum())
            report = learner.learn(batch)
            if (update + 1) % interval == 0 or update + 1 == updates:
                curve.append(row(update, steps, report))
    return trained, curve


REPORTED = ("training_success_rate", "loss", "entropy")


def _initial_model(seed: int) -> ActorCritic:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RecurrentActorCritic()


class _Learner:
    """A model, its optimizer, and the loss."""

    def __init__(self, model: ActorCritic, reward_mode: str, settings: ActorCriticSettings) -> None:
        self.model, self.reward_mode, self.settings = model, reward_mode, settings
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.learning_rate, fused=True)

    def learn(self, batch: Batch) -> dict[str, float]:
        """Use a batch for all epochs; what the last of them met."""
        credit = None
        for _ in range(self.settings.epochs):
            logits, values, _ = self.model(batch.observations, batch.previous_actions)
            credit = credit or self._credit(batch, values)
            loss, entropy = self._loss(batch, logits[:, :-1], values[:, :-1], credit)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_gradient_norm)
            self.optimizer.step()
        reported = (float(batch.success.mean()), loss.item(), entropy.item())
        return dict(zip(REPORTED, reported, strict=True))

    def _credit(self, batch: Batch, values: Tensor) -> "_Credit":
        estimates = values.detach().double().numpy()  # [N, T + 1]
        advantages = generalized_advantages(
            batch.rewards(self.reward_mode),
            estimates[:, :-1],
            estimates[:, 1:],
            self.settings.gamma,
            self.settings.lam,
            terminated=batch.terminated,
            truncated=batch.truncated,
        )
        taken = advantages[batch.active]
        normalised = (advantages - taken.mean()) / (taken.std() + 1e-8)
        return _Credit(
            _float(np.where(batch.active, normalised, 0.0)), _float(advantages + estimates[:, :-1])
        )

    def _loss(
        self, batch: Batch, logits: Tensor, values: Tensor, credit: "_Credit"
    ) -> tuple[Tensor, Tensor]:
        active = torch.from_numpy(batch.active)
        logprobs = logits.log_softmax(dim=-1)  # [N, T, A]
        chosen = logprobs.gather(2, batch.actions.unsqueeze(2)).squeeze(2)
        ratios = importance_ratios(chosen, batch.behavior_logprobs, active)
        # 0 · log 0 = 0, with its gradient: a model may mask an action with a logit of −inf.
        finite = logprobs.clamp(min=torch.finfo(logprobs.dtype).min)
        entropies = -(logprobs.exp() * finite).sum(dim=-1)
        terms = (
            self.settings.policy_weight * clipped_policy_terms(ratios, credit.advantages)
            + self.settings.value_weight * (values - credit.returns).square()
            - self.settings.entropy_weight * entropies
        )
        loss = aggregate_token_losses(terms, active, "token-mean")
        return loss, entropies.detach()[active].mean()


class _Credit(NamedTuple):
    """[N, T] what the loss takes as constants."""

    advantages: Tensor
    returns: Tensor


def _float(array: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(array).float()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: small models are faster so, and sums keep their order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
