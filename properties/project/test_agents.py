"""Collecting, training, evaluating and recording on the key-door task do what they say."""

import copy
import csv
import inspect
import io
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import FrozenInstanceError, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
pytest.importorskip("tqdm")

import torch
from torch import Tensor, nn

import rlcheck.agents
from properties import test_keydoor_agent as keydoor
from properties.test_keydoor_agent import Play, way
from rlcheck import collector_target, generalized_advantages, validate_rollout_record
from rlcheck.agents import (
    ActorCritic,
    ActorCriticSettings,
    Batch,
    FeedForwardActorCritic,
    RecurrentActorCritic,
    Transition,
    actor_critic,
    area_under_curve,
    collect_batch,
    collect_episode,
    evaluate_policy,
    exact_success_probability,
    rollout_contract_from_transitions,
    train_actor_critic,
    write_curve_csv,
    write_curve_tensorboard,
)
from rlcheck.envs.keydoor_agent import (
    ACTIONS,
    COLORS,
    ENVIRONMENT_VERSION,
    FINISHED,
    OBSERVATION_INDEX,
    OBSERVATIONS,
    TAKEN,
    TIME_IS_UP,
    KeyDoorAgentEnv,
)
from rlcheck.envs.keydoor_agent_solution import (
    BeliefSolution,
    FiniteMemoryPolicy,
    memoryless_policy,
    policy_value,
    uniform_policy,
)

NAN, INF = math.nan, math.inf
KINDS = (RecurrentActorCritic, FeedForwardActorCritic)
SINGLE = 2e-5  # float32, a few dozen sums long
WAITING = ("inspect",) * max(keydoor.HORIZONS)
CUT = Play("red", ("inspect", "pickup_red"), task_horizon=6, collector_limit=2)
ENDINGS = {
    "success": Play("red", way("red")),
    "failure": Play("blue", way("red")),
    "task_horizon": Play("red", ("inspect", "pickup_red"), task_horizon=2),
    "collector_limit": CUT,
}

# What the contract's table for this module writes: arguments by position, then by name.
ARGUMENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "collect_episode": (
        ("model", "env"),
        ("reward_mode", "greedy", "target", "policy_version"),
    ),
    "train_actor_critic": (
        (),
        (
            *("seed", "reward_mode", "updates", "episodes_per_update"),
            *("evaluation_interval", "evaluation_episodes"),
        ),
    ),
    "evaluate_policy": (("model",), ("episodes", "seed")),
    "rollout_contract_from_transitions": (
        ("transitions",),
        ("task_id", "environment_version", "policy_version"),
    ),
}


class Scripted(ActorCritic):
    """Acts as it is told to, an episode a script; what it never does has probability 0."""

    def __init__(self, *scripts: Sequence[str]) -> None:
        super().__init__(hidden_size=1)
        self.scripts = [[ACTIONS.index(action) for action in script] for script in scripts]

    def forward(
        self, observations: Tensor, previous_actions: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        begun = 0 if state is None else int(state.max())
        logits = torch.full((*observations.shape, len(ACTIONS)), -INF)
        for row, script in enumerate(self.scripts):
            for step in range(observations.shape[1]):
                logits[row, step, script[min(begun + step, len(script) - 1)]] = 0.0
        ended = torch.full((1, len(observations), 1), begun + observations.shape[1])
        return logits, torch.zeros(observations.shape), ended


class Tabular(ActorCritic):
    """Acts by the tables of a policy; the values are those of the observation alone."""

    def __init__(self, policy: FiniteMemoryPolicy) -> None:
        super().__init__(hidden_size=4)
        self.table = torch.tensor(policy.probabilities).log()  # [M, A]
        self.next_memory = torch.tensor(policy.next_memory)  # [M, A, O]
        self.first = policy.start

    def forward(
        self, observations: Tensor, previous_actions: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        memories = []
        for observed, acted in zip(observations.T, previous_actions.T, strict=True):
            if state is None:
                state = torch.full((1, len(observed), 1), self.first)
            else:
                state = self.next_memory[state[0, :, 0], acted, observed].reshape(1, -1, 1)
            memories.append(state[0, :, 0])
        values = self.value(self.observed(observations)).squeeze(-1)
        return self.table[torch.stack(memories, dim=1)], values, state


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    """Each test starts from one thread and one seed, and leaves torch's globals as they were."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


def drawn(
    seed: int, kind: type[ActorCritic] = RecurrentActorCritic, *, spread: float = 1.0
) -> ActorCritic:
    """A model whose heads are not zero, so that every action and step differs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind()
        for head in (model.policy, model.value):
            nn.init.normal_(head.weight, std=spread)
            nn.init.normal_(head.bias, std=spread)
    return model


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ended(play: Play) -> Play:
    """A play that goes on until something ends it."""
    return replace(play, actions=play.actions + WAITING)


def environments(plays: Sequence[Play]) -> list[KeyDoorAgentEnv]:
    return [KeyDoorAgentEnv(**play.limits) for play in plays]


def collected(plays: Sequence[Play], *, gamma: float = 0.9) -> Batch:
    """The episodes of several plays, as one batch."""
    return collect_batch(
        Scripted(*(play.actions for play in plays)),
        environments(plays),
        targets=[play.target for play in plays],
        gamma=gamma,
    )


def transitions_of(play: Play) -> list[Transition]:
    """What a new environment answers to a play."""
    episode = keydoor.new_episode(KeyDoorAgentEnv, play)
    seen = [episode.first[0], *(answer.observation for answer in episode.answers)]
    return [
        Transition(
            before, action, after, 0.0, a.reward, a.info["shaped_reward"], a.terminated, a.truncated
        )
        for before, action, after, a in zip(
            seen[:-1], play.taken, seen[1:], episode.answers, strict=True
        )
    ]


def same(one: Batch, other: Batch) -> bool:
    """Whether two batches agree in all that they hold."""
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(Batch)]
    return all(
        a == b if isinstance(a, tuple) else np.array_equal(np.asarray(a), np.asarray(b))
        for a, b in pairs
    )


def weights(model: ActorCritic) -> list[float]:
    return nn.utils.parameters_to_vector(model.parameters()).tolist()


# What is there


def test_importing_rlcheck_imports_neither_torch_nor_gymnasium() -> None:
    code = "import rlcheck, sys; print({'torch', 'gymnasium', 'tqdm'} & set(sys.modules))"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.strip() == "set()"


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_those_of_the_contract(name: str) -> None:
    parameters = inspect.signature(getattr(rlcheck.agents, name)).parameters
    positional, by_name = ARGUMENTS[name]
    assert tuple(parameters)[: len(positional + by_name)] == positional + by_name
    assert {n for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY} == set(positional)
    further = [p for n, p in parameters.items() if n not in positional + by_name]
    assert all(p.default is not p.empty for p in further)


def test_every_exported_name_is_there() -> None:
    assert {"RecurrentActorCritic", *ARGUMENTS} <= set(rlcheck.agents.__all__)
    for name in rlcheck.agents.__all__:
        assert inspect.getdoc(getattr(rlcheck.agents, name))


def test_a_course_trains_evaluates_and_records_with_these_calls() -> None:
    model, curve = train_actor_critic(
        seed=3,
        reward_mode="potential",
        updates=2,
        episodes_per_update=4,
        evaluation_interval=1,
        evaluation_episodes=5,
    )
    metrics = evaluate_policy(model, episodes=5, seed=1)
    transitions, _, report = collect_episode(
        model,
        KeyDoorAgentEnv(task_horizon=6, collector_limit=2, seed=0),
        reward_mode="sparse",
        greedy=False,
        target="blue",
        policy_version=7,
    )
    record = rollout_contract_from_transitions(
        transitions, task_id="blue", environment_version="1", policy_version=7
    )
    assert validate_rollout_record(record) == []
    assert list(metrics) == ["success_rate", "mean_turns", "invalid_action_rate", "mean_return"]
    assert set(metrics) | {"update"} < set(curve[-1])
    assert report["policy_version"] == 7


# Models


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_model_acts_uniformly_and_values_nothing(kind: type[ActorCritic]) -> None:
    seen = torch.arange(9).reshape(1, 9)
    logits, values, _ = kind()(seen, seen % 7)
    assert logits.shape == (1, 9, 6)
    assert not logits.any()
    assert not values.any()


def test_only_the_recurrent_model_remembers() -> None:
    seen, other = torch.tensor([[0, 1, 3]]), torch.tensor([[0, 2, 3]])
    acted = torch.tensor([[6, 0, 1]])
    for kind, remembers in zip(KINDS, (True, False), strict=True):
        model = drawn(0, kind)
        differs = model(seen, acted)[0] != model(other, acted)[0]  # [1, 3, 6]
        assert differs[0, 1].any()
        assert bool(differs[0, 2].any()) is remembers
    model = drawn(0, FeedForwardActorCritic)
    assert torch.equal(model(seen, acted)[0], model(seen, torch.full_like(acted, 6))[0])


# Collecting


@given(plays=st.lists(keydoor.plays().map(ended), min_size=1, max_size=4))
@example(plays=[CUT])
@example(plays=list(ENDINGS.values()))
def test_a_batch_holds_what_its_environments_answered(plays: list[Play]) -> None:
    plays = [ended(replace(play, gamma=plays[0].gamma)) for play in plays]
    batch = collected(plays, gamma=plays[0].gamma)
    for row, play in enumerate(plays):
        assert batch.transitions(row) == transitions_of(play)
        answers = keydoor.new_episode(KeyDoorAgentEnv, play).answers
        assert batch.valid[row, : play.length].tolist() == [a.info["valid"] for a in answers]
        assert batch.stop_reasons[row] == answers[-1].info["stop_reason"]
    assert batch.targets == tuple(play.target for play in plays)
    assert batch.success.tolist() == [keydoor.succeeds(p.taken, p.target) for p in plays]


@given(plays=st.lists(keydoor.plays().map(ended), min_size=2, max_size=4))
def test_nothing_happens_after_an_episodes_end(plays: list[Play]) -> None:
    batch = collected(plays)
    lengths = [play.length for play in plays]
    steps = np.arange(max(lengths))
    assert batch.active.tolist() == [(steps < length).tolist() for length in lengths]
    assert batch.observations.shape == batch.previous_actions.shape
    assert batch.observations.shape == (len(plays), max(lengths) + 1)
    for column in (batch.base_rewards, batch.shaped_rewards, batch.terminated, batch.truncated):
        assert column.shape == batch.active.shape
        assert not column[~batch.active].any()
    assert not batch.valid[~batch.active].any()
    assert (batch.terminated | batch.truncated).sum(axis=1).tolist() == [1] * len(plays)
    assert batch.previous_actions[:, 0].tolist() == [6] * len(plays)


@given(
    seed=keydoor.seeds(),
    plays=st.lists(keydoor.plays(), min_size=1, max_size=4),
    kind=st.sampled_from(KINDS),
)
@settings(max_examples=30)
def test_sampled_episodes_replay_action_by_action(
    seed: int, plays: list[Play], kind: type[ActorCritic]
) -> None:
    targets = [play.target for play in plays]
    batch = collect_batch(
        drawn(seed, kind),
        environments(plays),
        targets=targets,
        gamma=0.9,
        generator=stream(seed),
    )
    for row, play in enumerate(plays):
        got = batch.transitions(row)
        replayed = transitions_of(replace(play, actions=tuple(t.action for t in got), gamma=0.9))
        assert [t._replace(behavior_logprob=0.0) for t in got] == replayed


@given(seed=keydoor.seeds(), kind=st.sampled_from(KINDS))
@settings(max_examples=30)
def test_behavior_logprobs_are_the_models_over_the_whole_sequence(
    seed: int, kind: type[ActorCritic]
) -> None:
    model = drawn(seed, kind)
    envs = [KeyDoorAgentEnv(limit, seed=seed + limit) for limit in (2, 5, 8)]
    batch = collect_batch(model, envs, generator=stream(seed))
    logits, _, _ = model(batch.observations, batch.previous_actions)
    for row in range(len(envs)):
        seen = batch.observations[row : row + 1]
        for step, transition in enumerate(batch.transitions(row)):
            alone, _, _ = model(seen[:, : step + 1], batch.previous_actions[[row], : step + 1])
            for scores in (logits[row, step], alone[0, -1]):
                expected = scores.log_softmax(dim=-1)[ACTIONS.index(transition.action)].item()
                assert transition.behavior_logprob == pytest.approx(expected, SINGLE, SINGLE)
                assert transition.behavior_logprob <= 0


@given(seed=keydoor.seeds(), plays=st.lists(keydoor.plays(), min_size=1, max_size=4))
@settings(max_examples=30)
def test_a_greedy_batch_is_its_episodes_one_by_one(seed: int, plays: list[Play]) -> None:
    model = drawn(seed)
    targets = [play.target for play in plays]
    batch = collect_batch(model, environments(plays), greedy=True, targets=targets)
    for row, (env, target) in enumerate(zip(environments(plays), targets, strict=True)):
        alone, _, report = collect_episode(model, env, greedy=True, target=target)
        assert batch.transitions(row) == alone
        assert [transition.behavior_logprob for transition in alone] == [0.0] * len(alone)
        assert report["stop_reason"] == batch.stop_reasons[row]


def test_greedy_takes_the_first_of_the_likeliest() -> None:
    model = FeedForwardActorCritic()
    model.policy.bias.data = torch.tensor([0.0, 0.5, 2.0, 2.0, 1.0, 0.0])
    transitions, _, _ = collect_episode(model, KeyDoorAgentEnv(3), greedy=True)
    assert [transition.action for transition in transitions] == ["pickup_blue"] * 3


def test_actions_are_drawn_as_often_as_the_policy_says() -> None:
    model, count = drawn(1, FeedForwardActorCritic, spread=0.3), 4000
    batch = collect_batch(model, [KeyDoorAgentEnv(1) for _ in range(count)], generator=stream(0))
    with torch.no_grad():
        logits, _, _ = model(torch.zeros(1, 1, dtype=torch.long), torch.full((1, 1), 6))
    chances = logits[0, 0].double().softmax(dim=-1).numpy()
    assert chances.min() > 0.01
    assert chances.max() < 0.8
    counts = np.bincount(batch.actions[:, 0], minlength=len(ACTIONS))
    assert (abs(counts - count * chances) < 5 * np.sqrt(count * chances * (1 - chances))).all()


@pytest.mark.parametrize(("reason", "play"), ENDINGS.items())
@pytest.mark.parametrize("mode", ["sparse", "potential"])
def test_a_report_tells_the_episode(reason: str, play: Play, mode: str) -> None:
    _, batch, report = collect_episode(
        Scripted(play.actions),
        KeyDoorAgentEnv(**play.limits),
        reward_mode=mode,
        target=play.target,
        policy_version="v3",
        gamma=play.gamma,
    )
    gamma = Fraction(play.gamma)
    rewards = {
        "sparse": [t.base_reward for t in transitions_of(play)],
        "potential": [t.shaped_reward for t in transitions_of(play)],
    }
    expected = sum(gamma**t * Fraction(r) for t, r in enumerate(rewards[mode]))
    assert list(report.items())[:-1] == [
        ("target", play.target),
        ("success", reason == "success"),
        ("terminated", reason != "collector_limit"),
        ("truncated", reason == "collector_limit"),
        ("stop_reason", reason),
        ("policy_version", "v3"),
    ]
    assert list(report)[-1] == "selected_return"
    assert type(report["selected_return"]) is float
    assert report["selected_return"] == pytest.approx(float(expected), abs=1e-12)
    assert all(type(report[flag]) is bool for flag in ("success", "terminated", "truncated"))
    assert batch.rewards(mode).tolist() == [rewards[mode]]


def test_a_limit_of_the_collector_shows_the_last_observation_and_that_of_the_task_the_time() -> (
    None
):
    for reason, last in {
        "collector_limit": TAKEN,
        "task_horizon": TIME_IS_UP,
        "success": FINISHED,
    }.items():
        batch = collected([ENDINGS[reason], Play("red", WAITING, task_horizon=12)])
        length = ENDINGS[reason].length
        assert OBSERVATIONS[batch.observations[0, length]] == last
        assert batch.terminated[0, length - 1] == (reason != "collector_limit")
        assert batch.truncated[0, length - 1] == (reason == "collector_limit")


def test_targets_are_those_asked_for_and_otherwise_drawn_by_the_environment() -> None:
    asked = ["red", None, "blue", None]
    envs = [KeyDoorAgentEnv(2, seed=seed) for seed in range(4)]
    drawn_alone = [keydoor.targets(KeyDoorAgentEnv(2, seed=seed), 2) for seed in range(4)]
    for count, targets in enumerate((None, asked)):
        batch = collect_batch(RecurrentActorCritic(), envs, targets=targets)
        expected = [own[count] for own in drawn_alone]
        if targets:
            expected = [t or own for t, own in zip(targets, expected, strict=True)]
        assert batch.targets == tuple(expected)


def test_a_generator_repeats_a_batch_and_leaves_torchs_own_alone() -> None:
    def collect(generator: torch.Generator | None) -> Batch:
        envs = [KeyDoorAgentEnv(8, seed=seed) for seed in range(6)]
        return collect_batch(drawn(0), envs, generator=generator)

    before = torch.get_rng_state()
    assert same(collect(stream(5)), collect(stream(5)))
    assert torch.equal(torch.get_rng_state(), before)
    assert not same(collect(stream(5)), collect(stream(6)))
    torch.manual_seed(5)
    one = collect(None)
    assert not torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    assert same(one, collect(None))


def twice(env: KeyDoorAgentEnv) -> list[KeyDoorAgentEnv]:
    return [KeyDoorAgentEnv(), env, KeyDoorAgentEnv(), env]


@pytest.mark.parametrize(
    ("envs", "options", "says"),
    [
        ([], {}, "envs is empty"),
        (twice(KeyDoorAgentEnv()), {}, r"envs\[3\] is envs\[1\] again"),
        ([KeyDoorAgentEnv()], {"targets": []}, "targets has length 0; there are 1"),
        ([KeyDoorAgentEnv()], {"targets": ["red", "red"]}, "targets has length 2"),
        ([KeyDoorAgentEnv()], {"targets": ["green"]}, "target is 'green'"),
        ([KeyDoorAgentEnv()], {"gamma": 1.5}, "gamma is 1.5"),
    ],
)
def test_what_cannot_be_collected_is_refused(
    envs: list[KeyDoorAgentEnv], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        collect_batch(RecurrentActorCritic(), envs, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"reward_mode": "dense"}, "reward_mode is 'dense'; it must be one of sparse, potential"),
        ({"target": "green"}, "target is 'green'"),
        ({"gamma": NAN}, "gamma is nan"),
    ],
)
def test_an_episode_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        collect_episode(RecurrentActorCritic(), KeyDoorAgentEnv(), **options)


def test_a_batch_has_no_rewards_of_an_unknown_mode() -> None:
    with pytest.raises(ValueError, match="reward_mode is 'shaped'"):
        collected([CUT]).rewards("shaped")


# Training


def trained(**options: Any) -> tuple[ActorCritic, list[dict[str, Any]]]:
    """A short training."""
    few = {"updates": 3, "episodes_per_update": 4, "evaluation_episodes": 6, "task_horizon": 5}
    return train_actor_critic(**{"seed": 0, "reward_mode": "potential"} | few | options)


def outcome(**options: Any) -> tuple[list[float], str]:
    """All that a short training comes to; texts, because NaN is not itself."""
    model, curve = trained(**options)
    return weights(model), repr(curve)


def test_a_seed_gives_one_result_whatever_torch_was_told_before() -> None:
    outcomes = []
    for seed, threads in ((1, 1), (2, 2)):
        torch.manual_seed(seed)
        torch.set_num_threads(threads)
        state = torch.get_rng_state()
        outcomes.append(outcome())
        assert torch.get_num_threads() == threads
        assert torch.equal(torch.get_rng_state(), state)
    assert outcomes[0] == outcomes[1]


def test_seeds_differ_in_weights_targets_and_actions() -> None:
    assert outcome(seed=0) != outcome(seed=1)
    runs = [trained(seed=seed, model=drawn(0)) for seed in (0, 1)]
    assert weights(runs[0][0]) != weights(runs[1][0])


class Broken(KeyDoorAgentEnv):
    """Fails at its third step."""

    def step(self, action: Any, gamma: float = 0.99) -> Any:
        if self._steps == 2:
            raise RuntimeError("the lock is jammed")
        return super().step(action, gamma)


def test_a_failing_environment_leaves_torch_as_it_was() -> None:
    torch.set_num_threads(2)
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="jammed"):
        trained(environment=Broken)
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("updates", "interval", "expected"),
    [(5, 2, [-1, 1, 3, 4]), (4, 2, [-1, 1, 3]), (1, 1, [-1, 0]), (2, 9, [-1, 1])],
)
def test_a_curve_has_a_row_before_training_at_each_interval_and_at_the_end(
    updates: int, interval: int, expected: list[int]
) -> None:
    _, curve = trained(updates=updates, evaluation_interval=interval, collector_limit=1)
    assert [row["update"] for row in curve] == expected
    assert [row["environment_steps"] for row in curve] == [4 * (u + 1) for u in expected]
    assert [math.isnan(row["loss"]) for row in curve] == [True] + [False] * (len(curve) - 1)


def test_environment_steps_are_the_steps_that_were_taken_each_with_the_discount() -> None:
    taken: list[tuple[int, float]] = []

    class Counting(KeyDoorAgentEnv):
        def step(self, action: Any, gamma: float = 0.99) -> Any:
            taken.append((self._steps, gamma))
            return super().step(action, gamma)

    chosen = ActorCriticSettings(gamma=0.7)
    _, curve = trained(environment=Counting, collector_limit=4, settings=chosen)
    assert curve[-1]["environment_steps"] == len(taken)
    assert set(taken) == set(itertools.product(range(4), [0.7]))


def test_rows_tell_what_evaluation_tells_of_the_greedy_policy() -> None:
    kept = ("success_rate", "mean_turns", "invalid_action_rate", "mean_return")
    values_only = ActorCriticSettings(gamma=0.5, policy_weight=0, entropy_weight=0)
    optimum = Tabular(BeliefSolution(5, gamma=0.9).policy())
    for model, expected in (
        (RecurrentActorCritic(), [0.0, 5.0, 0.8, 0.0]),  # inspects five times
        (optimum, [1.0, 4.0, 0.0, 0.125]),
    ):
        _, curve = trained(model=model, settings=values_only, collector_limit=3)
        for row in curve:
            assert [row[name] for name in kept] == expected
        assert curve[-1]["training_success_rate"] == 0.0  # nobody succeeds in three steps of it
    assert curve[-1]["entropy"] == pytest.approx(0.0, abs=1e-6)


def test_training_says_nothing_to_what_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    trained()
    assert capsys.readouterr() == ("", "")


def test_training_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    trained(seed=12)
    assert "potential, seed 12: 100%" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()


def test_a_reward_mode_learns_from_its_own_rewards_alone() -> None:
    class Unshaped(KeyDoorAgentEnv):
        def step(self, action: Any, gamma: float = 0.99) -> Any:
            *answer, info = super().step(action, gamma)
            return *answer, info | {"shaped_reward": NAN}

    class Unpaid(KeyDoorAgentEnv):
        def step(self, action: Any, gamma: float = 0.99) -> Any:
            observation, _, *answer = super().step(action, gamma)
            return observation, NAN, *answer

    options = {"episodes_per_update": 24, "settings": ActorCriticSettings(gamma=0.7)}
    for mode, other in (("sparse", Unshaped), ("potential", Unpaid)):
        options["reward_mode"] = mode
        assert outcome(**options) == outcome(environment=other, **options)
    assert trained(**options)[1] != trained(**options | {"reward_mode": "sparse"})[1]


def test_a_model_that_is_given_is_trained_in_place() -> None:
    given_model = drawn(0, FeedForwardActorCritic)
    before = weights(given_model)
    model, _ = trained(model=given_model)
    assert model is given_model
    assert weights(model) != before
    assert type(trained(updates=1)[0]) is RecurrentActorCritic


@pytest.mark.parametrize("make", [RecurrentActorCritic, lambda: Tabular(uniform_policy())])
def test_without_weights_for_policy_and_entropy_only_values_are_learned(
    make: Callable[[], ActorCritic],
) -> None:
    model = make()
    seen = torch.arange(9).reshape(1, 9)
    trained(
        model=model, settings=ActorCriticSettings(policy_weight=0, entropy_weight=0), updates=10
    )
    with torch.no_grad():
        logits, values, _ = model(seen, seen % 6)
    assert torch.equal(logits, logits[..., :1].expand_as(logits))
    assert values.abs().max() > 1e-2  # they start at exactly 0


def test_the_policys_head_is_left_alone_too_where_it_shares_features_with_the_values() -> None:
    model = drawn(0)
    head = copy.deepcopy(model.policy.state_dict())
    trained(model=model, settings=ActorCriticSettings(policy_weight=0, entropy_weight=0))
    assert all(torch.equal(head[name], value) for name, value in model.policy.state_dict().items())


def test_a_model_may_mask_an_action() -> None:
    class Masking(RecurrentActorCritic):
        def forward(self, *args: Any) -> Any:
            logits, values, state = super().forward(*args)
            return logits - torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, INF]), values, state

    model, curve = trained(model=Masking(), updates=4, evaluation_interval=1)
    assert all(map(math.isfinite, weights(model)))
    assert curve[1]["entropy"] == pytest.approx(math.log(5), abs=0.1)
    transitions, _, _ = collect_episode(model, KeyDoorAgentEnv(30), generator=stream(0))
    assert "finish" not in [transition.action for transition in transitions]


# What a batch teaches: one epoch with a rate so small that the model stays where it is.


def learn(
    monkeypatch: pytest.MonkeyPatch,
    batch: Batch,
    model: ActorCritic,
    mode: str = "potential",
    **options: Any,
) -> tuple[float, list[Tensor]]:
    """The loss of a batch, and its gradient."""
    model = copy.deepcopy(model)
    before = weights(model)
    with monkeypatch.context() as patch:
        patch.setattr(actor_critic, "collect_batch", lambda *args, **named: batch)
        _, curve = trained(
            reward_mode=mode,
            model=model,
            updates=1,
            settings=ActorCriticSettings(
                **{"learning_rate": 1e-30, "epochs": 1, "max_gradient_norm": INF} | options
            ),
        )
    assert weights(model) == before
    return curve[-1]["loss"], [p.grad for p in model.parameters() if p.grad is not None]


def plain_loss(
    batch: Batch, model: ActorCritic, mode: str, chosen: ActorCriticSettings
) -> tuple[float, list[Tensor]]:
    """The loss as the docstring writes it, in double precision, step by step, and its gradient."""
    model = copy.deepcopy(model).double()
    advantages: list[float] = []
    steps: list[tuple[float, Tensor, Tensor, int, float]] = []
    for row, length in enumerate(batch.active.sum(axis=1).tolist()):
        logits, values, _ = model(
            batch.observations[[row], : length + 1], batch.previous_actions[[row], : length + 1]
        )
        worth = values[0].detach().numpy()
        targets = collector_target(
            batch.rewards(mode)[row, :length],
            worth[1:],
            gamma=chosen.gamma,
            terminated=batch.terminated[row, :length],
        )
        for t in range(length):
            decay = (chosen.gamma * chosen.lam) ** np.arange(length - t)
            advantages.append(float(decay @ (targets - worth[:-1])[t:]))
            action, behavior = int(batch.actions[row, t]), float(batch.behavior_logprobs[row, t])
            chances = logits[0, t].softmax(dim=-1)
            steps.append((advantages[-1] + worth[t], values[0, t], chances, action, behavior))
    mean, std = np.mean(advantages), np.std(advantages)
    loss = torch.zeros((), dtype=torch.double)
    for advantage, (target, value, chances, action, behavior) in zip(
        advantages, steps, strict=True
    ):
        ratio, normal = chances[action] / math.exp(behavior), (advantage - mean) / std
        surrogate = torch.minimum(ratio * normal, ratio.clamp(0.8, 1.2) * normal)
        entropy = -(chances * chances.log()).sum()
        loss = loss + (
            chosen.value_weight * (value - target) ** 2
            - chosen.policy_weight * surrogate
            - chosen.entropy_weight * entropy
        )
    loss = loss / len(steps)
    loss.backward()
    return loss.item(), [p.grad.float() for p in model.parameters() if p.grad is not None]


def mixed_batch(seed: int, model: ActorCritic) -> Batch:
    """Sampled episodes of several lengths that end in every way, seen by an older policy."""
    model = copy.deepcopy(model)
    model.policy.weight.data *= 0.3
    limits = [(8, None), (8, 3), (3, None), (8, 1), (2, None), (8, 5), (8, None), (6, 6)]
    envs = [KeyDoorAgentEnv(*limit, seed=seed + i) for i, limit in enumerate(limits)]
    return collect_batch(model, envs, generator=stream(seed))


def assert_gradients_close(got: list[Tensor], expected: list[Tensor]) -> None:
    largest = max(float(gradient.abs().max()) for gradient in expected)
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-4 * largest)


@pytest.mark.parametrize("mode", ["sparse", "potential"])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_one_that_is_written(
    monkeypatch: pytest.MonkeyPatch, mode: str, seed: int
) -> None:
    model = drawn(seed)
    batch = mixed_batch(seed, model)
    assert {True, False} == set(np.logical_or.reduce(batch.truncated, axis=1).tolist())
    options = {"gamma": 0.7, "lam": 0.6, "policy_weight": 1.3, "value_weight": 0.4}
    loss, gradient = learn(monkeypatch, batch, model, mode, **options)
    expected, expected_gradient = plain_loss(batch, model, mode, ActorCriticSettings(**options))
    assert loss == pytest.approx(expected, 1e-4, 1e-4)
    assert_gradients_close(gradient, expected_gradient)


@pytest.mark.parametrize("lam", [0.0, 0.8, 1.0])
@pytest.mark.parametrize("truncated", [True, False])
def test_a_cut_step_is_worth_its_reward_and_the_value_it_ends_in(
    monkeypatch: pytest.MonkeyPatch, lam: float, truncated: bool
) -> None:
    play = Play("red", ("inspect",), 0.9, *((8, 1) if truncated else (1, None)))
    model, batch = drawn(2), collected([play])
    with torch.no_grad():
        _, values, _ = model(batch.observations, batch.previous_actions)
    value, after = values[0].tolist()
    assert abs(after) > 0.1
    loss, _ = learn(
        monkeypatch, batch, model, gamma=0.9, lam=lam, policy_weight=0, entropy_weight=0
    )
    reward = batch.shaped_rewards[0, 0]
    target = collector_target(reward, after, gamma=0.9, terminated=not truncated)
    assert loss == pytest.approx(0.5 * (value - target) ** 2, 1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_what_stands_in_the_padding_teaches_nothing(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Neither does what a terminated episode ends in: nothing follows it."""
    model = drawn(seed)
    batch = mixed_batch(seed, model)
    padded = ~batch.active
    beyond = np.pad(padded, ((0, 0), (1, 0)))  # [N, T + 1] after what an episode ends in
    ends = np.pad(padded, ((0, 0), (0, 1)), constant_values=True)  # and from there on
    over = batch.terminated.any(axis=1)[:, np.newaxis]
    unread, undone = torch.from_numpy(beyond | (over & ends)), torch.from_numpy(beyond)
    dice = stream(seed)
    other = replace(
        batch,
        observations=torch.where(
            unread, torch.randint(9, unread.shape, generator=dice), batch.observations
        ),
        previous_actions=torch.where(
            undone, torch.randint(6, undone.shape, generator=dice), batch.previous_actions
        ),
        behavior_logprobs=batch.behavior_logprobs.masked_fill(torch.from_numpy(padded), NAN),
        base_rewards=np.where(padded, 1e3, batch.base_rewards),
        shaped_rewards=np.where(padded, -1e3, batch.shaped_rewards),
        valid=batch.valid | padded,
    )
    assert not torch.equal(other.observations, batch.observations)
    loss, gradient = learn(monkeypatch, batch, model)
    other_loss, other_gradient = learn(monkeypatch, other, model)
    assert other_loss == pytest.approx(loss, 1e-6)
    assert_gradients_close(other_gradient, gradient)


def test_gradients_are_cut_to_their_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    model = drawn(0)
    batch = mixed_batch(0, model)
    _, gradient = learn(monkeypatch, batch, model)
    _, cut = learn(monkeypatch, batch, model, max_gradient_norm=0.01)
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradient))
    assert norm > 0.1
    assert_gradients_close(cut, [g * 0.01 / norm for g in gradient])


def test_epochs_use_a_batch_again_with_the_advantages_that_it_had_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    credited: list[int] = []

    def crediting(*args: Any, **named: Any) -> Any:
        credited.append(len(asked))
        return generalized_advantages(*args, **named)

    class Counting(RecurrentActorCritic):
        def forward(self, observations: Tensor, *rest: Any) -> Any:
            if torch.is_grad_enabled():
                asked.append(observations.shape[1])
            return super().forward(observations, *rest)

    batch = collected([ended(CUT)])
    monkeypatch.setattr(actor_critic, "collect_batch", lambda *args, **named: batch)
    monkeypatch.setattr(actor_critic, "generalized_advantages", crediting)
    trained(model=Counting(), updates=2, settings=ActorCriticSettings(epochs=3))
    assert asked == [3] * 6
    assert credited == [1, 4]


def test_settings_are_frozen() -> None:
    chosen = ActorCriticSettings()
    with pytest.raises(FrozenInstanceError):
        chosen.gamma = 0.5  # type: ignore[misc]
    assert ActorCriticSettings(epochs=4.0).epochs == 4  # type: ignore[arg-type]
    assert ActorCriticSettings(max_gradient_norm=INF, policy_weight=0).policy_weight == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("gamma", "lam") for value in (-0.1, 1.1, NAN)),
        *(("learning_rate", value) for value in (0.0, -0.01, NAN, INF)),
        *(("epochs", value) for value in (0, -1, 1.5, NAN)),
        *(
            (f"{part}_weight", value)
            for part in ("policy", "value", "entropy")
            for value in (-0.1, NAN, INF)
        ),
        *(("max_gradient_norm", value) for value in (0.0, -1.0, NAN)),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {value}"):
        ActorCriticSettings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("seed", 1.5),
        ("reward_mode", "dense"),
        ("updates", 0),
        ("episodes_per_update", 0),
        ("evaluation_interval", 0),
        ("evaluation_episodes", 0),
        ("task_horizon", 0),
        ("collector_limit", 0),
    ],
)
def test_training_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {value!r}"):
        trained(**{name: value})


# Evaluation


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("gamma", [0.99, 0.5])
def test_the_optimum_takes_four_turns_and_always_succeeds(greedy: bool, gamma: float) -> None:
    model = Tabular(BeliefSolution(8, gamma=0.9).policy())
    assert evaluate_policy(model, episodes=40, seed=0, greedy=greedy, gamma=gamma) == {
        "success_rate": 1.0,
        "mean_turns": 4.0,
        "invalid_action_rate": 0.0,
        "mean_return": pytest.approx(gamma**3),
    }


def test_evaluation_counts_what_it_says() -> None:
    fails = ("open_red", "inspect", "inspect", "pickup_red", "finish")
    guesses = ("pickup_red", "open_red", "finish")  # right for half of the targets
    model = Scripted(*[fails] * 3, *[guesses] * 100)
    metrics = evaluate_policy(model, episodes=103, seed=0, gamma=0.5)
    rights = round(metrics["success_rate"] * 103)
    assert 30 < rights < 70
    assert metrics == {
        "success_rate": pytest.approx(rights / 103),
        "mean_turns": pytest.approx((3 * 5 + 100 * 3) / 103),
        "invalid_action_rate": pytest.approx(3 * 2 / (3 * 5 + 100 * 3)),
        "mean_return": pytest.approx(rights * 0.25 / 103),
    }
    assert all(type(value) is float for value in metrics.values())


def test_a_sampled_evaluation_lies_near_the_exact_values() -> None:
    horizon, episodes, gamma = 6, 3000, 0.8
    options = {"task_horizon": horizon, "gamma": gamma, "greedy": False}
    got = evaluate_policy(RecurrentActorCritic(), episodes=episodes, seed=0, **options)
    uniform = uniform_policy()
    success = policy_value(uniform, task_horizon=horizon)
    value = policy_value(uniform, task_horizon=horizon, gamma=gamma)
    turns = policy_value(uniform, task_horizon=horizon, reward=lambda *step: 1.0)
    idle = policy_value(uniform, task_horizon=horizon, reward=lambda s, after, _: float(s == after))
    assert turns == pytest.approx(sum((5 / 6) ** k for k in range(horizon)))  # one in six ends it
    wide = 5 / math.sqrt(episodes)
    assert abs(got["success_rate"] - success) < wide * math.sqrt(success * (1 - success))
    assert abs(got["mean_return"] - value) < wide * math.sqrt(value * (1 - value))  # it is ≤ 1
    assert abs(got["mean_turns"] - turns) < wide * horizon / 2
    assert abs(got["invalid_action_rate"] - idle / turns) < wide * horizon / 2 / turns


def test_an_evaluation_repeats_itself_and_leaves_torch_alone() -> None:
    model, state = drawn(0), torch.get_rng_state()

    def evaluated(seed: int, greedy: bool) -> dict[str, float]:
        return evaluate_policy(model, episodes=30, seed=seed, greedy=greedy)

    for greedy in (True, False):
        assert evaluated(0, greedy) == evaluated(0, greedy)
    assert evaluated(0, False) != evaluated(1, False)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("name", "value"),
    [("episodes", 0), ("episodes", 2.5), ("seed", -1), ("task_horizon", 0), ("gamma", 1.5)],
)
def test_an_evaluation_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {value}"):
        evaluate_policy(RecurrentActorCritic(), **{"episodes": 2, "seed": 0, name: value})


@pytest.mark.parametrize("horizon", range(1, 8))
def test_the_exact_success_of_an_untrained_model_is_the_uniform_policys(horizon: int) -> None:
    for kind in KINDS[: 2 if horizon < 6 else 1]:
        got = exact_success_probability(kind(), task_horizon=horizon)
        assert got == pytest.approx(policy_value(uniform_policy(), task_horizon=horizon), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_exact_success_of_a_memoryless_model_is_its_tables(seed: int) -> None:
    model = drawn(seed, FeedForwardActorCritic)
    seen = torch.arange(len(OBSERVATIONS)).reshape(-1, 1)
    with torch.no_grad():
        logits, _, _ = model(seen, torch.full_like(seen, 6))
    table = memoryless_policy(logits[:, 0].double().softmax(dim=-1))
    for horizon in (3, 5, 7):
        expected = policy_value(table, task_horizon=horizon)
        got = exact_success_probability(model, task_horizon=horizon, cutoff=1e-12)
        assert got == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_exact_success_of_any_finite_memory_is_the_policys_value(seed: int) -> None:
    dice = np.random.default_rng(seed)
    policy = FiniteMemoryPolicy(
        dice.dirichlet(np.full(len(ACTIONS), 0.5), size=5),
        dice.integers(5, size=(5, len(ACTIONS), len(OBSERVATIONS))),
        start=seed,
    )
    for horizon in (3, 4, 6):
        got = exact_success_probability(Tabular(policy), task_horizon=horizon, cutoff=0)
        assert got == pytest.approx(policy_value(policy, task_horizon=horizon), abs=1e-12)


def test_the_optimum_succeeds_surely() -> None:
    model = Tabular(BeliefSolution(8).policy())
    assert exact_success_probability(model) == pytest.approx(1.0, abs=1e-12)
    assert exact_success_probability(model, task_horizon=3) == 0.0


@torch.no_grad()
def course_chances(model: ActorCritic, target: str, length: int) -> dict[tuple[str, ...], float]:
    """The probability of every course of this length that does not finish on its way."""
    going = [a for a in ACTIONS if a != "finish"]
    courses = list(itertools.product(*[going] * (length - 1), ACTIONS))
    acted = torch.tensor([[6, *map(ACTIONS.index, course[:-1])] for course in courses])
    seen = torch.tensor(
        [
            [0]
            + [
                OBSERVATION_INDEX[keydoor.observed(course[:t], course[t], target)]
                for t in range(length - 1)
            ]
            for course in courses
        ]
    )
    logits, _, _ = model(seen, acted)
    chosen = torch.tensor([list(map(ACTIONS.index, course)) for course in courses])
    steps = logits.double().softmax(dim=-1).gather(2, chosen.unsqueeze(2)).squeeze(2)
    return dict(zip(courses, steps.prod(dim=1).tolist(), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_success_is_the_sum_over_all_courses(seed: int) -> None:
    """A cutoff loses the courses that are less likely than it, and no more than it says."""
    model, horizon = drawn(seed, spread=0.2), 4
    chances = {
        (target, course): chance
        for target in COLORS
        for length in range(1, horizon + 1)
        for course, chance in course_chances(model, target, length).items()
    }
    right = {(t, c): p for (t, c), p in chances.items() if keydoor.succeeds(c, t)}
    exact = sum(right.values()) / 2
    assert 0.001 < exact < 0.9
    got = exact_success_probability(model, task_horizon=horizon, cutoff=0)
    assert got == pytest.approx(exact, SINGLE)
    assert exact_success_probability(model, task_horizon=horizon) == pytest.approx(exact, SINGLE)
    for cutoff in (1e-3, 3e-3, 1e-2):
        got = exact_success_probability(model, task_horizon=horizon, cutoff=cutoff)
        followed = [p for p in right.values() if p >= cutoff]
        dropped = sum(
            p < cutoff <= (chances[t, c[:-1]] if c[:-1] else 1.0) for (t, c), p in chances.items()
        )
        assert len(followed) < len(right)
        assert got == pytest.approx(sum(followed) / 2, SINGLE)
        assert 0 < exact - got < cutoff * dropped


@pytest.mark.parametrize(
    ("name", "value"), [("task_horizon", 0), ("cutoff", -0.1), ("cutoff", NAN)]
)
def test_an_exact_success_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {value}"):
        exact_success_probability(RecurrentActorCritic(), **{name: value})


# Curves


def curve_of(*points: tuple[int, float]) -> list[dict[str, Any]]:
    return [{"update": update, "success_rate": height, "turns": 8.0} for update, height in points]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(-1, 0.0), (0, 1.0)], 0.5),
        ([(-1, 0.0), (2, 1.0), (3, 1.0)], 0.625),
        ([(0, 0.25), (1, 0.25), (9, 0.25)], 0.25),
        ([(0, 0.0), (1, 1.0), (3, 0.0)], 0.5),
        ([(0, 1.0), (8, 1.0), (10, 0.0)], 0.9),
    ],
)
def test_the_area_of_a_curve_is_its_mean_height(
    points: list[tuple[int, float]], expected: float
) -> None:
    got = area_under_curve(curve_of(*points))
    assert type(got) is float
    assert got == pytest.approx(expected, abs=1e-15)
    assert area_under_curve(curve_of(*points), "turns") == 8.0


@given(
    heights=st.lists(st.floats(0, 1), min_size=2, max_size=6),
    gaps=st.lists(st.integers(2, 9), min_size=5, max_size=5),
    where=st.integers(0, 4),
)
def test_a_point_on_its_line_leaves_a_curves_area(
    heights: list[float], gaps: list[int], where: int
) -> None:
    updates = [-1, *itertools.accumulate(gaps, initial=gaps[0])]
    points = list(zip(updates, heights, strict=False))
    left = min(where, len(points) - 2)
    (u, h), (v, k) = points[left : left + 2]
    between = (u + 1, h + (k - h) / (v - u))
    more = [*points[: left + 1], between, *points[left + 1 :]]
    area = area_under_curve(curve_of(*more))
    assert area == pytest.approx(area_under_curve(curve_of(*points)), abs=1e-12)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([], "curve has 0 rows"),
        ([(-1, 0.5)], "curve has 1 rows"),
        ([(0, 0.5), (0, 0.5)], r"updates are \[0.0, 0.0\]; they must rise"),
        ([(1, 0.5), (0, 0.5)], "they must rise"),
        ([(0, 0.5), (1, NAN)], r"success_rate\[1\] is nan; it must be finite"),
    ],
)
def test_a_curve_without_an_area_is_refused(points: list[tuple[int, float]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        area_under_curve(curve_of(*points))


def test_a_field_that_a_curve_lacks_has_no_area() -> None:
    with pytest.raises(KeyError, match="reward"):
        area_under_curve(curve_of((0, 0.5), (1, 0.5)), "reward")


def test_a_curve_reads_back_from_its_csv_file(tmp_path: Path) -> None:
    _, curve = trained()
    curve.append({"update": 3, "note": 'late, "extra"'})
    write_curve_csv(curve, tmp_path / "curve.csv")
    with (tmp_path / "curve.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [*curve[0], "note"]
    assert (rows[0]["update"], rows[0]["loss"], rows[0]["note"]) == ("-1", "", "")
    assert rows[-1]["note"] == 'late, "extra"'
    for row, written in zip(rows[1:-1], curve[1:-1], strict=True):
        assert {name: float(text) for name, text in row.items() if text} == written


def test_a_curve_reads_back_from_its_tensorboard_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _, curve = trained()
    write_curve_tensorboard(curve, tmp_path, name="run 1")
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    named = [name for name in curve[0] if name != "update"]
    assert set(events.Tags()["scalars"]) == {f"run 1/{name}" for name in named}
    for name in named:
        got = [(event.step, event.value) for event in events.Scalars(f"run 1/{name}")]
        expected = [(row["update"], row[name]) for row in curve if not math.isnan(row[name])]
        assert [step for step, _ in got] == [step for step, _ in expected]
        assert [v for _, v in got] == pytest.approx([v for _, v in expected], 1e-6)


# Rollout records


def record_of(transitions: Sequence[Transition], **options: Any) -> dict[str, Any]:
    named = {
        "task_id": "key and door",
        "environment_version": ENVIRONMENT_VERSION,
        "policy_version": 0,
    }
    return rollout_contract_from_transitions(transitions, **named | options)


@given(play=keydoor.plays().map(ended), seen=st.integers(1, 12), version=st.integers(0, 9))
@example(play=ENDINGS["success"], seen=12, version=0)
@example(play=ENDINGS["failure"], seen=12, version=0)
@example(play=ENDINGS["task_horizon"], seen=12, version=0)
@example(play=ENDINGS["collector_limit"], seen=12, version=0)
def test_the_record_of_a_collected_episode_is_sound(play: Play, seen: int, version: int) -> None:
    """So is that of its beginning, which has not stopped yet."""
    transitions = collected([play]).transitions(0)[:seen]
    record = record_of(transitions, policy_version=version)
    assert validate_rollout_record(record) == []
    assert record["stop_reason"] == (keydoor.stop_reason(play) if seen >= play.length else None)
    assert record["policy_versions"] == dict.fromkeys(range(len(transitions)), version)
    for turn, transition in zip(record["turns"], transitions, strict=True):
        assert turn["action"] == transition.action
        assert turn["observation"] == transition.observation
        assert turn["reward"] == transition.base_reward
    read = json.loads(json.dumps(record, allow_nan=False))
    assert validate_rollout_record(read) == []
    assert read["turns"] == record["turns"]


@given(seed=keydoor.seeds())
@settings(max_examples=20)
def test_the_record_of_a_sampled_episode_keeps_its_logprobs(seed: int) -> None:
    model, env = drawn(seed), KeyDoorAgentEnv(6, 4, seed=seed)
    transitions, batch, _ = collect_episode(
        model, env, reward_mode="potential", generator=stream(seed)
    )
    record = record_of(transitions)
    assert validate_rollout_record(record) == []
    logprobs = [turn["behavior_logprob"] for turn in record["turns"]]
    assert logprobs == batch.behavior_logprobs[0].tolist()
    assert min(logprobs) < 0
    assert [turn["reward"] for turn in record["turns"]] == batch.base_rewards[0].tolist()


def test_turns_may_have_versions_of_their_own() -> None:
    transitions = transitions_of(ENDINGS["success"])
    for versions in ([3, 3, 4, 5], ("a", "a", "b", "c"), np.array([3, 3, 4, 5])):
        record = record_of(transitions, policy_version=versions)
        assert record["policy_versions"] == dict(enumerate(versions))
        assert validate_rollout_record(record) == []
    for version in ("v12", np.int64(3)):
        record = record_of(transitions, policy_version=version)
        assert record["policy_versions"] == dict.fromkeys(range(4), version)


def test_turns_that_lie_too_far_behind_the_learner_are_stale() -> None:
    transitions = transitions_of(ENDINGS["success"])
    record = record_of(transitions, policy_version=[3, 3, 4, 5], learner_version=5, max_staleness=1)
    assert validate_rollout_record(record) == [
        f"turns[{turn}] is stale: version 3 of learner version 5, with max_staleness 1"
        for turn in (0, 1)
    ]
    fresh = record_of(transitions, policy_version=0, learner_version=0, max_staleness=0)
    assert (fresh["learner_version"], fresh["max_staleness"]) == (0, 0)
    assert validate_rollout_record(fresh) == []
    assert not {"learner_version", "max_staleness"} & set(record_of(transitions))


@pytest.mark.parametrize(
    ("transitions", "options", "says"),
    [
        ([], {}, "transitions is empty"),
        (transitions_of(CUT), {"policy_version": [1]}, "policy_version has length 1; there are 2"),
        (transitions_of(CUT), {"policy_version": []}, "policy_version has length 0"),
    ],
)
def test_a_record_that_cannot_be_is_refused(
    transitions: list[Transition], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        record_of(transitions, **options)


LAST = transitions_of(ENDINGS["success"])[-1]


@pytest.mark.parametrize(
    ("transitions", "options", "says"),
    [
        ([LAST, LAST], {}, "turns[0].terminated is True; only the last turn may end the rollout"),
        ([LAST._replace(behavior_logprob=0.5)], {}, "turns[0].behavior_logprob is 0.5"),
        ([LAST._replace(base_reward=NAN)], {}, "turns[0].reward is nan"),
        ([LAST], {"task_id": ""}, "task_id is ''"),
        ([LAST], {"policy_version": [None]}, "missing policy versions"),
        ([LAST], {"max_staleness": 1}, "learner_version is missing"),
    ],
)
def test_what_breaks_a_record_is_explained(
    transitions: list[Transition], options: dict[str, Any], says: str
) -> None:
    (violation,) = validate_rollout_record(record_of(transitions, **options))
    assert says in violation
