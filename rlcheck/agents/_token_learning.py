"""Losses of the learners of the toy language, and the loop that follows them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from tqdm import tqdm

from rlcheck import collector_target
from rlcheck.agents._token_language import TokenBatch
from rlcheck.agents._token_networks import TokenValues
from rlcheck.agents.actor_critic import one_thread
from rlcheck.torch import (
    aggregate_token_losses,
    causal_response_logprobs,
    cql_discrete_penalty,
    expectile_loss,
)

__all__ = ["approach", "cloning_loss", "critic_loss", "fit"]


def cloning_loss(logits: Tensor, batch: TokenBatch) -> Tensor:
    """−log π(token), a mean over the tokens of the answers; those of the prompts carry no loss."""
    selected, mask = causal_response_logprobs(logits, batch.ids, batch.response_mask)
    return _log_mean(-selected, mask, batch.counts)


def critic_loss(
    values: TokenValues,
    target_values: TokenValues,
    batch: TokenBatch,
    *,
    gamma: float,
    expectile: float,
    conservatism: float,
) -> Tensor:
    """Loss of implicit Q-learning, a token a step.

    (Q(s, a) − (r + γ V'(s a)))² + |τ − 1[u < 0]| u² + α (log Σ_b exp Q(s, b) − Q(s, a))

    with u = Q'(s, a) − V(s), a mean over the tokens a of the answers; s is what stands before a,
    and an end token does not bootstrap. The last term keeps words low that the log never has at s.

    Args:
        values: Q [N, L, W] and V [N, L] of the critic.
        target_values: Q' and V' of the critic that follows it, constants.
        batch: of the log.
        gamma: discount of a token.
        expectile: τ in (0, 1).
        conservatism: α ≥ 0.

    Reference:
        Snell et al. (2022), Offline RL for natural language generation with implicit language
        Q learning, section 4.
    """
    written = batch.ids[:, 1:, None]  # [N, L − 1, 1]
    chosen = values.q[:, :-1].gather(2, written)[..., 0]  # [N, L − 1]
    target_chosen = target_values.q.detach()[:, :-1].gather(2, written)[..., 0]
    backups = collector_target(
        batch.rewards[:, 1:],
        target_values.v[:, 1:],
        gamma=gamma,
        terminated=batch.terminated[:, 1:],
    )
    errors = chosen - torch.as_tensor(backups, dtype=chosen.dtype)
    shortfalls = expectile_loss(target_chosen - values.v[:, :-1], expectile, reduction="none")
    excess = cql_discrete_penalty(values.q[:, :-1].flatten(0, 1), written.flatten())
    terms = errors.square() + shortfalls + conservatism * excess.view_as(errors)
    return _log_mean(terms, batch.response_mask[:, 1:], batch.counts)


def _log_mean(terms: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    """Mean over the tokens of the whole log: a row counts as often as the log has it."""
    weights = counts[:, None].expand_as(terms)
    total = aggregate_token_losses(weights * terms, mask, "token-mean")
    return total / aggregate_token_losses(weights, mask, "token-mean")


@one_thread()
def fit(
    model: nn.Module,
    loss: Callable[[], Tensor],
    *,
    epochs: int,
    updates_per_epoch: int,
    learning_rate: float,
    description: str,
    follow: Callable[[], None] | None = None,
) -> None:
    """Train a model in place with Adam, whose learning rate falls to 0 in a straight line.

    `follow` is called after every update.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    updates = max(epochs * updates_per_epoch, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 - done / updates)
    for _ in tqdm(range(epochs), desc=description, disable=None, leave=False):
        for _ in range(updates_per_epoch):
            optimizer.zero_grad()
            loss().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            if follow is not None:
                follow()


@torch.no_grad()
def approach(target: nn.Module, model: nn.Module, *, rate: float) -> None:
    """Move every weight of the target this share of the way to the model's."""
    for follower, weight in zip(target.parameters(), model.parameters(), strict=True):
        follower.lerp_(weight, rate)
