"""A comparison is of one workload: what counts on one system counts on all, and sentences are true."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.neupims import Faults
from pimloom.arch.system import load_system
from pimloom.arch.units import S_PER_PS
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.devices.run import LIMITS, Run
from pimloom.workload.batch import Batch

PHONE = "examples/systems/phone.yaml"


def one(system: str, **asked: Any) -> Any:
    (row,) = pimloom.compare([system], **asked).systems
    return row


def test_no_system_has_more_than_the_layers_in_it() -> None:
    asked: dict[str, Any] = {"model": "gpt2", "prompt": 8, "generate": 3, "layers": 2}
    row, ran = one(PHONE, **asked), pimloom.run(PHONE, **asked, lm_head=True)
    outside = ("embed", "lm_head", "sampling", "norm")
    spans = ran.spans[ran.spans["phase"] == "prefill"]
    left_out = spans[spans["operator"].str.startswith(outside)]
    assert len(left_out) and row.time_to_first_token_s < ran.time_to_first_token_s
    apart = (left_out["end_ps"] - left_out["start_ps"]).sum() * S_PER_PS
    assert row.time_to_first_token_s == pytest.approx(ran.time_to_first_token_s - apart, rel=1e-6)
    assert row.spec_digest != ran.spec_digest
    assert any("LM head" in note for note in pimloom.compare([PHONE], **asked).notes)


@pytest.mark.parametrize("system", ["gpu_a100", "npu_only", PHONE])
def test_all_requests_must_fit_before_the_first_prompt(system: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "model": "gpt2-xl",
        "prompt": 1000,
        "generate": 1,
        "layers": 48,
        "batch": 600,
        "chunk": 1000,
    }
    with pytest.raises(UserError) as error:
        pimloom.run(system, **asked)
    assert "\n" not in str(error.value)
    large = tmp_path / "large.yaml"
    large.write_text(re.sub(r"memory_bytes: \d+", f"memory_bytes: {10**13}", Path("arch/systems/t4.yaml").read_text()))
    row = pimloom.compare([system, large], **asked).systems[0]
    assert row.reason is not None and row.memory_needed_bytes is None


def test_a_window_bounds_the_memory_that_is_needed(tmp_path: Path) -> None:
    config = json.loads(Path("tests/models/mistral-7b-v0.1.json").read_text())
    needed = []
    for window in (64, None):
        (tmp_path / "config.json").write_text(json.dumps(config | {"sliding_window": window, "num_hidden_layers": 2}))
        needed.append(one("gpu_a100", model=tmp_path / "config.json", prompt=4096, generate=2).memory_needed_bytes)
    kept = 2 * 2 * 8 * 128 * 2  # layers, K and V, heads of keys, elements of a head, bytes
    assert needed[1] - needed[0] == (4097 - 64) * kept


def test_launches_bound_a_roofline_that_launches() -> None:
    found: Any = pimloom.compare(["t4", "gpu_a100"], model="gpt2", generate=2)
    (t4, gpu) = found.systems
    assert "launches" in LIMITS and t4.decode.bound == "launches" and t4.decode.bound_share > 0.5
    assert gpu.decode.bound == "memory bandwidth" and "t4 is bound by launches, which would take" in found.why


def test_what_takes_little_of_the_time_bounds_nothing() -> None:
    found: Any = pimloom.compare(["npu_only", "gpu_a100"], model="gpt2", generate=2, tp=3)
    slow = found.systems[0]
    assert slow.decode.bound_share < 0.5 and "npu_only mostly waits" in found.why
    assert slow.energy_by_cause_j["npu_static"] == pytest.approx(3 * 90 * slow.latency_s, rel=1e-9)


def test_an_npu_that_waits_for_its_links_stands_by() -> None:
    """The more its link takes, the more static power, standby of the memory and refreshes are charged; nothing else."""
    asked: dict[str, Any] = {"model": "gpt2", "generate": 1, "batch": 1, "tp": 2, "layers": 1}
    near, far = (pimloom.run("neupims", **asked, set={"link.latency_ns": ns}) for ns in (0, 100_000))
    longer = far.latency_s - near.latency_s
    assert longer == pytest.approx(2 * 100e-6, rel=1e-3)  # two all-reduces, at once through a switch
    assert near.energy_by_cause_j and far.energy_by_cause_j
    more = {cause: j - near.energy_by_cause_j[cause] for cause, j in far.energy_by_cause_j.items()}
    part: Any = load_system("neupims").part
    standby_w = 32 * part.organization.ranks * part.VDD * part.current["IDD2N"] / 1000
    assert more.pop("npu_static") == pytest.approx(2 * 90 * longer, rel=1e-6)
    assert more.pop("background") == pytest.approx(2 * standby_w * longer, rel=1e-6)
    assert more.pop("second_row_buffer") == pytest.approx(2 * standby_w * longer, rel=1e-6)
    i, clocks = part.current, 32 * part.organization.ranks * longer / (part.tCK_ps * 1e-12)  # of all ranks
    refresh_j = part.VDD * (i["IDD5B"] - i["IDD3N"]) / 1000 * part.cycles("tRFC") * part.tCK_ps * 1e-12
    assert more.pop("refresh") == pytest.approx(2 * refresh_j * clocks / part.cycles("tREFI"), rel=1e-6)
    assert set(more.values()) == {0.0}


def test_faults_in_a_file_are_for_its_reproduction_only(tmp_path: Path) -> None:
    lines = Path("arch/systems/neupims.yaml").read_text()
    assert "faults:" not in lines
    (tmp_path / "mine.yaml").write_text(
        lines + "faults:\n" + "".join(f"  {n}: true\n" for n in Faults.__struct_fields__)
    )
    asked: dict[str, Any] = {"model": "gpt2", "prompt": 8, "generate": 2, "batch": 4, "layers": 1}
    assert one(str(tmp_path / "mine.yaml"), **asked).latency_s == one("neupims", **asked).latency_s


def test_time_per_output_token_is_that_of_each_request() -> None:
    """Requests whose prompts end first wait for the prompts of the others before their second token."""
    ran = pimloom.run("gpu_a100", model="gpt2", batch=8, prompt=512, chunk=512, generate=5)
    assert ran.time_per_output_token_s == pytest.approx((ran.latency_s - ran.time_to_first_token_s) / 4)
    assert ran.time_per_output_token_s > 2 * ran.decode_s[0]


def test_what_is_shown_of_prompts_is_the_last_iteration_that_ran() -> None:
    ran = pimloom.run("gpu_a100", model="gpt2", prompt=600, chunk=512, generate=1)
    spans = ran.spans
    last = pimloom.run("gpu_a100", model="gpt2", prompt=600, chunk=600, generate=1).latency_s
    first = pimloom.run("gpu_a100", model="gpt2", prompt=512, chunk=512, generate=1).latency_s
    assert spans["end_ps"].max() * S_PER_PS == pytest.approx(ran.latency_s - first) and last < ran.latency_s


def test_what_was_simulated_is_shown_without_another_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last prompt and, where every decode iteration is simulated, the one in the middle; once, when asked for."""
    taken, step = list[Batch](), RooflineDevice.step

    def counted(self: RooflineDevice, batch: Batch) -> Run:
        taken.append(batch)
        return step(self, batch)

    monkeypatch.setattr(RooflineDevice, "step", counted)
    ran = pimloom.compare(["gpu_a100"], model="gpt2", prompt=600, chunk=512, generate=6, every=5)
    assert len(taken) == 2 + 2 and len(set(taken)) == 4
    spans = ran.spans
    assert taken[4:] == [Batch.decode([603])]
    assert ran.spans.equals(spans) and len(taken) == 5
    whole = pimloom.run("gpu_a100", model="gpt2", prompt=600, chunk=512, generate=5)
    assert len(taken) == 5 + 2 + 4
    assert whole.spans.equals(spans.drop(columns="system")) and len(taken) == 5 + 2 + 4


def test_the_bend_at_a_window_is_simulated(tmp_path: Path) -> None:
    config = json.loads(Path("tests/models/mistral-7b-v0.1.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"sliding_window": 64, "num_hidden_layers": 2}))
    asked: dict[str, Any] = {"model": tmp_path / "config.json", "generate": 300, "batch": 1}
    exact, some = (pimloom.run("gpu_a100", **asked, every=every).latency_s for every in (1, 1000))
    assert some == pytest.approx(exact, rel=1e-4)


def test_digests_of_comparisons_differ_where_systems_do(tmp_path: Path) -> None:
    text = (
        Path(PHONE)
        .read_text()
        .replace("part: lpddr5_pim.yaml", f"part: {Path(PHONE).parent.resolve()}/lpddr5_pim.yaml")
    )
    (tmp_path / "a.yaml").write_text(text.replace("  prefill: {cache_write: pim, all: npu}\n", ""))
    (tmp_path / "b.yaml").write_text(text.replace("channels: 4", "channels: 1"))
    systems = [[str(tmp_path / f"{x}.yaml"), "t4"] for x in "ab"]
    found: Any = [pimloom.compare(some, model="gpt2-xl", prompt=4, generate=2) for some in systems]
    assert all(one.systems[0].reason for one in found)
    assert found[0].spec_digest != found[1].spec_digest


@pytest.mark.parametrize("systems", [["gpu_a100", "nosuch"], []])
def test_a_refused_comparison_leaves_no_folder(systems: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for place in ("new/deep/er", "mine/page"):
        with pytest.raises(UserError):
            pimloom.compare(systems, model="gpt2", prompt=4, generate=2, html=tmp_path / place)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]
