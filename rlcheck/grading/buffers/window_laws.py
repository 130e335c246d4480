"""Laws of slices and of stacks of frames; `windows` makes the kind that is judged.

A slicer's `slices(episodes, size)` gives the slice that ends with each step, episode by episode: a
mapping of `observations`, `actions`, `returns_to_go`, `timesteps` and `mask`, and where it has them
`terminals`, each of `size` entries. A stacker's `stacks(episode, frames)` gives (action, stack,
next stack, terminal) for each of its transitions. Episodes are those of `datasets`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from rlcheck.grading.buffers.datasets import episodes_of, same
from rlcheck.grading.buffers.steps import Case, cases
from rlcheck.grading.findings import NotApplicable
from rlcheck.grading.laws import law

__all__ = ["OF_SLICES", "OF_STACKS", "Windows"]

OF_SLICES = (
    "a_slice_ends_with_its_step",
    "a_slice_is_padded_before_its_episode",
    "returns_to_go_reach_to_the_end_of_the_episode",
    "timesteps_count_from_the_start_of_the_episode",
    "a_slice_is_terminal_where_it_terminated",
)
OF_STACKS = ("a_stack_holds_the_last_observations", "a_next_stack_is_one_step_further")


@dataclass
class Windows:
    """Makes what a law asks for."""

    kind: Callable[[], Any]

    def slices(self, case: Case, size: int) -> Iterator[tuple[dict[str, Any], int, dict[str, Any]]]:
        """Each step as its episode, its place in it, and the slice that ends with it."""
        episodes = episodes_of(case)
        found = self.kind().slices(episodes, size)
        steps = [(episode, t) for episode in episodes for t in range(len(episode["actions"]))]
        same("the number of slices", len(steps), len(found))
        return ((*step, one) for step, one in zip(steps, found, strict=True))

    def close(self) -> None:
        """Nothing is kept."""


def inside(found: dict[str, Any], name: str, t: int) -> list[Any]:
    """The entries of a slice that its episode has steps for, on its right."""
    return list(found[name][-(t + 1) :])


@law(case=cases(goes_on=False), size=st.integers(1, 6))
def a_slice_ends_with_its_step(windows: Windows, case: Case, size: int) -> None:
    """A slice has the observations and actions of the last steps up to its own."""
    for episode, t, found in windows.slices(case, size):
        for name in ("observations", "actions"):
            expected = episode[name][max(0, t + 1 - size) : t + 1]
            same(f"{name} of the slice that ends at {t}", expected, inside(found, name, t))


@law(case=cases(goes_on=False), size=st.integers(1, 6))
def a_slice_is_padded_before_its_episode(windows: Windows, case: Case, size: int) -> None:
    """A slice has the size that was asked for; its mask leaves out what lies before its episode."""
    for _, t, found in windows.slices(case, size):
        lengths = {name: len(values) for name, values in found.items()}
        same("lengths", dict.fromkeys(found, size), lengths)
        count = min(t + 1, size)
        same("the mask", [False] * (size - count) + [True] * count, list(found["mask"]))


@law(case=cases(goes_on=False), size=st.integers(1, 6))
def returns_to_go_reach_to_the_end_of_the_episode(windows: Windows, case: Case, size: int) -> None:
    """A return to go sums a step's reward and all later ones of its episode, beyond the slice."""
    for episode, t, found in windows.slices(case, size):
        every = [float(sum(episode["rewards"][place:])) for place in range(t + 1)]
        got = inside(found, "returns_to_go", t)
        same(f"returns to go of the slice that ends at {t}", every[-size:], got)


@law(case=cases(goes_on=False), size=st.integers(1, 6))
def timesteps_count_from_the_start_of_the_episode(windows: Windows, case: Case, size: int) -> None:
    """A timestep is a step's place in its episode, plus 0 or 1, the same for all."""
    first = None
    for _, t, found in windows.slices(case, size):
        got = inside(found, "timesteps", t)
        first = got[0] if first is None else first
        same("timesteps", list(range(first, first + t + 1))[-size:], got)


@law(case=cases(goes_on=False), size=st.integers(1, 6))
def a_slice_is_terminal_where_it_terminated(windows: Windows, case: Case, size: int) -> None:
    """The last step of an episode that terminated is marked, and no other step is."""
    for episode, t, found in windows.slices(case, size):
        if "terminals" not in found:
            raise NotApplicable("slices have no flags")
        expected = episode["terminations"][max(0, t + 1 - size) : t + 1]
        got = inside(found, "terminals", t)
        same(f"terminals of the slice that ends at {t}", expected, got)


def stack(observations: list[float], t: int, frames: int) -> list[float]:
    """The last frames up to a time, after zeros."""
    found = observations[max(0, t + 1 - frames) : t + 1]
    return [0.0] * (frames - len(found)) + found


@law(case=cases(goes_on=False), frames=st.integers(1, 4))
def a_stack_holds_the_last_observations(windows: Windows, case: Case, frames: int) -> None:
    """A stack has the last observations of its episode, and zeros before the first one."""
    for episode in episodes_of(case):
        for action, got, *_ in windows.kind().stacks(episode, frames):
            t = episode["actions"].index(action)
            same(f"the stack at {t}", stack(episode["observations"], t, frames), got)


@law(case=cases(goes_on=False), frames=st.integers(1, 4))
def a_next_stack_is_one_step_further(windows: Windows, case: Case, frames: int) -> None:
    """The next stack of a step that did not terminate has the next observation as its last."""
    for episode in episodes_of(case):
        for action, _, got, terminal in windows.kind().stacks(episode, frames):
            t = episode["actions"].index(action)
            if not terminal:
                expected = stack(episode["observations"], t + 1, frames)
                same(f"the next stack at {t}", expected, got)
