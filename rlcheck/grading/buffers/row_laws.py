"""Laws of the rows of a replay buffer; `buffers` makes the kind that is judged.

Each looks at the rows that a buffer does give out, and only those of "has a row" ask for more, so
that a buffer which holds steps back breaks those alone. Episodes have two steps or more, n is no
more than their steps, and one flag ends them; laws of their own are about all others.
"""

from dataclasses import replace

from rlcheck.grading.buffers.recording import Buffers, near
from rlcheck.grading.buffers.sound import (
    each,
    has_rows,
    is_flagged,
    is_long,
    leads_on,
    only_truncated,
    settled,
)
from rlcheck.grading.buffers.steps import Case, cases
from rlcheck.grading.compare import Mismatch
from rlcheck.grading.laws import law

__all__: list[str] = []  # laws are found by what they are


@law(case=cases())
def rows_begin_at_written_steps(buffers: Buffers, case: Case) -> None:
    """A row has the observation and the action of a written step, and no two rows have one."""
    filled = buffers.fill(case)
    rows = filled.rows
    expected = [filled.case.steps[window.row.action] for window in filled.windows]
    for row, step in zip(rows, expected, strict=True):
        if not near(row.observation, step.observation):
            raise Mismatch(f"the observation of {row}", expected=step, got=row.observation)
    if len({row.action for row in rows}) < len(rows):
        raise Mismatch("rows", expected="one of each step at most", got=rows)


@law(case=cases())
def a_step_is_stored_as_it_was_given(buffers: Buffers, case: Case) -> None:
    """Arrays that are written over once their step was added change no row."""
    expected, got = (buffers.fill(case, written_over=over).rows for over in (False, True))
    for one, other in zip(expected, got, strict=True):
        if one != other:
            raise Mismatch("a row", expected=one, got=other)


@law(case=cases())
def a_step_within_an_episode_has_a_row(buffers: Buffers, case: Case) -> None:
    """A step that another one of its episode follows has a row, once n more were written."""
    filled = buffers.fill(case)
    has_rows(filled, [step for step in settled(filled) if not step.ends])


@law(case=cases())
def a_step_that_terminated_has_a_row(buffers: Buffers, case: Case) -> None:
    """The last step of a terminated episode has a row, once n more were written."""
    filled = buffers.fill(case)
    has_rows(filled, [step for step in settled(filled) if step.terminated])


@law(case=cases())
def a_step_that_was_truncated_has_a_row(buffers: Buffers, case: Case) -> None:
    """The last step of a truncated episode has a row, once n more were written."""
    filled = buffers.fill(case)
    has_rows(filled, [step for step in settled(filled) if step.truncated])


@law(case=cases())
def the_newest_steps_have_rows_at_once(buffers: Buffers, case: Case) -> None:
    """Each of the last n steps has a row, whose window ends with what was written."""
    filled = buffers.fill(case)
    newest = filled.case.steps[-filled.case.n :]
    has_rows(filled, newest)
    for window in filled.windows[-len(newest) :]:
        is_long(window)


@law(case=cases())
def a_row_leads_to_the_next_observation(buffers: Buffers, case: Case) -> None:
    """The next observation within an episode is what the last step of the window ended in."""
    for window in each(buffers.fill(case).windows, lambda w: not w.last.ends):
        leads_on(window)


@law(case=cases())
def a_truncated_row_leads_to_the_final_observation(buffers: Buffers, case: Case) -> None:
    """The next observation at a truncation is the episode's final one, not that of a reset."""
    for window in each(buffers.fill(case).windows, lambda w: only_truncated(w.last)):
        leads_on(window)


@law(case=cases())
def a_terminal_row_keeps_the_final_observation(buffers: Buffers, case: Case) -> None:
    """The next observation at a termination is the episode's final one, though no target needs it.

    A model of the environment or a reward that is learned would.
    """
    for window in each(buffers.fill(case).windows, lambda w: w.last.terminated):
        leads_on(window)


@law(case=cases())
def a_row_that_reaches_a_termination_is_terminal(buffers: Buffers, case: Case) -> None:
    """A row is terminal where the last step of its window terminated."""
    for window in each(buffers.fill(case).windows, lambda w: w.last.terminated):
        is_flagged(window)


@law(case=cases())
def a_row_within_an_episode_is_not_terminal(buffers: Buffers, case: Case) -> None:
    """A row is not terminal where the last step of its window ended nothing."""
    for window in each(buffers.fill(case).windows, lambda w: not w.last.ends):
        is_flagged(window)


@law(case=cases())
def a_truncation_is_no_termination(buffers: Buffers, case: Case) -> None:
    """A row that ends with a truncation is not terminal, so that its target bootstraps."""
    for window in each(buffers.fill(case).windows, lambda w: only_truncated(w.last)):
        is_flagged(window)


@law(case=cases(endings=("both", "terminated")))
def a_step_with_both_flags_is_terminal(buffers: Buffers, case: Case) -> None:
    """A step that terminated and was truncated at once is terminal."""
    filled = buffers.fill(replace(case, n=1))
    for window in each(filled.windows, lambda w: w.last.terminated and w.last.truncated):
        is_flagged(window)
