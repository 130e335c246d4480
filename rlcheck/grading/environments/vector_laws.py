"""Laws of Gymnasium's vectors: each of N environments answers as a single one does."""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from hypothesis import strategies as st

from rlcheck.grading.environments.recording import Moment, Play, assert_same, plays
from rlcheck.grading.laws import law

__all__ = ["N"]

N = 3
MODES = st.sampled_from([AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])


def info_of(info: dict[str, Any], index: int) -> dict[str, Any]:
    """The part of one environment in a vector's info, by the masks."""
    found = {}
    for key, value in info.items():
        if f"_{key}" in info and info[f"_{key}"][index]:
            found[key] = info_of(value, index) if isinstance(value, dict) else value[index]
    return found


def plain(value: Any) -> Any:
    """Arrays as lists and integers as floats, since a vector may give them another type."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return value if isinstance(value, bool) or not isinstance(value, int) else float(value)


def single(environment: Any, action: Any, mode: Any, over: bool) -> tuple[Any, ...]:
    """What one environment of a vector must answer: a step, or a reset in place of one."""
    if over and mode == AutoresetMode.NEXT_STEP:
        shown, info = environment.reset()
        return shown, 0.0, False, False, info
    answer = environment.step(action)
    if mode != AutoresetMode.SAME_STEP or not (answer[2] or answer[3]):
        return tuple(answer)
    shown, info = environment.reset()
    return shown, *answer[1:4], {**info, "final_obs": answer[0], "final_info": answer[4]}


def batch(space: Any, values: list[Any]) -> Any:
    """Values of single spaces as one of a batched space."""
    room: Any = create_empty_array(space, n=len(values))
    return concatenate(space, values, room)


def compare(text: str, vector: Any, answer: tuple[Any, ...], singles: list[Any]) -> None:
    """Each part of a vector's answer is that of a single environment."""
    shown = list(iterate(vector.observation_space, answer[0]))
    for index, alone in enumerate(singles):
        flags = [value[index] for value in answer[1:-1]]
        got = [shown[index], *flags, info_of(answer[-1], index)]
        assert_same(f"{text}, environment {index}", plain(alone), plain(got))


@law(play=plays(20), shift=st.integers(0, 5), mode=MODES, listed=st.booleans())
def a_vector_answers_as_single_environments_do(environments, play, shift, mode, listed):
    """Each of three answers as one alone, with its seed and its actions, across ends.

    A number s seeds them with s, s+1, s+2. What an episode ended in is in `final_obs` and
    `final_info` where the reset is in the same step; a reset of its own step pays 0.
    """
    vector, singles = environments.make_vec(mode), [environments.make() for _ in range(N)]
    seeds = [play.seed + index for index in range(N)]
    answer = vector.reset(seed=seeds if listed else play.seed)
    alone = [e.reset(seed=s) for e, s in zip(singles, seeds, strict=True)]
    compare("the first reset", vector, answer, alone)
    taken = [
        Play(0, tuple(c + shift * i for c in play.codes), play.length).actions(e.action_space)
        for i, e in enumerate(singles)
    ]
    over = np.zeros(N, np.bool_)
    for t, actions in enumerate(zip(*taken, strict=True)):
        if mode == AutoresetMode.DISABLED and over.any():
            begun = vector.reset(options={"reset_mask": over.copy()})
            shown = list(iterate(vector.observation_space, begun[0]))
            for i in np.flatnonzero(over):
                own = singles[i].reset()[0]
                assert_same(f"the masked reset of {i}", [plain(own)], [plain(shown[i])])
        answer = vector.step(batch(vector.single_action_space, list(actions)))
        alone = [single(*a, mode, o) for *a, o in zip(singles, actions, over, strict=True)]
        compare(f"step {t + 1}", vector, answer, alone)
        over = answer[2] | answer[3]


@law(play=plays(20), mode=MODES)
def what_a_vector_returned_stays_as_it_was(environments, play, mode):
    """Observations of a vector that were returned are not changed by later steps."""
    vector = environments.make_vec(mode)
    seen = [Moment.of(*vector.reset(seed=play.seed))]
    for action in play.actions(vector.action_space):
        seen.append(Moment.of(*vector.step(action)))
        if mode == AutoresetMode.DISABLED and (seen[-1].terminated | seen[-1].truncated).any():
            break
    assert_same("observation", [m.observation for m in seen], [m.objects[0] for m in seen])
