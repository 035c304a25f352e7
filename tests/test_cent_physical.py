"""What CENT's own code has otherwise than a device would: keys, layers, stages, room and messages, corrected."""

import msgspec
import numpy as np
import pytest

from pimloom.arch.aim import BANK, COMMANDS, MASK, ROW, TIMES
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.mappers.cent_layer import layer_pieces
from pimloom.systems.asked import Asked
from pimloom.systems.devices.cent.asked import cent_work, request_work
from pimloom.systems.devices.cent.placed import Placed, placed
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.rest import power_at_rest_w
from pimloom.workload.batch import Batch
from tests.command import call

LLM = load_llm("llama-2-7b")
SMALL = msgspec.structs.replace(
    LLM, hidden_size=1024, num_attention_heads=8, num_key_value_heads=8, intermediate_size=2048, vocab_size=1024
)


def deal(devices: int, stages: int | None, tensor: int | None, model: str = "llama-2-7b") -> Placed:
    return placed(load_system("cent", {"devices": str(devices)}), load_llm(model), stages, tensor, released=False)


def macs(program) -> int:
    """Columns that channels multiply, all banks at once."""
    of = program[program[:, 0] == COMMANDS.index("MAC16")]
    return sum(times * mask.bit_count() for times, mask in of[:, [TIMES, MASK]].tolist())


@pytest.mark.parametrize(("devices", "tensor"), [(8, 1), (2, 2), (8, 8)])
def test_scores_are_all_there_however_many_devices_share_a_layer(devices: int, tensor: int) -> None:
    found = deal(devices, devices // tensor, tensor)
    _, pieces = layer_pieces(found.layer, found.place, 4096)
    assert macs(dict(pieces)["scores"]) == 4096 * 32 * 128 // 16 // 16  # tokens, heads, width; lanes, banks


def test_no_key_takes_the_place_of_another() -> None:
    place, layer = deal(8, 1, 8).place, deal(8, 1, 8).layer
    spots = set[tuple[int, ...]]()
    for context in (n + turn * place.layer_banks for n in (1, 2, 17, 300, 511, 512) for turn in range(3)):
        program = dict(layer_pieces(layer, place, context)[1])["new token"]
        written = program[program[:, 0] == COMMANDS.index("WR")]
        mine = {tuple(spot) for spot in written[:, [MASK, BANK, ROW]].tolist()}
        assert len(mine) == layer.kv_heads * layer.head // place.row and not mine & spots
        spots |= mine


def test_layers_that_are_not_there_cost_nothing() -> None:
    """However 32 layers are dealt over devices: the same multiplications, and nearly the same energy."""
    every = {n: deal(n, None, None) for n in (8, 7, 5, 3)}
    costs = {n: sum(found.token(640).energy_pj.values()) for n, found in every.items()}
    assert costs[7] == pytest.approx(costs[8], rel=0.03)
    assert costs[5] == pytest.approx(costs[8], rel=0.07) and costs[3] == pytest.approx(costs[8], rel=0.15)
    for found in every.values():
        program = dict(layer_pieces(found.layer, found.place, 640)[1])["values"]
        of_values = found.place.side_by_side * found.layer.head * found.layer.kv_heads // 16 * 640 // 16
        assert macs(program) >= of_values and found.place.side_by_side == found.layers_here


@pytest.mark.parametrize(("devices", "stages", "context"), [(8, None, 1), (8, 8, 33), (5, None, 16)])
def test_a_score_costs_what_it_needs(devices: int, stages: int | None, context: int) -> None:
    """Channels of a layer that hold no key do not multiply."""
    found = deal(devices, stages, None if stages is None else 1)
    scores = dict(layer_pieces(found.layer, found.place, context)[1])["scores"]
    channels = -(-context // 16)
    assert macs(scores) == found.layers_here * channels * 32 * 128 // 16


def test_the_slowest_stage_makes_the_throughput() -> None:
    """70B in 32 stages: 16 of three layers, 16 of two; each sends to the next one once."""
    asked = Asked("cent", "llama-2-70b", devices=32, pp=32, tp=1, prompt=0, generate=128)
    *_, point = cent_work(asked).run(lambda done, total: None).points
    stage_s = 3 * (point.pim_s + point.near_memory_s) / 80 + point.link_s / 32
    assert point.tokens_per_s == pytest.approx(1 / stage_s) == pytest.approx(1504, rel=0.001)
    step = device_of(load_system("cent", {"devices": "8"}), LLM, Share(tp=1, layers=32, outside=True)).step(
        Batch.decode([128] * 64)
    )
    even = cent_work(Asked("cent", "llama-2-7b", devices=8, pp=32, prompt=0, generate=128, lm_head=True)).run(
        lambda *_: None
    )
    assert 64 / step.time_s == pytest.approx(even.points[-1].tokens_per_s, rel=1e-6)
    assert even.points[-1].tokens_per_s == pytest.approx(32 / even.points[-1].token_s)


@pytest.mark.parametrize(("devices", "tensor", "requests", "who"), [
    (8, 8, 8, "that attends"), (8, 2, 29, "that attends"), (7, 1, 45, "with most layers"),
])  # fmt: skip
def test_keys_and_values_fit_where_they_are(devices: int, tensor: int, requests: int, who: str) -> None:
    """4,096 tokens take 2 GiB in all layers; of several devices that share layers one has them."""
    system = load_system("cent", {"devices": str(devices)})
    device = device_of(system, LLM, Share(tp=tensor, layers=32, outside=True))
    device.check(Batch.decode([4096] * (requests - 1)))
    assert (requests - 1) * 4096 <= device.capacity().tokens < requests * 4096
    with pytest.raises(UserError, match=f"the device {who} has 17,179,869,184 bytes.*; take more stages"):
        device.check(Batch.decode([4096] * requests))
    device_of(system, LLM, Share(tp=tensor, layers=32, fidelity="released")).check(Batch.decode([4096] * requests))


def test_more_devices_than_lanes_are_refused() -> None:
    found = call("run", "cent", "--model", "llama-2-7b", "--devices", "145", "--tp", "145")
    said = "--devices 145: 144 lanes of the switch are dealt over the devices, a lane each at least; take 144 devices"
    assert found.code == 2 and said in found.err and found.err.count("\n") == 1


def test_a_stage_for_each_layer_is_shared_as_any_other_stage_is() -> None:
    """32 layers in 32 stages of two devices: messages within a layer, and 64 devices at work."""
    found, fewer = deal(64, 32, 2), deal(64, 16, 4)
    assert found.used_devices == 64 and found.memory()[0] == 64 * found.device_bytes
    cost, coarse = found.token(128), fewer.token(128)
    assert cost.layer.link == pytest.approx(coarse.layer.link, rel=0.1)
    assert cost.energy_pj["link"] == pytest.approx((32 * 4096 + 32 * 2 * (10 * 4096 + 2 * 11008)) * 16 * 4.4)
    assert sum(deal(32, 32, None).token(128).energy_pj.values()) < sum(cost.energy_pj.values())
    assert sum(cost.energy_pj.values()) < sum(coarse.energy_pj.values())
    alone = deal(32, 32, None)
    assert alone.room_bytes < found.room_bytes < 2 * alone.room_bytes  # half of the weights are elsewhere, no keys


REST_MW = {  # of a device: channels with all rows closed, their buffers, and two more
    "precharge_standby": 32 * 183.15, "buffers_static": 32 * 0.06702101898 + 0.6917736525,
    "instruction_buffer": 18.81731768,
}  # fmt: skip


@pytest.mark.parametrize(("devices", "tensor", "requests"), [(32, 1, 1), (8, 1, 40), (8, 8, 1), (8, 4, 3)])
def test_devices_that_wait_draw_what_they_draw_at_rest(devices: int, tensor: int, requests: int) -> None:
    """In a step each device has its channels at work, or waits; a machine at work draws more than one at rest."""
    system = load_system("cent", {"devices": str(devices)})
    run = device_of(system, SMALL, Share(tp=tensor, layers=32, outside=True)).step(Batch.decode([16] * requests))
    token = placed(system, SMALL, None, tensor if tensor > 1 else None, released=False).token(16)
    at_work_s = token.layer.pim * 1e-3 * (devices if tensor == 1 else 32) * requests
    at_rest_w, drawn = power_at_rest_w(system, tensor), run.device_j or {}
    assert at_rest_w and run.energy_j and run.energy_j > 0.999 * at_rest_w * run.time_s
    for cause, pj in token.energy_pj.items():
        mw = REST_MW.get(cause, 0.0)
        most = requests * pj * 1e-12 + mw * 1e-3 * (devices * run.time_s - at_work_s)
        # where devices share a layer, those that do not attend are done before the one that does
        less = (tensor - 1) * mw * 1e-3 * at_work_s
        assert most - less <= drawn[cause] * (1 + 1e-6) and drawn[cause] <= most * (1 + 1e-6)


def test_power_is_energy_of_a_token_times_throughput() -> None:
    asked = Asked("cent", "llama-2-7b", prompt=0, generate=16)
    *_, found = request_work(load_system("cent", {"devices": "8"}), SMALL, asked).run(lambda *_: None).points
    assert found.power_w == pytest.approx(found.energy_j * found.tokens_per_s)
    assert found.power_w > 8 * sum(REST_MW.values()) * 1e-3


@pytest.mark.parametrize("context", [1, 2, 20])
def test_a_request_takes_what_all_its_tokens_take(context: int) -> None:
    """Simulated one by one, and one in 8 with the others on lines between."""
    system = load_system("cent", {"devices": "32"})
    wanted = placed(system, SMALL, None, None, released=False)
    every_s = sum(wanted.token(n).token_ms for n in range(1, context + 1)) * 1e-3
    asked = Asked("cent", "llama-2-7b", every=8, context=context, lm_head=True)
    found = request_work(system, SMALL, asked).run(lambda *_: None)
    assert found.latency_s == pytest.approx(every_s, rel=0.003)
    at, energy = zip(*((point.context, point.energy_j) for point in found.points), strict=True)
    assert found.energy_per_token_j == pytest.approx(np.interp(range(1, context + 1), at, energy).mean())
    assert found.energy_per_token_j == pytest.approx(sum(found.energy_by_cause_j.values()))


@pytest.mark.parametrize(("devices", "tensor"), [(8, None), (5, None), (32, None), (8, 8), (8, 2)])
def test_the_near_memory_unit_draws_for_each_layer_once(devices: int, tensor: int | None) -> None:
    """However the layers are dealt: its work is that of all layers, on a device that attends."""

    def drawn(system_devices: int, share: int | None) -> float:
        system = load_system("cent", {"devices": str(system_devices)})
        return placed(system, SMALL, None, share, released=False).token(256).energy_pj["near_memory"]

    assert drawn(devices, tensor) == pytest.approx(drawn(32, None), rel=1e-9)


@pytest.mark.parametrize("groups", [2, 8])
def test_the_same_matrices_draw_the_same_however_many_banks_hold_them(groups: int) -> None:
    """Multiplications, and rows that are opened for them, of 512 tokens; four bank groups as shipped."""
    field = "aim.dram.organization."
    more = {f"{field}bank_groups": str(groups), f"{field}capacity_bytes": str(2**27 * groups)}
    settings = {"devices": "8"}, {"devices": "8", **more}
    usual, other = (placed(load_system("cent", each), SMALL, None, None, released=False) for each in settings)
    drawn, wanted = other.token(512).energy_pj, usual.token(512).energy_pj
    assert drawn["pim"] == pytest.approx(wanted["pim"], rel=0.05)
    assert drawn["activate"] == pytest.approx(wanted["activate"], rel=0.15)  # rows that are not full, and norms


@pytest.mark.parametrize("options", ["--devices 64 --pp 64", "--devices 128 --pp 64 --tp 2", "--devices 128 --tp 2"])
def test_more_stages_than_layers_are_refused(options: str) -> None:
    found = call("run", "cent", "--model", "llama-2-7b", *options.split())
    assert found.code == 2 and found.out == "" and found.err.count("\n") == 1
    assert "64 stages of 32 layers; expected 32 stages or fewer" in found.err


@pytest.mark.parametrize(("devices", "stages", "tensor", "values"), [
    (8, 8, 1, 8 * 4096), (8, None, None, 8 * 4096), (8, 4, 2, 4 * 4096 + 32 * 2 * (10 * 4096 + 2 * 11008)),
])  # fmt: skip
def test_only_messages_that_are_sent_draw(devices: int, stages: int, tensor: int, values: int) -> None:
    """Onward from each stage; within a layer where several devices share it; 16 bits of 4.4 pJ."""
    assert deal(devices, stages, tensor).token(1).energy_pj["link"] == pytest.approx(values * 16 * 4.4)


@pytest.mark.parametrize("devices", [1, 3, 8, 32])
def test_a_layer_whose_next_one_is_beside_it_sends_nothing(devices: int) -> None:
    """A token crosses the link once a device, in time as in energy, however many layers lie side by side in each."""
    system = load_system("cent", {"devices": str(devices)})
    found = placed(system, SMALL, 32, 1, released=False)
    cost = found.token(1)
    leg_ns = 180 + 11 * 256 / (144 // devices * 8 * 0.5 * 2**30) * 1e9  # 1024 values in 32 messages, three to a flit
    used = -(-32 // -(-32 // devices))
    assert cost.layer.link * 32 == pytest.approx(used * leg_ns * 1e-6)
    assert cost.energy_pj["link"] == pytest.approx(used * 1024 * 16 * 4.4)
    stage = cost.layer.pim + cost.layer.near_memory + leg_ns * 1e-6  # the slowest one: it sends
    assert placed(system, SMALL, 32, 1, released=False).beat_ms(cost) == pytest.approx(max(stage, cost.token_ms / 32))
    released = placed(system, SMALL, 32, 1, released=True)
    assert released.token(1).layer.link == pytest.approx(leg_ns * 1e-6)


def test_a_token_without_its_lm_head_takes_no_time_of_the_host() -> None:
    """What is left of a token beside its parts is rounding, and never less than nothing."""
    found = call("run", "cent", "--model", "llama-2-7b", "--context", "64")
    assert found.code == 0 and "-0.000" not in found.out
