"""`pimloom rtl verify` for every block; that of sequencer and channel is in their own tests."""

import os

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.scenes.arithmetic import busy, float32
from pimloom.rtl.flow.scenes.scene import Scene, mismatches
from pimloom.rtl.flow.scenes.values import BF16, NASTY, PRODUCTS, SUMS, pairs, small_operands, vectors
from pimloom.rtl.flow.verify import SCENES, VERIFIERS, verify
from tests.simulators import needs

PART = "gddr6_pim_gpt"
QUICK = ("float32_add",)


def test_every_block_has_a_verifier():
    assert list(VERIFIERS) == list(BLOCKS)


@pytest.mark.parametrize(
    "block", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SCENES]
)
def test_gates_are_the_model(block):
    (found,) = verify(block, PART, simulator=needs("icarus"), commands=300, seed=1)
    assert (found.block, found.commands, found.mismatches, found.first_mismatch) == (block, 300, 0, None)
    assert (found.rules_bound, found.rules_total, found.sleeping_rules, found.waves) == (0, 0, {}, None)
    assert found.cycles_per_s > 0


def test_a_waveform_changes_nothing(tmp_path):
    (found,) = verify("timer", PART, simulator=needs("icarus"), commands=1000, waves=tmp_path / "timer.vcd")
    assert found.mismatches == 0
    assert found.waves is not None and (tmp_path / "timer.vcd").stat().st_size > 1000


def test_a_wrong_model_is_a_mismatch_and_leaves_its_waveform(tmp_path, monkeypatch):
    right = asic.rsqrt_bf16

    def wrong(x):
        return np.where(x == 4, BF16(0.25), right(x)).astype(BF16)

    simulator = needs("icarus")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(asic, "rsqrt_bf16", wrong)
    monkeypatch.setattr("pimloom.rtl.flow.scenes.functions.BF16_EDGES", np.array([0x3F80, 0x4080], np.uint16))
    (found,) = verify("asic_rsqrt", PART, simulator=simulator, commands=100)
    assert (found.mismatches, found.first_mismatch) == (1, "rsqrt(0x4080) is 0x3f00, model says 0x3e80")
    assert found.waves == f"asic_rsqrt-{PART}-0.vcd" and (tmp_path / found.waves).stat().st_size > 1000


def test_mismatches_come_in_order_and_what_is_missing_is_one():
    scene = Scene("", {}, {"a": np.array([1, 2, 3]), "b": np.array([1, 2, 3])}, 3, lambda port, i: f"{port} {i}")
    assert mismatches(scene, {"a": np.array([1, 2, 18]), "b": np.array([1, 3])}) == [
        "b 1 is 0x3, model says 0x2",
        "2 values came out of b, model says 3",
        "a 2 is 0x12, model says 0x3",
    ]


def test_simulators_that_nobody_used_for_long_go(tmp_path, monkeypatch):
    monkeypatch.setattr("pimloom.rtl.flow.simulator.build.cache_folder", lambda room: tmp_path / room)
    kept = tmp_path / "simulators"
    for name in ("old", "new"):
        (kept / name).mkdir(parents=True)
    os.utime(kept / "old", times=(0, 0))
    for _ in range(2):  # built, and found again
        assert next(verify("timer", PART, simulator=needs("icarus"), commands=20)).mismatches == 0
    assert sorted(path.name[:5] for path in kept.iterdir() if path.is_dir()) == ["new", "timer"]


def test_one_file_for_all_waveforms_is_an_error(tmp_path):
    with pytest.raises(UserError, match="holds the waveform of one block; name the block"):
        list(verify(None, PART, waves=tmp_path / "all.vcd"))


def test_the_timers_rule():
    assert busy([1, 1, 0, 0, 0, 1], window=2, wait=3).tolist() == [0b01, 0b11, 0b01, 0, 0, 0b01]


def kinds(x):
    """How often each special value occurs."""
    size = np.abs(x)
    zeros, subnormals = (x == 0).sum(), ((size > 0) & (size < 2.0**-126)).sum()
    return zeros, subnormals, np.isinf(x).sum(), np.isnan(x).sum()


@pytest.mark.parametrize("exponents", [SUMS, PRODUCTS])
def test_random_pairs_are_rich_in_special_values(exponents):
    a, b = pairs(np.random.default_rng(0), 1000, exponents)
    for x in (a, b):
        assert min(kinds(x.view(np.float32))) > 10
    assert (float32(a) == -float32(b)).sum() > 50


def test_random_rows_and_vectors_are_rich_in_special_values():
    rng = np.random.default_rng(0)
    assert min(kinds(small_operands(rng, 5000, 16).astype(np.float32))) > 10
    found = vectors(rng, 5000, 1024)
    assert min(kinds(np.concatenate(found))) > 0
    lengths = [len(x) for x in found]
    assert sum(lengths) == 5000 and max(lengths) <= 1024 and min(lengths) > 0
    assert np.array_equal(found[-1], np.array(NASTY[-1], np.float32))
    assert [sum(map(len, vectors(rng, n, 40))) for n in (1, 7, 50)] == [1, 7, 50]
