"""What a law asks depends on the seed: answers to one run's calls do not do for another's."""

import numpy as np
import pytest

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import Graded, InProcess
from rlcheck.grading.grade import law_seed
from rlcheck.grading.laws import Law, explore, laws_of

MANY, FEW = 64, 10  # examples


def asked(law: Law, seed: int, examples: int) -> set[str]:
    """The calls that a law makes of the reference."""
    reference = FUNCTIONS[law.function].reference()
    graded = Graded(law.function, InProcess({law.function: reference}))
    calls: set[str] = set()

    def visit(**drawn: object) -> None:
        graded.calls.clear()
        with np.errstate(all="ignore"):
            law.body(graded, **drawn)
        calls.update(repr((call.args, call.kwargs)) for call in graded.calls)

    explore(law, visit, random_seed=law_seed(seed, law), examples=examples)
    return calls


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_law_asks_something_new_at_another_seed(function: str) -> None:
    laws = laws_of(FUNCTIONS[function])
    assert laws
    fixed = [law.id for law in laws if asked(law, 1, FEW) <= asked(law, 0, MANY)]
    assert fixed == []
