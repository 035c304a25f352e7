"""A processor at its roofline whose operators overlap, as a device."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from pimloom.cycle_sim.link import Sent
from pimloom.systems.devices.device import Capacity
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.devices.run import Run, Span
from pimloom.systems.serving.overlap.listing import RESOURCES, Schedule, schedule
from pimloom.systems.serving.overlap.operators import Chain, Weave, chain_of, over, total
from pimloom.systems.serving.overlap.parts import Part, equal, woven
from pimloom.systems.serving.overlap.waves import Units
from pimloom.workload.batch import Batch
from pimloom.workload.op import Op

MOST_PARTS = 4  # nano-batches that NanoFlow takes [paper]; each reads the weights


class Overlap(NamedTuple):
    """kind: serial, nanoflow or tokenweave; parts: nano-batches, None: as many as are quickest, 1 to MOST_PARTS; units:
    of TokenWeave; offset: tokens that its first part has more."""

    kind: str
    parts: int | None = None
    units: Units | None = None
    offset: int = 0


class Overlapped:
    """Rooflines that share each layer and overlap products with collectives, behind the protocol `Device`. device:
    the rooflines, which run operators one after the other; how: what overlaps with what."""

    most_requests: int | None = None
    in_order = False
    exact_steps = 256

    def __init__(self, device: RooflineDevice, how: Overlap) -> None:
        self.device, self.how = device, how

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """Refuses nothing: collectives of rooflines can overlap in all operators."""
        return self.device.can_run(ops)

    def check(self, batch: Batch) -> None:
        """See `Device`."""
        self.device.check(batch)

    def capacity(self) -> Capacity:
        """See `Device`."""
        return self.device.capacity()

    def step(self, batch: Batch) -> Run:
        """The quickest of the ways that it may take. Raises UserError if the batch does not fit."""
        self.check(batch)
        return min((self._run(batch, parts, units) for parts, units in self._ways(batch)), key=lambda run: run.end_ps)

    def _ways(self, batch: Batch) -> list[tuple[list[Part], Units | None]]:
        """Parts, and the units of a collective that runs beside them."""
        how = self.how
        if how.kind == "serial":
            return [([Part(batch, False)], None)]
        if how.kind == "tokenweave":
            parts = woven(batch, how.offset)
            units = how.units if len(parts) > 1 or how.units is None else how.units._replace(collective=0)
            return [(parts, units)]
        few = min(how.parts or MOST_PARTS, batch.rows)  # a part has a token
        return [(equal(batch, number), None) for number in range(few if how.parts else 1, few + 1)]

    def _run(self, batch: Batch, parts: list[Part], units: Units | None) -> Run:
        chains = list[Chain]()
        for part in parts:
            before = chains[-1] if part.follows else None
            weave = None if units is None else Weave(units, batch.rows)
            chains.append(chain_of(self.device, part.batch, over(self.device), weave, before))
        found = schedule([chain.tasks for chain in chains])
        first, last = self.device.outside(batch)
        begin = sum(one.time_ps for one in first)
        end = begin + round(found.end) + sum(one.time_ps for one in last)
        moved, sent = total(chains)
        moved += sum(one.moved_bytes for one in (*first, *last))
        devices, ends = self.device.share.tp, (*first, *last)
        sent = reduce(Sent.plus, (one.sent for one in ends), sent)
        work = dict(zip(RESOURCES, found.work, strict=True)) if found.work else dict.fromkeys(RESOURCES, 0.0)
        return Run(
            end_ps=end,
            spans=tuple(_spans(found, begin)),
            interface_bytes=round(moved),
            link_bytes=sent.all_bytes,
            macs=sum(one.macs for one in ends) + self.device.macs(batch),
            least_ps={
                "compute": round(work["compute"]) + sum(one.compute_ps for one in ends),
                "memory bandwidth": round(work["memory"]) + sum(one.memory_ps for one in ends),
                "link": round(work["link"]) + sum(one.link_ps for one in ends),
                "launches": round(work["launches"]) + sum(one.launch_ps for one in ends),
            },
            device_j=self.device.joules(end, sent),
            devices=devices,
        )


def _spans(found: Schedule, begin: int) -> list[Span]:
    """A resource for each part."""
    return [
        Span(begin + round(one.start), begin + round(one.end), one.name, f"part {one.chain + 1}") for one in found.ran
    ]
