"""No output takes the place of an input of the same command, whatever it is called; a file that is replaced keeps its
mode."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.files import write_atomic
from pimloom.arch.inputs import begin
from pimloom.arch.names import HERE
from tests.command import call
from tests.slow import slow

CONFIG = {"model_type": "gpt2", "n_embd": 256, "n_head": 8, "n_layer": 2, "vocab_size": 100}
SWEEP = """system: pim_gpt
workload: {model: m.json, generate: 1}
axes: {npu.clock_mhz: [500, 1000]}
objectives: {latency_s: min}
"""
RUN = ("run", "pim_gpt", "--generate", "1", "--model", "m.json")
BATCH = ("run", "gpu_a100", "--model", "m.json", "--requests")
# (input, command); OUT stands for the input, or for a link to it
COMMANDS = [
    ("m.json", (*RUN, "--json", "OUT")),
    ("m.json", (*RUN, "--timeline", "OUT")),
    ("system.yaml", ("run", "system.yaml", "--model", "gpt2", "--generate", "1", "--json", "OUT")),
    ("part.yaml", (*RUN, "--set", "dram.part=part.yaml", "--json", "OUT")),
    ("m.json", (*BATCH, "r.csv", "--json", "OUT")),
    ("r.csv", (*BATCH, "r.csv", "--json", "OUT")),
    ("t.csv", (*BATCH, "t.csv", "--batch", "1", "--json", "OUT")),
    ("talk.json", (*BATCH, "talk.json", "--batch", "1", "--json", "OUT")),
    *(("a.trc", ("trace", "ddr4", "a.trc", option, "OUT")) for option in ("--json", "--commands", "--request-log")),
    ("a.trc", ("trace", "ddr4", "a.trc", "--timeline", "OUT")),
    ("ddr4.yaml", ("trace", "ddr4.yaml", "a.trc", "--json", "OUT")),
    ("policy.yaml", ("trace", "ddr4", "a.trc", "--controller", "policy.yaml", "--commands", "OUT")),
    ("sweep.yaml", ("sweep", "sweep.yaml", "--out", "out", "--workers", "1", "--json", "OUT")),
    ("m.json", ("sweep", "sweep.yaml", "--out", "out", "--workers", "1", "--json", "OUT")),
    ("faults.json", ("fabric", "faults", "--faults", "faults.json", "--json", "OUT")),
    ("faults.json", ("fabric", "faults", "--faults", "faults.json", "--csv", "OUT")),
    ("m.json", ("fabric", "mfu", "--model", "m.json", "--gpus", "8", "--json", "OUT")),
    ("events.yaml", ("fabric", "switch", "--part", "ocstrx", "--events", "events.yaml", "--csv", "OUT")),
    ("part.yaml", ("rtl", "emit", "timer", "--part", "part.yaml", "-o", "OUT")),
]


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    file = tmp_path_factory.mktemp("faults") / "faults.json"
    assert call("fabric", "faults", "--synthesise", file).code == 0
    return file


@pytest.fixture
def there(tmp_path, monkeypatch, faults):
    monkeypatch.chdir(tmp_path)
    Path("m.json").write_text(json.dumps(CONFIG))
    Path("r.csv").write_text("seq_len\n100\n")
    Path("t.csv").write_text("timestamp,prompt_tokens,output_tokens\n0,5,1\n")
    talk = [{"from": "human", "value": "abc"}, {"from": "gpt", "value": "abc"}]
    Path("talk.json").write_text(json.dumps([{"conversations": talk}]))
    Path("a.trc").write_text("LD 0x0\n")
    Path("sweep.yaml").write_text(SWEEP)
    shutil.copy(HERE / "systems/t4.yaml", "system.yaml")
    shutil.copy(HERE / "parts/gddr6_pim_gpt.yaml", "part.yaml")
    shutil.copy(HERE / "parts/ddr4_3200.yaml", "ddr4.yaml")
    shutil.copy(HERE / "controllers/default.yaml", "policy.yaml")
    shutil.copy(HERE.parent / "examples/ocs_events.yaml", "events.yaml")
    shutil.copy(faults, "faults.json")
    return tmp_path


def spelled(name, how, tmp_path):
    """The same file under another name."""
    other = {"plain": name, "dots": f"sub/../{name}", "whole": str(tmp_path / name)}.get(how, f"link-{name}")
    Path("sub").mkdir(exist_ok=True)
    if how == "symlink":
        Path(other).symlink_to(name)
    if how == "hard link":
        os.link(name, other)
    return other


@pytest.mark.parametrize("how", ["plain", *map(slow, ("dots", "whole")), "symlink", slow("hard link")])
@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=lambda x: " ".join(x) if isinstance(x, tuple) else x)
def test_an_input_is_no_output(name, command, how, there):
    before, out = Path(name).read_bytes(), spelled(name, how, there)
    done = call(*(out if part == "OUT" else part for part in command), *(["-q"] if command[0] != "rtl" else []))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    assert out in done.err and ("name another" in done.err)
    assert Path(name).read_bytes() == Path(out).read_bytes() == before
    assert not list(there.glob(".*.part"))


def test_what_a_sweep_has_is_no_output(there):
    assert call("sweep", "sweep.yaml", "--out", "out", "--workers", "1", "-q").code == 0
    kept = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    used = 0
    for path in kept:
        done = call("sweep", "export", "out", "--csv", path)
        used += done.code == 2 and "it is an input of this command; name another file" in done.err
        if done.code == 0:  # a file that the table is not made of
            path.write_bytes(kept[path])
    assert used >= 2  # its definition, and its rows at least
    for path in map(Path, ("sweep.yaml", "m.json")):  # what its folder was filled from
        before = Path(path).read_bytes()
        done = call("sweep", "export", "out", "--csv", path)
        assert (done.code, Path(path).read_bytes()) == (2, before)
        assert done.err == f"pimloom: --csv {path}: it is an input of this command; name another file\n"
    done = call("sweep", "export", "out", "--csv", "x", "--parquet", "x")
    assert (done.code, done.err) == (2, "pimloom: --csv x: is the file of --parquet too; name another\n")


def test_the_python_api_keeps_inputs_and_forgets_them_with_the_call(there):
    with pytest.raises(UserError, match="m.json: it is an input of this command; name another file"):
        pimloom.run("pim_gpt", model="m.json", generate=1, timeline="m.json")
    with pytest.raises(UserError, match="is the file of the trace too; name another"):
        pimloom.trace("ddr4", "a.trc", commands="a.trc")
    assert json.loads(Path("m.json").read_text()) == CONFIG and Path("a.trc").read_text() == "LD 0x0\n"
    pimloom.trace("ddr4", pattern="random", requests=1, commands="a.trc")  # no input of this call
    assert Path("a.trc").read_text().startswith("cycle,command")


@settings(max_examples=40)
@given(mode=st.integers(0o000, 0o777))
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path_factory, mode):
    path = tmp_path_factory.mktemp("mode") / "result.json"
    path.write_text("old")
    path.chmod(mode)
    write_atomic(path, "new")
    assert path.stat().st_mode & 0o7777 == mode
    path.chmod(0o600)
    assert path.read_text() == "new"


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "new", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_devices_and_other_files_are_written(there):
    begin()
    assert call(*RUN, "--json", os.devnull, "-q").code == 0
    assert call(*RUN, "--json", "other.json", "-q").code == 0 and Path("other.json").exists()
