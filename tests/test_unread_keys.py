"""Keys of AttAcc, CENT and Duplex that would change nothing are refused; those beside them change what they say."""

import pytest

from pimloom.arch.aim_file import load_aim
from pimloom.arch.cent import CentSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.energy.cent import Counted, Token, energies_pj
from pimloom.systems.devices.area import area_of_all_mm2
from pimloom.systems.devices.attacc.boxed import boxed
from pimloom.systems.devices.cent.placed import placed

LLAMA = load_llm("llama-2-7b")


@pytest.mark.parametrize(("system", "place", "value", "said"), [
    ("cent", "energy.instruction_buffer.write_mw", "9e9", "no token writes instructions"),
    ("cent", "aim.dram.io_pj_per_bit", "9", "set that"),
    ("cent", "aim.dram.pim_unit.mac_power_mw", "9", "set these"),
    ("cent", "aim.dram.VDD", "2 V", "no currents"),
    ("attacc", "dram.io_pj_per_bit", "9", "leave it out"),
    ("attacc", "dram.VDD", "2 V", "no currents"),
    ("attacc", "dram.current.IDD0", "9 mA", "no currents"),
    ("duplex", "device.part.io_pj_per_bit", "9", "leave it out"),
    ("duplex", "device.part.VDD", "2 V", "no currents"),
])  # fmt: skip
def test_a_key_that_nothing_reads_is_refused(system: str, place: str, value: str, said: str) -> None:
    with pytest.raises(UserError, match=f"^--set {place}: {system} does not read it: .*{said}"):
        load_system(system, {place: value})


@pytest.mark.parametrize(("place", "value"), [("controller", "default"), ("device.part.one_bus", "true")])
def test_an_ideal_memory_has_no_commands(place: str, value: str) -> None:
    load_system("duplex", {place: value})
    with pytest.raises(UserError, match=f"^--set {place}: .*memory=simulated"):
        load_system("duplex", {place: value, "memory": "ideal"})


@pytest.mark.parametrize(("place", "value", "unread", "why"), [
    ("device.logic_pim.macs", "8", {"pim": "bank"}, "pim=bank; set pim=logic"),
    ("device.bundle_banks", "4", {"pim": "bank_group"}, "pim=bank_group; set pim=logic"),
    ("device.bank_pim.op_per_byte", "2", {}, "pim=logic; set pim=bank"),
    ("device.bank_group_pim.op_per_byte", "2", {}, "pim=logic; set pim=bank_group"),
    ("router", "optimum", {}, "co_processing=false; set co_processing=true"),
    ("routing.seed", "3", {"routing.drawn": "false"}, "routing.drawn=false; set routing.drawn=true"),
])  # fmt: skip
def test_what_duplex_reads_depends_on_its_other_keys(place: str, value: str, unread: dict[str, str], why: str) -> None:
    alone = {"co_processing": "false"}
    with pytest.raises(UserError, match=f"^--set {place}: not read with {why}, or leave it out$"):
        load_system("duplex", alone | unread | {place: value})
    wanted = [part.partition("=")[::2] for part in why.split("set ")[1:]]
    load_system("duplex", alone | unread | dict(wanted) | {place: value})


@pytest.mark.parametrize("name", ["nCCDAB", "nCCDSB"])
def test_the_distance_of_macs_is_read_under_the_power_limit(name: str) -> None:
    place, llm = f"dram.timing.{name}", load_llm("gpt3-7b")
    here = {place: "5 nCK"} | ({"stacks.placement": "bg"} if name == "nCCDSB" else {})
    boxed(load_system("attacc", here), llm, released=False)
    with pytest.raises(UserError, match=f"^--set {place}: .* 4 clocks apart; set stacks.power_limited=true"):
        boxed(load_system("attacc", here | {"stacks.power_limited": "false"}), llm, released=False)


def test_writes_are_served_before_their_queue_is_full() -> None:
    load_aim("gddr6_aim", {"drain_from": "33"})
    with pytest.raises(UserError, match=r"^--set drain_from: expected at most queue_entries = 33, got 34"):
        load_aim("gddr6_aim", {"drain_from": "34"})
    with pytest.raises(UserError, match=r"at \$\.drain_from: expected at most queue_entries = 8, got 26"):
        load_aim("gddr6_aim", {"queue_entries": "8"})


@pytest.mark.parametrize("value", ["1024", "4096"])
def test_a_program_fills_the_global_buffer_with_a_row(value: str) -> None:
    system = load_system("cent", {"devices": "8", "aim.dram.pim_unit.global_buffer_bytes": value})
    with pytest.raises(UserError, match=f"expected 2048, .*got {value}"):
        placed(system, LLAMA, None, None, False)


def test_one_bus_delays_the_stacks() -> None:
    """A row and a column command no longer issue in one clock."""
    seconds = []
    for settings in ({}, {"dram.one_bus": "true"}):
        found = boxed(load_system("attacc", settings), load_llm("gpt3-175b"), False)
        seconds.append(found.decode([1025] * 16).least["commands"])
    assert seconds[0] < seconds[1] < 1.02 * seconds[0]


def test_memory_controllers_have_a_clock_of_their_own() -> None:
    """[secondary CENT] (267.7 mW x column commands + 381.0 mW x all) / 2 / 2 GHz; mW x ns is pJ."""
    did = Counted({"RD": 30, "PREA": 4}, 0, 100, 50, 50, 32, 500, 256, 0, 16, 16)

    def drawn(settings: dict[str, str]) -> float:
        spec = load_system("cent", settings).of_kind(CentSystem)
        return energies_pj(spec.energy, spec.near_memory, did, Token(64, 4, 1, 16, 1))["memory_controller"]

    whole = (267.7082056 * 30 + 381.0445262 * 34) / 2 * 0.5
    assert drawn({}) == drawn({"near_memory.clock_mhz": "1000"}) == pytest.approx(whole)
    assert drawn({"energy.controller_clock_mhz": "1000"}) == pytest.approx(2 * whole)


def test_activations_use_all_multiprocessors_but_as_released() -> None:
    """8 operations of an element at 0.8 of 312 TFLOPS, all of them or one of 108 multiprocessors."""
    model, new = load_llm("gpt3-175b"), 16 * 1024
    found = [boxed(load_system("attacc"), model, released).prefill([(1024, 0)] * 16) for released in (False, True)]
    elements = new * 4 * 12288 / 8  # of one of eight GPUs
    fitted = 8.29e-6 + 4.47e-13 * 1555 / 3352 * 2 * 2 * elements
    one_core = 8 * elements / (312e12 * 0.8 / 108)
    assert fitted < one_core
    assert [each.seconds["activation"] for each in found] == pytest.approx([96 * fitted, 96 * one_core])


@pytest.mark.parametrize(("settings", "tp", "area"), [
    ({}, 1, 4 * 5 * 17.81),  # [paper] 3.02 + 2.26 + 1.64 + 10.89 of each of five stacks of four devices
    ({}, 8, 8 * 5 * 17.81),
    ({"nodes": "2", "device.logic_area_mm2.tsvs": "20"}, 1, 8 * 5 * 26.92),
    ({"arrangement": "hetero", "co_processing": "false"}, 1, 2 * 5 * 17.81),
    ({"pim": "bank"}, 1, None),
])  # fmt: skip
def test_area_of_duplex_is_what_its_logic_dies_get(settings: dict[str, str], tp: int, area: float | None) -> None:
    assert area_of_all_mm2(load_system("duplex", settings), tp) == (area and pytest.approx(area))


@pytest.mark.parametrize(("settings", "tp", "area"), [
    ({}, 8, 8 * 5 * (8 * 13.12 + 1.40)),  # [secondary] each of eight DRAM dies and the buffer die of 40 stacks
    ({}, 1, 5 * (8 * 13.12 + 1.40)),
    ({"stacks.each": "3", "stacks.area.dram_dies": "12"}, 6, 6 * 3 * (12 * 13.12 + 1.40)),
    ({"stacks.area.dram_die_mm2": "10", "stacks.area.buffer_die_mm2": "3"}, 8, 8 * 5 * 83),
    ({"stacks.placement": "bg"}, 8, None),
    ({"stacks.placement": "bg", "stacks.area.placement": "bg"}, 8, 8 * 5 * (8 * 13.12 + 1.40)),
    ({"stacks.each": "0", "stacks.pipelined": "false", "stacks.co_processing": "false"}, 8, None),
])  # fmt: skip
def test_area_of_attacc_is_what_its_dies_get(settings: dict[str, str], tp: int, area: float | None) -> None:
    assert area_of_all_mm2(load_system("attacc", settings), tp) == (area and pytest.approx(area))
    assert area_of_all_mm2(load_system("attacc_gpu"), tp) is None
