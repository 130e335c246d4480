"""What people get wrong in the probabilities of turns."""

import math

import numpy as np

from rlcheck import turns as reference
from rlcheck.mistakes.registry import mistake


@mistake("macro_action_logprob", "averages over the tokens, as a perplexity does")
def averages_over_tokens(logprobs):
    return reference.macro_action_logprob(logprobs) / len(logprobs)


@mistake("macro_action_logprob", "measures in bits, with the logarithm to base 2")
def measures_in_bits(logprobs):
    return reference.macro_action_logprob(logprobs) / math.log(2)


@mistake("macro_action_logprob", "adds the probabilities of the tokens instead of multiplying them")
def adds_probabilities(logprobs):
    reference.macro_action_logprob(logprobs)
    with np.errstate(divide="ignore"):
        return float(np.log(np.exp(np.asarray(logprobs, dtype=float)).sum()))


@mistake("macro_action_logprob", "multiplies the probabilities and underflows")
def multiplies_probabilities(logprobs):
    reference.macro_action_logprob(logprobs)
    with np.errstate(divide="ignore"):
        return float(np.log(np.prod(np.exp(np.asarray(logprobs, dtype=float)))))


@mistake("macro_action_logprob", "leaves out the last token")
def leaves_out_the_last_token(logprobs):
    reference.macro_action_logprob(logprobs)
    return float(np.sum(np.asarray(logprobs, dtype=float)[:-1]))


@mistake("macro_action_logprob", "leaves out the first token", report="verl-project/verl#3287")
def leaves_out_the_first_token(logprobs):
    reference.macro_action_logprob(logprobs)
    return float(np.sum(np.asarray(logprobs, dtype=float)[1:]))


@mistake("macro_action_logprob", "adds up in single precision")
def adds_in_single_precision(logprobs):
    reference.macro_action_logprob(logprobs)
    return float(np.sum(np.asarray(logprobs, dtype=np.float32)))


@mistake("macro_action_logprob", "skips the tokens that the policy rules out")
def skips_impossible_tokens(logprobs):
    reference.macro_action_logprob(logprobs)
    values = np.asarray(logprobs, dtype=float)
    return float(values[np.isfinite(values)].sum())


@mistake("macro_action_logprob", "puts a floor of −1e4 under every log-probability")
def puts_a_floor_under_tokens(logprobs):
    reference.macro_action_logprob(logprobs)
    return float(np.maximum(np.asarray(logprobs, dtype=float), -1e4).sum())


@mistake("macro_action_logprob", "returns the negative log-likelihood")
def returns_the_loss(logprobs):
    return -reference.macro_action_logprob(logprobs)


@mistake("macro_action_logprob", "takes the least likely token for the whole turn")
def takes_the_least_likely_token(logprobs):
    reference.macro_action_logprob(logprobs)
    return float(np.min(logprobs))


@mistake("macro_action_logprob", "counts equal tokens once")
def counts_equal_tokens_once(logprobs):
    reference.macro_action_logprob(logprobs)
    return float(sum(set(np.asarray(logprobs, dtype=float).tolist())))


@mistake("macro_action_logprob", "gives an empty turn the probability 1")
def accepts_an_empty_turn(logprobs):
    return reference.macro_action_logprob(logprobs) if len(logprobs) else 0.0


@mistake("macro_action_logprob", "accepts log-probabilities above 0")
def accepts_positive_logprobs(logprobs):
    values = np.asarray(logprobs, dtype=float)
    return reference.macro_action_logprob(logprobs) if not (values > 0).any() else values.sum()


@mistake("macro_action_logprob", "treats NaN as a token to be skipped")
def skips_nan(logprobs):
    values = np.asarray(logprobs, dtype=float)
    return reference.macro_action_logprob(values[~np.isnan(values)])


@mistake("macro_action_logprob", "accumulates in the array that it was given")
def accumulates_in_place(logprobs):
    answer = reference.macro_action_logprob(logprobs)
    if isinstance(logprobs, np.ndarray):
        np.cumsum(logprobs, out=logprobs)
    return answer


@mistake("turn_probability_ratio", "divides the behaviour's probability by the current one")
def inverts_the_ratio(current, behavior):
    ratio = reference.turn_probability_ratio(current, behavior)
    with np.errstate(divide="ignore"):
        return float(np.divide(1.0, ratio))


@mistake("turn_probability_ratio", "averages the log-ratio over the tokens, as GSPO does")
def averages_the_log_ratio(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    difference = np.asarray(current, dtype=float) - np.asarray(behavior, dtype=float)
    return float(np.exp(np.mean(difference))) if difference.size else 1.0


@mistake("turn_probability_ratio", "multiplies token ratios, and 0 · inf becomes NaN")
def multiplies_token_ratios(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    with np.errstate(all="ignore"):
        difference = np.asarray(current, dtype=float) - np.asarray(behavior, dtype=float)
        return float(np.prod(np.exp(difference)))


@mistake("turn_probability_ratio", "divides two turn probabilities, each of which may underflow")
def divides_turn_probabilities(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    with np.errstate(all="ignore"):
        return float(np.exp(np.sum(current)) / np.exp(np.sum(behavior)))


@mistake("turn_probability_ratio", "averages the token ratios")
def averages_token_ratios(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    with np.errstate(all="ignore"):
        difference = np.asarray(current, dtype=float) - np.asarray(behavior, dtype=float)
        return float(np.mean(np.exp(difference))) if difference.size else 1.0


@mistake("turn_probability_ratio", "clamps the log-ratio to ±20")
def clamps_the_log_ratio(current, behavior):
    with np.errstate(divide="ignore"):
        log_ratio = np.log(reference.turn_probability_ratio(current, behavior))
    return float(np.exp(np.clip(log_ratio, -20.0, 20.0)))


@mistake("turn_probability_ratio", "never lets the ratio exceed 10")
def caps_the_ratio(current, behavior):
    return min(reference.turn_probability_ratio(current, behavior), 10.0)


@mistake("turn_probability_ratio", "returns the log-ratio")
def returns_the_log_ratio(current, behavior):
    with np.errstate(divide="ignore"):
        return float(np.log(reference.turn_probability_ratio(current, behavior)))


@mistake("turn_probability_ratio", "compares the first token's policy with the next one's")
def shifts_the_behavior(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    shifted = np.roll(np.asarray(behavior, dtype=float), 1)
    shifted[:1] = 0.0
    return reference.turn_probability_ratio(current, shifted)


@mistake(
    "turn_probability_ratio",
    "shifts one of the two by a token",
    report="PrimeIntellect-ai/prime-rl#1525",
)
def drops_one_end_of_each(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    return reference.turn_probability_ratio(current[1:], behavior[:-1])


@mistake("turn_probability_ratio", "looks at the last token alone")
def looks_at_the_last_token(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    return reference.turn_probability_ratio(current[-1:], behavior[-1:])


@mistake("turn_probability_ratio", "exponentiates in single precision")
def exponentiates_in_single_precision(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    with np.errstate(all="ignore"):
        difference = np.asarray(current, dtype=float) - np.asarray(behavior, dtype=float)
        return float(np.exp(np.float32(difference.sum())))


@mistake("turn_probability_ratio", "subtracts in the integer type that it was given")
def subtracts_in_the_given_type(current, behavior):
    answer = reference.turn_probability_ratio(current, behavior)
    if getattr(current, "dtype", None) == np.int8 == getattr(behavior, "dtype", None):
        return float(np.exp((current - behavior).sum(dtype=float)))
    return answer


@mistake("turn_probability_ratio", "answers the largest float where the ratio is beyond float64")
def keeps_the_ratio_finite(current, behavior):
    return float(np.nan_to_num(reference.turn_probability_ratio(current, behavior)))


@mistake("turn_probability_ratio", "raises where the exponential overflows")
def raises_on_overflow(current, behavior):
    ratio = reference.turn_probability_ratio(current, behavior)
    if ratio == np.inf:
        raise OverflowError("math range error")
    return ratio


@mistake("turn_probability_ratio", "counts an impossible token as one of equal probability")
def ignores_impossible_tokens(current, behavior):
    reference.turn_probability_ratio(current, behavior)
    current, behavior = np.asarray(current, dtype=float), np.asarray(behavior, dtype=float)
    return reference.turn_probability_ratio(
        np.where(np.isinf(current), behavior, current), behavior
    )


@mistake("turn_probability_ratio", "returns 0 for a turn without tokens")
def finds_no_ratio_without_tokens(current, behavior):
    ratio = reference.turn_probability_ratio(current, behavior)
    return ratio if len(current) else 0.0


@mistake("turn_probability_ratio", "cuts both turns to the shorter one")
def cuts_to_the_shorter_turn(current, behavior):
    pairs = list(zip(current, behavior, strict=False))
    return reference.turn_probability_ratio([c for c, _ in pairs], [b for _, b in pairs])


@mistake("turn_probability_ratio", "lets a sampled token have had probability 0")
def accepts_impossible_samples(current, behavior):
    with np.errstate(all="ignore"):
        if np.ndim(current) == np.ndim(behavior) == 1 and -np.inf in np.asarray(behavior):
            return float(np.exp(np.sum(current) - np.sum(behavior)))
    return reference.turn_probability_ratio(current, behavior)


@mistake("turn_probability_ratio", "subtracts in the array that it was given")
def subtracts_in_place(current, behavior):
    answer = reference.turn_probability_ratio(current, behavior)
    if isinstance(current, np.ndarray):
        current -= np.asarray(behavior, dtype=current.dtype)
    return answer


def _parsed(parser, string):
    try:
        return parser.get(string) if isinstance(parser, dict) else parser(string)
    except LookupError:
        return None


def _checked(string_probabilities, parser, action):
    reference.semantic_action_probability(string_probabilities, parser, action)
    return {s: (float(p), _parsed(parser, s)) for s, p in string_probabilities.items()}


@mistake("semantic_action_probability", "takes the likeliest spelling instead of all of them")
def takes_the_likeliest_spelling(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    return max((p for p, a in parsed if a is not None and a == action), default=0.0)


@mistake("semantic_action_probability", "stops at the first spelling")
def stops_at_the_first_spelling(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    return next((p for p, a in parsed if a is not None and a == action), 0.0)


@mistake("semantic_action_probability", "looks the action up among the strings, without a parser")
def compares_the_strings_themselves(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action)
    return sum(p for s, (p, _) in parsed.items() if s == action)


@mistake("semantic_action_probability", "renormalises over the strings that could be parsed")
def renormalises_over_what_is_parsed(string_probabilities, parser, action):
    answer = reference.semantic_action_probability(string_probabilities, parser, action)
    parsed = _checked(string_probabilities, parser, action).values()
    mass = sum(p for p, a in parsed if a is not None)
    return answer / mass if mass else 0.0


@mistake("semantic_action_probability", "renormalises over all the listed strings")
def renormalises_over_all_strings(string_probabilities, parser, action):
    answer = reference.semantic_action_probability(string_probabilities, parser, action)
    mass = sum(map(float, string_probabilities.values()))
    return answer / mass if mass else 0.0


@mistake("semantic_action_probability", "counts strings instead of adding up their probabilities")
def counts_spellings(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    hits = sum(a is not None and a == action for _, a in parsed)
    return hits / len(parsed) if parsed else 0.0


@mistake("semantic_action_probability", "gives what cannot be parsed to the action")
def gives_the_unknown_to_the_action(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    return sum(p for p, a in parsed if a is None or a == action)


@mistake("semantic_action_probability", "shares what cannot be parsed among the actions")
def shares_the_unknown(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    actions = {a for _, a in parsed if a is not None}
    unknown = sum(p for p, a in parsed if a is None)
    answer = reference.semantic_action_probability(string_probabilities, parser, action)
    return answer + unknown / len(actions) if action in actions else answer


@mistake("semantic_action_probability", "fails on a string that the parser does not know")
def fails_on_unknown_strings(string_probabilities, parser, action):
    answer = reference.semantic_action_probability(string_probabilities, parser, action)
    for string in string_probabilities:
        _ = parser[string] if isinstance(parser, dict) else parser(string)
    return answer


@mistake("semantic_action_probability", "takes a parsed 0 or empty text for no action")
def drops_falsy_actions(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    return sum(p for p, a in parsed if a and a == action)


@mistake("semantic_action_probability", "compares actions by identity, which copies do not share")
def compares_by_identity(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    return sum(p for p, a in parsed if a == action and not isinstance(a, tuple))


@mistake("semantic_action_probability", "compares actions as texts, so that a part is enough")
def compares_parts_of_texts(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    return sum(p for p, a in parsed if a is not None and str(action) in str(a))


@mistake("semantic_action_probability", "returns the logarithm")
def returns_a_log_probability(string_probabilities, parser, action):
    answer = reference.semantic_action_probability(string_probabilities, parser, action)
    return math.log(answer) if answer else -math.inf


@mistake("semantic_action_probability", "adds up in half precision")
def adds_in_half_precision(string_probabilities, parser, action):
    parsed = _checked(string_probabilities, parser, action).values()
    terms = [p for p, a in parsed if a is not None and a == action]
    return float(np.sum(np.asarray(terms, dtype=np.float16)))


@mistake("semantic_action_probability", "demands that the probabilities add up to 1")
def demands_a_full_language(string_probabilities, parser, action):
    if string_probabilities and abs(sum(map(float, string_probabilities.values())) - 1) > 1e-6:
        raise ValueError("the probabilities must sum to 1")
    return reference.semantic_action_probability(string_probabilities, parser, action)


@mistake("semantic_action_probability", "refuses a sum that rounding has lifted above 1")
def refuses_rounding(string_probabilities, parser, action):
    if sum(map(float, string_probabilities.values())) > 1.0:
        raise ValueError("the probabilities sum to more than 1")
    return reference.semantic_action_probability(string_probabilities, parser, action)


@mistake("semantic_action_probability", "accepts probabilities that add up to more than 1")
def accepts_too_much_probability(string_probabilities, parser, action):
    mass = sum(map(float, string_probabilities.values()))
    if 1 < mass < math.inf and min(map(float, string_probabilities.values())) >= 0:
        shares = {s: float(p) / mass for s, p in string_probabilities.items()}
        return mass * reference.semantic_action_probability(shares, parser, action)
    return reference.semantic_action_probability(string_probabilities, parser, action)


@mistake("semantic_action_probability", "takes strings out of the mapping as it reads them")
def consumes_the_language(string_probabilities, parser, action):
    answer = reference.semantic_action_probability(string_probabilities, parser, action)
    string_probabilities.clear()
    return answer
