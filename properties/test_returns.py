"""Laws of `rlcheck.returns`."""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import returns as reference
from rlcheck.grading.compare import (
    assert_close,
    assert_refuses,
    assert_sum,
    assert_sums,
    assert_untouched,
    discounted_terms,
    exact,
    nearest_float,
    numbers,
    total,
)
from rlcheck.grading.laws import law

from .ordinary import law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import REALS, WHOLE, discounts, forms, long_row, near, reals, steps, whole_numbers

NAN, INF = float("nan"), float("inf")

REFUSALS = {
    "discounted_return": (
        refuse([1.0, NAN], 0.9, says="rewards[1] is nan"),
        refuse([INF, 1.0], 0.9, says="rewards[0] is inf"),
        refuse([1.0, -INF], 0.0, says="rewards[1] is -inf"),
        refuse([[1.0, 2.0]], 0.9, says="rewards has shape (1, 2); it must be a vector"),
        refuse([1.0, 2.0], 1.1, says="gamma is 1.1; it must lie in [0, 1]"),
        refuse([1.0, 2.0], -0.1, says="gamma is -0.1"),
        refuse([1.0, 2.0], NAN, says="gamma is nan"),
        refuse([], INF, says="gamma is inf"),
        refuse([1.0, 2.0], None, says="gamma is None"),
        refuse([1.0, 2.0], "0.9", says="gamma is '0.9'"),
        refuse([1.0, 2.0], [0.9], says="gamma has shape (1,); it must be a scalar"),
        refuse([1.0, 2.0], 1.0 + 1e-9, says="it must lie in [0, 1]"),
        refuse([[1.0], [2.0]], 0.9, says="rewards has shape (2, 1); it must be a vector"),
        refuse(1.0, 0.9, says="rewards has shape (); it must be a vector"),
        refuse("12", 0.9, says="rewards is '12'"),
        refuse([1.0, "2"], 0.9, says="rewards[1] is '2'"),
        refuse([1.0, None], 0.9, says="rewards[1] is None"),
        refuse(None, 0.9, says="rewards is None"),
        refuse({"0": 1.0}, 0.9, says="rewards is {'0': 1.0}"),
    ),
    "td_residuals": (
        refuse([1.0], [0.0, NAN], 0.9, says="values[1] is nan"),
        refuse([1.0], [0.0, NAN], 0.9, [1], says="values[1] is nan"),
        refuse([1.0], [INF, 0.0], 0.0, says="values[0] is inf"),
        refuse([1.0, NAN], [0.0, 0.0, 0.0], 0.9, says="rewards[1] is nan"),
        refuse([1.0, 2.0], [0.0, 0.0], 0.9, says="values has length 2; it must have length 3"),
        refuse([1.0], [0.0, 0.0, 0.0], 0.9, says="values has length 3; it must have length 2"),
        refuse([], [], 0.9, says="values has length 0; it must have length 1"),
        refuse([1.0, 2.0], [0.0] * 3, 0.9, [1], says="terminated has shape (1,)"),
        refuse([1.0], [0.0] * 2, 0.9, [0, 1], says="terminated has shape (2,)"),
        refuse([1.0], [0.0] * 2, 0.9, 1, says="terminated has shape ()"),
        refuse([1.0, 1.0], [0.0] * 3, 0.9, [0, 2], says="terminated[1] is 2; it must be 0 or 1"),
        refuse([1.0], [0.0] * 2, 0.9, [0.5], says="terminated[0] is 0.5"),
        refuse([1.0], [0.0] * 2, 0.9, [0.7], says="terminated[0] is 0.7"),
        refuse([1.0], [0.0] * 2, 0.9, [NAN], says="terminated[0] is nan"),
        refuse([1.0], [0.0] * 2, 1.5, says="gamma is 1.5; it must lie in [0, 1]"),
        refuse([1.0], [0.0] * 2, -1.0, says="gamma is -1.0"),
        refuse([1.0], [0.0] * 2, NAN, says="gamma is nan"),
        refuse([[1.0]], [0.0] * 2, 0.9, says="rewards has shape (1, 1); it must be a vector"),
        refuse([1.0], ["0", "1"], 0.9, says="values[0] is '0'"),
        refuse([1.0], None, 0.9, says="values is None"),
    ),
    "discounted_td_sum": (
        refuse([1.0, NAN], 0.9, says="deltas[1] is nan"),
        refuse([INF], 0.9, says="deltas[0] is inf"),
        refuse([0.0, -INF], 0.0, says="deltas[1] is -inf"),
        refuse([[1.0], [2.0]], 0.9, says="deltas has shape (2, 1); it must be a vector"),
        refuse([1.0], 1.0 + 1e-9, says="it must lie in [0, 1]"),
        refuse([1.0], -1e-9, says="gamma is -1e-09"),
        refuse([1.0], NAN, says="gamma is nan"),
        refuse([1.0], "0.9", says="gamma is '0.9'"),
        refuse("1", 0.9, says="deltas is '1'"),
        refuse([None], 0.9, says="deltas[0] is None"),
        refuse(None, 0.9, says="deltas is None"),
    ),
    "semi_markov_return": (
        refuse([1.0, NAN], [1, 1], 0.9, says="rewards[1] is nan"),
        refuse([INF], [1], 0.9, says="rewards[0] is inf"),
        refuse([1.0, 2.0], [1, 0], 0.9, says="durations[1] is 0.0; it must be a positive integer"),
        refuse([1.0], [-1], 0.9, says="durations[0] is -1.0"),
        refuse([1.0], [1.5], 0.9, says="durations[0] is 1.5"),
        refuse([1.0], [1.0004], 0.9, says="durations[0] is 1.0004"),
        refuse([1.0], [0.5], 0.9, says="durations[0] is 0.5"),
        refuse([1.0], [NAN], 0.9, says="durations[0] is nan"),
        refuse([1.0], [INF], 0.9, says="durations[0] is inf"),
        refuse([1.0], [1, 2], 0.9, says="durations has length 2; it must have length 1"),
        refuse([1.0, 2.0], [1], 0.9, says="durations has length 1; it must have length 2"),
        refuse([1.0], [[1]], 0.9, says="durations has shape (1, 1); it must be a vector"),
        refuse([1.0], [1], 1.1, says="gamma is 1.1; it must lie in [0, 1]"),
        refuse([1.0], [1], -0.5, says="gamma is -0.5"),
        refuse([1.0], [1], NAN, says="gamma is nan"),
        refuse("12", [1, 1], 0.9, says="rewards is '12'"),
        refuse([1.0, None], [1, 1], 0.9, says="rewards[1] is None"),
        refuse([1.0], ["1"], 0.9, says="durations[0] is '1'"),
    ),
    "collector_target": (
        refuse(1.0, NAN, gamma=0.9, terminated=False, says="next_value is nan"),
        refuse(1.0, INF, gamma=0.0, terminated=0, says="next_value is inf"),
        refuse([1.0, 2.0], [NAN, INF], gamma=0.9, terminated=[1, 0], says="next_value[1] is inf"),
        refuse([1.0, NAN], [0.0, 0.0], gamma=0.9, terminated=[1, 1], says="reward[1] is nan"),
        refuse(-INF, 1.0, gamma=0.9, terminated=True, says="reward is -inf"),
        refuse(1.0, 1.0, gamma=0.9, terminated=2, says="terminated is 2; it must be 0 or 1"),
        refuse([1.0], [1.0], gamma=0.9, terminated=[0.5], says="terminated[0] is 0.5"),
        refuse([1.0], [1.0], gamma=0.9, terminated=[NAN], says="terminated[0] is nan"),
        refuse([1.0] * 2, [1.0] * 3, gamma=0.9, terminated=0, says="have shapes (2,), (3,) and ()"),
        refuse(1.0, [1.0] * 3, gamma=0.9, terminated=[0, 1], says="have shapes (), (3,) and (2,)"),
        refuse(1.0, 1.0, gamma=1.1, terminated=0, says="gamma is 1.1; it must lie in [0, 1]"),
        refuse(1.0, 1.0, gamma=-0.1, terminated=1, says="gamma is -0.1"),
        refuse(1.0, 1.0, gamma=NAN, terminated=1, says="gamma is nan"),
        refuse("1", 1.0, gamma=0.9, terminated=0, says="reward is '1'"),
        refuse(1.0, None, gamma=0.9, terminated=0, says="next_value is None"),
        refuse(1.0, 1.0, gamma=0.9, terminated=None, says="terminated is None"),
    ),
    "return_to_go": (
        refuse([1.0, NAN], says="rewards[1] is nan"),
        refuse([1.0, INF, 0.0], 0.0, says="rewards[1] is inf"),
        refuse([-INF], says="rewards[0] is -inf"),
        refuse([[1.0], [2.0], [3.0]], says="rewards has shape (3, 1); it must be a vector"),
        refuse([1.0], 1.01, says="gamma is 1.01; it must lie in [0, 1]"),
        refuse([1.0], -0.01, says="gamma is -0.01"),
        refuse([], NAN, says="gamma is nan"),
        refuse("12", says="rewards is '12'"),
        refuse([None, 1.0], says="rewards[0] is None"),
        refuse(None, says="rewards is None"),
        refuse({"0": 1.0}, says="rewards is {'0': 1.0}"),
    ),
}

HUGE = (0.0, 1.7e308, 1e308, 1.0)
JUNK = (NAN, INF, -INF, 1e308)
ENDS = (0, 1, 0.0, 1.0)


@dataclass(frozen=True)
class Episodes:
    """Steps of several episodes in a row; the last value is that of the state after them all."""

    rewards: list[float]
    values: list[float]
    terminated: list[bool]
    gamma: float

    @property
    def expanded(self) -> list[list[Fraction]]:
        """r_t, γ (1 − d_t) V_{t+1} and −V_t of every residual."""
        g = exact(self.gamma)
        following = zip(self.terminated, self.values[1:], strict=True)
        after = [Fraction(0) if ended else g * exact(value) for ended, value in following]
        before = [-exact(value) for value in self.values[:-1]]
        return [list(row) for row in zip(map(exact, self.rewards), after, before, strict=True)]

    @property
    def telescoped(self) -> list[Fraction]:
        """Terms of G − V_0 + γ^T V_T − Σ_t d_t γ^{t+1} V_{t+1}."""
        powers = discounted_terms([1] * len(self.values), self.gamma)
        cut = [
            -power * exact(value)
            for power, value, ended in zip(
                powers[1:], self.values[1:], self.terminated, strict=True
            )
            if ended
        ]
        ends = [-exact(self.values[0]), powers[-1] * exact(self.values[-1])]
        return [*discounted_terms(self.rewards, self.gamma), *ends, *cut]

    @property
    def scale(self) -> float:
        """Σ γ^t (|r_t| + γ (1 − d_t) |V_{t+1}| + |V_t|), the terms of all residuals."""
        rows = map(total, self.expanded)
        return sum(self.gamma**t * row for t, row in enumerate(rows))

    @property
    def pieces(self) -> list[slice]:
        """The steps of each episode, the unfinished one at the end too."""
        ends = [t + 1 for t, ended in enumerate(self.terminated) if ended]
        cuts = [0, *ends, len(self.rewards)]
        return [slice(a, b) for a, b in pairwise(cuts) if a < b]


def episodes() -> st.SearchStrategy[Episodes]:
    """Up to eleven steps, a third of them terminal; none at all, too."""
    records = steps(
        lambda reward, value, flag: (REALS[reward], REALS[value], flag == 2),
        256,
        256,
        3,
        min_size=1,
    )
    return st.tuples(records, discounts()).map(
        lambda drawn: Episodes(
            [reward for reward, _, _ in drawn[0][:-1]],
            [value for _, value, _ in drawn[0]],
            [ended for _, _, ended in drawn[0][:-1]],
            drawn[1],
        )
    )


@dataclass(frozen=True)
class MacroWalk:
    """A trajectory of primitive steps, cut into macro-actions."""

    rewards: list[list[float]]  # one list of primitive rewards for each macro-action
    gamma: float

    @property
    def durations(self) -> list[int]:
        return [len(inside) for inside in self.rewards]

    @property
    def macro_rewards(self) -> list[float]:
        return [nearest_float(sum(discounted_terms(ins, self.gamma))) for ins in self.rewards]

    @property
    def flat(self) -> list[float]:
        return [reward for inside in self.rewards for reward in inside]


def macro_walks(min_size: int = 0) -> st.SearchStrategy[MacroWalk]:
    """Walks of up to six macro-actions of one to four primitive steps."""
    inside = steps(
        lambda duration, first, rest: [REALS[first]] + [REALS[rest]] * duration,
        4,
        256,
        256,
        min_size=min_size,
        max_size=6,
    )
    return st.tuples(inside, discounts()).map(lambda drawn: MacroWalk(*drawn))


Transition: TypeAlias = tuple[float, float, bool]


def transitions(min_size: int = 0, max_size: int = 8) -> st.SearchStrategy[list[Transition]]:
    """(reward, next value, terminated) of separate transitions, half of them terminal."""
    return steps(
        lambda reward, value, flag: (REALS[reward], REALS[value], bool(flag)),
        256,
        256,
        2,
        min_size=min_size,
        max_size=max_size,
    )


def tables() -> st.SearchStrategy[tuple[list[Transition], list[Transition]]]:
    """Transitions down the side and along the top of a table, which is often square."""
    sides = st.tuples(transitions(1, 4), st.none() | transitions(1, 4))
    return sides.map(lambda drawn: (drawn[0], drawn[0] if drawn[1] is None else drawn[1]))


def extremes() -> st.SearchStrategy[list[float]]:
    """Huge numbers of one sign: their sum leaves float64 exactly when it is beyond it."""
    sizes = steps(HUGE.__getitem__, len(HUGE), min_size=1, max_size=5)
    return st.tuples(sizes, st.sampled_from([1.0, -1.0])).map(
        lambda drawn: [drawn[1] * size for size in drawn[0]]
    )


def target_terms(reward: float, value: float, ended: bool, gamma: float) -> list[Fraction]:
    """r and, unless the task ended, γ V'."""
    return [exact(reward)] + ([] if ended else [exact(gamma) * exact(value)])


# ---- discounted_return ----------------------------------------------------------------------


@law(rewards=reals(), gamma=discounts())
@example(rewards=[1.0, 2.0, 4.0], gamma=0.5)  # mohmdelsayed/streaming-drl#3
@example(rewards=[1.0, 2.0, 3.0], gamma=0.5)  # Howuhh/faster-trajectory-transformer#9
@example(rewards=[0.0] * 10 + [1.0], gamma=0.995)  # Denys88/rl_games#356
@example(rewards=long_row(250), gamma=0.99)
def test_return_is_the_sum_of_discounted_rewards(discounted_return, rewards, gamma):
    """The reward at time t counts γ^t times.

    G = Σ_t γ^t r_t, in rational arithmetic. Sutton and Barto (2018), equation 3.8.
    """
    assert_sum(discounted_return(rewards, gamma), discounted_terms(rewards, gamma))


@law(
    reward=st.sampled_from(REALS),
    length=st.integers(0, 80),
    gamma=st.sampled_from([0.9, 0.99, 0.5, 1.0]),
)
def test_return_of_a_constant_reward_is_a_geometric_series(
    discounted_return, reward, length, gamma
):
    """A constant reward adds up to a geometric series.

    G = r (1 − γ^T) / (1 − γ), and T r for γ = 1.
    """
    g = exact(gamma)
    series = (1 - g**length) / (1 - g) if gamma < 1 else Fraction(length)
    got = discounted_return([reward] * length, gamma)
    truth = exact(reward) * series
    assert_close(got, nearest_float(truth), terms=abs(float(truth)), count=length)


@law(first=reals(max_size=6), second=reals(max_size=6), gamma=discounts())
def test_return_of_joined_trajectories_discounts_the_second(
    discounted_return, first, second, gamma
):
    """A trajectory that follows another counts γ^T times, T being the length of the first.

    G(a, b) = G(a) + γ^{|a|} G(b)
    """
    got = discounted_return(first + second, gamma)
    later = gamma ** len(first) * reference.discounted_return(second, gamma)
    terms = total(discounted_terms(first + second, gamma))
    assert_close(got, reference.discounted_return(first, gamma) + later, terms=terms, count=12)


@law(rewards=reals(min_size=1), idle=st.integers(1, 4), gamma=discounts())
def test_steps_without_reward_at_the_end_leave_the_return(discounted_return, rewards, idle, gamma):
    """Waiting at the end for nothing leaves the return as it is.

    G(r, 0, …, 0) = G(r) = R_0
    """
    got = discounted_return(rewards + [0.0] * idle, gamma)
    terms = total(discounted_terms(rewards, gamma))
    assert_close(got, reference.return_to_go(rewards, gamma)[0], terms=terms, count=12)


@law(rewards=reals(), gamma=st.sampled_from(ENDS))
@example(rewards=[], gamma=0)
@example(rewards=[3.0], gamma=0)
def test_return_at_the_ends_of_gamma(discounted_return, rewards, gamma):
    """γ = 0 leaves the first reward alone, γ = 1 adds them all; no reward at all gives 0.

    0^0 = 1
    """
    counted = rewards if gamma else rewards[:1]
    assert_sum(discounted_return(rewards, gamma), [exact(reward) for reward in counted])


@law(rewards=extremes())
@example(rewards=[1.7e308, 1.7e308])
def test_return_overflows_only_where_it_is_beyond_float64(discounted_return, rewards):
    """A return beyond float64 is infinite, with its sign, and never NaN."""
    assert_sum(discounted_return(rewards, 1.0), discounted_terms(rewards, 1.0))


@law(rewards=whole_numbers(), form=forms(), gamma=st.sampled_from([0.5, 0.9, 1]))
def test_return_reads_any_array_and_leaves_it_alone(discounted_return, rewards, form, gamma):
    """Lists, tuples, integers and float32 give the value of float64, and stay as they were."""
    assert_untouched(discounted_return, form(rewards), gamma)
    assert_sum(discounted_return(form(rewards), gamma), discounted_terms(rewards, gamma))


@law_of_ordinary_sizes
def test_return_of_a_trajectory_of_ordinary_length(discounted_return, sample):
    """A trajectory of ordinary length is worth the discounted sum of all its rewards.

    G = Σ_t γ^t r_t, whatever container holds the rewards.
    """
    rewards, gamma = sample.reals("rewards", sample.columns), sample.discount("gamma")
    got = discounted_return(*sample.held(rewards), gamma)
    assert_sum(got, discounted_terms(rewards, gamma))


@law_of_refusals(REFUSALS["discounted_return"])
def test_discounted_return_refuses(discounted_return, bad):
    """Rewards are a vector of finite numbers, and γ lies in [0, 1]."""
    assert_refuses(discounted_return, *bad.args, **bad.kwargs)


# ---- td_residuals ---------------------------------------------------------------------------

LONG_EPISODES = Episodes(long_row(), long_row(101), [i % 40 == 39 for i in range(100)], 0.9)


@law(episode=episodes())
# thu-ml/tianshou#869: raw values, a terminal at the end
@example(episode=Episodes([1.0, 1.0], [0.5, 0.5, 9.0], [False, True], 0.9))
@example(episode=Episodes([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [True, True, False], 0.5))
@example(episode=LONG_EPISODES)
def test_td_residuals_telescope_with_terminals_anywhere(td_residuals, episode):
    """The discounted residuals add up to the return and the values at the ends and terminals.

    Σ_t γ^t δ_t = G − V_0 + γ^T V_T − Σ_t d_t γ^{t+1} V_{t+1}
    """
    got = td_residuals(episode.rewards, episode.values, episode.gamma, episode.terminated)
    deltas = numbers(got, shape=(len(episode.rewards),))
    summed = np.sum(episode.gamma ** np.arange(len(deltas)) * deltas)
    if deltas.dtype.kind == "f":
        summed = summed.astype(deltas.dtype)
    truth = nearest_float(sum(episode.telescoped))
    assert_close(summed, truth, terms=episode.scale, count=3 * len(deltas))


@law(episode=episodes())
# thu-ml/tianshou#886: the first value is not the last one of the batch
@example(episode=Episodes([0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 5.0], [False] * 3, 1.0))
# PufferAI/PufferLib#363: the last step has a residual too
@example(episode=Episodes([1.0], [0.5, 2.0], [False], 0.5))
@example(episode=Episodes([2.0], [4.0, 8.0], [True], 0.5))
@example(episode=LONG_EPISODES)
def test_td_residual_is_the_surprise_of_one_step(td_residuals, episode):
    """A residual is reward plus discounted next value, none after a terminal, minus the value.

    δ_t = r_t + γ (1 − d_t) V_{t+1} − V_t, in rational arithmetic.
    """
    got = td_residuals(episode.rewards, episode.values, episode.gamma, episode.terminated)
    assert_sums(got, episode.expanded)


@law(episode=episodes())
def test_td_residuals_of_the_true_values_vanish(td_residuals, episode):
    """Where every value is the return that follows, nothing surprises.

    V_t = r_t + γ (1 − d_t) V_{t+1} for all t makes every δ_t zero.
    """
    values, last = [], episode.values[-1:]
    for piece in episode.pieces:
        ended = episode.terminated[piece][-1]
        tail = [0.0] if ended else last
        values += [*reference.return_to_go(episode.rewards[piece] + tail, episode.gamma)][:-1]
    got = td_residuals(episode.rewards, values + last, episode.gamma, episode.terminated)
    scale = total(episode.rewards + last)
    assert_close(got, np.zeros(len(episode.rewards)), terms=scale, count=12)


@law(episode=episodes())
def test_td_residuals_of_each_episode_stand_alone(td_residuals, episode):
    """A terminal cuts the trajectory: each episode has the residuals that it has alone.

    The value after its last step is then 0.
    """
    got = td_residuals(episode.rewards, episode.values, episode.gamma, episode.terminated)
    alone = []
    for piece in episode.pieces:
        last = 0.0 if episode.terminated[piece][-1] else episode.values[-1]
        values = episode.values[piece] + [last]
        alone += [*reference.td_residuals(episode.rewards[piece], values, episode.gamma)]
    assert_close(got, alone, terms=[total(row) for row in episode.expanded])


@law(episode=episodes(), given=st.booleans())
def test_no_flags_mean_no_terminal(td_residuals, episode, given):
    """Without flags, no step is a terminal, the last one neither.

    δ_t = r_t + γ V_{t+1} − V_t
    """
    open_ended = replace(episode, terminated=[False] * len(episode.rewards))
    flags = {"terminated": None} if given else {}
    got = td_residuals(episode.rewards, episode.values, episode.gamma, **flags)
    assert_sums(got, open_ended.expanded)


@law(episode=episodes(), gamma=st.sampled_from(ENDS))
@example(episode=Episodes([], [3.0], [], 1.0), gamma=1)
def test_td_residuals_at_the_ends_of_gamma(td_residuals, episode, gamma):
    """γ = 0 makes every step its own episode, γ = 1 leaves the next value whole."""
    got = td_residuals(episode.rewards, episode.values, gamma, episode.terminated)
    ended = episode.terminated if gamma else [True] * len(episode.rewards)
    assert_sums(got, replace(episode, terminated=ended, gamma=1.0).expanded)


@law(parts=st.tuples(*[near(*HUGE)] * 3), sign=st.sampled_from([1.0, -1.0]))
@example(parts=(1.7e308, 1.7e308, 0.0), sign=1.0)
def test_td_residuals_overflow_only_where_they_are_beyond_float64(td_residuals, parts, sign):
    """A residual beyond float64 is infinite, with its sign, and never NaN."""
    reward, following, before = (sign * part for part in parts)
    got = td_residuals([reward], [-before, following], 1.0)
    assert_sums(got, [[exact(reward), exact(following), exact(before)]])


@law(
    rows=steps(
        lambda reward, value, flag: (WHOLE[reward], WHOLE[value], flag), 10, 10, 2, min_size=1
    ),
    form=forms(),
    gamma=st.sampled_from([0.5, 0.9]),
)
def test_td_residuals_read_any_array_and_leave_it_alone(td_residuals, rows, form, gamma):
    """Lists, tuples, integers and float32 give the values of float64, and stay as they were."""
    rewards, values, ended = (list(column) for column in zip(*rows, strict=True))
    episode = Episodes(rewards[:-1], values, ended[:-1], gamma)
    call = (form(rewards[:-1]), form(values), gamma, form(ended[:-1]))
    assert_untouched(td_residuals, *call)
    assert_sums(td_residuals(*call), episode.expanded)


@law_of_ordinary_sizes
def test_td_residuals_of_a_trajectory_of_ordinary_length(td_residuals, sample):
    """Every step of a trajectory of ordinary length has its own residual.

    δ_t = r_t + γ (1 − d_t) V_{t+1} − V_t, with several episodes in a row or without flags.
    """
    rewards = sample.reals("rewards", sample.columns)
    values = sample.reals("values", sample.columns + 1)
    ended = sample.flags("terminated", sample.columns)
    given = sample.choice("given", True, True, False)
    gamma = sample.discount("gamma")
    held = sample.held(rewards, values, ended)
    got = td_residuals(*held[:2], gamma, *held[2:] if given else ())
    episode = Episodes([*rewards], [*values], [*(ended & given)], gamma)
    assert_sums(got, episode.expanded)


@law_of_refusals(REFUSALS["td_residuals"])
def test_td_residuals_refuses(td_residuals, bad):
    """There is one value more than rewards, all of them finite; flags are 0 or 1, and γ ≤ 1."""
    assert_refuses(td_residuals, *bad.args, **bad.kwargs)


# ---- discounted_td_sum ----------------------------------------------------------------------


@law(episode=episodes())
@example(episode=Episodes([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [True, True, False], 0.5))
def test_discounted_td_sum_telescopes(discounted_td_sum, episode):
    """The sum of the residuals of a trajectory is what its return exceeds its first value by.

    Σ_t γ^t δ_t = G − V_0 + γ^T V_T − Σ_t d_t γ^{t+1} V_{t+1}, for terminals anywhere.
    """
    deltas = reference.td_residuals(
        episode.rewards, episode.values, episode.gamma, episode.terminated
    )
    got = discounted_td_sum(deltas, episode.gamma)
    truth = nearest_float(sum(episode.telescoped))
    assert_close(got, truth, terms=episode.scale, count=3 * len(deltas))


@law(deltas=reals(), gamma=discounts())
@example(deltas=[1.0, -1.0], gamma=0.5)
@example(deltas=long_row(250), gamma=0.99)
def test_td_sum_is_the_sum_of_discounted_residuals(discounted_td_sum, deltas, gamma):
    """The residual at time t counts γ^t times.

    Σ_t γ^t δ_t, in rational arithmetic.
    """
    assert_sum(discounted_td_sum(deltas, gamma), discounted_terms(deltas, gamma))


@law(delta=st.sampled_from(REALS), before=st.integers(0, 60), after=st.integers(0, 3))
def test_td_sum_of_one_surprise_is_its_discounted_size(discounted_td_sum, delta, before, after):
    """A single surprise at time t counts γ^t times, whatever number of quiet steps follows.

    Σ = 0.9^t δ
    """
    deltas = [0.0] * before + [delta] + [0.0] * after
    truth = exact(0.9) ** before * exact(delta)
    assert_sum(discounted_td_sum(deltas, 0.9), [truth] + [0] * (len(deltas) - 1))


@law(deltas=reals(min_size=1), size=st.sampled_from([-1.0, 4.0, 1024.0, 2.0**-20]))
def test_td_sum_scales_with_the_residuals(discounted_td_sum, deltas, size):
    """Residuals c times as large have a sum c times as large.

    Σ γ^t (c δ_t) = c Σ γ^t δ_t
    """
    got = discounted_td_sum([size * delta for delta in deltas], 0.9)
    terms = abs(size) * total(discounted_terms(deltas, 0.9))
    assert_close(got, size * reference.return_to_go(deltas, 0.9)[0], terms=terms)


@law(deltas=reals(), gamma=st.sampled_from(ENDS))
@example(deltas=[], gamma=1)
@example(deltas=[2.0, 3.0], gamma=0)
def test_td_sum_at_the_ends_of_gamma(discounted_td_sum, deltas, gamma):
    """γ = 0 leaves the first residual alone, γ = 1 adds them all; none at all give 0."""
    counted = deltas if gamma else deltas[:1]
    assert_sum(discounted_td_sum(deltas, gamma), [exact(delta) for delta in counted])


@law(deltas=extremes())
@example(deltas=[1.7e308, 1.7e308])
def test_td_sum_overflows_only_where_it_is_beyond_float64(discounted_td_sum, deltas):
    """A sum beyond float64 is infinite, with its sign, and never NaN."""
    assert_sum(discounted_td_sum(deltas, 1.0), discounted_terms(deltas, 1.0))


@law(deltas=whole_numbers(), form=forms(), gamma=st.sampled_from([0.5, 0.9, 1]))
def test_td_sum_reads_any_array_and_leaves_it_alone(discounted_td_sum, deltas, form, gamma):
    """Lists, tuples, integers and float32 give the value of float64, and stay as they were."""
    assert_untouched(discounted_td_sum, form(deltas), gamma)
    assert_sum(discounted_td_sum(form(deltas), gamma), discounted_terms(deltas, gamma))


@law_of_ordinary_sizes
def test_td_sum_of_a_trajectory_of_ordinary_length(discounted_td_sum, sample):
    """The residuals of a trajectory of ordinary length all count, each at its own discount.

    Σ_t γ^t δ_t, whatever container holds the residuals.
    """
    deltas, gamma = sample.reals("deltas", sample.columns), sample.discount("gamma")
    got = discounted_td_sum(*sample.held(deltas), gamma)
    assert_sum(got, discounted_terms(deltas, gamma))


@law_of_refusals(REFUSALS["discounted_td_sum"])
def test_discounted_td_sum_refuses(discounted_td_sum, bad):
    """Residuals are a vector of finite numbers, and γ lies in [0, 1]."""
    assert_refuses(discounted_td_sum, *bad.args, **bad.kwargs)


# ---- semi_markov_return ---------------------------------------------------------------------


@law(walk=macro_walks())
@example(walk=MacroWalk([[2.0, 0.0, 0.0], [8.0]], 0.5))  # AVSLab/bsk_rl#248
@example(walk=MacroWalk([[0.0, 0.0], [1.0, 0.0, 0.0]], 0.9))
@example(walk=MacroWalk([long_row(1 + i % 9) for i in range(60)], 0.99))
def test_macro_actions_return_what_their_primitive_steps_return(semi_markov_return, walk):
    """Cutting a trajectory into macro-actions leaves its return as it is.

    Σ_k γ^(τ_0+…+τ_{k−1}) R_k = Σ_t γ^t r_t, where R_k is discounted inside its own macro-action.
    """
    got = semi_markov_return(walk.macro_rewards, walk.durations, walk.gamma)
    assert_sum(got, discounted_terms(walk.flat, walk.gamma))


@law(rewards=reals(), gamma=discounts())
def test_macro_actions_of_one_step_are_ordinary_actions(semi_markov_return, rewards, gamma):
    """Macro-actions of one step each have the ordinary discounted return.

    Σ_k γ^k R_k
    """
    got = semi_markov_return(rewards, [1] * len(rewards), gamma)
    assert_sum(got, discounted_terms(rewards, gamma))


@law(walk=macro_walks(min_size=1), last=st.integers(1, 200))
def test_duration_of_the_last_macro_action_does_not_matter(semi_markov_return, walk, last):
    """Nothing follows the last macro-action, so its duration discounts nothing."""
    durations = [*walk.durations[:-1], last]
    got = semi_markov_return(walk.macro_rewards, durations, walk.gamma)
    assert_sum(got, discounted_terms(walk.flat, walk.gamma))


@law(wait=st.integers(1, 300), reward=st.sampled_from(REALS), gamma=discounts())
@example(wait=1, reward=1.0, gamma=0.0)
@example(wait=103, reward=1.0, gamma=0.001)  # 1e-309
def test_waiting_discounts_by_the_steps_that_passed(semi_markov_return, wait, reward, gamma):
    """A reward after a wait of τ steps counts γ^τ times.

    G = γ^τ R
    """
    got = semi_markov_return([0.0, reward], [wait, 1], gamma)
    assert_sum(got, [exact(gamma) ** wait * exact(reward)])


@law(walk=macro_walks(), gamma=st.sampled_from(ENDS))
@example(walk=MacroWalk([], 1.0), gamma=0)
def test_semi_markov_return_at_the_ends_of_gamma(semi_markov_return, walk, gamma):
    """γ = 0 leaves the first macro-reward alone, γ = 1 adds them all; none at all give 0."""
    rewards = walk.macro_rewards
    counted = rewards if gamma else rewards[:1]
    got = semi_markov_return(rewards, walk.durations, gamma)
    assert_sum(got, [exact(reward) for reward in counted])


@law(rewards=extremes())
@example(rewards=[1.7e308, 1.7e308])
def test_semi_markov_return_overflows_only_where_it_is_beyond_float64(semi_markov_return, rewards):
    """A return beyond float64 is infinite, with its sign, and never NaN."""
    got = semi_markov_return(rewards, [2] * len(rewards), 1.0)
    assert_sum(got, discounted_terms(rewards, 1.0))


@law(rewards=whole_numbers(), form=forms(), duration=st.integers(1, 3))
def test_semi_markov_return_reads_any_array_and_leaves_it_alone(
    semi_markov_return, rewards, form, duration
):
    """Lists, tuples, integers and float32 give the value of float64, and stay as they were."""
    call = (form(rewards), form([duration] * len(rewards)), 0.5)
    assert_untouched(semi_markov_return, *call)
    assert_sum(semi_markov_return(*call), discounted_terms(rewards, 0.5**duration))


@law_of_ordinary_sizes
def test_return_of_macro_actions_of_ordinary_number_and_duration(semi_markov_return, sample):
    """Each of many macro-actions is discounted by all the steps that passed before it.

    G = Σ_k γ^(τ_0+…+τ_{k−1}) R_k, for durations of a few steps up to thousands.
    """
    rewards = sample.reals("rewards", sample.columns)
    longest = sample.choice("longest", 3, 12, 60, 600, 3000)
    durations = sample.integers("durations", 1, longest + 1, sample.columns)
    gamma = sample.choice("gamma", sample.number("free"), 1 - 1 / (20 * longest), 1.0)
    passed = np.cumsum(durations) - durations
    terms = [gamma ** int(steps) * reward for steps, reward in zip(passed, rewards, strict=True)]
    got = semi_markov_return(*sample.held(rewards, durations), gamma)
    assert_sum(got, terms)


@law_of_refusals(REFUSALS["semi_markov_return"])
def test_semi_markov_return_refuses(semi_markov_return, bad):
    """Durations are positive integers, rewards are finite, and γ lies in [0, 1]."""
    assert_refuses(semi_markov_return, *bad.args, **bad.kwargs)


# ---- collector_target -----------------------------------------------------------------------


@law(step=transitions(1, 1), gamma=discounts())
@example(step=[(1.0, 8.0, True)], gamma=0.5)  # openai/spinningup#233: both flags at once
@example(step=[(1.0, 2.0, False)], gamma=0.5)  # Denys88/rl_games#128: a time limit
@example(step=[(1.0, 8.0, False)], gamma=0.5)  # HumanCompatibleAI/imitation#335: a fragment's end
@example(step=[(3.0, 7.0, True)], gamma=1.0)  # bold-lab-ai/JaxMARL#93
def test_target_bootstraps_unless_the_task_ended(collector_target, step, gamma):
    """A single transition is worth its reward, plus the discounted next value unless terminated.

    y = r + γ V', or r where terminated. A truncation is not a termination.
    """
    [(reward, value, ended)] = step
    got = collector_target(reward, value, gamma=gamma, terminated=ended)
    assert_sum(got, target_terms(reward, value, ended, gamma))


@law(batch=transitions(), rows=st.integers(1, 3), gamma=discounts())
@example(batch=[(1.0, 8.0, True), (1.0, 8.0, False)] * 2, rows=2, gamma=0.5)
@example(batch=[(1.0, 8.0, True), (1.0, 8.0, False)] * 3, rows=3, gamma=0.5)
def test_target_of_each_transition_stands_alone(collector_target, batch, rows, gamma):
    """In a batch, one row or several, each transition has the target that it has alone.

    y_i = r_i + γ (1 − d_i) V'_i
    """
    batch = batch[: len(batch) // rows * rows]
    shape = {1: (-1,), 2: (2, len(batch) // 2), 3: (3, 1, len(batch) // 3)}[rows]
    rewards, values, ended = (np.reshape([row[i] for row in batch], shape) for i in range(3))
    got = collector_target(rewards, values, gamma=gamma, terminated=ended)
    assert_sums(got, [target_terms(*row, gamma) for row in batch], shape=rewards.shape)


@law(batch=transitions(1), junk=st.sampled_from(JUNK), gamma=discounts())
@example(batch=[(2.0, 0.0, True)], junk=NAN, gamma=0.9)  # pytorch/rl#3744
@example(batch=[(2.0, 0.0, True)], junk=INF, gamma=0.0)
@example(batch=[(2.0, 4.0, i % 9 == 0) for i in range(100)], junk=NAN, gamma=0.5)
def test_next_value_of_a_terminal_is_inert(collector_target, batch, junk, gamma):
    """What stands in a terminal's next value, NaN and infinities too, changes nothing.

    y = r where terminated
    """
    rewards, ended = ([row[i] for row in batch] for i in (0, 2))
    values = [junk if last else value for _, value, last in batch]
    got = collector_target(rewards, values, gamma=gamma, terminated=ended)
    assert_sums(got, [target_terms(*row, gamma) for row in batch])


@law(tables=tables(), flags_by=st.sampled_from(["column", "row", "all"]))
def test_targets_broadcast(collector_target, tables, flags_by):
    """Rewards in a column and next values in a row give the table of all pairs.

    y_ij = r_i + γ (1 − d) V'_j with d = d_i, d_j, or one for all.
    """
    rows, columns = tables
    down = np.array([row[0] for row in rows])[:, None]  # [N, 1]
    across = np.array([column[1] for column in columns])  # [M]
    by_row, by_column = ([step[2] for step in side] for side in (rows, columns))
    ended = {"row": np.array(by_row)[:, None], "column": by_column, "all": by_row[0]}[flags_by]
    table = np.broadcast_to(ended, (len(rows), len(columns)))
    got = collector_target(down, across, gamma=0.5, terminated=ended)
    cells = np.ndindex(table.shape)
    terms = [target_terms(rows[i][0], columns[j][1], table[i, j], 0.5) for i, j in cells]
    assert_sums(got, terms, shape=table.shape)


@law(episode=episodes())
def test_target_minus_value_is_the_td_residual(collector_target, episode):
    """Along a trajectory, the target exceeds the value by the temporal difference.

    y_t − V_t = δ_t
    """
    got = collector_target(
        episode.rewards, episode.values[1:], gamma=episode.gamma, terminated=episode.terminated
    )
    deltas = reference.td_residuals(
        episode.rewards, episode.values, episode.gamma, episode.terminated
    )
    scale = [total(row) for row in episode.expanded]
    assert_close(got, deltas + episode.values[:-1], terms=scale)


@law(reward=near(*HUGE), value=near(*HUGE), ended=st.booleans())
@example(reward=1.7e308, value=1.7e308, ended=False)
@example(reward=1.7e308, value=1.7e308, ended=True)
def test_target_overflows_to_infinity(collector_target, reward, value, ended):
    """A target beyond float64 is infinite, and a terminal's is its reward however large."""
    got = collector_target(reward, value, gamma=1.0, terminated=ended)
    assert_sum(got, target_terms(reward, value, ended, 1.0))


@law(
    batch=steps(lambda r, v, d: (WHOLE[r], WHOLE[v], d), 10, 10, 2, max_size=6),
    form=forms(),
    gamma=st.sampled_from([0.5, 0.9, 1, 0]),
)
@example(batch=[(i % 7 - 3, i % 5, int(i % 9 == 0)) for i in range(100)], form=list, gamma=0.5)
def test_targets_read_any_array_and_leave_it_alone(collector_target, batch, form, gamma):
    """Lists, tuples, integers and float32 give the values of float64, and stay as they were."""
    rewards, values, ended = (form([row[i] for row in batch]) for i in range(3))
    assert_untouched(collector_target, rewards, values, gamma=gamma, terminated=ended)
    got = collector_target(rewards, values, gamma=gamma, terminated=ended)
    assert_sums(got, [target_terms(*row, gamma) for row in batch])


@law_of_ordinary_sizes
def test_targets_of_batches_of_ordinary_size(collector_target, sample):
    """In vectors, tables and blocks of ordinary size every entry has its own target.

    y = r + γ (1 − d) V', where any of the three may be one number for all, a row or a column.
    """
    shape = sample.layout()
    kept = sample.flags("kept", 3, len(shape), share=0.8)  # an axis that is not kept has length 1
    alone = sample.flags("alone", 3, share=0.15)
    own = [
        () if one else tuple(np.where(axes, shape, 1))
        for one, axes in zip(alone, kept, strict=True)
    ]
    reward, value = sample.reals("rewards", *own[0]), sample.reals("values", *own[1])
    ended = sample.flags("terminated", *own[2], share=0.4)
    gamma = sample.discount("gamma")
    held = sample.held(reward, value, ended)
    got = collector_target(*held[:2], gamma=gamma, terminated=held[2])
    ahead = gamma * np.where(ended, 0.0, value)
    assert_close(got, reward + ahead, terms=np.abs(reward) + np.abs(ahead))


@law_of_refusals(REFUSALS["collector_target"])
def test_collector_target_refuses(collector_target, bad):
    """Next values are finite where they count, flags are 0 or 1, shapes broadcast, and γ ≤ 1."""
    assert_refuses(collector_target, *bad.args, **bad.kwargs)


# ---- return_to_go ---------------------------------------------------------------------------


@law(rewards=reals(), gamma=discounts())
@example(rewards=[1.0, 0.0, -0.5, 2.0], gamma=1.0)
@example(rewards=[1.0, 2.0, 4.0], gamma=0.5)  # mohmdelsayed/streaming-drl#3
@example(rewards=[2.0, 0.0, 1.0], gamma=1.0)  # kzl/decision-transformer#22
@example(rewards=long_row(), gamma=0.99)
def test_return_to_go_is_the_return_from_each_step(return_to_go, rewards, gamma):
    """At every step stands the discounted sum of its own reward and the later ones.

    R_t = Σ_{j ≥ t} γ^{j−t} r_j, in rational arithmetic.
    """
    tails = [discounted_terms(rewards[t:], gamma) for t in range(len(rewards))]
    assert_sums(return_to_go(rewards, gamma), tails)


@law(rewards=reals())
@example(rewards=[2.0, 1.0, 3.0])  # takuseno/d3rlpy#401
def test_return_to_go_falls_by_the_reward_that_was_earned(return_to_go, rewards):
    """Without a discount, a step lowers what is to go by its own reward, down to nothing.

    R_t − R_{t+1} = r_t, R_T = 0 (huggingface/transformers#31374)
    """
    to_go = numbers(return_to_go(rewards), shape=(len(rewards),))
    got = to_go - np.append(to_go[1:], 0.0)
    answer = got.astype(to_go.dtype) if to_go.dtype.kind == "f" else got
    assert_close(answer, rewards, terms=total(rewards), count=len(rewards))


@law(rewards=reals(min_size=1), gamma=discounts())
def test_return_to_go_begins_with_the_return(return_to_go, rewards, gamma):
    """The return to go at the start is the return of the whole trajectory, and so at each step.

    R_t = G(r_t, …, r_{T−1})
    """
    tails = [rewards[t:] for t in range(len(rewards))]
    truth = [reference.discounted_return(tail, gamma) for tail in tails]
    terms = [total(discounted_terms(tail, gamma)) for tail in tails]
    assert_close(return_to_go(rewards, gamma), truth, terms=terms, count=len(rewards))


@law(
    reward=st.sampled_from(REALS),
    length=st.integers(1, 40),
    gamma=st.sampled_from([0.9, 0.5, 1.0]),
)
@example(reward=0.1, length=400, gamma=1.0)
@example(reward=1.0, length=1200, gamma=0.5)  # γ^t leaves float64
def test_return_to_go_of_a_constant_reward_is_a_geometric_series(
    return_to_go, reward, length, gamma
):
    """A constant reward has a geometric series to go.

    R_t = r (1 − γ^{T−t}) / (1 − γ), and (T − t) r for γ = 1.
    """
    g = exact(gamma)
    left = range(length, 0, -1)
    series = [(1 - g**n) / (1 - g) if gamma < 1 else Fraction(n) for n in left]
    assert_sums(return_to_go([reward] * length, gamma), [[exact(reward) * s] for s in series])


@law(past=reals(min_size=1, max_size=6), future=reals(min_size=1, max_size=6), gamma=discounts())
@example(past=[1e16], future=[1.0, 1.0], gamma=1.0)
def test_return_to_go_forgets_the_past(return_to_go, past, future, gamma):
    """What was earned before a step does not enter its return to go."""
    got = numbers(return_to_go(past + future, gamma), shape=(len(past) + len(future),))
    terms = total(future)
    assert_close(got[len(past) :], reference.return_to_go(future, gamma), terms=terms, count=6)


@law(rewards=reals(), gamma=st.sampled_from(ENDS))
@example(rewards=[], gamma=1)
@example(rewards=[4.0], gamma=0)
def test_return_to_go_at_the_ends_of_gamma(return_to_go, rewards, gamma):
    """γ = 0 leaves the rewards as they are, γ = 1 adds all later ones; it is the default."""
    tails = [list(map(exact, rewards[t:] if gamma else [r])) for t, r in enumerate(rewards)]
    assert_sums(return_to_go(rewards) if gamma == 1 else return_to_go(rewards, gamma), tails)


@law(rewards=extremes())
@example(rewards=[1.7e308, 1.7e308, 1.0])
def test_return_to_go_overflows_only_where_it_is_beyond_float64(return_to_go, rewards):
    """An early return beyond float64 is infinite and spoils no later one that is within it."""
    tails = [discounted_terms(rewards[t:], 1.0) for t in range(len(rewards))]
    assert_sums(return_to_go(rewards, 1.0), tails)


@law(rewards=whole_numbers(), form=forms(), gamma=st.sampled_from([0.5, 0.9, 1]))
def test_return_to_go_reads_any_array_and_leaves_it_alone(return_to_go, rewards, form, gamma):
    """Lists, tuples, integers and float32 give the values of float64, and stay as they were."""
    assert_untouched(return_to_go, form(rewards), gamma)
    tails = [discounted_terms(rewards[t:], gamma) for t in range(len(rewards))]
    assert_sums(return_to_go(form(rewards), gamma), tails)


@law_of_ordinary_sizes
def test_return_to_go_along_a_trajectory_of_ordinary_length(return_to_go, sample):
    """Every step of a trajectory of ordinary length has the discounted rest of it to go.

    R_t = Σ_{j ≥ t} γ^{j−t} r_j, and γ is 1 unless it is given.
    """
    rewards, gamma = sample.reals("rewards", sample.columns), sample.discount("gamma")
    given = sample.choice("given", True, True, False)
    got = return_to_go(*sample.held(rewards), *[gamma] * given)
    ahead = np.subtract.outer(np.arange(sample.columns), np.arange(sample.columns))
    powers = np.tril((gamma if given else 1.0) ** np.abs(ahead)).T  # γ^(j−t) at [t, j ≥ t]
    truth, scale = powers @ rewards, powers @ np.abs(rewards)
    assert_close(got, truth, terms=scale, count=sample.columns)


@law_of_refusals(REFUSALS["return_to_go"])
def test_return_to_go_refuses(return_to_go, bad):
    """Rewards are a vector of finite numbers, and γ lies in [0, 1]."""
    assert_refuses(return_to_go, *bad.args, **bad.kwargs)
