"""Keys of AttAcc, CENT and Duplex that would change nothing are refused; those beside them change what they say."""

import re
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from pimloom.arch import unread
from pimloom.arch.aim_file import load_aim
from pimloom.arch.cent import CentSystem
from pimloom.arch.error import UserError
from pimloom.arch.fabric_cost import COMPONENTS
from pimloom.arch.llm import load_llm
from pimloom.arch.load import read_sheet, tree_of
from pimloom.arch.names import find, find_optics
from pimloom.arch.system import load_system
from pimloom.energy.cent import Counted, Token, energies_pj
from pimloom.sweeping.definition.sweep import Sweep
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of
from pimloom.systems.devices.area import area_of_all_mm2
from pimloom.systems.devices.attacc.boxed import boxed
from pimloom.systems.devices.cent.placed import placed
from tests.aim_programs import END, EVERY_INSTRUCTION, MIXED, draw_program
from tests.command import call
from tests.perturb import NAMES, OWN, Ask, command_asks, leaves, model_in, places_in, quiet
from tests.slow import slow

LLAMA = load_llm("llama-2-7b")


@pytest.mark.parametrize(("system", "place", "value", "said"), [
    ("cent", "energy.instruction_buffer.write_mw", "9e9", "instructions are loaded before"),
    ("cent", "aim.dram.io_pj_per_bit", "9", "set that"),
    ("cent", "aim.dram.pim_unit.mac_power_mw", "9", "set these"),
    ("cent", "aim.dram.VDD", "2 V", "currents of the part"),
    ("attacc", "dram.io_pj_per_bit", "9", "leave it out"),
    ("attacc", "dram.VDD", "2 V", "currents of the part"),
    ("attacc", "dram.current.IDD0", "9 mA", "currents of the part"),
    ("duplex", "device.part.io_pj_per_bit", "9", "leave it out"),
    ("duplex", "device.part.VDD", "2 V", "currents of the part"),
])  # fmt: skip
def test_a_key_that_nothing_reads_is_refused(system: str, place: str, value: str, said: str) -> None:
    with pytest.raises(UserError, match=f"^--set {place}: {system} does not read it: .*{said}"):
        load_system(system, {place: value})


def test_a_unit_beside_banks_reads_no_timing_of_commands_that_it_does_not_send() -> None:
    """It multiplies, reads results and writes the cache: it sends no RD, to which nCL belongs."""
    load_system("examples/systems/phone.yaml", {"memories.dram.timing.tRCDMAC": "40 nCK"})
    with pytest.raises(UserError, match=r"memories\.dram\.timing\.nCL: not read: it binds no command"):
        load_system("examples/systems/phone.yaml", {"memories.dram.timing.nCL": "20 nCK"})


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


# Every place of every file under every command that takes it: another value changes the result, or is refused.

COMPOSED = tuple(f"examples/systems/{name}.yaml" for name in ("phone", "pim_card", "hbm3_npu"))
SYSTEMS = (
    "pim_gpt", "attacc", "attacc_gpu", "attacc_host", "neupims", "npu_pim", "npu_only", "cent", "duplex", "xeon_6154",
    *COMPOSED,
)  # fmt: skip
RUN, SERVE = ("--prompt", "300", "--generate", "3"), ("--arrivals", "poisson:1000/s", "--lengths", "300:3")
MANY = ("--prompt", "400", "--generate", "2", "--batch", "64")  # for keys without effect on a few requests
AT_ONCE: dict[str, tuple[str, ...]] = {"pim_gpt": (), "cent": ()}  # requests; of others two
TWO = ((*RUN, "--batch", "2", "--tp", "2"), (*RUN, "--batch", "2", "--tp", "2", "--set", "domain=1"))  # one domain, two
AGAIN: dict[str, tuple[tuple[str, ...], ...]] = {  # more runs, for keys without effect on the first
    **dict.fromkeys(("gpu_a100", "gpu_h100"), TWO),
    **dict.fromkeys(("neupims", "npu_pim", "npu_only", "examples/systems/hbm3_npu.yaml"), (MANY,)),
    "cent": ((*RUN, "--lm-head"),),
}
EXPERTS = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 512}
MODELS: dict[str, dict[str, Any]] = {"duplex": EXPERTS, "cent": {"intermediate_size": 40960}}
ENTRIES = {"external_1": ("external_1", "last_1"), "external_2": ("external_2", "last_2"), "loopback": ("loopback",)}
ALONE = {  # keys without effect on one device or so short a run: why
    "timing.tRAS": "its sum with tRP is tRC, which binds", "timing.tRC": "tRAS + tRP bind",
    "gpu.l2_bytes": "the largest matrices fit", "stacks.pipelined": "projections that hide nothing here",
    "organization.pin_gbps": "checked against the clock, within a percent",
    "host.l1_bytes": "few heads share keys", "host.l2_bytes": "few heads share keys",
    "drain_from": "few writes wait", "drain_below": "few writes wait", "overlap.heads": "as stacks.pipelined",
    "packing.constants": "requests are equal",
    "timing.tRFC": "shorter than an interval of refresh", "timing.tREFI": "longer than the run",
    "dram.one_bus": "no two commands meet", "hbm.one_bus": "one command is sent a clock", "nRTRS": "one rank",
    "hbm.organization.ranks": "refused: more ranks need tCCD_R", "hbm.controller.row_hit_cap": "one operator at a time",
    "timing.tWTR_L": "writes end an operator",
    "timing.tWTR_S": "writes end an operator",
}  # fmt: skip


OF_MANY = {"row_hit_cap": "few requests"}
OF_PEERS = {  # keys that one device does not read
    place: "one device" for place in ("domain", "collective_us", "gbps", "latency_ns", "pj_per_bit", "topology")
}


def asks_of(folder: Path, command: str, system: str) -> list[Ask]:
    model = model_in(folder, **MODELS.get(system, {}))
    if command == "serve":
        apart = ("--scheduler", "vllm-v0") if system == "attacc_host" else ()  # prompts and decode
        return [command_asks("serve", system, "--model", model, *SERVE, "--requests", "3", *apart)]
    many = AT_ONCE.get(system, ("--batch", "2"))
    works = [(*RUN, *many), *AGAIN.get(system, ())]
    if command == "compare":
        both, name = f"{system},{'gpu_a100' if system == 't4' else 't4'}", Path(system).stem
        works = works if system == "cent" else works[:1]
        return [command_asks("compare", both, "--model", model, *work, system=f"{name}:") for work in works]
    return [command_asks("run", system, "--model", model, *work) for work in works]


def sweep_asks(folder: Path, system: str, **more: Any) -> Ask:
    """The row of a sweep's point, without its digest."""
    work: dict[str, Any] = {"model": model_in(folder, **MODELS.get(system, {})), "prompt": 300, "generate": 3}
    work |= more if system in AT_ONCE else {"batch": 2}

    def ask(place: str, text: str) -> Any:
        sweep = Sweep(
            "", system, work, {place: text} if place else {}, (), (), {"latency_s": "min"}, "grid", None, 1, 0
        )
        try:
            row = evaluate(base_of(sweep), {}).row
        except UserError as error:
            return str(error)
        return row["error"] or {key: value for key, value in row.items() if key not in (*OWN, place)}

    return ask


@pytest.mark.parametrize(("command", "system"), [
    ("run", "t4"), ("run", "gpu_a100"), ("serve", "t4"), ("serve", "gpu_h100"), ("compare", "t4"),
    *(slow(command, system) for command in ("run", "serve", "compare") for system in SYSTEMS),
    *(slow("compare", system) for system in ("gpu_a100", "gpu_h100")),
])  # fmt: skip
def test_every_place_changes_the_result_or_is_refused(command: str, system: str, tmp_path: Path) -> None:
    few = (OF_PEERS if system not in ("gpu_a100", "gpu_h100") else {}) if command == "run" else OF_PEERS | OF_MANY
    alone = ALONE | few
    assert quiet(asks_of(tmp_path, command, system), places_in("systems", system), alone) == {}


@pytest.mark.parametrize("system", ["t4", *map(slow, ("gpu_a100", *SYSTEMS))])
def test_every_place_changes_the_row_of_a_sweep_or_is_refused(system: str, tmp_path: Path) -> None:
    ends = [{}, {"lm_head": True}] if system == "cent" else [{}]
    asks = [sweep_asks(tmp_path, system, **more) for more in ends]
    assert quiet(asks, places_in("systems", system), ALONE | OF_PEERS | OF_MANY) == {}


@pytest.mark.parametrize("part", ["gddr6_pim_gpt", slow("ddr4_3200"), slow("hbm2_2400"), slow("lpddr5_6400")])
def test_every_place_of_a_part_under_a_trace(part: str) -> None:
    places = {f"dram.{place}": value for place, value in places_in("parts", part).items()}
    energies = {place: value for place, value in places.items() if place.count(".") == 1 or "timing" not in place}
    asks = command_asks("trace", part, "--pattern", "random-rw", "--requests", "100", "--idle", "30000")
    assert quiet([asks], energies) == {}


@pytest.mark.parametrize("controller", ["default", slow("dramsim3"), slow("ramulator2")])
def test_every_place_of_a_controller_under_a_trace(controller: str) -> None:
    places = {f"controller.{place}": value for place, value in places_in("controllers", controller).items()}
    asks = [
        command_asks("trace", "ddr4_2400", "--controller", controller, "--pattern", pattern, "--requests", "2000")
        for pattern in ("random-rw", "mixed", "hazard", "sparse", "burst", "row-conflict")
    ]
    assert quiet(asks, places) == {}


@pytest.mark.slow
def test_every_place_of_a_device_under_aim(tmp_path: Path) -> None:
    rows, drawn = [f"AiM WR_ABK 0 1 {row}" for row in range(200)], Random(1)
    programs = [EVERY_INSTRUCTION, rows + END, MIXED * 2 + END, *(draw_program(drawn, 32) for _ in range(12))]
    for n, lines in enumerate(programs):
        (tmp_path / f"{n}.aim").write_text("\n".join(lines))
    asks = [command_asks("aim", str(tmp_path / f"{n}.aim")) for n in range(len(programs))]
    assert quiet(asks, places_in("aim_devices", "gddr6_aim"), ALONE) == {}


def test_every_price_and_count_of_fabrics() -> None:
    tree = tree_of(read_sheet(COMPONENTS))
    names = (*NAMES, "links", "memory", "network")
    places = {place: value for place, value in leaves(tree) if place.rpartition(".")[2] not in names}
    null = "domains.dgx8.parts"  # a mapping or null: there is no other value to set
    assert quiet([command_asks("fabric", "cost")], {key: value for key, value in places.items() if key != null}) == {}


def test_every_place_of_a_gpu_and_a_recipe_of_fabrics() -> None:
    """Experts, which small memories have split, and wide tensor parallelism."""
    works = (("glam-143b", "128", "1", "--set", "gpu.memory_bytes=40000000000"), ("llama-3-8b", "1024", "32"))
    asks = [
        command_asks("fabric", "mfu", "--model", model, "--gpus", gpus, "--tp", tp, "--arch", "infinitehbd-k2", *more)
        for model, gpus, tp, *more in works
    ]
    assert quiet(asks, places_in("gpus", "h100")) == {}


def test_every_place_of_a_transceiver_of_fabrics(tmp_path: Path) -> None:
    """Each entry is requested, and its path fails."""
    entries = [(entry, path) for path in ("external_1", "external_2", "loopback") for entry in ENTRIES[path]]
    steps = [(f"request: {entry}", f"fail: {path}", f"repair: {path}", "data: 1 ms") for entry, path in entries]
    events = [f"- at: {10 * n + 2 * i} ms\n  {what}" for n, step in enumerate(steps) for i, what in enumerate(step)]
    (tmp_path / "events.yaml").write_text("events:\n" + "\n".join(events))
    asks = [command_asks("fabric", "switch", "--events", str(tmp_path / "events.yaml"))]
    assert quiet(asks, dict(leaves(tree_of(read_sheet(find_optics("ocstrx")))))) == {}


def test_a_key_that_nothing_reads_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test bites: without the rule, kernels that cost nothing are taken and change nothing."""
    monkeypatch.setitem(cast(Any, unread.BY_KIND), "roofline", lambda system: ())
    found = quiet(asks_of(tmp_path, "run", "gpu_a100"), {"kernels_per_layer": 24, "power_w": 400.0})
    assert list(found) == ["kernels_per_layer"]


@pytest.mark.parametrize(("arguments", "said"), [
    ("run pim_gpt --set dram.timing.nMODCH=9nCK", "binds no command"),
    ("run pim_gpt --set npu.area_mm2=2", "an area, which run does not report"),
    ("serve gpu_a100 --set kernels_per_layer=3", "not read with launch_us=0"),
    ("run gpu_a100 --set idle_w=3", "power at rest"),
    ("serve attacc_gpu --set dram.timing.tRP=9nCK", "attacc_gpu has no stacks"),
    ("run npu_only --set packing.constants=derived", "there is no PIM"),
    ("run examples/systems/pim_card.yaml --set memories.card.io_pj_per_bit=1", "set that"),
    ("run examples/systems/phone.yaml --set memories.dram.pim_unit.mac_power_mw=1", "units.pim.power_w; set that"),
    ("run examples/systems/phone.yaml --set memories.dram.VDD=1V", "has no currents"),
    ("run duplex --set device.logic_area_mm2.tsvs=9", "an area, which run does not report"),
    ("compare duplex --set device.logic_die_mm2=9", "only pimloom report duplex"),
    ("compare pim_gpt --set workload.lm_head=true", "compare takes --lm-head"),
    ("compare gpu_a100 --set idle_w=3", "power at rest"),
    ("run duplex --set device.part.timing.tWR=9nCK", "binds no command"),
    ("run cent --set aim.registers=9", "pimloom aim"),
    ("run cent --set aim.dram.timing.tRCDMACsb=9nCK", "no MAC of one bank"),
    ("run examples/systems/hbm3_npu.yaml --set memories.hbm.timing.tXS=9nCK", "binds no command"),
    ("run examples/systems/hbm3_npu.yaml --set overlap=concurrent", "there is no unit beside npu"),
    ("run npu_pim --set controller.pim_floor_ck=9", "PIM never yields"),
    ("run npu_pim --set dram.timing.nENDPRE=9nCK", "dram.row_buffers=blocked"),
    ("run neupims --set npu.gemv_load_cyc=9", "PIM multiplies matrices by vectors"),
    ("run gpu_a100 --set routing.seed=3", "the exact mean"),
    ("run duplex --set device.part.timing.tRFCpb=9nCK", "binds no command"),
])  # fmt: skip
def test_keys_that_change_nothing_are_refused_by_the_command(arguments: str, said: str, tmp_path: Path) -> None:
    command, system, _, setting = arguments.split()
    setting = re.sub(r"(\d)(nCK|V)$", r"\1 \2", setting)
    place, _, text = setting.partition("=")
    refused = asks_of(tmp_path, command, system)[0](place, text)
    name = f"{system}:" if command == "compare" else ""
    assert refused.startswith(f"pimloom: --set {name}{place}: ") and said in refused


@pytest.mark.parametrize(("system", "below", "key", "said"), [
    ("npu_only", "dram", "pim_precharge: bank", "there is no PIM"),
    ("npu_only", "controller", "pim_queue_entries: 1", "there is no PIM"),
    ("npu_only", "controller", "pim_floor_ck: 0", "there is no PIM"),
    ("npu_only", "energy", "comp_reads: 4", "there is no PIM"),
    ("npu_only", "packing", "constants: published", "there is no PIM"),
    ("npu_pim", "controller", "pim_floor_ck: 10", "where PIM never yields"),
    ("attacc_gpu", "stacks", "placement: bank", "my has no stacks"),
    ("attacc_host", "stacks", "power_limited: true", "my has no stacks"),
    ("attacc_gpu", "dram", "part: hbm3_attacc_5200", "my has no stacks"),
])  # fmt: skip
def test_a_file_that_has_a_key_without_effect_is_refused(
    system: str, below: str, key: str, said: str, tmp_path: Path
) -> None:
    text, mine = find("systems", system).read_text(), tmp_path / "my.yaml"
    head, line = f"\n{below}:\n", f"  {key}\n"
    mine.write_text(text.replace(head, head + line) if head in text else f"{text}{head.lstrip()}{line}")
    with pytest.raises(UserError, match=rf"^{mine}:\d+: at \$\.{below}\.{key.partition(':')[0]}: .*{said}"):
        load_system(str(mine))


def test_a_key_that_an_override_leaves_without_effect_is_taken() -> None:
    """A sweep over row buffers or stacks has one file for all its points."""
    assert load_system("neupims", {"dram.row_buffers": "none", "dram.lanes": "0"}).part
    assert load_system("attacc", {"stacks.each": "0", "stacks.pipelined": "false", "stacks.co_processing": "false"})
    with pytest.raises(UserError, match=r"^--set stacks\.each: stacks need dram\.part; set it, too, or take attacc$"):
        load_system("attacc_gpu", {"stacks.each": "5"})
    assert load_system("attacc_gpu", {"stacks.each": "5", "dram.part": "hbm3_attacc_5200"}).part


@pytest.mark.parametrize(("setting", "said"), [
    ("dram.pim_unit.mac_power_mw=1", "no command of PIM"), ("dram.timing.nMODCH=9 nCK", "no command of PIM"),
    ("dram.io_pj_per_bit=9", ""), ("controller.page_timeout_ck=9", "page=open"),
    ("controller.refresh=none", ""),
])  # fmt: skip
def test_a_trace_refuses_what_it_does_not_read(setting: str, said: str) -> None:
    done = call("trace", "gddr6_pim_gpt", "--pattern", "random", "--requests", "50", "--set", setting, "--json", "-")
    assert done.code == (2 if said else 0) and said in done.err


@pytest.mark.parametrize("setting", [
    "dram.io_pj_per_bit=9", "dram.VDD=2 V", "dram.timing.tRFC=300 nCK", "dram.pim_unit.global_buffer_bytes=4096",
])  # fmt: skip
def test_host_instructions_have_no_energy_and_no_refresh(setting: str, tmp_path: Path) -> None:
    (tmp_path / "p.aim").write_text("AiM EOC\n")
    done = call("aim", tmp_path / "p.aim", "--set", setting)
    assert done.code == 2 and done.err.startswith(f"pimloom: --set {setting.partition('=')[0]}: not read")


@pytest.mark.parametrize("setting", ["optical.connectors=3", "hop.gbps=100", "timing.reconfigure_best=7 us"])
def test_one_module_has_no_budget_of_light_and_no_ring(setting: str) -> None:
    done = call("fabric", "switch", "--events", "examples/ocs_events.yaml", "--set", setting)
    assert done.code == 2 and done.err.startswith(f"pimloom: --set {setting.partition('=')[0]}: not read: ")


def test_a_column_access_is_whole_beats() -> None:
    """A burst of a pin more is within the rounding of pin rates."""
    with pytest.raises(UserError, match="512 bits is not a whole number of beats on 129 data pins"):
        load_system("npu_only", {"dram.organization.dq_bits": "129"})


@pytest.mark.parametrize(("system", "place", "said"), [
    ("gpu_a100", "idle_w", "power at rest, which sweep does not"), ("pim_gpt", "npu.area_mm2", ""),
    ("attacc", "stacks.area.dram_dies", "an area, which sweep does not report; pimloom compare does"),
])  # fmt: skip
def test_a_sweep_refuses_what_its_rows_do_not_have(system: str, place: str, said: str, tmp_path: Path) -> None:
    found = sweep_asks(tmp_path, system)(place, "9")
    assert said in found if said else isinstance(found, dict)
