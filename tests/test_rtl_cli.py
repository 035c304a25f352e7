"""`pimloom rtl`: what it prints and writes, and how it fails. The work behind it is faked where it is slow."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.arch.part import Part
from pimloom.arch.system import load_part
from pimloom.commands.rtl_options import PART, Simulator, Solver
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow import lookup, prove, synth, verify
from pimloom.rtl.flow.prove import Proof
from pimloom.rtl.flow.simulator.environment import SIMULATORS
from pimloom.rtl.flow.synth import Synthesis
from pimloom.rtl.flow.verified import Verified
from pimloom.rtl.verilog import to_verilog
from tests.command import ENVIRONMENT, Done, call

GOLDEN = Path(__file__).parent / "golden" / "rtl"
PRINTED = ("verify.txt", "prove.txt", "synth.txt", "synth.json")

RULE = "ACT → REFab, same channel: tRC"
GOOD = Verified("sequencer", PART, "verilator", 20000, 0, 66, 67, {RULE: "it asks for 2 CK"}, 306412, 48612.5)
BAD = GOOD._replace(mismatches=3, first_mismatch="command 7 issued at CK 24, model says 25", waves="sequencer.vcd")
VALUES = Verified("pim_channel", PART, "verilator", 12, 0, 0, 0, {}, 904, 2210.5)
CELLS = Synthesis(
    "pim_unit", PART, "osu018_stdcells", 30341, 1759, 0, 1087221.0, 45300.875, 5821.0,
    "ECP5 LFE5U-85F-6", 11332, 1759, 16, 0, 43.04,
)  # fmt: skip
HUGE = CELLS._replace(block="huge", area_um2=None, nand2_equivalents=None, path_ps=None, fmax_mhz=None)


PROOFS = [
    Proof("sequencer", PART, "bus", "once", "any below 1024", "k-induction", "yices", 1, "proved", True, True, 1.5),
    Proof("sequencer", PART, "rows", "rows fit", "the part's", "k-induction", "yices", 1, "proved", None, None, 0.5),
]


LEFT_OUT: dict[str, dict[str, str]] = {}  # by a part's description


@pytest.fixture(autouse=True)
def left_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a part cannot have is found once for all commands: that builds every block."""
    find = lookup.left_out

    def known(part: Part) -> dict[str, str]:
        if part.description not in LEFT_OUT:
            LEFT_OUT[part.description] = find(part)
        return LEFT_OUT[part.description]

    monkeypatch.setattr(lookup, "left_out", known)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What the faked work returns, and under `asked` what it was asked for."""
    found: dict[str, list[Any]] = {"verify": [GOOD, VALUES], "prove": list(PROOFS), "synth": [CELLS, HUGE], "asked": []}

    def fake_verify(block: str | None, part: str, **options: Any) -> Iterator[Verified]:
        options.pop("progress")(1, 1)
        found["asked"].append((block, part, options))
        yield from found["verify"]

    def fake_prove(block: str | None, part: str, **options: Any) -> list[Proof]:
        options["note"]("nobody hears this without a terminal")
        found["asked"].append((block, part))
        found["solver"] = [options["solver"]]
        return found["prove"]

    def fake_synth(
        blocks: Any, part: Any, part_name: str, progress: Any, note: Any, by_module: bool | None = None
    ) -> list[Synthesis]:
        note("nobody hears this without a terminal")
        found["asked"].append((list(blocks), part_name))
        return found["synth"]

    monkeypatch.setattr(prove, "prove", fake_prove)
    monkeypatch.setattr(verify, "verify", fake_verify)
    monkeypatch.setattr(synth, "synthesize", fake_synth)
    return found


@pytest.mark.parametrize("name", PRINTED)
def test_printed_output(name: str, rows: dict[str, list[Any]]) -> None:
    command, kind = name.split(".")
    done = call("rtl", command, *(["all"] if command == "synth" else []), *(["--json", "-"] if kind == "json" else []))
    assert (done.code, done.err) == (0, "")
    if os.environ.get("PIMLOOM_UPDATE_GOLDEN") == "1":
        (GOLDEN / name).write_text(done.out, encoding="utf-8")
    assert done.out == (GOLDEN / name).read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(PRINTED)


def test_list_names_every_block() -> None:
    done, found = call("rtl", "list"), json.loads(call("rtl", "list", "--json", "-").out)
    assert done.code == 0 and all(name in done.out for name in BLOCKS)
    assert [(row["block"], row["summary"]) for row in found["rows"]] == [(n, b.summary) for n, b in BLOCKS.items()]
    assert found["version"] == pimloom.__version__ and found.keys() == {"rows", "version"}


def test_list_says_what_a_block_needs_and_which_files_it_has() -> None:
    rows = {row["block"]: row for row in json.loads(call("rtl", "list", "--json", "-").out)["rows"]}
    assert rows["systolic"]["needs"] == rows["bf16_mul"]["needs"] == "" and rows["systolic"]["clock_domain"] == "npu"
    assert rows["systolic"]["sizes"] == {"rows": 4, "columns": 4, "dataflow": "ws"}
    assert rows["timer"]["needs"] == "memory part" and rows["pim_unit"]["needs"] == "memory part with PIM units"
    assert rows["npu_pim_channel"]["needs"] == "memory part with pim: neupims or newton"
    assert rows["ocs_switch"]["needs"] == "optical part, ocstrx by default"
    common = ["NAME.v", "NAME.vlt", "NAME.sdc", "NAME.core", "NAME.gtkw"]
    bench = ["test_NAME.py", "vectors.txt", "ports.vlt", "run.py", "Makefile", "pimloom.sha256"]
    assert rows["timer"]["files"] == common + bench
    rules, solver = ["NAME_rules.sv"], ["NAME_formal.sv", "NAME.sby"]
    assert rows["sequencer"]["files"] == common + rules + solver + bench
    assert rows["sequencer_axi"]["files"] == common + rules + ["NAME_handshakes.sv"] + solver + bench
    out = call("rtl", "list").out
    assert "--rows 4 --columns 4" in out and "NAME_handshakes.sv: sequencer_axi\n" in out and "NAME.sdc" in out


def test_blocks_need_what_list_says() -> None:
    """Parts that lack it cannot have the block: no PIM at all, or that of another system."""
    lacking = {"PIM units": "hbm2_neupims", "pim: neupims or newton": "gddr6_aim"}
    for name, block in BLOCKS.items():
        if block.pim:
            part = next(part for what, part in lacking.items() if block.pim.startswith(what))
            for other in (part, "hbm2_2000"):
                assert name in lookup.left_out(load_part(other).value)


def test_emit_writes_verilog(tmp_path: Path) -> None:
    file = tmp_path / "tree.v"
    line = f"pimloom: {file}: bf16_mul; top module bf16_mul, 3 ports of 64 bits, combinational\n"
    assert call("rtl", "emit", "bf16_mul", "-o", file) == (0, "", line)
    assert call("rtl", "emit", "bf16_mul", "-o", file, "--quiet") == (0, "", "")
    shown = call("rtl", "emit", "bf16_mul", "--part", "gddr6_aim", "-o", "-")
    title = f"// bf16_mul, by pimloom {pimloom.__version__}\n"
    assert (shown.code, shown.err) == (0, "") and shown.out.startswith(title)
    assert shown.out == file.read_text()  # this block is the same on every part
    assert shown.out.endswith(to_verilog(BLOCKS["bf16_mul"].build(load_part(PART).value), "bf16_mul"))
    assert "module bf16_mul (" in shown.out


def test_options_arrive(rows: dict[str, list[Any]], tmp_path: Path) -> None:
    waves = tmp_path / "w.vcd"
    options = ("--simulator", "icarus", "--commands", "70", "--seed", "4", "--waves", waves)
    assert call("rtl", "verify", "sequencer", "--part", "gddr6_aim", *options, "--quiet") == (0, "", "")
    assert call("rtl", "verify", "--quiet").code == call("rtl", "prove", "timer", "--quiet").code == 0
    assert call("rtl", "synth", "bf16_mul", "--quiet").code == call("rtl", "synth", "all", "--quiet").code == 0
    asked = {"simulator": "icarus", "commands": 70, "seed": 4, "waves": waves, "sizes": {}}
    plain = {"simulator": "verilator", "commands": 5000, "seed": 0, "waves": None, "sizes": {}}
    assert rows["asked"][:3] == [("sequencer", "gddr6_aim", asked), (None, PART, plain), ("timer", PART)]
    assert rows["asked"][3] == (["bf16_mul"], PART) and "pim_unit" in rows["asked"][4][0]


def test_json_has_rows_version_part_and_seed(rows: dict[str, list[Any]], tmp_path: Path) -> None:
    found = json.loads(call("rtl", "verify", "--seed", "4", "--json", "-").out)
    assert found.keys() == {"rows", "version", "part", "seed", "left_out"} and found["rows"][0].keys() == set(
        Verified._fields
    )
    assert (found["version"], found["part"], found["seed"]) == (pimloom.__version__, PART, 4)
    proofs, cells = (json.loads(call("rtl", *c, "--json", "-").out) for c in (("prove",), ("synth", "all")))
    assert proofs.keys() == {"rows", "version", "part"} and cells.keys() == {*proofs, "left_out", "sizes"}
    assert cells["rows"][0] == CELLS._asdict() and proofs["rows"][1] == PROOFS[1]._asdict()
    with_table, file = call("rtl", "synth", "all", "--json", tmp_path / "s.json"), tmp_path / "s.json"
    assert with_table.out == (GOLDEN / "synth.txt").read_text() and json.loads(file.read_text()) == cells


def test_coverage_is_shown_of_a_block_alone(rows: dict[str, list[Any]]) -> None:
    table = {RULE: None, "ACT → PRE, same bank: tRAS": 3}
    rows["verify"] = [GOOD._replace(coverage=table)]
    out = call("rtl", "verify", "sequencer").out
    assert [line.split()[-1] for line in out.splitlines() if "tRAS" in line or line.startswith(f" {RULE}")] == [
        "–",
        "3",
    ]
    rows["verify"].append(VALUES)
    assert "first decides in case" in out and "first decides in case" not in call("rtl", "verify").out


def test_a_mismatch_is_shown_and_then_fails(rows: dict[str, list[Any]]) -> None:
    rows["verify"] = [BAD, VALUES]
    done = call("rtl", "verify")
    assert (done.code, done.err) == (1, "pimloom: RTL and model differ: mismatches: 3 in sequencer\n")
    for text in ("306,412", "first mismatch: command 7 issued at CK 24, model says 25", "waves: sequencer.vcd", RULE):
        assert text in done.out
    assert json.loads(call("rtl", "verify", "--json", "-").out)["rows"][0]["mismatches"] == 3


@pytest.mark.parametrize("command", [("verify",), ("synth", "all")])
def test_what_the_part_cannot_have_is_said(rows: dict[str, list[Any]], command: tuple[str, ...]) -> None:
    code, out, _ = call("rtl", *command, "--part", "hbm2_2000")
    assert code == 0 and "left out: pim_unit: HBM2 2.0 Gb/s/pin" in out and ": has no PIM units" in out
    assert "left out: pim_unit" not in call("rtl", *command)[1]


@pytest.mark.parametrize("change", [{"result": "FAILED"}, {"covered": False}, {"twin_failed": False}])
def test_a_proof_that_fails_or_proves_nothing_fails(rows: dict[str, list[Any]], change: dict[str, Any]) -> None:
    rows["prove"][0] = PROOFS[0]._replace(**change, trace="bus.vcd")
    done = call("rtl", "prove")
    assert (done.code, done.err) == (1, "pimloom: not proved: bus (any below 1024)\n")
    assert "k-induction" in done.out and "bus: counterexample: bus.vcd" in done.out


def said(*command: str | Path) -> str:
    """The one line that a wrong command prints."""
    done = call("rtl", *command)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1
    return done.err


def test_wrong_commands_are_one_line(tmp_path: Path) -> None:
    for command in ("emit", "synth"):
        unknown = "pimloom: unknown block 'pim_unti'; nearest: pim_unit; known blocks: sequencer, "
        assert said(command, "pim_unti").startswith(unknown)
    assert "sequencer" in said("verify", "sequencr")
    lacks = "HBM2 2.0 Gb/s/pin, 8 Gb a channel, two pseudo channels: has no PIM units\n"
    for command in ("emit", "verify"):
        assert (
            said(command, "pim_unit", "--part", "hbm2_2000")
            == f"pimloom: hbm2_2000 cannot have block pim_unit: {lacks}"
        )
    both = tmp_path / "w.vcd"
    assert said("verify", "timer", "--waves", both, "--json", both).endswith(
        ": is the file of --json too; name another\n"
    )
    assert "100000000 is not in the range 1<=x<=10000000" in said("verify", "timer", "--commands", "100000000")
    assert said("prove", "nothing").startswith("pimloom: unknown block 'nothing'")
    assert said("synth", "pim_channel").startswith("pimloom: pim_channel is not for synthesis: ")
    wrong = said("verify", "timer", "--waves", tmp_path / "w.fst")
    assert wrong == f"pimloom: --waves {tmp_path / 'w.fst'}: simulators write .vcd; name the file so\n"
    assert said("emit", "timer", "--part", "x").startswith("pimloom: unknown part 'x'; known parts: ")
    assert "'modelsim' is not one of 'verilator', 'icarus'" in said("verify", "--simulator", "modelsim")
    assert "Missing command" in said()
    gone = tmp_path / "no" / "r.json"
    missing = f"there is no folder {gone.parent}; make it first\n"
    for command in ("verify", "prove", "synth"):  # before any work is done
        assert said(command, "timer", "--json", gone) == f"pimloom: --json {gone}: {missing}"
    assert said("verify", "--waves", gone) == f"pimloom: --waves {gone}: {missing}"
    assert said("emit", "timer", "-o", gone) == f"pimloom: --out {gone}: {missing}"
    assert said("emit", "timer", "-o", f"{gone}/") == f"pimloom: --out {gone}/: {missing}"
    (tmp_path / "file").write_text("")
    wrong = said("emit", "timer", "-o", f"{tmp_path}/file/")
    assert wrong == f"pimloom: --out {tmp_path}/file/: is a file; name a folder\n"


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("amaranth", ("list",)),
        ("amaranth", ("emit", "timer")),
        ("amaranth", ("verify",)),
        ("amaranth", ("synth", "all")),
    ],
)
def test_a_missing_package_is_one_line(package: str, command: tuple[str, ...]) -> None:
    hide = f"import sys; sys.modules[{package!r}] = None; sys.argv = ['pimloom', 'rtl', *{command}]"
    code = f"{hide}; from pimloom.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    sentence = f"pimloom: {package} is missing; install it with: pip install 'pimloom[rtl]'\n"
    assert Done(ran.returncode, ran.stdout, ran.stderr) == (2, "", sentence)


def test_the_simulators_are_those_of_the_flow() -> None:
    assert tuple(Simulator) == SIMULATORS


def test_the_solvers_are_those_of_the_flow(rows: dict[str, list[Any]]) -> None:
    assert tuple(Solver) == tuple(prove.SOLVERS)
    assert call("rtl", "prove", "--solver", "z3").code == 0 and rows["solver"] == ["z3"]


@pytest.mark.slow
def test_a_small_block_for_real() -> None:
    found = json.loads(call("rtl", "synth", "bf16_mul", "--json", "-").out)["rows"]
    assert [row["block"] for row in found] == ["bf16_mul"]
    assert found[0]["flip_flops"] == found[0]["ff"] == 0 and found[0]["fmax_mhz"] > 20
