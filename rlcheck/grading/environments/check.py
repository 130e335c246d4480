"""Run the laws of environments against one of them."""

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import gymnasium as gym
from hypothesis.errors import Flaky

from rlcheck.grading.compare import Mismatch
from rlcheck.grading.environments import laws, vector_laws
from rlcheck.grading.environments.recording import NotApplicable
from rlcheck.grading.laws import EXAMPLES, Law, explore

__all__ = ["Environments", "Finding", "check_env", "environments_of", "laws_in", "summary"]

SHARE = {"a_reset_without_a_seed_goes_on_drawing": 10, "other_seeds_give_other_episodes": 10}
VECTOR_SHARE = 5  # one example in so many: each makes a vector
VECTOR_MODES = ("sync", "async")
LAW_SECONDS = 120.0  # of one law


class _TooLong(BaseException):
    """A law has had its time; no `except Exception` of an environment holds it up."""


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


@dataclass(frozen=True)
class Finding:
    """What one law showed."""

    law: str
    sentence: str
    status: str  # passed, failed, raised, timed_out, or not_applicable: never put to the test
    examples: int
    message: str = ""
    expected: str = ""
    got: str = ""
    counterexample: str = ""


def laws_in(module: Any) -> list[Law]:
    """The laws of a module, in its order."""
    tests = (getattr(value, "law", None) for value in vars(module).values())
    return [found for found in tests if isinstance(found, Law)]


def environments_of(name: str) -> Environments:
    """Makers for an id of Gymnasium's registry."""

    def one(**more: Any) -> Any:
        return gym.make(name, disable_env_checker=True, **more)

    def many(mode: str, autoreset: Any) -> Any:
        kwargs = {"autoreset_mode": autoreset}
        return gym.make_vec(name, vector_laws.N, vectorization_mode=mode, vector_kwargs=kwargs)

    return Environments(one, many)


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer, where the system can: in the main thread, on POSIX."""
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        yield
        return

    def stop(*_: Any) -> NoReturn:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _run(
    law: Law, environments: Environments, seed: int, examples: int, name: str, seconds: float
) -> Finding:
    last: dict[str, Any] = {}
    count, applied, failure = 0, 0, None

    def visit(**drawn: Any) -> None:
        nonlocal count, applied, failure, last
        count += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                law.body(environments, **drawn)
            applied += 1
        except NotApplicable:
            pass
        except Exception as error:
            failure, last = error, drawn
            raise
        finally:
            environments.close()

    try:
        with _at_most(seconds):
            explore(law, visit, random_seed=seed, examples=examples, shrink=True)
    except _TooLong:
        if failure is None:
            said = f"the law took more than {seconds:g} s"
            return Finding(name, law.sentence, "timed_out", count, said)
    except (Exception, Flaky) as error:
        failure = failure or error
    if failure is None:
        return Finding(name, law.sentence, "passed" if applied else "not_applicable", count)
    drawn = ", ".join(f"{key}={value}" for key, value in last.items())
    if isinstance(failure, Mismatch):
        told = failure.text, repr(failure.expected), repr(failure.got)
        return Finding(name, law.sentence, "failed", count, *told, counterexample=drawn)
    said = f"{type(failure).__name__}: {failure}"
    return Finding(name, law.sentence, "raised", count, said, counterexample=drawn)


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
            found.append(_run(law, environments, seed, share, law.name, seconds))
    for mode in VECTOR_MODES if vector and environments.make_many else ():
        environments.mode = mode
        for law in laws_in(vector_laws):
            share = max(1, examples // VECTOR_SHARE)
            name = f"{law.name} [{mode}]"
            found.append(_run(law, environments, seed, share, name, seconds))
    return found


def summary(findings: list[Finding]) -> list[dict[str, Any]]:
    """Findings as plain data."""
    return [asdict(finding) for finding in findings]
