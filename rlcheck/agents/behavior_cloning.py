"""Behaviour cloning: the actions of a log, learned as classes of its observations."""

import copy

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from tqdm import tqdm

from rlcheck._inputs import indices_below, integer, real_array, scalar
from rlcheck.agents._options import action_logits, network_of
from rlcheck.agents.actor_critic import one_thread
from rlcheck.agents.q_networks import grid_network
from rlcheck.envs.keydoor_grid import KeyDoorGrid
from rlcheck.torch import stable_log_softmax

__all__ = ["behavior_cloning", "cloning_loss"]


def cloning_loss(logits: Tensor, actions: Tensor) -> Tensor:
    """Mean surprise at the actions of the log.

    L = −1/N Σ_n log softmax(logits_n)[a_n]

    Args:
        logits: [N, A] of the policy.
        actions: [N] int64, what the log did.

    Returns:
        A scalar; its gradient by a row of logits is (softmax − onehot) / N.

    Raises:
        ValueError: a row of logits has no log-softmax.

    Reference:
        Pomerleau (1991), Efficient training of artificial neural networks for autonomous
        navigation.
    """
    return -stable_log_softmax(logits).gather(1, actions.unsqueeze(1)).mean()


def behavior_cloning(
    observations: ArrayLike,
    actions: ArrayLike,
    *,
    seed: int,
    epochs: int,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    initial: nn.Module | None = None,
) -> tuple[nn.Module, list[float]]:
    """Fit a policy to pairs of observation and action, by Adam on `cloning_loss`.

    Every epoch goes once through all pairs, in an order of its own. It is deterministic: one seed
    gives one result on one machine, whatever torch's global generator holds.

    Args:
        observations: [N, D] finite; D is 15 unless `initial` reads something else.
        actions: [N] integers from 0 to 3.
        seed: an integer ≥ 0; initial weights and orders are drawn from it.
        epochs: how many, ≥ 0.
        batch_size: pairs of one gradient step, ≥ 1; the last step of an epoch takes what is left.
        learning_rate: of Adam, > 0.
        initial: a network from [N, D] to logits [N, 4] to start from, which itself stays as it
            is; None draws one.

    Returns:
        (network, losses): a network of logits, and the mean loss of each epoch.

    Raises:
        ValueError: a shape, an action or a number is out of range, or the initial network does not
            fit the observations; the text names it.
        TypeError: the initial network is none.
    """
    seen = real_array("observations", observations, ndim=2)
    taken = indices_below("actions", actions, KeyDoorGrid.action_dim, shape=seen.shape[:1])
    _check_pairs(seen, free_width=initial is not None)
    epochs = integer("epochs", epochs, minimum=0)
    batch_size = integer("batch_size", batch_size, minimum=1)
    if (rate := scalar("learning_rate", learning_rate)) <= 0:
        raise ValueError(f"learning_rate is {rate}; it must be > 0")
    weights, order = np.random.SeedSequence(integer("seed", seed, minimum=0)).generate_state(2)
    generator = torch.Generator().manual_seed(int(order))
    network = (
        grid_network(seed=int(weights))
        if initial is None
        else copy.deepcopy(network_of("initial", initial))
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=True)
    inputs, targets = torch.from_numpy(seen).float(), torch.from_numpy(taken)
    losses = torch.zeros(epochs, dtype=torch.float64)
    with one_thread():
        for epoch in tqdm(range(epochs), desc="behaviour cloning", disable=None, leave=False):
            shuffled = torch.randperm(len(inputs), generator=generator)
            for batch in torch.split(shuffled, batch_size):
                logits = action_logits("initial", network, inputs[batch])
                loss = cloning_loss(logits, targets[batch])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses[epoch] += loss.detach() * len(batch) / len(inputs)
    return network, losses.tolist()


def _check_pairs(seen: np.ndarray, *, free_width: bool) -> None:
    width = KeyDoorGrid.observation_dim
    if len(seen) == 0 or (seen.shape[1] != width and not free_width):
        raise ValueError(f"observations has shape {seen.shape}; it must be [N, {width}] with N ≥ 1")
