# amaranth: UnusedElaboratable=no
"""A file's name stands in outputs, so it is one line of printable characters, or the file is refused."""

import json
import os
import shutil
from pathlib import Path

import pytest

from pimloom.arch.error import UserError, one_line
from pimloom.arch.llm import load_llm
from pimloom.arch.system import HERE
from tests.command import call, snapshot

pytest.importorskip("amaranth")

EVIL = (
    "x\nmodule evil; initial $finish; endmodule\n",
    "x\r`include evil",
    "x\u2028module evil; endmodule",
    "x\x1b[31mred",
    "x\x85y",
    os.fsdecode(b"x\xff"),
)
TINY = {"model_type": "gpt2", "n_layer": 1, "n_embd": 256, "n_head": 4, "n_positions": 256, "vocab_size": 1000}
SWEEP = "system: pim_gpt\nworkload: {model: gpt2, generate: 1}\naxes: {npu.clock_mhz: [500]}\n"
PART = HERE / "parts" / "gddr6_pim_gpt.yaml"
SYSTEM = HERE / "systems" / "pim_gpt.yaml"
FILES = {  # suffix -> text
    "part.yaml": PART.read_text(),
    "ocstrx.yaml": (HERE / "parts" / "ocstrx.yaml").read_text(),
    "system.yaml": SYSTEM.read_text(),
    "model.json": json.dumps(TINY),
    "batch.csv": "seq_len\n4\n",
    "requests.trc": "0x10 READ 0\n",
    "faults.json": "{}",
    "sweep.yaml": SWEEP,
}
EVENTS = Path(__file__).parent.parent / "examples" / "ocs_events.yaml"
NPU = "run npu_pim --model gpt3-7b --tp 4 --requests"
COMMANDS = {  # the words of a command before the file -> the file
    "rtl emit timer -o out.v --part": "part.yaml",
    "rtl emit ocs_switch -o out.v --part": "ocstrx.yaml",
    "rtl verify timer --json out.json --part": "part.yaml",
    "trace --pattern random --requests 10 --json out.json": "part.yaml",
    "run --model gpt2 --generate 1 --json out.json": "system.yaml",
    "run pim_gpt --generate 1 --json out.json --model": "model.json",
    f"{NPU}": "batch.csv",
    "trace ddr4 --json out.json": "requests.trc",
    "fabric waste --arch nvl72 --gpus 2880 --tp 32 --json out.json --faults": "faults.json",
    f"fabric switch --events {EVENTS} --json out.json --part": "ocstrx.yaml",
    "sweep run --out out": "sweep.yaml",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_file_of_such_a_name_is_refused(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in EVIL:
        file = f"{name}{COMMANDS[words]}"
        Path(file).write_text(FILES[COMMANDS[words]])
        before = snapshot(tmp_path)
        done = call(*words.split(), file)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), (file, done)
        assert done.err[:-1].isprintable() and "printable characters on one line" in done.err, (file, done.err)
        assert snapshot(tmp_path) == before


def test_a_system_that_names_such_a_part_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in EVIL[:-1]:  # YAML has no bytes
        file = f"{name}part.yaml"
        Path(file).write_text(FILES["part.yaml"])
        Path("system.yaml").write_text(SYSTEM.read_text().replace("part: gddr6_pim_gpt", f"part: {json.dumps(file)}"))
        done = call("run", "system.yaml", "--model", "gpt2", "--generate", "1")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), (file, done)
        assert done.err[:-1].isprintable() and "printable characters on one line" in done.err, (file, done.err)


def test_a_model_named_by_such_a_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "two\nlines"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    with pytest.raises(UserError, match="printable characters on one line"):
        load_llm(folder)


def test_verilog_comments_stay_comments_whatever_the_title() -> None:
    from pimloom.rtl.header import header
    from pimloom.rtl.timer import Timer

    for name in EVIL:
        text = header(Timer(2, 3), name)
        assert all(not line or line.startswith("//") for line in text.splitlines())
        assert one_line(name) in text


def test_other_names_are_kept_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "Über <b>& \"part\" 'é' 東 %s {0}"
    shutil.copy(PART, f"{name}.yaml")
    done = call("rtl", "emit", "timer", "--part", f"{name}.yaml")
    assert done.code == 0 and done.out.startswith(f"// timer of {name}, by pimloom ")
