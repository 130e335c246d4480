"""Answers without mathematics, and the laws that they happen to keep.

A law is a property, and some properties are kept by a constant: that of NaN is NaN, zeros are never
negative. A stand-in knows the shape of the right answer and what must be refused, which is more
than a submission without mathematics does, and nothing else.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import Law, run
from rlcheck.grading.tensors import as_tensor
from rlcheck.grading.wire import plain

__all__ = ["is_kept_without_mathematics", "stand_ins"]

CONSTANTS = (0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan)
EXAMPLES = 30
SEED = 0


@functools.cache
def is_kept_without_mathematics(law: Law) -> bool:
    """Whether some stand-in keeps a law."""
    return any(
        run(law, transport, random_seed=SEED, examples=EXAMPLES, shrink=False).holds
        for transport in _transports(law)
    )


def _transports(law: Law) -> Iterator[InProcess]:
    function = FUNCTIONS[law.function]
    reference = function.twin() if law.of_gradients else function.reference()
    for stand_in in stand_ins(reference, len(function.parameters)):
        given = _in_tensors(stand_in) if law.of_gradients else stand_in
        yield InProcess({law.function: given}, loud=False)


def stand_ins(reference: Callable[..., Any], parameters: int) -> Iterator[Callable[..., Any]]:
    """Functions that give one number for every call, or one of the arguments back."""
    for constant in CONSTANTS:
        yield functools.partial(_constant, reference, constant)
    for place in range(parameters):
        yield functools.partial(_echo, reference, place)


def _constant(reference: Callable[..., Any], constant: float, /, *args: Any, **kwargs: Any) -> Any:
    return _filled(plain(reference(*args, **kwargs)), constant)


def _echo(reference: Callable[..., Any], place: int, /, *args: Any, **kwargs: Any) -> Any:
    reference(*args, **kwargs)  # which refuses what must be refused
    given = [*args, *kwargs.values()]
    return given[place] if place < len(given) else None


def _in_tensors(stand_in: Callable[..., Any]) -> Callable[..., Any]:
    """The same answers as tensors, so that their gradients can be asked for."""

    def answering(*args: Any, **kwargs: Any) -> Any:
        answer = stand_in(*args, **kwargs)
        if isinstance(answer, dict):
            return {key: as_tensor(np.asarray(value)) for key, value in answer.items()}
        return as_tensor(np.asarray(answer)) if isinstance(answer, float | np.ndarray) else answer

    return answering


def _filled(answer: Any, constant: float) -> Any:
    """An answer of the same form, with one number in all places, and no text."""
    if isinstance(answer, dict):
        return {key: _filled(value, constant) for key, value in answer.items()}
    if isinstance(answer, list):
        return [_filled(entry, constant) for entry in answer if not isinstance(entry, str)]
    if isinstance(answer, np.ndarray):
        whole = answer.dtype.kind in "biu" and not math.isfinite(constant)
        return np.full(answer.shape, 0 if whole else constant, answer.dtype)
    if isinstance(answer, float):
        return constant
    if isinstance(answer, bool | int):
        return type(answer)(constant) if math.isfinite(constant) else type(answer)(0)
    return "" if isinstance(answer, str) else answer
