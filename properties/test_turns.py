"""Laws of `rlcheck.turns`."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import turns as reference
from rlcheck.grading.compare import (
    assert_close,
    assert_quiet,
    assert_refuses,
    assert_same,
    assert_untouched,
    exact,
    nearest_float,
    number,
    total,
)
from rlcheck.grading.laws import law
from rlcheck.grading.wire import TableFunction

from .ordinary import law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import REALS, digits, evenly, near, steps

REFUSALS = {
    "macro_action_logprob": (
        refuse([], says="logprobs has length 0"),
        refuse([-1.0, math.nan], says="logprobs[1] is nan"),
        refuse([0.5], says="logprobs[0] is 0.5; it must be ≤ 0"),
        refuse([-1.0, 1e-7], says="logprobs[1] is 1e-07; it must be ≤ 0"),
        refuse([[-1.0, -2.0]], says="logprobs has shape (1, 2); it must be a vector"),
        refuse([-1.0, -2.0, 1e-3], says="logprobs[2] is 0.001; it must be ≤ 0"),
        refuse([-math.inf, 2.0], says="logprobs[1] is 2.0; it must be ≤ 0"),
        refuse([math.inf], says="logprobs[0] is inf; it must be ≤ 0"),
        refuse([-math.inf, math.nan], says="logprobs[1] is nan"),
        refuse(np.array([], dtype=np.float32), says="logprobs has length 0"),
        refuse(np.array([-1, 1], dtype=np.int64), says="logprobs[1] is 1.0; it must be ≤ 0"),
        refuse("-1", says="logprobs is '-1'"),
        refuse(["-1.0"], says="logprobs[0] is '-1.0'"),
        refuse([-1.0, None], says="logprobs[1] is None"),
        refuse(None, says="logprobs is None"),
        refuse({0: -1.0}, says="logprobs is {0: -1.0}"),
    ),
    "turn_probability_ratio": (
        refuse([-1.0], [-1.0, -2.0], says="behavior has length 2; it must have length 1"),
        refuse([-1.0, -2.0], [-1.0], says="behavior has length 1; it must have length 2"),
        refuse([], [-1.0], says="behavior has length 1; it must have length 0"),
        refuse([-1.0], [], says="behavior has length 0; it must have length 1"),
        refuse([-1.0, -2.0, -3.0], [-1.0, -2.0], says="behavior has length 2"),
        refuse([math.nan], [-1.0], says="current[0] is nan"),
        refuse([-1.0, -2.0], [-1.0, math.nan], says="behavior[1] is nan"),
        refuse([-math.inf, math.nan], [-1.0, -1.0], says="current[1] is nan"),
        refuse([-1.0], [-math.inf], says="behavior[0] is -inf; it must be finite"),
        refuse([-math.inf], [-math.inf], says="behavior[0] is -inf; it must be finite"),
        refuse([math.inf], [-1.0], says="current[0] is inf"),
        refuse([-1.0], [math.inf], says="behavior[0] is inf"),
        refuse("-1", [-1.0], says="current is '-1'"),
        refuse([-1.0], None, says="behavior is None"),
        refuse([None], [-1.0], says="current[0] is None"),
        refuse([-1.0], ["-1.0"], says="behavior[0] is '-1.0'"),
    ),
    "semantic_action_probability": (
        refuse({"a": -0.1}, {"a": 0}, 0, says="string_probabilities['a'] is -0.1; it must be ≥ 0"),
        refuse({"a": 0.5, "b": -1e-3}, {"a": 0}, 0, says="string_probabilities['b'] is -0.001"),
        refuse({"a": 0.6, "b": 0.5}, {"a": 0}, 0, says="string_probabilities sums to 1.1"),
        refuse({"a": 1.0, "b": 1e-6}, {"a": 0, "b": 0}, 0, says="string_probabilities sums to 1.0"),
        refuse({"a": 1.0, "b": 1e-8}, {"a": 0}, 0, says="string_probabilities sums to 1.0"),
        refuse({"a": 2.0}, {"a": 0}, 1, says="string_probabilities sums to 2.0"),
        refuse({"a": 1.0, "b": 0.5, "c": -0.5}, {"a": 0}, 0, says="string_probabilities['c']"),
        refuse({"a": math.nan}, {"a": 0}, 0, says="string_probabilities['a'] is nan"),
        refuse({"a": 0.5, "b": math.nan}, {"a": 0}, 0, says="string_probabilities['b'] is nan"),
        refuse({"a": math.inf}, {"a": 0}, 0, says="string_probabilities['a'] is inf"),
        refuse({"a": -math.inf}, {"a": 0}, 0, says="string_probabilities['a'] is -inf"),
        refuse({"a": "0.5"}, {"a": 0}, 0, says="string_probabilities['a'] is '0.5'"),
        refuse({"a": None}, {"a": 0}, 0, says="string_probabilities['a'] is None"),
    ),
}

# 256 log-probabilities: certain, likely and unlikely tokens, and an eighth that underflow exp.
LOGPROBS: tuple[float, ...] = (
    *(-1.0, 0.0, -2.0, -0.5, -3.0, -1e-9, -0.1, -30.0, -100.0, -745.5, -1e4, -1e8),
    *(-abs(real) * (1 if i % 8 else 1000) for i, real in enumerate(REALS[12:])),
)
# A log-ratio of ordinary size a token, so that whole turns have finite ratios; half are 0.
_MOVES = tuple(real / 4 for real in REALS if abs(real) <= 5)
SHIFTS: tuple[float, ...] = (0.0,) * len(_MOVES) + _MOVES
HUGE = 1.7e308
EXTREMES = (-HUGE, 0.0, -5e-324, -1e-300, -1e300, -1.0)
WHOLE = (-1, 0, -2, -128, -7, -100, -30, -3)
KINDS = (list, tuple, np.float64, np.float32, np.int64, np.int8)


def in_kind(values: list[int], kind: Any) -> Any:
    """Whole numbers as a list, a tuple, or an array of a dtype."""
    return kind(values) if kind in (list, tuple) else np.array(values, dtype=kind)


def exp_of(log_ratio: Fraction) -> float:
    """exp, with inf beyond float64; no turn that is drawn comes near that border."""
    return math.exp(max(log_ratio, Fraction(-10_000))) if log_ratio < 709 else math.inf


def turns(min_size: int = 1) -> st.SearchStrategy[list[float]]:
    """Log-probabilities of the tokens of a turn."""
    return steps(LOGPROBS.__getitem__, 256, min_size=min_size)


def dyadic_turns() -> st.SearchStrategy[list[float]]:
    """Token probabilities k/64, k = 1, …, 64: every other token is all but certain."""
    return steps(lambda n, rest: 1.0 - (rest if n else rest % 4) / 64, 2, 64, min_size=1)


@dataclass(frozen=True)
class ScoredTurn:
    """One sampled turn under two policies."""

    current: list[float]
    behavior: list[float]

    def __add__(self, other: "ScoredTurn") -> "ScoredTurn":
        return ScoredTurn(self.current + other.current, self.behavior + other.behavior)

    @property
    def log_ratio(self) -> Fraction:
        return sum(map(exact, self.current), Fraction()) - sum(map(exact, self.behavior))

    @property
    def size(self) -> float:
        return total(self.current) + total(self.behavior)


def scored_turns(max_size: int = 8) -> st.SearchStrategy[ScoredTurn]:
    """Turns whose tokens are at most e^1.25 times likelier under one policy than the other."""

    def token(base: int, shift: int) -> tuple[float, float]:
        behavior = -abs(REALS[base])
        return min(behavior + SHIFTS[shift], 0.0), behavior

    return steps(token, 256, len(SHIFTS), max_size=max_size).map(
        lambda tokens: ScoredTurn([c for c, _ in tokens], [b for _, b in tokens])
    )


def far_turns() -> st.SearchStrategy[ScoredTurn]:
    """Turns whose token ratios lie beyond float64, where the whole ratio may lie within it."""
    sizes = (0.0, -800.0, -1.0, -700.0, 0.0, -1e5)
    return steps(lambda c, b: (sizes[c], sizes[b]), 6, 6, min_size=1, max_size=6).map(
        lambda tokens: ScoredTurn([c for c, _ in tokens], [b for _, b in tokens])
    )


UNKNOWN, NONE = "unknown", None  # two ways in which a parser says that a string means nothing
MEANINGS: tuple[Any, ...] = ("open_red", UNKNOWN, "open_blue", NONE, 0, 7, ("open", "red"), "")
ACTIONS: tuple[Any, ...] = ("open_red", "open_blue", 0, 7, ("open", "red"), "", "finish")
SPELLINGS = ("open_red", "open red", "Open red", "open_blue", "", "0", "open_red\n", "finish")


@dataclass(frozen=True)
class Language:
    """Strings with their probabilities and meanings, and the action that is asked for."""

    probabilities: dict[str, float]
    meanings: dict[str, Any]  # without the strings that the parser does not know
    action: Any
    calls: bool  # whether the parser is a callable

    @property
    def strings(self) -> dict[str, float]:
        """The probabilities, in a mapping of their own."""
        return dict(self.probabilities)

    @property
    def parser(self) -> Any:
        return TableFunction(self.meanings) if self.calls else dict(self.meanings)

    def mass(self, action: Any) -> Fraction:
        hits = (p for s, p in self.probabilities.items() if self.meanings.get(s) == action)
        return sum(map(exact, hits), Fraction())


def languages() -> st.SearchStrategy[Language]:
    """Up to eight strings, with a sum of probabilities below 1."""

    def build(drawn: tuple[int, list[tuple[int, Any]]]) -> Language:
        code, entries = drawn
        action, calls = digits(code, len(ACTIONS), 2)
        named = dict(zip(SPELLINGS, entries, strict=False))
        meanings = {s: meaning for s, (_, meaning) in named.items() if meaning != UNKNOWN}
        probabilities = {s: weight / 131 for s, (weight, _) in named.items()}
        return Language(probabilities, meanings, ACTIONS[action], bool(calls))

    entries = steps(lambda w, m: (w, MEANINGS[m]), 16, len(MEANINGS), max_size=len(SPELLINGS))
    return st.tuples(evenly(2 * len(ACTIONS)), entries).map(build)


SPELLED = ("act {}", "Act {}", "act {} ", "act  {}")


@law(probabilities=dyadic_turns())
@example(probabilities=[1 - i % 7 / 64 for i in range(300)])
def test_turn_has_the_log_of_the_product_of_its_token_probabilities(
    macro_action_logprob, probabilities
):
    """A turn is as likely as its tokens are, one after the other.

    log π(turn) = log Π_t p_t, the product being exact; the chain rule of probability.
    """
    logs = [math.log(p) for p in probabilities]
    product = math.prod(map(exact, probabilities))
    truth = math.log1p(product - 1) if product > Fraction(1, 2) else math.log(product)
    assert_close(macro_action_logprob(logs), truth, terms=total(logs), count=len(logs))


@law(logprobs=turns())
@example(logprobs=[-1.0, -2.0, -5.0])
@example(logprobs=[-0.5])
def test_macro_action_logprob_is_the_sum_over_its_tokens(macro_action_logprob, logprobs):
    """The log-probability of a turn is the sum over its tokens, neither mean nor extreme.

    log π(turn) = Σ_t log p_t, in exact rational arithmetic.
    """
    truth = nearest_float(sum(map(exact, logprobs)))
    got = macro_action_logprob(logprobs)
    assert_close(got, truth, terms=total(logprobs), count=len(logprobs))


@law(first=turns(), second=turns())
def test_turn_in_two_parts_has_the_log_probabilities_of_both(macro_action_logprob, first, second):
    """Cutting a turn in two leaves its log-probability as it is.

    log π(a b | s) = log π(a | s) + log π(b | s a)
    """
    parts = number(macro_action_logprob(first)) + number(macro_action_logprob(second))
    whole = macro_action_logprob(first + second)
    assert_close(whole, parts, terms=total(first + second), count=len(first + second))


@law(before=turns(0), after=turns(0))
@example(before=[], after=[])
def test_turn_with_an_impossible_token_is_impossible(macro_action_logprob, before, after):
    """One token of probability 0 makes the turn impossible: −inf, without a warning."""
    assert_same(assert_quiet(macro_action_logprob, [*before, -math.inf, *after]), -math.inf)


@law(logprobs=st.lists(st.sampled_from(EXTREMES), min_size=1, max_size=5))
@example(logprobs=[-HUGE, -HUGE])
def test_turn_beyond_float64_has_log_probability_minus_infinity(macro_action_logprob, logprobs):
    """The largest and smallest log-probabilities add up.

    A sum below −1.8e308 is −inf, and anything above it is finite.
    """
    truth = nearest_float(sum(map(exact, logprobs)))
    assert_close(macro_action_logprob(logprobs), truth, terms=total(logprobs))


@law(logprobs=st.lists(st.sampled_from(WHOLE), min_size=1, max_size=6), kind=st.sampled_from(KINDS))
def test_macro_action_logprob_takes_any_array_like(macro_action_logprob, logprobs, kind):
    """Lists, tuples, integers and float32 mean the same numbers, and stay as they were."""
    given = in_kind(logprobs, kind)
    assert_untouched(macro_action_logprob, given)
    assert_close(macro_action_logprob(given), float(sum(logprobs)), terms=total(logprobs))


@law_of_ordinary_sizes
def test_log_probability_of_a_turn_of_ordinary_length(macro_action_logprob, sample):
    """Every token of a turn of ordinary length counts, one of probability 0 too.

    log π(turn) = Σ_t log p_t, whatever container holds them.
    """
    logprobs = sample.reals("logprobs", sample.columns, low=-9.0, high=0.0)
    impossible = sample.choice("impossible", False, False, False, True)
    logprobs[sample.integers("at", 0, sample.columns, int(impossible))] = -math.inf
    got = macro_action_logprob(*sample.held(logprobs))
    assert_close(got, np.sum(logprobs), terms=total(logprobs), count=sample.columns)


@law_of_refusals(REFUSALS["macro_action_logprob"])
def test_macro_action_logprob_refuses(macro_action_logprob, bad):
    """Log-probabilities are numbers ≤ 0, −inf included, and a turn has at least one."""
    assert_refuses(macro_action_logprob, *bad.args, **bad.kwargs)


@law(odds=steps(lambda c, b: (1 - c / 64, 1 - b / 64), 64, 64, max_size=8))
@example(odds=[])
@example(odds=[(1.5, 1.25), (3.0, 0.5)])  # densities
@example(odds=[(1 - i % 5 / 64, 1 - i % 7 / 64) for i in range(300)])
def test_turn_ratio_is_the_product_of_token_ratios(turn_probability_ratio, odds):
    """A turn is likelier by the product of what its tokens are likelier by; 1 without tokens.

    ρ = Π_t π_t / μ_t, for probabilities k/64 in exact rational arithmetic.
    """
    current, behavior = [math.log(c) for c, _ in odds], [math.log(b) for _, b in odds]
    truth = nearest_float(math.prod((exact(c) / exact(b) for c, b in odds), start=Fraction(1)))
    terms = truth * (1 + total(current) + total(behavior))
    assert_close(turn_probability_ratio(current, behavior), truth, terms=terms, count=len(odds))


@law(turn=scored_turns())
@example(turn=ScoredTurn([-0.5, -1.0], [-1.5, -1.0]))
@example(turn=ScoredTurn([-1.0], [-1.5]))  # THUDM/slime#179: old over rollout
def test_turn_ratio_is_that_of_the_macro_actions(turn_probability_ratio, turn):
    """The ratio of a turn compares the log-probabilities of whole turns.

    log ρ = log π(turn) − log μ(turn), each by macro_action_logprob.
    """
    truth = 1.0
    if turn.current:
        current, behavior = map(reference.macro_action_logprob, (turn.current, turn.behavior))
        truth = math.exp(current - behavior)
    terms = truth * (1 + turn.size)
    got = turn_probability_ratio(turn.current, turn.behavior)
    assert_close(got, truth, terms=terms, count=2 * len(turn.current))


@law(turn=scored_turns())
def test_turn_ratio_turns_over_when_the_policies_swap(turn_probability_ratio, turn):
    """Exchanging the two policies gives the reciprocal.

    ρ(π, μ) ρ(μ, π) = 1
    """
    there = number(turn_probability_ratio(turn.current, turn.behavior))
    back = number(turn_probability_ratio(turn.behavior, turn.current))
    assert_close(there * back, 1.0, terms=2 * (1 + turn.size), count=2 * len(turn.current))


@law(first=scored_turns(4), second=scored_turns(4))
def test_turn_ratio_multiplies_over_the_parts_of_a_turn(turn_probability_ratio, first, second):
    """Cutting a turn in two leaves its ratio as it is.

    ρ(a b) = ρ(a) ρ(b): a mean over the tokens would not multiply.
    """
    whole = first + second
    parts = [number(turn_probability_ratio(t.current, t.behavior)) for t in (first, second)]
    truth = math.exp(whole.log_ratio)
    terms = 2 * truth * (1 + whole.size)
    assert_close(math.prod(parts), truth, terms=terms, count=2 * len(whole.current))
    got = turn_probability_ratio(whole.current, whole.behavior)
    assert_close(got, math.prod(parts), terms=terms, count=2 * len(whole.current))


@law(turn=far_turns())
@example(turn=ScoredTurn([0.0], [-800.0]))
@example(turn=ScoredTurn([0.0, -800.0], [-800.0, 0.0]))
@example(turn=ScoredTurn([0.0, 0.0], [-HUGE, -HUGE]))
@example(turn=ScoredTurn([-HUGE, -HUGE], [0.0, 0.0]))
@example(turn=ScoredTurn([0.0, -30.0], [-30.0, 0.0]))
def test_turn_ratio_beyond_float64_is_infinite_or_zero(turn_probability_ratio, turn):
    """A ratio beyond float64 is inf or 0, without a warning and never NaN.

    Ratios of single tokens may leave float64 while that of the turn does not.
    """
    got = assert_quiet(turn_probability_ratio, turn.current, turn.behavior)
    truth = exp_of(turn.log_ratio)
    count, factor = 2 * len(turn.current), 1 + min(turn.size, 1e300)
    assert_close(got, truth, terms=truth, count=count, factor=factor)


@law(turn=far_turns(), at=st.integers(0, 6))
@example(turn=ScoredTurn([0.0, 0.0], [-800.0, -800.0]), at=2)
@example(turn=ScoredTurn([-1.0], [-1.0]), at=0)
def test_turn_that_the_policy_rules_out_has_ratio_zero(turn_probability_ratio, turn, at):
    """A token that the current policy cannot emit makes the ratio 0, whatever the others say.

    exp(−inf) = 0, without a warning, also beside token ratios beyond float64.
    """
    current = [*turn.current[:at], -math.inf, *turn.current[at:]]
    behavior = [*turn.behavior[:at], -1.0, *turn.behavior[at:]]
    assert_same(assert_quiet(turn_probability_ratio, current, behavior), 0.0)


@law(
    pairs=steps(lambda c, b: (WHOLE[c], WHOLE[b]), len(WHOLE), len(WHOLE), max_size=4),
    kind=st.sampled_from(KINDS),
)
@example(pairs=[(0, -128)], kind=np.int8)
def test_turn_probability_ratio_takes_any_array_like(turn_probability_ratio, pairs, kind):
    """Lists, tuples, integers and float32 mean the same numbers, and stay as they were."""
    current, behavior = (in_kind([pair[i] for pair in pairs], kind) for i in (0, 1))
    truth = math.exp(sum(c - b for c, b in pairs))
    terms = truth * (1 + total(c for c, _ in pairs) + total(b for _, b in pairs))
    assert_untouched(turn_probability_ratio, current, behavior)
    assert_close(number(turn_probability_ratio(current, behavior)), truth, terms=terms)


@law_of_ordinary_sizes
def test_ratio_of_a_turn_of_ordinary_length(turn_probability_ratio, sample):
    """Every token of a turn of ordinary length counts, for either policy.

    ρ = exp(Σ_t (log π_t − log μ_t)), whatever containers hold them.
    """
    behavior = sample.reals("behavior", sample.columns, low=-9.0, high=0.0)
    current = np.minimum(behavior + sample.reals("moves", sample.columns, low=-1, high=1), 0.0)
    if sample.choice("impossible", False, False, False, True):
        current[sample.integers("at", 0, sample.columns)] = -math.inf
    got = turn_probability_ratio(*sample.held(current, behavior))
    truth = math.exp(np.sum(current) - np.sum(behavior))
    factor = 1 + total(behavior) + (total(current) if truth else 0.0)
    assert_close(got, truth, terms=truth, count=2 * sample.columns, factor=factor)


@law_of_refusals(REFUSALS["turn_probability_ratio"])
def test_turn_probability_ratio_refuses(turn_probability_ratio, bad):
    """Lengths are equal, nothing is NaN or +inf, and a sampled token was possible."""
    assert_refuses(turn_probability_ratio, *bad.args, **bad.kwargs)


@law(language=languages())
@example(language=Language({"open red": 0.5, "Open red": 0.25}, {"open red": 0}, 0, True))
@example(language=Language({"zero": 0.5, "nought": 0.25}, {"zero": 0, "nought": "0"}, "0", False))
@example(language=Language({"on": 0.5, "On": 0.25}, {"on": "go", "On": "Go"}, "go", False))
@example(
    language=Language(
        dict.fromkeys(map(str, range(100)), 1 / 128), {str(i): i % 3 for i in range(100)}, 1, True
    )
)
def test_semantic_probability_adds_up_the_spellings(semantic_action_probability, language):
    """An action is as likely as all strings that mean it together; unknown ones mean nothing.

    P(a) = Σ p(s) over parser(s) = a, in exact rational arithmetic.
    """
    got = semantic_action_probability(language.strings, language.parser, language.action)
    assert_close(got, nearest_float(language.mass(language.action)), terms=1.0 / 64)


@law(language=languages())
def test_semantic_probabilities_share_out_what_is_understood(semantic_action_probability, language):
    """The probabilities of all actions add up to that of the strings that the parser knows.

    Σ_a P(a) = Σ p(s) over the strings s that mean something
    """
    understood = [s for s in language.probabilities if language.meanings.get(s) is not None]
    actions = [a for a in ACTIONS if any(language.meanings[s] == a for s in understood)]
    got = [
        number(semantic_action_probability(language.strings, language.parser, a)) for a in actions
    ]
    truth = sum(exact(language.probabilities[s]) for s in understood)
    assert_close(math.fsum(got), nearest_float(truth), terms=1.0)


@law(language=languages(), share=st.sampled_from((0.5, 0.25, 0.0, 1.0)))
def test_semantic_probability_ignores_how_a_meaning_is_spelled(
    semantic_action_probability, language, share
):
    """Moving probability to a new spelling of the same meaning changes no action.

    p(s) = (1 − c) p(s) + c p(s), the second part under another string s′ with parser(s′) =
    parser(s).
    """
    respelled = {s: p * (1 - share) for s, p in language.probabilities.items()}
    respelled |= {s + "!": p * share for s, p in language.probabilities.items()}
    meanings = language.meanings | {s + "!": a for s, a in language.meanings.items()}
    parser = TableFunction(meanings) if language.calls else meanings
    got = semantic_action_probability(respelled, parser, language.action)
    assert_close(got, nearest_float(language.mass(language.action)), terms=1.0, count=16)


@law(language=languages())
def test_semantic_probability_is_blind_to_strings_without_meaning(
    semantic_action_probability, language
):
    """Leaving out the strings that the parser does not know leaves every action as it is.

    They hold probability, and it belongs to no action: nothing is normalised by it.
    """
    parser, action = language.parser, language.action
    known = {
        s: p for s, p in language.probabilities.items() if language.meanings.get(s) is not None
    }
    with_all = semantic_action_probability(language.strings, parser, action)
    assert_close(with_all, number(semantic_action_probability(known, parser, action)), terms=1.0)


@law(language=languages())
def test_parser_may_be_a_table_or_a_callable(semantic_action_probability, language):
    """A parser given as a mapping and one given as a callable mean the same.

    The mapping lacks a string where the callable raises LookupError.
    """
    table = semantic_action_probability(language.strings, dict(language.meanings), language.action)
    called = semantic_action_probability(
        language.strings, TableFunction(language.meanings), language.action
    )
    assert_close(called, number(table), terms=1.0)


@law(
    excess=near(0.0, 5e-10, -5e-10, -1e-3),
    others=st.integers(0, 3),
    calls=st.booleans(),
)
@example(excess=-1.0, others=0, calls=False)
def test_semantic_probability_at_its_ends(semantic_action_probability, excess, others, calls):
    """An action that every string means has the whole sum, one that none means has 0.

    The sum may miss 1 by rounding, up to 1 + 1e-9, and may lie anywhere below; strings of
    probability 0 and an empty language are fine. Unknown strings do not mean the action None.
    """
    probabilities = {"go": 1.0 + excess} | {f"s{i}": 0.0 for i in range(others)}
    meanings = dict.fromkeys(probabilities, "go")
    parser = TableFunction(meanings) if calls else meanings
    got = semantic_action_probability(probabilities, parser, "go")
    assert_close(got, 1.0 + excess, terms=1.0)
    assert_same(semantic_action_probability(probabilities, parser, "stay"), 0.0)
    assert_same(semantic_action_probability({}, parser, "go"), 0.0)
    assert_same(semantic_action_probability({"what": 0.5}, parser, None), 0.0)


@law(language=languages(), kind=st.sampled_from((np.float32, np.float64, np.float16)))
def test_semantic_action_probability_takes_any_number(semantic_action_probability, language, kind):
    """Probabilities of any number type count as the numbers that they are, and stay as they were.

    Halves as float32 are halves; 0 and 1 may be integers.
    """
    coarse = {s: kind(round(p * 64) / 128) for s, p in language.probabilities.items()}
    args = (coarse, language.parser, language.action)
    truth = sum(float(p) for s, p in coarse.items() if language.meanings.get(s) == language.action)
    assert_untouched(semantic_action_probability, *args)
    assert_close(number(semantic_action_probability(*args)), truth, terms=1.0)
    assert_same(semantic_action_probability({"a": 0, "b": 1}, {"a": 0, "b": 2}, 2), 1.0)


@law_of_ordinary_sizes
def test_semantic_probability_in_a_language_of_ordinary_size(semantic_action_probability, sample):
    """Many strings of many meanings, and of none, share out the probability.

    P(a) = Σ p(s) over parser(s) = a, for each action, by a table or a callable.
    """
    probabilities = sample.distributions("probabilities", sample.columns) * sample.number("sum")
    spelled = [SPELLED[i % 4].format(i // 4) for i in range(sample.columns)]
    actions = sample.choice(
        "actions",
        range(3),
        range(20),
        [a.format(i) for i in range(3) for a in SPELLED],
        [("go", 1)],
    )
    meant = sample.integers("meant", -2, len(actions), sample.columns)
    meanings = {
        s: actions[m] if m >= 0 else None for s, m in zip(spelled, meant, strict=True) if m > -2
    }
    parser = sample.choice("parser", meanings, TableFunction(meanings))
    strings = dict(zip(spelled, probabilities.tolist(), strict=True))
    asked = sample.integers("asked", 0, len(actions))
    got = semantic_action_probability(strings, parser, actions[asked])
    hits = probabilities[meant == asked]
    assert_close(got, math.fsum(hits), terms=math.fsum(hits), count=len(hits))


@law_of_refusals(REFUSALS["semantic_action_probability"])
def test_semantic_action_probability_refuses(semantic_action_probability, bad):
    """Probabilities are finite, not negative, and add up to no more than 1."""
    assert_refuses(semantic_action_probability, *bad.args, **bad.kwargs)
