"""What is proved of the sequencer: each property holds, is seen at work, and fails for its broken twins."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from amaranth.asserts import AnySeq
from amaranth.hdl import Const, Mux, Signal

from pimloom.arch.system import list_names, load_part
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.claims import CLAIMED
from pimloom.rtl.flow.lookup import find_blocks
from pimloom.rtl.flow.prove import DEPTH, ask, prove
from pimloom.rtl.flow.subjects import BITS, SUBJECTS, small_table
from pimloom.rtl.flow.yowasp import YOSYS, tools
from pimloom.rtl.formal import timers
from pimloom.rtl.formal.proof import AnyGrants
from pimloom.rtl.formal.properties import PROPERTIES, Property, Twin
from pimloom.rtl.formal.question import Task
from pimloom.rtl.timer import Timer

PART = "gddr6_pim_gpt"
STRUCTURES: dict[str, list[str]] = {  # one part of each, and those that have the same rules
    "ddr4_2400": ["ddr4_3200"],
    "ddr5_4800": ["ddr5_6400"],
    "gddr6_14000": [],
    "gddr6_16000": [],
    "gddr6_aim": ["gddr6_pim_gpt"],
    "gddr6_aim_isr": [],
    "hbm2_2000": [],
    "hbm2_2400": [],
    "hbm2_neupims": ["hbm2_neupims_written"],
    "hbm3_duplex_5200": [],
    "hbm3_6400": [],
    "hbm3_attacc_5200": ["hbm3_attacc_4800", "hbm3_attacc_5600", "hbm3_attacc_6000", "hbm3_attacc_6400"],
    "lpddr5_6400": [],
}
ROOT = Path(__file__).parent.parent


def assert_proved(part: str) -> None:
    found = list(prove("sequencer", part, own_timings=True, properties=tuple(PROPERTIES)))
    assert [proof.property for proof in found] == list(PROPERTIES) * 2
    assert {(proof.property, proof.result) for proof in found} == {(name, "proved") for name in PROPERTIES}
    assert all(proof.covered and proof.twin_failed for proof in found if proof.timings.startswith("any"))


@pytest.mark.slow
@pytest.mark.parametrize("part", [PART, "hbm2_2000", "hbm2_neupims", "gddr6_aim_isr", "hbm3_attacc_5200"])
def test_every_property_holds_is_seen_and_fails_for_its_twins(part):
    """For all short timings, and for the part's own: rules between siblings and two row buffers, several kinds of PIM;
    of AttAcc, with rows and columns on buses of their own, 17 minutes of CPU the first time."""
    assert_proved(part)


def assert_holds(part: str, bits: Mapping[Task, int], names: Sequence[str] = tuple(PROPERTIES)) -> None:
    """The inductions alone: of situations and twins other tests speak."""
    table = small_table(load_part(part).value)
    with tools(names=[YOSYS]) as at_hand:
        for name in names:
            about = PROPERTIES[name]
            tasks: list[Task] = ["lemma", "prove"] if about.lemma else ["prove"]
            said = [ask(at_hand, table, name, bits.get(task, 0), task, "yices").said for task in tasks]
            assert said == ["PASS"] * len(tasks), name


def test_no_rule_is_broken_with_a_parts_own_timings():
    """If registers are as `state` says, which is proved beside all else and of all parts by `make test-all`."""
    assert PROPERTIES["state"].lemma and not PROPERTIES["timing"].lemma
    assert_holds("gddr6_aim", {}, ["timing"])


@pytest.mark.slow
@pytest.mark.parametrize("part", list_names("parts"))
def test_every_property_holds_with_the_parts_own_timings(part):
    assert_holds(part, {})


@pytest.mark.slow
@pytest.mark.parametrize("part", STRUCTURES)
def test_every_property_holds_with_any_timings(part):
    """All parts: those whose rules bind the same commands at the same places are one question."""
    assert_holds(part, BITS)


class Forgetful(AnyGrants):
    """Does not arm the timers of its first rule."""

    def _issue(self, m, askers, granted, state):
        first = [at for at in self.timers if at[0] == 0]
        kept = [self.timers.pop(at) for at in first]
        super()._issue(m, askers, granted, state)
        self.timers |= dict(zip(first, kept, strict=True))


class Deaf(timers.Armings):
    """What its clock is quiet about is anything but armings."""

    def __init__(self, window, m, *how):
        super().__init__(window, m, *how)
        self.quiet = Signal(len(self.quiet), init=-1)
        m.d.sync += self.quiet.eq(Mux(AnySeq(1), 1, self.quiet + ~self.quiet.all()))


class Short(Timer):
    """A clock too short, where waits are constants."""

    def __init__(self, window, wait, bits=0, most=1):
        super().__init__(window, wait and max(wait - 1, 0), bits, most)


class ShortAtTwo(Timer):
    """Takes the first wait of two armings in a clock as over."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        if self.most > 1:
            m.d.sync += self.left[0].eq(Mux(self.arm == self.most, 0, self.left[0]))
        return m


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "broken", "part", "name", "task"),
    [
        ("proof.AnyGrants", Forgetful, PART, "state", "prove"),
        ("proof.Armings", Deaf, PART, "progress", "lemma"),
        ("timers.Timer", Short, PART, "state", "lemma"),
        ("timers.Timer", ShortAtTwo, "hbm2_2000", "state", "lemma"),
    ],
)
def test_what_proofs_rest_on_can_fail(tmp_path, monkeypatch, place, broken, part, name, task):
    monkeypatch.setattr("pimloom.rtl.flow.prove.cache_folder", lambda room: tmp_path / room)
    monkeypatch.setattr(f"pimloom.rtl.formal.{place}", broken)
    with tools(names=[YOSYS]) as at_hand:
        assert ask(at_hand, small_table(load_part(part).value), name, 0, task, "yices").said != "PASS"


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0, 4])
def test_a_wait_that_is_not_the_rules_is_no_state(tmp_path, monkeypatch, bits):
    """Constant, in all timers of a sequencer; or given, in one rule."""
    monkeypatch.setattr("pimloom.rtl.flow.prove.cache_folder", lambda room: tmp_path / room)
    if not bits:
        monkeypatch.setattr("pimloom.rtl.sequencer.Timer", Short)
    with tools(names=[YOSYS]) as at_hand:
        twin = Twin(wait=-1) if bits else None
        found = ask(at_hand, small_table(load_part("gddr6_14000").value), "state", bits, "prove", "yices", twin)
    assert found.said != "PASS"


@pytest.mark.slow
def test_parts_that_are_asked_about_once_are_one_question():
    """With any timings; the question does not know the part's."""
    for part, others in STRUCTURES.items():
        texts = {SUBJECTS["sequencer"](name).question("bus", False, "prove", None) for name in (part, *others)}
        assert len(texts) == 1


def test_all_parts_are_asked_about():
    assert sorted([*STRUCTURES, *sum(STRUCTURES.values(), [])]) == sorted(list_names("parts"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), [("timing", "prove"), ("state", "prove"), ("state", "lemma")])
def test_another_solver_agrees(name, task):
    """On the part's own timings; with free ones it takes many minutes."""
    with tools() as at_hand:
        assert ask(at_hand, small_table(load_part(PART).value), name, 0, task, "z3").said == "PASS"


def settles(s):
    """True from reset on, but no induction over one clock sees it."""
    first, second = Signal(), Signal()
    s.m.d.sync += [first.eq(first & AnySeq(1)), second.eq(first)]
    yield ~second


def owes_little(s):
    """Not true, and not soon."""
    yield s.start.owed[0] < 3


@pytest.mark.slow
@pytest.mark.parametrize(("holds", "result"), [(settles, "not violated"), (owes_little, "FAILED")])
def test_what_induction_leaves_open_is_searched_from_reset(tmp_path, monkeypatch, holds, result):
    monkeypatch.setattr("pimloom.rtl.flow.prove.cache_folder", lambda room: tmp_path / room)
    assert DEPTH["search"] == 60
    monkeypatch.setitem(DEPTH, "search", 6)  # deep enough for these two
    monkeypatch.setitem(PROPERTIES, "bus", Property(holds, lambda s: iter([Const(1)]), ()))
    (found,) = prove("sequencer", PART, own_timings=False, properties=["bus"])
    assert (found.method, found.depth, found.result) == ("BMC", 6, result)
    assert (found.trace is None) == (result == "not violated")
    assert found.covered and found.twin_failed is None


def part_of(block):
    return "hbm2_neupims" if block.startswith("npu_pim_") else PART


def test_every_block_has_properties_and_twins():
    assert set(SUBJECTS) == set(BLOCKS)
    for block in CLAIMED:
        found = SUBJECTS[block](part_of(block))
        assert found.properties and found.timings
        assert all(claim.twins for claim in found.properties.values())


def test_questions_can_be_made_of_every_claim():
    """In Yosys' language, for the block and for a twin, which is another question."""
    for block in ("timer", "bf16_mul", "asic_partials"):
        found = SUBJECTS[block](PART)
        for name, claim in found.properties.items():
            asked = [found.question(name, False, "break", twin) for twin in (None, *claim.twins)]
            assert len(set(asked)) == len(asked) and all("\\question" in text for text in asked)


@pytest.mark.slow
@pytest.mark.parametrize("block", CLAIMED)
def test_every_claim_holds_is_seen_and_fails_for_its_twins(block):
    found = list(prove(block, part_of(block)))
    assert {(proof.block, proof.result) for proof in found} == {(block, "proved")}
    assert all(proof.covered and proof.twin_failed for proof in found)


@pytest.mark.slow
def test_a_channel_with_one_row_buffer_for_memory_and_pim(tmp_path):
    """The properties of an NPU's channel, where PIM and memory wait for each other."""
    newton = tmp_path / "newton.yaml"
    text = (ROOT / "arch/parts/hbm2_neupims.yaml").read_text()
    newton.write_text(re.sub(r"^pim: neupims", "pim: newton", text, flags=re.MULTILINE))
    found = list(prove("npu_pim_channel", str(newton)))
    assert [(proof.property, proof.result) for proof in found] == [
        (name, "proved") for name in ("timing", "rows", "places")
    ]
    assert all(proof.covered and proof.twin_failed for proof in found)


def test_a_part_is_asked_about_what_it_can_have():
    device = load_part("hbm2_2000").value
    assert {"pim_unit", "bf16_tree"} & set(find_blocks(None, device)) == set()
