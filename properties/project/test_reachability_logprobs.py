"""What the strategies of token probabilities reach, and what scoring a long batch costs."""

import math
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from rlcheck import causal_response_logprobs, decoding_distribution_with_order

from .. import test_decoding, test_kl, test_logprobs
from ..test_logprobs import Rescored, Responses, Scored, is_distribution
from .reach import DRAWN, reaches

pytestmark = pytest.mark.slow  # of what is drawn, not of what is computed

inf = math.inf

ROW_CORNERS = {
    "one token": lambda row: len(row) == 1,
    "an impossible token": lambda row: -inf in row,
    "a tie for the best": lambda row: row.count(max(row)) > 1,
    "a probability that underflows": lambda row: any(-inf < x < max(row) - 746 for x in row),
}
EXTREME_CORNERS = {
    "a large common offset": lambda row: len(row) > 1 and min(row) > 1e7,
    "a difference beyond float64": lambda row: min(x for x in row if x > -inf) - max(row) == -inf,
    "an exponential that overflows": lambda row: max(row) > 709.8,
    "an exponential that underflows": lambda row: max(row) < -745.2,
}
RESPONSE_CORNERS = {
    "a lone token": lambda batch: batch.shape[1] == 0,
    "one sequence": lambda batch: batch.shape[0] == 1 < batch.shape[1],
    "as many sequences as scores": lambda batch: batch.shape[0] == batch.shape[1] > 1,
    "a vocabulary of one": lambda batch: len(batch.logits[0][0]) == 1,
    "no active token": lambda batch: not any(map(any, batch.mask)),
    "every scored token active": lambda batch: (
        batch.shape[1] > 0 and all(all(row[1:]) for row in batch.mask)
    ),
    "a gap in the response": lambda batch: any("101" in _text(row) for row in batch.mask),
    "a label of −100": lambda batch: any(-100 in row[1:] for row in batch.ids),
    "an id beyond the vocabulary": lambda batch: any(
        len(batch.logits[0][0]) in row[1:] for row in batch.ids
    ),
    "a row without a log-softmax": lambda batch: any(
        not is_distribution(row) for rows in batch.logits for row in rows[:-1]
    ),
    "a large common offset": lambda batch: abs(batch.logits[0][0][0]) > 1e7,
}
SCORED_CORNERS = {
    "no token": lambda batch: batch.mask.shape[1] == 0,
    "a row without active tokens": lambda batch: (
        batch.mask.size and not batch.mask.any(axis=1).all()
    ),
    "every token active": lambda batch: batch.mask.size and batch.mask.all(),
    "as many rows as tokens": lambda batch: batch.mask.shape[0] == batch.mask.shape[1] > 1,
    "NaN behind the mask": lambda batch: np.isnan(batch.selected[batch.mask == 0]).any(),
    "infinity behind the mask": lambda batch: np.isinf(batch.selected[batch.mask == 0]).any(),
    "a gap between active tokens": lambda batch: any("101" in _text(row) for row in batch.mask),
    "a certain token": lambda batch: (batch.selected[batch.mask == 1] == 0).any(),
}
RESCORED_CORNERS = {
    "a token that the new policy excludes": lambda batch: -inf in batch.new[batch.mask == 1],
    "a row without active tokens": lambda batch: [] in batch.active and batch.mask.size,
    "as many rows as tokens": lambda batch: batch.mask.shape[0] == batch.mask.shape[1] > 1,
    "an infinite ratio": lambda batch: inf in batch.ratios,
    "junk behind the mask": lambda batch: not np.isfinite(batch.old[batch.mask == 0]).all(),
}
PAIR_CORNERS = {
    "one token": lambda pair: len(pair.q) == 1,
    "p underflows where q is likely": lambda pair: _underflows(pair.p, pair.q),
    "q underflows where p is likely": lambda pair: _underflows(pair.q, pair.p),
}
DISTRIBUTION_CORNERS = {
    "one token": lambda pair: len(pair.q) == 1,
    "a token that q never samples": lambda pair: 0 in pair.q,
    "mass that q never samples": lambda pair: any(
        p > 0 == q for p, q in zip(pair.p, pair.q, strict=True)
    ),
    "a ratio beyond 1e100": lambda pair: any(
        q > 0 and p / q > 1e100 for p, q in zip(pair.p, pair.q, strict=True)
    ),
    "a tiny p": lambda pair: any(0 < p < 1e-100 for p in pair.p),
}
DECODING_CORNERS = {
    "no processor": lambda case: not case.order,
    "all three": lambda case: len(case.order) == 3,
    "one token": lambda case: len(case.logits) == 1,
    "more than all tokens": lambda case: "top_k" in case.order and case.top_k > len(case.logits),
    "a tie with the k-th": lambda case: "top_k" in case.order and _tied(case.logits, case.top_k),
    "an impossible token": lambda case: -inf in case.logits,
    "top_p of 0": lambda case: "top_p" in case.order and case.top_p == 0,
    "top_p of 1": lambda case: "top_p" in case.order and case.top_p == 1,
    "a nucleus of several tokens": lambda case: (
        "top_p" in case.order and case.top_p < 1 and np.count_nonzero(_probabilities(case)) > 1
    ),
}
PROBABILITY_CORNERS = {
    "a certain token": lambda row: 1.0 in row,
    "an impossible token": lambda row: 0.0 in row,
    "a tiny probability": lambda row: any(0 < p < 1e-100 for p in row),
    "a probability near 1": lambda row: any(1 - 1e-9 < p < 1 for p in row),
}

CASES = {
    "rows of logits": (test_logprobs.rows_of_logits(), ROW_CORNERS),
    "extreme rows": (test_logprobs.extreme_rows(), EXTREME_CORNERS),
    "tables of logits": (test_logprobs.tables(), {"square": lambda table: len(table) == 3}),
    "responses": (test_logprobs.responses(), RESPONSE_CORNERS),
    "scored tokens": (test_logprobs.scored(), SCORED_CORNERS),
    "rescored tokens": (test_logprobs.rescored(), RESCORED_CORNERS),
    "pairs of rows": (test_kl.pairs(), PAIR_CORNERS),
    "pairs of tables": (test_kl.tables(), {"square": lambda t: t and len(t) == len(t[0])}),
    "pairs of distributions": (test_kl.distributions(), DISTRIBUTION_CORNERS),
    "decodings": (test_decoding.decodings(), DECODING_CORNERS),
    "distributions": (test_decoding.distributions(), PROBABILITY_CORNERS),
}


def _probabilities(case):
    return decoding_distribution_with_order(
        case.logits,
        temperature=case.temperature,
        top_k=case.top_k,
        top_p=case.top_p,
        order=case.order,
    )


def _text(flags):
    return "".join(str(int(flag)) for flag in flags)


def _tied(logits, k):
    ranked = sorted(logits, reverse=True)
    return len(ranked) > k and ranked[k - 1] == ranked[k]


def _underflows(small, likely):
    return any(
        a < max(small) - 746 and b > max(likely) - 5 for a, b in zip(small, likely, strict=True)
    )


@pytest.mark.parametrize(("strategy", "corners"), CASES.values(), ids=CASES)
def test_the_corners_are_reached(strategy, corners):
    hits = Counter()
    reaches(strategy, lambda drawn: hits.update(name for name in corners if corners[name](drawn)))
    assert {name: hits[name] for name in corners if hits[name] < 5} == {}


@pytest.mark.parametrize(
    "draws",
    [test_logprobs.responses(), test_logprobs.scored(), test_logprobs.rescored()],
    ids=["responses", "scored", "rescored"],
)
def test_drawn_batches_are_rectangular(draws):
    def rectangular(batch: Responses | Scored | Rescored) -> bool:
        rows = [len(row) for row in batch.mask]
        return len(set(rows)) == 1

    assert reaches(draws, rectangular) == DRAWN


def test_an_active_token_is_always_one_that_can_be_scored():
    def sound(batch: Responses) -> bool:
        return all(
            not batch.mask[b][t + 1]
            or (0 <= batch.ids[b][t + 1] < 3 and is_distribution(batch.logits[b][t]))
            for b, t in np.ndindex(batch.shape)
        )

    assert reaches(test_logprobs.responses(), sound) == DRAWN


def _long_batch(dtype):
    rng = np.random.default_rng(20260805)
    logits = (4 * rng.standard_normal((2, 16, 40_000))).astype(dtype)  # 5 MB in float32
    ids = rng.integers(0, 40_000, size=(2, 16))
    mask = np.ones((2, 16), dtype=bool)
    mask[:, 0] = False
    return logits, ids, mask


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scoring_copies_a_row_of_logits_at_a_time(dtype):
    """The logits are not copied; an answer on several blocks is that on one."""
    logits, ids, mask = _long_batch(dtype)
    tracemalloc.start()
    selected, _ = causal_response_logprobs(logits, ids, mask)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_500_000
    row = logits[1, 3].astype(np.float64)
    normaliser = math.log(math.fsum(np.exp(row - row.max())))
    assert selected[1, 3] == pytest.approx(row[ids[1, 4]] - row.max() - normaliser, rel=1e-14)


def test_tensors_are_scored_as_arrays_are():
    """Tensors of any float dtype, with gradients too; bfloat16 is widened row by row."""
    torch = pytest.importorskip("torch")
    logits, ids, mask = _long_batch(np.float32)
    tensor = torch.from_numpy(logits)
    arguments = torch.from_numpy(ids), torch.from_numpy(mask)
    expected = causal_response_logprobs(logits, ids, mask).selected
    got = causal_response_logprobs(tensor.clone().requires_grad_(), *arguments).selected
    assert np.array_equal(got, expected)
    half = tensor.bfloat16()
    tracemalloc.start()
    got = causal_response_logprobs(half, *arguments).selected
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_500_000
    widened = half.float().numpy()
    assert np.array_equal(got, causal_response_logprobs(widened, ids, mask).selected)
