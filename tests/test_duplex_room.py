"""What a Duplex system refuses, and what fits into its memory."""

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.workload.batch import Batch

MIXTRAL = load_llm("mixtral-8x7b")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pim": "none"}, "--set pim: none leaves nothing beside the xPU; set co_processing=false, too"),
        ({"arrangement": "hetero"}, "hetero has both processors on no device; set co_processing=false, too"),
        ({"routing.counts": "[1,2]"}, "--set routing.counts: tokens of 2 experts, mixtral-8x7b has 8"),
        ({"routing.counts": "[1,0,0,0,0,0,0,0]"}, "each token takes 2 experts; write as many above 0"),
        (
            {"routing.counts": "[1,1,1,1,1,1,1,1]", "routing.zipf": "1"},
            "--set routing.zipf: routing.counts have sh",
        ),
        (
            {"devices": "3"},
            "--set devices: 32 heads .8 of keys. of mixtral-8x7b do not come out even over 3 device",
        ),
        ({"devices": "5", "arrangement": "split"}, "split takes halves of the devices; take an even number"),
        ({"nodes": "3"}, "8 experts of mixtral-8x7b: expected to come out even over 12 devices; take another number"),
        (
            {"device.memory_bytes": "10000000000"},
            "no room for keys and values; take 16 .--set nodes=2 --set dev",
        ),
        ({"devices": "1"}, "each of 1 device, which have 85,899,345,920: .* take 2 .--set nodes=1 --set devices=2."),
        ({"device": "nosuch"}, "unknown duplex_device 'nosuch'"),
        ({"device.links.node_gbs": "3"}, "--set device.links.node_gbs: no such key in duplex.yaml; nearest: "),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        device_of(load_system("duplex", settings), MIXTRAL, Share(1, 32))


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
    assert whole < device_of(load_system("duplex", {"co_processing": "false"}), MIXTRAL, Share(1, 32)).capacity().tokens
    with pytest.raises(UserError, match="no memory space has .* left; take fewer requests, shorter ones or co_proces"):
        spaces.check(Batch.decode([whole // 4] * 4))
