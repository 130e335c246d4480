"""The key-door agent's task, solved exactly: by value iteration over beliefs.

The target is hidden, the rest of the state is what the agent's own actions made of it. A belief is
what the agent knows: the states it may be in, with their probabilities. The task is finite, so that
values are exact sums, with n steps left of the task's horizon; a collector's limit is not part of
the task and does not appear here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcheck._inputs import (
    Floats,
    as_numbers,
    distributions,
    indices_below,
    integer,
    real_array,
    unit_interval,
)
from rlcheck.envs.keydoor_agent import (
    ACTIONS,
    COLORS,
    OBSERVATION_INDEX,
    OBSERVATIONS,
    START,
    State,
    initial_state,
    potential,
    transition,
)

__all__ = [
    "BeliefSolution",
    "FiniteMemoryPolicy",
    "Reward",
    "base_reward",
    "best_memoryless_policy",
    "memoryless_policy",
    "policy_value",
    "policy_values",
    "potential_reward",
    "uniform_policy",
]

Reward = Callable[[State, State, bool], float]
"""r(s, s′, terminal): what a step pays; terminal where s′ ends the episode."""

TIE = 1e-12  # of the largest reward times the horizon: what rounding may make of equal values


def base_reward(state: State, next_state: State, terminal: bool) -> float:
    """1 for success, 0 for everything else.

    Args:
        state: s, before the step.
        next_state: s′, after the step.
        terminal: whether s′ ends the episode.

    Returns:
        The reward.
    """
    return float(next_state.succeeded)


def potential_reward(
    gamma: float, potential: Callable[[State], float] = potential, *, terminal_is_zero: bool = True
) -> Reward:
    """The base reward and γ Φ(s′) − Φ(s), with Φ(s′) = 0 where s′ is terminal.

    Args:
        gamma: discount, in [0, 1].
        potential: Φ of a state; by default the environment's own.
        terminal_is_zero: False keeps Φ(s′) of a terminal s′ as if the episode went on, which is
            no longer potential-based shaping.

    Returns:
        The reward as a function.

    Raises:
        ValueError: gamma is out of range.

    Reference:
        Ng, Harada and Russell (1999), theorem 1; Grzes (2017), Reward shaping in episodic
        reinforcement learning, on the potential of terminal states.
    """
    gamma = unit_interval("gamma", gamma)

    def reward(state: State, next_state: State, terminal: bool) -> float:
        after = 0.0 if terminal and terminal_is_zero else potential(next_state)
        return base_reward(state, next_state, terminal) + gamma * after - potential(state)

    return reward


class _Tables(NamedTuple):
    """The rules as arrays over the states that the task can reach, unfinished ones first."""

    states: tuple[State, ...]
    next_state: NDArray[np.intp]  # [S, A]
    observation: NDArray[np.intp]  # [S, A]
    finished: NDArray[np.bool_]  # [S, A] whether the action finishes
    start: NDArray[np.intp]  # [2] the first state of each target

    def rewards(self, reward: Reward, *, last: bool) -> Floats:
        """[S, A] what each action pays, with steps left after it or as the last step."""
        return real_array(
            "reward",
            [
                [
                    reward(state, self.states[after], bool(over) or last)
                    for after, over in zip(row, finished, strict=True)
                ]
                for state, row, finished in zip(
                    self.states, self.next_state, self.finished, strict=False
                )
            ],
        )


@cache
def _tables() -> _Tables:
    found = [initial_state(color) for color in COLORS]
    for state in found:  # grows while it is read
        for action in ACTIONS:
            after = transition(state, action).state
            if not after.finished and after not in found:
                found.append(after)
    outcomes = [[transition(state, action) for action in ACTIONS] for state in found]
    ends = list(dict.fromkeys(o.state for row in outcomes for o in row if o.state.finished))
    index = {state: i for i, state in enumerate([*found, *ends])}
    return _Tables(
        tuple(index),
        np.array([[index[o.state] for o in row] for row in outcomes]),
        np.array([[OBSERVATION_INDEX[o.observation] for o in row] for row in outcomes]),
        np.array([[o.state.finished for o in row] for row in outcomes]),
        np.array([index[initial_state(color)] for color in COLORS]),
    )


@dataclass(frozen=True, eq=False)
class FiniteMemoryPolicy:
    """A stochastic policy with finitely many memory states, as tables.

    In memory m it takes action a with probability `probabilities[m, a]`, and having seen
    observation o next, its memory is `next_memory[m, a, o]`. It begins in memory `start`, the first
    observation already seen.

    Args:
        probabilities: [M, A] rows that sum to 1, M ≥ 1.
        next_memory: [M, A, O] indices of memory states, in [0, M).
        start: index of the first memory state.

    Raises:
        ValueError: a shape is wrong, a row is no distribution, or an index is out of range.
    """

    probabilities: Floats
    next_memory: NDArray[np.intp]
    start: int = 0

    def __post_init__(self) -> None:
        table = distributions("probabilities", self.probabilities)
        if table.ndim != 2 or table.shape[1] != len(ACTIONS) or not len(table):
            raise ValueError(
                f"probabilities has shape {table.shape}; it must be [M, {len(ACTIONS)}], M ≥ 1"
            )
        count = len(table)
        shape = (count, len(ACTIONS), len(OBSERVATIONS))
        memory = indices_below("next_memory", self.next_memory, count, shape=shape)
        start = integer("start", self.start, minimum=0)
        if start >= count:
            raise ValueError(f"start is {start}; it must be < {count}")
        # Copies: what the caller does to the arrays later is no business of the policy.
        object.__setattr__(self, "probabilities", table.copy())
        object.__setattr__(self, "next_memory", memory.copy())
        object.__setattr__(self, "start", start)


def memoryless_policy(probabilities: ArrayLike) -> FiniteMemoryPolicy:
    """A policy that looks at the current observation alone.

    Args:
        probabilities: [O, A] a distribution of actions for each of OBSERVATIONS.

    Returns:
        The policy; its memory is the index of the observation.

    Raises:
        ValueError: the shape is wrong, or a row is no distribution.
    """
    table = as_numbers("probabilities", probabilities)  # of its own precision
    shape = (len(OBSERVATIONS), len(ACTIONS))
    if table.shape != shape:
        raise ValueError(f"probabilities has shape {table.shape}; it must have shape {shape}")
    seen = np.arange(len(OBSERVATIONS))
    memory = np.broadcast_to(seen, (len(OBSERVATIONS), len(ACTIONS), len(OBSERVATIONS)))
    return FiniteMemoryPolicy(table, memory, OBSERVATION_INDEX[START])


def uniform_policy() -> FiniteMemoryPolicy:
    """The policy that takes every action with the same probability."""
    memory = np.zeros((1, len(ACTIONS), len(OBSERVATIONS)), np.intp)
    return FiniteMemoryPolicy(np.full((1, len(ACTIONS)), 1 / len(ACTIONS)), memory)


def policy_values(
    policy: FiniteMemoryPolicy,
    *,
    task_horizon: int,
    gamma: float = 1.0,
    reward: Reward = base_reward,
) -> Floats:
    """Exact values of a policy in every state, with every memory, for every time that is left.

    V_n(s, m) = Σ_a π(a | m) [r(s, a) + γ V_{n−1}(s′, m′)],  V_0 = 0, and 0 once finished

    Args:
        policy: the policy.
        task_horizon: H, steps of the whole task, ≥ 1.
        gamma: discount, in [0, 1].
        reward: what a step pays.

    Returns:
        [H + 1, S, M] values V_n(s, m) of the unfinished states, with the indices that they have in
        beliefs (`BeliefSolution.states` tells which is which); the two targets' first states are 0
        and 1.

    Raises:
        ValueError: the horizon or gamma is out of range, or a reward is not finite.

    Reference:
        Sutton and Barto (2018), Reinforcement Learning, 2nd edition, equation 4.5.
    """
    horizon = integer("task_horizon", task_horizon, minimum=1)
    gamma = unit_interval("gamma", gamma)
    rules = _tables()
    pays = {last: rules.rewards(reward, last=last) for last in (False, True)}
    count = len(pays[True])
    after = np.minimum(rules.next_state, count - 1)  # finished states have no value to look up
    # [S, A, M]: the memory that follows depends on what is observed.
    memory = policy.next_memory[:, np.arange(len(ACTIONS)), rules.observation]  # [M, S, A]
    values = np.zeros((horizon + 1, count, len(policy.probabilities)))
    for left in range(1, horizon + 1):
        following = values[left - 1][after, memory].transpose(1, 2, 0)  # [S, A, M]
        following = np.where(rules.finished[..., np.newaxis], 0.0, following)
        worth = pays[left == 1][..., np.newaxis] + gamma * following
        values[left] = np.einsum("sam,ma->sm", worth, policy.probabilities)
    return values


def policy_value(
    policy: FiniteMemoryPolicy,
    *,
    task_horizon: int,
    gamma: float = 1.0,
    reward: Reward = base_reward,
) -> float:
    """Exact value of a policy at the start; with the defaults, its probability of success.

    ½ Σ_target V_H(s_target, m_start)

    Args:
        policy: the policy.
        task_horizon: H, steps of the whole task, ≥ 1.
        gamma: discount, in [0, 1].
        reward: what a step pays.

    Returns:
        The value, a mean over the two targets, which are equally likely.

    Raises:
        ValueError: the horizon or gamma is out of range, or a reward is not finite.
    """
    values = policy_values(policy, task_horizon=task_horizon, gamma=gamma, reward=reward)
    return float(values[-1, _tables().start, policy.start].mean())


Belief = tuple[tuple[int, float], ...]
"""(state, probability) of the states that the agent may be in, by rising index of the state."""


class BeliefSolution:
    """The exact solution of the task, by value iteration over beliefs.

    V_n(b) = max_a Σ_s b(s) r(s, a) + γ Σ_o P(o | b, a) V_{n−1}(b′),  V_0 = 0

    b′ is b moved by the action and conditioned on the observation (Bayes' rule).

    Args:
        task_horizon: H, steps of the whole task, ≥ 1.
        gamma: discount, in [0, 1].
        reward: what a step pays.

    Raises:
        ValueError: the horizon or gamma is out of range, or a reward is not finite; from the
            methods, fewer steps are left than they ask for, or a belief is empty.

    Reference:
        Kaelbling, Littman and Cassandra (1998), Planning and acting in partially observable
        stochastic domains, section 3.
    """

    def __init__(
        self, task_horizon: int, *, gamma: float = 1.0, reward: Reward = base_reward
    ) -> None:
        self.task_horizon = integer("task_horizon", task_horizon, minimum=1)
        self.gamma = unit_interval("gamma", gamma)
        self._pays = {last: _tables().rewards(reward, last=last) for last in (False, True)}
        largest = max(float(abs(pays).max()) for pays in self._pays.values())
        self._tie = TIE * largest * self.task_horizon
        self._values: dict[tuple[Belief, int], float] = {}

    @property
    def start(self) -> Belief:
        """The belief before the first step: both targets, equally likely."""
        return tuple((int(state), 1 / len(COLORS)) for state in sorted(_tables().start))

    @property
    def start_value(self) -> float:
        """The optimum: the best value that any policy has at the start."""
        return self.value(self.start, self.task_horizon)

    def states(self, belief: Belief) -> dict[State, float]:
        """The states of a belief, with their probabilities."""
        return {_tables().states[state]: weight for state, weight in belief}

    def value(self, belief: Belief, left: int) -> float:
        """V_n(b), with n steps left, n ≥ 0; 0 for the empty belief of a finished task."""
        left = integer("left", left, minimum=0)
        if left == 0 or not belief:
            return 0.0
        if (belief, left) not in self._values:
            for n in range(1, left + 1):  # upwards, or a long horizon would recurse as deep
                if (belief, n) not in self._values:
                    self._values[belief, n] = float(self.action_values(belief, n).max())
        return self._values[belief, left]

    def action_values(self, belief: Belief, left: int) -> Floats:
        """[A] Q_n(b, a), with n steps left, n ≥ 1."""
        left = integer("left", left, minimum=1)
        if not belief:
            raise ValueError("belief is empty; a finished task has no actions")
        pays = self._pays[left == 1]
        worth = np.zeros(len(ACTIONS))
        for action in range(len(ACTIONS)):
            worth[action] = sum(weight * pays[state, action] for state, weight in belief)
            for chance, after in successors(belief, action).values():
                worth[action] += self.gamma * chance * self.value(after, left - 1)
        return worth

    def optimal_actions(self, belief: Belief, left: int) -> set[str]:
        """The names of all optimal actions, with n steps left, n ≥ 1.

        Two values are equal if rounding may explain the difference: 1e-12 H max |r|.
        """
        worth = self.action_values(belief, left)
        return {ACTIONS[a] for a in np.flatnonzero(worth >= worth.max() - self._tie)}

    @cached_property
    def beliefs(self) -> list[tuple[Belief, int]]:
        """Every belief that some course of actions leads to, with the steps that are left."""
        found = [(self.start, self.task_horizon)]
        known = set(found)
        for belief, left in found:  # grows while it is read
            for action in range(len(ACTIONS)):
                for _, after in successors(belief, action).values():
                    if left > 1 and after and (after, left - 1) not in known:
                        known.add((after, left - 1))
                        found.append((after, left - 1))
        return found

    def policy(self) -> FiniteMemoryPolicy:
        """An optimal policy, whose memory is the belief and the time; of equals, the first."""
        index = {node: i for i, node in enumerate(self.beliefs)}
        probabilities = np.zeros((len(index), len(ACTIONS)))
        memory = np.zeros((len(index), len(ACTIONS), len(OBSERVATIONS)), np.intp)
        for (belief, left), node in index.items():
            worth = self.action_values(belief, left)
            probabilities[node, np.argmax(worth >= worth.max() - self._tie)] = 1.0
            for action, observed in product(range(len(ACTIONS)), range(len(OBSERVATIONS))):
                _, after = successors(belief, action).get(observed, (0.0, ()))
                memory[node, action, observed] = index.get((after, left - 1), node)
        return FiniteMemoryPolicy(probabilities, memory)


@cache
def successors(belief: Belief, action: int) -> dict[int, tuple[float, Belief]]:
    """observation → (probability, belief after it); the belief is empty once finished."""
    rules = _tables()
    seen: dict[int, dict[int, float]] = {}
    for state, weight in belief:
        moved = seen.setdefault(int(rules.observation[state, action]), {})
        after = int(rules.next_state[state, action])
        moved[after] = moved.get(after, 0.0) + weight
    finishes = bool(rules.finished[belief[0][0], action])  # in no state or in all of them
    result = {}
    for observed, moved in seen.items():
        chance = sum(moved.values())
        after_belief = tuple((s, w / chance) for s, w in sorted(moved.items()))
        result[observed] = (chance, () if finishes else after_belief)
    return result


def best_memoryless_policy(
    task_horizon: int, *, gamma: float = 1.0
) -> tuple[float, FiniteMemoryPolicy]:
    """The best value of the policies that look at the current observation alone, and one of them.

    Searched over all deterministic ones. No stochastic one is better: a success takes at least
    three steps, so that a value is at most γ² times the chance of success, and that chance is at
    most 1/2, whatever the horizon:

    - Taken before the note is read, the key has a colour that does not depend on the target, and
      whether it comes to that does not either: half of these episodes hold the wrong key.
    - Taken after it, the agent sees "You take a key." and then "Nothing happens." until it opens a
      door, whatever the target. The door that it opens first has the same distribution for both
      targets; the chance of red and the chance of blue add up to at most 1, and only the time left
      can differ, which adds nothing to either. The mean over the two targets is at most 1/2.

    Args:
        task_horizon: H, steps of the whole task, ≥ 1.
        gamma: discount, in [0, 1].

    Returns:
        (value, policy); observations that the policy never meets are answered with "inspect".

    Raises:
        ValueError: the horizon or gamma is out of range.
    """
    horizon = integer("task_horizon", task_horizon, minimum=1)
    gamma = unit_interval("gamma", gamma)
    best: tuple[float, dict[int, int]] = (-1.0, {})
    pending: list[dict[int, int]] = [{}]
    while pending:  # rules are decided only for observations that are met
        rules = pending.pop()
        value, undecided = _follow(rules, horizon, gamma)
        if undecided is not None:
            pending += [rules | {undecided: action} for action in range(len(ACTIONS))]
        elif value > best[0]:
            best = (value, rules)
    table = np.zeros((len(OBSERVATIONS), len(ACTIONS)))
    table[np.arange(len(OBSERVATIONS)), [best[1].get(o, 0) for o in range(len(OBSERVATIONS))]] = 1
    return best[0], memoryless_policy(table)


def _follow(rules: dict[int, int], horizon: int, gamma: float) -> tuple[float, int | None]:
    """Value of a deterministic memoryless policy, or the first observation it has no rule for."""
    tables, total = _tables(), 0.0
    for state in map(int, tables.start):
        observed = OBSERVATION_INDEX[START]
        for step in range(horizon):
            if observed not in rules:
                return 0.0, observed
            action = rules[observed]
            after = int(tables.next_state[state, action])
            if tables.finished[state, action]:
                total += gamma**step * tables.states[after].succeeded / len(tables.start)
                break
            state, observed = after, int(tables.observation[state, action])
    return total, None
