"""Keys and values of prompts that have ended, on their way to where decode steps attend to them."""

from collections.abc import Iterator

from pimloom.systems.devices.duplex.layers import ELEMENT_BYTES, Pair, slowest
from pimloom.systems.devices.duplex.links import handed
from pimloom.systems.devices.duplex.memory import XPU
from pimloom.systems.devices.duplex.stage import Piece, Stages
from pimloom.workload.batch import Batch
from pimloom.workload.need import layer_need
from pimloom.workload.shard import Shard


def copied(stages: Stages, prompts: Batch, layers: int) -> Iterator[Piece]:
    """From the memory space of prompts to those of keys and values, once by the xPU (Yun et al., MICRO 2024)."""
    elements = _ended(stages, prompts, layers)
    if any(elements):
        yield Piece("cache.copy", slowest([Pair.of(XPU, stages.processors.elementwise(n, n)) for n in elements]))


def sent(stages: Stages, prompts: Batch, layers: int) -> Iterator[Piece]:
    """From devices that take prompts to as many that decode, over the links of each node [design]."""
    elements = _ended(stages, prompts, layers)
    if any(elements):
        links, sizes = stages.processors.device.spec.links.fabric(), [ELEMENT_BYTES * n * stages.half for n in elements]
        yield Piece("cache.send", sent=handed(links, sizes, stages.half))


def _ended(stages: Stages, prompts: Batch, layers: int) -> list[int]:
    """Elements on a device of each node, of requests whose next token is wanted."""
    ended = (Batch(tuple(at for at in node.requests if at.logits)) for node in stages.dealt(prompts))
    shard = Shard(tp=stages.half)
    return [layer_need(stages.llm, batch, shard, layers).cache if batch.requests else 0 for batch in ended]
