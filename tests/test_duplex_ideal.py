"""Duplex with an ideal memory: layers, messages and capacity as worked out from the published simulator's constants."""

import pytest

from pimloom.arch.duplex import load_duplex
from pimloom.arch.llm import load_llm
from pimloom.cycle_sim.link import all_reduce
from pimloom.systems.devices.duplex.layers import Processors
from pimloom.systems.devices.duplex.memory import BANK, LOGIC, XPU, IdealDram
from pimloom.systems.devices.duplex.room import block_bytes, expert_bytes, requests_that_fit

GIB = 2**30
DEVICE = load_duplex(overrides={"xpu_gb_s": "3352"})
PROCESSORS = Processors(DEVICE, IdealDram(DEVICE))


def test_projections_of_mixtral() -> None:
    """Batch 32, TP 4, 32 layers."""
    qkv = PROCESSORS.linear(XPU, 32, 4096, (8 + 2 + 2) * 128)
    out = PROCESSORS.linear(XPU, 32, 1024, 4096)
    assert 32e6 * qkv.time_s == pytest.approx(123.564, rel=1e-3)
    assert 32e6 * out.time_s == pytest.approx(83.210, rel=1e-3)


@pytest.mark.parametrize(
    ("batch", "devices", "reduces", "us"),
    [
        (32, 4, 2 * 32, 363.124),
        (32, 4, 3 * 32, 544.686),
        (32, 8, 2 * 32, 782.045),
        (64, 4, 2 * 32, 419.048),
        (64, 4, 3 * 32, 628.572),
        (32, 8, 2 * 32 + 16, 977.556),
    ],
)
def test_all_reduces(batch: int, devices: int, reduces: int, us: float) -> None:
    """Mixtral and, in the last row, GLaM: both 4096 wide."""
    found = all_reduce(DEVICE.spec.links.fabric(), 2 * batch * 4096, devices)
    assert 1e-6 * reduces * found.ps == pytest.approx(us, rel=1e-3)
    assert found.near_bytes == devices * 2 * (devices - 1) * 2 * batch * 4096 / devices


def test_a_layer_takes_the_larger_of_arithmetic_and_memory() -> None:
    for path, flops, rate in ((XPU, 989.4e12, 3.352e12), (LOGIC, 106.496e12, 13.408e12), (BANK, 53.632e12, 53.632e12)):
        for rows in (1, 8, 64, 4096):
            found = PROCESSORS.linear(path, rows, 4096, 14336)
            pins, matrix = 2 * rows * (4096 + 14336) / 3.352e12, 2 * 4096 * 14336 / rate
            assert found.time_s == pytest.approx(max(2 * rows * 4096 * 14336 / flops, pins + matrix))
            assert found.macs == rows * 4096 * 14336


@pytest.mark.parametrize(("tokens", "published", "found"), [(6144, 101, 101.3), (8192, 75, 76.0), (12288, 50, 50.7)])
def test_hetero_holds_the_published_batches(tokens: int, published: int, found: float) -> None:
    """Two of four devices hold all experts and the keys and values of Mixtral."""
    llm = load_llm("mixtral-8x7b")
    assert expert_bytes(llm) == pytest.approx(90.194e9, rel=1e-5)
    fit = requests_that_fit(2 * 80 * GIB, expert_bytes(llm), llm, tokens)
    assert fit == pytest.approx(found, abs=0.05) and abs(int(fit) - published) <= 1


def test_split_and_opt_hold_what_is_worked_out() -> None:
    mixtral, opt = load_llm("mixtral-8x7b"), load_llm("opt-66b")
    assert requests_that_fit(2 * 80 * GIB, block_bytes(mixtral), mixtral, 8192) == pytest.approx(73.5, abs=0.05)
    assert requests_that_fit(4 * 80 * GIB, block_bytes(opt), opt, 2048) == pytest.approx(44.1, abs=0.05)
    assert requests_that_fit(80 * GIB, block_bytes(opt), opt, 2048) == 0
