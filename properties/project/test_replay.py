"""The replay buffer holds what a list of episodes holds; wrong buffers do not get by."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

from properties.project.wrong_replay import WRONG
from rlcheck.agents.replay import ReplayBuffer

CUT, TERMINATED = 0, 1  # how a step ends its episode; anything above goes on
ENOUGH = 400  # samples that miss one of 14 steps with probability 1e-13


@dataclass(frozen=True)
class Case:
    """A buffer, and the steps that are written to it."""

    capacity: int
    n_step: int
    gamma: float
    steps: list[tuple[int, int]]  # reward, end

    def of(self, buffer: type[ReplayBuffer]) -> ReplayBuffer:
        filled = buffer(self.capacity, n_step=self.n_step, gamma=self.gamma)
        for step in self.written:
            filled.add(*step)
        return filled

    @cached_property
    def written(self) -> list[tuple[float, int, float, float, bool, bool]]:
        """Each state has a number of its own; an episode begins in a new one."""
        rows, state = [], 1.0
        for number, (reward, end) in enumerate(self.steps):
            rows.append(
                (state, number, float(reward), state + 1, end == TERMINATED, end == CUT),
            )
            state += 1 if end > TERMINATED else 2
        return rows

    @cached_property
    def truth(self) -> list[tuple[float, int, Fraction, Fraction, float, bool]]:
        """The windows of all stored steps, oldest first, from a list of episodes."""
        episodes: list[list[Any]] = [[]]
        for step in self.written:
            episodes[-1].append(step)
            if step[4] or step[5]:
                episodes.append([])
        gamma, found = Fraction(self.gamma), []
        for episode in episodes:
            for first in range(len(episode)):
                window = episode[first : first + self.n_step]
                paid = sum((gamma**i * Fraction(r[2]) for i, r in enumerate(window)), Fraction())
                *_, after, terminated, _ = window[-1]
                head = episode[first][:2]
                found.append((*head, paid, gamma ** len(window), after, terminated))
        return found[-self.capacity :]


cases = st.builds(
    Case,
    capacity=st.integers(1, 9),
    n_step=st.integers(1, 5),
    gamma=st.sampled_from([0.0, 0.5, 0.75, 1.0]),  # sums are exact
    steps=st.lists(
        st.integers(0, 17 * 7 - 1).map(lambda n: (n % 17 - 8, n // 17)), min_size=1, max_size=14
    ),
)

reported = [
    # The next observation of a truncated step is what it ended in (DLR-RM/stable-baselines3#934).
    example(case=Case(4, 1, 0.5, [(0, CUT), (0, 2)])),
    example(case=Case(5, 1, 0.5, [(1, 2), (1, 2), (1, 2)])),  # huggingface/lerobot#918
    example(case=Case(4, 1, 0.5, [(1, 2), (1, 2), (1, 2)])),  # assume-framework/assume#855
    # The window of the newest step holds it alone (younggyoseo/FastTD3#6, thu-ml/tianshou#135).
    example(case=Case(3, 2, 1.0, [(0, 2), (1, 2), (2, 2), (7, 2)])),
    # T steps of an episode give T samples (ray-project/ray#2929).
    example(case=Case(8, 3, 1.0, [(1, 2), (1, 2), (1, TERMINATED)])),
]


def law(body):
    """A law of buffers; the buffer is a fixture."""
    for each in reported:
        body = each(body)
    quiet = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    return quiet(given(case=cases)(body))


@pytest.fixture(scope="module")
def buffer():
    return ReplayBuffer


def rows(batch) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for column in batch_in_order(batch)), strict=True))


def batch_in_order(batch):
    """The columns in the order of the truth."""
    return (
        batch.observations,
        batch.actions,
        batch.rewards,
        batch.discounts,
        batch.next_observations,
        batch.terminal,
    )


def column(case: Case, number: int) -> list[Any]:
    return [row[number] for row in case.truth]


@law
def test_it_holds_the_last_steps_from_the_oldest_to_the_newest(buffer, case):
    filled = case.of(buffer)
    assert len(filled) == min(len(case.steps), case.capacity)
    assert filled.windows().observations.tolist() == column(case, 0)
    assert filled.windows().actions.tolist() == column(case, 1)


@law
def test_a_window_is_paid_by_steps_of_its_own_episode_alone(buffer, case):
    assert case.of(buffer).windows().rewards.tolist() == column(case, 2)


@law
def test_a_window_bootstraps_by_its_length(buffer, case):
    assert case.of(buffer).windows().discounts.tolist() == column(case, 3)


@law
def test_a_window_bootstraps_from_what_its_last_step_ended_in(buffer, case):
    assert case.of(buffer).windows().next_observations.tolist() == column(case, 4)


@law
def test_a_window_is_terminal_where_its_last_step_terminated(buffer, case):
    assert case.of(buffer).windows().terminal.tolist() == column(case, 5)


@law
def test_samples_are_windows_of_stored_steps_and_each_step_has_one(buffer, case):
    drawn = case.of(buffer).sample(ENOUGH, np.random.default_rng(0))
    assert set(rows(drawn)) == set(case.truth)


@law
def test_a_step_without_weight_is_never_drawn(buffer, case):
    filled = case.of(buffer)
    weights = np.arange(len(filled)) % 3 == 0
    drawn = filled.sample(ENOUGH, np.random.default_rng(0), weights=weights)
    assert set(rows(drawn)) == set(case.truth[::3])


@law
def test_one_generator_gives_one_sample(buffer, case):
    filled = case.of(buffer)
    first, again = (rows(filled.sample(20, np.random.default_rng(5))) for _ in range(2))
    assert first == again


@law
def test_a_step_is_stored_as_it_was_given(buffer, case):
    filled, seen = buffer(case.capacity), np.zeros(())
    for state, action, reward, after, terminated, truncated in case.written:
        seen[()] = state
        filled.add(seen, action, reward, np.array(after), terminated, truncated)
    seen[()] = -1.0
    for field in filled.windows():
        field[...] = 0  # what is returned is a copy too
    assert filled.windows().observations.tolist() == column(case, 0)
    assert filled.windows().next_observations.tolist() == [
        row[3] for row in case.written[-case.capacity :]
    ]


@law
def test_a_step_that_is_refused_leaves_the_buffer_as_it_was(buffer, case):
    filled, good = case.of(buffer), {"observation": 1.0, "action": 0, "reward": 0.0}
    for wrong in (
        {"reward": float("nan")},
        {"reward": float("inf")},
        {"action": -1},
        {"observation": [1.0, 2.0]},
        {"next_observation": [1.0]},
    ):
        step = {**good, "next_observation": 2.0, "terminated": False, "truncated": False} | wrong
        with pytest.raises((ValueError, TypeError)):
            filled.add(**step)
    assert set(rows(filled.windows())) == set(case.truth)


LAWS = {name: body for name, body in globals().items() if hasattr(body, "hypothesis")}


@cache
def drawn_cases() -> list[Case]:
    """Cases that are always the same ones."""
    found: list[Case] = []
    few = settings(
        max_examples=80, phases=[Phase.generate], derandomize=True, database=None, deadline=None
    )

    @few
    @given(case=cases)
    def keep(case):
        found.append(case)

    keep()
    return found


@cache
def notices(name: str, buffer: type[ReplayBuffer]) -> bool:
    """Whether a law fails for a buffer."""
    drawn = drawn_cases()
    try:
        for case in drawn:
            LAWS[name].hypothesis.inner_test(buffer, case)
    except (Exception, pytest.fail.Exception):  # what `pytest.raises` raises is no Exception
        return True
    return False


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_every_wrong_buffer_is_noticed(wrong):
    assert any(notices(name, wrong) for name in LAWS), wrong.__doc__


@pytest.mark.parametrize("name", LAWS)
def test_every_law_notices_a_wrong_buffer_and_not_the_right_one(name):
    assert not notices(name, ReplayBuffer)
    assert any(notices(name, wrong) for wrong in WRONG)


def test_samples_follow_the_weights():
    filled = Case(4, 1, 1.0, [(0, 2)] * 6).of(ReplayBuffer)
    drawn = filled.sample(40_000, np.random.default_rng(1), weights=[1, 2, 3, 4]).actions
    shares = np.bincount(drawn)[2:] / len(drawn)
    assert shares == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.015)  # six standard errors


def test_observations_keep_their_shape_and_type():
    filled = ReplayBuffer(3, observation_shape=(2, 3), dtype=np.uint8)
    filled.add(np.ones((2, 3)), 0, 1, np.full((2, 3), 7), True, False)
    batch = filled.sample(5, np.random.default_rng(0))
    assert batch.observations.shape == (5, 2, 3)
    assert batch.next_observations.dtype == np.uint8
    assert (batch.next_observations == 7).all()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"capacity": 0}, "capacity is 0"),
        ({"capacity": 2.5}, "capacity is 2.5"),
        ({"n_step": 0}, "n_step is 0"),
        ({"gamma": 1.5}, "gamma is 1.5"),
    ],
)
def test_a_buffer_refuses(options, says):
    with pytest.raises(ValueError, match=says):
        ReplayBuffer(**{"capacity": 3, **options})


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda b, rng: b.sample(0, rng), "count is 0"),
        (lambda b, rng: b.sample(1, rng, weights=[1, 1, 1]), "weights has shape"),
        (lambda b, rng: b.sample(1, rng, weights=[1, -1]), r"weights\[1\] is -1"),
        (lambda b, rng: b.sample(1, rng, weights=[np.nan, 1]), r"weights\[0\] is nan"),
        (lambda b, rng: b.sample(1, rng, weights=[0, 0]), "weights are all 0"),
        (lambda b, rng: b.windows([2]), r"ages\[0\] is 2"),
        (lambda b, rng: b.windows([-1]), r"ages\[0\] is -1"),
        (lambda b, rng: b.add(1.0, 0, np.nan, 1.0, False, False), "reward is nan"),
        (lambda b, rng: b.add([1.0], 0, 0.0, 1.0, False, False), r"observation has shape \(1,\)"),
        (lambda b, rng: b.add(1.0, 0, 0.0, 1.0, np.nan, False), "terminated is nan"),
        (lambda b, rng: b.add(1.0, 0, 0.0, 1.0, False, 2), "truncated is 2"),
        (lambda b, rng: b.add(np.nan, 0, 0.0, 1.0, False, False), "^observation is nan"),
        (lambda b, rng: b.add(1.0, 0, 0.0, np.inf, False, False), "next_observation is inf"),
        (lambda b, rng: b.add(1e300, 0, 0.0, 1.0, False, False), r"^observation is 1e\+300"),
    ],
)
def test_a_buffer_with_two_steps_refuses(call, says):
    filled = Case(4, 1, 1.0, [(0, 2)] * 2).of(ReplayBuffer)
    with pytest.raises(ValueError, match=says):
        call(filled, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ((1.0, 0, 0.0, 1.0, "no", False), "terminated is 'no'"),
        ((1.0, 0, 0.0, 1.0, False, None), "truncated is None"),
        (("a", 0, 0.0, 1.0, False, False), "observation is 'a'"),
    ],
)
def test_what_is_no_number_is_refused(step, says):
    filled = Case(4, 1, 1.0, [(0, 2)] * 2).of(ReplayBuffer)
    with pytest.raises(TypeError, match=says):
        filled.add(*step)
    assert len(filled) == 2


@pytest.mark.parametrize("observation", [300, -1, 1.5])
def test_a_number_that_the_buffers_type_cannot_hold_is_refused(observation):
    bytes_only = ReplayBuffer(2, dtype=np.uint8)
    with pytest.raises(ValueError, match=f"^observation is {observation}"):
        bytes_only.add(observation, 0, 0.0, 7, False, False)
    bytes_only.add(255, 0, 0.0, 7.0, False, False)
    assert bytes_only.windows().observations.tolist() == [255]


def test_flags_may_be_numpys_or_0_and_1():
    filled = ReplayBuffer(4)
    for terminated in (np.True_, 1, np.array(1.0), False, 0):
        filled.add(0.0, 0, 0.0, 0.0, terminated, False)
    assert filled.windows().terminal.tolist() == [True, True, False, False]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e308, 1e-310, 1.0])
def test_the_scale_of_the_weights_changes_nothing(scale):
    filled = Case(4, 1, 1.0, [(0, 2)] * 4).of(ReplayBuffer)
    weights = np.array([0.0, 1.0, 0.5, 1.0])
    expected = filled.sample(200, np.random.default_rng(2), weights=weights)
    drawn = filled.sample(200, np.random.default_rng(2), weights=weights * scale)
    assert drawn.actions.tolist() == expected.actions.tolist()


def test_an_empty_buffer_has_no_samples_and_no_windows():
    empty = ReplayBuffer(3)
    with pytest.raises(ValueError, match="holds 0 steps"):
        empty.sample(1, np.random.default_rng(0))
    assert len(empty) == 0
    assert all(len(field) == 0 for field in empty.windows())
