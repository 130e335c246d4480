"""Mistakes that any environment of a single agent can have, as classes to derive from beside it.

A description completes the sentence "It behaves as if it …".
"""

from collections.abc import Callable
from typing import Any

from properties.alternatives.wrong_environments import Wrong, declaring

HABITS: list[Wrong] = []
habit = declaring(HABITS)


def declare_habits(wrong: Callable[..., Any], environment: type[Any]) -> None:
    """Declare an environment with each of the habits as wrong."""
    for each in HABITS:
        made = type(each.name, (each.environment, environment), {})
        wrong(each.description, report=each.report)(made)


# Steps outside an episode, and resets


@habit("goes on after the end", report="hsahovic/poke-env#211")
class GoesOnAfterTheEnd:
    def step(self, action, *more, **others):
        self._over = False
        return super().step(action, *more, **others)


@habit("begins an episode by itself at a step after the end", report="huggingface/lerobot#4242")
class BeginsByItself:
    def step(self, action, *more, **others):
        if self._state is not None and self._over:
            self.reset()
        return super().step(action, *more, **others)


@habit("needs no first reset")
class BeginsWithoutReset:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.reset()


@habit("keeps the clock running when it is reset")
class ClockKept:
    def reset(self, *, seed=None, options=None, **asked):
        steps = self._steps
        begun = super().reset(seed=seed, options=options, **asked)
        self._steps = steps
        return begun


@habit("has begun another episode by the time that it refuses a reset")
class RefusedResetBegins:
    def reset(self, *, seed=None, options=None, **asked):
        try:
            return super().reset(seed=seed, options=options, **asked)
        except ValueError:
            super().reset(seed=seed)
            raise


@habit("counts a step for an action that it refuses")
class RefusedStepCounts:
    def step(self, action, *more, **others):
        try:
            return super().step(action, *more, **others)
        except ValueError:
            self._steps += 1
            raise


@habit("takes any render mode")
class RenderModeUnchecked:
    def __init__(self, *args, render_mode=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.render_mode = render_mode


# Seeds


@habit("ignores the seed of a reset")
class SeedIgnored:
    def reset(self, *, seed=None, options=None, **asked):
        return super().reset(options=options, **asked)


@habit("ignores the constructor's seed")
class ConstructorsSeedIgnored:
    def __init__(self, *args, seed=None, **kwargs):
        super().__init__(*args, **kwargs)


@habit("comes back to the constructor's seed after a reset with another one")
class ConstructorsSeedDueLater:
    def __init__(self, *args, seed=None, **kwargs):
        super().__init__(*args, **kwargs)
        self._due = seed

    def reset(self, *, seed=None, options=None, **asked):
        if seed is None:
            seed, self._due = self._due, None
        return super().reset(seed=seed, options=options, **asked)


@habit(
    "takes a constant for a seed where none is given",
    report="hill-a/stable-baselines#675, vwxyzjn/cleanrl#238, Farama-Foundation/SuperSuit#89",
)
class ConstantSeed:
    def __init__(self, *args, seed=0, **kwargs):
        super().__init__(*args, seed=seed, **kwargs)


@habit("begins the stream anew at every reset")
class StreamRepeats:
    _last = None

    def reset(self, *, seed=None, options=None, **asked):
        self._last = self._last if seed is None else seed
        return super().reset(seed=self._last, options=options, **asked)


@habit("draws the same with neighbouring seeds")
class SeedHalved:
    def reset(self, *, seed=None, options=None, **asked):
        halved = seed if seed is None else seed // 2
        return super().reset(seed=halved, options=options, **asked)
