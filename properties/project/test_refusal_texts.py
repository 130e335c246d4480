"""rlcheck's own refusals name the argument, the index and the value."""

from importlib import import_module

import pytest

from rlcheck.catalogue import FUNCTIONS, MODULES

CASES = [
    pytest.param(name, case, id=f"{name}-{number}")
    for module in MODULES
    for name, cases in import_module(f"rlcheck.properties.test_{module}").REFUSALS.items()
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_text_says_what_is_wrong(name: str, case: object) -> None:
    with pytest.raises((ValueError, TypeError)) as refusal:
        FUNCTIONS[name].reference()(*case.args, **case.kwargs)
    assert case.says
    assert case.says in str(refusal.value)
