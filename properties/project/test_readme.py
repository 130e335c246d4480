"""The README says what is there, and its examples do what it says."""

import doctest
import re
from pathlib import Path

import pytest

from rlcheck.grading.overview import with_overview

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def test_the_table_of_functions_is_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_overview(text) == text, "run `make table`"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[0])
def test_an_example_prints_what_is_there(example: str) -> None:
    parsed = doctest.DocTestParser().get_doctest(example, {}, "README", "README.md", 0)
    assert parsed.examples
    assert doctest.DocTestRunner().run(parsed).failed == 0
