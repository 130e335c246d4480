"""Laws that hold for any Gymnasium environment; `environments` makes the one that is judged.

A moment counts from the first reset on: 0 is the reset, 1 the first step.
"""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rlcheck.grading.compare import Mismatch
from rlcheck.grading.environments.recording import (
    Moment,
    Play,
    assert_same,
    is_flag,
    moments,
    plays,
)
from rlcheck.grading.findings import NotApplicable
from rlcheck.grading.laws import law

__all__ = ["EPISODES"]

EPISODES = 32  # in a row; if no outcome is likelier than 1/2, all agree once in 2^31


def shown(environment: Any, play: Play) -> list[Any]:
    """All but the infos of a play."""
    return [moment.shown for moment in moments(environment, play)]


def steps(environment: Any, play: Play) -> Iterator[Moment]:
    """The steps of a play, without its resets."""
    return (moment for moment in moments(environment, play) if moment.reward is not None)


@law(play=plays())
def flags_are_booleans(environments, play):
    """Both flags of a step are booleans, of Python or of NumPy."""
    for moment in steps(environments.make(), play):
        for name in ("terminated", "truncated"):
            if not is_flag(value := getattr(moment, name)):
                raise Mismatch(name, expected="a boolean", got=value)


@law(play=plays())
def rewards_are_finite_numbers(environments, play):
    """A reward is one finite number, and no array of several axes, boolean or NaN."""
    for moment in steps(environments.make(), play):
        value = moment.reward
        if is_flag(value) or np.ndim(value) or not np.isfinite(float(value)):
            raise Mismatch("reward", expected="a finite number", got=value)


@law(play=plays())
def observations_lie_in_the_space(environments, play):
    """What a reset or a step shows lies in the observation space, at an end too."""
    environment = environments.make()
    for index, moment in enumerate(moments(environment, play)):
        if moment.observation not in environment.observation_space:
            where = f"observation, at moment {index}"
            got = moment.observation
            raise Mismatch(where, expected=f"in {environment.observation_space}", got=got)


@law(play=plays())
def one_seed_gives_one_trajectory(environments, play):
    """The same seed and actions give the same again, in the same environment and in another."""
    environment = environments.make()
    first = shown(environment, play)
    assert_same("in the same environment again", first, shown(environment, play))
    assert_same("in another environment", first, shown(environments.make(), play))


@law(play=plays())
def one_seed_gives_the_same_infos(environments, play):
    """The same seed and actions give the same infos in another environment."""
    first, other = ([m.info for m in moments(environments.make(), play)] for _ in range(2))
    assert_same("info", first, other)


@law(history=st.lists(plays(), min_size=1, max_size=3), play=plays())
def an_episode_is_what_it_is_in_a_new_environment(environments, history, play):
    """Whatever ran before, left at any moment, leaves nothing after a reset with a seed."""
    environment = environments.make()
    for before in history:
        shown(environment, before)
    assert_same("after others", shown(environments.make(), play), shown(environment, play))


@law(play=plays(), other=plays())
def environments_that_step_in_turns_know_nothing_of_each_other(environments, play, other):
    """An environment answers as it does alone while another one steps in between."""
    alone = shown(environments.make(), play)
    second = moments(environments.make(), other)
    between = []
    for moment in moments(environments.make(), play):
        between.append(moment.shown)
        next(second, None)
    assert_same("with another in between", alone, between)


def episodes(environment: Any, seeds: list[int | None], play: Play) -> list[Any]:
    """The episode of each reset, cut at the play's length or left at its end."""
    found = []
    for seed in seeds:
        seen = [Moment.of(*environment.reset(seed=seed)).shown]
        for action in play.actions(environment.action_space):
            moment = Moment.of(*environment.step(action))
            seen.append(moment.shown)
            if moment.over:
                break
        found.append(seen)
    return found


def commonest(found: list[Any]) -> int:
    """How often the commonest of some episodes is there."""
    texts = [repr(each) for each in found]
    return max(map(texts.count, texts))


@law(play=plays(8))
def a_reset_without_a_seed_goes_on_drawing(environments, play):
    """Where chance plays a part, resets without a seed draw on, neither one again nor anew."""
    by_seed = [play.seed + index for index in range(EPISODES)]
    if commonest(episodes(environments.make(), by_seed, play)) > EPISODES // 2:
        raise NotApplicable("chance plays no part")
    environment = environments.make()
    first = episodes(environment, [play.seed, *[None] * (EPISODES - 1)], play)
    if commonest(first[1:]) == EPISODES - 1:
        raise Mismatch("episodes in a row", expected="different ones", got=first[1])
    if repr(episodes(environment, [None] * EPISODES, play)) == repr(first):
        raise Mismatch("the next episodes", expected="others", got="the same again")


@law(play=plays(8))
def other_seeds_give_other_episodes(environments, play):
    """Where chance plays a part without a seed, it does so with different seeds."""
    unseeded = episodes(environments.make(), [None] * EPISODES, play)
    if commonest(unseeded) > EPISODES // 2:
        raise NotApplicable("chance plays no part")
    by_seed = [play.seed + index for index in range(EPISODES)]
    found = episodes(environments.make(), by_seed, play)
    if commonest(found) == EPISODES:
        raise Mismatch("episodes of as many seeds", expected="different ones", got=found[0])


@law(play=plays())
def global_generators_are_left_alone(environments, play):
    """Neither a reset nor a step reads or seeds what NumPy and Python share with all others."""
    environment = environments.make()
    before = repr(random.getstate()), repr(np.random.get_state())  # noqa: NPY002
    for _ in moments(environment, play):
        pass
    after = repr(random.getstate()), repr(np.random.get_state())  # noqa: NPY002
    for name, one, other in zip(("random", "numpy.random"), before, after, strict=True):
        if one != other:
            raise Mismatch(f"the state of {name}", expected="as before", got="another")


@law(play=plays())
def what_was_returned_stays_as_it_was(environments, play):
    """Observations and infos that were returned are not changed by later steps or resets."""
    seen = list(moments(environments.make(), play))
    for name, place in (("observation", 0), ("info", 1)):
        assert_same(name, [getattr(m, name) for m in seen], [m.objects[place] for m in seen])


@law(play=plays(12), limit=st.integers(1, 6))
def a_time_limit_truncates_at_its_step(environments, play, limit):
    """A limit of L steps sets `truncated` at step L, and changes nothing else of the episode."""
    limited, free = environments.make(limit), environments.make(-1)
    for environment in (limited, free):
        environment.reset(seed=play.seed)
    count = 0
    for action in play.actions(limited.action_space):
        one, other = (Moment.of(*e.step(action)).shown for e in (limited, free))
        count += 1
        expected = (*other[:3], bool(other[3]) or count == limit)
        assert_same(f"step {count} under a limit of {limit}", list(expected), list(one))
        if one[2] or one[3]:
            resets = [Moment.of(*e.reset()).shown for e in (limited, free)]
            assert_same("the reset after an end", [resets[1]], [resets[0]])
            count = 0
