"""What the strategies of `properties.test_offline` reach."""

import numpy as np
import pytest

from ..test_offline import States, occurrences, ratios, states
from .reach import reaches

pytestmark = pytest.mark.slow  # of what is drawn, not of what is computed


def _any_row(states: States, corner: object) -> bool:
    return any(corner(row, a) for row, a in zip(states.q_values, states.action, strict=True))


STATES, OCCURRENCES = states(), occurrences()

STATE_CORNERS = {
    "no state": lambda s: not s.action,
    "one state": lambda s: len(s.action) == 1,
    "as many states as actions": lambda s: len(s.action) == np.shape(s.q_values)[1] > 1,
    "a single action": lambda s: np.shape(s.q_values)[1] == 1,
    "the best action": lambda s: _any_row(s, lambda row, a: row[a] == max(row) > min(row)),
    "a tie for the best": lambda s: _any_row(s, lambda row, a: sorted(row)[-2:] == [max(row)] * 2),
    "the last action": lambda s: _any_row(s, lambda row, a: a == len(row) - 1 > 0),
    "a hopeless action": lambda s: any(s.gaps > 745),
    "an action that dominates": lambda s: _any_row(
        s, lambda row, a: len(row) > 1 and row[a] - sorted(row)[-2] > 36
    ),
}

OCCURRENCE_CORNERS = {
    "a single action": lambda row: len(row) == 1,
    "tied maxima": lambda row: row.count(max(row)) > 1,
    "an action that never occurs": lambda row: 0 in row,
    "one action alone": lambda row: len(row) > 1 and sum(n > 0 for n in row) == 1,
}


@pytest.mark.parametrize("corner", STATE_CORNERS)
def test_states_reach(corner):
    assert reaches(STATES, STATE_CORNERS[corner]) >= 5


@pytest.mark.parametrize("corner", OCCURRENCE_CORNERS)
def test_occurrences_reach(corner):
    assert reaches(OCCURRENCES, OCCURRENCE_CORNERS[corner]) >= 5


def test_ratios_stay_away_from_the_quotients_of_occurrences():
    quotients = {n / m for m in range(1, 13) for n in range(1, m)}
    for end in (0.0, 1.0):
        assert reaches(ratios(), lambda ratio, end=end: ratio == end) == 1
    assert reaches(ratios(), lambda r: min(abs(r - q) for q in quotients) < 1e-3) == 0
