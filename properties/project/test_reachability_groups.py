"""What the strategies of group advantages and of KL terms reach."""

from collections.abc import Callable
from typing import Any

import pytest

from ..test_groups import EIGHTHS, Rollouts, rollouts, siblings
from ..test_kl import SMALL, Tokens, tokens
from .reach import reaches

pytestmark = pytest.mark.slow  # of what is drawn, not of what is computed

ROLLOUTS, SIBLINGS, EIGHTH_ROLLOUTS = rollouts(), siblings(), rollouts(EIGHTHS)
TOKENS, CLOSE_TOKENS = tokens(), tokens(SMALL)


def _sizes(drawn: Rollouts) -> list[int]:
    return [len(rows) for rows in drawn.groups]


def _any_group(drawn: Rollouts, corner: Callable[[list[float]], bool]) -> bool:
    return any(corner([drawn.rewards[i] for i in rows]) for rows in drawn.groups)


ROLLOUT_CORNERS = {
    "no rollout": lambda d: not d.ids,
    "a group of one": lambda d: 1 in _sizes(d),
    "groups of different sizes": lambda d: len(set(_sizes(d))) > 1,
    "several groups of one size": lambda d: len(d.groups) > 1 and len(set(_sizes(d))) == 1,
    "one group alone": lambda d: len(d.groups) == 1 and len(d.ids) > 1,
    "a group whose rows lie apart": lambda d: any(r[-1] - r[0] >= len(r) for r in d.groups),
    "equal rewards in a group": lambda d: _any_group(d, lambda x: len(x) > 1 == len(set(x))),
    "tied rewards in a group": lambda d: _any_group(d, lambda x: 1 < len(set(x)) < len(x)),
    "texts for ids": lambda d: any(isinstance(name, str) for name in d.ids),
    "texts that read as one number": lambda d: len({"1", "01", "1.0", " 1"} & set(d.ids)) > 1,
    "fractions for ids": lambda d: len({0.5, 0.25, -0.75, 0.125} & set(d.ids)) > 1,
    "ids beyond single precision": lambda d: any({n, n + 1} <= set(d.ids) for n in (2**24, 2**53)),
    "rows that do not count": lambda d: d.valid and not all(d.valid),
    "one row that counts": lambda d: sum(d.valid) == 1,
    "no row that counts": lambda d: d.valid and not any(d.valid),
    "a group that counts in part": lambda d: any(
        0 < sum(d.valid[i] for i in rows) < len(rows) for rows in d.groups
    ),
}

SIBLING_CORNERS = {
    "no rollout": lambda d: not d.ids,
    "a pair": lambda d: 2 in _sizes(d),
    "a group of three or more": lambda d: max(_sizes(d), default=0) > 2,
    "groups of different sizes": lambda d: len(set(_sizes(d))) > 1,
    "groups that interleave": lambda d: any(r[-1] - r[0] >= len(r) for r in d.groups),
}

TOKEN_CORNERS = {
    "one token": lambda t: len(t.own) == 1,
    "equal log-probabilities": lambda t: any(t.log_ratios == 0),
    "a likelier reference": lambda t: any(t.log_ratios > 1),
    "a likelier policy": lambda t: any(t.log_ratios < -1),
    "a log-ratio near 0": lambda t: any((abs(t.log_ratios) < 1e-3) & (t.log_ratios != 0)),
    "a log-ratio beyond every clamp": lambda t: any(t.log_ratios > 20),
    "a ratio beyond single precision": lambda t: any(t.log_ratios > 89),
}


@pytest.mark.parametrize("corner", ROLLOUT_CORNERS)
def test_rollouts_reach(corner: str) -> None:
    assert reaches(ROLLOUTS, ROLLOUT_CORNERS[corner]) >= 5


@pytest.mark.parametrize("corner", SIBLING_CORNERS)
def test_siblings_reach(corner: str) -> None:
    assert reaches(SIBLINGS, SIBLING_CORNERS[corner]) >= 5


def test_nobody_is_alone_among_siblings() -> None:
    assert reaches(SIBLINGS, lambda drawn: 1 in _sizes(drawn)) == 0


def test_eighths_tie_within_groups() -> None:
    tied = ROLLOUT_CORNERS["equal rewards in a group"]
    assert reaches(EIGHTH_ROLLOUTS, tied) >= 5


@pytest.mark.parametrize("corner", TOKEN_CORNERS)
def test_tokens_reach(corner: str) -> None:
    assert reaches(TOKENS, TOKEN_CORNERS[corner]) >= 5


def test_close_tokens_are_close() -> None:
    def differ(drawn: Tokens) -> Any:
        return any(drawn.log_ratios)

    assert reaches(CLOSE_TOKENS, differ) >= 100
    assert reaches(CLOSE_TOKENS, lambda t: any(abs(t.log_ratios) > 0.02)) == 0
    assert reaches(CLOSE_TOKENS, lambda t: any(0 < abs(x) < 1e-12 for x in t.log_ratios)) >= 5
