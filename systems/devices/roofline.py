"""A GPU or CPU at its roofline as a device: each operator takes the longer of its operations and its bytes."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import RooflineSystem, System
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, PS_PER_NS, PS_PER_S, PS_PER_US, S_PER_PS, S_PER_US
from pimloom.cycle_sim.link import Sent
from pimloom.cycle_sim.roofline import ceilings_s
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.npu_pim.exchange import exchanged
from pimloom.systems.devices.npu_pim.gpu import Work, alone, batch_work
from pimloom.systems.devices.npu_pim.share import check_memory, tokens_that_fit, weight_bytes
from pimloom.systems.devices.run import Run, Span
from pimloom.workload.batch import Batch
from pimloom.workload.derive import equal_layers, outside
from pimloom.workload.need import ONE, layer_need
from pimloom.workload.op import LINKS, Op
from pimloom.workload.routing import expected
from pimloom.workload.shard import Shard

PROCESSOR, LAUNCHES, LINK, ATTENTION = "processor", "launches", "link", "fused_mha"
NS = PS_PER_NS * S_PER_PS  # times are whole nanoseconds


class Layer(NamedTuple):
    """A layer: its spans, its time, the least time of its operations and of its bytes; products, and bytes moved; the
    time of launches, what devices sent one another, and how long that took with what it costs to begin."""

    spans: list[Span]
    time_ps: int
    compute_ps: int
    memory_ps: int
    macs: int
    moved_bytes: int
    launch_ps: int
    sent: Sent
    link_ps: int


class RooflineDevice:
    """`tp` processors that share each layer of a model and wait for their collectives; see `Device`."""

    most_requests: int | None = None
    in_order = False
    exact_steps = 4096

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        if share.fidelity != "physical":
            raise UserError(f"--fidelity {share.fidelity}: {system.name} is a roofline, it has no faults to turn on")
        self.system, self.spec, self.llm, self.share = system, system.of_kind(RooflineSystem), llm, share
        if share.weights is not None and llm.quantization is not None:
            raise UserError(
                f"--weights: {llm.name} is quantised already, as {llm.quantization.method}; leave it out, or set "
                "quantization_config to null in its config.json"
            )
        self._matrix_bits: Fraction | None = None if share.weights is None else share.weights.mean_bits
        self.groups = equal_layers(llm, range(share.layers))
        self.routing = expected(self.spec.routing)
        self.fabric = self.spec.fabric(share.tp, system.name)
        self.kernels = max(self.spec.kernels_per_layer - llm.parallel_attention, 0)  # one sum of input, attention, FFN

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """A roofline runs all."""
        return None

    def step(self, batch: Batch) -> Run:
        """Raises UserError if the batch does not fit."""
        share = self.share
        self.check(batch)
        by_layer = dict[int, Layer]()
        for group in self.groups:
            by_layer |= dict.fromkeys(group, self._layer(self.works(batch, group[0]), self.kernels))
        first, last = self.outside(batch)
        every, spans, at = [*first, *(by_layer[layer] for layer in range(share.layers)), *last], list[Span](), 0
        for one in every:
            spans += [Span(start + at, end + at, operator, resource) for start, end, operator, resource in one.spans]
            at += one.time_ps
        if batch.requests and not at:
            raise UserError(f"{self.system.name}: no operator takes 0.5 ns; lower peak_tflops or memory_gb_s")
        sent = reduce(Sent.plus, (one.sent for one in every), Sent())
        return Run(
            end_ps=at,
            spans=tuple(spans),
            interface_bytes=sum(one.moved_bytes for one in every),
            link_bytes=sent.all_bytes,
            macs=sum(one.macs for one in every),
            least_ps={
                "compute": sum(one.compute_ps for one in every),
                "memory bandwidth": sum(one.memory_ps for one in every),
                "launches": sum(one.launch_ps for one in every),
                "link": sum(one.link_ps for one in every),
            },
            device_j=self.joules(at, sent),
            devices=share.tp,
        )

    def macs(self, batch: Batch) -> int:
        """Products of all layers."""
        return sum(len(group) * sum(work.flops // 2 for work in self.works(batch, group[0])) for group in self.groups)

    def works(self, batch: Batch, layer: int) -> Iterator[Work]:
        """The operators of a layer; sparse attention of prompts, or of all, apart from what is left."""
        llm, tp, density = self.llm, self.share.tp, self.share.density
        batch = Batch(tuple(at._replace(phase="decode") if at.new == 1 else at for at in batch.requests))
        sparse = batch.of("prefill", "train") if density and density.prompts else batch
        for work in batch_work(llm, tp, batch, layer, self.routing):
            if density is None or work.name != ATTENTION:
                yield work
                continue
            full = Batch(tuple(at for at in batch.requests if at not in sparse.requests))
            for part, share in ((sparse, density.of_full), (full, 1.0)):
                if part.requests:
                    works = batch_work(llm, tp, part, layer, self.routing)
                    mine = next(each for each in works if each.name == ATTENTION)
                    parts_of = (mine.flops, mine.elements, mine.cached)
                    flops, elements, cached = (round(each * share) for each in parts_of)
                    yield mine._replace(flops=flops, elements=elements, cached=cached)

    def outside(self, batch: Batch) -> tuple[list[Layer], list[Layer]]:
        """What stands before and behind the layers, a kernel for each operator."""
        if not self.share.outside:
            return [], []
        found = outside(self.llm, batch, Shard(tp=self.share.tp))
        first, last = ([self._layer([alone(op)], op.kind not in LINKS) for op in some] for some in found)
        return first, last

    def _layer(self, made: Iterable[Work], kernels: int) -> Layer:
        gpu, spans, at, compute, memory, flops, total = self.spec, list[Span](), 0, 0, 0, 0, 0.0
        sent, on_links = Sent(), 0
        for work in made:
            if work.sends:
                one = self.sent(work.sends)
                took = self.link_ps(one)
                spans.append(Span(at, at + took, work.name, LINK))
                at, on_links, sent = at + took, on_links + took, sent.plus(one)
                continue
            moved = self.moved_bytes(work)
            operations_s, bytes_s = ceilings_s(gpu, work.flops, moved)
            took = _whole_ns(max(operations_s, bytes_s))
            compute += min(round(operations_s * PS_PER_S), took)
            memory += min(round(bytes_s * PS_PER_S), took)
            spans.append(Span(at, at + took, work.name, PROCESSOR))
            at, flops, total = at + took, flops + work.flops, total + moved
        if launch := self.launch_ps(kernels):
            spans.append(Span(at, at + launch, "kernel launch", LAUNCHES))
            at += launch
        return Layer(spans, at, compute, memory, flops // 2, round(total), launch, sent, on_links)

    def launch_ps(self, kernels: int) -> int:
        """Time to launch so many kernels [ps], in whole nanoseconds."""
        return round(kernels * self.spec.launch_us * PS_PER_US / PS_PER_NS) * PS_PER_NS

    def sent(self, op: Op) -> Sent:
        """Time [ps] and bytes of the messages of an operator's collective among all devices, without its fixed time."""
        assert self.fabric is not None
        return exchanged(self.fabric, op, self.spec.element_bits)

    def link_ps(self, sent: Sent) -> int:
        """Time that devices wait for a collective, [ps], in whole nanoseconds: its fixed time and its messages."""
        return _whole_ns((self.spec.collective_us or 0) * S_PER_US + sent.ps * S_PER_PS) if sent.ps else 0

    def joules(self, end_ps: int, sent: Sent) -> dict[str, float]:
        """Energy of one device by cause [J]. Its power includes the links of its board (NVLink is in the TDP), so their
        energy is a part of it. The energy of the network is added."""
        whole = self.spec.power_w * (end_ps * S_PER_PS)
        if self.fabric is None:
            return {"power x time": whole}
        near = sent._replace(far_bytes=0).pj(self.fabric) * J_PER_PJ / self.share.tp
        every = sent.pj(self.fabric) * J_PER_PJ / self.share.tp
        return {"power x time": max(whole - near, 0.0), "link": every}

    def work_ps(self, work: Work) -> int:
        """Time of an operator, in whole nanoseconds."""
        if work.sends:
            return self.link_ps(self.sent(work.sends))
        return _whole_ns(max(ceilings_s(self.spec, work.flops, self.moved_bytes(work))))

    def moved_bytes(self, work: Work) -> float:
        """Bytes that an operator reads and writes."""
        bits = work.bits(self.llm, self.spec.element_bits)
        narrow = 0 if self._matrix_bits is None else work.weights * (self.spec.element_bits - self._matrix_bits)
        return float(bits - narrow) / BITS_PER_BYTE if narrow else bits / BITS_PER_BYTE

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the batch fits."""
        gpu, share = self.spec, self.share
        ends, narrow = bool(share.outside), self._matrix_bits
        at = (self.llm, share.tp, share.layers, batch.contexts, gpu.element_bits, gpu.memory_bytes)
        check_memory(*at, ends=ends, matrix_bits=narrow)

    def capacity(self) -> Capacity:
        """Of one processor."""
        gpu, share, bits, narrow = self.spec, self.share, self.spec.element_bits, self._matrix_bits
        at, ends = (self.llm, share.tp, share.layers, bits), bool(share.outside)
        cache = layer_need(self.llm, ONE, Shard(tp=share.tp), share.layers).cache
        return Capacity(
            gpu.memory_bytes,
            weight_bytes(*at, ends=ends, matrix_bits=narrow),
            int(cache * self.llm.cache_bits(bits) // BITS_PER_BYTE),
            tokens_that_fit(*at, gpu.memory_bytes, ends=ends, matrix_bits=narrow),
        )


def _whole_ns(seconds: float) -> int:
    """In ps."""
    return round(seconds / NS) * PS_PER_NS


device = RooflineDevice
