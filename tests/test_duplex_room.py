"""What a Duplex system refuses, and what fits into its memory."""

from typing import Literal

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.duplex.device import DuplexDevice
from pimloom.systems.devices.duplex.variants import ROUTERS
from pimloom.workload.batch import Batch, Request

QUICK = {"memory": "ideal", "contention": "false"}
MIXTRAL = load_llm("mixtral-8x7b")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pim": "none"}, "--set pim: none leaves nothing beside the xPU; set co_processing=false, too"),
        ({"arrangement": "hetero"}, "hetero has both processors on no device; set co_processing=false, too"),
        ({"routing.counts": "[1,2]"}, "--set routing.counts: counts of 2 experts, mixtral-8x7b has 8"),
        ({"routing.counts": "[1,0,0,0,0,0,0,0]"}, "each token takes 2 experts; give as many counts above 0"),
        (
            {"routing.counts": "[1,1,1,1,1,1,1,1]", "routing.zipf": "1"},
            "--set routing.zipf: routing.counts set the shares, too",
        ),
        (
            {"devices": "3"},
            "--set devices: 32 heads .8 of keys. of mixtral-8x7b do not come out even over 3 device",
        ),
        ({"devices": "5", "arrangement": "split"}, "split takes halves of the devices; take an even number"),
        ({"nodes": "3"}, "8 experts of mixtral-8x7b: expected to come out even over 12 devices; nearest: 2 or 4"),
        (
            {"nodes": "16", "devices": "2", "expert_tp": "false"},
            "nodes: 8 experts of mixtral-8x7b: each is cut over 4 devices, and a node has 2; nearest: 8",
        ),
        (
            {"nodes": "3", "devices": "8", "expert_tp": "false"},
            "8 experts of mixtral-8x7b: each is cut over 3 devices, and a node has 8; nearest: 2 or 4",
        ),
        (
            {"device.memory_bytes": "10000000000"},
            "no room for keys and values; take 16 .--set nodes=2 --set dev",
        ),
        ({"devices": "1"}, "each of 1 device, which have 85,899,345,920: .* take 2 .--set devices=2."),
        (
            {"device.xpu_gb_s": "3352"},
            "device.xpu_gb_s is the rate of an ideal memory; set memory=ideal, or th",
        ),
        (
            {"router": "busiest_to_xpu", "pim": "bank"},
            "busiest_to_xpu estimates the times of Logic-PIM, pim is bank; t",
        ),
        ({"device.bundle_banks": "16"}, "32 banks of a pseudo channel in bundles of 16; co-processing has 4 memory sp"),
        ({"device.bundle_banks": "4"}, "device.bundle_banks: 32 banks of a pseudo .* set co_processing=false, too"),
        ({"device.bundle_banks": "32"}, "device.bundle_banks: 32 banks at once, there are 16; lower it"),
        (
            {"device.bank_pim.times_bandwidth": "64", "pim": "bank"},
            "_bandwidth: 128 banks at once, there are 32",
        ),
        ({"device.stacks": "4"}, "its stacks have 68,719,476,736; set device.memory_bytes=68719476736, too"),
        (
            {"controller": "dramsim3"},
            "--set controller: DRAMsim3 loses accesses of two pseudo channels in one clock; t",
        ),
        ({"device": "nosuch"}, "unknown duplex_device 'nosuch'"),
        ({"device.links.node_gbs": "3"}, "--set device.links.node_gbs: no such key in duplex.yaml; nearest: "),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        device_of(load_system("duplex", settings), MIXTRAL, Share(1, 32, outside=True))


def test_requests_that_do_not_fit_are_said() -> None:
    device = device_of(load_system("duplex", {"co_processing": "false"}), MIXTRAL, Share(1, 32, outside=False))
    room = device.capacity()
    weights = 2 * (MIXTRAL.num_hidden_layers * (8 * 3 * 4096 * 14336 + 8 * 4096 + 4096 * (2 * 4096 + 2 * 1024)))
    assert room.weight_bytes == pytest.approx(weights, rel=2e-4) and room.cache_bytes_per_token == 131_072
    assert room.tokens == (room.memory_bytes // 4 - room.weight_bytes // 4) // (131_072 // 4)
    device.check(Batch.decode([room.tokens]))
    with pytest.raises(UserError, match=f"{room.tokens:,} tokens fit; take fewer requests, shorter ones or"):
        device.step(Batch.decode([room.tokens + 1]))


def test_memory_spaces_hold_whole_requests() -> None:
    """20 GiB each: two have an expert, cut for each device, and three take keys and values."""
    spaces = device_of(load_system("duplex"), MIXTRAL, Share(1, 32, outside=False))
    whole = spaces.capacity().tokens
    assert (
        whole
        < device_of(load_system("duplex", {"co_processing": "false"}), MIXTRAL, Share(1, 32, outside=True))
        .capacity()
        .tokens
    )
    with pytest.raises(UserError, match="no memory space has .* left; take fewer requests, shorter ones or co_proces"):
        spaces.check(Batch.decode([whole // 4] * 4))


@pytest.mark.parametrize("router", ["idlest_to_pim", "busiest_to_xpu", "optimum"])
def test_one_expert_of_each_layer_fills_all_spaces(router: str) -> None:
    """Grok-1 on 2 x 8 devices, two of which share an expert: 64 halves of 604 MB, a quarter of them in each space."""
    llm, settings = load_llm("grok-1"), {"nodes": "2", "devices": "8", "expert_tp": "false", "router": router}
    device = device_of(load_system("duplex", QUICK | settings), llm, Share(1, 64, outside=False))
    assert isinstance(device, DuplexDevice)
    spaces = device._built.room._spaces
    assert len(spaces) == 64 and {spaces.count(space) for space in range(4)} == {16}
    device.check(Batch.decode([4096] * 32))
    tokens = device.capacity().tokens
    device.check(Batch.decode([tokens // 96] * 96))  # 48 of each node, 16 in each of three spaces


def test_routers_place_experts_as_they_group_them() -> None:
    """S has neighbours in a space, the paper deals them: of eight experts on one device with three heavy ones."""
    device = device_of(load_system("duplex", QUICK | {"router": "busiest_to_xpu"}), MIXTRAL, Share(1, 32, outside=True))
    assert isinstance(device, DuplexDevice)
    assert device._built.room._spaces[:16] == (0, 0, 1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3, 0, 0)
    alone = device_of(
        load_system("duplex", QUICK | {"router": "idlest_to_pim_alone"}), MIXTRAL, Share(1, 32, outside=True)
    )
    assert isinstance(alone, DuplexDevice) and not alone._built.room.has_spaces
    ends = dict[str, int]()
    for router in ROUTERS:
        other = device_of(
            load_system("duplex", QUICK | {"router": router, "routing.zipf": "1"}), MIXTRAL, Share(1, 32, outside=True)
        )
        ends[router] = other.step(Batch.decode([100] * 64)).end_ps  # which looks for two processors in a space
    assert ends["optimum"] <= ends["idlest_to_pim"]  # of the same groups
    assert ends["optimum_alone"] == min(ends.values())


def test_hetero_holds_the_published_batches() -> None:
    """101, 75 and 50 requests in the paper; 101, 76 and 50 by arithmetic."""
    settings = {"arrangement": "hetero", "co_processing": "false", "memory": "ideal"}
    device = device_of(load_system("duplex", settings), MIXTRAL, Share(1, 32, outside=False))
    assert [device.capacity().tokens // tokens for tokens in (6144, 8192, 12288)] == [101, 76, 50]


@pytest.mark.parametrize("phase", ["decode", "verify"])
def test_drafts_lie_where_decode_has_its_keys(phase: Literal["decode", "verify"]) -> None:
    device = device_of(load_system("duplex"), MIXTRAL, Share(1, 32, outside=False))
    with pytest.raises(UserError, match="no memory space has"):
        device.check(Batch((Request(phase, 1, 300_000, 1),) * 4))


def test_capacity_of_several_nodes_is_that_of_a_device() -> None:
    system = load_system("duplex", {"nodes": "2"})
    room = device_of(system, MIXTRAL, Share(4, 32, outside=True)).capacity()
    assert room.memory_bytes == 80 * 2**30
    assert room.tokens == device_of(system, MIXTRAL, Share(1, 32, outside=True)).capacity().tokens


def test_what_no_number_holds_is_said() -> None:
    device = device_of(load_system("duplex", QUICK | {"device.links.node.pj_per_bit": "1e308"}), MIXTRAL, Share(1, 32))
    with pytest.raises(UserError, match="duplex: time or energy of a step is not finite; raise rates and clo"):
        device.step(Batch.decode([100] * 4))


@pytest.mark.parametrize("tp", [0, -4])
def test_devices_are_at_least_one(tp: int) -> None:
    with pytest.raises(UserError, match=f"tp={tp}: expected at least 1"):
        pimloom.run("duplex", model="mixtral-8x7b", prompt=4, generate=2, tp=tp)


def test_serving_tells_the_devices_of_the_file() -> None:
    served = pimloom.serve("duplex", model="mixtral-8x7b", arrivals="burst", lengths="16:4", requests=2, set=QUICK)
    assert served.to_dict()["tp"] == 4
