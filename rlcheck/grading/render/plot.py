"""Small plots as inline SVG: what was expected, and what came."""

import math
from collections.abc import Callable, Sequence

from rlcheck.grading.report import LawReport

__all__ = ["plot"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 132, 52, 8, 10, 20
MOST_BARS = 24
VISIBLE = 0.01  # of the height; a smaller difference is read and not seen

Values = Sequence[float | None]


def plot(law: LawReport, describe: Callable[[str], str]) -> str:
    """An SVG of the two vectors, bars for probabilities; "" where looking shows nothing.

    `describe` gives the texts "plot_lines" and "plot_bars" for those who do not see it.
    """
    expected, got = law.expected_values, law.got_values
    if not expected or not got or max(len(expected), len(got)) < 2:
        return ""
    numbers = [value for value in [*expected, *got] if value is not None]
    if {*numbers} <= {0.0, 1.0}:  # flags are read
        return ""
    bars = _is_distribution(expected) and len(expected) <= MOST_BARS
    low, high = min([*numbers, 0.0] if bars else numbers, default=0.0), max(numbers, default=0.0)
    if not 0 < high - low < math.inf or not _differ(expected, got, VISIBLE * (high - low)):
        return ""
    scale = _Scale(low, high, max(len(expected), len(got)))
    draw = _bars if bars else _lines
    marks = draw(expected, scale, "e") + draw(got, scale, "g")
    label = describe("plot_bars" if bars else "plot_lines")
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{scale.axes()}{marks}</svg>"
    )


class _Scale:
    """From a vector's entries to places in the picture."""

    def __init__(self, low: float, high: float, count: int) -> None:
        self.low, self.high, self.count = low, high, count

    def x(self, t: float) -> float:
        """Entry t, in the middle of its column."""
        return LEFT + (t + 0.5) * (WIDTH - LEFT - RIGHT) / self.count

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> str:
        """The range on the left, the first and the last index below, and a line at zero."""
        last = self.count - 1
        texts = [
            (LEFT - 6, TOP + 4, "end", f"{self.high:.3g}"),
            (LEFT - 6, HEIGHT - BOTTOM + 4, "end", f"{self.low:.3g}"),
            (self.x(0), HEIGHT - 5, "middle", "0"),
            (self.x(last), HEIGHT - 5, "middle", str(last)),
            ((self.x(0) + self.x(last)) / 2, HEIGHT - 5, "middle", "t" if last > 1 else ""),
        ]
        zero = self.y(min(max(0.0, self.low), self.high))
        axis = f'<path class="x" d="M{LEFT} {zero:.1f}H{WIDTH - RIGHT}"/>'
        return axis + "".join(
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'
            for x, y, anchor, text in texts
            if text
        )


def _is_distribution(values: Values) -> bool:
    numbers = [value for value in values if value is not None]
    whole = len(numbers) == len(values) and min(numbers) >= 0
    return whole and math.isclose(sum(numbers), 1.0, abs_tol=1e-6)


def _differ(expected: Values, got: Values, least: float) -> bool:
    """Whether the eye can tell them apart."""
    if len(expected) != len(got):
        return True
    pairs = zip(expected, got, strict=True)
    return any(
        (e is None) != (g is None) or (e is not None and g is not None and abs(e - g) > least)
        for e, g in pairs
    )


def _lines(values: Values, scale: _Scale, name: str) -> str:
    """A line through the entries, broken where one is not finite; circles or squares on it."""
    path, pen = "", "M"
    marks = ""
    for t, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x, y = scale.x(t), scale.y(value)
        path += f"{pen}{x:.1f} {y:.1f}"
        marks += (
            f"M{x - 3.5:.1f} {y:.1f}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0"
            if name == "e"
            else f"M{x - 2.5:.1f} {y - 2.5:.1f}h5v5h-5z"
        )
        pen = "L"
    marks = marks if len(values) <= 50 else ""
    return f'<path class="l{name}" d="{path}"/><path class="m{name}" d="{marks}"/>'


def _bars(values: Values, scale: _Scale, name: str) -> str:
    width = 0.4 * (WIDTH - LEFT - RIGHT) / scale.count
    shift = -width if name == "e" else 0.0
    base = scale.y(0.0)
    bars = "".join(
        f"M{scale.x(t) + shift:.1f} {base:.1f}v{scale.y(value) - base:.1f}h{width:.1f}V{base:.1f}z"
        for t, value in enumerate(values)
        if value is not None
    )
    return f'<path class="b{name}" d="{bars}"/>'
