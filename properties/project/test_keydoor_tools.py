"""The text tools play the task of KeyDoorAgentEnv, and nothing else."""

import inspect
import itertools
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gymnasium")

from gymnasium.error import ResetNeeded

from rlcheck.envs.keydoor_agent import (
    ACTIONS,
    COLORS,
    NOTHING,
    START,
    TIME_IS_UP,
    KeyDoorAgentEnv,
)
from rlcheck.envs.keydoor_tools import (
    OVER,
    PROMPT,
    REWARD_MODES,
    SYSTEM_PROMPT,
    Call,
    KeyDoorTools,
    prompts,
)

TOOLS = ("finish", "inspect", "open_door", "pickup")
CALLS: dict[str, Callable[[KeyDoorTools], str]] = {
    "inspect": lambda tools: tools.inspect(),
    "pickup_red": lambda tools: tools.pickup("red"),
    "pickup_blue": lambda tools: tools.pickup(color="blue"),
    "open_red": lambda tools: tools.open_door("red"),
    "open_blue": lambda tools: tools.open_door(color="blue"),
    "finish": lambda tools: tools.finish(),
}
SUCCESS = ("inspect", "pickup_red", "open_red", "finish")  # for a red target
UNKNOWN = ("green", "", "Red", None, 1, ["red"], {"color": "red"})

actions = st.lists(st.sampled_from(ACTIONS), max_size=10)
targets = st.sampled_from(COLORS)
horizons = st.integers(1, 9)
limits = st.none() | st.integers(1, 9)


def play(tools: KeyDoorTools, names: tuple[str, ...] | list[str]) -> list[str]:
    return [CALLS[name](tools) for name in names]


def began(target: str = "red", **options: Any) -> KeyDoorTools:
    tools = KeyDoorTools(**options)
    tools.reset(target=target)
    return tools


def public_methods() -> dict[str, Any]:
    """What a trainer looks at: the functions of the class."""
    members = inspect.getmembers(KeyDoorTools, inspect.isfunction)
    return {name: member for name, member in members if not name.startswith("_")}


@given(names=actions, target=targets, horizon=horizons, limit=limits, gamma=st.floats(0, 1))
def test_tools_play_the_environment(
    names: list[str], target: str, horizon: int, limit: int | None, gamma: float
) -> None:
    tools = began(target, task_horizon=horizon, collector_limit=limit, gamma=gamma)
    env = KeyDoorAgentEnv(horizon, limit)
    env.reset(target=target)
    for name in names:
        if tools.over:
            break
        observation, reward, terminated, truncated, info = env.step(name, gamma)
        assert CALLS[name](tools) == observation
        call = tools.log[-1]
        assert (call.action, call.observation, call.reward) == (name, observation, reward)
        assert (call.terminated, call.truncated) == (terminated, truncated)
        assert (call.valid, call.stop_reason) == (info["valid"], info["stop_reason"])
        assert tools.over == (terminated or truncated)


@given(names=actions, horizon=horizons, limit=limits, mode=st.sampled_from(REWARD_MODES))
def test_nothing_changes_once_the_episode_is_over(
    names: list[str], horizon: int, limit: int | None, mode: str
) -> None:
    tools = began(task_horizon=horizon, collector_limit=limit, reward_mode=mode)
    for name in [*names, "finish"]:
        if not tools.over:
            CALLS[name](tools)
    log, reward = tools.log, tools.get_reward()
    assert set(play(tools, ACTIONS)) == {OVER}
    assert tools.pickup("green") == OVER
    assert (tools.log, tools.get_reward()) == (log, reward)


@given(names=actions, target=targets, gamma=st.floats(0, 1), horizon=horizons, limit=limits)
def test_potentials_add_only_what_an_unended_episode_is_left_with(
    names: list[str], target: str, gamma: float, horizon: int, limit: int | None
) -> None:
    """Σ γ^t (r_t + γ Φ(s_{t+1}) − Φ(s_t)) = Σ γ^t r_t + γ^T Φ(s_T), for Φ(s_0) = 0."""
    options: dict[str, Any] = {"task_horizon": horizon, "collector_limit": limit, "gamma": gamma}
    sparse, shaped = (began(target, reward_mode=mode, **options) for mode in REWARD_MODES)
    env = KeyDoorAgentEnv(horizon, limit)
    potential = env.reset(target=target)[1]["potential"]
    for name in names:
        if not sparse.over:
            potential = env.step(name)[4]["potential_after"]
        assert CALLS[name](sparse) == CALLS[name](shaped)
    left = gamma ** len(sparse.log) * potential
    assert shaped.get_reward() == pytest.approx(sparse.get_reward() + left, abs=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.99, 0.51])
def test_no_episode_left_unfinished_is_worth_a_success(gamma: float) -> None:
    """For γ > ½."""
    success = began(reward_mode="potential", gamma=gamma)
    play(success, SUCCESS)
    assert success.get_reward() == pytest.approx(gamma**3)
    others = [name for name in ACTIONS if name != "finish"]
    for length in range(len(SUCCESS) + 1):
        for names in itertools.product(others, repeat=length):
            left = began(reward_mode="potential", gamma=gamma)
            play(left, names)
            assert left.get_reward() < success.get_reward()


@given(names=actions, finished=st.booleans())
def test_equal_outcomes_have_equal_rewards_to_the_last_bit(
    names: list[str], finished: bool
) -> None:
    """For γ = 1, whatever was tried in between."""
    tools = began(reward_mode="potential", task_horizon=12)
    play(tools, [name for name in names if name != "finish"] + ["finish"] * finished)
    assert tools.get_reward() in ((0.0, 1.0) if finished else (0.0, 0.25, 0.5, 0.75))


@pytest.mark.parametrize("color", UNKNOWN)
@pytest.mark.parametrize("tool", ["pickup", "open_door"])
@given(names=actions)
def test_an_unknown_color_is_an_error_that_costs_a_step(
    tool: str, color: Any, names: list[str]
) -> None:
    tools, twin = began(task_horizon=12), began(task_horizon=12)
    names = [name for name in names if name != "finish"]
    play(tools, names)
    with pytest.raises(ValueError, match=r"color is .*; it must be one of red, blue\. Nothing"):
        getattr(tools, tool)(color)
    call = tools.log[-1]
    assert (call.tool, call.arguments, call.valid) == (tool, {"color": color}, False)
    assert (call.observation, call.reward) == (NOTHING, 0.0)
    assert len(tools.log) == len(names) + 1
    play(twin, names)
    assert tools._env._state == twin._env._state


def test_waiting_with_unknown_colors_runs_out_of_time() -> None:
    tools = began(task_horizon=3)
    for ending in (NOTHING, NOTHING, TIME_IS_UP):
        with pytest.raises(ValueError, match=f"{ending}$"):
            tools.pickup("green")
    assert tools.pickup("green") == OVER
    assert tools.log[-1].stop_reason == "task_horizon"
    assert tools.get_reward() == 0.0


@given(before=actions, after=actions, target=targets, other=targets)
def test_a_pooled_instance_plays_as_a_new_one(
    before: list[str], after: list[str], target: str, other: str
) -> None:
    used, new = began(other, reward_mode="potential"), began(target, reward_mode="potential")
    play(used, before)
    used.reset(target=target)
    assert play(used, after) == play(new, after)
    assert (used.log, used.get_reward()) == (new.log, new.get_reward())


def test_reset_takes_all_columns_and_begins_with_an_empty_line() -> None:
    row = {**prompts(1)[0], "difficulty": 3}
    tools = KeyDoorTools()
    assert tools.reset(**row) == f"\n\n{START}"
    assert (tools.target, tools.log, tools.get_reward()) == (row["target"], (), 0.0)


def test_a_seed_decides_the_targets_where_none_is_asked_for() -> None:
    def drawn(seed: int) -> list[str]:
        tools = KeyDoorTools()
        seeds = [seed, *[None] * 9]
        return [tools.reset(seed=seed) and tools.target for seed in seeds]

    assert drawn(3) == drawn(3)
    assert len({tuple(drawn(seed)) for seed in range(5)}) > 1
    assert set(drawn(0)) == set(COLORS)


def test_a_refused_target_leaves_the_episode_as_it_was() -> None:
    tools = began()
    tools.inspect()
    with pytest.raises(ValueError, match="target is 'green'"):
        tools.reset(target="green")
    assert len(tools.log) == 1


def test_before_the_first_reset_there_is_no_episode() -> None:
    for use in (*CALLS.values(), KeyDoorTools.get_reward, lambda tools: tools.target):
        with pytest.raises(ResetNeeded):
            use(KeyDoorTools())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"task_horizon": 0}, "task_horizon is 0"),
        ({"collector_limit": 1.5}, "collector_limit is 1.5"),
        ({"reward_mode": "dense"}, "reward_mode is 'dense'; it must be one of sparse, potential"),
        ({"gamma": 1.5}, "gamma is 1.5"),
    ],
)
def test_an_option_out_of_range_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        KeyDoorTools(**options)


def test_only_the_four_tools_are_offered() -> None:
    assert set(public_methods()) == {"reset", "get_reward", *TOOLS}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_tells_its_types_and_arguments(name: str) -> None:
    """Trainers build the schema that the model reads from hints and docstring."""
    tool = public_methods()[name]
    arguments = list(inspect.signature(tool).parameters)[1:]
    hints = get_type_hints(tool)
    assert hints.pop("return") is str
    assert set(hints) == set(arguments)
    text = inspect.getdoc(tool) or ""
    assert "Returns:" in text
    assert all(f"    {argument}: " in text for argument in arguments)
    assert ("Args:" in text) == bool(arguments)
    assert all(f'"{color}"' in text for color in COLORS) == bool(arguments)


@pytest.mark.parametrize(
    "factory", [KeyDoorTools, partial(KeyDoorTools, 4), lambda: KeyDoorTools()]
)
def test_a_factory_makes_separate_episodes(factory: Callable[[], KeyDoorTools]) -> None:
    first, second = factory(), factory()
    first.reset(target="red")
    second.reset(target="blue")
    assert (first.inspect(), second.inspect()) == tuple(
        f"The note says: {color}." for color in ("red", "blue")
    )


def test_rows_are_reproducible_and_do_not_tell_the_target() -> None:
    rows = prompts(40, seed=1)
    assert rows == prompts(40, seed=1)
    assert rows != prompts(40, seed=2)
    assert prompts(0) == []
    assert {row["target"] for row in rows} == set(COLORS)
    assert {str(row["prompt"]) for row in rows} == {str(rows[0]["prompt"])}
    assert [message["content"] for message in rows[0]["prompt"]] == [SYSTEM_PROMPT, PROMPT]


def test_the_log_can_be_read_but_not_changed() -> None:
    tools = began()
    tools.inspect()
    log = tools.log
    tools.pickup("red")
    assert [call.tool for call in log] == ["inspect"]
    assert isinstance(log[0], Call)


def test_the_tools_need_neither_torch_nor_trl() -> None:
    code = (
        "import sys, rlcheck.envs.keydoor_tools\n"
        "print({'torch', 'trl', 'transformers'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
