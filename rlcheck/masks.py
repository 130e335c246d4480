"""What a loss mask leaves of a trajectory."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from rlcheck._inputs import choice, integer

__all__ = ["MaskReport", "trajectory_mask_report"]

POLICY_ROLE = "assistant"
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


class MaskReport(NamedTuple):
    """How many tokens of a trajectory the policy wrote, and how far they are diluted."""

    policy_tokens: int
    total_tokens: int
    masked_fraction: float
    dilution_factor: float


def trajectory_mask_report(segments: Iterable[tuple[str, int]]) -> MaskReport:
    """Share of a trajectory's tokens that the policy did not write, and what it dilutes.

    masked_fraction = (N − n) / N,  dilution_factor = N / n

    with N tokens in all and n of them written by the policy. A loss that is averaged over all N
    tokens though only n of them have a term is smaller by the dilution factor.

    Args:
        segments: (role, tokens) pairs in any order, tokens an integer ≥ 0. Roles: system,
            developer, user, assistant, tool, function, environment, observation. Only the
            assistant's tokens are the policy's.

    Returns:
        MaskReport(policy_tokens, total_tokens, masked_fraction, dilution_factor).

    Raises:
        ValueError: an unknown role, a count that is no integer ≥ 0, or no policy token at all.
        TypeError: a role that is no text, a count that is no number.

    Reference:
        Yu et al. (2025), DAPO, section 3.3, token-level policy gradient loss.
    """
    counts = [_read(index, segment) for index, segment in enumerate(segments)]
    total = sum(tokens for _, tokens in counts)
    policy = sum(tokens for role, tokens in counts if role == POLICY_ROLE)
    if policy == 0:
        raise ValueError(f"segments has 0 {POLICY_ROLE} tokens of {total}; it must have one")
    return MaskReport(policy, total, (total - policy) / total, total / policy)


def _read(index: int, segment: Any) -> tuple[str, int]:
    name = f"segments[{index}]"
    if isinstance(segment, str) or not hasattr(segment, "__len__") or len(segment) != 2:
        raise ValueError(f"{name} is {segment!r}; it must be a pair of role and tokens")
    role, tokens = segment
    return choice(f"{name} role", role, ROLES), integer(f"{name} tokens", tokens, minimum=0)
