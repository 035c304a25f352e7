"""Plans, searches and streams of the report on serving, beside what a hand reckons."""

from types import SimpleNamespace

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.reports.serving import overlapping, routing, scheduling, searching, sharing, spreading, streaming, study
from pimloom.reports.serving.planning import Experts, Plan, crowding, plans
from pimloom.systems.devices.device import Share
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.workload.batch import Batch
from pimloom.workload.need import parameters

MIXTRAL = load_llm("mixtral-8x7b")


def test_every_way_to_lay_out_a_model_is_a_plan():
    assert len(plans(load_llm("llama-3-8b"), 4)) == 6
    found = plans(MIXTRAL, 8)
    assert sorted(plan.tp for plan in found if plan.whole) == [2, 4, 8] and len(found) == 13
    assert all(plan.tp * plan.pp * plan.copies == 8 for plan in found)
    assert [str(plan) for plan in (Plan(2, 4, 1), Plan(4, 1, 2, True))] == ["tp 2, pp 4, 1 copy", "ep 4, 2 copies"]


def test_a_device_is_crowded_as_far_as_routes_are_uneven():
    """One token goes to two of eight experts: of eight devices two have one each, of one it has both."""
    assert crowding(8, 2, 8, 1) == (4.0, 4.0) and crowding(8, 2, 1, 400) == (1.0, 1.0)
    assert crowding(8, 8, 4, 3) == (1.0, 1.0)
    tokens, touched = crowding(8, 2, 4, 4096)
    assert 1 < tokens < 1.1 and touched == 1.0


def test_whole_experts_hold_attention_on_each_device():
    """1.6 G weights of attention, router, norms and words on each of eight, an eighth of 45.1 G of experts."""
    device = Experts(load_system("gpu_a100"), MIXTRAL, Share(8, 32, outside=True))
    experts = 32 * 8 * 3 * 4096 * 14336
    of = device.capacity()
    assert of.weight_bytes == 2 * (parameters(MIXTRAL) - experts + experts // 8)
    assert of.tokens == (40 * 2**30 - of.weight_bytes) // 131_072 * 8
    with pytest.raises(UserError, match="tokens in all"):
        device.check(Batch.decode([of.tokens + 1]))
    few, many = (device.step(Batch.decode([256] * n)) for n in (8, 64))
    assert few.end_ps < many.end_ps and few.devices == 8
    one = Share(8, 32, outside=True)
    cut = RooflineDevice(load_system("gpu_a100"), MIXTRAL, one)
    assert few.end_ps > cut.step(Batch.decode([256] * 8)).end_ps  # each reads all of attention's weights


def test_leaves_have_children_by_their_reward():
    counts = searching.children([0.9, 0.1, 0.5, 0.5], 8)
    worth = np.exp(np.array([0.9, 0.1, 0.5, 0.5]) / 0.2)
    assert sum(counts) == 8 and np.abs(np.array(counts) - 8 * worth / worth.sum()).max() < 1


def test_a_search_holds_each_node_once(monkeypatch):
    monkeypatch.setattr(searching, "TREES", 1)
    for pruned in (False, True):
        trees = searching.grown(3, pruned=pruned)
        for at, depth in enumerate(trees):
            nodes = {node for path in depth.paths for node in path}
            assert depth.tokens == 256 + 64 * len(nodes) and len(depth.paths) == 16
            assert all(len(path) == at + 1 for path in depth.paths)
    monkeypatch.setattr(searching, "DEPTHS", 2)
    rows = list(searching.search())
    assert rows == list(searching.search()) and all(float(str(one["value"])) >= 1 for one in rows[1:])
    assert rows[0]["verdict"] == "pass"


def test_streams_are_of_models_of_their_size():
    small, worth = streaming.model("1.6 B"), streaming.model("1.6 B", 1.81)
    words = 151936 * 1536
    assert parameters(small) - words == pytest.approx(1.6e9, rel=0.03)
    grown = (parameters(worth) - 151936 * worth.hidden_size) / (parameters(small) - words)
    assert grown == pytest.approx(1.81, rel=0.02) and worth.head_dim * 16 == worth.hidden_size
    assert parameters(streaming.model("4.4 B")) - 151936 * 2560 == pytest.approx(4.4e9, rel=0.03)
    more = streaming.bytes_of(small, 2) - streaming.bytes_of(small, 1)
    of_token = 2 * 36 * 2 * 96 * 2  # keys and values of two heads of 96
    assert more == 2 * 1537 * 1536 * 2 + of_token * (2 * (256 + 48) - 256)


def test_woven_throughput_is_as_measured_for_dense_models():
    rows = list(overlapping.throughput())
    dense = [one for one in rows if str(one["machine"]).startswith(("Llama", "Qwen"))]
    for one in dense:
        measured = float(str(one["published"]).split()[0].replace(",", ""))
        assert float(str(one["value"])) == pytest.approx(measured, rel=0.06), one["what"]
    assert (len(dense), len(rows)) == (6, 9)


def test_calls_that_are_planned_gain_more_the_more_there_are():
    found = [float(str(one["value"])) for one in scheduling.compiler()]
    assert found[::2] == sorted(found[::2]) and found[1::2] == sorted(found[1::2]) and found[0] > 1


def test_memory_beside_services_is_what_they_hold():
    """Weights of 32 layers and 4,096 tokens of 131,072 B of 40 GB."""
    device = SimpleNamespace(
        capacity=lambda: SimpleNamespace(weight_bytes=16e9, cache_bytes_per_token=131072, memory_bytes=40e9)
    )
    assert sharing._held(device, 4096) == pytest.approx((16e9 + 4096 * 131072) / 40e9)


def test_lines_of_a_figure_are_read_from_rows():
    rows = [
        {"what": f"{who}: requests within ttft=1s", "machine": f"m on g, {at} requests/s of X", "value": share}
        for who, at, share in (("A", 4, 90.0), ("A", 8, 50.0), ("B", 4, 99.0))
    ]
    (drawn,) = study._figures("Shares", rows)
    assert "Requests within" in drawn.title and study._figures("Plans", rows) == []


def test_experts_whose_tokens_stay_gain_what_the_links_took():
    """No more than two ways there and back are over one: and more where links are more of a step."""
    few, many = (float(str(one["value"])) for one in routing.throughput())
    assert 1 < few < many < 4


def test_a_window_of_blocks_beside_a_whole_model():
    rows = {str(one["what"]): float(str(one["value"])) for one in spreading.tpi()}
    part = next(value for what, value in rows.items() if what.startswith("memory less"))
    weights = 4 * 80 * (2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672) / 8 / 1e9
    held = next(value for what, value in rows.items() if what.startswith("memory of llama"))
    assert part == pytest.approx(100 * (1 - held / weights), abs=0.1)
    token_s = next(value for what, value in rows.items() if what.startswith("time of a token"))
    assert token_s == pytest.approx(weights / 2, rel=0.05)  # the disk's 2 GB/s bound it
