"""Charts as SVG."""

import re

import numpy as np
import pytest

from ploff.report import charts
from ploff.report.charts import Axis, Limit, Line, line_chart, series_style


def test_a_curve_goes_through_its_points():
    drawn = line_chart(
        "t", [Line("a", np.array([0.0, 10.0]), np.array([0.0, 1.0]))], x_label="x", y_label="y", zero=True
    )
    path = re.search(r'class="curve n0" d="M([\d. ]+)L([\d. ]+)"', drawn)
    (x_1, y_1), (x_2, y_2) = (map(float, group.split()) for group in path.groups())
    assert x_1 < x_2
    assert y_1 > y_2
    assert y_1 == charts.HEIGHT - charts.BOTTOM  # an axis that begins at zero


def test_a_limit_far_above_the_curve_is_still_in_the_picture():
    line = Line("a", np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    limits = [Limit("bound", 100.0), Limit("bound of a", 50.0, "c3")]
    drawn = line_chart("t", [line], x_label="x", y_label="y", limits=limits)
    heights = [float(height) for height in re.findall(r'class="limit [c3]*" d="M52 ([\d.]+)H400', drawn)]
    assert len(heights) == 2
    assert charts.TOP <= heights[0] < heights[1] <= charts.HEIGHT - charts.BOTTOM
    assert 'class="limit c3"' in drawn
    assert all(f"</svg>{limit.name}</li>" in drawn for limit in limits)


@pytest.mark.parametrize(
    ("low", "high", "log"), [(0, 1, False), (-3, 250, False), (5, 5, False), (1e-6, 1e7, True), (3, 4, True)]
)
def test_an_axis_marks_some_round_values_inside_its_ends(low, high, log):
    axis = Axis.around("a", [np.array([low, high], float)], log=log)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    assert all(axis.low - 1e-9 <= tick <= axis.high * (1 + 1e-9) for tick in ticks)
    assert all(0 <= share <= 1 for share in axis.share(np.array([low, high], float)))


def test_numbers_are_written_as_people_do():
    shown = [charts.number(value) for value in (0, 0.25, 100, 20_000, 500_000, 1e7, 2.5e-5)]
    assert shown == ["0", "0.25", "100", "20k", "500k", "10⁷", "2.5·10⁻⁵"]


def test_names_cannot_break_the_page():
    drawn = line_chart(
        "<b>",
        [Line("<i>", np.zeros(2), np.zeros(2)), Line("&", np.zeros(2), np.zeros(2))],
        x_label="<",
        y_label=">",
    )
    assert "<b>" not in drawn
    assert "<i>" not in drawn


def test_each_method_has_a_look_of_its_own_which_is_not_that_of_other_curves():
    looks = [series_style(number) for number in range(2 * charts.COLORS)]
    assert len(set(looks)) == len(looks)
    assert not any(look.startswith("n") for look in looks)
