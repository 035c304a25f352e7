"""Energy: a hand-computed trace in integers, the specification's component powers, sums and errors."""

from math import ceil, fsum

import msgspec
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.part_memory import part_memory
from pimloom.arch.pim_system import EnergyMode
from pimloom.arch.policy import load_policy
from pimloom.arch.system import PimSystem, load_part, load_system
from pimloom.arch.units import Milliampere, Volt
from pimloom.energy.dram import channel_pj, command_mw_ck
from pimloom.energy.ledger import EnergyError, Ledger
from pimloom.energy.pim import command_energy_pj, pim_energy

V1, V2 = EnergyMode(1, 1, False), EnergyMode(16, 3, False)


def hand_part():
    """VDD 1 V and round currents: every term below is a whole number of pJ."""
    part = load_part("gddr6_pim_gpt").value
    amps = {"IDD0": 100, "IDD2N": 10, "IDD3N": 50, "IDD4R": 250, "IDD4W": 150, "IDD5B": 350}
    assert part.pim_unit
    unit = msgspec.structs.replace(part.pim_unit, mac_power_mw=300.0)
    currents = {name: Milliampere(value) for name, value in amps.items()}
    return msgspec.structs.replace(part, VDD=Volt(1.0), current=currents, pim_unit=unit, io_pj_per_bit=2.0)


def test_a_trace_of_four_commands_by_hand():
    # ACTab, two MACab, WR on one channel, then REFab; 1000 ns; ASIC 7 mW.
    counts = {"ACTab": 1, "MACab": 2, "WR": 1, "REFab": 1}
    ledger = pim_energy(hand_part(), EnergyMode(16, 3, True), counts, 1_000_000, 1, 7.0)
    assert {cause: round(pj, 9) for cause, pj in ledger.pj.items()} == {
        "background": 50_000,  # 50 mW x 1000 ns
        "activate": 38_400,  # 16 x 100 mW x 24 ns
        "read": 1_200,  # 3 x 2 x 200 mW x 1 ns
        "write": 100,  # 100 mW x 1 ns
        "refresh": 136_500,  # 300 mW x 455 ns
        "mac": 600,  # 2 x 300 mW x 1 ns
        "interface": 512,  # one burst: 256 bit x 2 pJ
        "asic": 7_000,  # 7 mW x 1000 ns
    }
    assert ledger.total_pj == pytest.approx(fsum(ledger.pj.values()), rel=1e-12)
    assert sum(ledger.joules().values()) == pytest.approx(ledger.total_pj * 1e-12, rel=1e-12)


def layer_counts(d: int, h: int, t: int) -> tuple[int, int, float]:
    """(accesses, row misses, ns) of one layer by section 3.4 of the specification, at 1 GHz and without refresh."""
    accesses = misses = 0
    ns = 0.0
    for n_in, n_out in ((d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)):
        cols = ceil(n_out / 128)
        accesses += cols * ceil(n_in / 16)
        misses += ceil(cols * n_in / 1024)
        ns += n_in / 16 + cols * ceil(n_in / 16) + 24 * ceil(cols * n_in / 1024) + 1
    chunks, slots, resident = ceil(d / 1024), ceil(d / 128), ceil(t / 128)
    accesses += d // 16 + slots + resident * h * ceil(d / h / 16) + slots * ceil(t / 16)
    misses += chunks + slots + ceil(resident * d / 1024) + slots * ceil(t / 1024)
    ns += d / 16 + 36 * chunks + 37 * slots
    ns += d / 16 + resident * d / 16 + 24 * ceil(resident * d / 1024) + 1
    ns += slots * t / 16 + slots * ceil(t / 16) + 24 * slots
    asic = 6 * ceil(d / 128) + ceil(h * t / 128) + ceil(4 * d / 128) + ceil(3 * d * chunks / 256)
    asic += ceil(d * (chunks + 1) / 256) + ceil(4 * d * chunks / 256) + ceil(d * (ceil(4 * d / 1024) + 1) / 256)
    return accesses, misses, ns + asic


@pytest.mark.parametrize(
    ("d", "h", "mode", "watts"),
    [  # specification 7.5: background, read, ACT, refresh, MAC, ASIC
        (768, 12, V1, (1.42, 2.20, 0.30, 0.09, 0.68, 0.30)),
        (768, 12, V2, (1.42, 6.60, 4.86, 0.09, 0.68, 0.30)),
        (2048, 16, V1, (1.42, 2.44, 0.31, 0.09, 0.75, 0.30)),
        (2048, 16, V2, (1.42, 7.33, 4.88, 0.09, 0.75, 0.30)),
    ],
)
def test_component_powers_of_the_specification(d, h, mode, watts):
    sampled = [layer_counts(d, h, t) for t in range(1, 1010, 16)]
    accesses, misses, work_ns = (sum(column) for column in zip(*sampled, strict=True))
    ns = work_ns * 6825 / 6370
    counts = {"MACab": 8 * accesses, "ACTab": 8 * misses, "REFab": 8 * ns / 6825}
    ledger = pim_energy(load_part("gddr6_pim_gpt").value, mode, counts, round(ns * 1000), 8, 304.59)
    causes = ("background", "read", "activate", "refresh", "mac", "asic")
    assert [ledger.pj[cause] / ns / 1000 for cause in causes] == pytest.approx(watts, abs=0.02)


def test_the_two_accountings_differ_where_they_should():
    part = load_part("gddr6_pim_gpt").value
    one, two = command_energy_pj(part, V1), command_energy_pj(part, V2)
    assert two["ACTab"]["activate"] == 16 * one["ACTab"]["activate"] == 16 * two["ACT"]["activate"]
    assert two["MACab"]["read"] == 3 * one["MACab"]["read"]
    assert two["MACab"]["mac"] == one["MACab"]["mac"] == pytest.approx(149.29)  # 149.29 mW x 1 ns
    assert "interface" not in two["WRGB"]


def test_fixed_powers():
    system = load_system("pim_gpt")
    assert system.part and system.part.pim_unit and isinstance(system.spec, PimSystem)
    assert 8 * system.part.pim_unit.mac_power_mw == pytest.approx(1194.3, abs=0.05)
    assert system.spec.npu.power_mw == 304.59


def test_a_part_without_currents_has_no_energy():
    with pytest.raises(UserError, match="this part gives no IDD0: energy needs IDD0, IDD3N"):
        command_energy_pj(load_part("gddr6_aim").value, V1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_ledger_refuses_what_is_no_energy(value):
    with pytest.raises(EnergyError, match="energy of read is"):
        Ledger({"read": value})


def test_pseudo_channels_share_the_currents_of_their_channel():
    """hbm2_2400's currents are of 128 pins: a read of one pseudo channel takes half of (IDD4R - IDD3N) x VDD, 2 CK."""
    part = load_part("hbm2_2400").value
    memory = part_memory("hbm2", part, load_policy("default").value)
    assert memory.currents is not None
    each = command_mw_ck(memory.currents, memory.clocks)
    assert each["read"] == pytest.approx(1.2 * (390 - 55) / 2 * 2)
    found = channel_pj(memory.currents, memory.clocks, {}, [(10, 0, 0), (0, 10, 0)], 1000).pj  # 1 mW x 1 ns is 1 pJ
    assert found["active_standby"] == pytest.approx(1.2 * 55 / 2 * 10)
    assert found["precharge_standby"] == pytest.approx(1.2 * 40 / 2 * 10)
