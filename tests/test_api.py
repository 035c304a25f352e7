"""The Python API: results as a table."""

import json

import pimloom


def test_a_frame_has_a_row_for_each_result_and_units_in_its_columns():
    results = [pimloom.run(system, model="gpt2", generate=2) for system in ("pim_gpt", "t4")]
    table = pimloom.frame(results)
    assert table["system"].tolist() == ["pim_gpt", "t4"]
    assert table["latency_s"].tolist() == [result.latency_s for result in results]
    assert table["workload.generated_tokens"].tolist() == [2, 2]
    assert results[0].energy_by_cause_j
    assert table.loc[0, "energy_by_cause_j.mac"] == results[0].energy_by_cause_j["mac"]


def test_settings_are_taken_as_python_values():
    slow = pimloom.run("pim_gpt", model="gpt2", generate=1, set={"npu.clock_mhz": 100, "dram.refresh": False})
    fast = pimloom.run("pim_gpt", model="gpt2", generate=1, set={"dram.refresh": False})
    assert slow.latency_s > fast.latency_s
    assert fast.command_counts and "REFab" not in fast.command_counts


def test_a_tiny_model_on_a_huge_memory_is_mostly_padding(tmp_path):
    config = {"model_type": "gpt2", "n_embd": 16, "n_head": 1, "n_layer": 1, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = pimloom.run("pim_gpt", model=tmp_path, generate=1, set={"dram.channels": 1024})
    assert 0 < (result.data_movement_reduction_on_wires or 0) < 0.1


def test_a_trace_returns_what_the_command_prints(tmp_path):
    (tmp_path / "a.trc").write_text("LD 0x0\nST 0x40\n")
    table = pimloom.frame(
        pimloom.trace("ddr4", tmp_path / "a.trc", controller=name, set={"controller.row_hit_cap": 8})
        for name in ("default", "ramulator2")
    )
    assert table["controller"].tolist() == ["default", "ramulator2"]
    assert table["commands.ACT"].tolist() == [2, 2]
    assert table["read_latency_mean_cycles"].tolist() == [2 + 16 + 16 + 4, 1 + 16 + 16 + 4]


def test_a_trace_writes_its_logs(tmp_path):
    found = pimloom.trace("hbm3", pattern="sequential", requests=64, commands=tmp_path / "c.csv", channels=2)
    assert len((tmp_path / "c.csv").read_text().splitlines()) == 1 + sum(found.commands.values())
