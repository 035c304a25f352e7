"""The Python API is as wide as the command line: each command is a function, each option an argument, each default the
same; whatever is given, the error is one line in Python's words."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import pimloom
from pimloom import cli, rtl_api
from pimloom.answer import Answer
from pimloom.arch.error import GateError
from pimloom.edge import NOT_IN_PYTHON, in_python, public
from pimloom.options import KEYED, SEVERAL, WORDED, Option, options_of
from tests.command import call

NAMESPACES = {"sweep": "sweeps"}  # pimloom.sweep is a function


def commands() -> dict[str, Any]:
    """Dotted name in Python -> the function of the command."""
    found = {name: cli.command(name).callback for name in cli.COMMANDS}
    for folder in (name for name in cli.GROUPS if name != "report"):
        for name, each in cli.command(folder).commands.items():
            found[f"{NAMESPACES.get(folder, folder)}.{name}"] = each.callback
    return {name: inspect.unwrap(function) for name, function in found.items()}


COMMANDS = commands()


def python_of(name: str) -> Any:
    found: Any = pimloom
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_a_function_with_its_options_and_defaults(name):
    """`generate=None` is no number in the command either; -1 would be."""
    takes = inspect.signature(python_of(name)).parameters
    options = {option.name: option for option in options_of(COMMANDS[name]) if option.name not in NOT_IN_PYTHON}
    assert set(takes) == set(options)
    for option in options.values():
        given = takes[option.name]
        if option.flag:
            assert given.kind is inspect.Parameter.KEYWORD_ONLY
        required = option.default is inspect.Parameter.empty
        assert given.default == (inspect.Parameter.empty if required else option.default)
    assert (python_of(name).__doc__ or "").strip()


def test_a_sweep_takes_the_options_of_its_command_and_a_mapping():
    takes = set(inspect.signature(pimloom.sweep).parameters)
    options = {option.name for option in options_of(COMMANDS["sweeps.run"])}
    assert takes == options - {"file", "json", "quiet"} | {"source", "progress"}


def test_every_option_of_a_study_is_an_argument_of_report(monkeypatch, tmp_path):
    asked = {}

    def run_study(out: Path, progress: Any, **options: Any) -> Path:
        asked.update(options)
        return Path(out) / "index.html"

    from pimloom.reports.infinitehbd import study

    monkeypatch.setattr(study, "run_study", run_study)
    found = pimloom.report("infinitehbd", out=tmp_path, faults="f.json", servers=7)
    assert asked == {"faults": Path("f.json"), "servers": 7}
    assert (found.page, found.holds, found.complaint) == (str(tmp_path / "index.html"), True, None)

    def broken(out: Path, progress: Any) -> Path:
        raise GateError("a gate does not hold")

    monkeypatch.setattr(study, "run_study", broken)
    found = pimloom.report("infinitehbd", out=tmp_path)
    assert (found.holds, found.complaint) == (False, "a gate does not hold")


WRONG_STUDIES: dict[str, dict[str, Any]] = {
    "unknown study 'rtk'; nearest: rtl; known": {"study": "rtk"},
    "full: rtl has no such option; it takes none": {"study": "rtl", "full": True},
    "servers=0: expected at least 1": {"study": "infinitehbd", "servers": 0},
    "servers: expected a whole number, got 1.5": {"study": "infinitehbd", "servers": 1.5},
    "full: expected True or False, got 1": {"study": "neupims", "full": 1},
    "study: expected a text or a path, got 5": {"study": 5},
}


@pytest.mark.parametrize("said", WRONG_STUDIES)
def test_a_report_that_cannot_be_is_one_line(said):
    with pytest.raises(pimloom.UserError) as error:
        pimloom.report(**WRONG_STUDIES[said])
    assert str(error.value).startswith(said)


OPTIONS = [(name, option) for name in COMMANDS for option in options_of(COMMANDS[name]) if option.flag]


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda x: x.flag if isinstance(x, Option) else x)
def test_an_error_names_the_argument_and_not_the_option(name, option):
    if option.name in NOT_IN_PYTHON:
        return
    for said, python in (
        (f"{option.flag} 0: expected 1", f"{option.name}=0: expected 1"),
        (f"{option.flag}: expected 1", f"{option.name}: expected 1"),
        (f"leave out {option.flag}", f"leave out {option.name}"),
        (f"belongs to {option.flag} FILE; name one", f"belongs to {option.name}=FILE; name one"),
    ):
        if option.name != "set":
            assert in_python(said) == python
    assert in_python(f"{option.flag} a.b: no", {option.name: "a.b"}) == (
        "set['a.b']: no" if option.name == "set" else f"{option.name}=a.b: no"
    )


REQUIRED: dict[str, Any] = {
    "system": "pim_gpt", "systems": ["pim_gpt"], "model": "gpt2", "memory": "ddr4", "block": "timer", "file": "no.yaml",
    "folder": "no", "events": "no.yaml", "program": "no.aim",
}  # fmt: skip
ODD = (True, 1.5, "4", float("nan"), [4], object(), pandas.NA, pandas.Series([1, 2]), pandas.DataFrame({"a": [1]}))


def wrong_for(option: Option) -> list[object]:
    """What is none of its kind."""
    if option.many:
        return [["a=b"], pandas.NA, object(), *([5] if option.metavar == KEYED else ["a"])]
    if option.kind is bool:
        return [1, "yes", pandas.NA]
    if option.kind is int or option.metavar == "N":
        return list(ODD)
    if option.kind is float:
        return [True, "4", float("nan"), float("inf"), [4], pandas.NA]
    if option.metavar in SEVERAL:
        return [True, object(), {"a": 1}, pandas.NA, [None], []]
    if option.metavar in WORDED:
        return [True, float("nan"), 1 << 200, object(), [4], pandas.NA, pandas.Series([1]), "a\0b"]
    return [True, 5, 1.5, object(), pandas.NA, pandas.Series([1]), "a\0b"]


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda x: x.flag if isinstance(x, Option) else x)
def test_another_type_is_a_user_error_of_one_line(name, option):
    if option.name in NOT_IN_PYTHON:
        return
    function = python_of(name)
    needed = {word: value for word, value in REQUIRED.items() if word in inspect.signature(function).parameters}
    beyond = [option.least - 1] if option.least is not None else []
    beyond += [option.most + 1] if option.most is not None else []
    for value in [*wrong_for(option), *beyond, *([] if option.may_be_none else [None])]:
        with pytest.raises(pimloom.UserError) as error:
            function(**needed | {option.name: value})
        said = str(error.value)
        assert said.startswith((option.name, f"a name in {option.name}", f"a place in {option.name}")), said
        assert "\n" not in said and "--" not in said and len(said) < 250


def test_calls_that_do_not_fit_are_user_errors():
    run, waste, mfu = (python_of(name) for name in ("run", "fabric.waste", "fabric.mfu"))
    for wrong, said in (
        (lambda: run("pim_gpt"), "run: missing a required argument: 'model'; it takes system, model,"),
        (lambda: run("pim_gpt", modle="gpt2"), "run: there is no argument 'modle'; nearest: model; it takes"),
        (lambda: waste("all"), "waste: too many positional arguments; it takes arch,"),
        (lambda: mfu(model="gpt2", schedule="2f2b"), "schedule=2f2b: expected one of 1f1b, interleaved"),
        (lambda: mfu(model="gpt2", hbd_gb_s={"x": 4}), "hbd_gb_s=x=4: x is none of arch=infinite"),
        (lambda: waste(gpus=7), "gpus=7: expected a multiple of gpus_per_node=4"),
        (lambda: waste(csv="-"), "csv=-: expected a file"),
        (lambda: pimloom.trace("ddr4", pattern="random", set={"a.b": 1}), "set['a.b']: expected dram.FIELD"),
        (lambda: pimloom.sweeps.status("nowhere"), "nowhere: is no sweep"),
    ):
        with pytest.raises(pimloom.UserError) as error:
            wrong()
        assert str(error.value).startswith(said), str(error.value)


@public
def fails() -> None:
    raise GateError("broken")


def test_a_gate_without_a_result_stays_an_error():
    with pytest.raises(GateError, match="broken"):
        fails()


SAME: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "fabric.waste": ({"arch": ["nvl72", "dgx8"], "gpus": 720, "fault_ratio": [0.02, 0.05], "draws": 5, "tp": [8, 16]},
                     ("--arch", "nvl72,dgx8", "--gpus", "720", "--fault-ratio", "0.02,0.05", "--draws", "5",
                      "--tp", "8,16")),
    "fabric.faults": ({"seed": 3}, ("--seed", "3")),
    "fabric.cost": ({"set": {"ocstrx.usd": 500}, "parts": True}, ("--set", "ocstrx.usd=500", "--parts")),
    "fabric.place": ({"nodes": 64, "tp": 16, "faulty": [3, 9], "algorithm": "ring", "job_gpus": 160},
                     ("--nodes", "64", "--tp", "16", "--faulty", "3,9", "--algorithm", "ring", "--job-gpus", "160")),
    "fabric.mfu": ({"model": "gpt3-xl", "gpus": np.int64(64), "batch": 64, "hbd_gb_s": {"infinitehbd-k2": 300}},
                   ("--model", "gpt3-xl", "--gpus", "64", "--batch", "64", "--hbd-gb-s", "infinitehbd-k2=300")),
    "fabric.switch": ({"events": Path("examples/ocs_events.yaml"), "set": {"timing.retrain": "2 ms"}},
                      ("--events", "examples/ocs_events.yaml", "--set", "timing.retrain=2 ms")),
    "rtl.list": ({}, ()),
    "list": ({}, ()),
    "explain": ({"field": "ddr4"}, ("ddr4",)),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_a_result_is_what_the_command_prints(name, capsys):
    given, options = SAME[name]
    found = python_of(name)(**given)
    assert capsys.readouterr() == ("", "")
    done = call(*name.split("."), *options, "--json", "-")
    assert json.loads(done.out) == json.loads(json.dumps(found.to_dict()))
    for field, value in found.to_dict().items():
        assert getattr(found, field) == value
    assert found.to_dict() == found.as_dict() and field in dir(found)


@pytest.mark.parametrize("name", [name for name in SAME if name.startswith("fabric.")])
def test_a_frame_has_the_columns_of_the_csv(name, tmp_path):
    given, _ = SAME[name]
    found = python_of(name)(**given, csv=tmp_path / "rows.csv")
    written = pandas.read_csv(tmp_path / "rows.csv", keep_default_na=False)
    table = found.to_frame()
    assert list(table.columns) == list(written.columns) and len(table) == len(written) > 0


def test_a_placement_that_cannot_hold_is_a_result():
    """With corners a node needs one bundle for both sides, to which the verifier objects."""
    ring: dict[str, Any] = {"nodes": 20, "tp": 16, "tor_size": 1, "faulty": [5, 6, 8, 9], "algorithm": "ring"}
    assert pimloom.fabric.place(**ring, job_gpus=64).holds
    found = pimloom.fabric.place(**ring, job_gpus=64, corners=True)
    assert not found.holds and len(found.complaints) == 5


def test_an_answer_is_not_changed_and_names_its_fields():
    found = Answer({"rows": [{"a": 1}], "seed": 3}, lambda: None, [{"a": 1}])
    with pytest.raises(AttributeError, match="seed: a result is not changed"):
        found.seed = 4
    with pytest.raises(AttributeError, match="no field 'sead'; there are rows, seed"):
        _ = found.sead
    assert (found.seed, repr(found)) == (3, "Answer(rows=[1 values], seed=3)")


def test_verilog_comes_back_and_is_written_too(tmp_path):
    text = pimloom.rtl.emit("bf16_mul", out=tmp_path / "m.v")
    assert (tmp_path / "m.v").read_text() == text == pimloom.rtl.emit("bf16_mul")
    assert pimloom.rtl.emit is rtl_api.emit


def test_the_import_is_quick():
    """Nothing slow is imported, and a name that is not there says so."""
    code = (
        "import sys, pimloom\n"
        "slow = {'numba', 'numpy', 'pandas', 'matplotlib', 'typer', 'msgspec', 'yaml'} & set(sys.modules)\n"
        "assert not slow, slow\n"
        "assert {'run', 'list', 'fabric', 'rtl', 'sweeps', 'report'} <= set(dir(pimloom))\n"
        "from pimloom import fabric, sweeps\n"
        "assert not {'numba', 'numpy', 'pandas'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(AttributeError, match="module 'pimloom' has no attribute 'rum'"):
        _ = pimloom.rum


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"generate": 1, "seed": -1}, "seed=-1: expected a whole number from 0"),
        ({"requests": "x", "batch": 1}, "requests=x: there is no such file; expected sharegpt, alpaca, a CSV trace"),
        (
            {"generate": 1, "set": {"dram.timing.tCCD_L": "5us"}},
            "rows are still open, as MACab waits 10,000 CK behind RD, tREFI is 13,650 CK; shorten what delays it",
        ),
    ],
)
def test_messages_name_the_argument_and_a_remedy(given: dict[str, Any], said: str) -> None:
    with pytest.raises(pimloom.UserError) as caught:
        pimloom.run("pim_gpt", model="gpt2", **given)
    assert said in str(caught.value)


def test_numbers_of_things_are_counted_as_people_do() -> None:
    one = call("run", "npu_only", "--model", "gpt2", "--prompt", "1", "--generate", "1", "--layers", "1").out
    assert "1 request, prompts of 1 token, 1 token generated of each" in " ".join(one.split())
    work = ("--prompt", "2", "--generate", "2", "--batch", "2", "--layers", "1")
    two = call("run", "npu_only", "--model", "gpt2", *work)
    assert "2 requests, prompts of 2 tokens, 2 tokens generated of each" in " ".join(two.out.split())
