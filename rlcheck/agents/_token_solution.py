"""Exact values on a log of the toy language, and the exact expected reward of any policy.

What a log supports is a tree: a state is a prompt and the tokens that followed it.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from rlcheck import collector_target
from rlcheck._inputs import Floats, scalar, unit_interval
from rlcheck.agents._token_language import (
    ANSWERS,
    END,
    PROMPTS,
    TokenEpisode,
    encode,
    token_batch,
)
from rlcheck.agents._token_networks import TokenCritic, TokenScores
from rlcheck.agents.actor_critic import one_thread
from rlcheck.torch import causal_response_logprobs, masked_sequence_metrics

__all__ = [
    "StateValues",
    "ValueErrors",
    "expected_rewards",
    "support_values",
    "value_errors",
]

State: TypeAlias = tuple[int, tuple[int, ...]]
"""The prompt's index, and the tokens of the answer so far."""


class StateValues(NamedTuple):
    """What a state and the tokens that the log has there are worth."""

    v: float
    q: dict[int, float]


def support_values(
    episodes: Sequence[TokenEpisode], *, gamma: float, expectile: float
) -> dict[State, StateValues]:
    """Exact values of expectile regression on what a log supports.

    Q(s, a) = r + γ V(s a), r alone where a ends the answer;  V(s) = the τ-expectile of Q(s, ·)
    over the tokens that the log has at s, as often as it has them

    τ = ½ gives the values of the policy that wrote the log, and τ = 1 the best that its tokens
    can do: V* and Q* on its support.

    Args:
        episodes: the log, at least one; equal answers to a prompt have equal rewards.
        gamma: discount of a token, in [0, 1].
        expectile: τ in (0, 1].

    Raises:
        ValueError: gamma or the expectile is out of range.

    Reference:
        Kostrikov, Nair and Levine (2021), Offline RL with implicit Q-learning, section 4.
    """
    gamma = unit_interval("gamma", gamma)
    expectile = scalar("expectile", expectile, allow="anything")
    if not 0.0 < expectile <= 1.0:
        raise ValueError(f"expectile is {expectile}; it must lie in (0, 1]")
    rewards = {(episode.prompt, episode.tokens): episode.reward for episode in episodes}
    counts: defaultdict[State, Counter[int]] = defaultdict(Counter)
    for prompt, tokens, _ in episodes:
        for t, token in enumerate(tokens):
            counts[prompt, tokens[:t]][token] += 1
    values: dict[State, StateValues] = {}
    for state in sorted(counts, key=lambda state: -len(state[1])):  # what follows comes first
        prompt, before = state
        q = {}
        for token in counts[state]:
            after = (prompt, (*before, token))
            ended = token == END
            follows = 0.0 if ended else values[after].v
            paid = rewards[after] if ended else 0.0
            q[token] = float(collector_target(paid, follows, gamma=gamma, terminated=ended))
        values[state] = StateValues(_expectile(q, counts[state], expectile), q)
    return values


def _expectile(q: dict[int, float], counts: Counter[int], expectile: float) -> float:
    """Where Σ n |τ − 1[q < e]| (q − e) is 0: a mean whose weights depend on it."""
    values = np.array(list(q.values()))
    often = np.array([counts[token] for token in q])
    if expectile == 1.0:
        return float(values.max())
    found = np.average(values, weights=often)
    for _ in range(len(values)):  # Newton's method on a function of straight pieces: it is finite
        found = np.average(
            values, weights=often * np.where(values < found, 1 - expectile, expectile)
        )
    return float(found)


@one_thread()
@torch.no_grad()
def expected_rewards(scores: TokenScores) -> Floats:
    """[P] exact expected reward of a policy that samples its words, for each prompt.

    Σ over answers y of r(y) Π_t π(y_t | prompt, y_<t)

    Only the answers of `ANSWERS` are worth anything, so that the sum runs over them alone, whatever
    else the policy may say.

    Args:
        scores: [N, L] tokens → [N, L, W] logits of the word that comes next.
    """
    paid = [
        TokenEpisode(number, (*encode(answer.text), END), answer.reward)
        for number, prompt in enumerate(PROMPTS)
        for answer in ANSWERS[prompt]
        if answer.reward != 0
    ]
    batch = token_batch(paid)  # they differ from each other: one row for each
    selected, mask = causal_response_logprobs(scores(batch.ids), batch.ids, batch.response_mask)
    chances = masked_sequence_metrics(selected, mask).sum_logprob.double().exp().numpy()
    rewards = np.array([episode.reward for episode in paid])
    prompts = np.array([episode.prompt for episode in paid])
    return np.bincount(prompts, rewards * chances, len(PROMPTS)).astype(np.float64)


class ValueErrors(NamedTuple):
    """Learned minus exact values, one for each state, or state and token, of a log."""

    q: Floats
    v: Floats


@one_thread()
@torch.no_grad()
def value_errors(
    critic: TokenCritic, episodes: Sequence[TokenEpisode], *, gamma: float, expectile: float
) -> ValueErrors:
    """How far a critic is from the values of `support_values`, wherever the log has been."""
    exact = support_values(episodes, gamma=gamma, expectile=expectile)
    answers = list(dict.fromkeys(episodes))
    learned = critic(token_batch(answers).ids)
    q: dict[tuple[State, int], float] = {}
    v: dict[State, float] = {}
    for n, (prompt, tokens, _) in enumerate(answers):
        first = len(encode(PROMPTS[prompt])) - 1  # the last word of the prompt
        for t, token in enumerate(tokens):
            state = (prompt, tokens[:t])
            v[state] = float(learned.v[n, first + t]) - exact[state].v
            q[state, token] = float(learned.q[n, first + t, token]) - exact[state].q[token]
    return ValueErrors(np.array(list(q.values())), np.array(list(v.values())))
