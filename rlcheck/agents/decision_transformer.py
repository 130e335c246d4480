"""Decision transformers: the actions of a log, learned given the return that was still to come."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from rlcheck._inputs import integer
from rlcheck.agents._fitting import draw_seeds
from rlcheck.agents.actor_critic import one_thread
from rlcheck.agents.decision_transformer_network import DecisionTransformer, positive
from rlcheck.agents.decision_transformer_windows import (
    Windows,
    cut_episodes,
    episode_steps,
    gather_windows,
)
from rlcheck.envs.keydoor_grid import STEP_LIMIT
from rlcheck.torch import aggregate_token_losses, stable_log_softmax

__all__ = ["decision_transformer_loss", "train_decision_transformer"]

GRADIENT_NORM = 1.0


def decision_transformer_loss(logits: Tensor, windows: Windows) -> Tensor:
    """Mean surprise at the actions of the steps that are no padding.

    L = −1/N Σ log softmax(logits_bt)[a_bt],  over the N active steps

    Args:
        logits: [B, K, A]; those at the padding change nothing.
        windows: the steps.

    Returns:
        A scalar; its gradient by a row of logits is (softmax − onehot) / N, and 0 at the padding.
    """
    active = windows.active.unsqueeze(2)
    logprobs = stable_log_softmax(torch.where(active, logits, 0.0))  # [B, K, A]
    actions = torch.where(windows.active, windows.actions, 0).unsqueeze(2)
    surprise = -logprobs.gather(2, actions).squeeze(2)  # [B, K]
    return aggregate_token_losses(surprise, windows.active, "token-mean")


def train_decision_transformer(
    episodes: Sequence[Any],
    *,
    seed: int,
    state_dim: int,
    action_dim: int,
    context_steps: int,
    epochs: int,
    batch_size: int,
    learning_rate: float = 1e-2,
    max_steps: int = STEP_LIMIT,
    return_scale: float = 0.2,
    width: int = 32,
    layers: int = 2,
    heads: int = 2,
) -> tuple[DecisionTransformer, list[float]]:
    """Fit a decision transformer to logged episodes, by Adam on `decision_transformer_loss`.

    Every epoch cuts the episodes into windows anew, and goes once through all steps. The learning
    rate falls linearly to 0. It is deterministic: one seed gives one result on one machine,
    whatever torch's global generator holds.

    Args:
        episodes: with `transitions`, each of them with `observation` [D], `action` and `reward`.
        seed: an integer ≥ 0; initial weights, cuts and orders are drawn from it.
        state_dim: D, ≥ 1.
        action_dim: A ≥ 1; actions are integers from 0 to A − 1.
        context_steps: K ≥ 1, steps of a window.
        epochs: how many, ≥ 0.
        batch_size: windows of one gradient step, ≥ 1; the last step of an epoch takes what is left.
        learning_rate: of Adam at the beginning, > 0.
        max_steps: how long an episode may be, ≥ 1, here and when the model acts.
        return_scale: what returns to go are divided by before they are embedded, > 0.
        width: of the embeddings, ≥ 1; a multiple of the heads.
        layers: blocks of the transformer, ≥ 1.
        heads: of the attention, ≥ 1.

    Returns:
        (model, losses): the model, and the mean loss of each epoch.

    Raises:
        ValueError: a number is out of range, or the episodes do not fit; the text names it.

    Reference:
        Chen et al. (2021), Decision Transformer, algorithm 1.
    """
    context_steps = integer("context_steps", context_steps, minimum=1)
    batch_size = integer("batch_size", batch_size, minimum=1)
    epochs = integer("epochs", epochs, minimum=0)
    losses = torch.zeros(epochs, dtype=torch.float64)
    rate = positive("learning_rate", learning_rate)
    weights, order = draw_seeds(seed, 2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(weights)
        model = DecisionTransformer(
            state_dim,
            action_dim,
            max_steps=max_steps,
            return_scale=return_scale,
            width=width,
            layers=layers,
            heads=heads,
        )
    steps = episode_steps(
        episodes,
        state_dim=model.state_dim,
        action_dim=model.action_dim,
        max_steps=model.max_steps,
    )
    generator = torch.Generator().manual_seed(order)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    with one_thread():
        for epoch in tqdm(range(epochs), desc="decision transformer", disable=None, leave=False):
            cuts = cut_episodes(steps.bounds, context_steps, generator)
            for first in range(0, len(cuts), batch_size):
                optimizer.param_groups[0]["lr"] = rate * (1 - (epoch + first / len(cuts)) / epochs)
                part = cuts[first : first + batch_size]
                windows = gather_windows(steps, part, context_steps)
                share = windows.active.sum().float() / len(steps.actions)
                losses[epoch] += _learn(model, optimizer, windows) * share
    return model, losses.tolist()


def _learn(
    model: DecisionTransformer, optimizer: torch.optim.Optimizer, windows: Windows
) -> Tensor:
    """One gradient step; the loss before it."""
    loss = decision_transformer_loss(model(windows), windows)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
    optimizer.step()
    return loss.detach()
