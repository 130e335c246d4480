"""Answers without mathematics, and the laws that they happen to keep.

A law is a property, and some properties are kept by a constant: that of NaN is NaN, zeros are never
negative. A stand-in knows the shape of the right answer and what must be refused, which is more
than a submission without mathematics does; some know what is right at the ends of the numbers, too,
and nothing of what is ordinary. What a law asks of small whole numbers alone, a table can hold: who
keeps it is right in that, but need not know the formula.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import Law, run
from rlcheck.grading.tensors import as_tensor
from rlcheck.grading.wire import plain

Number: TypeAlias = float | Callable[[int], float]  # or what it is in a row of so many
__all__ = ["is_kept_by_a_table", "is_kept_without_mathematics", "stand_ins"]

CONSTANTS = (0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan)
TEXT = "missing policy versions"  # which the contract asks for by its words
EXAMPLES = 30
SMALLEST, LARGEST = 1e-6, 1e6  # what is ordinary
WHOLE = 128  # up to which whole numbers fit into a table
SEED = 0


@functools.cache
def is_kept_without_mathematics(law: Law) -> bool:
    """Whether some stand-in keeps a law."""
    parameters = len(FUNCTIONS[law.function].parameters)
    return _is_kept(law, stand_ins(_reference(law), parameters))


@functools.cache
def is_kept_by_a_table(law: Law) -> bool:
    """Whether a stand-in keeps a law that knows small whole numbers, and the ends of them all."""
    return _is_kept(
        law,
        (
            functools.partial(_right_where, _is_in_a_table, _reference(law), number)
            for number in CONSTANTS[:2]
        ),
    )


def _reference(law: Law) -> Callable[..., Any]:
    function = FUNCTIONS[law.function]
    answer: Callable[..., Any] = function.twin() if law.of_gradients else function.reference()
    return answer


def _is_kept(law: Law, answers: Iterable[Callable[..., Any]]) -> bool:
    for answer in answers:
        given = _in_tensors(answer) if law.of_gradients else answer
        transport = InProcess({law.function: given}, loud=False)
        if run(law, transport, random_seed=SEED, examples=EXAMPLES, shrink=False).holds:
            return True
    return False


def stand_ins(reference: Callable[..., Any], parameters: int) -> Iterator[Callable[..., Any]]:
    """Functions that give one answer for every call, or one of the arguments back.

    The answer is a number in all places, or as likely or as unlikely everywhere along a row: 1/n
    or −log n.
    """
    for number in (*CONSTANTS, _uniform, _log_uniform):
        yield functools.partial(_constant, reference, number)
    for place in range(parameters):
        yield functools.partial(_echo, reference, place)
    for number in CONSTANTS:
        yield functools.partial(_right_where, _is_extreme, reference, number)


def _constant(reference: Callable[..., Any], number: Number, /, *args: Any, **kwargs: Any) -> Any:
    given = [*args, *kwargs.values()]
    return _filled(plain(reference(*args, **kwargs)), number, given)


def _right_where(
    known: Callable[[Any], bool],
    reference: Callable[..., Any],
    number: float,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    given = [*args, *kwargs.values()]
    answer = plain(reference(*args, **kwargs))
    return answer if known(given) else _filled(answer, number, given)


def _is_extreme(given: list[Any]) -> bool:
    """Whether something in it is empty, infinite, NaN, huge or tiny."""
    return not _is_ordinary(given)


def _is_in_a_table(given: list[Any]) -> bool:
    """The same, or whether its lists of numbers hold small whole ones alone."""
    lists = [array for entry in given for array in _numeric(entry)]
    whole = bool(lists) and all((np.abs(x) <= WHOLE).all() and (x % 1 == 0).all() for x in lists)
    return whole or _is_extreme(given)


def _numeric(given: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The lists and arrays of numbers in it, but for records."""
    if isinstance(given, list | tuple | np.ndarray):
        try:
            array = np.asarray(given)
        except ValueError:  # rows of several lengths
            array = np.array(None)
        if array.dtype.kind in "fiub":
            yield array.astype(np.float64)
        elif isinstance(given, list | tuple):
            yield from (array for entry in given for array in _numeric(entry))


def _is_ordinary(given: Any) -> bool:
    """Whether nothing in it is empty, infinite, NaN, huge or tiny."""
    if isinstance(given, dict):
        return bool(given) and _is_ordinary(list(given.values()))
    if isinstance(given, list | tuple):
        return bool(given) and all(map(_is_ordinary, given))
    if isinstance(given, np.ndarray):
        sizes = np.abs(given[given != 0].astype(float)) if given.dtype.kind in "fiub" else ()
        return given.size > 0 and all(SMALLEST <= size <= LARGEST for size in sizes)
    if isinstance(given, bool | int | float):
        return given == 0 or SMALLEST <= abs(given) <= LARGEST
    return True


def _echo(reference: Callable[..., Any], place: int, /, *args: Any, **kwargs: Any) -> Any:
    reference(*args, **kwargs)  # which refuses what must be refused
    given = [*args, *kwargs.values()]
    return given[place] if place < len(given) else None


def _uniform(row: int) -> float:
    return 1.0 / row


def _log_uniform(row: int) -> float:
    return -math.log(row)


def _in_tensors(stand_in: Callable[..., Any]) -> Callable[..., Any]:
    """The same answers as tensors, so that their gradients can be asked for."""

    def answering(*args: Any, **kwargs: Any) -> Any:
        answer = stand_in(*args, **kwargs)
        if isinstance(answer, dict):
            return {key: as_tensor(np.asarray(value)) for key, value in answer.items()}
        return as_tensor(np.asarray(answer)) if isinstance(answer, float | np.ndarray) else answer

    return answering


def _filled(answer: Any, number: Number, given: list[Any]) -> Any:
    """An answer of the same form, with one number in all places, and no text that was not given."""
    if isinstance(answer, dict):
        return {key: _filled(value, number, given) for key, value in answer.items()}
    if isinstance(answer, list):
        if all(isinstance(entry, str) for entry in answer):
            return [TEXT] if number == 1.0 else []
        return [_filled(entry, number, given) for entry in answer]
    if isinstance(answer, np.ndarray):
        row = answer.shape[-1] if answer.ndim else 1
        constant = number(row or 1) if callable(number) else number
        whole = answer.dtype.kind in "biu" and not math.isfinite(constant)
        return np.full(answer.shape, 0 if whole else constant, answer.dtype)
    if isinstance(answer, str):
        return answer if answer in [text for text in given if isinstance(text, str)] else ""
    if not isinstance(answer, bool | int | float):
        return answer
    constant = number(1) if callable(number) else number
    return type(answer)(constant if isinstance(answer, float) or math.isfinite(constant) else 0)
