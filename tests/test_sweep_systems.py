"""One sweep over several systems: rows name the system, and are those of a sweep of each."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.system import find, load_system
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.grid import grid_points
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import Base, base_of
from pimloom.systems.devices.area import area_mm2

BOTH = ["gpu_a100", "gpu_h100"]
EQUAL: dict[str, Any] = {
    "system": BOTH,
    "workload": {"model": "gpt2", "batch": [1, 8], "prompt": 64, "generate": 4, "chunk": 512},
    "objectives": {"latency_s": "min", "energy_j": "min"},
}
SERVED: dict[str, Any] = {
    "system": BOTH,
    "workload": {
        "model": "gpt2", "arrivals": "poisson:50/s", "requests": 20, "lengths": "64:8", "batch": [4],
        "price": {"gpu_a100": 1.29, "gpu_h100": 2.69},
    },
    "objectives": {"tokens_per_usd": "max"},
}  # fmt: skip


def rows(mapping: dict[str, Any]) -> list[dict[str, Any]]:
    """Of all points, as a worker makes them: it has the base as JSON."""
    sweep = sweep_from(mapping)
    base = base_of(sweep)
    check_points(base, sweep)
    sent = msgspec.json.decode(msgspec.json.encode(base), type=Base)
    return [evaluate(sent, point).row for point in grid_points(sweep)]


def test_rows_are_those_of_each_system() -> None:
    found = rows(EQUAL)
    assert [(row["system"], row["workload.batch"]) for row in found] == [(name, n) for name in BOTH for n in (1, 8)]
    for name in BOTH:
        alone = rows(EQUAL | {"system": name})
        mine = [row for row in found if row["system"] == name]
        for column in ("error", "latency_s", "energy_j", "spec_digest"):
            assert [row[column] for row in mine] == [row[column] for row in alone]
        assert "system" not in alone[0]
    assert len({row["base_digest"] for row in found}) == 2 and len({row["point"] for row in found}) == 4


def test_a_sweep_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = pimloom.sweep(EQUAL, out=tmp_path / "s", workers=1)
    again = pimloom.sweep(EQUAL, out=tmp_path / "s", workers=1)
    assert first["error"].isna().all() and again["finished_utc"].tolist() == first["finished_utc"].tolist()
    best = first[first["workload.batch"] == 8].sort_values("latency_s").iloc[0]
    assert best["system"] == "gpu_h100" and best["pareto"]
    with pytest.raises(UserError, match="holds another sweep"):
        pimloom.sweep(EQUAL | {"system": [*BOTH, "npu_only"]}, out=tmp_path / "s", workers=1)


def test_each_system_has_its_price_and_its_settings() -> None:
    set_in_one = rows(SERVED | {"set": {"gpu_h100": {"power_w": 350}}})
    plain = rows(SERVED)
    assert [row["usd_per_h"] for row in plain] == [1.29, 2.69]
    assert plain[0]["spec_digest"] == set_in_one[0]["spec_digest"]
    assert plain[1]["energy_j"] > set_in_one[1]["energy_j"]


def test_results_that_one_system_lacks_are_empty_there() -> None:
    """A place of one system alone is refused as an axis, by the name of the system that lacks it."""
    work: dict[str, Any] = {"model": "gpt2", "batch": [1], "prompt": 8, "generate": 2, "chunk": 64, "layers": 1}
    gpu, npu = rows(EQUAL | {"system": ["gpu_a100", "npu_only"], "workload": work})
    assert gpu["error"] is None and npu["error"] is None
    assert gpu["area_mm2"] is None and npu["area_mm2"] > 0


@pytest.mark.parametrize(
    ("system", "head", "said"),
    [
        ("gpu_h100", 1, "in the results of all systems"),
        ("attacc_gpu", 0, "left out on all systems, as attacc_gpu cannot have them"),
    ],
)
def test_all_systems_have_an_lm_head_or_none(system: str, head: int, said: str) -> None:
    """Alone, a GPU serves with its LM head."""
    work = SERVED["workload"] | {"model": "gpt3-7b", "batch": 4, "requests": 3, "scheduler": "vllm-v0"}
    del work["price"]
    found = rows(SERVED | {"system": ["gpu_a100", system], "workload": work, "objectives": {"latency_s": "min"}})
    assert [(row["error"], row["lm_head"]) for row in found] == [(None, head)] * 2
    alone = pimloom.serve("gpu_a100", **work, lm_head=bool(head))
    assert found[0]["latency_s"] == alone.latency_s.mean and found[0]["spec_digest"] == alone.spec_digest
    assert pimloom.serve("gpu_a100", **work).lm_head
    sweep = SERVED | {"system": ["gpu_a100", system], "workload": work}
    assert base_of(sweep_from(sweep)).head_note == f"embedding, LM head and sampling are {said}"
    own = sweep | {"workload": work | {"lm_head": {"gpu_a100": True, system: False}}, "objectives": {}}
    assert [row["lm_head"] for row in rows(own)] == [1, 0] and not base_of(sweep_from(own)).head_note


def test_no_lm_head_by_the_file_of_one_system(tmp_path: Path) -> None:
    """Of work that does not arrive; what the sweep itself sets counts."""
    text = find("systems", "pim_gpt").read_text().replace("  lm_head: false", "  lm_head: true")
    file = tmp_path / "with_head.yaml"
    file.write_text(text)
    sweep: dict[str, Any] = {
        "system": ["t4", str(file)], "workload": {"model": "gpt2", "prompt": [2], "generate": 2},
    }  # fmt: skip
    assert [row["lm_head"] for row in rows(sweep)] == [0, 0]
    assert [row["lm_head"] for row in rows(sweep | {"system": str(file)})] == [1]
    assert [row["lm_head"] for row in rows(sweep | {"set": {str(file): {"workload.lm_head": True}}})] == [0, 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"axes": {"npu.clock_mhz": [500, 900]}}, "gpu_a100: .*npu.clock_mhz"),
        ({"system": ["gpu_a100", "nothing"]}, "nothing"),
        ({"system": ["gpu_a100", "gpu_a100"]}, "stands twice"),
        ({"system": []}, "system"),
        ({"set": {"gpu_h100": {"nothing": 1}}}, "gpu_h100: .*nothing"),
        ({"set": {"gpu_b100": {"power_w": 3}}}, r"at \$.set.gpu_b100: no system gpu_b100; expected one of gpu_a100, "),
        (
            {"workload": SERVED["workload"] | {"price": {"gpu_a100": 1.29}}},
            "expected a value for each of gpu_a100, gpu_h100; no value for gpu_h100",
        ),
        (
            {"workload": SERVED["workload"] | {"price": {"gpu_a100": 1, "gpu_h100": 2, "cent": 1}}},
            "'cent' is no system of the sweep",
        ),
    ],
)
def test_what_one_system_lacks_is_refused_by_its_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        rows(EQUAL | change)


def test_goodput_is_an_objective() -> None:
    """The rate that `pimloom serve --goodput` finds, per system; its price is in requests per dollar."""
    short = {"layers": 1, "lengths": "64:2", "slo": "ttft=40ms,tpot=4ms", "rate": "100:800000", "goodput": True}
    work = SERVED["workload"] | short
    found = rows(SERVED | {"workload": work, "objectives": {"goodput_rate_per_s": "max"}})
    for row in found:
        asked = {name: value for name, value in work.items() if name not in ("price", "batch")}
        alone = pimloom.serve(row["system"], **asked, batch=4, price=work["price"][row["system"]])
        assert row["error"] is None and row["goodput_rate_per_s"] == alone.goodput_per_s
        assert row["requests_per_usd"] == alone.requests_per_usd and row["spec_digest"] == alone.spec_digest
        assert row["latency_s"] is None
        assert row["pricing_holds"] == int(alone.pricing.holds)
        assert row["pricing_error_bound"] == alone.pricing.error_bound
    assert 100 < found[0]["goodput_rate_per_s"] < found[1]["goodput_rate_per_s"] < 800_000


def test_goodput_rows_have_the_area_of_all_devices() -> None:
    """No area of a GPU is known, so its row has none."""
    short = {"layers": 1, "lengths": "64:2", "slo": "ttft=1s,tpot=1s", "rate": "10:20", "goodput": True, "replicas": 2}
    work = SERVED["workload"] | short | {"price": {"gpu_a100": 1.29, "npu_only": 1}}
    sweep = SERVED | {"system": ["gpu_a100", "npu_only"], "workload": work}
    gpu, npu = rows(sweep | {"objectives": {"goodput_rate_per_s": "max"}})
    assert gpu["error"] is None and npu["error"] is None and gpu["area_mm2"] is None
    one = area_mm2(load_system("npu_only"))
    assert one and npu["area_mm2"] == 2 * one


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"goodput": True}, "workload.goodput: expected limits and rates"),
        ({"rate": "8:2", "slo": "ttft=1s", "goodput": True}, "expected LOW:HIGH"),
        ({"share": 2}, "workload.share: expected a number above 0 and at most 1"),
    ],
)
def test_goodput_that_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        rows(SERVED | {"workload": SERVED["workload"] | change})
