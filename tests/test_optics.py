"""The optical part: what its file says, what is wrong with others, its link budget by hand."""

import re

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.optics import SwitchTable, link_budget, load_optics, switch_table
from pimloom.arch.system import HERE, is_optics, list_names, load_part
from pimloom.reports.explain import explain
from pimloom.reports.fabric.budget_figure import budget_figure
from pimloom.systems.fabric.budget import budget_rows
from tests.command import call

TEXT = (HERE / "parts/ocstrx.yaml").read_text()
PART = load_optics("ocstrx").value


def test_the_specifications_numbers():
    assert (PART.gbps, PART.lanes.tx, PART.lanes.rx, len(PART.paths)) == (800, 8, 8, 3)
    assert (PART.power_w, PART.core_power_w, PART.cost_usd) == (12, 3.2, 600)
    assert (PART.optical.insertion_db, PART.optical.insertion_worst_db) == (3.3, 4)
    assert (PART.timing.reconfigure_best.ps, PART.timing.reconfigure.ps) == (60 * 10**6, 80 * 10**6)
    assert PART.bundle_modules * PART.gbps == 2 * PART.hop.gbps == 6400  # half the lanes to each of two GPUs
    assert max(PART.failover_ps, key=lambda cause: PART.failover_ps[cause]) == "rebuild"  # the last dominates


def test_the_table_in_clocks():
    """At 10 MHz, entries by their order: loopback, external_1 with backup external_2 and back, and two ends."""
    assert PART.clock_ps == 100_000
    entries = ((2, 0), (0, 2), (1, 1), (0, 0), (1, 0))
    assert switch_table(PART) == SwitchTable(1000, 100, 800, 10_000, 3, entries)
    odd = load_optics("ocstrx", {"timing.reconfigure": "60.05 us", "timing.detect": "0 us"}).value
    assert switch_table(odd)[:4] == (0, 100, 601, 10_000)  # whole clocks, rounded up


@pytest.mark.parametrize("name", ["detect", "decide", "reconfigure", "retrain"])
def test_every_time_bites(name):
    before = getattr(PART.timing, name).ps
    bent = load_optics("ocstrx", {f"timing.{name}": f"{before + 1} ps"}).value
    place = ("detect", "decide", "reconfigure", "retrain").index(name)
    assert [b - a for a, b in zip(switch_table(PART)[:4], switch_table(bent)[:4], strict=True)] == [
        int(n == place) for n in range(4)
    ]


def test_parts_of_one_kind_are_not_those_of_the_other():
    assert list_names("optics") == ["ocstrx"] and "ocstrx" not in list_names("parts")
    assert is_optics("ocstrx") and is_optics(str(HERE / "parts/ocstrx.yaml")) and not is_optics("gddr6_aim")
    with pytest.raises(UserError, match="part 'ocstrx' is optical; expected a memory: ddr4_2400, "):
        load_part("ocstrx")
    with pytest.raises(UserError, match="unknown optical part 'ocstx'; nearest: ocstrx; known optical parts: ocstrx"):
        load_optics("ocstx")
    assert "ocstrx" in call("list").out and "OCSTrx, 800 Gb/s" in call("list").out


def test_a_field_explains_itself():
    assert [value[:2] for value in explain("optics.timing.reconfigure").values] == [("ocstrx", "80 us")]
    assert explain("optics.gbps").values[0].source.startswith("[secondary] OCP talk")
    assert explain("optics.hop.latency_ns").values[0].file.startswith("arch/parts/ocstrx.yaml:")


WRONG = {
    "power_w: 12": ("power_w: twelve", "at $.power_w: expected number > 0, got twelve"),
    "gbps: 800": ("gpbs: 800", "at $: unknown key 'gpbs'"),
    "reconfigure: 80 us": ("reconfigure: 80", "at $.timing.reconfigure: expected a time with its unit"),
    "detect: 100 us": ("detect: 100 nCK", "at $.timing.detect: expected a time such as 80 us, got 100 nCK"),
    "decide: 10 us": ("decide: 0 us", "at $.timing.decide: expected more than 0"),
    "retrain: 1 ms": ("retrain: 300000 ms", "at $.timing.retrain: expected less than 2^31 clocks"),
    "reconfigure_best: 60 us": ("reconfigure_best: 90 us", "at $.timing.reconfigure_best: expected at most the worst"),
    "backup: external_2": ("backup: external_3", "at $.table.external_1.backup: no entry 'external_3'; nearest: ext"),
    "path: loopback": ("path: loop", "at $.table.loopback.path: no path 'loop'; nearest: loopback; expected one of"),
    "paths: [external_1, external_2": ("paths: [external_1, external_1", "at $.paths: expected each path once"),
    "kind: optics": ("kind: optical", "at $.kind: expected one of optics, got optical"),
}


@pytest.mark.parametrize("good", WRONG)
def test_a_wrong_part_is_one_line(good, tmp_path):
    bad, said = WRONG[good]
    file = tmp_path / "mine.yaml"
    file.write_text(TEXT.replace(good, bad, 1))
    with pytest.raises(UserError) as error:
        load_optics(str(file))
    assert said in str(error.value) and re.match(rf"{re.escape(str(file))}:\d+: ", str(error.value))


def test_the_link_budget_by_hand():
    """4.0 dBm - 2 switches of 3.3 - 2 connectors of 0.35 - 3 m of 0.4 dB/km = -3.3012 dBm; -5.9 dBm are needed."""
    lines = link_budget(PART)
    assert [line.item for line in lines] == [
        "transmitter",
        "switch of the sender",
        "connector 1",
        "connector 2",
        "fibre, 3 m",
        "switch of the receiver",
        "receiver, margin",
    ]
    assert lines[0] == ("transmitter", 0, 4.0)
    assert lines[-2].dbm == pytest.approx(-3.3012) and lines[-1].db == pytest.approx(2.5988) and lines[-1].dbm == -5.9
    assert link_budget(PART, worst=True)[-1].db == pytest.approx(1.1988)
    assert link_budget(PART, 3)[-1].db == pytest.approx(2.5964)  # over two bypassed nodes
    loop = link_budget(PART, 0)
    assert [line.item for line in loop[1:-1]] == ["switch, loopback"] and loop[-1].db == pytest.approx(6.6)
    with pytest.raises(ValueError, match="a distance from 0 nodes on, got -1"):
        link_budget(PART, -1)


BUDGET = ("transmit_dbm", "sensitivity_dbm", "insertion_db", "insertion_worst_db", "connector_db", "connectors")


@pytest.mark.parametrize("name", [*BUDGET, "fibre_db_per_km"])
def test_every_number_of_the_budget_bites(name):
    bent = load_optics("ocstrx", {f"optical.{name}": str(getattr(PART.optical, name) + 1)}).value
    margins = [[link_budget(part, worst=worst)[-1].db for worst in (False, True)] for part in (PART, bent)]
    by = {"transmit_dbm": 1, "sensitivity_dbm": -1, "connector_db": -2, "connectors": -0.35, "fibre_db_per_km": -0.003}
    both = by.get(name, 0)
    alone = {"insertion_db": (-2, 0), "insertion_worst_db": (0, -2)}
    change = alone.get(name, (both, both))
    assert [b - a for a, b in zip(*margins, strict=True)] == [pytest.approx(x) for x in change]


def test_the_budget_as_rows():
    rows = budget_rows(PART)
    assert rows[-1]["db"] > rows[-1]["worst_db"] > 0 and rows[1]["worst_db"] == -4


@pytest.mark.slow
def test_the_budget_is_drawn():
    figure = budget_figure(PART)
    assert "margin" in figure.svg and "switch of the sender" in figure.svg and "4 dBm" in figure.caption
