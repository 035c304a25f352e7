"""Figures refuse what would mislead, and take any text."""

import pytest

from pimloom.reports.figures import Range, grouped_bars, horizontal_ranges, lines, stacked_bars, tick
from pimloom.reports.page import Page, Section, render


def test_control_characters_do_not_break_a_figure():
    figure = grouped_bars(
        "a\x00b", ["_c\ud800", "$x"], {"_s\x1b": [1, None], "t": [2, 3]}, xlabel="模型", ylabel="y [s]"
    )
    assert "_s\ufffd" in figure.svg and "$x" in figure.svg
    assert render(Page("t\ud800", "", [Section("s", "s", "", [figure])]))


@pytest.mark.parametrize(
    "label", ["latency", "latency [", "latency []", "latency [ ]", "[µs]", "latency [µs] more", ""]
)
def test_an_axis_without_unit_is_refused(label):
    with pytest.raises(ValueError, match="unit|label"):
        lines("t", {"a": [(1, 2)]}, xlabel="x [1]", ylabel=label)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: lines(" ", {"a": [(1, 2)]}, xlabel="x [1]", ylabel="y [1]"), "needs a title"),
        (lambda: lines("t", {}, xlabel="x [1]", ylabel="y [1]"), "nothing to draw"),
        (
            lambda: lines("t", {"a": [(0, 2)]}, xlabel="x [1]", ylabel="y [1]", log_x=True),
            "cannot draw 0 on a log axis",
        ),
        (lambda: lines("t", {"a": [(1, float("nan"))]}, xlabel="x [1]", ylabel="y [1]"), "cannot draw nan"),
        (lambda: grouped_bars("t", ["a"], {"s": [1, 2]}, xlabel="x", ylabel="y [1]"), "2 values for 1 categories"),
        (lambda: stacked_bars("t", ["a"], {"s": [-1]}, xlabel="x", ylabel="y [1]"), "negative"),
        (lambda: stacked_bars("t", ["a"], {f"{n}": [1] for n in range(17)}, xlabel="x", ylabel="y [1]"), "at most 16"),
        (lambda: horizontal_ranges("t", [Range("r", 1, None)], xlabel="x [1]", ylabel="y"), "only one end"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_ticks_have_no_trailing_zeros():
    assert [tick(value) for value in (0.1 + 0.2, 100.0, 2e9)] == ["0.3", "100", "2 × 10⁹"]
