"""Design points become rows: the same numbers as a single run, errors as rows, keys, and nothing needed from disk."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.system import load_system, resolve
from pimloom.cycle_sim.runs import Known
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.sweep import Axis, Sweep
from pimloom.sweeping.point import code
from pimloom.sweeping.point.code import code_digest
from pimloom.sweeping.point.digests import key_of
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.results import ENERGY_COLUMNS
from pimloom.sweeping.point.row import result_columns
from pimloom.sweeping.point.shared import Base, base_of, resolved

HERE = Path(__file__).parents[1]
NARROW = str(HERE / "tests" / "narrow_gpt2.json")
OF_ROWS = ("lm_head", *(column.name for column in ENERGY_COLUMNS))  # no fields of a result
OF_THIS_RUN = ("wall_s", "host", "finished_utc")
CLOCK, CCD, LANES = (
    Axis("npu.clock_mhz", (500, 1000)),
    Axis("dram.timing.tCCD_L", (2, 3), "nCK"),
    Axis("energy.k_rd", (1, 3)),
)
POINT = {"npu.clock_mhz": 500, "dram.timing.tCCD_L": 3}


def sweep(system="pim_gpt", workload=None, axes=(CLOCK, CCD), set=None, seed=0):
    workload = workload or {"model": "gpt2", "generate": 2}
    return Sweep(
        "test", str(system), workload, set or {}, tuple(axes), (), {"tokens_per_s": "max"}, "grid", None, 1, seed
    )


def lasting(row):
    return {name: value for name, value in row.items() if name not in OF_THIS_RUN}


def linked(sets, name="macs", values=(1,)):
    return Axis(name, values, sets=sets)


KNOWN, BASE = Known(), base_of(sweep(axes=(CLOCK, CCD, LANES)))


@settings(max_examples=12, deadline=None)
@given(st.integers(100, 2000), st.integers(1, 4), st.sampled_from([1, 3.5, 16]))
def test_a_row_is_the_result_of_a_run(mhz, ccd, k_rd):
    point = {"npu.clock_mhz": mhz, "dram.timing.tCCD_L": ccd, "energy.k_rd": k_rd}
    row = evaluate(BASE, point, KNOWN).row
    said = {"npu.clock_mhz": mhz, "dram.timing.tCCD_L": f"{ccd} nCK", "energy.k_rd": k_rd}
    result = pimloom.run("pim_gpt", model="gpt2", generate=2, set=said)
    assert row["error"] is None and row["spec_digest"] == result.spec_digest
    for column in result_columns(BASE):
        of, _, part = column.name.partition(".")
        if of in ("area_mm2", "area_by_part_mm2", *OF_ROWS) or part.startswith(("final", "LM_head")):
            continue
        value = getattr(result, of)
        assert row[column.name] == ({n.replace(" ", "_"): v for n, v in value.items()}[part] if part else value)


def test_the_columns_of_a_row_and_their_order():
    row = evaluate(BASE, {**POINT, "energy.k_rd": 3}).row
    names = [column.name for column in result_columns(BASE)]
    axes = ["npu.clock_mhz", "dram.timing.tCCD_L [nCK]", "energy.k_rd"]
    after = ["error", "spec_digest", "code_digest", "version", "seed", *OF_THIS_RUN]
    assert list(row) == ["point", "base_digest", *axes, *names, *after]
    assert len(set(row)) == len(row)
    for column in result_columns(BASE):
        kind = int if column.integer else str if column.text else float
        assert row[column.name] is None or type(row[column.name]) is kind, column


def test_a_prompt_is_simulated_token_by_token():
    whole = pimloom.run("pim_gpt", model="gpt2", generate=4)
    parted = pimloom.run("pim_gpt", model="gpt2", generate=2, prompt=3)
    assert (parted.latency_s, parted.energy_j) == (whole.latency_s, whole.energy_j)
    assert parted.workload.prompt_tokens == 3 and parted.tokens_per_s == 2 / whole.latency_s
    assert parted.energy_per_token_j == (whole.energy_j or 0) / 2 and parted.spec_digest != whole.spec_digest
    with pytest.raises(UserError, match="^prompt: expected at least 0 tokens, got -1"):
        pimloom.run("pim_gpt", model="gpt2", prompt=-1)


def test_a_prompt_of_a_roofline_is_one_pass():
    def run(**tokens):
        return pimloom.run("t4", model="gpt2", **tokens)

    behind = run(generate=40).latency_s - run(generate=39).latency_s  # the last of 40 tokens
    short = run(generate=1, prompt=39).latency_s
    assert run(generate=2, prompt=39).latency_s == pytest.approx(short + behind, rel=1e-12)
    assert run(generate=1, prompt=39).launch_s == run(generate=1).launch_s
    assert 0.9 * behind < short < 2 * behind, "39 tokens share one reading of the weights"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"npu.clock_mhz": -1}, "--set npu.clock_mhz: expected number >= 0.1 and <= 100000, got -1"),
        ({"dram.timing.tCCD_L": 0}, "--set dram.timing.tCCD_L: expected more than 0"),
        ({"workload.batch": 2}, "workload.batch: pim_gpt runs one sequence at a time, got 2"),
        ({"workload.generate": 200_000}, "workload.prompt 0, workload.generate 200000: gpt2 has positions for 1,024"),
    ],
)
def test_a_fault_of_a_point_is_a_row(changed, said):
    axes = (CLOCK, CCD, Axis("workload.batch", (1, 2)), Axis("workload.generate", (1,)))
    base = base_of(sweep(workload={"model": "gpt2"}, axes=axes))
    found = evaluate(base, {**POINT, "workload.batch": 1, "workload.generate": 1} | changed)
    assert found.row["error"].startswith(said) and "\n" not in found.row["error"]
    assert all(found.row[column.name] is None for column in result_columns(base))


def test_a_fault_of_ours_is_a_row(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("pimloom.sweeping.point.evaluate.simulate", fail)
    assert evaluate(BASE, {**POINT, "energy.k_rd": 3}).row["error"] == "ZeroDivisionError: a b"


def test_other_code_is_refused():
    other = msgspec.structs.replace(BASE, code="0" * 16)
    assert "runs other code" in evaluate(other, {**POINT, "energy.k_rd": 3}).row["error"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"axes": [Axis("npu.clck", (1,))]}, "--set npu.clck: no such key in pim_gpt.yaml; nearest: npu.clock_mhz"),
        ({"axes": [Axis("dram.timing.tCCDL", (1,))]}, "--set dram.timing.tCCDL: no such key in gddr6_pim_gpt.yaml; n"),
        ({"axes": [Axis("npu", (1,))]}, "--set npu: is a mapping, set one of its keys: clock_mhz"),
        ({"axes": [Axis("workload.promt", (1,))]}, "workload.promt: unknown key, expected one of model, batch, prompt"),
        ({"axes": [Axis("workload.model", ("gpt3",))], "workload": {"generate": 1}}, "model 'gpt3': no such preset"),
        ({"axes": [Axis("dram.part", ("gddr6_pim",))]}, "unknown part 'gddr6_pim'; nearest: gddr6_aim"),
        ({"set": {"npu.clock_mhz": "fast"}, "axes": [CCD]}, "--set npu.clock_mhz: expected number"),
        ({"set": {"npu.clock_mhz": "500"}}, "npu.clock_mhz: is fixed and an axis"),
        ({"workload": {"model": "gpt2"}}, "workload: missing key 'generate'"),
        ({"workload": {"model": "gpt2", "generate": True}}, "workload.generate: expected an int"),
        ({"workload": {"model": "gpt2", "generate": 1, "tp": 2}}, "workload.tp: unknown key"),
        ({"axes": [Axis("macs", (1,))]}, "--set macs: no such key in pim_gpt.yaml"),
        ({"axes": [linked({"npu.clck": ("1",)})]}, "--set npu.clck: no such key in pim_gpt.yaml; nearest: npu.clock"),
        ({"axes": [linked({"dram.part": ("gddr6_pim",)})]}, "unknown part 'gddr6_pim'; nearest: gddr6_aim"),
        ({"axes": [linked({"npu.adders": ("64",)})], "set": {"npu.adders": "64"}}, "npu.adders: is fixed and set by"),
        ({"axes": [linked({"npu.adders": ("64",)}, "error")]}, "error: is the name of another column of a sweep; cho"),
        ({"axes": [linked({"npu.adders": ("64",)}, "power_w")]}, "power_w: is the name of another column of a sweep"),
        ({"axes": [linked({"power_w": ("1",)}, "kind")], "system": "t4"}, "kind: is a place of "),
        ({"system": "pim_gp"}, "unknown system 'pim_gp'; nearest: pim_gpt"),
    ],
)  # fmt: skip
def test_a_wrong_sweep_is_refused_before_the_start(changed, said):
    wrong = sweep(**changed)
    with pytest.raises(UserError) as found:
        check_points(base_of(wrong), wrong)
    assert str(found.value).startswith(said)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**6) | st.floats(1, 10**6), st.integers(1, 9)), min_size=2, unique=True))
def test_keys_are_stable_and_distinct(values):
    base = base_of(sweep())
    points = [{"npu.clock_mhz": mhz, "dram.timing.tCCD_L": ccd} for mhz, ccd in values]
    keys = [key_of(base, point) for point in points]
    assert len({repr(v) for v in values}) == len(set(keys))
    assert keys == [key_of(base, dict(reversed(point.items()))) for point in points]


def test_a_key_depends_on_all_that_decides_and_nothing_else():
    first = key_of(base_of(sweep()), POINT)
    assert first == key_of(base_of(sweep(seed=1, axes=(Axis("npu.clock_mhz", (500, 600, 700)), CCD))), POINT)
    others = [
        sweep(workload={"model": "gpt2", "generate": 3}),
        sweep(workload={"model": "gpt2-xl", "generate": 2}),
        sweep(set={"npu.adders": "64"}),
        sweep(axes=(CLOCK, Axis("dram.timing.tCCD_L", (2, 3), "ns"))),
        sweep(system="t4", axes=(Axis("peak_share", (1,)),)),
    ]
    changed = msgspec.structs.replace(base_of(sweep()), code="0" * 16)
    assert len({first, key_of(changed, POINT), *(key_of(base_of(other), POINT) for other in others)}) == 7


def test_the_models_of_an_axis_are_told_apart_by_what_they_are(tmp_path):
    path = tmp_path / "config.json"
    axes, keys = (Axis("workload.model", ("gpt2", str(path))),), set()
    for layers in (2, 3):
        path.write_text(json.dumps({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": layers}))
        base = base_of(sweep(workload={"generate": 2}, axes=axes))
        keys |= {key_of(base, {"workload.model": name}) for name in ("gpt2", str(path))}
    assert len(keys) == 3


TRAVELLED = """
import json, sys, msgspec
from pimloom.sweeping.point.shared import Base
from pimloom.sweeping.point.evaluate import evaluate
base, point = json.load(sys.stdin)
row = evaluate(msgspec.convert(base, Base), point).row
print(json.dumps([row, [m.__file__ for n, m in sys.modules.items() if n.startswith("pimloom") and m.__file__]]))
"""
HARMLESS = {
    "pimloom/__init__",
    "pimloom/api",
    "systems/__init__",
    "sweeping/__init__",
    "sweeping/definition/__init__",
}


def test_a_base_needs_no_file_of_the_user(tmp_path):
    """A system, its part and a model of the user's own; the worker runs elsewhere, and the files are gone."""
    folder = tmp_path / "mine"
    folder.mkdir()
    system = (HERE / "arch/systems/pim_gpt.yaml").read_text().replace("part: gddr6_pim_gpt", "part: part.yaml")
    (folder / "system.yaml").write_text(system)
    (folder / "part.yaml").write_text((HERE / "arch/parts/gddr6_pim_gpt.yaml").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2}))
    base = base_of(sweep(folder / "system.yaml", {"model": str(folder), "generate": 2}))
    here = evaluate(base, POINT).row
    assert here["error"] is None
    for name in ("system.yaml", "part.yaml", "config.json"):
        (folder / name).unlink()
    sent = json.dumps([msgspec.to_builtins(base), POINT])
    done = subprocess.run(
        [sys.executable, "-c", TRAVELLED], input=sent, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    there, modules = json.loads(done.stdout)
    assert lasting(there) == lasting(here)
    loaded, inside = {Path(name).resolve() for name in modules}, {path.resolve() for _, path in code.deciding()}
    others = {path.relative_to(HERE).with_suffix("").as_posix() for path in loaded - inside}
    assert others <= HARMLESS, "the digest of the code covers all that a simulation enters"
    assert len(loaded & inside) > 60 and len(code_digest()) == 16
    assert msgspec.json.decode(msgspec.json.encode(base), type=Base) == base


def test_a_point_with_requests_is_what_run_says(tmp_path):
    """Iterations that are not simulated count alike in both."""
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["timestamp,prompt_tokens,output_tokens", *["0,100,30"] * 4, *["0,20,9"] * 6, "9,7,5"]))
    asked: dict[str, Any] = {"model": NARROW, "requests": str(path), "batch": 4, "layers": 1, "tp": 2}
    asked |= {"iterations": 51, "every": 7}
    axes = [Axis("npu.clock_mhz", (1000,))]
    row = evaluate(base_of(sweep("npu_only", asked, axes=axes)), {"npu.clock_mhz": 1000}).row
    run = pimloom.run("npu_only", **asked, set={"npu.clock_mhz": 1000})
    assert row["error"] is None and row["spec_digest"] == run.spec_digest and run.iterations > run.simulated_iterations
    assert (row["energy_j"], row["energy_per_token_j"]) == pytest.approx((run.energy_j, run.energy_per_token_j), 1e-12)
    assert row["power_w"] == pytest.approx(run.energy_j / sum(run.iteration_s), rel=1e-12)
    assert row["interpolation_error"] == run.interpolation_error > 0
    assert row["latency_s"] > 9 > sum(run.iteration_s)  # idle before the last one arrives
    causes = {name: row[f"energy_by_cause_j.{name}"] for name in run.energy_by_cause_j}
    assert causes == pytest.approx(run.energy_by_cause_j, rel=1e-12)
    assert [row[f"energy_by_cause_j.{name}"] for name in ("gwrite", "g_act", "comp", "readres")] == [0.0] * 4


@pytest.mark.parametrize("system", ["pim_gpt", "neupims", "npu_pim", "npu_only", "t4"])
def test_resolving_texts_is_loading_files(system):
    """Good, bad and odd values of places of every system, one after the other: none leaves anything behind."""
    loaded = load_system(system)
    workload = {"model": "gpt2", "generate": 1}
    base = base_of(sweep(system, workload, axes=()))
    assert resolved(base, {}, base.work({})).digest == loaded.digest
    for place, source in loaded.sources.items():
        if source.line and place.rpartition(".")[2] in ("clock_mhz", "tRP", "IDD0", "arrays", "power_w", "channels"):
            for text in ("17 ns", "17", "nonsense"):
                assert _said(lambda t=text, p=place: resolve(base.system, {p: t}, base.part)) == _said(
                    lambda t=text, p=place: load_system(system, {p: t})
                )
    assert resolve(base.system, {}, base.part) == loaded


def _said(load):
    try:
        return load()
    except UserError as error:
        return str(error)


BATCH = {"model": "gpt3-7b", "batch": 4, "prompt": 100, "generate": 9}


BEHIND = {"batch": 1, "layers": 1}  # prompts are taken as there


@pytest.mark.parametrize(
    ("system", "more", "most"),
    [
        ("pim_gpt", {}, 1021),
        ("t4", {}, 1021),
        ("npu_only", BEHIND | {"chunk": 2048}, 1021),
        ("gpu_a100", BEHIND | {"chunk": 2048}, 1021),
        ("npu_only", BEHIND, 1020),
        ("gpu_a100", BEHIND, 1020),
    ],
)
def test_positions_bind_every_system(system, more, most):
    """As in `pimloom run`, whose last token is not put in again; behind prompts that are there all contexts begin."""
    work = {"model": NARROW, "generate": 4, **more}
    base = base_of(sweep(system, work, axes=[Axis("workload.prompt", (1,))]))
    for prompt, fits in ((most, True), (most + 1, False)):
        said = evaluate(base, {"workload.prompt": prompt}).row["error"]
        refused = (
            f"workload.prompt {prompt}, workload.generate 4: narrow_gpt2 has positions for 1,024 tokens; take fewer"
        )
        assert said == (None if fits else refused)


def test_a_batch_is_the_sum_of_its_iterations():
    base = base_of(sweep("gpu_a100", BATCH, axes=[Axis("workload.every", (1, 2, 4))]))
    each, more, some = (evaluate(base, {"workload.every": every}).row for every in (1, 2, 4))
    prompts = [Axis("workload.prompt", (1,))]
    one = base_of(sweep("gpu_a100", {"model": "gpt3-7b", "batch": 4, "generate": 1}, axes=prompts))
    parts = [evaluate(one, {"workload.prompt": 100 + k}).row for k in range(9)]
    assert each["latency_s"] == pytest.approx(sum(part["latency_s"] for part in parts), rel=1e-12)
    assert each["energy_j"] == pytest.approx(sum(part["energy_j"] for part in parts), rel=1e-12)
    assert each["tokens_per_s"] == pytest.approx(4 * 9 / each["latency_s"], rel=1e-12)
    assert (each["simulated_iterations"], some["simulated_iterations"]) == (9, 3)
    assert each["interpolation_error"] == 0 < more["interpolation_error"] < 1e-6
    assert some["interpolation_error"] is None  # too few to tell
    assert some["latency_s"] == pytest.approx(each["latency_s"], rel=1e-6)  # a roofline is all but linear


def test_a_batch_on_pim_and_one_too_small_for_sub_batches():
    axes = [Axis("workload.batch", (1, 2)), Axis("npu.vector_units", (4,))]
    base = base_of(sweep("neupims", {"model": NARROW, "prompt": 30, "generate": 1}, axes=axes))
    alone, two = (evaluate(base, {"workload.batch": n, "npu.vector_units": 4}).row for n in (1, 2))
    assert alone["error"] is two["error"] is None
    assert (alone["sub_batches"], two["sub_batches"]) == (1, 2)
    causes = [row for row in two if row.startswith("energy_by_cause_j.") and two[row] is not None]
    assert two["energy_j"] == pytest.approx(sum(two[name] for name in causes), rel=1e-12)
    assert two["area_mm2"] > 400 and 300 < two["area_by_part_mm2.arrays"] < 400  # 131072 elements each
    assert two["area_by_part_mm2.controllers"] and two["power_w"] == pytest.approx(two["energy_j"] / two["latency_s"])


def test_requests_of_a_data_set_and_of_a_list(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("seq_len\n100\n200\n300\n")
    axes = [Axis("peak_share", (0.5, 1.0))]
    base = base_of(sweep("gpu_a100", {"model": "gpt3-7b", "requests": str(path)}, axes=axes))
    path.unlink()
    row = evaluate(base, {"peak_share": 0.5}).row
    assert (row["batch_mean"], row["context_mean"], row["iterations"]) == (3, 200, 1)
    drawn = {"model": "gpt3-7b", "requests": "alpaca", "batch": 8, "iterations": 6, "every": 2, "tp": 2}
    row = evaluate(base_of(sweep("gpu_a100", drawn, axes=axes)), {"peak_share": 0.5}).row
    assert row["error"] is None and row["simulated_iterations"] == 4  # the first two, then each second
    assert row["energy_j"] == pytest.approx(2 * 400 * row["latency_s"], rel=1e-12)  # two GPUs at 400 W
    missing = base_of(sweep("gpu_a100", {"model": "gpt3-7b", "requests": "alpaca"}, axes=axes))
    assert evaluate(missing, {"peak_share": 0.5}).row["error"].startswith("workload.batch: missing")
