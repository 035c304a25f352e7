"""Energy of devices that wait, and what they cost for an hour."""

from typing import Any

import pytest

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.reports.terminal.online import show_goodput
from pimloom.systems.devices.cent.device import CentDevice
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.rest import power_at_rest_w
from pimloom.workload.batch import Batch

SERVE: dict[str, Any] = {"model": "gpt2", "arrivals": "poisson:20/s", "lengths": "64:8", "requests": 12}
POOLS = "prefill=gpu_a100*2,decode=gpu_h100"


def waits(found, replica: int) -> float:
    """Seconds in which a replica is in no iteration, from the first arrival to the last token of all."""
    span = found.requests["completion_s"].max() - found.requests["arrival_s"].min()
    return span - found.iterations.query(f"replica == {replica}")["time_s"].sum()


def test_each_replica_takes_its_power_at_rest_while_it_waits():
    found = pimloom.serve("gpu_a100", **SERVE, replicas=2)
    idle = sum(waits(found, replica) for replica in range(2))
    assert found.rest_w == 2 * 53 and found.rest_j == pytest.approx(53 * idle, rel=1e-9) and idle > 0.5
    assert found.energy_by_cause_j["at rest"] == found.rest_j
    assert found.energy_j == pytest.approx(found.rest_j + found.requests["energy_j"].sum(), rel=1e-9)


def test_stages_wait_apart():
    found = pimloom.serve("gpu_a100", **SERVE, pp=2, scheduler="orca")
    assert found.rest_w == 2 * 53 and found.rest_j == pytest.approx(2 * 53 * waits(found, 0), rel=1e-9)


def test_pools_wait_as_long_as_the_last_of_both_works():
    found = pimloom.serve(POOLS, link="400Gb/s", price="1:2", **SERVE)
    first = 53 * sum(waits(found, replica) for replica in range(2))
    assert found.energy_by_cause_j["prefill: at rest"] == pytest.approx(first, rel=1e-9)
    assert found.rest_w == 2 * 53 + 70 and found.rest_j == pytest.approx(first + 70 * waits(found, 2), rel=1e-9)
    assert found.usd_per_h == 4 and found.tokens_per_usd == pytest.approx(12 * 8 / (4 * found.time_s / 3600))
    half = pimloom.serve("prefill=gpu_a100,decode=t4", link="400Gb/s", price="1", **SERVE)
    assert (half.rest_w, half.rest_j) == (None, None) and "decode: at rest" not in half.energy_by_cause_j
    assert half.energy_by_cause_j["prefill: at rest"] > 0
    alone = pimloom.serve(POOLS, link="400Gb/s", **SERVE | {"lengths": "64:1"})
    assert alone.energy_by_cause_j["decode: at rest"] == pytest.approx(70 * waits(alone, 2), rel=1e-9)


@pytest.mark.parametrize(
    ("system", "options", "devices"),
    [
        ("cent", {"model": "llama-2-7b"}, 32),
        ("duplex", {"model": "mixtral-8x7b", "set": {"nodes": 2}}, 8),
        ("attacc", {"model": "gpt3-7b"}, 8),
        ("gpu_a100", {"tp": 2, "replicas": 3}, 6),
    ],
)
def test_all_devices_of_a_system_are_paid_for(system, options, devices):
    found = pimloom.serve(system, price="2", **SERVE | {"lengths": "8:2", "requests": 2, "sample": 0} | options)
    assert found.usd_per_h == 2 * devices


DRAFTED: dict[str, Any] = {"model": "gpt2-large", "arrivals": "poisson:2/s", "lengths": "64:16", "requests": 6}
CHAIN = "draft=gpt2,gamma=2,alpha=0.7,on="
MIRROR = "mirror,draft=gpt2,gamma=2,alpha=0.7,exit=9,kappa=2,rho=0.6,on="


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("how", [CHAIN, MIRROR])
def test_a_machine_that_drafts_waits_too_and_the_target_waits_for_it(how, exact):
    """Each takes its power while it works, and 53 W or 70 W at all other times from the first arrival on."""
    found = pimloom.serve("gpu_a100", speculate=f"{how}gpu_h100", exact=exact, replicas=2, **DRAFTED)
    watts = {name: load_system(name).spec.power_w for name in ("gpu_a100", "gpu_h100")}  # type: ignore[union-attr]
    joules = dict(found.energy_by_cause_j)
    works_s, drafts_s = joules["power x time"] / watts["gpu_a100"], joules["drafts"] / watts["gpu_h100"]
    span_s = found.time_s * 2
    assert found.rest_w == 2 * (53 + 70)
    assert found.rest_j == pytest.approx(53 * (span_s - works_s) + 70 * (span_s - drafts_s), rel=1e-6)
    steps_s = found.iterations["time_s"].sum()
    if how == CHAIN:  # one after the other
        assert steps_s == pytest.approx(works_s + drafts_s, rel=1e-6)
    assert steps_s > works_s and joules["at rest"] == found.rest_j
    assert sum(joules.values()) == pytest.approx(found.energy_j, rel=1e-9)
    assert found.energy_j == pytest.approx(found.rest_j + found.requests["energy_j"].sum(), rel=1e-9)


def test_a_machine_that_drafts_has_its_price_and_counts():
    of: dict[str, Any] = DRAFTED | {"speculate": f"{CHAIN}gpu_h100", "replicas": 2, "sample": 0}
    found = pimloom.serve("gpu_a100", **of, price="1.29:2.5")
    assert found.usd_per_h == pytest.approx(2 * (1.29 + 2.5))
    assert pimloom.serve("gpu_a100", **of, price="1.29").usd_per_h == pytest.approx(4 * 1.29)
    tried: dict[str, Any] = {"goodput": True, "rate": "1:2", "slo": "latency=1s", "price": "1:3"}
    best = pimloom.serve("gpu_a100", **of | {"sample": 5}, **tried)
    assert best.devices == 4 and best.requests_per_usd == pytest.approx(best.goodput_per_s * 3600 / 8)
    own = pimloom.serve("gpu_a100", **of | {"speculate": CHAIN.replace(",on=", "")}, price="1.29")
    assert own.usd_per_h == pytest.approx(2 * 1.29) and own.rest_w == 2 * 53
    with pytest.raises(pimloom.UserError, match=r"--price|price.*such as 1.29$"):
        pimloom.serve("gpu_a100", **of | {"speculate": None}, price="1:2")
    unknown = pimloom.serve("gpu_a100", **of | {"speculate": f"{CHAIN}t4"})
    assert (unknown.rest_w, unknown.rest_j) == (None, None) and "at rest" not in unknown.energy_by_cause_j
    assert sum(unknown.energy_by_cause_j.values()) == pytest.approx(unknown.energy_j, rel=1e-9)
    with pytest.raises(pimloom.UserError, match="a separate system drafts for one stage only"):
        pimloom.serve("gpu_a100", **of, scheduler="sarathi", pp=2)


def test_what_systems_say_of_their_rest():
    named = {name: power_at_rest_w(load_system(name), 1) for name in ("gpu_h100", "attacc", "duplex", "t4")}
    assert named == {"gpu_h100": 70.0, "attacc": None, "duplex": None, "t4": None}
    neupims, pim, cent = (power_at_rest_w(load_system(name), 1) for name in ("neupims", "pim_gpt", "cent"))
    assert neupims is not None and 90 < neupims < 110  # 90 W static, standby and refresh of 32 channels
    assert power_at_rest_w(load_system("neupims"), 4) == 4 * neupims
    assert pim == pytest.approx(8 * 1.25 * 92e-3)  # channels x V x IDD2N
    buffers = 32 * 0.06702101898 + 0.6917736525 + 18.81731768
    assert cent == pytest.approx(32 * (32 * 183.15 + buffers) * 1e-3)
    of_unit = power_at_rest_w(load_system("cent", {"near_memory.units": "64"}), 1)
    fewer = power_at_rest_w(load_system("cent", {"aim.channels": "16"}), 1)
    assert of_unit == cent  # what waits is channels and their buffers, however many units work beside them
    assert fewer == pytest.approx(32 * (16 * (183.15 + 0.06702101898) + 0.6917736525 + 18.81731768) * 1e-3)
    duplex = load_system("duplex", {"device.energy.static_w": "70"})
    assert (power_at_rest_w(duplex, 1), power_at_rest_w(duplex, 8)) == (4 * 70, 8 * 70)
    assert power_at_rest_w(load_system("npu_only", {"dram.part": "hbm3_6400"}), 1) is None


@pytest.mark.parametrize("price", ["0", "-1", "cheap", "1:2", "inf", "nan", ""])
def test_a_price_that_is_none(price):
    with pytest.raises(pimloom.UserError, match="price.*: expected"):
        pimloom.serve("gpu_a100", price=price, **SERVE)


def test_goodput_for_a_dollar():
    found = pimloom.serve("gpu_a100", **SERVE, price="1.29", goodput=True, rate="1:4", slo="latency=1s")
    assert found.requests_per_usd == pytest.approx(found.goodput_per_s * 3600 / 1.29)


def test_cent_reads_tokens_between_few_that_are_simulated():
    llm = load_llm("llama-2-7b")
    device = device_of(load_system("cent"), llm, Share(1, llm.num_hidden_layers, outside=True))
    assert isinstance(device, CentDevice)
    coarse = device.between()
    for context in (1, 128, 200, 700):
        exact, read = (of.step(Batch.decode([context])) for of in (device, coarse))
        assert read.time_s == pytest.approx(exact.time_s, rel=0.02 if context % 128 else 1e-9)
        assert read.energy_j == pytest.approx(exact.energy_j, rel=0.02 if context % 128 else 1e-9)


@pytest.mark.parametrize(
    ("system", "energy", "per_j", "said"),
    [
        ("gpu_a100", "≤ ", "≥ ", ("energy holds 10 of 12 cells", "at rest: 53 W")),
        ("duplex", "≥ ", "≤ ", ("energy holds 4 of 12 cells", "what devices take while they wait is not known")),
        ("t4", "~ ", "~ ", ("energy holds 10 of 12 cells", "what devices take while they wait is not known")),
    ],
)
def test_a_goodput_says_which_way_its_energy_is_bound(system, energy, per_j, said, capsys):
    """A GPU at its power limit whose rest is unknown has no bound of either side."""
    found = pimloom.serve(system, **SERVE, goodput=True, rate="1:2", slo="latency=1s")
    show_goodput(found)
    printed = " ".join(capsys.readouterr().out.split())
    assert f" {energy}{found.rates[-1].energy_per_token_j:,.4g} " in printed
    assert f"{per_j}{found.requests_per_j:,.4g} requests per J" in printed
    assert all(text in printed for text in said)
    assert found.energy_by_cell is not None and found.lm_head
