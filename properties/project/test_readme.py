"""The README says what is there."""

from pathlib import Path

from rlcheck.grading.overview import with_overview

README = Path(__file__).parents[2] / "README.md"


def test_the_table_of_functions_is_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_overview(text) == text, "run `make table`"
