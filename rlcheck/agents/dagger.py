"""DAgger: the learner acts, the expert says what it would have done, and both are remembered."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from rlcheck._inputs import Floats, integer
from rlcheck.agents.behavior_cloning import behavior_cloning
from rlcheck.agents.q_networks import evaluate_grid_policy, grid_scores
from rlcheck.envs.keydoor_grid import GOAL, STARTS, STEP_LIMIT, Cell, grid_tables, is_start
from rlcheck.envs.keydoor_grid_solution import greedy_policy, solve_grid, start_value
from rlcheck.torch import stable_log_softmax

__all__ = ["GridVisits", "dagger_experiment", "expert_labels", "expert_policy", "visit_grid"]

States = NDArray[np.intp]
Actions = NDArray[np.intp]
Label = Callable[[States, Actions], Actions]


class GridVisits(NamedTuple):
    """Episodes that step together; what stands where `active` is false never happened."""

    states: States  # [N, T] indices in `grid_tables().states`
    actions: Actions  # [N, T]
    active: NDArray[np.bool_]  # [N, T]
    success: NDArray[np.bool_]  # [N] whether the goal was reached


def visit_grid(
    policy: Floats, starts: States, rng: np.random.Generator, *, steps: int = STEP_LIMIT
) -> GridVisits:
    """Episodes of a policy that samples its actions, one from each of the starts.

    Args:
        policy: [S, 4] probabilities.
        starts: [N] indices of states; one may stand there several times.
        rng: draws the actions.
        steps: after which an episode is cut.
    """
    tables, state = grid_tables(), np.asarray(starts)
    reached, rows = policy.cumsum(axis=1), []  # [S, 4]
    for _ in range(steps):
        drawn = rng.random(len(state)) * reached[state, -1]
        action = (drawn[:, np.newaxis] >= reached[state]).sum(axis=1)
        rows.append((state, action, ~tables.terminal[state]))
        state = tables.next_state[state, action]
    states, actions, active = (np.stack(column, axis=1) for column in zip(*rows, strict=True))
    at_goal = np.array([tables.states[index].cell == GOAL for index in state], np.bool_)
    return GridVisits(states, actions, active, at_goal)


def expert_policy() -> Floats:
    """[S, 4] the expert: of the optimal actions always the first, so that it never hesitates."""
    return greedy_policy(solve_grid().policy)


def expert_labels(states: States, actions: Actions) -> Actions:
    """[N] what the expert does in states [N], whatever the learner did there."""
    labels: Actions = expert_policy()[states].argmax(axis=1)
    return labels


def dagger_experiment(
    *,
    seed: int,
    expert_episodes: int,
    rounds: int,
    learner_episodes_per_round: int,
    epochs: int,
    evaluation_episodes: int,
    expert_starts: Sequence[Cell] | None = None,
    label: Label = expert_labels,
    batch_size: int = 32,
    learning_rate: float = 5e-3,
) -> dict[str, Any]:
    """Behaviour cloning of an expert, and then rounds of DAgger.

    Round 0 clones episodes of the exact solution. In each round after it the learner acts in
    episodes of its own, from any start; every state that it meets is labelled by the expert and
    joins the data, D ← D ∪ {(s, π*(s)) : s ~ d^π}, and a fresh policy is cloned from all of it.

    Args:
        seed: an integer ≥ 0; everything is drawn from it.
        expert_episodes: demonstrations, ≥ 1, of `expert_policy`.
        rounds: after round 0, ≥ 0.
        learner_episodes_per_round: ≥ 1; the learner draws its actions from its probabilities.
        epochs: of each round's cloning, ≥ 1.
        evaluation_episodes: ≥ 1, of the policy that draws its actions, for the measures that say
            so. The other ones, of the greedy policy over all starts, are exact and need none.
        expert_starts: cells that the demonstrations take turns to start from; None draws from all.
        label: what is learned in states [N], where the learner did actions [N].
        batch_size: of the cloning.
        learning_rate: of the cloning.

    Returns:
        `records`: for each round `round`, `dataset_size`, `loss`; what the greedy policy achieves
        over all starts, exactly, as `success_rate`, `mean_return`, `mean_steps`, `value`
        (discounted by 0.99); and of
        the policy that draws its actions `sampled_value` (exact), `sampled_success_rate` and
        `agreement`, the share of its actions in the evaluation episodes that are optimal.
        `scores` [rounds + 1, S, 4], the logits of each round's policy; `network`, the last one.

    Raises:
        ValueError: a number is out of range, or a cell is no start; the text names it.

    Reference:
        Ross, Gordon and Bagnell (2011), A reduction of imitation learning and structured
        prediction to no-regret online learning, algorithm 3.1 with β = 0 after round 0.
    """
    count = integer("expert_episodes", expert_episodes, minimum=1)
    rounds = integer("rounds", rounds, minimum=0)
    learner_episodes = integer("learner_episodes_per_round", learner_episodes_per_round, minimum=1)
    epochs = integer("epochs", epochs, minimum=1)
    evaluation_episodes = integer("evaluation_episodes", evaluation_episodes, minimum=1)
    streams = np.random.SeedSequence(integer("seed", seed, minimum=0)).spawn(3)
    acting, evaluation = (np.random.default_rng(stream) for stream in streams[:2])
    seeds = streams[2].generate_state(rounds + 1)
    shown = visit_grid(expert_policy(), _starts(expert_starts, count, acting), acting)
    states, labels = shown.states[shown.active], shown.actions[shown.active]
    records: list[dict[str, float]] = []
    scores: list[Floats] = []
    for number in tqdm(range(rounds + 1), desc=f"DAgger, seed {seed}", disable=None):
        if number:
            visits = visit_grid(
                _probabilities(scores[-1]), _drawn_starts(learner_episodes, acting), acting
            )
            met, done = visits.states[visits.active], visits.actions[visits.active]
            states = np.concatenate([states, met])
            labels = np.concatenate([labels, label(met, done)])
        network, losses = behavior_cloning(
            grid_tables().observation[states],
            labels,
            seed=int(seeds[number]),
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
        )
        scores.append(grid_scores(network))
        row = {"round": number, "dataset_size": len(states), "loss": losses[-1]}
        records.append(row | _evaluate(scores[-1], evaluation_episodes, evaluation))
    return {"records": records, "scores": np.stack(scores), "network": network}


def _evaluate(scores: Floats, episodes: int, rng: np.random.Generator) -> dict[str, float]:
    policy = _probabilities(scores)
    visits = visit_grid(policy, _drawn_starts(episodes, rng), rng)
    right = solve_grid().policy[visits.states, visits.actions] > 0
    return evaluate_grid_policy(scores) | {
        "sampled_value": start_value(policy),
        "sampled_success_rate": float(visits.success.mean()),
        "agreement": float(right[visits.active].mean()),
    }


def _probabilities(scores: Floats) -> Floats:
    probabilities: Floats = stable_log_softmax(torch.from_numpy(scores)).exp().numpy()
    return probabilities


def _drawn_starts(count: int, rng: np.random.Generator) -> States:
    return grid_tables().start[rng.integers(len(STARTS), size=count)]


def _starts(cells: Sequence[Cell] | None, count: int, rng: np.random.Generator) -> States:
    if cells is None:
        return _drawn_starts(count, rng)
    for index, cell in enumerate(cells):
        if not is_start(cell):
            raise ValueError(f"expert_starts[{index}] is {cell!r}; it must be one of {STARTS}")
    if len(cells) == 0:
        raise ValueError("expert_starts is empty; it must name a start")
    order = [grid_tables().start[STARTS.index(tuple(cell))] for cell in cells]
    return np.resize(order, count)
