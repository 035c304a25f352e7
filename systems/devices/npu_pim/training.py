"""A small job for the machine's kernel, by which the compiler counts what it often does (`cycle_sim.compiled.weights`).

Decode iterations of a small model, with and without PIM and the faults of NeuPIMs' simulator. Nothing of it reaches a
result.
"""

import numpy as np

from pimloom.arch.llm import load_llm
from pimloom.arch.neupims import Faults
from pimloom.arch.system import load_system
from pimloom.mappers.packing import round_robin
from pimloom.systems.devices.npu_pim.serve import simulate

MODEL, TP, REQUESTS, CHANNELS = "gpt2", 2, 64, 32
RUNS = (("neupims", 2), ("neupims", 1), ("npu_pim", 1), ("npu_only", 1))  # systems and their sub-batches


def train() -> None:
    """A layer on each machine, as it should be and as it was released."""
    tokens, llm = 64 + 37 * np.arange(REQUESTS) % 900, load_llm(MODEL)
    channel = round_robin(tokens.tolist(), CHANNELS)
    for name, sub_batches in RUNS:
        for faulty in ("false", "true"):
            settings = {f"faults.{fault}": faulty for fault in Faults.__struct_fields__}
            settings |= {"interleave.sub_batches": str(sub_batches), "packing.constants": "published"}
            system = load_system(name, settings)
            simulate(system, llm, tokens, channel, tp=TP, layers=1)
