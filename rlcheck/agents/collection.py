"""Collecting episodes of the key-door agent: many environments, one forward pass a step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcheck import discounted_return
from rlcheck._inputs import choice
from rlcheck.agents.networks import ActorCritic
from rlcheck.envs.keydoor_agent import ACTIONS, OBSERVATION_INDEX, OBSERVATIONS, KeyDoorAgentEnv

__all__ = ["Batch", "Transition", "collect_batch", "collect_episode"]

REWARD_MODES = ("sparse", "potential")


Step = tuple[float, float, bool, bool, bool, bool]
"""Base reward, shaped reward, terminated, truncated, active, valid."""

IDLE: Step = (0.0, 0.0, False, False, False, False)


class Transition(NamedTuple):
    """One step of an agent; observations are texts, the action is a name."""

    observation: str
    action: str
    next_observation: str
    behavior_logprob: float
    base_reward: float
    shaped_reward: float
    terminated: bool
    truncated: bool


@dataclass(frozen=True)
class Batch:
    """N episodes of up to T steps, one a row; `active` is 0 after an episode's end.

    `observations` has a column more than the others: it also holds what each episode ended in.
    """

    observations: Tensor  # [N, T + 1] indices in OBSERVATIONS
    previous_actions: Tensor  # [N, T + 1] indices in ACTIONS, len(ACTIONS) at the beginning
    behavior_logprobs: Tensor  # [N, T] of the actions, under the policy that took them
    base_rewards: NDArray[np.float64]  # [N, T]
    shaped_rewards: NDArray[np.float64]  # [N, T]
    terminated: NDArray[np.bool_]  # [N, T] true on a last step only
    truncated: NDArray[np.bool_]  # [N, T] true on a last step only
    active: NDArray[np.bool_]  # [N, T] the steps that were taken
    valid: NDArray[np.bool_]  # [N, T] whether an action changed more than the time
    stop_reasons: tuple[str, ...]  # [N]
    targets: tuple[str, ...]  # [N]

    @property
    def actions(self) -> Tensor:
        """[N, T] indices in ACTIONS."""
        return self.previous_actions[:, 1:]

    @property
    def success(self) -> NDArray[np.bool_]:
        """[N] whether an episode ended well."""
        return np.array([reason == "success" for reason in self.stop_reasons])

    def rewards(self, mode: str) -> NDArray[np.float64]:
        """[N, T] base rewards in the mode "sparse", shaped ones in "potential"."""
        mode = choice("reward_mode", mode, REWARD_MODES)
        return self.base_rewards if mode == "sparse" else self.shaped_rewards

    def transitions(self, episode: int) -> list[Transition]:
        """The steps of one episode."""
        seen = [OBSERVATIONS[index] for index in self.observations[episode].tolist()]
        done = [ACTIONS[index] for index in self.actions[episode, : self.active[episode].sum()]]
        columns = (
            self.behavior_logprobs[episode].tolist(),
            self.base_rewards[episode].tolist(),
            self.shaped_rewards[episode].tolist(),
            self.terminated[episode].tolist(),
            self.truncated[episode].tolist(),
        )
        steps = zip(seen, done, seen[1:], *columns, strict=False)
        return [Transition(*step) for step in steps]


@torch.no_grad()
def collect_batch(
    model: ActorCritic,
    envs: Sequence[KeyDoorAgentEnv],
    *,
    greedy: bool = False,
    targets: Sequence[str | None] | None = None,
    gamma: float = 0.99,
    generator: torch.Generator | None = None,
) -> Batch:
    """One episode of every environment; the model sees all of them at once, step by step.

    Args:
        model: the policy.
        envs: N environments; each is reset first. Wrappers around them are left out.
        greedy: take the likeliest action (the first one in a tie) instead of sampling. The
            behavior policy is then deterministic, and the log-probability of its actions is 0.
        targets: [N] target colours; None, for all or for one, draws.
        gamma: discount of the shaped rewards.
        generator: draws the actions; None is torch's global one.

    Returns:
        The batch.

    Raises:
        ValueError: there is no environment, one is there twice, there is not one target for each,
            or the model has other numbers of observations or actions than the task.
        TypeError: an environment is no KeyDoorAgentEnv, nor wraps one.
    """
    if not envs:
        raise ValueError("envs is empty; at least one environment is due")
    envs = [_bare(f"envs[{index}]", env) for index, env in enumerate(envs)]
    _check_sizes(model)
    places: dict[int, int] = {}
    for index, env in enumerate(envs):
        if (place := places.setdefault(id(env), index)) != index:
            raise ValueError(f"envs[{index}] is envs[{place}] again; each episode needs its own")
    asked = [None] * len(envs) if targets is None else list(targets)
    if len(asked) != len(envs):
        raise ValueError(f"targets has length {len(asked)}; there are {len(envs)} environments")
    count = len(envs)
    first = [env.reset(target=target)[0] for env, target in zip(envs, asked, strict=True)]
    observed = [OBSERVATION_INDEX[text] for text in first]
    acted = [model.no_action] * count
    observations, actions = [observed], [acted]
    logprobs: list[Tensor] = []
    steps: list[list[Step]] = []  # T × N
    stop_reasons: list[str | None] = [None] * count
    state = None
    while None in stop_reasons:
        logits, _, state = model(
            torch.tensor(observed).unsqueeze(1), torch.tensor(acted).unsqueeze(1), state
        )
        chosen, logprob = _choose(logits.squeeze(1), greedy, generator)
        observed, acted = observed.copy(), chosen.tolist()
        row = [IDLE] * count
        for index, env in enumerate(envs):
            if stop_reasons[index] is None:
                text, base, ended, cut, info = env.step(acted[index], gamma)
                observed[index] = OBSERVATION_INDEX[text]
                stop_reasons[index] = info["stop_reason"]
                row[index] = (base, info["shaped_reward"], ended, cut, True, info["valid"])
        observations.append(observed)
        actions.append(acted)
        logprobs.append(logprob)
        steps.append(row)
    base_rewards, shaped_rewards, *flags = np.array(steps, np.float64).transpose(2, 1, 0)  # [N, T]
    terminated, truncated, active, valid = (flag != 0 for flag in flags)
    return Batch(
        torch.tensor(observations).T,
        torch.tensor(actions).T,
        torch.stack(logprobs, dim=1),
        base_rewards,
        shaped_rewards,
        terminated,
        truncated,
        active,
        valid,
        stop_reasons=tuple(str(reason) for reason in stop_reasons),
        targets=tuple(env.target for env in envs),
    )


def _bare(name: str, env: Any) -> KeyDoorAgentEnv:
    bare = getattr(env, "unwrapped", env)
    if not isinstance(bare, KeyDoorAgentEnv):
        raise TypeError(f"{name} is {env!r}; a KeyDoorAgentEnv is due")
    return bare


def _check_sizes(model: ActorCritic) -> None:
    for part, found, due in (
        ("observations", model.observed.num_embeddings, len(OBSERVATIONS)),
        ("actions", model.actions, len(ACTIONS)),
    ):
        if found != due:
            raise ValueError(f"model has {found} {part}; the task has {due}")


def _choose(
    logits: Tensor, greedy: bool, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """[N] actions, and their log-probabilities under the policy that chose them."""
    if greedy:
        return logits.argmax(dim=-1), logits.new_zeros(len(logits))
    logprobs = logits.log_softmax(dim=-1)
    chosen = torch.multinomial(logprobs.exp(), 1, generator=generator)  # [N, 1]
    return chosen.squeeze(1), logprobs.gather(1, chosen).squeeze(1)


def collect_episode(
    model: ActorCritic,
    env: KeyDoorAgentEnv,
    *,
    reward_mode: str = "sparse",
    greedy: bool = False,
    target: str | None = None,
    policy_version: int | str = 0,
    gamma: float = 0.99,
    generator: torch.Generator | None = None,
) -> tuple[list[Transition], Batch, dict[str, Any]]:
    """One episode.

    Args:
        model: the policy.
        env: the environment; it is reset first.
        reward_mode: "sparse" or "potential": which return the report selects.
        greedy: take the likeliest action instead of sampling; see `collect_batch`.
        target: "red" or "blue"; None draws.
        policy_version: goes into the report.
        gamma: discount of the return and of the shaped rewards.
        generator: draws the actions; None is torch's global one.

    Returns:
        (transitions, the episode as a batch of one, report); the report has `target`, `success`,
        `terminated`, `truncated`, `stop_reason`, `policy_version` and `selected_return`, the
        discounted sum of the rewards of the mode.

    Raises:
        ValueError: the mode or the target is unknown.
    """
    choice("reward_mode", reward_mode, REWARD_MODES)
    batch = collect_batch(
        model, [env], greedy=greedy, targets=[target], gamma=gamma, generator=generator
    )
    report = {
        "target": batch.targets[0],
        "success": bool(batch.success[0]),
        "terminated": bool(batch.terminated[0].any()),
        "truncated": bool(batch.truncated[0].any()),
        "stop_reason": batch.stop_reasons[0],
        "policy_version": policy_version,
        "selected_return": discounted_return(batch.rewards(reward_mode)[0], gamma),
    }
    return batch.transitions(0), batch, report
