"""Arrays beside PIM of Newton or NeuPIMs on the same channels: layers run on the engine that simulates both."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

import msgspec
import numpy as np

from pimloom.arch.composition import ArraysUnit, ComposedSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.systems.devices.composed.machine import Machine
from pimloom.systems.devices.composed.nodes import phase_of, units_of
from pimloom.systems.devices.composed.npu_system import npu_system
from pimloom.systems.devices.composed.placement import SAMPLES
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.npu_pim.device import NpuDevice
from pimloom.systems.devices.run import Run, behind
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ends
from pimloom.workload.op import LINKS, Op

POSSIBLE = "the engine of arrays beside PIM runs score and value of decode on PIM and all else on the arrays"


class Beside:
    """See `Device`. What stands before and behind the layers runs on the arrays, with the memory to themselves."""

    most_requests: int | None = None
    in_order = False
    exact_steps = 96

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        self.system, self._share, self._spec = system, share, system.of_kind(ComposedSystem)
        arrays, pim = self._checked(share)
        together = npu_system(system, arrays, pim, self._spec.how.sub_batches)
        self._layers = NpuDevice(together, llm, share._replace(outside=False))
        self.channels, self.kv_pages = self._layers.channels, self._layers.kv_pages
        alone = msgspec.structs.replace(
            self._spec,
            units={arrays: self._spec.units[arrays]},
            runs={phase: {"all": arrays} for phase in self._spec.runs},
            overlap="serial",
        )
        self._outside = Machine(replace(system, spec=alone), llm, share)
        for phase in self._spec.runs:
            self._check_runs(phase, self._outside.ops(SAMPLES[phase]), arrays, pim)

    def _checked(self, share: Share) -> tuple[str, str]:
        """The arrays and the PIM. Raises UserError for what the engine does not do."""
        spec, where = self._spec, self.system.where
        arrays = [key for key, unit in spec.units.items() if isinstance(unit, ArraysUnit)]
        others = [key for key in spec.units if key not in arrays]
        if len(arrays) != 1 or len(others) != 1:
            raise UserError(f"{where('units')}: {POSSIBLE}; expected one unit of each")
        if spec.overlap == "serial" or spec.how.heads != "whole" or spec.how.experts != "one unit":
            said = "heads beside heads; expected concurrent or sub_batches: n"
            raise UserError(f"{where('overlap')}: {POSSIBLE}, {said}")
        figures = {f"units.{key}.power_w": spec.units[key].power_w for key in spec.units}
        figures |= {f"memories.{key}.pj_per_bit": memory.pj_per_bit for key, memory in spec.memories.items()}
        for place, figure in figures.items():
            if figure is not None:
                raise UserError(f"{where(place)}: of arrays beside PIM no energy is told; leave it out")
        return arrays[0], others[0]

    def _check_runs(self, phase: str, found: Sequence[Op], arrays: str, pim: str) -> None:
        for op in found:
            if op.kind in (*LINKS, "cache_write"):  # keys and values are stored by what makes them
                continue
            wanted = pim if op.kind in ("score", "value") and phase == "decode" else arrays
            if units_of(self._spec, phase, op) != (wanted,):
                raise UserError(f"{self.system.where(f'runs.{phase}')}: {POSSIBLE}; expected {op.kind}: {wanted}")

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """See `Device`."""
        return self._layers.can_run(ops)

    def step(self, batch: Batch, channel: np.ndarray | None = None) -> Run:
        """Requests lie in these channels, None: where the engine puts them. Raises UserError."""
        self._outside.check_phase(phase_of(batch))
        if not self._share.outside:
            return self._layers.step(batch, channel)
        self._outside.check(batch)
        made = self._outside.ops(batch)
        first, last = (self._outside.run(batch, part) for part in ends(made))
        return behind([first, self._layers.step(batch, channel), last])

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the batch fits."""
        self._layers.check(batch)
        if self._share.outside:
            self._outside.check(batch)

    def capacity(self) -> Capacity:
        """See `Device`."""
        layers, outside = self._layers.capacity(), self._outside
        whole = layers._replace(memory_bytes=outside.capacity().memory_bytes)
        if not self._share.outside:
            return whole
        more = max(outside.weight_bytes[outside.home] - layers.weight_bytes, 0)
        elsewhere = sum(n for name, n in outside.weight_bytes.items() if name != outside.home)
        room = layers.tokens - ceil(Fraction(more) / layers.cache_bytes_per_token)
        return whole._replace(weight_bytes=layers.weight_bytes + more + elsewhere, tokens=max(room, 0))
