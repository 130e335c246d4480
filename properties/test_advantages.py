"""Laws of `rlcheck.advantages`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import advantages as reference
from rlcheck import returns
from rlcheck.grading.compare import (
    assert_close,
    assert_refuses,
    assert_same,
    assert_sums,
    assert_untouched,
    exact,
    nearest_float,
    total,
)
from rlcheck.grading.laws import law

from .ordinary import Sample, law_of_ordinary_sizes
from .refusals import Refusal, law_of_refusals, refuse
from .strategies import (
    BOOLEANS,
    DISCOUNTS,
    FORMS,
    REALS,
    WHOLE,
    discounts,
    evenly,
    forms,
    long_row,
    steps,
)

NAN, INF = float("nan"), float("inf")


def refused_stream(says: str, **changed: Any) -> Refusal:
    """A call that two plain steps would make right, but for what is changed."""
    stream = {"rewards": [1.0, 2.0], "values": [0.5, 1.0], "next_values": [1.0, 2.0]}
    call = {**stream, "gamma": 0.9, "lam": 0.5, "terminated": [0, 0], "truncated": [0, 0]}
    *args, terminated, truncated = {**call, **changed}.values()
    return refuse(*args, says=says, terminated=terminated, truncated=truncated)


def refused_tokens(says: str, **changed: Any) -> Refusal:
    """A call that two tokens, the second one a tool's, would make right but for the change."""
    call = {"rewards": [1.0, 2.0], "values": [0.5, 1.0], "mask": [1, 0], "gamma": 0.9, "lam": 0.5}
    return refuse(*{**call, **changed}.values(), says=says)


DECAYS_OUT_OF_RANGE = (
    ({"gamma": 1.1}, "gamma is 1.1; it must lie in [0, 1]"),
    ({"gamma": -0.1}, "gamma is -0.1"),
    ({"gamma": NAN}, "gamma is nan"),
    ({"gamma": None}, "gamma is None"),
    ({"gamma": "0.9"}, "gamma is '0.9'"),
    ({"gamma": [0.9, 0.9]}, "gamma has shape (2,); it must be a scalar"),
    ({"lam": 1.1}, "lam is 1.1; it must lie in [0, 1]"),
    ({"lam": -0.1}, "lam is -0.1"),
    ({"lam": NAN, "gamma": 0.0}, "lam is nan"),
    ({"lam": 1.0 + 1e-9}, "lam is 1.000000001"),
    ({"lam": None}, "lam is None"),
    ({"lam": "1"}, "lam is '1'"),
)
STREAM_REFUSALS = (
    refused_stream("rewards[1] is nan", rewards=[1.0, NAN]),
    refused_stream("rewards[1] is nan", rewards=[1.0, NAN], terminated=[0, 1]),
    refused_stream("rewards[0] is inf", rewards=[INF, 1.0]),
    refused_stream("values[0] is -inf", values=[-INF, 1.0]),
    refused_stream("values[1] is nan", values=[1.0, NAN], terminated=[1, 1]),
    refused_stream("next_values[0] is nan", next_values=[NAN, 1.0]),
    refused_stream("next_values[1] is nan", next_values=[1.0, NAN], truncated=[0, 1]),
    refused_stream("next_values[1] is inf", next_values=[NAN, INF], terminated=[1, 0]),
    refused_stream("next_values[0] is -inf", next_values=[-INF, 1.0], gamma=0.0),
    refused_stream("values has shape (3,); it must have shape (2,)", values=[1.0, 2.0, 3.0]),
    refused_stream("values has shape (1,)", values=[1.0]),
    refused_stream("values has shape ()", values=1.0),
    refused_stream("next_values has shape (1,)", next_values=[1.0]),
    refused_stream("next_values has shape (2, 1)", next_values=[[1.0], [2.0]]),
    refused_stream("values has shape (2,); it must have shape (1, 2)", rewards=[[1.0, 2.0]]),
    refused_stream("terminated has shape (1,)", terminated=[0]),
    refused_stream("terminated has shape ()", terminated=False),
    refused_stream("truncated has shape (3,)", truncated=[0, 0, 0]),
    refused_stream("truncated has shape ()", truncated=0),
    refused_stream("terminated[1] is 2; it must be 0 or 1", terminated=[0, 2]),
    refused_stream("terminated[0] is 0.5", terminated=[0.5, 0.0]),
    refused_stream("truncated[1] is -1", truncated=[0, -1]),
    refused_stream("truncated[0] is nan", truncated=[NAN, 0.0]),
    refused_stream("rewards is 1.0, a scalar", rewards=1.0),
    refused_stream("rewards is '12'", rewards="12"),
    refused_stream("rewards[1] is None", rewards=[1.0, None]),
    refused_stream("values is None", values=None),
    refused_stream("terminated is None", terminated=None),
    refuse(
        *([[1.0, 2.0], [NAN, 0.0]], np.ones((2, 2)), np.ones((2, 2)), 0.9, 0.5),
        says="rewards[1, 0] is nan",
        terminated=np.zeros((2, 2)),
        truncated=np.zeros((2, 2)),
    ),
    refuse(
        *(np.ones((2, 2)), np.ones((2, 2)), [[NAN, 0.0], [1.0, NAN]], 0.9, 0.5),
        says="next_values[1, 1] is nan",
        terminated=[[1, 0], [0, 0]],
        truncated=[[0, 0], [0, 1]],
    ),
    refuse(
        *(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), 0.9, 0.5),
        says="terminated has shape (2,); it must have shape (2, 2)",
        terminated=[0, 1],
        truncated=np.zeros((2, 2)),
    ),
    *(refused_stream(says, **changed) for changed, says in DECAYS_OUT_OF_RANGE),
)
REFUSALS = {
    "generalized_advantages": STREAM_REFUSALS,
    "lambda_returns": STREAM_REFUSALS,
    "masked_advantages": (
        refused_tokens("token_rewards[0] is nan", rewards=[NAN, 1.0]),
        refused_tokens("token_rewards[1] is nan", rewards=[1.0, NAN]),
        refused_tokens("token_rewards[1] is inf", rewards=[1.0, INF]),
        refused_tokens("token_rewards[0] is -inf", rewards=[-INF, 1.0], mask=[0, 1]),
        refused_tokens("values[0] is nan", values=[NAN, 1.0]),
        refused_tokens("values[0] is inf", values=[INF, NAN]),
        refused_tokens("values[1] is nan", values=[NAN, NAN], mask=[0, 1]),
        refused_tokens("mask[1] is 2; it must be 0 or 1", mask=[0, 2]),
        refused_tokens("mask[0] is 0.5", mask=[0.5, 1.0]),
        refused_tokens("mask[1] is -1", mask=[1, -1]),
        refused_tokens("mask[0] is nan", mask=[NAN, 1.0]),
        refused_tokens("mask has shape (1,); it must have shape (2,)", mask=[1]),
        refused_tokens("mask has shape ()", mask=1),
        refused_tokens("values has shape (3,)", values=[1.0, 2.0, 3.0]),
        refused_tokens("values has shape ()", values=1.0),
        refused_tokens("mask has shape (2,); it must have shape (1, 2)", rewards=[[1.0, 2.0]]),
        refused_tokens("token_rewards is 1.0, a scalar", rewards=1.0),
        refused_tokens("token_rewards is '12'", rewards="12"),
        refused_tokens("token_rewards[1] is None", rewards=[1.0, None]),
        refused_tokens("values is None", values=None),
        refused_tokens("mask is None", mask=None),
        refuse(
            *([[1.0, 2.0], [0.0, 3.0]], [[0.5, NAN], [NAN, 1.0]], [[1, 0], [1, 1]], 0.9, 0.5),
            says="values[1, 0] is nan",
        ),
        refuse(
            *([[1.0, 2.0], [0.0, NAN]], [[0.5, 1.0], [1.0, 1.0]], [[1, 0], [1, 0]], 0.9, 0.5),
            says="token_rewards[1, 1] is nan",
        ),
        *(refused_tokens(says, **changed) for changed, says in DECAYS_OUT_OF_RANGE),
    ),
}

JUNK = (NAN, INF, -INF, 1e308, -3.0)
HUGE = (0.0, 1.7e308, 1e308, 1.0)
ENDINGS = ((0, 0), (1, 0), (0, 1), (1, 1))  # terminated, truncated
ENDS = (0, 1, 0.0, 1.0)


# ---- what is drawn --------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """Steps of several episodes in a row; a window may end before the last episode does."""

    rewards: Sequence[float]
    values: Sequence[float]
    next_values: Sequence[float]
    terminated: Sequence[int]
    truncated: Sequence[int]
    gamma: float = 1.0
    lam: float = 1.0

    def __len__(self) -> int:
        return len(self.rewards)

    def __add__(self, later: "Stream") -> "Stream":
        pairs = zip(self.columns, later.columns, strict=True)
        return Stream(*([*a, *b] for a, b in pairs), self.gamma, self.lam)

    @property
    def columns(self) -> tuple[Sequence[Any], ...]:
        return self.rewards, self.values, self.next_values, self.terminated, self.truncated

    def ask(self, function: Callable[..., Any], form: Callable[[Any], Any] = list) -> Any:
        """What the function answers for these steps."""
        *amounts, terminated, truncated = map(form, self.columns)
        flags = {"terminated": terminated, "truncated": truncated}
        return function(*amounts, self.gamma, self.lam, **flags)

    @property
    def pieces(self) -> list[slice]:
        """The steps of each episode, the unfinished one at the end too."""
        flags = zip(self.terminated, self.truncated, strict=True)
        ends = [t + 1 for t, flag in enumerate(flags) if any(flag)]
        cuts = [0, *ends, len(self)]
        return [slice(a, b) for a, b in pairwise(cuts) if a < b]

    def bootstrap(self, t: int) -> float:
        return 0.0 if self.terminated[t] else self.next_values[t]

    @property
    def residuals(self) -> list[list[Fraction]]:
        """r_t, γ V'_t unless the task ended, and −V_t, of each step."""
        g = exact(self.gamma)
        rows = zip(self.rewards, map(self.bootstrap, range(len(self))), self.values, strict=True)
        return [[exact(r), g * exact(after), -exact(before)] for r, after, before in rows]

    @property
    def advantages(self) -> list[Fraction]:
        """Σ_k (γλ)^k δ_{t+k}, over the steps that the episode still has."""
        deltas = [sum(terms) for terms in self.residuals]
        powers = [(exact(self.gamma) * exact(self.lam)) ** k for k in range(len(self))]
        ahead = [deltas[t : piece.stop] for piece in self.pieces for t in _within(piece)]
        return [sum(map(Fraction.__mul__, powers, rest), Fraction(0)) for rest in ahead]

    @property
    def scales(self) -> list[float]:
        """The absolute values of what the advantages add up."""
        sizes, decay = [total(terms) for terms in self.residuals], self.gamma * self.lam
        ahead = [sizes[t : piece.stop] for piece in self.pieces for t in _within(piece)]
        return [sum(decay**k * size for k, size in enumerate(rest)) for rest in ahead]

    @property
    def linked(self) -> "Stream":
        """The same steps with V'_t = V_{t+1} inside each episode, as one critic gives them."""
        after = list(self.next_values)
        for piece in self.pieces:
            after[piece.start : piece.stop - 1] = self.values[piece.start + 1 : piece.stop]
        return replace(self, next_values=after)

    @property
    def solved(self) -> "Stream":
        """The same steps with values that are the returns which follow."""
        before, after = [], []
        for piece in self.pieces:
            ahead = self.returns_of(piece)
            before, after = before + ahead[:-1], after + ahead[1:]
        return replace(self, values=before, next_values=after)

    def returns_of(self, piece: slice) -> list[float]:
        """Monte Carlo returns of an episode, and the value of the state after it."""
        rewards = [*self.rewards[piece], self.bootstrap(piece.stop - 1)]
        return returns.return_to_go(rewards, self.gamma).tolist()

    @property
    def monte_carlo(self) -> list[float]:
        return [G for piece in self.pieces for G in self.returns_of(piece)[:-1]]

    def haunted(self, inert: float) -> "Stream":
        """The same steps with something else in place of the values that terminal steps hide."""
        rows = zip(self.terminated, self.next_values, strict=True)
        return replace(self, next_values=[inert if ended else value for ended, value in rows])


def _within(piece: slice) -> range:
    return range(piece.start, piece.stop)


def assert_advantages(got: Any, *rows: Stream, shape: tuple[int, ...] | None = None) -> None:
    """The answer holds the advantages of the rows, one after the other."""
    truth = [nearest_float(A) for row in rows for A in row.advantages]
    scales = [scale for row in rows for scale in row.scales]
    shape = (len(truth),) if shape is None else shape
    assert_close(got, np.reshape(truth, shape), terms=np.reshape(scales, shape), count=shape[-1])


def assert_lambda_returns(got: Any, *rows: Stream, shape: tuple[int, ...] | None = None) -> None:
    """The answer holds advantage plus value of the rows, one after the other."""
    values = [value for row in rows for value in row.values]
    ahead = [A for row in rows for A in row.advantages]
    truth = [nearest_float(A + exact(V)) for A, V in zip(ahead, values, strict=True)]
    scales = np.abs(values) + [scale for row in rows for scale in row.scales]
    shape = (len(truth),) if shape is None else shape
    assert_close(got, np.reshape(truth, shape), terms=np.reshape(scales, shape), count=shape[-1])


def _step(ending: int, reward: int, value: int, after: int) -> tuple[Any, ...]:
    """Of six steps one ends by itself, one by a time limit, one by both."""
    flags = ENDINGS[max(ending - 2, 0)]
    return REALS[reward], REALS[value], REALS[after], *flags


def _stream(rows: Sequence[tuple[Any, ...]], gamma: float, lam: float) -> Stream:
    columns = zip(*rows, strict=True) if rows else [()] * 5
    return Stream(*map(list, columns), gamma, lam)


def streams(
    min_size: int = 0,
    max_size: int = 12,
    gammas: Sequence[float] = DISCOUNTS,
    lams: Sequence[float] = DISCOUNTS,
) -> st.SearchStrategy[Stream]:
    """Up to twelve steps with endings of every kind; none at all, too.

    V'_t is drawn apart from V_{t+1}: a critic may have learnt in between.
    """
    records = steps(_step, 6, 128, 128, 128, min_size=min_size, max_size=max_size)
    return st.builds(_stream, records, st.sampled_from(gammas), st.sampled_from(lams))


@dataclass(frozen=True)
class Batch:
    """Streams of one length side by side."""

    rows: list[Stream]
    width: int
    gamma: float
    lam: float

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.width

    def ask(self, function: Callable[..., Any]) -> Any:
        """What the function answers for [B, T] tables."""
        columns = [row.columns for row in self.rows]
        parts = [[row[i] for row in columns] for i in range(5)]
        return Stream(*parts, self.gamma, self.lam).ask(
            function, lambda part: np.reshape(part, self.shape)
        )


def batches() -> st.SearchStrategy[Batch]:
    """Rows of one to four steps; many are square, and most rows end in the middle of an episode."""

    def fold(rows: list[Any], shape: tuple[int, int], gamma: float, lam: float) -> Batch:
        streams = [_stream(row, gamma, lam) for row in _folded(rows, *shape)]
        return Batch(streams, shape[1], gamma, lam)

    records = steps(_step, 6, 128, 128, 128, min_size=2)
    return st.builds(fold, records, shapes(), discounts(), discounts())


def shapes() -> st.SearchStrategy[tuple[int, int]]:
    """The largest number of rows, and their length; squares often."""
    return st.sampled_from(((2, 2), (12, 2), (2, 3), (12, 1), (3, 3), (2, 4)))


def _folded(entries: list[Any], rows: int, width: int) -> list[list[Any]]:
    starts = range(0, len(entries) - width + 1, width)
    return [entries[a : a + width] for a in starts[:rows]]


SQUARE = Batch(
    [
        Stream([1.0, 2.0], [0.5, 0.25], [0.25, 3.0], [0, 0], [0, 0], 0.5, 0.5),
        Stream([4.0, 8.0], [0.5, 0.75], [0.75, 5.0], [0, 1], [0, 0], 0.5, 0.5),
    ],
    *(2, 0.5, 0.5),
)
END_INSIDE, CUT_INSIDE = ([int(t == end) for t in range(20)] for end in (6, 13))
WIDE = Batch(
    [
        Stream(long_row(20), long_row(21)[1:], long_row(22)[2:], [0] * 20, [0] * 20, 0.9, 0.95),
        Stream(long_row(21)[1:], long_row(20), long_row(21)[1:], END_INSIDE, CUT_INSIDE, 0.9, 0.95),
    ],
    *(20, 0.9, 0.95),
)


class OrdinarySteps:
    """A vector or a table of many steps; what follows a true ending is far off."""

    def __init__(self, sample: Sample) -> None:
        shape = sample.choice("shape", (sample.columns,), sample.shape)
        self.sample = sample
        self.rewards, self.values = (sample.reals(n, *shape) for n in ("rewards", "values"))
        self.ends = [sample.flags(n, *shape, share=0.1) for n in ("terminated", "truncated")]
        self.after = np.where(self.ends[0], 1e6, sample.reals("next values", *shape))
        self.gamma, self.lam = sample.discount("gamma"), sample.discount("lam")

    def ask(self, function: Callable[..., Any]) -> Any:
        *amounts, ended, cut = self.sample.held(self.rewards, self.values, self.after, *self.ends)
        return function(*amounts, self.gamma, self.lam, terminated=ended, truncated=cut)

    @property
    def advantages(self) -> Any:
        """The advantages, and the sums of the absolute values of their terms, by recursion."""
        ahead = self.gamma * np.where(self.ends[0], 0.0, self.after)
        signed = self.rewards + ahead - self.values
        deltas = np.stack([signed, abs(self.rewards) + abs(ahead) + abs(self.values)])
        decay = self.gamma * self.lam * ~np.logical_or(*self.ends)
        out, later = np.zeros(deltas.shape), np.zeros(deltas.shape[:-1])
        for t in reversed(range(self.sample.columns)):
            out[..., t] = later = deltas[..., t] + decay[..., t] * later
        return out


def giants() -> st.SearchStrategy[Stream]:
    """One episode of huge rewards of one sign, whose values would push the advantage further."""

    def stream(sizes: list[tuple[float, float]], ending: tuple[int, int], sign: float) -> Stream:
        rewards = [sign * reward for reward, _ in sizes]
        values = [-sign * value for _, value in sizes]
        quiet = [0] * (len(sizes) - 1)
        after = [0.0] * len(quiet) + [sign * sizes[0][1]]
        return Stream(rewards, values, after, [*quiet, ending[0]], [*quiet, ending[1]])

    sizes = steps(lambda r, v: (HUGE[r], HUGE[v]), 4, 4, min_size=1, max_size=4)
    return st.builds(stream, sizes, st.sampled_from(ENDINGS), st.sampled_from((1.0, -1.0)))


@dataclass(frozen=True)
class Whisper:
    """A long quiet stream in which one reward is paid, perhaps after an ending."""

    before: int
    after: int
    ending: int  # the step that ends the first episode; none does from `before` on
    flags: tuple[int, int]
    size: float

    def stream(self, gamma: float, lam: float) -> Stream:
        length = self.before + 1 + self.after
        rewards = [0.0] * length
        rewards[self.before] = self.size
        quiet = [0.0] * length
        ends = [[flag * (t == self.ending) for t in range(length)] for flag in self.flags]
        return Stream(rewards, quiet, quiet, *ends, gamma, lam)

    def echoes(self, decay: Fraction) -> list[float]:
        """decay^k · size, k steps before the reward, as far back as its episode began."""
        first = self.ending + 1 if self.ending < self.before and any(self.flags) else 0
        away = [self.before - t if t >= first else -1 for t in range(self.before + 1)]
        powers = list(accumulate([decay] * self.before, Fraction.__mul__, initial=Fraction(1)))
        heard = [powers[k] * exact(self.size) if k >= 0 else Fraction(0) for k in away]
        return [*map(nearest_float, heard), *[0.0] * self.after]


def whispers() -> st.SearchStrategy[Whisper]:
    """Up to 40 steps before the reward and three after it; one in two streams is cut."""
    return st.builds(
        Whisper,
        st.integers(0, 40),
        st.integers(0, 3),
        st.integers(0, 40),
        st.sampled_from(ENDINGS),
        st.sampled_from((1.0, -2.0, 0.1, 100.0)),
    )


LATE_DISCOUNTS = (0.9, 0.99, 0.5, 1.0)  # their powers stay above the smallest floats

INTEGERS = FORMS[3]  # arrays of int64
HALVES = [(1, 0, 1, 0, 0), (3, 1, 5, 0, 0)]
WHOLE_STEPS = steps(
    lambda e, r, v, w: (WHOLE[r], WHOLE[v], WHOLE[w], *ENDINGS[max(e - 2, 0)]),
    *(6, 10, 10, 10),
    max_size=5,
)


# ---- generalized_advantages -----------------------------------------------------------------


@law(stream=streams())
# Toni-SM/skrl#449, Toni-SM/skrl#438
@example(stream=Stream([1, 1, 1], [4, 4, 1], [4, 6, 0], [0, 0, 1], [0, 1, 0], 0.5, 1.0))
# pytorch/rl#3771, Unity-Technologies/ml-agents#574
# google-deepmind/mujoco_playground#350, RobertTLange/gymnax#108
@example(stream=Stream([0.0, 0.0], [4.0, 1.0], [5.0, 1.0], [0, 0], [1, 0], 1.0, 1.0))
# PufferAI/PufferLib#363, PufferAI/PufferLib#445
@example(stream=Stream([0.0, 1.0], [0.5, 0.5], [0.5, 2.0], [0, 0], [0, 0], 0.5, 0.95))
# EdanToledo/Stoix#142, EdanToledo/Stoix#57
@example(stream=Stream([1.0], [2.0], [4.0], [0], [1], 0.5, 0.95))
# Denys88/rl_games#356
@example(stream=Stream([0.0] * 9 + [1.0], [0.0] * 10, [0.0] * 10, [0] * 10, [0] * 10, 0.995, 1.0))
# thu-ml/tianshou#886
@example(stream=Stream([0.0] * 3, [1.0, 2.0, 3.0], [2.0, 3.0, 5.0], [0] * 3, [0] * 3, 1.0, 0.0))
# thu-ml/tianshou#869
@example(stream=Stream([1.0, 1.0], [0.5, 0.5], [0.5, 9.0], [0, 1], [0, 0], 0.9, 1.0))
def test_advantages_are_decayed_sums_of_temporal_differences(generalized_advantages, stream):
    """An advantage adds up the temporal differences ahead in its episode, k steps away by (γλ)^k.

    A_t = Σ_k (γλ)^k δ_{t+k}, δ_t = r_t + γ V'_t − V_t, without V'_t where the task ended; in
    rational arithmetic. Schulman et al. (2016), equation 16.
    """
    assert_advantages(stream.ask(generalized_advantages), stream)


@law(stream=streams(lams=(1.0, 1)))
# Toni-SM/skrl#449
@example(stream=Stream([1, 1, 1], [4, 4, 1], [4, 6, 0], [0, 0, 1], [0, 1, 0], 0.5, 1.0))
# natolambert/rlhf-book#216
@example(stream=Stream([0.0, 0.0, 1.0], [0.4, 0.5, 0.6], [0.5, 0.6, 0.0], [0, 0, 1], [0, 0, 0]))
def test_advantage_at_lambda_one_is_return_minus_value(generalized_advantages, stream):
    """λ = 1 gives the Monte Carlo return, with a value where the episode was cut, less the value.

    A_t = Σ_k γ^k r_{t+k} (+ γ^n V' at a cut) − V_t, for values of one critic: V'_t = V_{t+1}.
    """
    stream = stream.linked
    truth = np.subtract(stream.monte_carlo, stream.values)
    assert_close(stream.ask(generalized_advantages), truth, terms=stream.scales, count=len(stream))


@law(stream=streams(lams=(0.0, 0)))
@example(stream=Stream([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [0, 0], [0, 0], 0.9, 0.0))
@example(stream=Stream([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [0, 0], [0, 0], 1.0, 0.0))
def test_advantage_at_lambda_zero_is_the_temporal_difference(generalized_advantages, stream):
    """λ = 0 looks one step ahead: the advantage is the temporal difference.

    A_t = r_t + γ (1 − term_t) V'_t − V_t
    """
    assert_sums(stream.ask(generalized_advantages), stream.residuals)


@law(
    step=evenly(128**3),
    ending=st.sampled_from(ENDINGS),
    gamma=discounts(),
    lam=discounts(),
)
def test_only_a_true_ending_withholds_the_bootstrap(
    generalized_advantages, step, ending, gamma, lam
):
    """A single step bootstraps at a time limit and at a window's end, and not where the task ended.

    A = r + γ V' − V, or r − V where terminated, with a time limit on the same step too; any λ.
    """
    reward, value, after = (REALS[step >> shift & 127] for shift in (0, 7, 14))
    stream = Stream([reward], [value], [after], [ending[0]], [ending[1]], gamma, lam)
    terms = [exact(reward), -exact(value), *([] if ending[0] else [exact(gamma) * exact(after)])]
    assert_sums(stream.ask(generalized_advantages), [terms])


@law(first=streams(min_size=1, max_size=6), second=streams(max_size=6), last=st.integers(1, 3))
def test_appending_an_episode_changes_no_advantage(generalized_advantages, first, second, last):
    """What happens after an ending, of either kind, has no part in the advantages before it."""
    terminated, truncated = ENDINGS[last]
    first = replace(
        first,
        terminated=[*first.terminated[:-1], terminated],
        truncated=[*first.truncated[:-1], truncated],
    )
    second = replace(second, gamma=first.gamma, lam=first.lam)
    assert_advantages((first + second).ask(generalized_advantages), first, second)


@law(stream=streams(min_size=1), inert=st.sampled_from(JUNK))
# pytorch/rl#3744, anthonytorlucci/rlevo#1074
@example(stream=Stream([2.0], [0.0], [NAN], [1], [0], 0.9, 0.95), inert=NAN)
@example(stream=Stream([1.0, 2.0], [0.5, 3.0], [2.0, 0.0], [0, 1], [0, 1], 0.9, 1.0), inert=INF)
@example(stream=WIDE.rows[1], inert=NAN)
def test_values_after_a_true_ending_change_no_advantage(generalized_advantages, stream, inert):
    """Whatever stands for the value after a true ending, NaN and infinity too, is ignored.

    It is selected away, not multiplied by 0: 0 · NaN and 0 · ∞ are NaN.
    """
    assert_advantages(stream.haunted(inert).ask(generalized_advantages), stream)


@law(stream=streams())
def test_true_values_leave_no_advantage(generalized_advantages, stream):
    """Where every value is the return that follows, no step has an advantage, whatever λ is.

    V_t = r_t + γ V'_t for all t makes every A_t zero.
    """
    stream = stream.solved
    terms = len(stream) * total([*stream.rewards, *stream.next_values])
    got = stream.ask(generalized_advantages)
    assert_close(got, np.zeros(len(stream)), terms=terms, count=len(stream))


@law(whisper=whispers(), gamma=st.sampled_from(LATE_DISCOUNTS), lam=st.sampled_from(LATE_DISCOUNTS))
@example(whisper=Whisper(2, 0, 1, (1, 0), 1.0), gamma=0.0, lam=0.9)
@example(whisper=Whisper(2, 1, 2, (0, 0), 1.0), gamma=0.0, lam=0.0)
def test_one_reward_reaches_back_to_the_start_of_its_episode(
    generalized_advantages, whisper, gamma, lam
):
    """A single reward counts (γλ)^k times k steps before it, and not at all before its episode."""
    truth = whisper.echoes(exact(gamma) * exact(lam))
    got = whisper.stream(gamma, lam).ask(generalized_advantages)
    assert_close(got, truth, terms=np.abs(truth), count=len(truth))


@law(batch=batches())
@example(batch=SQUARE)
@example(batch=WIDE)
@example(batch=Batch([], 3, 0.9, 0.95))
@example(batch=Batch([Stream([], [], [], [], [])] * 2, 0, 0.9, 0.95))
def test_advantages_of_a_batch_are_those_of_its_rows(generalized_advantages, batch):
    """In a batch time runs along the last axis, and each row is a stream of its own.

    Nothing is carried from a row into the next, also where a row ends without a flag.
    """
    assert_advantages(batch.ask(generalized_advantages), *batch.rows, shape=batch.shape)


@law(stream=streams(gammas=ENDS, lams=ENDS))
@example(stream=Stream([], [], [], [], [], 0, 0))
def test_advantages_at_the_ends_of_gamma_and_lambda(generalized_advantages, stream):
    """γ = 0 leaves reward minus value, γ = λ = 1 decays nothing; no steps have no advantages."""
    assert_advantages(stream.ask(generalized_advantages), stream)


@law(stream=giants())
@example(stream=Stream([1.7e308], [-1.7e308], [0.0], [0], [0]))
# what overflows in one episode stays out of the one before
@example(stream=Stream([1.0, 1.7e308, 1.7e308], [0.5, 0.0, 0.0], [0.0] * 3, [1, 0, 1], [0] * 3))
def test_advantages_overflow_only_where_they_are_beyond_float64(generalized_advantages, stream):
    """An advantage beyond float64 is infinite, with its sign, and never NaN."""
    assert_advantages(stream.ask(generalized_advantages), stream)


@law(rows=WHOLE_STEPS, form=forms(), twice=st.booleans(), lam=st.sampled_from((0.5, 1)))
@example(rows=HALVES, form=INTEGERS, twice=True, lam=0.5)
@example(rows=[(1, 0, 1, 0, 1), (0, 1, 0, 1, 0)], form=BOOLEANS, twice=False, lam=0.5)
def test_advantages_read_any_array_and_leave_it_alone(
    generalized_advantages, rows, form, twice, lam
):
    """Lists, tuples, integers and float32 give the values of float64, and stay as they were."""
    stream = _stream(rows, 0.5, lam)
    given = Stream(*([c, c] if twice else c for c in stream.columns), stream.gamma, stream.lam)
    given.ask(
        lambda *args, **kwargs: assert_untouched(generalized_advantages, *args, **kwargs), form
    )
    shape = (2, len(rows)) if twice else None
    assert_advantages(given.ask(generalized_advantages, form), *[stream] * (1 + twice), shape=shape)


@law_of_ordinary_sizes
def test_advantages_of_batches_of_ordinary_size(generalized_advantages, sample):
    """Every step of many long rows has its own advantage, with endings of every kind on the way.

    A_t = Σ_k (γλ)^k δ_{t+k} up to the ending of the episode, for a vector or a table of steps.
    """
    steps_ = OrdinarySteps(sample)
    advantages, scales = steps_.advantages
    assert_close(steps_.ask(generalized_advantages), advantages, terms=scales, count=sample.columns)


@law_of_refusals(REFUSALS["generalized_advantages"])
def test_generalized_advantages_refuse(generalized_advantages, bad):
    """Shapes agree, all that counts is finite, flags are 0 or 1, and γ and λ lie in [0, 1]."""
    assert_refuses(generalized_advantages, *bad.args, **bad.kwargs)


# ---- lambda_returns -------------------------------------------------------------------------


def mixture_of_n_step_returns(stream: Stream) -> list[float]:
    """(1 − λ) Σ_n λ^(n−1) G^(n) over the steps left, and the rest of the weight on the last."""
    g, lam = exact(stream.gamma), exact(stream.lam)
    mixed = []
    for piece in stream.pieces:
        for t in _within(piece):
            paid, weight, mean = Fraction(0), Fraction(1), Fraction(0)
            for n, s in enumerate(range(t, piece.stop), start=1):
                paid += g ** (n - 1) * exact(stream.rewards[s])
                share = weight if n == piece.stop - t else weight * (1 - lam)
                mean += share * (paid + g**n * exact(stream.bootstrap(s)))
                weight *= lam
            mixed.append(nearest_float(mean))
    return mixed


@law(stream=streams(max_size=8))
# Toni-SM/skrl#449
@example(stream=Stream([1, 1, 1], [4, 4, 1], [4, 6, 0], [0, 0, 1], [0, 1, 0], 0.5, 1.0))
# pytorch/rl#401
@example(stream=Stream([1.0, 1.0, 1.0], [0.0, 2.0, 2.0], [2.0, 2.0, 2.0], [0, 1, 0], [0] * 3, 0.5))
# PufferAI/PufferLib#363, PufferAI/PufferLib#445
@example(stream=Stream([0.0, 1.0], [0.5, 0.5], [0.5, 2.0], [0, 0], [0, 0], 0.5, 0.5))
def test_lambda_return_is_an_average_of_n_step_returns(lambda_returns, stream):
    """The λ-return mixes the n-step returns with weights that fall by λ.

    G_t = (1 − λ) Σ_{n<N} λ^{n−1} G_t^{(n)} + λ^{N−1} G_t^{(N)}, N the steps left in the episode
    and V'_t = V_{t+1} inside it. Sutton and Barto (2018), equation 12.3.
    """
    stream = stream.linked
    terms = np.abs(stream.values) + stream.scales
    truth = mixture_of_n_step_returns(stream)
    assert_close(stream.ask(lambda_returns), truth, terms=terms, count=len(stream))


@law(stream=streams(lams=(1.0, 1)))
# mohmdelsayed/streaming-drl#3
@example(stream=Stream([1.0, 2.0, 4.0], [0.0] * 3, [0.0] * 3, [0, 0, 1], [0] * 3, 0.5, 1.0))
# SlopDotCash/asi#2362, SlopDotCash/asi#2840
@example(stream=Stream([0.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0, 1], [0, 0], 0.5, 1.0))
# tensorflow/agents#939
@example(stream=Stream([1.0, 10.0], [0.0, 20.0], [4.0, 0.0], [0, 1], [1, 0], 0.5, 1.0))
def test_lambda_return_at_lambda_one_is_the_monte_carlo_return(lambda_returns, stream):
    """λ = 1 gives the discounted return of the episode, with a value only where it was cut.

    G_t = Σ_k γ^k r_{t+k} (+ γ^n V' at a cut): the values inside the episode do not count.
    """
    stream = stream.linked
    terms = np.abs(stream.values) + stream.scales
    got = stream.ask(lambda_returns)
    assert_close(got, stream.monte_carlo, terms=terms, count=len(stream))


@law(stream=streams(lams=(0.0, 0)))
# Denys88/rl_games#128, leggedrobotics/rsl_rl#151, leggedrobotics/rsl_rl#20
@example(stream=Stream([1.0], [10.0], [2.0], [0], [1], 0.5, 0.0))
# openai/spinningup#233, DLR-RM/stable-baselines3#1276, takuseno/d3rlpy#463
@example(stream=Stream([1.0], [0.0], [8.0], [1], [1], 0.5, 0.0))
# bold-lab-ai/JaxMARL#93
@example(stream=Stream([3.0, 0.0], [0.0, 7.0], [7.0, 7.0], [1, 0], [0, 0], 1.0, 0.0))
# DLR-RM/stable-baselines3#934, vwxyzjn/cleanrl#460
@example(stream=Stream([0.0, 0.0], [0.0, 1.0], [6.0, 0.0], [0, 0], [1, 0], 0.5, 0.0))
# HumanCompatibleAI/imitation#335, takuseno/d3rlpy#18
@example(stream=Stream([1.0], [0.0], [8.0], [0], [0], 0.5, 0.0))
def test_lambda_return_at_lambda_zero_is_the_one_step_target(lambda_returns, stream):
    """λ = 0 gives the target of one step: a time limit bootstraps, a true ending does not.

    G_t = r_t + γ V'_t, or r_t where the task ended: `collector_target`.
    """
    target = returns.collector_target(
        stream.rewards, stream.next_values, gamma=stream.gamma, terminated=stream.terminated
    )
    terms = np.abs(stream.values) + stream.scales
    assert_close(stream.ask(lambda_returns), target, terms=terms)


@law(stream=streams())
# vwxyzjn/cleanrl#337
@example(stream=Stream([5.0, 3.0], [3.0, 4.0], [0.0, 0.0], [1, 1], [0, 0], 0.9, 0.95))
def test_lambda_returns_are_advantages_plus_values(lambda_returns, stream):
    """The λ-return is the generalized advantage plus the value, also for values of two critics."""
    truth = np.add(stream.ask(reference.generalized_advantages), stream.values)
    terms = np.abs(stream.values) + stream.scales
    assert_close(stream.ask(lambda_returns), truth, terms=terms, count=len(stream))


@law(stream=streams())
def test_true_values_are_their_own_lambda_returns(lambda_returns, stream):
    """Where every value is the return that follows, the λ-returns are the values, whatever λ is.

    V_t = r_t + γ V'_t for all t is the fixed point of every λ-return.
    """
    stream = stream.solved
    terms = len(stream) * total([*stream.rewards, *stream.next_values])
    assert_close(stream.ask(lambda_returns), stream.values, terms=terms, count=len(stream))


@law(first=streams(min_size=1, max_size=6), second=streams(max_size=6), last=st.integers(1, 3))
def test_appending_an_episode_changes_no_lambda_return(lambda_returns, first, second, last):
    """What happens after an ending, of either kind, has no part in the λ-returns before it."""
    terminated, truncated = ENDINGS[last]
    first = replace(
        first,
        terminated=[*first.terminated[:-1], terminated],
        truncated=[*first.truncated[:-1], truncated],
    )
    second = replace(second, gamma=first.gamma, lam=first.lam)
    assert_lambda_returns((first + second).ask(lambda_returns), first, second)


@law(stream=streams(min_size=1), inert=st.sampled_from(JUNK))
# pytorch/rl#3744, anthonytorlucci/rlevo#1074
@example(stream=Stream([2.0], [0.0], [NAN], [1], [0], 0.9, 0.95), inert=NAN)
@example(stream=WIDE.rows[1], inert=NAN)
def test_values_after_a_true_ending_change_no_lambda_return(lambda_returns, stream, inert):
    """Whatever stands for the value after a true ending, NaN and infinity too, is ignored."""
    assert_lambda_returns(stream.haunted(inert).ask(lambda_returns), stream)


@law(
    length=st.integers(0, 80),
    reward=st.sampled_from((1.0, -2.0, 0.1)),
    gamma=st.sampled_from(LATE_DISCOUNTS),
    lam=st.sampled_from(LATE_DISCOUNTS),
)
@example(length=40, reward=1.0, gamma=0.5, lam=0.5)  # late powers are small, and count
def test_lambda_return_of_a_constant_reward_is_a_geometric_series(
    lambda_returns, length, reward, gamma, lam
):
    """Without values, a constant reward adds up to a geometric series in γλ.

    G_t = r (1 − (γλ)^n) / (1 − γλ), n the steps left, and n r for γλ = 1.
    """
    quiet, decay = [0.0] * length, exact(gamma) * exact(lam)
    got = Stream([reward] * length, quiet, quiet, quiet, quiet, gamma, lam).ask(lambda_returns)
    left, size = range(length, 0, -1), exact(reward)
    truth = [size * n if decay == 1 else size * (1 - decay**n) / (1 - decay) for n in left]
    assert_close(got, [*map(nearest_float, truth)], terms=[abs(float(G)) for G in truth], count=80)


@law(batch=batches())
@example(batch=SQUARE)
@example(batch=WIDE)
@example(batch=Batch([], 3, 0.9, 0.95))
@example(batch=Batch([Stream([], [], [], [], [])] * 2, 0, 0.9, 0.95))
def test_lambda_returns_of_a_batch_are_those_of_its_rows(lambda_returns, batch):
    """In a batch time runs along the last axis, and each row is a stream of its own.

    Nothing is carried from a row into the next, also where a row ends without a flag.
    """
    assert_lambda_returns(batch.ask(lambda_returns), *batch.rows, shape=batch.shape)


@law(stream=giants())
@example(stream=Stream([1.7e308, 1.7e308], [0.0, 0.0], [0.0, 0.0], [0, 0], [0, 0]))
# what overflows in one episode stays out of the one before
@example(stream=Stream([1.0, 1.7e308, 1.7e308], [0.0] * 3, [0.0] * 3, [1, 0, 1], [0] * 3))
def test_lambda_returns_overflow_only_where_they_are_beyond_float64(lambda_returns, stream):
    """A λ-return beyond float64 is infinite, with its sign, and never NaN."""
    stream = replace(stream, values=[0.0] * len(stream))
    assert_lambda_returns(stream.ask(lambda_returns), stream)


@law(rows=WHOLE_STEPS, form=forms(), twice=st.booleans(), gamma=st.sampled_from((0.5, 1, 0)))
@example(rows=[], form=list, twice=False, gamma=0)
@example(rows=HALVES, form=INTEGERS, twice=True, gamma=0.5)
@example(rows=[(1, 0, 1, 0, 1), (0, 1, 0, 1, 0)], form=BOOLEANS, twice=False, gamma=0.5)
def test_lambda_returns_read_any_array_and_leave_it_alone(lambda_returns, rows, form, twice, gamma):
    """Lists, tuples, integers and float32 give the values of float64, and stay as they were."""
    stream = _stream(rows, gamma, 0.5)
    given = Stream(*([c, c] if twice else c for c in stream.columns), stream.gamma, stream.lam)
    given.ask(lambda *args, **kwargs: assert_untouched(lambda_returns, *args, **kwargs), form)
    shape = (2, len(rows)) if twice else None
    assert_lambda_returns(given.ask(lambda_returns, form), *[stream] * (1 + twice), shape=shape)


@law_of_ordinary_sizes
def test_lambda_returns_of_batches_of_ordinary_size(lambda_returns, sample):
    """Every step of many long rows has its own λ-return, with endings of every kind on the way.

    G_t = A_t + V_t, for a vector or a table of steps.
    """
    steps_ = OrdinarySteps(sample)
    (advantages, scales), values = steps_.advantages, steps_.values
    terms = scales + np.abs(values)
    assert_close(steps_.ask(lambda_returns), advantages + values, terms=terms, count=sample.columns)


@law_of_refusals(REFUSALS["lambda_returns"])
def test_lambda_returns_refuse(lambda_returns, bad):
    """Shapes agree, all that counts is finite, flags are 0 or 1, and γ and λ lie in [0, 1]."""
    assert_refuses(lambda_returns, *bad.args, **bad.kwargs)


# ---- masked_advantages ----------------------------------------------------------------------


@dataclass(frozen=True)
class Transcript:
    """Tokens of a trajectory: the policy's where the mask is 1, a tool's elsewhere."""

    rewards: Sequence[float]
    values: Sequence[float]
    mask: Sequence[int]
    gamma: float = 1.0
    lam: float = 1.0

    def __len__(self) -> int:
        return len(self.rewards)

    def ask(self, function: Callable[..., Any], form: Callable[[Any], Any] = list) -> Any:
        """What the function answers for these tokens."""
        columns = map(form, (self.rewards, self.values, self.mask))
        return function(*columns, self.gamma, self.lam)

    @property
    def policy(self) -> list[int]:
        """Where the policy's own tokens are."""
        return [t for t, active in enumerate(self.mask) if active]

    @property
    def advantages(self) -> list[Fraction]:
        """Each token's share of what comes after it, by the policy tokens that lie in between.

        A reward behind k of them counts (γλ)^k times; a value behind k > 0 of them counts
        γ (1 − λ) (γλ)^(k−1) times, because it ends one step and begins the next.
        """
        g, lam = exact(self.gamma), exact(self.lam)
        powers = [(g * lam) ** k for k in range(len(self) + 1)]
        out = [Fraction(0)] * len(self)
        for t in self.policy:
            out[t], k = exact(self.rewards[t]) - exact(self.values[t]), 0
            for s in range(t + 1, len(self)):
                if self.mask[s]:
                    out[t] += g * (1 - lam) * powers[k] * exact(self.values[s])
                    k += 1
                out[t] += powers[k] * exact(self.rewards[s])
        return out

    @property
    def earned(self) -> list[list[float]]:
        """The rewards that each policy token earns: its own, and those of the tools it called."""
        return [list(self.rewards[a:b]) for a, b in pairwise([*self.policy, len(self)])]

    @property
    def own_values(self) -> list[float]:
        return [self.values[t] for t in self.policy]

    @property
    def scales(self) -> list[float]:
        """The absolute values of what the advantages add up; 0 at a tool's tokens."""
        following = [*self.own_values, 0.0][1:]
        steps = zip(self.earned, self.own_values, following, strict=True)
        sizes = [total(R) + abs(v) + self.gamma * abs(after) for R, v, after in steps]
        decay, out = self.gamma * self.lam, [0.0] * len(self)
        for i, t in enumerate(self.policy):
            out[t] = sum(decay**k * size for k, size in enumerate(sizes[i:]))
        return out

    def spread(self, advantages: Sequence[float]) -> list[float]:
        """Advantages of the policy's tokens, and 0 at the others."""
        out = [0.0] * len(self)
        for t, advantage in zip(self.policy, advantages, strict=True):
            out[t] = advantage
        return out


def assert_token_advantages(
    got: Any, *rows: Transcript, shape: tuple[int, ...] | None = None
) -> None:
    """The answer holds the advantages of the rows, one after the other."""
    truth = [nearest_float(A) for row in rows for A in row.advantages]
    scales = [scale for row in rows for scale in row.scales]
    shape = (len(truth),) if shape is None else shape
    assert_close(got, np.reshape(truth, shape), terms=np.reshape(scales, shape), count=shape[-1])


Token = tuple[float, float, int]


def _token(other: int, reward: int, value: int) -> Token:
    return REALS[reward], REALS[value], 1 - other


def _transcript(tokens: Sequence[Token], gamma: float, lam: float) -> Transcript:
    columns = zip(*tokens, strict=True) if tokens else [()] * 3
    return Transcript(*map(list, columns), gamma, lam)


def transcripts(
    min_size: int = 0, lams: Sequence[float] = DISCOUNTS
) -> st.SearchStrategy[Transcript]:
    """Up to twelve tokens, half of them the policy's; none at all, too."""
    tokens = steps(_token, 2, 256, 256, min_size=min_size)
    return st.builds(_transcript, tokens, discounts(), st.sampled_from(lams))


@dataclass(frozen=True)
class Transcripts:
    """Transcripts of one length side by side."""

    rows: list[Transcript]
    width: int
    gamma: float
    lam: float

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.width

    def ask(self, function: Callable[..., Any]) -> Any:
        """What the function answers for [B, T] tables."""
        columns = zip(*[(row.rewards, row.values, row.mask) for row in self.rows], strict=True)
        parts = list(columns) or [[]] * 3
        tables = [np.reshape(part, self.shape) for part in parts]
        return function(*tables, self.gamma, self.lam)


def tables_of_tokens() -> st.SearchStrategy[Transcripts]:
    """Rows of one to four tokens; many tables are square, some rows are a tool's alone."""

    def fold(tokens: list[Token], shape: tuple[int, int], gamma: float, lam: float) -> Transcripts:
        rows = [_transcript(row, gamma, lam) for row in _folded(tokens, *shape)]
        return Transcripts(rows, shape[1], gamma, lam)

    tokens = steps(_token, 2, 256, 256, min_size=1)
    return st.builds(fold, tokens, shapes(), discounts(), discounts())


LONG_TRANSCRIPTS = Transcripts(
    [
        Transcript(long_row(20), long_row(21)[1:], [int(t % 3 > 0) for t in range(20)], 0.9, 0.95),
        Transcript(long_row(21)[1:], long_row(20), [int(t % 5 < 3) for t in range(20)], 0.9, 0.95),
    ],
    *(20, 0.9, 0.95),
)


@law(transcript=transcripts())
# → [0.35, 0, 0, 0.3]
@example(transcript=Transcript([0, 0, 0, 1], [0.5, 9, 9, 0.7], [1, 0, 0, 1], 1.0, 0.5))
# radixark/miles#1827
@example(transcript=Transcript([0.0, 0.0, 4.0], [0.0] * 3, [1, 0, 0], 0.5, 1.0))
# verl-project/verl#6376
@example(transcript=Transcript([0.0, 0.0, 4.0], [0.0] * 3, [1, 0, 1], 0.5, 1.0))
@example(transcript=Transcript([0.0, 0.0, 0.0, 1.0], [0.0] * 4, [1, 0, 0, 1], 0.5, 1.0))
def test_only_policy_tokens_are_steps(masked_advantages, transcript):
    """What lies k policy tokens ahead counts (γλ)^k times, however many tool tokens lie between.

    A_t = Σ_s (γλ)^k r_s − V_t + Σ_{s > t, policy} γ (1 − λ) (γλ)^{k−1} V_s, k the number of
    policy tokens in (t, s]; in rational arithmetic.
    """
    assert_token_advantages(transcript.ask(masked_advantages), transcript)


@law(transcript=transcripts())
def test_masked_advantages_are_those_of_the_policy_tokens_joined(masked_advantages, transcript):
    """Joining the policy's tokens, each with what it earned, gives their advantages.

    They are the generalized advantages of an episode that ends with the last policy token.
    """
    values, count = transcript.own_values, len(transcript.policy)
    last = [0] * (count - 1) + [1] * (count > 0)
    joined = Stream(
        *([total_of(rewards) for rewards in transcript.earned], values, [*values, 0.0][1:]),
        *(last, [0] * count, transcript.gamma, transcript.lam),
    )
    truth = transcript.spread(joined.ask(reference.generalized_advantages))
    got = transcript.ask(masked_advantages)
    assert_close(got, truth, terms=transcript.scales, count=len(transcript))


def total_of(rewards: Sequence[float]) -> float:
    """The exact sum, rounded once."""
    return nearest_float(sum(map(exact, rewards), Fraction(0)))


@law(transcript=transcripts(lams=(1.0, 1)))
# natolambert/rlhf-book#216
@example(transcript=Transcript([0.0, 0.0, 1.0], [0.4, 0.5, 0.6], [1, 1, 1]))
def test_masked_advantage_at_lambda_one_is_return_minus_value(masked_advantages, transcript):
    """λ = 1 gives what the policy's tokens earn from here on, less the value.

    A_i = Σ_k γ^k R_{i+k} − V_i, with γ from one policy token to the next.
    """
    earned = [total_of(rewards) for rewards in transcript.earned]
    ahead = returns.return_to_go(earned, transcript.gamma)
    truth = transcript.spread(np.subtract(ahead, transcript.own_values))
    got = transcript.ask(masked_advantages)
    assert_close(got, truth, terms=transcript.scales, count=len(transcript))


@law(transcript=transcripts(lams=(0.0, 0)))
@example(transcript=Transcript([1.0, 2.0, 3.0], [0.5, 9.0, 0.25], [1, 0, 1], 0.0, 0.0))
def test_masked_advantage_at_lambda_zero_is_the_temporal_difference(masked_advantages, transcript):
    """λ = 0 compares each policy token's value with that of the next policy token.

    A_i = R_i + γ V_{i+1} − V_i, and R_N − V_N for the last: `td_residuals` of an episode.
    """
    earned = [total_of(rewards) for rewards in transcript.earned]
    values = [*transcript.own_values, 0.0]
    truth = transcript.spread(returns.td_residuals(earned, values, transcript.gamma))
    assert_close(transcript.ask(masked_advantages), truth, terms=transcript.scales)


@law(transcript=transcripts(min_size=1), inert=st.sampled_from(JUNK))
@example(transcript=Transcript([1.0, 0.0], [0.5, NAN], [1, 0], 0.9, 0.95), inert=NAN)
@example(transcript=LONG_TRANSCRIPTS.rows[0], inert=NAN)
def test_values_of_tool_tokens_change_no_advantage(masked_advantages, transcript, inert):
    """Whatever the critic says of a tool's token, NaN and infinity too, is ignored; it gets 0."""
    rows = zip(transcript.mask, transcript.values, strict=True)
    given = replace(transcript, values=[value if active else inert for active, value in rows])
    assert_token_advantages(given.ask(masked_advantages), transcript)


@law(transcript=transcripts(), place=evenly(13), count=st.integers(1, 3), value=st.just(9.0))
def test_inserted_tool_tokens_change_no_advantage(
    masked_advantages, transcript, place, count, value
):
    """A tool's answer without a reward, inserted anywhere, leaves all advantages as they are."""
    at = place % (len(transcript) + 1)

    def insert(column: Sequence[Any], entry: Any) -> list[Any]:
        return [*column[:at], *[entry] * count, *column[at:]]

    longer = Transcript(
        *(insert(transcript.rewards, 0.0), insert(transcript.values, value)),
        *(insert(transcript.mask, 0), transcript.gamma, transcript.lam),
    )
    truth = insert([nearest_float(A) for A in transcript.advantages], 0.0)
    scales = insert(transcript.scales, 0.0)
    assert_close(longer.ask(masked_advantages), truth, terms=scales, count=len(longer))


@law(transcript=transcripts(min_size=1))
def test_rewards_of_tool_tokens_belong_to_the_policy_token_before(masked_advantages, transcript):
    """Paying a tool's rewards at the policy token before it changes nothing.

    Rewards before the first policy token belong to nobody.
    """
    rewards = transcript.spread([total_of(rewards) for rewards in transcript.earned])
    given = replace(transcript, rewards=rewards)
    truth = [nearest_float(A) for A in transcript.advantages]
    got = given.ask(masked_advantages)
    assert_close(got, truth, terms=transcript.scales, count=len(transcript))


@law(tokens=steps(lambda *values: tuple(REALS[v] for v in values), 256, 256), place=evenly(12))
@example(tokens=[(1.0, 2.0)], place=0)
@example(tokens=[], place=0)
def test_without_policy_tokens_there_is_no_advantage(masked_advantages, tokens, place):
    """A transcript without policy tokens gets zeros, one with a single one reward minus value.

    A = Σ_{s ≥ t} r_s − V_t, whatever γ and λ are.
    """
    rewards, values = [r for r, _ in tokens], [v for _, v in tokens]
    silent = Transcript(rewards, values, [0] * len(tokens), 0.9, 0.95)
    assert_same(silent.ask(masked_advantages), [0.0] * len(tokens))
    mask = [int(t == place) for t in range(len(tokens))]
    rows = [[*map(exact, rewards[t:]), -exact(values[t])] if a else [] for t, a in enumerate(mask)]
    assert_sums(replace(silent, mask=mask).ask(masked_advantages), rows)


@law(
    calls=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    reward=st.sampled_from((1.0, -2.0, 0.1)),
    gamma=st.sampled_from((*LATE_DISCOUNTS, 0.0)),
    lam=st.sampled_from((*LATE_DISCOUNTS, 0.0)),
)
def test_an_outcome_decays_by_policy_tokens_alone(masked_advantages, calls, reward, gamma, lam):
    """A reward at the very end counts (γλ)^k times for a token with k policy tokens after it.

    Without values, and after tool answers of any length, at the end too.
    """
    mask = [active for tools in calls for active in [1] + [0] * tools]
    rewards = [0.0] * (len(mask) - 1) + [reward]
    decay, later = exact(gamma) * exact(lam), [sum(mask[t + 1 :]) for t in range(len(mask))]
    truth = [
        nearest_float(decay**k * exact(reward)) if active else 0.0
        for active, k in zip(mask, later, strict=True)
    ]
    got = Transcript(rewards, [0.0] * len(mask), mask, gamma, lam).ask(masked_advantages)
    assert_close(got, truth, terms=np.abs(truth), count=len(mask))


@law(table=tables_of_tokens())
@example(table=Transcripts([], 3, 0.9, 0.95))
@example(table=Transcripts([Transcript([], [], [])] * 2, 0, 0.9, 0.95))
@example(table=LONG_TRANSCRIPTS)
def test_masked_advantages_of_a_batch_are_those_of_its_rows(masked_advantages, table):
    """In a batch time runs along the last axis, and each row is a trajectory of its own.

    The last policy token of a row is terminal, and rewards at the start of the next row, before
    its first policy token, are not its.
    """
    assert_token_advantages(table.ask(masked_advantages), *table.rows, shape=table.shape)


@law(
    sizes=steps(lambda other, size: (HUGE[size], 1 - other), 2, 4, max_size=5),
    sign=st.sampled_from((1.0, -1.0)),
)
@example(sizes=[(1.7e308, 1), (1.7e308, 0)], sign=1.0)
def test_masked_advantages_overflow_only_where_they_are_beyond_float64(
    masked_advantages, sizes, sign
):
    """An advantage beyond float64 is infinite, with its sign, and never NaN."""
    rewards, mask = [sign * size for size, _ in sizes], [active for _, active in sizes]
    transcript = Transcript(rewards, [0.0] * len(sizes), mask)
    assert_token_advantages(transcript.ask(masked_advantages), transcript)


@law(
    tokens=steps(
        lambda other, reward, value: (WHOLE[reward], WHOLE[value], 1 - other),
        *(2, 10, 10),
        max_size=6,
    ),
    form=forms(),
    twice=st.booleans(),
    gamma=st.sampled_from((0.5, 1, 0)),
)
@example(tokens=[(1, 0, 1), (3, 0, 1)], form=INTEGERS, twice=True, gamma=0.5)
@example(tokens=[(1, 0, 1), (0, 1, 0), (1, 1, 1)], form=BOOLEANS, twice=False, gamma=0.5)
def test_masked_advantages_read_any_array_and_leave_it_alone(
    masked_advantages, tokens, form, twice, gamma
):
    """Lists, tuples, integers and float32 give the values of float64, and stay as they were."""
    row = _transcript(tokens, gamma, 0.5)
    columns = (row.rewards, row.values, row.mask)
    given = Transcript(*([c, c] if twice else c for c in columns), row.gamma, row.lam)
    given.ask(lambda *args: assert_untouched(masked_advantages, *args), form)
    shape = (2, len(row)) if twice else None
    got = given.ask(masked_advantages, form)
    assert_token_advantages(got, *[row] * (1 + twice), shape=shape)


@law_of_ordinary_sizes
def test_masked_advantages_of_batches_of_ordinary_size(masked_advantages, sample):
    """Every policy token of many long rows has its own advantage, whatever tools write between.

    A_i = R_i + γ V_{i+1} − V_i + γλ A_{i+1} over the policy tokens of each row, 0 elsewhere.
    """
    shape = sample.choice("shape", (sample.columns,), sample.shape)
    mask = sample.flags("mask", *shape, share=0.6)
    rewards = sample.reals("rewards", *shape)
    values = np.where(mask, sample.reals("values", *shape), 1e6)
    gamma, lam = sample.discount("gamma"), sample.discount("lam")
    got = masked_advantages(*sample.held(rewards, values, mask), gamma, lam)

    # the advantages, and the sums of the absolute values of their terms
    earned, after = np.stack([rewards, abs(rewards)]), np.stack([values, abs(values)])
    before = np.stack([-values, abs(values)])
    truth = np.zeros(earned.shape)
    owed, following, ahead = np.zeros((3, *truth.shape[:-1]))
    for t in reversed(range(sample.columns)):
        owed, active = owed + earned[..., t], mask[..., t]
        here = owed + gamma * following + before[..., t] + gamma * lam * ahead
        truth[..., t] = np.where(active, here, 0.0)
        owed, ahead = np.where(active, 0.0, owed), np.where(active, here, ahead)
        following = np.where(active, after[..., t], following)
    assert_close(got, truth[0], terms=truth[1], count=3 * sample.columns)


@law_of_refusals(REFUSALS["masked_advantages"])
def test_masked_advantages_refuse(masked_advantages, bad):
    """Rewards are finite everywhere, values under the mask; flags are 0 or 1, γ and λ in [0, 1]."""
    assert_refuses(masked_advantages, *bad.args, **bad.kwargs)
