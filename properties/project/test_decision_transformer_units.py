"""A decision transformer reads, learns and asks for what it should; wrong variants are caught."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
pytest.importorskip("tqdm")

import torch
from torch import Tensor

from rlcheck.agents import decision_transformer as training
from rlcheck.agents import decision_transformer_evaluation as evaluation
from rlcheck.agents import decision_transformer_network as network
from rlcheck.agents.datasets import collect_offline_dataset
from rlcheck.agents.decision_transformer import (
    decision_transformer_loss,
    train_decision_transformer,
)
from rlcheck.agents.decision_transformer_evaluation import evaluate_decision_transformer
from rlcheck.agents.decision_transformer_network import DecisionTransformer
from rlcheck.agents.decision_transformer_windows import (
    EpisodeSteps,
    Windows,
    cut_episodes,
    episode_steps,
    gather_windows,
)
from rlcheck.envs.keydoor_grid import KeyDoorGrid

NAN = math.nan
SINGLE = {"atol": 1e-5, "rtol": 1e-5}  # float32, a few dozen sums long
SIZES = {"state_dim": 3, "action_dim": 4, "max_steps": 12}
SMALL = {"width": 8, "layers": 2, "heads": 2}
SHORT = {"context_steps": 4, "epochs": 2, "batch_size": 3}


class Step(NamedTuple):
    observation: Any
    action: Any
    reward: Any


def episode(*rewards: float, first: int = 0) -> Any:
    """An episode whose step t, counted from `first`, saw [t, 0, 1] and did t modulo 4."""
    numbers = range(first, first + len(rewards))
    steps = [Step([n, 0.0, 1.0], n % 4, r) for n, r in zip(numbers, rewards, strict=True)]
    return SimpleNamespace(transitions=tuple(steps), return_=sum(rewards))


def small_model(kind: type[DecisionTransformer] = DecisionTransformer) -> DecisionTransformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(**SIZES, **SMALL)


def random_windows(rows: int = 3, steps: int = 5, *, padding: int = 0) -> Windows:
    """Windows that began at time steps of their own; padding holds what must not be read."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, SIZES["max_steps"] - steps, (rows, 1))
    drawn = (
        torch.from_numpy(rng.normal(size=(rows, steps))).float(),
        torch.from_numpy(rng.normal(size=(rows, steps, SIZES["state_dim"]))).float(),
        torch.from_numpy(rng.integers(0, SIZES["action_dim"], (rows, steps))),
        torch.from_numpy(first + np.arange(steps)),
        torch.ones(rows, steps, dtype=torch.bool),
    )
    fills = (NAN, NAN, -1, -1, False)
    return Windows(
        *(
            torch.cat([torch.full((rows, padding, *c.shape[2:]), f, dtype=c.dtype), c], dim=1)
            for c, f in zip(drawn, fills, strict=True)
        )
    )


def changed(windows: Windows, name: str, *at: Any) -> Windows:
    """The same windows but for one entry."""
    column = getattr(windows, name).clone()
    column[at] = (column[at] + 1) % 4 if name == "actions" else column[at] + 1
    return windows._replace(**{name: column})


def rejects(check: Callable[[Any], None], wrong: Any) -> bool:
    """Whether a check that holds for what is right fails for what is wrong."""
    try:
        check(wrong)
    except AssertionError:
        return True
    return False


# Returns to go and time steps of a log.


TWO = [episode(2.0, 1.0, 3.0), episode(5.0, first=7)]


def check_steps(build: Callable[..., EpisodeSteps]) -> None:
    steps = build(TWO, **SIZES)
    assert steps.returns_to_go.tolist() == [6.0, 4.0, 3.0, 5.0]
    assert steps.timesteps.tolist() == [0, 1, 2, 0]
    assert steps.states[:, 0].tolist() == [0.0, 1.0, 2.0, 7.0]
    assert steps.actions.tolist() == [0, 1, 2, 3]
    assert steps.bounds.tolist() == [[0, 3], [3, 4]]


def instead(**columns: list[Any]) -> Callable[..., EpisodeSteps]:
    def build(*args: Any, **kwargs: Any) -> EpisodeSteps:
        return episode_steps(*args, **kwargs)._replace(
            **{name: torch.tensor(value) for name, value in columns.items()}
        )

    return build


WRONG_STEPS = {
    "leaves out the step's own reward, takuseno/d3rlpy#401": {"returns_to_go": [4.0, 3, 0, 0]},
    "runs on into the next episode, kzl/decision-transformer#22": {
        "returns_to_go": [11.0, 9, 8, 5]
    },
    "gives each step the return of the episode": {"returns_to_go": [6.0, 6, 6, 5]},
    "counts time over all episodes": {"timesteps": [0, 1, 2, 3]},
    "counts time from 1": {"timesteps": [1, 2, 3, 1]},
    "pairs a state with the action before, kzl/decision-transformer#15": {"actions": [0, 0, 1, 2]},
}


def test_returns_to_go_hold_the_steps_own_reward_and_its_own_episode() -> None:
    check_steps(episode_steps)


@pytest.mark.parametrize("wrong", WRONG_STEPS.values(), ids=WRONG_STEPS)
def test_wrong_steps_are_caught(wrong: dict[str, list[Any]]) -> None:
    assert rejects(check_steps, instead(**wrong))


def test_a_grid_log_starts_each_episode_with_its_return() -> None:
    log, transitions = collect_offline_dataset(seed=3, episodes=6, profile="mixed")
    steps = episode_steps(log, state_dim=15, action_dim=4, max_steps=60)
    for each, (begin, end) in zip(log, steps.bounds.tolist(), strict=True):
        assert steps.returns_to_go[begin].item() == pytest.approx(each.return_, abs=1e-6)
        assert steps.returns_to_go[end - 1].item() == pytest.approx(each.transitions[-1].reward)
        assert steps.timesteps[begin:end].tolist() == list(range(end - begin))
    assert steps.actions.tolist() == [step.action for step in transitions]
    assert steps.states.numpy().tolist() == [step.observation.tolist() for step in transitions]


# Windows.


def check_windows(gather: Callable[..., Windows]) -> None:
    steps = episode_steps([episode(4.0, 0, 0, 0, 0, 1.0), episode(7.0, first=3)], **SIZES)
    windows = gather(steps, np.array([[2, 4], [1, 5], [6, 7]]), 4)
    active = [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]
    assert windows.active.int().tolist() == active
    for name, expected in (
        ("timesteps", [[2, 3], [1, 2, 3, 4], [0]]),
        ("returns_to_go", [[1.0, 1.0], [1.0] * 4, [7.0]]),
        ("actions", [[2, 3], [1, 2, 3, 0], [3]]),
    ):
        rows = [r[m].tolist() for r, m in zip(getattr(windows, name), windows.active, strict=True)]
        assert rows == expected, name
    assert windows.states[windows.active][:, 0].tolist() == [2, 3, 1, 2, 3, 4, 3]


def count_from_the_window(*args: Any) -> Windows:
    windows = gather_windows(*args)
    return windows._replace(timesteps=windows.active.cumsum(1) - 1)


def return_of_the_window(*args: Any) -> Windows:
    windows = gather_windows(*args)
    after = windows.returns_to_go[:, -1:]
    return windows._replace(returns_to_go=windows.returns_to_go - after)


def no_padding(*args: Any) -> Windows:
    windows = gather_windows(*args)
    return windows._replace(active=torch.ones_like(windows.active))


def padded_on_the_right(*args: Any) -> Windows:
    return Windows(*(column.flip(1) for column in gather_windows(*args)))


WRONG_WINDOWS = [count_from_the_window, return_of_the_window, no_padding, padded_on_the_right]


def test_a_window_keeps_times_and_returns_and_is_padded_on_the_left() -> None:
    check_windows(gather_windows)


@pytest.mark.parametrize("wrong", WRONG_WINDOWS)
def test_wrong_windows_are_caught(wrong: Callable[..., Windows]) -> None:
    assert rejects(check_windows, wrong)


@pytest.mark.parametrize("context", [1, 3, 8])
def test_cuts_meet_each_step_once_and_stay_within_an_episode(context: int) -> None:
    bounds = np.array([[0, 1], [1, 3], [3, 20]])
    generator = torch.Generator().manual_seed(0)
    firsts = set()
    for _ in range(60):
        cuts = cut_episodes(bounds, context, generator).tolist()
        met = [number for begin, end in cuts for number in range(begin, end)]
        assert sorted(met) == list(range(20))
        for begin, end in cuts:
            assert 1 <= end - begin <= context
            assert any(first <= begin and end <= last for first, last in bounds)
        firsts |= {end - begin for begin, end in cuts if begin == 3}
    assert firsts == set(range(1, context + 1))


def test_windows_are_shuffled() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        cuts = cut_episodes(np.array([[0, 40], [40, 60]]), 2, generator).tolist()
        assert cuts != sorted(cuts)


# The network.


LATER = [("actions", 2), ("returns_to_go", 3), ("states", 3), ("actions", 3), ("states", 4)]
EARLIER = [("returns_to_go", 2), ("states", 2), ("actions", 1), ("states", 0), ("timesteps", 2)]


@torch.no_grad()
def check_causality(model: DecisionTransformer) -> None:
    """Step 2 is predicted from what came before its action, and from all of that."""
    windows = random_windows()
    before = model(windows)[:, 2]
    for name, step in LATER:
        after = model(changed(windows, name, slice(None), step))[:, 2]
        assert torch.allclose(after, before, **SINGLE), (name, step)
    for name, step in EARLIER:
        after = model(changed(windows, name, slice(None), step))[:, 2]
        assert not torch.allclose(after, before, **SINGLE), (name, step)


@torch.no_grad()
def check_padding(model: DecisionTransformer) -> None:
    """More padding, whatever it holds, leaves predictions as they are."""
    bare = model(random_windows())
    for padding in (1, 4):
        logits = model(random_windows(padding=padding))
        assert logits.isfinite().all()
        assert torch.allclose(logits[:, padding:], bare, **SINGLE)


class FromToken(DecisionTransformer):
    """Predicts from another token of the step."""

    token: int

    def forward(self, windows: Windows) -> Tensor:
        tokens = self.norm(self._embed(windows))
        visible = network._visible(windows.active.repeat_interleave(3, dim=1))
        for block in self.blocks:
            tokens = block(tokens, visible)
        logits: Tensor = self.head(tokens[:, self.token :: 3])
        return logits


class FromActions(FromToken):
    token = 2


class FromReturns(FromToken):
    token = 0


class Untimed(DecisionTransformer):
    """Does not read time steps."""

    def forward(self, windows: Windows) -> Tensor:
        return super().forward(windows._replace(timesteps=torch.zeros_like(windows.timesteps)))


class TimedByPosition(DecisionTransformer):
    """Counts time steps from the left end of a row, padding too."""

    def forward(self, windows: Windows) -> Tensor:
        positions = torch.arange(windows.active.shape[1]).expand(windows.active.shape)
        return super().forward(windows._replace(timesteps=positions))


@contextmanager
def replaced(module: Any, name: str, wrong: Any) -> Iterator[None]:
    """Something wrong in the place of what a module holds."""
    right = getattr(module, name)
    setattr(module, name, wrong)
    try:
        yield
    finally:
        setattr(module, name, right)


def everything_active(active: Tensor) -> Tensor:
    """No token is later than another."""
    length = active.shape[1]
    return (active.unsqueeze(1).expand(-1, length, -1) | torch.eye(length).bool()).unsqueeze(1)


def causal_alone(active: Tensor) -> Tensor:
    """Padding is seen."""
    length = active.shape[1]
    return torch.ones(length, length).tril().bool().expand(len(active), 1, -1, -1)


def test_an_action_is_predicted_from_what_came_before_it() -> None:
    check_causality(small_model())


@pytest.mark.parametrize("kind", [FromActions, FromReturns, Untimed, TimedByPosition])
def test_a_network_that_reads_the_wrong_tokens_is_caught(kind: type[DecisionTransformer]) -> None:
    assert rejects(check_causality, small_model(kind))


def test_a_network_that_looks_ahead_is_caught() -> None:
    with replaced(network, "_visible", everything_active):
        assert rejects(check_causality, small_model())
        check_padding(small_model())


def test_padding_changes_nothing() -> None:
    check_padding(small_model())


def test_a_network_that_sees_padding_is_caught() -> None:
    with replaced(network, "_visible", causal_alone):
        assert rejects(check_padding, small_model())
        check_causality(small_model())
    assert rejects(check_padding, small_model(TimedByPosition))


@torch.no_grad()
def test_returns_are_read_in_units_of_their_scale() -> None:
    one, four = (DecisionTransformer(**SIZES, **SMALL, return_scale=s) for s in (1.0, 4.0))
    four.load_state_dict(one.state_dict())
    windows = random_windows()
    larger = windows._replace(returns_to_go=4 * windows.returns_to_go)
    assert torch.equal(four(larger), one(windows))
    assert not torch.allclose(four(windows), one(windows), **SINGLE)
    assert train(epochs=0, return_scale=4.0)[0].return_scale == 4.0


@torch.no_grad()
def test_a_step_is_its_return_state_and_action_each_with_its_time() -> None:
    model, windows = small_model(), random_windows()
    tokens = model._embed(windows).unflatten(1, (-1, 3))  # [B, K, 3, W]
    time = model.embed_time(windows.timesteps)
    returns = (windows.returns_to_go / model.return_scale).unsqueeze(2)
    for place, kind in enumerate(
        (
            model.embed_return(returns),
            model.embed_state(windows.states),
            model.embed_action(windows.actions),
        )
    ):
        assert torch.allclose(tokens[:, :, place], kind + time, **SINGLE)


@torch.no_grad()
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_each_head_attends_to_its_own_part(heads: int) -> None:
    block = DecisionTransformer(**SIZES, width=8, layers=1, heads=heads).blocks[0]
    tokens = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1))
    visible = network._visible(torch.ones(2, 6, dtype=torch.bool))
    query, key, value = block.project_in(tokens).double().chunk(3, dim=2)
    mixed = []
    for part in torch.arange(8).chunk(heads):
        scores = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(len(part))
        scores = scores.masked_fill(~visible[:, 0], -math.inf)
        mixed.append(scores.softmax(dim=2) @ value[..., part])
    expected = block.project_out(torch.cat(mixed, dim=2).float())
    assert torch.allclose(block._attend(tokens, visible), expected, **SINGLE)


# The loss.


def check_loss(loss_of: Callable[[Tensor, Windows], Tensor]) -> None:
    windows = random_windows(2, 2, padding=1)
    windows = windows._replace(actions=torch.tensor([[9, 1, 2], [-1, 0, 3]]))
    logits = torch.zeros(2, 3, 4)
    logits[:, 0] = NAN
    logits[0, 1, 1] = math.log(3)  # p = 3 / 6, where all others are 1 / 4
    logits.requires_grad_()
    loss = loss_of(logits, windows)
    assert loss.item() == pytest.approx((math.log(2) + 3 * math.log(4)) / 4, rel=1e-6)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert (logits.grad[:, 0] == 0).all()
    assert torch.allclose(logits.grad[0, 1], torch.tensor([1.0, -3, 1, 1]) / 24)


def mean_over_padding(logits: Tensor, windows: Windows) -> Tensor:
    shares = windows.active.sum() / windows.active.numel()
    return decision_transformer_loss(logits, windows) * shares


def counts_padding(logits: Tensor, windows: Windows) -> Tensor:
    everywhere = torch.ones_like(windows.active)
    actions = windows.actions.clamp(0, 3)
    return decision_transformer_loss(
        logits.nan_to_num(), windows._replace(active=everywhere, actions=actions)
    )


def next_action(logits: Tensor, windows: Windows) -> Tensor:
    actions = windows.actions.clamp(0, 3).roll(-1, 1)
    return decision_transformer_loss(logits, windows._replace(actions=actions))


def test_the_loss_is_a_mean_over_steps_that_are_no_padding() -> None:
    check_loss(decision_transformer_loss)


@pytest.mark.parametrize("wrong", [mean_over_padding, counts_padding, next_action])
def test_wrong_losses_are_caught(wrong: Callable[[Tensor, Windows], Tensor]) -> None:
    assert rejects(check_loss, wrong)


# Training.


def train(episodes: Any = None, **options: Any) -> tuple[DecisionTransformer, list[float]]:
    log = (
        [episode(0.5, 1.0, -1.0, 2.0, 0.0, 1.0), episode(1.0, 0.0)]
        if episodes is None
        else episodes
    )
    return train_decision_transformer(log, **{"seed": 0, **SIZES, **SMALL, **SHORT, **options})


def weights_of(model: DecisionTransformer) -> list[float]:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def test_training_is_deterministic_and_leaves_torch_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    torch.manual_seed(1)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    model, losses = train()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    torch.manual_seed(2)
    torch.set_num_threads(2 if threads == 1 else 1)
    try:
        again, same = train()
    finally:
        torch.set_num_threads(threads)
    assert (weights_of(model), losses) == (weights_of(again), same)
    assert weights_of(train(seed=1)[0]) != weights_of(model)
    assert capfd.readouterr() == ("", "")


def test_a_whole_number_of_epochs_may_be_a_float() -> None:
    assert train(epochs=2.0)[1] == train(epochs=2)[1]


def test_training_is_single_whatever_torch_takes_for_its_default() -> None:
    log = [episode(*[0.1] * 11), episode(*[0.3] * 6)]  # shares of 17 are not exact
    model, losses = train(log)
    torch.set_default_dtype(torch.float64)
    try:
        again, same = train(log)
        acted = ask(Bandit(), again, greedy=False)
    finally:
        torch.set_default_dtype(torch.float32)
    assert (weights_of(again), same) == (weights_of(model), losses)
    assert acted == ask(Bandit(), model, greedy=False)


def test_without_epochs_a_model_is_only_drawn() -> None:
    model, losses = train(epochs=0)
    assert losses == []
    assert weights_of(model) != weights_of(train()[0])


def test_an_epoch_reports_the_mean_over_all_steps() -> None:
    log = [episode(0.5, 1.0, -1.0, 2.0, 0.0), episode(1.0, 0.0)]
    model, (loss,) = train(log, epochs=1, context_steps=1, batch_size=2, learning_rate=1e-30)
    steps = episode_steps(log, **SIZES)
    windows = gather_windows(steps, np.array([[n, n + 1] for n in range(7)]), 1)
    assert loss == pytest.approx(decision_transformer_loss(model(windows), windows).item())


class Watch:
    """Learns nothing; keeps rates and windows, and calls the number of steps a loss."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.sizes: list[float] = []
        self.windows: list[Any] = []

    def __call__(self, model: Any, optimizer: Any, windows: Windows) -> Tensor:
        self.rates.append(optimizer.param_groups[0]["lr"])
        self.sizes.append(windows.active.sum().item())
        self.windows.append(windows.timesteps[windows.active].tolist())
        return windows.active.sum().double()


def watched(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Watch, list[float]]:
    watch = Watch()
    monkeypatch.setattr(training, "_learn", watch)
    _, losses = train([episode(*[0.0] * 12), episode(*[0.0] * 8)], **options)
    return watch, losses


def test_the_learning_rate_falls_linearly_to_0(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, _ = watched(monkeypatch, epochs=2, context_steps=1, batch_size=5, learning_rate=0.8)
    assert watch.rates == pytest.approx([0.8 * (1 - step / 8) for step in range(8)])


def test_batches_count_by_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, (loss,) = watched(monkeypatch, epochs=1, context_steps=7, batch_size=1)
    assert len(set(watch.sizes)) > 1
    assert loss == pytest.approx(sum(size**2 for size in watch.sizes) / 20)


def test_each_epoch_has_cuts_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, _ = watched(monkeypatch, epochs=6, context_steps=4, batch_size=99)
    assert len(watch.windows) == 6
    assert len({str(sorted(times)) for times in watch.windows}) == 1
    assert len({str(times) for times in watch.windows}) == 6


def test_a_gradient_is_cut_to_a_norm_of_1() -> None:
    model, windows = small_model(), random_windows()
    with torch.no_grad():
        model.head[-1].weight *= 100.0
    decision_transformer_loss(model(windows), windows).backward()  # type: ignore[no-untyped-call]
    steep = torch.cat([p.grad.flatten() for p in model.parameters()])
    before = torch.tensor(weights_of(model), dtype=torch.float64)
    training._learn(model, torch.optim.SGD(model.parameters(), lr=1.0), windows)
    moved = before - torch.tensor(weights_of(model), dtype=torch.float64)
    assert steep.norm() > 5
    assert moved.norm().item() == pytest.approx(1.0, rel=1e-3)
    assert torch.allclose(moved.float(), steep / steep.norm(), atol=1e-4)


def test_one_episode_is_learned_by_heart() -> None:
    log = [episode(0.5, 1.0, -1.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0)]
    model, losses = train(log, epochs=60, context_steps=9, batch_size=1, width=16)
    assert losses[-1] < 0.05 < 1.0 < losses[0]
    windows = gather_windows(episode_steps(log, **SIZES), np.array([[0, 9]]), 12)
    chosen = model(windows).argmax(dim=2)
    assert torch.equal(chosen[windows.active], windows.actions[windows.active])


def test_the_return_that_was_to_come_tells_what_was_done() -> None:
    seen = [0.0, 0.0, 1.0]
    log = [SimpleNamespace(transitions=[Step(seen, a, r)]) for a, r in ((1, 1.0), (2, -1.0))]
    model, _ = train(log, epochs=60)
    steps = episode_steps(log, **SIZES)
    chosen = model(gather_windows(steps, steps.bounds, 4))[:, -1].argmax(dim=1)
    assert chosen.tolist() == [1, 2]


# Acting.


class Script:
    """Pays 1, −2, 0.5, 0, 0, … and ends after as many steps as its seed's parity says."""

    rewards = (1.0, -2.0, 0.5, 0.0, 0.0)

    def reset(self, *, seed: int) -> Any:
        self.length, self.time = (5 if seed % 2 else 3), 0
        return self._seen(), {}

    def step(self, action: int) -> Any:
        assert self.time < self.length, "the episode is over"
        assert action == self.time % 4
        reward, self.time = self.rewards[self.time], self.time + 1
        over = self.time == self.length
        return self._seen(), reward, over, False, {"success": over and self.length == 3}

    def _seen(self) -> np.ndarray:
        return np.array([self.time, 10 * self.time, 1.0], np.float32)


class Recorder:
    """Does t modulo 4 in step t, and keeps what it was shown."""

    state_dim, action_dim, max_steps = SIZES["state_dim"], SIZES["action_dim"], SIZES["max_steps"]

    def __init__(self) -> None:
        self.shown: list[Windows] = []

    def __call__(self, windows: Windows) -> Tensor:
        shown = windows._replace(actions=windows.actions.clone())
        self.shown.append(shown)
        return torch.nn.functional.one_hot(windows.timesteps % 4, 4).float()


def ask(env: Any = None, model: Any = None, **options: Any) -> dict[str, Any]:
    asked = {"target_return": 1.0, "episodes": 3, "seed": 0, "context_steps": 2}
    return evaluate_decision_transformer(env or Script(), model or Recorder(), **asked | options)


def check_acting(play: type[evaluation._Play]) -> None:
    """Of episodes of three and five steps, in windows of three."""
    model = Recorder()
    with replaced(evaluation, "_Play", play):
        metrics = ask(model=model, target_return=3.0, episodes=8, context_steps=3)
    assert len(model.shown) == 5
    for time, windows in enumerate(model.shown):
        times = list(range(max(time - 2, 0), time + 1))
        rows = 8 if time < 3 else metrics["steps"].count(5)
        assert windows.active.tolist() == [[True] * len(times)] * rows
        assert windows.timesteps.tolist() == [times] * rows
        assert windows.states[:, :, 0].tolist() == [times] * rows
        asked = [[3.0, 2.0, 4.0, 3.5, 3.5][t] for t in times]
        assert windows.returns_to_go.tolist() == [asked] * rows
        assert windows.actions[:, :-1].tolist() == [[t % 4 for t in times[:-1]]] * rows
    assert sorted(set(metrics["steps"])) == [3, 5]
    assert metrics["returns"] == [-0.5] * 8
    assert metrics["success_rate"] == metrics["steps"].count(3) / 8
    assert metrics["mean_steps"] == sum(metrics["steps"]) / 8
    assert (metrics["target_return"], metrics["mean_return"]) == (3.0, -0.5)


class Asking(evaluation._Play):
    """Goes on asking for the same."""

    def _record(self, number: int, seen: Any, reward: float) -> None:
        super()._record(number, seen, 0.0)


class AskingForMore(evaluation._Play):
    """Adds what was received."""

    def _record(self, number: int, seen: Any, reward: float) -> None:
        super()._record(number, seen, -reward)


class CountingFromTheWindow(evaluation._Play):
    """Time steps begin at 0 in each window."""

    def windows(self, context_steps: int) -> Windows:
        windows = super().windows(context_steps)
        return windows._replace(timesteps=windows.timesteps - windows.timesteps[:, :1])


class WholePast(evaluation._Play):
    """Shows one step more than the context."""

    def windows(self, context_steps: int) -> Windows:
        return super().windows(context_steps + 1)


class Forgetful(evaluation._Play):
    """Does not show what was done."""

    def windows(self, context_steps: int) -> Windows:
        windows = super().windows(context_steps)
        return windows._replace(actions=torch.zeros_like(windows.actions))


def test_what_was_received_is_no_longer_asked_for() -> None:
    check_acting(evaluation._Play)


@pytest.mark.parametrize(
    "wrong", [Asking, AskingForMore, CountingFromTheWindow, WholePast, Forgetful]
)
def test_wrong_plays_are_caught(wrong: type[evaluation._Play]) -> None:
    assert rejects(check_acting, wrong)


@torch.no_grad()
def alone(model: DecisionTransformer, env: KeyDoorGrid, target: float, context: int) -> float:
    """The return of one episode, played step by step in padded windows."""
    seen, _ = env.reset()
    steps: list[Step] = []
    over, total = False, 0.0
    while not over:
        past = [*steps[1 - context :], Step(seen, 0, 0.0)]
        asked = [target - sum(s.reward for s in steps[:n]) for n in range(len(steps) + 1)]
        empty = context - len(past)
        windows = Windows(
            torch.tensor([[NAN] * empty + asked[-len(past) :]]),
            torch.tensor(
                np.array([[np.full(15, NAN)] * empty + [s.observation for s in past]])
            ).float(),
            torch.tensor([[0] * empty + [s.action for s in past]]),
            torch.tensor([[0] * empty + list(range(len(steps) + 1))[-len(past) :]]),
            torch.tensor([[False] * empty + [True] * len(past)]),
        )
        action = int(model(windows)[0, -1].argmax())
        following, reward, terminated, truncated, _ = env.step(action)
        steps.append(Step(seen, action, reward))
        seen, over, total = following, terminated or truncated, total + reward
    return total


def test_episodes_played_together_equal_episodes_played_alone() -> None:
    log, _ = collect_offline_dataset(seed=0, episodes=12, profile="mixed")
    model, _ = train_decision_transformer(
        log, **{**SIZES, **SMALL, **SHORT, "state_dim": 15, "max_steps": 60}, seed=0
    )
    env = KeyDoorGrid(seed=5, step_limit=9)
    metrics = ask(env, model, target_return=-1.0, episodes=4, context_steps=4)
    seeds = evaluation.draw_seeds(0, 5)[1:]
    returns = [alone(model, KeyDoorGrid(seed=s, step_limit=9), -1.0, 4) for s in seeds]
    assert metrics["returns"] == pytest.approx(returns)
    with pytest.raises(Exception, match="reset"):  # the environment itself did nothing
        _ = env.state
    assert env.reset()[1] == KeyDoorGrid(seed=5).reset()[1]


def test_evaluation_is_deterministic_and_leaves_torch_and_the_model_alone() -> None:
    model, _ = train_decision_transformer(
        collect_offline_dataset(seed=0, episodes=3, profile="random")[0],
        seed=0,
        state_dim=15,
        action_dim=4,
        **SHORT,
        **SMALL,
    )
    before = copy.deepcopy(weights_of(model))
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    first = ask(KeyDoorGrid(), model, greedy=False)
    torch.rand(3)
    assert ask(KeyDoorGrid(), model, greedy=False) == first
    torch.random.set_rng_state(state)
    assert ask(KeyDoorGrid(), model, greedy=False, seed=1) != first
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert weights_of(model) == before


class Bandit:
    """One step; the action is the reward."""

    def reset(self, *, seed: int) -> Any:
        return np.zeros(3, np.float32), {}

    def step(self, action: int) -> Any:
        return np.zeros(3, np.float32), float(action), True, False, {"success": action == 3}


class Mixed(Recorder):
    """Does 1 or 3 with the odds 1 to 3."""

    def __call__(self, windows: Windows) -> Tensor:
        row = torch.tensor([-math.inf, 0.0, -math.inf, math.log(3)])
        return row.expand(*windows.active.shape, 4)


class Tied(Recorder):
    """Finds 1 and 2 as good as each other."""

    def __call__(self, windows: Windows) -> Tensor:
        return torch.tensor([0.0, 1.0, 1.0, 0.0]).expand(*windows.active.shape, 4)


def test_actions_are_the_likeliest_or_drawn() -> None:
    assert ask(Bandit(), Mixed(), episodes=50)["returns"] == [3.0] * 50
    assert ask(Bandit(), Tied(), episodes=3)["returns"] == [1.0] * 3
    drawn = ask(Bandit(), Mixed(), episodes=2000, greedy=False)
    assert set(drawn["returns"]) == {1.0, 3.0}
    assert abs(drawn["success_rate"] - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 2000)


# Refusals.


def with_step(**fields: Any) -> list[Any]:
    good = episode(1.0, 2.0)
    bad = episode(0.0, 0.0, 0.0)
    steps = list(bad.transitions)
    steps[1] = steps[1]._replace(**fields)
    return [good, SimpleNamespace(transitions=steps)]


TRAINING_REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"episodes": []}, "episodes is empty"),
    ({"episodes": [episode(1.0), episode()]}, r"episodes\[1\] has 0 transitions"),
    ({"episodes": [episode(*[0.0] * 13)]}, r"episodes\[0\] has 13 transitions; .* 1 to 12"),
    ({"episodes": with_step(reward=NAN)}, r"episodes\[1\] reward\[1\] is nan"),
    ({"episodes": with_step(action=4)}, r"episodes\[1\] action\[1\] is 4"),
    ({"episodes": with_step(action=-1)}, r"episodes\[1\] action\[1\] is -1"),
    ({"episodes": with_step(action=0.5)}, r"episodes\[1\] action\[0\] is 0.0; .* not a float"),
    ({"episodes": with_step(observation=[0, NAN, 0])}, r"episodes\[1\] observation\[1, 1\] is nan"),
    ({"state_dim": 2}, r"episodes\[0\] observation has shape \(6, 3\)"),
    ({"seed": -1}, "seed is -1"),
    ({"state_dim": 0}, "state_dim is 0"),
    ({"action_dim": 0}, "action_dim is 0"),
    ({"context_steps": 0}, "context_steps is 0"),
    ({"epochs": -1}, "epochs is -1"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"learning_rate": 0.0}, "learning_rate is 0"),
    ({"learning_rate": NAN}, "learning_rate is nan"),
    ({"return_scale": -1.0}, "return_scale is -1"),
    ({"max_steps": 0}, "max_steps is 0"),
    ({"layers": 0}, "layers is 0"),
    ({"heads": 0}, "heads is 0"),
    ({"width": 9}, "width is 9; it must be a multiple of heads, 2"),
]
EVALUATION_REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"target_return": NAN}, "target_return is nan"),
    ({"target_return": math.inf}, "target_return is inf"),
    ({"episodes": 0}, "episodes is 0"),
    ({"seed": -1}, "seed is -1"),
    ({"context_steps": 0}, "context_steps is 0"),
    ({"env": KeyDoorGrid()}, r"env has observations of shape \(15,\); the model reads \(3,\)"),
]


@pytest.mark.parametrize(("options", "says"), TRAINING_REFUSALS)
def test_training_refuses(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        train(**options)


@pytest.mark.parametrize(("options", "says"), EVALUATION_REFUSALS)
def test_evaluation_refuses(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ask(**options)


def test_steps_are_no_episodes() -> None:
    with pytest.raises(TypeError, match=r"episodes\[0\] is a Step without transitions"):
        train(list(episode(1.0, 2.0).transitions))


def test_greedy_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="greedy is 'no'"):
        ask(greedy="no")


def test_an_episode_that_outlasts_the_time_steps_is_refused() -> None:
    model = Recorder()
    model.max_steps = 5
    assert ask(model=model)["returns"] == [-0.5] * 3  # five steps are known
    model.max_steps = 4
    with pytest.raises(ValueError, match=r"env has an episode of more than 4 steps"):
        ask(model=model)
