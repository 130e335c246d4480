"""Where the truth about a gradient comes from when it is no closed form."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcheck.grading.compare import Mismatch, assert_close, numbers

# Central differences of step h are off by h² f''' / 6 + ε f / h: about 1e-10 at 1e-5 where f and
# its third derivative are of order 1. Laws draw such points; a wrong slope is off by far more.
STEP = 1e-5
TRUNCATION = 1e-8

Array = NDArray[np.float64]

FLAGS = (np.bool_, np.int64, np.float64)  # what masks and flags are kept in


def assert_slope(got: Any, value: Callable[[Array], Any], point: Any, *, scale: float) -> None:
    """The gradient agrees with central differences of `value`, which is about `scale` large."""
    __tracebackhide__ = True
    point = np.asarray(point, dtype=np.float64)
    slope = np.zeros(point.shape)
    for index in np.ndindex(point.shape):
        step = np.zeros(point.shape)
        step[index] = STEP
        slope[index] = (float(value(point + step)) - float(value(point - step))) / (2 * STEP)
    numbers(got, shape=point.shape)
    assert_close(got, slope, terms=0.0, slack=TRUNCATION * (1.0 + scale))


def adjoint(linear: Callable[[Array], Any], weights: Any) -> Array:
    """The gradient of Σ weights · linear(x): each entry is the weighted answer to a unit."""
    weights = np.asarray(weights, dtype=np.float64)
    units = np.eye(weights.size).reshape(-1, *weights.shape)
    return np.array([np.sum(weights * linear(unit)) for unit in units]).reshape(weights.shape)


def assert_finite(got: Any, *, shape: tuple[int, ...]) -> None:
    """The gradient holds neither NaN nor infinities."""
    __tracebackhide__ = True
    if not np.isfinite(numbers(got, shape=shape)).all():
        raise Mismatch("the gradient is not finite", expected="finite numbers", got=got)
