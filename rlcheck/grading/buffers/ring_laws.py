"""Laws of full replay buffers, and of what is drawn from a buffer."""

from collections import Counter
from dataclasses import replace

from hypothesis import strategies as st

from rlcheck.grading.buffers.recording import Buffers
from rlcheck.grading.buffers.steps import Case, cases
from rlcheck.grading.compare import Mismatch
from rlcheck.grading.findings import NotApplicable
from rlcheck.grading.laws import law

__all__: list[str] = []  # laws are found by what they are

DRAWN = 600  # of at most 20 rows: one of them is missed once in 10^12
COUNTED = 2000  # draws whose shares are looked at


def last_of_a_larger_one(buffers: Buffers, case: Case, capacity: int) -> None:
    """What a buffer holds is the end of what one with room for all steps holds."""
    every, held = buffers.fill(case).rows, buffers.fill(case, capacity=capacity).rows
    if len(every) <= capacity:
        raise NotApplicable("it is not full")
    if held != every[-capacity:]:
        where = f"the rows of a full buffer of {capacity}"
        raise Mismatch(where, expected=every[-capacity:], got=held)


@law(case=cases(longest=3), more=st.integers(0, 5))
def a_full_buffer_holds_the_last_rows(buffers: Buffers, case: Case, more: int) -> None:
    """A full buffer of c holds the last c rows of those that a larger one holds, each of them once.

    c is at least the steps of the longest episode, and two.
    """
    last_of_a_larger_one(buffers, case, case.longest + more)


@law(case=cases(shortest=3), less=st.integers(1, 3))
def a_buffer_below_an_episode_holds_the_last_rows(buffers: Buffers, case: Case, less: int) -> None:
    """So does a full buffer with less room than an episode takes."""
    last_of_a_larger_one(buffers, case, max(2, case.longest - less))


@law(case=cases())
def a_buffer_of_one_holds_the_newest_row(buffers: Buffers, case: Case) -> None:
    """A buffer with room for one holds the newest of the rows that a larger one holds."""
    last_of_a_larger_one(buffers, replace(case, n=1), 1)


@law(case=cases())
def samples_are_rows(buffers: Buffers, case: Case) -> None:
    """What is drawn is one of the rows, whole."""
    filled = buffers.fill(case)
    rows = set(filled.rows)
    for row in filled.sample(DRAWN):
        if row not in rows:
            raise Mismatch("a drawn row", expected=filled.rows, got=row)


@law(case=cases())
def every_row_can_be_drawn(buffers: Buffers, case: Case) -> None:
    """Every row is among many that are drawn."""
    filled = buffers.fill(case)
    drawn = set(filled.sample(DRAWN))
    for row in filled.rows:
        if row not in drawn:
            raise Mismatch(f"{row} among {DRAWN} drawn ones", expected="there", got="missing")


@law(case=cases(), seed=st.integers(0, 1000))
def rows_are_drawn_equally_often(buffers: Buffers, case: Case, seed: int) -> None:
    """The shares of rows among 2000 drawn ones are within six standard errors of each other's."""
    filled = buffers.fill(case, seed=seed)
    rows, drawn = filled.rows, Counter(filled.sample(COUNTED))
    share = 1 / len(rows)
    error = (share * (1 - share) / COUNTED) ** 0.5
    for row in rows:
        if abs(drawn[row] / COUNTED - share) > 6 * error:
            where = f"the share of {row}"
            raise Mismatch(where, expected=share, got=drawn[row] / COUNTED)


@law(case=cases(), seed=st.integers(0, 1000))
def one_seed_gives_one_sample(buffers: Buffers, case: Case, seed: int) -> None:
    """The same steps and the same seed give the same sample."""
    first, again = (buffers.fill(case, seed=seed).sample(30) for _ in range(2))
    if first != again:
        raise Mismatch("a sample", expected=first, got=again)


@law(case=cases(), seed=st.integers(0, 1000))
def other_seeds_give_other_samples(buffers: Buffers, case: Case, seed: int) -> None:
    """Other seeds give other samples; 60 rows of two or more agree by chance once in 10^18."""
    filled, other = buffers.fill(case, seed=seed), buffers.fill(case, seed=seed + 1)
    if len(filled.rows) < 2:
        raise NotApplicable("one row")
    if filled.sample(60) == other.sample(60):
        raise Mismatch("a sample of another seed", expected="another", got="the same")


@law(case=cases(), seed=st.integers(0, 1000))
def a_sample_does_not_depend_on_another_buffer(buffers: Buffers, case: Case, seed: int) -> None:
    """Buffers that are drawn from in turns draw what each draws alone."""
    alone = buffers.fill(case, seed=seed).sample(30)
    filled, other = buffers.fill(case, seed=seed), buffers.fill(case, seed=seed + 1)
    other.sample(7)
    if (drawn := filled.sample(30)) != alone:
        raise Mismatch("a sample with another in between", expected=alone, got=drawn)


@law(case=cases())
def drawing_changes_no_row(buffers: Buffers, case: Case) -> None:
    """The rows after a sample are those before it."""
    filled = buffers.fill(case)
    before = filled.rows
    filled.sample(30)
    if (after := filled.rows) != before:
        raise Mismatch("the rows after a sample", expected=before, got=after)
