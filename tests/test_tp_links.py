"""Links of devices that share each layer: one definition of a collective, charged in every command."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.link import Fabric, Link
from pimloom.arch.link_names import named_links
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.cycle_sim.link import Sent, all_gather, all_reduce, all_to_all
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.serving.pools.written import parse_link
from pimloom.workload.batch import Batch
from tests.command import call

RING = Link(gbps=800, latency_ns=500, pj_per_bit=2, topology="ring")  # 100 GB/s
SWITCH = Link(gbps=800, latency_ns=500, pj_per_bit=2, topology="switch")
FAR = Link(gbps=80, latency_ns=3000, pj_per_bit=20, topology="switch")  # 10 GB/s
LLAMA, STEP = load_llm("llama-3-70b"), Batch.decode([64] * 16)
GPU: dict[str, Any] = {"model": "llama-3-8b", "tp": 2, "layers": 2, "lm_head": False}
KEYS: dict[str, Any] = {
    "link.gbps": 100, "link.latency_ns": 9000, "link.pj_per_bit": 90, "link.topology": "ring", "collective_us": 50,
}  # fmt: skip


def test_a_ring_takes_its_bytes_and_its_hops() -> None:
    """2 (n - 1) / n bytes over the bandwidth, and 2 (n - 1) latencies: 8 MB over 8 devices, 140 µs and 7 µs."""
    found = all_reduce(Fabric(RING), 8_000_000, 8)
    assert found == Sent(ps=140_000_000 + 14 * 500_000, near_bytes=2 * 7 * 8_000_000)
    assert all_gather(Fabric(RING), 8_000_000, 8) == Sent(73_500_000, 7 * 8_000_000)
    assert found.pj(Fabric(RING)) == 2 * 8 * 2 * 7 * 8_000_000


def test_through_a_switch_few_bytes_go_at_once() -> None:
    """1,000 bytes to 7 others, 70 ns and a latency; 8 MB in parts, 2 x 70 µs and two latencies."""
    assert all_reduce(Fabric(SWITCH), 1000, 8) == Sent(70_000 + 500_000, 8 * 7 * 1000)
    assert all_reduce(Fabric(SWITCH), 8_000_000, 8) == Sent(140_000_000 + 2 * 500_000, 2 * 7 * 8_000_000)
    assert all_to_all(Fabric(SWITCH), 8000, 8) == Sent(70_000 + 500_000, 8 * 7 * 1000)
    assert all_reduce(Fabric(SWITCH), 1000, 1).all_bytes == 0


def test_beyond_the_domain_parts_cross_the_network() -> None:
    """16 devices in two domains of 8: 8 MB are summed in parts, 1 MB of each goes over the network at once, and all is
    gathered: 2 x 70.5 µs, and 1 MB at 10 GB/s with 3 µs."""
    fabric = Fabric(SWITCH, 8, FAR)
    found = all_reduce(fabric, 8_000_000, 16)
    assert found.ps == 2 * 70_500_000 + 103_000_000
    assert (found.near_bytes, found.far_bytes) == (2 * 2 * 7 * 8_000_000, 8 * 2 * 1_000_000)
    assert found.pj(fabric) == 8 * (2 * found.near_bytes + 20 * found.far_bytes)
    assert all_to_all(fabric, 16_000, 16) == Sent(8_000 * 100 + 3_000_000, 16 * 7000, 16 * 8000)


@pytest.mark.parametrize("n_bytes", [16, 4096, 1 << 20, 1 << 26])
@pytest.mark.parametrize("near", [RING, SWITCH])
def test_more_devices_or_bytes_take_longer(near: Link, n_bytes: int) -> None:
    fabric = Fabric(near, 8, FAR)
    times = [all_reduce(fabric, n_bytes, 2**i).ps for i in range(1, 8)]
    assert all(a < b for a, b in pairwise(times))
    assert all_reduce(fabric, n_bytes, 8).ps < all_reduce(fabric, 2 * n_bytes, 8).ps


def test_a_step_waits_for_its_all_reduces() -> None:
    """Two of a layer, of 16 rows of 8,192 elements: at once or in parts over NVLink 4, 3.5 µs before each."""
    one, many = (device_of(load_system("gpu_h100"), LLAMA, Share(tp, 80, outside=False)).step(STEP) for tp in (4, 8))
    size = 16 * 8192 * 2
    at_once, in_parts = 7 * size / 450e9 + 0.8e-6, 2 * (7 * size / 8 / 450e9 + 0.8e-6)
    each_ns = round((3.5e-6 + min(at_once, in_parts)) * 1e9)
    talk = [span for span in many.spans if span.resource == "link"]
    assert len(talk) == 160 and {span.end_ps - span.start_ps for span in talk} == {each_ns * 1000}
    assert many.least_ps["link"] == 160 * each_ns * 1000 and many.link_bytes == 160 * 2 * 7 * size
    assert many.least_ps["link"] > one.least_ps["link"]
    assert all(a.end_ps <= b.start_ps for a, b in pairwise(many.spans))


def test_energy_of_links_is_a_part_of_the_power_of_the_board() -> None:
    """NVLink is inside the TDP: the sum is power x time, of which the links are a part; the network is not inside."""
    run = device_of(load_system("gpu_h100"), LLAMA, Share(8, 80, outside=False)).step(STEP)
    assert run.device_j is not None and run.device_j["link"] == pytest.approx(run.link_bytes * 8 * 1.3e-12 / 8)
    assert sum(run.device_j.values()) == pytest.approx(700 * run.time_s, rel=1e-12)
    system = load_system("gpu_h100", {"network.pj_per_bit": "30"})
    far = device_of(system, LLAMA, Share(16, 80, outside=False)).step(STEP)
    assert far.device_j is not None and sum(far.device_j.values()) > 700 * far.time_s


def test_run_compare_serve_and_a_list_take_the_same_step(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("seq_len\n65\n65\n")
    asked = GPU | {"prompt": 64, "generate": 2, "batch": 2}
    run: Any = pimloom.run("gpu_h100", **asked)
    compared: Any = pimloom.compare(["gpu_h100"], **asked)
    (row,) = compared.systems
    listed: Any = pimloom.run("gpu_h100", model="llama-3-8b", tp=2, layers=2, requests=tmp_path / "r.csv")
    served: Any = pimloom.serve(
        "gpu_h100", **GPU, arrivals="burst", lengths="64:2", requests=2, exact=True, scheduler="orca"
    )  # fmt: skip
    token_s = run.decode_s[0]
    assert row.time_per_output_token_s == pytest.approx(token_s, rel=1e-12) and row.latency_s == run.latency_s
    assert listed.iteration_cyc * 1e-9 == pytest.approx(token_s, rel=1e-12)
    assert listed.allreduce_s == listed.allreduce_exposed_s > 0 and listed.link_bytes == 4 * 2 * 2 * 4096 * 2
    assert listed.link_j == pytest.approx(listed.link_bytes * 8 * 1.3e-12)
    assert listed.iteration_energy_by_cause_j["link"] == pytest.approx(listed.link_j / 2)
    assert served.iterations["time_s"].iloc[-1] == pytest.approx(token_s, rel=1e-9)


@pytest.mark.parametrize("place", KEYS)
def test_every_key_of_a_link_changes_run_serve_and_sweep(place: str) -> None:
    """Its energy, where it is an energy, else its time."""

    def told(found: Any) -> tuple[float, float]:
        causes = found.energy_by_cause_j
        return float(getattr(found, "latency_s", None) or found.time_s) if place[-4:] != "_bit" else 0.0, causes["link"]

    asked, value = GPU | {"generate": 2, "batch": 2, "tp": 4}, KEYS[place]
    work_served: dict[str, Any] = GPU | {"arrivals": "burst", "lengths": "16:2", "requests": 2, "tp": 4, "exact": True}
    plain, changed = (pimloom.run("gpu_h100", **asked, set=some) for some in ({}, {place: value}))
    assert told(plain) != told(changed)
    pair: list[Any] = [pimloom.serve("gpu_h100", **work_served, set=some) for some in ({}, {place: value})]
    one, two = pair
    assert (one.time_s, one.energy_by_cause_j["link"]) != (two.time_s, two.energy_by_cause_j["link"])
    work: dict[str, Any] = {"model": "llama-3-8b", "generate": 2, "batch": 2, "tp": 4, "layers": 2}
    sweep = sweep_from({"system": "gpu_h100", "workload": work, "axes": {place: [value]}})
    base = base_of(sweep)
    check_points(base, sweep)
    row = evaluate(base, {place: value}).row
    assert row["latency_s"] == changed.latency_s and row["link_j"] == pytest.approx(told(changed)[1])


@pytest.mark.parametrize("place", ["network.gbps", "network.latency_ns", "network.topology", "domain"])
def test_every_key_of_the_network_changes_what_crosses_it(place: str) -> None:
    value = {"network.topology": "ring", "domain": "16"}.get(place, "9")
    runs = [
        device_of(load_system("gpu_h100", some), LLAMA, Share(64, 2, outside=False)).step(STEP)
        for some in ({}, {place: value})
    ]
    assert runs[0].end_ps != runs[1].end_ps


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run t4 --model gpt2 --tp 2 --prompt 1 --generate 1", "--tp 2: t4 has no key link"),
        ("serve t4 --model gpt2 --tp 2 --arrivals burst --requests 1 --lengths 4:2", "--tp 2: t4 has no key link"),
        ("compare t4 --model gpt2 --tp 2 --generate 1", "--tp 2: t4 has no key link"),
        ("run gpu_h100 --model gpt2 --set link=nvlink9", "unknown link 'nvlink9'"),
    ],
)
def test_no_link_is_free(words: str, said: str) -> None:
    done = call(*words.split())
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1


def test_a_domain_without_a_network_ends_there() -> None:
    with pytest.raises(UserError, match="its link joins 8 devices, and it has no key network"):
        device_of(load_system("gpu_h100", {"network": "null"}), LLAMA, Share(16, 1))


def test_energy_that_is_not_known_is_said() -> None:
    done = call("run", "gpu_h100", "--model", "llama-3-70b", "--layers", "1", "--tp", "16", "--generate", "1",
                "--batch", "1", "--prompt", "1")  # fmt: skip
    assert done.code == 0 and "energy is without network.pj_per_bit" in done.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("name", "measured"),
    [  # ai-dynamo/aiconfigurator@095f58a: bytes, µs of vLLM's all-reduce in a CUDA graph on eight GPUs
        ("gpu_h100", {128: 4.71, 4096: 5.11, 131072: 10.79, 16777216: 177.75}),
        ("gpu_a100", {128: 5.66, 4096: 6.32, 131072: 17.13, 16777216: 364.35}),
    ],
)
def test_measured_all_reduces_take_no_less(name: str, measured: dict[int, float]) -> None:
    """Rates of data sheets: a lower bound, near for few bytes."""
    device = device_of(load_system(name), LLAMA, Share(8, 1))
    for n_bytes, us in measured.items():
        ours = device.link_ps(all_reduce(device.fabric, n_bytes, 8)) / 1e6  # type: ignore[attr-defined]
        assert (0.65 if n_bytes <= 4096 else 0.2) < ours / us <= 1


def test_serve_says_what_energy_is_not_known() -> None:
    asked = "serve gpu_h100 --model llama-3-70b --layers 1 --tp 16 --arrivals burst --lengths 4:2 --requests 1"
    done = call(*asked.split())
    assert done.code == 0 and "energy is without network.pj_per_bit, which is not known" in done.err


def test_one_link_has_one_set_of_numbers() -> None:
    """Whoever has NVLink 3 or 4 has those of its file; pools take the same."""
    named = {name: parse_link(name) for name in named_links()}
    for name, systems in (("nvlink3", ("gpu_a100", "neupims", "npu_only", "npu_pim")), ("nvlink4", ("gpu_h100",))):
        for system in systems:
            link = load_system(system).spec.link  # type: ignore[union-attr]
            assert isinstance(link, Link) and (link.gbps, link.latency_ns, link.pj_per_bit) == named[name]
    duplex = load_system("duplex").duplex
    assert duplex is not None
    node = duplex.spec.links.node
    assert (node.gbps, node.latency_ns, node.pj_per_bit) == named["nvlink4"]


def test_results_of_a_list_are_in_the_json(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("seq_len\n65\n65\n")
    asked = ("--model", "llama-3-8b", "--tp", "4", "--requests", tmp_path / "r.csv")
    done = call("run", "gpu_h100", *asked, "--json", "-")
    found = json.loads(done.out)
    assert found["allreduce_s"] > 0 and found["link_bytes"] == 64 * 4 * 3 * 2 * 4096 * 2 and found["link_j"] > 0
