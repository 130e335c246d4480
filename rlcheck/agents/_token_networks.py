"""Networks that read the toy language, and how they answer."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from rlcheck.agents._token_language import END, MAX_ANSWER, PAD, PROMPTS, WORDS, encode
from rlcheck.agents.actor_critic import one_thread
from rlcheck.torch import iql_advantage_weights, stable_log_softmax

__all__ = ["TokenCritic", "TokenPolicy", "TokenScores", "TokenValues", "decode", "reweighted"]

TokenScores: TypeAlias = Callable[[Tensor], Tensor]
"""[N, L] tokens → [N, L, W] logits of the word that comes next."""


class TokenValues(NamedTuple):
    """What a critic says after each token."""

    q: Tensor  # [N, L, W] of each word that may come next
    v: Tensor  # [N, L]


class _Reader(nn.Module):
    """A GRU over tokens, with linear heads that begin at 0."""

    def __init__(self, outputs: int, *, seed: int, hidden_size: int) -> None:
        super().__init__()
        single = torch.float32  # whatever torch's default is
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(len(WORDS), hidden_size, dtype=single)
            self.memory = nn.GRU(hidden_size, hidden_size, batch_first=True, dtype=single)
            self.head = nn.Linear(hidden_size, outputs, dtype=single)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def read(self, ids: Tensor) -> Tensor:
        """[N, L] → [N, L, outputs]; nothing depends on what comes later."""
        features, _ = self.memory(self.embedding(ids))
        read: Tensor = self.head(features)
        return read


class TokenPolicy(_Reader):
    """A causal model of the next word; uniform before training."""

    def __init__(self, *, seed: int, hidden_size: int = 48) -> None:
        super().__init__(len(WORDS), seed=seed, hidden_size=hidden_size)

    def forward(self, ids: Tensor) -> Tensor:
        """[N, L] tokens → [N, L, W] logits of the next one."""
        return self.read(ids)


class TokenCritic(_Reader):
    """Values of the sequence so far, and of each word that may come next; 0 before training."""

    def __init__(self, *, seed: int, hidden_size: int = 48) -> None:
        super().__init__(len(WORDS) + 1, seed=seed, hidden_size=hidden_size)

    def forward(self, ids: Tensor) -> TokenValues:
        """[N, L] tokens → values after each of them."""
        values = self.read(ids)
        return TokenValues(values[..., :-1], values[..., -1])


def reweighted(
    policy: TokenScores, critic: TokenCritic, *, beta: float, max_weight: float
) -> TokenScores:
    """The policy that critics improve at decoding.

    log π(a | s) + log min(exp(β (Q(s, a) − V(s))), w_max), up to a constant; β = 0 is π itself
    """

    def scores(ids: Tensor) -> Tensor:
        values = critic(ids)
        advantages = values.q - values.v[..., None]  # [N, L, W]
        weights = iql_advantage_weights(advantages, beta, max_weight)
        return stable_log_softmax(policy(ids)) + weights.log()

    return scores


@one_thread()
@torch.no_grad()
def decode(scores: TokenScores, *, sample_seed: int | None = None) -> list[tuple[int, ...]]:
    """One answer for each prompt, its end token included where there is one.

    Args:
        scores: logits of the next word.
        sample_seed: None takes the most likely word; else words are drawn, from this seed.
    """
    prompts = [encode(prompt) for prompt in PROMPTS]
    ids = torch.full((len(prompts), max(map(len, prompts)) + MAX_ANSWER), PAD)
    for n, prompt in enumerate(prompts):
        ids[n, : len(prompt)] = torch.tensor(prompt)
    generator = None if sample_seed is None else torch.Generator().manual_seed(sample_seed)
    rows, ends = torch.arange(len(prompts)), torch.tensor([len(prompt) for prompt in prompts])
    for step in range(MAX_ANSWER):
        logits = scores(ids)[rows, ends + step - 1]  # [P, W]
        ids[rows, ends + step] = _choose(logits, generator)
    answers = [ids[n, end : end + MAX_ANSWER].tolist() for n, end in enumerate(ends.tolist())]
    return [_until_end(answer) for answer in answers]


def _choose(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    if generator is None:
        return logits.argmax(dim=1)
    return torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]


def _until_end(answer: list[int]) -> tuple[int, ...]:
    return tuple(answer[: answer.index(END) + 1] if END in answer else answer)
