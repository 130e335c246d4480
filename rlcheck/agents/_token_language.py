"""A language of 29 words: questions, what was answered to them, and what the answers are worth."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlcheck._inputs import indices_below, integer

__all__ = [
    "ANSWERS",
    "END",
    "MAX_ANSWER",
    "PAD",
    "PROMPTS",
    "WORDS",
    "Answer",
    "TokenBatch",
    "TokenEpisode",
    "answer_reward",
    "draw_answers",
    "encode",
    "token_batch",
    "token_text",
]

WORDS: tuple[str, ...] = (
    *("<pad>", "<end>", "what", "where", "who", "does", "can", "the", "cat", "dog", "bird", "eat"),
    *("eats", "sleep", "sleeps", "fly", "fish", "meat", "seeds", "mat", "nest", "house", "it"),
    *("in", "on", "i", "do", "not", "know"),
)
"""The vocabulary; a token is an index in it."""

PAD, END = 0, 1
MAX_ANSWER = 8
"""Tokens after which decoding gives up; the end token counts."""


class Answer(NamedTuple):
    """One answer to a prompt."""

    text: str
    reward: float  # paid at the end token
    share: float  # of the answers in the log


def _answers(good: str, share: float, wrong: dict[str, float]) -> tuple[Answer, ...]:
    evasive = 1.0 - share - sum(wrong.values())
    return (
        Answer(good, 1.0, share),
        *(Answer(text, 0.0, often) for text, often in wrong.items()),
        Answer("i do not know", 0.5, evasive),
    )


ANSWERS: dict[str, tuple[Answer, ...]] = {
    "what does the cat eat": _answers(
        "the cat eats fish", 0.2, {"the cat eats seeds": 0.3, "the cat sleeps": 0.15}
    ),
    "what does the dog eat": _answers(
        "the dog eats meat", 0.2, {"the dog eats the mat": 0.3, "it sleeps": 0.1}
    ),
    "what does the bird eat": _answers("it eats seeds", 0.2, {"it eats meat": 0.35}),
    "where does the cat sleep": _answers(
        "it sleeps on the mat", 0.2, {"it sleeps in the nest": 0.2, "it eats fish": 0.2}
    ),
    "where does the dog sleep": _answers(
        "it sleeps in the house",
        0.2,
        {"it sleeps in the nest": 0.25, "it sleeps on the mat": 0.15},
    ),
    "where does the bird sleep": _answers("in the nest", 0.55, {"on the mat": 0.2}),
    "who can fly": _answers("the bird can fly", 0.2, {"the cat": 0.2, "the dog": 0.2}),
    "who eats fish": _answers("the cat", 0.5, {"the bird": 0.2}),
}
"""Prompt → its answers: the good one first, then wrong ones, then the evasive one.

Anything else that may be said is worth 0. To most of the prompts the good answer is rare and begins
like wrong ones, so that its first word is worth less than that of the evasive answer, on average
over the log, and more at best.
"""

PROMPTS: tuple[str, ...] = tuple(ANSWERS)


class TokenEpisode(NamedTuple):
    """A prompt and what was answered."""

    prompt: int  # index in PROMPTS
    tokens: tuple[int, ...]  # of the answer, the end token last
    reward: float


class TokenBatch(NamedTuple):
    """Sequences as a causal model reads them: prompt, answer, end token, padding at the right.

    Equal sequences are one row, which counts as often as the log has it.
    """

    ids: Tensor  # [N, L] int64
    response_mask: Tensor  # [N, L] bool: tokens of the answer, its end token among them
    rewards: Tensor  # [N, L] paid for the token that stands there
    terminated: Tensor  # [N, L] bool: the answer ends with the token that stands there
    counts: Tensor  # [N] how often the log has the row


def encode(text: str) -> tuple[int, ...]:
    """The tokens of a text of known words.

    Raises:
        ValueError: a word is unknown; the text names it.
    """
    for word in text.split():
        if word not in WORDS:
            raise ValueError(f"text has the word {word!r}; it must be one of {WORDS}")
    return tuple(WORDS.index(word) for word in text.split())


def token_text(sequence: Iterable[int]) -> str:
    """Words of a sequence of tokens; padding and the end token are left out.

    Raises:
        ValueError: a token is no index of `WORDS`, or there is a sequence of sequences.
        TypeError: text, or anything else that holds no numbers.
    """
    if isinstance(sequence, str) or not isinstance(sequence, Iterable):
        raise TypeError(f"sequence is {sequence!r}; tokens are due")
    given = list(sequence)
    if len(given) == 0:
        return ""
    tokens = indices_below("sequence", given, len(WORDS))
    if tokens.ndim != 1:
        raise ValueError(f"sequence has shape {tokens.shape}; it must be a vector of tokens")
    return " ".join(WORDS[token] for token in tokens if token not in (PAD, END))


def answer_reward(prompt: int, tokens: Sequence[int]) -> float:
    """What an answer is worth; 0.0 where it is unknown or has no end token."""
    for answer in ANSWERS[PROMPTS[prompt]]:
        if tuple(tokens) == (*encode(answer.text), END):
            return answer.reward
    return 0.0


def draw_answers(*, seed: int, episodes_per_prompt: int) -> list[TokenEpisode]:
    """A fixed log: for each prompt the good answer and a wrong one, then draws by their shares.

    Args:
        seed: an integer ≥ 0.
        episodes_per_prompt: how many, ≥ 2.

    Raises:
        ValueError: a number is out of range; the text names it.
    """
    rng = np.random.default_rng(integer("seed", seed, minimum=0))
    drawn = integer("episodes_per_prompt", episodes_per_prompt, minimum=2) - 2
    episodes = []
    for number, prompt in enumerate(PROMPTS):
        answers = ANSWERS[prompt]
        chosen = rng.choice(len(answers), size=drawn, p=[answer.share for answer in answers])
        for index in (0, 1, *chosen.tolist()):
            tokens = (*encode(answers[index].text), END)
            episodes.append(TokenEpisode(number, tokens, answers[index].reward))
    return episodes


def token_batch(episodes: Sequence[TokenEpisode], *, length: int | None = None) -> TokenBatch:
    """Episodes as tensors, one row for each distinct one, in the order of their first appearance.

    Args:
        episodes: at least one.
        length: L; None for that of the longest sequence.

    Raises:
        ValueError: there is no episode, or one is longer than `length`.
    """
    distinct = Counter(episodes)
    rows = [(*encode(PROMPTS[episode.prompt]), *episode.tokens) for episode in distinct]
    if not rows:
        raise ValueError("episodes is empty; a batch needs one")
    longest = max(map(len, rows))
    length = longest if length is None else integer("length", length, minimum=longest)
    ids = torch.full((len(rows), length), PAD)
    response_mask = torch.zeros(len(rows), length, dtype=torch.bool)
    rewards = torch.zeros(len(rows), length, dtype=torch.float32)
    for n, (row, episode) in enumerate(zip(rows, distinct, strict=True)):
        ids[n, : len(row)] = torch.tensor(row)
        response_mask[n, len(row) - len(episode.tokens) : len(row)] = True
        rewards[n, len(row) - 1] = episode.reward
    counts = torch.tensor(list(distinct.values()), dtype=torch.float32)
    return TokenBatch(ids, response_mask, rewards, response_mask & (ids == END), counts)
