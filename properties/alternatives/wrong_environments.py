"""How an environment with a mistake is declared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

E = TypeVar("E", bound=type[Any])


@dataclass(frozen=True)
class Wrong:
    """An environment with one mistake; `report` names the public reports that tell of it."""

    environment: type[Any]
    description: str
    report: str | None = None

    @property
    def name(self) -> str:
        return self.environment.__name__


def declaring(into: list[Wrong]) -> Callable[..., Callable[[E], E]]:
    """A decorator of classes that declares each as wrong, in a list.

    It takes a description, which completes the sentence "It behaves as if it …".
    """

    def wrong(description: str, *, report: str | None = None) -> Callable[[E], E]:
        def declare(environment: E) -> E:
            into.append(Wrong(environment, description, report))
            return environment

        return declare

    return wrong
