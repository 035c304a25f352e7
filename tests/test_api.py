"""The Python API: results as a table, batches as the command runs them, and arguments of the right kind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.reports.explain import fields_below
from pimloom.systems.devices.attacc.outcome import AttAccOutcome
from pimloom.systems.devices.cent.outcome import CentOutcome
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.result import Result
from pimloom.systems.memory.aim.outcome import AimOutcome
from pimloom.systems.memory.outcome import Outcome
from pimloom.systems.serving.comparing import Compared, Comparison
from pimloom.systems.serving.decoding import Decoded
from pimloom.systems.serving.generation import Generated
from tests.command import call

NARROW = Path(__file__).parent / "narrow_gpt2.json"


def test_a_frame_has_a_row_for_each_result_and_units_in_its_columns():
    results = [pimloom.run(system, model="gpt2", generate=2) for system in ("pim_gpt", "t4")]
    table = pimloom.frame(results)
    assert table["system"].tolist() == ["pim_gpt", "t4"]
    assert table["latency_s"].tolist() == [result.latency_s for result in results]
    assert table["workload.generated_tokens"].tolist() == [2, 2]
    assert results[0].energy_by_cause_j
    assert table.loc[0, "energy_by_cause_j.mac"] == results[0].energy_by_cause_j["mac"]


def test_settings_are_taken_as_python_values():
    slow = pimloom.run("pim_gpt", model="gpt2", generate=1, set={"npu.clock_mhz": 100, "dram.refresh": False})
    fast = pimloom.run("pim_gpt", model="gpt2", generate=1, set={"dram.refresh": False})
    assert slow.latency_s > fast.latency_s
    assert fast.command_counts and "REFab" not in fast.command_counts


def test_a_tiny_model_on_a_huge_memory_is_mostly_padding(tmp_path):
    config = {"model_type": "gpt2", "n_embd": 16, "n_head": 1, "n_layer": 1, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = pimloom.run("pim_gpt", model=tmp_path, generate=1, set={"dram.channels": 1024})
    assert 0 < (result.data_movement_reduction_on_wires or 0) < 0.1


def test_a_trace_returns_what_the_command_prints(tmp_path):
    (tmp_path / "a.trc").write_text("LD 0x0\nST 0x40\n")
    table = pimloom.frame(
        pimloom.trace("ddr4", tmp_path / "a.trc", controller=name, set={"controller.read_entries": 31})
        for name in ("default", "ramulator2")
    )
    assert table["controller"].tolist() == ["default", "ramulator2"]
    assert table["commands.ACT"].tolist() == [2, 2]
    assert table["read_latency_mean_cycles"].tolist() == [2 + 16 + 16 + 4, 1 + 16 + 16 + 4]


def test_a_trace_writes_its_logs(tmp_path):
    found = pimloom.trace("hbm3", pattern="sequential", requests=64, commands=tmp_path / "c.csv", channels=2)
    assert len((tmp_path / "c.csv").read_text().splitlines()) == 1 + sum(found.commands.values())


def some_list(folder, *contexts):
    (folder / "r.csv").write_text("seq_len\n" + "".join(f"{n}\n" for n in contexts))
    return folder / "r.csv"


BATCHES: dict[str, dict[str, Any]] = {
    "neupims": {"tp": 2, "layers": 4, "fidelity": "released", "set": {"interleave.sub_batches": 1}},
    "npu_pim": {"policy": "round-robin"},
    "npu_only": {"pp": 2},
    "gpu_a100": {"tp": 2},
}


@pytest.mark.parametrize("system", BATCHES)
def test_a_batch_is_what_the_command_prints(system, tmp_path):
    path, options = some_list(tmp_path, 100, 30, 7), BATCHES[system]
    found = pimloom.run(system, model="gpt3-small", requests=path, **options)
    given = [f"--{name}={value}" for name, value in options.items() if name != "set"]
    given += [f"--set={place}={value}" for place, value in options.get("set", {}).items()]
    done = call("run", system, "--model", "gpt3-small", "--requests", path, *given, "--json", "-")
    assert json.loads(done.out) == found.as_dict()
    assert found.workload is None and (found.batch, found.tokens) == (3, 137)


def test_iterations_of_a_data_set_and_one_of_them():
    many = pimloom.run("gpu_a100", model="gpt3-7b", requests="alpaca", batch=8, tp=2, iterations=6, every=3, seed=1)
    assert (many.iterations, many.batch, many.every, many.simulated_iterations) == (6, 8, 3, 3)
    one = pimloom.run("gpu_a100", model="gpt3-7b", requests="alpaca", batch=8, tp=2, seed=1)
    assert one.workload is not None and (one.workload["name"], one.workload["seed"]) == ("alpaca", 1)
    assert one.iteration_cyc * one.clock_ps * 1e-12 == many.iteration_s[0]
    table = pimloom.frame([one, many])
    assert table["workload.name"].tolist() == ["alpaca", "alpaca"]


def test_one_request_runs_wherever_it_comes_from(tmp_path):
    """In a list, kept alive, and as a point of a sweep: undivided, as there are fewer requests than sub-batches."""
    model = str(NARROW)
    listed = pimloom.run("neupims", model=model, requests=some_list(tmp_path, 31))
    assert list(listed.stages_cyc) == ["A", "B", "E"]
    alive = pimloom.run("neupims", model=model, requests="alpaca", batch=1)
    assert list(alive.stages_cyc) == ["A", "B", "E"]
    work = {"model": model, "prompt": 30, "generate": 1}
    axes = {"link.gbps": [2400]}
    row = pimloom.sweep(
        {"system": "neupims", "workload": work, "axes": axes, "objectives": {"latency_s": "min"}}, workers=1
    )
    assert row["latency_s"][0] == pytest.approx(listed.iteration_cyc * listed.clock_ps * 1e-12)


ODD = (True, 1.5, "4", float("nan"), [4], object())
RUN = {"system": "pim_gpt", "model": "gpt2"}
BATCH = {"system": "gpu_a100", "model": "gpt3-7b", "requests": "alpaca", "batch": 4}
TRACE = {"memory": "ddr4", "pattern": "random"}
POINT = {"system": "pim_gpt", "workload": {"model": "gpt2", "generate": 1}, "axes": {"npu.clock_mhz": [500]}}
SWEEP = {"source": POINT}
COUNTS = [
    *((pimloom.run, RUN, name) for name in ("generate", "prompt", "seed")),
    *((pimloom.run, BATCH, name) for name in ("batch", "iterations", "every", "tp", "pp", "layers", "seed")),
    *((pimloom.trace, TRACE, name) for name in ("requests", "seed", "stride", "channels", "idle")),
    (pimloom.sweep, SWEEP, "workers"),
]


@pytest.mark.parametrize(("call_", "given", "name"), COUNTS)
def test_a_count_is_a_whole_number(call_, given, name):
    never_none = name in ("channels", "idle") or call_ is pimloom.run and name == "seed"
    for value in (*ODD, *([None] if never_none else [])):
        with pytest.raises(UserError) as error:
            call_(**given | {name: value})
        said = str(error.value)
        assert said.startswith(f"{name}: expected a whole number, got ") and "\n" not in said and len(said) < 120


WRONG = [
    (pimloom.run, RUN, {"check": 1}, "check: expected True or False, got 1"),
    (pimloom.run, RUN, {"model": None}, "model: expected a text or a path, got None"),
    (pimloom.run, RUN, {"system": 5}, "system: expected a text or a path, got 5"),
    (pimloom.run, RUN, {"set": ["npu.clock_mhz=5"]}, 'set: expected a mapping such as {"npu.clock_mhz": 500}, got'),
    (
        pimloom.run,
        RUN,
        {"set": {"npu.clock_mhz": {5}}},
        "set: npu.clock_mhz: expected a number, a text, a bool, or a list",
    ),
    (pimloom.run, RUN, {"set": {"npu.clock_mhz": None}}, "set['npu.clock_mhz']: expected"),
    (pimloom.run, RUN, {"set": {"npu.clock_mhz": "5\n6"}}, "set: npu.clock_mhz: expected a text of one line, got"),
    (pimloom.run, RUN, {"set": {5: 5}}, "a place in set: expected a text or a path, got 5"),
    (pimloom.run, RUN, {"generate": 0}, "generate: expected at least 1 token, got 0"),
    (pimloom.run, RUN, {"requests": "alpaca"}, "batch: expected how many requests are kept alive, as requests=alpaca"),
    (pimloom.run, RUN, {"tp": 2}, "tp=2: pim_gpt runs one sequence, token by token on one device; leave it out"),
    (pimloom.run, RUN, {"window": "0:5"}, "window=0:5: belongs to timeline=FILE; name one"),
    (pimloom.run, BATCH, {"generate": 1024}, "generate=1024: does not go with requests, which have lengths"),
    (pimloom.run, BATCH, {"check": True}, "check: checks the commands of one sequence on PIM, such as pim_gpt"),
    (pimloom.run, BATCH, {"tp": 0}, "tp=0: expected at least 1"),
    (pimloom.run, BATCH, {"policy": 3}, "policy: expected a text or a path, got 3"),
    (pimloom.run, {"system": "neupims", "model": "gpt2"}, {}, "requests: expected a CSV list"),
    (pimloom.run, {"system": "neupims", "model": "gpt2"}, {"chunk": 5}, "requests: expected a CSV list"),
    (pimloom.run, {"system": "neupims", "model": "gpt2", "prompt": 5}, {"chunk": 0}, "chunk=0: expected at least 1"),
    (pimloom.run, RUN, {"model": "a" * 5000}, "model: expected a shorter name, got 'aaa"),
    (pimloom.run, RUN, {"model": "a\0b"}, "model: expected a text without null characters, got 'a"),
    (pimloom.trace, TRACE, {"memory": "a" * 5000}, "memory: expected a shorter name, got 'aaa"),
    (pimloom.run, BATCH, {"batch": 10**30}, "more requests than the 57,339 tokens of the memory"),
    (pimloom.run, BATCH, {"batch": 10**12}, "more requests than the 57,339 tokens of the memory"),
    (pimloom.run, BATCH, {"iterations": 10**12}, "iterations=1000000000000: expected at most 10000000"),
    (pimloom.run, BATCH | {"system": "neupims", "tp": 4}, {"pp": 0}, "pp=0: expected at least 1"),
    (pimloom.run, BATCH | {"system": "neupims", "tp": 4}, {"pp": 10**12}, "pp=1000000000000: expected 1 to 32"),
    (pimloom.trace, TRACE, {"gap": "3"}, "gap: expected a number, got '3'"),
    (pimloom.trace, TRACE, {"commands": 3}, "commands: expected a text or a path, got 3"),
    (pimloom.sweep, SWEEP, {"progress": 1}, "progress: expected True or False, got 1"),
    (pimloom.sweep, SWEEP, {"timeout_per_point": "1"}, "timeout_per_point: expected a number, got '1'"),
    (pimloom.sweep, {"source": 5}, {}, "source: expected a text or a path, got 5"),
    (pimloom.frame, {"results": 5}, {}, "frame: expected results, in a list or the like, got 5"),
    (pimloom.frame, {"results": [5]}, {}, "frame: expected results of run or trace, got 5"),
]


@pytest.mark.parametrize(("call_", "given", "changed", "said"), WRONG)
def test_other_types_are_one_line(call_, given, changed, said):
    with pytest.raises(UserError) as error:
        call_(**given | changed)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_whole_numbers_of_numpy_count():
    whole: Any = np.int64(2)
    wide = pimloom.run("pim_gpt", model="gpt2", generate=whole, set={"npu.clock_mhz": np.float64(500)})
    assert wide.as_dict() == pimloom.run("pim_gpt", model="gpt2", generate=2, set={"npu.clock_mhz": 500}).as_dict()


def test_a_timeline_is_written(tmp_path):
    pimloom.run("pim_gpt", model="gpt2", generate=1, timeline=tmp_path / "t.json", window="0:5")
    pimloom.trace("ddr4", pattern="random", requests=100, timeline=str(tmp_path / "m.json"), window="0:500")
    assert all(json.loads((tmp_path / name).read_text())["traceEvents"] for name in ("t.json", "m.json"))


def test_a_study_is_found_under_its_module_name():
    done = call("report", "pim_gpt", "--full")
    assert (done.code, done.err) == (2, "pimloom: --full: an option of neupims, not of pim-gpt; leave it out\n")


def test_errors_of_users_have_a_name_at_the_top() -> None:
    with pytest.raises(pimloom.UserError, match="nearest: gpt2"):
        pimloom.run("pim_gpt", model="gtp2", generate=1)
    assert pimloom.UserError is UserError


def test_explain_has_the_fields_of_results_from_the_conventions() -> None:
    """Each field of each kind of result is explained, in the words of CONVENTIONS.md, which the package carries."""
    kinds = (
        Result, Generated, Served, Decoded, Comparison, Compared, Outcome, AttAccOutcome, CentOutcome, AimOutcome,
    )  # fmt: skip
    text = " ".join((Path(__file__).parents[1] / "CONVENTIONS.md").read_text().replace("`", "").split())
    for field in {name for kind in kinds for name in kind.__struct_fields__}:
        if fields_below(field):  # such as workload: a system has it, too, and more below it
            continue
        found = pimloom.explain(field)
        assert found.meanings, field
        for meaning in found.meanings:
            assert " ".join(meaning.split(": ", 2)[2].split()) in text, (field, meaning)
    said = pimloom.explain("time_per_output_token_s")
    assert said.unit == "s" and said.meanings[0].startswith("The result of a sequence: time_per_output_token_s (number")
    assert pimloom.explain("bound_share").meanings[0].startswith("One workload on several systems: prefill, decode")
    assert pimloom.explain("energy_by_cause_j.mac").unit == "J"
    for field in ("energy_by_cause_j.comp", "energy_by_cause_j.gwrite", "energy_by_cause_j.power x time",
                  "iteration_energy_by_cause_j.npu_mac", "iteration_energy_by_cause_j.link"):  # fmt: skip
        assert pimloom.explain(field).unit == "J"
    for field in ("latency_s.p99", "wait_s.p50", "time_to_first_token_s.mean", "token_time_s.p99"):
        assert pimloom.explain(field).unit == "s" and "many iterations" in pimloom.explain(field).meanings[0]
    for field in ("decode.limits.commands", "prefill.limits.memory bandwidth", "decode.time_s", "decode.limits"):
        assert pimloom.explain(field).meanings[0].startswith("One workload on several systems: prefill, decode")
    (digest,) = pimloom.explain("spec_digest").meanings  # stands by itself
    assert "below" not in digest and "all overrides" in digest
    assert len(pimloom.explain("batch").meanings) == 5  # an iteration, equal and served requests, a comparison, AttAcc
    assert "meanings" not in pimloom.explain("controller.refresh").to_dict()
    for field, near in (("memory.timing.tRP", "dram.timing.tRP"), ("latency_s.banana", "latency_s"),
                        ("energy_by_cause_j.banana", "energy_by_cause_j"),
                        ("units.pim.lane", "units.NAME.lanes")):  # fmt: skip
        with pytest.raises(pimloom.UserError, match=f"no field '{field}'; nearest: {near}"):
            pimloom.explain(field)
    for field in ("energy_by_cause_j.energy_pj_by_cause", "energy_by_cause_j.energy_j", "decode.limits.bound",
                  "prefill.compute", "decode.bound.limits", "energy_pj_by_cause.io_pj_per_bit", "token_time_s.chunk",
                  "iteration_energy_by_cause_j.iteration_cyc", "energy_by_cause_pj.warnings",
                  "latency_s.p99.mean", "iteration_energy_j.link"):  # fmt: skip
        with pytest.raises(pimloom.UserError, match=f"no field '{field}'"):
            pimloom.explain(field)
    with pytest.raises(pimloom.UserError, match="limits.banana'; `pimloom explain decode.limits` tells what is there"):
        pimloom.explain("decode.limits.banana")
    with pytest.raises(pimloom.UserError, match="no field 'latency_ms'; nearest: latency_s"):
        pimloom.explain("latency_ms")


def test_explain_takes_names_of_composed_systems() -> None:
    """What a file of a system says is explained as it stands there."""
    for field, like in (("units.pim.lanes", "units.NAME.lanes"), ("memories.card.part", "memories.NAME.part"),
                        ("links.pcie.gbps", "links.NAME.gbps"), ("runs.decode.gemm", "runs")):  # fmt: skip
        found = pimloom.explain(field)
        assert (found.field, found.meaning) == (field, pimloom.explain(like).meaning)
    below = pimloom.explain("units.pim").to_dict()
    assert below["units.pim.lanes"] == pimloom.explain("units.NAME.lanes").meaning
    for field, said in (("links.gbps", "nearest: link.gbps, links.NAME.gbps"),
                        ("units.pim.banana", "`pimloom explain units.pim` tells what is there")):  # fmt: skip
        with pytest.raises(pimloom.UserError, match=f"no field '{field}'; {said}"):
            pimloom.explain(field)
    assert pimloom.explain("links.gbps.gbps").meaning == pimloom.explain("links.NAME.gbps").meaning
    with pytest.raises(pimloom.UserError, match="no field 'runs.decode.gem'; nearest: runs.decode.gemm"):
        pimloom.explain("runs.decode.gem")
