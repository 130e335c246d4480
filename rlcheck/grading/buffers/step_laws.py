"""Laws of windows of several steps, and of the steps that they take."""

from dataclasses import replace

from hypothesis import strategies as st

from rlcheck.grading.buffers.recording import Buffers, Window
from rlcheck.grading.buffers.sound import (
    each,
    has_rows,
    is_long,
    is_paid,
    is_sound,
    keeps_to_its_episode,
    only_truncated,
    settled,
)
from rlcheck.grading.buffers.steps import Case, cases
from rlcheck.grading.laws import law

__all__ = ["OF_SEVERAL"]

# Laws that ask nothing of a buffer whose rows are single steps.
OF_SEVERAL = (
    "a_window_keeps_to_its_episode",
    "a_window_runs_on_to_a_termination",
    "a_window_runs_on_to_a_truncation",
    "a_window_longer_than_an_episode_ends_with_it",
)


@law(case=cases())
def a_window_is_paid_by_the_steps_of_its_discount(buffers: Buffers, case: Case) -> None:
    """A row of discount γ^k has the reward Σ γ^i r_i over k steps."""
    filled = buffers.fill(case)
    for window in filled.windows:
        is_paid(window, filled.case.gamma)


@law(case=cases())
def a_window_keeps_to_its_episode(buffers: Buffers, case: Case) -> None:
    """No step of a window but its last one ends an episode, and none lies beyond the newest."""
    for window in buffers.fill(case).windows:
        keeps_to_its_episode(window)


@law(case=cases())
def a_window_runs_on_to_a_termination(buffers: Buffers, case: Case) -> None:
    """A window takes n steps, or as many as there are up to a termination."""
    filled = buffers.fill(case)
    newest = filled.case.steps[-1]

    def complete(window: Window) -> bool:
        last = window.whole[-1]
        return last.terminated or not (last.truncated or last == newest)

    for window in each(filled.windows, complete):
        is_long(window)


@law(case=cases())
def a_window_runs_on_to_a_truncation(buffers: Buffers, case: Case) -> None:
    """A window takes the last step of its truncated episode, too."""
    for window in each(buffers.fill(case).windows, lambda w: only_truncated(w.whole[-1])):
        is_long(window)


@law(case=cases(longest=3, endings=("terminated",)), more=st.integers(1, 3))
def a_window_longer_than_an_episode_ends_with_it(buffers: Buffers, case: Case, more: int) -> None:
    """Where n is more than the steps of every episode, a window ends with its own."""
    filled = buffers.fill(replace(case, n=case.longest + more))
    for window in each(filled.windows, lambda w: w.whole[-1].ends):
        keeps_to_its_episode(window)
        is_long(window)
        is_paid(window, filled.case.gamma)


@law(case=cases(shortest=1, longest=1, goes_on=False))
def an_episode_of_one_step_stands_alone(buffers: Buffers, case: Case) -> None:
    """Episodes of one step run into no other, and each that terminated has its row."""
    filled = buffers.fill(replace(case, n=2))
    for window in filled.windows:
        is_sound(window, filled.case.gamma)
    has_rows(filled, [step for step in settled(filled) if step.terminated])


@law(case=cases(endings=("truncated",)))
def truncated_episodes_in_a_row_stay_apart(buffers: Buffers, case: Case) -> None:
    """Where one truncated episode follows another, no row reaches into the next."""
    filled = buffers.fill(case)
    for window in filled.windows:
        is_sound(window, filled.case.gamma)
