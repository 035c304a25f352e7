"""When a headline claim counts as reproduced, and how checks are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.system import PimSystem, load_system
from pimloom.reports.page import ClaimLine, Page, render
from pimloom.reports.published import Published, read_published
from pimloom.reports.reproduction import BASES, against_paper, claim, passed_cards, reproduction_section
from pimloom.reports.studies import HERE

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
    assert said.missed == (False in held)


@pytest.mark.parametrize("basis", ["derived", "fitted", "echoed"])
@pytest.mark.parametrize(("held", "reproduced", "missed"), [
    ([True, True], True, False),
    ([True, False], True, False),  # the second is not predicted
    ([False, True], False, True),
    ([None, True], False, False),
])  # fmt: skip
def test_only_predicted_lines_decide_a_claim(held: list[bool], reproduced: bool, missed: bool, basis: str) -> None:
    found = claim([LINE, LINE._replace(basis=basis)], held, "it is", "it is not")
    assert (found.reproduced, found.missed) == (reproduced, missed)
    alone = claim([LINE._replace(basis=basis)], [True], "it is", "it is not")
    assert (alone.reproduced, alone.missed, alone.why) == (False, False, "it is not")
    assert f"speed-up ({basis})" in render(Page("a", "b", [], claim=found))


def test_a_sign_stays_with_its_number_and_a_unit_may_wrap() -> None:
    lines = [ClaimLine("gain", "1.847", "3.49", "×"), ClaimLine("rate", "1.847", "3.49", "tokens/s")]
    text = render(Page("a", "b", [], claim=claim(lines, [True, True], "it is", "it is not")))
    for number in ("1.847", "3.49"):
        assert f'{number}\u00a0<span class="unit">×' in text and f'{number} <span class="unit">tokens/s' in text


def test_only_predictions_are_counted() -> None:
    rows: list[dict[str, object]] = [
        {"tag": tag, "verdict": verdict, "basis": basis}
        for tag, verdict, basis in (
            ("paper", "pass", "predicted"), ("derived", "pass", "derived"), ("secondary", "deviates", "predicted"),
            ("paper", "report only", "predicted"), ("recalled", "pass", "fitted"), ("design", "FAIL", "derived"),
            ("secondary", "pass", "echoed"),
        )
    ]  # fmt: skip
    (card,) = passed_cards(rows, against_paper)
    assert card[:2] == ("Predictions against the paper", "1 of 2")
    assert card.note == (
        "the others deviate and are shown; 1 more are shown without a verdict; "
        "not counted: 2 derived, 1 fitted, 1 echoed"
    )
    assert [one.note for one in passed_cards(rows[:1], against_paper)] == [""]
    assert passed_cards(rows[4:], against_paper) == []
    with pytest.raises(KeyError):
        passed_cards([{"verdict": "pass", "tag": "paper"}], against_paper)


@pytest.mark.parametrize("basis", ["", "sure", None])
def test_a_check_without_a_basis_is_in_no_table(basis: str | None) -> None:
    with pytest.raises(ValueError, match="checks without a basis"):
        reproduction_section("", [{"check": "speed-up", "basis": basis}], "tolerance")


SOLVED = {  # what the assumptions of a study say was chosen or solved with the published value known
    "pim_gpt": {"data_reduction", "non_vmm_gpt3_xl", "slowdown_100mhz", "energy_t4", "energy_cpu", "energy_factor",
                "power_ratio_t4", "power_ratio_cpu"},
    "infinitehbd": {"cost_ratio", "cost_table"},
}  # fmt: skip
INPUTS = {"pim_gpt": {"power_mac", "power_asic", "area_asic"}}


@pytest.mark.parametrize("study", ["pim_gpt", "infinitehbd", "cent", "neupims"])
def test_every_published_line_says_what_a_check_of_it_is(study: str) -> None:
    lines = read_published(HERE / study)
    assert {line.basis for line in lines.values()} <= BASES.keys()
    of = {basis: {id for id, line in lines.items() if line.basis == basis} for basis in BASES}
    assert of["fitted"] == SOLVED.get(study, set()) and of["echoed"] == INPUTS.get(study, set())


def test_what_is_echoed_stands_in_our_files() -> None:
    """The published figures that are echoed are values of the system's own YAML."""
    paper, system = read_published(HERE / "pim_gpt"), load_system("pim_gpt")
    npu, unit = system.of_kind(PimSystem).npu, system.memory.pim_unit
    assert unit is not None
    ours = {"power_mac": 8 * unit.mac_power_mw, "power_asic": npu.power_mw, "area_asic": npu.area_mm2}
    for id, value in ours.items():
        assert paper[id].low == pytest.approx(value, abs=0.05)


@pytest.mark.parametrize(("held", "badge", "word"), [
    (True, "pass", "reproduced"), (False, "fail", "not reproduced"), (None, "", "not judged"),
])  # fmt: skip
def test_the_claim_is_the_first_card(held: bool | None, badge: str, word: str) -> None:
    html = render(Page("a", "b", [], [("Time", 1.0, "s", "")], {}, claim([LINE], [held], "since so", "since not")))
    cards = html.partition('<dl class="cards ')[2]
    assert cards.index(f'<span class="badge {badge}">{word}</span>') < cards.index("7 to 42") < cards.index("Time")
    assert ("since so" if held else "since not") in cards and "41 to 137" in cards
