"""What CENT's own code has otherwise than a device would: keys, layers, stages, room and messages, corrected."""

import pytest

from pimloom.arch.aim import BANK, COMMANDS, MASK, ROW, TIMES
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.mappers.cent_layer import layer_pieces
from pimloom.systems.devices.cent.placed import Placed, placed

LLM = load_llm("llama-2-7b")


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
    for context in range(1, 1200, 7):
        program = dict(layer_pieces(layer, place, context)[1])["new token"]
        written = program[program[:, 0] == COMMANDS.index("WR")]
        mine = {tuple(spot) for spot in written[:, [MASK, BANK, ROW]].tolist()}
        assert len(mine) == layer.kv_heads * layer.head // place.row and not mine & spots
        spots |= mine
