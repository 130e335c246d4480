"""The four function tables of the contract once more, written with PyTorch.

An implementation of its own: it shares no code with the package, so that the laws can be shown
to accept correct work in another style, and so that two derivations can be compared.

How it works. Arguments become float64 tensors (`_array`) or Python floats (`_number`) that are
never written to. A refusal names the argument, the index and the value (`_reject`). Slots that a
mask or a terminal switches off are replaced with `torch.where` before any arithmetic. Sums of
products are linear in their arrays, so a sum that overflows half-way is repeated on smaller
numbers (`_linear`) and ends in ±inf only where the true value does.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import torch

torch.set_num_threads(1)

INF = math.inf
CHUNK_ELEMENTS = 2**19  # 4 MiB of float64: what is upcast at once of a large block of logits
PROBABILITY_TOLERANCE = {"float64": 1e-6, "float32": 1e-4}
PROCESSORS = ("temperature", "top_k", "top_p")

ROLES = (
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
    "environment",
    "observation",
)
TRUNCATION_REASONS = ("length", "timeout", "collector_limit", "max_tokens", "max_turns")
TERMINATION_REASONS = ("success", "failure", "eos", "goal", "trap", "task_horizon")


class ShapedReturns(NamedTuple):
    """The return of the plain rewards, of the shaped ones, and what the theorem predicts."""

    original: float
    shaped: float
    predicted: float


class MaskReport(NamedTuple):
    """How much of a trajectory the policy wrote itself."""

    policy_tokens: int
    total_tokens: int
    masked_fraction: float
    dilution_factor: float


class ResponseLogprobs(NamedTuple):
    """Log-probabilities of the tokens 1 .. L-1 and the mask that goes with them."""

    selected: torch.Tensor
    shifted_mask: torch.Tensor


class SequenceMetrics(NamedTuple):
    """Per row: tokens under the mask, the sum of their log-probabilities, the perplexity."""

    token_count: torch.Tensor
    sum_logprob: torch.Tensor
    perplexity: torch.Tensor


class StopEvent(NamedTuple):
    """A stop reason with the two flags that follow from it."""

    reason: object
    terminated: bool
    truncated: bool


class BatchSummary(NamedTuple):
    """The counts of a sound rollout batch."""

    batch_size: int
    active_tokens: int
    terminated_sequences: int
    truncated_sequences: int
    unfinished_sequences: int


# --- refusals ---------------------------------------------------------------------------------


def _show(value):
    """A short text for any value; it never fails, whatever the value's own repr does."""
    try:
        return reprlib.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _at(name, index):
    """`name[i, j]`, or the bare name for an empty index."""
    return f"{name}[{', '.join(map(str, index))}]" if len(index) else name


def _reject(bad, values, name, rule):
    """Refuse the first entry of `values` that `bad` marks, by its index and value."""
    if bad.any():
        index = bad.nonzero()[0].tolist()
        raise ValueError(f"{_at(name, index)} = {values[tuple(index)].item()} {rule}")


def _require_shape(tensor, shape, name):
    """Refuse any other shape."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {tuple(tensor.shape)}")


def _require_choice(value, choices, name):
    """Refuse what is not one of the texts in `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {_show(value)}")


# --- scalars ----------------------------------------------------------------------------------


def _number(value, name):
    """A finite Python float from any real scalar, 0-d arrays and tensors included."""
    if type(value) is not float:
        if hasattr(value, "ndim") and hasattr(value, "item") and value.ndim == 0:
            value = value.item()
        if isinstance(value, (list, tuple)) or hasattr(value, "ndim"):
            raise ValueError(f"{name} must be a single number, got {_show(value)}")
        if not isinstance(value, (numbers.Real, Decimal)):
            raise TypeError(f"{name} must be a number, got {_show(value)}")
        try:
            value = float(value)
        except OverflowError:
            raise ValueError(f"{name} = {_show(value)} does not fit into float64") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return value


def _unit(value, name):
    """A number in [0, 1]."""
    value = _number(value, name)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {value}")
    return value


def _integer(value, name, low=None):
    """A Python int from an integer or an integral float."""
    number = _number(value, name)
    if not number.is_integer():
        raise ValueError(f"{name} must be an integer, got {number}")
    result = int(value) if isinstance(value, numbers.Integral) else int(number)
    if low is not None and result < low:
        raise ValueError(f"{name} must be at least {low}, got {result}")
    return result


def _axis(axis, tensor, name):
    """A valid axis of `tensor` along which a distribution has at least one element."""
    axis = _integer(axis, "axis")
    if not -tensor.ndim <= axis < tensor.ndim:
        raise ValueError(f"axis = {axis} does not exist in {name} of shape {tuple(tensor.shape)}")
    if tensor.shape[axis] == 0:
        raise ValueError(f"{name} of shape {tuple(tensor.shape)} is empty along axis {axis}")
    return axis


# --- arrays -----------------------------------------------------------------------------------


def _from_objects(array, name):
    """Numbers from an object array, int64 where all of them are integers."""
    items = list(np.ndenumerate(array))
    values = [_element(item, _at(name, index)) for index, item in items]
    if all(isinstance(item, numbers.Integral) for _, item in items):
        try:
            return np.array(values, dtype=object).astype(np.int64).reshape(array.shape)
        except OverflowError:
            pass
    return np.array([float(value) for value in values]).reshape(array.shape)


def _element(item, label):
    """One entry of an object array: an int stays exact, what float64 cannot hold is infinite."""
    if hasattr(item, "item") and getattr(item, "ndim", 1) == 0:
        item = item.item()
    if isinstance(item, numbers.Integral):
        item = int(item)
        return item if abs(item) < 2**1023 else (INF if item > 0 else -INF)
    if not isinstance(item, (numbers.Real, Decimal)):
        raise TypeError(f"{label} must be a number, got {_show(item)}")
    try:
        return float(item)
    except OverflowError:
        return INF if item > 0 else -INF


def _raw(values, name):
    """The argument as a NumPy array or a detached tensor, in the dtype it was given."""
    if isinstance(values, torch.Tensor):
        if values.is_complex():
            raise TypeError(f"{name} must hold real numbers, got {values.dtype}")
        return values.detach()
    if values is None or isinstance(values, (str, bytes, Mapping, set, frozenset)):
        raise TypeError(f"{name} must hold numbers, got {_show(values)}")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name} is not a rectangular array of numbers: {error}") from None
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind in "OUS":
        return _from_objects(np.asarray(values, dtype=object), name)
    raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")


def _double(raw):
    """A float64 tensor that is never written to; NumPy data, read-only or not, is copied."""
    if isinstance(raw, torch.Tensor):
        return raw.to(torch.float64)
    return torch.from_numpy(raw.astype(np.float64, order="C"))


def _array(values, name, ndim=None):
    """A float64 tensor of any content, with the given number of axes if there is one."""
    tensor = _double(_raw(values, name))
    if ndim is not None and tensor.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {tuple(tensor.shape)}")
    return tensor


def _finite(values, name, ndim=None):
    """A float64 tensor without NaN and infinities."""
    tensor = _array(values, name, ndim)
    _reject(~torch.isfinite(tensor), tensor, name, "must be finite")
    return tensor


def _vector(values, name, length=None):
    """A finite float64 vector, of the given length if there is one."""
    tensor = _finite(values, name, ndim=1)
    if length is not None and len(tensor) != length:
        raise ValueError(f"{name} must have length {length}, got {len(tensor)}")
    return tensor


def _flags(values, name, shape=None):
    """Booleans from 0/1 entries of any dtype."""
    tensor = _array(values, name)
    if shape is not None:
        _require_shape(tensor, shape, name)
    flags = tensor == 1
    _reject(~(flags | (tensor == 0)), tensor, name, "must be 0 or 1")
    return flags


def _identifiers(values, name, shape):
    """int64 ids or actions; an array of floats is refused, integral or not."""
    raw = _raw(values, name)
    _require_shape(raw, shape, name)
    if math.prod(raw.shape) == 0:
        return torch.zeros(tuple(shape), dtype=torch.int64)
    if "float" in str(raw.dtype):
        values = _double(raw)
        broken = values != values.floor()
        bad = broken if broken.any() else torch.ones_like(broken)
        _reject(bad, values, name, "stands in an array of floats; integers are due")
    if isinstance(raw, torch.Tensor):
        return raw.to(torch.int64)
    return torch.from_numpy(raw.astype(np.int64, order="C"))


def _action_table(values, name, rows):
    """A float64 [rows, A] tensor with A >= 1; an empty list is a batch without rows."""
    table = _array(values, name)
    if rows == 0 and table.shape == (0,):
        table = table.reshape(0, 1)
    if table.ndim != 2 or len(table) != rows or table.shape[1] == 0:
        raise ValueError(f"{name} must have shape [{rows}, A], got {tuple(table.shape)}")
    return table


def _probabilities(values, name, rows=None):
    """Distributions along the last axis, as given: checked, not renormalised."""
    raw = _raw(values, name)
    narrow = str(raw.dtype).removeprefix("torch.") in ("float32", "float16", "bfloat16")
    tolerance = PROBABILITY_TOLERANCE["float32" if narrow else "float64"] + 1e-12
    if rows is None:
        tensor = _array(raw, name, ndim=1)
        _axis(-1, tensor, name)
    else:
        tensor = _action_table(raw, name, rows)
    _reject(~((tensor >= 0) & torch.isfinite(tensor)), tensor, name, "is not a probability")
    totals = tensor.sum(-1)
    _reject((totals - 1).abs() > tolerance, totals, f"the sum of {name}", "is not 1")
    return tensor


# --- arithmetic -------------------------------------------------------------------------------


def _linear(function, *arrays):
    """function(*arrays), linear in the arrays together, free of overflow on the way.

    What comes out infinite or NaN is computed again on arrays scaled by a small power of two.
    """
    value = function(*arrays)
    sound = torch.isfinite(value)
    if sound.all():
        return value
    scale = 2.0 ** -(2 + max(array.numel() for array in arrays).bit_length())
    return torch.where(sound, value, function(*(array * scale for array in arrays)) / scale)


def _discount(values, gamma, steps):
    """gamma^steps · values, in three factors: gamma^steps alone may underflow too early."""
    for third in (steps // 3, (steps + 1) // 3, (steps + 2) // 3):
        values = values * gamma**third
    return values


def _discounted_sum(values, gamma):
    """Σ gamma^t v_t as a 0-d tensor."""
    steps = torch.arange(len(values), dtype=torch.float64)
    return _discount(values, gamma, steps).sum()


def _one_step(rewards, values, gamma):
    """r_t + gamma v_{t+1} - v_t."""
    return rewards + gamma * values[1:] - values[:-1]


def _norm(values):
    """The Euclidean norm, without overflow of the squares."""
    largest = values.abs().max()
    return largest * (values / largest).square().sum().sqrt() if largest > 0 else largest


def _centre(logits, name, axis):
    """Logits minus their maximum; NaN, +inf and rows of nothing but -inf are refused."""
    top = logits.amax(axis, keepdim=True)
    if not torch.isfinite(top).all():
        _reject(torch.isnan(logits) | (logits == INF), logits, name, "is not a logit")
        top = top.squeeze(axis)
        _reject(top == -INF, top, name, "throughout: at least one logit must be finite")
    return logits - top


def _log_softmax(logits, name, axis):
    """Log-softmax along one axis, of checked logits."""
    centred = _centre(logits, name, axis)
    return centred - torch.logsumexp(centred, axis, keepdim=True)


def _plain(tensor):
    """A Python float from a 0-d tensor, everything else unchanged."""
    return tensor.item() if tensor.ndim == 0 else tensor


def _probability_ratio(new, old, active, new_name, old_name):
    """exp of the summed differences along the last axis, over the active slots."""
    _reject(active & (torch.isnan(new) | (new == INF)), new, new_name, "is no log-probability")
    _reject(active & ~torch.isfinite(old), old, old_name, "must be finite")
    impossible = active & (new == -INF)
    counted = active & ~impossible
    new, old = torch.where(counted, new, 0.0), torch.where(counted, old, 0.0)
    total = _linear(lambda a, b: (a - b).sum(-1), new, old)
    return torch.where(impossible.any(-1), 0.0, total.exp())


# --- returns, targets, shaping, turns ---------------------------------------------------------


def discounted_return(rewards, gamma):
    """Σ gamma^t r_t."""
    rewards, gamma = _vector(rewards, "rewards"), _unit(gamma, "gamma")
    return _linear(lambda r: _discounted_sum(r, gamma), rewards).item()


def td_residuals(rewards, values, gamma, terminated=None):
    """r_t + gamma (1 - d_t) V_{t+1} - V_t, with V one longer than r."""
    rewards, gamma = _vector(rewards, "rewards"), _unit(gamma, "gamma")
    values = _vector(values, "values", len(rewards) + 1)
    following = values[1:]
    if terminated is not None:
        ended = _flags(terminated, "terminated", rewards.shape)
        following = torch.where(ended, 0.0, following)
    return _linear(lambda r, v, w: r + gamma * w - v, rewards, values[:-1], following)


def discounted_td_sum(deltas, gamma):
    """Σ gamma^t δ_t."""
    deltas, gamma = _vector(deltas, "deltas"), _unit(gamma, "gamma")
    return _linear(lambda d: _discounted_sum(d, gamma), deltas).item()


def potential_shaping(rewards, potentials, gamma):
    """r_t + gamma Φ_{t+1} - Φ_t, with Φ one longer than r."""
    rewards, gamma = _vector(rewards, "rewards"), _unit(gamma, "gamma")
    potentials = _vector(potentials, "potentials", len(rewards) + 1)
    return _linear(lambda r, f: _one_step(r, f, gamma), rewards, potentials)


def shaped_return_identity(rewards, potentials, gamma):
    """(original, shaped, predicted), predicted = original + gamma^T Φ_T - Φ_0."""
    rewards, gamma = _vector(rewards, "rewards"), _unit(gamma, "gamma")
    potentials = _vector(potentials, "potentials", len(rewards) + 1)

    def predict(r, f):
        return _discounted_sum(r, gamma) + _discount(f[-1], gamma, len(r)) - f[0]

    original = _linear(lambda r: _discounted_sum(r, gamma), rewards)
    shaped = _linear(
        lambda r, f: _discounted_sum(_one_step(r, f, gamma), gamma), rewards, potentials
    )
    predicted = _linear(predict, rewards, potentials)
    return ShapedReturns(original.item(), shaped.item(), predicted.item())


def semi_markov_return(rewards, durations, gamma):
    """Σ_k gamma^(τ_0 + … + τ_{k-1}) R_k."""
    rewards, gamma = _vector(rewards, "rewards"), _unit(gamma, "gamma")
    durations = _vector(durations, "durations", len(rewards))
    whole = (durations >= 1) & (durations == durations.floor())
    _reject(~whole, durations, "durations", "is not a positive integer")
    starts = torch.cat([durations.new_zeros(1), durations.cumsum(0)])[: len(rewards)]
    starts = starts.clamp(max=1e300)
    return _linear(lambda r: _discount(r, gamma, starts).sum(), rewards).item()


def collector_target(reward, next_value, *, gamma, terminated):
    """r + gamma V', and r alone where the task itself ended."""
    gamma = _unit(gamma, "gamma")
    reward = _finite(reward, "reward")
    value = _array(next_value, "next_value")
    ended = _flags(terminated, "terminated")
    try:
        reward, wide, ended = torch.broadcast_tensors(reward, value, ended)
    except RuntimeError:
        shapes = [tuple(x.shape) for x in (reward, value, ended)]
        raise ValueError(f"reward, next_value, terminated do not broadcast: {shapes}") from None
    bad = ~ended & ~torch.isfinite(wide)
    if bad.any():
        index = bad.nonzero()[0].tolist()[bad.ndim - value.ndim :]
        index = [0 if size == 1 else i for i, size in zip(index, value.shape, strict=True)]
        shown = value[tuple(index)].item()
        raise ValueError(f"{_at('next_value', index)} = {shown} must be finite here")
    return _plain(reward + gamma * torch.where(ended, 0.0, wide))


def macro_action_logprob(logprobs):
    """The log-probability of a whole turn: the sum over its tokens."""
    logprobs = _array(logprobs, "logprobs", ndim=1)
    if len(logprobs) == 0:
        raise ValueError("logprobs is empty: a turn has at least one token")
    _reject(~(logprobs <= 0), logprobs, "logprobs", "is not a log-probability")
    return logprobs.sum().item()


def turn_probability_ratio(current, behavior):
    """exp(Σ (current - behavior)) of one turn."""
    new, old = _array(current, "current", ndim=1), _array(behavior, "behavior", ndim=1)
    _require_shape(old, new.shape, "behavior")
    active = torch.ones_like(new, dtype=torch.bool)
    return _probability_ratio(new, old, active, "current", "behavior").item()


def semantic_action_probability(string_probabilities, parser, action):
    """The mass of all strings that the parser reads as the action."""
    if not isinstance(string_probabilities, Mapping):
        shown = _show(string_probabilities)
        raise TypeError(f"string_probabilities must map strings to numbers, got {shown}")
    masses = {}
    for string, probability in string_probabilities.items():
        label = f"string_probabilities[{_show(string)}]"
        masses[string] = _number(probability, label)
        if masses[string] < 0:
            raise ValueError(f"{label} = {masses[string]} is negative")
    total = math.fsum(masses.values())
    if total > 1 + 1e-9:
        raise ValueError(f"string_probabilities sum to {total}, more than 1")
    read = _parsing(parser)
    meanings = ((read(string), mass) for string, mass in masses.items())
    return math.fsum(m for meaning, m in meanings if meaning is not None and meaning == action)


def _parsing(parser):
    """The parser as a function that answers None for what it does not know."""
    if isinstance(parser, Mapping):
        return parser.get
    if not callable(parser):
        raise TypeError(f"parser must be a mapping or a callable, got {_show(parser)}")

    def read(string):
        try:
            return parser(string)
        except LookupError:
            return None

    return read


def informative_group_probability(p, group_size):
    """1 - p^G - (1-p)^G: the chance that a group shows both outcomes."""
    p, size = _unit(p, "p"), _integer(group_size, "group_size", low=1)
    if size == 1:
        return 0.0
    rarer = torch.tensor(p if p < 0.5 else 1.0 - p, dtype=torch.float64)
    size = float(size)
    # The difference is exact for p >= 1/2, and the result is symmetric in p and 1 - p.
    return (-torch.expm1(size * torch.log1p(-rarer)) - rarer**size).item()


def trajectory_mask_report(segments):
    """Counts the assistant's tokens among all tokens of (role, tokens) segments."""
    if isinstance(segments, (str, bytes, Mapping)) or not isinstance(segments, Iterable):
        raise TypeError(f"segments must be (role, tokens) pairs, got {_show(segments)}")
    policy = total = 0
    for index, segment in enumerate(segments):
        role, tokens = _segment(segment, f"segments[{index}]")
        total += tokens
        policy += tokens if role == "assistant" else 0
    if policy == 0:
        raise ValueError(f"segments hold no policy token: 0 of {total} tokens are the assistant's")
    return MaskReport(policy, total, (total - policy) / total, total / policy)


def _segment(segment, label):
    """One checked (role, tokens) pair."""
    if isinstance(segment, (str, bytes, Mapping)) or not isinstance(segment, Iterable):
        raise TypeError(f"{label} must be a (role, tokens) pair, got {_show(segment)}")
    pair = tuple(segment)
    if len(pair) != 2:
        raise ValueError(f"{label} must be a (role, tokens) pair, got {_show(segment)}")
    _require_choice(pair[0], ROLES, f"the role of {label}")
    return pair[0], _integer(pair[1], f"the token count of {label}", low=0)


# --- one rollout record -----------------------------------------------------------------------

_MISSING = object()


def validate_rollout_record(record):
    """All violations of the record format, in a fixed order; an empty list when it is sound."""
    if not isinstance(record, Mapping):
        return [f"record must be a mapping, got {_show(record)}"]
    problems = [
        f"{name} must be a non-empty text, got {_show(record.get(name))}"
        for name in ("task_id", "environment_version")
        if not _is_text(record.get(name))
    ]
    turns = record.get("turns")
    if not isinstance(turns, (list, tuple)):
        problems += _version_problems(record, 0)
        problems.append(f"turns must be a list of mappings, got {_show(turns)}")
        turns = []
    else:
        problems += _version_problems(record, len(turns))
        if not turns:
            problems.append("turns is empty: a rollout has at least one turn")
    for index, turn in enumerate(turns):
        problems += _turn_problems(turn, index, last=index == len(turns) - 1)
    problems += _stop_problems(record, turns)
    problems += _staleness_problems(record, len(turns))
    return problems


def _is_text(value):
    """A text that is more than blanks."""
    return isinstance(value, str) and bool(value.strip())


def _is_flag(value):
    """A true boolean: 0 and 1 are none."""
    return isinstance(value, (bool, np.bool_))


def _real(value):
    """A finite number as a Python int or float, None for everything else (booleans too)."""
    if isinstance(value, (np.generic, np.ndarray, torch.Tensor)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, Decimal)):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    if not math.isfinite(number):
        return None
    return int(value) if isinstance(value, numbers.Integral) else number


def _items(value):
    """The entries of a list, tuple, array, tensor or series as a list, otherwise None."""
    if isinstance(value, (list, tuple)):
        return list(value)
    values = value.tolist() if hasattr(value, "tolist") else None
    return values if isinstance(values, list) else None


def _version(record, index):
    """The policy version of a turn, under an integer or a text key; None when absent."""
    versions = record.get("policy_versions")
    if not isinstance(versions, Mapping):
        return None
    version = versions.get(index)
    return versions.get(str(index)) if version is None else version


def _version_problems(record, count):
    """Is there a policy version for each of the `count` turns?"""
    versions = record.get("policy_versions")
    if not isinstance(versions, Mapping):
        return [f"missing policy versions: a mapping is due, got {_show(versions)}"]
    absent = [str(index) for index in range(count) if _version(record, index) is None]
    return [f"missing policy versions of turns {', '.join(absent)}"] if absent else []


def _turn_problems(turn, index, last):
    """Violations inside one turn of a record."""
    where = f"turns[{index}]"
    if not isinstance(turn, Mapping):
        return [f"{where} must be a mapping, got {_show(turn)}"]
    problems = []
    number = turn.get("turn")
    if _real(number) != index:
        problems.append(f"{where}: turn must be {index}, got {_show(number)}")
    absent = [name for name in ("observation", "action") if name not in turn]
    problems += [f"{where}: {name} is missing" for name in absent]
    logprob, reward = _real(turn.get("behavior_logprob")), _real(turn.get("reward"))
    if logprob is None or logprob > 0:
        shown = _show(turn.get("behavior_logprob"))
        problems.append(f"{where}: behavior_logprob must be finite and at most 0, got {shown}")
        logprob = None
    if reward is None:
        problems.append(f"{where}: reward must be finite, got {_show(turn.get('reward'))}")
    for name in ("terminated", "truncated"):
        flag = turn.get(name)
        if not _is_flag(flag):
            problems.append(f"{where}: {name} must be a boolean, got {_show(flag)}")
        elif flag and not last:
            problems.append(f"{where}: {name} is true before the last turn")
    return problems + [f"{where}: {text}" for text in _token_problems(turn, logprob)]


def _token_problems(turn, behavior_logprob):
    """Violations of the optional pair token_ids, token_logprobs."""
    given = turn.get("token_ids"), turn.get("token_logprobs")
    if all(part is None for part in given):
        return []
    ids, logprobs = map(_items, given)
    if ids is None or logprobs is None:
        shown = f"{_show(given[0])} and {_show(given[1])}"
        return [f"token_ids and token_logprobs must be two lists, got {shown}"]
    problems = []
    if len(ids) != len(logprobs):
        problems.append(f"{len(ids)} token_ids stand beside {len(logprobs)} token_logprobs")
    for index, token in enumerate(ids):
        token = _real(token)
        if not isinstance(token, int) or token < 0:
            shown = _show(ids[index])
            problems.append(f"token_ids[{index}] must be an integer of at least 0, got {shown}")
    values = [_real(value) for value in logprobs]
    wrong = [i for i, value in enumerate(values) if value is None or value > 0]
    for index in wrong:
        shown = _show(logprobs[index])
        problems.append(f"token_logprobs[{index}] must be finite and at most 0, got {shown}")
    if behavior_logprob is not None and not wrong:
        total = sum(values)
        if not math.isclose(total, behavior_logprob, rel_tol=1e-6, abs_tol=1e-6):
            problems.append(f"token_logprobs sum to {total}, not to {behavior_logprob}")
    return problems


def _stop_problems(record, turns):
    """Is the stop reason a text where an end is flagged, and does it fit the flags?"""
    reason = record.get("stop_reason", _MISSING)
    if reason is _MISSING:
        return ["stop_reason is missing"]
    if reason is not None and not isinstance(reason, str):
        return [f"stop_reason must be a text or None, got {_show(reason)}"]
    flags = [
        [turn.get(name) for turn in turns if isinstance(turn, Mapping)]
        for name in ("terminated", "truncated")
    ]
    if not all(map(_is_flag, flags[0] + flags[1])) or len(flags[0]) != len(turns) or not turns:
        return []
    terminated, truncated = map(any, flags)
    if not terminated and not truncated:
        return [f"stop_reason {_show(reason)} without a flag"] if reason is not None else []
    if not _is_text(reason):
        return [f"stop_reason must be a non-empty text after an end, got {_show(reason)}"]
    if not truncated and reason in TRUNCATION_REASONS:
        return [f"stop_reason {_show(reason)} agrees with truncated, not with terminated"]
    if not terminated and reason in TERMINATION_REASONS:
        return [f"stop_reason {_show(reason)} agrees with terminated, not with truncated"]
    return []


def _staleness_problems(record, count):
    """Turns whose policy is older than max_staleness allows."""
    if record.get("max_staleness") is None:
        return []
    problems = []
    limit, learner = _real(record["max_staleness"]), _real(record.get("learner_version"))
    if limit is None or limit < 0:
        shown = _show(record["max_staleness"])
        problems.append(f"max_staleness must be a number of at least 0, got {shown}")
    if learner is None:
        shown = _show(record.get("learner_version"))
        problems.append(f"max_staleness needs a numeric learner_version, got {shown}")
    if problems:
        return problems
    for index in range(count):
        stated = _version(record, index)
        version = _real(stated)
        if stated is None:
            continue
        if version is None:
            problems.append(f"policy_versions[{index}] must be a number, got {_show(stated)}")
        elif learner - version > limit:
            age = learner - version
            problems.append(f"turns[{index}] is stale: {age} versions old, {limit} allowed")
    return problems


# --- token probabilities ----------------------------------------------------------------------


def stable_log_softmax(logits, axis=-1):
    """(x - max) - log Σ exp(x - max) along one axis."""
    logits = _array(logits, "logits")
    return _log_softmax(logits, "logits", _axis(axis, logits, "logits"))


def causal_response_logprobs(logits, input_ids, response_mask):
    """Log-probability of each token from the logits one position earlier, block by block."""
    raw = _raw(logits, "logits")
    if raw.ndim != 3 or raw.shape[1] == 0 or raw.shape[2] == 0:
        raise ValueError(f"logits must have shape [B, L, V], got {tuple(raw.shape)}")
    batch, length, vocabulary = raw.shape
    ids = _identifiers(input_ids, "input_ids", (batch, length))
    mask = _flags(response_mask, "response_mask", (batch, length))
    first = mask[:, :1]
    _reject(first, first.int(), "response_mask", "but nothing predicts the first token")
    known = (ids >= 0) & (ids < vocabulary)
    _reject(mask & ~known, ids, "input_ids", f"lies outside the vocabulary [0, {vocabulary})")

    selected = torch.full((batch, length - 1), math.nan, dtype=torch.float64)
    rows = max(1, CHUNK_ELEMENTS // (length * vocabulary))
    columns = max(1, CHUNK_ELEMENTS // vocabulary)
    targets = torch.where(known, ids, 0)
    for b in range(0, batch, rows):
        for t in range(0, length - 1, columns):
            stop = min(t + columns, length - 1)
            block = _double(raw[b : b + rows, t:stop])
            here = slice(b, b + rows), slice(t + 1, stop + 1)
            scores, sound = _score_block(block, targets[here])
            if (mask[here] & ~sound).any():
                _refuse_logits(block, mask[here] & ~sound, b, t)
            selected[b : b + rows, t:stop] = torch.where(known[here] & sound, scores, math.nan)
    return ResponseLogprobs(selected, mask[:, 1:])


def _score_block(block, targets):
    """Log-softmax at the targets, and which rows are sound enough for one."""
    top = block.amax(-1, keepdim=True)
    centred = block - top
    picked = centred.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    scores = picked - centred.exp_().sum(-1).log()
    return scores, torch.isfinite(top.squeeze(-1))


def _refuse_logits(block, bad, b, t):
    """Name the first unusable row of logits, by its place in the whole array."""
    i, j = bad.nonzero()[0].tolist()
    row = block[i, j]
    wrong = (torch.isnan(row) | (row == INF)).nonzero()
    if len(wrong) == 0:
        raise ValueError(f"logits[{b + i}, {t + j}] = -inf throughout, and its token counts")
    v = wrong[0].item()
    raise ValueError(f"logits[{b + i}, {t + j}, {v}] = {row[v].item()} is not a logit")


def masked_sequence_metrics(selected, mask):
    """Token count, summed log-probability and perplexity of each row, under the mask."""
    selected = _array(selected, "selected")
    if selected.shape == (0,):
        selected = selected.reshape(0, 0)
    if selected.ndim != 2:
        raise ValueError(f"selected must have shape [B, T], got {tuple(selected.shape)}")
    active = _array(mask, "mask")
    if active.shape == (0,) and len(selected) == 0:
        active = active.reshape(selected.shape)
    active = _flags(active, "mask", selected.shape)
    wrong = active & (torch.isnan(selected) | (selected == INF))
    _reject(wrong, selected, "selected", "is no log-probability")
    counts = active.sum(-1)
    sums = _linear(lambda x: x.sum(-1), torch.where(active, selected, 0.0))
    return SequenceMetrics(counts, sums, torch.exp(-sums / counts))


def exact_kl_from_logits(q_logits, p_logits, axis=-1):
    """KL(q‖p) along one axis."""
    q_logits, p_logits = _array(q_logits, "q_logits"), _array(p_logits, "p_logits")
    _require_shape(p_logits, q_logits.shape, "p_logits")
    axis = _axis(axis, q_logits, "q_logits")
    log_q = _log_softmax(q_logits, "q_logits", axis)
    log_p = _log_softmax(p_logits, "p_logits", axis)
    drawn = log_q > -INF
    terms = torch.where(drawn, log_q.exp() * (log_q - log_p), 0.0)
    divergence = terms.sum(axis).clamp(min=0.0)
    impossible = (drawn & (log_p == -INF)).any(axis)
    return _plain(torch.where(impossible, INF, divergence))


def kl_estimator_moments(p, q):
    """Exact mean and standard deviation of k1, k2 and k3 under samples from q, and KL(q‖p)."""
    p, q = _probabilities(p, "p"), _probabilities(q, "q")
    _require_shape(q, p.shape, "q")
    drawn = q > 0
    p, q = p[drawn], q[drawn]
    names = [f"{k}_{moment}" for k in ("k1", "k2", "k3") for moment in ("mean", "std")]
    if (p == 0).any():
        return dict.fromkeys(["exact_kl", *names], INF)
    log_r = p.log() - q.log()
    # Each estimator times q: q k3 = p - q - q log r stays finite where r = p/q does not.
    weighted = (-q * log_r, 0.5 * q * log_r.square(), p - q - q * log_r)
    moments = [number for terms in weighted for number in _mean_and_std(terms, q)]
    return {"exact_kl": max(0.0, moments[0]), **dict(zip(names, moments, strict=True))}


def _mean_and_std(weighted, q):
    """Mean and standard deviation of a variable under q, from the variable times q."""
    mean = weighted.sum()
    root = q.sqrt()
    return mean.item(), _norm(weighted / root - root * mean).item()


def decoding_distribution_with_order(logits, *, temperature, top_k, top_p, order):
    """The next-token distribution after the processors, applied in the given order."""
    logits = _array(logits, "logits", ndim=1)
    _axis(-1, logits, "logits")
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    steps = {"temperature": _heat, "top_k": _keep_top_k, "top_p": _keep_top_p}
    _centre(logits, "logits", -1)
    for name in _checked_order(order):
        logits = steps[name](logits, settings[name])
    return _log_softmax(logits, "logits", -1).exp()


def _checked_order(order):
    """The processor names as a list, each known and none repeated."""
    if isinstance(order, (str, bytes, Mapping)) or not isinstance(order, Iterable):
        raise TypeError(f"order must be a sequence of processor names, got {_show(order)}")
    order = list(order)
    for index, name in enumerate(order):
        _require_choice(name, PROCESSORS, f"order[{index}]")
        if name in order[:index]:
            raise ValueError(f"order[{index}] = {name!r} is a repetition")
    return order


def _heat(logits, temperature):
    """Logits over the temperature; halved first, so that differences cannot overflow."""
    temperature = _number(temperature, "temperature")
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    half = logits / 2
    return (half - half.max()) / temperature * 2


def _keep_top_k(logits, top_k):
    """Only the k largest logits, with all ties of the last of them."""
    top_k = _integer(top_k, "top_k", low=1)
    if top_k >= len(logits):
        return logits
    return torch.where(logits >= logits.topk(top_k).values[-1], logits, -INF)


def _keep_top_p(logits, top_p):
    """Only the smallest set of likely tokens whose mass reaches top_p."""
    top_p = _unit(top_p, "top_p")
    if top_p == 1:
        return logits
    masses, order = torch.sort(
        _log_softmax(logits, "logits", -1).exp(), descending=True, stable=True
    )
    before = torch.cat([masses.new_zeros(1), masses.cumsum(0)[:-1]])
    kept = order[(before < top_p) & (masses > 0)] if top_p > 0 else order[:1]
    survivors = torch.full_like(logits, -INF)
    survivors[kept] = logits[kept]
    return survivors


def behavior_logprob(distribution, token):
    """The log-probability of one token; -inf for probability 0."""
    distribution = _probabilities(distribution, "distribution")
    token = _integer(token, "token", low=0)
    if token >= len(distribution):
        raise ValueError(f"token must lie in [0, {len(distribution)}), got {token}")
    return distribution[token].log().item()


def sequence_logprob_ratio(new_logprobs, old_logprobs, mask=None):
    """exp(Σ (new - old)) along the last axis, over the slots under the mask."""
    new, old = _array(new_logprobs, "new_logprobs"), _array(old_logprobs, "old_logprobs")
    if new.ndim == 0:
        raise ValueError(f"new_logprobs must have at least one axis, got {new.item()}")
    _require_shape(old, new.shape, "old_logprobs")
    if mask is None:
        active = torch.ones_like(new, dtype=torch.bool)
    else:
        active = _flags(mask, "mask", new.shape)
    return _plain(_probability_ratio(new, old, active, "new_logprobs", "old_logprobs"))


def classify_stop_event(reason, *, terminal_reasons, truncation_reasons):
    """Which of the two flags a stop reason sets: one, both or neither."""
    flags = []
    for name, reasons in (
        ("terminal_reasons", terminal_reasons),
        ("truncation_reasons", truncation_reasons),
    ):
        if isinstance(reasons, (str, bytes)) or not isinstance(reasons, Iterable):
            raise TypeError(f"{name} must be a collection of reasons, got {_show(reasons)}")
        flags.append(any(reason == known for known in reasons))
    return StopEvent(reason, *flags)


# --- one rollout batch ------------------------------------------------------------------------

_TABLES = ("response_ids", "response_mask", "old_logprobs", "ref_logprobs")
_COLUMNS = ("sequence_rewards", "terminated", "truncated")


def validate_rollout_batch(batch):
    """The counts of a sound batch; one ValueError with every violation of an unsound one."""
    if not isinstance(batch, Mapping):
        raise TypeError(f"batch must be a mapping, got {_show(batch)}")
    problems, fields = [], {}
    for name in _TABLES + _COLUMNS:
        _read_field(batch, name, fields, problems)
    shape = _common_shape(fields)
    _drop_misshapen(fields, shape, problems)
    reasons = _read_reasons(batch, shape, problems)
    by_row = _slot_problems(fields) + _reason_problems(fields, reasons)
    problems += [text for _, text in sorted(by_row, key=lambda entry: entry[0])]
    if problems:
        raise ValueError(f"{len(problems)} violation(s) in the batch: " + "; ".join(problems))
    ended, cut = fields["terminated"] == 1, fields["truncated"] == 1
    counts = fields["response_mask"].sum(), ended.sum(), cut.sum(), (~ended & ~cut).sum()
    return BatchSummary(shape[0], *(int(count) for count in counts))


def _read_field(batch, name, fields, problems):
    """Put one numeric field into `fields`, or its violation into `problems`."""
    if name not in batch:
        problems.append(f"{name} is missing")
        return
    try:
        raw = _raw(batch[name], name)
    except (TypeError, ValueError) as error:
        problems.append(str(error))
        return
    fields[name] = values = _double(raw)
    if name == "response_ids" and "float" in str(raw.dtype) and values.numel():
        problems.append(f"response_ids must be an array of integers, got {raw.dtype}")
    if name in _TABLES and values.shape == (0,):
        fields[name] = values.reshape(0, 0)


def _common_shape(fields):
    """[B, T] as the mask states it, or else the first table with two axes."""
    for name in ("response_mask", *_TABLES):
        if name in fields and fields[name].ndim == 2:
            return tuple(fields[name].shape)
    return None


def _drop_misshapen(fields, shape, problems):
    """Report and remove the fields that do not have the common shape."""
    for name in list(fields):
        found = tuple(fields[name].shape)
        if shape is None:
            due, fits = "[B, T]", name in _COLUMNS
        else:
            due = shape if name in _TABLES else shape[:1]
            fits = found == due
        if shape is not None and len(found) == len(due) and found[0] == due[0] == 0:
            fields[name] = fields[name].new_zeros(due)
        elif not fits:
            problems.append(f"{name} must have shape {due}, got {found}")
            del fields[name]


def _read_reasons(batch, shape, problems):
    """The stop reasons as a list of B entries, or None with a violation."""
    if "stop_reason" not in batch:
        problems.append("stop_reason is missing")
        return None
    reasons = _items(batch["stop_reason"])
    if reasons is None or (shape is not None and len(reasons) != shape[0]):
        shown = _show(batch["stop_reason"])
        problems.append(f"stop_reason must hold one text or None for each row, got {shown}")
        return None
    return reasons


def _slot_problems(fields):
    """(row, text) for every number that breaks a rule."""
    found = []

    def check(name, rule, is_bad, under_mask=False):
        if name not in fields or (under_mask and "response_mask" not in fields):
            return
        values = fields[name]
        bad = is_bad(values)
        if under_mask:
            bad = bad & (fields["response_mask"] == 1)
        for index in bad.nonzero().tolist():
            shown = values[tuple(index)].item()
            found.append((index[0], f"row {index[0]}: {_at(name, index)} = {shown} {rule}"))

    def not_binary(values):
        return (values != 0) & (values != 1)

    check("response_mask", "must be 0 or 1", not_binary)
    check(
        "response_ids",
        "must be an integer of at least 0",
        lambda x: ~((x >= 0) & (x == x.floor())) | torch.isinf(x),
        under_mask=True,
    )
    check(
        "old_logprobs",
        "must be finite and at most 0",
        lambda x: ~((x <= 0) & torch.isfinite(x)),
        under_mask=True,
    )
    check("ref_logprobs", "must be at most 0", lambda x: ~(x <= 0), under_mask=True)
    check("sequence_rewards", "must be finite", lambda x: ~torch.isfinite(x))
    check("terminated", "must be 0 or 1", not_binary)
    check("truncated", "must be 0 or 1", not_binary)
    return found


def _reason_problems(fields, reasons):
    """(row, text) for every finished row without a stop reason, and for reasons of no text."""
    if reasons is None:
        return []
    flags = [fields[name] == 1 for name in ("terminated", "truncated") if name in fields]
    finished = {int(row) for flag in flags for row in flag.nonzero().flatten()}
    found = []
    for row, reason in enumerate(reasons):
        if reason is not None and not isinstance(reason, str):
            text = f"stop_reason[{row}] must be a text or None, got {_show(reason)}"
        elif row in finished and not _is_text(reason):
            text = f"stop_reason[{row}] = {_show(reason)}, but the sequence is finished"
        else:
            continue
        found.append((row, f"row {row}: {text}"))
    return found


# --- Q-learning and offline RL ----------------------------------------------------------------


def return_to_go(rewards, gamma=1.0):
    """R_t = r_t + gamma R_{t+1}, by doubling: each pass looks twice as far ahead."""
    rewards, gamma = _vector(rewards, "rewards"), _unit(gamma, "gamma")
    if gamma == 0:
        return rewards.clone()

    def scan(values):
        reach = 1
        while reach < len(values):
            ahead = _discount(values[reach:], gamma, reach)
            values = torch.cat([values[:-reach] + ahead, values[-reach:]])
            reach *= 2
        return values.clone()

    return _linear(scan, rewards)


def _transitions(rewards, terminal, gamma):
    """The arguments that all target functions share, checked."""
    rewards = _vector(rewards, "rewards")
    return rewards, _flags(terminal, "terminal", rewards.shape), _unit(gamma, "gamma")


def _live_q(next_q, name, ended):
    """Action values of the next states: 0 after a terminal, finite elsewhere."""
    next_q = _action_table(next_q, name, len(ended))
    live = ~ended.unsqueeze(1)
    _reject(live & ~torch.isfinite(next_q), next_q, name, "must be finite")
    return torch.where(live, next_q, 0.0)


def dqn_targets(rewards, terminal, next_q, gamma):
    """r + gamma (1 - d) max_a Q'(s', a)."""
    rewards, ended, gamma = _transitions(rewards, terminal, gamma)
    return rewards + gamma * _live_q(next_q, "next_q", ended).amax(1)


def double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma):
    """r + gamma (1 - d) Q_target(s', argmax_a Q_online); the lowest index wins a tie."""
    rewards, ended, gamma = _transitions(rewards, terminal, gamma)
    online = _live_q(online_next_q, "online_next_q", ended)
    target = _live_q(target_next_q, "target_next_q", ended)
    _require_shape(target, online.shape, "target_next_q")
    best = online.argmax(1, keepdim=True)
    return rewards + gamma * target.gather(1, best).squeeze(1)


def fqe_targets(rewards, terminal, next_q, policy_probs, gamma):
    """r + gamma (1 - d) Σ_a π(a) Q'(s', a)."""
    rewards, ended, gamma = _transitions(rewards, terminal, gamma)
    values = _live_q(next_q, "next_q", ended)
    policy = _probabilities(policy_probs, "policy_probs", rows=len(rewards))
    _require_shape(policy, values.shape, "policy_probs")
    return _linear(lambda r, q: r + gamma * (policy * q).sum(1), rewards, values)


def cql_discrete_penalty(q_values, action):
    """logsumexp(Q) - Q[action], for one row or a batch of rows."""
    q_values, action = _finite(q_values, "q_values"), _raw(action, "action")
    if action.ndim == 0:
        return _one_cql_penalty(q_values, _integer(action, "action", low=0))
    q_values = _action_table(q_values, "q_values", len(action))
    count = q_values.shape[1]
    chosen = _identifiers(action, "action", q_values.shape[:1])
    _reject((chosen < 0) | (chosen >= count), chosen, "action", f"lies outside [0, {count})")
    logs = _log_softmax(q_values, "q_values", 1)
    return 0.0 - logs.gather(1, chosen.unsqueeze(1)).squeeze(1)


def _one_cql_penalty(q_values, action):
    """The penalty of one row and one action."""
    if q_values.ndim != 1 or len(q_values) == 0:
        raise ValueError(f"q_values must be one row [A], got shape {tuple(q_values.shape)}")
    if action >= len(q_values):
        raise ValueError(f"action must lie in [0, {len(q_values)}), got {action}")
    return 0.0 - _log_softmax(q_values, "q_values", 0)[action].item()


def expectile_loss(differences, expectile=0.7, *, reduction="mean"):
    """|τ - 1[u < 0]| u², averaged or term by term."""
    differences = _finite(differences, "differences")
    expectile = _number(expectile, "expectile")
    if not 0 < expectile < 1:
        raise ValueError(f"expectile must lie strictly between 0 and 1, got {expectile}")
    _require_choice(reduction, ("mean", "none"), "reduction")
    weighted = torch.where(differences < 0, (1 - expectile) * differences, expectile * differences)
    terms = weighted * differences
    if reduction == "none":
        return _plain(terms)
    if terms.numel() == 0:
        raise ValueError("differences is empty: there is nothing to average")
    return _linear(torch.mean, terms).item()


def iql_advantage_weights(advantages, beta=3.0, max_weight=100.0):
    """min(exp(beta A), max_weight)."""
    advantages = _finite(advantages, "advantages")
    beta, max_weight = _number(beta, "beta"), _number(max_weight, "max_weight")
    if beta < 0:
        raise ValueError(f"beta must be at least 0, got {beta}")
    if max_weight <= 0:
        raise ValueError(f"max_weight must be positive, got {max_weight}")
    return _plain(torch.exp(beta * advantages).clamp(max=max_weight))


def behavior_support_mask(probabilities, threshold_ratio):
    """Which actions have at least `threshold_ratio` times the largest probability."""
    probabilities = _finite(probabilities, "probabilities")
    _axis(-1, probabilities, "probabilities")
    ratio = _unit(threshold_ratio, "threshold_ratio")
    _reject(probabilities < 0, probabilities, "probabilities", "is negative")
    largest = probabilities.amax(-1)
    _reject(largest == 0, largest, "probabilities", "throughout: a row needs some mass")
    return probabilities / largest.unsqueeze(-1) >= ratio


# --- policy gradients for language models -----------------------------------------------------


def _streams(values, name):
    """A finite float64 tensor of one stream [T] or a batch [B, T]."""
    tensor = _finite(values, name)
    if tensor.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape [T] or [B, T], got {tuple(tensor.shape)}")
    return tensor


def _decayed(values, gamma, lam, steps):
    """(gamma lam)^steps · values; the product gamma · lam alone may underflow too early."""
    return _discount(_discount(values, gamma, steps), lam, steps)


def _traces(deltas, gamma, lam, linked):
    """A_t = δ_t + gamma lam A_{t+1}, the second term only where t is linked to t + 1.

    By doubling along the last axis: after each pass `deltas` covers twice as many steps, and
    `linked` says whether all of the links that it needs for the next pass hold.
    """
    length, reach = deltas.shape[-1], 1
    while reach < length:
        ahead = _decayed(deltas[..., reach:], gamma, lam, reach)
        ahead = torch.where(linked[..., : length - reach], ahead, 0.0)
        deltas = torch.cat([deltas[..., :-reach] + ahead, deltas[..., -reach:]], -1)
        linked = linked[..., :-reach] & linked[..., reach:]
        reach *= 2
    return deltas


def _steps(rewards, values, next_values, gamma, lam, terminated, truncated):
    """The checked arguments of both functions: the arrays, 0 for a terminal's V', the links."""
    gamma, lam = _unit(gamma, "gamma"), _unit(lam, "lam")
    rewards, values = _streams(rewards, "rewards"), _finite(values, "values")
    following = _array(next_values, "next_values")
    _require_shape(values, rewards.shape, "values")
    _require_shape(following, rewards.shape, "next_values")
    ended = _flags(terminated, "terminated", rewards.shape)
    cut = _flags(truncated, "truncated", rewards.shape)
    bad = ~ended & ~torch.isfinite(following)
    _reject(bad, following, "next_values", "must be finite where nothing terminated")
    return (rewards, values, torch.where(ended, 0.0, following)), gamma, lam, ~(ended | cut)


def generalized_advantages(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    """A_t = δ_t + gamma lam A_{t+1} up to the next flag, δ_t = r_t + gamma V'_t - V_t."""
    arrays, gamma, lam, linked = _steps(
        rewards, values, next_values, gamma, lam, terminated, truncated
    )
    return _linear(lambda r, v, w: _traces(r + gamma * w - v, gamma, lam, linked), *arrays)


def lambda_returns(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    """Advantages plus values, without V_t, which cancels: r_t + gamma V'_t + gamma lam A_{t+1}."""
    arrays, gamma, lam, linked = _steps(
        rewards, values, next_values, gamma, lam, terminated, truncated
    )

    def compute(r, v, w):
        targets = r + gamma * w
        later = _traces(targets - v, gamma, lam, linked)[..., 1:]
        carried = torch.where(linked[..., :-1], _decayed(later, gamma, lam, 1), 0.0)
        return torch.cat([targets[..., :-1] + carried, targets[..., -1:]], -1)

    return _linear(compute, *arrays)


def masked_advantages(token_rewards, values, mask, gamma, lam):
    """Generalized advantages over the policy tokens alone, 0 elsewhere.

    Policy token k takes slot k (counted from 1), and every token stands in the slot of the last
    policy token up to it: so rewards are summed into slots, and what lands in slot 0 is dropped.
    """
    gamma, lam = _unit(gamma, "gamma"), _unit(lam, "lam")
    rewards, values = _streams(token_rewards, "token_rewards"), _array(values, "values")
    _require_shape(values, rewards.shape, "values")
    active = _flags(mask, "mask", rewards.shape)
    _reject(active & ~torch.isfinite(values), values, "values", "must be finite under the mask")
    slot = active.cumsum(-1)
    shape = (*rewards.shape[:-1], 1)

    def compute(r, v):
        edge = r.new_zeros(shape)
        slots = torch.cat([torch.zeros_like(r), edge], -1)
        gained = slots.scatter_add(-1, slot, r)[..., 1:]
        worth = slots.scatter_add(-1, slot, v)
        following = torch.cat([worth[..., 2:], edge], -1)[..., : gained.shape[-1]]
        deltas = gained + gamma * following - worth[..., 1:]
        traces = _traces(deltas, gamma, lam, torch.ones_like(deltas, dtype=torch.bool))
        return torch.where(active, torch.cat([edge, traces], -1).gather(-1, slot), 0.0)

    return _linear(compute, rewards, torch.where(active, values, 0.0))


def _group_codes(group_ids, length):
    """Group ids as int64 codes 0, 1, …; equal numbers of any type share a code."""
    items = _items(group_ids)
    if items is None:
        refused = (str, bytes, Mapping, set, frozenset)
        scalar = hasattr(group_ids, "tolist") or not isinstance(group_ids, Iterable)
        if scalar or isinstance(group_ids, refused):
            raise TypeError(f"group_ids must hold numbers or texts, got {_show(group_ids)}")
        items = list(group_ids)
    if len(items) != length:
        raise ValueError(f"group_ids must have length {length}, got {len(items)}")
    codes = {}
    return torch.tensor(
        [codes.setdefault(_group_id(item, i), len(codes)) for i, item in enumerate(items)],
        dtype=torch.int64,
    )


def _group_id(item, index):
    """One id: a text, or a number that equals itself."""
    if getattr(item, "ndim", None) == 0 and hasattr(item, "item"):
        item = item.item()
    if isinstance(item, (list, tuple)) or hasattr(item, "ndim"):
        raise ValueError(f"group_ids must have one axis, got group_ids[{index}] = {_show(item)}")
    if not isinstance(item, (str, numbers.Real, Decimal)):
        raise TypeError(f"group_ids[{index}] = {_show(item)} is neither a number nor a text")
    if item != item:
        raise ValueError(f"group_ids[{index}] = {item} equals no id, not even itself")
    return item


class _Spread(NamedTuple):
    """Deviations from group means, per row, in a power of two `unit` of the group's own.

    A true deviation is deviations · unit · double, a true standard deviation std · unit · double;
    double is 2 for the groups whose range overflows, and 1 for the others.
    """

    deviations: torch.Tensor
    std: torch.Tensor
    unit: torch.Tensor
    double: torch.Tensor
    size: torch.Tensor
    equal: torch.Tensor

    def centred(self, factor=1.0):
        """The true deviations times a factor."""
        return self.deviations * factor * self.unit * self.double


def _spread(rewards, codes, ddof=0):
    """Group statistics of the distances to the group's smallest reward: no offset is left."""
    zeros = rewards.new_zeros(int(codes.max()) + 1 if len(codes) else 0)
    size = zeros.index_add(0, codes, torch.ones_like(rewards))
    low, high = (
        zeros.scatter_reduce(0, codes, rewards, reduce=reduce, include_self=False)
        for reduce in ("amin", "amax")
    )
    double = 1.0 + torch.isinf(high - low).double()
    width = high / double - low / double
    unit = torch.where(width > 0, width / (2 * torch.frexp(width).mantissa), 1.0)
    distances = (rewards / double[codes] - (low / double)[codes]) / unit[codes]
    mean = zeros.index_add(0, codes, distances) / size
    deviations = distances - mean[codes]
    squares = zeros.index_add(0, codes, deviations.square())
    std = (squares / (size - ddof).clamp(min=1)).sqrt()
    per_group = (std, unit, double, size, width == 0)
    return _Spread(deviations, *(statistic[codes] for statistic in per_group))


def group_advantages(rewards, group_ids, *, scale="std", ddof=1, eps=1e-6, valid=None):
    """(r - mean of its group) / (standard deviation + eps), over the valid rows."""
    rewards = _array(rewards, "rewards", ndim=1)
    codes = _group_codes(group_ids, len(rewards))
    _require_choice(scale, ("std", "none", "batch"), "scale")
    ddof, eps = _integer(ddof, "ddof", low=0), _number(eps, "eps")
    if ddof > 1:
        raise ValueError(f"ddof must be 0 or 1, got {ddof}")
    if eps < 0:
        raise ValueError(f"eps must be at least 0, got {eps}")
    if valid is None:
        counted = torch.ones_like(rewards, dtype=torch.bool)
    else:
        counted = _flags(valid, "valid", rewards.shape)
    _reject(counted & ~torch.isfinite(rewards), rewards, "rewards", "must be finite")

    scored, codes = rewards[counted], codes[counted]
    own = _spread(scored, codes, ddof)
    if scale == "none":
        advantages = own.centred()
    else:
        whole = own if scale == "std" else _spread(scored, torch.zeros_like(codes), ddof)
        deviations = own.deviations * (own.unit / whole.unit) * (own.double / whole.double)
        floor = torch.full_like(deviations, eps) / whole.unit / whole.double
        advantages = deviations / (whole.std + floor)
    result = torch.zeros_like(rewards)
    result[counted] = torch.where(own.equal, 0.0, advantages)
    return result


def leave_one_out_advantages(rewards, group_ids):
    """r_i minus the mean of the others: n / (n - 1) times the deviation from the group's mean."""
    rewards = _vector(rewards, "rewards")
    own = _spread(rewards, _group_codes(group_ids, len(rewards)))
    _reject(own.size == 1, rewards, "rewards", "is alone in its group: nothing is left to average")
    return own.centred(own.size / (own.size - 1))


def _token_table(values, name, shape=None):
    """A float64 [B, T] tensor of any content; an empty list is a batch without rows."""
    table = _array(values, name)
    if table.shape == (0,):
        table = table.reshape(0, 0)
    if table.ndim != 2:
        raise ValueError(f"{name} must have shape [B, T], got {tuple(table.shape)}")
    if shape is not None:
        _require_shape(table, shape, name)
    return table


def importance_ratios(new_logprobs, old_logprobs, mask, *, level="token"):
    """exp(new - old) of each token, or exp of its mean over the row; 1 outside the mask."""
    new = _token_table(new_logprobs, "new_logprobs")
    old = _token_table(old_logprobs, "old_logprobs", new.shape)
    active = _flags(_token_table(mask, "mask", new.shape), "mask")
    _require_choice(level, ("token", "sequence"), "level")
    wrong = active & (torch.isnan(new) | (new == INF))
    _reject(wrong, new, "new_logprobs", "is no log-probability")
    _reject(active & ~torch.isfinite(old), old, "old_logprobs", "must be finite")
    impossible = active & (new == -INF)
    counted = active & ~impossible
    new, old = torch.where(counted, new, 0.0), torch.where(counted, old, 0.0)
    if level == "token":
        ratios = torch.where(impossible, 0.0, torch.exp(new - old))
    else:
        size = active.sum(-1).clamp(min=1)
        means = _linear(lambda a, b: (a - b).sum(-1) / size, new, old)
        ratios = torch.where(impossible.any(-1), 0.0, means.exp()).unsqueeze(-1)
    return torch.where(active, ratios, 1.0)


def clipped_policy_terms(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    """-min(ρA, clip(ρ) A) as -kA: the ratio is bounded above for A >= 0, below for A < 0."""
    ratios, advantages = _array(ratios, "ratios"), _finite(advantages, "advantages")
    _require_shape(advantages, ratios.shape, "advantages")
    _reject(~(ratios >= 0), ratios, "ratios", "is not a ratio of probabilities")
    clip_low, clip_high = _number(clip_low, "clip_low"), _number(clip_high, "clip_high")
    if not 0 < clip_low < 1:
        raise ValueError(f"clip_low must lie strictly between 0 and 1, got {clip_low}")
    if clip_high <= 0:
        raise ValueError(f"clip_high must be positive, got {clip_high}")
    ceiling = INF if dual_clip is None else _number(dual_clip, "dual_clip")
    if ceiling <= 1:
        raise ValueError(f"dual_clip must be greater than 1, got {ceiling}")
    gain = ratios.clamp(max=1 + clip_high)
    loss = ratios.clamp(min=1 - clip_low, max=ceiling)
    return _plain(0.0 - torch.where(advantages < 0, loss, gain) * advantages)


AGGREGATIONS = (
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
)


def aggregate_token_losses(losses, mask, mode, *, max_length=None):
    """One number from a table of token losses: every loss over a divisor of its row, summed."""
    losses = _token_table(losses, "losses")
    active = _flags(_token_table(mask, "mask", losses.shape), "mask")
    _require_choice(mode, AGGREGATIONS, "mode")
    _reject(active & ~torch.isfinite(losses), losses, "losses", "must be finite under the mask")
    if mode == "seq-mean-token-sum-norm":
        if max_length is None:
            raise ValueError("max_length must be given for seq-mean-token-sum-norm, got None")
        max_length = _integer(max_length, "max_length", low=1)
    elif max_length is not None:
        raise ValueError(f"max_length belongs to another mode than {mode}: {_show(max_length)}")
    counts = active.sum(-1, keepdim=True).double()
    divisors = {
        "token-mean": counts.sum().expand_as(counts),
        "seq-mean-token-mean": counts * (counts > 0).sum(),
    }.get(mode, torch.full_like(counts, len(losses))) * float(max_length or 1)
    shares = torch.where(active, losses, 0.0)
    return _linear(lambda x: (x / divisors.clamp(min=1.0)).sum(), shares).item()


def kl_penalty_terms(logprobs, ref_logprobs, estimator):
    """k1 = -log r, k2 = ½ log² r or k3 = r - 1 - log r of each token, r = ref / policy."""
    logprobs, ref = _finite(logprobs, "logprobs"), _finite(ref_logprobs, "ref_logprobs")
    _require_shape(ref, logprobs.shape, "ref_logprobs")
    _require_choice(estimator, ("k1", "k2", "k3"), "estimator")
    if estimator == "k1":
        return _plain(logprobs - ref)
    log_r = ref - logprobs
    half_square = 0.5 * log_r * log_r
    return _plain(half_square if estimator == "k2" else _exp_remainder(log_r, half_square))


def _exp_remainder(x, half_square):
    """exp(x) - 1 - x: near 0 by its series ½x² (1 + x/3 (1 + x/4 (1 + …)))."""
    series = torch.ones_like(x)
    for n in range(18, 2, -1):
        series = 1 + x / n * series
    # Past 1000 both terms may be infinite, and their difference NaN.
    direct = torch.where(x > 1000, INF, torch.expm1(x) - x)
    return torch.where(x.abs() < 0.5, half_square * series, direct)
