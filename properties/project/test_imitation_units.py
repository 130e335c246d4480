"""Behaviour cloning, DAgger and the adding up of mistakes are what they say."""

import copy
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
pytest.importorskip("tqdm")

import torch
from scipy import stats
from torch import nn

from rlcheck.agents import dagger
from rlcheck.agents.behavior_cloning import behavior_cloning, cloning_loss
from rlcheck.agents.compounding import mistakes_by_step
from rlcheck.agents.dagger import dagger_experiment, expert_labels, expert_policy, visit_grid
from rlcheck.agents.q_networks import evaluate_grid_policy, grid_network, grid_scores
from rlcheck.envs.keydoor_grid import GOAL, STARTS, STEP_LIMIT, KeyDoorGrid, grid_tables
from rlcheck.envs.keydoor_grid_solution import (
    greedy_policy,
    rollout_returns,
    solve_grid,
    uniform_policy,
)

TABLES = grid_tables()
SMALL = {
    "seed": 3,
    "expert_episodes": 4,
    "rounds": 2,
    "learner_episodes_per_round": 3,
    "epochs": 2,
    "evaluation_episodes": 5,
}


def pairs(count=40, seed=0):
    """Observations of states that are not over, and the expert's actions there."""
    rng = np.random.default_rng(seed)
    states = rng.choice(np.flatnonzero(~TABLES.terminal), count)
    return TABLES.observation[states], expert_labels(states, np.zeros_like(states))


def weights(network):
    return [parameter.detach().clone() for parameter in network.parameters()]


def same_weights(first, second):
    return all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))


class Elsewhere:
    """What training must neither read nor change: global generators, threads."""

    def __init__(self, seed, threads):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002  the global one is meant
        self.threads_before = torch.get_num_threads()
        torch.set_num_threads(threads)
        self.before = self.now()

    @staticmethod
    def now():
        drawn = tuple(np.random.get_state()[1])  # noqa: NPY002
        return torch.get_rng_state().tolist(), drawn, torch.get_num_threads()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        untouched = self.now() == self.before
        torch.set_num_threads(self.threads_before)
        assert untouched or error[0]


# The loss.


def test_the_cloning_loss_is_the_mean_surprise():
    odds = np.array([[1, 2, 3, 4], [5, 1, 1, 1], [2, 2, 2, 2]])
    actions = [3, 0, 1]
    chances = [Fraction(int(row[a]), int(row.sum())) for row, a in zip(odds, actions, strict=True)]
    expected = -sum(math.log(chance) for chance in chances) / 3
    loss = cloning_loss(torch.tensor(odds).double().log(), torch.tensor(actions))
    assert loss.item() == pytest.approx(expected, rel=1e-14)


def test_the_gradient_of_the_cloning_loss_is_softmax_minus_onehot():
    logits = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    actions = torch.tensor([0, 3, 3, 1, 2])
    cloning_loss(logits.requires_grad_(), actions).backward()
    expected = logits.detach().softmax(1)
    expected[torch.arange(5), actions] -= 1
    assert torch.allclose(logits.grad, expected / 5, atol=1e-15)


def test_a_common_offset_of_the_logits_changes_nothing():
    logits = torch.tensor([[1.0, 2.0, 0.5, 0.0]], dtype=torch.float64)
    losses = [cloning_loss(logits + offset, torch.tensor([2])).item() for offset in (0, 2**30)]
    assert losses[0] == losses[1]


# Behaviour cloning.


def test_cloning_is_deterministic_and_leaves_the_surroundings_alone():
    runs = []
    for seed, threads in ((1, 1), (2, 3)):
        with Elsewhere(seed, threads):
            runs.append(behavior_cloning(*pairs(), seed=5, epochs=3, batch_size=16))
    (first, losses), (second, again) = runs
    assert losses == again
    assert same_weights(first, second)


def test_another_seed_clones_another_network():
    first, _ = behavior_cloning(*pairs(), seed=5, epochs=1)
    second, _ = behavior_cloning(*pairs(), seed=6, epochs=1)
    assert not same_weights(first, second)


def test_no_epoch_gives_the_initial_network():
    start = grid_network(seed=9)
    network, losses = behavior_cloning(*pairs(), seed=5, epochs=0, initial=start)
    assert losses == []
    assert same_weights(network, start)


def test_the_first_loss_of_one_batch_is_that_of_the_initial_network():
    observations, actions = pairs()
    start = grid_network(seed=9)
    _, losses = behavior_cloning(
        observations, actions, seed=5, epochs=2, batch_size=99, initial=start
    )
    logits = start(torch.tensor(observations))
    assert losses[0] == pytest.approx(cloning_loss(logits, torch.tensor(actions)).item(), rel=1e-5)
    assert losses[1] < losses[0]


def test_the_loss_of_an_epoch_is_the_mean_over_all_pairs():
    observations, actions = pairs(10)
    _, (loss,) = behavior_cloning(
        observations,
        actions,
        seed=5,
        epochs=1,
        batch_size=4,
        learning_rate=1e-12,
        initial=grid_network(seed=9),
    )
    logits = grid_network(seed=9)(torch.tensor(observations))
    assert loss == pytest.approx(cloning_loss(logits, torch.tensor(actions)).item(), rel=1e-5)


def test_networks_train_on_one_thread():
    network = Recording()
    with Elsewhere(1, threads=3):
        behavior_cloning(np.zeros((2, 2)), [0, 1], seed=1, epochs=2, initial=network)
    assert network.threads == {1}


def test_cloning_changes_neither_its_data_nor_where_it_starts():
    observations, actions = pairs()
    start = grid_network(seed=9)
    before = copy.deepcopy((observations, actions, start))
    network, _ = behavior_cloning(observations, actions, seed=5, epochs=2, initial=start)
    assert np.array_equal(observations, before[0])
    assert np.array_equal(actions, before[1])
    assert same_weights(start, before[2])
    assert not same_weights(network, start)


class Recording(nn.Module):
    """A linear policy of observations [N, 2] that remembers what it was shown."""

    def __init__(self):
        super().__init__()
        self.layer, self.seen, self.threads = nn.Linear(2, 4), [], set()

    def __deepcopy__(self, memo):
        return self

    def forward(self, observations):
        self.seen.append(observations[:, 0].tolist())
        self.threads.add(torch.get_num_threads())
        return self.layer(observations)


def test_an_epoch_goes_once_through_all_pairs_in_a_new_order():
    network = Recording()
    observations = np.stack([np.arange(10.0), np.zeros(10)], axis=1)
    behavior_cloning(observations, [0] * 10, seed=1, epochs=2, batch_size=4, initial=network)
    assert [len(batch) for batch in network.seen] == [4, 4, 2, 4, 4, 2]
    epochs = [[*itertools.chain(*network.seen[i : i + 3])] for i in (0, 3)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(10))
    assert epochs[0] != epochs[1]
    assert epochs[0] != sorted(epochs[0])


def test_the_clone_of_contradictory_actions_has_their_frequencies():
    states = np.repeat(np.flatnonzero(~TABLES.terminal)[[2, 30]], 8)
    actions = [0] * 6 + [1] * 2 + [3] * 4 + [2] * 4
    network, losses = behavior_cloning(
        TABLES.observation[states], actions, seed=1, epochs=400, batch_size=16, learning_rate=0.01
    )
    chances = torch.tensor(grid_scores(network)).softmax(1)[states[[0, 8]]].numpy()
    expected = np.array([[0.75, 0.25, 0, 0], [0, 0, 0.5, 0.5]])
    assert np.abs(chances - expected).max() < 0.01
    entropy = np.mean([stats.entropy(row) for row in expected])
    assert losses[-1] == pytest.approx(entropy, abs=0.01)


def test_the_clone_of_every_state_is_as_good_as_the_expert():
    states = np.flatnonzero(~TABLES.terminal)
    labels = expert_labels(states, states)
    network, _ = behavior_cloning(TABLES.observation[states], labels, seed=1, epochs=150)
    optimum = evaluate_grid_policy(solve_grid().policy)
    assert evaluate_grid_policy(grid_scores(network)) == optimum
    assert optimum["success_rate"] == 1.0


def test_cloning_is_silent(capfd):
    behavior_cloning(*pairs(), seed=5, epochs=2)
    dagger_experiment(**SMALL)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"observations": np.zeros((3, 14))}, r"observations has shape \(3, 14\)"),
        ({"observations": np.zeros((0, 15)), "actions": []}, r"observations has shape \(0, 15\)"),
        ({"observations": np.full((3, 15), np.nan)}, r"observations\[0, 0\] is nan"),
        ({"actions": [0, 4, 1]}, r"actions\[1\] is 4"),
        ({"actions": [0, 1, -1]}, r"actions\[2\] is -1"),
        ({"actions": [0, 1]}, r"actions has shape \(2,\)"),
        ({"seed": -1}, "seed is -1"),
        ({"epochs": -1}, "epochs is -1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"initial": nn.Linear(15, 3)}, r"initial gives logits of shape \(3, 3\)"),
        ({"initial": nn.Linear(14, 4)}, "initial cannot read float32 of shape"),
        ({"initial": nn.Linear(15, 4).double()}, "initial cannot read float32 of shape"),
    ],
)
def test_cloning_refuses(changes, says):
    given = {"observations": np.zeros((3, 15)), "actions": [0, 1, 2], "seed": 0, "epochs": 1}
    with pytest.raises(ValueError, match=says):
        behavior_cloning(**(given | changes))


def test_cloning_begins_with_a_network_only():
    with pytest.raises(TypeError, match="initial is <function"):
        behavior_cloning(*pairs(), seed=0, epochs=1, initial=lambda observations: observations)


def test_dagger_is_single_whatever_torch_takes_for_its_default():
    expected = dagger_experiment(**SMALL)
    torch.set_default_dtype(torch.float64)
    try:
        got = dagger_experiment(**SMALL)
    finally:
        torch.set_default_dtype(torch.float32)
    assert same_weights(got["network"], expected["network"])
    assert got["records"] == expected["records"]


# DAgger.


def test_the_expert_is_optimal_and_never_hesitates():
    policy = expert_policy()
    assert np.array_equal(policy, policy.astype(bool))
    assert (solve_grid().policy[policy > 0] > 0).all()
    states = np.arange(len(policy))
    for actions in (np.zeros_like(states), np.full_like(states, 3)):
        assert np.array_equal(expert_labels(states, actions), policy.argmax(axis=1))


def test_visits_follow_the_rules_and_the_policy():
    rng = np.random.default_rng(0)
    policy = rng.dirichlet([1, 1, 1, 1], len(TABLES.states))
    policy[:, 3] = 0.0
    policy /= policy.sum(axis=1, keepdims=True)
    visits = visit_grid(policy, np.resize(TABLES.start, 400), rng)
    after = TABLES.next_state[visits.states, visits.actions]
    assert np.array_equal(visits.states[:, 0], np.resize(TABLES.start, 400))
    assert np.array_equal(after[:, :-1], visits.states[:, 1:])
    assert np.array_equal(visits.active, ~TABLES.terminal[visits.states])
    assert (visits.actions < 3).all()
    counts = np.zeros_like(policy)
    np.add.at(counts, (visits.states[visits.active], visits.actions[visits.active]), 1)
    expected = counts.sum(axis=1, keepdims=True) * policy
    often = (expected[:, :3] >= 5).all(axis=1)
    statistic = ((counts - expected)[often, :3] ** 2 / expected[often, :3]).sum()
    assert stats.chi2.sf(statistic, 2 * often.sum()) > 1e-3
    assert often.sum() >= 10
    ends = [TABLES.states[state].cell == GOAL for state in after[:, -1]]
    assert visits.success.tolist() == ends


def test_a_success_on_the_last_step_counts():
    policy, (start, *_) = expert_policy(), TABLES.start
    (steps,) = rollout_returns(policy).steps[:1]
    for allowed, reached in ((steps - 1, False), (steps, True)):
        visits = visit_grid(policy, np.array([start]), np.random.default_rng(0), steps=allowed)
        assert visits.success.tolist() == [reached]


def test_an_action_of_no_probability_is_never_drawn():
    class Lowest:
        def random(self, count):
            return np.zeros(count)

    policy = np.tile([0.0, 0.25, 0.75, 0.0], (len(TABLES.states), 1))
    assert (visit_grid(policy, TABLES.start, Lowest()).actions == 1).all()


def test_in_each_round_the_last_policy_acts_by_its_probabilities(monkeypatch):
    seen = []

    def watch(policy, starts, rng, **options):
        seen.append((policy, len(starts)))
        return visit_grid(policy, starts, rng, **options)

    monkeypatch.setattr(dagger, "visit_grid", watch)
    scores = dagger_experiment(**SMALL)["scores"]
    policies = torch.tensor(scores).softmax(2).numpy()
    assert [count for _, count in seen] == [4, 5, 3, 5, 3, 5]  # shown, then evaluated and acted
    assert np.array_equal(seen[0][0], expert_policy())
    for place, number in ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2)):
        assert np.allclose(seen[place][0], policies[number], atol=1e-12)
    assert not np.allclose(policies[0], policies[1], atol=1e-3)


def test_each_round_clones_from_weights_of_its_own(monkeypatch):
    seeds = []

    def watch(*pairs, seed, **options):
        seeds.append(seed)
        return behavior_cloning(*pairs, seed=seed, **options)

    monkeypatch.setattr(dagger, "behavior_cloning", watch)
    dagger_experiment(**SMALL)
    assert len(seeds) == len(set(seeds)) == 3


def test_dagger_is_deterministic_and_leaves_the_surroundings_alone():
    runs = []
    for seed, threads in ((1, 1), (2, 3)):
        with Elsewhere(seed, threads):
            runs.append(dagger_experiment(**SMALL))
    assert runs[0]["records"] == runs[1]["records"]
    assert np.array_equal(runs[0]["scores"], runs[1]["scores"])
    other = dagger_experiment(**(SMALL | {"seed": 4}))
    assert not np.array_equal(runs[0]["scores"], other["scores"])


def test_the_expert_labels_what_the_learner_meets_and_all_is_kept():
    met = []

    def label(states, actions):
        met.append((states.copy(), actions.copy()))
        return expert_labels(states, actions)

    records = dagger_experiment(**SMALL, label=label)["records"]
    sizes = [row["dataset_size"] for row in records]
    assert [row["round"] for row in records] == [0, 1, 2]
    assert [len(states) for states, _ in met] == np.diff(sizes).tolist()
    for states, actions in met:
        assert not TABLES.terminal[states].any()
        assert set(states) & set(TABLES.start)
        # An undertrained learner acts otherwise than the expert, or nothing would be shown here.
        assert (expert_labels(states, actions) != actions).mean() > 0.2


def test_what_a_label_says_is_what_is_learned():
    def always_left(states, actions):
        return np.full_like(states, 3)

    asked = {"rounds": 1, "learner_episodes_per_round": 60, "epochs": 30}
    scores = dagger_experiment(**(SMALL | asked), label=always_left)["scores"]
    shown = {"goal": greedy_policy(scores[0]), "left": greedy_policy(scores[1])}
    before, after = (policy[~TABLES.terminal, 3].mean() for policy in shown.values())
    assert after > 0.9 > before


def test_round_0_is_plain_behaviour_cloning_of_the_expert():
    alone = dagger_experiment(**(SMALL | {"rounds": 0}))
    with_rounds = dagger_experiment(**SMALL)
    assert alone["records"] == with_rounds["records"][:1]
    trained = dagger_experiment(**(SMALL | {"rounds": 0, "epochs": 150}), expert_starts=STARTS)
    assert trained["records"][0]["success_rate"] == 1.0
    assert trained["records"][0]["loss"] < 0.05


@pytest.mark.parametrize(
    ("starts", "episodes"), [([(2, 2)], [0] * 5), ([(6, 0), (4, 0)], [3, 1, 3, 1, 3])]
)
def test_demonstrations_take_turns_over_their_starts(starts, episodes):
    steps = rollout_returns(solve_grid().policy).steps[episodes].sum()
    asked = SMALL | {"rounds": 0, "expert_episodes": 5}
    (row,) = dagger_experiment(**asked, expert_starts=starts)["records"]
    assert row["dataset_size"] == steps


def test_the_starts_of_demonstrations_may_be_an_array():
    asked = SMALL | {"rounds": 0}
    of_list, of_array = (
        dagger_experiment(**asked, expert_starts=starts)["scores"]
        for starts in ([(6, 0), (2, 2)], np.array([[6, 0], [2, 2]]))
    )
    assert np.array_equal(of_list, of_array)


def played(scores, start):
    """(success, return) of the greedy policy of [S, 4] scores in the environment itself."""
    env, total, over = KeyDoorGrid(), 0.0, False
    env.reset(start=start)
    while not over:
        action = scores[TABLES.states.index(env.state)].argmax()
        _, reward, terminated, truncated, info = env.step(action)
        total, over = total + reward, terminated or truncated
    return info["success"], total


def test_success_is_that_of_the_greedy_policy_from_every_start():
    result = dagger_experiment(**(SMALL | {"epochs": 20}), expert_starts=[(2, 2)])
    assert np.array_equal(result["scores"][-1], grid_scores(result["network"]))
    seen = set()
    for row, scores in zip(result["records"], result["scores"], strict=True):
        successes, returns = zip(*(played(scores, start) for start in STARTS), strict=True)
        assert row["success_rate"] == np.mean(successes)
        assert row["mean_return"] == pytest.approx(np.mean(returns))
        seen.add(row["success_rate"])
    assert len(seen) > 1


def test_only_measures_that_say_so_depend_on_the_evaluation_episodes():
    first = dagger_experiment(**SMALL)["records"]
    second = dagger_experiment(**(SMALL | {"evaluation_episodes": 7}))["records"]
    differing = {
        name for a, b in zip(first, second, strict=True) for name in a if a[name] != b[name]
    }
    assert differing <= {"agreement", "sampled_success_rate"}
    assert "agreement" in differing


def test_the_measures_of_the_sampling_policy_come_close_to_exact_ones():
    asked = {"rounds": 0, "epochs": 10, "evaluation_episodes": 4000}
    result = dagger_experiment(**(SMALL | asked), expert_starts=[(2, 2)])
    (row,) = result["records"]
    policy = torch.tensor(result["scores"][0]).softmax(1).numpy()
    exact = mistakes_by_step(policy, TABLES.start)
    agreement = 1 - exact.expected / exact.running.sum()
    assert row["agreement"] == pytest.approx(agreement, abs=0.02)
    assert row["sampled_success_rate"] == pytest.approx(exact.success, abs=0.03)
    assert 0.05 < exact.success < 0.95
    values = np.zeros(len(policy))
    for _ in range(3000):
        values = (policy * (TABLES.reward + 0.99 * values[TABLES.next_state])).sum(axis=1)
    assert row["sampled_value"] == pytest.approx(values[TABLES.start].mean(), abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"expert_episodes": 0}, "expert_episodes is 0"),
        ({"rounds": -1}, "rounds is -1"),
        ({"learner_episodes_per_round": 0}, "learner_episodes_per_round is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"evaluation_episodes": 0.5}, "evaluation_episodes is 0.5"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"expert_starts": [(2, 2), (0, 0)]}, r"expert_starts\[1\] is \(0, 0\)"),
        ({"expert_starts": []}, "expert_starts is empty"),
        ({"expert_starts": (6, 0)}, r"expert_starts\[0\] is 6"),
    ],
)
def test_dagger_refuses(changes, says):
    with pytest.raises(ValueError, match=says):
        dagger_experiment(**(SMALL | changes))


# How mistakes add up.


def enumerated(policy, start, steps):
    """[T] running, mistaken, first, repeated, and success, one course of actions after another."""
    wrong = solve_grid().policy == 0
    totals = np.zeros((4, steps))

    def follow(state, t, chance, mistaken):
        if TABLES.terminal[state] or t == steps:
            return chance * (TABLES.states[state].cell == GOAL)
        totals[:2, t] += chance, chance * mistaken
        success = 0.0
        for action in range(4):
            taken = chance * policy[state, action]
            if wrong[state, action]:
                totals[2 + mistaken, t] += taken
            after = TABLES.next_state[state, action]
            success += follow(after, t + 1, taken, mistaken or bool(wrong[state, action]))
        return success

    return totals, follow(start, 0, 1.0, False)


NEAR_GOAL = next(i for i, s in enumerate(TABLES.states) if s.cell == (0, 4) and s.has_key)


@pytest.mark.parametrize("start", [int(TABLES.start[0]), NEAR_GOAL])
def test_mistakes_by_step_are_those_of_all_courses_of_actions(start):
    policy = np.random.default_rng(start).dirichlet([1, 1, 1, 1], len(TABLES.states))
    curve = mistakes_by_step(policy, [start], steps=5)
    totals, success = enumerated(policy, start, 5)
    assert np.allclose(curve[:4], totals, atol=1e-14)
    assert curve.success == pytest.approx(success, abs=1e-14)
    assert (success > 0) == (start == NEAR_GOAL)


def test_the_optimal_policy_makes_no_mistake():
    curve = mistakes_by_step(solve_grid().policy, TABLES.start)
    assert curve.expected == 0
    assert curve.success == pytest.approx(1.0, abs=1e-12)
    assert curve.rate_before == 0
    assert math.isnan(curve.rate_after)
    longest = rollout_returns(solve_grid().policy).steps.max()
    assert (curve.rate[:longest] == 0).all()
    assert np.isnan(curve.rate[longest:]).all()


def test_mistakes_of_a_steady_hand_do_not_compound():
    # A share of random actions errs with about the same chance in all states.
    noise = 0.2
    policy = (1 - noise) * solve_grid().policy + noise * uniform_policy()
    wrong = noise * (solve_grid().policy == 0).mean(axis=1)
    curve = mistakes_by_step(policy, TABLES.start)
    live = wrong[~TABLES.terminal]
    assert live.min() <= np.nanmin(curve.rate) <= np.nanmax(curve.rate) <= live.max()
    assert live.min() <= curve.rate_before <= live.max()
    assert live.min() <= curve.rate_after <= live.max()


def test_what_is_said_of_several_starts_is_the_mean_over_them():
    policy = np.random.default_rng(1).dirichlet([1, 1, 1, 1], len(TABLES.states))
    together = mistakes_by_step(policy, TABLES.start)
    single = [mistakes_by_step(policy, [start]) for start in TABLES.start]
    for name in ("running", "mistaken", "first", "repeated", "success"):
        mean = np.mean([getattr(curve, name) for curve in single], axis=0)
        assert np.allclose(getattr(together, name), mean, atol=1e-15)
    assert len(together.running) == STEP_LIMIT
    assert together.expected == pytest.approx(np.mean([curve.expected for curve in single]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"policy": np.full((3, 4), 0.25)}, r"policy has shape \(3, 4\)"),
        ({"policy": np.full((len(TABLES.states), 4), 0.3)}, r"policy\[0\] sums to"),
        ({"starts": []}, r"starts has shape \(0,\)"),
        ({"starts": 3}, r"starts has shape \(\)"),
        ({"starts": [0, 999]}, r"starts\[1\] is 999"),
        ({"steps": 0}, "steps is 0"),
    ],
)
def test_adding_up_mistakes_refuses(changes, says):
    given = {"policy": uniform_policy(), "starts": TABLES.start, "steps": 3}
    with pytest.raises(ValueError, match=says):
        mistakes_by_step(**(given | changes))
