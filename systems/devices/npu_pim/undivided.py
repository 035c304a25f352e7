"""A batch that is too small for its sub-batches runs undivided, wherever it comes from."""

from dataclasses import replace

import msgspec

from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import System


def fitted(system: System, requests: int) -> System:
    """The system, without sub-batches if there are fewer requests than these."""
    spec = system.of_kind(NpuPimSystem)
    if requests >= spec.interleave.sub_batches:
        return system
    interleave = msgspec.structs.replace(spec.interleave, sub_batches=1)
    return replace(system, spec=msgspec.structs.replace(spec, interleave=interleave))
