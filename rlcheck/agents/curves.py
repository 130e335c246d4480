"""Learning curves: their area, and as files."""

import csv
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rlcheck._inputs import refuse_where

__all__ = ["area_under_curve", "write_curve_csv", "write_curve_tensorboard"]

Curve = Sequence[Mapping[str, Any]]


def area_under_curve(curve: Curve, field: str = "success_rate") -> float:
    """Mean height of a curve: the trapezoids' area under it, over the updates that it spans.

    Args:
        curve: rows with `update`, rising, and the field; at least two.
        field: what is measured.

    Returns:
        The mean height, in the units of the field.

    Raises:
        ValueError: there are fewer than two rows, `update` does not rise, or the field is not
            finite somewhere; what training tells of itself is NaN before it begins.
        KeyError: a row lacks the field.
    """
    updates = np.array([row["update"] for row in curve], np.float64)
    if len(updates) < 2:
        raise ValueError(f"curve has {len(updates)} rows; at least two are due")
    if not (np.diff(updates) > 0).all():
        raise ValueError(f"curve's updates are {updates.tolist()}; they must rise")
    heights = np.array([row[field] for row in curve], np.float64)
    refuse_where(field, heights, ~np.isfinite(heights), "finite")
    return float(np.trapezoid(heights, updates) / (updates[-1] - updates[0]))


def write_curve_csv(curve: Curve, path: str | PathLike[str]) -> None:
    """Write a curve as a CSV file, a line for each row; NaN stands as an empty field."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(
            file, fieldnames=list(dict.fromkeys(k for row in curve for k in row))
        )
        writer.writeheader()
        writer.writerows({k: "" if _is_nan(v) else v for k, v in row.items()} for row in curve)


def write_curve_tensorboard(
    curve: Curve, folder: str | PathLike[str], *, name: str = "actor_critic"
) -> None:
    """Write a curve as TensorBoard events: a scalar for each field, at the step `update`."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for row in curve:
            for field, value in row.items():
                if field != "update" and not _is_nan(value):
                    writer.add_scalar(f"{name}/{field}", value, row["update"])


def _is_nan(value: Any) -> bool:
    try:
        return math.isnan(value)
    except TypeError:
        return False
