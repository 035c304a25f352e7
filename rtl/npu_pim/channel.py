# amaranth: UnusedElaboratable=no
"""One channel of an NPU with PIM: controller, banks with two row buffers, PIM units."""

from collections.abc import Sequence

import msgspec
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.error import UserError
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.pim_channel import Controller as Queues
from pimloom.arch.pim_channel import Mode, PimChannel
from pimloom.arch.system import load_system
from pimloom.rtl import bf16
from pimloom.rtl.npu_pim.banks.device import Device
from pimloom.rtl.npu_pim.controller import Bus, Controller
from pimloom.rtl.npu_pim.plan import plan_of
from pimloom.rtl.npu_pim.queues.responses import Answers

SYSTEM = "neupims"  # whose controller and lanes the block has
MODES: dict[str | None, Mode] = {"neupims": "dual", "newton": "blocked"}
SHORT = {"entries": 8, "queue_entries": 4, "pim_queue_entries": 16, "window": 32}  # places: each is registers here


class NpuPimChannel(wiring.Component):
    """A channel with PIM: requests in, words and results out, clock for clock the cycle model.

    data, pim, quick, answers, stuck: as `Controller` says. bus: what issues, for who watches it. Words of writes stay
    with the requester: `word` is what the WR of the clock before writes, and a read that is answered at once has its
    word there. read: of answers.reads. results: bfloat16 of each bank, of answers.result and answers.gemv.

    lanes: elements that a COMP takes of a row. kept: rows that the memories of the banks hold, a power of two.
    """

    def __init__(self, spec: PimChannel, lanes: int, kept: int, cells: Sequence[Sequence[int]] = ()) -> None:
        """cells: of each bank the words that it holds at first, row by row; what is left out is 0.

        Raises UserError for departures from the physical rules, and for lanes that no PIM unit has.
        """
        self.spec, self.plan, self.lanes, self.kept = spec, plan_of(spec), lanes, kept
        plan = self.plan
        self.table, bits = plan.table, spec.part.organization.access_bits
        self.controller = Controller(spec)
        if not plan.pim:
            raise UserError(f"{spec.part.description}: a channel with PIM has one or two row buffers for it")
        self.device = Device(plan, bits, lanes, kept, cells)
        offers = {
            "data": In(stream.Signature(plan.access())).array(plan.offers),
            "pim": In(stream.Signature(plan.dot())).array(plan.offers),
        }
        out = {"quick": Out(plan.offers), "bus": Out(Bus(plan)), "answers": Out(Answers(plan)), "stuck": Out(1)}
        results = data.ArrayLayout(bf16.WIDTH, plan.banks)
        super().__init__({**offers, **out, "word": In(bits), "read": Out(bits), "results": Out(results)})

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """What is instantiated, by the name of its module."""
        return self.device.modules

    @property
    def instances(self) -> dict[str, str]:
        """Modules of the timers by instance."""
        return self.controller.instances

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.controller = controller = self.controller
        m.submodules.device = device = self.device
        for name in ("data", "pim"):
            for ours, inner in zip(getattr(self, name), getattr(controller, name), strict=True):
                wiring.connect(m, wiring.flipped(ours), inner)
        wiring.connect(m, wiring.flipped(self.bus), controller.bus)
        wiring.connect(m, wiring.flipped(self.answers), controller.answers)
        m.d.comb += [
            self.quick.eq(controller.quick),
            self.stuck.eq(controller.stuck),
            device.valid.eq(controller.bus.valid),
            device.command.eq(controller.bus.command),
            device.comps.eq(controller.comps),
            device.word.eq(self.word),
            device.take.eq(controller.answers.result | controller.answers.gemv),
            self.read.eq(device.read),
            self.results.eq(device.results),
        ]
        return m


def mode_of(part: Part) -> Mode:
    """How PIM shares the part's rows. Raises UserError for a part without PIM commands that copy and announce."""
    if part.pim not in MODES:
        needs = f"needs pim: {' or '.join(map(str, MODES))}, as part hbm2_neupims has it"
        raise UserError(f"{part.description}: a channel of an NPU with PIM {needs}")
    return MODES[part.pim]


def controller() -> tuple[Queues, int]:
    """The system's controller with short queues, and the lanes of its PIM units."""
    system = load_system(SYSTEM).of_kind(NpuPimSystem)
    return msgspec.structs.replace(system.controller, **SHORT), system.dram.lanes


def channel_of(part: Part, kept: int) -> NpuPimChannel:
    """A channel of the part, whose banks hold that many rows."""
    own, lanes = controller()
    return NpuPimChannel(PimChannel(part, mode_of(part), own), lanes, kept)
