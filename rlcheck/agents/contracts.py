"""Rollout records of collected episodes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlcheck.agents.collection import Transition

__all__ = ["rollout_contract_from_transitions"]


def rollout_contract_from_transitions(
    transitions: Sequence[Transition],
    *,
    task_id: str,
    environment_version: str,
    policy_version: int | str | Sequence[int | str] | Mapping[Any, int | str],
    learner_version: int | None = None,
    max_staleness: int | None = None,
) -> dict[str, Any]:
    """The rollout record of an episode, as `validate_rollout_record` asks for it.

    Args:
        transitions: the steps of one episode, from its first one on; rewards are the base ones.
        task_id: names the task.
        environment_version: names the environment and its version.
        policy_version: version of the policy that acted; where the weights changed on the way, a
            version for each turn, in order or as a mapping from the turn's index.
        learner_version: version of the policy that will learn from it, for `max_staleness`.
        max_staleness: how many versions a turn may lie behind the learner.

    Returns:
        The record: `task_id`, `environment_version`, `policy_versions` (a version for each turn),
        `turns`, `stop_reason`, and the two arguments about staleness where they are given. An
        episode that neither flag ends is still going on, and its stop reason None.

    Raises:
        ValueError: there is no transition, or not one version for each.
    """
    if not transitions:
        raise ValueError("transitions is empty; a rollout has at least one turn")
    versions = _versions(policy_version, len(transitions))
    record: dict[str, Any] = {
        "task_id": task_id,
        "environment_version": environment_version,
        "policy_versions": dict(enumerate(versions)),
        "turns": [_turn(index, step) for index, step in enumerate(transitions)],
        "stop_reason": _stop_reason(transitions[-1]),
    }
    staleness = {"learner_version": learner_version, "max_staleness": max_staleness}
    return record | {name: value for name, value in staleness.items() if value is not None}


def _versions(told: Any, count: int) -> list[Any]:
    """A version for each turn."""
    if isinstance(told, Mapping):
        turns = {str(turn): version for turn, version in told.items()}
        if missing := [turn for turn in range(count) if str(turn) not in turns]:
            raise ValueError(f"policy_version[{missing[0]}] is missing; every turn needs one")
        return [turns[str(turn)] for turn in range(count)]
    alone = isinstance(told, str | bytes) or not isinstance(told, Iterable)
    if alone or getattr(told, "ndim", 1) == 0:
        return [told] * count
    versions = list(told)
    if len(versions) != count:
        raise ValueError(f"policy_version has length {len(versions)}; there are {count} turns")
    return versions


def _turn(index: int, step: Transition) -> Mapping[str, Any]:
    return {
        "turn": index,
        "observation": step.observation,
        "action": step.action,
        "behavior_logprob": step.behavior_logprob,
        "reward": step.base_reward,
        "terminated": step.terminated,
        "truncated": step.truncated,
    }


def _stop_reason(last: Transition) -> str | None:
    if last.terminated and last.action != "finish":
        return "task_horizon"
    if last.terminated:
        return "success" if last.base_reward > 0 else "failure"
    return "collector_limit" if last.truncated else None
