"""rlcheck inside another test suite: check, laws, expected failures."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rlcheck
from rlcheck.grading.report import EXIT_FAILED, EXIT_PASSED, EXIT_UNLOADABLE

SUM = "discounted_td_sum"
TELESCOPES = "returns::discounted_td_sum_telescopes"
REFUSES = "returns::discounted_td_sum_refuses"


def careless(deltas, gamma):
    """It is right, and refuses nothing."""
    return float(np.dot(np.power(gamma, np.arange(len(deltas)), dtype=float), deltas))


def late(deltas, gamma):
    return gamma * rlcheck.discounted_td_sum(deltas, gamma)


def test_a_right_function_holds_all_laws():
    report = rlcheck.check(rlcheck.discounted_td_sum, SUM)
    assert report.exit_code == EXIT_PASSED
    assert report.score == report.max_score == len(report.laws) > 3
    assert report.target == "rlcheck.returns.discounted_td_sum"
    report.raise_for_failures()


def test_a_wrong_function_fails_with_cards_and_a_call_that_repeats_it():
    report = rlcheck.check(late, SUM, examples=20, seed=4)
    assert report.exit_code == EXIT_FAILED
    with pytest.raises(AssertionError) as failure:
        report.raise_for_failures()
    said = str(failure.value)
    assert "late: " in said
    assert "discounts the first residual too" in said
    (card,) = [law for law in report.failures if law.id == TELESCOPES]
    call = f"{late.__module__}.late, 'discounted_td_sum', law={TELESCOPES!r}, seed=4, examples=20"
    assert card.replay == f"rlcheck.check({call})"
    again = rlcheck.check(late, SUM, law=TELESCOPES, examples=20, seed=4)
    assert [law.counterexample for law in again.laws] == [card.counterexample]


def test_an_expected_failure_does_not_count():
    report = rlcheck.check(careless, SUM, expected_failures={REFUSES: "it trusts its callers"})
    (known,) = [law for law in report.laws if law.expected_failure]
    assert (known.id, known.expected_failure) == (REFUSES, "it trusts its callers")
    assert report.score == report.max_score == len(report.laws) - 1
    assert report.functions[SUM].status == "passed"
    report.raise_for_failures()


def test_an_expected_failure_that_holds_is_lost_so_that_it_is_removed():
    report = rlcheck.check(
        rlcheck.discounted_td_sum, SUM, expected_failures={REFUSES: "it trusts its callers"}
    )
    (lost,) = report.failures
    assert lost.message == "it holds, though it is declared to fail: it trusts its callers"
    assert report.exit_code == EXIT_FAILED
    with pytest.raises(AssertionError, match="declared to fail"):
        report.raise_for_failures()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rlcheck.check(careless, "td_sums"), "'td_sums' is no function"),
        (lambda: rlcheck.check(careless, "returns"), "'returns' names several functions"),
        (lambda: rlcheck.check(careless, SUM, examples=0), "examples is 0; it must be 1 or more"),
        (
            lambda: rlcheck.check(careless, SUM, law="returns::td_residuals_refuses"),
            "law is 'returns::td_residuals_refuses', which is no law of what is graded",
        ),
        (lambda: rlcheck.check(careless, SUM, law=""), "law is '', which is no law"),
        (
            lambda: rlcheck.check(careless, SUM, expected_failures={"kl::x": ""}),
            "expected_failures names 'kl::x', which is no law of",
        ),
        (
            lambda: rlcheck.laws(SUM, expected_failures={"kl::x": ""}),
            "expected_failures names 'kl::x', which is no law of discounted_td_sum",
        ),
        (lambda: rlcheck.laws("module-5"), "'module-5' names several functions"),
    ],
)
def test_what_makes_no_sense_is_refused(call, says):
    with pytest.raises(ValueError) as refusal:
        call()
    assert says in str(refusal.value)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="function is 3; it must be callable"):
        rlcheck.check(3, SUM)


def test_a_function_of_other_parameters_is_not_judged():
    report = rlcheck.check(lambda residuals: 0.0, SUM)
    assert report.exit_code in (EXIT_FAILED, EXIT_UNLOADABLE)
    with pytest.raises(AssertionError, match=r"takes \(residuals\)"):
        report.raise_for_failures()


@pytest.mark.parametrize("law", rlcheck.laws(SUM, expected_failures={REFUSES: "it trusts"}))
def test_laws_are_parameters_of_a_test(law):
    law.check(careless, examples=10)


SUITE = f"""
import pytest, rlcheck

STALE = {{{REFUSES!r}: "it trusts its callers"}}

def late(deltas, gamma):
    return gamma * rlcheck.discounted_td_sum(deltas, gamma)

@pytest.mark.parametrize("law", rlcheck.laws({SUM!r}))
def test_wrong(law):
    law.check(late, examples=10)

@pytest.mark.parametrize("law", rlcheck.laws({SUM!r}, expected_failures=STALE))
def test_stale(law):
    law.check(rlcheck.discounted_td_sum, examples=10)
"""


def test_laws_in_a_suite_of_somebody_else(tmp_path: Path) -> None:
    """A test for each law; an expected failure that holds fails the suite."""
    (tmp_path / "test_mine.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    failed = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    assert f"test_mine.py::test_wrong[{TELESCOPES}]" in failed
    assert [name for name in failed if "test_stale" in name] == [
        f"test_mine.py::test_stale[{REFUSES}]"
    ]
    assert "discounts the first residual too" in ran.stdout


def test_the_report_is_one_like_any_other(tmp_path: Path) -> None:
    from rlcheck.grading.report import from_json, to_json

    report = rlcheck.check(careless, SUM, examples=5)
    assert from_json(to_json(report)) == report
