"""How a mistake is declared and found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from rlcheck.catalogue import FUNCTIONS


@dataclass(frozen=True)
class Mistake:
    """A wrong variant of one function.

    `report` names the public reports that it comes from, as owner/repository#number.
    """

    function: str
    name: str
    description: str
    call: Callable[..., Any] = field(repr=False, compare=False)
    report: str | None = None
    of_gradients: bool = False  # its values are right

    @property
    def id(self) -> str:
        return f"{self.function}.{self.name}"


F = TypeVar("F", bound=Callable[..., Any])

_BY_FUNCTION: dict[str, list[Mistake]] = {}


def mistake(function: str, description: str, *, report: str | None = None) -> Callable[[F], F]:
    """Declare the decorated callable as a mistake of `function`.

    `description` completes the sentence "It behaves as if it …" ("bootstraps through a
    terminal state"). The same callable may be declared for several functions.
    """
    if function not in FUNCTIONS:
        raise ValueError(f"{function!r} is no function of rlcheck")

    def declare(call: F) -> F:
        siblings = _BY_FUNCTION.setdefault(function, [])
        if any(m.name == call.__name__ for m in siblings):
            raise ValueError(f"{function} has a mistake named {call.__name__} already")
        of_gradients = ".gradients." in call.__module__
        siblings.append(Mistake(function, call.__name__, description, call, report, of_gradients))
        return call

    return declare


def mistakes_of(function: str, *, gradients: bool = False) -> tuple[Mistake, ...]:
    """The mistakes in one function's values, or in its gradients, in the order of their module.

    Raises:
        ImportError: gradients are asked for, and PyTorch is not installed.
    """
    if gradients and not FUNCTIONS[function].has_twin:
        return ()
    kind = "gradients." if gradients else ""
    import_module(f"rlcheck.mistakes.{kind}{FUNCTIONS[function].module}")
    return tuple(m for m in _BY_FUNCTION.get(function, ()) if m.of_gradients == gradients)
