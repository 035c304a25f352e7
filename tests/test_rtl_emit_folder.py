# amaranth: UnusedElaboratable=no
"""`pimloom rtl emit BLOCK -o DIR/`: the folder stands by itself, its bench finds what is wrong."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from amaranth.lib.wiring import Component

from pimloom.arch.error import UserError
from pimloom.arch.files import write_atomic
from pimloom.arch.part import Part
from pimloom.arch.system import load_part
from pimloom.arch.table import rule_rows
from pimloom.arch.version import __version__
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.emit.design import Design
from pimloom.rtl.flow.emit.folder import files_of, without_bench, write_folder
from pimloom.rtl.flow.emit.listing import names_of
from pimloom.rtl.flow.emit.record import Recording
from pimloom.rtl.flow.emit.rules import assertions
from pimloom.rtl.flow.emit.runs import RUNS
from pimloom.rtl.flow.npu_pim.traffic import Size, small
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.stimulus import own_table, shrink
from pimloom.rtl.npu_pim.channel import NpuPimChannel
from pimloom.rtl.verilog import to_verilog
from tests.command import call
from tests.simulators import needs
from tests.slow import slow

PART = "gddr6_pim_gpt"
MORE = 200  # clocks
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
MAKE = shutil.which("make") or "make"


def make(
    folder: Path,
    simulator: str,
    tmp_path: Path,
    target: str = "test",
    python: str = sys.executable,
    without: tuple[str, ...] = (),
    path: str = SYSTEM,
) -> subprocess.CompletedProcess[str]:
    """`make test` in an environment with nothing but PATH, where `import pimloom` fails, and packages of `without`."""
    stub = tmp_path / "stub"
    stub.mkdir(exist_ok=True)
    for name in ("pimloom", *without):
        (stub / f"{name}.py").write_text("raise ImportError('not here')")
    command = [MAKE, "-C", str(folder), target, f"SIM={simulator}", f"PYTHON={python}"]
    return subprocess.run(
        command, env={"PATH": path, "PYTHONPATH": str(stub)}, capture_output=True, text=True, check=False
    )


WAVES = """$timescale 1ps $end
 $scope module TOP $end
  $var wire 1 ) clk $end
  $scope module timer $end
   $var wire 1 ) clk $end
   $var wire 1 * rst $end
   $var wire 4 + busy [3:0] $end
   $var wire 1 , arm $end
   $var wire 3 " left_0 [2:0] $end
  $upscope $end
 $upscope $end
$enddefinitions $end

#0
b101 "
0)
0*
b0000 +
1,
#1
b011 "
1)
b0001 +
#2
0)
0,
#3
1)
b0011 +
#4
0)
1*
#5
1)
b0000 +
"""  # as Verilator writes it


def _waves_as_written_here(block: object, part: object, verilog: str, waves: Path) -> str:
    """As a runner leaves them."""
    write_atomic(waves, WAVES)
    return ""


@pytest.mark.parametrize("recorded", ["as written here", slow("by Verilator")])
def test_the_folder_holds_what_an_engineer_asks_for(tmp_path: Path, monkeypatch, recorded: str) -> None:
    out = tmp_path / "timer"
    if recorded == "as written here":
        monkeypatch.setitem(RUNS, "timer", _waves_as_written_here)
    assert call("rtl", "emit", "timer", "-o", f"{out}/", "--quiet") == (0, "", "")
    assert {file.name for file in out.iterdir()} == {
        "Makefile", "run.py", "test_timer.py", "timer.core", "timer.gtkw", "timer.sdc", "timer.v", "timer.vlt",
        "vectors.txt", "ports.vlt", "pimloom.sha256",
    }  # fmt: skip
    names, *rows = (out / "vectors.txt").read_text().splitlines()
    assert names == "rst arm | busy"
    if recorded == "as written here":  # a row before each rising edge, and a dot for what it was
        assert rows == ["0 1 0", ". 0 1", "1 . 3"]
    else:
        assert len(rows) > 100 and {row.split()[-1] for row in rows} > {"0", "1", "3", "7"}
    sdc = (out / "timer.sdc").read_text()
    assert "create_clock -name dram_ck -period 0.5 [get_ports {clk}]" in sdc  # 2 GHz
    assert "set_input_delay 0.1 -clock [get_clocks {dram_ck}] [get_ports {rst arm}]" in sdc
    assert not any("pimloom." in line for line in (out / "test_timer.py").read_text().splitlines() if "import" in line)


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_the_bench_of_the_folder_runs_by_itself_and_finds_what_is_wrong(tmp_path: Path, simulator: Simulator) -> None:
    """A wrong gate, and then a wrong expectation, in a process without pytest's environment."""
    out = tmp_path / "timer"
    assert call("rtl", "emit", "timer", "-o", f"{out}/", "--quiet") == (0, "", "")
    done = make(out, needs(simulator), tmp_path)
    assert done.returncode == 0 and "PASS=1" in done.stdout, done.stdout + done.stderr
    for name, old, new in (("timer.v", "3'h1)", "3'h2)"), ("vectors.txt", "\n0 1 0\n", "\n0 1 1\n")):
        file = out / name
        right = file.read_text()
        assert old in right
        file.write_text(right.replace(old, new, 1))
        done = make(out, simulator, tmp_path)
        assert done.returncode != 0 and "expected" in done.stdout and "failed: recorded" in done.stderr, name
        file.write_text(right)


def test_a_file_that_is_not_as_it_was_written_stays(tmp_path: Path) -> None:
    """A Makefile of the user's own, and one that was changed; what nobody touched is replaced."""
    files = {"timer.v": "module timer;\nendmodule\n", "Makefile": "test:\n"}
    own = tmp_path / "own"
    own.mkdir()
    (own / "Makefile").write_text("all: mine\n")
    with pytest.raises(UserError, match="Makefile is not as pimloom wrote it; move it, or name another folder"):
        write_folder(own, dict(files))
    assert [file.name for file in own.iterdir()] == ["Makefile"]
    assert (own / "Makefile").read_text() == "all: mine\n"
    out = tmp_path / "out"
    for text in ("test:\n", "test: sooner\n"):
        write_folder(out, files | {"Makefile": text})
        assert (out / "Makefile").read_text() == text
    check = subprocess.run(["sha256sum", "-c", "pimloom.sha256"], cwd=out, capture_output=True, text=True, check=False)
    assert check.returncode == 0 and check.stdout.count(": OK") == 2
    (out / "Makefile").write_text("test: by hand\n")
    with pytest.raises(UserError, match="Makefile is not as"):
        write_folder(out, dict(files))
    assert (out / "Makefile").read_text() == "test: by hand\n"


def test_a_foreign_file_stays_and_its_own_is_replaced(tmp_path: Path) -> None:
    mine, its = tmp_path / "mine.v", tmp_path / "its.v"
    mine.write_text("module mine;\nendmodule\n")
    done = call("rtl", "emit", "bf16_mul", "-o", str(mine))
    assert done.code == 2 and "mine.v: pimloom did not write this file; move it, or name another" in done.err
    assert mine.read_text() == "module mine;\nendmodule\n"
    for _ in range(2):
        assert call("rtl", "emit", "bf16_mul", "-o", str(its), "--quiet").code == 0
    done = call("rtl", "emit", "bf16_mul", "-o", str(its), "--clock-mhz", "5")
    assert done.code == 2 and "--clock-mhz 5: read by a folder's constraints" in done.err


def test_a_foreign_makefile_is_found_before_anything_is_made(tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "Makefile").write_text("all: mine\n")
    monkeypatch.setattr("pimloom.rtl.flow.emit.design.build", None)  # nothing is built
    done = call("rtl", "emit", "timer", "--name", "window", "-o", f"{out}/")
    said = f"pimloom: --out {out}/: Makefile is not as pimloom wrote it; move it, or name another folder\n"
    assert done == (2, "", said)
    assert [file.name for file in out.iterdir()] == ["Makefile"] and (out / "Makefile").read_text() == "all: mine\n"


def test_a_folder_holds_one_block(tmp_path: Path) -> None:
    """Makefile, bench and vectors are those of one top module."""
    write_folder(tmp_path / "out", {"near.v": "module near;\nendmodule\n", "Makefile": "test:\n"})
    with pytest.raises(UserError, match="holds near; name another folder"):
        write_folder(tmp_path / "out", {"far.v": "module far;\nendmodule\n", "Makefile": "test:\n"})
    assert not (tmp_path / "out" / "far.v").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the timer under names of a user's own, with the bench of the waves above."""
    out = tmp_path_factory.mktemp("folder") / "acme"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RUNS, "timer", _waves_as_written_here)
        done = call("rtl", "emit", "timer", "--name", "window", "--prefix", "acme_", "-o", f"{out}/")
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    assert lines[0] == f"pimloom: {out}/: timer of {PART}; top module acme_window, 4 ports of 7 bits"
    assert {line.split()[1] for line in lines[1:]} == {file.name for file in out.iterdir()}
    assert all(len(line.split()) > 3 for line in lines)
    return out


def test_the_files_bear_the_name_of_the_top(folder: Path) -> None:
    names = {name.format("acme_window") for name in names_of("timer")}
    assert names == {file.name for file in folder.iterdir() if file.is_file()} and "acme_window.v" in names
    core = (folder / "acme_window.core").read_text()
    assert f"name: pimloom:rtl:acme_window:{__version__.partition('+')[0]}\n" in core
    assert "toplevel: acme_window\n" in core and f'description: "timer of {PART}, by pimloom ' in core
    assert 'public_flat_rw -module "acme_window" -var "busy"' in (folder / "ports.vlt").read_text()
    assert 'lint_off -rule PROCASSINIT -file "acme_window.v"' in (folder / "acme_window.vlt").read_text()
    assert "acme_window.busy[3:0]\n" in (folder / "acme_window.gtkw").read_text()


def test_lint_says_what_is_waived_and_how_often(folder: Path, tmp_path: Path) -> None:
    """A register each, four times; without the waiver it is no success."""
    done = make(folder, "", tmp_path, "lint")
    said = "acme_window.v: no warning of verilator -Wall, 4 waived in acme_window.vlt, with reasons:\n"
    said += "  PROCASSINIT: 4\n"
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr
    waivers = folder / "acme_window.vlt"
    text = waivers.read_text()
    waivers.write_text(text.replace("lint_off -rule PROCASSINIT", "// "))
    done = make(folder, "", tmp_path, "lint")
    waivers.write_text(text)
    assert done.returncode != 0 and "PROCASSINIT" in done.stderr and "not lint clean" in done.stderr


def test_what_is_missing_is_named_and_what_then_is_not_checked(folder: Path, tmp_path: Path) -> None:
    needs("icarus")
    run, bare = folder / "run.py", tmp_path / "bare"
    bare.mkdir()
    (bare / "sh").symlink_to("/bin/sh")
    whole = run.read_text()
    (folder / "vectors.txt").write_text("rst arm | busy\n0 1 0\n. 0 1\n")  # as the gates do it
    run.write_text(whole.replace("ASSERTIONS = []", 'ASSERTIONS = ["acme_window_rules.sv"]'))
    done = make(folder, "", tmp_path, without=("verilator",))
    assert done.returncode == 0 and "PASS=1" in done.stdout, done.stderr
    assert "not checked: assertions of acme_window_rules.sv; missing for verilator: verilator" in done.stderr
    run.write_text(whole)
    for target, said in (
        ("test", "missing for verilator: verilator, make, g++; the bench did not run"),
        ("lint", "missing: verilator; acme_window.v was not linted"),
    ):
        done = make(folder, "", tmp_path, target, without=("verilator",), path=str(bare))
        assert done.returncode != 0 and said in done.stderr
    done = make(folder, "modelsim", tmp_path)
    assert done.returncode != 0 and "modelsim: unknown simulator; known: verilator, icarus" in done.stderr
    done = make(folder, "", tmp_path, python=f"{sys.executable} -S")
    assert done.returncode != 0 and "cocotb 2 is missing; the bench did not run" in done.stderr


def test_nothing_is_half_written(tmp_path: Path) -> None:
    done = call("rtl", "emit", "timer", "-o", f"{tmp_path}/none/there/")
    assert done.code == 2 and "make it first" in done.err and not list(tmp_path.iterdir())


def test_every_rule_that_can_wait_is_asserted() -> None:
    part = load_part(PART).value
    table = own_table(part, shrink(part, 2, 2))
    text = assertions(part, PART, table, "sequencer")
    waiting = [i for i, wait in enumerate(table.rules.wait) if wait > 1]
    assert [i for i in range(len(table.rules.wait)) if f"begin : rule_{i}\n" in text] == waiting


def test_rules_between_two_buses_are_asserted_within_a_clock() -> None:
    """Rows and columns have a bus each: 11 rules look from one to the other, and a wait of one clock binds, too."""
    part = load_part("hbm2_2000").value
    table = own_table(part, shrink(part, 1, 1))
    text = assertions(part, "hbm2_2000", table, "sequencer")
    bus, rules = table.rules.bus, rule_rows(table.rules)
    across = [i for i, r in enumerate(rules) if r.wait and {bus[a] != bus[b] for a in r.after for b in r.before} - {0}]
    told = [i for i in range(len(rules)) if f"rule {i} broken in one clock" in text]
    assert told == across and len(across) > 5
    assert [i for i, rule in enumerate(rules) if f"begin : rule_{i}\n" not in text] == [
        i for i, rule in enumerate(rules) if rule.wait < 1
    ]


def made(component: Component, block: str, part: Part, name: str) -> Design:
    """A component of its own as it would be emitted for a block."""
    return Design(block, block, component, part, name, {}, to_verilog(component, block))


def write_axi(folder: Path, banks: int = 2) -> Path:
    """The folder of `sequencer_axi`, on `banks` x `banks` banks."""
    part = load_part(PART).value
    few = msgspec.structs.replace(part, organization=shrink(part, banks, banks))
    block = SequencerAxi(few)
    write_folder(folder, files_of(made(block, "sequencer_axi", few, PART)))
    return folder


def test_the_axi_folder_has_handshakes_beside_the_rules(tmp_path: Path, monkeypatch) -> None:
    few = Recording({"rst": 1, "s_axi_bready": 1}, {"s_axi_bvalid": 1}, True, [[1, 0, 0], [0, 1, 0]])
    monkeypatch.setattr("pimloom.rtl.flow.emit.folder.record", lambda *arguments: few)
    out, name = write_axi(tmp_path / "axi", 1), "sequencer_axi"
    assert {file.name for file in out.iterdir()} == {
        "Makefile", "run.py", f"test_{name}.py", f"{name}.core", f"{name}.gtkw", f"{name}.sdc", f"{name}.v",
        f"{name}.vlt", "vectors.txt", "ports.vlt", f"{name}_rules.sv", f"{name}_handshakes.sv", "pimloom.sha256",
        f"{name}_formal.sv", f"{name}.sby",
    }  # fmt: skip
    assert f"{name}_rules.sv, {name}_handshakes.sv" in (out / f"{name}.core").read_text()
    assert f'ASSERTIONS = ["{name}_rules.sv", "{name}_handshakes.sv"]' in (out / "run.py").read_text()
    assert f"{name}.s_axi_wdata[31:0]" in (out / f"{name}.gtkw").read_text()
    assert "create_clock -name dram_ck -period 0.5 " in (out / f"{name}.sdc").read_text()


@pytest.mark.slow
def test_the_axi_bench_runs_by_itself_and_finds_what_is_wrong(tmp_path: Path) -> None:
    """A host that was recorded, on both simulators; assertions on Verilator."""
    out = write_axi(tmp_path / "axi")
    names, *rows = (out / "vectors.txt").read_text().splitlines()
    response = names.replace("| ", "").split().index("s_axi_bresp")
    assert len(rows) > 1000 and {"0", "2"} <= {row.split()[response] for row in rows}
    for simulator in simulators():
        done = make(out, simulator, tmp_path)
        assert done.returncode == 0 and "PASS=1" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    gates, rules = out / "sequencer_axi.v", out / "sequencer_axi_handshakes.sv"
    whole, text = gates.read_text(), rules.read_text()
    rules.write_text(text.replace("s_axi_bresp == 0 || ", ""))
    done = make(out, "verilator", tmp_path)
    assert done.returncode != 0 and "block: BRESP is neither OKAY nor SLVERR" in done.stdout + done.stderr
    rules.write_text(text)
    gates.write_text(whole.replace("else if (s_axi_bready) answered <=", "else answered <="))
    assert gates.read_text() != whole
    for simulator in simulators():
        done = make(out, simulator, tmp_path)
        assert done.returncode != 0 and "s_axi_bvalid is 0, expected 0x1" in done.stdout, done.stdout[-2000:]


def simulators() -> list[Simulator]:
    return ["verilator", "icarus"] if shutil.which("iverilog") else ["verilator"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", ["systolic", "npu_tiles", "npu_gemm", "npu_vector", "interleave", "ocs_switch", "pim_channel"]
)
def test_benches_of_all_kinds_run_by_themselves_and_find_an_inverted_output(tmp_path: Path, block: str) -> None:
    out = tmp_path / block
    part = "ocstrx" if block == "ocs_switch" else PART
    assert call("rtl", "emit", block, "--part", part, "-o", f"{out}/", "--quiet") == (0, "", "")
    assert len((out / "vectors.txt").read_text().splitlines()) > 100
    right = (out / f"{block}.v").read_text()
    for verilog, passes in ((right, True), (inverted(right, block), False)):
        (out / f"{block}.v").write_text(verilog)
        for simulator in simulators():
            done = make(out, simulator, tmp_path)
            assert (done.returncode == 0) == passes, done.stdout[-2000:] + done.stderr[-2000:]
            assert "PASS=1" in done.stdout if passes else "expected" in done.stdout


def inverted(verilog: str, top: str) -> str:
    """The text with the first output of the top that a line assigns inverted, or else a register."""
    at = verilog.index(f"module {top} (")
    end = verilog.index("\nendmodule", at)
    outputs = "|".join(re.findall(r"^  output \w+ (?:\[\d+:0\] )?(\w+)", verilog[at:end], re.MULTILINE))
    register = r"^( +(?:always @\(posedge clk\) )?\w+ <= )(\w+);"
    for found, last in ((rf"^( +(?:assign )?(?:{outputs}) = )([^;]*);", end), (register, len(verilog))):
        wrong, times = re.subn(found, r"\1~(\2);", verilog[at:last], count=1, flags=re.MULTILINE)
        if times:
            return verilog[:at] + wrong + verilog[last:]
    raise AssertionError("no output, and no register")


@pytest.mark.slow
def test_the_bench_of_a_channel_with_pim_runs_under_its_rules(tmp_path: Path) -> None:
    """On a small channel; many clocks more than a rule asks for are not there."""
    name, spec = "npu_pim_channel", small(load_part("hbm2_neupims").value, "dual", Size(ranks=1))
    block, out = NpuPimChannel(spec, 16, 8), tmp_path / "npu_pim_channel"
    write_folder(out, files_of(made(block, name, spec.part, "hbm2_neupims")))
    for simulator in simulators():
        done = make(out, simulator, tmp_path)
        assert done.returncode == 0 and "PASS=1" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    rules = out / f"{name}_rules.sv"
    text = rules.read_text()
    for said, wait in (("ACT → RD RDA, same bank: tRCDRD", 14), ("PIM_PRECHARGE → G_ACT, same bank: tRP", 14)):
        at = text.index(f"// {said}")
        end = text.index("end\n", text.index("$error", at))
        longer = text[at:end].replace(f">= {wait},", f">= {wait + MORE},")
        longer = re.sub(r"reg \[\d+:0\] since", "reg [31:0] since", longer)
        rules.write_text(text[:at] + longer.replace(f"{wait + 1}", f"{wait + 1 + MORE}") + text[end:])
        done = make(out, "verilator", tmp_path)
        assert done.returncode != 0 and f"broken: {said}" in done.stdout + done.stderr


def test_a_block_without_a_bench_says_why() -> None:
    large, small_one = (BLOCKS["systolic"].build(None, rows=n, columns=32) for n in (32, 8))
    assert without_bench("systolic", large) == "a waveform of more than 256 elements takes gigabytes"
    timer = BLOCKS["timer"].build(load_part(PART).value)
    assert without_bench("systolic", small_one) == without_bench("timer", timer) == ""
    assert RUNS.keys() == BLOCKS.keys()
