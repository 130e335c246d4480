"""Laws that are put to what somebody else's code makes, in this process, and what they show."""

import contextlib
import signal
import threading
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, Protocol

from hypothesis.errors import Flaky

from rlcheck.grading.compare import Mismatch
from rlcheck.grading.laws import Law, explore

__all__ = ["LAW_SECONDS", "Finding", "Makers", "NotApplicable", "laws_in", "put_to", "summary"]

LAW_SECONDS = 120.0  # of one law


class NotApplicable(Exception):
    """What a law is about does not occur in what is judged."""


class _TooLong(BaseException):
    """A law has had its time; no `except Exception` of an environment holds it up."""


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


class Makers(Protocol):
    """Makes what a law asks for, and closes it."""

    def close(self) -> None:
        """Close all that was made."""


def laws_in(module: Any) -> list[Law]:
    """The laws of a module, in its order."""
    tests = (getattr(value, "law", None) for value in vars(module).values())
    return [found for found in tests if isinstance(found, Law)]


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


def put_to(makers: Makers, law: Law, examples: int, seed: int, seconds: float) -> Finding:
    """Put one law to what `makers` make, and close all that was made after each example."""
    last: dict[str, Any] = {}
    count, applied, failure = 0, 0, None

    def visit(**drawn: Any) -> None:
        nonlocal count, applied, failure, last
        count += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                law.body(makers, **drawn)
            applied += 1
        except NotApplicable:
            pass
        except Exception as error:
            failure, last = error, drawn
            raise
        finally:
            makers.close()

    try:
        with _at_most(seconds):
            explore(law, visit, random_seed=seed, examples=examples, shrink=True)
    except _TooLong:
        if failure is None:
            said = f"the law took more than {seconds:g} s"
            return Finding(law.name, law.sentence, "timed_out", count, said)
    except (Exception, Flaky) as error:
        failure = failure or error
    if failure is None:
        return Finding(law.name, law.sentence, "passed" if applied else "not_applicable", count)
    drawn = ", ".join(f"{key}={value}" for key, value in last.items())
    if isinstance(failure, Mismatch):
        told = failure.text, repr(failure.expected), repr(failure.got)
        return Finding(law.name, law.sentence, "failed", count, *told, counterexample=drawn)
    said = f"{type(failure).__name__}: {failure}"
    return Finding(law.name, law.sentence, "raised", count, said, counterexample=drawn)


def summary(findings: list[Finding]) -> list[dict[str, Any]]:
    """Findings as plain data."""
    return [asdict(finding) for finding in findings]
