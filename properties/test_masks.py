"""Laws of `rlcheck.masks`."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.grading.compare import (
    assert_close,
    assert_refuses,
    assert_same,
    assert_untouched,
    nearest_float,
    number,
    record,
)
from rlcheck.grading.laws import law

from .ordinary import law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import digits, steps

REFUSALS = {
    "trajectory_mask_report": (
        refuse([("assistant", 3), ("robot", 2)], says="segments[1] role is 'robot'"),
        refuse([("Assistant", 3), ("assistant", 1)], says="segments[0] role is 'Assistant'"),
        refuse([("assistant", 3), ("", 2)], says="segments[1] role is ''"),
        refuse([("assistant", 3), ("model", 2)], says="segments[1] role is 'model'"),
        refuse([("assistant", 3), ("tools", 0)], says="segments[1] role is 'tools'"),
        refuse([("assistant", 3), (None, 2)], says="segments[1] role is None"),
        refuse([("assistant", 3), (3, 2)], says="segments[1] role is 3"),
        refuse([("assistant", -1), ("assistant", 3)], says="segments[0] tokens is -1"),
        refuse([("assistant", 3), ("tool", -2)], says="segments[1] tokens is -2"),
        refuse([("assistant", 3), ("tool", 1.5)], says="segments[1] tokens is 1.5"),
        refuse([("assistant", 0.5)], says="segments[0] tokens is 0.5"),
        refuse([("assistant", 3), ("tool", math.nan)], says="segments[1] tokens is nan"),
        refuse([("assistant", math.inf)], says="segments[0] tokens is inf"),
        refuse([("assistant", 3), ("tool", "2")], says="segments[1] tokens is '2'"),
        refuse([("assistant", 3), ("tool", None)], says="segments[1] tokens is None"),
        refuse([("assistant", 3), ("tool", 2, 1)], says="segments[1] is ('tool', 2, 1)"),
        refuse([("user", 3), ("tool", 2)], says="segments has 0 assistant tokens of 5"),
        refuse([("assistant", 0), ("tool", 2)], says="segments has 0 assistant tokens of 2"),
        refuse([("assistant", 0)], says="segments has 0 assistant tokens of 0"),
        refuse([], says="segments has 0 assistant tokens of 0"),
    ),
}

FIELDS = ("policy_tokens", "total_tokens", "masked_fraction", "dilution_factor")
OTHERS = ("user", "tool", "system", "observation", "developer", "function", "environment")
ROLES = ("assistant", *OTHERS)
COUNTS = (1, 0, 2, 3, 7, 18, 44, 162, 1000, 10**6)

Segments = list[tuple[str, int]]


def segments(max_size: int = 7) -> st.SearchStrategy[Segments]:
    """Trajectories with at least one policy token, which may stand anywhere."""

    def build(drawn: tuple[Segments, int, int]) -> Segments:
        others, policy, place = drawn
        at = place % (len(others) + 1)
        return [*others[:at], ("assistant", policy), *others[at:]]

    others = steps(
        lambda role, count: (ROLES[max(role - 2, 0)], COUNTS[count]),
        len(ROLES) + 2,
        len(COUNTS),
        max_size=max_size,
    )
    return st.tuples(others, st.sampled_from((1, 2, 5, 21)), st.integers(0, max_size)).map(build)


def mask_of(trajectory: Segments) -> tuple[int, int]:
    """Policy tokens and all tokens."""
    policy = sum(count for role, count in trajectory if role == "assistant")
    return policy, sum(count for _, count in trajectory)


def assert_reports(got: Any, policy: int, total: int) -> None:
    """Exact counts, and both quotients to a few ε."""
    policy_tokens, total_tokens, masked_fraction, dilution_factor = record(got, *FIELDS)
    assert_same(policy_tokens, policy)
    assert_same(total_tokens, total)
    assert_close(masked_fraction, nearest_float(Fraction(total - policy, total)), terms=1.0)
    dilution = nearest_float(Fraction(total, policy))
    assert_close(dilution_factor, dilution, terms=dilution)


@law(trajectory=segments())
@example(
    trajectory=[("system", 44), ("user", 63), ("assistant", 18), ("tool", 162), ("assistant", 21)]
)
@example(trajectory=[("assistant", 3), ("tool", 20)] * 50)
def test_mask_dilution_is_total_over_policy_tokens(trajectory_mask_report, trajectory):
    """A loss averaged over all tokens is diluted by how many there are for each policy token.

    dilution = N / n, counted in exact integers; 44 + 63 + 18 + 162 + 21 tokens, of which the
    policy wrote 18 + 21, give 308 / 39 = 7.897…
    """
    policy, total = mask_of(trajectory)
    dilution = record(trajectory_mask_report(trajectory), *FIELDS)[3]
    truth = nearest_float(Fraction(total, policy))
    assert_close(dilution, truth, terms=truth)


@law(trajectory=segments())
def test_masked_fraction_is_what_the_policy_did_not_write(trajectory_mask_report, trajectory):
    """The masked fraction and the policy's share make up the whole.

    masked_fraction = 1 − 1 / dilution = (N − n) / N
    """
    policy, total, masked, dilution = record(trajectory_mask_report(trajectory), *FIELDS)
    assert_close(number(masked) * number(dilution), number(dilution) - 1, terms=number(dilution))
    assert_close(number(masked) * number(total), number(total) - number(policy), terms=total)
    assert_close(masked, 1 - Fraction(*mask_of(trajectory)), terms=1.0)


@law(trajectory=segments(4), loss=st.sampled_from((1.0, 0.5, -3.0)))
def test_mask_dilution_is_how_far_the_mean_loss_shrinks(trajectory_mask_report, trajectory, loss):
    """The mean over all tokens times the dilution is the mean over the policy's tokens.

    With the same loss on each policy token and 0 elsewhere: a token at a time, up to the first
    hundred of a segment.
    """
    short = [(role, min(count, 100)) for role, count in trajectory]
    losses = [loss if role == "assistant" else 0.0 for role, n in short for _ in range(n)]
    policy, total, _, dilution = record(trajectory_mask_report(short), *FIELDS)
    assert_same(total, len(losses))
    assert_same(policy, sum(entry != 0.0 for entry in losses))
    mean = math.fsum(losses) / len(losses)
    assert_close(number(dilution) * mean, loss, terms=abs(loss))


@law(trajectory=segments(), code=st.integers(0, 10**9))
@example(trajectory=[("assistant", 3), ("tool", 20)] * 50, code=10**9)
def test_mask_report_depends_on_token_counts_alone(trajectory_mask_report, trajectory, code):
    """Neither the order of the segments nor where a segment is cut changes the report."""
    policy, total = mask_of(trajectory)
    assert_reports(trajectory_mask_report(trajectory[::-1]), policy, total)
    cuts = digits(code, *(count + 1 for _, count in trajectory))
    halves = [(role, cut) for (role, _), cut in zip(trajectory, cuts, strict=True)]
    halves += [(role, n - cut) for (role, n), cut in zip(trajectory, cuts, strict=True)]
    assert_reports(trajectory_mask_report(halves), policy, total)


@law(trajectory=segments(), role=st.sampled_from(OTHERS))
def test_every_role_but_the_assistant_is_masked(trajectory_mask_report, trajectory, role):
    """Whoever else wrote a token, it is no token of the policy, and it counts in the total."""
    renamed = [(r if r == "assistant" else role, count) for r, count in trajectory]
    assert_reports(trajectory_mask_report(renamed), *mask_of(trajectory))


@law(counts=st.lists(st.sampled_from(COUNTS), max_size=4), empty=st.sampled_from(ROLES))
def test_trajectory_of_the_policy_alone_is_not_diluted(trajectory_mask_report, counts, empty):
    """Without other tokens nothing is masked and the dilution is 1; empty segments are fine."""
    trajectory = [(empty, 0), *(("assistant", count) for count in counts), ("assistant", 1)]
    got = record(trajectory_mask_report(trajectory), *FIELDS)
    assert_same(list(got), [sum(counts) + 1, sum(counts) + 1, 0.0, 1.0])


@law(trajectory=segments(), kind=st.sampled_from((int, float, np.int64, np.int32, np.float32)))
def test_mask_report_takes_any_pairs(trajectory_mask_report, trajectory, kind):
    """Pairs may be lists or tuples, counts of any number type, and all of it stays as it was."""
    policy, total = mask_of(trajectory)
    given = [[role, kind(count)] for role, count in trajectory]
    assert_untouched(trajectory_mask_report, given)
    assert_reports(trajectory_mask_report(given), policy, total)
    assert_reports(trajectory_mask_report(tuple(map(tuple, given))), policy, total)


@law_of_ordinary_sizes
def test_mask_report_of_a_trajectory_of_ordinary_length(trajectory_mask_report, sample):
    """Every segment of a trajectory of ordinary length counts, of each role and of any size.

    dilution = N / n, masked_fraction = (N − n) / N.
    """
    most = sample.choice("most", 2, 30, 700, 10**5)
    roles = sample.integers("roles", 0, len(ROLES), sample.columns)
    counts = sample.integers("counts", 0, most, sample.columns).tolist()
    last = ("assistant", int(sample.integers("last", 1, most)))
    trajectory = [*((ROLES[role], n) for role, n in zip(roles, counts, strict=True)), last]
    given = sample.choice(
        "given", trajectory, tuple(trajectory), [list(pair) for pair in trajectory]
    )
    assert_reports(trajectory_mask_report(given), *mask_of(trajectory))


@law_of_refusals(REFUSALS["trajectory_mask_report"])
def test_trajectory_mask_report_refuses(trajectory_mask_report, bad):
    """Roles are known, counts are whole and not negative, and the policy wrote a token."""
    assert_refuses(trajectory_mask_report, *bad.args, **bad.kwargs)
