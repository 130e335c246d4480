"""Laws of datasets of episodes; `datasets` makes the kind that is judged."""

from dataclasses import replace

from hypothesis import strategies as st

from rlcheck.grading.buffers.datasets import Datasets, compared, episodes_of, read_whole, same
from rlcheck.grading.buffers.steps import Case, cases
from rlcheck.grading.calls import identical
from rlcheck.grading.compare import Mismatch
from rlcheck.grading.findings import NotApplicable
from rlcheck.grading.laws import law

__all__ = ["OF_SAMPLES"]

OF_SAMPLES = (
    "drawn_episodes_are_those_that_were_written",
    "drawn_episodes_are_different_ones",
    "every_episode_can_be_drawn",
    "one_seed_draws_the_same_episodes",
)
SEEDS = 40  # of four episodes one is drawn by none of them once in 10^5 at most


@law(case=cases(goes_on=False))
def every_episode_is_read_in_its_place(datasets: Datasets, case: Case) -> None:
    """As many episodes are read as were written, in the same order, by their actions."""
    made, episodes = datasets.written(case)
    read = made.read()
    same("actions", [one["actions"] for one in episodes], [one["actions"] for one in read])


@law(case=cases(goes_on=False))
def t_steps_have_t_plus_1_observations(datasets: Datasets, case: Case) -> None:
    """An episode of T steps is read with T + 1 observations, and T entries of everything else."""
    made, episodes = datasets.written(case)
    for one, other in zip(episodes, made.read(), strict=False):
        lengths = {name: len(values) for name, values in one.items()}
        same("lengths", lengths, {name: len(other[name]) for name in lengths})


@law(case=cases(goes_on=False))
def observations_before_an_action_are_read_as_written(datasets: Datasets, case: Case) -> None:
    """The first T observations of an episode are those that its actions were chosen at."""
    made, episodes = datasets.written(case)
    for index, (one, other) in enumerate(zip(episodes, made.read(), strict=False)):
        steps = len(one["actions"])
        where = f"observations of episode {index}"
        same(where, one["observations"][:steps], other["observations"][:steps])


@law(case=cases(goes_on=False))
def the_final_observation_is_kept(datasets: Datasets, case: Case) -> None:
    """What an episode ended in is read as its last observation, at a truncation too."""
    made, episodes = datasets.written(case)
    for index, (one, other) in enumerate(zip(episodes, made.read(), strict=False)):
        where = f"the final observation of episode {index}"
        same(where, one["observations"][-1], other["observations"][-1])


@law(case=cases(goes_on=False))
def rewards_are_read_as_written(datasets: Datasets, case: Case) -> None:
    """Rewards come back, each in its place."""
    compared(datasets, case, "rewards")


@law(case=cases(goes_on=False), cents=st.integers(-999, 999))
def rewards_keep_their_digits(datasets: Datasets, case: Case, cents: int) -> None:
    """A reward of two decimals comes back in float64, as it was."""
    made, episodes = datasets.make(), episodes_of(case)
    for episode in episodes:
        episode["rewards"] = [reward + cents / 100 for reward in episode["rewards"]]
    made.write(episodes)
    for one, other in zip(episodes, made.read(), strict=False):
        same("rewards", one["rewards"], other["rewards"])


@law(case=cases(goes_on=False))
def flags_are_read_as_written(datasets: Datasets, case: Case) -> None:
    """Terminations and truncations come back as booleans, each at its step."""
    compared(datasets, case, "terminations", "truncations")


@law(case=cases(endings=("both", "terminated"), goes_on=False))
def both_flags_at_once_are_kept(datasets: Datasets, case: Case) -> None:
    """A step that terminated and was truncated keeps either flag."""
    if all(ending != "both" for _, ending in case.episodes):
        raise NotApplicable("no step has both flags")
    compared(datasets, case, "terminations", "truncations")


@law(case=cases(endings=("going on", "terminated"), goes_on=False))
def an_episode_without_a_flag_keeps_none(datasets: Datasets, case: Case) -> None:
    """An episode that was cut by the log, without either flag, is read so, and stays apart."""
    if all(ending != "going on" for _, ending in case.episodes):
        raise NotApplicable("every episode has a flag")
    compared(datasets, case, "terminations", "truncations", "actions")


@law(case=cases(endings=("terminated",), goes_on=False))
def a_single_episode_is_read(datasets: Datasets, case: Case) -> None:
    """A dataset of one episode is read with all that its steps hold."""
    read_whole(datasets, replace(case, episodes=case.episodes[:1]))


@law(case=cases(shortest=1, longest=1, endings=("terminated",), goes_on=False))
def an_episode_of_one_step_is_read_as_one(datasets: Datasets, case: Case) -> None:
    """Terminated episodes of one step are read as as many, with actions, rewards and flags."""
    read_whole(datasets, case)


@law(case=cases(shortest=1, longest=1, endings=("truncated",), goes_on=False))
def a_truncated_episode_of_one_step_is_read_as_one(datasets: Datasets, case: Case) -> None:
    """So are truncated ones."""
    read_whole(datasets, case)


@law(case=cases(goes_on=False), cut=st.integers(1, 3))
def episodes_that_are_added_follow_the_others(datasets: Datasets, case: Case, cut: int) -> None:
    """Episodes that are written in two parts are read as if they had been written in one."""
    at_once, episodes = datasets.written(case)
    made = datasets.make()
    for part in (episodes[:cut], episodes[cut:]):
        if part:
            made.write(part)
    same("episodes", at_once.read(), made.read())


@law(case=cases(goes_on=False))
def what_is_read_twice_is_the_same(datasets: Datasets, case: Case) -> None:
    """A second reading gives the same episodes, and neither changes the other."""
    made, _ = datasets.written(case)
    first = made.read()
    same("episodes", first, made.read())


@law(case=cases(goes_on=False))
def steps_are_counted(datasets: Datasets, case: Case) -> None:
    """The number of steps of a dataset is that of all its episodes, after more are added, too."""
    made, episodes = datasets.written(case)
    if not hasattr(made, "steps"):
        raise NotApplicable("it counts no steps")
    count = sum(len(episode["actions"]) for episode in episodes)
    same("the number of steps", count, made.steps())
    made.write(episodes[:1])
    same("the number of steps", count + len(episodes[0]["actions"]), made.steps())


@law(case=cases(goes_on=False), seed=st.integers(0, 1000))
def drawn_episodes_are_those_that_were_written(datasets: Datasets, case: Case, seed: int) -> None:
    """An episode that is drawn is one of those that are read, whole."""
    made, episodes = datasets.written(case)
    read = made.read()
    for episode in made.sample(len(episodes), seed):
        if not any(identical(episode, one) for one in read):
            raise Mismatch("a drawn episode", expected=read, got=episode)


@law(case=cases(goes_on=False), seed=st.integers(0, 1000))
def drawn_episodes_are_different_ones(datasets: Datasets, case: Case, seed: int) -> None:
    """As many as there are, are drawn once each."""
    made, episodes = datasets.written(case)
    drawn = [episode["actions"] for episode in made.sample(len(episodes), seed)]
    same("actions", sorted(episode["actions"] for episode in episodes), sorted(drawn))


@law(case=cases(goes_on=False))
def every_episode_can_be_drawn(datasets: Datasets, case: Case) -> None:
    """Each episode is drawn alone by one of 40 seeds."""
    made, episodes = datasets.written(case)
    drawn = []
    for seed in range(SEEDS):
        drawn += [episode["actions"] for episode in made.sample(1, seed)]
    for episode in episodes:
        if episode["actions"] not in drawn:
            raise Mismatch("an episode", expected="drawn by a seed", got=episode)


@law(case=cases(goes_on=False), seed=st.integers(0, 1000))
def one_seed_draws_the_same_episodes(datasets: Datasets, case: Case, seed: int) -> None:
    """The same episodes and the same seed give the same ones, in the same order."""
    first, again = (datasets.written(case)[0].sample(2, seed) for _ in range(2))
    same("drawn episodes", first, again)
