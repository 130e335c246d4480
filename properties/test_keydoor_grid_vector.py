"""Laws of `rlcheck.envs.keydoor_grid_vector`; the first parameter is the class that is judged.

Its grids are held against as many single ones, which the laws of `keydoor_grid` judge.
"""

import functools
import itertools
import random
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.envs import KeyDoorGrid, KeyDoorGridVector
from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.grading.laws import law

from .environments import Answer, seeds
from .grid_map import START_PLACES, STARTS, Cell, Place, shortest_way
from .refusals import refusals, refuse
from .strategies import digits, evenly
from .test_keydoor_grid import assert_method_refuses, assert_refused, naming

NAN = float("nan")
LIMITS = (60, 1, 2, 3, 9, 13)
CODES = 8  # of an action: 0 to 3, or a step towards key, door, goal or trap
GOALS = "KDGT"
MOST = 4  # grids
STATES = grid_tables().states

# Methods of three grids, and arguments that they refuse.
REFUSED = (
    *(
        refuse("step", value, says="actions")
        for value in ([0, 1], 0, [[0], [1], [2]], [0.0, 1.0, 2.0], [0, 1, NAN], ["up"] * 3, None)
    ),
    refuse("step", [True, False, True], says="actions"),
    refuse("step", [0, 4, 1], says=naming("actions", 4)),
    refuse("step", [0, 1, -1], says=naming("actions", -1)),
    *(
        refuse("reset", options={"start": value}, says=naming("start", wrong))
        for value, wrong in (
            ((0, 0), (0, 0)),
            ([(6, 0), (6, 0), (6, 1)], (6, 1)),
            ([(6, 0), (2, 2)], None),
            (3, None),
            ([0, 1, 2], None),
            ((6.5, 0), 6.5),
            ((NAN, 0), NAN),
            ("60", 60),
        )
    ),
    refuse("reset", seed=3, options={"start": (1, 1)}, says=naming("start", 1)),
    refuse("reset", options={"cell": (6, 0)}, says="option cell"),
)

IMPOSSIBLE = tuple(
    refuse(**{"num_envs": 2} | {name: value}, says=naming(name, value))
    for name in ("num_envs", "step_limit")
    for value in (0, -1, 1.5, True, NAN, "4", None)
)


@dataclass(frozen=True)
class Plays:
    """What is asked of N grids: starts, and codes of actions [T, N]."""

    starts: tuple[Cell, ...]
    codes: tuple[tuple[int, ...], ...]
    step_limit: int = 60

    @property
    def number(self) -> int:
        return len(self.starts)


def played(code: int, codes: list[int]) -> Plays:
    """The plays that numbers stand for."""
    number, kind, *places = digits(code, MOST, len(LIMITS), *[len(STARTS)] * MOST)
    chosen = tuple(STARTS[place] for place in places[: number + 1])
    rows = tuple(tuple(digits(drawn, *[CODES] * len(chosen))) for drawn in codes)
    return Plays(chosen, rows, LIMITS[kind])


def plays() -> st.SearchStrategy[Plays]:
    """Up to four grids over up to forty steps; many pass the door, many end and begin again."""
    settled = evenly(MOST * len(LIMITS) * len(STARTS) ** MOST)
    codes = st.lists(evenly(CODES**MOST), min_size=1, max_size=40)
    return st.tuples(settled, codes).map(lambda drawn: played(*drawn))


def towards(symbol: str, number: int = 2, steps: int = 20, **more: Any) -> Plays:
    """Grids that all go to a tile."""
    row = (4 + GOALS.index(symbol),) * number
    return Plays(tuple(STARTS[:number]), (row,) * steps, **more)


def place_of(number: int) -> Place:
    """A state of the tables as a place on the map."""
    state = STATES[number]
    (position,) = (i for i in range(10, 80) if Place(i).cell == state.cell)
    return Place(position, state.has_key)


@functools.cache
def action_of(code: int, number: int) -> int:
    """The action of a code in a state: below four itself, else a step towards a tile."""
    way = (code,) if code < 4 else shortest_way(place_of(number), GOALS[code - 4])
    return way[0] if way else code % 4


def actions_of(row: tuple[int, ...], environment: Any) -> np.ndarray[Any, Any]:
    """[N] actions in the states where the grids are."""
    return np.array([action_of(c, s) for c, s in zip(row, environment.states, strict=True)])


def cells(environment: Any) -> list[Cell]:
    """Where the grids are."""
    return [STATES[number].cell for number in environment.states]


def begun(keydoor_grid_vector: Any, asked: Plays, **more: Any) -> Any:
    """Grids at their starts."""
    environment = keydoor_grid_vector(asked.number, step_limit=asked.step_limit)
    environment.reset(options={"start": asked.starts}, **more)
    return environment


def drawn_starts(environment: Any, resets: int = 16, **first_reset: Any) -> list[Cell]:
    """The starts of episodes in a row, grid by grid; only the first reset is told more."""
    starts = []
    for index in range(resets):
        environment.reset(**first_reset if index == 0 else {})
        starts.extend(cells(environment))
    return starts


@pytest.fixture(scope="session", name="keydoor_grid_vector")
def judged() -> type[KeyDoorGridVector]:
    """The class that the laws judge."""
    return KeyDoorGridVector


# Beside single grids


@law(asked=plays(), seed=seeds())
@example(asked=towards("G"), seed=0)
@example(asked=towards("T", number=4, steps=30), seed=1)
@example(asked=towards("G", number=4, step_limit=13), seed=2)
@example(asked=towards("T", number=1, steps=2, step_limit=2), seed=3)  # an end on the limit
def test_grids_step_as_single_ones_do(keydoor_grid_vector, asked, seed):
    """Each of N grids answers as one of its own, which is reset where an episode has ended."""
    environment = begun(keydoor_grid_vector, asked, seed=seed)
    singles = [KeyDoorGrid(step_limit=asked.step_limit) for _ in asked.starts]
    for single, start in zip(singles, asked.starts, strict=True):
        single.reset(start=start)
    for row in asked.codes:
        actions = actions_of(row, environment)
        shown, rewards, terminated, truncated, info = environment.step(actions)
        for i, (single, action) in enumerate(zip(singles, actions, strict=True)):
            answer = Answer(*single.step(action))
            assert (rewards[i], terminated[i], truncated[i]) == answer[1:4]
            assert info["final_obs"][i].tolist() == answer.observation.tolist()
            assert info["success"][i] == answer.info["success"]
            assert info["stop_reason"][i] == answer.info["stop_reason"]
            after = answer.observation
            if answer.over:
                after, _ = single.reset(start=cells(environment)[i])
            assert shown[i].tolist() == after.tolist()
            assert STATES[environment.states[i]] == single.state


@law(asked=plays(), seed=seeds())
@example(asked=towards("G", number=1), seed=0)
@example(asked=towards("K", number=3, steps=4, step_limit=4), seed=0)
def test_answers_are_those_of_gymnasiums_own_vector(keydoor_grid_vector, asked, seed):
    """Up to the first end SyncVectorEnv, resetting in the same step, answers alike, info and all.

    Of info, what a mask of Gymnasium's holds for; the states are left out.
    """
    environment = begun(keydoor_grid_vector, asked, seed=seed)
    makers = [functools.partial(KeyDoorGrid, step_limit=asked.step_limit)] * asked.number
    beside = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    beside.reset()
    for env, start in zip(beside.envs, asked.starts, strict=True):
        env.reset(start=start)
    for row in asked.codes:
        actions = actions_of(row, environment)
        one, other = environment.step(actions), beside.step(actions)
        over = other[2] | other[3]
        assert one[0][~over].tolist() == other[0][~over].tolist()
        for ours, theirs in zip(one[1:4], other[1:4], strict=True):
            assert (ours.dtype, ours.tolist()) == (theirs.dtype, theirs.tolist())
        assert_informs_alike(one[4], other[4])
        assert one[4]["_final_obs"].tolist() == over.tolist()
        if over.any():
            assert_informs_alike(one[4]["final_info"], other[4]["final_info"])
            break


def assert_informs_alike(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Every value under a mask of Gymnasium's is there, with a mask that holds where it does."""
    for name in {"final_obs", "success", "stop_reason", "final_info"} & theirs.keys():
        mask = theirs[f"_{name}"]
        assert ours[f"_{name}"].dtype == np.bool_
        assert ours[f"_{name}"][mask].all()
        if name != "final_info":
            values, expected = ours[name][mask], theirs[name][mask]
            assert all(np.array_equal(a, b) for a, b in zip(values, expected, strict=True))


@law(asked=plays(), seed=seeds())
@example(asked=towards("T", number=3), seed=0)
def test_an_end_begins_the_next_episode_in_the_same_step(keydoor_grid_vector, asked, seed):
    """After an end stands a start without the key, and a whole limit of steps is ahead."""
    environment = begun(keydoor_grid_vector, asked, seed=seed)
    steps = np.zeros(asked.number, int)
    for row in asked.codes:
        shown, _, terminated, truncated, info = environment.step(actions_of(row, environment))
        over, steps = terminated | truncated, steps + 1
        assert not (terminated & truncated).any()
        assert (info["_final_obs"] == over).all()
        for inner in ("success", "stop_reason"):  # which Gymnasium leaves out where nothing ends
            assert (info.get("final_info", {}).get(f"_{inner}", over) == over).all()
        assert (truncated == ((steps == asked.step_limit) & ~terminated)).all()
        steps[over] = 0
        for i in np.flatnonzero(over):
            assert cells(environment)[i] in STARTS
            assert shown[i][-1] == 0
        assert (shown == grid_tables().observation[environment.states]).all()


# Seeds and starts


@law(asked=plays(), seed=seeds())
@example(asked=towards("T", number=4), seed=0)
def test_one_seed_and_the_same_actions_give_the_same_episodes(keydoor_grid_vector, asked, seed):
    """Two vectors with one seed answer alike, resets on the way included."""
    lives = [
        keydoor_grid_vector(asked.number, seed=seed, step_limit=asked.step_limit),
        keydoor_grid_vector(asked.number, step_limit=asked.step_limit),
    ]
    one, other = lives[0].reset()[0], lives[1].reset(seed=seed)[0]
    assert one.tolist() == other.tolist()
    for row in asked.codes:
        one, other = (life.step(actions_of(row, life)) for life in lives)
        assert all((a == b).all() for a, b in zip(one[:4], other[:4], strict=True))
    assert drawn_starts(lives[0]) == drawn_starts(lives[1])


@law(seed=seeds(), made_with=seeds())
def test_a_seeded_reset_leaves_nothing_of_the_seeds_before_it(keydoor_grid_vector, seed, made_with):
    """After a reset with a seed all starts are that seed's, whatever was drawn or due before.

    The same holds where the reset also asks for a start.
    """
    environment = keydoor_grid_vector(5, seed=made_with)
    told = {"seed": seed, "options": {"start": STARTS[seed % len(STARTS)]}}
    drawn = drawn_starts(environment, **told)
    assert drawn == drawn_starts(environment, **told)
    assert drawn == drawn_starts(keydoor_grid_vector(5), **told)
    drawn = drawn_starts(environment, seed=seed)
    assert drawn == drawn_starts(environment, seed=seed)
    assert drawn == drawn_starts(keydoor_grid_vector(5), seed=seed)
    assert drawn != drawn_starts(keydoor_grid_vector(5), seed=seed + 1)
    assert drawn != drawn_starts(environment)


@law(seed=seeds())
def test_starts_are_drawn_evenly_at_resets_and_after_ends(keydoor_grid_vector, seed):
    """Of 256 grids each start has about 64, at the reset and after an end, and they differ.

    The allowed range is six standard deviations wide, on each side.
    """
    environment = keydoor_grid_vector(256, seed=seed, step_limit=1)
    first, _ = environment.reset()
    second = environment.step(np.zeros(256, int))[0]
    third = environment.step(np.zeros(256, int))[0]
    places = [grid_tables().observation[n] for n in grid_tables().start]
    for shown in (first, second, third):
        counts = [(shown == place).all(axis=1).sum() for place in places]
        assert sum(counts) == 256
        assert all(22 <= count <= 106 for count in counts)
    assert not any((a == b).all() for a, b in itertools.combinations((first, second, third), 2))


@law(asked=plays(), seed=seeds())
@example(asked=Plays(STARTS[:2], ((0, 0),)), seed=0)
def test_starts_are_had_by_asking_for_them(keydoor_grid_vector, asked, seed):
    """Options ask for one start for all grids, or for one each, and stay as they were."""
    environment = begun(keydoor_grid_vector, asked, seed=seed)
    assert cells(environment) == list(asked.starts)
    options = {"start": asked.starts[0]}
    shown, info = environment.reset(options=options)
    assert options == {"start": asked.starts[0]}
    assert cells(environment) == [asked.starts[0]] * asked.number
    assert (shown.shape, shown.dtype, info) == ((asked.number, 15), np.dtype(np.float32), {})
    assert (shown == grid_tables().observation[environment.states]).all()


@law(seed=seeds())
def test_global_generators_are_left_alone(keydoor_grid_vector, seed):
    """Neither a reset nor a step reads or seeds what NumPy and Python share with all others."""
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002  the global one
    environment = keydoor_grid_vector(3, seed=seed, step_limit=1)
    for told in ({}, {"seed": seed + 1}):
        environment.reset(**told)
        environment.step([0, 1, 2])
    assert (random.getstate(), repr(np.random.get_state())) == before  # noqa: NPY002


# Calls out of place, copies, spaces


@law(asked=plays(), other=plays(), seed=seeds())
@example(asked=towards("G"), other=towards("K", number=2, step_limit=3), seed=0)
def test_vectors_that_step_in_turns_know_nothing_of_each_other(
    keydoor_grid_vector, asked, other, seed
):
    """Two vectors whose steps alternate answer as each of them does alone."""
    both = asked, other
    alone = []
    for each in both:
        life = begun(keydoor_grid_vector, each, seed=seed)
        acted = [(actions := actions_of(row, life), life.step(actions)[:4]) for row in each.codes]
        alone.append(acted)
    lives = [begun(keydoor_grid_vector, each, seed=seed) for each in both]
    for t in range(max(map(len, alone))):
        for life, acted in zip(lives, alone, strict=True):
            if t < len(acted):
                actions, expected = acted[t]
                got = life.step(actions)
                assert all((a == b).all() for a, b in zip(got[:4], expected, strict=True))


@law(limit=st.sampled_from((None, 59, 61, 130, 300)), number=st.sampled_from((1, 3)))
@example(limit=None, number=2)
@example(limit=130, number=2)
def test_the_limit_is_60_steps_or_as_many_as_are_told(keydoor_grid_vector, limit, number):
    """Grids that walk against a wall are cut by the 60th step, or by that of the limit."""
    told = {} if limit is None else {"step_limit": limit}
    environment = keydoor_grid_vector(number, **told)
    environment.reset(options={"start": (6, 0)})
    for step in range(1, (limit or 60) + 1):
        _, _, terminated, truncated, _ = environment.step(np.full(number, 3))  # left
        assert not terminated.any()
        assert (truncated == (step == (limit or 60))).all()


@law(number=st.sampled_from((65, 130, 300, 1025)), seed=seeds())
@example(number=300, seed=0)
def test_many_grids_step_as_the_tables_say(keydoor_grid_vector, number, seed):
    """However many grids there are, each goes where the rules lead it, and is paid for that.

    The states are new ones after each step: what was kept of them stays as it was.
    """
    tables, rng = grid_tables(), np.random.default_rng(seed)
    environment = keydoor_grid_vector(number, seed=seed, step_limit=9)
    environment.reset()
    for _ in range(12):
        actions, kept = rng.integers(4, size=number), environment.states
        before = kept.copy()
        _, rewards, terminated, truncated, info = environment.step(actions)
        assert (kept == before).all()
        reached = tables.next_state[before, actions]
        assert (info["final_obs"] == tables.observation[reached]).all()
        assert (rewards == tables.reward[before, actions]).all()
        assert (terminated == tables.terminal[reached]).all()
        going = ~(terminated | truncated)
        assert (environment.states[going] == reached[going]).all()


@law(asked=plays(), history=plays(), seed=seeds())
@example(asked=towards("G", number=3), history=towards("K", number=3, steps=5), seed=0)
def test_a_reset_begins_anew_at_any_moment(keydoor_grid_vector, asked, history, seed):
    """Nothing of the episodes before a reset shows after it: no key, no steps."""
    used, new = (keydoor_grid_vector(asked.number, step_limit=asked.step_limit) for _ in range(2))
    used.reset()
    for row in history.codes:
        used.step([row[i % len(row)] % 4 for i in range(asked.number)])
    for environment in (used, new):
        environment.reset(seed=seed, options={"start": asked.starts})
    for row in asked.codes:
        one, other = (each.step(actions_of(row, each)) for each in (used, new))
        assert all((a == b).all() for a, b in zip(one[:4], other[:4], strict=True))


@law(seed=seeds(), codes=st.lists(evenly(CODES**3), max_size=5))
def test_what_is_refused_is_named_and_changes_nothing(keydoor_grid_vector, seed, codes):
    """Actions and starts that are none are refused, name and value told, and that is all."""
    plain, disturbed = (keydoor_grid_vector(3, seed=seed) for _ in range(2))
    with pytest.raises(ResetNeeded):
        disturbed.step([0, 0, 0])
    for environment in (plain, disturbed):
        environment.reset()
    for code in codes:
        row = tuple(digits(code, *[CODES] * 3))
        for environment in (plain, disturbed):
            environment.step(actions_of(row, environment))
    for refusal in REFUSED:
        assert_method_refuses(disturbed, refusal)
        assert (plain.states == disturbed.states).all()
    assert drawn_starts(plain) == drawn_starts(disturbed)


@law(refusal=refusals(IMPOSSIBLE))
def test_a_vector_that_cannot_be_is_refused_by_name(keydoor_grid_vector, refusal):
    """Numbers of grids and of steps are integers ≥ 1 and no booleans; else the error names them."""
    assert_refused(keydoor_grid_vector, refusal)


@law(asked=plays(), seed=seeds())
@example(asked=towards("T", number=3), seed=0)
def test_changed_answers_change_nothing(keydoor_grid_vector, asked, seed):
    """What is returned is the caller's own, and so is what was given."""
    plain, spoiled = (begun(keydoor_grid_vector, asked, seed=seed) for _ in range(2))
    spoiled.reset(seed=seed, options={"start": asked.starts})[0][:] = 7
    for row in asked.codes:
        actions = actions_of(row, plain)
        one, other = plain.step(actions), spoiled.step(given := actions.copy())
        assert (given == actions).all()
        for ours, theirs in zip(one[:4], other[:4], strict=True):
            assert (ours == theirs).all()
            theirs[:] = 1
        for name in ("final_obs", "_final_obs", "success"):
            assert (one[4][name] == other[4][name]).all()
            other[4][name][:] = 1


@law(asked=plays())
def test_spaces_are_gymnasiums_of_as_many_grids(keydoor_grid_vector, asked):
    """Spaces are those that Gymnasium makes of N grids, and what is shown lies in them."""
    environment = begun(keydoor_grid_vector, asked)
    beside = SyncVectorEnv([KeyDoorGrid] * asked.number)
    for name in ("observation_space", "action_space"):
        for whole in (name, f"single_{name}"):
            assert getattr(environment, whole) == getattr(beside, whole)
    environment.action_space.seed(0)
    shown, rewards, terminated, truncated, _ = environment.step(environment.action_space.sample())
    assert environment.observation_space.contains(shown)
    assert environment.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    kinds = [np.dtype(kind) for kind in (np.float64, np.bool_, np.bool_)]
    assert [each.dtype for each in (rewards, terminated, truncated)] == kinds


# Gymnasium's ways of making and wrapping it


def test_thousands_of_grids_step_as_the_tables_say() -> None:
    number, tables = 4096, grid_tables()
    environment = KeyDoorGridVector(number, seed=5)
    environment.reset()
    rng, episodes = np.random.default_rng(0), 0
    for _ in range(100):
        actions, before = rng.integers(4, size=number), environment.states
        _, rewards, terminated, truncated, info = environment.step(actions)
        reached = tables.next_state[before, actions]
        assert (info["final_obs"] == tables.observation[reached]).all()
        assert (rewards == tables.reward[before, actions]).all()
        going = ~(terminated | truncated)
        assert (environment.states[going] == reached[going]).all()
        episodes += number - going.sum()
    assert episodes > number


def test_gymnasium_makes_the_vector_by_itself() -> None:
    made = gym.make_vec("rlcheck/KeyDoorGrid-v0", num_envs=3, step_limit=2)
    assert isinstance(made, KeyDoorGridVector)
    assert (made.num_envs, made.step_limit) == (3, 2)
    shown, _ = made.reset(seed=1, options={"start": (6, 0)})
    assert shown.tolist() == [grid_tables().observation[grid_tables().start[3]].tolist()] * 3
    made.close()


def test_gymnasiums_wrappers_count_its_episodes() -> None:
    inner = gym.make_vec("rlcheck/KeyDoorGrid-v0", num_envs=2)
    made = gym.wrappers.vector.RecordEpisodeStatistics(inner)
    made.reset(seed=1, options={"start": (2, 2)})
    way = shortest_way(START_PLACES[0], "G")
    for action in way:
        *_, info = made.step(np.array([action, 3 if action == 0 else 0]))
    assert info["_episode"][0]
    assert info["episode"]["r"][0] == pytest.approx(1 - 0.01 * len(way))
    assert info["episode"]["l"][0] == len(way)


def test_a_list_of_infos_can_be_had() -> None:
    made = gym.wrappers.vector.DictInfoToList(KeyDoorGridVector(2, step_limit=2))
    made.reset(seed=1, options={"start": [(6, 0), (4, 0)]})
    *_, infos = made.step(np.array([3, 3]))
    assert [set(info) for info in infos] == [{"success", "stop_reason"}] * 2
    *_, infos = made.step(np.array([3, 3]))
    assert [info["stop_reason"] for info in infos] == ["timeout"] * 2
    assert [info["final_info"]["stop_reason"] for info in infos] == ["timeout"] * 2
