"""One look for every figure, and what a figure holds, in words that a test can read."""

import io
from typing import Any

from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

__all__ = ["COLORS", "CYCLE", "STYLE", "as_png", "contents"]

# The palette of Okabe and Ito (2008), Color Universal Design: told apart by any eye.
COLORS = {
    "blue": "#0072b2",
    "orange": "#e69f00",
    "green": "#009e73",
    "vermilion": "#d55e00",
    "sky": "#56b4e9",
    "purple": "#cc79a7",
    "yellow": "#f0e442",
    "gray": "#6b6b6b",
}
CYCLE = ("blue", "orange", "green", "vermilion", "purple", "sky", "gray")

STYLE: dict[str, Any] = {
    "axes.prop_cycle": cycler(color=[COLORS[name] for name in CYCLE]),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # ships with matplotlib, and has Cyrillic
    "font.size": 10,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 160,
}


def as_png(figure: Figure) -> bytes:
    """The figure as a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def contents(figure: Figure) -> dict[str, Any]:
    """What the figure shows: of each axes the labels, and how many marks of each kind."""
    return {"axes": [_contents(axes) for axes in figure.axes]}


def _contents(axes: Axes) -> dict[str, Any]:
    scatters = [c for c in axes.collections if isinstance(c, PathCollection)]
    return {
        "title": axes.get_title(loc="left") or axes.get_title(),
        "xlabel": axes.get_xlabel(),
        "ylabel": axes.get_ylabel(),
        "xscale": axes.get_xscale(),
        "yscale": axes.get_yscale(),
        "lines": [len(line.get_xydata()) for line in axes.lines],  # type: ignore[arg-type]
        "bars": [len(container) for container in axes.containers],
        "points": [len(scatter.get_offsets()) for scatter in scatters],  # type: ignore[arg-type]
        "bands": len(axes.collections) - len(scatters),
        "images": len(axes.images),
        "texts": [text.get_text() for text in axes.texts if text.get_text()],
    }
