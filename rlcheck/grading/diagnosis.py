"""Which known mistake do a submission's answers look like?

A mistake explains a call when it stands with the submission against the reference: where the
submission deviates from the reference, the mistake must be ten times nearer to the submission
than the reference is; where the submission agrees with the reference, so must the mistake.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import Call, Graded, InProcess, NoOutcome, Raised
from rlcheck.mistakes import Mistake, mistakes_of

CLOSER = 0.1  # how near to the submission, as a share of its distance from the reference
SAMPLE = 300  # calls of the other laws that are looked at
NEARLY_ALL = 0.8  # share of all recorded calls that a mistake must explain
ROUNDING = 1e-12  # relative distance that counts as agreement in float64
SINGLE_ROUNDING = 1e-5  # the same where an answer came in float32


def diagnose(function: str, failed: Sequence[Call], others: Sequence[Call] = ()) -> Mistake | None:
    """The mistake that explains all `failed` calls, and nearly all `others`; None without one.

    Args:
        function: the function under test.
        failed: recorded calls of the law that failed; one at least deviates.
        others: recorded calls of all of the function's laws. A second fault of the submission
            leaves some of them unexplained, so a few may be.
    """
    of_gradients = any(call.backward is not None for call in failed)
    reference = FUNCTIONS[function].twin() if of_gradients else FUNCTIONS[function].reference()
    judged = [(c, _repeat(function, reference, c)) for c in failed if c.outcome is not NoOutcome]
    floor = 1.0 if any(_gap(call, truth) for call, truth in judged) else 0.0
    candidates = [
        mistake
        for mistake in mistakes_of(function, gradients=of_gradients)
        if _explains_all(function, mistake.call, judged, floor)
    ]
    alike = [c for c in others if (c.backward is not None) == of_gradients]
    sample = alike[:: 1 + len(alike) // SAMPLE]
    wider = [(c, _repeat(function, reference, c)) for c in sample if c.outcome is not NoOutcome]
    explained = {
        mistake.id: sum(_explains(function, mistake.call, call, truth) for call, truth in wider)
        for mistake in candidates
    }
    best = max(candidates, key=lambda mistake: explained[mistake.id], default=None)
    if best is None or explained[best.id] < NEARLY_ALL * len(wider):
        return None
    return best


def _repeat(function: str, implementation: Callable[..., Any], call: Call) -> Call:
    """The same call to another implementation, watched or differentiated as the first one was."""
    graded = Graded(function, InProcess({function: implementation}))
    with contextlib.suppress(Raised), np.errstate(all="ignore"):
        graded.repeat(call)
    return graded.calls[-1]


def _explains_all(
    function: str, mistake: Callable[..., Any], judged: list[tuple[Call, Call]], floor: float
) -> bool:
    deviates = False
    for call, truth in judged:
        if not _explains(function, mistake, call, truth, floor):
            return False
        deviates = deviates or _gap(call, truth, floor) > 0.0
    return deviates


def _explains(
    function: str, mistake: Callable[..., Any], call: Call, truth: Call, floor: float = 1.0
) -> bool:
    to_truth = _gap(call, truth, floor)
    to_mistake = _gap(call, _repeat(function, mistake, call), floor)
    return to_mistake == 0.0 or (np.isfinite(to_mistake) and to_mistake <= CLOSER * to_truth)


def _gap(one: Call, other: Call, floor: float = 1.0) -> float:
    """Distance of two outcomes; inf where only one of the calls changed its arguments.

    Warnings do not count: many right implementations warn where the reference is quiet.
    """
    changed = [bool(call.effects and call.effects.changed_arguments) for call in (one, other)]
    alike = changed[0] == changed[1]
    return distance(one.outcome, other.outcome, floor) if alike else float("inf")


def distance(one: Any, other: Any, floor: float = 1.0) -> float:
    """Relative distance of two outcomes; 0.0 within rounding, inf where they differ in kind.

    It is relative to `floor` plus the size of the numbers: with 1.0, what is left of a sum that
    cancels is no distance; with 0.0, tiny answers differ by their own digits.
    """
    if isinstance(one, Raised) or isinstance(other, Raised):
        both = isinstance(one, Raised) and isinstance(other, Raised)
        alike = both and (one.kinds[0] == other.kinds[0] or (one.is_refusal and other.is_refusal))
        return 0.0 if alike else float("inf")
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return float("inf")
        return max((distance(one[key], other[key], floor) for key in one), default=0.0)
    if isinstance(one, dict) and isinstance(other, list):
        return distance(list(one.values()), other, floor)
    if isinstance(one, list) and isinstance(other, dict):
        return distance(one, list(other.values()), floor)
    left, right = _array(one), _array(other)
    if left is not None and right is not None:
        return _array_distance(left, right, floor)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max((distance(a, b, floor) for a, b in zip(one, other, strict=True)), default=0.0)
    return 0.0 if type(one) is type(other) and one == other else float("inf")


def _array(value: Any) -> Any:
    if not isinstance(value, np.ndarray | float | int | bool | list):
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" else None


def _array_distance(left: Any, right: Any, floor: float) -> float:
    if left.size == right.size == 0:
        return 0.0
    if left.shape != right.shape:
        return float("inf")
    single = any(a.dtype.kind == "f" and a.dtype.itemsize < 8 for a in (left, right))
    a, b = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        gap = np.where(same, 0.0, np.abs(a - b) / (floor + np.maximum(np.abs(a), np.abs(b))))
    gap = np.where(np.isnan(gap), np.inf, gap)
    worst = float(gap.max(initial=0.0))
    return worst if worst > (SINGLE_ROUNDING if single else ROUNDING) else 0.0
