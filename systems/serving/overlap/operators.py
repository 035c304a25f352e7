"""A layer's operators as chains of tasks on a processor at its roofline, with what its devices send one another."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.units import PS_PER_S, ceil_div
from pimloom.cycle_sim.link import Sent
from pimloom.cycle_sim.roofline import ceilings_s
from pimloom.systems.devices.npu_pim.gpu import Work
from pimloom.systems.devices.npu_pim.parts import FREE, on_device, parts_of
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.serving.overlap.listing import Task
from pimloom.systems.serving.overlap.waves import Units, beside, padding
from pimloom.workload.batch import Batch
from pimloom.workload.derive import equal_layers, layer_ops
from pimloom.workload.op import LINKS, Op
from pimloom.workload.shard import Shard

COMPUTE = "compute"  # all that a woven part does between two collectives
FUSED = ("norm", "residual")  # what a fused collective does on its way [secondary: TokenWeave]


class Talk(NamedTuple):
    """What the devices of a group send one another: how long, and what; norms: whether the norm behind it is in that
    time."""

    ps: int
    sent: Sent = Sent()
    norms: bool = False


class Chain(NamedTuple):
    """Operators of layers; ready: of each layer the last one before its attention; bytes of memory, of one device, and
    over links."""

    tasks: list[Task]
    ready: list[int]
    moved_bytes: float
    sent: Sent


class Weave(NamedTuple):
    """TokenWeave's units; whole: tokens of all parts, beside whose tiles those of a part count, as a roofline has none;
    None: they count by themselves."""

    units: Units
    whole: int | None


class Named(NamedTuple):
    """An operator; op: its shape, None: attention; groups: products that run at once, of experts."""

    work: Work
    op: Op | None = None
    groups: int = 1


class Made(NamedTuple):
    """What becomes of an operator in every layer that is like its own."""

    named: Named
    moved_bytes: float
    task: Task


Said = Callable[[Op], Talk]  # what devices send one another


def works_of(device: RooflineDevice, batch: Batch, layer: int) -> Iterator[Named | Op]:
    """A layer's operators in order; what goes over links is an `Op` alone."""
    parts = parts_of(layer_ops(device.llm, batch, Shard(tp=device.share.tp), layer, routing=device.routing))
    works = [work for work in device.works(batch, layer) if not work.sends]
    before, behind = list(on_device(parts.before)), list(on_device(parts.behind))
    yield from (Named(work, op) for work, op in zip(works, before, strict=False))
    yield from (Named(work) for work in works[len(before) : len(works) - len(behind)])
    left = deque(zip(works[len(works) - len(behind) :], behind, strict=True))
    for experts, some in groupby(parts.behind, lambda op: len(op.each)):
        ops = list(some)
        for op in [] if experts else ops:
            if op.kind in LINKS:
                yield op
            elif op.kind not in FREE:
                work, op = left.popleft()
                groups = max(round(op.busy), 1)  # experts that run at once, each with its part of the tokens
                yield Named(work, replace(op, rows=ceil_div(op.rows, groups)), groups)
        for _ in range(len(ops) * experts):
            yield Named(*left.popleft(), groups=experts)


def over(device: RooflineDevice) -> Said:
    """Time and bytes of the collective of an operator over the links of these devices."""

    def sent_over(op: Op) -> Talk:
        sent = device.sent(op)
        return Talk(device.link_ps(sent), sent)

    return sent_over


def chain_of(
    device: RooflineDevice,
    batch: Batch,
    sent_over: Said,
    weave: Weave | None = None,
    follows: Chain | None = None,
) -> Chain:
    """All layers. weave: as TokenWeave has it; follows: the chain of the part before,
    whose prompt goes on here."""
    tasks, ready, moved, sent, llm = list[Task](), list[int](), 0.0, Sent(), device.llm
    launch = device.launch_ps(device.kernels)
    alike = {layer: group[0] for group in equal_layers(llm, range(device.share.layers)) for layer in group}
    known, rows = dict[int, list[Op | Made]](), batch.rows

    def made_of(each: Named) -> Made:
        return Made(each, device.moved_bytes(each.work), _task(device, each, rows, weave))

    for layer in range(device.share.layers):
        if (first := alike[layer]) not in known:
            known[first] = [each if isinstance(each, Op) else made_of(each) for each in works_of(device, batch, first)]
        fused = within = False
        for one in known[first]:
            if isinstance(one, Op):
                talk = sent_over(one)
                sent = sent.plus(talk.sent)
                tasks.append(Task("all-reduce", float(talk.ps), (0.0, 0.0, 1.0, 0.0)))
                fused, within = weave is not None, talk.norms
                continue
            each, made = one.named, one.task
            moved += one.moved_bytes
            if fused and each.work.name in FUSED:
                more = 0.0 if within else device.work_ps(each.work) / device.share.tp
                tasks[-1] = tasks[-1]._replace(alone=tasks[-1].alone + more)
                continue
            fused = False
            attends = each.op is None and len(ready) == layer
            if weave is not None and tasks and tasks[-1].name == COMPUTE:  # up to a collective they are one turn
                tasks[-1] = tasks[-1]._replace(alone=tasks[-1].alone + made.alone)
            else:
                tasks.append(made if weave is None else made._replace(name=COMPUTE))
            if attends:
                ready.append(len(tasks) - 1 - (weave is None))
                tasks[-1] = tasks[-1]._replace(after=None if follows is None else follows.ready[layer])
        if launch:
            tasks.append(Task("kernel launch", float(launch), (0.0, 0.0, 0.0, 1.0)))
    return Chain(tasks, ready, moved, sent)


def _task(device: RooflineDevice, each: Named, rows: int, weave: Weave | None) -> Task:
    work, op = each.work, each.op
    compute_s, memory_s = ceilings_s(device.spec, work.flops, device.moved_bytes(work))
    if weave is None:
        alone = float(device.work_ps(work))
        shares = [min(s * PS_PER_S / alone, 1.0) if alone else 0.0 for s in (compute_s, memory_s)]
        return Task(work.name, alone, (*shares, 0.0, 0.0))
    units, whole = weave
    slower = units.all / (units.all - units.collective)
    if op is not None and op.kind == "gemm" and op.rows:
        if whole is None:
            slower *= padding(op.rows, op.n_out, units.all - units.collective, each.groups)
        else:
            slower = beside(op.rows, round(op.rows * whole / rows), op.n_out, units, each.groups)
    return Task(work.name, max(compute_s * slower, memory_s) * PS_PER_S, (1.0, 0.0, 0.0, 0.0))  # units are its own


def total(chains: Sequence[Chain]) -> tuple[float, Sent]:
    """Bytes of memory, and what goes over links, of all."""
    return sum(one.moved_bytes for one in chains), reduce(Sent.plus, (one.sent for one in chains), Sent())
