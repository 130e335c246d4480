"""What the caller says of a dump, for no dump holds it."""

from collections.abc import Callable, Collection, Mapping
from numbers import Integral
from typing import Any, TypedDict

from rlcheck._inputs import integer, scalar
from rlcheck.transcripts._sample import listed, plain, text

Version = int | float | str


class Options(TypedDict, total=False):
    """The options of the converters."""

    # Of the weights that sampled, or {turn: version}; it goes before what the dump says.
    policy_version: Version | Mapping[Any, Version] | None
    learner_version: float | None  # of the weights that learn from the rollout
    max_staleness: float | None  # by which a version may lag behind the learner's
    # All that stop the generation, or the one that does; else the ids tell no end.
    eos_token_ids: Collection[int] | int | None
    pad_token_id: int | None  # fills the tail where the dump has no mask of its padding


class TRLOptions(Options, total=False):
    """The options of the converters for TRL."""

    reward_columns: Collection[str]  # the fields whose sum is the reward: "reward" alone


class Told:
    """The options, checked."""

    def __init__(
        self,
        environment_version: Any,
        *,
        policy_version: Any = None,
        learner_version: Any = None,
        max_staleness: Any = None,
        eos_token_ids: Any = (),
        pad_token_id: Any = None,
        reward_columns: Any = ("reward",),
    ) -> None:
        self.environment_version = text("environment_version", environment_version)
        self.policy_version = _unless_none(_versions, "policy_version", policy_version)
        self.learner_version = _unless_none(scalar, "learner_version", learner_version)
        self.max_staleness = _unless_none(scalar, "max_staleness", max_staleness)
        self.eos = _eos("eos_token_ids", eos_token_ids)
        self.pad = _unless_none(_token_id, "pad_token_id", pad_token_id)
        self.reward_columns = listed("reward_columns", reward_columns, text)


def checked(function: str, kind: Any, environment_version: Any, options: Mapping[str, Any]) -> Told:
    """The options of a public function, which is named where one of them is not of this kind."""
    known = sorted(kind.__optional_keys__)
    for name in options:
        if name not in known:
            raise TypeError(
                f"{function}() got an unexpected keyword argument {name!r}; its options are "
                f"{', '.join(known)}"
            )
    return Told(environment_version, **options)


def version(name: str, value: Any) -> Version:
    """A version of the weights: a finite number or a non-empty text."""
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value}; a number or a text is due")
    if isinstance(value, str):
        return text(name, value)
    number = scalar(name, value)
    return int(number) if number == int(number) else number


def _versions(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return version(name, value)
    return {turn: version(f"{name}[{turn!r}]", entry) for turn, entry in value.items()}


def _eos(name: str, value: Any) -> list[int]:
    """A list of token ids, or one, as configurations of the generation have it."""
    one = plain(value)
    if isinstance(one, Integral) and not isinstance(one, bool):
        return [_token_id(name, one)]
    return [] if value is None else listed(name, value, _token_id)


def _token_id(name: str, value: Any) -> int:
    return integer(name, value, minimum=0)


def _unless_none(reader: Callable[[str, Any], Any], name: str, value: Any) -> Any:
    return None if value is None else reader(name, value)
