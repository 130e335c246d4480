"""Laws of `rlcheck.envs.keydoor_grid`; the first parameter is the class that is judged.

What a step must answer is told by a map of text, which knows nothing of the grid's tables.
"""

import copy
import itertools
import pickle
import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import example, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from rlcheck.envs import ACTION_NAMES, GridState, KeyDoorGrid, KeyDoorGridVector
from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.grading.laws import law

from .environments import Answer, seeds
from .grid_map import (
    DOWN,
    LEFT,
    RIGHT,
    START_PLACES,
    STARTS,
    STEP_LIMIT,
    UP,
    Cell,
    Place,
    breadth_first,
    shortest_way,
    text,
    tiles,
    walk,
)
from .refusals import Refusal, refusals, refuse
from .strategies import digits, evenly

NAN = float("nan")
DRAWS = 64  # starts in a row: two streams agree on all of them once in 4^64
LIMITS: tuple[int | None, ...] = (STEP_LIMIT, None, 1, 2, 3, 8, 13, 20)  # None: the last action's
FORMS = (int, np.int64, np.int8, np.array)  # of an action
FIELDS = ("state", "success", "stop_reason")
GOALS = "KDGT"  # what a run of actions can lead to
CODES = 4 + len(GOALS)


def naming(name: str, value: Any = None) -> str:
    """What an error must say at least: a name, and the numbers of a value."""
    return " ".join([name, *re.findall(r"-?\d+\.?\d*|nan", repr(value))])


# Methods of an environment, and arguments that they refuse.
REFUSED = (
    *(
        refuse("step", value, says=naming("action", value))
        for value in (4, -1, 99, 1.5, 1.0, NAN, True, np.True_, "up", "", None, [0], (1, 2))
    ),
    *(
        refuse("reset", start=value, says=naming("start", value))
        for value in ((0, 0), (6,), (6, 0, 0), (0, 6), (-1, 0), "60", 6, [2, 3], (NAN, 0.0))
    ),
    refuse("reset", seed=3, start=(3, 3), says=naming("start", 3)),
    refuse("reset", start=(1, 1), options={"start": (6, 0)}, says=naming("start", 1)),
    *(
        refuse("reset", options={"start": value}, says=naming("start", value))
        for value in ((0, 0), "G", 3, [[6, 0]])
    ),
    refuse("reset", options={"cell": (6, 0)}, says="option cell"),
    refuse("reset", seed=3, options={"start": (6, 0), "key": 1}, says="option key"),
    refuse(
        "reset",
        start=(6, 0),
        options={"start": (2, 2)},
        says=naming("start", ((6, 0), (2, 2))),
    ),
)

IMPOSSIBLE = (
    *(
        refuse(step_limit=value, says=naming("step_limit", value))
        for value in (0, -1, 1.5, True, False, NAN, "4", None)
    ),
    refuse(step_limit=[4], says="step_limit"),
    *(
        refuse(render_mode=mode, says=naming("render_mode", mode))
        for mode in ("human", "ANSI", "", 0)
    ),
)


def assert_refused(call: Callable[..., Any], refusal: Refusal) -> None:
    """A call raises an error that has all words of what it must say at least."""
    with pytest.raises((ValueError, TypeError)) as raised:
        call(*refusal.args, **refusal.kwargs)
    assert [word for word in refusal.says.split() if word not in str(raised.value)] == []


def assert_method_refuses(environment: Any, refusal: Refusal) -> None:
    """The same of a method, whose name comes first."""
    method, *arguments = refusal.args
    assert_refused(getattr(environment, method), replace(refusal, args=tuple(arguments)))


@dataclass(frozen=True)
class Play:
    """What is asked of one episode; actions beyond its end are not taken."""

    start: Cell
    actions: tuple[int, ...]
    step_limit: int = STEP_LIMIT

    @property
    def first(self) -> Place:
        return START_PLACES[STARTS.index(self.start)]

    @cached_property
    def places(self) -> list[Place]:
        """Where each action that is taken leads to."""
        return walk(self.first, self.actions)[: self.step_limit]

    @property
    def taken(self) -> tuple[int, ...]:
        """The actions that are taken."""
        return self.actions[: len(self.places)]

    @property
    def pairs(self) -> list[tuple[Place, Place]]:
        """Places before and after each action that is taken."""
        return list(itertools.pairwise([self.first, *self.places]))


@dataclass(frozen=True)
class Episode:
    """What an environment answered to a play."""

    environment: Any
    first: tuple[Any, dict[str, Any]]
    answers: list[Answer]

    @property
    def last(self) -> Answer:
        return self.answers[-1]

    @property
    def observations(self) -> list[Any]:
        return [self.first[0], *(answer.observation for answer in self.answers)]

    @property
    def seen(self) -> Any:
        """All that can be compared with another episode."""
        return *map(comparable, (self.first, *self.answers)), self.environment.render()


def comparable(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a reset or a step answers, with its observation as a list."""
    observation, *others = answer
    return observation.tolist(), *others


def played(code: int, codes: list[int]) -> Play:
    """The play that numbers stand for: below four an action, above it a run to a tile."""
    number, kind = digits(code, len(STARTS), len(LIMITS))
    place, actions = START_PLACES[number], []
    for drawn in codes:
        run = (drawn,) if drawn < 4 else shortest_way(place, GOALS[drawn - 4])
        actions.extend(run)
        place = walk(place, run)[-1] if run and not place.over else place
    actions = actions or [UP]
    return Play(STARTS[number], tuple(actions), LIMITS[kind] or len(actions))


def plays() -> st.SearchStrategy[Play]:
    """Plays of any length that is met; many take the key, pass the door, reach the goal."""
    codes = st.lists(evenly(CODES), min_size=1, max_size=10)
    return st.tuples(evenly(len(STARTS) * len(LIMITS)), codes).map(lambda drawn: played(*drawn))


def way(start: Cell, symbol: str, *more: int) -> Play:
    """A shortest way to a tile, and more actions."""
    return Play(start, (*shortest_way(START_PLACES[STARTS.index(start)], symbol), *more))


TO_GOAL, TO_TRAP, TO_KEY = (way((6, 0), symbol) for symbol in "GTK")
AT_ONCE = replace(TO_GOAL, step_limit=len(TO_GOAL.actions))
BLOCKED = Play((4, 0), (LEFT,) * 62)


def follow(environment: Any, play: Play, **more: Any) -> Episode:
    """The episode that an environment makes of a play."""
    begun = environment.reset(**{"start": play.start} | more)
    answers: list[Answer] = []
    for action in play.actions:
        if answers and answers[-1].over:
            break
        answers.append(Answer(*environment.step(action)))
    return Episode(environment, begun, answers)


def new_episode(keydoor_grid: Any, play: Play) -> Episode:
    """The episode that a new environment makes of a play."""
    return follow(keydoor_grid(step_limit=play.step_limit, render_mode="ansi"), play)


def starts(environment: Any, count: int = DRAWS, **first_reset: Any) -> list[Cell]:
    """The starts of episodes in a row; only the first reset is told more."""
    drawn = []
    for index in range(count):
        _, info = environment.reset(**first_reset if index == 0 else {})
        drawn.append(info["state"].cell)
    return drawn


def state_of(place: Place) -> GridState:
    """A place as the environment names it."""
    return GridState(*place.cell, place.has_key)


def observed(place: Place) -> list[float]:
    """The row and the column as units, and 1 with the key."""
    row, column = place.cell
    return [
        *(float(i == row) for i in range(7)),
        *(float(i == column) for i in range(7)),
        float(place.has_key),
    ]


@pytest.fixture(scope="session", name="keydoor_grid")
def judged() -> type[KeyDoorGrid]:
    """The class that the laws judge."""
    return KeyDoorGrid


# Seeds and starts


@law(seed=seeds(), asked=st.lists(plays(), max_size=3))
def test_one_seed_and_the_same_actions_give_the_same_episodes(keydoor_grid, seed, asked):
    """Two environments with one seed answer the same actions alike, episode after episode."""
    lives = [keydoor_grid(render_mode="ansi") for _ in range(2)]
    drawn = [starts(environment, seed=seed) for environment in lives]
    assert drawn[0] == drawn[1]
    for play in asked:
        one, other = (follow(environment, play, start=None) for environment in lives)
        assert one.seen == other.seen


@law(seed=seeds())
def test_the_constructors_seed_does_what_the_seed_of_a_reset_does(keydoor_grid, seed):
    """An environment made with a seed draws what one draws whose first reset has that seed."""
    assert starts(keydoor_grid(seed=seed)) == starts(keydoor_grid(), seed=seed)


@law(seed=seeds(), made_with=seeds())
def test_a_seeded_reset_leaves_nothing_of_the_seeds_before_it(keydoor_grid, seed, made_with):
    """After a reset with a seed all starts are that seed's, whatever was drawn or due before.

    The same holds where the reset also asks for a start, as an argument or as an option.
    """
    environment, asked = keydoor_grid(seed=made_with), {"start": STARTS[seed % len(STARTS)]}
    for more in ({}, asked, {"options": asked}):
        drawn = starts(environment, seed=seed, **more)
        assert drawn == starts(environment, seed=seed, **more)
        assert drawn == starts(keydoor_grid(), seed=seed, **more)


@law(seed=seeds(), play=plays())
def test_global_generators_are_left_alone(keydoor_grid, seed, play):
    """Neither a reset nor a step reads or seeds what NumPy and Python share with all others."""
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002  the global one
    environment = keydoor_grid(seed=seed, step_limit=play.step_limit)
    follow(environment, play, seed=seed + 1)
    environment.reset()
    assert (random.getstate(), repr(np.random.get_state())) == before  # noqa: NPY002


@law(seed=seeds())
def test_a_reset_without_a_seed_goes_on_drawing(keydoor_grid, seed):
    """Resets without a seed draw on: neither is one start repeated, nor the stream begun anew."""
    environment = keydoor_grid()
    drawn = starts(environment, seed=seed)
    assert set(drawn) == set(STARTS)
    assert starts(environment) != drawn


@law(seed=seeds())
def test_other_seeds_draw_other_starts(keydoor_grid, seed):
    """Neighbouring seeds draw different starts, and so do environments without a seed."""
    assert starts(keydoor_grid(), seed=seed) != starts(keydoor_grid(), seed=seed + 1)
    assert starts(keydoor_grid(seed=seed)) != starts(keydoor_grid(seed=seed + 1))
    assert starts(keydoor_grid()) != starts(keydoor_grid())


@law(seed=seeds())
def test_all_starts_are_drawn_about_as_often(keydoor_grid, seed):
    """Of 256 starts each of the four is drawn about 64 times.

    The allowed range is six standard deviations wide, on each side.
    """
    drawn = starts(keydoor_grid(), 256, seed=seed)
    assert all(22 <= drawn.count(start) <= 106 for start in STARTS)


@law(seed=seeds(), start=st.sampled_from(STARTS), form=st.sampled_from([tuple, list, np.array]))
def test_a_start_is_had_by_asking_for_it(keydoor_grid, seed, start, form):
    """A reset with a start, as an argument or an option or both, begins an episode there.

    The options stay the caller's own, as they were.
    """
    asked = {"start": form(start)}
    for ways in (asked, {"options": asked}, {"options": asked} | asked):
        environment = keydoor_grid()
        _, info = environment.reset(seed=seed, **ways)
        assert info == {"state": GridState(*start, False)}
        assert environment.state == info["state"]
        assert list(asked) == ["start"]
        assert tuple(asked["start"]) == start


# Episodes and what lies between them


@law(play=plays(), seed=seeds())
@example(play=TO_KEY, seed=0)
@example(play=TO_GOAL, seed=0)
def test_a_reset_begins_at_a_start_without_the_key_at_any_moment(keydoor_grid, play, seed):
    """Whatever has been, a reset answers with a start, the key not had, and where that is."""
    environment = keydoor_grid(step_limit=play.step_limit)
    for asked in ({"seed": seed}, {}, {"start": play.start}, {"options": {"start": play.start}}):
        observation, info = environment.reset(**asked)
        place = START_PLACES[STARTS.index(info["state"].cell)]
        assert (observation.tolist(), info) == (observed(place), {"state": state_of(place)})
        follow(environment, play)


@law(history=st.lists(plays(), min_size=1, max_size=3), play=plays())
@example(history=[TO_KEY], play=way((2, 2), "K"))
@example(history=[TO_KEY], play=Play((2, 2), (DOWN, RIGHT)))
@example(history=[TO_GOAL], play=BLOCKED)
def test_an_episode_is_what_it_is_in_a_new_environment(keydoor_grid, history, play):
    """Nothing of earlier episodes, ended or left, shows in an episode: no key, no steps."""
    environment = keydoor_grid(step_limit=play.step_limit, render_mode="ansi")
    for past in history:
        follow(environment, past)
    assert follow(environment, play).seen == new_episode(keydoor_grid, play).seen


@law(play=plays(), other=plays())
@example(play=TO_GOAL, other=TO_KEY)
@example(play=BLOCKED, other=replace(BLOCKED, start=(6, 0), step_limit=3))
def test_grids_that_step_in_turns_know_nothing_of_each_other(keydoor_grid, play, other):
    """Two environments whose steps alternate answer as each of them does alone."""
    both = [play, other]
    lives = [keydoor_grid(step_limit=each.step_limit, render_mode="ansi") for each in both]
    alone = [new_episode(keydoor_grid, each) for each in both]
    for life, each in zip(lives, both, strict=True):
        life.reset(start=each.start)
    for t in range(max(len(each.taken) for each in both)):
        for life, each, episode in zip(lives, both, alone, strict=True):
            if t < len(each.taken):
                assert comparable(life.step(each.taken[t])) == comparable(episode.answers[t])
    for life, episode in zip(lives, alone, strict=True):
        assert (life.state, life.render()) == (
            episode.environment.state,
            episode.environment.render(),
        )


@law(play=plays(), seed=seeds())
@example(play=TO_KEY, seed=0)
def test_a_copy_goes_on_by_itself(keydoor_grid, play, seed):
    """A deep copy goes on as its original would, and what it does changes nothing of it."""
    environment = keydoor_grid(step_limit=play.step_limit, render_mode="ansi")
    follow(environment, play, seed=seed)
    copied = copy.deepcopy(environment)
    left = environment.state, environment.render()
    assert (copied.state, copied.render()) == left
    drawn = starts(copied)
    assert (environment.state, environment.render()) == left
    assert starts(environment) == drawn


@law(play=plays())
@example(play=TO_TRAP)
@example(play=replace(BLOCKED, step_limit=2))
def test_a_step_outside_an_episode_is_refused_and_changes_nothing(keydoor_grid, play):
    """Before the first reset and after an end a step raises ResetNeeded, and that is all."""
    limit = min(play.step_limit, len(play.actions))
    environment = keydoor_grid(step_limit=limit, render_mode="ansi")
    for wanting in (lambda: environment.step(0), lambda: environment.state, environment.render):
        with pytest.raises(ResetNeeded):
            wanting()
    follow(environment, play)
    left = environment.state, environment.render()
    for action in range(4):
        with pytest.raises(ResetNeeded):
            environment.step(action)
    assert (environment.state, environment.render()) == left
    again = replace(play, step_limit=limit)
    assert follow(environment, play).seen == new_episode(keydoor_grid, again).seen


@law(play=plays(), moment=evenly(60), seed=seeds())
def test_what_is_refused_is_named_and_changes_nothing(keydoor_grid, play, moment, seed):
    """An unknown action, start or option is refused, its name and value told, and that is all."""
    plain, disturbed = (
        keydoor_grid(step_limit=play.step_limit, render_mode="ansi") for _ in range(2)
    )
    episode = follow(plain, play, seed=seed)
    disturbed.reset(seed=seed, start=play.start)
    for t, action in enumerate(play.taken):
        if t == moment % len(play.taken):
            for refusal in REFUSED:
                assert_method_refuses(disturbed, refusal)
        assert comparable(disturbed.step(action)) == comparable(episode.answers[t])
    assert disturbed.render() == plain.render()
    assert starts(disturbed) == starts(plain)


@law(refusal=refusals(IMPOSSIBLE))
def test_an_environment_that_cannot_be_is_refused_by_name(keydoor_grid, refusal):
    """A limit is an integer ≥ 1 and no boolean, a render mode known; else the error names it."""
    assert_refused(keydoor_grid, refusal)


@law(play=plays(), form=st.sampled_from(FORMS))
def test_an_action_is_an_integer_of_any_kind(keydoor_grid, play, form):
    """An action may be an integer of Python or of NumPy, or an array of no axes."""
    given = tuple(form(action) for action in play.actions)
    again = new_episode(keydoor_grid, replace(play, actions=given))
    assert again.seen == new_episode(keydoor_grid, play).seen


# Moves


@law(play=plays())
@example(play=TO_GOAL)
@example(play=way((2, 2), "D", RIGHT, LEFT, LEFT))
def test_a_step_leads_where_the_map_says(keydoor_grid, play):
    """Up, right, down, left lead to the next cell on the map."""
    answers = new_episode(keydoor_grid, play).answers
    states = [answer.info["state"] for answer in answers]
    assert states == list(map(state_of, play.places))


@law(play=plays())
@example(play=BLOCKED)
@example(play=Play((2, 2), (RIGHT, DOWN, RIGHT, DOWN)))
@example(play=Play((6, 0), (LEFT, DOWN, UP, UP, UP, LEFT)))
def test_a_move_into_a_wall_the_border_or_the_shut_door_goes_nowhere(keydoor_grid, play):
    """What is in the way leaves the agent where it is, and costs the step."""
    episode = new_episode(keydoor_grid, play)
    steps = zip(play.pairs, play.taken, episode.answers, strict=True)
    for t, ((before, _), action, answer) in enumerate(steps):
        if before.closed(action):
            assert answer.info["state"] == state_of(before)
            assert answer.observation.tolist() == episode.observations[t].tolist()
            assert answer.reward == pytest.approx(-0.01)
            assert not answer.terminated


@law(play=plays())
@example(play=TO_GOAL)
@example(play=way((2, 2), "K", DOWN, UP, DOWN, UP))
@example(play=way((2, 2), "K", LEFT, LEFT, RIGHT))
def test_the_key_is_taken_by_stepping_on_it_and_kept(keydoor_grid, play):
    """The key is had from the first step on its cell to the end of the episode, never before."""
    answers = new_episode(keydoor_grid, play).answers
    cells = [place.cell for place in play.places]
    taken = [tiles("K")[0] in cells[: t + 1] for t in range(len(cells))]
    assert [answer.info["state"].has_key for answer in answers] == taken
    assert [bool(answer.observation[-1]) for answer in answers] == taken


@law(seed=seeds())
def test_no_way_to_the_goal_leads_past_the_key_and_the_door(keydoor_grid, seed):
    """In a long walk at random the goal's side is entered through the door, with the key."""
    environment, rng = keydoor_grid(step_limit=400), np.random.default_rng(seed)
    environment.reset(seed=seed)
    before, over = environment.state, False
    while not over:
        *_, terminated, truncated, info = environment.step(rng.integers(4))
        after, over = info["state"], terminated or truncated
        if after.column >= 3:
            assert after.has_key
            assert before.column >= 3 or after.cell == tiles("D")[0]
        before = after


# Rewards and ends


@law(play=plays())
@example(play=TO_GOAL)
@example(play=AT_ONCE)
@example(play=TO_TRAP)
@example(play=way((2, 2), "D", RIGHT, RIGHT, UP, UP))
def test_a_step_costs_a_hundredth_a_trap_one_and_the_goal_pays_one(keydoor_grid, play):
    """Every reward is −0.01, with 1 more at the goal and 1 less in a trap."""
    answers = new_episode(keydoor_grid, play).answers
    paid = {"G": 0.99, "T": -1.01}
    expected = [paid.get(place.tile, -0.01) for place in play.places]
    assert [answer.reward for answer in answers] == pytest.approx(expected, rel=1e-12)


@law(play=plays())
@example(play=TO_GOAL)
@example(play=AT_ONCE)
@example(play=BLOCKED)
@example(play=replace(TO_TRAP, step_limit=len(TO_TRAP.actions)))
@example(play=replace(TO_GOAL, step_limit=len(TO_GOAL.actions) - 1))
def test_an_episode_ends_at_the_goal_in_a_trap_or_at_its_limit(keydoor_grid, play):
    """The goal and the traps terminate, the limit truncates where none of them is reached.

    A step that reaches one of them as the last allowed one terminates only.
    """
    answers = new_episode(keydoor_grid, play).answers
    assert len(answers) == len(play.places)
    flags = [(answer.terminated, answer.truncated) for answer in answers]
    reached = play.places[-1].over
    cut = len(answers) == play.step_limit and not reached
    assert flags == [*[(False, False)] * (len(answers) - 1), (reached, cut)]


@law(start=st.sampled_from(STARTS), limit=st.sampled_from((None, 59, 61, 130, 300)))
@example(start=(4, 0), limit=None)
@example(start=(6, 0), limit=130)
def test_the_limit_is_60_steps_or_as_many_as_are_told(keydoor_grid, start, limit):
    """Who walks against a wall is cut by the 60th step, or by that of the limit, however long."""
    environment = keydoor_grid() if limit is None else keydoor_grid(step_limit=limit)
    _, info = environment.reset(start=start)
    place = START_PLACES[STARTS.index(start)]
    blocked = next(action for action in range(4) if place.closed(action))
    for step in range(1, (limit or STEP_LIMIT) + 1):
        *_, terminated, truncated, info = environment.step(blocked)
        assert (terminated, truncated) == (False, step == (limit or STEP_LIMIT))
    assert info["stop_reason"] == "timeout"


@law(play=plays())
@example(play=TO_GOAL)
@example(play=AT_ONCE)
@example(play=TO_TRAP)
@example(play=replace(TO_TRAP, step_limit=len(TO_TRAP.actions)))
@example(play=BLOCKED)
def test_the_stop_reason_is_the_goal_a_trap_or_the_time(keydoor_grid, play):
    """An end has its reason, and only an end has; a success is the goal's alone."""
    *before, last = new_episode(keydoor_grid, play).answers
    assert all((a.info["stop_reason"], a.info["success"]) == (None, False) for a in before)
    reason = {"G": "goal", "T": "trap"}.get(play.places[-1].tile, "timeout")
    assert last.info["stop_reason"] == (reason if last.over else None)
    assert last.info["success"] is (reason == "goal")


@law(play=plays())
@example(play=replace(TO_GOAL, step_limit=9))
def test_the_limit_cuts_and_changes_nothing_else(keydoor_grid, play):
    """A cut episode is the first steps of a longer one; its last step is flagged, no more."""
    cut = new_episode(keydoor_grid, play).answers
    ample = new_episode(keydoor_grid, replace(play, step_limit=1000)).answers[: len(cut)]
    if cut[-1].truncated:
        assert not ample[-1].over
        ample[-1] = ample[-1]._replace(truncated=True).informing(stop_reason="timeout")
    assert list(map(comparable, cut)) == list(map(comparable, ample))


# What is shown


@law(play=plays())
@example(play=TO_GOAL)
def test_an_observation_is_the_state_and_the_state_alone(keydoor_grid, play):
    """Row and column as units, and the key: one observation a state, one state an observation."""
    episode = new_episode(keydoor_grid, play)
    for place, observation in zip([play.first, *play.places], episode.observations, strict=True):
        assert observation.tolist() == observed(place)
        row, column = np.flatnonzero(observation[:-1])
        assert GridState(row, column - 7, bool(observation[-1])) == state_of(place)


@law(play=plays())
@example(play=TO_GOAL)
def test_answers_are_of_their_types_and_in_their_spaces(keydoor_grid, play):
    """A step answers float32 [15], a float, two booleans, and info of three fields."""
    episode = new_episode(keydoor_grid, play)
    environment = episode.environment
    assert environment.observation_space == gym.spaces.Box(0.0, 1.0, (15,), np.float32)
    assert all(map(environment.observation_space.contains, episode.observations))
    assert {each.dtype for each in episode.observations} == {np.dtype(np.float32)}
    for answer in episode.answers:
        assert [type(part) for part in answer[1:]] == [float, bool, bool, dict]
        assert sorted(answer.info) == sorted(FIELDS)
        assert type(answer.info["success"]) is bool
        assert answer.info["state"] == environment.state or answer is not episode.last
    assert [*range(4)] == [n for n in range(-1, 6) if environment.action_space.contains(n)]


@law(play=plays())
def test_a_changed_observation_changes_nothing(keydoor_grid, play):
    """What is returned is the caller's own: writing to it shows in no other answer."""
    environment = keydoor_grid(step_limit=play.step_limit)
    for _ in range(2):
        observation, _ = environment.reset(start=play.start)
        assert observation.tolist() == observed(play.first)
        observation[:] = 7
        for action, place in zip(play.taken, play.places, strict=True):
            kept, observation = observation, environment.step(action)[0]
            assert observation.tolist() == observed(place)
            assert (kept == 7).all()
            observation[:] = 7


@law(play=plays())
@example(play=TO_GOAL)
def test_the_text_shows_the_map_the_agent_and_the_key(keydoor_grid, play):
    """In the mode "ansi" @ stands for the agent, K for the key that still lies there."""
    environment = keydoor_grid(step_limit=play.step_limit, render_mode="ansi")
    environment.reset(start=play.start)
    assert environment.render() == text(play.first)
    for action, place in zip(play.taken, play.places, strict=True):
        environment.step(action)
        assert environment.render() == text(place)
    assert follow(keydoor_grid(), replace(play, step_limit=60)).environment.render() is None


@law(play=plays())
@example(play=TO_GOAL)
def test_the_picture_changes_with_the_state_and_with_nothing_else(keydoor_grid, play):
    """In the mode "rgb_array" two states look alike if and only if they are the same.

    A picture is the caller's own: painting it over shows in no other one.
    """
    environment = keydoor_grid(step_limit=play.step_limit, render_mode="rgb_array")
    environment.reset(start=play.start)
    pictures = [own_picture(environment)]
    for action in play.taken:
        environment.step(action)
        pictures.append(own_picture(environment))
    assert {(each.shape, each.dtype) for each in pictures} == {((168, 168, 3), np.dtype(np.uint8))}
    looks = [each.tobytes() for each in pictures]
    places = [play.first, *play.places]
    assert len(set(zip(looks, places, strict=True))) == len(set(looks)) == len(set(places))


def own_picture(environment: Any) -> Any:
    """A picture, after another one of the same state was painted over."""
    before = environment.render()
    kept = before.copy()
    before[:] = 7
    picture = environment.render()
    assert (picture == kept).all()
    return picture


# Gymnasium


@law(limit=st.sampled_from((60, 2, 3)), mode=st.sampled_from((None, "ansi", "rgb_array")))
def test_gymnasiums_checker_has_nothing_to_say(keydoor_grid, limit, mode):
    """Gymnasium's own check of environments finds no error and no warning."""
    spec = EnvSpec("rlcheck/Judged-v0", entry_point=keydoor_grid)
    environment = gym.make(spec, step_limit=limit, render_mode=mode).unwrapped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment, skip_render_check=True)


# A whole life


def life_of(keydoor_grid: Any) -> type[RuleBasedStateMachine]:
    """Any calls in any order, beside the map."""

    class Life(RuleBasedStateMachine):
        """The map knows where the agent is, and how long it has been on its way."""

        @initialize(limit=st.sampled_from((STEP_LIMIT, 1, 2, 5, 16)))
        def make(self, limit: int) -> None:
            self.environment = keydoor_grid(seed=0, step_limit=limit, render_mode="ansi")
            self.limit, self.place, self.left = limit, None, 0

        def begin(self, **asked: Any) -> None:
            observation, info = self.environment.reset(**asked)
            self.place = START_PLACES[STARTS.index(info["state"].cell)]
            self.left = self.limit
            assert observation.tolist() == observed(self.place)

        @rule()
        def reset(self) -> None:
            self.begin()

        @rule(seed=st.integers(0, 9))
        def reset_with_a_seed(self, seed: int) -> None:
            self.begin(seed=seed)
            assert self.environment.state == keydoor_grid().reset(seed=seed)[1]["state"]

        @rule(start=st.sampled_from(STARTS), as_option=st.booleans())
        def reset_to_a_start(self, start: Cell, as_option: bool) -> None:
            asked = {"start": start}
            self.begin(**{"options": asked} if as_option else asked)
            assert self.place.cell == start

        @rule()
        def ask_the_impossible(self) -> None:
            for refusal in REFUSED:
                if self.left or refusal.args[0] == "reset":
                    assert_method_refuses(self.environment, refusal)

        @rule(codes=st.lists(evenly(CODES), min_size=1, max_size=6), form=st.sampled_from(FORMS))
        def go(self, codes: list[int], form: Callable[[int], Any]) -> None:
            for code in codes if self.left else ():
                run = (code,) if code < 4 else shortest_way(self.place, GOALS[code - 4])
                for action in run[: self.left]:
                    self.step(action, form)

        @rule(action=evenly(4))
        def step_outside_an_episode(self, action: int) -> None:
            if not self.left:
                with pytest.raises(ResetNeeded):
                    self.environment.step(action)

        def step(self, action: int, form: Callable[[int], Any]) -> None:
            answer = Answer(*self.environment.step(form(action)))
            self.place, self.left = self.place.after(action), self.left - 1
            ended = self.place.over
            assert (answer.terminated, answer.truncated) == (ended, self.left == 0 and not ended)
            assert answer.info["state"] == state_of(self.place)
            assert answer.observation.tolist() == observed(self.place)
            if ended:
                self.left = 0

        @invariant()
        def shows_where_it_is(self) -> None:
            if self.place is not None:
                assert self.environment.render() == text(self.place)

    return Life


def test_a_life_of_any_calls_is_as_the_map_tells_it(keydoor_grid):
    """Resets, steps and refused calls in any order leave the agent where the map says."""
    run_state_machine_as_test(life_of(keydoor_grid), settings=settings(stateful_step_count=30))


# The map, the tables, the registration


def test_the_environment_tells_where_things_are() -> None:
    grid = KeyDoorGrid
    assert (grid.width, grid.height, grid.observation_dim, grid.action_dim) == (7, 7, 15, 4)
    inner = {cell for cell in tiles("#") if 0 <= cell[0] < 7 and 0 <= cell[1] < 7}
    assert set(grid.wall_positions) == inner
    assert list(grid.trap_positions) == tiles("T")
    assert list(grid.start_positions) == STARTS
    assert (6, 0) in grid.start_positions
    assert [grid.key_position] == tiles("K")
    assert [grid.door_position] == tiles("D")
    assert [grid.goal_position] == tiles("G")
    assert grid.ACTION_NAMES == ACTION_NAMES == ("up", "right", "down", "left")


def test_the_tables_agree_with_a_walk_over_the_map() -> None:
    tables = grid_tables()
    index = {state: number for number, state in enumerate(tables.states)}
    assert len(index) == len(tables.states)
    paid = {"G": 0.99, "T": -1.01}
    reached = {place for first in START_PLACES for place, _ in breadth_first(first)}
    assert len(reached) == 63
    for place in reached:
        number = index[state_of(place)]
        assert tables.terminal[number] == place.over
        assert tables.observation[number].tolist() == observed(place)
        for action in range(4):
            after = place if place.over else place.after(action)
            assert tables.states[tables.next_state[number, action]] == state_of(after)
            reward = 0.0 if place.over else paid.get(after.tile, -0.01)
            assert tables.reward[number, action] == pytest.approx(reward, rel=1e-12)
    assert [tables.states[n].cell for n in tables.start] == STARTS
    assert len(np.unique(tables.observation, axis=0)) == len(tables.states)


def test_the_tables_cannot_be_written_to() -> None:
    for table in grid_tables()[1:]:
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0


def test_copies_and_pickles_share_the_tables_and_nothing_else() -> None:
    environment = KeyDoorGrid(seed=3)
    environment.reset()
    for copied in (copy.deepcopy(environment), pickle.loads(pickle.dumps(environment))):
        assert copied._tables is grid_tables()
        before = environment.state
        copied.step(UP)
        assert environment.state == before
        assert starts(copied, seed=1) == starts(KeyDoorGrid(), seed=1)
    changed = grid_tables()._replace(reward=np.zeros_like(grid_tables().reward))
    for copied in (copy.deepcopy(changed), pickle.loads(pickle.dumps(changed))):
        assert type(copied) is type(changed)
        assert copied is not grid_tables()
        assert not copied.reward.any()


def test_the_environment_is_registered() -> None:
    environment = gym.make("rlcheck/KeyDoorGrid-v0", step_limit=2)
    assert type(environment.unwrapped) is KeyDoorGrid
    _, info = environment.reset(seed=1, options={"start": (6, 0)})
    assert info["state"] == GridState(6, 0, False)
    assert environment.step(np.int64(UP))[1:4] == (-0.01, False, False)
    assert environment.step(np.int64(LEFT))[1:4] == (-0.01, False, True)
    vector = gym.make_vec("rlcheck/KeyDoorGrid-v0", num_envs=3, step_limit=2)
    assert type(vector.unwrapped) is KeyDoorGridVector
    assert (vector.num_envs, vector.step_limit) == (3, 2)
