"""A plain slicer and a stacker that keep every law, and others that break one, as `FAULTS` says."""

FAULTS: dict[type, str] = {}


def breaks(law: str):
    """Take a wrong one up, with the law that notices it; its docstring completes "It …"."""

    def add(kind):
        FAULTS[kind] = law
        return kind

    return add


class Slicer:
    """The last steps up to each one, after zeros."""

    def slices(self, episodes, size):
        return [
            self.slice(episode, t, size)
            for episode in episodes
            for t in range(len(episode["actions"]))
        ]

    def slice(self, episode, t, size):
        columns = {
            "observations": episode["observations"][:-1],
            "actions": episode["actions"],
            "returns_to_go": self.returns(episode),
            "timesteps": list(range(len(episode["actions"]))),
            "terminals": self.terminals(episode),
            "mask": [True] * len(episode["actions"]),
        }
        return {name: self.cut(values, t, size) for name, values in columns.items()}

    def cut(self, values, t, size):
        found = values[max(0, t + 1 - size) : t + 1]
        return [type(values[0])()] * (size - len(found)) + found

    def returns(self, episode):
        return [float(sum(episode["rewards"][t:])) for t in range(len(episode["rewards"]))]

    def terminals(self, episode):
        return episode["terminations"]


class Stacker:
    """The last frames up to each step, after zeros."""

    def stacks(self, episode, frames):
        seen = episode["observations"]
        return [
            (action, self.stack(seen, t, frames), self.following(seen, t, frames), over)
            for t, (action, over) in enumerate(
                zip(episode["actions"], episode["terminations"], strict=True)
            )
        ]

    def stack(self, seen, t, frames):
        found = seen[max(0, t + 1 - frames) : t + 1]
        return [0.0] * (frames - len(found)) + found

    def following(self, seen, t, frames):
        return self.stack(seen, t + 1, frames)


@breaks("a_slice_ends_with_its_step")
class EndsAStepEarly(Slicer):
    """Ends a slice before its step where there is one before."""

    def slice(self, episode, t, size):
        found = super().slice(episode, t, size)
        return {**found, "actions": self.cut(episode["actions"], max(0, t - 1), size)}


@breaks("a_slice_is_padded_before_its_episode")
class MasksNothing(Slicer):
    """Counts the padding as steps."""

    def slice(self, episode, t, size):
        return {**super().slice(episode, t, size), "mask": [True] * size}


@breaks("a_slice_is_padded_before_its_episode")
class ShorterSlices(Slicer):
    """Does not pad."""

    def cut(self, values, t, size):
        return values[max(0, t + 1 - size) : t + 1]


@breaks("returns_to_go_reach_to_the_end_of_the_episode")
class ReturnsWithoutTheirReward(Slicer):
    """Leaves a step's own reward out of its return to go (takuseno/d3rlpy#401)."""

    def returns(self, episode):
        own = zip(super().returns(episode), episode["rewards"], strict=True)
        return [whole - reward for whole, reward in own]


@breaks("returns_to_go_reach_to_the_end_of_the_episode")
class ReturnsRunOn(Slicer):
    """Sums the rewards of the next episodes, too (kzl/decision-transformer#22)."""

    def slices(self, episodes, size):
        later = [sum(e["rewards"]) for e in episodes]
        self.more = {e["actions"][0]: sum(later[i + 1 :]) for i, e in enumerate(episodes)}
        return super().slices(episodes, size)

    def returns(self, episode):
        return [own + self.more[episode["actions"][0]] for own in super().returns(episode)]


@breaks("timesteps_count_from_the_start_of_the_episode")
class TimestepsOfTheSlice(Slicer):
    """Counts timesteps from the start of the slice."""

    def slice(self, episode, t, size):
        count = min(t + 1, size)
        steps = [0] * (size - count) + list(range(count))
        return {**super().slice(episode, t, size), "timesteps": steps}


@breaks("a_slice_is_terminal_where_it_terminated")
class EveryEndTerminates(Slicer):
    """Marks the last step of each episode."""

    def terminals(self, episode):
        return [False] * (len(episode["actions"]) - 1) + [True]


@breaks("a_stack_holds_the_last_observations")
class FirstRepeated(Stacker):
    """Repeats the first frame in place of zeros."""

    def stack(self, seen, t, frames):
        found = seen[max(0, t + 1 - frames) : t + 1]
        return seen[:1] * (frames - len(found)) + found


@breaks("a_next_stack_is_one_step_further")
class NextStackStands(Stacker):
    """Gives the same stack as the next one."""

    def following(self, seen, t, frames):
        return self.stack(seen, t, frames)
