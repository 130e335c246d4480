"""Run the laws of environments against one of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym

from rlcheck.grading.environments import laws, vector_laws
from rlcheck.grading.findings import LAW_SECONDS, Finding, laws_in, put_to
from rlcheck.grading.laws import EXAMPLES

__all__ = ["Environments", "check_env", "environments_of"]

SHARE = {"a_reset_without_a_seed_goes_on_drawing": 10, "other_seeds_give_other_episodes": 10}
VECTOR_SHARE = 5  # one example in so many: each makes a vector
VECTOR_MODES = ("sync", "async")


@dataclass
class Environments:
    """Makes the environments that a law asks for, and closes them."""

    make_one: Callable[..., Any]
    make_many: Callable[[str, Any], Any] | None = None
    has_limit: bool = True  # whether one can be made with another limit of steps
    mode: str = "sync"
    made: list[Any] = field(default_factory=list)

    def make(self, limit: int | None = None) -> Any:
        """A new environment; a limit of −1 is none."""
        made = self.make_one() if limit is None else self.make_one(max_episode_steps=limit)
        self.made.append(made)
        return made

    def make_vec(self, autoreset: Any) -> Any:
        """A new vector of three."""
        assert self.make_many is not None
        self.made.append(self.make_many(self.mode, autoreset))
        return self.made[-1]

    def close(self) -> None:
        """Close all that was made."""
        while self.made:
            self.made.pop().close()


def environments_of(name: str) -> Environments:
    """Makers for an id of Gymnasium's registry."""

    def one(**more: Any) -> Any:
        return gym.make(name, disable_env_checker=True, **more)

    def many(mode: str, autoreset: Any) -> Any:
        kwargs = {"autoreset_mode": autoreset}
        return gym.make_vec(name, vector_laws.N, vectorization_mode=mode, vector_kwargs=kwargs)

    return Environments(one, many)


def check_env(
    env: str | Callable[[], Any] | Environments,
    *,
    examples: int = EXAMPLES,
    seed: int = 0,
    vector: bool = True,
    seconds: float = LAW_SECONDS,
) -> list[Finding]:
    """What each law of environments shows of one.

    Args:
        env: an id, or a function that makes a new environment at each call; the latter is judged
            without the laws of time limits and of vectors.
        examples: drawn for each law; laws that make many environments take a part of them.
        seed: of every draw.
        vector: whether the laws of Gymnasium's vectors are run, in one process and in several.
        seconds: limit of one law.
    """
    if isinstance(env, str):
        environments = environments_of(env)
    else:
        environments = env if isinstance(env, Environments) else Environments(env, None, False)
    found = []
    for law in laws_in(laws):
        if environments.has_limit or "time_limit" not in law.name:
            share = max(1, examples // SHARE.get(law.name, 1))
            found.append(put_to(environments, law, share, seed, seconds))
    for mode in VECTOR_MODES if vector and environments.make_many else ():
        environments.mode = mode
        for law in laws_in(vector_laws):
            share = max(1, examples // VECTOR_SHARE)
            finding = put_to(environments, law, share, seed, seconds)
            found.append(replace(finding, law=f"{law.name} [{mode}]"))
    return found
