"""Tables in a terminal: however wide it is, every number stands in one piece."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pimloom.reports.terminal import tables

NUMBERS = st.integers(0, 10**9) | st.none()
NAMES = st.sampled_from(["a", "gpt3-175b"])
ROWS = st.lists(st.fixed_dictionaries({"name": NAMES, "x": NUMBERS, "y": NUMBERS}), max_size=9)
COLUMNS = [("name", "model", ""), ("x", "read bytes|r", ","), ("y", "y|r", ",")]


def printed(width: int, columns: list[tuple[str, str, str]], rows: list[dict[str, Any]]) -> list[str]:
    """Lines of the table in a terminal of that width."""
    with pytest.MonkeyPatch.context() as patch:
        console = Console(highlight=False, width=width)
        patch.setattr(tables, "_console", lambda: console)
        with console.capture() as capture:
            tables.show_rows(columns, rows)
    return capture.get().splitlines()


@given(st.integers(29, 60), ROWS)  # 29: the longest heading, the longest number, what stands around them
def test_no_number_is_broken(width: int, rows: list[dict[str, Any]]) -> None:
    lines = printed(width, COLUMNS, rows)
    words = [word for line in lines for word in line.split()]
    assert max(map(len, lines), default=0) <= width
    numbers = [row[key] for row in rows for key in "xy"]
    assert sorted(w for w in words if w[0].isdigit() or w == "–") == sorted(
        "–" if n is None else f"{n:,}" for n in numbers
    )
    assert [w for w in words if w in {"a", "gpt3-175b"}] == [row["name"] for row in rows]


def test_rows_stand_upright_beside_each_other_where_they_are_too_wide() -> None:
    rows = [{"name": f"system-{i}", "x": 10**i, "y": None} for i in range(3)]
    assert [line.rstrip() for line in printed(36, [*COLUMNS, *[("x", "again|r", ",.3f")] * 2], rows)] == [
        "",
        " model        system-0   system-1",
        " ────────────────────────────────",
        " read bytes          1         10",
        " y                   –          –",
        " again           1.000     10.000",
        " again           1.000     10.000",
        "",
        "",
        " model        system-2",
        " ─────────────────────",
        " read bytes        100",
        " y                   –",
        " again         100.000",
        " again         100.000",
        "",
    ]
