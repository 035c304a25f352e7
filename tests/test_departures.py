"""Single departures of NeuPIMs' simulator (specification 8.1), repaired one by one: what each changes, by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pimloom.arch.llm import load_llm
from pimloom.arch.pim_stream import ANNOUNCE
from pimloom.arch.system import load_part, load_system
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.mappers.kv import Shape, logit
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.npu_pim.share import first_row, shard_of
from tests.command import call
from tests.naive_neupims import Channel, Request
from tests.neupims_engine import COMMAND, Run, spec
from tests.neupims_stimuli import gwrite, pim_tile, stimulus

SEVEN_B = Shape(heads=8, kv_heads=8, head_dim=128, row=512, banks=32, lanes=16, allotted=1024)


def cadence(mode, **device):
    """Clocks between the headers of two tiles of one result and 32 COMPs, before any refresh."""
    headers = [t for t, c, _ in Run(*stimulus(f"{mode} tile 4 32 1"), **device).commands if c == "PIM_HEADER"]
    return headers[3] - headers[2]


@pytest.mark.parametrize(("mode", "clocks"), [("DUAL", 143), ("SINGLE", 207)])
def test_the_written_read_to_precharge_costs_a_clock_of_a_tile(mode, clocks):
    """3.4 and 8.1 item 17: about +1 of 143."""
    assert cadence(mode) == clocks
    assert cadence(mode, part_name="hbm2_neupims_written") == clocks + 1


def test_the_written_part_differs_in_read_to_precharge_alone():
    runs, written = load_part("hbm2_neupims").value, load_part("hbm2_neupims_written").value
    changed = {name for name in runs.timing if runs.timing[name] != written.timing[name]}
    assert changed == {"tRTP", "nENDPRE"} and {written.cycles(name) for name in changed} == {6}
    assert (runs.organization, runs.current) == (written.organization, written.current)


@pytest.mark.parametrize(
    ("fixes", "bank", "group", "channel"),
    [
        # as released all rows but the last group's are free 5 clocks after the GEMV; that one has tRAS, 34, to keep
        ([], 5 + 32 + 1 + 91 + 14, 91 + 34 + 1 + 1, 91 + 34 + 14),
        # held by 32 COMPs, 69 clocks: the second rank opens 14 after its first group is closed, by the fifth command
        ([2], 69 + 32 + 1 + 91 + 14, 69 + 4 + 14 + 90 + 14, 69 + 14 + 91 + 14),
    ],
)
def test_one_precharge_for_more_banks(fixes, bank, group, channel):
    """Item 23: far less than the 31 of 143 clocks that commands alone are, as tRAS and tRP come to light."""
    expected = {"bank": bank, "group": group, "channel": channel}
    assert {scope: cadence("DUAL", fixes=fixes, precharge=scope) for scope in expected} == expected


def late(channel, requests, every, most=20_000):
    """Clock of the last response when request i is there from clock i * every on."""
    i = t = found = 0
    while found < sum(x.kind != "P_HEADER" for x in requests):
        found += len(channel.collect())
        if i < len(requests) and t >= i * every and channel.offer(replace(requests[i]), t):
            i += 1
        channel.tick(t)
        t += 1
        assert t < most
    return t - 1


def test_a_header_waits_for_its_tile():
    """Item 13: one command in 100 clocks. Between the last COMP, in 1900, and the READRES a refresh closes the rows."""
    requests = gwrite(1) + pim_tile("SINGLE", 600, 18, 1, 32)
    with pytest.raises(AssertionError, match="closed bank"):
        late(Channel("SINGLE"), requests, 100)
    channel = Channel("SINGLE", fixes=[13])
    assert late(channel, requests, 100) > 2000
    issued = {name: t for t, name, _, _ in channel.log if name in ("P_HEADER", "READRES")}
    assert 2000 < issued["P_HEADER"] < issued["READRES"]


@pytest.mark.parametrize(("mode", "fixes"), [("SINGLE", []), ("SINGLE", [13]), ("DUAL", [13]), ("DUAL", [13, 18])])
@pytest.mark.parametrize("every", [20, 90, 130])
def test_late_commands_in_the_compiled_channel(mode, fixes, every):
    requests = gwrite(1)
    for tile in range(3):
        requests += pim_tile(mode, 600 + tile, 20, 2, 32)
    reads = [Request("READ", 3, 700, i % 16) for i in range(60)]
    naive, closed = Channel(mode, fixes=fixes), False
    try:
        late_both(naive, requests, reads, every)
    except AssertionError as error:
        closed = "closed bank" in str(error)
        assert closed
    found = Run(mode, requests, reads, fixes, every=every)
    expected = [(t, COMMAND[c], 0 if c == "P_HEADER" else b) for t, c, b, _ in naive.log]
    assert found.stuck == closed and found.commands[: len(expected)] == expected
    assert closed == (every == 90 and not fixes)  # the READRES of clock 1980 finds its rows closed


def late_both(channel, pim, reads, every):
    """As `late`, with reads that are there from the start, two a clock, at the second port."""
    i = j = t = found = 0
    while found < len(reads) + sum(x.kind != "P_HEADER" for x in pim):
        found += len(channel.collect())
        for _ in range(2):
            if i < len(pim) and t >= i * every and channel.offer(replace(pim[i]), t):
                i += 1
        for _ in range(2):
            if j < len(reads) and channel.offer(replace(reads[j]), t):
                j += 1
        channel.tick(t)
        t += 1
        assert t < 40_000
    return t


def test_headers_for_k_name_rows_of_32_bits():
    """Item 19: rows from 4096 on lose their upper bits, in headers of logit alone."""
    true = logit(SEVEN_B, 64, 4094, fused=True, exact=True)
    wrapped = logit(SEVEN_B, 64, 4094, fused=True, exact=True, header_rows=4096)
    header = true["cmd"] == ANNOUNCE
    assert true["row"][header].tolist() == [4094, 4096, 4095, 4097]
    assert wrapped["row"][header].tolist() == [4094, 0, 4095, 1]
    assert (true[~header] == wrapped[~header]).all()


def test_a_wrapped_header_does_not_find_its_own_row_open():
    """Two tiles of one row: as announced the second stays open; through a wrong row it is closed and opened again."""

    def commands(row):
        pim = gwrite(1) + pim_tile("DUAL", 5000, 32, 1, 32) + pim_tile("DUAL", 5000, 32, 1, 32)
        pim[3].row = row
        naive = Channel("DUAL")
        late(naive, pim, 1)
        found = Run("DUAL", pim, [], every=1)
        assert [(t, COMMAND[c]) for t, c, _, _ in naive.log] == [(t, c) for t, c, _ in found.commands[: len(naive.log)]]
        return [c for _, c, _, _ in naive.log].count("PIM_PRE")

    assert (commands(5000), commands(5000 - 4096)) == (0, 32)


@pytest.mark.parametrize(
    ("faulty", "layers", "row"),
    # 3.7: 513 as released; 12 x 4096^2 weights of 2 bytes, a quarter of them: 96 rows of 1 MiB a layer,
    # and 30,720 bytes of biases: 3 x 4096 and 16,384 of them are shared, two times 4096 are not
    [("true", 32, 513), ("false", 32, 513 + 32 * 96 + 1), ("false", 64, 513 + 64 * 96 + 2)],
)
def test_weights_take_rows_before_the_cache(faulty, layers, row):
    system = load_system("neupims", {"faults.cache_overallotted": faulty})
    shard = shard_of(system, load_llm("gpt3-7b"), 4)
    assert first_row(shard, layers) == row
    assert shard.shape.allotted == (4096 if faulty == "true" else 1024)


def test_a_batch_that_does_not_fit(tmp_path):
    (tmp_path / "r.csv").write_text("seq_len,ch_idx\n" + "2000,0\n" * 150)
    options = ("run", "neupims", "--model", "gpt3-7b", "--tp", "4", "--requests", tmp_path / "r.csv")
    done = call(*options)
    assert done.code == 2 and done.err.count("\n") == 1
    # 32 layers: 12 x 4096 x 4096 weights and 7 x 4096 biases over 4 devices, 2 x 4096 biases on each, and K and V of
    # 1,024 elements for 300,000 tokens, 2 bytes each
    needs = 32 * ((12 * 4096 + 7) * 4096 // 4 + 2 * 4096 + 2 * 1024 * 300_000) * 2
    assert f"needs {needs:,} bytes of memory on each of 4 devices" in done.err
    done = call(*options, "--layers", "1")
    assert done.code == 2 and done.err.count("\n") == 1
    # 63 tiles x 2 rows of K and 4 x 32 of V each; 512 rows of activations, 96 of weights
    assert f"need {150 * (126 + 128):,} rows of a bank behind 610 of activations and weights; it has 32,768" in done.err


def test_scope_of_a_precharge_that_is_not_there(tmp_path):
    (tmp_path / "r.csv").write_text("seq_len\n20\n")
    options = ("--model", "gpt2", "--requests", tmp_path / "r.csv", "--set", "dram.pim_precharge=channel")
    done = call("run", "npu_pim", *options)
    assert done.code == 2 and "dram.pim_precharge: expected bank" in done.err and done.err.count("\n") == 1
    few = ("--layers", "1", "--set", "interleave.sub_batches=1", "--json", "-")
    done = call("run", "neupims", *options, *few)
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)["commands"]
    assert 0 < found["PIM_PRECHARGE"] < 2 * found["PIM_HEADER"]  # one for a tile, and some before refreshes


def test_no_scope_but_three():
    assert spec("DUAL").pim_precharge == "bank"
    with pytest.raises(Exception, match="pim_precharge"):
        load_system("neupims", {"dram.pim_precharge": "rank"})


@pytest.mark.parametrize(("fault", "row"), [("true", 0), ("false", 511)])
def test_queries_and_logits_lie_where_no_address_of_the_npu_is(fault, row):
    """8.1 item 8: 512 MB of activations are 512 rows of 1 MB; the NPU's addresses take the first 40."""
    system = load_system("neupims", {"faults.gwrites_of_row_0": fault, "interleave.sub_batches": "1"})
    laid = lay_out(system, load_llm("gpt3-7b"), np.array([40]), None, tp=4, layers=1)
    dots = np.concatenate([rows for o in laid.layer.builder.operators for rows in o.dots])
    gwrites = dots[dots[:, f.KIND] == f.GWRITE]
    assert len(gwrites) == 2 + 8 and set(gwrites[:, f.ROW].tolist()) == {row}
