"""Laws of `rlcheck.q_targets`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import q_targets as reference
from rlcheck.grading.compare import (
    assert_close,
    assert_quiet,
    assert_refuses,
    assert_untouched,
    exact,
    nearest_float,
    numbers,
)
from rlcheck.grading.laws import law

from .ordinary import Sample, law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import DISCOUNTS, REALS, WHOLE, discounts, long_row, near, steps

NAN, INF = float("nan"), float("inf")
HUGE = 1.5e308  # twice it is beyond float64

ONE_NETWORK = (
    refuse([1.0, NAN], [0, 0], [[1.0], [2.0]], 0.9, says="rewards[1] is nan"),
    refuse([INF], [1], [[1.0]], 0.9, says="rewards[0] is inf"),
    refuse([[1.0]], [[0]], [[[1.0]]], 0.9, says="rewards has shape (1, 1); it must be a vector"),
    refuse([1.0], [2], [[1.0]], 0.9, says="terminal[0] is 2; it must be 0 or 1"),
    refuse([1.0], [0.5], [[1.0]], 0.9, says="terminal[0] is 0.5"),
    refuse([1.0], [NAN], [[1.0]], 0.9, says="terminal[0] is nan"),
    refuse([1.0, 2.0], [0], [[1.0], [2.0]], 0.9, says="terminal has shape (1,)"),
    refuse([1.0], [0], [[1.0, NAN]], 0.9, says="next_q[0, 1] is nan"),
    refuse([1.0], [0], [[-INF, 1.0]], 0.9, says="next_q[0, 0] is -inf"),
    refuse([1.0, 1.0], [1, 0], [[NAN], [INF]], 0.9, says="next_q[1, 0] is inf"),
    refuse([1.0], [0], [1.0], 0.9, says="next_q has shape (1,); it must be a matrix"),
    refuse([1.0], [0], [[1.0], [2.0]], 0.9, says="next_q has shape (2, 1); it must have 1 rows"),
    refuse([1.0], [0], [[]], 0.9, says="next_q has shape (1, 0); a state needs an action"),
    refuse([1.0, 1.0], [0, 0], [[1.0], [1.0, 2.0]], 0.9, says="next_q is ragged"),
    refuse([1.0], [0], [[1.0]], 1.5, says="gamma is 1.5; it must lie in [0, 1]"),
    refuse([1.0], [0], [[1.0]], -0.1, says="gamma is -0.1"),
    refuse([1.0], [0], [[1.0]], NAN, says="gamma is nan"),
    refuse("1", [0], [[1.0]], 0.9, says="rewards is '1'"),
    refuse([1.0], None, [[1.0]], 0.9, says="terminal is None"),
    refuse([1.0], [0], {0: [1.0]}, 0.9, says="next_q is {0: [1.0]}"),
)

REFUSALS = {
    "dqn_targets": ONE_NETWORK,
    "double_dqn_targets": (
        refuse([NAN], [0], [[1.0]], [[1.0]], 0.9, says="rewards[0] is nan"),
        refuse([1.0], [3], [[1.0]], [[1.0]], 0.9, says="terminal[0] is 3; it must be 0 or 1"),
        refuse([1.0], [0, 0], [[1.0]], [[1.0]], 0.9, says="terminal has shape (2,)"),
        refuse([1.0], [0], [[NAN, 1.0]], [[1.0, 2.0]], 0.9, says="online_next_q[0, 0] is nan"),
        refuse([1.0], [0], [[INF, 1.0]], [[1.0, 2.0]], 0.9, says="online_next_q[0, 0] is inf"),
        refuse([1.0], [0], [[3.0, 1.0]], [[1.0, NAN]], 0.9, says="target_next_q[0, 1] is nan"),
        refuse([1.0], [0], [[1.0, 3.0]], [[1.0, -INF]], 0.9, says="target_next_q[0, 1] is -inf"),
        refuse([1.0], [0], [[1.0]], [[1.0, 2.0]], 0.9, says="target_next_q has shape (1, 2)"),
        refuse([1.0], [0], [[1.0, 2.0]], [[1.0]], 0.9, says="target_next_q has shape (1, 1)"),
        refuse([1.0], [0], [[1.0]] * 2, [[1.0]], 0.9, says="online_next_q has shape (2, 1)"),
        refuse([1.0], [0], [[1.0]], [[1.0]] * 2, 0.9, says="target_next_q has shape (2, 1)"),
        refuse([1.0], [0], [[]], [[]], 0.9, says="online_next_q has shape (1, 0)"),
        refuse([1.0], [0], [1.0], [[1.0]], 0.9, says="online_next_q has shape (1,)"),
        refuse([1.0], [0], [[1.0]], [[1.0]], 1.1, says="gamma is 1.1; it must lie in [0, 1]"),
        refuse([1.0], [0], [[1.0]], [[1.0]], NAN, says="gamma is nan"),
        refuse([1.0], [0], None, [[1.0]], 0.9, says="online_next_q is None"),
        refuse([1.0], [0], [[1.0]], [["1"]], 0.9, says="target_next_q[0, 0] is '1'"),
    ),
    "fqe_targets": (
        *(
            refuse(*case.args[:3], [[1.0]] * len(case.args[0]), case.args[3], says=case.says)
            for case in ONE_NETWORK[3:7] + ONE_NETWORK[9:13] + ONE_NETWORK[14:]
        ),
        refuse([1.0], [0], [[1.0, NAN]], [[1.0, 0.0]], 0.9, says="next_q[0, 1] is nan"),
        refuse([1.0], [0], [[1.0, 2.0]], [[0.5, 0.4]], 0.9, says="policy_probs[0] sums to 0.9"),
        refuse([1.0], [0], [[1.0, 2.0]], [[0.5, 0.50001]], 0.9, says="policy_probs[0] sums to"),
        refuse([1.0], [0], [[1.0, 2.0]], [[1.5, -0.5]], 0.9, says="policy_probs[0, 1] is -0.5"),
        refuse([1.0], [0], [[1.0, 2.0]], [[NAN, 1.0]], 0.9, says="policy_probs[0, 0] is nan"),
        refuse([1.0], [0], [[1.0, 2.0]], [[INF, 0.0]], 0.9, says="policy_probs[0, 0] is inf"),
        refuse([1.0], [0], [[1.0, 2.0]], [[1.0]], 0.9, says="policy_probs has shape (1, 1)"),
        refuse([1.0], [0], [[1.0, 2.0]], [0.5, 0.5], 0.9, says="policy_probs has shape (2,)"),
        refuse([1.0], [0], [[1.0]], [[1.0]] * 2, 0.9, says="policy_probs has shape (2, 1)"),
        refuse([1.0] * 2, [0] * 2, [[1.0]] * 2, [[1.0]], 0.9, says="it must have 2 rows"),
        refuse([1.0], [0], [[1.0]], None, 0.9, says="policy_probs is None"),
    ),
}

# Ties are frequent, near-ties are there, and single precision cannot tell 1 from 1 + 2⁻⁴⁰.
ACTION_VALUES = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1.0 + 2.0**-40, -10.0, 0.1, -0.1, *REALS[14:20])
POLICY_WEIGHTS = (1, 0, 3, 0)


@dataclass(frozen=True)
class Batch:
    """Transitions with their next values under two networks and one policy, each [N, A]."""

    rewards: Any
    terminal: Any
    online: Any
    target: Any
    policy: Any
    gamma: float

    def one_network(self, inert: float | None = None) -> tuple[Any, ...]:
        """Arguments of dqn_targets; `inert`, if any, stands where nothing counts."""
        return self.rewards, self.terminal, self.inert_at_ends(self.target, inert), self.gamma

    def two_networks(self, inert: float | None = None) -> tuple[Any, ...]:
        """Arguments of double_dqn_targets."""
        online = self.inert_at_ends(self.online, inert)
        return self.rewards, self.terminal, online, *self.one_network(inert)[2:]

    def evaluation(self, inert: float | None = None) -> tuple[Any, ...]:
        """Arguments of fqe_targets."""
        return *self.one_network(inert)[:3], self.policy, self.gamma

    def inert_at_ends(self, table: Any, inert: float | None) -> Any:
        if inert is None:
            return table
        rows = zip(table, self.terminal, strict=True)
        return [[inert] * len(row) if d else row for row, d in rows] or table

    def assert_targets(self, got: Any, next_values: Any) -> None:
        """got = r + γ Σ of the row's next values, exactly; rows after which nothing comes: r."""
        rows = list(zip(self.rewards, self.terminal, next_values, strict=True))
        each = [[exact(r), *(exact(self.gamma) * v for v in vs if not d)] for r, d, vs in rows]
        assert_close(
            got,
            [nearest_float(sum(row)) for row in each],
            terms=np.array([nearest_float(sum(map(abs, row))) for row in each]),
            count=5,
        )


TRANSITION_REWARDS = (*REALS[:4], *REALS[20:24])  # whole numbers and rough ones


def _transition(*code: int) -> tuple[Any, ...]:
    reward, ends, *rest = code
    online, target = ([ACTION_VALUES[i] for i in rest[at : at + 4]] for at in (0, 4))
    weights = [POLICY_WEIGHTS[i] for i in rest[8:]]
    return TRANSITION_REWARDS[reward], ends % 2, online, target, weights


def _policy(weights: list[int]) -> list[float]:
    total = sum(weights)
    return [w / total for w in weights] if total else [1.0] + [0.0] * (len(weights) - 1)


def _batch(drawn: tuple[list[Any], int, float]) -> Batch:
    transitions, actions, gamma = drawn
    nothing = np.empty((0, actions))
    return Batch(
        [t[0] for t in transitions],
        [t[1] for t in transitions],
        [t[2][:actions] for t in transitions] or nothing,
        [t[3][:actions] for t in transitions] or nothing,
        [_policy(t[4][:actions]) for t in transitions] or nothing,
        gamma,
    )


def batches() -> st.SearchStrategy[Batch]:
    """Batches of up to six transitions with one to four actions; two fifths of them terminal."""
    one = steps(_transition, 8, 5, *([8] * 4), *([16] * 4), *([4] * 4), max_size=6)
    return st.tuples(one, st.sampled_from((2, 3, 1, 4)), st.sampled_from(DISCOUNTS)).map(_batch)


def ordinary_batch(sample: Sample) -> Batch:
    """Up to fifty transitions with up to twelve actions; what follows a terminal is far off."""
    ended = sample.flags("terminal", sample.columns)
    online, target = (
        np.where(ended[:, None], 1e6, sample.reals(network, sample.columns, sample.rows))
        for network in ("online", "target")
    )
    policy = sample.distributions("policy", sample.columns, sample.rows)
    rewards = sample.reals("rewards", sample.columns)
    return Batch(rewards, ended, online, target, policy, sample.discount("gamma"))


def inert_values() -> st.SearchStrategy[float]:
    """What may stand where nothing counts."""
    return st.sampled_from((NAN, INF, -INF, HUGE))


@dataclass(frozen=True)
class Corridor:
    """States 0 … K−1 in a row; "forward" leads on and out of the last one for a reward of 1."""

    length: int
    gamma: float
    forward: float = 1.0  # the probability that the policy goes forward, else it waits

    @property
    def values(self) -> list[list[float]]:
        """[K, 2] exact values of (forward, wait): γ^(K−1−k) when always forward.

        V_k = ρ (γρ)^(K−1−k) with ρ = p / (1 − γ (1 − p)).
        """
        rho = self.forward / (1.0 - self.gamma * (1.0 - self.forward))
        left = [self.length - 1 - k for k in range(self.length)]
        ahead = [1.0 if n == 0 else self.gamma * rho * (self.gamma * rho) ** (n - 1) for n in left]
        return [
            [q, self.gamma * rho * (self.gamma * rho) ** n]
            for q, n in zip(ahead, left, strict=True)
        ]

    def transitions(self) -> tuple[list[float], list[int], list[list[float]]]:
        """Every state with both actions: forward 0 … K−1, then wait 0 … K−1."""
        last = [int(k == self.length - 1) for k in range(self.length)]
        waits = [0] * self.length
        after = [*self.values[1:], [NAN, INF]]
        return [float(x) for x in last + waits], last + waits, after + self.values

    def assert_own_targets(self, got: Any) -> None:
        expected = [q for column in zip(*self.values, strict=True) for q in column]
        assert_close(got, expected, terms=np.abs(expected))


def corridors(forward: tuple[float, ...] = (1.0,)) -> st.SearchStrategy[Corridor]:
    """Corridors of one to eight states."""
    sizes, gammas = st.integers(1, 8), st.one_of(discounts(), near(1.0))
    return st.builds(Corridor, sizes, gammas, st.sampled_from(forward))


def _whole(*code: int) -> tuple[Any, ...]:
    reward, ends, action, *values = code
    online, target = ([WHOLE[i] for i in values[at : at + 2]] for at in (0, 2))
    return WHOLE[reward], ends, online, target, [int(a == action) for a in range(2)]


def whole_batches() -> st.SearchStrategy[Batch]:
    """Batches of whole numbers, with two actions of which the policy always takes one."""
    one = steps(_whole, 10, 2, 2, *([10] * 4), min_size=1, max_size=6)
    return one.map(lambda drawn: Batch(*map(list, zip(*drawn, strict=True)), 0.25))


def nested(table: list[Any]) -> tuple[Any, ...]:
    """Tuples for lists."""
    return tuple(tuple(row) if isinstance(row, list) else row for row in table)


def kinds(columns: int) -> st.SearchStrategy[tuple[Callable[[list[Any]], Any], ...]]:
    """What makes nested tuples, or arrays of four dtypes, of each column of a batch.

    The flags, which are the second one, may be booleans too.
    """
    arrays = [partial(np.array, dtype=kind) for kind in (np.int64, np.int8, np.float32, np.float64)]
    any_numbers = st.sampled_from([nested, *arrays])
    flags = st.sampled_from([partial(np.array, dtype=np.bool_), nested, *arrays])
    return st.tuples(any_numbers, flags, *[any_numbers] * (columns - 2))


def assert_rows_apart(function: Any, batch: Batch, arguments: tuple[Any, ...]) -> None:
    """The answer for a batch holds the answers for its transitions, each a batch of one."""
    *columns, gamma = arguments
    alone = [
        numbers(function(*([entry] for entry in row), gamma), shape=(1,))[0]
        for row in zip(*columns, strict=True)
    ]
    scale = [abs(r) + max(map(abs, q)) for r, q in zip(batch.rewards, batch.target, strict=True)]
    assert_close(function(*arguments), alone, terms=np.array(scale))


# --- deep Q-learning ---------------------------------------------------------------------------


LONG_BATCH = Batch(
    long_row(),
    [int(i % 9 == 0) for i in range(100)],
    [long_row(103)[i : i + 3] for i in range(100)],
    [long_row(105)[i + 2 : i + 5] for i in range(100)],
    [[0.25, 0.25, 0.5]] * 100,
    0.9,
)
MANY_ACTIONS = Batch(
    [1.0, -1.0], [0, 1], [long_row(18)] * 2, [long_row(20)[2:]] * 2, [_policy([1, 3] * 9)] * 2, 0.9
)


@law(batch=batches())
@example(batch=Batch([1.0], [1], [[0.0]], [[10.0]], [[1.0]], 0.9))  # navneet-nmk/pytorch-rl#2
@example(batch=Batch([0.0] * 2, [0] * 2, [[0.0] * 2] * 2, [[1.0, 9.0], [3.0, 2.0]], [], 1.0))
@example(batch=LONG_BATCH)
@example(batch=MANY_ACTIONS)
def test_dqn_target_is_that_of_the_best_single_action(dqn_targets, batch):
    """The target is the largest of those that the single actions would give.

    y = max_a (r + γ (1 − d) Q'(s', a)), in exact rational arithmetic.
    """
    best = [[max(map(exact, row))] for row in batch.target]
    batch.assert_targets(dqn_targets(*batch.one_network()), best)


@law(batch=batches(), inert=inert_values())
@example(batch=Batch([2.0], [1], [[0.0]], [[0.0]], [[1.0]], 0.9), inert=NAN)  # pytorch/rl#3744
@example(batch=LONG_BATCH, inert=NAN)
@example(batch=MANY_ACTIONS, inert=-INF)
def test_dqn_terminal_next_values_change_nothing(dqn_targets, batch, inert):
    """Whatever the network says about a terminal's next state, NaN and infinity too, is ignored.

    d = 1 → y = r: selected, not multiplied, because 0 · NaN and 0 · ∞ are NaN.
    """
    got = assert_quiet(dqn_targets, *batch.one_network(inert))
    batch.assert_targets(got, [[max(map(exact, row))] for row in batch.target])


@law(batch=batches())
def test_dqn_targets_of_a_batch_are_those_of_its_transitions(dqn_targets, batch):
    """Every transition has the target that it would have alone."""
    assert_rows_apart(dqn_targets, batch, batch.one_network())


@law(batch=batches(), turn=st.integers(1, 3))
def test_dqn_ignores_the_order_of_the_actions(dqn_targets, batch, turn):
    """Numbering the actions another way leaves the targets as they are."""
    rewards, terminal, next_q, gamma = batch.one_network()
    turned = np.roll(next_q, turn, axis=1)[:, ::-1]
    best = [[max(map(exact, row))] for row in batch.target]
    batch.assert_targets(dqn_targets(rewards, terminal, turned, gamma), best)


@law(batch=batches(), shift=st.sampled_from((-64.0, 64.0, -1.0, 1024.0)))
def test_dqn_rises_by_gamma_times_a_common_shift(dqn_targets, batch, shift):
    """Raising all next values by c raises the targets that bootstrap by γc and no others."""
    rewards, terminal, next_q, gamma = batch.one_network()
    got = dqn_targets(rewards, terminal, np.asarray(next_q) + shift, gamma)
    best = [[max(map(exact, row)), exact(shift)] for row in batch.target]
    batch.assert_targets(got, best)


@law(corridor=corridors())
def test_optimal_values_of_a_corridor_are_their_own_dqn_targets(dqn_targets, corridor):
    """In a corridor with a reward at its end, the optimal action values reproduce themselves.

    Q*(k, forward) = γ^(K−1−k) and Q*(k, wait) = γ^(K−k): the fixed point of Bellman's
    optimality equation.
    """
    corridor.assert_own_targets(dqn_targets(*corridor.transitions(), corridor.gamma))


@law(batch=batches())
def test_dqn_is_double_dqn_with_a_single_network(dqn_targets, batch):
    """When one network both selects and evaluates, double Q-learning is Q-learning."""
    rewards, terminal, next_q, gamma = batch.one_network()
    expected = reference.double_dqn_targets(rewards, terminal, next_q, next_q, gamma)
    scale = np.abs(rewards) + np.abs(np.max(next_q, axis=1))
    assert_close(dqn_targets(rewards, terminal, next_q, gamma), expected, terms=scale)


@law(reward=near(HUGE, -HUGE, 1e300), value=near(HUGE, -HUGE, 1e-300))
@example(reward=HUGE, value=HUGE)
@example(reward=HUGE, value=-HUGE)
def test_dqn_targets_beyond_float64_are_infinite(dqn_targets, reward, value):
    """The largest numbers give their exact sum, or an infinity of its sign."""
    batch = Batch([reward], [0], [], [[value, -HUGE]], [], 1.0)
    got = dqn_targets(*batch.one_network())
    batch.assert_targets(got, [[exact(value)]])


def asked_in_kinds(function: Any, kinds: Any, *call: Any) -> Any:
    """The answer where each column of the call is of its kind; the call leaves them alone."""
    *columns, gamma = call
    given = [kind(column) for kind, column in zip(kinds, columns, strict=True)]
    assert_untouched(function, *given, gamma)
    return function(*given, gamma)


@law(batch=whole_batches(), kinds=kinds(3))
def test_dqn_takes_numbers_of_every_kind(dqn_targets, batch, kinds):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    got = asked_in_kinds(dqn_targets, kinds, *batch.one_network())
    best = [[exact(max(row))] for row in batch.target]
    batch.assert_targets(got, best)


@law_of_ordinary_sizes
def test_dqn_targets_of_batches_of_ordinary_size(dqn_targets, sample):
    """Each of many transitions has the target of the best of many actions.

    y = r + γ (1 − d) max_a Q'(s', a), whatever containers hold the batch.
    """
    batch = ordinary_batch(sample)
    *columns, gamma = batch.one_network()
    batch.assert_targets(dqn_targets(*sample.held(*columns), gamma), batch.target.max(1)[:, None])


@law_of_refusals(REFUSALS["dqn_targets"])
def test_dqn_targets_refuse(dqn_targets, bad):
    """Next values are finite unless terminal, shapes fit, flags are 0 or 1, γ lies in [0, 1]."""
    assert_refuses(dqn_targets, *bad.args, **bad.kwargs)


# --- double Q-learning -------------------------------------------------------------------------


def chosen(batch: Batch) -> list[list[Fraction]]:
    """The target network's value of the first action that no other surpasses online."""
    rows = zip(batch.online, batch.target, strict=True)
    return [
        [next(exact(q) for o, q in zip(on, at, strict=True) if o >= max(on))] for on, at in rows
    ]


@law(batch=batches())
@example(batch=Batch([1.0], [0], [[1.0, 3.0, 2.0]], [[10.0, 4.0, 7.0]], [], 0.5))  # keon #35
@example(batch=Batch([0.0], [0], [[0.0, 5.0]], [[2.0, 9.0]], [], 1.0))  # ray-project/ray#5731
@example(batch=LONG_BATCH)
@example(batch=MANY_ACTIONS)
def test_double_dqn_evaluates_the_action_that_the_online_network_selects(double_dqn_targets, batch):
    """The online network selects the next action, the target network says what it is worth.

    y = r + γ (1 − d) Q_target(s', a*), where Q_online(s', a*) ≥ Q_online(s', a) for every a.
    """
    batch.assert_targets(double_dqn_targets(*batch.two_networks()), chosen(batch))


@law(batch=batches(), inert=inert_values())
@example(batch=LONG_BATCH, inert=NAN)
@example(batch=MANY_ACTIONS, inert=-INF)
def test_double_dqn_terminal_next_values_change_nothing(double_dqn_targets, batch, inert):
    """Whatever both networks say about a terminal's next state, NaN too, is ignored."""
    got = assert_quiet(double_dqn_targets, *batch.two_networks(inert))
    batch.assert_targets(got, chosen(batch))


@law(batch=batches(), first=st.integers(0, 3), second=st.integers(0, 3))
def test_double_dqn_takes_the_lowest_of_tied_actions(double_dqn_targets, batch, first, second):
    """Of the actions that the online network values alike, the one with the lowest index counts.

    The order in which ties are broken is part of the target, because the evaluating network
    tells the tied actions apart.
    """
    actions = np.shape(batch.online)[1]
    best = sorted({first % actions, second % actions})
    online = np.full(np.shape(batch.online), -1.0)
    online[:, best] = 3.0
    got = double_dqn_targets(batch.rewards, batch.terminal, online, batch.target, batch.gamma)
    batch.assert_targets(got, [[exact(row[best[0]])] for row in batch.target])


@law(batch=batches(), best=st.integers(0, 3), level=st.sampled_from((1.0, 0.0, -1e300, 1e8)))
@example(batch=Batch([0.0], [0], [[0.0] * 2], [[0.1, -1.0]], [], 1.0), best=1, level=0.0)
def test_double_dqn_tells_neighbouring_floats_apart(double_dqn_targets, batch, best, level):
    """The least difference between two online values decides which action is selected."""
    actions = np.shape(batch.online)[1]
    online = np.full(np.shape(batch.online), level)
    online[:, best % actions] = np.nextafter(level, INF)
    got = double_dqn_targets(batch.rewards, batch.terminal, online, batch.target, batch.gamma)
    batch.assert_targets(got, [[exact(row[best % actions])] for row in batch.target])


@law(batch=batches())
def test_double_dqn_reads_the_order_of_online_values_only(double_dqn_targets, batch):
    """Replacing the online values by their ranks changes nothing."""
    ranks = [[sorted(set(row)).index(q) for q in row] for row in batch.online] or batch.online
    got = double_dqn_targets(batch.rewards, batch.terminal, ranks, batch.target, batch.gamma)
    batch.assert_targets(got, chosen(batch))


@law(batch=batches(), shift=st.sampled_from((-64.0, 64.0, -1.0, 1024.0)))
def test_double_dqn_rises_with_the_evaluating_network_alone(double_dqn_targets, batch, shift):
    """Raising the target network by c raises bootstrapped targets by γc; the online one, by 0."""
    rewards, terminal, online, target, gamma = batch.two_networks()
    moved = np.asarray(target) + shift
    got = double_dqn_targets(rewards, terminal, np.multiply(online, 4.0), moved, gamma)
    batch.assert_targets(got, [[q, exact(shift)] for (q,) in chosen(batch)])


@law(batch=batches())
def test_double_dqn_is_the_value_of_the_online_networks_greedy_policy(double_dqn_targets, batch):
    """Double Q-learning evaluates, by the target network, the policy that is greedy online.

    It is fitted Q-evaluation of the one-hot policy at argmax_a Q_online.
    """
    rewards, terminal, online, target, gamma = batch.two_networks()
    greedy = np.eye(np.shape(online)[1])[np.argmax(online, axis=1)]
    expected = reference.fqe_targets(rewards, terminal, target, greedy, gamma)
    scale = np.abs(rewards) + np.sum(greedy * np.abs(target), axis=1)
    assert_close(
        double_dqn_targets(rewards, terminal, online, target, gamma), expected, terms=scale
    )


@law(batch=batches())
def test_double_dqn_targets_of_a_batch_are_those_of_its_transitions(double_dqn_targets, batch):
    """Every transition has the target that it would have alone."""
    assert_rows_apart(double_dqn_targets, batch, batch.two_networks())


@law(reward=near(HUGE, -HUGE, 1e300), value=near(HUGE, -HUGE, 1e-300))
@example(reward=HUGE, value=HUGE)
@example(reward=HUGE, value=-HUGE)
def test_double_dqn_targets_beyond_float64_are_infinite(double_dqn_targets, reward, value):
    """The largest numbers give their exact sum, or an infinity of its sign."""
    batch = Batch([reward], [0], [[-HUGE, HUGE]], [[1.0, value]], [], 1.0)
    got = double_dqn_targets(*batch.two_networks())
    batch.assert_targets(got, [[exact(value)]])


@law(batch=whole_batches(), kinds=kinds(4))
def test_double_dqn_takes_numbers_of_every_kind(double_dqn_targets, batch, kinds):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    got = asked_in_kinds(double_dqn_targets, kinds, *batch.two_networks())
    batch.assert_targets(got, chosen(batch))


@law_of_ordinary_sizes
def test_double_dqn_targets_of_batches_of_ordinary_size(double_dqn_targets, sample):
    """For each of many transitions one of many actions is selected online, and then evaluated.

    y = r + γ (1 − d) Q_target(s', a*), the first of tied actions.
    """
    batch = ordinary_batch(sample)
    *columns, gamma = batch.two_networks()
    got = double_dqn_targets(*sample.held(*columns), gamma)
    batch.assert_targets(got, chosen(batch))


@law_of_refusals(REFUSALS["double_dqn_targets"])
def test_double_dqn_targets_refuse(double_dqn_targets, bad):
    """Both tables are [N, A] and finite unless terminal, flags are 0 or 1, γ lies in [0, 1]."""
    assert_refuses(double_dqn_targets, *bad.args, **bad.kwargs)


# --- fitted Q-evaluation -----------------------------------------------------------------------


def products(batch: Batch) -> list[list[Fraction]]:
    """π(a) Q'(a) of every row."""
    rows = zip(batch.policy, batch.target, strict=True)
    return [[exact(p) * exact(q) for p, q in zip(*row, strict=True)] for row in rows]


@law(batch=batches())
@example(batch=Batch([-0.1], [0], [], [[2.0, 4.0]], [[0.25, 0.75]], 0.9))
@example(batch=LONG_BATCH)
@example(batch=MANY_ACTIONS)
def test_fqe_target_is_the_expectation_under_the_policy(fqe_targets, batch):
    """The next value is the policy's expectation over all actions.

    y = r + γ (1 − d) Σ_a π(a | s') Q'(s', a), in exact rational arithmetic.
    """
    batch.assert_targets(fqe_targets(*batch.evaluation()), products(batch))


@law(batch=batches(), inert=inert_values())
@example(batch=LONG_BATCH, inert=NAN)
@example(batch=MANY_ACTIONS, inert=-INF)
def test_fqe_terminal_next_values_change_nothing(fqe_targets, batch, inert):
    """Whatever the network says about a terminal's next state, NaN and infinity too, is ignored."""
    got = assert_quiet(fqe_targets, *batch.evaluation(inert))
    batch.assert_targets(got, products(batch))


@law(batch=batches(), action=st.integers(0, 3))
def test_fqe_of_a_policy_that_always_takes_one_action_reads_that_action(fqe_targets, batch, action):
    """A deterministic policy is worth what the network says of its action.

    π(a) = 1 → y = r + γ (1 − d) Q'(s', a).
    """
    actions = np.shape(batch.target)[1]
    policy = np.tile(np.eye(actions)[action % actions], (len(batch.rewards), 1))
    got = fqe_targets(batch.rewards, batch.terminal, batch.target, policy, batch.gamma)
    batch.assert_targets(got, [[exact(row[action % actions])] for row in batch.target])


@law(batch=batches())
def test_fqe_of_the_greedy_policy_is_the_dqn_target(fqe_targets, batch):
    """Evaluating the policy that is greedy for the same network is Q-learning."""
    rewards, terminal, next_q, gamma = batch.one_network()
    greedy = np.eye(np.shape(next_q)[1])[np.argmax(next_q, axis=1)]
    expected = reference.dqn_targets(rewards, terminal, next_q, gamma)
    scale = np.abs(rewards) + np.abs(np.max(next_q, axis=1))
    assert_close(fqe_targets(rewards, terminal, next_q, greedy, gamma), expected, terms=scale)


@law(batch=batches())
def test_fqe_does_not_notice_an_action_split_in_two(fqe_targets, batch):
    """Listing an action twice, with half its probability each time, changes nothing."""
    policy = [[p / 2 for p in row] * 2 for row in batch.policy] or np.empty((0, 2))
    next_q = [row * 2 for row in batch.target] or np.empty((0, 2))
    got = fqe_targets(batch.rewards, batch.terminal, next_q, policy, batch.gamma)
    batch.assert_targets(got, products(batch))


@law(corridor=corridors(forward=(0.5, 0.25, 0.75, 1.0)))
def test_values_of_a_hesitant_policy_are_their_own_fqe_targets(fqe_targets, corridor):
    """The exact values of a policy that waits now and then reproduce themselves.

    With ρ = p / (1 − γ (1 − p)): V_k = ρ (γρ)^(K−1−k), the fixed point of Bellman's
    expectation equation.
    """
    rewards, terminal, next_q = corridor.transitions()
    policy = [[corridor.forward, 1.0 - corridor.forward]] * len(rewards)
    corridor.assert_own_targets(fqe_targets(rewards, terminal, next_q, policy, corridor.gamma))


@law(batch=batches(), scale=st.sampled_from((1 + 4e-7, 1 - 4e-7, 1 + 5e-5, 1 - 5e-5)))
@example(batch=Batch([0.0], [0], [], [[1.0, 2.0]], [[0.3333333, 0.6666666]], 1.0), scale=1.0)
def test_fqe_takes_a_rounded_policy_as_it_is(fqe_targets, batch, scale):
    """Probabilities that were rounded are accepted, and weigh with just the numbers given.

    Seven decimals leave a sum within 1e-6 of 1, single precision one within 1e-4.
    """
    single = abs(scale - 1) > 1e-6
    policy = (np.asarray(batch.policy) * scale).astype(np.float32 if single else np.float64)
    got = fqe_targets(batch.rewards, batch.terminal, batch.target, policy, batch.gamma)
    given = replace(batch, policy=policy.tolist())
    given.assert_targets(got, products(given))


@law(batch=batches())
def test_fqe_targets_of_a_batch_are_those_of_its_transitions(fqe_targets, batch):
    """Every transition has the target that it would have alone."""
    assert_rows_apart(fqe_targets, batch, batch.evaluation())


@law(reward=near(HUGE, -HUGE, 1e300), value=near(HUGE, -HUGE, 1e-300))
@example(reward=HUGE, value=HUGE)
@example(reward=HUGE, value=-HUGE)
def test_fqe_targets_beyond_float64_are_infinite(fqe_targets, reward, value):
    """The largest numbers give their exact sum, or an infinity of its sign."""
    batch = Batch([reward], [0], [], [[HUGE, value]], [[0.25, 0.75]], 1.0)
    got = fqe_targets(*batch.evaluation())
    batch.assert_targets(got, products(batch))


@law(batch=whole_batches(), kinds=kinds(4))
def test_fqe_takes_numbers_of_every_kind(fqe_targets, batch, kinds):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    got = asked_in_kinds(fqe_targets, kinds, *batch.evaluation())
    batch.assert_targets(got, products(batch))


@law_of_ordinary_sizes
def test_fqe_targets_of_batches_of_ordinary_size(fqe_targets, sample):
    """For each of many transitions all of many actions are weighed by the policy.

    y = r + γ (1 − d) Σ_a π(a | s') Q'(s', a), with actions that the policy never takes.
    """
    batch = ordinary_batch(sample)
    *columns, gamma = batch.evaluation()
    batch.assert_targets(fqe_targets(*sample.held(*columns), gamma), products(batch))


@law_of_refusals(REFUSALS["fqe_targets"])
def test_fqe_targets_refuse(fqe_targets, bad):
    """Policy rows are distributions, next values finite unless terminal, γ lies in [0, 1]."""
    assert_refuses(fqe_targets, *bad.args, **bad.kwargs)
