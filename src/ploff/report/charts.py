"""Charts as SVG: lines with bands, and boxes. Colors come from the page, so that they suit light, dark and paper.

A chart is a viewBox of WIDTH × HEIGHT units that grows with the page; text is the page's own.
"""

import dataclasses
import html
import math
from collections.abc import Sequence

import numpy as np

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 20, 12, 40  # room for ticks and labels
COLORS = 8  # that the page defines; further series repeat them, dashed


@dataclasses.dataclass(frozen=True, eq=False)
class Line:
    """A curve, with a band around it where there is one."""

    name: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    style: str = "n0"


@dataclasses.dataclass(frozen=True)
class Limit:
    """A value that curves should stay below, drawn across."""

    name: str
    value: float
    style: str = ""  # the text's color, unless it is a series' own


def series_style(number: int) -> str:
    """The look of the n-th method, the same in every chart and table; `n0`, `n1` and `n2` are of no method."""
    return f"c{number % COLORS}" + (" dashed" if number >= COLORS else "")


@dataclasses.dataclass(frozen=True)
class Axis:
    """What an axis measures, where it ends, and whether it is logarithmic."""

    label: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, label: str, values: Sequence[np.ndarray], *, log: bool = False, zero: bool = False) -> "Axis":
        """An axis that holds all finite values; with `zero`, and 0."""
        found = np.concatenate([np.ravel(each) for each in values]) if values else np.zeros(0)
        found = found[np.isfinite(found) & ((found > 0) | (not log))]
        low, high = (float(found.min()), float(found.max())) if len(found) else (0.1 if log else 0.0, 1.0)
        if log:
            return cls(
                label,
                10 ** math.floor(math.log10(low)),
                10 ** max(math.ceil(math.log10(high)), math.floor(math.log10(low)) + 1),
                True,
            )
        low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
        pad = 0.04 * (high - low) or 0.5
        return cls(label, low if zero and low == 0 else low - pad, high + pad)

    def share(self, values: np.ndarray) -> np.ndarray:
        """Where values are on the axis, from 0 to 1."""
        if self.log:
            values = np.log10(np.maximum(values, self.low))
            return (values - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (np.asarray(values, np.float64) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round values to mark, some five of them."""
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1, max(1, math.ceil((last - first) / 5)))]
        rough = (self.high - self.low) / 5
        size = 10 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)]


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    log: bool = False,
    zero: bool = False,
    limits: Sequence[Limit] = (),
) -> str:
    """Curves over a common axis, with a legend.

    Args:
      title: what the chart shows.
      lines: its curves.
      x_label: what runs to the right.
      y_label: what runs upwards.
      log: upwards logarithmically.
      zero: let the axis hold 0.
      limits: values that curves should stay below, drawn across.
    """
    bands = [edge for line in lines for edge in (line.low, line.high) if edge is not None]
    bounds = [np.array([limit.value]) for limit in limits]
    across = Axis.around(x_label, [line.x for line in lines])
    upwards = Axis.around(y_label, [*(line.y for line in lines), *bands, *bounds], log=log, zero=zero)
    parts = [_frame(across, upwards)]
    parts += [_band(line, across, upwards) for line in lines if line.low is not None]
    parts += [_curve(line, across, upwards) for line in lines]
    for limit in limits:
        height = _down(upwards, np.array([limit.value]))[0]
        parts.append(f'<path class="limit {limit.style}" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>')
    entries = [(line.name, f"curve {line.style}") for line in lines]
    entries += [(limit.name, f"limit {limit.style}") for limit in limits]
    return _figure(title, "".join(parts), entries)


def box_chart(title: str, labels: Sequence[str], samples: Sequence[np.ndarray], *, x_label: str, y_label: str) -> str:
    """A box for each sample: median, quartiles, and whiskers to the 5th and 95th percentile."""
    quantiles = [np.quantile(sample, (0.05, 0.25, 0.5, 0.75, 0.95)) for sample in samples]
    across = Axis(x_label, -0.6, len(samples) - 0.4)
    upwards = Axis.around(y_label, quantiles, zero=True)
    places = _right(across, np.arange(len(samples)))
    half = 0.28 * (places[1] - places[0]) if len(places) > 1 else 20.0
    parts = [_frame(across, upwards, list(zip(places, labels, strict=True)))]
    for place, values in zip(places, quantiles, strict=True):
        parts.append(_box(place, half, *_down(upwards, values)))
    return _figure(title, "".join(parts), [])


def number(value: float) -> str:
    """A tick's value as people write it."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        power = math.floor(math.log10(abs(value)))
        factor = value / 10**power
        return f"{'' if factor == 1 else f'{factor:g}·'}10{str(power).translate(_SUPERSCRIPTS)}"
    if abs(value) >= 10_000 and value % 1000 == 0:
        return f"{value / 1000:g}k"
    return f"{value:.6g}"


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _figure(title: str, drawing: str, entries: list[tuple[str, str]]) -> str:
    shown = [_entry(style, name) for name, style in entries]
    legend = f'<ul class="legend">{"".join(shown)}</ul>' if len(shown) > 1 else ""
    label = html.escape(title, quote=True)
    return (
        f'<figure class="chart"><figcaption>{label}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{drawing}</svg>{legend}</figure>'
    )


def _frame(across: Axis, upwards: Axis, marks: list[tuple[float, str]] | None = None) -> str:
    """Axes, ticks, grid and labels."""
    if marks is None:
        ticks = np.array(across.ticks())
        marks = list(zip(_right(across, ticks), map(number, ticks.tolist()), strict=True))
    base, parts = HEIGHT - BOTTOM, []
    for height, value in zip(_down(upwards, np.array(upwards.ticks())), upwards.ticks(), strict=True):
        parts.append(f'<path class="grid" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 6, height + 4, number(value), "end"))
    parts += [_text(place, base + 16, text) for place, text in marks]
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{base}H{WIDTH - RIGHT}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, across.label))
    upright = _text(0, 0, upwards.label)
    parts.append(f'<g transform="translate(11 {(TOP + base) / 2:.1f}) rotate(-90)">{upright}</g>')
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _entry(style: str, name: str) -> str:
    """A line of the legend."""
    sample = f'<svg viewBox="0 0 22 8" aria-hidden="true"><path class="{style}" d="M0 4H22"/></svg>'
    return f"<li>{sample}{html.escape(name)}</li>"


def _box(place: float, half: float, low: float, first: float, middle: float, third: float, high: float) -> str:
    x, left, width = f"{place:.1f}", f"{place - half:.1f}", f"{2 * half:.1f}"
    return (
        f'<g class="n0"><path class="whisker" d="M{x} {low:.1f}V{first:.1f}M{x} {third:.1f}V{high:.1f}"/>'
        f'<rect class="box" x="{left}" y="{third:.1f}" width="{width}" height="{first - third:.1f}"/>'
        f'<path class="curve" d="M{left} {middle:.1f}h{width}"/></g>'
    )


def _curve(line: Line, across: Axis, upwards: Axis) -> str:
    points = list(zip(_right(across, line.x), _down(upwards, line.y), strict=True))
    if len(points) == 1:
        return f'<circle class="{line.style} dot" cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3"/>'
    return f'<path class="curve {line.style}" d="M{_path(points)}"/>'


def _band(line: Line, across: Axis, upwards: Axis) -> str:
    assert line.low is not None
    assert line.high is not None
    places = _right(across, line.x)
    above = list(zip(places, _down(upwards, line.high), strict=True))
    below = list(zip(places, _down(upwards, line.low), strict=True))
    return f'<path class="band {line.style}" d="M{_path(above + below[::-1])}Z"/>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points if math.isfinite(x) and math.isfinite(y))


def _right(axis: Axis, values: np.ndarray) -> np.ndarray:
    return LEFT + (WIDTH - RIGHT - LEFT) * axis.share(values)


def _down(axis: Axis, values: np.ndarray) -> np.ndarray:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * axis.share(values)
