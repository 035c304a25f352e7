"""An NPU without PIM in front of any memory: every part runs, by its own rules, or one sentence says why not."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.names import find, list_names
from pimloom.arch.part import Part
from pimloom.arch.system import load_part, load_system
from pimloom.arch.table import compile_table, rule_rows
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.trace import TRACE
from pimloom.cycle_sim.npu_pim.kernels.fields import COMMANDS
from pimloom.cycle_sim.npu_pim.machine import run
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.npu_pim.serve import PORTS, serve
from tests.command import call
from tests.slow import parts

PARTS = list_names("parts")
TOKENS, WIDTH = np.array([200, 40]), 256
LLM = msgspec.structs.replace(
    load_llm("gpt3-small"), hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_attention_heads=4, num_key_value_heads=4
)
# a layer of 12 x 256 x 256 weights and 9 x 256 biases, K and V of 2 x 256 for each token, two bytes each
LEAST_BYTES = 2 * ((12 * WIDTH + 9) * WIDTH + 2 * WIDTH * 240)


def part_of(name) -> Part:
    return load_part(name).value


def system_with(name, **more):
    clock = 1e6 / part_of(name).tCK_ps
    return load_system("npu_only", {"dram.part": name, "npu.clock_mhz": f"{clock:.10g}", "dram.channels": "4"} | more)


@pytest.mark.parametrize("name", parts())
def test_every_part_serves(name):
    """No faster than its pins, and no slower than a quarter of them; energy where it has currents."""
    part = part_of(name)
    found = serve(system_with(name), LLM, TOKENS, None, tp=1, layers=1, fidelity="physical")
    least_s = LEAST_BYTES / (4 * part.peak_gb_s * 1e9)
    assert least_s < found.iteration_cyc * found.clock_ps * 1e-12 < 4 * least_s
    reads = LEAST_BYTES * 8 / part.organization.access_bits
    assert reads < found.commands["RD"] < 1.1 * reads
    assert (found.iteration_energy_j is not None) == bool(part.current)


@pytest.mark.parametrize("name", parts())
def test_the_commands_of_every_part_obey_its_rules(name):
    """The monitor finds no fault in the first and the last channel, each a pseudo channel where the part has some."""
    part, system = part_of(name), system_with(name)
    laid = lay_out(system, LLM, TOKENS, None, tp=1, layers=1)
    org, channels = part.organization, 4 * part.organization.pseudo_channels
    ran = run(laid.spec, channels, laid.npu, laid.layer.builder, ports=PORTS, log=1 << 18)
    table = compile_table(part)
    numbers = np.array([table.cmd(name) if name in table.names else -1 for name in COMMANDS])
    one = replace(table, rules=table.rules._replace(size=np.maximum(table.rules.size // org.pseudo_channels, 1)))
    between = [rule for rule, row in enumerate(rule_rows(table.rules)) if row.sibling]
    assert len(ran.logs) == channels and bool(between) == (org.ranks > 1)
    for log in (ran.logs[0], ran.logs[-1]):
        clock, command, bank, row = log.T
        trace = np.zeros(len(log), TRACE)
        trace["clock"], trace["cmd"] = clock, numbers[command]
        trace["bank"], bank = bank % org.banks_per_group, bank // org.banks_per_group
        trace["bg"], trace["rank"] = bank % org.bank_groups, bank // org.bank_groups
        trace["row"] = np.maximum(row, 0)
        assert {COMMANDS[c] for c in command.tolist()} >= {"ACT", "RD", "WR", "PRE", "REFab"}
        assert check_trace(one, trace, due_ck=part.cycles("tREFI")) == []


def test_a_log_holds_what_it_is_asked_to_hold_or_is_refused():
    def ran(log):
        laid = lay_out(system_with(PARTS[0]), LLM, TOKENS, None, tp=1, layers=1)
        return run(laid.spec, 4, laid.npu, laid.layer.builder, ports=PORTS, log=log)

    whole = ran(1 << 18)
    most = max(map(len, whole.logs))
    assert most == whole.busiest
    assert all((a == b).all() for a, b in zip(whole.logs, ran(most).logs, strict=True))
    for log in (most - 1, 1):
        with pytest.raises(UserError, match=f"^a channel has more than the {log} commands that its log holds; a run"):
            ran(log)


def test_pseudo_channels_are_channels(tmp_path):
    """Four HBM2 channels of two pseudo channels each, and eight of one, with half the pins and half the capacity."""

    text = find("parts", "hbm2_2400").read_text()
    for two, one in (
        ("pseudo_channels: 2", "pseudo_channels: 1"),
        ("dq_bits: 128", "dq_bits: 64"),
        ("capacity_bytes: 1073741824", "capacity_bytes: 536870912"),
    ):
        assert text.count(two) == 1
        text = text.replace(two, one)
    (tmp_path / "one.yaml").write_text(text)
    eight = system_with("hbm2_2400", **{"dram.part": str(tmp_path / "one.yaml"), "dram.channels": "8"})
    four = system_with("hbm2_2400")
    mine, other = (serve(s, LLM, TOKENS, None, tp=1, layers=1, fidelity="physical") for s in (four, eight))
    assert (mine.total_cyc, mine.commands) == (other.total_cyc, other.commands)
    assert mine.energy_pj_by_cause is not None and other.energy_pj_by_cause is not None
    for cause in ("activate", "read", "write", "refresh", "background"):  # a device is shared by two of them
        assert 2 * mine.energy_pj_by_cause[cause] == pytest.approx(other.energy_pj_by_cause[cause])


def test_all_devices_of_a_rank_take_current():
    """DDR4: eight devices; a refresh takes IDD5B less IDD3N for tRFC in each of them."""
    part = part_of("ddr4_3200")
    found = serve(system_with("ddr4_3200"), LLM, TOKENS, None, tp=1, layers=1, fidelity="physical")
    each = 8 * part.VDD * (part.current["IDD5B"] - part.current["IDD3N"]) * part.cycles("tRFC") * part.tCK_ps * 1e-3
    assert found.energy_pj_by_cause is not None
    assert found.energy_pj_by_cause["refresh"] == pytest.approx(found.commands["REFab"] * each)


def test_capacity_is_that_of_all_pseudo_channels(tmp_path):
    """32 channels of HBM3 hold 32 GiB, as those of the system's own part do (see test_npu_only)."""
    (tmp_path / "r.csv").write_text("seq_len\n41000\n")
    options = ("run", "npu_only", "--model", "gpt3-7b", "--requests", tmp_path / "r.csv")
    done = call(*options, "--set", "dram.part=hbm3_6400", "--set", "npu.clock_mhz=1600")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "there are 34,359,738,368: at most 40,955 tokens fit" in done.err


REFUSED = {
    ("npu_only", "dram.part=ocstrx"): "part 'ocstrx' is optical; expected a memory",
    ("npu_only", "dram.channels=3"): "dram.channels: expected a power of two, got 3",
    ("npu_pim", "dram.part=hbm3_6400"): "PIM (hbm2_neupims, hbm2_neupims_written), got hbm3_6400; an NPU",
    ("neupims", "dram.part=hbm3_6400"): "PIM (hbm2_neupims, hbm2_neupims_written), got hbm3_6400; an NPU",
    ("npu_pim", "dram.part=ddr5_4800"): "PIM (hbm2_neupims, hbm2_neupims_written), got ddr5_4800",
}


@pytest.mark.parametrize(("system", "setting"), REFUSED)
def test_what_a_controller_cannot_do_is_said(system, setting, tmp_path):
    (tmp_path / "r.csv").write_text("seq_len\n100\n50\n")
    done = call("run", system, "--model", "gpt3-small", "--requests", tmp_path / "r.csv", "--set", setting)
    assert done.code == 2 and REFUSED[system, setting] in done.err and done.err.count("\n") == 1


def test_other_geometries_are_refused(tmp_path):
    """More than 32 banks, PIM behind two halves."""
    with pytest.raises(UserError, match="at most 32 banks in a channel, got 64"):
        served(**{"dram.organization.bank_groups": "16", "dram.organization.rows": "16384"})
    half = {"pseudo_channels": "2", "ranks": "1", "access_bits": "256", "columns": "32"}
    half = {f"dram.organization.{key}": value for key, value in half.items()}
    with pytest.raises(UserError, match="dram.organization.pseudo_channels: expected 1 with PIM, got 2"):
        load_system("neupims", half)


def served(**more):
    """A part of 4 x 4 banks in a channel, changed."""
    system = system_with("ddr4_3200", **more)
    return serve(system, LLM, TOKENS, None, tp=1, layers=1, fidelity="physical")


def test_an_upper_bound_is_said(tmp_path):
    """DDR5's IDD0 is below the standby of its row cycle: an ACT is charged IDD0 - IDD2N for tRC, of four devices."""
    part = part_of("ddr5_4800")
    (tmp_path / "r.csv").write_text("seq_len\n100\n")
    options = ("--set", "dram.part=ddr5_4800", "--set", f"npu.clock_mhz={1e6 / part.tCK_ps:.10g}", "--json", "-")
    done = call("run", "npu_only", "--model", "gpt3-small", "--requests", tmp_path / "r.csv", *options)
    assert (done.code, done.err.count("\n")) == (0, 1)
    assert "note: an ACT is charged 6095 pJ, IDD0 - IDD2N for tRC, an upper bound: IDD0 of 488 mA is less" in done.err
    found = json.loads(done.out)
    each = part.VDD * (part.current["IDD0"] - part.current["IDD2N"]) * part.cycles("tRC") * part.tCK_ps * 4e-3
    assert found["energy_pj_by_cause"]["activate"] == pytest.approx(found["commands"]["ACT"] * each)


def test_json_counts_all_channels(tmp_path):
    (tmp_path / "r.csv").write_text("seq_len\n100\n")
    options = ("--set", "dram.part=hbm3_6400", "--set", "npu.clock_mhz=1600", "--json", "-")
    done = call("run", "npu_only", "--model", "gpt3-small", "--requests", tmp_path / "r.csv", *options)
    found = json.loads(done.out)
    assert (done.code, done.err, found["clock_ps"]) == (0, "", 625)
    assert found["energy_pj_by_cause"] is None  # the part gives no currents


def test_little_left_of_a_row_cycle_is_said(tmp_path):
    """51 mA of hbm2_neupims: 0.38 mA are left of its 11 above closed banks, 1.2 V, 48 clocks of 1 ns."""
    (tmp_path / "r.csv").write_text("seq_len\n100\n")
    options = ("--requests", tmp_path / "r.csv", "--set", "dram.current.IDD0=51 mA", "--layers", "1", "--json", "-")
    done = call("run", "neupims", "--model", "gpt3-small", *options)
    said = "note: an ACT is charged 21.6 pJ, the row cycle of IDD0 above IDD2N 633.6 pJ: of IDD0 of 51 mA little is"
    assert done.code == 0 and said in done.err


def test_a_refresh_of_several_ranks_is_refused():
    """REFab of HBM2 reaches all ranks of a pseudo channel; a channel here would close the rows of one."""
    taller = {"dram.organization.ranks": "2", "dram.organization.capacity_bytes": str(2 << 30)}
    with pytest.raises(UserError, match=r"dram.organization.ranks: REFab .* all ranks .* expected 1"):
        serve(system_with("hbm2_2400", **taller), LLM, TOKENS, None, tp=1, layers=1, fidelity="physical")


@pytest.mark.parametrize("system", ["neupims", "npu_pim", "npu_only"])
def test_groups_of_other_than_four_banks_run(system, tmp_path):
    """The same 16 banks of a rank in other groups: PIM opens a group at once, so that time and energy differ."""
    model = tmp_path / "narrow.json"
    heads = 8 if system == "npu_only" else 4  # of fewer its loads take equally long in two of them
    narrow = {"model_type": "gpt2", "n_layer": 1, "n_embd": 64 * heads, "n_head": heads, "n_positions": 256}
    narrow["vocab_size"] = 1000
    model.write_text(json.dumps(narrow))
    found = {
        per_group: pimloom.run(
            system,
            model=str(model),
            prompt=16,
            generate=2,
            batch=2,
            layers=1,
            set={"dram.organization.banks_per_group": per_group, "dram.organization.bank_groups": 16 // per_group},
        )
        for per_group in (2, 4, 8)
    }
    assert len({one.time_per_output_token_s for one in found.values()}) == 3
    opened = [one.energy_by_cause_j.get("g_act", 0) for one in found.values()]
    assert opened[0] == pytest.approx(opened[1], rel=0.1) and opened[1] == pytest.approx(opened[2], rel=0.1)
