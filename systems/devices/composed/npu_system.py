"""The arrays of a composition, alone or beside the PIM of their memory, as the NPU that the engine simulates."""

from msgspec.structs import asdict

from pimloom.arch.composition import ArraysUnit, ComposedSystem, GemvUnit, PartMemory
from pimloom.arch.error import UserError
from pimloom.arch.link import Link
from pimloom.arch.npu_pim import Arrays, Interleave, NpuPimSystem, Packing, PimDram
from pimloom.arch.part_channel import one_channel, without_pim
from pimloom.arch.system import System
from pimloom.systems.devices.npu_pim.share import check_machine

NO_LINK = Link(gbps=1, latency_ns=0, pj_per_bit=0, topology="ring")  # of one device, which sends nothing


def npu_system(system: System, name: str, pim: str | None = None, sub_batches: int = 1) -> System:
    """The unit `name` as a system of its own, with the unit `pim` in its memory or without PIM. Raises UserError."""
    spec = system.of_kind(ComposedSystem)
    unit: ArraysUnit = spec.units[name]
    memory, part = spec.memories[unit.memory], system.parts[unit.memory]
    assert isinstance(memory, PartMemory) and memory.controller is not None
    channels, lanes, buffers, closes = memory.channels, 0, "none", "bank"
    if pim is None:
        channels, part = channels * part.organization.pseudo_channels, without_pim(part)
    else:
        beside: GemvUnit = spec.units[pim]
        lanes, buffers = beside.lanes, "dual" if part.pim == "neupims" else "blocked"
        closes = beside.pim_precharge or "bank"
    part = one_channel(part)
    keys = asdict(unit)
    npu = Arrays(element_bits=spec.element_bits, **{key: keys[key] for key in Arrays.__struct_fields__ if key in keys})
    found = NpuPimSystem(
        description=spec.description,
        kind="npu_pim",
        dram=PimDram(memory.part, channels, lanes, buffers, closes),  # type: ignore[arg-type]
        controller=memory.controller,
        npu=npu,
        interleave=Interleave(sub_batches),
        packing=Packing("derived"),
        link=spec.peers or NO_LINK,
        routing=spec.routing,
    )
    try:
        check_machine(found, part)
    except UserError as error:
        said = str(error).replace("dram.", f"memories.{unit.memory}.").replace("npu.", f"units.{name}.")
        raise UserError(f"{system.where(f'units.{name}')}: {said}") from None
    return System(system.name, found, part, system.sources)
