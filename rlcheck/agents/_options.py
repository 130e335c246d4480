"""What the learners are told besides numbers: settings, switches, and networks of the caller."""

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from rlcheck.envs.keydoor_grid import KeyDoorGrid

__all__ = ["action_logits", "chosen_settings", "network_of", "switch"]

S = TypeVar("S")


def chosen_settings(settings: S | None, kind: type[S]) -> S:
    """Settings of a kind; None for its defaults.

    Raises:
        TypeError: they are of another kind.
    """
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise TypeError(f"settings is {settings!r}; a {kind.__name__} or None is due")
    return settings


def switch(name: str, value: Any) -> bool:
    """True or False.

    Raises:
        TypeError: it is something else, though it may count as true.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}; True or False is due")
    return bool(value)


def network_of(name: str, value: Any) -> nn.Module:
    """A network of torch.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, nn.Module):
        raise TypeError(f"{name} is {value!r}; a torch.nn.Module is due")
    return value


def action_logits(name: str, network: nn.Module, observations: Tensor) -> Tensor:
    """[N, 4] what a network says of observations [N, D].

    Raises:
        ValueError: it cannot read them, or its answer has another shape.
    """
    try:
        logits: Tensor = network(observations)
    except RuntimeError as error:
        shape = tuple(observations.shape)
        raise ValueError(f"{name} cannot read float32 of shape {shape}: {error}") from error
    due = (len(observations), KeyDoorGrid.action_dim)
    if not isinstance(logits, torch.Tensor) or tuple(logits.shape) != due:
        found = tuple(getattr(logits, "shape", ()))
        raise ValueError(f"{name} gives logits of shape {found}; they must have shape {due}")
    return logits
