"""Offline learners use the reference's targets and losses, and do what they say with a log."""

import math
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
pytest.importorskip("tqdm")

import torch
from torch import Tensor, nn

import rlcheck
from rlcheck.agents import _fitting, cql, fqe, iql, offline, offline_dqn, support_masked
from rlcheck.agents._fitting import FittingSettings, LoggedSteps, gradient_steps, logged_steps
from rlcheck.agents._q_fitting import QFitting
from rlcheck.agents.cql import conservative_q_learning
from rlcheck.agents.datasets import GridTransition, collect_offline_dataset
from rlcheck.agents.fqe import (
    estimated_start_value,
    evaluation_targets,
    fitted_q_evaluation,
    policy_support,
)
from rlcheck.agents.iql import PolicyLoss, ValueLoss, implicit_q_learning
from rlcheck.agents.offline import METHODS, evaluate_by_log, offline_experiment
from rlcheck.agents.offline_dqn import q_learning_targets
from rlcheck.agents.q_networks import evaluate_grid_policy, grid_network, grid_scores
from rlcheck.agents.support_masked import SupportMaskedQ, masked_targets, support_masked_dqn
from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.envs.keydoor_grid_solution import (
    greedy_policy,
    rollout_returns,
    solve_grid,
    start_value,
    uniform_policy,
)

TABLES = grid_tables()
SMALL = FittingSettings(batch_size=32, hidden_size=16, target_interval=3, learning_rate=0.01)
_, LOG = collect_offline_dataset(seed=7, episodes=6, profile="mixed")
STEPS = logged_steps(LOG)
GAMMA = SMALL.gamma
SINGLE = 2e-5  # float32

Learn = Callable[..., list[Tensor]]


def network(seed: int, outputs: int = 4) -> nn.Sequential:
    return grid_network(seed=seed, outputs=outputs, hidden_size=16)


def parameters(*modules: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for module in modules for p in module.parameters()]


def learn_dqn(log: list[GridTransition] = LOG, **options: Any) -> list[Tensor]:
    return parameters(offline_dqn.offline_dqn(log, **_options(options))[0])


def learn_double_dqn(log: list[GridTransition] = LOG, **options: Any) -> list[Tensor]:
    return learn_dqn(log, double=True, **options)


def learn_cql(log: list[GridTransition] = LOG, **options: Any) -> list[Tensor]:
    return parameters(conservative_q_learning(log, **_options(options))[0])


def learn_masked(log: list[GridTransition] = LOG, **options: Any) -> list[Tensor]:
    options = {"behavior_epochs": 20} | options  # fewer, and nothing is masked
    return parameters(support_masked_dqn(log, **_options(options)).network)


def learn_iql(log: list[GridTransition] = LOG, **options: Any) -> list[Tensor]:
    fit = implicit_q_learning(log, **_options(options))
    return parameters(fit.policy, fit.q_network, fit.value_network)


def learn_fqe(log: list[GridTransition] = LOG, **options: Any) -> list[Tensor]:
    options = {"policy": uniform_policy()} | options
    return parameters(fitted_q_evaluation(log, **_options(options))[0])


def _options(options: dict[str, Any]) -> dict[str, Any]:
    return {"seed": 3, "epochs": 2, "settings": SMALL} | options


LEARNERS = (learn_dqn, learn_double_dqn, learn_cql, learn_masked, learn_iql, learn_fqe)


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def close(got: Any, expected: Any) -> Any:
    return np.asarray(got) == pytest.approx(np.asarray(expected), rel=SINGLE, abs=SINGLE)


def of(module: nn.Module, observations: Tensor = STEPS.next_observations) -> np.ndarray:
    with torch.no_grad():
        return module(observations).numpy()


# Targets and losses are the reference's.


def test_targets_are_those_of_the_reference():
    online, target = network(1), network(2)
    rewards, ended = STEPS.rewards.numpy(), STEPS.terminal.numpy()
    plain = q_learning_targets(GAMMA)(STEPS, online, target)
    assert close(plain, rlcheck.dqn_targets(rewards, ended, of(target), GAMMA))
    double = q_learning_targets(GAMMA, double=True)(STEPS, online, target)
    expected = rlcheck.double_dqn_targets(rewards, ended, of(online), of(target), GAMMA)
    assert close(double, expected)
    assert not close(double, plain)
    chances = np.random.default_rng(0).dirichlet(np.ones(4), len(TABLES.states))
    expected = rlcheck.fqe_targets(
        rewards, ended, of(target), chances[STEPS.next_states.numpy()], GAMMA
    )
    assert close(evaluation_targets(chances, GAMMA)(STEPS, online, target), expected)


def test_the_loss_of_cql_is_the_squared_error_and_the_scaled_penalty():
    net, alpha, scale = network(1), 0.3, 7.0
    seen = of(net, STEPS.observations)
    actions = STEPS.actions.numpy()
    targets = rlcheck.dqn_targets(
        STEPS.rewards.numpy(), STEPS.terminal.numpy(), of(net), SMALL.gamma
    )
    errors = targets - seen[np.arange(len(actions)), actions]
    penalties = rlcheck.cql_discrete_penalty(scale * seen, actions)
    expected = (errors**2).mean() + alpha / scale**2 * penalties.mean()
    losses = first_losses(
        lambda: conservative_q_learning(
            LOG, seed=0, epochs=1, alpha=alpha, scale=scale, settings=whole_log()
        ),
        net,
    )
    assert losses == pytest.approx(expected, rel=1e-4)


def first_losses(learn: Callable[[], tuple[nn.Module, list[float]]], net: nn.Module) -> float:
    """The loss of the first step, had the network these weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlcheck.agents._q_fitting.grid_network", lambda **_: net)
        return learn()[1][0]


def whole_log() -> FittingSettings:
    return replace(SMALL, batch_size=len(LOG))


def test_the_values_of_iql_follow_its_two_losses():
    q_net, value_net, tau = network(1), network(2, outputs=1), 0.8
    loss = ValueLoss(STEPS, q_net, value_net, tau, SMALL)(torch.arange(len(LOG)))
    actions = STEPS.actions.numpy()
    chosen = of(q_net, STEPS.observations)[np.arange(len(actions)), actions]
    following = of(value_net)
    targets = rlcheck.dqn_targets(STEPS.rewards.numpy(), STEPS.terminal.numpy(), following, GAMMA)
    expected = rlcheck.expectile_loss(chosen - of(value_net, STEPS.observations)[:, 0], tau)
    assert loss.item() == pytest.approx(expected + ((targets - chosen) ** 2).mean(), rel=1e-4)


def test_advantages_are_the_values_of_actions_less_those_of_states():
    q_net, value_net = network(1), network(2, outputs=1)
    actions = STEPS.actions.numpy()
    chosen = of(q_net, STEPS.observations)[np.arange(len(actions)), actions]
    advantages = ValueLoss(STEPS, q_net, value_net, 0.7, SMALL).advantages()
    assert close(advantages, chosen - of(value_net, STEPS.observations)[:, 0])


def test_the_policy_of_iql_follows_weighted_log_probabilities():
    net = network(1)
    advantages = torch.linspace(-1, 3, len(LOG))
    loss = PolicyLoss(STEPS, net, advantages, 2.0, 5.0)(torch.arange(len(LOG)))
    logprobs = rlcheck.stable_log_softmax(of(net, STEPS.observations))
    chosen = logprobs[np.arange(len(LOG)), STEPS.actions.numpy()]
    weights = rlcheck.iql_advantage_weights(advantages.numpy(), 2.0, 5.0)
    assert loss.item() == pytest.approx(-(weights * chosen).mean(), rel=1e-4)
    assert weights.max() == 5.0


def through_terminals(rewards: Tensor, terminal: Tensor, *rest: Any) -> Tensor:
    return rlcheck.torch.dqn_targets(rewards, torch.zeros_like(terminal), *rest)


def swapped(rewards: Any, terminal: Any, online: Any, target: Any, gamma: float) -> Tensor:
    return rlcheck.torch.double_dqn_targets(rewards, terminal, target, online, gamma)


def maximising(rewards: Any, terminal: Any, next_q: Any, policy: Any, gamma: float) -> Tensor:
    return rlcheck.torch.dqn_targets(rewards, terminal, next_q, gamma)


def mean_penalty(q_values: Tensor, action: Tensor) -> Tensor:
    return q_values.logsumexp(dim=1) - q_values.mean(dim=1)  # BY571/CQL#5


def symmetric(differences: Tensor, expectile: float, **options: Any) -> Tensor:
    return rlcheck.torch.expectile_loss(differences, 0.5, **options)


def unbounded(advantages: Tensor, beta: float, max_weight: float) -> Tensor:
    return (-beta * advantages).exp()


def supports_all(probabilities: Tensor, threshold_ratio: float) -> Tensor:
    return torch.ones_like(probabilities, dtype=torch.bool)


PLANTED: list[tuple[ModuleType, str, Callable[..., Tensor], Learn]] = [
    (offline_dqn, "dqn_targets", through_terminals, learn_dqn),
    (offline_dqn, "double_dqn_targets", swapped, learn_double_dqn),
    (offline_dqn, "dqn_targets", through_terminals, learn_cql),
    (cql, "cql_discrete_penalty", mean_penalty, learn_cql),
    (support_masked, "behavior_support_mask", supports_all, learn_masked),
    (iql, "expectile_loss", symmetric, learn_iql),
    (iql, "iql_advantage_weights", unbounded, learn_iql),
    (iql, "dqn_targets", through_terminals, learn_iql),
    (iql, "stable_log_softmax", lambda logits: logits, learn_iql),
    (fqe, "fqe_targets", maximising, learn_fqe),
]


@pytest.mark.parametrize(
    ("module", "name", "wrong", "learn"), PLANTED, ids=[f"{m.__name__}.{n}" for m, n, *_ in PLANTED]
)
def test_a_planted_mistake_changes_what_is_learned(monkeypatch, module, name, wrong, learn):
    right = learn()
    monkeypatch.setattr(module, name, wrong)
    assert not equal(learn(), right)


# Determinism.


@pytest.mark.parametrize("learn", LEARNERS)
def test_a_seed_determines_what_is_learned_and_nothing_global_does(learn):
    first = learn()
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    try:
        torch.manual_seed(12345)
        before = torch.random.get_rng_state()
        torch.set_num_threads(2)
        again = learn()
        assert torch.equal(torch.random.get_rng_state(), before)
        assert torch.get_num_threads() == 2
    finally:
        torch.random.set_rng_state(state)
        torch.set_num_threads(threads)
    assert equal(first, again)
    assert not equal(first, learn(seed=4))


def test_the_log_is_left_as_it_is():
    before = [step.observation.copy() for step in LOG]
    for learn in LEARNERS:
        learn()
    assert all((a == step.observation).all() for a, step in zip(before, LOG, strict=True))
    assert not LOG[0].observation.flags.writeable  # the rules' own table, shared


# Ends of episodes.


def test_a_terminal_does_not_bootstrap_and_a_truncation_does():
    step = LOG[0]._replace(reward=0.25, terminated=True, truncated=False)
    cut = step._replace(terminated=False, truncated=True)
    net = network(1)
    for targets, following in (
        (q_learning_targets(GAMMA), lambda q: q.max()),
        (q_learning_targets(GAMMA, double=True), lambda q: q.max()),
        (evaluation_targets(uniform_policy(), GAMMA), lambda q: q.mean()),
    ):
        ended, truncated = targets(logged_steps([step, cut]), net, net).tolist()
        reached = of(net, torch.from_numpy(step.next_observation.copy())[None])[0]
        assert ended == 0.25
        assert truncated == pytest.approx(0.25 + GAMMA * following(reached), rel=1e-5)


@pytest.mark.parametrize("learn", LEARNERS)
def test_the_flag_of_a_terminal_matters_and_that_of_a_truncation_does_not(learn):
    ends = [n for n, step in enumerate(LOG) if step.terminated]
    endless = [step._replace(terminated=False) for step in LOG]
    cut = [step._replace(truncated=not (step.truncated or step.terminated)) for step in LOG]
    assert ends
    assert equal(learn(cut), learn())
    assert not equal(learn(endless), learn())


# The loop.


def test_every_epoch_goes_once_through_all_rows_in_an_order_of_its_own():
    weight, batches = torch.zeros(1, requires_grad=True), []

    def loss(batch: Tensor) -> Tensor:
        batches.append(batch)
        return weight.square().sum() + len(batches)

    losses = gradient_steps(
        loss, [weight], rows=10, seed=0, epochs=2, settings=replace(SMALL, batch_size=4), label=""
    )
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2]
    epochs = [torch.cat(batches[:3]).tolist(), torch.cat(batches[3:]).tolist()]
    assert [sorted(order) for order in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]
    assert losses == pytest.approx([(4 * 1 + 4 * 2 + 2 * 3) / 10, (4 * 4 + 4 * 5 + 2 * 6) / 10])


def test_the_learning_rate_falls_linearly():
    weight, seen = torch.zeros(1, requires_grad=True), []

    def loss(batch: Tensor) -> Tensor:
        seen.append(weight.item())
        return weight.sum()  # Adam's steps are the learning rate, under a constant gradient

    gradient_steps(loss, [weight], rows=1, seed=0, epochs=4, settings=SMALL, label="")
    moved = -np.diff([*seen, weight.item()])
    assert moved == pytest.approx(SMALL.learning_rate * np.array([1, 0.75, 0.5, 0.25]), rel=1e-4)


def test_the_target_network_is_renewed_when_its_time_has_come():
    net = network(1)
    loss = QFitting(STEPS, net, q_learning_targets(GAMMA), interval=3)
    rows = torch.arange(len(LOG))
    old = None
    for number in range(6):
        loss(rows)
        if number % 3 == 0:
            fresh = q_learning_targets(GAMMA)(STEPS, net, net)
            assert torch.equal(loss.targets_of(rows), fresh)
            assert old is None or not torch.equal(fresh, old)
            old = fresh
        assert torch.equal(loss.targets_of(rows), old)
        with torch.no_grad():
            net[-1].bias += 1.0


def test_iql_regresses_on_a_copy_that_is_renewed_when_its_time_has_come():
    q_net, value_net, rows = network(1), network(2, outputs=1), torch.arange(len(LOG))
    loss = ValueLoss(STEPS, q_net, value_net, 0.7, SMALL)  # an interval of 3
    for number in range(6):
        before = loss.known
        loss(rows)
        if number % 3 == 0:
            assert torch.equal(loss.known, loss.logged_values())
        else:
            assert torch.equal(loss.known, before)
            assert not torch.equal(loss.known, loss.logged_values())
        with torch.no_grad():
            q_net[-1].bias += 1.0


def test_iql_goes_through_the_log_in_other_orders_for_the_policy(monkeypatch):
    seeds = []

    def watch(*arguments, seed, **options):
        seeds.append(seed)
        return gradient_steps(*arguments, seed=seed, **options)

    monkeypatch.setattr(iql, "gradient_steps", watch)
    learn_iql()
    assert len(seeds) == len(set(seeds)) == 2


def test_targets_computed_at_once_are_those_of_every_batch():
    target_reader = q_learning_targets(GAMMA)
    net, batch = network(1), torch.tensor([5, 3, 0])
    at_once, each = (
        QFitting(STEPS, net, target_reader, interval=9, every_step=every) for every in (False, True)
    )
    assert at_once(batch).item() == pytest.approx(each(batch).item(), rel=1e-6)
    assert close(at_once.targets_of(batch), each.targets_of(batch))


def test_no_gradient_reaches_the_targets():
    net = network(1)
    QFitting(STEPS, net, q_learning_targets(GAMMA, double=True), interval=1, every_step=True)(
        torch.arange(8)
    ).backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    with torch.no_grad():
        targets = q_learning_targets(GAMMA, double=True)(STEPS.rows(torch.arange(8)), net, net)
    chosen = net(STEPS.observations[:8]).gather(1, STEPS.actions[:8, None])[:, 0]
    (targets - chosen).square().mean().backward()
    for one, parameter in zip(got, net.parameters(), strict=True):
        assert close(one, parameter.grad)


def test_a_log_becomes_its_columns():
    for row, step in enumerate(LOG):
        assert (STEPS.observations[row].numpy() == step.observation).all()
        assert (STEPS.next_observations[row].numpy() == step.next_observation).all()
        assert STEPS.actions[row] == step.action
        assert STEPS.rewards[row].item() == pytest.approx(step.reward, rel=1e-6)
        assert STEPS.terminal[row].item() is step.terminated
        assert (STEPS.states[row], STEPS.next_states[row]) == (step.state, step.next_state)


# Each method.


@pytest.mark.parametrize("double", [False, True])
def test_cql_without_its_penalty_is_unconstrained(double):
    plain = learn_dqn(double=double)
    assert equal(learn_cql(alpha=0.0, double=double), plain)
    assert not equal(learn_cql(alpha=0.1, double=double), plain)


def test_cql_prefers_the_actions_of_the_log():
    settings = replace(SMALL, batch_size=256)
    only = {step.state: step for step in LOG}  # one action a state
    log = list(only.values())
    score = grid_scores(conservative_q_learning(log, seed=0, epochs=150, settings=settings)[0])
    assert all(score[step.state].argmax() == step.action for step in log)


@pytest.mark.parametrize("double", [False, True])
def test_a_threshold_of_zero_masks_nothing(double):
    fit = support_masked_dqn(LOG, threshold_ratio=0.0, double=double, **_options({}))
    assert equal(parameters(fit.network.q_network), learn_dqn(double=double))


class Fixed(nn.Module):
    """The same row for every observation."""

    def __init__(self, row: list[float]) -> None:
        super().__init__()
        self.row = torch.tensor(row)

    def forward(self, observations: Tensor) -> Tensor:
        return self.row.expand(len(observations), -1)


def test_an_action_without_support_is_found_by_no_maximum_and_no_argmax():
    behavior = Fixed([math.log(p) for p in (0.5, 0.1, 0.2, 0.2)])
    values = Fixed([-3.0, 9.0, -1.0, -2.0])  # all that is supported is below 0
    net = SupportMaskedQ(values, behavior, 0.35)
    scores = net(STEPS.observations)
    assert net.supported(STEPS.observations).tolist() == [[True, False, True, True]] * len(LOG)
    assert (scores.argmax(dim=1) == 2).all()
    assert (scores.amax(dim=1) == -1.0).all()
    assert torch.isfinite(scores).all()
    live = ~STEPS.terminal
    for double in (False, True):
        read = masked_targets(behavior, 0.35, GAMMA, double=double)
        targets = read(STEPS, values, values)
        assert close(targets[live], (STEPS.rewards - GAMMA)[live])
        assert torch.equal(targets[~live], STEPS.rewards[~live])


def test_a_given_behavior_is_used_and_another_is_cloned():
    behavior = Fixed([0.0, -9.0, -9.0, -9.0])
    given = support_masked_dqn(LOG, behavior=behavior, **_options({}))
    assert given.network.behavior is behavior
    assert given.behavior_losses == []
    assert (grid_scores(given.network).argmax(axis=1) == 0).all()
    cloned = support_masked_dqn(LOG, behavior_epochs=30, **_options({}))
    assert len(cloned.behavior_losses) == 30
    assert cloned.behavior_losses[-1] < cloned.behavior_losses[0]


def test_iql_has_a_policy_and_two_kinds_of_values():
    fit = implicit_q_learning(LOG, **_options({}))
    assert grid_scores(fit.policy).shape == grid_scores(fit.q_network).shape == (84, 4)
    assert grid_scores(fit.value_network).shape == (84, 1)
    assert len(fit.losses) == len(fit.value_losses) == 2


def test_iql_asks_for_no_value_of_an_action_that_the_log_lacks():
    log = [step for step in LOG if step.action != 3]
    steps = logged_steps(log)
    q_net, value_net = network(1), network(2, outputs=1)
    loss = ValueLoss(steps, q_net, value_net, 0.7, SMALL)
    rows = torch.arange(len(log))
    before, advantages = loss(rows).item(), loss.advantages()
    with torch.no_grad():
        q_net[-1].bias[3] = 1e6
    again = ValueLoss(steps, q_net, value_net, 0.7, SMALL)
    assert again(rows).item() == before
    assert torch.equal(again.advantages(), advantages)


def test_a_higher_expectile_expects_more():
    low, high = (
        implicit_q_learning(LOG, expectile=tau, **_options({"epochs": 60})) for tau in (0.2, 0.9)
    )
    seen = STEPS.states.numpy()
    means = [grid_scores(fit.value_network)[seen].mean() for fit in (low, high)]
    assert means[0] < means[1] - 0.1


def test_iql_without_advantages_clones():
    without = implicit_q_learning(LOG, beta=0.0, **_options({}))
    other = implicit_q_learning(LOG, beta=0.0, expectile=0.1, **_options({}))
    assert equal(parameters(without.policy), parameters(other.policy))
    assert not equal(parameters(without.value_network), parameters(other.value_network))


# Evaluation.


def full_log() -> list[GridTransition]:
    """Every action once in every state that goes on."""
    return [
        GridTransition(
            TABLES.observation[state],
            action,
            float(TABLES.reward[state, action]),
            TABLES.observation[after],
            bool(TABLES.terminal[after]),
            False,
            math.log(0.25),
            state,
            int(after),
        )
        for state in np.flatnonzero(~TABLES.terminal).tolist()
        for action, after in enumerate(TABLES.next_state[state])
    ]


@pytest.mark.parametrize("randomness", [0.0, 0.5, 1.0])
def test_fitted_evaluation_converges_to_the_value_where_the_log_is_full(randomness):
    policy = (1 - randomness) * solve_grid().policy + randomness * uniform_policy()
    settings = FittingSettings(gamma=0.9, learning_rate=5e-3, target_interval=5, batch_size=304)
    log = full_log()
    net, losses = fitted_q_evaluation(log, policy, seed=0, epochs=400, settings=settings)
    exact = start_value(policy, gamma=0.9)
    assert estimated_start_value(net, policy) == pytest.approx(exact, abs=0.05)
    assert policy_support(policy, log) == (1.0, 1.0)
    assert losses[-1] < 1e-2


def test_the_estimate_at_the_starts_weighs_actions_by_the_policy():
    net, policy = network(1), np.tile([0.1, 0.2, 0.3, 0.4], (84, 1))
    scores = grid_scores(net)[TABLES.start]
    assert estimated_start_value(net, policy) == pytest.approx(
        (scores @ [0.1, 0.2, 0.3, 0.4]).mean()
    )


def test_support_is_counted_on_the_path_and_in_the_log():
    policy = greedy_policy(solve_grid().q_values)
    log = full_log()
    start = int(TABLES.start[0])
    first = int(policy[start].argmax())
    on_path = [s for s in log if (s.state, s.action) != (start, first)]
    path = policy_support(policy, on_path)
    assert 0 < path.path < 1
    assert 0 < path.log < 1
    off = next(s for s in range(84) if not TABLES.terminal[s] and s not in met_by(policy))
    beside = policy_support(policy, [s for s in log if s.state != off])
    assert beside.path == 1.0
    assert beside.log < 1.0
    unasked = [s for s in log if policy[s.state, s.action] > 0]
    assert policy_support(policy, unasked) == (1.0, 1.0)


def test_a_start_is_asked_for_where_the_log_never_begins_there():
    policy, start = greedy_policy(solve_grid().q_values), int(TABLES.start[-1])
    log = [s for s in full_log() if policy[s.state, s.action] > 0 and s.state != start]
    assert start not in {s.next_state for s in log}
    support = policy_support(policy, log)
    assert support.path < 1
    assert support.log < 1


def met_by(policy: np.ndarray) -> set[int]:
    """States on the paths of a deterministic policy, step by step."""
    met = set()
    for state in TABLES.start.tolist():
        for _ in range(100):
            met.add(state)
            state = int(TABLES.next_state[state, policy[state].argmax()])
    return met


@pytest.mark.parametrize("seed", range(30))
def test_a_policy_that_the_log_supports_is_supported_on_its_path(seed):
    rng = np.random.default_rng(seed)
    policy = greedy_policy(rng.random((84, 4)))
    log = [s for s in full_log() if policy[s.state, s.action] > 0 or rng.random() < 0.5]
    dropped = [s for s in log if rng.random() < 0.98]
    support = policy_support(policy, dropped)
    asked = {(s, int(policy[s].argmax())) for s in met_by(policy) if not TABLES.terminal[s]}
    held = {(s.state, s.action) for s in dropped}
    assert support.path == pytest.approx(len(asked & held) / len(asked))
    assert support.log < 1 or support.path == 1


def test_an_evaluation_says_what_it_estimates_and_what_is_true():
    policy = solve_grid().policy
    row = evaluate_by_log(LOG, policy, seed=5, epochs=2, settings=SMALL)
    settings = replace(SMALL, target_interval=10)
    net, _ = fitted_q_evaluation(LOG, policy, seed=5, epochs=2, settings=settings)
    support = policy_support(policy, LOG)
    assert row == {
        "estimate": estimated_start_value(net, policy),
        "exact": start_value(policy),
        "path_support": support.path,
        "log_support": support.log,
    }


# The comparison.


def small_experiment(seed: int = 1, **options: Any) -> dict[str, Any]:
    chosen = {"dataset_episodes": 6, "train_epochs": 2, "evaluation_episodes": 50} | options
    return offline_experiment(seed=seed, settings=SMALL, **chosen)


def test_the_comparison_holds_every_method_against_the_exact_solution():
    outcome = small_experiment()
    assert list(outcome["results"]) == list(outcome["fqe"]) == list(METHODS)
    for name, row in outcome["results"].items():
        scores = outcome["scores"][name]
        exact = evaluate_grid_policy(scores)
        assert {key: row[key] for key in exact} == exact
        assert outcome["fqe"][name]["exact"] == exact["value"]
        returns = rollout_returns(greedy_policy(scores)).returns
        assert returns.min() - 1e-9 <= row["simulated_return"] <= returns.max() + 1e-9
        assert math.isnan(row["estimated_value"]) == (name == "behavior cloning")
        assert math.isnan(row["sampled_value"]) == (name not in ("behavior cloning", "IQL"))
    log = outcome["dataset"]
    assert (log["episodes"], log["episodes_by_randomness"]) == (6, {0.1: 2, 0.5: 2, 1.0: 2})
    assert 0 < log["pair_support"] < log["state_support"] <= 1


def test_the_comparison_discounts_as_its_settings_say():
    outcome = offline_experiment(
        seed=1,
        dataset_episodes=3,
        train_epochs=1,
        evaluation_episodes=1,
        settings=replace(SMALL, gamma=0.8),
    )
    for name, row in outcome["results"].items():
        policy = greedy_policy(outcome["scores"][name])
        exact = start_value(policy, gamma=0.8)
        assert row["value"] == outcome["fqe"][name]["exact"] == exact
        assert exact != pytest.approx(start_value(policy), abs=1e-3)
        if name in ("behavior cloning", "IQL"):
            drawn = np.exp(rlcheck.stable_log_softmax(outcome["scores"][name]))
            assert row["sampled_value"] == pytest.approx(start_value(drawn, gamma=0.8))


def test_what_a_learner_expects_is_its_largest_value_at_the_starts():
    outcome = small_experiment()
    for name in ("offline DQN", "support-masked DQN", "CQL"):
        best = outcome["scores"][name][TABLES.start].max(axis=1).mean()
        assert outcome["results"][name]["estimated_value"] == pytest.approx(best)


def test_the_mask_of_the_comparison_is_that_of_its_own_cloning():
    scores = small_experiment(train_epochs=60)["scores"]
    chances = np.exp(rlcheck.stable_log_softmax(scores["behavior cloning"]))
    supported = rlcheck.behavior_support_mask(chances, 0.35)
    assert ((scores["support-masked DQN"] > -1e30) == supported).all()
    assert not supported.all()


def test_the_simulator_agrees_with_the_exact_solution_of_its_rules():
    policy = solve_grid().policy
    exact = rollout_returns(policy).returns
    assert offline._simulate(policy, 4000, 1) == pytest.approx(exact.mean(), abs=0.002)


def test_the_comparison_is_determined_by_its_seed():
    one, again, other = small_experiment(), small_experiment(), small_experiment(seed=2)
    for name in METHODS:
        assert (one["scores"][name] == again["scores"][name]).all()
        assert not (one["scores"][name] == other["scores"][name]).all()
    assert one["fqe"] == again["fqe"]


# Refusals.


BAD_OPTIONS = [
    (learn_dqn, {"seed": -1}, "seed"),
    (learn_dqn, {"seed": 0.5}, "seed"),
    (learn_dqn, {"epochs": -1}, "epochs"),
    (learn_cql, {"alpha": -0.1}, "alpha"),
    (learn_cql, {"alpha": math.nan}, "alpha"),
    (learn_cql, {"scale": 0.0}, "scale"),
    (learn_masked, {"threshold_ratio": 1.5}, "threshold_ratio"),
    (learn_iql, {"expectile": 1.0}, "expectile"),
    (learn_iql, {"beta": -1.0}, "beta"),
    (learn_iql, {"max_weight": 0.0}, "max_weight"),
    (learn_fqe, {"policy": np.full((84, 4), 0.3)}, "policy"),
    (learn_fqe, {"policy": np.full((3, 4), 0.25)}, "policy"),
    (small_experiment, {"seed": -1}, "seed"),
    (small_experiment, {"profile": "medium"}, "profile"),
    (small_experiment, {"dataset_episodes": 0}, "dataset_episodes is 0"),
    (learn_masked, {"behavior_epochs": -1}, "behavior_epochs is -1"),
    (learn_masked, {"epochs": -1, "behavior_epochs": 1}, "^epochs is -1"),
    (learn_masked, {"behavior": nn.Linear(15, 3)}, r"behavior gives logits of shape \(\d+, 3\)"),
    (learn_masked, {"behavior": nn.Linear(14, 4)}, "behavior cannot read"),
    (learn_fqe, {"policy": np.full((84, 4), -0.25)}, "policy"),
    (small_experiment, {"train_epochs": -1}, "train_epochs"),
    (small_experiment, {"evaluation_episodes": 0}, "evaluation_episodes"),
]


@pytest.mark.parametrize(("learn", "options", "name"), BAD_OPTIONS)
def test_a_bad_option_is_refused_by_its_name(learn, options, name):
    with pytest.raises(ValueError, match=name):
        learn(**options)


@pytest.mark.parametrize(
    ("learn", "options", "says"),
    [
        *((learn, {"settings": {}}, "settings is {}; a FittingSettings") for learn in LEARNERS),
        (learn_dqn, {"double": "no"}, "double is 'no'; True or False is due"),
        (learn_cql, {"double": 1}, "double is 1; True or False is due"),
        (learn_masked, {"behavior": len}, "behavior is <built-in"),
        (lambda **options: offline_experiment(seed=0, **options), {"settings": 3}, "settings is 3"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_its_name(learn, options, says):
    with pytest.raises(TypeError, match=says):
        learn(**options)


def test_a_discount_of_1_is_refused_before_anything_is_learned(monkeypatch):
    """The exact values that the comparison ends with need a discount below 1."""
    monkeypatch.setattr(offline, "collect_offline_dataset", None)
    monkeypatch.setattr(offline, "fitted_q_evaluation", None)
    endless = FittingSettings(gamma=1)
    with pytest.raises(ValueError, match="gamma is 1; it must be < 1"):
        offline_experiment(seed=0, settings=endless)
    with pytest.raises(ValueError, match="gamma is 1; it must be < 1"):
        evaluate_by_log(LOG, uniform_policy(), seed=0, epochs=1, settings=endless)


WRONG_STEPS: list[tuple[dict[str, Any], str]] = [
    ({"observation": np.full(15, math.nan)}, r"transitions observation\[1, 0\] is nan"),
    ({"next_state": -1}, r"transitions next_state\[1\] is -1"),
    ({"state": 900}, r"transitions state\[1\] is 900"),
    ({"action": 7}, r"transitions action\[1\] is 7"),
    ({"action": 1.5}, r"transitions action\[1\] is 1.5"),
    ({"reward": math.nan}, r"transitions reward\[1\] is nan"),
    ({"terminated": 2}, r"transitions terminated\[1\] is 2"),
]


@pytest.mark.parametrize("learn", LEARNERS)
@pytest.mark.parametrize(("changes", "says"), WRONG_STEPS)
def test_a_wrong_step_of_the_log_is_refused_by_index_and_value(learn, changes, says):
    with pytest.raises(ValueError, match=says):
        learn([LOG[0], LOG[1]._replace(**changes), *LOG[2:9]])


@pytest.mark.parametrize(("changes", "says"), WRONG_STEPS)
def test_support_is_counted_of_no_wrong_step(changes, says):
    with pytest.raises(ValueError, match=says):
        policy_support(uniform_policy(), [LOG[0], LOG[1]._replace(**changes)])


def test_an_action_is_no_boolean():
    with pytest.raises(ValueError, match=r"transitions action\[0\] is True"):
        logged_steps([step._replace(action=True) for step in LOG[:3]])


@pytest.mark.parametrize("learn", LEARNERS)
def test_episodes_are_no_transitions(learn):
    with pytest.raises(TypeError, match=r"transitions\[0\] has no observation"):
        learn(collect_offline_dataset(seed=7, episodes=2, profile="mixed")[0])


@pytest.mark.parametrize("learn", LEARNERS)
def test_networks_are_single_whatever_torch_takes_for_its_default(learn):
    expected = learn()
    torch.set_default_dtype(torch.float64)
    try:
        got = learn()
    finally:
        torch.set_default_dtype(torch.float32)
    assert {weights.dtype for weights in got} == {torch.float32}
    assert equal(got, expected)


@pytest.mark.parametrize("learn", LEARNERS)
def test_an_empty_log_is_refused(learn):
    with pytest.raises(ValueError, match="transitions is empty"):
        learn([])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", 1.5),
        ("batch_size", 0),
        ("target_interval", 2.5),
        ("hidden_size", -3),
        ("learning_rate", 0.0),
        ("learning_rate", math.inf),
    ],
)
def test_bad_settings_are_refused_by_name_and_value(name, value):
    with pytest.raises(ValueError, match=name) as refusal:
        FittingSettings(**{name: value})
    assert str(value) in str(refusal.value)


def test_no_training_at_all_leaves_the_first_weights():
    untrained = learn_dqn(epochs=0)
    weights, _ = _fitting.draw_seeds(3, 2)
    assert equal(untrained, parameters(network(weights)))
    assert isinstance(STEPS, LoggedSteps)
