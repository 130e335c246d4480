"""Calls that must be refused: as they are written, and varied where they are not to blame."""

import inspect
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.laws import law

from .strategies import evenly, examples

CHANGED = 16  # entries of a call that are changed, at most


@dataclass(frozen=True)
class Refusal:
    """A call that must be refused, and what rlcheck's own refusal says about it."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    says: str


def refuse(*args: Any, says: str, **kwargs: Any) -> Refusal:
    """A call that must be refused.

    A law draws it, and any ValueError or TypeError satisfies the law; of the reference it is
    also tested that the text of its error contains `says`.
    """
    return Refusal(args, kwargs, says)


def refusals(cases: Sequence[Refusal]) -> st.SearchStrategy[Refusal]:
    """Each of the cases, as it is written."""
    return st.sampled_from(cases)


def law_of_refusals(cases: Sequence[Refusal]) -> Callable[[Callable[..., None]], Any]:
    """Declare the law that its function refuses each case as it is written, and varied."""

    def declare(body: Callable[..., None]) -> Any:
        function = next(iter(inspect.signature(body).parameters))
        as_written = examples({"bad": case} for case in cases)
        return law(bad=variations(function, cases))(as_written(body))

    return declare


def variations(function: str, cases: Sequence[Refusal]) -> st.SearchStrategy[Refusal]:
    """Each of the cases with other numbers, or texts, where they are not what is refused."""
    drawn = st.tuples(st.sampled_from(cases), evenly(2**32))
    return drawn.map(lambda code: varied(function, *code))


def varied(function: str, case: Refusal, number: int) -> Refusal:
    """The variation of a case that has this number; 0 is the case as it is written.

    A change is kept only if the reference still says the same to the letter, so that what its
    text names stays. Integers change where no float can, and texts where neither can.
    """
    if number == 0:
        return case
    chance = random.Random(number)
    written: Any = (case.args, case.kwargs)
    call, said = written, _said(function, written)
    for can_change, change in _CHANGES:
        places = [place for place, leaf in enumerate(_leaves(written)) if can_change(leaf)]
        for place in chance.sample(places, min(len(places), CHANGED)):
            other = _changed(call, place, lambda leaf, change=change: change(leaf, chance))
            if _said(function, other) == said:
                call = other
        if call is not written:
            break
    return Refusal(*call, case.says)


# Floats come nearer to 0, by half at most: signs stay, and what lies in [0, 1] stays there.
_CHANGES: tuple[tuple[Callable[[Any], bool], Callable[[Any, random.Random], Any]], ...] = (
    (
        lambda leaf: isinstance(leaf, float | np.floating) and 0.0 < abs(leaf) < math.inf,
        lambda leaf, chance: leaf * (1.0 - chance.randint(1, 512) / 1024),
    ),
    (lambda leaf: type(leaf) is int, lambda leaf, chance: leaf + chance.randint(1, 1000)),
    (lambda leaf: type(leaf) is str, lambda leaf, chance: f"{leaf}{chance.randint(1, 1000)}"),
)


def _said(function: str, call: tuple[tuple[Any, ...], dict[str, Any]]) -> str | None:
    """The text of the reference's refusal, if it is one."""
    args, kwargs = call
    try:
        with np.errstate(all="ignore"):
            FUNCTIONS[function].reference()(*args, **kwargs)
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def _leaves(tree: Any) -> list[Any]:
    """The entries of nested tuples, lists, dicts and arrays, in order."""
    found: list[Any] = []

    def note(leaf: Any) -> Any:
        found.append(leaf)
        return leaf

    _mapped(tree, note)
    return found


def _changed(tree: Any, place: int, change: Callable[[Any], Any]) -> Any:
    """A copy of the tree in which the leaf at this place is another."""
    count = itertools.count()
    return _mapped(tree, lambda leaf: change(leaf) if next(count) == place else leaf)


def _mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of the tree with `change(leaf)` for each leaf, in containers of the same kind."""
    if isinstance(tree, np.ndarray):
        entries = [change(entry) for entry in tree.flat]
        return np.array(entries, dtype=tree.dtype).reshape(tree.shape)
    if isinstance(tree, dict):
        return {key: _mapped(branch, change) for key, branch in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)([_mapped(branch, change) for branch in tree])
    return change(tree)
