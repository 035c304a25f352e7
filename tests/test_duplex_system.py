"""Duplex as a system: stages of prompts and decode against plain arithmetic, memory, links, and every field."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import fsum
from random import Random
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pimloom
from pimloom.arch.duplex import load_duplex
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.duplex.memory import LOGIC, XPU, SimulatedDram, bundle_stream
from pimloom.systems.devices.run import Run
from pimloom.workload.batch import Batch, Request
from tests import naive_duplex
from tests.command import call

PLAIN = {  # plain arithmetic: every path at its full rate, experts dealt, nothing at once
    "memory": "ideal", "device.xpu_gb_s": "3352", "co_processing": "false", "expert_tp": "false",
    "routing.drawn": "false",
}  # fmt: skip
QUICK = {"memory": "ideal", "contention": "false"}  # but for fields of what they leave out
MIXTRAL = load_llm("mixtral-8x7b")


def few_layers(random: Random) -> LlmSpec:
    layers = random.randint(1, 3)
    dense = tuple(i for i in range(layers) if random.random() < 0.3)
    return msgspec.structs.replace(MIXTRAL, num_hidden_layers=layers, dense_layers=dense)


def step(llm: LlmSpec, batch: Batch, settings: Mapping[str, str] = MappingProxyType({}), *, tp: int = 1) -> Run:
    """Layers alone."""
    device = device_of(load_system("duplex", settings), llm, Share(tp, llm.num_hidden_layers, outside=False))
    return device.step(batch)


def plain(llm: LlmSpec, batch: Batch, **settings: str) -> Run:
    return step(llm, batch, PLAIN | settings)


def some(random: Random) -> tuple[list[tuple[int, int, bool]], list[int], Batch]:
    """Prompts (new, context, whether it ends), contexts of others, and their batch."""
    prompts = [(n := random.randint(1, 300), n + random.randint(0, 200), random.random() < 0.5) for _ in range(2)]
    contexts = [random.randint(1, 900) for _ in range(random.choice((0, 1, 9)))]
    prompts = prompts[: random.randint(0 if contexts else 1, 2)]
    requests = [Request("prefill", new, context, int(ends)) for new, context, ends in prompts]
    return prompts, contexts, Batch((*requests, *Batch.decode(contexts).requests))


@pytest.mark.parametrize("pim", ["none", "logic", "bank"])
def test_mixed_stages_are_those_of_plain_arithmetic(pim: str) -> None:
    random = Random(pim)
    for _ in range(8):
        llm, (prompts, contexts, batch) = few_layers(random), some(random)
        devices = random.choice((2, 4, 8))
        run = plain(llm, batch, pim=pim, devices=str(devices))
        naive = naive_duplex.mixed(llm, None if pim == "none" else pim, devices, False, prompts, contexts)
        assert run.time_s == pytest.approx(naive.s, rel=1e-6) and run.macs * devices == pytest.approx(naive.macs)
        assert sum_but_links(run) == pytest.approx(naive.pj * 1e-12)


def test_devices_apart_hand_over_heads_and_experts() -> None:
    random = Random("hetero")
    for _ in range(8):
        llm, (prompts, contexts, batch) = few_layers(random), some(random)
        run = plain(llm, batch, arrangement="hetero", devices="4")
        naive = naive_duplex.mixed(llm, "logic", 4, True, prompts, contexts)
        assert run.time_s == pytest.approx(naive.s, rel=1e-6) and sum_but_links(run) == pytest.approx(naive.pj * 1e-12)


def test_two_pools_work_side_by_side() -> None:
    """Prompts on half of the devices, which send what they keep; decode on the other half."""
    random = Random("split")
    for _ in range(8):
        llm, (prompts, contexts, batch) = few_layers(random), some(random)
        run = plain(llm, batch, arrangement="split", devices="4")
        first = naive_duplex.mixed(llm, "logic", 2, False, prompts, []) if prompts else naive_duplex.Sum()
        then = naive_duplex.mixed(llm, "logic", 2, False, [], contexts) if contexts else naive_duplex.Sum()
        sent = naive_duplex.ended_bytes(llm, prompts, 2)
        first.s += naive_duplex.LATENCY + sent / naive_duplex.NVLINK if sent else 0
        assert run.time_s == pytest.approx(max(first.s, then.s), rel=1e-6)
        assert sum_but_links(run) == pytest.approx((first.pj + then.pj) * 1e-12)


def sum_but_links(run: Run) -> float:
    return fsum(joules for cause, joules in (run.energy_by_cause_j or {}).items() if cause != "links")


@pytest.mark.parametrize("expert_tp", ["true", "false"])
def test_a_token_gets_a_whole_vector_back_from_each_expert_of_another_node(expert_tp: str) -> None:
    """Two experts a token, half of them on the other of two nodes: as many bytes come back as go there."""
    llm, settings = msgspec.structs.replace(MIXTRAL, num_hidden_layers=3), {"nodes": "2", "expert_tp": expert_tp}
    priced = [
        step(llm, Batch.decode([100] * 8), QUICK | settings | {"device.links.network.pj_per_bit": pj})
        for pj in ("0", "10")
    ]
    free, dear = ((run.device_j or {})["links"] for run in priced)
    assert dear - free == pytest.approx(3 * 8 * 2 / 2 * 2 * (2 * 4096) * 8 * 10e-12)


def test_links_carry_rings_and_cost_their_bits() -> None:
    """Two all-reduces of a layer and one of its experts, each 2 (n - 1) times the vectors in a ring of n."""
    llm, batch = msgspec.structs.replace(MIXTRAL, num_hidden_layers=5), Batch.decode([100] * 8)
    run = step(llm, batch)
    assert run.link_bytes == 5 * 3 * 2 * 3 * (2 * 8 * 4096)
    assert (run.energy_by_cause_j or {})["links"] == pytest.approx(run.link_bytes * 8 * 1.3e-12)
    dearer = step(llm, batch, {"device.links.node.pj_per_bit": "2.6"})
    assert (dearer.energy_by_cause_j or {})["links"] == pytest.approx(run.link_bytes * 8 * 2.6e-12)
    with pytest.raises(UserError, match="not read with nodes=1"):  # nothing goes between nodes, at any price
        step(llm, batch, {"device.links.network.pj_per_bit": "1.3"})
    at_rest = step(llm, batch, {"device.energy.static_w": "50"})
    assert (at_rest.energy_by_cause_j or {})["static"] == pytest.approx(4 * 50 * run.time_s)


def test_nodes_do_what_their_own_requests_ask() -> None:
    """One request on two nodes: one LM head, and messages in one of them alone."""
    llm = msgspec.structs.replace(MIXTRAL, num_hidden_layers=2, num_experts=1, num_experts_per_tok=1)
    system = load_system("duplex", QUICK | {"nodes": "2", "co_processing": "false", "expert_tp": "false"})
    device = device_of(system, llm, Share(1, 2, outside=True))
    one, two, three = (device.step(Batch.decode([100] * n)) for n in (1, 2, 3))
    assert two.macs == 2 * one.macs and two.link_bytes == 2 * one.link_bytes and two.end_ps == one.end_ps
    assert three.macs == 3 * one.macs and three.link_bytes == 3 * one.link_bytes
    assert two.energy_j == pytest.approx(2 * (one.energy_j or 0.0), rel=0.3)  # weights are read by both


def test_prompts_that_end_are_copied_between_memory_spaces() -> None:
    """K and V of 700 tokens, read and written by the xPU, only where memory has spaces."""
    begins = Batch((Request("prefill", 300, 700, 0),))
    ends = Batch((Request("prefill", 300, 700, 1),))
    runs = {
        at: [step(MIXTRAL, batch, QUICK | {"co_processing": at}) for batch in (begins, ends)]
        for at in ("true", "false")
    }
    copied_bytes = 2 * 700 * 2 * 2 * 128 * 32
    assert runs["true"][1].time_s - runs["true"][0].time_s == pytest.approx(2 * copied_bytes / 3.328e12, rel=1e-6)
    assert runs["false"][1].time_s == runs["false"][0].time_s


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=20), st.integers(1, 400), st.sampled_from(["true", "false"]))
def test_spans_of_one_resource_follow_one_another(contexts: list[int], prompt: int, co: str) -> None:
    run = quick(co).step(Batch.decode(contexts) + Batch.prefill([prompt]))
    ends = defaultdict[str, int](int)
    for span in run.spans:
        assert ends[span.resource] <= span.start_ps + 1 and span.start_ps < span.end_ps  # rounded to 1 ps
        ends[span.resource] = span.end_ps
    assert max(ends.values()) == run.end_ps
    assert set(run.resources) == {"xPU", "Logic-PIM", "links"}


@lru_cache
def quick(co_processing: str) -> Any:
    llm = msgspec.structs.replace(MIXTRAL, num_hidden_layers=2)
    system = load_system("duplex", {"memory": "ideal", "co_processing": co_processing, "devices": "2"})
    return device_of(system, llm, Share(1, 2, outside=True))


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=20), st.integers(0, 19))
def test_longer_contexts_never_take_less(contexts: list[int], which: int) -> None:
    more = list(contexts)
    more[which % len(more)] += 500
    assert quick("true").step(Batch.decode(more)).end_ps >= quick("true").step(Batch.decode(contexts)).end_ps


def test_a_column_comes_when_it_comes_whatever_follows() -> None:
    """The clock of a column in a long transfer is that of the last one of a short transfer."""
    random, memory = Random(1), SimulatedDram(load_duplex())
    long = {start: [memory._bundle_ck(n, start) for n in (1, 31, 32, 33, 4000)] for start in (0, 1267, 4000)}
    for start, found in long.items():
        for n, there in zip((1, 31, 32, 33, 4000), found, strict=True):
            fresh = SimulatedDram(load_duplex())
            fresh._ends[start] = np.zeros(0, np.int64)
            assert fresh._bundle_ck(n, start) == there
    for n in (random.randint(1, 5000) for _ in range(20)):
        stream = naive_stream(memory, n)
        assert int(memory._engine.issue([stream]).end_ck[0][1::3].max()) == memory._bundle_ck(n, 0)[0]
        n_bytes = n * 160 * 8 * 32
        assert memory.move(LOGIC, n_bytes).time_s >= memory.least_s(LOGIC, n_bytes)
        assert memory.move(XPU, n_bytes).time_s >= memory.least_s(XPU, n_bytes)


def naive_stream(memory: SimulatedDram, columns: int) -> np.ndarray:
    return bundle_stream(load_duplex().part, columns)


CHANGED = {  # a field and another value of it: the result of a mixed step changes
    "nodes": "2", "devices": "2", "pim": "bank", "arrangement": "split", "co_processing": "false", "expert_tp": "false",
    "router": "busiest_to_xpu", "memory": "ideal", "controller": "default", "contention": "false",
    "routing.drawn": "false", "routing.zipf": "1.5", "routing.counts": "[9,1,1,1,1,1,1,1]", "routing.seed": "7",
    "device.stacks": "6", "device.channels": "32", "device.xpu_tflops": "100",
    "device.logic_pim.modules": "4", "device.logic_pim.macs": "64", "device.logic_pim.clock_mhz": "65",
    "device.links.node.gbps": "360", "device.links.node.latency_ns": "8000", "device.links.node.pj_per_bit": "2",
    "device.energy.static_w": "10", "device.part.timing.tRFC": "600 ns", "device.part.timing.tCCD_L": "6 nCK",
}  # fmt: skip
ELSEWHERE = {  # the same where something else is set, too
    "device.bundle_banks": ("4", {"co_processing": "false"}),
    "device.links.network.gbps": ("40", {"nodes": "2"}), "device.links.network.latency_ns": ("5", {"nodes": "2"}),
    "device.links.network.pj_per_bit": ("5", {"nodes": "2"}),
    "device.xpu_gb_s": ("1000", {"memory": "ideal"}),
    "device.bank_pim.times_bandwidth": ("2", {"pim": "bank"}),
    "device.bank_pim.op_per_byte": ("0.01", {"pim": "bank"}),
    "device.bank_group_pim.times_bandwidth": ("2", {"pim": "bank_group"}),
    "device.bank_group_pim.op_per_byte": ("0.01", {"pim": "bank_group"}),
}  # fmt: skip


SLOW = ("memory", "controller", "contention", "device.part.timing.tRFC")


@lru_cache
def told(*settings: tuple[str, str]) -> tuple[int, float | None]:
    llm = msgspec.structs.replace(MIXTRAL, num_hidden_layers=3)
    run = step(llm, Batch.decode([400] * 40) + Batch.prefill([64]), dict(settings))
    return run.end_ps, run.energy_j


@pytest.mark.parametrize("field", CHANGED)
def test_every_field_changes_a_step(field: str) -> None:
    base = {} if field in SLOW else QUICK
    assert told(*(base | {field: CHANGED[field]}).items()) != told(*base.items())


@pytest.mark.parametrize("field", ELSEWHERE)
def test_every_field_changes_a_step_where_it_is_used(field: str) -> None:
    text, where = ELSEWHERE[field]
    base = QUICK | where
    assert told(*(base | {field: text}).items()) != told(*base.items())


def test_every_field_is_perturbed() -> None:
    system = load_system("duplex")
    assert system.duplex is not None
    own = dict(places(msgspec.to_builtins(system.spec)))
    device = dict(places(msgspec.to_builtins(system.duplex.spec), "device."))
    text = {"description", "kind", "device", "device.description", "device.part"}
    area = {place for place in device if "area" in place or "die" in place}  # not of a step
    room = {"device.memory_bytes"}  # below
    rings = {f"device.links.{name}.topology" for name in ("node", "network")}  # refused
    changed = {place for place in (*CHANGED, *ELSEWHERE) if ".part." not in place}
    assert {*own, *device} - text - area - room - rings == changed
    for place in rings:
        with pytest.raises(UserError, match=f"--set {place}: duplex does not read it: its devices form rings"):
            load_system("duplex", {place: "ring"})


def places(tree: Any, before: str = "") -> Sequence[tuple[str, Any]]:
    if not isinstance(tree, dict):
        return [(before.removesuffix("."), tree)]
    return [found for name, value in tree.items() for found in places(value, f"{before}{name}.")]


def test_tensor_parallelism_stands_in_place_of_the_devices() -> None:
    batch = Batch.decode([64] * 8)
    eight, asked = step(MIXTRAL, batch, QUICK | {"devices": "8"}), step(MIXTRAL, batch, QUICK, tp=8)
    assert (eight.end_ps, eight.spans) == (asked.end_ps, asked.spans)
    assert eight.energy_j == pytest.approx(asked.energy_j)
    assert (eight.devices, asked.devices) == (1, 8)
    one, per = (device_of(load_system("duplex"), MIXTRAL, Share(tp, 32, outside=True)).capacity() for tp in (1, 4))
    assert per.memory_bytes == one.memory_bytes // 4 and per.tokens == one.tokens


@pytest.mark.parametrize("model", ["gpt2", "llama-3-8b", "glam-143b", "llama-3.1-405b"])
def test_models_of_all_kinds_run(model: str) -> None:
    options: Any = {"model": model, "batch": 2, "prompt": 20, "generate": 3, "tp": 8}
    options |= {"tp": {"gpt2": 2, "llama-3.1-405b": 16}.get(model, 8), "set": {"memory": "ideal"}}
    found: Any = pimloom.run("duplex", lm_head=True, **options)
    assert found.tp == options["tp"] and found.lm_head
    assert fsum(found.energy_by_cause_j.values()) == pytest.approx(found.energy_j)
    without: Any = pimloom.run("duplex", **options)
    assert not without.lm_head
    assert without.latency_s < found.latency_s and without.energy_j < found.energy_j


def test_a_window_bounds_what_attention_reads() -> None:
    short = msgspec.structs.replace(MIXTRAL, sliding_window=100)
    runs = [plain(llm, Batch.decode([n] * 4)).end_ps for llm, n in ((short, 5000), (short, 100), (MIXTRAL, 100))]
    assert runs[0] == runs[1] == runs[2] < plain(MIXTRAL, Batch.decode([5000] * 4)).end_ps
    assert plain(short, Batch.prefill([400])).macs < plain(MIXTRAL, Batch.prefill([400])).macs


def test_what_the_energy_leaves_out_is_said() -> None:
    options: Any = {"model": "mixtral-8x7b", "batch": 8, "generate": 1, "set": QUICK | {"device.energy.static_w": "9"}}
    run = call("run", "duplex", "--model", "mixtral-8x7b", "--batch", "8", "--prompt", "0", "--generate", "1")
    assert "energy is without refresh, power at rest (device.energy.static_w)" in " ".join(run.out.split())
    told: Any = pimloom.compare(["duplex"], model="mixtral-8x7b", batch=8, generate=1)
    assert any("duplex: energy is without refresh" in note for note in told.notes)
    assert any("duplex: 4 devices share each layer, as its file has it" in note for note in told.notes)
    assert pimloom.run("duplex", **options).energy_by_cause_j["static"] > 0


def test_results_say_what_there_is() -> None:
    """Nodes and devices of them all, in JSON and in the table; `--tp` stands in place of a node's devices."""
    asked = [*["run", "duplex", "--model", "mixtral-8x7b", "--prompt", "20", "--generate", "1", "--batch", "2"]]
    asked += ["--set", "memory=ideal", "--set", "contention=false", "--set", "nodes=2"]
    plain = json.loads(call(*asked, "--tp", "2", "--json", "-").out)
    said = "2 nodes of 2 devices, logic beside the xPU, together"
    assert (plain["nodes"], plain["devices"], plain["deployed"]) == (2, 4, said)
    done = call(*asked)
    assert "2 nodes of 4 devices, logic beside the xPU, together\n" in done.out and "uses 3.5 of 8" in done.err
    other = json.loads(call("run", "npu_only", "--model", "gpt2", "--generate", "1", "--json", "-").out)
    assert (other["nodes"], other["devices"], other["deployed"]) == (None, None, None)
