"""Right answers in PyTorch, as a trainer would write them: ordinary autograd and `torch.where`.

Values are checked first and refused in words; then what stands behind a mask is replaced by
something harmless before any arithmetic, so that neither a value nor a gradient can pass from
there. Floating dtypes are kept, integers and booleans become float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# Of logits, at a time. Just above 32 MiB, where glibc gives memory back at once; smaller chunks
# leave holes in its heap that cost more than they save.
CHUNK_BYTES = 33 * 2**20


class ResponseLogprobs(NamedTuple):
    selected: Tensor
    shifted_mask: Tensor


class SequenceMetrics(NamedTuple):
    token_count: Tensor
    sum_logprob: Tensor
    perplexity: Tensor


# What arrives, and what is refused


def _raw(value: Any, name: str) -> Tensor:
    if isinstance(value, Tensor):
        tensor = value
    elif value is None or isinstance(value, (str, bytes, Mapping)):
        raise TypeError(f"{name} must hold numbers, got {value!r}")
    else:
        try:
            # Lists of Python floats are float64 here, whatever torch's default is.
            tensor = torch.as_tensor(value)
            if tensor.is_floating_point() and not hasattr(value, "dtype"):
                tensor = torch.as_tensor(value, dtype=torch.float64)
        except (TypeError, RuntimeError) as error:
            raise TypeError(f"{name} must hold numbers, got {value!r}") from error
    if tensor.is_complex():
        raise TypeError(f"{name} must be real, got {tensor.dtype}")
    return tensor


def _numbers(value: Any, name: str) -> Tensor:
    tensor = _raw(value, name)
    return tensor if tensor.is_floating_point() else tensor.to(torch.float64)


def _alike(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The same numbers in the widest of their dtypes."""
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return tuple(tensor.to(dtype) for tensor in tensors)


def _refuse(bad: Tensor, values: Tensor, name: str, rule: str) -> None:
    """Refuse the first entry that `bad` marks, with its index and its value."""
    if bool(bad.any()):
        index = tuple(bad.nonzero()[0].tolist())
        place = f"{name}[{', '.join(map(str, index))}]" if index else name
        raise ValueError(f"{place} = {values.detach()[index].item()}: {rule}")


def _finite(values: Tensor, name: str, where: Tensor | None = None) -> None:
    bad = ~torch.isfinite(values.detach())
    _refuse(bad if where is None else bad & where, values, name, "must be finite")


def _shape(values: Tensor, name: str, shape: Sequence[int]) -> None:
    if tuple(values.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {tuple(values.shape)}, expected {tuple(shape)}")


def _dims(values: Tensor, name: str, *allowed: int) -> None:
    if values.dim() not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise ValueError(f"{name} has shape {tuple(values.shape)}, expected {wanted} axes")


def _flags(value: Any, name: str, shape: Sequence[int]) -> Tensor:
    tensor = _raw(value, name).detach()
    _shape(tensor, name, shape)
    if tensor.dtype == torch.bool:
        return tensor
    _refuse((tensor != 0) & (tensor != 1), tensor, name, "must be 0 or 1")
    return tensor != 0


def _indices(value: Any, name: str, shape: Sequence[int]) -> Tensor:
    tensor = _raw(value, name)
    _shape(tensor, name, shape)
    if tensor.numel() and (tensor.is_floating_point() or tensor.dtype == torch.bool):
        raise TypeError(f"{name} must hold integers, got {tensor.dtype}")
    return tensor.to(torch.int64)


def _real(value: Any, name: str) -> float:
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if getattr(value, "shape", ()) != ():
        raise ValueError(f"{name} must be one number, got shape {tuple(value.shape)}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} = {number}: must be finite")
    return number


def _integer(value: Any, name: str) -> int:
    number = _real(value, name)
    if number != int(number):
        raise ValueError(f"{name} = {value!r}: must be an integer")
    return int(number)


def _unit(value: Any, name: str) -> float:
    number = _real(value, name)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} = {number}: must lie in [0, 1]")
    return number


def _choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} = {value!r}: must be one of {', '.join(choices)}")
    return value


# Arithmetic that neither overflows on the way nor loses a gradient


class _SafeExp(torch.autograd.Function):
    """exp, whose gradient is 0 where nothing depends on it: autograd's own is 0 · inf = NaN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = torch.exp(x)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return torch.where(grad == 0, 0.0, grad * result)


def _exp(x: Tensor) -> Tensor:
    return _SafeExp.apply(x)


def _headroom(*tensors: Tensor) -> float:
    """A power of two that keeps sums of these numbers finite; 1 unless they are enormous."""
    info = torch.finfo(tensors[0].dtype)
    room = 2.0**64 if tensors[0].dtype == torch.float64 else 2.0**27
    for tensor in tensors:
        sizes = tensor.detach().abs()
        if bool(((sizes > info.max / room) & torch.isfinite(sizes)).any()):
            return 1.0 / room
    return 1.0


def _zero_value(x: Tensor) -> Tensor:
    """Exactly 0, with the gradient of x."""
    return x - x.detach()


# Token probabilities


def _axis(value: Any, dims: int) -> int:
    axis = _integer(value, "axis")
    if not -dims <= axis < dims:
        raise ValueError(f"axis = {axis}: out of range for {dims} axes")
    return axis


def _log_softmax(logits: Tensor, axis: Any, name: str) -> Tensor:
    axis = _axis(axis, logits.dim())
    if logits.shape[axis] == 0:
        raise ValueError(f"{name} has shape {tuple(logits.shape)}: a distribution needs an entry")
    plain = logits.detach()
    _refuse(plain.isnan() | (plain == math.inf), plain, name, "must be finite or -inf")
    _refuse(plain.amax(axis) == -math.inf, plain.amax(axis), name, "a row holds only -inf")
    return torch.log_softmax(logits, axis)


def stable_log_softmax(logits: Any, axis: int = -1) -> Tensor:
    return _log_softmax(_numbers(logits, "logits"), axis, "logits")


def _score(rows: Tensor, ids: Tensor, known: Tensor, active: Tensor) -> Tensor:
    scores = torch.log_softmax(rows, -1).gather(-1, ids[:, None])[:, 0]
    return torch.where(active, scores, torch.where(known, scores.detach(), math.nan))


def causal_response_logprobs(logits: Any, input_ids: Any, response_mask: Any) -> ResponseLogprobs:
    logits = _numbers(logits, "logits")
    _dims(logits, "logits", 3)
    batch, length, vocabulary = logits.shape
    if length == 0 or vocabulary == 0:
        raise ValueError(f"logits has shape {tuple(logits.shape)}: no token to score")
    ids = _indices(input_ids, "input_ids", (batch, length))
    mask = _flags(response_mask, "response_mask", (batch, length))
    first = mask.clone()
    first[:, 1:] = False
    _refuse(first, mask, "response_mask", "nothing predicts the first token")

    active = mask[:, 1:].clone()
    known = (ids >= 0) & (ids < vocabulary)
    _refuse(mask & ~known, ids, "input_ids", f"must lie in [0, {vocabulary})")
    # The maximum of a row is NaN, inf or -inf exactly if the row scores nothing.
    peaks = logits.detach()[:, :-1].amax(-1)
    sound = torch.isfinite(peaks)
    _refuse(active & ~sound, peaks, "logits", "the maximum of this row must be finite")
    if active.numel() == 0:
        return ResponseLogprobs(logits[:, :-1, 0].clone(), active)

    known = known[:, 1:]
    targets = torch.where(known, ids[:, 1:], 0)
    most = max(1, CHUNK_BYTES // (vocabulary * logits.element_size()))
    tracked = torch.is_grad_enabled() and logits.requires_grad
    selected = []
    for b, row in enumerate(logits.unbind(0)):
        # Sound rows and others never share a chunk, so the others enter no arithmetic at all.
        kinds, runs = torch.unique_consecutive(sound[b], return_counts=True)
        sizes, scorable = [], []
        for kind, run in zip(kinds.tolist(), runs.tolist(), strict=True):
            pieces = [min(most, run - start) for start in range(0, run, most)]
            sizes += pieces
            scorable += [kind] * len(pieces)
        # Views all the way down: a slice per chunk would cost a full gradient per chunk.
        *chunks, last = row.split([*sizes, 1])
        parts = zip(
            chunks,
            targets[b].split(sizes),
            known[b].split(sizes),
            active[b].split(sizes),
            strict=True,
        )
        scores = [last[:0, 0]]  # nothing, but part of the graph even where no row is sound
        for part, usable in zip(parts, scorable, strict=True):
            if not usable:
                scores.append(part[0].detach().new_full((len(part[0]),), math.nan))
            elif tracked:  # else every chunk's log-softmax would be kept for the gradient
                scores.append(
                    checkpoint(_score, *part, use_reentrant=False, preserve_rng_state=False)
                )
            else:
                scores.append(_score(*part))
        selected.append(torch.cat(scores))
    return ResponseLogprobs(torch.stack(selected), active)


def masked_sequence_metrics(selected: Any, mask: Any) -> SequenceMetrics:
    selected = _numbers(selected, "selected")
    _dims(selected, "selected", 2)
    active = _flags(mask, "mask", selected.shape)
    plain = selected.detach()
    bad = plain.isnan() | (plain == math.inf)
    _refuse(bad & active, plain, "selected", "must be a log-probability")
    kept = torch.where(active, selected, 0.0)
    room = _headroom(kept)
    total = (kept * room).sum(-1)
    count = active.sum(-1)
    mean = total / count.clamp(min=1) / room
    perplexity = torch.where(count > 0, _exp(-mean), math.nan)
    return SequenceMetrics(count, total / room, perplexity)


def _log_ratio_parts(
    new_logprobs: Any, old_logprobs: Any, mask: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Both, zero behind the mask, and the mask."""
    new, old = _alike(
        _numbers(new_logprobs, "new_logprobs"), _numbers(old_logprobs, "old_logprobs")
    )
    _shape(old, "old_logprobs", new.shape)
    if mask is None:
        active = torch.ones_like(new, dtype=torch.bool)
    else:
        active = _flags(mask, "mask", new.shape)
    plain = new.detach()
    bad = plain.isnan() | (plain == math.inf)
    _refuse(bad & active, plain, "new_logprobs", "must be a log-probability")
    _finite(old, "old_logprobs", active)
    return torch.where(active, new, 0.0), torch.where(active, old, 0.0), active


def sequence_logprob_ratio(new_logprobs: Any, old_logprobs: Any, mask: Any = None) -> Tensor:
    new, old, _ = _log_ratio_parts(new_logprobs, old_logprobs, mask)
    if new.dim() == 0:
        raise ValueError("new_logprobs must have a token axis")
    room = _headroom(new, old)
    return _exp((new * room - old * room).sum(-1) / room)


def exact_kl_from_logits(q_logits: Any, p_logits: Any, axis: int = -1) -> Tensor:
    q_logits, p_logits = _alike(_numbers(q_logits, "q_logits"), _numbers(p_logits, "p_logits"))
    _shape(p_logits, "p_logits", q_logits.shape)
    log_q = _log_softmax(q_logits, axis, "q_logits")
    log_p = _log_softmax(p_logits, axis, "p_logits")
    axis = _axis(axis, q_logits.dim())
    in_q = log_q.detach() > -math.inf
    in_p = log_p.detach() > -math.inf
    difference = torch.where(in_q & in_p, log_q - log_p, 0.0)
    divergence = (log_q.exp() * difference).sum(axis)
    # Rounding may leave a negative number; its gradient is right all the same.
    divergence = torch.where(divergence < 0, _zero_value(divergence), divergence)
    return torch.where((in_q & ~in_p).any(axis), math.inf, divergence)


# Q-learning and offline RL


def _next_q(next_q: Any, name: str, terminal: Tensor) -> Tensor:
    next_q = _numbers(next_q, name)
    _dims(next_q, name, 2)
    if next_q.shape[1] == 0:
        raise ValueError(f"{name} has shape {tuple(next_q.shape)}: no action")
    _shape(next_q, name, (len(terminal), next_q.shape[1]))
    _finite(next_q, name, ~terminal[:, None])
    return torch.where(terminal[:, None], 0.0, next_q)


def _steps(rewards: Any, terminal: Any, gamma: Any) -> tuple[Tensor, Tensor, float]:
    rewards = _numbers(rewards, "rewards")
    _dims(rewards, "rewards", 1)
    _finite(rewards, "rewards")
    return rewards, _flags(terminal, "terminal", rewards.shape), _unit(gamma, "gamma")


@torch.no_grad()
def dqn_targets(rewards: Any, terminal: Any, next_q: Any, gamma: float) -> Tensor:
    rewards, terminal, gamma = _steps(rewards, terminal, gamma)
    rewards, next_q = _alike(rewards, _next_q(next_q, "next_q", terminal))
    return rewards + gamma * next_q.amax(-1)


@torch.no_grad()
def double_dqn_targets(
    rewards: Any, terminal: Any, online_next_q: Any, target_next_q: Any, gamma: float
) -> Tensor:
    rewards, terminal, gamma = _steps(rewards, terminal, gamma)
    online = _next_q(online_next_q, "online_next_q", terminal)
    target = _next_q(target_next_q, "target_next_q", terminal)
    _shape(target, "target_next_q", online.shape)
    rewards, target = _alike(rewards, target)
    best = online.argmax(-1, keepdim=True)  # the first of equals
    return rewards + gamma * target.gather(-1, best)[:, 0]


@torch.no_grad()
def fqe_targets(
    rewards: Any, terminal: Any, next_q: Any, policy_probs: Any, gamma: float
) -> Tensor:
    rewards, terminal, gamma = _steps(rewards, terminal, gamma)
    next_q = _next_q(next_q, "next_q", terminal)
    probs = _numbers(policy_probs, "policy_probs")
    _shape(probs, "policy_probs", next_q.shape)
    _finite(probs, "policy_probs")
    _refuse(probs < 0, probs, "policy_probs", "must not be negative")
    sums = probs.to(torch.float64).sum(-1)
    slack = 1e-6 if probs.dtype == torch.float64 else 1e-4
    _refuse((sums - 1.0).abs() > slack, sums, "policy_probs", "is the sum of the row, not 1")
    rewards, next_q, probs = _alike(rewards, next_q, probs)
    room = _headroom(rewards, next_q)
    value = (probs * (next_q * room)).sum(-1)
    return (rewards * room + gamma * value) / room


def cql_discrete_penalty(q_values: Any, action: Any) -> Tensor:
    q_values = _numbers(q_values, "q_values")
    _dims(q_values, "q_values", 1, 2)
    _finite(q_values, "q_values")
    count = q_values.shape[-1]
    if q_values.dim() == 1:
        chosen = torch.tensor(_integer(action, "action"), device=q_values.device)
    else:
        chosen = _indices(action, "action", q_values.shape[:1])
    _refuse((chosen < 0) | (chosen >= count), chosen, "action", f"must lie in [0, {count})")
    log_weights = _log_softmax(q_values, -1, "q_values")
    return -log_weights.gather(-1, chosen[..., None])[..., 0]


def expectile_loss(differences: Any, expectile: float = 0.7, *, reduction: str = "mean") -> Tensor:
    differences = _numbers(differences, "differences")
    _finite(differences, "differences")
    tau = _real(expectile, "expectile")
    if not 0.0 < tau < 1.0:
        raise ValueError(f"expectile = {tau}: must lie in (0, 1)")
    _choice(reduction, "reduction", ("mean", "none"))
    weights = torch.full_like(differences, tau)
    weights = torch.where(differences.detach() < 0, 1.0 - tau, weights)
    if reduction == "none":
        return weights * differences * differences
    if differences.numel() == 0:
        raise ValueError("differences is empty: a mean needs one element")
    # Divided first, so that only a mean beyond the dtype overflows.
    return (weights / differences.numel() * differences * differences).sum()


@torch.no_grad()
def iql_advantage_weights(advantages: Any, beta: float = 3.0, max_weight: float = 100.0) -> Tensor:
    advantages = _numbers(advantages, "advantages")
    _finite(advantages, "advantages")
    beta, max_weight = _real(beta, "beta"), _real(max_weight, "max_weight")
    if beta < 0:
        raise ValueError(f"beta = {beta}: must not be negative")
    if max_weight <= 0:
        raise ValueError(f"max_weight = {max_weight}: must be positive")
    # In float64: a float32 β may be infinite, and 0 · inf is NaN.
    weights = torch.exp(beta * advantages.to(torch.float64)).clamp(max=max_weight)
    return weights.to(advantages.dtype)


def behavior_support_mask(probabilities: Any, threshold_ratio: float) -> Tensor:
    probabilities = _numbers(probabilities, "probabilities").detach()
    if probabilities.ndim == 0 or probabilities.shape[-1] == 0:
        raise ValueError(f"probabilities has shape {tuple(probabilities.shape)}: no action")
    _finite(probabilities, "probabilities")
    _refuse(probabilities < 0, probabilities, "probabilities", "must not be negative")
    ratio = _unit(threshold_ratio, "threshold_ratio")
    most = probabilities.max(dim=-1, keepdim=True).values
    _refuse(most == 0, most, "probabilities", "must not be 0 for every action")
    return probabilities / most >= ratio


# Advantages along time


def _generalized(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: Any,
    lam: Any,
    terminated: Any,
    truncated: Any,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns."""
    rewards, values, next_values = _alike(
        _numbers(rewards, "rewards"),
        _numbers(values, "values"),
        _numbers(next_values, "next_values"),
    )
    _dims(rewards, "rewards", 1, 2)
    _shape(values, "values", rewards.shape)
    _shape(next_values, "next_values", rewards.shape)
    terminated = _flags(terminated, "terminated", rewards.shape)
    truncated = _flags(truncated, "truncated", rewards.shape)
    gamma, lam = _unit(gamma, "gamma"), _unit(lam, "lam")
    _finite(rewards, "rewards")
    _finite(values, "values")
    _finite(next_values, "next_values", ~terminated)
    if rewards.numel() == 0:
        return rewards - values, rewards + values

    next_values = torch.where(terminated, 0.0, next_values)
    room = _headroom(rewards, values, next_values)
    bootstrapped = (rewards * room + gamma * (next_values * room)).unbind(-1)
    baselines = (values * room).unbind(-1)
    traces = torch.where(
        terminated | truncated, 0.0, torch.full_like(rewards, gamma * lam).detach()
    ).unbind(-1)
    advantage = torch.zeros_like(baselines[0])
    advantages, returns = [], []
    for target, baseline, trace in zip(
        reversed(bootstrapped), reversed(baselines), reversed(traces), strict=True
    ):
        returned = target + trace * advantage
        advantage = returned - baseline
        returns.append(returned)
        advantages.append(advantage)
    return torch.stack(advantages[::-1], -1) / room, torch.stack(returns[::-1], -1) / room


def generalized_advantages(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Tensor:
    return _generalized(rewards, values, next_values, gamma, lam, terminated, truncated)[0]


@torch.no_grad()
def lambda_returns(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Tensor:
    return _generalized(rewards, values, next_values, gamma, lam, terminated, truncated)[1]


def masked_advantages(
    token_rewards: Any, values: Any, mask: Any, gamma: float, lam: float
) -> Tensor:
    rewards, values = _alike(_numbers(token_rewards, "token_rewards"), _numbers(values, "values"))
    _dims(rewards, "token_rewards", 1, 2)
    _shape(values, "values", rewards.shape)
    policy = _flags(mask, "mask", rewards.shape)
    gamma, lam = _unit(gamma, "gamma"), _unit(lam, "lam")
    _finite(rewards, "token_rewards")
    _finite(values, "values", policy)
    values = torch.where(policy, values, 0.0)
    if rewards.numel() == 0:
        return rewards - values

    room = _headroom(rewards, values)
    nothing = torch.zeros_like(rewards[..., 0])
    pending, next_value, next_advantage = nothing, nothing, nothing
    advantages = []
    for reward, value, is_policy in zip(
        reversed((rewards * room).unbind(-1)),
        reversed((values * room).unbind(-1)),
        reversed(policy.unbind(-1)),
        strict=True,
    ):
        pending = pending + reward
        here = pending + gamma * next_value - value + gamma * lam * next_advantage
        advantages.append(torch.where(is_policy, here, 0.0))
        next_advantage = torch.where(is_policy, here, next_advantage)
        next_value = torch.where(is_policy, value, next_value)
        pending = torch.where(is_policy, 0.0, pending)
    return torch.stack(advantages[::-1], -1) / room


# Advantages within groups


def _group_codes(group_ids: Any, size: int, device: torch.device) -> tuple[Tensor, int]:
    """A number from 0 to G - 1 per row, and G."""
    if group_ids is None or isinstance(group_ids, (str, bytes, Mapping)):
        raise TypeError(f"group_ids must hold one id per reward, got {group_ids!r}")
    if isinstance(group_ids, Tensor):
        _shape(group_ids, "group_ids", (size,))
        _refuse(group_ids != group_ids, group_ids, "group_ids", "is no id")
        found, codes = torch.unique(group_ids, return_inverse=True)
        return codes.to(device), len(found)
    ids = [item.item() if isinstance(item, Tensor) else item for item in group_ids]
    if len(ids) != size:
        raise ValueError(f"group_ids has {len(ids)} entries, expected {size}")
    seen: dict[Any, int] = {}
    for index, item in enumerate(ids):
        if item is None or item != item:
            raise ValueError(f"group_ids[{index}] = {item}: is no id")
        seen.setdefault(item, len(seen))
    codes = torch.tensor([seen[item] for item in ids], dtype=torch.int64, device=device)
    return codes, len(seen)


class _Groups:
    """Statistics of the valid rows of each group, handed back to every row."""

    def __init__(self, codes: Tensor, groups: int, valid: Tensor, like: Tensor) -> None:
        self.codes, self.groups, self.valid = codes, groups, valid
        self.count = self.total(valid.to(like.dtype))

    def total(self, x: Tensor) -> Tensor:
        return x.new_zeros(self.groups).index_add(0, self.codes, x)[self.codes]

    def largest(self, x: Tensor) -> Tensor:
        x = torch.where(self.valid, x.detach(), -math.inf)
        start = x.new_full((self.groups,), -math.inf)
        return start.scatter_reduce(0, self.codes, x, "amax")[self.codes]

    def equal(self, x: Tensor) -> Tensor:
        return ~self.valid | (self.largest(x) == -self.largest(-x))

    def centred(self, x: Tensor) -> Tensor:
        # Twice: the second mean is the rounding of the first.
        for _ in range(2):
            mean = self.total(x) / self.count.clamp(min=1)
            x = torch.where(self.valid, x - mean, 0.0)
        return x

    def deviation(self, x: Tensor, ddof: int) -> tuple[Tensor, Tensor]:
        """The standard deviation, 1 where there is none; and where there is none."""
        centred = self.centred(x)
        largest = self.largest(centred.abs())
        flat = self.equal(x) | (largest <= 0)
        # In units of the largest deviation no square overflows or vanishes.
        unit = torch.where(flat, 1.0, largest)
        squares = torch.where(flat, 0.0, centred / unit).square()
        variance = self.total(squares) / (self.count - ddof).clamp(min=1)
        return torch.where(flat, 1.0, variance).sqrt() * unit, flat


def _group_rewards(rewards: Any) -> Tensor:
    rewards = _numbers(rewards, "rewards")
    _dims(rewards, "rewards", 1)
    return rewards


def group_advantages(
    rewards: Any,
    group_ids: Any,
    *,
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    valid: Any = None,
) -> Tensor:
    rewards = _group_rewards(rewards)
    if valid is None:
        present = torch.ones_like(rewards, dtype=torch.bool)
    else:
        present = _flags(valid, "valid", rewards.shape)
    _finite(rewards, "rewards", present)
    codes, size = _group_codes(group_ids, len(rewards), rewards.device)
    _choice(scale, "scale", ("std", "none", "batch"))
    ddof, eps = _integer(ddof, "ddof"), _real(eps, "eps")
    if ddof not in (0, 1):
        raise ValueError(f"ddof = {ddof}: must be 0 or 1")
    if eps < 0:
        raise ValueError(f"eps = {eps}: must not be negative")

    rewards = torch.where(present, rewards, 0.0)
    room = _headroom(rewards)
    scaled = rewards * room
    groups = _Groups(codes, size, present, scaled)
    centred = groups.centred(scaled)
    centred = torch.where(groups.equal(scaled), _zero_value(centred), centred)
    if scale == "none":
        return centred / room
    if scale == "batch":
        groups = _Groups(torch.zeros_like(codes), 1, present, scaled)
    deviation, flat = groups.deviation(scaled, ddof)
    return torch.where(flat, 0.0, centred / (deviation + eps * room))


def leave_one_out_advantages(rewards: Any, group_ids: Any) -> Tensor:
    rewards = _group_rewards(rewards)
    _finite(rewards, "rewards")
    codes, size = _group_codes(group_ids, len(rewards), rewards.device)
    room = _headroom(rewards)
    scaled = rewards * room
    groups = _Groups(codes, size, torch.ones_like(rewards, dtype=torch.bool), scaled)
    for index in (groups.count < 2).nonzero()[:1, 0].tolist():
        raise ValueError(f"group_ids[{index}] = {group_ids[index]}: is a group of one")
    advantages = scaled - (groups.total(scaled) - scaled) / (groups.count - 1)
    return torch.where(groups.equal(scaled), _zero_value(advantages), advantages) / room


# Policy gradients


def importance_ratios(
    new_logprobs: Any, old_logprobs: Any, mask: Any, *, level: str = "token"
) -> Tensor:
    if mask is None:
        raise TypeError("mask must hold 0 and 1, got None")
    new, old, active = _log_ratio_parts(new_logprobs, old_logprobs, mask)
    _dims(new, "new_logprobs", 2)
    if _choice(level, "level", ("token", "sequence")) == "token":
        ratios = _exp(new - old)
    else:
        room = _headroom(new, old)
        total = (new * room - old * room).sum(-1, keepdim=True)
        ratios = _exp(total / active.sum(-1, keepdim=True).clamp(min=1) / room)
    return torch.where(active, ratios, 1.0)


def clipped_policy_terms(
    ratios: Any,
    advantages: Any,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Tensor:
    ratios, advantages = _alike(_numbers(ratios, "ratios"), _numbers(advantages, "advantages"))
    _shape(advantages, "advantages", ratios.shape)
    _refuse(~(ratios.detach() >= 0), ratios, "ratios", "must not be negative or NaN")
    _finite(advantages, "advantages")
    low, high = _real(clip_low, "clip_low"), _real(clip_high, "clip_high")
    if not 0.0 < low < 1.0:
        raise ValueError(f"clip_low = {low}: must lie in (0, 1)")
    if high <= 0.0:
        raise ValueError(f"clip_high = {high}: must be positive")
    cap = None if dual_clip is None else _real(dual_clip, "dual_clip")
    if cap is not None and cap <= 1.0:
        raise ValueError(f"dual_clip = {cap}: must exceed 1")
    # The sign of A decides which clip can bind, so inf · 0 is never formed.
    gaining = ratios.clamp(max=1.0 + high)
    losing = ratios.clamp(min=1.0 - low, max=cap)
    return -torch.where(advantages.detach() >= 0, gaining, losing) * advantages


def aggregate_token_losses(
    losses: Any, mask: Any, mode: str, *, max_length: int | None = None
) -> Tensor:
    losses = _numbers(losses, "losses")
    _dims(losses, "losses", 2)
    active = _flags(mask, "mask", losses.shape)
    _finite(losses, "losses", active)
    modes = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
    _choice(mode, "mode", modes)
    if (mode == "seq-mean-token-sum-norm") != (max_length is not None):
        raise ValueError(f"max_length = {max_length!r}: belongs to seq-mean-token-sum-norm alone")
    longest = 1 if max_length is None else _integer(max_length, "max_length")
    if longest < 1:
        raise ValueError(f"max_length = {longest}: must be positive")

    kept = torch.where(active, losses, 0.0)
    room = _headroom(kept)
    sums = (kept * room).sum(-1)
    counts = active.sum(-1)
    if mode == "token-mean":
        result = sums.sum() / counts.sum().clamp(min=1)
    elif mode == "seq-mean-token-mean":
        result = (sums / counts.clamp(min=1)).sum() / (counts > 0).sum().clamp(min=1)
    else:
        result = sums.sum() / max(len(sums), 1) / longest
    return result / room


def _k3(difference: Tensor) -> Tensor:
    """exp(d) - 1 - d, by its series near 0, where the plain form loses every digit."""
    small = difference.detach().abs() < 0.5
    d = torch.where(small, difference, 0.0)
    series = torch.ones_like(d)
    for k in range(17, 2, -1):  # 1 + d/3 (1 + d/4 (1 + …))
        series = 1.0 + d / k * series
    large = torch.where(small, 1.0, difference)
    plain = _exp(large) - 1.0 - large.clamp(max=torch.finfo(large.dtype).max)
    return torch.where(small, 0.5 * d * d * series, plain)


def kl_penalty_terms(logprobs: Any, ref_logprobs: Any, estimator: str) -> Tensor:
    logprobs, reference = _alike(
        _numbers(logprobs, "logprobs"), _numbers(ref_logprobs, "ref_logprobs")
    )
    _shape(reference, "ref_logprobs", logprobs.shape)
    _finite(logprobs, "logprobs")
    _finite(reference, "ref_logprobs")
    estimators: dict[str, Callable[[Tensor], Tensor]] = {
        "k1": lambda d: -d,
        "k2": lambda d: 0.5 * d * d,
        "k3": _k3,
    }
    name = _choice(estimator, "estimator", tuple(estimators))
    return estimators[name](reference - logprobs)
