"""What the strategies of `properties.test_policy_gradients` reach."""

import numpy as np
import pytest

from ..test_policy_gradients import (
    MODES,
    clips,
    dual_windows,
    far_pairs,
    losses,
    modes,
    scored,
    surrogates,
    taken,
    windows,
)
from .reach import reaches

pytestmark = pytest.mark.slow  # of what is drawn, not of what is computed

TAKEN, SCORED, LOSSES, SURROGATES = taken(), scored(), losses(), surrogates()
CLIPS, PAIRS = clips(), far_pairs()


def _lengths(batch):
    """Active tokens of the rows that have any."""
    counts = batch.mask.sum(axis=1)
    return set(counts[counts > 0].tolist())


def _ratios(batch):
    """[B, T] ratios of the tokens, 1 where they are masked."""
    new, old = batch.columns
    return np.where(batch.mask == 1, new / old, 1.0)


BATCH_CORNERS = {
    "no row": lambda b: b.shape[0] == 0,
    "one row": lambda b: b.shape[0] == 1,
    "one column": lambda b: b.shape[0] > 0 and b.shape[1] == 1,
    "as many rows as columns": lambda b: b.shape[0] == b.shape[1] > 1,
    "no active token": lambda b: b.shape[0] > 0 and not b.mask.any(),
    "a fully masked row beside others": lambda b: b.mask.any() and not b.mask.any(axis=1).all(),
    "all active": lambda b: b.shape[0] > 0 and b.mask.all(),
    "rows of several lengths": lambda b: len(_lengths(b)) > 1,
    "a gap in a mask": lambda b: any("101" in "".join(map(str, row)) for row in b.mask),
    "a masked first token": lambda b: any(row.any() and not row[0] for row in b.mask),
    "a masked last token": lambda b: any(row.any() and not row[-1] for row in b.mask),
}

TOKEN_CORNERS = {
    "a ratio of exactly 1": lambda b: ((_ratios(b) == 1) & (b.mask == 1)).any(),
    "an impossible token": lambda b: (_ratios(b) == 0).any(),
    "a sequence with an impossible token": lambda b: any(
        0 < zeros < count
        for zeros, count in zip((_ratios(b) == 0).sum(1), b.mask.sum(1), strict=True)
    ),
    "a ratio above exp(20)": lambda b: (_ratios(b) > 4.9e8).any(),
    "a ratio below exp(-20)": lambda b: ((_ratios(b) > 0) & (_ratios(b) < 2e-9)).any(),
}

SURROGATE_CORNERS = {
    "one token": lambda t: t[0].size == 1,
    "a square table": lambda t: t[0].shape[0] == t[0].shape[1] > 1,
    "a ratio of 0": lambda t: (t[0] == 0).any(),
    "a ratio of exactly 1": lambda t: (t[0] == 1).any(),
    "an advantage of 0": lambda t: (t[1] == 0).any(),
    "a gain that is clipped": lambda t: ((t[0] > 1.28) & (t[1] > 0)).any(),
    "a cost that is clipped": lambda t: ((t[0] < 0.8) & (t[1] < 0)).any(),
    "a gain that became rare": lambda t: ((t[0] < 0.8) & (t[1] > 0)).any(),
    "a cost above a dual clip of 3": lambda t: ((t[0] > 3) & (t[1] < 0)).any(),
    "the usual bounds": lambda t: np.isin(t[0], (0.8, 1.2)).any(),
    "advantages of both signs": lambda t: (t[1] > 0).any() and (t[1] < 0).any(),
}

PAIR_CORNERS = {
    "a ratio beyond float64": lambda p: any(new - old > 710 for new, old in p),
    "an impossible token": lambda p: any(new == -np.inf for new, _ in p),
    "a mean in range of ratios beyond it": lambda p: (
        any(new - old > 710 for new, old in p) and abs(np.mean([n - o for n, o in p])) < 700
    ),
}


@pytest.mark.parametrize("corner", BATCH_CORNERS)
@pytest.mark.parametrize("strategy", [TAKEN, SCORED, LOSSES], ids=["taken", "scored", "losses"])
def test_batches_reach(strategy, corner):
    assert reaches(strategy, BATCH_CORNERS[corner]) >= 5


@pytest.mark.parametrize("corner", TOKEN_CORNERS)
def test_probabilities_reach(corner):
    assert reaches(TAKEN, TOKEN_CORNERS[corner]) >= 5


@pytest.mark.parametrize("corner", SURROGATE_CORNERS)
def test_surrogates_reach(corner):
    assert reaches(SURROGATES, SURROGATE_CORNERS[corner]) >= 5


@pytest.mark.parametrize("corner", PAIR_CORNERS)
def test_far_pairs_reach(corner):
    assert reaches(PAIRS, PAIR_CORNERS[corner]) >= 5


def test_clips_reach_defaults_unequal_windows_and_dual_clips_within_them():
    assert reaches(CLIPS, lambda clip: clip.options == {}) >= 1
    assert reaches(CLIPS, lambda clip: clip.low != clip.high) >= 5
    assert reaches(CLIPS, lambda clip: clip.dual is None) >= 5
    assert reaches(windows(), lambda clip: clip.dual is not None) == 0
    assert reaches(dual_windows(), lambda clip: clip.dual < 1 + clip.high) >= 5


@pytest.mark.parametrize("name", MODES)
def test_modes_reach(name):
    assert reaches(modes(), lambda mode: mode.name == name) >= 2  # of ten values in all
