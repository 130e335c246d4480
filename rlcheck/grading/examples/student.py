"""Homework: returns, Q-learning targets, offline losses, decoding.

Only NumPy and the standard library. All sums are in float64.
"""

import numpy as np

ROLES = {
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
    "environment",
    "observation",
}
STEPS = ("temperature", "top_k", "top_p")


# ---------- reading the inputs ----------


def to_array(name, x, ndim=None, finite=True):
    """Whatever I get as a float64 array. Text, None and dicts are not numbers."""
    if x is None or isinstance(x, (str, bytes, dict, set)):
        raise TypeError(f"{name} should be numbers, got {x!r}")
    if hasattr(x, "detach"):  # torch
        x = x.detach().cpu().numpy()
    try:
        a = np.asarray(x)
    except ValueError as e:
        raise ValueError(f"{name}: rows of different length") from e
    if a.dtype.kind not in "biuf":
        raise TypeError(f"{name} should be numbers, got {x!r}")
    a = a.astype(np.float64)
    if ndim is not None and a.ndim != ndim:
        raise ValueError(f"{name} should have {ndim} dims, its shape is {a.shape}")
    if finite:
        complain_where(name, a, ~np.isfinite(a), "finite")
    return a


def complain_where(name, a, bad, what):
    if bad.any():
        i = tuple(int(k) for k in np.argwhere(bad)[0])
        where = f"{name}{list(i)}" if i else name
        raise ValueError(f"{where} = {a[i]}, should be {what}")


def to_flags(name, x, shape=None):
    a = to_array(name, x, finite=False)
    if shape is not None and a.shape != shape:
        raise ValueError(f"{name} has shape {a.shape}, should be {shape}")
    complain_where(name, a, (a != 0) & (a != 1), "0 or 1")
    return a == 1


def to_number(name, x, finite=True):
    return float(to_array(name, x, ndim=0, finite=finite))


def to_share(name, x):
    """gamma, top_p, ... between 0 and 1 (nan fails the comparison too)"""
    x = to_number(name, x, finite=False)
    if not 0 <= x <= 1:
        raise ValueError(f"{name} = {x}, should be between 0 and 1")
    return x


def add(*parts):
    """Sum of arrays. If something runs over half way, add quarters and scale back."""
    with np.errstate(over="ignore", invalid="ignore"):
        s = sum(parts)
        return np.where(np.isfinite(s), s, 4 * sum(p / 4 for p in parts))


# ---------- returns ----------


def return_to_go(rewards, gamma=1.0):
    """R_t = r_t + gamma * R_{t+1}, counted from the back."""
    r = to_array("rewards", rewards, ndim=1)
    gamma = to_share("gamma", gamma)

    def backwards(r):
        out, tail = [], 0.0
        for x in reversed(r.tolist()):
            tail = x + gamma * tail
            out.append(tail)
        return np.array(out[::-1], dtype=float)

    out = backwards(r)
    if not np.isfinite(out).all():  # 1.7e308 + 1.7e308 - 1.7e308: once more with small numbers
        scale = 2.0 ** len(r).bit_length()
        with np.errstate(over="ignore"):
            out = np.where(np.isfinite(out), out, backwards(r / scale) * scale)
    return out


def discounted_return(rewards, gamma):
    """The return of the whole episode is the first return-to-go."""
    all_of_them = return_to_go(rewards, gamma)
    return float(all_of_them[0]) if len(all_of_them) else 0.0


def td_residuals(rewards, values, gamma, terminated=None):
    """delta_t = r_t + gamma * V(s_{t+1}) - V(s_t), there is one more value than rewards"""
    r = to_array("rewards", rewards, ndim=1)
    v = to_array("values", values, ndim=1)
    gamma = to_share("gamma", gamma)
    if len(v) != len(r) + 1:
        raise ValueError(f"values has {len(v)} entries, should be {len(r) + 1}")
    if terminated is not None:
        to_flags("terminated", terminated, r.shape)
    return add(r, gamma * v[1:], -v[:-1])


def potential_shaping(rewards, potentials, gamma):
    """r_t + gamma * phi(s_{t+1}) - phi(s_t), with the same gamma as the return"""
    r = to_array("rewards", rewards, ndim=1)
    phi = to_array("potentials", potentials, ndim=1)
    gamma = to_share("gamma", gamma)
    if len(phi) != len(r) + 1:
        raise ValueError(f"potentials has {len(phi)} entries, should be {len(r) + 1}")
    return add(r, gamma * phi[1:], -phi[:-1])


def collector_target(reward, next_value, *, gamma, terminated):
    """r + gamma * V(s'), and only r if the task is really over.

    If the collector just stopped (time limit, full buffer) we still bootstrap.
    """
    r = to_array("reward", reward)
    v = to_array("next_value", next_value, finite=False)
    done = to_flags("terminated", terminated)
    gamma = to_share("gamma", gamma)
    try:
        r, v, done = np.broadcast_arrays(r, v, done)
    except ValueError:
        raise ValueError(f"shapes do not fit: {r.shape}, {v.shape}, {done.shape}") from None
    complain_where("next_value", v, ~np.isfinite(v) & ~done, "finite")
    y = r + gamma * (1.0 - done) * v
    return float(y) if y.ndim == 0 else y


# ---------- targets of Q-learning ----------


def next_state_table(name, x, done):
    """[N, A] values of the next states, zeros after a terminal (there it can be nan)."""
    q = to_array(name, x, ndim=2, finite=False)
    if q.shape[0] != len(done) or q.shape[1] == 0:
        raise ValueError(f"{name} has shape {q.shape}, should be ({len(done)}, actions)")
    complain_where(name, q, ~np.isfinite(q) & ~done[:, None], "finite")
    return np.where(done[:, None], 0.0, q)


def dqn_targets(rewards, terminal, next_q, gamma):
    r = to_array("rewards", rewards, ndim=1)
    done = to_flags("terminal", terminal, r.shape)
    q = next_state_table("next_q", next_q, done)
    return add(r, to_share("gamma", gamma) * q.max(axis=1))


def double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma):
    """Like DQN, but choosing the action and scoring it are two separate things."""
    r = to_array("rewards", rewards, ndim=1)
    done = to_flags("terminal", terminal, r.shape)
    online = next_state_table("online_next_q", online_next_q, done)
    target = next_state_table("target_next_q", target_next_q, done)
    if online.shape != target.shape:
        raise ValueError(f"two tables of different shapes: {online.shape}, {target.shape}")
    best = target.argmax(axis=1)
    scores = target[np.arange(len(r)), best]
    return add(r, to_share("gamma", gamma) * scores)


def fqe_targets(rewards, terminal, next_q, policy_probs, gamma):
    """The policy does not take the best action, so we need its average."""
    r = to_array("rewards", rewards, ndim=1)
    done = to_flags("terminal", terminal, r.shape)
    q = next_state_table("next_q", next_q, done)
    pi = to_array("policy_probs", policy_probs, ndim=2)
    if pi.shape != q.shape:
        raise ValueError(f"policy_probs has shape {pi.shape}, should be {q.shape}")
    complain_where("policy_probs", pi, pi < 0, ">= 0")
    single = getattr(policy_probs, "dtype", None) == np.float32
    off = np.abs(pi.sum(axis=1) - 1)
    complain_where("sums of policy_probs", off + 1, off > (1e-4 if single else 1e-6), "1")
    gamma = to_share("gamma", gamma)
    return add(r, *(gamma * (pi[:, a] * q[:, a]) for a in range(q.shape[1])))


# ---------- offline RL ----------


def cql_discrete_penalty(q_values, action):
    """logsumexp(Q) - Q[action]; I subtract the max first, otherwise exp overflows."""
    q = to_array("q_values", q_values)
    if q.ndim not in (1, 2) or q.shape[-1] == 0:
        raise ValueError(f"q_values has shape {q.shape}")
    a = to_array("action", action)
    if a.shape != q.shape[:-1]:
        raise ValueError(f"action has shape {a.shape}, should be {q.shape[:-1]}")
    given = np.asarray(action)
    if a.ndim == 1 and len(a) and given.dtype.kind == "f":
        raise ValueError("action should hold integers")
    complain_where("action", a, (a != np.floor(a)) | (a < 0) | (a >= q.shape[-1]), "an action")
    a = a.astype(int)
    with np.errstate(over="ignore"):
        z = q - q.max(axis=-1, keepdims=True)
    logsum = np.log(np.exp(z).sum(axis=-1))
    if q.ndim == 1:
        return float(logsum - z[a])
    return logsum - z[np.arange(len(a)), a]


def expectile_loss(differences, expectile=0.7, *, reduction="mean"):
    """tau * u^2 above zero, (1 - tau) * u^2 below"""
    u = to_array("differences", differences)
    tau = to_number("expectile", expectile)
    if not 0 < tau < 1:
        raise ValueError(f"expectile = {tau}, should be between 0 and 1")
    if reduction not in ("mean", "none"):
        raise ValueError(f"unknown reduction {reduction!r}")
    weight = np.where(u < 0, 1 - tau, tau)
    with np.errstate(over="ignore"):
        terms = (weight * u) * u
        if reduction == "none":
            return terms
        if terms.size == 0:
            raise ValueError("differences is empty, no mean")
        mean = terms.mean()
        if np.isinf(mean):
            mean = (terms / terms.size).sum()
    return float(mean)


def behavior_support_mask(probabilities, threshold_ratio):
    """BCQ: which actions does the data have often enough, compared with the favourite one?"""
    p = to_array("probabilities", probabilities)
    ratio = to_share("threshold_ratio", threshold_ratio)
    if p.ndim == 0 or p.shape[-1] == 0:
        raise ValueError(f"probabilities has shape {p.shape}, there are no actions")
    complain_where("probabilities", p, p < 0, ">= 0")
    top = p.max(axis=-1, keepdims=True)
    complain_where("probabilities", top, top == 0, "positive somewhere")
    return p / top >= ratio


# ---------- tokens ----------


def decoding_distribution_with_order(logits, *, temperature, top_k, top_p, order):
    """Temperature, top-k and top-p one after another, in the order that is asked for."""
    x = to_array("logits", logits, ndim=1, finite=False)
    complain_where("logits", x, np.isnan(x) | (x == np.inf), "finite or -inf")
    if not (x > -np.inf).any():
        raise ValueError("logits: no token is possible")
    if isinstance(order, (str, bytes, dict)) or order is None:
        raise TypeError("order should be a list of names")
    order = list(order)
    for i, name in enumerate(order):
        if not isinstance(name, str) or name not in STEPS or name in order[:i]:
            raise ValueError(f"order[{i}] = {name!r}")
    if "temperature" in order:
        temperature = to_number("temperature", temperature)
        if temperature <= 0:
            raise ValueError(f"temperature = {temperature}, should be > 0")
    if "top_k" in order:
        k = to_number("top_k", top_k)
        if k < 1 or k != int(k):
            raise ValueError(f"top_k = {top_k}, should be an integer >= 1")
        top_k = int(k)
    if "top_p" in order:
        top_p = to_share("top_p", top_p)

    with np.errstate(over="ignore"):
        x = x - x.max()
        for name in order:
            if name == "temperature":
                x = (x - x.max()) / temperature
            elif name == "top_k":
                kth = np.sort(x)[::-1][min(top_k, len(x)) - 1]
                x = np.where(x >= kth, x, -np.inf)
            else:
                x = nucleus(x, top_p)
    return softmax(x)


def nucleus(x, top_p):
    """Go down from the most likely token until top_p is used up; the first one always stays."""
    if top_p == 1:
        return x
    ranking = np.argsort(-x, kind="stable")
    inside = np.cumsum(softmax(x)[ranking]) <= top_p
    inside[0] = True
    kept = ranking[inside]
    out = np.full(len(x), -np.inf)
    out[kept] = x[kept]
    return out


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def trajectory_mask_report(segments):
    """How many tokens get a gradient? Only what the assistant wrote."""
    policy = total = 0
    for i, (role, tokens) in enumerate(segments):
        if not isinstance(role, str) or role not in ROLES:
            raise ValueError(f"segments[{i}]: unknown role {role!r}")
        n = to_number(f"segments[{i}] tokens", tokens)
        if n < 0 or n != int(n):
            raise ValueError(f"segments[{i}]: {tokens} tokens")
        total += int(tokens)
        policy += int(tokens) if role == "assistant" else 0
    if policy == 0:
        raise ValueError("segments: the assistant wrote nothing")
    return {
        "policy_tokens": policy,
        "total_tokens": total,
        "masked_fraction": (total - policy) / total,
        "dilution_factor": total / policy,
    }
