"""Statistics of results over seeds, with intervals; SciPy does the work."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

RESAMPLES = 10_000


class Interval(NamedTuple):
    """A statistic and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def interquartile_mean(results: Sequence[float] | NDArray[np.float64]) -> float:
    """The mean of the middle half.

    Reference:
        Agarwal et al. (2021), Deep reinforcement learning at the edge of the statistical precipice.
    """
    return float(stats.trim_mean(results, 0.25))


def mean(results: Sequence[float] | NDArray[np.float64]) -> float:
    """The mean."""
    return float(np.mean(results))


def bootstrap(
    results: Sequence[float], statistic: Callable[..., float] = interquartile_mean
) -> Interval:
    """A statistic over seeds with the percentiles of its bootstrap distribution.

    With few seeds it is too narrow: of a mean of normal results such an interval holds the truth
    in about 84 % of cases for five seeds, 89 % for ten, 93 % for twenty. One result has no
    interval; its ends are infinite.
    """
    if len(results) < 2:
        return Interval(statistic(results), -np.inf, np.inf)
    interval = stats.bootstrap(
        (np.asarray(results, np.float64),),
        statistic,
        n_resamples=RESAMPLES,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(statistic(results), float(interval.low), float(interval.high))


def wilson(successes: int, episodes: int) -> Interval:
    """A success rate with Wilson's score interval."""
    interval = stats.binomtest(successes, episodes).proportion_ci(method="wilson")
    return Interval(successes / episodes, float(interval.low), float(interval.high))
