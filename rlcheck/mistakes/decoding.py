"""What people get wrong in the distribution that tokens are sampled from."""

import numpy as np

from rlcheck import decoding as reference
from rlcheck.logprobs import stable_log_softmax
from rlcheck.mistakes.registry import mistake

# --- decoding_distribution_with_order -------------------------------------------------------


def softmax(scores):
    return np.exp(stable_log_softmax(scores))


def process(logits, order, **processors):
    """Softmax of logits after the processors given by name; refuses what is to be refused."""
    scores = np.asarray(logits, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = scores - scores.max()
        for name in order:
            scores = processors[name](scores)
    return softmax(scores)


def checked(logits, temperature, top_k, top_p, order):
    """The right answer, and the three right processors by name."""
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "order": order}
    right = reference.decoding_distribution_with_order(logits, **settings)
    return right, {
        "temperature": lambda scores: scores / temperature,
        "top_k": lambda scores: keep_top_k(scores, int(top_k)),
        "top_p": lambda scores: keep_top_p(scores, top_p),
    }


def keep_top_k(scores, k):
    return scores if k >= len(scores) else keep(scores, scores >= np.sort(scores)[-k])


def keep_top_p(scores, top_p):
    if top_p == 1:
        return scores
    likely = np.argsort(-softmax(scores), kind="stable")
    before = np.cumsum(softmax(scores)[likely]) - softmax(scores)[likely]
    before[0] = -1.0
    return keep(scores, likely[before < top_p])


def keep(scores, which):
    kept = np.full(len(scores), -np.inf)
    kept[which] = scores[which]
    return kept


def variant(description, report=None):
    """Declare a mistake in one processor: a function of scores and the setting."""

    def declare(change):
        name = change.__code__.co_varnames[1]

        def wrong(logits, *, temperature, top_k, top_p, order):
            _, processors = checked(logits, temperature, top_k, top_p, order)
            setting = {"temperature": temperature, "top_k": top_k, "top_p": top_p}[name]
            return process(logits, order, **{**processors, name: lambda s: change(s, setting)})

        wrong.__name__ = change.__name__
        return mistake("decoding_distribution_with_order", description, report=report)(wrong)

    return declare


@variant(
    "drops the token that crosses top_p",
    report="thu-nics/C2C#21, fishaudio/fish-speech#1171, Biohub/esm#360, ggml-org/llama.cpp#1953",
)
def drops_the_crossing_token(scores, top_p):
    likely = np.argsort(-scores, kind="stable")
    reached = np.cumsum(softmax(scores)[likely])
    return scores if top_p == 1 else keep(scores, likely[: max(1, int((reached <= top_p).sum()))])


@variant("keeps one token more than top_p needs")
def keeps_one_too_many(scores, top_p):
    likely = np.argsort(-scores, kind="stable")
    needed = int((keep_top_p(scores, top_p) > -np.inf).sum())
    return keep(scores, likely[: needed + 1])


@variant("adds up probabilities in the order of the vocabulary", report="dmlc/gluon-nlp#1481")
def does_not_sort(scores, top_p):
    chances = softmax(scores)
    before = np.cumsum(chances) - chances
    before[0] = -1.0
    return scores if top_p == 1 else keep(scores, np.flatnonzero(before < top_p))


@variant("adds up log-probabilities, not probabilities", report="skyzh/tiny-llm#32")
def adds_up_logprobs(scores, top_p):
    likely = np.argsort(-scores, kind="stable")
    summed = np.cumsum(stable_log_softmax(scores)[likely])
    return keep(scores, likely[summed <= top_p])


@variant("lets top_p choose the higher index of equal tokens")
def prefers_the_higher_index(scores, top_p):
    return keep_top_p(scores[::-1], top_p)[::-1]


@variant("keeps every token as likely as the last that top_p needs")
def keeps_ties_of_the_nucleus(scores, top_p):
    kept = keep_top_p(scores, top_p)
    return keep(scores, scores >= kept[kept > -np.inf].min())


@variant("takes top_p for the least probability relative to the likeliest: min_p")
def takes_top_p_for_min_p(scores, top_p):
    return keep(scores, np.exp(scores - scores.max()) >= top_p)


@variant("skips top_p when it is 0")
def skips_a_nucleus_of_nothing(scores, top_p):
    return scores if top_p == 0 else keep_top_p(scores, top_p)


@variant("keeps k + 1 tokens", report="kingoflolz/mesh-transformer-jax#164")
def keeps_one_more_than_k(scores, top_k):
    return keep_top_k(scores, int(top_k) + 1)


@variant("keeps exactly k tokens, whatever equals the k-th")
def cuts_ties(scores, top_k):
    return keep(scores, np.argsort(-scores, kind="stable")[: int(top_k)])


@variant("drops the k-th token together with all that equal it")
def drops_the_kth(scores, top_k):
    above = scores > np.sort(scores)[-min(int(top_k), len(scores))]
    return keep(scores, above) if above.any() else keep_top_k(scores, int(top_k))


@variant("keeps the k first tokens of the vocabulary")
def keeps_the_first_k(scores, top_k):
    first = keep(scores, np.arange(min(int(top_k), len(scores))))
    return first if first.max() > -np.inf else scores


@variant("multiplies the logits by the temperature")
def multiplies_by_the_temperature(scores, temperature):
    return np.where(scores == 0, 0.0, scores * temperature)


@variant("divides probabilities, not logits, by the temperature, which changes nothing")
def divides_probabilities(scores, temperature):
    return scores


@variant("takes temperatures below 1e-5 for 1e-5")
def floors_the_temperature(scores, temperature):
    return scores / np.clip(temperature, 1e-5, 1e5)


def rule(description, report=None):
    """Declare a mistake in how the processors are put together."""
    return mistake("decoding_distribution_with_order", description, report=report)


@rule("applies temperature, top_k and top_p in this order, whatever order is asked for")
def fixes_the_order(logits, *, temperature, top_k, top_p, order):
    _, processors = checked(logits, temperature, top_k, top_p, order)
    return process(logits, [name for name in processors if name in list(order)], **processors)


@rule("applies the processors from the last to the first")
def reverses_the_order(logits, *, temperature, top_k, top_p, order):
    _, processors = checked(logits, temperature, top_k, top_p, order)
    return process(logits, list(order)[::-1], **processors)


@rule("applies top_p to what top_k left, not renormalised", report="ml-explore/mlx-lm#388")
def forgets_to_renormalise_in_between(logits, *, temperature, top_k, top_p, order):
    right, processors = checked(logits, temperature, top_k, top_p, order)
    names = list(order)
    if names[-2:] != ["top_k", "top_p"] or top_p == 1:
        return right
    before = process(logits, names[:-2], **processors)
    likely = np.argsort(-before, kind="stable")[: int(top_k)]
    needed = 1 + int((np.cumsum(before[likely])[:-1] < top_p).sum())
    kept = np.zeros(len(before))
    kept[likely[:needed]] = before[likely[:needed]]
    return kept / kept.sum()


@rule("leaves the mass of the removed tokens out")
def forgets_to_renormalise_at_the_end(logits, *, temperature, top_k, top_p, order):
    right, processors = checked(logits, temperature, top_k, top_p, order)
    heated = [name for name in order if name == "temperature"]
    return np.where(right > 0, process(logits, heated, **processors), 0.0)


@rule("applies all processors, also those that are not asked for")
def applies_absent_processors(logits, *, temperature, top_k, top_p, order):
    reference.decoding_distribution_with_order(
        logits, temperature=temperature, top_k=top_k, top_p=top_p, order=order
    )
    absent = [name for name in reference.PROCESSORS if name not in list(order)]
    return reference.decoding_distribution_with_order(
        logits, temperature=temperature, top_k=top_k, top_p=top_p, order=[*order, *absent]
    )


@rule("exponentiates the logits without taking off their maximum")
def overflows(logits, *, temperature, top_k, top_p, order):
    right, _ = checked(logits, temperature, top_k, top_p, order)
    heat = temperature if "temperature" in list(order) else 1.0
    with np.errstate(all="ignore"):
        weights = np.where(right > 0, np.exp(np.asarray(logits, dtype=np.float64) / heat), 0.0)
        return weights / weights.sum()


@rule("computes in float32")
def computes_in_single_precision(logits, *, temperature, top_k, top_p, order):
    right, _ = checked(logits, temperature, top_k, top_p, order)
    return right.astype(np.float32).astype(np.float64)


@rule("divides the caller's logits by the temperature")
def changes_the_logits(logits, *, temperature, top_k, top_p, order):
    right, _ = checked(logits, temperature, top_k, top_p, order)
    if isinstance(logits, np.ndarray) and "temperature" in list(order):
        logits[:] = logits / temperature
    return right


@rule("checks the arguments of processors that are not asked for")
def checks_absent_arguments(logits, *, temperature, top_k, top_p, order):
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    reference.decoding_distribution_with_order(logits, **settings, order=reference.PROCESSORS)
    return reference.decoding_distribution_with_order(logits, **settings, order=order)


@rule("answers with the logits of the survivors, not their probabilities")
def returns_logits(logits, *, temperature, top_k, top_p, order):
    right, _ = checked(logits, temperature, top_k, top_p, order)
    with np.errstate(divide="ignore"):
        return np.log(right)


@rule("skips a temperature of 0 in silence", report="radixark/miles#2686")
def skips_a_temperature_of_zero(logits, *, temperature, top_k, top_p, order):
    if isinstance(temperature, float) and temperature == 0:
        order = [name for name in order if name != "temperature"]
    return reference.decoding_distribution_with_order(
        logits, temperature=temperature, top_k=top_k, top_p=top_p, order=order
    )


@rule("skips processors that it does not know and settings out of range")
def refuses_nothing(logits, *, temperature, top_k, top_p, order):
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    known = []
    for name in order or ():
        try:
            reference.decoding_distribution_with_order([0.0], **settings, order=[name])
        except (TypeError, ValueError):
            continue
        known += [name] if name not in known else []
    finite = np.nan_to_num(np.ravel(np.asarray(logits, dtype=np.float64)), nan=0.0, posinf=1e3)
    return reference.decoding_distribution_with_order(finite, **settings, order=known)


# --- behavior_logprob -----------------------------------------------------------------------


@mistake("behavior_logprob", "adds 1e-12 inside the logarithm")
def adds_an_epsilon(distribution, token):
    return float(np.log(np.exp(reference.behavior_logprob(distribution, token)) + 1e-12))


@mistake("behavior_logprob", "takes probabilities below 1e-10 for 1e-10")
def floors_the_probability(distribution, token):
    return max(reference.behavior_logprob(distribution, token), float(np.log(1e-10)))


@mistake("behavior_logprob", "answers with the lowest float for an impossible token")
def makes_impossible_tokens_finite(distribution, token):
    return float(np.nan_to_num(reference.behavior_logprob(distribution, token)))


@mistake("behavior_logprob", "refuses a token of probability 0")
def refuses_impossible_tokens(distribution, token):
    if reference.behavior_logprob(distribution, token) == -np.inf:
        raise ValueError("the token has probability 0")
    return reference.behavior_logprob(distribution, token)


@mistake("behavior_logprob", "warns of the logarithm of 0")
def warns_of_log_zero(distribution, token):
    reference.behavior_logprob(distribution, token)
    return float(np.log(np.asarray(distribution, dtype=np.float64)[int(token)]))


@mistake("behavior_logprob", "measures in bits")
def measures_in_bits(distribution, token):
    return reference.behavior_logprob(distribution, token) / np.log(2)


@mistake("behavior_logprob", "gives the surprise −log p")
def forgets_the_sign(distribution, token):
    return -reference.behavior_logprob(distribution, token)


@mistake("behavior_logprob", "gives the probability, not its logarithm")
def returns_the_probability(distribution, token):
    return float(np.exp(reference.behavior_logprob(distribution, token)))


@mistake("behavior_logprob", "counts tokens from 1")
def counts_from_one(distribution, token):
    reference.behavior_logprob(distribution, token)
    return reference.behavior_logprob(distribution, (int(token) - 1) % len(distribution))


@mistake("behavior_logprob", "takes the probabilities for logits")
def takes_probabilities_for_logits(distribution, token):
    reference.behavior_logprob(distribution, token)
    return float(stable_log_softmax(distribution)[int(token)])


@mistake("behavior_logprob", "measures against the likeliest token")
def divides_by_the_likeliest(distribution, token):
    best = float(np.max(distribution))
    return reference.behavior_logprob(distribution, token) - float(np.log(best))


@mistake("behavior_logprob", "computes in float32, where small probabilities vanish")
def computes_the_log_in_single_precision(distribution, token):
    right = reference.behavior_logprob(distribution, token)
    with np.errstate(divide="ignore", under="ignore"):
        return float(np.log(np.float32(np.exp(right))))


@mistake("behavior_logprob", "gives the log-odds, log p − log(1 − p)")
def gives_log_odds(distribution, token):
    right = reference.behavior_logprob(distribution, token)
    with np.errstate(divide="ignore", invalid="ignore"):
        return right - float(np.log1p(-np.exp(min(right, 0.0))))


@mistake("behavior_logprob", "insists on a sum of exactly 1")
def insists_on_an_exact_sum(distribution, token):
    if abs(float(np.sum(np.asarray(distribution, dtype=np.float64))) - 1.0) > 1e-9:
        raise ValueError("distribution must sum to 1")
    return reference.behavior_logprob(distribution, token)


@mistake("behavior_logprob", "counts negative tokens from the end")
def counts_from_the_end(distribution, token):
    wrapped = token + len(distribution) if np.ndim(token) == 0 and token in (-1,) else token
    return reference.behavior_logprob(distribution, wrapped)


@mistake("behavior_logprob", "normalises what is no distribution")
def normalises_anything(distribution, token):
    if isinstance(distribution, dict):
        return reference.behavior_logprob(distribution, token)
    values = np.abs(np.asarray(distribution, dtype=np.float64))
    return reference.behavior_logprob(values / values.sum(), token)


@mistake("behavior_logprob", "normalises the caller's array in place")
def changes_the_distribution(distribution, token):
    answer = reference.behavior_logprob(distribution, token)
    if isinstance(distribution, np.ndarray):
        distribution[distribution == 0] = 1e-7
    return answer
