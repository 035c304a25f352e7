"""No command runs Python files of the folder it is called in, nor do the processes that it starts."""

import json
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.command import ENVIRONMENT
from tests.slow import slow
from tests.sweep_place import port

SCRIPTS = Path(sysconfig.get_path("scripts"))
TINY = {"model_type": "gpt2", "n_layer": 1, "n_embd": 256, "n_head": 4, "n_positions": 256, "vocab_size": 1000}
SWEEP = """
system: pim_gpt
workload: {model: config.json, generate: 1}
axes: {npu.clock_mhz: [500, 1000]}
objectives: {tokens_per_s: max}
"""
TRAP = """
from os import write, open, O_CREAT, O_WRONLY, O_APPEND
write(open({marks!r}, O_CREAT | O_WRONLY | O_APPEND), b"{name} ")
raise SystemExit("{name}.py of the current folder was imported")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep, a model, and a file named like each module that can be imported."""
    here = tmp_path_factory.mktemp("safe") / "here"
    here.mkdir()
    modules = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"}
    for name in modules:
        if name.isidentifier():
            (here / f"{name}.py").write_text(TRAP.format(marks=str(here.parent / "marks"), name=name))
    (here / "config.json").write_text(json.dumps(TINY))
    (here / "s.yaml").write_text(SWEEP)
    return here


def ran(folder: Path, *arguments: str, program: tuple[Path | str, ...] = (SCRIPTS / "pimloom",)) -> str:
    """What the program prints; no file of the folder was imported by it, nor by what it started."""
    done = subprocess.run(
        [*program, *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert not (folder.parent / "marks").exists(), (folder.parent / "marks").read_text()
    assert done.returncode == 0, done.stderr
    return done.stdout


API = (sys.executable, "-P", "-c")


SEVERAL = """
import runpy, sys
for words in {every!r}:
    sys.argv = ["pimloom", *words.split()]
    try:
        runpy.run_path({script!r}, run_name="__main__")
    except SystemExit as end:
        assert not end.code, words
import pimloom
assert len(pimloom.sweep("s.yaml", out="s")) == 2
"""


def test_a_sweep_and_what_shows_it(folder: Path) -> None:
    """The API has the same simulators: it finds what the command has simulated."""
    found = json.loads(ran(folder, "sweep", "s.yaml", "--workers", "1", "--json", "-", "--quiet"))
    assert (found["finished"], found["failed"]) == (2, 0)
    every = ("sweep report s", "sweep export s --csv rows.csv")
    ran(folder, SEVERAL.format(every=every, script=str(SCRIPTS / "pimloom")), program=API)
    assert (folder / "s" / "report" / "index.html").exists() and (folder / "rows.csv").exists()


@pytest.mark.slow
def test_a_sweep_of_the_python_api(folder: Path) -> None:
    ran(folder, "import pimloom; assert len(pimloom.sweep('s.yaml', out='new', workers=2)) == 2", program=API)


@pytest.mark.slow  # `rtl emit` below runs the same tools
def test_verilog_of_the_python_api(folder: Path) -> None:
    code = "from pimloom.rtl.verilog import to_verilog; from pimloom.rtl.bf16 import Mul; to_verilog(Mul(), 'm')"
    ran(folder, code, program=API)


@pytest.mark.parametrize(
    "command",
    [
        "run pim_gpt --model config.json --generate 1 --json -",
        "run t4 --model config.json --generate 1",
        "trace ddr4 --pattern random --requests 100",
        "rtl emit timer -o timer.v",
        *map(slow, ("explain dram.timing.tCCD_L", "list", "rtl list", "fabric cost --arch all")),
        pytest.param("rtl verify timer --commands 200", marks=pytest.mark.slow),
        pytest.param("rtl synth timer", marks=pytest.mark.slow),
        pytest.param("report infinitehbd --out page", marks=pytest.mark.slow),
    ],
)
def test_other_commands(folder: Path, command: str) -> None:
    ran(folder, *command.split())


@pytest.mark.slow
def test_dask_workers_started_as_the_documentation_says(folder: Path) -> None:
    free = str(port())
    at = f"tcp://127.0.0.1:{free}"
    safe = os.environ | {"PYTHONSAFEPATH": "1"}
    quiet = {"cwd": folder, "env": safe, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    scheduler = [SCRIPTS / "dask", "scheduler", "--host", "127.0.0.1", "--port", free, "--no-dashboard"]
    worker = [SCRIPTS / "dask", "worker", at, "--nthreads", "1", "--nworkers", "1", "--no-dashboard"]
    started = [subprocess.Popen(command, **quiet) for command in (scheduler, worker)]  # type: ignore[call-overload]
    try:
        command = ("sweep", "s.yaml", "--out", "cluster", "--scheduler", at, "--json", "-", "--quiet")
        found = json.loads(ran(folder, *command))
        assert (found["finished"], found["failed"]) == (2, 0)
    finally:
        for process in started[::-1]:
            process.terminate()
            process.communicate(timeout=60)
