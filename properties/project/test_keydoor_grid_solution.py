"""The exact solution of the key-door grid is exact.

Its values are held against sums over the steps of a walk on the map, and against closed forms.
"""

import functools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gymnasium")

from properties.grid_map import MAP, Place, shortest_way
from rlcheck import discounted_return, potential_shaping
from rlcheck.envs import KeyDoorGrid
from rlcheck.envs.keydoor_grid import GridState, grid_tables
from rlcheck.envs.keydoor_grid_solution import (
    greedy_policy,
    policy_q_values,
    policy_rows,
    policy_values,
    rollout_returns,
    solve_grid,
    start_value,
    uniform_policy,
)
from rlcheck.grading.compare import exact

TABLES = grid_tables()
STATES = len(TABLES.states)
NAN, INF = float("nan"), float("inf")
GAMMAS = (0.99, 0.9, 0.5, 0.0, 0.1, 0.999)
PAID = {"G": Fraction(99, 100), "T": Fraction(-101, 100)}
COST = Fraction(-1, 100)
PLACES = [
    next(place for i in range(len(MAP)) if (place := Place(i, s.has_key)).cell == s.cell)
    for s in TABLES.states
]
INDEX = {place: number for number, place in enumerate(PLACES)}
AFTER = [[p if p.over else p.after(a) for a in range(4)] for p in PLACES]  # by the map
RIGHTMOST = TABLES.states.index(GridState(0, 5, True))  # the goal is on its right, a wall above

seeds = st.integers(0, 2**32 - 1)
gammas = st.sampled_from(GAMMAS)


def drawn_policy(seed: int) -> np.ndarray[Any, Any]:
    """[S, 4] distributions in quarters; many of them take one action for certain."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(4, size=(STATES, 4))
    picks[rng.random(STATES) < 0.5] = picks[0, 0]
    return (picks[:, :, np.newaxis] == np.arange(4)).mean(axis=1)


def biased_policy(seed: int, share: float = 0.8) -> np.ndarray[Any, Any]:
    """[S, 4] the optimal policy, in some states another one."""
    rng = np.random.default_rng(seed)
    other = np.eye(4)[rng.integers(4, size=STATES)]
    return np.where(rng.random((STATES, 1)) < share, solve_grid().policy, other)


def paid(before: Place, after: Place) -> Fraction:
    """The reward of a step on the map."""
    return Fraction(0) if before.over else PAID.get(after.tile, COST)


def series(policy: np.ndarray[Any, Any], gamma: float, steps: int) -> list[Fraction]:
    """[S] what the first steps bring, by Σ_t γ^t P^t r in rational numbers."""
    chances = [[exact(chance) for chance in row] for row in policy.tolist()]
    values = [Fraction(0)] * STATES
    for _ in range(steps):
        values = [
            sum(
                (
                    chance * (paid(place, after) + exact(gamma) * values[INDEX[after]])
                    for chance, after in zip(row, afters, strict=True)
                    if chance and not place.over
                ),
                Fraction(0),
            )
            for place, row, afters in zip(PLACES, chances, AFTER, strict=True)
        ]
    return values


# Values of policies


@pytest.mark.parametrize("gamma", [0.5, 0.25, 0.125])
@pytest.mark.parametrize("seed", range(3))
def test_values_are_what_the_series_of_powers_tends_to(seed: int, gamma: float) -> None:
    policy, steps = drawn_policy(seed), 48
    got = policy_values(policy, gamma=gamma)
    summed = [float(value) for value in series(policy, gamma, steps)]
    tail = gamma**steps * 1.01 / (1 - gamma)
    assert abs(got - summed).max() <= tail + 1e-14


@given(seed=seeds, gamma=gammas)
def test_values_solve_bellmans_equation_on_the_map(seed: int, gamma: float) -> None:
    policy = drawn_policy(seed)
    got = policy_values(policy, gamma=gamma)
    for place, row, afters, value in zip(PLACES, policy, AFTER, got, strict=True):
        terms = [
            chance * (float(paid(place, after)) + gamma * got[INDEX[after]])
            for chance, after in zip(row, afters, strict=True)
        ]
        assert value == pytest.approx(0.0 if place.over else sum(terms), abs=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_who_waits_at_a_wall_pays_for_ever(gamma: float) -> None:
    up = np.tile([1.0, 0, 0, 0], (STATES, 1))
    got = policy_values(up, gamma=gamma)
    for number, state in enumerate(TABLES.states):
        if state.row == 0 and not TABLES.terminal[number]:
            assert got[number] == pytest.approx(-0.01 / (1 - gamma), rel=1e-12)


@given(chance=st.sampled_from((1.0, 0.5, 0.25, 0.9, 1e-3)), gamma=gammas)
def test_one_chance_a_step_of_the_goal_is_a_geometric_series(chance: float, gamma: float) -> None:
    policy = uniform_policy()
    policy[RIGHTMOST] = [1 - chance, chance, 0, 0]
    got = policy_values(policy, gamma=gamma)[RIGHTMOST]
    assert got == pytest.approx((chance - 0.01) / (1 - gamma * (1 - chance)), rel=1e-12)


@given(seed=seeds)
def test_without_a_future_a_value_is_the_reward_of_the_next_step(seed: int) -> None:
    policy = drawn_policy(seed)
    expected = (policy * TABLES.reward).sum(axis=1)
    assert policy_values(policy, gamma=0.0) == pytest.approx(expected, abs=1e-15)


@given(seed=seeds, gamma=gammas)
def test_values_of_actions_are_those_of_the_policy_that_takes_them_once(
    seed: int, gamma: float
) -> None:
    policy = drawn_policy(seed)
    values, q_values = policy_values(policy, gamma=gamma), policy_q_values(policy, gamma=gamma)
    assert (policy * q_values).sum(axis=1) == pytest.approx(values, abs=1e-12)
    for number, action in [(0, 1), (RIGHTMOST, 1), (RIGHTMOST, 0)]:
        after = INDEX[AFTER[number][action]]
        reward = float(paid(PLACES[number], AFTER[number][action]))
        assert q_values[number, action] == pytest.approx(reward + gamma * values[after], abs=1e-12)
    assert (q_values[TABLES.terminal] == 0).all()


@given(seed=seeds, gamma=gammas)
def test_the_start_value_is_the_mean_over_the_starts(seed: int, gamma: float) -> None:
    policy = drawn_policy(seed)
    values = policy_values(policy, gamma=gamma)
    at_starts = [values[INDEX[place]] for place in PLACES if place.tile == "s" and not place[1]]
    assert len(at_starts) == 4
    assert start_value(policy, gamma=gamma) == pytest.approx(np.mean(at_starts), abs=1e-15)


@pytest.mark.parametrize("excess", [9e-5, -9e-5])
def test_a_row_that_misses_1_by_a_little_is_normalised(excess: float) -> None:
    coarse = (uniform_policy() * (1 + excess)).astype(np.float32)
    exact_values = policy_values(uniform_policy())
    assert policy_values(coarse) == pytest.approx(exact_values, abs=1e-6)
    assert policy_q_values(coarse) == pytest.approx(policy_q_values(uniform_policy()), abs=1e-6)
    assert policy_rows(coarse).sum(axis=1) == pytest.approx(1, abs=1e-12)


@given(seed=seeds)
def test_a_row_that_misses_1_by_rounding_alone_stays_as_it_is(seed: int) -> None:
    chances = np.random.default_rng(seed).dirichlet(np.ones(4), STATES)
    assert (policy_rows(chances) == chances).all()


# The optimum


def goal_value(place: Place, gamma: float) -> float:
    """What the shortest way to the goal brings: its steps are charged, its last one pays 1."""
    way = len(shortest_way(place, "G"))
    return discounted_return([-0.01] * (way - 1) + [0.99], gamma) if way else 0.0


@pytest.mark.parametrize("gamma", [*GAMMAS, 1e-3, 1 - 1e-9])
def test_the_optimum_is_the_shortest_way_to_the_goal(gamma: float) -> None:
    solution = solve_grid(gamma)
    expected = [goal_value(place, gamma) for place in PLACES]
    assert solution.values == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_optimum_solves_bellmans_optimality_equation(gamma: float) -> None:
    solution = solve_grid(gamma)
    following = solution.values[TABLES.next_state]
    expected = np.where(TABLES.terminal[:, None], 0, TABLES.reward + gamma * following)
    assert solution.q_values == pytest.approx(expected, abs=1e-12)
    assert solution.values == pytest.approx(solution.q_values.max(axis=1), abs=1e-15)
    assert solution.values == pytest.approx(policy_values(solution.policy, gamma=gamma), abs=1e-11)


@pytest.mark.parametrize("gamma", [0.99, 0.9, 0.5])
def test_the_optimal_policy_takes_all_shortest_ways_with_the_same_chance(gamma: float) -> None:
    policy = solve_grid(gamma).policy
    for place, row in zip(PLACES, policy, strict=True):
        if not place.over:
            after = [goal_distance(place.after(action)) for action in range(4)]
            best = [way == min(after) for way in after]
            assert row.tolist() == [chosen / sum(best) for chosen in best]


@functools.cache
def goal_distance(place: Place) -> float:
    """Steps to the goal; none leads there from a trap."""
    return INF if place.tile == "T" else len(shortest_way(place, "G"))


@given(seed=seeds, gamma=gammas)
def test_no_policy_is_better_than_the_optimum(seed: int, gamma: float) -> None:
    best = solve_grid(gamma).values
    for policy in (drawn_policy(seed), biased_policy(seed)):
        assert (policy_values(policy, gamma=gamma) <= best + 1e-11).all()


@given(seed=seeds, gamma=gammas)
def test_a_greedy_policy_is_no_worse_in_any_state(seed: int, gamma: float) -> None:
    policy = drawn_policy(seed)
    better = greedy_policy(policy_q_values(policy, gamma=gamma))
    gain = policy_values(better, gamma=gamma) - policy_values(policy, gamma=gamma)
    assert (gain >= -1e-11).all()
    assert gain.max() > 0.01


def test_a_good_return_is_near_what_is_promised() -> None:
    returns = rollout_returns(solve_grid().policy)
    assert returns.success.all()
    assert returns.steps.tolist() == [12, 14, 15, 16]
    assert returns.returns == pytest.approx(1 - 0.01 * returns.steps, abs=1e-12)


def test_solutions_are_the_callers_own() -> None:
    spoiled = solve_grid(0.9)
    for array in spoiled:
        array[:] = 7
    assert solve_grid(0.9).values.max() < 1


# Potential-based shaping


def shaped_rewards(potential: np.ndarray[Any, Any], gamma: float) -> np.ndarray[Any, Any]:
    """[S, 4] rewards with the discounted gain in potential; nothing happens in terminal states."""
    rewards = np.zeros((STATES, 4))
    for number in np.flatnonzero(~TABLES.terminal):
        for action in range(4):
            ends = potential[[number, TABLES.next_state[number, action]]]
            rewards[number, action] = potential_shaping(
                [TABLES.reward[number, action]], ends, gamma
            )[0]
    return rewards


def iterated(rewards: np.ndarray[Any, Any], gamma: float) -> np.ndarray[Any, Any]:
    """[S, 4] optimal values of actions for other rewards, by iteration."""
    q_values = np.zeros((STATES, 4))
    for _ in range(int(np.log(1e-16) / np.log(gamma)) + 1):
        q_values = rewards + gamma * q_values.max(axis=1)[TABLES.next_state]
    return q_values


def optimal_actions(q_values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[S, 4] which actions are optimal, in states that are not terminal."""
    live = q_values[~TABLES.terminal]
    return live >= live.max(axis=1, keepdims=True) - 1e-9


@pytest.mark.parametrize("gamma", [0.9, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_shaping_leaves_optimal_actions_and_what_they_are_ahead_by(seed: int, gamma: float) -> None:
    potential = np.random.default_rng(seed).normal(size=STATES)
    potential[TABLES.terminal] = 0.0
    shaped, plain = iterated(shaped_rewards(potential, gamma), gamma), solve_grid(gamma)
    assert shaped[~TABLES.terminal] == pytest.approx(
        (plain.q_values - potential[:, np.newaxis])[~TABLES.terminal], abs=1e-11
    )
    assert (optimal_actions(shaped) == optimal_actions(plain.q_values)).all()


def test_a_potential_at_an_end_changes_what_is_optimal() -> None:
    potential = np.where(TABLES.terminal, 10.0, 0.0)  # in traps too
    shaped = iterated(shaped_rewards(potential, 0.9), 0.9)
    assert (optimal_actions(shaped) != optimal_actions(solve_grid(0.9).q_values)).any()


# Rollouts


@given(seed=seeds, limit=st.sampled_from((60, 1, 2, 12, 15, 20)), near=st.booleans())
def test_rollouts_are_what_the_environment_answers(seed: int, limit: int, near: bool) -> None:
    policy = biased_policy(seed, 0.97) if near else drawn_policy(seed)
    rolled = rollout_returns(policy, step_limit=limit)
    environment = KeyDoorGrid(step_limit=limit)
    for i, start in enumerate(KeyDoorGrid.start_positions):
        _, info = environment.reset(start=start)
        rewards, over = [], False
        while not over:
            action = int(policy[TABLES.states.index(info["state"])].argmax())
            _, reward, terminated, truncated, info = environment.step(action)
            rewards.append(reward)
            over = terminated or truncated
        assert (rolled.returns[i], rolled.steps[i]) == (sum(rewards), len(rewards))
        assert rolled.success[i] == info["success"]


# Greedy policies


def test_the_first_of_equal_scores_is_taken() -> None:
    scores = np.zeros((STATES, 4))
    scores[1] = [0, 2, 2, 1]
    scores[2] = [-INF, -INF, -3, -3]
    chosen = greedy_policy(scores).argmax(axis=1)
    assert chosen[:4].tolist() == [0, 1, 2, 0]
    assert (greedy_policy(scores).sum(axis=1) == 1).all()


def test_scores_may_come_from_a_function_of_observations() -> None:
    def score(seen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        answer = seen[:, :4] + 0.5 * seen[:, 4:8]
        seen[:] = 0  # its own copy
        return answer

    seen = TABLES.observation
    assert seen.any()
    expected = np.eye(4)[(seen[:, :4] + 0.5 * seen[:, 4:8]).argmax(axis=1)]
    assert (greedy_policy(score) == expected).all()


def test_scores_may_be_a_network_of_torch() -> None:
    torch = pytest.importorskip("torch")
    table = torch.randn(STATES, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert (greedy_policy(table).argmax(axis=1) == table.argmax(dim=1).numpy()).all()
    probabilities = table.softmax(dim=-1)  # in single precision
    double = probabilities.double()
    assert policy_values(probabilities) == pytest.approx(
        policy_values(double / double.sum(dim=-1, keepdim=True)), abs=1e-5
    )


# Refusals


def wrong_row(*row: float) -> np.ndarray[Any, Any]:
    """A policy with another row at its fourth place."""
    policy = uniform_policy()
    policy[3] = row
    return policy


SOLVERS = {
    "policy_values": policy_values,
    "policy_q_values": policy_q_values,
    "start_value": start_value,
    "rollout_returns": rollout_returns,
}


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (wrong_row(0.2, 0.2, 0.2, 0.2), r"policy\[3\] sums to 0.8"),
        (wrong_row(1.5, -0.5, 0, 0), r"policy\[3, 1\] is -0.5"),
        (wrong_row(NAN, 0, 0, 1), r"policy\[3, 0\] is nan"),
        (wrong_row(INF, 0, 0, 1), r"policy\[3, 0\] is inf"),
        (uniform_policy()[1:], rf"policy has shape \({STATES - 1}, 4\)"),
        (np.full((STATES, 5), 0.2), rf"policy has shape \({STATES}, 5\)"),
        ([0.25] * 4, r"policy has shape \(4,\)"),
        (None, "policy is None"),
        ("up", "policy is 'up'"),
    ],
)
def test_what_is_no_policy_is_refused_by_name(solver: Any, policy: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        solver(policy)


@pytest.mark.parametrize("gamma", [1, 1.0, 1.5, -0.1, NAN, "0.9", None, [0.9]])
@pytest.mark.parametrize(
    "solve",
    [
        solve_grid,
        *(
            functools.partial(SOLVERS[name], uniform_policy())
            for name in ("policy_values", "policy_q_values", "start_value")
        ),
    ],
)
def test_a_gamma_out_of_range_is_refused_by_name(solve: Any, gamma: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="gamma"):
        solve(gamma=gamma)


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        (np.zeros((STATES, 3)), rf"score has shape \({STATES}, 3\)"),
        (lambda seen: np.full((len(seen), 4), NAN), r"score\[0, 0\] is nan"),
        (lambda seen: seen, rf"score has shape \({STATES}, 15\)"),
        (None, "score is None"),
    ],
)
def test_scores_that_are_none_are_refused_by_name(scores: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        greedy_policy(scores)


@pytest.mark.parametrize("limit", [0, -1, 1.5, NAN, "60", None])
def test_a_limit_that_is_none_is_refused_by_name(limit: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=f"step_limit is {limit!r}"):
        rollout_returns(uniform_policy(), step_limit=limit)
