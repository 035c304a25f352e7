"""When a headline claim counts as reproduced, and how checks are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.reports.page import ClaimLine, Page, render
from pimloom.reports.published import Published
from pimloom.reports.reproduction import claim, paper_or_arithmetic, passed_cards

LINE = ClaimLine("speed-up", "7 to 42", "41 to 137", "×")


def line(low: float | None, high: float | None) -> Published:
    return Published("id", "speed-up", "v1", low, high, "×", "paper", "abstract")


@pytest.mark.parametrize(
    ("low", "high", "ours", "meets"),
    [
        (41, 137, [7.0, 42.0], False),
        (41, 137, [41.0, 137.0], True),
        (41, 137, [37.0, 150.0], True),  # 0.902 and 1.095 of the ends
        (41, 137, [36.8, 137.0], False),  # 0.898
        (41, 137, [41.0, 151.0], False),  # 1.102
        (41, 137, [80.0, 90.0], False),  # inside, but neither end is met
        (1.6, 1.6, [1.31], False),
        (1.6, 1.6, [1.5], True),
        (10, None, [18.6, 15.8], True),
        (10, None, [9.0, 15.8], False),
        (None, 20, [19.0], True),
        (None, 20, [22.0], False),
        (41, 137, [], False),
        (10, None, [], False),
    ],
)
def test_a_range_is_met_at_both_ends_and_a_bound_on_its_side(
    low: float | None, high: float | None, ours: list[float], meets: bool
) -> None:
    assert line(low, high).meets(ours) is meets


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4))
def test_a_claim_is_reproduced_if_each_of_its_lines_is(held: list[bool | None]) -> None:
    said = claim([LINE] * len(held), held, "it is", "it is not")
    assert (said.reproduced, said.why) == ((True, "it is") if held.count(True) == len(held) else (False, "it is not"))


def test_checks_are_counted_apart() -> None:
    rows: list[dict[str, object]] = [
        {"tag": tag, "verdict": verdict}
        for tag, verdict in (
            ("paper", "pass"), ("derived", "pass"), ("secondary", "deviates"), ("paper", "report only"),
            ("recalled", "pass"), ("design", "FAIL"), ("derived", "report only"),
        )
    ]  # fmt: skip
    cards = passed_cards(rows, paper_or_arithmetic)
    shown = [("Checks against the paper", "2 of 3"), ("Checks against arithmetic", "1 of 2")]
    assert [card[:2] for card in cards] == shown
    assert [card.note for card in passed_cards(rows[:1], paper_or_arithmetic)] == [""]
    assert [card.note for card in cards] == [
        "the others deviate and are shown; 1 more are shown without a verdict",
        "the others deviate and are shown; 1 more are shown without a verdict",
    ]


@pytest.mark.parametrize(("held", "badge"), [(True, "pass"), (False, "deviates")])
def test_the_claim_is_the_first_card(held: bool, badge: str) -> None:
    html = render(Page("a", "b", [], [("Time", 1.0, "s", "")], {}, claim([LINE], [held], "since so", "since not")))
    cards = html.partition('<dl class="cards ')[2]
    word = "reproduced" if held else "not reproduced"
    assert cards.index(f'<span class="badge {badge}">{word}</span>') < cards.index("7 to 42") < cards.index("Time")
    assert ("since so" if held else "since not") in cards and "41 to 137" in cards
