"""Laws of `rlcheck.envs.keydoor_agent`; the first parameter is the class that is judged.

What a step must answer is told here from the whole list of actions so far, without any state.
"""

import functools
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
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

from rlcheck import classify_stop_event, shaped_return_identity, validate_rollout_record
from rlcheck.envs import ACTIONS, OBSERVATIONS, KeyDoorAgentEnv, ObservationIndex
from rlcheck.envs.keydoor_agent import (
    BROKEN,
    COLORS,
    ENVIRONMENT_VERSION,
    FINISHED,
    NOTES,
    NOTHING,
    OPENED,
    START,
    TAKEN,
    TIME_IS_UP,
)
from rlcheck.grading.compare import assert_close, discounted_terms, exact, nearest_float, total
from rlcheck.grading.laws import law
from rlcheck.rollouts import TERMINATION_REASONS, TRUNCATION_REASONS

from .environments import Answer, assert_refused, seeds
from .refusals import Refusal, refusals, refuse
from .strategies import DISCOUNTS, digits, discounts, evenly, steps

NAN, INF = float("nan"), float("inf")
HORIZONS = (8, 4, 1, 2, 3, 5, 6, 12)
LIMITS = (None, 4, 1, 2, 3, 5, 6, 8, 12, 30)
OTHER = {"red": "blue", "blue": "red"}
DRAWS = 64  # targets in a row: two streams agree on all of them once in 2^64
FORMS = (str, ACTIONS.index, lambda action: np.int64(ACTIONS.index(action)))  # of an action
FIELDS = ("potential_before", "potential_after", "shaped_reward", "stop_reason", "valid")

# Methods of an environment, and arguments that they refuse.
REFUSED = (
    refuse("step", "fly", says="action is 'fly'"),
    refuse("step", "inspect ", says="action is 'inspect '"),
    refuse("step", "Inspect", says="action is 'Inspect'"),
    refuse("step", "", says="action is ''"),
    refuse("step", 6, says="action is 6"),
    refuse("step", -1, says="action is -1"),
    refuse("step", 1.5, says="action is 1.5"),
    refuse("step", None, says="action is None"),
    refuse("step", [0], says="action is [0]"),
    refuse("step", 0, 1.1, says="gamma is 1.1"),
    refuse("step", 0, -0.1, says="gamma is -0.1"),
    refuse("step", 0, NAN, says="gamma is nan"),
    refuse("step", "finish", gamma=INF, says="gamma is inf"),
    refuse("step", 0, "0.9", says="gamma is '0.9'"),
    refuse("step", 0, [0.9], says="gamma has shape (1,)"),
    refuse("reset", target="red ", says="target is 'red '"),
    refuse("reset", target="RED", says="target is 'RED'"),
    refuse("reset", target="", says="target is ''"),
    refuse("reset", target=0, says="target is 0"),
    refuse("reset", seed=3, target="green", says="target is 'green'"),
    refuse("reset", options={"target": "green"}, says="target is 'green'"),
    refuse("reset", options={"colour": "red"}, says="options holds ['colour']"),
    refuse("reset", seed=3, options={"target": "red", "limit": 2}, says="options holds ['limit']"),
    refuse(
        "reset",
        target="red",
        options={"target": "blue"},
        says="target is 'red', but options asks for 'blue'",
    ),
)

IMPOSSIBLE = (
    *(
        refuse(**{name: value}, says=f"{name} {says}")
        for name in ("task_horizon", "collector_limit")
        for value, says in (
            *((value, f"is {value!r}") for value in (0, -1, 1.5, True, False, NAN, "4")),
            ([4], "has shape (1,)"),
        )
    ),
    refuse(task_horizon=None, says="task_horizon is None"),
    *(refuse(seed=seed, says=f"seed is {seed!r}") for seed in (-1, 1.5, "4")),
    *(refuse(gamma=gamma, says=f"gamma is {gamma!r}") for gamma in (1.5, -0.1, NAN)),
    *(
        refuse(render_mode=mode, says=f"render_mode is {mode!r}")
        for mode in ("human", "ANSI", "", 0)
    ),
)


@dataclass(frozen=True)
class Play:
    """What is asked of one episode; actions beyond its end are not taken."""

    target: str
    actions: tuple[str, ...]
    gamma: float = 0.9
    task_horizon: int = 8
    collector_limit: int | None = None

    @property
    def limits(self) -> dict[str, Any]:
        return {"task_horizon": self.task_horizon, "collector_limit": self.collector_limit}

    @property
    def length(self) -> int:
        """Steps until it is finished, out of time or cut; all of them if it is none of these."""
        ends = (self.task_horizon, self.collector_limit or self.task_horizon, len(self.actions))
        return min(first(self.actions, "finish") + 1, *ends)

    @property
    def taken(self) -> tuple[str, ...]:
        """The actions that are taken."""
        return self.actions[: self.length]


@dataclass(frozen=True)
class Episode:
    """What an environment answered to a play."""

    environment: gym.Env[str, np.int64]
    first: tuple[str, dict[str, Any]]
    answers: list[Answer]

    @property
    def last(self) -> Answer:
        return self.answers[-1]

    @property
    def seen(self) -> Any:
        """All that can be compared with another episode."""
        return self.first, self.answers, self.environment.render()


def way(target: str) -> tuple[str, ...]:
    """Inspect, take the right key, open the right door, finish."""
    return "inspect", f"pickup_{target}", f"open_{target}", "finish"


def named(code: int, before: list[str], target: str) -> str:
    """The action of a code below ten: one of the six, or the next one on the way to success."""
    if code < len(ACTIONS):
        return ACTIONS[code]
    return next((action for action in way(target) if action not in before), "finish")


def played(code: int, codes: list[int]) -> Play:
    """The play that numbers stand for."""
    bases = (len(COLORS), len(HORIZONS), len(LIMITS), len(DISCOUNTS))
    color, horizon, limit, gamma = digits(code, *bases)
    actions: list[str] = []
    for action in codes:
        actions.append(named(action, actions, COLORS[color]))
    return Play(COLORS[color], tuple(actions), DISCOUNTS[gamma], HORIZONS[horizon], LIMITS[limit])


def plays(min_size: int = 1) -> st.SearchStrategy[Play]:
    """Plays of up to twelve actions; many go the right way, some of them to its end."""
    settled = evenly(len(COLORS) * len(HORIZONS) * len(LIMITS) * len(DISCOUNTS))
    codes = steps(int, 10, min_size=min_size)
    return st.tuples(settled, codes).map(lambda drawn: played(*drawn))


def follow(environment: Any, play: Play, **more: Any) -> Episode:
    """The episode that an environment makes of a play."""
    begun = environment.reset(**{"target": play.target} | more)
    answers: list[Answer] = []
    for action in play.actions:
        if answers and answers[-1].over:
            break
        answers.append(Answer(*environment.step(action, play.gamma)))
    return Episode(environment, begun, answers)


def new_episode(keydoor_agent: Any, play: Play) -> Episode:
    """The episode that a new environment makes of a play."""
    return follow(keydoor_agent(**play.limits, render_mode="ansi"), play)


def targets(environment: Any, count: int = DRAWS, **first_reset: Any) -> list[str]:
    """The targets of episodes in a row; only the first reset is told more."""
    drawn = []
    for index in range(count):
        environment.reset(**first_reset if index == 0 else {})
        drawn.append(environment.target)
    return drawn


def first(actions: tuple[str, ...], verb: str) -> int:
    """Where an action with this verb stands first; the length if none does."""
    return next((t for t, a in enumerate(actions) if a.startswith(verb)), len(actions))


def key_and_door(actions: tuple[str, ...]) -> tuple[str | None, str | None]:
    """The colour of the first key, and of the first door tried with it; None without one."""
    taken = first(actions, "pickup")
    after = actions[taken:]
    tried = first(after, "open")
    return (
        actions[taken].removeprefix("pickup_") if taken < len(actions) else None,
        after[tried].removeprefix("open_") if tried < len(after) else None,
    )


def observed(before: tuple[str, ...], action: str, target: str) -> str:
    """What an action shows after those before it, were there no limit of time."""
    verb, _, color = action.partition("_")
    key, door = key_and_door(before)
    if verb == "inspect":
        return NOTHING if "inspect" in before else NOTES[target]
    if verb == "pickup":
        return TAKEN if key is None else NOTHING
    if verb == "finish":
        return FINISHED
    if key is None or door is not None:
        return NOTHING
    return OPENED if key == color else BROKEN


def milestones(actions: tuple[str, ...], target: str) -> float:
    """How much of the way is gone after the actions; 0 once it cannot be gone to its end."""
    key, door = key_and_door(actions)
    if key not in (None, target) or door not in (None, target):
        return 0.0
    return ("inspect" in actions) / 4 + (key is not None) / 4 + (door is not None) / 4


def succeeds(actions: tuple[str, ...], target: str) -> bool:
    """Whether the last action finishes with the right door open."""
    return actions[-1] == "finish" and key_and_door(actions) == (target, target)


def stop_reason(play: Play) -> str | None:
    """Why a play stops: for its finish, else its horizon, else the collector's limit."""
    if play.taken[-1] == "finish":
        return "success" if succeeds(play.taken, play.target) else "failure"
    if play.length == play.task_horizon:
        return "task_horizon"
    return "collector_limit" if play.length == play.collector_limit else None


@pytest.fixture(scope="session", name="keydoor_agent")
def judged() -> type[KeyDoorAgentEnv]:
    """The class that the laws judge."""
    return KeyDoorAgentEnv


# Seeds and targets


@law(seed=seeds(), asked=st.lists(plays(), max_size=3))
def test_one_seed_and_the_same_actions_give_the_same_episodes(keydoor_agent, seed, asked):
    """Two environments with one seed answer the same actions alike, episode after episode."""
    lives = [keydoor_agent(render_mode="ansi") for _ in range(2)]
    drawn = [targets(environment, seed=seed) for environment in lives]
    assert drawn[0] == drawn[1]
    for play in asked:
        one, other = (follow(environment, play, target=None) for environment in lives)
        assert one.seen == other.seen
        assert lives[0].target == lives[1].target


@law(seed=seeds())
def test_the_constructors_seed_does_what_the_seed_of_a_reset_does(keydoor_agent, seed):
    """An environment made with a seed draws what one draws whose first reset has that seed."""
    assert targets(keydoor_agent(seed=seed)) == targets(keydoor_agent(), seed=seed)


@law(seed=seeds(), made_with=seeds())
def test_a_seeded_reset_leaves_nothing_of_the_seeds_before_it(keydoor_agent, seed, made_with):
    """After a reset with a seed all targets are that seed's, whatever was drawn or due before."""
    environment = keydoor_agent(seed=made_with)
    drawn = targets(environment, seed=seed)
    assert drawn == targets(environment, seed=seed) == targets(keydoor_agent(), seed=seed)


@law(seed=seeds())
def test_a_reset_without_a_seed_goes_on_drawing(keydoor_agent, seed):
    """Resets without a seed draw on: neither is one target repeated, nor the stream begun anew."""
    environment = keydoor_agent()
    drawn = targets(environment, seed=seed)
    assert set(drawn) == set(COLORS)
    assert targets(environment) != drawn


@law(seed=seeds())
def test_other_seeds_draw_other_targets(keydoor_agent, seed):
    """Neighbouring seeds draw different targets, and so do environments without a seed."""
    assert targets(keydoor_agent(), seed=seed) != targets(keydoor_agent(), seed=seed + 1)
    assert targets(keydoor_agent(seed=seed)) != targets(keydoor_agent(seed=seed + 1))
    assert targets(keydoor_agent()) != targets(keydoor_agent())


@law(seed=seeds())
def test_both_targets_are_drawn_about_as_often(keydoor_agent, seed):
    """Of many targets about half are red.

    The allowed range is eight standard deviations wide, on each side.
    """
    assert 64 <= targets(keydoor_agent(), 256, seed=seed).count("red") <= 192


@law(seed=seeds(), target=st.sampled_from(COLORS), as_option=st.booleans())
def test_a_target_is_had_by_asking_for_it(keydoor_agent, seed, target, as_option):
    """A reset with a target, as an argument or an option, begins an episode about it."""
    environment = keydoor_agent()
    asked = {"options": {"target": target}} if as_option else {"target": target}
    environment.reset(seed=seed, **asked)
    assert environment.target == target
    assert environment.step("inspect")[0] == NOTES[target]


# Episodes and what lies between them


@law(play=plays(), seed=seeds())
def test_a_reset_shows_the_start_and_nothing_of_the_target(keydoor_agent, play, seed):
    """A reset answers the same at any moment, for any target: the start and its potential, 0."""
    environment = keydoor_agent(**play.limits)
    begun = (START, {"potential": 0.0})
    assert environment.reset(seed=seed) == begun
    assert follow(environment, play).first == begun
    assert environment.reset() == begun
    assert environment.reset(options={"target": OTHER[play.target]}) == begun


@law(history=st.lists(plays(min_size=0), min_size=1, max_size=3), play=plays())
@example(history=[Play("red", ("inspect",))], play=Play("red", way("red")))
@example(history=[Play("red", way("red")[:3])], play=Play("red", ("finish",)))
def test_an_episode_is_what_it_is_in_a_new_environment(keydoor_agent, history, play):
    """Nothing of earlier episodes, ended or left, shows in an episode or its transcript."""
    environment = keydoor_agent(**play.limits, render_mode="ansi")
    for past in history:
        follow(environment, past)
    assert follow(environment, play).seen == new_episode(keydoor_agent, play).seen


@law(play=plays())
def test_a_step_outside_an_episode_is_refused_and_changes_nothing(keydoor_agent, play):
    """Before the first reset and after an end a step raises ResetNeeded, and that is all."""
    environment = keydoor_agent(**play.limits, render_mode="ansi")
    for step_or_target in (lambda: environment.step("inspect"), lambda: environment.target):
        with pytest.raises(ResetNeeded):
            step_or_target()
    episode = follow(environment, replace(play, actions=(*play.actions, "finish")))
    seen = environment.render()
    for action in (play.actions[0], "inspect", "finish"):
        with pytest.raises(ResetNeeded):
            environment.step(action)
    assert environment.render() == seen
    assert (environment.target, episode.last.over) == (play.target, True)
    assert follow(environment, play).seen == new_episode(keydoor_agent, play).seen


@law(play=plays(), moment=evenly(12), seed=seeds())
def test_what_is_refused_is_named_and_changes_nothing(keydoor_agent, play, moment, seed):
    """An unknown action, gamma, target or option is refused by name and value, and that is all."""
    plain, disturbed = (keydoor_agent(**play.limits, render_mode="ansi") for _ in range(2))
    episode = follow(plain, play, seed=seed)
    disturbed.reset(seed=seed, target=play.target)
    for t, action in enumerate(play.taken):
        if t == moment % play.length:
            for refusal in REFUSED:
                assert_refused(disturbed, refusal)
        assert disturbed.step(action, play.gamma) == episode.answers[t]
    assert disturbed.render() == plain.render()
    assert targets(disturbed) == targets(plain)


@law(refusal=refusals(IMPOSSIBLE))
def test_an_environment_that_cannot_be_is_refused_by_name(keydoor_agent, refusal):
    """Limits, seeds, discounts and render modes out of range are refused, and named."""
    with pytest.raises((ValueError, TypeError)) as raised:
        keydoor_agent(**refusal.kwargs)
    assert refusal.says in str(raised.value)


@law(play=plays(), forms=st.lists(st.sampled_from([str, ACTIONS.index]), min_size=12, max_size=12))
def test_a_name_and_its_index_are_the_same_action(keydoor_agent, play, forms):
    """An action may be given by its name, its index, or the index as an integer of NumPy."""
    episode = new_episode(keydoor_agent, play)
    for numeric in (int, np.int64, np.int8):
        given = [form(action) for form, action in zip(forms, play.actions, strict=False)]
        actions = [action if isinstance(action, str) else numeric(action) for action in given]
        again = new_episode(keydoor_agent, replace(play, actions=tuple(actions)))
        assert again.seen == episode.seen


# What the agent is shown


@law(play=plays())
@example(play=Play("red", ("inspect", "inspect")))
@example(play=Play("red", way("red")))
def test_only_the_first_inspect_tells_the_targets_apart(keydoor_agent, play):
    """For equal actions both targets answer alike but for the first inspect and a finish's reward.

    Observations, flags and `valid` are equal at every other step, base rewards and stop reasons at
    every step that does not finish, and so is the length: what the agent is given never tells the
    target again.
    """
    one = new_episode(keydoor_agent, play).answers
    two = new_episode(keydoor_agent, replace(play, target=OTHER[play.target])).answers
    assert len(one) == len(two) == play.length
    for t, (action, a, b) in enumerate(zip(play.taken, one, two, strict=True)):
        assert (a.terminated, a.truncated) == (b.terminated, b.truncated)
        assert a.info["valid"] == b.info["valid"]
        tells = t == first(play.actions, "inspect") and t + 1 < play.task_horizon
        assert (a.observation != b.observation) is tells
        ends = (a.reward, a.info["stop_reason"]), (b.reward, b.info["stop_reason"])
        assert ends[0] == ends[1] or action == "finish"


@law(play=plays())
def test_the_note_is_read_once_in_an_episode(keydoor_agent, play):
    """The first inspect shows the colour of the target; every later one shows nothing."""
    answers = new_episode(keydoor_agent, replace(play, task_horizon=30)).answers
    shown = [a for a, action in zip(answers, play.actions, strict=False) if action == "inspect"]
    expected = [(NOTES[play.target], True), *[(NOTHING, False)] * len(shown)]
    assert [(a.observation, a.info["valid"]) for a in shown] == expected[: len(shown)]


@law(play=plays())
@example(play=Play("red", ("pickup_blue", "pickup_red", "open_red", "open_blue", "finish")))
@example(play=Play("red", ("pickup_red", "open_blue", "open_red", "pickup_red", "finish")))
def test_a_key_is_taken_once_and_tried_once(keydoor_agent, play):
    """A key can be taken once and tried in one door, which opens if it has the key's colour.

    What shows nothing is not valid; a horizon says that time is up instead, unless it finishes.
    """
    for t, answer in enumerate(new_episode(keydoor_agent, play).answers):
        shown = observed(play.actions[:t], play.actions[t], play.target)
        up = t + 1 == play.task_horizon and play.actions[t] != "finish"
        assert answer.observation == (TIME_IS_UP if up else shown)
        assert answer.info["valid"] is (shown != NOTHING)


@law(play=plays())
@example(play=Play("red", ("pickup_red", "pickup_blue", "open_red", "open_red", "finish")))
def test_an_action_that_is_not_valid_changes_nothing_but_the_time(keydoor_agent, play):
    """Without its invalid actions an episode goes the same way, and each of them takes one step."""
    ample = replace(play, task_horizon=30, collector_limit=None)
    answers = new_episode(keydoor_agent, ample).answers
    idle = [a for a in answers if not a.info["valid"]]
    kept = [c for c, a in zip(play.actions, answers, strict=False) if a.info["valid"]]
    again = new_episode(keydoor_agent, replace(ample, actions=tuple(kept))).answers
    assert again == [answer for answer in answers if answer.info["valid"]]
    for answer in idle:
        assert answer[:4] == (NOTHING, 0.0, False, False)
        assert answer.info["potential_after"] == answer.info["potential_before"]
    short = replace(ample, task_horizon=len(answers))
    assert new_episode(keydoor_agent, short).last.terminated


@law(play=plays())
def test_answers_are_of_their_types_and_in_their_spaces(keydoor_agent, play):
    """A step answers a known text, 0.0 or 1.0, two booleans, and info of five fields."""
    episode = new_episode(keydoor_agent, play)
    space = episode.environment.observation_space
    for answer in episode.answers:
        assert answer.observation in OBSERVATIONS
        assert space.contains(answer.observation)
        assert [type(part) for part in answer] == [str, float, bool, bool, dict]
        assert sorted(answer.info) == sorted(FIELDS)
        assert type(answer.info["valid"]) is bool
        assert answer.reward in (0.0, 1.0)
        numbers = [answer.info[name] for name in FIELDS[:3]]
        assert all(type(value) is float and np.isfinite(value) for value in numbers)


# Rewards and ends


@law(play=plays())
@example(play=Play("blue", way("blue"), task_horizon=4, collector_limit=4))
@example(play=Play("red", ("inspect", "pickup_red", "open_red", "inspect", "finish")))
@example(play=Play("red", ("pickup_red", "finish")))
@example(play=Play("red", ("pickup_red", "open_red", "finish")))
def test_the_base_reward_is_one_for_a_success_and_zero_for_all_else(keydoor_agent, play):
    """A step is rewarded with 1 if it finishes with the right door open, and with 0 if not."""
    for t, answer in enumerate(new_episode(keydoor_agent, play).answers):
        assert answer.reward == float(succeeds(play.actions[: t + 1], play.target))


@law(target=st.sampled_from(COLORS))
def test_a_success_takes_four_steps_or_three_with_luck(keydoor_agent, target):
    """Inspect, key, door, finish succeeds; the least is key, door and finish, and no other way.

    All 258 ways of at most three actions are gone.
    """
    short = [a for n in (1, 2, 3) for a in itertools.product(ACTIONS, repeat=n)]
    environment = keydoor_agent()
    rewarded = [a for a in short if follow(environment, Play(target, a)).last.reward > 0]
    assert rewarded == [way(target)[1:]]
    last = follow(environment, Play(target, way(target))).last
    assert (last.reward, last.terminated, last.info["stop_reason"]) == (1.0, True, "success")


@law(play=plays())
@example(play=Play("red", ("inspect", "inspect"), task_horizon=6, collector_limit=2))
@example(play=Play("red", ("inspect", "inspect"), task_horizon=2, collector_limit=2))
@example(play=Play("red", way("red"), task_horizon=4, collector_limit=4))
@example(play=Play("red", ("finish",), task_horizon=1))
@example(play=Play("red", ("finish",), collector_limit=1))
@example(play=Play("red", ("inspect",), task_horizon=1, collector_limit=3))
def test_an_episode_ends_at_its_finish_its_horizon_or_its_cut(keydoor_agent, play):
    """A finish ends an episode, else its horizon does, else the collector's limit cuts it.

    Where two of them fall on one step, the first of these gives the reason.
    """
    answers = new_episode(keydoor_agent, play).answers
    assert len(answers) == play.length
    reasons = [answer.info["stop_reason"] for answer in answers]
    assert reasons == [*[None] * (play.length - 1), stop_reason(play)]


@law(play=plays())
@example(play=Play("red", ("inspect", "inspect"), task_horizon=2, collector_limit=2))
@example(play=Play("red", ("inspect",), collector_limit=1))
def test_the_flags_follow_from_the_stop_reason(keydoor_agent, play):
    """Terminated is what the task ended, truncated what the collector cut, and never both."""
    kinds = {"terminal_reasons": TERMINATION_REASONS, "truncation_reasons": TRUNCATION_REASONS}
    for answer in new_episode(keydoor_agent, play).answers:
        event = classify_stop_event(answer.info["stop_reason"], **kinds)
        assert (answer.terminated, answer.truncated) == (event.terminated, event.truncated)
        assert not (answer.terminated and answer.truncated)
        assert answer.over is (answer.info["stop_reason"] is not None)


@law(play=plays())
def test_the_record_of_an_episode_is_sound(keydoor_agent, play):
    """An episode, written down as a rollout record, has no violations."""
    episode = new_episode(keydoor_agent, play)
    texts = [episode.first[0], *(answer.observation for answer in episode.answers)]
    turns = [
        {
            "turn": t,
            "observation": texts[t],
            "action": play.actions[t],
            "behavior_logprob": -1.5,
            "reward": answer.reward,
            "terminated": answer.terminated,
            "truncated": answer.truncated,
        }
        for t, answer in enumerate(episode.answers)
    ]
    record = {
        "task_id": "keydoor",
        "environment_version": ENVIRONMENT_VERSION,
        "policy_versions": dict.fromkeys(range(len(turns)), "random"),
        "turns": turns,
        "stop_reason": episode.last.info["stop_reason"],
    }
    assert validate_rollout_record(record) == []


@law(play=plays())
@example(play=Play("red", ("inspect", "inspect"), collector_limit=1))
@example(play=Play("red", ("inspect", "pickup_red"), collector_limit=2))
def test_the_collectors_limit_cuts_and_changes_nothing_else(keydoor_agent, play):
    """A cut episode is the first steps of the uncut one; its last step is flagged, no more.

    The potential stays too, for the value of the state that was left bootstraps.
    """
    cut = new_episode(keydoor_agent, play).answers
    uncut = new_episode(keydoor_agent, replace(play, collector_limit=None)).answers
    if cut[-1].truncated:
        last = uncut[len(cut) - 1]
        flagged = last._replace(truncated=True, info=last.info | {"stop_reason": "collector_limit"})
        assert not last.over
        assert cut == [*uncut[: len(cut) - 1], flagged]
    else:
        assert cut == uncut[: len(cut)]
        assert cut[-1].over or len(cut) == len(play.actions)


# Shaping


@law(play=plays())
@example(play=Play("red", way("red"), gamma=0.5))
@example(play=Play("red", ("inspect", "pickup_red"), gamma=0.9, task_horizon=2))
@example(play=Play("red", ("inspect", "pickup_red"), gamma=0.9, collector_limit=2))
def test_the_shaped_return_is_the_one_that_the_ends_predict(keydoor_agent, play):
    """Shaping adds γ^T Φ_T − Φ_0 to a return: nothing to one that ended, γ^T Φ_T to a cut one."""
    episode = new_episode(keydoor_agent, play)
    rewards = [answer.reward for answer in episode.answers]
    potentials = [episode.first[1]["potential"]]
    potentials += [answer.info["potential_after"] for answer in episode.answers]
    shaped = discounted_terms([a.info["shaped_reward"] for a in episode.answers], play.gamma)
    last = exact(play.gamma) ** len(rewards) * exact(potentials[-1])
    predicted = sum(discounted_terms(rewards, play.gamma), Fraction(0)) + last
    identity = shaped_return_identity(rewards, potentials, play.gamma)
    terms, count = total(rewards) + 2 * total(potentials), len(rewards)
    for truth in (nearest_float(predicted), identity.shaped, identity.predicted):
        assert_close(nearest_float(sum(shaped)), truth, terms=terms, count=count)
    assert last == 0 or not episode.last.terminated


@law(play=plays(), gammas=st.lists(discounts(), min_size=12, max_size=12))
def test_each_step_is_shaped_with_its_own_gamma(keydoor_agent, play, gammas):
    """The shaped reward is r + γ Φ(s′) − Φ(s), with the step's γ or else the environment's."""
    environment = keydoor_agent(**play.limits, gamma=play.gamma)
    environment.reset(target=play.target)
    for t, action in enumerate(play.taken):
        given = () if t % 2 else (gammas[t],)
        answer = Answer(*environment.step(action, *given))
        before, after = answer.info["potential_before"], answer.info["potential_after"]
        gamma = exact(play.gamma if t % 2 else gammas[t])
        shaped = exact(answer.reward) + gamma * exact(after) - exact(before)
        assert_close(answer.info["shaped_reward"], nearest_float(shaped), terms=3.0)


@law(play=plays())
def test_the_potential_after_a_step_is_the_one_before_the_next(keydoor_agent, play):
    """Potentials join up, from that of the reset on, so that shaping telescopes."""
    environment = keydoor_agent(**play.limits)
    for _ in range(2):
        episode = follow(environment, play)
        afters = [answer.info["potential_after"] for answer in episode.answers]
        befores = [answer.info["potential_before"] for answer in episode.answers]
        assert befores == [episode.first[1]["potential"], *afters[:-1]]


@law(play=plays())
@example(play=Play("red", ("inspect", "pickup_red", "open_blue", "inspect")))
@example(play=Play("red", ("inspect", "pickup_blue", "open_blue", "inspect")))
@example(play=Play("red", ("inspect",), task_horizon=1, collector_limit=1))
@example(play=Play("red", ("inspect",), collector_limit=1))
def test_the_potential_counts_milestones_and_is_zero_at_an_end(keydoor_agent, play):
    """A quarter for the note, the right key and its door; 0 once the way is lost or the task over.

    A cut state keeps its potential.
    """
    for t, answer in enumerate(new_episode(keydoor_agent, play).answers):
        reached = milestones(play.actions[: t + 1], play.target)
        assert answer.info["potential_after"] == (0.0 if answer.terminated else reached)


# Gymnasium


@law(horizon=st.sampled_from((8, 1, 2)), limit=st.sampled_from((None, 2, 3)))
def test_gymnasiums_checker_has_nothing_to_say(keydoor_agent, horizon, limit):
    """Gymnasium's own check of environments finds no error and no warning."""
    spec = EnvSpec("rlcheck/Judged-v0", entry_point=keydoor_agent)
    environment = gym.make(spec, task_horizon=horizon, collector_limit=limit).unwrapped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment)
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
        check_env(ObservationIndex(environment))


@law(play=plays())
def test_an_index_stands_for_each_text_that_is_shown(keydoor_agent, play):
    """ObservationIndex shows the place of each text in OBSERVATIONS, and changes nothing else."""
    texts = new_episode(keydoor_agent, play)
    indexed = ObservationIndex(keydoor_agent(**play.limits))
    answers = [indexed.reset(options={"target": play.target})]
    answers += [indexed.step(ACTIONS.index(action)) for action in play.taken]
    assert all(indexed.observation_space.contains(answer[0]) for answer in answers)
    shown = [texts.first[0], *(answer.observation for answer in texts.answers)]
    assert [OBSERVATIONS[answer[0]] for answer in answers] == shown
    assert [answer[1:4] for answer in answers[1:]] == [a[1:4] for a in texts.answers]


@law(play=plays())
def test_the_transcript_tells_the_episode(keydoor_agent, play):
    """In the mode "ansi" a line shows the start and one each step; without a mode there is none."""
    episode = new_episode(keydoor_agent, play)
    lines = [
        f"{t}. {action}: {answer.observation}"
        for t, (action, answer) in enumerate(zip(play.taken, episode.answers, strict=True), 1)
    ]
    assert episode.environment.render() == "\n".join([START, *lines])
    assert follow(keydoor_agent(**play.limits), play).environment.render() is None


# A whole life


def life_of(keydoor_agent: Any) -> type[RuleBasedStateMachine]:
    """Any calls in any order, beside a twin that lives for one episode only."""

    class Life(RuleBasedStateMachine):
        """The twin is new at each reset, is told the target, and sees nothing that is refused."""

        @initialize(horizon=st.sampled_from(HORIZONS), limit=st.sampled_from(LIMITS))
        def make(self, horizon: int, limit: int | None) -> None:
            self.new = functools.partial(keydoor_agent, horizon, limit, render_mode="ansi")
            self.environment, self.twin, self.last = self.new(seed=0), None, None

        def begin(self, **asked: Any) -> None:
            begun = self.environment.reset(**asked)
            self.twin, self.last, self.taken = self.new(), None, []
            assert begun == self.twin.reset(target=self.environment.target)

        @rule()
        def reset(self) -> None:
            self.begin()

        @rule(seed=st.integers(0, 9))
        def reset_with_a_seed(self, seed: int) -> None:
            self.begin(seed=seed)
            self.twin.reset(seed=seed)
            assert self.environment.target == self.twin.target

        @rule(color=st.sampled_from(COLORS), as_option=st.booleans())
        def reset_to_a_target(self, color: str, as_option: bool) -> None:
            asked = {"target": color}
            self.begin(**{"options": asked} if as_option else asked)
            assert self.environment.target == color

        @rule(refusal=refusals(REFUSED))
        def ask_the_impossible(self, refusal: Refusal) -> None:
            if self.running or refusal.args[0] == "reset":
                assert_refused(self.environment, refusal)

        @rule(code=st.integers(0, 9), form=st.sampled_from(FORMS), gamma=discounts())
        def step(self, code: int, form: Callable[[str], Any], gamma: float) -> None:
            if not self.running:
                with pytest.raises(ResetNeeded):
                    self.environment.step("finish", gamma)
                return
            action = named(code, self.taken, self.environment.target)
            answer = Answer(*self.environment.step(form(action), gamma))
            assert answer == self.twin.step(action, gamma)
            before = self.last.info["potential_after"] if self.last else 0.0
            assert answer.info["potential_before"] == before
            assert not (answer.terminated and answer.truncated)
            self.taken.append(action)
            self.last = answer

        @property
        def running(self) -> bool:
            return self.twin is not None and not (self.last and self.last.over)

        @invariant()
        def tells_the_same(self) -> None:
            if self.twin is not None:
                assert self.environment.render() == self.twin.render()

    return Life


def test_a_life_of_any_calls_is_one_new_environment_after_another(keydoor_agent):
    """Resets, steps and refused calls in any order leave each episode as in a new environment."""
    run_state_machine_as_test(life_of(keydoor_agent), settings=settings(stateful_step_count=30))


# Its registration


def test_the_environment_is_registered() -> None:
    environment = gym.make("rlcheck/KeyDoorAgent-v0", task_horizon=6, collector_limit=2)
    assert type(environment.unwrapped) is KeyDoorAgentEnv
    assert environment.reset(seed=1, options={"target": "blue"})[0] == START
    assert environment.step(np.int64(0))[:4] == (NOTES["blue"], 0.0, False, False)
    assert environment.step(np.int64(0))[:4] == (NOTHING, 0.0, False, True)


def test_a_vector_of_environments_steps_and_resets_them_by_itself() -> None:
    made = gym.make_vec(
        "rlcheck/KeyDoorAgent-v0", num_envs=3, wrappers=[ObservationIndex], task_horizon=2
    )
    names = np.array(OBSERVATIONS)
    observations, _ = made.reset(seed=3, options={"target": "red"})
    assert list(names[observations]) == [START] * 3
    observations, rewards, terminated, truncated, _ = made.step(np.array([0, 1, 5]))
    assert list(names[observations]) == [NOTES["red"], TAKEN, FINISHED]
    assert list(terminated) == [False, False, True]
    observations, rewards, terminated, truncated, _ = made.step(np.array([3, 3, 0]))
    assert list(names[observations]) == [TIME_IS_UP, TIME_IS_UP, START]
    assert list(terminated) == [True, True, False]
    assert not rewards.any()
    assert not truncated.any()
    made.close()
