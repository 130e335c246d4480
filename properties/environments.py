"""What the laws of the environments share."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from .refusals import Refusal


class Answer(NamedTuple):
    """What a step answers."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    def informing(self, **changes: Any) -> "Answer":
        """The same with other fields in its info."""
        return self._replace(info=self.info | changes)


def seeds() -> st.SearchStrategy[int]:
    """Seeds of a random generator."""
    return st.integers(0, 2**32 - 1)


def assert_refused(environment: Any, refusal: Refusal) -> None:
    """The call raises an error that names the argument and its value."""
    method, *arguments = refusal.args
    try:
        answer = getattr(environment, method)(*arguments, **refusal.kwargs)
    except (ValueError, TypeError) as error:
        said = str(error)
    else:
        raise AssertionError(f"{refusal} is not refused; the answer is {answer}")
    assert refusal.says in said
