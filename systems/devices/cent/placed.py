"""A model on the devices of a CENT system: who holds which layers, and what a token in one of them takes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from pimloom.arch.aim import COMMANDS
from pimloom.arch.aim_file import LoadedAim
from pimloom.arch.cent import CentSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted
from pimloom.arch.system import System
from pimloom.arch.units import BITS_PER_BYTE, HZ_PER_MHZ, MS_PER_S, NS_PER_MS, PS_PER_MS, ceil_div
from pimloom.cycle_sim.aim.simulate import Found, Queues, simulate
from pimloom.cycle_sim.cent import near_memory_cyc, next_ns, shared_ns
from pimloom.energy.cent import Counted, Token, energies_pj, rest_mw
from pimloom.mappers.cent import Layer, Place, layer_of
from pimloom.mappers.cent_layer import ends_program, layer_program, matrices_program
from pimloom.systems.devices.cent.costs import Drawn, LayerTime, TokenCost
from pimloom.systems.devices.formats import refuse_quantized
from pimloom.workload.batch import Batch
from pimloom.workload.need import kv_bytes, parameters

ACCESSES = [COMMANDS.index("RD"), COMMANDS.index("WR")]
AS_AIM_WRITES = {"PREab": "PREA"}


@dataclass(frozen=True)
class Placed:
    """A model on `devices` devices: as many stages as layers (`stages`), several layers side by side in a device; or
    fewer, each of `tensor` devices that share its layers. released: with the slips of CENT's own code."""

    system: CentSystem
    aim: LoadedAim
    llm: LlmSpec
    layer: Layer
    stages: int
    tensor: int
    released: bool

    @property
    def piped(self) -> bool:
        """A stage for each layer, which no devices share: a device may have several side by side."""
        return self.stages == self.llm.num_hidden_layers and self.tensor == 1

    @property
    def layers_here(self) -> int:
        """Layers side by side in a device."""
        return ceil_div(self.llm.num_hidden_layers, self.system.devices) if self.piped else 1

    @property
    def used_devices(self) -> int:
        """Devices that have a layer."""
        if self.piped:
            return ceil_div(self.llm.num_hidden_layers, self.layers_here)
        return self.stages * self.tensor

    @property
    def stage_layers(self) -> int:
        """Layers of the stage that has most."""
        return ceil_div(self.llm.num_hidden_layers, self.stages)

    def beat_ms(self, cost: TokenCost) -> float:
        """Time between two tokens that leave full stages [ms]: that of the slowest one, which sends onward. What stands
        before and behind the layers is dealt evenly, as released, where layers are, too."""
        even, layer = cost.token_ms / self.stages, cost.layer.pim + cost.layer.near_memory + self._within_ms
        return even if self.released else max(even, layer * self.stage_layers + self._onward_ms)

    @cached_property
    def place(self) -> Place:
        """Where a layer lies."""
        org, channels, bits = self.aim.part.organization, self.aim.spec.channels, self.system.element_bits
        column = org.access_bits // bits
        return Place(
            channels, org.bank_groups * org.banks_per_group, org.columns * column, column,
            channels // self.layers_here, self.tensor, self.system.latches, self.llm.max_position_embeddings,
            None if self.released else self.layers_here,
        )  # fmt: skip

    def token(self, context: int) -> TokenCost:
        """The token that makes a context of so many tokens."""
        layer, near = self.layer, self.system.near_memory
        program = layer_program(layer, self.place, context, self.released)
        found = self._run(program)
        cycles = near_memory_cyc(near, layer.hidden, layer.heads, layer.repeat, context)
        near_ms = sum(cycles.values()) / (near.clock_mhz * HZ_PER_MHZ) * MS_PER_S * self.layers_here
        time = LayerTime(self._ms(found.cycles), self._link_ms, near_ms)
        sent = self._values_within + self._values_onward
        energy, at_once, busy_ms = self._all(self._drawn(found, program, context, sent, self.layers_here), context)
        layers, mw = self.llm.num_hidden_layers, at_once / (time.pim * NS_PER_MS)
        return TokenCost(time, self._ends_ms, near.sampling_ms, layers, energy, mw, busy_ms)

    def with_waiting(self, pj: Mapping[str, float], busy_ms: float, span_ms: float) -> dict[str, float]:
        """Energy by cause, and what devices that have a layer draw in a span but for the time of their channels,
        `busy_ms` of all together: standby with all rows closed, and buffers. As released that is nothing."""
        waits_ns = 0.0 if self.released else max(self.used_devices * span_ms - busy_ms, 0.0) * NS_PER_MS
        mw = rest_mw(self.system.energy, self.aim.spec.channels)
        return {cause: j + mw.get(cause, 0.0) * waits_ns for cause, j in pj.items()}

    @cached_property
    def _onward_ms(self) -> float:
        """From one device to the next."""
        spec = self.system
        return next_ns(spec.link, spec.devices, self.layer.hidden, spec.element_bits) / NS_PER_MS

    @cached_property
    def _within_ms(self) -> float:
        """Of a layer, among the devices that share it; as released also of one device, which sends nothing."""
        spec, layer = self.system, self.layer
        if self.piped or (self.tensor == 1 and not self.released):
            return 0.0
        return shared_ns(spec.link, spec.devices, self.tensor, layer.hidden, layer.ffn, spec.element_bits) / NS_PER_MS

    @property
    def _link_ms(self) -> float:
        """Of a layer, the mean of all: the last one of a device or stage sends onward. As released each does, where it
        is a stage, and else none."""
        if self.released:
            return self._onward_ms if self.piped else self._within_ms
        sending = self.used_devices if self.piped else self.stages
        return self._within_ms + self._onward_ms * sending / self.llm.num_hidden_layers

    def _all(self, main: Drawn, context: int) -> tuple[dict[str, float], float, float]:
        """Energy of a token in all devices, and of what works while one layer does; time of all devices' channels."""
        if self.piped:
            last, others = main if self.released else self._last(main, context), self.used_devices - 1
            every = {cause: pj * others + last.pj[cause] for cause, pj in main.pj.items()}
            return every, sum(every.values()), main.ms * others + last.ms
        others, share = self.tensor - 1, self._others if self.tensor > 1 else Drawn({}, 0.0)
        one = {cause: pj + share.pj.get(cause, 0.0) * others for cause, pj in main.pj.items()}
        layers = self.llm.num_hidden_layers
        every = {cause: pj * layers for cause, pj in one.items()}
        return every, sum(one.values()) * self.stages, (main.ms + share.ms * others) * layers

    def _last(self, main: Drawn, context: int) -> Drawn:
        """The last device, which may have fewer layers than the others."""
        left = self.llm.num_hidden_layers - self.layers_here * (self.used_devices - 1)
        if left == self.layers_here:
            return main
        program = layer_program(self.layer, self.place._replace(layers=left), context)
        return self._drawn(self._run(program), program, context, self._values_onward, left)

    @cached_property
    def _others(self) -> Drawn:
        """A device that shares the matrices of a layer alone."""
        program = matrices_program(self.layer, self.place, self.released)
        return self._drawn(self._run(program), program, 1, self._values_within, 0)

    @cached_property
    def _ends_ms(self) -> float:
        program = ends_program(self.layer, self.place, self.llm.vocab_size, self.released)
        return self._ms(self._run(program).cycles)

    def _run(self, program: np.ndarray) -> Found:
        spec = self.aim.spec
        queues = Queues(spec.queue_entries, spec.drain_from, spec.drain_below, spec.refresh == "all_bank")
        return simulate(self.aim.part, spec.channels, queues, program)

    @property
    def _values_within(self) -> int:
        """That a device of a layer sends to others of this layer; as released also where there are none."""
        shared = self.tensor > 1 or (self.released and not self.piped)
        return 10 * self.layer.hidden + 2 * self.layer.ffn if shared else 0

    @property
    def _values_onward(self) -> float:
        """To the next stage, by layer; by device where these have several layers side by side."""
        if self.released and not self.piped:
            return 0
        return self.layer.hidden * self.stages / self.llm.num_hidden_layers

    def _drawn(self, found: Found, program: np.ndarray, context: int, sent: float, layers: int) -> Drawn:
        """sent: values that leave the device; layers: whose near-memory work it has."""
        layer = self.layer
        commands = Counter[str]()
        for counts in found.counts:
            commands.update({AS_AIM_WRITES.get(name, name): n for name, n in counts.items()})
        active, part = float(np.mean(found.open_ck)), self.aim.part
        did = Counted(
            commands, int((~np.isin(program[:, 0], ACCESSES)).sum()), found.cycles, active,
            found.cycles - active, self.aim.spec.channels, part.tCK_ps, part.organization.access_bits,
            sent, self.system.element_bits, self.place.banks,
        )  # fmt: skip
        token = Token(layer.hidden, layer.heads, layer.repeat, context, 1 if self.released else layers)
        pj = energies_pj(self.system.energy, self.system.near_memory, did, token, self.released)
        return Drawn(pj, self._ms(found.cycles))

    def _ms(self, cycles: int) -> float:
        return cycles * self.aim.part.tCK_ps / PS_PER_MS

    @property
    def device_bytes(self) -> int:
        """Memory of a device."""
        return self.aim.part.organization.capacity_bytes * self.aim.spec.channels

    def memory(self) -> tuple[int, int]:
        """Bytes of all devices in use; and what the model takes there, without keys and values."""
        return self.device_bytes * self.used_devices, parameters(self.llm) * self.system.element_bits // BITS_PER_BYTE

    @property
    def fullest(self) -> Fraction:
        """Share of the layers in the device that has most: of several that share them, the one that attends."""
        return Fraction(self.layers_here if self.piped else self.stage_layers, self.llm.num_hidden_layers)

    @property
    def room_bytes(self) -> int:
        """For keys and values of all layers; as released the devices' memory is one."""
        there, weights = self.memory()
        if self.released:
            return there - weights
        return int((self.device_bytes - weights * self.fullest / self.tensor) / self.fullest)


def placed(system: System, llm: LlmSpec, stages: int | None, tensor: int | None, released: bool) -> Placed:
    """A model on the devices of a system; None: as many stages as layers. Raises UserError if it cannot be dealt so."""
    refuse_quantized(system, llm)
    spec, layers = system.of_kind(CentSystem), llm.num_hidden_layers
    assert system.aim is not None
    if (lanes := spec.link.lanes) < spec.devices:
        said = f"{lanes} lanes of the switch are dealt over the devices, a lane each at least"
        raise UserError(
            f"--devices {spec.devices}: {said}; take {lanes} devices or fewer, or --set link.lanes={spec.devices}"
        )
    layer = layer_of(llm)
    named = f"--pp {stages}" if stages is not None else f"--tp {tensor}"
    if stages is None:
        stages = layers if (tensor or 1) == 1 else spec.devices // (tensor or 1)
    if stages == layers and (tensor or 1) == 1:
        found = Placed(spec, system.aim, llm, layer, stages, 1, released)
        if found.layers_here > system.aim.spec.channels:
            least = ceil_div(layers, system.aim.spec.channels)
            said = f"{counted(layers, 'layer')} need a channel each; take {least} devices or more"
            raise UserError(f"--devices {spec.devices}: {said}")
    else:
        share = spec.devices // stages if tensor is None else tensor
        if stages * share != spec.devices:
            got = f"; got {stages} x {share}" if share else f", at most {spec.devices} stages then"
            raise UserError(
                f"{named}: expected {layers} stages, one a layer, or stages x --tp = {spec.devices} devices{got}"
            )
        if stages > layers:
            said = f"{stages} stages of {counted(layers, 'layer')}; expected {layers} stages or fewer"
            raise UserError(f"{named}: {said}; take a larger --tp or fewer --devices")
        found = Placed(spec, system.aim, llm, layer, stages, share, released)
    _check(found)
    return found


def _check(found: Placed) -> None:
    """Raise UserError unless buffers, heads and weights fit."""
    place, layer, part = found.place, found.layer, found.aim.part
    if part.pim_unit and (got := part.pim_unit.global_buffer_bytes) != (row := part.organization.row_bytes):
        said = f"expected {row}, as a program loads a row at a time, got {got}"
        raise UserError(f"aim.dram.pim_unit.global_buffer_bytes: {said}")
    if place.row % layer.head or layer.head % place.banks or layer.head * layer.kv_heads % place.row:
        raise UserError(
            f"{found.llm.name}: {layer.kv_heads} heads of {layer.head} do not divide rows of {place.row} elements and "
            f"{place.banks} banks"
        )
    check_fits(found, [])


def check_fits(found: Placed, contexts: Sequence[int]) -> None:
    """Raise UserError unless weights, and keys and values of these contexts, fit into the devices."""
    there, weights = found.memory()
    cache = kv_bytes(found.llm, Batch.decode(list(contexts))) if contexts else 0
    of_cache = f" and {cache:,} for keys and values of {counted(len(contexts), 'request')}" if cache else ""
    needs = f"{found.llm.name}: needs {weights:,} bytes for its weights{of_cache}"
    if weights + cache > there:
        devices = ceil_div(weights + cache, there // found.used_devices)
        layers = found.llm.num_hidden_layers
        if found.tensor == 1 and (each := found.device_bytes // ceil_div(weights + cache, layers)):
            devices = ceil_div(layers, each)  # a device has whole layers
        raise UserError(
            f"{needs}, {found.used_devices} {'devices have' if found.used_devices > 1 else 'device has'} {there:,}; "
            f"take {devices} devices or more (--devices), or a shorter context"
        )
    if cache > found.room_bytes:
        what = "that attends" if found.tensor > 1 else "with most layers"
        raise UserError(
            f"{needs}; the device {what} has {found.device_bytes:,} bytes, room for {max(found.room_bytes, 0):,} of "
            "all keys and values; take more stages (--pp) or devices (--devices), or a shorter context"
        )
