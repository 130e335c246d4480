"""What laws of replay buffers ask of the windows that a buffer gives out."""

from collections.abc import Callable, Iterable

from rlcheck.grading.buffers.recording import Filled, Window, near
from rlcheck.grading.buffers.steps import Step
from rlcheck.grading.compare import Mismatch
from rlcheck.grading.findings import NotApplicable

__all__ = ["each", "has_rows", "is_flagged", "is_long", "is_paid", "is_sound"]
__all__ += ["keeps_to_its_episode", "leads_on", "only_truncated", "settled"]


def each(windows: Iterable[Window], about: Callable[[Window], bool]) -> list[Window]:
    """The windows that a law is about; it says nothing where there are none."""
    found = [window for window in windows if about(window)]
    if not found:
        raise NotApplicable("no such row")
    return found


def has_rows(filled: Filled, steps: list[Step]) -> None:
    """Every one of some steps begins a row."""
    if not steps:
        raise NotApplicable("no such step")
    begun = {row.action for row in filled.rows}
    for step in steps:
        if step.number not in begun:
            raise Mismatch(f"the row of {step}", expected="one", got="none")


def settled(filled: Filled) -> list[Step]:
    """The steps after which n more were written."""
    return filled.case.steps[: -filled.case.n]


def keeps_to_its_episode(window: Window) -> None:
    """No step but the last of a window ends an episode, and there are as many as it counts."""
    if len(window.taken) < window.k or any(step.ends for step in window.taken[:-1]):
        raise Mismatch(f"the steps of {window.row}", expected=window.whole, got=window.taken)


def is_paid(window: Window, gamma: float) -> None:
    """A window is worth the discounted rewards of its steps."""
    if not near(paid := window.paid(gamma), window.row.reward):
        raise Mismatch(f"the reward of {window.row}", expected=paid, got=window.row.reward)


def leads_on(window: Window) -> None:
    """A window's next observation is where its last step led."""
    expected = window.last.next_observation
    if not near(expected, window.row.next_observation):
        where = f"the next observation of {window.row}"
        raise Mismatch(where, expected=expected, got=window.row.next_observation)


def is_flagged(window: Window) -> None:
    """A window is terminal if, and only if, its last step terminated."""
    if window.row.terminated != window.last.terminated:
        where = f"whether {window.row} is terminal"
        raise Mismatch(where, expected=window.last.terminated, got=window.row.terminated)


def is_long(window: Window) -> None:
    """A window takes all the steps that it may."""
    if window.k != len(window.whole):
        where = f"the number of steps of {window.row}"
        raise Mismatch(where, expected=len(window.whole), got=window.k)


def is_sound(window: Window, gamma: float) -> None:
    """A window is worth what its discount says, and leads to where it says."""
    keeps_to_its_episode(window)
    is_paid(window, gamma)
    is_flagged(window)
    if not window.last.terminated:
        leads_on(window)


def only_truncated(step: Step) -> bool:
    """Whether a step was cut without a termination."""
    return step.truncated and not step.terminated
