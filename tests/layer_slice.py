"""What a decoder layer of a small model sends to each of two small channels, and the commands that issue there:
`python -m tests.layer_slice SYSTEM WIDTH FILE.npz`. Plain Python, in which `accept` can be listened to."""

import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.system import System, load_system
from pimloom.systems.devices.npu_pim.laid import channel_of

CHANNELS, CONTEXTS = 2, (33, 20, 9)
SMALL = {
    "dram.channels": CHANNELS, "dram.organization.ranks": 2, "dram.organization.bank_groups": 1,
    "dram.organization.rows": 65536, "dram.organization.capacity_bytes": 1 << 29, "controller.entries": 4,
    "controller.queue_entries": 3, "controller.window": 12,
    "controller.drain_idle": 2, "controller.offers_per_ck": 1, "npu.arrays": 1, "npu.rows": 4, "npu.vector_units": 1,
    "npu.vector_lanes": 4,
}  # fmt: skip


def small_system(name: str) -> System:
    of_pim = {} if name == "npu_only" else {"controller.pim_queue_entries": 6}
    return load_system(name, {key: str(value) for key, value in (SMALL | of_pim).items()})


def small_model(width: int) -> LlmSpec:
    sizes = {"hidden_size": width, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": width // 2}
    return msgspec.structs.replace(load_llm("gpt2"), intermediate_size=2 * width, num_hidden_layers=2, **sizes)


def spec_of_gates(name: str) -> PimChannel:
    """The channel. Its gates take two requests by each way in a clock: NPU and PIM may each send a read or write."""
    spec = channel_of(small_system(name))
    return spec._replace(controller=msgspec.structs.replace(spec.controller, offers_per_ck=2))


def heard(name: str, width: int) -> dict[str, Any]:
    """taken: (channel, clock, word, or -1 - place in dot) of each request; dot: PIM commands as in `kernels.fields`;
    issued: (channel, clock, place in `fields.COMMANDS`, bank, row) of each command; clocks."""
    from pimloom.cycle_sim.npu_pim.kernels import fields as f
    from pimloom.cycle_sim.npu_pim.kernels import ports
    from pimloom.cycle_sim.npu_pim.kernels.requests import accept
    from pimloom.cycle_sim.npu_pim.machine import run
    from pimloom.systems.devices.npu_pim.laid import lay_out
    from pimloom.systems.devices.npu_pim.serve import PORTS

    taken, dot = list[tuple[int, int, int]](), list[np.ndarray]()

    def listened(ch: Any, word: int, group: int, t: int) -> None:
        taken.append((int(ch.state[f.NUMBER]), int(t), int(word)))
        dot[:] = [ch.dot]
        accept(ch, word, group, t)

    laid = lay_out(small_system(name), small_model(width), np.array(CONTEXTS), None, tp=1, layers=2)
    with patch.object(ports, "accept", listened):
        ran = run(laid.spec, CHANNELS, laid.npu, laid.layer.builder, ports=PORTS, log=1 << 20)
    issued = [np.column_stack([np.full(len(log), c), log]) for c, log in enumerate(ran.logs)]
    return {
        "taken": np.array(taken), "dot": np.array(dot[0]), "issued": np.concatenate(issued),
        "clocks": np.array(ran.total_ck),
    }  # fmt: skip


if __name__ == "__main__":
    assert os.environ.get("PIMLOOM_KERNELS") == "python", "compiled, nothing can be listened to"
    np.savez(Path(sys.argv[3]), **heard(sys.argv[1], int(sys.argv[2])))
