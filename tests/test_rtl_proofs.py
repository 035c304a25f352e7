"""What is proved of the sequencer: each property holds, is seen at work, and fails for its broken twins."""

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.rtl.properties import PROPERTIES
from pimloom.rtl_flow.prove import ask, prove, small_table
from pimloom.rtl_flow.yowasp import tools

PART = "gddr6_pim_gpt"
QUICK = ("state", "timing")  # a minute; all the others are slow


def assert_proved(part: str, properties: tuple[str, ...], own_timings: bool) -> None:
    found = list(prove("sequencer", part, own_timings=own_timings, properties=properties))
    assert [proof.property for proof in found] == list(properties) * (1 + own_timings)
    assert {(proof.property, proof.result) for proof in found} == {(name, "proved") for name in properties}
    assert all(proof.covered and proof.twin_failed for proof in found if proof.timings.startswith("any"))


@pytest.mark.parametrize("name", QUICK)
def test_the_property_holds_for_all_short_timings_is_seen_and_fails_for_its_twins(name):
    assert_proved(PART, (name,), own_timings=False)


@pytest.mark.slow
@pytest.mark.parametrize("part", [PART, "hbm2_2000"])
def test_every_property_holds_for_the_parts_own_timings_too(part):
    assert_proved(part, tuple(PROPERTIES), own_timings=True)


def test_a_proof_that_fails_says_so_and_keeps_its_trace(tmp_path, monkeypatch):
    """Of a twin: the very proof that the sequencer passes."""
    twin, table = PROPERTIES["bus"].twins[0], small_table(load_part(PART).value)
    with tools() as at_hand:
        monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path))
        found = ask(at_hand.environment, table, "bus", 4, "prove", twin)
    assert not found.passed
    assert found.trace is not None and found.trace.endswith(".vcd")


def test_other_blocks_have_no_properties():
    with pytest.raises(UserError, match=r"no properties of block 'pim_unit'; known: sequencer"):
        list(prove("pim_unit", PART))
