"""The presets as data: what each file says agrees with itself, with its standard, and with what it restates."""

import re
from collections.abc import Callable
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import convert

from pimloom.arch.aim_file import load_aim
from pimloom.arch.command import STREAM
from pimloom.arch.document import steps_of
from pimloom.arch.duplex import load_duplex
from pimloom.arch.fabric_cost import load_components
from pimloom.arch.link import Link
from pimloom.arch.llm import list_presets, load_llm
from pimloom.arch.load import load_tree
from pimloom.arch.optics import load_optics
from pimloom.arch.policy import load_policy
from pimloom.arch.system import HERE, PimSystem, RooflineSystem, list_names, load_part, load_system
from pimloom.arch.table import Table, compile_table
from pimloom.arch.training import load_training
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.dram.trace import expand
from pimloom.reports.explain import all_fields, explain
from pimloom.workload.need import kv_bytes_per_token, weights
from tests.slow import OTHER_GRADES, slow

PARTS = list_names("parts")
STREAMED = [name for name in PARTS if load_part(name).value.organization.ranks == 1]  # that `issue` takes
LOADERS: dict[str, Callable[[str], Any]] = {
    "aim_devices": load_aim,
    "controllers": load_policy,
    "duplex_devices": load_duplex,
    "fabrics": lambda file: load_components(file) if Path(file).stem == "components" else links(file),
    "gpus": load_training,
    "optics": load_optics,
    "parts": load_part,
    "systems": load_system,
}


def links(file: str) -> dict[str, Link]:
    return {name: convert(keys, Link) for name, keys in load_tree(Path(file))[0].items()}


def test_every_yaml_walks() -> None:
    files = sorted(HERE.rglob("*.yaml"))
    optical = list_names("optics")  # which lie among the parts
    found = {("optics" if path.stem in optical else path.parent.name, path.stem): str(path) for path in files}
    assert found.keys() == {(folder, name) for folder in LOADERS for name in list_names(folder)}
    for (folder, _), file in found.items():
        assert LOADERS[folder](file)


# Parts: capacity [bytes], peak of a channel [GB/s], both typed from the data sheets' headlines
HEADLINE = {
    "ddr4_2400": (8 * 2**30, 19.2),
    "ddr4_3200": (8 * 2**30, 25.6),
    "ddr5_4800": (8 * 2**30, 19.2),
    "ddr5_6400": (8 * 2**30, 25.6),
    "gddr6_14000": (512 * 2**20, 28.0),
    "gddr6_16000": (512 * 2**20, 32.0),
    "gddr6_aim": (512 * 2**20, 32.0),
    "gddr6_aim_isr": (512 * 2**20, 32.0),
    "gddr6_pim_gpt": (512 * 2**20, 32.0),
    "hbm2_2000": (1024 * 2**20, 32.0),
    "hbm2_2400": (1024 * 2**20, 38.4),
    "hbm2_neupims": (1024 * 2**20, 32.0),
    "hbm2_neupims_written": (1024 * 2**20, 32.0),
    "hbm3_6400": (1024 * 2**20, 51.2),
    "hbm3_attacc_4800": (1024 * 2**20, 38.4),
    "hbm3_attacc_5200": (1024 * 2**20, 41.6),
    "hbm3_attacc_5600": (1024 * 2**20, 44.8),
    "hbm3_attacc_6000": (1024 * 2**20, 48.0),
    "hbm3_attacc_6400": (1024 * 2**20, 51.2),
    "hbm3_duplex_5200": (1024 * 2**20, 41.6),
    "lpddr5_6400": (1024 * 2**20, 12.8),
}


@pytest.mark.parametrize("name", PARTS)
def test_part_agrees_with_itself(name: str) -> None:
    part = load_part(name).value
    org, ck = part.organization, part.cycles
    capacity, peak = HEADLINE[name]
    banks = org.pseudo_channels * org.ranks * org.bank_groups * org.banks_per_group
    assert banks * org.rows * org.columns * org.access_bits == 8 * org.capacity_bytes == 8 * capacity
    assert org.dq_bits * org.pin_gbps == 8 * part.peak_gb_s == 8 * peak
    pins = org.dq_bits // org.pseudo_channels
    assert ck("nBL") * part.tCK_ps * pins * org.pin_gbps / 1000 == pytest.approx(org.access_bits, rel=0.003)
    assert ck("tRC") >= ck("tRAS") + ck("tRP") and ck("tRAS") >= ck("tRCDRD") and ck("tREFI") > ck("tRFC")
    assert ck("tCCD_L") >= ck("tCCD_S") and ck("tCCD_L") >= ck("nBL") and ck("tRRD_L") >= ck("tRRD_S")
    if part.pim_unit:
        assert part.pim_unit.lanes * part.pim_unit.element_bits == org.access_bits
        assert part.pim_unit.global_buffer_bytes == org.row_bytes == 2048
    assert all(part.current[key] > 0 for key in part.current)


# Share of the peak that refresh leaves, 1 - tRFC / tREFI, and what 16 or 32 banks streaming rows of 32 columns reach.
SHARE = {
    "ddr4_2400": (0.9551, 0.945),
    "ddr4_3200": (0.9551, 0.946),
    "ddr5_4800": (0.9243, 0.915),
    "ddr5_6400": (0.9243, 0.894),
    "gddr6_14000": (0.9367, 0.900),
    "gddr6_16000": (0.9368, 0.900),
    "gddr6_aim": (0.9731, 0.956),
    "gddr6_aim_isr": (0.9731, 0.956),
    "gddr6_pim_gpt": (0.9333, 0.911),
    "hbm2_2000": (0.9103, 0.895),
    "hbm2_2400": (0.9101, 0.896),
    "hbm3_6400": (0.9103, 0.896),
    "lpddr5_6400": (0.9462, 0.898),
}
COLUMNS = 32


def bank_stream(table: Table, pch: int, bank: int, group: int, rows: int) -> np.ndarray:
    """ACT, 32 RD and PRE of each row of one bank."""
    stream = np.zeros(3 * rows, STREAM)
    stream["pch"], stream["bg"], stream["bank"], stream["count"] = pch, group, bank, 1
    stream["cmd"] = np.tile([table.cmd(name) for name in ("ACT", "RD", "PRE")], rows)
    stream["row"] = np.arange(3 * rows) // 3
    stream["count"][1::3] = COLUMNS
    return stream


def share_of_peak(name: str, rows: int, refresh: bool) -> float:
    """Data clocks over clocks, while all banks still have rows to read; a stream for every bank."""
    part = load_part(name).value
    table, org = compile_table(part), part.organization
    banks = product(range(org.pseudo_channels), range(org.banks_per_group), range(org.bank_groups))
    streams = [bank_stream(table, *place, rows) for place in banks]
    found = issue(table, streams, refresh=refresh)
    until = min(int(clocks[-1]) for clocks in found.issue_ck)
    reads = sum(COLUMNS * int((end[1::3] <= until).sum()) for end in found.end_ck)
    return reads * part.cycles("nBL") / (until * org.pseudo_channels)


@pytest.mark.parametrize("name", [slow(name) if name in OTHER_GRADES else name for name in STREAMED])
def test_streaming_reaches_the_peak_less_refresh(name: str) -> None:
    part = load_part(name).value
    left, reached = SHARE[name]
    assert part.cycles("tCCD_S") == part.cycles("nBL")  # bank groups in turn keep the pins busy
    assert 1 - part.cycles("tRFC") / part.cycles("tREFI") == pytest.approx(left, abs=5e-5)
    assert 0.965 <= share_of_peak(name, 140, refresh=False) <= 1
    assert share_of_peak(name, 5_600 // part.organization.banks, refresh=True) == pytest.approx(reached, abs=0.01)
    assert reached >= 0.9 * left


@pytest.mark.parametrize("name", STREAMED)
def test_bank_groups_in_turn_read_without_a_gap(name: str) -> None:
    part = load_part(name).value
    table, org = compile_table(part), part.organization
    places = list(product(range(org.banks_per_group), range(org.bank_groups)))
    streams = []
    for pch in range(org.pseudo_channels):
        stream = np.zeros(1000, STREAM)
        stream["cmd"], stream["pch"], stream["count"] = table.cmd("RD"), pch, 1
        stream["cmd"][: len(places)] = table.cmd("ACT")
        stream["bank"], stream["bg"] = np.resize(np.array(places), (1000, 2)).T
        streams.append(stream)
    found = issue(table, streams, refresh=False)
    for clocks in found.issue_ck:
        assert set(np.diff(clocks[100:])) == {part.cycles("nBL")}
    bits_per_ns = len(streams) * org.access_bits / (part.cycles("nBL") * part.tCK_ps) * 1000
    assert bits_per_ns / 8 == pytest.approx(part.peak_gb_s, rel=0.003)
    assert not check_trace(table, expand(table, streams, found.issue_ck, found.end_ck, found.refresh_ck))


# Systems


def test_systems_say_what_their_sources_say() -> None:
    pim, t4, xeon = (load_system(name) for name in ("pim_gpt", "t4", "xeon_6154"))
    assert isinstance(pim.spec, PimSystem) and pim.part is not None and pim.part.pim_unit is not None
    assert pim.spec.dram.channels * pim.part.organization.capacity_bytes == 4 * 2**30
    assert pim.spec.dram.channels * pim.part.peak_gb_s == 256
    assert (pim.spec.npu.clock_mhz, pim.spec.npu.multipliers, pim.spec.npu.adders) == (1000, 128, 256)
    assert pim.spec.npu.sram_bytes == 128 * 1024
    assert isinstance(t4.spec, RooflineSystem) and isinstance(xeon.spec, RooflineSystem)
    assert (t4.spec.memory_gb_s, t4.spec.memory_bytes, t4.spec.power_w) == (320, 16 * 2**30, 70)
    assert t4.spec.peak_tflops == pytest.approx(320 * 64 * 2 * 1.59e9 / 1e12, rel=0.001)  # 320 tensor cores of 64 FMA
    assert xeon.spec.peak_tflops == pytest.approx(18 * 2 * 16 * 2 * 2.7e9 / 1e12, rel=0.001)
    assert xeon.spec.memory_gb_s == pytest.approx(6 * 8 * 2.666, rel=0.001)
    assert (t4.part, xeon.part) == (None, None)


@pytest.mark.parametrize("path", sorted(HERE.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_number_has_a_source(path: Path) -> None:
    tree, sources = load_tree(path)
    values = {p: str(reduce(getitem, steps_of(p), tree)) for p in sources}
    numbers = {p: source.text for p, source in sources.items() if re.match(r"[-+.]?\d", values[p])}
    assert len(numbers) >= 4
    assert not [place for place, text in numbers.items() if not re.search(r"\w{3}", text)]


def test_every_field_has_a_meaning() -> None:
    assert all(meaning.strip() for meaning in all_fields().values())
    for name in PARTS:
        part = load_part(name)
        assert {f"dram.{place}" for place in part.sources if "." in place} <= all_fields().keys()
    found = explain("dram.timing.tRP")
    assert [value.where for value in found.values] == PARTS and all(value.source for value in found.values)


# Models: layers, width, heads, positions. Radford et al. 2019, table 2 (heads 64 wide); Brown et al. 2020, table 2.1,
# with 16 heads of 128 for GPT-3 XL, whose printed 24 do not divide 2048; Touvron et al. 2023 (Llama 2), table 1;
# Grattafiori et al. 2024, table 3.
SHAPES = {
    "gpt2": (12, 768, 12, 1024),
    "gpt2-medium": (24, 1024, 16, 1024),
    "gpt2-large": (36, 1280, 20, 1024),
    "gpt2-xl": (48, 1600, 25, 1024),
    "gpt3-small": (12, 768, 12, 2048),
    "gpt3-medium": (24, 1024, 16, 2048),
    "gpt3-large": (24, 1536, 16, 2048),
    "gpt3-xl": (24, 2048, 16, 2048),
    "gpt3-7b": (32, 4096, 32, 2048),
    "gpt3-13b": (40, 5120, 40, 2048),
    "gpt3-30b": (48, 7168, 56, 2048),
    "gpt3-175b": (96, 12288, 96, 2048),
    "llama-2-7b": (32, 4096, 32, 4096),
    "llama-2-13b": (40, 5120, 40, 4096),
    "llama-2-70b": (80, 8192, 64, 4096),
    "llama-65b": (80, 8192, 64, 2048),
    "mt-nlg-530b": (105, 20480, 128, 2048),
    "llama-3-8b": (32, 4096, 32, 8192),
    "llama-3-70b": (80, 8192, 64, 8192),
    "mixtral-8x7b": (32, 4096, 32, 32768),
    "glam-143b": (32, 4096, 32, 8192),
    "grok-1": (64, 6144, 48, 8192),
    "opt-66b": (64, 9216, 72, 2048),
    "llama-3.1-405b": (126, 16384, 128, 131072),
}


def test_models_have_the_published_shapes() -> None:
    assert list_presets() == sorted(SHAPES)
    for name, shape in SHAPES.items():
        spec = load_llm(name)
        assert shape == (
            spec.num_hidden_layers,
            spec.hidden_size,
            spec.num_attention_heads,
            spec.max_position_embeddings,
        )
        if name.startswith("gpt"):
            assert (spec.vocab_size, spec.intermediate_size) == (50257, 4 * spec.hidden_size)
            assert spec.activation == "gelu_new"
            assert weights(spec).blocks == 12 * spec.num_hidden_layers * spec.hidden_size**2


@pytest.mark.parametrize(
    ("name", "millions"), [("gpt2", 124), ("gpt2-medium", 355), ("gpt2-large", 774), ("gpt2-xl", 1558)]
)
def test_models_have_the_published_parameters(name: str, millions: int) -> None:
    """With embeddings, biases and norms, as the model cards count."""
    spec = load_llm(name)
    d, layers = spec.hidden_size, spec.num_hidden_layers
    embeddings = (spec.vocab_size + spec.max_position_embeddings) * d
    biases_and_norms = layers * (9 * d + 4 * d) + 2 * d
    assert round((weights(spec).blocks + embeddings + biases_and_norms) / 1e6) == millions


def test_llama_405b_has_its_weights() -> None:
    spec = load_llm("llama-3.1-405b")
    assert (spec.intermediate_size, spec.num_key_value_heads, spec.head_dim, spec.vocab_size) == (53248, 8, 128, 128256)
    assert weights(spec).blocks + 2 * spec.vocab_size * spec.hidden_size == pytest.approx(405.8e9, rel=1e-3)


def test_llama_8b_has_its_weights() -> None:
    spec = load_llm("llama-3-8b")
    assert (spec.intermediate_size, spec.num_key_value_heads, spec.head_dim, spec.vocab_size) == (14336, 8, 128, 128256)
    assert weights(spec).blocks + 2 * spec.vocab_size * spec.hidden_size == pytest.approx(8.03e9, rel=1e-3)


DUPLEX = {  # Yun et al. 2024: matrices of all layers but the router's [billions], keys and values of a token [bytes]
    "mixtral-8x7b": (46.44, 131_072),
    "glam-143b": (141.73, 524_288),
    "grok-1": (314.87, 262_144),
    "opt-66b": (65.23, 2_359_296),
    "llama-3-70b": (68.45, 327_680),
}


@pytest.mark.parametrize("name", DUPLEX)
def test_models_of_duplex_have_their_weights(name: str) -> None:
    spec, (billions, kv) = load_llm(name), DUPLEX[name]
    routers = sum(spec.num_experts * spec.hidden_size * (not spec.is_dense(i)) for i in range(spec.num_hidden_layers))
    assert f"{(weights(spec).blocks - routers) / 1e9:.2f}" == f"{billions:.2f}"
    assert kv_bytes_per_token(spec) == kv


def test_glam_has_experts_in_every_other_layer() -> None:
    spec = load_llm("glam-143b")
    assert spec.dense_layers == tuple(range(0, 32, 2)) and not spec.gated_ffn and spec.num_experts == 64
    assert weights(spec).experts == 16 * 64 * 2 * 4096 * 16384
