"""Which laws of an environment notice which wrong environments."""

import contextlib
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from properties.alternatives.wrong_environments import Wrong
from rlcheck.grading.laws import EXAMPLES, Law, explore

FEW_EXAMPLES = 12  # most fall at once
NOTICED = (Exception, pytest.fail.Exception)  # which `pytest.raises` raises, and is no Exception


class Enough(BaseException):
    """Ends the drawing early; Hypothesis lets it through."""


def laws_in(module: ModuleType) -> dict[str, Law]:
    """The laws of a module, by name."""
    return {
        name.removeprefix("test_"): test.law
        for name, test in vars(module).items()
        if isinstance(getattr(test, "law", None), Law)
    }


def noticed(
    law: Law, wrong: Iterable[Wrong], seed: int, examples: int, *, one: bool = False
) -> set[str]:
    """The wrong environments that a law notices, all on the same examples; `one` is enough."""
    alive = {each.name: each.environment for each in wrong}
    found: set[str] = set()

    def visit(**drawn: Any) -> None:
        for name, environment in list(alive.items()):
            try:
                law.body(environment, **drawn)
            except NOTICED:
                found.add(name)
                del alive[name]
        if not alive or (one and found):
            raise Enough

    if alive:
        with contextlib.suppress(Enough):
            explore(law, visit, random_seed=seed, examples=examples)
    return found


def gaps(laws: dict[str, Law], wrong_environments: list[Wrong], seed: int) -> list[str]:
    """The wrong environments that no law notices, and the laws that notice none."""
    alive = {wrong.name: wrong for wrong in wrong_environments}
    idle = set(laws)
    for examples in (FEW_EXAMPLES, EXAMPLES):
        for name, law in laws.items():
            found = noticed(law, alive.values(), seed, examples)
            if name in idle and not found:
                found = noticed(law, wrong_environments, seed, examples, one=True)
            if found:
                idle.discard(name)
            alive = {name: wrong for name, wrong in alive.items() if name not in found}
    missed = [f"no law notices that it {wrong.description}" for wrong in alive.values()]
    return [*missed, *(f"{name} notices no wrong environment" for name in sorted(idle))]


def live(life_of: Callable[[Any], Any], environment: Any) -> None:
    """A few lives of any calls, always the same ones, with nothing made small."""
    few = settings(
        max_examples=60,
        stateful_step_count=30,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=False,
    )
    run_state_machine_as_test(life_of(environment), settings=few)


def assert_described_once(wrong_environments: list[Wrong], *, at_least: int) -> None:
    """Names and descriptions differ, and a description completes a sentence."""
    assert len(wrong_environments) >= at_least
    assert len({wrong.name for wrong in wrong_environments}) == len(wrong_environments)
    descriptions = {wrong.description for wrong in wrong_environments}
    assert len(descriptions) == len(wrong_environments)
    assert all(text[0].islower() and not text.endswith(".") for text in descriptions)
