"""A plain replay buffer that keeps every law, and others that each break one, as `FAULTS` says."""

import random
from typing import Any, ClassVar

FAULTS: dict[type["Plain"], str] = {}


def breaks(law: str):
    """Take a wrong buffer up, with the law that notices it; its docstring completes "It …"."""

    def add(kind):
        FAULTS[kind] = law
        return kind

    return add


class Plain:
    """A list of steps, of which the last `capacity` begin windows."""

    def __init__(self, capacity: int, n: int, gamma: float, seed: int) -> None:
        self.capacity, self.n, self.gamma = capacity, n, gamma
        self.steps: list[tuple[Any, ...]] = []
        self.rng = random.Random(seed)

    def add(self, observation, action, reward, next_observation, terminated, truncated):
        seen, after = float(observation[0]), float(next_observation[0])
        self.steps.append((seen, action, reward, after, terminated, truncated))

    def begun(self) -> list[int]:
        """Places of the steps that begin windows."""
        return list(range(max(0, len(self.steps) - self.capacity), len(self.steps)))

    def rows(self):
        return [self.row(self.window(place)) for place in self.begun()]

    def sample(self, count):
        rows = self.rows()
        return [self.rng.choice(rows) for _ in range(count)]

    def window(self, place):
        found = []
        for step in self.steps[place : place + self.n]:
            found.append(step)
            if self.ends(step):
                break
        return found

    def ends(self, step):
        return step[4] or step[5]

    def row(self, window):
        discount = self.gamma ** len(window)
        return (*window[0][:2], self.paid(window), self.after(window), discount, self.over(window))

    def paid(self, window):
        return sum(self.gamma**i * step[2] for i, step in enumerate(window))

    def after(self, window):
        return window[-1][3]

    def over(self, window):
        return window[-1][4]

    def following(self, step):
        """The step that was written after one; the first one after the newest."""
        return self.steps[(self.steps.index(step) + 1) % len(self.steps)]


@breaks("a_step_is_stored_as_it_was_given")
class ArraysKept(Plain):
    """Keeps the array that it was given, which the environment then writes over."""

    def add(self, observation, *rest):
        super().add(observation, *rest)
        self.steps[-1] = (observation, *self.steps[-1][1:])

    def rows(self):
        return [(float(row[0][0]), *row[1:]) for row in super().rows()]


@breaks("rows_begin_at_written_steps")
class NewestTwice(Plain):
    """Gives the newest step out twice."""

    def rows(self):
        return [*super().rows(), *super().rows()[-1:]]


@breaks("a_step_within_an_episode_has_a_row")
class EndsAlone(Plain):
    """Gives out what ended an episode, or comes last, alone."""

    def begun(self):
        last = len(self.steps) - 1
        return [i for i in super().begun() if self.ends(self.steps[i]) or i == last]


@breaks("a_step_that_terminated_has_a_row")
class TerminalsDropped(Plain):
    """Counts one transition less than steps in each episode that terminated."""

    def begun(self):
        return [i for i in super().begun() if not self.steps[i][4]]


@breaks("a_step_that_was_truncated_has_a_row")
class TruncationsDropped(Plain):
    """Has no row for a truncated step, whose next observation it looks for in the next slot."""

    def begun(self):
        return [i for i in super().begun() if not self.steps[i][5]]


@breaks("the_newest_steps_have_rows_at_once")
class NewestHeldBack(Plain):
    """Waits for n more steps before it gives one out."""

    def begun(self):
        return super().begun()[: -self.n]


@breaks("a_window_is_paid_by_the_steps_of_its_discount")
class Undiscounted(Plain):
    """Adds rewards up without a discount."""

    def paid(self, window):
        return sum(step[2] for step in window)


@breaks("a_window_keeps_to_its_episode")
class RunsOverEnds(Plain):
    """Goes on into the next episode."""

    def ends(self, step):
        return False


@breaks("a_window_keeps_to_its_episode")
class CountsBeyondTheNewest(Plain):
    """Discounts by γ^n at the write head, though fewer steps are there."""

    def row(self, window):
        complete = self.ends(window[-1]) or len(window) == self.n
        discount = self.gamma ** (len(window) if complete else self.n)
        return (*super().row(window)[:4], discount, self.over(window))


@breaks("a_window_runs_on_to_a_termination")
class StopsBeforeATermination(Plain):
    """Ends a window of several steps one step before a termination."""

    def window(self, place):
        found = super().window(place)
        return found[:-1] if len(found) > 1 and found[-1][4] else found


@breaks("a_window_runs_on_to_a_truncation")
class StopsBeforeATruncation(Plain):
    """Ends a window of several steps one step before a truncation."""

    def window(self, place):
        found = super().window(place)
        return found[:-1] if len(found) > 1 and found[-1][5] else found


@breaks("a_row_leads_to_the_next_observation")
class BootstrapsAStepEarly(Plain):
    """Leads to the observation of the last step, not to the one after it."""

    def after(self, window):
        return window[-1][0]


@breaks("a_truncated_row_leads_to_the_final_observation")
class ResetForFinal(Plain):
    """Leads to what the next episode begins with."""

    def after(self, window):
        return self.following(window[-1])[0] if window[-1][5] else window[-1][3]


@breaks("a_terminal_row_keeps_the_final_observation")
class ZeroAtTheEnd(Plain):
    """Puts zeros in place of the observation that an episode terminated in."""

    def after(self, window):
        return 0.0 if window[-1][4] else window[-1][3]


@breaks("a_row_that_reaches_a_termination_is_terminal")
class FirstStepDecides(Plain):
    """Reads from the first step of a window whether it terminated."""

    def over(self, window):
        return window[0][4]


@breaks("a_row_within_an_episode_is_not_terminal")
class HeadTerminates(Plain):
    """Takes the newest step for an end."""

    def over(self, window):
        return window[-1][4] or (window[-1] == self.steps[-1] and not window[-1][5])


@breaks("a_truncation_is_no_termination")
class TruncationTerminates(Plain):
    """Takes a truncation for a termination."""

    def over(self, window):
        return window[-1][4] or window[-1][5]


@breaks("a_step_with_both_flags_is_terminal")
class TruncationWins(Plain):
    """Takes a step with both flags for a truncation alone."""

    def over(self, window):
        return window[-1][4] and not window[-1][5]


@breaks("a_full_buffer_holds_the_last_rows")
class FullOneTooEarly(Plain):
    """Loses a slot once it is full."""

    def begun(self):
        return super().begun()[int(len(self.steps) > self.capacity) :]


@breaks("a_buffer_below_an_episode_holds_the_last_rows")
class RoomByEpisodes(Plain):
    """Makes room by whole episodes, and none while it holds a single one."""

    def begun(self):
        begins = [0, *(i + 1 for i, step in enumerate(self.steps) if self.ends(step))]
        begins = [i for i in begins if i < len(self.steps)]
        room = [i for i in begins if len(self.steps) - i <= self.capacity]
        return list(range(room[0] if room else begins[-1], len(self.steps)))


@breaks("a_buffer_of_one_holds_the_newest_row")
class LooksAtTheSecond(Plain):
    """Looks at the step after the oldest one when it is full."""

    def begun(self):
        found = super().begun()
        if len(self.steps) > self.capacity:
            self.steps[found[1]]
        return found


@breaks("an_episode_of_one_step_stands_alone")
class OneStepRunsOn(Plain):
    """Takes an episode of one step for one without steps, and goes on with it."""

    def ends(self, step):
        before = self.steps[max(0, self.steps.index(step) - 1)]
        return super().ends(step) and not super().ends(before)


@breaks("a_window_longer_than_an_episode_ends_with_it")
class CountsToN(Plain):
    """Discounts by γ^n where an episode ended sooner."""

    def row(self, window):
        return (*super().row(window)[:4], self.gamma**self.n, self.over(window))


@breaks("truncated_episodes_in_a_row_stay_apart")
class RunsOverTruncations(Plain):
    """Ends a window at terminations alone."""

    def ends(self, step):
        return step[4]


@breaks("samples_are_rows")
class ColumnsDrawnApart(Plain):
    """Draws the rewards apart from the rest."""

    def sample(self, count):
        pairs = zip(super().sample(count), super().sample(count), strict=True)
        return [(*one[:2], other[2], *one[3:]) for one, other in pairs]


@breaks("every_row_can_be_drawn")
class NewestNeverDrawn(Plain):
    """Draws any row but the newest."""

    def sample(self, count):
        rows = self.rows()
        return [self.rng.choice(rows[:-1] or rows) for _ in range(count)]


@breaks("rows_are_drawn_equally_often")
class OldestTwiceAsOften(Plain):
    """Draws the oldest row twice as often as each other one."""

    def sample(self, count):
        rows = self.rows()
        return [self.rng.choice([rows[0], *rows]) for _ in range(count)]


@breaks("one_seed_gives_one_sample")
class Unseeded(Plain):
    """Draws from a generator that nobody seeded."""

    def __init__(self, capacity, n, gamma, seed):
        super().__init__(capacity, n, gamma, seed)
        self.rng = random.SystemRandom()


@breaks("other_seeds_give_other_samples")
class OneSeedForAll(Plain):
    """Takes 0 for every seed."""

    def __init__(self, capacity, n, gamma, seed):
        super().__init__(capacity, n, gamma, 0)


@breaks("a_sample_does_not_depend_on_another_buffer")
class SharedGenerator(Plain):
    """Draws from a generator that all buffers share, and each seeds."""

    shared: ClassVar = random.Random()

    def __init__(self, capacity, n, gamma, seed):
        super().__init__(capacity, n, gamma, seed)
        self.rng = self.shared
        self.rng.seed(seed)


@breaks("drawing_changes_no_row")
class CutAtTheHead(Plain):
    """Marks the newest step as truncated while it draws, and leaves it so."""

    def sample(self, count):
        found = super().sample(count)
        self.steps[-1] = (*self.steps[-1][:3], 0.0, *self.steps[-1][4:])
        return found
