"""What the strategies of `properties.test_q_targets` reach."""

import numpy as np
import pytest

from ..test_q_targets import Batch, batches, corridors
from .reach import reaches

pytestmark = pytest.mark.slow  # of what is drawn, not of what is computed


def shape(batch: Batch) -> tuple[int, ...]:
    return np.shape(batch.target)


def online_ties(batch: Batch) -> bool:
    """Some row that goes on has tied best actions, which the target network tells apart."""
    rows = zip(batch.terminal, batch.online, batch.target, strict=True)
    return any(
        not d and len({q for o, q in zip(on, at, strict=True) if o == max(on)}) > 1
        for d, on, at in rows
    )


BATCHES = batches()
BATCH_CORNERS = {
    "no transition": lambda b: not b.rewards,
    "one transition": lambda b: len(b.rewards) == 1,
    "as many transitions as actions": lambda b: shape(b)[0] == shape(b)[1] > 1,
    "a single action": lambda b: shape(b)[1] == 1,
    "four actions": lambda b: shape(b)[1] == 4,
    "all terminal": lambda b: b.rewards and all(b.terminal),
    "none terminal": lambda b: b.rewards and not any(b.terminal),
    "neighbouring terminals": lambda b: any(map(min, b.terminal, b.terminal[1:])),
    "a terminal before the last row": lambda b: any(b.terminal[:-1]),
    "no discounting": lambda b: b.gamma == 1,
    "full discounting": lambda b: b.gamma == 0,
    "every next value below 0": lambda b: any(max(row) < 0 for row in b.target),
    "tied online values": online_ties,
    "networks that disagree": lambda b: any(map(np.not_equal, *map(_best, (b.online, b.target)))),
    "a deterministic policy": lambda b: any(max(row) == 1 < len(row) for row in b.policy),
    "a policy that spreads out": lambda b: any(min(row) > 0 and len(row) > 1 for row in b.policy),
}


def _best(table: object) -> list[int]:
    return [int(np.argmax(row)) for row in np.asarray(table)]


@pytest.mark.parametrize("corner", BATCH_CORNERS)
def test_batches_reach(corner):
    assert reaches(BATCHES, BATCH_CORNERS[corner]) >= 5


def test_corridors_reach_both_discounts_and_a_single_state():
    walks = corridors(forward=(0.5, 1.0))
    assert reaches(walks, lambda c: c.length == 1) >= 5
    assert reaches(walks, lambda c: c.gamma == 1 and c.length > 3) >= 5
    assert reaches(walks, lambda c: c.gamma == 0) >= 5
    assert reaches(walks, lambda c: c.forward < 1) >= 20
