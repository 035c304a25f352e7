"""Nothing that a user gives makes more than one line of an error: seeded odd options, files, values and signals.

Exit code 0, 2 or 130 and never 1, at most one line on stderr, nothing half-written, no traceback. Other seeds:
`PIMLOOM_FUZZ_SEED=7 pytest tests/test_fuzz.py -m slow`.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.sweeping.crew import cluster
from tests.command import ENVIRONMENT, call
from tests.fuzz import FILES, NUMBERS, READ_BY, TEXTS, TookLong, broken, limited, spoiled, tried, whole, write_files

pytestmark = pytest.mark.slow
SEED = int(os.environ.get("PIMLOOM_FUZZ_SEED", "1"))
GOOD = {  # command -> words with which it works
    "list": "",
    "explain": "dram.timing.tCCD_L",
    "run": "pim_gpt --model config.json --generate 1",
    "compare": "pim_gpt,gpu_a100 --model config.json --generate 1",
    "trace": "ddr4 requests.trc",
    "aim": "program.aim",
    "serve": "gpu_a100 --model config.json --trace arrivals.csv",
    "rtl list": "",
    "rtl emit": "timer -o out",
    "fabric waste": "--arch nvl72 --gpus 288 --tp 8 --fault-ratio 0.1 --draws 2",
    "fabric faults": "--faults faults.json",
    "fabric place": "--nodes 24 --tp 8 --job-gpus 32",
    "fabric cost": "--arch all",
    "fabric mfu": "--model llama-3.1-405b --gpus 128",
    "fabric switch": "--events events.yaml",
    "sweep run": "sweep.yaml --out designs --workers 1",
    "sweep status": "designs",
    "sweep export": "designs --csv table.csv",
    "sweep report": "designs --out page",
}
LEFT_OUT = {  # they simulate, prove or draw for minutes whatever is odd about one option
    "rtl verify", "rtl prove", "rtl synth", "rtl power",
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep that is done."""
    place = tmp_path_factory.mktemp("finished")
    write_files(place)
    before = Path.cwd()
    os.chdir(place)
    try:
        done = call("sweep", "sweep.yaml", "--out", "designs", "--workers", "1", "--quiet")
    finally:
        os.chdir(before)
    assert done.code == 0, done
    return place / "designs"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cluster, "CONNECT_S", 0.2)
    write_files(tmp_path)
    return tmp_path


def leaves(command: Any, name: str = "") -> dict[str, Any]:
    """All commands by their words."""
    if not hasattr(command, "commands"):
        return {name: command}
    below = (leaves(one, f"{name} {word}".strip()) for word, one in command.commands.items())
    return {words: leaf for found in below for words, leaf in found.items()}


def commands() -> dict[str, Any]:
    from pimloom.cli import COMMANDS, GROUPS, command

    found = [leaves(command(name), name) for name in (*COMMANDS, *GROUPS) if name != "report"]
    return {words: leaf for each in found for words, leaf in each.items()}


def test_every_command_is_tried_or_left_out_on_purpose() -> None:
    assert set(commands()) == GOOD.keys() | LEFT_OUT


def test_what_is_made_odd_works_as_it_stands(folder: Path, finished: Path) -> None:
    shutil.copytree(finished, folder / "designs")
    for name, words in GOOD.items():
        done = call(*name.split(), *words.split())
        assert done.code == 0 and not broken(done, folder), (name, done)
    for file, lines in READ_BY.items():
        for line in lines:
            done = call(*line.split())
            assert done.code == (2 if "--scheduler" in line else 0) and not broken(done, folder), (file, done)


@pytest.mark.parametrize("name", GOOD)
def test_odd_options(name: str, folder: Path, finished: Path) -> None:
    shutil.copytree(finished, folder / "designs")
    chance = random.Random(f"{SEED} {name}")
    options = [one for one in commands()[name].params if one.param_type_name == "option" and one.name != "help"]
    places = [("", words) for words in GOOD[name].split()]  # arguments and values as they stand, too
    faults = []
    for option in [*options, *places]:
        values = ["on its own"] if getattr(option, "is_flag", False) else [*TEXTS, *NUMBERS]
        for value in chance.sample(values, min(len(values), 12)):
            words = [*name.split(), *GOOD[name].split()]
            if isinstance(option, tuple):
                words = [value if word == option[1] else word for word in words]
            else:
                words += [option.opts[0]] if option.is_flag else [option.opts[0], value]
            done = tried(words)
            if done and (fault := broken(done, folder, "" if value in GOOD[name].split() else value)):
                faults.append(f"{words}: {fault}")
            for name_, text in FILES.items():
                (folder / name_).write_text(text)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("file", FILES)
def test_spoiled_files(file: str, folder: Path) -> None:
    chance, faults = random.Random(f"{SEED} {file}"), []
    for _ in range(30):
        text = spoiled(FILES[file], chance)
        (folder / file).write_text(text)
        done = tried(chance.choice(READ_BY[file]).split())
        (folder / file).write_text(FILES[file])
        if done and (fault := broken(done, folder)):
            faults.append(f"{fault}\n--- {file}:\n{text[:3000]}")
        elif not done:
            for path in set(folder.iterdir()) - {folder / name for name in FILES}:
                path.unlink()
    assert not faults, f"{len(faults)} faults; the first:\n{faults[0]}"


ODD: tuple[Any, ...] = (None, True, 0, -1, 2**70, 1.5, float("nan"), "", "x", b"x", [], [1], {}, {"a": 1}, (), object())
CALLS: dict[str, dict[str, Any]] = {
    "run": {"system": "pim_gpt", "model": "gpt2", "generate": 1, "prompt": 0, "set": {}, "seed": 0, "check": False},
    "trace": {"memory": "ddr4", "pattern": "random", "requests": 10, "seed": 0},
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_types_through_python(name: str, folder: Path) -> None:
    faults = []
    for key in CALLS[name]:
        for value in ODD:
            try:
                with limited():
                    getattr(pimloom, name)(**CALLS[name] | {key: value})
            except TookLong:
                continue
            except UserError as error:
                if "\n" in str(error):
                    faults.append(f"{key}={value!r}: two lines: {error}")
            except Exception as error:
                faults.append(f"{key}={value!r}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "change", [{"system": 3}, {"axes": [1]}, {"workload": None}, {"objectives": "x"}, {"seed": 1.5}, {3: 4}]
)
def test_sweeps_of_wrong_types_through_python(change: dict[Any, Any], folder: Path) -> None:
    good = {"system": "pim_gpt", "workload": {"model": "gpt2", "generate": 1}, "axes": {"npu.clock_mhz": [500]}}
    with pytest.raises(UserError) as said:
        pimloom.sweep(good | change, out=folder / "out")
    assert "\n" not in str(said.value) and not (folder / "out").exists()


LONG = {
    "run": "run pim_gpt --model gpt2-xl --generate 1024 --json out --timeline line.json",
    "trace": "trace ddr4 --pattern random --requests 3e6 --json out --commands log.csv.gz",
    "sweep": "sweep run sweep.yaml --out out --workers 1",
    "emit": "rtl emit sequencer -o out",
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_at_random_moments(name: str, number: signal.Signals, folder: Path) -> None:
    chance, faults = random.Random(f"{SEED} {name} {number}"), []
    for longest in (0.3, 0.6, 1.2, 2.4, 4.8):
        before = {path.name for path in folder.iterdir()}
        command = [sys.executable, "-P", "-m", "pimloom", *LONG[name].split()]
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(chance.uniform(0.0, longest))
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        written = {path.name for path in folder.iterdir()} - before
        if "Traceback" in err and not re.search(r"pimloom/(?!__init__)\w+\.py", err):
            continue  # Python itself was starting; none of our code had begun
        if process.returncode not in (0, 128 + number, -number) or "Traceback" in err:
            faults.append(f"{process.returncode}: {err[-600:]}")
        if name != "sweep" and (half := [file for file in written if not whole(folder / file)]):
            faults.append(f"{process.returncode}: wrote {half} in part")
        if left := list(folder.rglob("*.part")):
            faults.append(f"left {left}")
        for file in written - {"out"} if name == "sweep" else written:
            (folder / file).unlink()
    assert not faults, "\n".join(faults)


def test_the_rule_is_noticed_when_it_is_broken(folder: Path) -> None:
    """The fuzzers' own judge."""
    from tests.command import Done

    assert not broken(Done(0, "", ""), folder) and not broken(Done(2, "", "pimloom: no\n"), folder)
    for wrong in (Done(1, "", "pimloom: x\n"), Done(2, "", ""), Done(2, "", "a\nb\n"), Done(2, "", "Traceback\n")):
        assert broken(wrong, folder)
    (folder / "out").write_text("half")
    assert "wrote ['out']" in broken(Done(2, "", "pimloom: no\n"), folder) and not (folder / "out").exists()
    assert json.loads(FILES["config.json"])["n_layer"] == 1 and sys.executable
