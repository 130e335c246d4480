"""The toy language, its exact values, and the learners that are held against them."""

import itertools
from copy import deepcopy
from fractions import Fraction
from operator import mul

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcheck.agents._token_language import (
    ANSWERS,
    END,
    MAX_ANSWER,
    PAD,
    PROMPTS,
    WORDS,
    TokenEpisode,
    answer_reward,
    draw_answers,
    encode,
    token_batch,
)
from rlcheck.agents._token_learners import TokenOfflineSettings, train_token_learners
from rlcheck.agents._token_learning import approach, cloning_loss, critic_loss
from rlcheck.agents._token_networks import (
    TokenCritic,
    TokenPolicy,
    TokenValues,
    decode,
    reweighted,
)
from rlcheck.agents._token_report import evaluate_answers, is_good
from rlcheck.agents._token_solution import expected_rewards, support_values, value_errors
from rlcheck.agents.token_offline import language_offline_experiment, token_text

LOG = draw_answers(seed=0, episodes_per_prompt=12)
BATCH = token_batch(LOG)
SHORT = {"seed": 3, "episodes_per_prompt": 4, "bc_epochs": 2, "iql_epochs": 2}


def drawn(model):
    """A model whose head is drawn too, so that it prefers something."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.head.weight.normal_(generator=generator)
        model.head.bias.normal_(generator=generator)
    return model


POLICY, CRITIC = drawn(TokenPolicy(seed=1)), drawn(TokenCritic(seed=2))


def losses_of_the_critic(values, batch, *, target=None, conservatism=0.1, expectile=0.8):
    target = TokenValues(*(each.detach() for each in target or values))
    return critic_loss(
        values, target, batch, gamma=0.9, expectile=expectile, conservatism=conservatism
    )


def values_with_gradients(batch):
    return TokenValues(*(each.detach().requires_grad_() for each in CRITIC(batch.ids)))


# The language and its log.


def test_the_vocabulary_is_small_and_complete():
    assert 15 <= len(WORDS) == len(set(WORDS)) <= 30
    used = {PAD, END}.union(*(encode(prompt) for prompt in PROMPTS))
    used.update(*(encode(answer.text) for prompt in PROMPTS for answer in ANSWERS[prompt]))
    assert used == set(range(len(WORDS)))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_answers_are_different_and_their_shares_are_a_distribution(prompt):
    answers = ANSWERS[prompt]
    assert sum(answer.share for answer in answers) == pytest.approx(1)
    assert min(answer.share for answer in answers) > 0
    assert len({answer.text for answer in answers}) == len(answers)
    assert all(2 < len(encode(answer.text)) + 1 <= MAX_ANSWER for answer in answers)
    assert answers[0].reward == 1
    assert max(answer.reward for answer in answers[1:]) < 1


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 3, 20])
def test_the_log_holds_a_good_and_a_bad_answer_to_every_prompt(seed, count):
    log = draw_answers(seed=seed, episodes_per_prompt=count)
    for number in range(len(PROMPTS)):
        rewards = [episode.reward for episode in log if episode.prompt == number]
        assert len(rewards) == count
        assert max(rewards) == 1
        assert min(rewards) < 1
    assert all(e.reward == answer_reward(e.prompt, e.tokens) and e.tokens[-1] == END for e in log)


def test_the_log_follows_the_shares():
    log = draw_answers(seed=5, episodes_per_prompt=4000)
    for number, prompt in enumerate(PROMPTS):
        said = [token_text(episode.tokens) for episode in log if episode.prompt == number]
        for answer in ANSWERS[prompt]:
            assert said.count(answer.text) / len(said) == pytest.approx(answer.share, abs=0.035)


def test_good_answers_are_rare_in_the_log_as_a_whole():
    log = draw_answers(seed=5, episodes_per_prompt=200)
    assert np.mean([episode.reward == 1 for episode in log]) < 0.4


def test_token_text_speaks_the_answers():
    for prompt in PROMPTS:
        assert token_text(encode(prompt)) == prompt
    assert token_text((*encode("the cat"), END, PAD, PAD)) == "the cat"
    assert token_text(torch.tensor(encode("the cat"))) == "the cat"
    assert token_text([]) == ""


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ([3, len(WORDS)], ValueError, r"sequence\[1\] is 29"),
        ([-1], ValueError, r"sequence\[0\] is -1"),
        ([1.0], ValueError, r"sequence\[0\] is 1.0"),
        (np.array([[7, 8]]), ValueError, r"sequence has shape \(1, 2\)"),
        ([[7, 8]], ValueError, r"sequence has shape \(1, 2\)"),
        ("the cat", TypeError, "the cat"),
        (None, TypeError, "sequence is None"),
        (5, TypeError, "sequence is 5"),
    ],
)
def test_token_text_refuses(wrong, error, text):
    with pytest.raises(error, match=text):
        token_text(wrong)


def test_an_unknown_word_is_refused_by_name():
    with pytest.raises(ValueError, match="'horse'"):
        encode("the horse")


def test_other_answers_are_worth_nothing():
    good = encode(ANSWERS[PROMPTS[0]][0].text)
    assert answer_reward(0, (*good, END)) == 1
    for other in (good, good[:-1], (*good[:-1], END), (*good, END, END), (END,), ()):
        assert answer_reward(0, other) == 0


def test_an_answer_is_good_with_its_end_token_only():
    for number, prompt in enumerate(PROMPTS):
        good = encode(ANSWERS[prompt][0].text)
        assert is_good(number, (*good, END))
        for other in (good, (*good, PAD), (*good, good[-1]), (*good, END, END), (END,), ()):
            assert not is_good(number, other)
    said = [(*encode(ANSWERS[prompt][0].text), PAD) for prompt in PROMPTS]
    assert evaluate_answers(said)["exact_match"] == 0.0


# Batches and masks.


def test_a_batch_says_where_answers_are_paid_for_and_end():
    episode = TokenEpisode(6, (*encode("the bird can fly"), END), 1.0)
    batch = token_batch([episode, episode], length=10)
    assert batch.ids.tolist() == [[*encode("who can fly the bird can fly"), END, PAD, PAD]]
    assert batch.response_mask.int().tolist() == [[0, 0, 0, 1, 1, 1, 1, 1, 0, 0]]
    assert batch.rewards.tolist() == [[0, 0, 0, 0, 0, 0, 0, 1, 0, 0]]
    assert batch.terminated.int().tolist() == [[0, 0, 0, 0, 0, 0, 0, 1, 0, 0]]
    assert batch.counts.tolist() == [2]


@pytest.mark.parametrize(
    ("episodes", "length", "text"), [([], None, "episodes is empty"), (LOG, 4, "length is 4")]
)
def test_impossible_batches_are_refused(episodes, length, text):
    with pytest.raises(ValueError, match=text):
        token_batch(episodes, length=length)


def predicts_an_answer(batch):
    """[N, L] where the next token belongs to an answer."""
    return torch.nn.functional.pad(batch.response_mask[:, 1:], (0, 1))


def test_prompts_and_padding_carry_no_loss_of_imitation():
    batch = token_batch(LOG, length=16)
    logits = POLICY(batch.ids).detach().requires_grad_()
    cloning_loss(logits, batch).backward()
    assert torch.equal(logits.grad.abs().sum(2) > 0, predicts_an_answer(batch))


def test_prompts_and_padding_carry_no_loss_of_the_critic():
    batch = token_batch(LOG, length=16)
    values = values_with_gradients(batch)
    losses_of_the_critic(values, batch).backward()
    assert torch.equal(values.q.grad.abs().sum(2) > 0, predicts_an_answer(batch))
    assert torch.equal(values.v.grad.abs() > 0, predicts_an_answer(batch))


def test_padding_changes_nothing():
    wide = token_batch(LOG, length=19)
    plain, padded = cloning_loss(POLICY(BATCH.ids), BATCH), cloning_loss(POLICY(wide.ids), wide)
    torch.testing.assert_close(plain, padded)
    narrow = losses_of_the_critic(CRITIC(BATCH.ids), BATCH)
    torch.testing.assert_close(narrow, losses_of_the_critic(CRITIC(wide.ids), wide))


def test_what_stands_in_the_padding_changes_nothing():
    wide = token_batch(LOG, length=19)
    ended = wide.terminated.cumsum(1) > 0
    noise = wide._replace(ids=torch.where(ended & ~wide.terminated, encode("cat")[0], wide.ids))
    assert not torch.equal(noise.ids, wide.ids)
    torch.testing.assert_close(
        cloning_loss(POLICY(noise.ids), noise), cloning_loss(POLICY(wide.ids), wide)
    )
    torch.testing.assert_close(
        losses_of_the_critic(CRITIC(noise.ids), noise), losses_of_the_critic(CRITIC(wide.ids), wide)
    )


def test_a_row_counts_as_often_as_the_log_has_it():
    log = [episode for episode in LOG if episode.prompt in (0, 3)]
    rows, batch = [token_batch([episode]) for episode in log], token_batch(log)
    assert batch.counts.max() > 1
    lengths = torch.tensor([float(len(episode.tokens)) for episode in log])
    with torch.no_grad():
        imitation = torch.stack([cloning_loss(POLICY(row.ids), row) for row in rows])
        critic = torch.stack([losses_of_the_critic(CRITIC(row.ids), row) for row in rows])
        for terms, whole in (
            (imitation, cloning_loss(POLICY(batch.ids), batch)),
            (critic, losses_of_the_critic(CRITIC(batch.ids), batch)),
        ):
            torch.testing.assert_close((terms * lengths).sum() / lengths.sum(), whole)


def test_models_are_causal():
    ids = BATCH.ids.clone()
    ids[:, 6:] = encode("cat")[0]
    for read in (POLICY, lambda x: CRITIC(x).q, lambda x: CRITIC(x).v):
        torch.testing.assert_close(read(ids)[:, :6], read(BATCH.ids)[:, :6])
        assert not torch.allclose(read(ids)[:, 6:], read(BATCH.ids)[:, 6:])


# Targets of the critic.


def test_the_critics_loss_is_the_formula():
    batch, values = BATCH, TokenValues(*(each.detach() for each in CRITIC(BATCH.ids)))
    target = TokenValues(values.q + 0.3, values.v - 0.2)
    terms, weights = [], []
    for n, t in zip(*np.nonzero(batch.response_mask.numpy()), strict=True):
        token, q = int(batch.ids[n, t]), values.q[n, t - 1].double()
        follows = 0.0 if token == END else 0.9 * float(target.v[n, t])
        error = float(q[token]) - float(batch.rewards[n, t]) - follows
        shortfall = float(target.q[n, t - 1, token]) - float(values.v[n, t - 1])
        slope = 0.2 if shortfall < 0 else 0.8
        excess = float(q.logsumexp(0) - q[token])
        terms.append(error**2 + slope * shortfall**2 + 0.1 * excess)
        weights.append(float(batch.counts[n]))
    got = losses_of_the_critic(values, batch, target=target)
    assert float(got) == pytest.approx(np.average(terms, weights=weights), rel=1e-5)


def test_ends_do_not_bootstrap():
    values = CRITIC(BATCH.ids)
    beyond = BATCH.terminated.cumsum(1) > 0
    changed = TokenValues(values.q, torch.where(beyond, 7.0, values.v))
    args = {"target": changed}
    assert losses_of_the_critic(values, BATCH, **args) == losses_of_the_critic(values, BATCH)
    through = BATCH._replace(terminated=torch.zeros_like(BATCH.terminated))
    assert losses_of_the_critic(values, through, **args) != losses_of_the_critic(values, through)


def test_tokens_within_an_answer_bootstrap():
    values = CRITIC(BATCH.ids)
    within = BATCH.response_mask & ~BATCH.terminated
    changed = TokenValues(values.q, torch.where(within, 7.0, values.v))
    other = losses_of_the_critic(values, BATCH, target=changed)
    assert other > losses_of_the_critic(values, BATCH) + 1


def test_targets_are_constants():
    values = values_with_gradients(BATCH)
    target = values_with_gradients(BATCH)
    loss = critic_loss(values, target, BATCH, gamma=0.9, expectile=0.8, conservatism=0.1)
    loss.backward()
    assert target.q.grad is None
    assert target.v.grad is None
    assert values.q.grad.any()
    assert values.v.grad.any()


def test_the_target_approaches_the_critic():
    target = deepcopy(CRITIC)
    with torch.no_grad():
        target.head.bias += 1
    approach(target, CRITIC, rate=0.25)
    torch.testing.assert_close(target.head.bias, CRITIC.head.bias + 0.75)


# Decoding.


def test_without_advantages_the_policy_is_the_imitation():
    for max_weight in (0.5, 100.0):
        twin = reweighted(POLICY, CRITIC, beta=0.0, max_weight=max_weight)
        assert decode(twin) == decode(POLICY)
        assert decode(twin, sample_seed=4) == decode(POLICY, sample_seed=4)


def test_reweighting_is_the_formula():
    scores = reweighted(POLICY, CRITIC, beta=2.0, max_weight=5.0)(BATCH.ids).double().softmax(-1)
    values, policy = CRITIC(BATCH.ids), POLICY(BATCH.ids).double().softmax(-1)
    weights = (2 * (values.q - values.v[..., None]).double()).exp().clamp(max=5)
    exact = policy * weights
    torch.testing.assert_close(scores, exact / exact.sum(-1, keepdim=True), rtol=1e-4, atol=1e-7)


def test_decoding_stops_at_the_first_end_or_gives_up():
    def says(token):
        return lambda ids: (
            torch.nn.functional.one_hot(torch.full_like(ids, token), len(WORDS)) * 1.0
        )

    assert decode(says(END)) == [(END,)] * len(PROMPTS)
    cat = encode("cat")[0]
    assert decode(says(cat)) == [(cat,) * MAX_ANSWER] * len(PROMPTS)


def memory_of_good_answers(ids):
    """Logits of a policy that gives the good answer, read from the whole sequence so far."""
    logits = torch.zeros(*ids.shape, len(WORDS))
    for prompt in PROMPTS:
        sequence = (*encode(prompt), *encode(ANSWERS[prompt][0].text), END)
        for n, t in itertools.product(range(ids.shape[0]), range(len(sequence) - 1)):
            if t < ids.shape[1] and tuple(ids[n, : t + 1].tolist()) == sequence[: t + 1]:
                logits[n, t, sequence[t + 1]] += 50
    return logits


def test_decoding_reads_each_prompt_from_its_own_last_word():
    good = [(*encode(ANSWERS[prompt][0].text), END) for prompt in PROMPTS]
    # "what does the cat eat" and "… dog eat" share their first words, but nothing after them.
    assert decode(memory_of_good_answers) == good


# Exact values.


def test_the_policy_of_good_answers_earns_everything():
    np.testing.assert_allclose(expected_rewards(memory_of_good_answers), 1, atol=1e-6)


def test_expected_rewards_are_those_of_samples():
    trained = train_token_learners(BATCH, seed=0, bc_epochs=6, iql_epochs=0)
    scores = trained.policy
    draws = [decode(scores, sample_seed=seed) for seed in range(100)]
    paid = np.array([[answer_reward(n, a) for n, a in enumerate(draw)] for draw in draws])
    assert abs(paid.mean() - expected_rewards(scores).mean()) < 4 * 0.5 / np.sqrt(paid.size)
    assert paid.mean() > 0.1


def subtrees(log, prompt, before):
    return [e for e in log if e.prompt == prompt and e.tokens[: len(before)] == before]


def exact_value(log, prompt, before, gamma, choose):
    """V by its definition: the subtree is looked at as a whole, and nothing is remembered."""
    below = subtrees(log, prompt, before)
    words = sorted({episode.tokens[len(before)] for episode in below})
    worth, often = [], []
    for word in words:
        after = (*before, word)
        here = subtrees(below, prompt, after)
        often.append(len(here))
        if word == END:
            worth.append(Fraction(here[0].reward))
        else:
            worth.append(gamma * exact_value(log, prompt, after, gamma, choose))
    return choose(worth, often)


@pytest.mark.parametrize(
    ("expectile", "choose"),
    [
        (1.0, lambda worth, often: max(worth)),
        (
            0.5,
            lambda worth, often: sum(map(mul, worth, often)) / sum(often),
        ),
    ],
)
def test_values_on_the_log_are_the_best_and_the_mean(expectile, choose):
    gamma = Fraction(3, 4)
    values = support_values(LOG, gamma=0.75, expectile=expectile)
    for (prompt, before), state in values.items():
        exact = exact_value(LOG, prompt, before, gamma, choose)
        assert state.v == pytest.approx(float(exact), abs=1e-12)


@settings(max_examples=30)
@given(st.floats(0.05, 0.95), st.floats(0, 1))
def test_values_on_the_log_solve_the_expectile_equation(expectile, gamma):
    values = support_values(LOG, gamma=gamma, expectile=expectile)
    for (prompt, before), state in values.items():
        pull = 0.0
        for token, q in state.q.items():
            after = (*before, token)
            follows = subtrees(LOG, prompt, after)
            exact = follows[0].reward if token == END else gamma * values[prompt, after].v
            assert q == pytest.approx(exact, abs=1e-12)
            side = 1 - expectile if q < state.v else expectile
            pull += len(follows) * side * (q - state.v)
        assert pull == pytest.approx(0, abs=1e-10)


def test_the_optimum_of_every_prompt_is_its_good_answer():
    values = support_values(LOG, gamma=0.9, expectile=1.0)
    for number, prompt in enumerate(PROMPTS):
        words = len(encode(ANSWERS[prompt][0].text))
        assert values[number, ()].v == pytest.approx(0.9**words)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gamma": 1.5, "expectile": 0.9}, "gamma is 1.5"),
        ({"gamma": 0.9, "expectile": 0.0}, "expectile is 0.0"),
        ({"gamma": 0.9, "expectile": 1.1}, "expectile is 1.1"),
    ],
)
def test_impossible_values_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        support_values(LOG, **options)


def test_errors_of_a_critic_are_its_distance_from_the_exact_values():
    exact = support_values(LOG, gamma=0.9, expectile=0.7)
    still = value_errors(TokenCritic(seed=0), LOG, gamma=0.9, expectile=0.7)  # it says 0
    np.testing.assert_allclose(
        np.sort(-still.v), np.sort([state.v for state in exact.values()]), atol=1e-12
    )
    np.testing.assert_allclose(
        np.sort(-still.q),
        np.sort([q for state in exact.values() for q in state.q.values()]),
        atol=1e-12,
    )


def test_errors_are_read_where_the_critic_says_them():
    answers = list(dict.fromkeys(LOG))
    values, exact = CRITIC(BATCH.ids), support_values(LOG, gamma=0.9, expectile=0.7)
    learned = {}
    for n, (prompt, tokens, _) in enumerate(answers):
        start = BATCH.response_mask[n].nonzero()[0].item()
        for t in range(len(tokens)):
            learned[prompt, tokens[:t]] = (
                values.v[n, start + t - 1].item() - exact[prompt, tokens[:t]].v
            )
    errors = value_errors(CRITIC, LOG, gamma=0.9, expectile=0.7)
    np.testing.assert_allclose(np.sort(errors.v), np.sort(list(learned.values())), atol=1e-5)


# Training and the experiment.


@pytest.fixture(scope="module")
def result():
    return language_offline_experiment(**SHORT)


def test_the_result_has_the_keys_of_the_contract(result):
    assert list(result) == ["dataset", "evaluation", "exact"]
    assert list(result["evaluation"]) == ["behavior cloning", "ILQL"]
    for method in result["evaluation"].values():
        assert list(method) == ["mean_reward", "exact_match", "sequences", "rewards"]
        assert len(method["sequences"]) == len(method["rewards"]) == len(PROMPTS)
        assert method["mean_reward"] == pytest.approx(np.mean(method["rewards"]))
        said = [token_text(sequence) for sequence in method["sequences"]]
        good = [ANSWERS[prompt][0].text for prompt in PROMPTS]
        assert method["exact_match"] == np.mean([s == g for s, g in zip(said, good, strict=True)])


def test_the_dataset_describes_the_log(result):
    dataset = result["dataset"]
    assert dataset["prompts"] == list(PROMPTS)
    assert len(dataset["sequences"]) == len(dataset["rewards"]) == 4 * len(PROMPTS)
    good = np.array(dataset["rewards"]).reshape(len(PROMPTS), 4) == 1
    np.testing.assert_allclose(dataset["good_share"], good.mean(1))
    np.testing.assert_allclose(np.add(dataset["good_share"], dataset["bad_share"]), 1)
    assert result["exact"]["optimal_rewards"] == [1.0] * len(PROMPTS)


def test_one_seed_gives_one_result_whatever_torch_was_told(result):
    threads = torch.get_num_threads()
    torch.manual_seed(99)
    before = torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        assert language_offline_experiment(**SHORT) == result
        assert torch.get_num_threads() == 2
        assert torch.equal(torch.get_rng_state(), before)
    finally:
        torch.set_num_threads(threads)


def test_training_is_single_whatever_torch_takes_for_its_default(result):
    torch.set_default_dtype(torch.float64)
    try:
        assert language_offline_experiment(**SHORT) == result
    finally:
        torch.set_default_dtype(torch.float32)


def test_settings_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="settings is 3; a TokenOfflineSettings"):
        language_offline_experiment(**SHORT, settings=3)


def test_another_seed_gives_another_result(result):
    assert language_offline_experiment(**SHORT | {"seed": 4})["exact"] != result["exact"]


def test_samples_follow_their_seed():
    draws = [language_offline_experiment(**SHORT, sample_seed=s)["evaluation"] for s in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


def test_training_is_silent(capfd):
    language_offline_experiment(**SHORT)
    assert capfd.readouterr() == ("", "")


def test_untrained_learners_are_uniform_and_know_nothing():
    learners = train_token_learners(BATCH, seed=0, bc_epochs=0, iql_epochs=0)
    assert not learners.policy(BATCH.ids).any()
    assert not learners.critic(BATCH.ids).v.any()


def test_weights_are_drawn_from_the_seed():
    first, again, other = (
        train_token_learners(BATCH, seed=seed, bc_epochs=0, iql_epochs=0) for seed in (0, 0, 1)
    )
    weights = [
        learner.embedding.weight
        for learners in (first, other)
        for learner in (learners.policy, learners.critic)
    ]
    assert all(not torch.equal(a, b) for a, b in itertools.combinations(weights, 2))
    assert torch.equal(first.policy.embedding.weight, again.policy.embedding.weight)


def test_training_learns_the_log():
    learners = train_token_learners(BATCH, seed=0, bc_epochs=25, iql_epochs=35)
    log = support_values(LOG, gamma=1.0, expectile=0.5)
    earned = expected_rewards(learners.policy)
    np.testing.assert_allclose(earned, [log[n, ()].v for n in range(len(PROMPTS))], atol=0.1)
    options = learners.settings
    errors = value_errors(learners.critic, LOG, gamma=options.gamma, expectile=options.expectile)
    assert np.abs(errors.q).mean() < 0.03
    assert expected_rewards(learners.improved).mean() > earned.mean() + 0.3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("episodes_per_prompt", 1),
        ("bc_epochs", 1.5),
        ("iql_epochs", -1),
        ("sample_seed", -2),
    ],
)
def test_impossible_experiments_are_refused_by_name_and_value(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        language_offline_experiment(**SHORT | {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", 1.1),
        ("expectile", 1.0),
        ("beta", -1.0),
        ("max_weight", 0.0),
        ("learning_rate", 0.0),
        ("target_rate", 0.0),
        ("conservatism", -0.1),
        ("updates_per_epoch", 0),
        ("hidden_size", 0),
    ],
)
def test_impossible_settings_are_refused_by_name_and_value(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        TokenOfflineSettings(**{name: value})
