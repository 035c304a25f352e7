"""No cause of energy is below zero: there is none where currents contradict each other, and the user is told."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import pimloom
from pimloom.arch.currents import ABOVE
from pimloom.arch.error import UserError
from pimloom.arch.memory import Currents
from pimloom.arch.part import Part
from pimloom.arch.part_check import check_part
from pimloom.arch.system import list_names, load_part
from pimloom.arch.units import Milliampere, Volt
from pimloom.energy.dram import (
    NEEDED,
    below_standby,
    channel_pj,
    command_mw_ck,
    contradiction,
    doubt,
    missing_current,
)
from pimloom.energy.npu_pim import Standby, command_pj, memory_pj, no_activate
from tests.command import call
from tests.foreign import INI, changed

ROOT = Path(__file__).parent.parent
DRAMS = [name for name in list_names("parts") if name != "ocstrx"]
ISSUED = {"activate": 5, "read": 7, "write": 3, "refresh": 2, "refresh_bank": 1}
CLOCKS = {"tRC": 111, "tRAS": 77, "tRP": 34, "nBL": 8, "tRFC": 710, "tRFCpb": 300}
milliampere = st.floats(0.5, 1000).map(lambda value: round(value, 1))
numbered = st.fixed_dictionaries(
    dict.fromkeys(NEEDED, milliampere), optional=dict.fromkeys(("IDD5PB", "IDD6"), milliampere)
)


@st.composite
def fitting(draw: st.DrawFn) -> dict[str, float]:
    """Currents that a part may have."""
    idle = draw(milliampere)
    idd = {"IDD2N": idle, "IDD0": idle + draw(milliampere), "IDD3N": idle + draw(milliampere)}
    idd |= {name: idd["IDD3N"] + draw(milliampere) for name in ("IDD4R", "IDD4W", "IDD5B", "IDD5PB")}
    return idd


def with_currents(part: Part, idd: dict[str, float]) -> Part:
    return replace(part, VDD=Volt(1.1), current={name: Milliampere(value) for name, value in idd.items()})


@pytest.mark.parametrize("name", DRAMS)
def test_no_shipped_part_has_a_cause_below_zero(name: str) -> None:
    org = load_part(name).value.organization
    pattern = "random-rw" if org.pseudo_channels > 1 and org.ranks > 1 else "mixed"  # which wants them side by side
    found = pimloom.trace(name, pattern=pattern, requests=500, idle=20_000, set={"controller.row_hit_cap": 4})
    if found.energy_by_cause_pj is None:
        assert load_part(name).value.current == {} and found.energy_pj is None
    else:
        assert all(value >= 0 for value in found.energy_by_cause_pj.values())
        assert found.energy_by_cause_pj["activate"] > 0
        assert found.energy_pj == pytest.approx(math.fsum(found.energy_by_cause_pj.values()))


def test_an_activation_of_ddr5_is_its_upper_bound_and_the_user_is_told() -> None:
    """4 devices x 1.1 V x (122 - 92) mA x 111 clocks of 0.416 ns; IDD0 includes 77 x 142 + 34 x 92 over 111 clocks."""
    found = pimloom.trace("ddr5_4800", pattern="random", requests=500)
    assert found.energy_by_cause_pj is not None
    assert found.energy_by_cause_pj["activate"] == pytest.approx(found.commands["ACT"] * 4 * 1.1 * 30 * 111 * 0.416)
    assert found.warnings == [
        "energy of activate is an upper bound, IDD0 - IDD2N for tRC: IDD0 of 122 mA is less than the 126.7 mA of "
        "IDD3N for tRAS and IDD2N for tRP, of all banks open"
    ]


def test_an_activation_is_the_difference_of_the_data_sheet_where_there_is_one() -> None:
    """8 devices x 1.2 V x (57 x 74 - 52 x 52 - 37 x 22) mA CK x 0.625 ns."""
    found = pimloom.trace("ddr4_3200", pattern="random", requests=500)
    assert found.energy_by_cause_pj is not None and found.warnings == []
    each = 8 * 1.2 * (57 * 74 - 52 * 52 - 37 * 22) * 0.625
    assert found.energy_by_cause_pj["activate"] == pytest.approx(found.commands["ACT"] * each)


def test_where_little_is_left_for_an_activation_the_user_is_told() -> None:
    """126.7 mA is the standby of IDD3N and IDD2N over a row cycle of DDR5-4800; 127 mA leave 35 / 111 of a mA."""
    found = pimloom.trace("ddr5_4800", pattern="random", requests=200, set={"dram.current.IDD0": "127 mA"})
    left = (127 * 111 - 142 * 77 - 92 * 34) / ((127 - 92) * 111)
    assert found.warnings == [
        f"energy of activate is {left:.1%} of its upper bound, IDD0 - IDD2N for tRC: what is left of IDD0 of 127 mA "
        "above IDD3N for tRAS and IDD2N for tRP hangs on their last digits"
    ]


@given(idd=fitting(), more=milliampere)
def test_a_larger_idd0_lowers_an_activation_only_with_a_warning(idd: dict[str, float], more: float) -> None:
    every = [Currents(1.1, idd | {"IDD0": idd0}, 4.0) for idd0 in (idd["IDD0"], idd["IDD0"] + more)]
    low, high = (command_mw_ck(each, CLOCKS)["activate"] for each in every)
    assert low >= 0 and (low < high or doubt(every[0], CLOCKS))


@given(idd=numbered, asleep=st.booleans())
def test_any_currents_have_an_energy_or_a_reason_why_not(idd: dict[str, float], asleep: bool) -> None:
    """Also those that no part may have, but another tool's file."""
    currents, rank_ck = Currents(1.1, idd, 4.0), [(900, 100, 50 * asleep)]
    missing, why = missing_current(currents, ISSUED, rank_ck), contradiction(currents, ISSUED)
    if missing or why:
        absent = missing and missing not in idd and missing in ("IDD5PB", "IDD6")
        assert absent or any(idd.get(name, math.inf) <= idd[below] for name, below, _ in ABOVE)
        return
    found = channel_pj(currents, CLOCKS, ISSUED, rank_ck, 416).pj
    assert all(value >= 0 for value in found.values())
    row = idd["IDD0"] * 111 - idd["IDD3N"] * 77 - idd["IDD2N"] * 34
    assert (row < 0) == (below_standby(currents, CLOCKS) is not None)
    charged = row if row >= 0 else (idd["IDD0"] - idd["IDD2N"]) * 111
    assert found["activate"] == pytest.approx(5 * 4.4 * charged * 0.416)


@given(idd=fitting())
def test_currents_that_a_part_may_have_leave_no_cause_below_zero(idd: dict[str, float]) -> None:
    part = with_currents(load_part("hbm2_neupims").value, idd)
    check_part(part, "part.yaml")
    every = Currents(1.1, idd, 1.0)
    clocks = {name: part.cycles(name) for name in part.timing} | {"tRFCpb": 200}
    assert contradiction(every, ISSUED) is None
    assert all(value >= 0 for value in channel_pj(every, clocks, ISSUED, [(900, 100, 0)], part.tCK_ps).pj.values())
    if no_activate(part) is None:
        assert all(value >= 0 for value in command_pj(part, 4, 16).values())
        counts = {"ACT": 5, "RD": 7, "G_ACT": 2, "COMP": 64, "REFab": 1}
        assert memory_pj(part, command_pj(part, 4, 16), counts, Standby(1000, 300, 200), dual=True)


@pytest.mark.parametrize(
    ("current", "said"),
    [  # ddr4_3200 with a digit lost or gained
        ({"IDD0": 5.7}, "IDD0: expected more than IDD2N of 37 mA: a bank that opens and closes takes more than none"),
        ({"IDD3N": 5.2}, "IDD3N: expected more than IDD2N of 37 mA: an open row takes more than none; got 5.2 mA"),
        ({"IDD2N": 370}, "IDD3N: expected more than IDD2N of 370 mA: an open row takes more than none; got 52 mA"),
        ({"IDD4R": 16.8}, "IDD4R: expected more than IDD3N of 52 mA: it is charged on top of it; got 16.8 mA"),
        ({"IDD5B": 25}, "IDD5B: expected more than IDD3N of 52 mA: it is charged on top of it; got 25 mA"),
        ({"IDD3N": 520}, "IDD4R: expected more than IDD3N of 520 mA: it is charged on top of it; got 168 mA"),
    ],
)
def test_currents_that_contradict_each_other_are_refused(current: dict[str, float], said: str) -> None:
    part = load_part("ddr4_3200").value
    with pytest.raises(UserError) as caught:
        check_part(with_currents(part, dict(part.current) | current), "part.yaml")
    assert str(caught.value).startswith(f"part.yaml: at $.current.{said}")


def staggered(tmp_path: Path) -> Path:
    """DRAMsim3's default of 5 mA for IDD5PB, with refreshes that need it."""
    file = tmp_path / "a.ini"
    file.write_text(changed(INI, "[system]", "[system]\nrefresh_policy = BANK_LEVEL_STAGGERED"))
    return file


def test_dramsim3s_total_is_kept_where_it_has_a_negative_term_but_no_cause_is_shown(tmp_path: Path) -> None:
    found = pimloom.trace(staggered(tmp_path), pattern="random", requests=2000, idle=30_000)
    assert found.commands["REFpb"] > 0
    assert (found.energy_pj, found.energy_by_cause_pj, found.power_mw) == (None, None, None)
    n, watt = found.commands, 1.2 * 8
    each = {"ACT": 57 * 74 - 43 * 52 - 34 * 22, "RD": (135 - 43) * 4, "WR": (123 - 43) * 4, "REFpb": (5 - 43) * 20}
    total = watt * sum(n.get(name, 0) * value for name, value in each.items())
    total += watt * (43 * found.rank_active_cycles + 34 * found.rank_precharged_cycles)
    assert found.energy_mw_cycles == pytest.approx(total)
    assert found.warnings[-2:] == [
        "energy_mw_cycles is DRAMsim3's: its refresh_bank is below zero",
        "no energy: IDD5PB of 5 mA is not above IDD3N of 43 mA: it is charged on top of it",
    ]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [  # of a file with 57, 34, 43, 135, 123 and 250 mA: a digit lost
        ("IDD3N", "4.3", "IDD3N of 4.3 mA is not above IDD2N of 34 mA: an open row takes more than none"),
        ("IDD2N", "340", "IDD3N of 43 mA is not above IDD2N of 340 mA: an open row takes more than none"),
        ("IDD5AB", "2", "IDD5B of 2 mA is not above IDD3N of 43 mA: it is charged on top of it"),
        ("IDD4W", "12", "IDD4W of 12 mA is not above IDD3N of 43 mA: it is charged on top of it"),
    ],
)
def test_a_digit_lost_in_a_file_of_dramsim3_leaves_no_energy(tmp_path: Path, key: str, value: str, said: str) -> None:
    """Whether or not a command issues that it is the current of."""
    file = tmp_path / "a.ini"
    file.write_text(changed(INI, "IDD0 = 57", f"IDD0 = 57\n{key} = {value}"))
    found = pimloom.trace(file, pattern="sequential", requests=100)
    assert found.energy_pj is None and found.energy_mw_cycles
    assert f"no energy: {said}" in found.warnings


def test_a_table_without_energy_says_where_the_reason_is(tmp_path: Path) -> None:
    done = call("trace", str(staggered(tmp_path)), "--pattern", "random", "--requests", "2000", "--idle", "30000")
    line = next(line for line in done.out.splitlines() if line.strip().startswith("energy"))
    assert line.split() == ["energy", "–", "see", "the", "warning"]
    done = call("trace", "hbm3", "--pattern", "random", "--requests", "20")
    assert "this device gives no currents" in done.out and done.err == ""


@pytest.mark.parametrize("missing", ["", "IDD6", "IDD4W"])
def test_a_current_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    text = (ROOT / "arch/parts/ddr4_3200.yaml").read_text()
    file = tmp_path / "part.yaml"
    file.write_text("".join(line for line in text.splitlines(True) if not missing or f"  {missing}:" not in line))
    asleep = {"controller.self_refresh_after_ck": 500, "controller.page": "closed"}
    found = pimloom.trace(file, pattern="random", requests=50, idle=5000, set=asleep)
    assert found.rank_self_refresh_cycles > 0
    assert (found.energy_pj is None) == bool(missing)
    assert found.warnings == ([f"no energy: this device gives no {missing}"] if missing else [])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            "dram.current.IDD0=50 mA",
            "dram.current.IDD0: IDD0 of 50 mA is less than the 50.62 mA of IDD3N for tRAS and IDD2N for tRP; give "
            "currents that fit, or a system without energy",
        ),
        ("energy.static_w=1e306", "neupims: energy of npu_static is inf pJ; a value of the system is out of range"),
    ],
)
def test_an_npu_with_pim_refuses_currents_that_leave_nothing_for_an_act(
    tmp_path: Path, settings: str, said: str
) -> None:
    (tmp_path / "r.csv").write_text("seq_len\n100\n200\n")
    workload = ("--model", "gpt3-small", "--tp", "4", "--requests", str(tmp_path / "r.csv"), "--layers", "1")
    done = call("run", "neupims", *workload, "--set", settings)
    assert (done.code, done.out, done.err) == (2, "", f"pimloom: {said}\n")


@pytest.mark.parametrize(
    ("system", "setting", "cause"),
    [
        ("neupims", "link.pj_per_bit=1e308", "link"),
        ("npu_only", "energy.pj_per_sram_byte=1e305", "npu_scratchpad"),
        ("pim_gpt", "npu.power_mw=1e308", "asic"),
    ],
)
def test_an_energy_that_no_number_holds_is_refused(tmp_path: Path, system: str, setting: str, cause: str) -> None:
    (tmp_path / "r.csv").write_text("seq_len\n100\n200\n")
    batch = ("--model", "gpt3-small", "--tp", "4", "--requests", str(tmp_path / "r.csv"), "--layers", "1")
    workload = ("--model", "gpt2", "--generate", "1") if system == "pim_gpt" else batch
    said = f"pimloom: {system}: energy of {cause} is inf pJ; a value of the system is out of range\n"
    assert call("run", system, *workload, "--set", setting) == (2, "", said)
