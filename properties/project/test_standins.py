"""Answers without mathematics: every function has laws that none of them keeps, and they earn 0."""

import itertools

import pytest

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.grade import grade
from rlcheck.grading.laws import laws_of
from rlcheck.grading.standins import is_kept_by_a_table, is_kept_without_mathematics, stand_ins

pytestmark = pytest.mark.slow
TOLD = "an answer without mathematics keeps it too"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_most_laws_ask_for_mathematics(name: str) -> None:
    laws = laws_of(FUNCTIONS[name])
    asking = [law for law in laws if not is_kept_without_mathematics(law)]
    assert len(asking) >= 3
    assert len(asking) < len(laws)  # to refuse what is bad takes none
    assert len([law for law in asking if not is_kept_by_a_table(law)]) >= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_stand_in_earns_nothing_and_is_told_why(name: str) -> None:
    function = FUNCTIONS[name]
    some = itertools.islice(stand_ins(function.reference(), len(function.parameters)), 0, None, 8)
    told = []
    for stand_in in some:
        report = grade("stand-in", only=[name], functions={name: stand_in}, examples=30)
        assert report.score == 0
        told += [law for law in report.laws if TOLD in law.message]
    assert told


def test_a_detached_answer_earns_nothing_for_its_slopes() -> None:
    name = "exact_kl_from_logits"
    laws = laws_of(FUNCTIONS[name], gradients=True)
    assert not any(map(is_kept_without_mathematics, laws))
    (kept,) = laws_of(FUNCTIONS["dqn_targets"], gradients=True)  # which asks for a constant
    assert is_kept_without_mathematics(kept)
