"""rlcheck inside somebody else's test suite: `check` one function, or take its `laws` as tests."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

    from rlcheck.grading.report import Report

__all__ = ["CheckableLaw", "check", "laws"]

# Nothing of the grader is imported before it is used: `import rlcheck` stays light.


def check(
    function: Callable[..., Any],
    name: str,
    *,
    examples: int = 100,
    seed: int = 0,
    tensors: bool = False,
    gradients: bool = False,
    law: str | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> "Report":
    """Judge one function by the laws of `name`, in this process.

    `check(my_residuals, "td_residuals").raise_for_failures()` is a whole test.

    Args:
        function: what is judged.
        name: the function of rlcheck whose contract it claims to keep.
        examples: drawn for each law, 1 or more.
        seed: of every draw.
        tensors: True calls it with PyTorch tensors in place of arrays and lists.
        gradients: True judges the gradients of its answers too, which implies `tensors`.
        law: the id of the one law to run.
        expected_failures: law ids with the reason why they are known to fail. Such a law does not
            count; where it holds after all, it is lost, so that the declaration is removed.

    Returns:
        The report; it raises nothing by itself for a law that fails.

    Raises:
        TypeError: function cannot be called.
        ValueError: there is no function of that name, examples is below 1, or the law or an
            expected failure is no law of it.
    """
    from rlcheck.grading.grade import grade

    if not callable(function):
        raise TypeError(f"function is {function!r}; it must be callable")
    if examples < 1:
        raise ValueError(f"examples is {examples}; it must be 1 or more")
    return grade(
        _called(function),
        only=[_known(name)],
        law=law,
        examples=examples,
        seed=seed,
        tensors=tensors,
        gradients=gradients,
        functions={name: function},
        expected_failures=expected_failures,
    )


def laws(
    name: str,
    *,
    gradients: bool = False,
    expected_failures: Mapping[str, str] | None = None,
) -> "list[ParameterSet]":
    """The laws of one function, for `pytest.mark.parametrize`.

        @pytest.mark.parametrize("law", rlcheck.laws("td_residuals"))
        def test_residuals(law):
            law.check(my_residuals)

    Args:
        name: a function of rlcheck.
        gradients: True takes the laws of its gradients, which `check` asks with tensors.
        expected_failures: law ids with the reason why they are known to fail: they are marked as
            strict expected failures, so that one that holds after all fails the suite.

    Raises:
        ValueError: there is no function of that name, or an expected failure is no law of it.
    """
    import pytest

    from rlcheck.catalogue import FUNCTIONS
    from rlcheck.grading.laws import laws_of

    found = {law.id: law for law in laws_of(FUNCTIONS[_known(name)], gradients=gradients)}
    expected = dict(expected_failures or {})
    for law_id in expected:
        if law_id not in found:
            raise ValueError(f"expected_failures names {law_id!r}, which is no law of {name}")
    return [
        pytest.param(
            CheckableLaw(law.id, law.function, law.sentence),
            id=law.id,
            marks=[pytest.mark.xfail(reason=expected[law.id], strict=True)]
            if law.id in expected
            else [],
        )
        for law in found.values()
    ]


@dataclass(frozen=True)
class CheckableLaw:
    """One law, to be asked of an implementation."""

    id: str
    function: str
    sentence: str

    def check(
        self,
        function: Callable[..., Any],
        *,
        examples: int = 100,
        seed: int = 0,
        tensors: bool = False,
    ) -> None:
        """Raise AssertionError with the failure's card where the law does not hold."""
        check(
            function,
            self.function,
            law=self.id,
            examples=examples,
            seed=seed,
            tensors=tensors,
            gradients=self.id.startswith("gradients."),
        ).raise_for_failures()


def cards(report: "Report") -> str:
    """The failure cards of a report as text."""
    from rich.console import Console

    from rlcheck.grading.terminal import print_card

    text = io.StringIO()
    console = Console(file=text, width=100, highlight=False, markup=False, emoji=False)
    for law in report.failures:
        print_card(law, console)
    return text.getvalue()


def _known(name: str) -> str:
    from rlcheck.catalogue import FUNCTIONS, select

    select([name])
    if name not in FUNCTIONS:
        raise ValueError(f"{name!r} names several functions; name one of them")
    return name


def _called(function: Callable[..., Any]) -> str:
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    return f"{module}.{name}" if module and name else repr(function)
