"""The exact solution of the key-door task is exact.

Its values are held against sums and maxima over all courses of actions, in rational numbers, which
know neither beliefs nor tables: only the rules, one step after another.
"""

import inspect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

pytest.importorskip("gymnasium")

from properties.strategies import REALS
from rlcheck.envs import keydoor_agent_solution as solution_module
from rlcheck.envs.keydoor_agent import (
    ACTIONS,
    COLORS,
    FINISHED,
    NOTES,
    OBSERVATION_INDEX,
    OBSERVATIONS,
    OPENED,
    START,
    TAKEN,
    KeyDoorAgentEnv,
    State,
    initial_state,
    potential,
    transition,
)
from rlcheck.envs.keydoor_agent_solution import (
    BeliefSolution,
    FiniteMemoryPolicy,
    Reward,
    base_reward,
    best_memoryless_policy,
    memoryless_policy,
    policy_value,
    policy_values,
    potential_reward,
    successors,
    uniform_policy,
)
from rlcheck.grading.compare import assert_close, discounted_terms, exact, nearest_float

NAN, INF = float("nan"), float("inf")
HORIZONS = (8, 4, 3, 1, 2, 5, 6, 12)
# Away from 1, where waiting costs as little as what rounding may explain.
GAMMAS = (1.0, 0.9, 0.5, 0.0, 0.99, 0.3, 0.05)
ALL_STATES = tuple(
    itertools.starmap(
        State,
        itertools.product(
            COLORS, (False, True), (None, *COLORS, "broken"), (None, *COLORS), (False, True)
        ),
    )
)
PLACE = {state: i for i, state in enumerate(ALL_STATES)}
LARGEST = max(map(abs, REALS))
WAITING = len(ACTIONS) - 1  # all but finish, which is the last one


def numbered() -> list[State]:
    """The unfinished states, by their index in values and beliefs."""
    count = policy_values(uniform_policy(), task_horizon=1).shape[1]
    states = [BeliefSolution(1).states(((place, 1.0),)) for place in range(count)]
    return [state for (state,) in states]


STATES = numbered()

seeds = st.integers(0, 2**32 - 1)
gammas = st.sampled_from(GAMMAS)
horizons = st.sampled_from(HORIZONS)
places = st.integers(0, len(STATES) - 1)


@st.composite
def policies(draw: Any) -> FiniteMemoryPolicy:
    """Policies of 1 to 4 memory states; a fifth of the actions are never taken."""
    memories, rng = draw(st.integers(1, 4)), np.random.default_rng(draw(seeds))
    return FiniteMemoryPolicy(
        some_distributions(rng, memories),
        rng.integers(0, memories, (memories, len(ACTIONS), len(OBSERVATIONS))),
        int(rng.integers(memories)),
    )


def some_distributions(rng: np.random.Generator, rows: int) -> np.ndarray[Any, Any]:
    """[rows, A] distributions of actions."""
    weights = rng.integers(0, 5, (rows, len(ACTIONS)))
    weights[np.arange(rows), rng.integers(0, len(ACTIONS), rows)] += 1
    return weights / weights.sum(axis=1, keepdims=True)


def memoryless(seed: int) -> FiniteMemoryPolicy:
    return memoryless_policy(some_distributions(np.random.default_rng(seed), len(OBSERVATIONS)))


@st.composite
def rewards(draw: Any) -> Reward:
    """Rewards that depend on s, s′ and whether it is terminal, in no way that makes sense."""
    rng = np.random.default_rng(draw(seeds))
    table = rng.choice(REALS, (len(ALL_STATES), len(ALL_STATES), 2))
    return lambda state, after, terminal: table[PLACE[state], PLACE[after], int(terminal)]


@st.composite
def potentials(draw: Any) -> Callable[[State], float]:
    """A number for each state, finished ones too: most of them tell the hidden target."""
    table = np.random.default_rng(draw(seeds)).choice(REALS, len(ALL_STATES))
    return lambda state: float(table[PLACE[state]])


@st.composite
def weighted_states(draw: Any) -> dict[int, int]:
    """A belief of any states, in whole numbers that are not normalised."""
    chosen = draw(st.lists(places, min_size=1, max_size=4, unique=True))
    return {place: draw(st.integers(1, 4)) for place in sorted(chosen)}


def normalised(weights: dict[int, int]) -> tuple[tuple[int, float], ...]:
    total = sum(weights.values())
    return tuple((place, weight / total) for place, weight in weights.items())


# Truths


def mean_return(
    policy: FiniteMemoryPolicy,
    state: State,
    memory: int,
    horizon: int,
    gamma: float = 1.0,
    reward: Reward = base_reward,
) -> Fraction:
    """Σ of chance times return over all courses of actions."""
    courses = [(state, memory, Fraction(1), Fraction(0))]
    total = Fraction(0)
    for t in range(horizon):
        longer = []
        for (before, recalled, chance, gained), action in itertools.product(courses, ACTIONS):
            taken = ACTIONS.index(action)
            likely = chance * exact(policy.probabilities[recalled, taken])
            if likely == 0:
                continue
            after, shown, _ = transition(before, action)
            over = after.finished or t + 1 == horizon
            earned = gained + exact(gamma) ** t * exact(reward(before, after, over))
            if over:
                total += likely * earned
            else:
                seen = policy.next_memory[recalled, taken, OBSERVATION_INDEX[shown]]
                longer.append((after, int(seen), likely, earned))
        courses = longer
    return total


Cast = Sequence[tuple[State, Fraction, Fraction]]
"""What may be the case: state, weight, and weight times return so far."""


def best_returns(
    cast: Cast, left: int, gamma: Fraction, reward: Reward, discount: Fraction = Fraction(1)
) -> list[Fraction]:
    """[A] the best weighted return after each first action.

    A plan answers each history of observations with an action: the maxima over all plans, each
    worth what it has earned when it is over.
    """
    best = []
    for action in ACTIONS:
        total, shown = Fraction(0), defaultdict(list)
        for state, weight, gained in cast:
            after, observation, _ = transition(state, action)
            over = after.finished or left == 1
            earned = gained + discount * weight * exact(reward(state, after, over))
            if over:
                total += earned
            else:
                shown[observation].append((after, weight, earned))
        for group in shown.values():
            total += max(best_returns(group, left - 1, gamma, reward, discount * gamma))
        best.append(total)
    return best


def at_the_start() -> Cast:
    return [(initial_state(color), Fraction(1, 2), Fraction(0)) for color in COLORS]


def replayed(target: str, actions: Sequence[str]) -> tuple[State, tuple[str, ...]]:
    """The state after the actions, and what they show."""
    state, shown = initial_state(target), []
    for action in actions:
        state, observation, _ = transition(state, action)
        shown.append(observation)
    return state, tuple(shown)


def histories(length: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], set[State]]]:
    """Actions that do not finish, what they may show, and the states that this leaves possible."""
    for actions in itertools.product(ACTIONS[:WAITING], repeat=length):
        possible = defaultdict(set)
        for color in COLORS:
            state, shown = replayed(color, actions)
            possible[shown].add(state)
        for shown, states in possible.items():
            yield actions, shown, states


def believed(actions: Sequence[str], shown: Sequence[str]) -> tuple[tuple[int, float], ...]:
    """The belief that a history leads to, from one step to the next."""
    belief = BeliefSolution(1).start
    for action, observation in zip(actions, shown, strict=True):
        reached = successors(belief, ACTIONS.index(action))
        _, belief = reached[OBSERVATION_INDEX[observation]]
    return belief


# The value of a policy


def test_every_state_short_of_the_end_has_one_place() -> None:
    reached = {s for n in range(5) for _, _, states in histories(n) for s in states}
    assert set(STATES) == reached
    assert len(STATES) == len(reached)
    assert STATES[:2] == [initial_state(color) for color in COLORS]


@settings(max_examples=60)
@given(
    policy=policies(),
    reward=st.just(base_reward) | rewards(),
    gamma=gammas,
    horizon=st.sampled_from((2, 1, 3)),
    place=places,
)
def test_a_policys_values_are_means_over_all_courses_of_actions(
    policy: FiniteMemoryPolicy, reward: Reward, gamma: float, horizon: int, place: int
) -> None:
    values = policy_values(policy, task_horizon=horizon, gamma=gamma, reward=reward)
    memories = len(policy.probabilities)
    assert values.shape == (horizon + 1, len(STATES), memories)
    assert not values[0].any()
    bound = {"terms": horizon * LARGEST, "count": len(ACTIONS) * horizon}
    for memory, left in itertools.product(range(memories), range(1, horizon + 1)):
        truth = mean_return(policy, STATES[place], memory, left, gamma, reward)
        assert_close(values[left, place, memory], nearest_float(truth), **bound)


@settings(max_examples=15)
@given(policy=policies(), reward=st.just(base_reward) | rewards(), gamma=gammas)
def test_a_policys_value_is_its_mean_over_both_targets(
    policy: FiniteMemoryPolicy, reward: Reward, gamma: float
) -> None:
    starts = [initial_state(color) for color in COLORS]
    for horizon in (1, 3, 4):
        truths = [mean_return(policy, s, policy.start, horizon, gamma, reward) for s in starts]
        got = policy_value(policy, task_horizon=horizon, gamma=gamma, reward=reward)
        truth = nearest_float(sum(truths, Fraction(0)) / 2)
        assert_close(got, truth, terms=horizon * LARGEST, count=len(ACTIONS) * horizon)


def ways_to_succeed(steps: int) -> int:
    """How many courses of so many steps succeed with their last one, for one target.

    Up to the first key, three actions change nothing that matters: inspect and both doors. From it
    to the first door three do: inspect and both keys. Then anything goes but finish, in five ways.
    """
    free = steps - 3  # but for the key, the door and the finish
    return sum((n + 1) * 3**n * 5 ** (free - n) for n in range(free + 1))


@pytest.mark.parametrize("steps", range(1, 7))
def test_the_ways_to_succeed_are_counted_right(steps: int) -> None:
    courses = itertools.product(ACTIONS[:WAITING], repeat=steps - 1)
    states = [replayed("blue", actions)[0] for actions in courses]
    assert sum(state.door == "blue" for state in states) == ways_to_succeed(steps)


@pytest.mark.parametrize("horizon", range(1, 9))
def test_the_uniform_policy_succeeds_as_often_as_its_courses(horizon: int) -> None:
    truth = sum(Fraction(ways_to_succeed(n), 6**n) for n in range(1, horizon + 1))
    got = policy_value(uniform_policy(), task_horizon=horizon)
    assert Fraction(got).limit_denominator(6**horizon) == truth
    assert_close(got, nearest_float(truth), terms=1.0)


def recalling(courses: Sequence[str]) -> FiniteMemoryPolicy:
    """Takes these actions in a row, whatever it sees."""
    count = len(courses)
    after = np.minimum(np.arange(count) + 1, count - 1)[:, np.newaxis, np.newaxis]
    return FiniteMemoryPolicy(
        np.eye(len(ACTIONS))[[ACTIONS.index(action) for action in courses]],
        np.broadcast_to(after, (count, len(ACTIONS), len(OBSERVATIONS))),
    )


def earned(courses: Sequence[str], gamma: float, field: str | None) -> list[Fraction]:
    """The discounted rewards of both targets' episodes in the environment, halved."""
    terms = []
    for color in COLORS:
        env = KeyDoorAgentEnv(task_horizon=len(courses))
        env.reset(target=color)
        paid, terminated = [], False
        for action in courses:
            if not terminated:
                _, reward, terminated, _, info = env.step(action, gamma)
                paid.append(reward if field is None else info[field])
        assert terminated
        terms += [term / 2 for term in discounted_terms(paid, gamma)]
    return terms


@given(courses=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=7), gamma=gammas)
def test_a_played_environment_earns_what_the_solution_says(
    courses: list[str], gamma: float
) -> None:
    policy, horizon = recalling(courses), len(courses)
    for reward, field in ((base_reward, None), (potential_reward(gamma), "shaped_reward")):
        truth = sum(earned(courses, gamma, field), Fraction(0))
        got = policy_value(policy, task_horizon=horizon, gamma=gamma, reward=reward)
        assert_close(got, nearest_float(truth), terms=2.0 * horizon)


# Beliefs and the optimum


@given(weights=weighted_states(), action=st.integers(0, len(ACTIONS) - 1))
def test_a_belief_is_moved_by_bayes_rule(weights: dict[int, int], action: int) -> None:
    joint: defaultdict[int, defaultdict[State, Fraction]] = defaultdict(
        lambda: defaultdict(Fraction)
    )
    for place, weight in weights.items():
        after, shown, _ = transition(STATES[place], ACTIONS[action])
        joint[OBSERVATION_INDEX[shown]][after] += Fraction(weight, sum(weights.values()))
    reached = successors(normalised(weights), action)
    assert reached.keys() == joint.keys()
    for observed, (chance, belief) in reached.items():
        assert_close(chance, nearest_float(sum(joint[observed].values())), terms=1.0)
        posterior = {STATES[place]: weight for place, weight in belief}
        if ACTIONS[action] == "finish":
            assert posterior == {}
            continue
        assert [place for place, _ in belief] == sorted({place for place, _ in belief})
        assert posterior.keys() == joint[observed].keys()
        for state, weight in posterior.items():
            truth = joint[observed][state] / sum(joint[observed].values())
            assert_close(weight, nearest_float(truth), terms=1.0)


@pytest.mark.parametrize("horizon", [1, 2, 4, 5])
def test_the_beliefs_are_those_of_all_histories(horizon: int) -> None:
    solution, found = BeliefSolution(horizon), set()
    for length in range(horizon):
        for actions, shown, possible in histories(length):
            belief = believed(actions, shown)
            assert solution.states(belief) == dict.fromkeys(possible, 1 / len(possible))
            found.add((belief, horizon - length))
    assert set(solution.beliefs) == found
    assert len(solution.beliefs) == len(found)
    assert solution.beliefs[0] == (solution.start, horizon)


@settings(max_examples=40)
@given(
    weights=weighted_states(),
    reward=st.just(base_reward) | rewards(),
    gamma=gammas,
    left=st.integers(1, 3),
)
def test_action_values_are_maxima_over_all_plans(
    weights: dict[int, int], reward: Reward, gamma: float, left: int
) -> None:
    total = sum(weights.values())
    cast = [(STATES[p], Fraction(w, total), Fraction(0)) for p, w in weights.items()]
    truths = best_returns(cast, left, exact(gamma), reward)
    solution, belief = BeliefSolution(3, gamma=gamma, reward=reward), normalised(weights)
    got = solution.action_values(belief, left)
    assert_close(got, [float(truth) for truth in truths], terms=left * LARGEST)
    assert solution.value(belief, left) == got.max()
    chosen = solution.optimal_actions(belief, left)
    assert {a for a, t in zip(ACTIONS, truths, strict=True) if t == max(truths)} <= chosen
    close = max(truths) - exact(1e-8)
    assert chosen <= {a for a, t in zip(ACTIONS, truths, strict=True) if t >= close}


@pytest.mark.parametrize("horizon", range(1, 6))
@pytest.mark.parametrize("gamma", [1.0, 0.75, 0.5, 0.25, 0.0])
def test_the_start_is_worth_what_the_best_plan_is(horizon: int, gamma: float) -> None:
    truth = max(best_returns(at_the_start(), horizon, exact(gamma), base_reward))
    assert BeliefSolution(horizon, gamma=gamma).start_value == float(truth)


@settings(max_examples=5)
@given(reward=rewards(), gamma=gammas)
def test_the_start_is_worth_what_the_best_plan_is_for_any_reward(
    reward: Reward, gamma: float
) -> None:
    truth = max(best_returns(at_the_start(), 4, exact(gamma), reward))
    got = BeliefSolution(4, gamma=gamma, reward=reward).start_value
    assert_close(got, nearest_float(truth), terms=4 * LARGEST)


@pytest.mark.parametrize("horizon", range(1, 13))
@pytest.mark.parametrize("gamma", [1.0, 0.99, 0.9, 0.5, 0.4, 0.0])
def test_three_steps_are_a_guess_and_four_are_enough(horizon: int, gamma: float) -> None:
    guess = gamma**2 / 2 if horizon >= 3 else 0.0
    optimum = max(guess, gamma**3) if horizon >= 4 else guess
    assert_close(BeliefSolution(horizon, gamma=gamma).start_value, optimum, terms=1.0)


def test_the_way_to_success_is_what_is_optimal() -> None:
    solution = BeliefSolution(8, gamma=0.9)
    way = ("inspect", "pickup_blue", "open_blue", "finish")
    shown = (NOTES["blue"], TAKEN, OPENED)
    for done, action in enumerate(way):
        belief = believed(way[:done], shown[:done])
        assert solution.optimal_actions(belief, 8 - done) == {action}
        assert_close(solution.value(belief, 8 - done), 0.9 ** (3 - done), terms=1.0)
    assert successors(belief, WAITING) == {OBSERVATION_INDEX[FINISHED]: (1.0, ())}


@settings(max_examples=50)
@given(policy=policies(), reward=st.just(base_reward) | rewards(), gamma=gammas, horizon=horizons)
def test_no_policy_is_better_than_the_optimum(
    policy: FiniteMemoryPolicy, reward: Reward, gamma: float, horizon: int
) -> None:
    got = policy_value(policy, task_horizon=horizon, gamma=gamma, reward=reward)
    best = BeliefSolution(horizon, gamma=gamma, reward=reward).start_value
    assert got <= best + 1e-12 * horizon * LARGEST


@settings(max_examples=30)
@given(reward=st.just(base_reward) | rewards(), gamma=gammas, horizon=horizons)
def test_the_optimal_policy_attains_the_optimum(reward: Reward, gamma: float, horizon: int) -> None:
    solution = BeliefSolution(horizon, gamma=gamma, reward=reward)
    policy = solution.policy()
    assert set(np.unique(policy.probabilities)) == {0.0, 1.0}
    got = policy_value(policy, task_horizon=horizon, gamma=gamma, reward=reward)
    # Of actions that are equal within 1e-12 H max |r| it may take any, at each of H steps.
    assert_close(got, solution.start_value, terms=LARGEST, slack=1e-12 * horizon**2 * LARGEST)


@given(gamma=gammas)
def test_more_time_never_hurts(gamma: float) -> None:
    solution = BeliefSolution(9, gamma=gamma)
    for belief in {belief for belief, _ in solution.beliefs}:
        values = [solution.value(belief, left) for left in range(13)]
        assert values[0] == 0.0
        assert (np.diff(values) >= -1e-15).all()


@pytest.mark.parametrize("scale", [2.0**-60, 1e-10, 1e12])
@pytest.mark.parametrize("gamma", [1.0, 0.9, 1e-5])
def test_the_unit_of_the_reward_changes_no_choice(scale: float, gamma: float) -> None:
    def scaled(state: State, after: State, terminal: bool) -> float:
        return scale * base_reward(state, after, terminal)

    plain, other = BeliefSolution(6, gamma=gamma), BeliefSolution(6, gamma=gamma, reward=scaled)
    for belief, left in plain.beliefs:
        best = other.optimal_actions(belief, left)
        assert best == plain.optimal_actions(belief, left)
    assert_close(other.start_value, scale * plain.start_value, terms=scale)


def test_a_small_discount_prefers_the_guess() -> None:
    solution = BeliefSolution(8, gamma=1e-5)
    assert solution.optimal_actions(solution.start, 8) == {"pickup_red", "pickup_blue"}
    assert_close(policy_value(solution.policy(), task_horizon=8, gamma=1e-5), 5e-11, terms=5e-11)


def test_a_long_horizon_is_solved_too() -> None:
    assert BeliefSolution(600).start_value == 1.0


# Shaping


@settings(max_examples=40)
@given(phi=st.just(potential) | potentials(), gamma=gammas, horizon=horizons)
def test_shaping_takes_the_mean_potential_off_each_action_and_changes_no_choice(
    phi: Callable[[State], float], gamma: float, horizon: int
) -> None:
    plain = BeliefSolution(horizon, gamma=gamma)
    shaped = BeliefSolution(horizon, gamma=gamma, reward=potential_reward(gamma, phi))
    assert shaped.beliefs == plain.beliefs
    for belief, left in plain.beliefs:
        mean = sum(weight * phi(state) for state, weight in plain.states(belief).items())
        expected = plain.action_values(belief, left) - mean
        got = shaped.action_values(belief, left)
        assert_close(got, expected, terms=3 * horizon * LARGEST)
        assert shaped.optimal_actions(belief, left) == plain.optimal_actions(belief, left)


@settings(max_examples=50)
@given(policy=policies(), phi=st.just(potential) | potentials(), gamma=gammas, horizon=horizons)
def test_shaping_takes_the_potential_off_each_value_of_a_policy(
    policy: FiniteMemoryPolicy, phi: Callable[[State], float], gamma: float, horizon: int
) -> None:
    plain = policy_values(policy, task_horizon=horizon, gamma=gamma)
    reward = potential_reward(gamma, phi)
    shaped = policy_values(policy, task_horizon=horizon, gamma=gamma, reward=reward)
    taken = np.array([phi(state) for state in STATES])[:, np.newaxis]  # [S, 1]
    assert_close(shaped[1:], plain[1:] - taken, terms=3 * horizon * LARGEST, count=len(ACTIONS))


def milestones(state: State) -> float:
    """The environment's potential in whole numbers, but finishing counts as the last milestone."""
    return 4.0 if state.finished else 4 * potential(state)


def paying_progress(state: State, after: State, terminal: bool) -> float:
    """r + Φ(s′)"""
    return base_reward(state, after, terminal) + potential(after)


def without_its_discount(state: State, after: State, terminal: bool) -> float:
    """r + Φ(s′) − Φ(s)"""
    gain = (0.0 if terminal else milestones(after)) - milestones(state)
    return base_reward(state, after, terminal) + gain


def base_value_of_the_optimum(reward: Reward, horizon: int = 8, gamma: float = 0.9) -> float:
    """What a policy that is optimal for a reward is worth in the task."""
    chosen = BeliefSolution(horizon, gamma=gamma, reward=reward).policy()
    return policy_value(chosen, task_horizon=horizon, gamma=gamma)


OPEN = believed(("inspect", "pickup_red", "open_red"), (NOTES["red"], TAKEN, OPENED))


def test_a_potential_that_is_zero_at_the_end_leaves_the_optimum() -> None:
    assert_close(base_value_of_the_optimum(potential_reward(0.9, milestones)), 0.9**3, terms=1.0)


def test_a_potential_kept_at_the_end_makes_an_empty_finish_optimal() -> None:
    kept = potential_reward(0.9, milestones, terminal_is_zero=False)
    solution = BeliefSolution(8, gamma=0.9, reward=kept)
    assert solution.optimal_actions(solution.start, 8) == {"finish"}
    assert_close(solution.start_value, 4 * 0.9, terms=4.0)
    assert base_value_of_the_optimum(kept) == 0.0


def test_a_potential_kept_at_the_horizon_makes_looking_better_than_guessing() -> None:
    kept = potential_reward(1.0, terminal_is_zero=False)
    plain, solution = BeliefSolution(3), BeliefSolution(3, reward=kept)
    assert plain.optimal_actions(plain.start, 3) == {"pickup_red", "pickup_blue"}
    assert solution.optimal_actions(solution.start, 3) == {"inspect"}
    assert solution.start_value == 0.75
    assert base_value_of_the_optimum(kept, 3, 1.0) == 0.0
    assert base_value_of_the_optimum(base_reward, 3, 1.0) == 0.5


@pytest.mark.parametrize("reward", [paying_progress, without_its_discount])
def test_what_only_looks_like_shaping_makes_waiting_optimal(reward: Reward) -> None:
    assert BeliefSolution(8, gamma=0.9).optimal_actions(OPEN, 5) == {"finish"}
    chosen = BeliefSolution(8, gamma=0.9, reward=reward).optimal_actions(OPEN, 5)
    assert chosen == set(ACTIONS) - {"finish"}
    assert_close(base_value_of_the_optimum(reward), 0.9**7, terms=1.0)  # finishes at the horizon


# Policies without memory


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.3, 0.0])
@pytest.mark.parametrize("horizon", range(1, 11))
def test_without_memory_a_guess_is_best(horizon: int, gamma: float) -> None:
    value, policy = best_memoryless_policy(horizon, gamma=gamma)
    assert_close(value, gamma**2 / 2 if horizon >= 3 else 0.0, terms=1.0)
    assert_close(policy_value(policy, task_horizon=horizon, gamma=gamma), value, terms=1.0)
    assert set(np.unique(policy.probabilities)) == {0.0, 1.0}


def test_what_is_never_seen_is_answered_with_inspect() -> None:
    _, policy = best_memoryless_policy(8)
    seen, waiting = {START}, [(initial_state(color), START) for color in COLORS]
    for state, observation in waiting:  # grows while it is read
        row = policy.probabilities[OBSERVATION_INDEX[observation]]
        after, shown, _ = transition(state, ACTIONS[int(row.argmax())])
        if not after.finished and (after, shown) not in waiting:
            waiting.append((after, shown))
            seen.add(shown)
    assert seen < set(OBSERVATIONS)
    for observation in set(OBSERVATIONS) - seen:
        assert policy.probabilities[OBSERVATION_INDEX[observation], 0] == 1.0


@cache
def best_without_memory(horizon: int) -> float:
    return best_memoryless_policy(horizon)[0]


@given(rules=st.lists(st.sampled_from(ACTIONS), min_size=9, max_size=9), horizon=horizons)
def test_no_rule_for_what_is_seen_beats_a_guess(rules: list[str], horizon: int) -> None:
    table = np.eye(len(ACTIONS))[[ACTIONS.index(action) for action in rules]]
    got = policy_value(memoryless_policy(table), task_horizon=horizon)
    assert got <= best_without_memory(horizon)


@given(seed=seeds, horizon=st.sampled_from((4, 8, 3, 20, 100)), gamma=gammas)
def test_no_chances_for_what_is_seen_beat_a_guess(seed: int, horizon: int, gamma: float) -> None:
    got = policy_value(memoryless(seed), task_horizon=horizon, gamma=gamma)
    assert got <= gamma**2 / 2 + 1e-12


@pytest.mark.parametrize("horizon", [4, 6])
def test_an_ascent_without_memory_ends_at_a_guess(horizon: int) -> None:
    rng, met = np.random.default_rng(0), []

    def loss(logits: np.ndarray[Any, Any]) -> float:
        weights = np.exp(logits - logits.max()).reshape(len(OBSERVATIONS), len(ACTIONS))
        policy = memoryless_policy(weights / weights.sum(axis=1, keepdims=True))
        met.append(policy_value(policy, task_horizon=horizon))
        return -met[-1]

    for _ in range(6):
        start = rng.normal(size=len(OBSERVATIONS) * len(ACTIONS))
        minimize(loss, start, method="L-BFGS-B", options={"maxiter": 40})
    assert max(met) == pytest.approx(0.5, abs=1e-3)
    assert max(met) <= 0.5 + 1e-9


def recalling_its_action() -> FiniteMemoryPolicy:
    """Acts by what it sees and the action that it took before, which tells the key it holds."""
    nothing = len(ACTIONS)  # before the first action
    index = {
        (seen, acted): i
        for i, (seen, acted) in enumerate(itertools.product(OBSERVATIONS, range(nothing + 1)))
    }
    table = np.zeros((len(index), len(ACTIONS)))
    for (seen, acted), row in index.items():
        key = ACTIONS[acted].removeprefix("pickup_") if acted < nothing else None
        chosen = {START: "inspect", TAKEN: f"open_{key}", OPENED: "finish"}
        chosen |= {note: f"pickup_{color}" for color, note in NOTES.items()}
        action = chosen.get(seen, "inspect")
        table[row, ACTIONS.index(action) if action in ACTIONS else 0] = 1.0
    following = [[index[seen, a] for seen in OBSERVATIONS] for a in range(len(ACTIONS))]
    memory = np.broadcast_to(following, (len(index), len(ACTIONS), len(OBSERVATIONS)))
    return FiniteMemoryPolicy(table, memory, index[START, nothing])


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("horizon", range(1, 11))
def test_the_previous_action_is_memory_enough(horizon: int, gamma: float) -> None:
    got = policy_value(recalling_its_action(), task_horizon=horizon, gamma=gamma)
    assert_close(got, gamma**3 if horizon >= 4 else 0.0, terms=1.0)


# Refusals

UNIFORM = uniform_policy()
ONE_ROW = [[1 / 6] * 6]
NO_MEMORY = np.zeros((1, 6, 9), int)
SOLVERS: dict[str, Callable[..., Any]] = {
    "policy_values": lambda **named: policy_values(UNIFORM, **named),
    "policy_value": lambda **named: policy_value(UNIFORM, **named),
    "BeliefSolution": BeliefSolution,
    "best_memoryless_policy": best_memoryless_policy,
}


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"task_horizon": 0}, "task_horizon is 0; it must be an integer ≥ 1"),
        ({"task_horizon": -3}, "task_horizon is -3"),
        ({"task_horizon": 2.5}, "task_horizon is 2.5"),
        ({"task_horizon": NAN}, "task_horizon is nan"),
        ({"task_horizon": [4]}, r"task_horizon has shape \(1,\)"),
        ({"task_horizon": "4"}, "task_horizon is '4'"),
        ({"task_horizon": None}, "task_horizon is None"),
        ({"gamma": 1.5}, r"gamma is 1.5; it must lie in \[0, 1\]"),
        ({"gamma": -0.1}, "gamma is -0.1"),
        ({"gamma": NAN}, "gamma is nan"),
        ({"gamma": "1"}, "gamma is '1'"),
    ],
)
def test_a_horizon_or_gamma_out_of_range_is_named(
    solver: Callable[..., Any], wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        solver(**({"task_horizon": 4} | wrong))


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_a_whole_number_is_a_horizon(solver: Callable[..., Any]) -> None:
    for horizon in (4.0, np.int64(4), np.float32(4.0)):
        solver(task_horizon=horizon)


@pytest.mark.parametrize(("gamma", "says"), [(1.5, "gamma is 1.5"), (NAN, "gamma is nan")])
def test_a_shaping_refuses_a_gamma_out_of_range(gamma: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        potential_reward(gamma)


@pytest.mark.parametrize(
    ("probabilities", "next_memory", "start", "says"),
    [
        ([1 / 6] * 6, NO_MEMORY, 0, r"probabilities has shape \(6,\); it must be \[M, 6\]"),
        ([[0.2] * 5], NO_MEMORY, 0, r"probabilities has shape \(1, 5\)"),
        (np.zeros((0, 6)), np.zeros((0, 6, 9), int), 0, r"probabilities has shape \(0, 6\)"),
        ([[0.5] * 6], NO_MEMORY, 0, r"probabilities\[0\] sums to 3.0; it must sum to 1"),
        ([[1.5, -0.5, 0, 0, 0, 0]], NO_MEMORY, 0, r"probabilities\[0, 1\] is -0.5"),
        ([[1, 0, NAN, 0, 0, 0]], NO_MEMORY, 0, r"probabilities\[0, 2\] is nan"),
        ([["1", 0, 0, 0, 0, 0]], NO_MEMORY, 0, r"probabilities\[0, 0\] is '1'"),
        (ONE_ROW, NO_MEMORY[0], 0, r"next_memory has shape \(6, 9\)"),
        (ONE_ROW, NO_MEMORY[:, :, 1:], 0, r"next_memory has shape \(1, 6, 8\)"),
        (ONE_ROW, NO_MEMORY + 1, 0, r"next_memory\[0, 0, 0\] is 1; it must be in \[0, 1\)"),
        (ONE_ROW, NO_MEMORY - 1, 0, r"next_memory\[0, 0, 0\] is -1"),
        (ONE_ROW, NO_MEMORY * 1.0, 0, r"next_memory\[0, 0, 0\] is 0.0"),
        (ONE_ROW, NO_MEMORY, 1, "start is 1; it must be < 1"),
        (ONE_ROW, NO_MEMORY, -1, "start is -1"),
        (ONE_ROW, NO_MEMORY, 0.5, "start is 0.5"),
        (ONE_ROW, NO_MEMORY, "0", "start is '0'"),
    ],
)
def test_what_is_no_policy_is_refused_by_name(
    probabilities: Any, next_memory: Any, start: Any, says: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        FiniteMemoryPolicy(probabilities, next_memory, start)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (ONE_ROW, r"probabilities has shape \(1, 6\); it must have shape \(9, 6\)"),
        (np.full((9, 6), 0.2), r"probabilities\[0\] sums to 1.2"),
        (np.eye(9)[:, :6], r"probabilities\[6\] sums to 0.0"),
        (np.full((9, 6), NAN), r"probabilities\[0, 0\] is nan"),
        (None, "probabilities is None"),
    ],
)
def test_what_is_no_policy_without_memory_is_refused_by_name(table: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        memoryless_policy(table)


@pytest.mark.parametrize("solver", list(SOLVERS)[:3])
@pytest.mark.parametrize("paid", [NAN, INF, None])
def test_a_reward_that_is_no_number_is_refused(solver: str, paid: Any) -> None:
    def reward(state: State, after: State, terminal: bool) -> Any:
        return paid if after.key == "broken" and terminal else 0.0

    with pytest.raises((ValueError, TypeError), match=rf"reward\[\d+, \d\] is {paid}"):
        SOLVERS[solver](task_horizon=3, reward=reward)


def test_steps_left_and_beliefs_that_cannot_be_are_refused() -> None:
    solution = BeliefSolution(4)
    asked = (solution.value, solution.action_values, solution.optimal_actions)
    for ask, left in [(ask, left) for ask in asked for left in (-1, 1.5, NAN)]:
        with pytest.raises(ValueError, match=f"left is {left}"):
            ask(solution.start, left)
    for ask in asked[1:]:
        with pytest.raises(ValueError, match="left is 0; it must be an integer ≥ 1"):
            ask(solution.start, 0)
        with pytest.raises(ValueError, match="belief is empty"):
            ask((), 1)
    assert solution.value((), 3) == solution.value(solution.start, 0) == 0.0


# A policy as a value


def test_a_policys_tables_may_be_of_any_kind() -> None:
    rng = np.random.default_rng(1)
    table, memory = some_distributions(rng, 2), rng.integers(0, 2, (2, 6, 9))
    value = policy_value(FiniteMemoryPolicy(table, memory, 1), task_horizon=6)
    listed = FiniteMemoryPolicy(table.tolist(), memory.tolist(), 1.0)  # type: ignore[arg-type]
    assert policy_value(listed, task_horizon=6) == value
    single = FiniteMemoryPolicy(table.astype(np.float32), memory.astype(np.int8), np.int64(1))
    assert policy_value(single, task_horizon=6) == pytest.approx(value, rel=1e-5)


def test_rows_in_single_precision_may_miss_one_by_more() -> None:
    table = np.full((9, 6), 1 / 6)
    table[:, 0] += 5e-5
    memoryless_policy(table.astype(np.float32))
    with pytest.raises(ValueError, match=r"probabilities\[0\] sums to"):
        memoryless_policy(table)


def test_a_policy_keeps_what_it_was_made_of() -> None:
    table, memory = np.full((2, 6), 1 / 6), np.zeros((2, 6, 9), int)
    policy = FiniteMemoryPolicy(table, memory)
    table[:], memory[:] = 0.0, 7
    assert (policy.probabilities == 1 / 6).all()
    assert not policy.next_memory.any()
    assert policy == policy
    assert policy != FiniteMemoryPolicy(np.full((1, 6), 1 / 6), NO_MEMORY)


# Documentation and speed


@pytest.mark.parametrize("name", solution_module.__all__)
def test_what_is_public_is_documented(name: str) -> None:
    public = getattr(solution_module, name)
    if name == "Reward":
        return
    doc = inspect.getdoc(public) or ""
    assert doc.splitlines()[0].endswith(".")
    parameters = inspect.signature(public).parameters
    assert ("Args:" in doc) is bool(parameters)
    arguments = doc.partition("Args:")[2].partition("\n\n")[0]
    assert [p for p in parameters if f"{p}:" not in arguments] == []
    if inspect.isfunction(public) and parameters:
        assert "Returns:" in doc
    if {"gamma", "task_horizon", "probabilities"} & parameters.keys():
        assert "Raises:" in doc


@pytest.mark.parametrize("cls", [BeliefSolution, FiniteMemoryPolicy])
def test_what_a_class_offers_is_documented(cls: type) -> None:
    offered = [value for name, value in vars(cls).items() if not name.startswith("_")]
    described = [value for value in offered if callable(value) or hasattr(value, "__get__")]
    assert all((inspect.getdoc(value) or "").strip() for value in described)


def test_work_grows_in_a_line_with_the_horizon() -> None:
    """A step more adds as many beliefs at twelve steps as at any other horizon from four on."""
    counts = [len(BeliefSolution(horizon).beliefs) for horizon in range(4, 14)]
    assert len(set(np.diff(counts))) == 1
