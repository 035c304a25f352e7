"""What the memories of the machine hold before the first clock: numbers, programs, where these begin."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from amaranth.lib.data import StructLayout

from pimloom.arch.error import UserError
from pimloom.rtl.flow.system.places import Places
from pimloom.rtl.flow.system.program import Programs, Qkv, Step, Steps, Through
from pimloom.rtl.flow.system.toy import MATRICES, Numbers, Toy
from pimloom.rtl.system.plan import COLUMNS, LANES, Image, Sizes

WORD = np.dtype(f"<u{2 * LANES}")


def image_of(toy: Toy, numbers: Numbers, places: Places, found: Programs, sizes: Sizes) -> Image:
    """All of it."""
    layer_bits = max(sizes.layers - 1, 1).bit_length()
    npu, npu_entry = _joined(sizes.npu_step(), found.npu)
    entries = [0] * (1 << layer_bits + sizes.sub_batches + 1)
    for job, at in npu_entry.items():
        which = job.sub_batch if isinstance(job, Through) else sum(1 << s for s in job.sub_batches)
        entries[job.layer | which << layer_bits | isinstance(job, Qkv) << layer_bits + sizes.sub_batches] = at
    own, own_entries = list[list[int]](), list[list[int]]()
    for jobs in found.channels:
        steps, begins = _joined(sizes.channel_step(), jobs)
        own.append(steps)
        own_entries.append([0] * (1 << layer_bits + max(sizes.sub_batches - 1, 1).bit_length()))
        for (layer, sub_batch), at in begins.items():
            own_entries[-1][layer | sub_batch << layer_bits] = at
    cells = _cells(toy, numbers, places, sizes).view(WORD)[..., 0].reshape(toy.channels, LANES, -1)
    return Image(_scratchpad(toy, numbers, places), cells.tolist(), npu, entries, own, own_entries)


def _joined(layout: StructLayout, jobs: Mapping[Any, Steps]) -> tuple[list[int], dict[Any, int]]:
    """All programs one behind the other, and where each begins."""
    words, begins = list[int](), dict[Any, int]()
    for job, steps in jobs.items():
        begins[job] = len(words)
        words += [_word(layout, step) for step in steps]
    return words, begins


def _word(layout: StructLayout, step: Step) -> int:
    for name, field in layout:
        value = step.get(name, 0)
        if isinstance(value, int) and value >> field.width:
            raise UserError(f"{name} {value} of a step does not fit into the {field.width} bits of its program")
    return int(layout.const(step).as_value().value)


def _scratchpad(toy: Toy, numbers: Numbers, places: Places) -> list[int]:
    held = np.zeros(places.elements, np.uint16)

    def put(at: int, x: np.ndarray) -> None:
        bits = np.ascontiguousarray(x).view(np.uint16).reshape(-1)
        held[at : at + len(bits)] = bits

    put(places.x, numbers.x)
    for n, layer in enumerate(numbers.layers):
        for name in MATRICES:
            put(places.biases[n, name], layer.biases[name])
        for name, (gamma, beta) in layer.norms.items():
            put(places.norms[n, name], np.array([1 / toy.width], np.float32))
            put(places.norms[n, name] + 2, np.stack([gamma, beta], 1))
        for r, values in enumerate(layer.values):
            word = values[len(values) // LANES * LANES :]  # of the tokens beside the new one
            newest = np.zeros((toy.width, LANES), word.dtype)
            newest[:, : len(word)] = word.T
            put(places.newest[n, r], newest)
    return held.view(WORD).tolist()


def _cells(toy: Toy, numbers: Numbers, places: Places, sizes: Sizes) -> np.ndarray:
    """uint16[channel, bank, row, column, lane]."""
    shape, org = places.shape, sizes.spec.part.organization
    cells = np.zeros((toy.channels, LANES, org.rows, COLUMNS * LANES), np.uint16)
    chunks, tiles = -(-toy.width // shape.row), shape.head_dim // LANES
    for n, layer in enumerate(numbers.layers):
        for r in range(len(toy.tokens)):
            cache, keys = places.caches[n, r], layer.keys[r].view(np.uint16)
            for t, key in enumerate(keys):
                for c in range(chunks):
                    part = key[c * shape.row : (c + 1) * shape.row]
                    cells[cache.channel, t % LANES, cache.row_k + t // LANES * chunks + c, : len(part)] = part
            for d, value in enumerate(layer.values[r].T.view(np.uint16)):
                head, inside = divmod(d, shape.head_dim)
                row = cache.row_v + head * tiles + inside // LANES
                cells[cache.channel, inside % LANES, row, : len(value)] = value
        for name in MATRICES:
            words = layer.matrices[name].view(np.uint16).reshape(-1, LANES)
            for share in places.matrices[n, name]:
                bank = cells[share.channel, share.bank].reshape(-1, LANES)
                first = share.row * COLUMNS
                bank[first : first + share.words] = words[share.word : share.word + share.words]
    return cells.reshape(toy.channels, LANES, org.rows, COLUMNS, LANES)
