"""Operators that overlap: list scheduling against a naive one, parts of a batch, and what devices make of both."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.serving.overlap.device import Overlap, Overlapped
from pimloom.systems.serving.overlap.listing import Task, schedule
from pimloom.systems.serving.overlap.parts import divided, equal, woven
from pimloom.systems.serving.overlap.waves import Units, padding
from pimloom.systems.serving.overlap.written import parse_overlap, settings_of
from pimloom.workload.batch import Batch, Request
from tests.command import call

SHARE = st.sampled_from([0, 1, 2, 3, 4])  # quarters
TASKS = st.lists(st.tuples(st.integers(1, 12), SHARE, SHARE), min_size=1, max_size=5)


def naive(chains: list[list[tuple[int, int, int]]], waits: bool) -> Fraction:
    """From one event to the next, in exact quarters: what has begun takes what it wants, then the longest remaining
    chain what is left of that, and so on; with `waits` the i-th of a chain waits for the i-th of the one before."""
    left = [[Fraction(time) for time, _, _ in chain] for chain in chains]
    now, begun = Fraction(0), set[tuple[int, int]]()
    while any(sum(one) for one in left):
        room, rates = [Fraction(1), Fraction(1)], list[tuple[int, int, Fraction]]()
        heads = [next((i for i, rest in enumerate(one) if rest), -1) for one in left]
        for k in sorted(range(len(chains)), key=lambda k: ((k, heads[k]) not in begun, -sum(left[k]), k)):
            i = heads[k]
            if i < 0 or (waits and k and i < len(left[k - 1]) and left[k - 1][i]):
                continue
            wanted = [Fraction(quarter, 4) for quarter in chains[k][i][1:]]
            rate = min([Fraction(1), *(there / want for there, want in zip(room, wanted, strict=True) if want)])
            if rate:
                room = [there - rate * want for there, want in zip(room, wanted, strict=True)]
                rates.append((k, i, rate))
        step = min(left[k][i] / rate for k, i, rate in rates)
        now += step
        for k, i, rate in rates:
            left[k][i] -= rate * step
            begun.add((k, i))
    return now


@given(chains=st.lists(TASKS, min_size=1, max_size=4), waits=st.booleans())
@settings(max_examples=150)
def test_list_scheduling_is_that_of_a_naive_one(chains, waits):
    made = [
        [
            Task("x", float(time), (a / 4, b / 4), i if waits and k and i < len(chains[k - 1]) else None)
            for i, (time, a, b) in enumerate(chain)
        ]
        for k, chain in enumerate(chains)
    ]
    found = schedule(made)
    assert found.end == pytest.approx(float(naive(chains, waits)), rel=1e-9)
    assert max(found.work) <= found.end * (1 + 1e-9) and found.end <= found.serial * (1 + 1e-9)
    assert len(found.ran) == sum(map(len, chains))
    for k, chain in enumerate(made):
        ends = [(one.start, one.end) for one in found.ran if one.chain == k]
        assert all(a[1] <= b[0] + 1e-9 for a, b in zip(ends, ends[1:], strict=False)) and len(ends) == len(chain)


REQUEST = st.tuples(st.sampled_from(["decode", "prefill", "verify"]), st.integers(1, 60), st.integers(0, 90))


@given(requests=st.lists(REQUEST, min_size=1, max_size=8), number=st.integers(1, 4))
@settings(max_examples=150)
def test_parts_have_all_tokens_and_what_they_attend_to(requests, number):
    made = [Request(p, 1 if p == "decode" else n, old + (1 if p == "decode" else n), 1) for p, n, old in requests]
    batch = Batch(tuple(made))
    for parts in (equal(batch, number), woven(batch, tile=16, least=32), divided(batch, [1] * number)):
        assert sum(part.batch.rows for part in parts) == batch.rows
        assert sum(part.batch.attended(None) for part in parts) == batch.attended(None)
        assert sum(part.batch.logits for part in parts) == batch.logits
        assert not parts[0].follows
        for before, part in zip(parts, parts[1:], strict=False):
            if part.follows:  # the first prompt there goes on where the last one here ends
                first = next(at for at in part.batch.requests if at.phase == "prefill")
                assert before.batch.requests[-1].context == first.context - first.new


def test_whole_tiles_fill_all_units():
    assert padding(256, 256 * 66, 132) == 1.0 and padding(1, 128, 132) == 132 * 128
    assert padding(128, 128, 132) == 132 and padding(128, 256, 132, groups=132) == 1.0


def device(tp: int = 4, **settings: str) -> RooflineDevice:
    link = {"link.topology": "ring", "link.pj_per_bit": "5", "collective_us": "0"}
    found = device_of(load_system("gpu_a100", link | settings), load_llm("gpt3-7b"), Share(tp, 4, outside=True))
    assert isinstance(found, RooflineDevice)
    return found


def test_in_sequence_and_for_free_it_is_the_device_that_it_was():
    batch = Batch.decode([300, 500, 80]) + Batch.prefill([200, 40])
    for one in (device(), device(1, launch_us="3")):
        plain, serial = one.step(batch), Overlapped(one, Overlap("serial")).step(batch)
        assert serial.end_ps == plain.end_ps and serial.macs == plain.macs
        assert serial.interface_bytes == plain.interface_bytes
        assert serial.energy_j == plain.energy_j and serial.least_ps["launches"] == plain.least_ps["launches"]


def test_sums_go_over_the_link_between_two_operators():
    """Two all-reduces of a layer and that of the embedding over three hops there and back, and logits of one row."""
    batch, quick = Batch.prefill([256]), {"link.gbps": "1e9", "link.latency_ns": "0"}
    free, sent = (Overlapped(one, Overlap("serial")).step(batch) for one in (device(4, **quick), device()))
    each = round(6 * (256 * 4096 * 2 / 4 / 300e9 + 600e-9) * 1e9) * 1000
    logits = round(3 * (12568 * 2 / 300e9 + 600e-9) * 1e9) * 1000
    assert sent.end_ps - free.end_ps == pytest.approx(9 * each + logits, abs=20_000)
    assert sent.link_bytes == 9 * 2 * 3 * 256 * 4096 * 2 + 3 * 4 * 2 * -(-50257 // 4)
    assert sent.energy_by_cause_j is not None
    assert sent.energy_by_cause_j["link"] == pytest.approx(sent.link_bytes * 8 * 5e-12)


def test_nano_batches_overlap_and_read_the_weights_once_each():
    batch, one = Batch.decode([1000] * 64) + Batch.prefill([512]), device()
    serial = Overlapped(one, Overlap("serial")).step(batch)
    runs = [Overlapped(one, Overlap("nanoflow", parts)).step(batch) for parts in (1, 2, 3, 4)]
    assert runs[0].end_ps == serial.end_ps and min(run.end_ps for run in runs[1:]) < serial.end_ps
    assert Overlapped(one, Overlap("nanoflow")).step(batch).end_ps == min(run.end_ps for run in runs)
    for run in runs:
        assert max(run.least_ps.values()) <= run.end_ps <= sum(run.least_ps.values()) + 2 * serial.end_ps
    matrices = 4 * 12 * 4096**2 // 4 * 2  # four layers, a fourth of each on a device, two bytes
    growth = np.diff([run.interface_bytes for run in runs])
    assert np.allclose(growth, matrices, rtol=0.15)  # and the second half of a prompt reads the first half's keys


def test_two_woven_rows_take_turns():
    """One at a time on the units, one at a time on the link: a loop over both rows."""
    batch, one, units = Batch.prefill([2048]), device(), Units(8, 108)
    found = Overlapped(one, Overlap("tokenweave", units=units)).step(batch)
    serial = Overlapped(one, Overlap("serial")).step(batch)
    assert found.end_ps < serial.end_ps
    first, last = one.outside(batch)
    work, link = found.least_ps["compute"], found.least_ps["link"]
    ends = sum(each.time_ps for each in (*first, *last))
    assert work < found.end_ps < work + link + ends
    rows = [[span for span in found.spans if span.resource == f"part {k}"] for k in (1, 2)]
    talking = [(span.start_ps, span.end_ps) for row in rows for span in row if span.operator == "all-reduce"]
    busy = [(span.start_ps, span.end_ps) for row in rows for span in row if span.operator != "all-reduce"]
    for spans in (sorted(talking), sorted(busy)):
        assert all(a[1] <= b[0] + 1 for a, b in zip(spans, spans[1:], strict=False))
    few = Batch.prefill([512])  # below 1,024 tokens nothing is split
    assert {span.resource for span in Overlapped(one, Overlap("tokenweave", units=units)).step(few).spans} == {"part 1"}


def test_prompts_go_to_the_sub_batch_with_the_fewest_new_tokens():
    """Who decodes is divided as without them; a naive greedy one for the prompts."""
    system, llm = load_system("neupims"), load_llm("gpt3-small")
    new = np.array([1, 30, 1, 1, 50, 1, 20, 10, 1, 1])
    tokens = np.where(new > 1, new, 300 + 10 * np.arange(10))
    decode = np.flatnonzero(new == 1)
    alone = lay_out(system, llm, tokens[decode], None, tp=1, layers=1)
    mixed = lay_out(system, llm, tokens, None, tp=1, layers=1, new=new)
    parts = [set(part.tolist()) for part in mixed.parts]
    assert sorted(i for part in parts for i in part) == list(range(10))
    sizes = sorted(len([i for i in part if new[i] == 1]) for part in parts)
    assert sizes == sorted(len(part) for part in alone.parts)
    rows = [sum(1 for i in part if new[i] == 1) for part in parts]
    for i in (4, 1, 6, 7):
        where = rows.index(min(rows))
        assert i in parts[where]
        rows[where] += int(new[i])


def test_a_prompt_beside_decode_runs_while_pim_attends():
    """Causal attention and the products of a prompt on the arrays, scores and sums of the other sub-batch on PIM."""
    batch = Batch.decode([100] * 8) + Batch.prefill([32])
    found = {}
    for parts in (1, 2):
        system = load_system("neupims", {"interleave.sub_batches": str(parts)})
        run = device_of(system, load_llm("gpt3-small"), Share(1, 1, outside=False)).step(batch)
        pim = [(span.start_ps, span.end_ps) for span in run.spans if span.resource == "PIM"]
        arrays = [(span.start_ps, span.end_ps) for span in run.spans if span.resource == "systolic arrays"]
        found[parts] = sum(max(min(a[1], b[1]) - max(a[0], b[0]), 0) for a in pim for b in arrays)
    assert found[2] > found[1]
    given = parse_overlap("sub-batches,parts=3")
    assert settings_of(*given, load_system("neupims")) == ["interleave.sub_batches=3"]


def served(**given: Any) -> Any:
    options: dict[str, Any] = {"model": "gpt3-7b", "arrivals": "burst", "lengths": "200:4", "requests": 12, "layers": 2}
    return pimloom.serve("gpu_a100", tp=4, **options | given)


def test_served_iterations_overlap():
    serial, nano, weave = (served(overlap=how) for how in ("serial", "nanoflow", "tokenweave,units=108"))
    assert nano.time_s < serial.time_s and weave.time_s != serial.time_s
    assert nano.energy_by_cause_j["link"] == pytest.approx(serial.energy_by_cause_j["link"], rel=0.02)
    assert len({found.spec_digest for found in (serial, nano, weave)}) == 3
    assert served(overlap="nanoflow").to_dict() == nano.to_dict()


def test_an_iteration_has_at_most_as_many_parts_as_tokens():
    few: dict[str, Any] = {"model": "gpt2", "layers": 1, "requests": 2, "lengths": "3:3", "exact": True}
    found = [
        pimloom.serve("gpu_a100", arrivals="burst", overlap=f"nanoflow,parts={parts}", **few) for parts in (2, 6, 4096)
    ]
    assert found[0].time_s < found[1].time_s == found[2].time_s


BAD = {
    "gpu_a100 --overlap nanflow": "--overlap nanflow: expected serial, nanoflow, tokenweave, sub-batches, such as",
    "gpu_a100 --overlap nanoflow,units=4": "nanoflow takes parts, such as nanoflow, nanoflow,parts=2",
    "gpu_a100 --overlap nanoflow,parts=0": "parts: expected a whole number of 1 to 4096, got '0'",
    "gpu_a100 --overlap nanoflow,parts=2,parts=2": "--overlap nanoflow,parts=2,parts=2: parts is given twice",
    "gpu_a100 --overlap tokenweave,units=8,collective=8": "collective: expected fewer than all 8 units",
    "gpu_a100 --overlap nanoflow --link nvlink3": "--link nvlink3: gpu_a100 has a link of its own; leave it out",
    "gpu_a100 --overlap sub-batches": "--overlap sub-batches: gpu_a100 has no PIM beside its NPU; take neupims or npu",
    "neupims --overlap nanoflow": "--overlap nanoflow: neupims has no operators at their roofline; take a roofline",
    "neupims --overlap sub-batches --link nvlink3": "--link nvlink3: neupims has a link of its own; leave it out",
    "gpu_a100 --overlap nanoflow --scheduler semi-pd": "--overlap: semi-pd takes tokens one by one on one machine",
    "prefill=t4,decode=t4 --link nvlink3 --overlap serial": "--overlap: prefill=t4,decode=t4: pools take tokens one by",
}


@pytest.mark.parametrize("words", BAD)
def test_what_does_not_overlap_is_one_line(words):
    done = call(
        "serve", *words.split(), "--model", "gpt2", "--arrivals", "burst", "--requests", "2", "--lengths", "8:4"
    )
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and BAD[words] in done.err, done.err
