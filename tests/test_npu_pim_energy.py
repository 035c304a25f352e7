"""Energy of an NPU with PIM: the simulator's events and tile, a layer's sums, counts of work, the second row buffer."""

import json
from dataclasses import replace
from math import fsum
from pathlib import Path

import msgspec
import numpy as np
import pytest

from pimloom.arch.llm import load_llm
from pimloom.arch.npu_energy import BankLayout, NpuEnergy
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import load_part, load_system
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.machine import Npu, run
from pimloom.energy.area import second_row_buffer
from pimloom.energy.npu_pim import Standby, Work, command_pj, memory_pj, npu_pj
from pimloom.mappers.kv import place
from pimloom.systems.devices.npu_pim.energy import stage_energy
from pimloom.systems.devices.npu_pim.layer import Layer, LayerProgram
from pimloom.systems.devices.npu_pim.parts import batch_of
from pimloom.systems.devices.npu_pim.share import shard_of
from pimloom.systems.devices.npu_pim.work import gemm_work, lane_ops, sum_work
from tests.command import call
from tests.neupims_engine import Run, spec
from tests.neupims_stimuli import stimulus

# what NeuPIMs' simulator charges for an event [pJ]: VDD x mA x ns of its configuration
EVENTS = {"ACT": 828, "RD": 804, "RDA": 804, "WR": 1068, "WRA": 1068, "REFab": 60_840, "GWRITE": 12_864}
EVENTS |= {"G_ACT": 3312, "COMP": 3216}
RESULTS = {"newton": {"READRES": 804}, "neupims": {"PIM_GEMV": 804}}
CAUSES = {"ACT": "activate", "RD": "read", "WR": "write", "REFab": "refresh", "GWRITE": "gwrite", "G_ACT": "g_act"}
CAUSES |= {"COMP": "comp"}
OPEN_PJ, CLOSED_PJ = 66, 48  # of a rank and a clock
PART = load_part("hbm2_neupims").value


@pytest.mark.parametrize("pim", RESULTS)
def test_events_of_the_simulator(pim):
    part = load_part("hbm2_neupims", {"pim": pim}).value
    assert command_pj(part, 4, 16) == pytest.approx(EVENTS | RESULTS[pim], rel=1e-12)


def test_pim_commands_follow_the_organisation():
    wide = msgspec.structs.replace(PART.organization, columns=32, ranks=4, banks_per_group=8)
    found = command_pj(msgspec.structs.replace(PART, organization=wide), 5, 8)
    assert found["GWRITE"] == pytest.approx(32 * 804)  # a row is twice as long
    assert found["G_ACT"] == pytest.approx(8 * 828)  # a group has twice as many banks
    assert found["COMP"] == pytest.approx(5 * 804)
    assert found["PIM_GEMV"] == pytest.approx(2 * 804)  # 128 banks, a byte each


def opened(commands, end):
    """Clocks with a row open, of both ranks: (MEM, PIM), by the commands of a channel with dual row buffers."""
    buffers: tuple[set[int], set[int]] = (set(), set())
    found, now = [0, 0], 0
    for t, name, bank in [*commands, (end, "", 0)]:
        for buffer, banks in enumerate(buffers):
            found[buffer] += (t - now) * len({b // 16 for b in banks})
        now = t
        if name == "ACT":
            buffers[0].add(bank)
        elif name == "PRE":
            buffers[0].discard(bank)
        elif name == "G_ACT":
            buffers[1].update(range(bank // 4 * 4, bank // 4 * 4 + 4))
        elif name == "PIM_PRECHARGE":
            buffers[1].discard(bank)
    return tuple(found)


def accounted(channel, end):
    """The same, as the channel counts it."""
    each = [ck + (end - since if banks else 0) for banks, since, ck in channel.rank.tolist()]
    return sum(each[:2]), sum(each[2:])


def test_energy_of_a_tile_is_that_of_the_simulator():
    done = 288  # clock of the last response
    mode, pim, plain = stimulus("DUAL tile 1 8 4")
    ran = Run(mode, pim, plain, until=done + 1)
    assert ran.done[0] == done
    commands = dict(zip(f.COMMANDS, ran.channel.tally.tolist(), strict=True))
    opens = opened(ran.commands, done + 1)
    assert accounted(ran.channel, done + 1) == opens == (288, 353)
    found = memory_pj(PART, command_pj(PART, 4, 16), commands, Standby(2 * 289, *opens), dual=True)
    background = found.pop("background") + found.pop("second_row_buffer")
    assert background == pytest.approx(67_026, rel=1e-12)
    assert found.pop("interface") == pytest.approx(0.3 * 512 * 4)  # four results over the pins, which it leaves out
    assert {cause: pj for cause, pj in found.items() if pj} == pytest.approx(
        {"activate": 828, "gwrite": 12_864, "g_act": 26_496, "comp": 102_912, "readres": 3_216}, rel=1e-12
    )


def test_open_clocks_through_refreshes_and_precharges():
    mode, pim, plain = stimulus("DUAL mharead 1024 40 8 128")
    ran = Run(mode, pim, plain, until=9000)
    assert any(name == "REFab" for _, name, _ in ran.commands)
    end = int(ran.channel.state[f.NOW])
    assert accounted(ran.channel, end) == opened([x for x in ran.commands if x[0] < end], end)


def test_standby_grows_with_time_and_the_second_row_buffer_is_of_dual_only():
    each, once, twice = command_pj(PART, 4, 16), Standby(1000, 100, 30), Standby(2000, 200, 60)
    one, two = (memory_pj(PART, each, {"RD": 3}, standby, dual=True) for standby in (once, twice))
    assert one["background"] == pytest.approx(100 * OPEN_PJ + 900 * CLOSED_PJ)
    assert one["second_row_buffer"] == pytest.approx(30 * OPEN_PJ + 970 * CLOSED_PJ)
    assert [two[c] / one[c] for c in ("background", "second_row_buffer", "read")] == pytest.approx([2, 2, 1])
    blocked = memory_pj(PART, each, {"RD": 3}, once, dual=False)
    assert blocked == {c: pj for c, pj in one.items() if c != "second_row_buffer"}


def test_pins_cost_where_the_part_says_so():
    part = msgspec.structs.replace(PART, io_pj_per_bit=0.5)
    counts = {"RD": 2, "WR": 1, "PIM_GEMV": 2, "COMP": 9}
    found = memory_pj(part, command_pj(part, 4, 16), counts, Standby(0, 0, 0), dual=True)
    assert found["interface"] == pytest.approx(5 * 512 * 0.5)


def test_energy_of_the_npu_by_hand():
    energy = NpuEnergy(2.0, 3.0, 5.0, 0.5, 11.0)
    found = npu_pj(energy, Work(10, 100, 1000), 10**6)
    assert found == {"npu_mac": 10, "npu_vector": 150, "npu_scratchpad": 2500, "npu_static": 11_000_000}


def stepped(rows, n_in, n_out, tile):
    """MACs and elements through the pads of a GEMM, tile by tile; weights and bias arrive for the first rows."""
    macs = moved = 0
    for n in range(0, rows, tile):
        height = min(tile, rows - n)
        for k in range(0, n_in, tile):
            depth = min(tile, n_in - k)
            moved += 2 * height * depth  # activations arrive and are read
            for m in range(0, n_out, tile):
                width = min(tile, n_out - m)
                moved += depth * width * (2 if n == 0 else 1) + (width if n == k == 0 else 0)
                moved += 2 * height * width  # the partial sum or the bias is read, the sum is written
                moved += height * width if k + tile >= n_in else 0  # the result leaves
                macs += height * depth * width
    return macs, moved


@pytest.mark.parametrize(("rows", "n_in", "n_out"), [(1, 1, 1), (200, 300, 150), (128, 256, 384), (5, 129, 700)])
def test_work_of_a_gemm_is_that_of_its_steps(rows, n_in, n_out):
    macs, moved = stepped(rows, n_in, n_out, 128)
    assert gemm_work(rows, n_in, n_out, 128, 2) == Work(macs, 0, 2 * moved)


def test_work_of_vector_operators():
    assert (lane_ops("add", 10), lane_ops("softmax", 10), lane_ops("norm", 10)) == (10, 30 + 18, 50 + 18 + 3)
    assert sum_work(1, 64, 2) == Work(0, 0, 2 * 64 * 2)
    assert sum_work(3, 64, 2) == Work(0, 2 * 64, 2 * 4 * 64 * 2)


SHAPE = {"hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 4}
SHAPE |= {"intermediate_size": 1024, "vocab_size": 32000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("small")
    (found / "config.json").write_text(json.dumps({"model_type": "llama", **SHAPE}))
    (found / "r.csv").write_text("seq_len,ch_idx\n40,0\n33,0\n600,5\n")
    return found


def served(folder, system, layers, *more):
    done = call(
        "run", system, "--model", folder, "--requests", folder / "r.csv", "--layers", layers, "--json", "-", *more
    )
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.parametrize("system", ["neupims", "npu_pim"])
def test_a_layer_costs_its_commands_its_work_and_its_time(system, folder):
    found = served(folder, system, 2)
    pj, n = found["energy_pj_by_cause"], found["commands"]
    assert {c: pj[c] for c in CAUSES.values()} == pytest.approx({c: n.get(x, 0) * EVENTS[x] for x, c in CAUSES.items()})
    assert pj["readres"] == pytest.approx(804 * (n.get("READRES", 0) + n.get("PIM_GEMV", 0)))
    twice = 2 if system == "neupims" else 1  # with two sub-batches all layers' operators are simulated twice
    macs = 3 * 512 * (3 * 512 + 512 + 3 * 1024) * twice
    assert pj["npu_mac"] == pytest.approx(1.5 * macs)
    assert pj["npu_static"] == pytest.approx(90 * 1000 * found["total_cyc"])
    ranks = 2 * 32
    for cause in ("background", "second_row_buffer"):
        if cause in pj:
            assert CLOSED_PJ <= pj[cause] / ranks / found["total_cyc"] <= OPEN_PJ * 1.01
    assert ("second_row_buffer" in pj) == (system == "neupims")
    joules = found["iteration_energy_j"]
    assert fsum(found["iteration_energy_by_cause_j"].values()) == pytest.approx(joules, rel=1e-12)
    assert found["energy_per_token_j"] == pytest.approx(joules / 3)
    assert found["power_w"] == pytest.approx(joules / (found["iteration_cyc"] * 1e-9))
    # two layers in two sub-batches are stages A to F once each; without sub-batches, all stages twice
    assert joules == pytest.approx((3 - twice) * 1e-12 * fsum(pj.values()), rel=1e-9)


def test_a_further_layer_costs_stages_c_and_d(folder):
    one, two, four = (served(folder, "neupims", layers)["iteration_energy_j"] for layers in (1, 2, 4))
    assert four - one == pytest.approx(3 * (two - one))


def test_energy_is_printed_and_static_power_can_be_left_out(folder):
    options = ("--model", folder, "--requests", folder / "r.csv", "--set", "energy.static_w=0")
    lines = call("run", "npu_pim", *options).out.splitlines()
    rows = [line.split() for line in lines]
    assert ["npu_static", "0.00", "0.000", "0.0"] in rows
    assert sum("energy, one device" in line for line in lines) == 1
    assert [row[0] for row in rows if row and row[0] in (*CAUSES.values(), "readres", "background")] == [
        *CAUSES.values(), "readres", "background",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def simulated(folder):
    """A layer program in two sub-batches and what came out of it."""
    shard = shard_of(load_system("neupims"), load_llm(str(folder)), 1)
    tokens = np.array([40, 33])
    caches = place(shard.shape, tokens, np.array([0, 0]), 600)
    layer = LayerProgram(shard, batch_of(tokens.tolist()), Layer(0, caches), Layer(0, caches)).build([[0], [1]])
    return layer, run(spec("DUAL"), 32, Npu(128, 16, 2**22, False), layer.builder, ports=2)


def test_accounts_follow_the_ends_and_the_last_has_everything(simulated):
    layer, ran = simulated
    late = [account.ck - end for account, (_, _, end) in zip(ran.accounts, ran.operators, strict=True)]
    assert min(late) >= 0 and max(late) <= 64
    assert ran.accounts[max(layer.stages["F"])].commands == ran.commands
    assert len(layer.work) == len(ran.operators)
    a, b = (ran.accounts[max(layer.stages[name])] for name in "AB")
    assert a.mem_open_ck > a.pim_open_ck == 0  # no PIM yet
    tiles = b.commands["G_ACT"] // 8  # each opens both ranks' PIM rows for tRAS at least
    assert 34 * 2 * tiles <= b.pim_open_ck <= 2 * 32 * b.ck


def test_each_stage_has_its_own_commands_work_and_time(simulated):
    layer, ran = simulated
    stages = stage_energy(layer, PART, ran, {name: 10 * i for i, name in enumerate("ABCDEF")})
    assert stages
    # 4 heads x (2 tiles of 8 COMPs for K, 4 of 3 for V), for one of the two requests, of 40 and 33 tokens
    assert [stages[s]["comp"] for s in "ABCDEF"] == pytest.approx([0, *[3216 * 4 * (2 * 8 + 4 * 3)] * 4, 0])
    qkv, through = 512 * 3 * 512, 512 * 512 + 3 * 512 * 1024  # of one request
    macs = [qkv, qkv, through + qkv, through + qkv, through, through]
    assert [stages[s]["npu_mac"] for s in "ABCDEF"] == pytest.approx([1.5 * n for n in macs])
    assert [stages[s]["npu_static"] for s in "ABCDEF"] == pytest.approx([90 * 1000 * 10 * i for i in range(6)])


def test_without_currents_or_figures_there_is_no_energy(simulated):
    layer, ran = simulated
    cyc = dict.fromkeys(layer.stages, 1)
    assert list(stage_energy(layer, PART, ran, cyc) or {}) == list("ABCDEF")
    assert stage_energy(layer, msgspec.structs.replace(PART, current={}), ran, cyc) is None
    silent = replace(layer.shard, system=msgspec.structs.replace(layer.shard.system, energy=None))
    assert stage_energy(replace(layer, shard=silent), PART, ran, cyc) is None


def test_area_of_the_second_row_buffer_by_hand():
    # 8 subarrays across, 64 down, 100 µm x 20 µm each with 10 µm of sense amplifiers; decoders 200 µm and 80 µm
    layout = BankLayout(0.08, 10 / 512, 1024, 101, 512, 10, 10, 200, 80)
    found = second_row_buffer(PART, layout)
    bank = (8 * 100 + 200) * (64 * 20 + 80)
    assert found.stripe_a_bank == pytest.approx(8 * 100 * 10 / bank)
    assert found.stripe_a_subarray == pytest.approx(64 * 8 * 100 * 10 / bank)


def test_area_of_neupims_second_row_buffer_stands_in_the_document():
    system = load_system("neupims").spec
    assert isinstance(system, NpuPimSystem) and system.bank
    found = second_row_buffer(PART, system.bank)
    text = (Path(__file__).parents[1] / "docs/npu_pim.md").read_text()
    assert f"+{found.stripe_a_bank:.1%}".replace("%", " %") in text
    assert f"+{found.stripe_a_subarray:.0%}".replace("%", " %") in text
