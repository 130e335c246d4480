"""The tokens of one rollout, whichever trainer wrote them: ids, whose they are, how likely."""

import math
from typing import Any, NamedTuple

import numpy as np

from rlcheck._inputs import Flags, Integers
from rlcheck.transcripts._sample import Sample, token_flags, token_ids, token_numbers
from rlcheck.transcripts._told import Told


class Layout(NamedTuple):
    """Where a dump keeps its tokens: for each part the names that it goes by."""

    ids: tuple[str, ...]
    mask: tuple[str, ...]
    logprobs: tuple[str, ...]
    prompt: tuple[str, ...] = ()
    padding: tuple[str, ...] = ()  # 1 for real tokens; it may begin with those of the prompt
    mask_due: bool = True  # else all tokens are the model's where there is none

    def names(self) -> set[str]:
        """All fields that are read."""
        return {name for part in self.parts() for name in part}

    def parts(self) -> list[tuple[str, ...]]:
        """The names of each part."""
        return [part for part in self if isinstance(part, tuple)]


def read_tokens(sample: Sample, layout: Layout, told: Told) -> None:
    """The turns of a sample; none, and a violation, where one cannot be told from another."""
    name, _ = sample.find(*layout.ids)
    ids = sample.read(token_ids, *layout.ids, due=True)
    if ids is None:
        return
    prompt = sample.read(token_ids, *layout.prompt)
    mask = _beside(sample, token_flags, layout.mask, ids, name)
    logprobs = _beside(sample, token_numbers, layout.logprobs, ids, name)
    ahead = 0 if prompt is None else len(prompt)
    real = _beside(sample, token_flags, layout.padding, ids, name, ahead)
    if sample.find(*layout.mask)[1] is None:
        if layout.mask_due:
            sample.violations.append(f"{layout.mask[0]} is missing")
        else:
            mask = np.ones(len(ids), np.bool_)
    if mask is None:
        return
    real = _before_padding(ids, told) if real is None else real
    kept = int(np.flatnonzero(real)[-1]) + 1 if real.any() else 0
    _check_masks(sample, layout, ids, mask, real, name)
    ids, mask = ids[:kept], (mask & real)[:kept]
    if not real[:kept].all():
        sample.violations.append(
            f"{sample.find(*layout.padding)[0]} has a 0 before a 1, but padding ends {name}"
        )
    if not mask.any():
        sample.violations.append(f"no token of {name} is the model's")
        return
    _check_eos(sample, name, ids, mask, told)
    sample.turns = _turns(prompt, ids, mask, None if logprobs is None else logprobs.tolist())
    sample.answered = not mask[-1]
    sample.last = (f"{name}[{kept - 1}]", int(ids[-1])) if mask[-1] else None


def _beside(
    sample: Sample, reader: Any, names: tuple[str, ...], ids: Integers, of: str, ahead: int = 0
) -> Any:
    """A field with an entry for each id; None, and a violation, where it has not."""
    name, _ = sample.find(*names)
    entries = sample.read(reader, *names)
    if entries is None or len(entries) in (len(ids), len(ids) + ahead):
        return None if entries is None else entries[len(entries) - len(ids) :]
    sample.violations.append(f"{name} has {len(entries)} entries for {len(ids)} {of}")
    return None


def _check_masks(
    sample: Sample, layout: Layout, ids: Integers, mask: Flags, real: Flags, of: str
) -> None:
    """The masks that a sample has beside the one that is read say the same of its real tokens."""
    read, _ = sample.find(*layout.mask)
    for name in layout.mask:
        other = mask if name == read else _beside(sample, token_flags, (name,), ids, of)
        if other is None:
            continue
        for index in np.flatnonzero((mask != other) & real)[:1]:
            sample.violations.append(
                f"{read}[{index}] is {int(mask[index])}, but {name}[{index}] is {int(other[index])}"
            )


def _before_padding(ids: Integers, told: Told) -> Flags:
    """[N] by the pad token, if it is known; where that is an EOS, the first one is real."""
    others = np.flatnonzero(ids != (-1 if told.pad is None else told.pad))
    kept = int(others[-1]) + 1 if len(others) else 0
    return np.arange(len(ids)) < kept + (told.pad in told.eos)


def _check_eos(sample: Sample, name: str, ids: Integers, mask: Flags, told: Told) -> None:
    """Generation stops at an EOS, and that token was sampled."""
    eos = np.isin(ids, told.eos)
    for first in np.flatnonzero(eos[:-1] & mask[:-1] & mask[1:])[:1]:
        after = int(np.argmin([*mask[first + 1 :], False]))
        sample.violations.append(
            f"{name}[{first}] is the EOS {ids[first]}, but the mask counts {after} tokens after "
            "it as the model's"
        )
    tail = int(np.flatnonzero(mask)[-1]) + 1
    if tail < len(ids) and not eos[tail - 1] and eos[tail:].all():
        sample.violations.append(
            f"{name}[{tail}] is the EOS {ids[tail]}, but the mask leaves it out: whether it was "
            "sampled or fills the tail cannot be told"
        )


def _turns(
    prompt: Integers | None, ids: Integers, mask: Flags, logprobs: list[float] | None
) -> list[dict[str, Any]]:
    """A turn for each maximal run of model tokens; what stands before it was observed."""
    edges = np.diff(mask.astype(np.int8), prepend=0, append=0)
    starts, stops = np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist()
    tokens, turns = ids.tolist(), []
    for before, start, stop in zip([0, *stops], starts, stops, strict=False):
        own = tokens[start:stop]
        turn = {"observation": tokens[before:start], "action": own, "token_ids": [*own]}
        turns.append(turn if logprobs is None else turn | _likelihood(logprobs[start:stop]))
    if prompt is not None:
        turns[0]["observation"] = [*prompt.tolist(), *turns[0]["observation"]]
    elif starts[0] == 0:
        del turns[0]["observation"]
    return turns


def _likelihood(logprobs: list[float]) -> dict[str, Any]:
    """The log-probabilities of a turn; their sum is missing where one of them is."""
    total = sum(logprobs)
    return {
        "token_logprobs": logprobs,
        "behavior_logprob": total if math.isfinite(total) else None,
    }
