"""Replay buffers that are wrong on purpose, each as somebody has written it."""

import numpy as np

from rlcheck.agents.replay import ReplayBuffer

WRONG: list[type[ReplayBuffer]] = []


def wrong(buffer):
    """Take a wrong buffer up; its docstring completes "It …"."""
    WRONG.append(buffer)
    return buffer


@wrong
class NextFromFollowingSlot(ReplayBuffer):
    """Reads the next observation from the following slot (DLR-RM/stable-baselines3#934)."""

    def windows(self, ages=None):
        batch = super().windows(ages)
        last = self._last(ages)
        return batch._replace(next_observations=self._observations[(last + 1) % self.capacity])

    def _last(self, ages):
        ages = np.arange(len(self)) if ages is None else np.asarray(ages)
        slots, inside = self._steps((self._written - len(self) + ages) % self.capacity)
        return slots[np.arange(len(slots)), inside.sum(axis=1) - 1]


@wrong
class NextOfTheRunningEpisodeFromFollowingSlot(NextFromFollowingSlot):
    """Reads it from there unless the step terminated (vwxyzjn/cleanrl#460)."""

    def windows(self, ages=None):
        last, right = self._last(ages), ReplayBuffer.windows(self, ages)
        following = self._observations[(last + 1) % self.capacity]
        kept = self._terminated[last] | (last == (self._written - 1) % self.capacity)
        return right._replace(next_observations=np.where(kept, right.next_observations, following))


@wrong
class EmptySlotSampled(ReplayBuffer):
    """Also draws the slot that is written next (huggingface/lerobot#918)."""

    def sample(self, count, rng, *, weights=None):
        if weights is not None or len(self) == self.capacity:
            return super().sample(count, rng, weights=weights)
        self._written += 1
        try:
            return super().sample(count, rng)
        finally:
            self._written -= 1


@wrong
class FullTooEarly(ReplayBuffer):
    """Calls itself full when the last slot comes next (assume-framework/assume#855)."""

    def __len__(self):
        return self.capacity if self._written + 1 >= self.capacity else self._written


@wrong
class RunsOverTheHead(ReplayBuffer):
    """Goes on behind the newest step, into the oldest ones (younggyoseo/FastTD3#6)."""

    def _stops(self, slots):
        return self._terminated[slots] | self._truncated[slots]


@wrong
class RunsOverTheHeadWhenFull(ReplayBuffer):
    """Takes the last slot for the newest step (thu-ml/tianshou#135)."""

    def _stops(self, slots):
        newest = min(self._written, self.capacity) - 1
        return self._terminated[slots] | self._truncated[slots] | (slots == newest)


@wrong
class TailDropped(ReplayBuffer):
    """Draws only windows of all n steps (ray-project/ray#2929)."""

    def sample(self, count, rng, *, weights=None):
        full = np.flatnonzero(self.windows().discounts == self.gamma**self.n_step)
        if not len(full) or weights is not None:
            return super().sample(count, rng, weights=weights)
        return self.windows(rng.choice(full, size=count))


@wrong
class RunsOverEpisodes(ReplayBuffer):
    """Goes on into the next episode."""

    def _stops(self, slots):
        return slots == (self._written - 1) % self.capacity


@wrong
class RunsOverTruncations(ReplayBuffer):
    """Ends a window at terminations alone."""

    def _stops(self, slots):
        return self._terminated[slots] | (slots == (self._written - 1) % self.capacity)


@wrong
class TruncationTerminates(ReplayBuffer):
    """Stores that a truncated episode terminated (takuseno/d3rlpy#18)."""

    def add(self, observation, action, reward, next_observation, terminated, truncated):
        super().add(observation, action, reward, next_observation, terminated or truncated, False)


@wrong
class HeadTerminates(ReplayBuffer):
    """Takes the newest step for the end of the task (HumanCompatibleAI/imitation#335)."""

    def windows(self, ages=None):
        batch = super().windows(ages)
        newest = self._next_observations[(self._written - 1) % self.capacity]
        return batch._replace(terminal=batch.terminal | (batch.next_observations == newest))


@wrong
class SameDiscountForAll(ReplayBuffer):
    """Discounts by γ^n however short the window is."""

    def windows(self, ages=None):
        batch = super().windows(ages)
        return batch._replace(discounts=np.full_like(batch.discounts, self.gamma**self.n_step))


@wrong
class BootstrapsAStepEarly(ReplayBuffer):
    """Bootstraps from the observation of the last step, not from the one after it."""

    def windows(self, ages=None):
        batch = super().windows(ages)
        ages = np.arange(len(self)) if ages is None else np.asarray(ages)
        slots, inside = self._steps((self._written - len(self) + ages) % self.capacity)
        last = slots[np.arange(len(slots)), inside.sum(axis=1) - 1]
        return batch._replace(next_observations=self._observations[last])


@wrong
class FirstStepDecides(ReplayBuffer):
    """Reads from the first step of a window whether it terminated."""

    def windows(self, ages=None):
        batch = super().windows(ages)
        ages = np.arange(len(self)) if ages is None else np.asarray(ages)
        first = (self._written - len(self) + ages) % self.capacity
        return batch._replace(terminal=self._terminated[first])


@wrong
class RewardsUndiscounted(ReplayBuffer):
    """Adds the rewards of a window up without a discount."""

    def windows(self, ages=None):
        discounts, self._powers = self._powers, np.ones_like(self._powers)
        batch = super().windows(ages)
        self._powers = discounts
        return batch._replace(discounts=discounts[self._lengths(ages)])

    def _lengths(self, ages):
        ages = np.arange(len(self)) if ages is None else np.asarray(ages)
        return self._steps((self._written - len(self) + ages) % self.capacity)[1].sum(axis=1)


@wrong
class SlotsForAges(ReplayBuffer):
    """Counts places from the first slot, not from the oldest step."""

    def windows(self, ages=None):
        stored = len(self)
        slots = np.arange(stored) if ages is None else np.asarray(ages)
        return super().windows((slots - (self._written - stored)) % max(stored, 1))


@wrong
class NewestNeverDrawn(ReplayBuffer):
    """Draws any step but the newest."""

    def sample(self, count, rng, *, weights=None):
        if weights is not None or len(self) < 2:
            return super().sample(count, rng, weights=weights)
        return self.windows(rng.integers(len(self) - 1, size=count))


@wrong
class WeightsIgnored(ReplayBuffer):
    """Draws all steps alike, whatever they weigh."""

    def sample(self, count, rng, *, weights=None):
        return super().sample(count, rng)


@wrong
class WeightsBySlot(ReplayBuffer):
    """Reads weights in the order of the slots."""

    def sample(self, count, rng, *, weights=None):
        if weights is not None:
            weights = np.roll(weights, -(self._written - len(self)))
        return super().sample(count, rng, weights=weights)


@wrong
class OwnRandomness(ReplayBuffer):
    """Draws from a generator of its own."""

    def sample(self, count, rng, *, weights=None):
        return super().sample(count, np.random.default_rng(), weights=weights)


@wrong
class ObservationsKept(ReplayBuffer):
    """Keeps the arrays that it was given, which the environment then writes over."""

    def add(self, observation, action, reward, next_observation, terminated, truncated):
        slot = self._written % self.capacity
        super().add(observation, action, reward, next_observation, terminated, truncated)
        self._given = getattr(self, "_given", {}) | {slot: observation}

    def windows(self, ages=None):
        for slot, observation in getattr(self, "_given", {}).items():
            self._observations[slot] = observation
        return super().windows(ages)


@wrong
class RewardsMended(ReplayBuffer):
    """Takes a reward that is not finite for 0."""

    def add(self, observation, action, reward, next_observation, terminated, truncated):
        paid = reward if np.isfinite(reward) else 0.0
        super().add(observation, action, paid, next_observation, terminated, truncated)
