"""DQN on the key-door grid: its targets, its exploration, and what training does and returns."""

import io
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
pytest.importorskip("tqdm")

import torch
from scipy import stats

from properties.grid_map import START_PLACES, STARTS, shortest_way
from rlcheck.agents.dqn import train_online_dqn
from rlcheck.agents.exploration import CountedExploration
from rlcheck.agents.overestimation import max_q_overestimation
from rlcheck.agents.q_learner import DqnSettings, QLearner
from rlcheck.agents.q_networks import evaluate_grid_policy, grid_network, grid_scores
from rlcheck.agents.replay import ReplayBatch, ReplayBuffer
from rlcheck.envs.keydoor_grid import KeyDoorGrid, grid_tables
from rlcheck.envs.keydoor_grid_solution import solve_grid
from rlcheck.torch import double_dqn_targets

TABLES = grid_tables()
REACHABLE_PAIRS = 58 * 4
FEW = DqnSettings(warm_up=20, batch_size=8, hidden_size=8)


@pytest.fixture(autouse=True)
def _torch_as_it_was():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def trained(**options: Any) -> dict[str, Any]:
    return train_online_dqn(**{"seed": 0, "episodes": 3, "settings": FEW} | options)


def outcome(**options: Any) -> str:
    """All that a short training comes to."""
    result = trained(**options)
    weights = torch.cat([p.flatten() for p in result["network"].parameters()]).tolist()
    return repr((weights, result["curve"], result["success"].tolist(), result["steps"]))


# The targets.


def batch(**columns: Any) -> ReplayBatch:
    """Four windows; the third is terminal."""
    states = np.array([3, 10, 20, 40])
    return ReplayBatch(
        **{
            "observations": TABLES.observation[states],
            "actions": np.array([0, 1, 2, 3]),
            "rewards": np.array([0.5, -1.0, 2.0, 0.0]),
            "discounts": np.array([0.9, 0.81, 0.729, 0.9]),
            "next_observations": TABLES.observation[states + 1],
            "terminal": np.array([False, False, True, False]),
        }
        | columns
    )


def apart() -> QLearner:
    """A learner whose two networks differ."""
    learner = QLearner(1, FEW)
    learner.network.load_state_dict(grid_network(seed=3, hidden_size=8).state_dict())
    return learner


def values(network: Any, given: ReplayBatch) -> list[list[float]]:
    with torch.no_grad():
        return network(torch.from_numpy(given.next_observations)).tolist()


def test_dqn_takes_the_slow_networks_highest_value_discounted_by_the_window():
    learner, given = apart(), batch()
    slow = values(learner.slow, given)
    expected = [
        reward + (0 if terminal else discount * max(row))
        for reward, terminal, discount, row in zip(
            given.rewards, given.terminal, given.discounts, slow, strict=True
        )
    ]
    assert learner.targets(given).tolist() == pytest.approx(expected, abs=1e-6)


def test_double_dqn_lets_the_network_choose_what_the_slow_one_values():
    learner, given = apart(), batch()
    learner.rule = double_dqn_targets
    fast, slow = values(learner.network, given), values(learner.slow, given)
    chosen = [row.index(max(row)) for row in fast]
    assert chosen != [row.index(max(row)) for row in slow]  # or the two rules are one
    expected = [
        reward + (0 if terminal else discount * row[action])
        for reward, terminal, discount, row, action in zip(
            given.rewards, given.terminal, given.discounts, slow, chosen, strict=True
        )
    ]
    assert learner.targets(given).tolist() == pytest.approx(expected, abs=1e-6)


def test_a_rule_sees_both_values_discounted_and_gamma_1():
    learner, given, seen = apart(), batch(), []
    learner.rule = lambda *arguments: (seen.append(arguments), arguments[0])[1]
    assert learner.targets(given).tolist() == given.rewards.tolist()
    ((rewards, terminal, online, slow, gamma),) = seen
    assert gamma == 1.0
    assert terminal.tolist() == given.terminal.tolist()
    for got, network in ((online, learner.network), (slow, learner.slow)):
        expected = np.array(values(network, given)) * given.discounts[:, np.newaxis]
        assert got.numpy() == pytest.approx(expected, abs=1e-6)
    assert not any(tensor.requires_grad for tensor in (rewards, online, slow))


def flat(network: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_a_gradient_step_moves_the_slow_network_a_share_of_the_way():
    learner = apart()
    before, slow = flat(learner.network), flat(learner.slow)
    learner.learn(batch())
    after = flat(learner.network)
    assert not torch.equal(before, after)
    assert torch.allclose(flat(learner.slow), slow + FEW.target_rate * (after - slow), atol=1e-6)
    assert learner.updates == 1


def test_only_the_value_of_the_action_that_was_taken_is_pulled():
    learner = apart()
    learner.optimizer = torch.optim.SGD(learner.network.parameters(), lr=0.0)
    learner.learn(batch(actions=np.array([2, 2, 2, 2])))
    gradient = learner.network[-1].bias.grad
    assert gradient[2] != 0
    assert gradient[[0, 1, 3]].tolist() == [0, 0, 0]


@pytest.mark.parametrize("size", [0.25, 50.0])
def test_the_error_is_squared_however_large(size):
    """Its derivative grows with it; Huber's ends at 1."""
    learner, given = apart(), batch(rewards=np.full(4, size), actions=np.full(4, 2))
    learner.optimizer = torch.optim.SGD(learner.network.parameters(), lr=0.0)
    with torch.no_grad():
        said = learner.network(torch.from_numpy(given.observations))[:, 2]
    expected = 2 * (said - learner.targets(given)).mean()
    learner.learn(given)
    assert learner.network[-1].bias.grad[2].item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_learner_that_is_slowed_down_to_a_stop_stands_still():
    learner = apart()
    learner.slow_down(0.0)
    before = flat(learner.network)
    learner.learn(batch())
    assert torch.equal(before, flat(learner.network))


# Exploration.


def test_what_is_unknown_is_worth_1_and_less_for_each_step_to_it():
    chain = CountedExploration(4, 1, gamma=0.5)  # 0 → 1 → 2 → 3
    for state in (2, 1, 0):
        chain.observe(state, 0, state + 1, False)
    assert chain.values[:, 0].tolist() == [0.125, 0.25, 0.5, 1.0]


def test_behind_a_terminal_state_there_is_nothing_to_find_out():
    task = CountedExploration(2, 2)
    task.observe(0, 1, 1, True)
    assert task.values[0].tolist() == [1.0, 0.0]


def test_an_action_is_known_once_it_was_taken_often_enough():
    task = CountedExploration(2, 1, known=3)
    for expected in (1.0, 1.0, 0.0):
        task.observe(0, 0, 1, True)
        assert task.values[0, 0] == expected
    assert task.counts[0, 0] == 3


def test_it_finds_every_action_of_the_grid_within_reach_and_rests_then():
    rng, explored = np.random.default_rng(0), CountedExploration(84, 4, gamma=0.95)
    for _ in range(40):
        state = int(rng.choice(TABLES.start))
        for _ in range(60):
            action = int(explored.values[state].argmax())
            after = int(TABLES.next_state[state, action])
            explored.observe(state, action, after, bool(TABLES.terminal[after]))
            state = after
            if TABLES.terminal[state]:
                break
    assert (explored.counts > 0).sum() == REACHABLE_PAIRS
    assert explored.values[explored.counts > 0].max() < 0.01


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"states": 0}, "states is 0"),
        ({"actions": 0}, "actions is 0"),
        ({"known": 0}, "known is 0"),
        ({"gamma": 1.0}, "gamma is 1"),
        ({"gamma": -0.1}, "gamma is -0.1"),
    ],
)
def test_exploration_refuses(options, says):
    with pytest.raises(ValueError, match=says):
        CountedExploration(**{"states": 3, "actions": 2, **options})


# Overestimation.


@pytest.mark.parametrize("gamma", [0.5, 0.95])
def test_overestimation_is_that_of_the_highest_value_where_it_matters(gamma):
    exact = solve_grid(gamma).q_values
    assert max_q_overestimation(exact, gamma=gamma) == pytest.approx(0, abs=1e-12)
    assert max_q_overestimation(exact + 0.25, gamma=gamma) == pytest.approx(0.25)
    lower = np.where(exact < exact.max(axis=1, keepdims=True), exact - 5, exact)
    assert max_q_overestimation(lower, gamma=gamma) == pytest.approx(0, abs=1e-12)


def test_overestimation_leaves_out_terminal_states_and_those_out_of_reach():
    exact, changed = solve_grid(0.95).q_values, []
    for state in range(len(exact)):
        moved = exact.copy()
        moved[state] += 58.0
        changed.append(max_q_overestimation(moved, gamma=0.95))
    assert Counter(round(value, 9) for value in changed) == {1.0: 58, 0.0: 26}
    behind = TABLES.states.index((0, 6 - 1, False))  # the door is shut without the key
    assert changed[behind] == pytest.approx(0)


def test_overestimation_refuses():
    with pytest.raises(ValueError, match=r"q_values has shape \(3, 4\)"):
        max_q_overestimation(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="gamma is 1"):
        max_q_overestimation(np.zeros((84, 4)), gamma=1.0)


# Training.


def test_training_solves_the_grid():
    for double in (False, True):
        result = train_online_dqn(seed=0, double=double, evaluation_interval=2, stop_at_success=1.0)
        assert result["evaluation"]["success_rate"] == 1.0
        assert len(result["success"]) < 130  # it stopped there
        assert result["curve"][-2]["success_rate"] < 1.0


def test_a_seed_gives_one_result_whatever_torch_was_told_before():
    outcomes = []
    for seed, threads in ((1, 1), (2, 2)):
        torch.manual_seed(seed)
        torch.set_num_threads(threads)
        state = torch.get_rng_state()
        outcomes.append(outcome())
        assert torch.get_num_threads() == threads
        assert torch.equal(torch.get_rng_state(), state)
    assert outcomes[0] == outcomes[1]


def test_seeds_and_learners_differ():
    assert len({outcome(), outcome(seed=1), outcome(double=True)}) == 3


def test_training_is_single_whatever_torch_takes_for_its_default():
    expected = outcome()
    torch.set_default_dtype(torch.float64)
    try:
        assert outcome() == expected
    finally:
        torch.set_default_dtype(torch.float32)


def test_training_returns_what_it_did():
    steps = []

    class Counting(KeyDoorGrid):
        def step(self, action):
            steps.append(action)
            return super().step(action)

    result = trained(episodes=5, evaluation_interval=2, environment=Counting)
    assert [row["episode"] for row in result["curve"]] == [2, 4, 5]
    assert result["steps"] == result["curve"][-1]["environment_steps"] == len(steps)
    assert result["updates"] == result["curve"][-1]["update"] == (len(steps) - 20) // 2 + 1
    assert result["success"].shape == (5,)
    assert set(result["success"]) <= {0.0, 1.0}
    assert np.array_equal(result["q_values"], grid_scores(result["network"]))
    expected = evaluate_grid_policy(result["q_values"], gamma=FEW.gamma)
    expected["overestimation"] = max_q_overestimation(result["q_values"], gamma=FEW.gamma)
    assert result["evaluation"] == expected
    assert {name: result["curve"][-1][name] for name in expected} == expected


def test_success_is_that_of_each_episode():
    class Won(KeyDoorGrid):
        def step(self, action):
            *answer, info = super().step(action)
            return *answer, info | {"success": True}

    assert trained(environment=Won)["success"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("symbol", "success"), [("G", 1.0), ("T", 0.0)])
def test_success_is_the_goal_and_no_trap(symbol, success):
    class Led(KeyDoorGrid):
        def reset(self, **asked):
            begun = super().reset(**asked)
            self.way = iter(shortest_way(START_PLACES[STARTS.index(self.state.cell)], symbol))
            return begun

        def step(self, action):
            return super().step(next(self.way))

    assert trained(environment=Led)["success"].tolist() == [success] * 3


def test_a_share_of_the_actions_is_drawn():
    """With ε = 1 all of them are, evenly; with ε = 0 none, which differs."""
    actions: list[int] = []

    class Watching(KeyDoorGrid):
        def step(self, action):
            actions.append(action)
            return super().step(action)

    settings = replace(FEW, epsilon=1.0, warm_up=10_000)
    trained(episodes=40, settings=settings, environment=Watching)
    assert len(actions) > 400
    assert stats.chisquare(np.bincount(actions, minlength=4)).pvalue > 1e-3
    actions.clear()
    trained(episodes=40, settings=replace(settings, epsilon=0.0), environment=Watching)
    assert stats.chisquare(np.bincount(actions, minlength=4)).pvalue < 1e-6


def test_a_step_is_stored_with_what_it_ended_in_and_how(monkeypatch):
    stored = []
    add = ReplayBuffer.add
    monkeypatch.setattr(
        ReplayBuffer, "add", lambda self, *step: (stored.append(step), add(self, *step))[1]
    )
    trained(environment=lambda seed: KeyDoorGrid(seed, step_limit=7), episodes=9)
    ends = [number for number, step in enumerate(stored) if step[4] or step[5]]
    assert len(ends) == 9
    seen = {tuple(observation) for observation in TABLES.observation}
    for number, (before, action, reward, after, terminated, truncated) in enumerate(stored):
        assert {tuple(before), tuple(after)} <= seen
        (state,) = np.flatnonzero((TABLES.observation == before).all(axis=1))
        reached = TABLES.next_state[state, action]
        assert np.array_equal(after, TABLES.observation[reached])
        assert reward == TABLES.reward[state, action]
        assert terminated == TABLES.terminal[reached]
        assert truncated == (number in ends and not terminated)


def test_balanced_replay_gives_every_pair_the_same_weight(monkeypatch):
    """Unless the oldest of its steps were overwritten: then it weighs less."""
    seen = []
    sample = ReplayBuffer.sample

    def watch(self, count, rng, *, weights=None):
        held = self.windows()
        totals: dict[Any, float] = defaultdict(float)
        if weights is not None:
            for row, action, weight in zip(held.observations, held.actions, weights, strict=True):
                totals[tuple(row), action] += weight
        seen.append(totals)
        return sample(self, count, rng, weights=weights)

    monkeypatch.setattr(ReplayBuffer, "sample", watch)
    trained()
    assert len(seen) > 10
    assert all(total == pytest.approx(1) for totals in seen for total in totals.values())
    seen.clear()
    trained(settings=DqnSettings(capacity=25, warm_up=20, batch_size=8, hidden_size=8))
    assert max(total for totals in seen for total in totals.values()) <= 1 + 1e-9
    seen.clear()
    trained(settings=DqnSettings(balanced=False, warm_up=20, batch_size=8, hidden_size=8))
    assert not any(seen)


def test_the_buffer_is_as_the_settings_have_it(monkeypatch):
    seen = set()
    sample = ReplayBuffer.sample

    def watch(self, count, rng, *, weights=None):
        seen.add((self.gamma, self.n_step, self.capacity, count))
        return sample(self, count, rng, weights=weights)

    monkeypatch.setattr(ReplayBuffer, "sample", watch)
    trained(settings=DqnSettings(gamma=0.7, n_step=3, capacity=50, batch_size=5, warm_up=20))
    assert seen == {(0.7, 3, 50, 5)}


def test_the_learning_rate_falls_with_the_episodes(monkeypatch):
    left = []
    monkeypatch.setattr(QLearner, "slow_down", lambda self, share: left.append(share))
    trained(episodes=4)
    assert left == [1.0, 0.75, 0.5, 0.25]


def test_a_failing_environment_leaves_torch_as_it_was():
    class Broken(KeyDoorGrid):
        def step(self, action):
            raise RuntimeError("the lock is jammed")

    torch.set_num_threads(2)
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="jammed"):
        trained(environment=Broken)
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), state)


def test_training_says_nothing_to_what_is_no_terminal(capsys):
    trained()
    assert capsys.readouterr() == ("", "")


def test_training_shows_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    trained(seed=12, double=True)
    assert "double DQN, seed 12: 100%" in terminal.getvalue()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"episodes": 0}, "episodes is 0"),
        ({"evaluation_episodes": 0}, "evaluation_episodes is 0"),
        ({"evaluation_interval": 0}, "evaluation_interval is 0"),
        ({"stop_at_success": 1.5}, "stop_at_success is 1.5"),
    ],
)
def test_training_refuses(options, says):
    with pytest.raises(ValueError, match=says):
        trained(**options)


@pytest.mark.parametrize("value", [None, "no", 1])
def test_balanced_is_true_or_false(value):
    with pytest.raises(TypeError, match=f"balanced is {value!r}"):
        DqnSettings(balanced=value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"double": "no"}, "double is 'no'"),
        ({"double": None}, "double is None"),
        ({"settings": {}}, "settings is {}; a DqnSettings"),
        ({"settings": 3}, "settings is 3"),
    ],
)
def test_training_refuses_what_is_of_another_kind(options, says):
    with pytest.raises(TypeError, match=says):
        trained(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gamma": 1.0}, "gamma is 1"),
        ({"epsilon": 1.1}, "epsilon is 1.1"),
        ({"target_rate": -0.1}, "target_rate is -0.1"),
        ({"learning_rate": -1.0}, "learning_rate is -1"),
        ({"exploration": float("nan")}, "exploration is nan"),
        ({"n_step": 0}, "n_step is 0"),
        ({"batch_size": 1.5}, "batch_size is 1.5"),
        ({"warm_up": 0}, "warm_up is 0"),
    ],
)
def test_settings_refuse(options, says):
    with pytest.raises(ValueError, match=says):
        DqnSettings(**options)
