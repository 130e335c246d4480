"""rlcheck's own refusals name the argument, the index and the value."""

import re
from importlib import import_module

import numpy as np
import pytest

from properties.refusals import Refusal, refuse, varied
from rlcheck.catalogue import FUNCTIONS, MODULES

CASES = [
    pytest.param(name, case, id=f"{name}-{number}")
    for module in MODULES
    for name, cases in import_module(f"rlcheck.properties.test_{module}").REFUSALS.items()
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_text_says_what_is_wrong(name: str, case: Refusal) -> None:
    with pytest.raises((ValueError, TypeError)) as refusal:
        FUNCTIONS[name].reference()(*case.args, **case.kwargs)
    assert case.says
    assert case.says in str(refusal.value)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_varied_call_is_refused_for_the_same_reason(name: str, case: Refusal) -> None:
    before = repr(case)
    assert varied(name, case, 0) is case
    for number in (1, 2**31):
        other = varied(name, case, number)
        with pytest.raises((ValueError, TypeError)) as refusal:
            FUNCTIONS[name].reference()(*other.args, **other.kwargs)
        assert case.says in str(refusal.value)
        assert repr(varied(name, case, number)) == repr(other)
    assert repr(case) == before


def test_what_is_not_to_blame_varies() -> None:
    written = refuse(
        [-2.0, float("nan"), 0.0, 1],
        np.array([[0.5], [-1.0]], dtype=np.float32),
        terminated=(True, False),
        says="rewards[1] is nan",
    )
    other = varied("td_residuals", written, 3)
    (first, *rest), values = other.args
    assert -2.0 < first <= -1.0
    assert repr(rest) == "[nan, 0.0, 1]"
    assert values.dtype == np.float32
    assert values.shape == (2, 1)
    assert np.all(np.abs(values) < [[0.5], [1.0]])
    assert np.all(np.sign(values) == [[1.0], [-1.0]])
    assert other.kwargs == {"terminated": (True, False)}


def test_integers_and_texts_vary_where_no_float_does() -> None:
    bad = refuse(float("nan"), 4, says="p is nan")
    assert varied("informative_group_probability", bad, 1).args[1] > 4
    bad = refuse("eos", terminal_reasons=["eos"], says="truncation_reasons")
    other = varied("classify_stop_event", bad, 1)
    assert re.fullmatch(r"eos\d+", other.args[0])
    assert re.fullmatch(r"eos\d+", other.kwargs["terminal_reasons"][0])
