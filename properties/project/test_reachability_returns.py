"""The strategies of returns and shaping reach their corners."""

from itertools import pairwise

import pytest

from properties import test_returns as returns
from properties import test_shaping as shaping
from properties.project.reach import reaches
from properties.strategies import forms, steps, whole_numbers

pytestmark = pytest.mark.slow  # of what is drawn, not of what is computed

EPISODES = returns.episodes()
MACRO_WALKS = returns.macro_walks()
TRANSITIONS = returns.transitions()
TABLES = returns.tables()
EXTREMES = returns.extremes()
PATHS = shaping.paths()
EXTREME_PATHS = shaping.extreme_paths()


@pytest.mark.parametrize(
    "corner",
    [
        lambda e: len(e.rewards) == 0,
        lambda e: len(e.rewards) == 1,
        lambda e: len(e.rewards) > 8,
        lambda e: len(e.rewards) > 1 and not any(e.terminated),
        lambda e: len(e.rewards) > 1 and all(e.terminated),
        lambda e: len(e.rewards) > 1 and e.terminated[-1],
        lambda e: len(e.rewards) > 1 and any(e.terminated) and not e.terminated[-1],
        lambda e: any(a and b for a, b in pairwise(e.terminated)),
        lambda e: len(e.pieces) > 2,
        lambda e: e.gamma == 0,
        lambda e: e.gamma == 1,
    ],
)
def test_episodes_reach(corner):
    assert reaches(EPISODES, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda w: len(w.rewards) == 0,
        lambda w: len(w.rewards) == 1,
        lambda w: len(w.rewards) > 1 and len(set(w.durations)) == 1,
        lambda w: len(set(w.durations)) > 2,
        lambda w: w.gamma == 0,
        lambda w: w.gamma == 1,
    ],
)
def test_macro_walks_reach(corner):
    assert reaches(MACRO_WALKS, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda batch: len(batch) > 1 and all(ended for *_, ended in batch),
        lambda batch: len(batch) > 1 and not any(ended for *_, ended in batch),
        lambda batch: len({ended for *_, ended in batch}) == 2,
    ],
)
def test_transitions_reach(corner):
    assert reaches(TRANSITIONS, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda sides: len(sides[0]) == len(sides[1]) > 1,
        lambda sides: len(sides[0]) != len(sides[1]),
        lambda sides: len({ended for *_, ended in sides[1]}) == 2,
    ],
)
def test_tables_reach(corner):
    assert reaches(TABLES, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda rewards: sum(rewards) == float("inf"),
        lambda rewards: sum(rewards) == float("-inf"),
        lambda rewards: 1e308 <= abs(sum(rewards)) < float("inf"),
    ],
)
def test_extremes_reach(corner):
    assert reaches(EXTREMES, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda p: len(p.rewards) == 0,
        lambda p: len(p.rewards) == 1,
        lambda p: len(p.rewards) > 8,
        lambda p: any(p.potentials[1:-1]),
        lambda p: p.potentials[-1] == 0 and len(p.rewards) > 0,
        lambda p: p.gamma == 0,
        lambda p: p.gamma == 1,
    ],
)
def test_paths_reach(corner):
    assert reaches(PATHS, corner) >= 5


def test_extreme_paths_reach_shaped_rewards_beyond_float64():
    def corner(path):
        return any(abs(sum(map(float, row))) == float("inf") for row in path.expanded)

    assert reaches(EXTREME_PATHS, corner) >= 5


@pytest.mark.parametrize(
    "strategy", [returns.reals(), returns.whole_numbers(), returns.transitions()]
)
def test_lists_reach_emptiness(strategy):
    assert reaches(strategy, lambda drawn: not drawn) >= 1  # the same example is not drawn twice


def test_whole_numbers_reach_negative_ones():
    assert reaches(whole_numbers(), lambda drawn: any(n < 0 for n in drawn)) >= 5


def test_forms_reach_integer_arrays():
    def corner(form):
        return getattr(form([1]), "dtype", None) == "int64"

    assert reaches(forms(), corner, of=200) >= 1  # one of six, and drawn once each


def test_steps_spread_over_every_digit():
    drawn = steps(lambda *record: record, 256, 256, 3, min_size=1)
    assert reaches(drawn, lambda records: records[0][1] >= 128) >= 60
    assert reaches(drawn, lambda records: records[0][2] == 2) >= 40
