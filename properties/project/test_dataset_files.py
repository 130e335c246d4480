"""Logs of the grid say what happened and who acted, and files give them back as they were."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("gymnasium")
pytest.importorskip("h5py")
pytest.importorskip("minari")
pytest.importorskip("pyarrow")

import minari
import pyarrow as pa
import pyarrow.parquet as pq
from minari.data_collector.episode_buffer import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from rlcheck.agents.dataset_files import read_minari, read_parquet, write_minari, write_parquet
from rlcheck.agents.datasets import PROFILES, GridEpisode, collect_offline_dataset
from rlcheck.agents.episode_columns import behavior_description, buffer_of, columns_of
from rlcheck.envs.keydoor_grid import GOAL, STARTS, STEP_LIMIT, TRAPS, KeyDoorGrid, grid_tables
from rlcheck.envs.keydoor_grid_solution import solve_grid

DATASET = "keydoor-grid/mixed-v0"


def log(profile="mixed", *, seed=7, episodes=9):
    return collect_offline_dataset(seed=seed, episodes=episodes, profile=profile)[0]


def cut(episode, steps):
    """The first steps alone: the last of them is neither terminated nor truncated."""
    return replace(episode, transitions=episode.transitions[:steps])


def stated_probabilities(randomness):
    """[S, 4] of a share of random actions, from optimal values and the definition."""
    q_values = solve_grid().q_values
    optimal = q_values > q_values.max(axis=1, keepdims=True) - 1e-9
    return (1 - randomness) * optimal / optimal.sum(axis=1, keepdims=True) + randomness / 4


# What is logged.


def test_a_seed_gives_one_log_and_leaves_other_generators_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002  the global one is meant
    first, second, other = log(), log(), log(seed=8)
    assert same_log(first, second)
    assert not same_log(first, other)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_the_transitions_are_those_of_the_episodes_in_a_row():
    episodes, transitions = collect_offline_dataset(seed=3, episodes=5, profile="mixed")
    assert [id(s) for e in episodes for s in e.transitions] == [id(s) for s in transitions]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_environment_does_what_the_log_says(profile):
    for episode in log(profile, episodes=6):
        env = KeyDoorGrid()
        start = grid_tables().states[episode.transitions[0].state]
        observation, _ = env.reset(start=start.cell)
        assert start.cell in STARTS
        for step in episode.transitions:
            assert np.array_equal(observation, step.observation)
            assert env.state == grid_tables().states[step.state]
            observation, reward, terminated, truncated, _ = env.step(step.action)
            logged = (step.reward, step.terminated, step.truncated)
            assert (reward, terminated, truncated) == logged
            assert np.array_equal(observation, step.next_observation)
            assert env.state == grid_tables().states[step.next_state]
        assert terminated or truncated


@pytest.mark.parametrize(("profile", "shares"), [*PROFILES.items()])
def test_the_policies_of_a_profile_take_turns(profile, shares):
    taken = [episode.randomness for episode in log(profile, episodes=7)]
    assert taken == [shares[n % len(shares)] for n in range(7)]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_logged_probability_is_that_of_who_acted(profile):
    for episode in log(profile):
        chances = stated_probabilities(episode.randomness)
        for step in episode.transitions:
            expected = math.log(chances[step.state, step.action])
            assert step.behavior_logprob == pytest.approx(expected, abs=1e-12)


def action_frequencies_p_value(episodes, chances):
    """Pearson's test of the actions in every state against probabilities [S, 4]."""
    counts = np.zeros_like(chances)
    for episode in episodes:
        for step in episode.transitions:
            counts[step.state, step.action] += 1
    expected = counts.sum(axis=1, keepdims=True) * chances
    often = (expected >= 5).all(axis=1)
    statistic = ((counts - expected)[often] ** 2 / expected[often]).sum()
    assert often.sum() >= 5
    return stats.chi2.sf(statistic, 3 * often.sum())


@pytest.mark.parametrize(("turn", "misstated"), [(0, 0.2), (1, 0.25), (2, 0.5)])
def test_actions_are_drawn_with_the_probabilities_that_are_stated(turn, misstated):
    share = PROFILES["mixed"][turn]
    episodes = log("mixed", episodes=900, seed=11)[turn::3]
    assert action_frequencies_p_value(episodes, stated_probabilities(share)) > 1e-3
    assert action_frequencies_p_value(episodes, stated_probabilities(misstated)) < 1e-6


def test_every_start_is_drawn():
    starts = [episode.transitions[0].state for episode in log("expert", episodes=200)]
    assert stats.chisquare(np.unique(starts, return_counts=True)[1]).pvalue > 1e-3
    assert set(starts) == set(grid_tables().start)


def test_an_episode_ends_in_the_goal_a_trap_or_at_the_limit():
    endings = set()
    for episode in log("mixed", episodes=60):
        *inner, last = episode.transitions
        assert not any(step.terminated or step.truncated for step in inner)
        cell = grid_tables().states[last.next_state].cell
        assert last.terminated == (cell in (GOAL, *TRAPS))
        assert last.truncated == (len(episode.transitions) == STEP_LIMIT and not last.terminated)
        assert episode.success == (cell == GOAL)
        assert episode.return_ == pytest.approx(
            -0.01 * len(episode.transitions) + (cell == GOAL) - (cell in TRAPS)
        )
        endings.add("goal" if cell == GOAL else "trap" if cell in TRAPS else "limit")
    assert endings == {"goal", "trap", "limit"}


def test_a_last_step_into_the_goal_or_a_trap_terminates_alone():
    ends = [
        e.transitions[-1] for e in log("random", episodes=400) if len(e.transitions) == STEP_LIMIT
    ]
    assert {(last.terminated, last.truncated) for last in ends} == {(True, False), (False, True)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"profile": "medium"}, "profile is 'medium'"),
        ({"episodes": 0}, "episodes is 0"),
        ({"episodes": 1.5}, "episodes is 1.5"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_collecting_refuses(arguments, says):
    with pytest.raises(ValueError, match=says):
        collect_offline_dataset(**({"seed": 0, "episodes": 1, "profile": "mixed"} | arguments))


# What files give back.


def same_log(first, second):
    """Whether every number, flag, type and boundary is the same."""
    shape = [(e.randomness, len(e.transitions)) for e in first]
    if shape != [(e.randomness, len(e.transitions)) for e in second]:
        return False
    pairs = zip(
        (step for e in first for step in e.transitions),
        (step for e in second for step in e.transitions),
        strict=True,
    )
    return all(same_value(a, b) for x, y in pairs for a, b in zip(x, y, strict=True))


def same_value(a, b):
    kind = type(a) is type(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None)
    return kind and bool(np.all(a == b))


def through_minari(episodes, folder):
    write_minari(episodes, DATASET, root=folder)
    return read_minari(DATASET, root=folder)


def through_parquet(episodes, folder):
    write_parquet(episodes, folder / "log.parquet")
    return read_parquet(folder / "log.parquet")


BOTH = pytest.mark.parametrize("through", [through_minari, through_parquet])


@BOTH
@pytest.mark.parametrize("profile", PROFILES)
def test_what_was_written_is_read(through, profile, tmp_path):
    episodes = log(profile)
    assert same_log(through(episodes, tmp_path), episodes)


@BOTH
def test_a_single_step_is_an_episode(through, tmp_path):
    episodes = [cut(log()[0], 1)]
    assert same_log(through(episodes, tmp_path), episodes)


@BOTH
def test_more_than_nine_episodes_stay_in_order(through, tmp_path):
    episodes = [cut(episode, 1 + n % 3) for n, episode in enumerate(log(episodes=23))]
    assert same_log(through(episodes, tmp_path), episodes)


@BOTH
def test_the_end_of_a_fragment_is_no_end_of_its_episode(through, tmp_path):
    # gwthomas/IQL-PyTorch#4, HumanCompatibleAI/imitation#335, takuseno/d3rlpy#18
    whole = log("random", episodes=3)
    episodes = [cut(whole[0], 2), cut(whole[1], 2), whole[2]]
    read = through(episodes, tmp_path)
    assert [len(e.transitions) for e in read] == [2, 2, len(whole[2].transitions)]
    assert [e.return_ for e in read] == [e.return_ for e in episodes]
    for episode in read[:2]:
        assert not episode.transitions[-1].terminated
        assert not episode.transitions[-1].truncated


@BOTH
def test_the_last_observation_is_what_the_episode_ended_in(through, tmp_path):
    ends = [e.transitions[-1] for e in through(log(episodes=12), tmp_path)]
    for last in ends:
        assert np.array_equal(last.next_observation, grid_tables().observation[last.next_state])
        assert last.terminated == grid_tables().terminal[last.next_state]
    assert {last.terminated for last in ends} == {True, False}


def test_minari_loads_the_dataset_and_its_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = log()
    assert write_minari(episodes, DATASET) == tmp_path / DATASET
    dataset = minari.load_dataset(DATASET)
    assert dataset.total_episodes == len(episodes)
    assert dataset.total_steps == sum(len(e.transitions) for e in episodes)
    for stored, episode in zip(dataset.iterate_episodes(), episodes, strict=True):
        assert len(stored.observations) == len(stored.rewards) + 1
        env = dataset.recover_environment().unwrapped
        start = grid_tables().states[stored.infos["state"][0]].cell
        observations = [env.reset(start=start)[0]]
        for t, action in enumerate(stored.actions):
            observation, reward, terminated, truncated, _ = env.step(action)
            observations.append(observation)
            assert reward == stored.rewards[t]
            assert (terminated, truncated) == (stored.terminations[t], stored.truncations[t])
        assert np.array_equal(observations, stored.observations)
        assert math.isnan(stored.infos["behavior_logprob"][0])
        assert stored.infos["behavior_logprob"][1:].tolist() == [
            step.behavior_logprob for step in episode.transitions
        ]


def test_a_root_of_its_own_leaves_minaris_folder_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MINARI_DATASETS_PATH", raising=False)
    through_minari(log(), tmp_path / "root")
    assert not (tmp_path / "home").exists()


def test_a_table_has_a_row_for_each_step(tmp_path):
    episodes = log()
    write_parquet(episodes, tmp_path / "log.parquet")
    frame = pq.read_table(tmp_path / "log.parquet").to_pandas()
    assert len(frame) == sum(len(e.transitions) for e in episodes)
    returns = frame.groupby("episode")["reward"].sum()
    assert returns.tolist() == pytest.approx([e.return_ for e in episodes])


def test_rows_may_stand_in_any_order(tmp_path):
    episodes = log()
    write_parquet(episodes, tmp_path / "log.parquet")
    table = pq.read_table(tmp_path / "log.parquet")
    shuffled = np.random.default_rng(0).permutation(table.num_rows)
    pq.write_table(table.take(shuffled), tmp_path / "shuffled.parquet")
    assert same_log(read_parquet(tmp_path / "shuffled.parquet"), episodes)


def description_in_minari(folder):
    path = write_minari(log(), DATASET, root=folder)
    return json.loads((path / "data" / "metadata.json").read_text(encoding="utf-8"))["behavior"]


def description_in_parquet(folder):
    write_parquet(log(), folder / "log.parquet")
    return json.loads(pq.read_schema(folder / "log.parquet").metadata[b"behavior"])


@pytest.mark.parametrize("description", [description_in_minari, description_in_parquet])
def test_a_file_describes_who_acted(description, tmp_path):
    described = description(tmp_path)
    assert described == behavior_description(log())
    assert described["episodes"] == [
        {"randomness": share, "count": 3} for share in PROFILES["mixed"]
    ]
    formula = described["policy"].split(",")[0]
    tables, episode = grid_tables(), log()[1]
    for step in episode.transitions:
        names = {"optimal": solve_grid().policy[step.state], "randomness": episode.randomness}
        chances = eval(formula, {"__builtins__": {}}, names)
        assert math.log(chances[step.action]) == pytest.approx(step.behavior_logprob, abs=1e-12)
        assert described["layout"][tables.states[step.state].row] != "#"


# What is refused.


def broken(episodes, index, step, **changes):
    """The episodes, with other values in one step."""
    steps = list(episodes[index].transitions)
    steps[step] = steps[step]._replace(**changes)
    changed = replace(episodes[index], transitions=tuple(steps))
    return [*episodes[:index], changed, *episodes[index + 1 :]]


WRONG_LOGS = {
    "episodes is empty": [],
    r"episodes\[2\] is empty": [*log()[:2], GridEpisode((), 1.0)],
    r"episodes\[1\], step 3: next_state is 5, and not the state": broken(
        log(), 1, 3, next_state=5, next_observation=grid_tables().observation[5]
    ),
    r"episodes\[1\] next_observation\[3, \d+\] is 0.0; it must be that of next_state": broken(
        log(), 1, 3, next_observation=np.zeros(15, np.float32)
    ),
    r"episodes\[0\], step 4: terminated is true": broken(log(), 0, 4, terminated=True),
    r"episodes\[8\], step 5: truncated is true": broken(log(), 8, 5, truncated=True),
    r"episodes\[0\] observation has shape \(1, 3\)": broken(
        [cut(log()[0], 1)], 0, 0, observation=np.zeros(3), next_observation=np.zeros(3)
    ),
    r"episodes\[1\] randomness is 7": [log()[0], replace(log()[1], randomness=7)],
    r"episodes\[1\] randomness is nan": [log()[0], replace(log()[1], randomness=math.nan)],
}


@BOTH
@pytest.mark.parametrize(("says", "episodes"), [*WRONG_LOGS.items()])
def test_a_wrong_log_is_refused_before_anything_is_written(through, says, episodes, tmp_path):
    with pytest.raises(ValueError, match=says):
        through(episodes, tmp_path)
    assert not list(tmp_path.iterdir())


# Fields of a step, values that they cannot have, and what is said of them.
WRONG_VALUES = [
    ("reward", math.nan, "reward[2] is nan"),
    ("reward", math.inf, "reward[2] is inf"),
    ("action", 9, "action[2] is 9"),
    ("action", -1, "action[2] is -1"),
    ("action", 1.7, "action[2] is 1.7"),
    ("behavior_logprob", 3.0, "behavior_logprob[2] is 3.0"),
    ("behavior_logprob", math.nan, "behavior_logprob[2] is nan"),
    ("state", 500, "state[2] is 500"),
    ("state", -1, "state[2] is -1"),
    ("next_state", 84, "next_state[2] is 84"),
    ("terminated", 2, "terminated[2] is 2"),
    ("truncated", math.nan, "truncated[2] is nan"),
    ("observation", np.full(15, np.nan, np.float32), "observation[2, 0] is nan"),
    ("next_observation", np.full(15, 0.5, np.float32), "next_observation[2, 0] is 0.5"),
]


@BOTH
@pytest.mark.parametrize(("field", "value", "says"), WRONG_VALUES)
def test_an_impossible_value_is_not_written(through, field, value, says, tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"episodes[1] {says}; it must be")):
        through(broken(log(), 1, 2, **{field: value}), tmp_path)
    assert not list(tmp_path.iterdir())


@BOTH
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": 5}, "episodes[0] observation[0, 0] is 0.0; it must be that of state"),
        ({"terminated": True, "truncated": True}, "episodes[0] truncated[0] is True"),
    ],
)
def test_what_contradicts_itself_is_not_written(through, changes, says, tmp_path):
    last = grid_tables().start[3]
    start = next(e for e in log(episodes=30) if e.transitions[0].state == last)
    with pytest.raises(ValueError, match=re.escape(says)):
        through(broken([cut(start, 1)], 0, 0, **changes), tmp_path)
    assert not list(tmp_path.iterdir())


@BOTH
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reward": "a"}, "episodes[0] reward[0] is 'a'"),
        ({"behavior_logprob": None}, "episodes[0] behavior_logprob[0] is None"),
    ],
)
def test_what_is_no_number_is_not_written(through, changes, says, tmp_path):
    with pytest.raises(TypeError, match=re.escape(says)):
        through(broken(log(), 0, 0, **changes), tmp_path)
    assert not list(tmp_path.iterdir())


@BOTH
def test_transitions_are_no_episodes(through, tmp_path):
    with pytest.raises(TypeError, match=r"episodes\[0\] is a GridTransition"):
        through(list(log()[0].transitions), tmp_path)


@pytest.mark.parametrize("name", ["mixed", "a b-v0", "", "/mixed-v0", "mixed-v"])
def test_a_name_that_minari_does_not_know_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="dataset_id is"):
        write_minari(log(), name, root=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_dataset_is_not_overwritten(tmp_path):
    first = log()
    through_minari(first, tmp_path)
    with pytest.raises(ValueError, match="already"):
        write_minari(log(seed=8), DATASET, root=tmp_path)
    assert same_log(read_minari(DATASET, root=tmp_path), first)


def test_a_dataset_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="doesn't exist"):
        read_minari(DATASET, root=tmp_path)


WRONG_TABLES = {
    "column behavior_logprob is missing": lambda t: t.drop_columns(["behavior_logprob"]),
    "episode 0 has the steps": lambda t: t.slice(1),
    "the table has no rows": lambda t: t.slice(0, 0),
    "layout of the log is None": lambda t: t.replace_schema_metadata({}),
    r"layout of the log is \['\.'\]": lambda t: t.replace_schema_metadata(
        {"behavior": json.dumps({"layout": ["."]})}
    ),
    "column reward has nulls": lambda t: with_column(t, "reward", [None] * t.num_rows),
    "episode 0 has the randomness": lambda t: with_column(t, "randomness", range(t.num_rows)),
    r"episode 0 observation\[0, \d+\] is": lambda t: with_column(t, "state", [1] * t.num_rows),
    r"episode 0 reward\[2\] is nan": lambda t: with_entry(t, "reward", math.nan),
    r"episode 0 action\[2\] is 9": lambda t: with_entry(t, "action", 9),
    r"episode 0 action\[2\] is 1.7": lambda t: with_entry(t, "action", 1.7, kind=pa.float64()),
    r"episode 0 behavior_logprob\[2\] is 3.0": lambda t: with_entry(t, "behavior_logprob", 3.0),
    r"episode 0 next_state\[2\] is 500": lambda t: with_entry(t, "next_state", 500),
    r"episode 0 randomness is 7.0": lambda t: with_column(t, "randomness", [7.0] * t.num_rows),
}


def with_entry(table, name, value, *, kind=None):
    values = table.column(name).to_pylist()
    return with_column(table, name, [*values[:2], value, *values[3:]], kind=kind)


def with_column(table, name, values, *, kind=None):
    kind = kind or table.schema.field(name).type
    return table.set_column(table.column_names.index(name), name, pa.array(list(values), type=kind))


@pytest.mark.parametrize(("says", "change"), [*WRONG_TABLES.items()])
def test_a_wrong_table_is_refused(says, change, tmp_path):
    write_parquet(log(), tmp_path / "log.parquet")
    wrong = change(pq.read_table(tmp_path / "log.parquet"))
    pq.write_table(wrong, tmp_path / "wrong.parquet")
    with pytest.raises(ValueError, match=says):
        read_parquet(tmp_path / "wrong.parquet")


def store_by_hand(folder: Path, change, *, randomness=0.1, described=True):
    """A Minari dataset of one episode, changed on the way."""
    buffer = buffer_of(columns_of("episode", log()[0]))
    change(buffer)
    (folder / "hand-v0" / "data").mkdir(parents=True)
    grid = KeyDoorGrid()
    storage = MinariStorage.new(
        folder / "hand-v0" / "data",
        observation_space=grid.observation_space,
        action_space=grid.action_space,
    )
    behavior = {"behavior": behavior_description(log())} if described else {}
    storage.update_metadata({"dataset_id": "hand-v0", "minari_version": "0.5.4"} | behavior)
    storage.update_episodes([EpisodeBuffer(**buffer)])
    if randomness is not None:
        storage.update_episode_metadata([{"randomness": randomness}])


def without_last_observation(buffer):
    buffer["observations"] = buffer["observations"][:-1]


def with_infos_of_the_steps_alone(buffer):
    buffer["infos"]["behavior_logprob"] = buffer["infos"]["behavior_logprob"][1:]


def with_an_action(action):
    def change(buffer):
        buffer["actions"][2] = action

    return change


def with_a_certain_action(buffer):
    buffer["infos"]["behavior_logprob"][3] = 0.5


def with_both_flags(buffer):
    buffer["terminations"][-1] = buffer["truncations"][-1] = True


WRONG_DATASETS = {
    r"episode 0 action\[2\] is 9": (with_an_action(9), {}),
    r"episode 0 behavior_logprob\[2\] is 0.5": (with_a_certain_action, {}),
    r"episode 0 truncated\[\d+\] is True": (with_both_flags, {}),
    "episode 0 randomness is 7": (lambda b: None, {"randomness": 7}),
    "observations for": (without_last_observation, {}),
    "behavior_logprob for": (with_infos_of_the_steps_alone, {}),
    r"episode 0 has no infos\['state'\]": (lambda b: b["infos"].pop("state"), {}),
    r"has no infos\['state'\]; it has \[\]": (lambda b: b.update(infos=None), {}),
    "episode 0 has no randomness": (lambda b: None, {"randomness": None}),
    "layout of the log is None": (lambda b: None, {"described": False}),
}


@pytest.mark.parametrize(("says", "change"), [*WRONG_DATASETS.items()])
def test_a_wrong_dataset_is_refused(says, change, tmp_path):
    alter, options = change
    store_by_hand(tmp_path, alter, **options)
    with pytest.raises(ValueError, match=says):
        read_minari("hand-v0", root=tmp_path)


def test_a_dataset_by_hand_is_read_where_nothing_is_wrong(tmp_path):
    store_by_hand(tmp_path, lambda buffer: None)
    assert same_log(read_minari("hand-v0", root=tmp_path), log()[:1])
