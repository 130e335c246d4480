"""The contract in plain Python: lists, floats and the standard library, nothing else.

A second implementation of returns and turns, token probabilities, Q-learning, and policy
gradients, written from the formulas alone. It is slow and it shares no code with the package, so
agreement between the two means something. Arrays come back as nested lists, records as dicts.
"""

import contextlib
import decimal
import itertools
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

INF = math.inf
NAN = math.nan

# ---------------------------------------------------------------------------------------------
# Reading arguments
# ---------------------------------------------------------------------------------------------


class _Array(NamedTuple):
    """A named array: its elements row by row, and its shape."""

    name: str
    flat: list
    shape: tuple
    prefix: tuple = ()

    def where(self, position: int) -> str:
        """The name of one element, such as ``next_q[2, 1]``."""
        index = []
        for size in reversed(self.shape):
            position, rest = divmod(position, size)
            index.append(rest)
        return _label(self.name, *self.prefix, *reversed(index))


def _label(name: str, *index: int) -> str:
    """``name`` alone, or followed by an index in brackets."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _is_list(value) -> bool:
    """Whether a value is an ordered collection, text aside."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _leaves(value, name: str, *index: int) -> _Array:
    """Flatten an array-like without looking at its elements; ragged nesting is refused."""
    if hasattr(value, "tolist"):
        shape, kind = getattr(value, "shape", ()), str(getattr(value, "dtype", "object"))
        if shape and kind != "object":  # the array knows its shape, even when empty
            flat = value if len(shape) == 1 else value.reshape(-1)
            return _Array(name, flat.tolist(), tuple(shape))
        value = value.tolist()
    if not _is_list(value):
        return _Array(name, [value], ())
    parts = [_leaves(item, name, *index, i) for i, item in enumerate(value)]
    for i, part in enumerate(parts):
        if part.shape != parts[0].shape:
            label = _label(name, *index, i)
            raise ValueError(f"{label} has shape {part.shape}, others have {parts[0].shape}")
    inner = parts[0].shape if parts else ()
    return _Array(name, [leaf for part in parts for leaf in part.flat], (len(parts), *inner))


def _to_float(value) -> float:
    """A real number as a float; beyond the range of floats it is infinite."""
    try:
        return float(value)
    except OverflowError:
        return INF if value > 0 else -INF


def _number(value, label: str) -> float:
    """One element as a float; anything but a real number is a TypeError."""
    if isinstance(value, numbers.Real):
        return _to_float(value)
    raise TypeError(f"{label} must be a number, got {value!r}")


def _array(value, name: str, prefix: tuple = ()) -> _Array:
    """An array of floats of any shape, NaN and infinities included."""
    raw = _leaves(value, name)._replace(prefix=prefix)
    flat = [
        x if type(x) is float else _number(x, raw.where(i))  # the label is rarely needed
        for i, x in enumerate(raw.flat)
    ]
    return raw._replace(flat=flat)


def _refuse(label: str, rule: str, value):
    """Refuse one value."""
    raise ValueError(f"{label} must be {rule}, got {value!r}")


def _require(array: _Array, accept, rule: str, active=None) -> None:
    """Every element (every active one) must pass ``accept``."""
    for i, x in enumerate(array.flat):
        if (active is None or active[i]) and not accept(x):
            _refuse(array.where(i), rule, x)


def _finite(value, name: str) -> _Array:
    """An array of finite floats of any shape."""
    array = _array(value, name)
    _require(array, math.isfinite, "finite")
    return array


def _dims(array: _Array, count: int) -> tuple:
    """The shape, which must have ``count`` axes; an empty list has lost the later ones."""
    shape = array.shape
    if len(shape) < count and 0 in shape:
        return shape + (0,) * (count - len(shape))
    if len(shape) != count:
        raise ValueError(f"{array.name} must have {count} dimension(s), got shape {shape}")
    return shape


def _fit(array: _Array, shape: tuple, like: str) -> _Array:
    """Refuse an array whose shape is not ``shape``; empty arrays agree up to their zero."""

    def known(sizes):
        return sizes[: sizes.index(0) + 1] if 0 in sizes else sizes

    if known(array.shape) != known(tuple(shape)):
        raise ValueError(
            f"{array.name} must have shape {tuple(shape)} to match {like}, got shape {array.shape}"
        )
    return array


def _vector(value, name: str) -> list:
    """A list of finite floats."""
    array = _finite(value, name)
    _dims(array, 1)
    return array.flat


def _one_longer(values: list, name: str, rewards: list) -> None:
    """``values`` must have one element more than ``rewards``."""
    if len(values) != len(rewards) + 1:
        raise ValueError(
            f"{name} must be one longer than rewards: expected {len(rewards) + 1} elements, "
            f"got {len(values)}"
        )


def _flags(value, name: str, shape: tuple, like: str) -> list:
    """A flat list of booleans from zeros and ones of any type, of a given shape."""
    array = _array(value, name)
    _fit(array, shape, like)
    _require(array, lambda x: x in (0, 1), "0 or 1")
    return [x == 1 for x in array.flat]


def _single(value, name: str):
    """The one element of a scalar argument."""
    raw = _leaves(value, name)
    if raw.shape:
        raise ValueError(f"{name} must be a scalar, got shape {raw.shape}")
    return raw.flat[0]


def _scalar(value, name: str) -> float:
    """A finite float."""
    number = _number(_single(value, name), name)
    return number if math.isfinite(number) else _refuse(name, "finite", number)


def _unit(value, name: str) -> float:
    """A number in [0, 1]."""
    number = _scalar(value, name)
    return number if 0 <= number <= 1 else _refuse(name, "in [0, 1]", number)


def _whole(value, label: str) -> int:
    """An integer, which may be written as 4.0."""
    if isinstance(value, numbers.Integral):
        return int(value)
    number = _number(value, label)
    return int(number) if number.is_integer() else _refuse(label, "an integer", value)


def _integer(value, name: str) -> int:
    """An integer scalar, which may be written as 4.0."""
    return _whole(_single(value, name), name)


def _is_id(value) -> bool:
    """Whether an element of an array of ids or actions is an integer; flags and 4.0 are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _ids(value, name: str) -> _Array:
    """An array of integers: no booleans, no floats."""
    array = _leaves(value, name)
    for i, x in enumerate(array.flat):
        if not _is_id(x):
            _number(x, array.where(i))  # text and None are a TypeError
            _refuse(array.where(i), "an integer", x)
    return array


def _axis(axis, array: _Array) -> int:
    """A valid axis, counted from the front."""
    axis, count = _integer(axis, "axis"), len(array.shape)
    if not -count <= axis < count:
        raise ValueError(f"axis must name one of the {count} axes of {array.name}, got {axis}")
    return axis % count


def _is_coarse(value) -> bool:
    """Whether numbers were given in single or half precision."""
    if hasattr(value, "dtype"):
        return any(kind in str(value.dtype) for kind in ("float32", "float16"))
    return _is_list(value) and any(map(_is_coarse, value))


def _probabilities(value, name: str, count: int) -> _Array:
    """Probability vectors along the last of ``count`` axes."""
    array = _finite(value, name)
    shape = _dims(array, count)
    _require(array, lambda x: x >= 0, "at least 0")
    tolerance = 1e-4 if _is_coarse(value) else 1e-6
    for row in _rows(shape, count - 1):
        total = _sum(array.flat[i] for i in row)
        if not row or abs(total - 1) > tolerance:
            label = _label(name, row.start // shape[-1]) if count > 1 and row else name
            raise ValueError(f"{label} must be probabilities that sum to 1, got the sum {total!r}")
    return array


# ---------------------------------------------------------------------------------------------
# Arithmetic and shapes
# ---------------------------------------------------------------------------------------------


def _sum(terms: Iterable[float]) -> float:
    """The sum rounded once; infinite only if it is, with infinite terms of one sign."""
    terms = list(terms)
    try:
        return math.fsum(terms)
    except OverflowError:
        infinite = next(filter(math.isinf, terms), None)
        return _to_float(sum(map(Fraction, terms))) if infinite is None else infinite


def _mean(terms: list) -> float:
    """The mean, finite even if the sum is not."""
    total = _sum(terms)
    if math.isinf(total) and all(map(math.isfinite, terms)):
        return _to_float(sum(map(Fraction, terms)) / len(terms))
    return total / len(terms)


def _exp(x: float) -> float:
    """exp that overflows to infinity."""
    try:
        return math.exp(x)
    except OverflowError:
        return INF


def _discount(value: float, gamma: float, steps: int) -> float:
    """gamma ** steps * value, right even where the power alone would underflow."""
    steps = min(steps, 2**70)  # as good as infinite: the power is 0 or 1
    factor = gamma**steps
    if factor > 1e-290 or steps < 2 or gamma == 0 or value == 0:
        return factor * value
    half = steps // 2
    return _discount(_discount(value, gamma, half), gamma, steps - half)


def _discounted(values: list, gamma: float) -> list:
    """The terms gamma ** t * value_t."""
    return [_discount(value, gamma, t) for t, value in enumerate(values)]


def _rows(shape: tuple, axis: int) -> Iterable[range]:
    """The flat positions of each row along an axis."""
    size, inner = shape[axis], math.prod(shape[axis + 1 :])
    for outer in range(math.prod(shape[:axis])):
        for offset in range(inner):
            start = outer * size * inner + offset
            yield range(start, start + size * inner, inner)


def _nest(flat: list, shape: tuple):
    """Nested lists of a shape; a scalar for the shape ()."""
    if not shape:
        return flat[0]
    if len(shape) == 1:
        return list(flat)
    step = math.prod(shape[1:])
    return [_nest(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _broadcast(arrays: list) -> tuple:
    """The common shape of arrays that broadcast together."""
    shape = []
    for axis in range(-max(len(array.shape) for array in arrays), 0):
        sizes = {array.shape[axis] for array in arrays if len(array.shape) >= -axis} - {1}
        if len(sizes) > 1:
            listed = ", ".join(f"{array.name} {array.shape}" for array in arrays)
            raise ValueError(f"shapes do not broadcast: {listed}")
        shape.append(sizes.pop() if sizes else 1)
    return tuple(shape)


def _spread(array: _Array, shape: tuple) -> list:
    """For each cell of a broadcast shape, the flat position in the array."""
    skipped, positions = len(shape) - len(array.shape), []
    for cell in itertools.product(*map(range, shape)):
        position = 0
        for size, i in zip(array.shape, cell[skipped:], strict=True):
            position = position * size + (0 if size == 1 else i)
        positions.append(position)
    return positions


def _normaliser(row: list):
    """(max, log of the sum of exp(x - max)), or None for a row that is no distribution."""
    top = max(row, default=-INF)
    if not math.isfinite(top):
        return None
    total = math.fsum([math.exp(x - top) for x in row])
    return None if math.isnan(total) else (top, math.log(total))


def _normalised(array: _Array, positions: range) -> list:
    """The log-softmax of one row, which is refused unless it is a distribution."""
    row = [array.flat[i] for i in positions]
    scale = _normaliser(row)
    if scale is None:
        _refuse_row(array, positions)
    top, log_total = scale
    return [(x - top) - log_total for x in row]


def _refuse_row(array: _Array, positions: range):
    """Say what keeps a row of logits from being a distribution."""
    for i in positions:
        if not array.flat[i] < INF:
            _refuse(array.where(i), "finite or -inf", array.flat[i])
    if not positions:
        raise ValueError(f"{array.name} needs at least one element in a row, got {array.shape}")
    raise ValueError(f"{array.where(positions[0])} starts a row of only -inf, got -inf")


# ---------------------------------------------------------------------------------------------
# Returns, targets, shaping, turns
# ---------------------------------------------------------------------------------------------


def discounted_return(rewards, gamma):
    """Sum of gamma^t r_t."""
    return _sum(_discounted(_vector(rewards, "rewards"), _unit(gamma, "gamma")))


def td_residuals(rewards, values, gamma, terminated=None):
    """r_t + gamma (1 - d_t) V_{t+1} - V_t."""
    rewards, values = _vector(rewards, "rewards"), _vector(values, "values")
    gamma = _unit(gamma, "gamma")
    _one_longer(values, "values", rewards)
    ended = [False] * len(rewards)
    if terminated is not None:
        ended = _flags(terminated, "terminated", (len(rewards),), "rewards")
    return [
        _sum([r, 0.0 if end else gamma * after, -before])
        for r, (before, after), end in zip(rewards, itertools.pairwise(values), ended, strict=True)
    ]


def discounted_td_sum(deltas, gamma):
    """Sum of gamma^t delta_t."""
    return _sum(_discounted(_vector(deltas, "deltas"), _unit(gamma, "gamma")))


def potential_shaping(rewards, potentials, gamma):
    """r_t + gamma Phi_{t+1} - Phi_t."""
    rewards, potentials = _vector(rewards, "rewards"), _vector(potentials, "potentials")
    gamma = _unit(gamma, "gamma")
    _one_longer(potentials, "potentials", rewards)
    return [
        _sum([r, gamma * after, -before])
        for r, (before, after) in zip(rewards, itertools.pairwise(potentials), strict=True)
    ]


def shaped_return_identity(rewards, potentials, gamma):
    """The return, the return of the shaped rewards, and what telescoping predicts for it."""
    rewards, potentials = _vector(rewards, "rewards"), _vector(potentials, "potentials")
    gamma = _unit(gamma, "gamma")
    _one_longer(potentials, "potentials", rewards)
    base = _discounted(rewards, gamma)
    gained = _discounted([gamma * after for after in potentials[1:]], gamma)
    spent = _discounted([-before for before in potentials[:-1]], gamma)
    boundary = [_discount(potentials[-1], gamma, len(rewards)), -potentials[0]]
    return _sum(base), _sum(base + gained + spent), _sum(base + boundary)


def semi_markov_return(rewards, durations, gamma):
    """Macro-rewards, each discounted by the durations before it."""
    rewards, gamma = _vector(rewards, "rewards"), _unit(gamma, "gamma")
    array = _fit(_leaves(durations, "durations"), (len(rewards),), "rewards")
    lengths = [_whole(x, array.where(k)) for k, x in enumerate(array.flat)]
    _require(array._replace(flat=lengths), lambda n: n >= 1, "a positive integer")
    starts = itertools.accumulate(lengths, initial=0)
    return _sum(_discount(r, gamma, start) for r, start in zip(rewards, starts, strict=False))


def collector_target(reward, next_value, *, gamma, terminated):
    """r + gamma V', or r alone after a termination; the arguments broadcast."""
    reward, following = _finite(reward, "reward"), _array(next_value, "next_value")
    gamma, ended = _unit(gamma, "gamma"), _array(terminated, "terminated")
    _require(ended, lambda x: x in (0, 1), "0 or 1")
    arrays = [reward, following, ended]
    shape = _broadcast(arrays)
    targets = []
    for r, v, e in zip(*(_spread(array, shape) for array in arrays), strict=True):
        if ended.flat[e]:
            targets.append(reward.flat[r])
            continue
        value = following.flat[v]
        if not math.isfinite(value):
            _refuse(following.where(v), "finite where the episode goes on", value)
        targets.append(_sum([reward.flat[r], gamma * value]))
    return _nest(targets, shape)


def macro_action_logprob(logprobs):
    """Log-probability of a turn: the sum over its tokens."""
    array = _array(logprobs, "logprobs")
    (length,) = _dims(array, 1)
    if length == 0:
        raise ValueError("logprobs must hold at least one token, got an empty turn")
    _require(array, lambda x: x <= 0, "at most 0")
    return _sum(array.flat)


def turn_probability_ratio(current, behavior):
    """exp of the summed log-ratio of one turn."""
    current, behavior = _array(current, "current"), _array(behavior, "behavior")
    _dims(current, 1)
    _fit(behavior, current.shape, "current")
    active = [True] * len(current.flat)
    return _ratio(current, behavior, range(len(active)), active)


def _ratio(new: _Array, old: _Array, row: range, active: list) -> float:
    """exp(sum(new - old)) over the active positions of a row."""
    used = [i for i in row if active[i]]
    for i in used:
        if not new.flat[i] < INF:
            _refuse(new.where(i), "finite or -inf", new.flat[i])
        if not math.isfinite(old.flat[i]):
            _refuse(old.where(i), "finite", old.flat[i])
    return _exp(_sum([new.flat[i] for i in used] + [-old.flat[i] for i in used]))


def semantic_action_probability(string_probabilities, parser, action):
    """Probability that a sampled string is read as the action."""
    if not isinstance(string_probabilities, Mapping):
        raise TypeError(f"string_probabilities must be a mapping, got {string_probabilities!r}")
    if not isinstance(parser, Mapping) and not callable(parser):
        raise TypeError(f"parser must be a mapping or callable, got {parser!r}")
    mass = {}
    for string, value in string_probabilities.items():
        label = f"string_probabilities[{string!r}]"
        mass[string] = _scalar(value, label)
        if mass[string] < 0:
            _refuse(label, "at least 0", mass[string])
    total = _sum(mass.values())
    if total > 1 + 1e-9:
        raise ValueError(f"string_probabilities must sum to at most 1, got the sum {total!r}")
    return _sum(m for string, m in mass.items() if _means(string, parser, action))


def _means(string, parser, action) -> bool:
    """Whether the parser reads a string as the action; an unknown string is no action."""
    try:
        found = parser.get(string) if isinstance(parser, Mapping) else parser(string)
    except LookupError:
        return False
    return found is not None and bool(found == action)


def informative_group_probability(p, group_size):
    """1 - p^G - (1-p)^G: the chance that a group holds both outcomes."""
    p, size = _unit(p, "p"), _integer(group_size, "group_size")
    if size < 1:
        _refuse("group_size", "at least 1", size)
    rare = min(p, 1 - p)  # the formula is symmetric, and 1 - p is exact for p >= 1/2
    if size == 1 or rare == 0:
        return 0.0
    never_rare = _to_float(Fraction(math.log1p(-rare)) * size)
    return -math.expm1(never_rare) - _discount(1.0, rare, size)


_ROLES = (
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
    "environment",
    "observation",
)


def trajectory_mask_report(segments):
    """How many tokens of a trajectory are the policy's own."""
    if hasattr(segments, "tolist"):
        segments = segments.tolist()
    if not _is_list(segments):
        raise TypeError(f"segments must be a list of (role, tokens) pairs, got {segments!r}")
    policy = total = 0
    for i, segment in enumerate(segments):
        if not _is_list(segment) or len(segment) != 2:
            _refuse(f"segments[{i}]", "a (role, tokens) pair", segment)
        role, count = segment[0], _integer(segment[1], f"segments[{i}]")
        if role not in _ROLES:
            _refuse(f"segments[{i}]", f"of a role among {', '.join(_ROLES)}", role)
        if count < 0:
            _refuse(f"segments[{i}]", "a token count of at least 0", count)
        total += count
        policy += count if role == "assistant" else 0
    if policy == 0:
        raise ValueError("segments must hold a token of the assistant, got 0 policy tokens")
    return {
        "policy_tokens": policy,
        "total_tokens": total,
        "masked_fraction": (total - policy) / total,
        "dilution_factor": total / policy,
    }


# -- Rollout records --------------------------------------------------------------------------

_TRUNCATION_ONLY = ("length", "timeout", "collector_limit", "max_tokens", "max_turns")
_TERMINATION_ONLY = ("success", "failure", "eos", "goal", "trap", "task_horizon")


def validate_rollout_record(record):
    """Everything that is wrong with a rollout record, as a list of sentences."""
    if not isinstance(record, Mapping):
        return [f"record must be a mapping, got {_show(record)}"]
    turns = record.get("turns")
    turns = list(turns) if isinstance(turns, (list, tuple)) else []
    return [
        *_identity_violations(record),
        *_version_violations(record, len(turns)),
        *_turns_violations(record, turns),
        *_stop_violations(record, turns),
        *_staleness_violations(record, len(turns)),
    ]


def _show(value) -> str:
    """A short repr that never raises."""
    text = f"<{type(value).__name__}>"
    with contextlib.suppress(Exception):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _plain(value):
    """A NumPy or torch value as lists and Python numbers; never raises."""
    with contextlib.suppress(Exception):
        return value.tolist()
    return value


def _real(value):
    """A number as a float, or None for anything else, booleans included."""
    value = _plain(value)
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return _to_float(value)
    return None


def _is_logprob(value) -> bool:
    """Whether a value is a finite log-probability."""
    number = _real(value)
    return number is not None and math.isfinite(number) and number <= 0


def _identity_violations(record):
    """Violations of the texts that name the task."""
    for key in ("task_id", "environment_version"):
        value = record.get(key)
        if not isinstance(value, str) or not value:
            yield f"{key} must be a non-empty text, got {_show(value)}"


def _version(record, turn: int):
    """The policy version of a turn, under an integer or a text key; None if absent."""
    versions = record.get("policy_versions")
    if not isinstance(versions, Mapping):
        return None
    value = versions.get(turn)
    return versions.get(str(turn)) if value is None else value


def _version_violations(record, count: int):
    """Violations of the map from turns to policy versions."""
    versions = record.get("policy_versions")
    if not isinstance(versions, Mapping):
        yield f"missing policy versions: policy_versions is no mapping, got {_show(versions)}"
        return
    absent = [turn for turn in range(count) if _version(record, turn) is None]
    if absent:
        yield f"missing policy versions for turns {absent}, got {_show(versions)}"


def _turns_violations(record, turns: list):
    """Violations of the list of turns and of each turn in it."""
    if not turns:
        yield f"turns must be a non-empty list of mappings, got {_show(record.get('turns'))}"
    for i, turn in enumerate(turns):
        if isinstance(turn, Mapping):
            for text in _turn_violations(turn, i, len(turns) - 1):
                yield f"turns[{i}]: {text}"
        else:
            yield f"turns[{i}] must be a mapping, got {_show(turn)}"


def _turn_violations(turn, i: int, last: int):
    """Violations of one turn."""
    if _real(turn.get("turn")) != i:
        yield f"turn must be the integer {i}, got {_show(turn.get('turn'))}"
    for key in ("observation", "action"):
        if key not in turn:
            yield f"missing {key}"
    if not _is_logprob(turn.get("behavior_logprob")):
        got = _show(turn.get("behavior_logprob"))
        yield f"behavior_logprob must be finite and at most 0, got {got}"
    reward = _real(turn.get("reward"))
    if reward is None or not math.isfinite(reward):
        yield f"reward must be finite, got {_show(turn.get('reward'))}"
    for key in ("terminated", "truncated"):
        flag = _plain(turn.get(key))
        if not isinstance(flag, bool):
            yield f"{key} must be a boolean, got {_show(turn.get(key))}"
        elif flag and i < last:
            yield f"{key} may be true only on the last turn, got True"
    yield from _token_violations(turn)


def _token_violations(turn):
    """Violations of the optional tokens of a turn."""
    ids, logprobs = _plain(turn.get("token_ids")), _plain(turn.get("token_logprobs"))
    if ids is None and logprobs is None:
        return
    lists = True
    for key, value in (("token_ids", ids), ("token_logprobs", logprobs)):
        if not _is_list(value):
            lists = False
            yield f"{key} must be a list where the turn has tokens, got {_show(value)}"
    if not lists:
        return
    if len(ids) != len(logprobs):
        yield f"token_logprobs must be as long as token_ids ({len(ids)}), got {len(logprobs)}"
    for k, token in enumerate(map(_plain, ids)):
        if not _is_id(token) or token < 0:
            yield f"token_ids[{k}] must be an integer of at least 0, got {_show(token)}"
    for k, value in enumerate(logprobs):
        if not _is_logprob(value):
            yield f"token_logprobs[{k}] must be finite and at most 0, got {_show(value)}"
    whole = turn.get("behavior_logprob")
    if _is_logprob(whole) and all(map(_is_logprob, logprobs)):
        total = _sum(map(_real, logprobs))
        if not math.isclose(total, _real(whole), rel_tol=1e-6, abs_tol=1e-6):
            yield f"token_logprobs must sum to behavior_logprob {_show(whole)}, got {total!r}"


def _stop_violations(record, turns: list):
    """Violations of the stop reason, given the flags of the last turn."""
    if "stop_reason" not in record:
        yield "missing stop_reason"
        return
    reason = record["stop_reason"]
    if reason is not None and (not isinstance(reason, str) or not reason):
        yield f"stop_reason must be a non-empty text or None, got {_show(reason)}"
        return
    last = turns[-1] if turns and isinstance(turns[-1], Mapping) else {}
    terminated, truncated = _plain(last.get("terminated")), _plain(last.get("truncated"))
    if not isinstance(terminated, bool) or not isinstance(truncated, bool):
        return  # the flags are at fault, and reported already
    if reason is None:
        if terminated or truncated:
            yield "stop_reason must be a text where an episode ended, got None"
    elif not (terminated or truncated):
        yield f"stop_reason must be None where neither flag is set, got {_show(reason)}"
    elif not truncated and reason in _TRUNCATION_ONLY:
        yield f"stop_reason must agree with a termination, got {_show(reason)}"
    elif not terminated and reason in _TERMINATION_ONLY:
        yield f"stop_reason must agree with a truncation, got {_show(reason)}"


def _staleness_violations(record, count: int):
    """Violations of the optional limit on staleness."""
    if record.get("max_staleness") is None:
        return
    limit, learner = _real(record["max_staleness"]), _real(record.get("learner_version"))
    if limit is None or not limit >= 0:
        yield f"max_staleness must be at least 0, got {_show(record['max_staleness'])}"
    if record.get("learner_version") is None:
        yield "learner_version must accompany max_staleness, got None"
    elif learner is None or not math.isfinite(learner):
        yield f"learner_version must be a finite number, got {_show(record['learner_version'])}"
    for turn in range(count):
        raw = _version(record, turn)
        version = _real(raw)
        if raw is None:
            continue  # reported as missing
        if version is None or not math.isfinite(version):
            yield f"policy_versions[{turn}] must be a number to bound staleness, got {_show(raw)}"
        elif limit is not None and learner is not None and learner - version > limit:
            yield (
                f"turns[{turn}] is stale: policy version {_show(raw)}, "
                f"learner version {learner:g}, max_staleness {limit:g}"
            )


# ---------------------------------------------------------------------------------------------
# Token probabilities
# ---------------------------------------------------------------------------------------------


def stable_log_softmax(logits, axis=-1):
    """(x - max) - log of the sum of exp(x - max), along an axis."""
    array = _array(logits, "logits")
    result = [0.0] * len(array.flat)
    for row in _rows(array.shape, _axis(axis, array)):
        for i, value in zip(row, _normalised(array, row), strict=True):
            result[i] = value
    return _nest(result, array.shape)


def causal_response_logprobs(logits, input_ids, response_mask):
    """Log-probability of each next token, and the mask moved along with it."""
    ids = _ids(input_ids, "input_ids")
    batch, length = shape = _dims(ids, 2)
    mask = _flags(response_mask, "response_mask", shape, "input_ids")
    for b in range(batch):
        if length and mask[b * length]:
            raise ValueError(f"response_mask[{b}, 0] must be 0: nothing predicts it, got 1")
    vocabulary = _vocabulary(logits, batch, length)
    selected, shifted = [], []
    for b in range(batch):
        start = b * length
        shifted.append(mask[start + 1 : start + length])
        selected.append([])
        for t in range(length - 1):  # one row of logits at a time
            row = _array(logits[b][t], "logits", (b, t))
            _fit(row, (vocabulary,), "the other rows of logits")
            selected[b].append(_token_score(row, ids, start + t + 1, mask[start + t + 1]))
    return selected, shifted


def _length(value, label: str) -> int:
    """The length of an array-like, without copying it."""
    shape = getattr(value, "shape", None)
    if shape:
        return shape[0]
    if shape is None and _is_list(value):
        return len(value)
    _number(_plain(value), label)
    raise ValueError(f"{label} must be an array, got {value!r}")


def _vocabulary(logits, batch: int, length: int) -> int:
    """The size V of logits [B, L, V], whose B and L must be as given."""
    if _length(logits, "logits") != batch:
        raise ValueError(f"logits must hold {batch} sequences, got {_length(logits, 'logits')}")
    for b in range(batch):
        got = _length(logits[b], f"logits[{b}]")
        if got != length:
            raise ValueError(f"logits[{b}] must hold {length} positions, got {got}")
    if batch == 0 or length == 0:
        return 0
    size = _length(logits[0][0], "logits[0, 0]")
    if size == 0 and length > 1:
        raise ValueError("logits needs at least one token in a row, got a vocabulary of 0")
    return size


def _token_score(row: _Array, ids: _Array, position: int, active: bool) -> float:
    """Log-probability of one token; NaN where it has none and is not counted."""
    token, scale = ids.flat[position], _normaliser(row.flat)
    known = 0 <= token < len(row.flat)
    if active and not known:
        _refuse(ids.where(position), f"in [0, {len(row.flat)})", token)
    if active and scale is None:
        _refuse_row(row, range(len(row.flat)))
    if not known or scale is None:
        return NAN
    top, log_total = scale
    return (row.flat[token] - top) - log_total


def masked_sequence_metrics(selected, mask):
    """Token count, summed log-probability and perplexity of each sequence."""
    array = _array(selected, "selected")
    shape = _dims(array, 2)
    active = _flags(mask, "mask", array.shape, "selected")
    _require(array, math.isfinite, "finite where the mask is 1", active)
    counts, sums, perplexities = [], [], []
    for row in _rows(shape, 1):
        kept = [array.flat[i] for i in row if active[i]]
        counts.append(len(kept))
        sums.append(_sum(kept))
        perplexities.append(_exp(-_mean(kept)) if kept else NAN)
    return {"token_count": counts, "sum_logprob": sums, "perplexity": perplexities}


def exact_kl_from_logits(q_logits, p_logits, axis=-1):
    """KL(q || p) of each pair of rows."""
    q, p = _array(q_logits, "q_logits"), _array(p_logits, "p_logits")
    _fit(p, q.shape, "q_logits")
    axis = _axis(axis, q)
    rows = [_row_kl(_normalised(q, row), _normalised(p, row)) for row in _rows(q.shape, axis)]
    return _nest(rows, q.shape[:axis] + q.shape[axis + 1 :])


def _row_kl(log_q: list, log_p: list) -> float:
    """KL(q || p) from log-probabilities."""
    terms = []
    for a, b in zip(log_q, log_p, strict=True):
        if a > -INF and b == -INF:
            return INF
        weight = math.exp(a)
        terms.append(weight * (a - b) if weight else 0.0)
    return max(0.0, _sum(terms))


def kl_estimator_moments(p, q):
    """Exact means and standard deviations of k1, k2, k3 under samples from q, with r = p/q."""
    p, q = _probabilities(p, "p", 1), _probabilities(q, "q", 1)
    _fit(q, p.shape, "p")
    pairs = [(a, b) for a, b in zip(p.flat, q.flat, strict=True) if b > 0]
    if any(a == 0 for a, _ in pairs):
        names = ("k1_mean", "k1_std", "k2_mean", "k2_std", "k3_mean", "k3_std")
        return dict.fromkeys(("exact_kl", *names), INF)
    triples = [(a, b, _log_ratio(a, b)) for a, b in pairs]
    kl = _sum(-b * x for _, b, x in triples)
    k2_mean = _sum(b * x * x / 2 for _, b, x in triples)
    k3_mean = _sum(term for a, b, x in triples for term in (a, -b, -b * x))
    return {
        "exact_kl": max(0.0, kl),
        "k1_mean": kl,
        "k1_std": math.hypot(*(math.sqrt(b) * (-x - kl) for _, b, x in triples)),
        "k2_mean": k2_mean,
        "k2_std": math.hypot(*(math.sqrt(b) * (x * x / 2 - k2_mean) for _, b, x in triples)),
        "k3_mean": max(0.0, k3_mean),
        "k3_std": math.hypot(*(_k3_spread(*triple, k3_mean) for triple in triples)),
    }


def _log_ratio(a: float, b: float) -> float:
    """log(a / b), also where the quotient leaves the range of floats."""
    quotient = a / b
    return math.log(quotient) if 1e-300 < quotient < 1e300 else math.log(a) - math.log(b)


def _k3_spread(p: float, q: float, log_ratio: float, mean: float) -> float:
    """sqrt(q) (k3 - mean), also where p/q leaves the range of floats."""
    if p / q < INF:
        return math.sqrt(q) * (p / q - 1 - log_ratio - mean)
    return p / math.sqrt(q) - math.sqrt(q) * (1 + log_ratio + mean)


_PROCESSORS = ("temperature", "top_k", "top_p")


def decoding_distribution_with_order(logits, *, temperature, top_k, top_p, order):
    """Probabilities after the processors, applied in the given order."""
    array = _array(logits, "logits")
    _dims(array, 1)
    order = _checked_order(order)
    if "temperature" in order:
        temperature = _scalar(temperature, "temperature")
        if temperature <= 0:
            _refuse("temperature", "above 0", temperature)
    if "top_k" in order:
        top_k = _integer(top_k, "top_k")
        if top_k < 1:
            _refuse("top_k", "at least 1", top_k)
    if "top_p" in order:
        top_p = _unit(top_p, "top_p")
    if _normaliser(array.flat) is None:
        _refuse_row(array, range(len(array.flat)))
    top = max(array.flat)
    scores = [x - top for x in array.flat]  # the best score stays 0, a dropped one is -inf
    for name in order:
        if name == "temperature":
            scores = [x / temperature for x in scores]
        elif name == "top_k":
            cut = sorted(scores, reverse=True)[min(top_k, len(scores)) - 1]
            scores = [x if x >= cut else -INF for x in scores]
        else:
            scores = _nucleus(scores, top_p)
    weights = [math.exp(x) for x in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _checked_order(order) -> list:
    """The names of the processors to apply: known ones, none twice."""
    order = _plain(order)
    if not _is_list(order):
        raise TypeError(f"order must be a list of processor names, got {order!r}")
    for i, name in enumerate(order):
        if name not in _PROCESSORS:
            _refuse(f"order[{i}]", f"one of {', '.join(_PROCESSORS)}", name)
        if name in order[:i]:
            _refuse(f"order[{i}]", "named once", name)
    return list(order)


def _nucleus(scores: list, top_p: float) -> list:
    """Keep the best scores until their share of the probability reaches top_p."""
    if top_p == 1:
        return scores
    total = math.fsum(map(math.exp, scores))
    ranked = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    result, mass = [-INF] * len(scores), 0.0
    for i in ranked:
        result[i] = scores[i]
        mass += math.exp(scores[i])
        if mass / total >= top_p:
            break
    return result


def behavior_logprob(distribution, token):
    """Log of the probability of a token."""
    array = _probabilities(distribution, "distribution", 1)
    token = _integer(token, "token")
    if not 0 <= token < len(array.flat):
        _refuse("token", f"in [0, {len(array.flat)})", token)
    probability = array.flat[token]
    return math.log(probability) if probability > 0 else -INF


def sequence_logprob_ratio(new_logprobs, old_logprobs, mask=None):
    """exp of the summed log-ratio, along the last axis."""
    new, old = _array(new_logprobs, "new_logprobs"), _array(old_logprobs, "old_logprobs")
    _fit(old, new.shape, "new_logprobs")
    axis = _axis(-1, new)
    active = [True] * len(new.flat)
    if mask is not None:
        active = _flags(mask, "mask", new.shape, "new_logprobs")
    ratios = [_ratio(new, old, row, active) for row in _rows(new.shape, axis)]
    return _nest(ratios, new.shape[:-1])


def classify_stop_event(reason, *, terminal_reasons, truncation_reasons):
    """Whether a stop reason terminates, truncates, both, or neither."""
    return {
        "reason": reason,
        "terminated": reason in _reasons(terminal_reasons, "terminal_reasons"),
        "truncated": reason in _reasons(truncation_reasons, "truncation_reasons"),
    }


def _reasons(value, name: str) -> list:
    """A collection of reasons; a lone text is refused."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a collection of reasons, got {value!r}")
    return list(value)


# -- Rollout batches --------------------------------------------------------------------------

_TOKEN_FIELDS = ("response_ids", "response_mask", "old_logprobs", "ref_logprobs")
_ROW_FIELDS = ("sequence_rewards", "terminated", "truncated", "stop_reason")


def validate_rollout_batch(batch):
    """A summary of a sound batch; one ValueError with every violation otherwise."""
    if not isinstance(batch, Mapping):
        raise TypeError(f"batch must be a mapping, got {batch!r}")
    violations: list[str] = []
    fields = _batch_fields(batch, violations)
    size = max((array.shape[0] for array in fields.values()), default=0)
    for b in range(size):
        rows = {name: _batch_row(array, b) for name, array in fields.items()}
        violations += [f"row {b}: {text}" for text in _row_violations(rows, b)]
    if violations:
        raise ValueError("; ".join(violations))
    ended = [x == 1 for x in fields["terminated"].flat]
    cut = [x == 1 for x in fields["truncated"].flat]
    return {
        "batch_size": size,
        "active_tokens": sum(x == 1 for x in fields["response_mask"].flat),
        "terminated_sequences": sum(ended),
        "truncated_sequences": sum(cut),
        "unfinished_sequences": sum(not (e or c) for e, c in zip(ended, cut, strict=True)),
    }


def _batch_fields(batch, violations: list) -> dict:
    """The fields that have the right shape; the others are reported and left out."""
    fields: dict[str, Any] = {}
    shapes: dict[int, tuple] = {}
    for name in _TOKEN_FIELDS + _ROW_FIELDS:
        if name not in batch:
            violations.append(f"missing {name}")
            continue
        try:
            array = _leaves(batch[name], name)
            shape = _dims(array, 2 if name in _TOKEN_FIELDS else 1)
            expected = shapes.setdefault(len(shape), shape)
            _fit(array, expected, "the other fields")
            _fit(array._replace(shape=shape[:1]), shapes.setdefault(0, shape[:1]), "the batch")
        except ValueError as error:
            violations.append(str(error))
        else:
            fields[name] = array._replace(shape=shape)
    return fields


def _batch_row(array: _Array, b: int) -> list:
    """The elements of one row."""
    width = math.prod(array.shape[1:])
    return array.flat[b * width : (b + 1) * width]


def _row_violations(rows: dict, b: int):
    """Violations of one sequence, with the fields that could be read."""
    mask = rows.get("response_mask", [])
    for t, flag in enumerate(mask):
        if not _is_flag(flag):
            yield f"response_mask[{b}, {t}] must be 0 or 1, got {_show(flag)}"
    for name, accept, rule in (
        ("response_ids", lambda x: _is_id(x) and x >= 0, "an integer of at least 0"),
        ("old_logprobs", _is_logprob, "finite and at most 0"),
        ("ref_logprobs", lambda x: _real(x) is not None and _real(x) <= 0, "at most 0"),
    ):
        for t, (x, flag) in enumerate(zip(rows.get(name, []), mask, strict=False)):
            if not isinstance(x, numbers.Real):
                yield f"{name}[{b}, {t}] must be a number, got {_show(x)}"
            elif _is_flag(flag) and flag == 1 and not accept(x):
                yield f"{name}[{b}, {t}] must be {rule} where the mask is 1, got {_show(x)}"
    for x in rows.get("sequence_rewards", []):
        if not isinstance(x, numbers.Real) or not math.isfinite(_to_float(x)):
            yield f"sequence_rewards[{b}] must be finite, got {_show(x)}"
    finished = False
    for name in ("terminated", "truncated"):
        for x in rows.get(name, []):
            if not _is_flag(x):
                yield f"{name}[{b}] must be 0 or 1, got {_show(x)}"
            finished = finished or (_is_flag(x) and x == 1)
    for x in rows.get("stop_reason", []):
        if x is not None and not isinstance(x, str):
            yield f"stop_reason[{b}] must be a text or None, got {_show(x)}"
        elif finished and not x:
            yield f"stop_reason[{b}] must be given for a finished sequence, got {_show(x)}"


def _is_flag(value) -> bool:
    """Whether a value is 0 or 1, of any numeric type."""
    return isinstance(value, numbers.Real) and value in (0, 1)


# ---------------------------------------------------------------------------------------------
# Q-learning and offline RL
# ---------------------------------------------------------------------------------------------


def return_to_go(rewards, gamma=1.0):
    """R_t = r_t + gamma R_{t+1}."""
    rewards, gamma = _vector(rewards, "rewards"), _unit(gamma, "gamma")
    totals, following = [], 0.0
    for reward in reversed(rewards):
        following = reward + gamma * following
        totals.append(following)
    if not all(map(math.isfinite, totals)):  # too large in between: sum each on its own
        return [_sum(_discounted(rewards[t:], gamma)) for t in range(len(rewards))]
    return totals[::-1]


def _transitions(rewards, terminal, **tables) -> tuple:
    """Rewards, flags and [N, A] tables; terminal rows of a table may hold anything."""
    rewards = _vector(rewards, "rewards")
    ended = _flags(terminal, "terminal", (len(rewards),), "rewards")
    result, actions = [], None
    for name, value in tables.items():
        array = _array(value, name)
        shape = _dims(array, 2)
        actions = shape[1] if actions is None else actions
        _fit(array, (len(rewards), actions), "the rewards and actions")
        if rewards and actions == 0:
            raise ValueError(f"{name} needs at least one action, got shape {shape}")
        active = [not end for end in ended for _ in range(actions)]
        _require(array, math.isfinite, "finite where the episode goes on", active)
        result.append(_nest(array.flat, shape))
    return rewards, ended, result


def _targets(rewards, ended, gamma, following) -> list:
    """r + gamma times the value that ``following(row)`` computes, or r alone at the end."""
    return [
        r if end else _sum([r, *(gamma * term for term in following(i))])
        for i, (r, end) in enumerate(zip(rewards, ended, strict=True))
    ]


def dqn_targets(rewards, terminal, next_q, gamma):
    """r + gamma (1 - d) max_a Q'(s', a)."""
    rewards, ended, (table,) = _transitions(rewards, terminal, next_q=next_q)
    return _targets(rewards, ended, _unit(gamma, "gamma"), lambda i: [max(table[i])])


def double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma):
    """r + gamma (1 - d) Q_target at the first action that is best for Q_online."""
    rewards, ended, (online, target) = _transitions(
        rewards, terminal, online_next_q=online_next_q, target_next_q=target_next_q
    )

    def chosen(i):
        return [target[i][online[i].index(max(online[i]))]]

    return _targets(rewards, ended, _unit(gamma, "gamma"), chosen)


def fqe_targets(rewards, terminal, next_q, policy_probs, gamma):
    """r + gamma (1 - d) times the mean of Q' under the policy."""
    rewards, ended, (table,) = _transitions(rewards, terminal, next_q=next_q)
    shape = (len(rewards), len(table[0]) if table else 0)
    policy = _fit(_probabilities(policy_probs, "policy_probs", 2), shape, "next_q")
    policy = _nest(policy.flat, shape)

    def expected(i):
        return [share * value for share, value in zip(policy[i], table[i], strict=True)]

    return _targets(rewards, ended, _unit(gamma, "gamma"), expected)


def cql_discrete_penalty(q_values, action):
    """logsumexp(Q) - Q[action], for one row or for each row of a batch."""
    values, actions = _finite(q_values, "q_values"), _leaves(action, "action")
    if not actions.shape:
        _dims(values, 1)
        return _penalty(values, range(len(values.flat)), _integer(action, "action"), "action")
    shape = _dims(values, 2)
    actions = _fit(_ids(action, "action"), shape[:1], "q_values")
    return [
        _penalty(values, row, actions.flat[n], actions.where(n))
        for n, row in enumerate(_rows(shape, 1))
    ]


def _penalty(values: _Array, row: range, action: int, label: str) -> float:
    """The penalty of one row."""
    if not 0 <= action < len(row):
        _refuse(label, f"in [0, {len(row)})", action)
    return max(0.0, -_normalised(values, row)[action])


def expectile_loss(differences, expectile=0.7, *, reduction="mean"):
    """|tau - 1[u < 0]| u^2, averaged or term by term."""
    array, tau = _finite(differences, "differences"), _scalar(expectile, "expectile")
    if not 0 < tau < 1:
        _refuse("expectile", "strictly between 0 and 1", tau)
    if reduction not in ("mean", "none"):
        _refuse("reduction", "'mean' or 'none'", reduction)
    terms = [(1 - tau if u < 0 else tau) * u * u for u in array.flat]
    if reduction == "none":
        return _nest(terms, array.shape)
    if not terms:
        raise ValueError("differences must hold an element to average, got none")
    return _mean(terms)


def iql_advantage_weights(advantages, beta=3.0, max_weight=100.0):
    """min(exp(beta A), max_weight)."""
    array = _finite(advantages, "advantages")
    beta, cap = _scalar(beta, "beta"), _scalar(max_weight, "max_weight")
    if beta < 0:
        _refuse("beta", "at least 0", beta)
    if cap <= 0:
        _refuse("max_weight", "above 0", cap)
    return _nest([min(_exp(beta * a), cap) for a in array.flat], array.shape)


def behavior_support_mask(probabilities, threshold_ratio):
    """Whether each action is likely enough beside the likeliest, along the last axis."""
    array = _finite(probabilities, "probabilities")
    ratio = _unit(threshold_ratio, "threshold_ratio")
    _require(array, lambda x: x >= 0, "at least 0")
    result: list[bool] = []
    for row in _rows(array.shape, _axis(-1, array)):
        values = [array.flat[i] for i in row]
        best = max(values, default=0.0)
        if best == 0:
            label = array.where(row[0]) if row else array.name
            raise ValueError(f"{label} starts a row without a positive entry, got {values!r}")
        result += [value / best >= ratio for value in values]
    return _nest(result, array.shape)


# ---------------------------------------------------------------------------------------------
# Policy gradients for LLMs
# ---------------------------------------------------------------------------------------------


def _choice(value, name: str, choices: tuple) -> str:
    """One of a few texts."""
    if isinstance(value, str) and value in choices:
        return str(value)
    return _refuse(name, f"one of {', '.join(map(repr, choices))}", value)


# -- Advantages over time ---------------------------------------------------------------------

_WIDE = decimal.Context(prec=60, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def _streams(array: _Array) -> list:
    """The flat positions of each stream of [T] or [B, T], in order."""
    if len(array.shape) not in (1, 2):
        raise ValueError(f"{array.name} must be [T] or [B, T], got shape {array.shape}")
    return list(_rows(array.shape, len(array.shape) - 1))


def _traced(steps: list, gamma: float, lam: float) -> list:
    """The (advantage, lambda-return) of each step of one stream.

    A step is its rewards, its value, the value it bootstraps from, and whether the trace stops
    there. Decimals of any exponent: nothing in between overflows or underflows.
    """
    pairs = []
    with decimal.localcontext(_WIDE):
        discount, trace = Decimal(gamma), Decimal(gamma) * Decimal(lam)
        carried = Decimal(0)
        for rewards, value, after, stops in reversed(steps):
            target = sum(map(Decimal, rewards)) + discount * Decimal(after)
            if not stops:
                target += trace * carried
            carried = target - Decimal(value)
            pairs.append((float(carried), float(target)))
    return pairs[::-1]


def _advantage_pairs(rewards, values, next_values, gamma, lam, terminated, truncated) -> tuple:
    """The (advantage, lambda-return) of every step of every stream, and the shape."""
    rewards, values = _finite(rewards, "rewards"), _finite(values, "values")
    streams, shape = _streams(rewards), rewards.shape
    following = _array(next_values, "next_values")
    for array in (values, following):
        _fit(array, shape, "rewards")
    gamma, lam = _unit(gamma, "gamma"), _unit(lam, "lam")
    ended = _flags(terminated, "terminated", shape, "rewards")
    cut = _flags(truncated, "truncated", shape, "rewards")
    rule = "finite where the episode does not terminate"
    _require(following, math.isfinite, rule, [not end for end in ended])
    pairs = []
    for row in streams:
        steps = [
            (
                [rewards.flat[i]],
                values.flat[i],
                0.0 if ended[i] else following.flat[i],
                ended[i] or cut[i],
            )
            for i in row
        ]
        pairs += _traced(steps, gamma, lam)
    return pairs, shape


def generalized_advantages(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    """A_t = delta_t + gamma lam A_{t+1}, the last term dropped where an episode ends."""
    pairs, shape = _advantage_pairs(rewards, values, next_values, gamma, lam, terminated, truncated)
    return _nest([advantage for advantage, _ in pairs], shape)


def lambda_returns(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    """Advantages plus values."""
    pairs, shape = _advantage_pairs(rewards, values, next_values, gamma, lam, terminated, truncated)
    return _nest([target for _, target in pairs], shape)


def masked_advantages(token_rewards, values, mask, gamma, lam):
    """GAE over the policy tokens alone; rewards in between belong to the token before them."""
    rewards, values = _finite(token_rewards, "token_rewards"), _array(values, "values")
    streams, shape = _streams(rewards), rewards.shape
    _fit(values, shape, "token_rewards")
    active = _flags(mask, "mask", shape, "token_rewards")
    gamma, lam = _unit(gamma, "gamma"), _unit(lam, "lam")
    _require(values, math.isfinite, "finite where the mask is 1", active)
    result = [0.0] * len(active)
    for row in streams:
        tokens = [i for i in row if active[i]]
        bounds = [*tokens, row.stop]
        steps = [
            (rewards.flat[start:stop], values.flat[start], values.flat[stop], False)
            if stop < row.stop
            else (rewards.flat[start:stop], values.flat[start], 0.0, True)
            for start, stop in itertools.pairwise(bounds)
        ]
        for i, (advantage, _) in zip(tokens, _traced(steps, gamma, lam), strict=True):
            result[i] = advantage
    return _nest(result, shape)


# -- Advantages within groups -----------------------------------------------------------------


def _groups(group_ids, rewards: _Array) -> list:
    """The positions of each group, whose id is a number or a text."""
    ids = _fit(_leaves(group_ids, "group_ids"), rewards.shape, "rewards")
    groups: dict[Any, list] = {}
    for i, name in enumerate(ids.flat):
        if not isinstance(name, str):
            if not isinstance(name, numbers.Real):
                raise TypeError(f"{ids.where(i)} must be a number or a text, got {name!r}")
            if math.isnan(_to_float(name)):
                _refuse(ids.where(i), "a number or a text", name)
        groups.setdefault(name, []).append(i)
    return list(groups.values())


def _deviation(values: list, ddof: int) -> Fraction:
    """The standard deviation, exact but for its square root; 0 for equal values."""
    if not values or max(values) == min(values):
        return Fraction(0)
    spread = Fraction(max(values)) - Fraction(min(values))
    mean = sum(map(Fraction, values)) / len(values)
    squares = [float((Fraction(x) - mean) / spread) ** 2 for x in values]
    return spread * Fraction(math.sqrt(math.fsum(squares) / (len(values) - ddof)))


def group_advantages(rewards, group_ids, *, scale="std", ddof=1, eps=1e-6, valid=None):
    """(r - mean) / (std + eps) within each group; equal rewards and invalid rows give 0."""
    array = _array(rewards, "rewards")
    _dims(array, 1)
    groups = _groups(group_ids, array)
    scale = _choice(scale, "scale", ("std", "none", "batch"))
    ddof, eps = _integer(ddof, "ddof"), _scalar(eps, "eps")
    if ddof not in (0, 1):
        _refuse("ddof", "0 or 1", ddof)
    if eps < 0:
        _refuse("eps", "at least 0", eps)
    counted = [True] * len(array.flat)
    if valid is not None:
        counted = _flags(valid, "valid", array.shape, "rewards")
    _require(array, math.isfinite, "finite where valid", counted)
    everyone = [x for x, counts in zip(array.flat, counted, strict=True) if counts]
    divisor = Fraction(1)
    if scale == "batch":
        divisor = _deviation(everyone, ddof) + Fraction(eps)
    result = [0.0] * len(counted)
    for group in groups:
        members = [i for i in group if counted[i]]
        scores = [array.flat[i] for i in members]
        if not scores or max(scores) == min(scores):
            continue
        if scale == "std":
            divisor = _deviation(scores, ddof) + Fraction(eps)
        mean = sum(map(Fraction, scores)) / len(scores)
        for i, score in zip(members, scores, strict=True):
            result[i] = _to_float((Fraction(score) - mean) / divisor)
    return result


def leave_one_out_advantages(rewards, group_ids):
    """r_i minus the mean of the others in its group."""
    array = _finite(rewards, "rewards")
    _dims(array, 1)
    result = [0.0] * len(array.flat)
    for group in _groups(group_ids, array):
        if len(group) == 1:
            label, name = f"group_ids[{group[0]}]", _leaves(group_ids, "group_ids").flat[group[0]]
            _refuse(label, "shared by another reward", name)
        total = sum(Fraction(array.flat[i]) for i in group)
        for i in group:
            own = Fraction(array.flat[i])
            result[i] = _to_float(own - (total - own) / (len(group) - 1))
    return result


# -- Ratios, losses, KL terms -----------------------------------------------------------------


def importance_ratios(new_logprobs, old_logprobs, mask, *, level="token"):
    """exp(new - old) of each token, or exp of its mean over the tokens of each row."""
    new, old = _array(new_logprobs, "new_logprobs"), _array(old_logprobs, "old_logprobs")
    shape = _dims(new, 2)
    _fit(old, new.shape, "new_logprobs")
    active = _flags(mask, "mask", new.shape, "new_logprobs")
    level = _choice(level, "level", ("token", "sequence"))
    _require(new, lambda x: x < INF, "finite or -inf where the mask is 1", active)
    _require(old, math.isfinite, "finite where the mask is 1", active)
    result = [1.0] * len(active)
    for row in _rows(shape, 1):
        used = [i for i in row if active[i]]
        for i in used:
            if level == "token":
                result[i] = _exp(new.flat[i] - old.flat[i])
        if level == "sequence" and used:
            ratio = _mean_ratio([new.flat[i] for i in used], [old.flat[i] for i in used])
            for i in used:
                result[i] = ratio
    return _nest(result, new.shape)


def _mean_ratio(new: list, old: list) -> float:
    """exp of the mean of new - old."""
    if -INF in new:
        return 0.0
    total = sum(map(Fraction, new)) - sum(map(Fraction, old))
    return _exp(_to_float(total / len(new)))


def clipped_policy_terms(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    """-min(ratio A, clipped ratio A), at most -dual_clip A where A is negative."""
    array, scores = _array(ratios, "ratios"), _finite(advantages, "advantages")
    _fit(scores, array.shape, "ratios")
    _require(array, lambda x: x >= 0, "at least 0")
    low, high = _scalar(clip_low, "clip_low"), _scalar(clip_high, "clip_high")
    if not 0 < low < 1:
        _refuse("clip_low", "strictly between 0 and 1", low)
    if high <= 0:
        _refuse("clip_high", "above 0", high)
    ceiling = INF
    if dual_clip is not None:
        ceiling = _scalar(dual_clip, "dual_clip")
        if ceiling <= 1:
            _refuse("dual_clip", "above 1", ceiling)
    terms = []
    for ratio, score in zip(array.flat, scores.flat, strict=True):
        if score > 0:  # the smaller product has the smaller ratio
            terms.append(-min(ratio, 1 + high) * score)
        elif score < 0:  # and here the larger one
            terms.append(min(max(ratio, 1 - low), ceiling) * -score)
        else:
            terms.append(0.0)
    return _nest(terms, array.shape)


_MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")


def aggregate_token_losses(losses, mask, mode, *, max_length=None):
    """One number from the losses of the policy tokens."""
    array = _array(losses, "losses")
    shape = _dims(array, 2)
    active = _flags(mask, "mask", array.shape, "losses")
    mode = _choice(mode, "mode", _MODES)
    _require(array, math.isfinite, "finite where the mask is 1", active)
    length = 1
    if mode == "seq-mean-token-sum-norm":
        if max_length is None:
            _refuse("max_length", f"given for {mode}", max_length)
        length = _integer(max_length, "max_length")
        if length < 1:
            _refuse("max_length", "a positive integer", length)
    elif max_length is not None:
        _refuse("max_length", f"None for {mode}", max_length)
    rows = [[Fraction(array.flat[i]) for i in row if active[i]] for row in _rows(shape, 1)]
    tokens = [x for row in rows for x in row]
    if not tokens:
        return 0.0
    if mode == "token-mean":
        return _to_float(sum(tokens) / len(tokens))
    if mode == "seq-mean-token-mean":
        means = [sum(row) / len(row) for row in rows if row]
        return _to_float(sum(means) / len(means))
    return _to_float(sum(tokens) / len(rows) / length)


def kl_penalty_terms(logprobs, ref_logprobs, estimator):
    """k1, k2 or k3 of each token, with r = ref / policy."""
    own, ref = _finite(logprobs, "logprobs"), _finite(ref_logprobs, "ref_logprobs")
    _fit(ref, own.shape, "logprobs")
    estimator = _choice(estimator, "estimator", ("k1", "k2", "k3"))
    term = {"k1": lambda x: -x, "k2": lambda x: x / 2 * x, "k3": _k3}[estimator]
    log_ratios = [b - a for a, b in zip(own.flat, ref.flat, strict=True)]
    return _nest([term(x) for x in log_ratios], own.shape)


def _k3(x: float) -> float:
    """exp(x) - 1 - x: its Taylor series near 0."""
    if abs(x) >= 0.5:
        ratio = _exp(x)
        return ratio if ratio == INF else ratio - 1 - x
    factor = 1.0
    for n in range(20, 2, -1):
        factor = 1 + x / n * factor
    return x / 2 * x * factor
