"""The strategies of advantages and λ-returns reach their corners."""

from itertools import pairwise

import pytest

from properties import test_advantages as advantages
from properties.project.reach import reaches

pytestmark = pytest.mark.slow  # of what is drawn, not of what is computed

STREAMS = advantages.streams()
BATCHES = advantages.batches()
GIANTS = advantages.giants()
WHISPERS = advantages.whispers()
TRANSCRIPTS = advantages.transcripts()
TABLES = advantages.tables_of_tokens()


def ended(stream):
    return [a or b for a, b in zip(stream.terminated, stream.truncated, strict=True)]


def both(stream):
    return [a and b for a, b in zip(stream.terminated, stream.truncated, strict=True)]


@pytest.mark.parametrize(
    "corner",
    [
        lambda s: len(s) == 1,
        lambda s: len(s) > 8,
        lambda s: len(s) > 1 and not any(ended(s)),
        lambda s: len(s) > 1 and all(ended(s)),
        lambda s: len(s) > 1 and s.terminated[-1],
        lambda s: len(s) > 1 and s.truncated[-1] and not s.terminated[-1],
        lambda s: any(ended(s)) and not ended(s)[-1],
        lambda s: any(both(s)),
        lambda s: any(a and b for a, b in pairwise(ended(s))),
        lambda s: any(t and not d for d, t in zip(s.terminated[:-1], s.truncated, strict=False)),
        lambda s: len(s.pieces) > 2,
        lambda s: s.gamma == 0,
        lambda s: s.gamma == 1,
        lambda s: s.lam == 0,
        lambda s: s.lam == 1,
        lambda s: 0 < s.gamma < 1 and 0 < s.lam < 1,
    ],
)
def test_streams_reach(corner):
    assert reaches(STREAMS, corner) >= 5


@pytest.mark.parametrize("strategy", [STREAMS, TRANSCRIPTS])
def test_streams_reach_emptiness(strategy):
    assert reaches(strategy, lambda drawn: len(drawn) == 0) >= 1


@pytest.mark.parametrize(
    "corner",
    [
        lambda b: len(b.rows) == b.width > 1,
        lambda b: len(b.rows) > b.width > 1,
        lambda b: 1 < len(b.rows) < b.width,
        lambda b: len(b.rows) > 1 and b.width == 1,
        lambda b: len(b.rows) == 0,
        lambda b: len(b.rows) == 1,
        lambda b: len(b.rows) > 1 and not any(ended(row)[-1] for row in b.rows),
        lambda b: len(b.rows) > 1 and not ended(b.rows[0])[-1] and b.gamma * b.lam > 0,
    ],
)
def test_batches_reach(corner):
    assert reaches(BATCHES, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda s: s.advantages[0] >= 2**1024,
        lambda s: s.advantages[0] <= -(2**1024),
        lambda s: 1e308 <= abs(s.advantages[0]) < 2**1024,
        lambda s: s.rewards[0] > 0,
        lambda s: s.rewards[0] < 0,
        lambda s: any(ended(s)),
        lambda s: not any(ended(s)),
    ],
)
def test_giants_reach(corner):
    assert reaches(GIANTS, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda w: w.before > 24 and w.after > 0,
        lambda w: w.ending < w.before and w.flags == (1, 0),
        lambda w: w.ending < w.before and w.flags == (0, 1),
        lambda w: w.ending == w.before and any(w.flags),
        lambda w: w.before == 0,
    ],
)
def test_whispers_reach(corner):
    assert reaches(WHISPERS, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda t: len(t) == 1 and t.mask[0],
        lambda t: len(t) > 1 and not any(t.mask),
        lambda t: len(t) > 1 and all(t.mask),
        lambda t: sum(t.mask) == 1,
        lambda t: len(t.policy) > 1 and max(b - a for a, b in pairwise(t.policy)) > 2,
        lambda t: any(t.mask) and not t.mask[0] and t.rewards[0] and t.gamma,
        lambda t: any(t.mask) and not t.mask[-1] and t.rewards[-1],
        lambda t: any(t.mask) and t.mask[-1],
        lambda t: t.gamma == 0,
        lambda t: t.gamma == 1,
        lambda t: t.lam == 0,
        lambda t: t.lam == 1,
    ],
)
def test_transcripts_reach(corner):
    assert reaches(TRANSCRIPTS, corner) >= 5


@pytest.mark.parametrize(
    "corner",
    [
        lambda b: len(b.rows) == b.width > 1,
        lambda b: len(b.rows) != b.width > 1,
        lambda b: len(b.rows) == 0,
        lambda b: len(b.rows) > 1 and any(not any(row.mask) for row in b.rows),
        lambda b: any(any(a.mask) and not c.mask[0] for a, c in pairwise(b.rows)),
        lambda b: any(a.mask[-1] and c.mask[0] for a, c in pairwise(b.rows)),
    ],
)
def test_tables_of_tokens_reach(corner):
    assert reaches(TABLES, corner) >= 5
