"""A plain dataset that keeps every law, and others that each break one, as `FAULTS` says."""

import copy
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

FAULTS: dict[type["Lines"], str] = {}


def breaks(law: str):
    """Take a wrong dataset up, with the law that notices it; its docstring completes "It …"."""

    def add(kind):
        FAULTS[kind] = law
        return kind

    return add


class Lines:
    """A file with one episode a line."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "episodes.jsonl"

    def write(self, episodes: list[dict[str, Any]]) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(self.stored(e)) + "\n" for e in episodes)

    def stored(self, episode):
        return episode

    def read(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def sample(self, count, seed):
        return random.Random(seed).sample(self.read(), count)

    def steps(self):
        return sum(len(episode["actions"]) for episode in self.read())


@breaks("every_episode_is_read_in_its_place")
class SortedByName(Lines):
    """Reads the newest episode first."""

    def read(self):
        return super().read()[::-1]


@breaks("t_steps_have_t_plus_1_observations")
class FinalDropped(Lines):
    """Has no place for the final observation."""

    def stored(self, episode):
        return {**episode, "observations": episode["observations"][:-1]}


@breaks("observations_before_an_action_are_read_as_written")
class CutByActions(Lines):
    """Joins the observations of all episodes, and cuts them where the actions are cut."""

    def read(self):
        found = super().read()
        joined = iter([x for episode in found for x in episode["observations"]])
        return [{**e, "observations": [next(joined) for _ in e["actions"]]} for e in found]


@breaks("the_final_observation_is_kept")
class ResetForFinal(Lines):
    """Ends an episode with the first observation of the next one."""

    def read(self):
        found = super().read()
        for one, following in pairwise(found):
            one["observations"][-1] = following["observations"][0]
        return found


@breaks("rewards_are_read_as_written")
class RewardsOnArrival(Lines):
    """Gives a reward to the step after the one that earned it."""

    def stored(self, episode):
        return {**episode, "rewards": [0.0, *episode["rewards"][:-1]]}


@breaks("rewards_keep_their_digits")
class SinglePrecision(Lines):
    """Stores rewards in float32."""

    def stored(self, episode):
        return {**episode, "rewards": np.array(episode["rewards"], np.float32).tolist()}


@breaks("flags_are_read_as_written")
class OneFlag(Lines):
    """Stores a truncation as a termination."""

    def stored(self, episode):
        flags = zip(episode["terminations"], episode["truncations"], strict=True)
        over = [one or other for one, other in flags]
        return {**episode, "terminations": over, "truncations": [False] * len(over)}


@breaks("both_flags_at_once_are_kept")
class TerminationWins(Lines):
    """Drops the truncation of a step that terminated."""

    def stored(self, episode):
        flags = zip(episode["terminations"], episode["truncations"], strict=True)
        return {**episode, "truncations": [cut and not over for over, cut in flags]}


@breaks("an_episode_without_a_flag_keeps_none")
class CutIsTruncated(Lines):
    """Takes the end of a log for a truncation."""

    def stored(self, episode):
        last = episode["truncations"][-1] or not episode["terminations"][-1]
        return {**episode, "truncations": [*episode["truncations"][:-1], last]}


@breaks("a_single_episode_is_read")
class LargestOfThem(Lines):
    """Compares the episodes with each other, which fails where there is one."""

    def read(self):
        found = super().read()
        max(*(len(episode["actions"]) for episode in found))
        return found


@breaks("an_episode_of_one_step_is_read_as_one")
class OneStepIsNone(Lines):
    """Takes an episode of one step for one without any."""

    def read(self):
        return [episode for episode in super().read() if len(episode["actions"]) > 1]


@breaks("a_truncated_episode_of_one_step_is_read_as_one")
class CutAtOnceIsNone(Lines):
    """Takes an episode that was truncated at its first step for one that was never begun."""

    def read(self):
        return [e for e in super().read() if len(e["actions"]) > 1 or e["terminations"][0]]


@breaks("episodes_that_are_added_follow_the_others")
class WrittenAnew(Lines):
    """Begins the file anew at each writing."""

    def write(self, episodes):
        self.path.unlink(missing_ok=True)
        super().write(episodes)


@breaks("what_is_read_twice_is_the_same")
class ReadOnce(Lines):
    """Has nothing left once it was read."""

    def read(self):
        found = super().read()
        self.path.write_text("")
        return found


@breaks("steps_are_counted")
class CountedAtFirst(Lines):
    """Counts the steps of the first writing."""

    counted = 0

    def write(self, episodes):
        super().write(episodes)
        self.counted = self.counted or super().steps()

    def steps(self):
        return self.counted


@breaks("drawn_episodes_are_those_that_were_written")
class DrawnWithoutTheirEnd(Lines):
    """Leaves the final observation out of what is drawn."""

    def sample(self, count, seed):
        found = copy.deepcopy(super().sample(count, seed))
        for episode in found:
            episode["observations"].pop()
        return found


@breaks("drawn_episodes_are_different_ones")
class DrawnWithReplacement(Lines):
    """Draws one episode again and again."""

    def sample(self, count, seed):
        return random.Random(seed).choices(self.read(), k=count)


@breaks("every_episode_can_be_drawn")
class LastNeverDrawn(Lines):
    """Draws any episodes but the last."""

    def sample(self, count, seed):
        found = self.read()
        return random.Random(seed).sample(found[:-1] or found, min(count, len(found) - 1))


@breaks("one_seed_draws_the_same_episodes")
class Unseeded(Lines):
    """Draws without the seed."""

    def sample(self, count, seed):
        return random.SystemRandom().sample(self.read(), count)
