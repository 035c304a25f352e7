"""Nodes of a step as tasks on units and links: what waits for what, and what crosses a link."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pimloom.arch.composition import PEERS, ComposedSystem, Wire
from pimloom.arch.error import UserError
from pimloom.arch.link import Fabric, Link
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.cycle_sim.link import bits_ps, latency_ps
from pimloom.systems.devices.composed.nodes import Node
from pimloom.systems.devices.composed.price import Price
from pimloom.systems.devices.composed.timeline import Task
from pimloom.systems.devices.npu_pim.exchange import exchanged
from pimloom.workload.batch import seen
from pimloom.workload.op import Op


class Made(NamedTuple):
    """What a task left: activations of so many bytes in a memory. inputs: of what it was made."""

    task: int
    kind: str
    memory: str
    written_bytes: int
    inputs: tuple["Made", ...]


class Work(NamedTuple):
    """A task, what it is called, its place among those of its step, its price, and what it sends over which link."""

    task: Task
    name: str
    order: tuple[int, ...]
    price: Price
    link: str = ""
    link_bytes: int = 0


@dataclass
class Flow:
    """The tasks of one part of a batch, in the order in which they are added. home: the memory of keys and values;
    part: its number among those that take turns; where: how an error names the links;
    devices: those that share the model."""

    spec: ComposedSystem
    where: str
    home: str
    part: int
    devices: int
    work: list[Work]
    _before: tuple[Made, ...] = ()
    _segment: int = 0
    _sent: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    _sent_bytes: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, nodes: Sequence[Node]) -> None:
        """A layer, or what stands before or behind all of them: it waits for what was added before."""
        made: dict[str, Made] = {}
        by_name: dict[str, list[str]] = {}
        waited = set[str]()
        for place, node in enumerate(nodes):
            by_name.setdefault(node.name.partition("[")[0], []).append(node.name)
            by_name.setdefault(node.name, [node.name])
            after = [name for wanted in node.after for name in by_name[wanted]]
            waited.update(after)
            direct = [made[name] for name in after] or list(self._before)
            made[node.name] = self._one(node, direct, (self._segment, place, self.part))
        self._before = tuple(one for name, one in made.items() if name not in waited)
        self._segment += 1

    def _one(self, node: Node, direct: Sequence[Made], order: tuple[int, ...]) -> Made:
        inputs = tuple(_inputs(direct))
        memory = self.spec.units[node.unit].memory if node.unit != PEERS else direct[0].memory
        after = {one.task for one in self._waited(node, direct, memory)}
        left = _bytes(node.ops[0].moved.read, node.ops[0])
        for source in inputs:
            taken = min(left, source.written_bytes)
            left -= taken
            if taken and source.memory != memory:
                after.update(self._send(source, memory, taken, order))
        cached = sum(_bytes(_before_the_step(op), op) for op in node.ops)
        if cached and memory != self.home:
            after.add(self._over(self.home, memory, cached, tuple(sorted(after)), "cache", order))
        op, price, lag, link, sent = node.ops[-1], node.price, 0, "", 0
        if node.unit == PEERS:
            assert self.spec.peers is not None
            passed = exchanged(Fabric(self.spec.peers), op)
            price, link, sent = Price(passed.ps), PEERS, passed.all_bytes
        task = Task(node.unit, price.ps, tuple(sorted(after)), lag)
        name = node.name.partition("[")[0] if len(node.ops) == 1 else "self_attn.attention"
        self.work.append(Work(task, name, order, price, link, sent))
        return Made(len(self.work) - 1, op.kind, memory, _bytes(op.moved.written, op), inputs)

    def _waited(self, node: Node, direct: Sequence[Made], memory: str) -> Iterable[Made]:
        """What must have ended before. The cache of this step need not be written for what takes new tokens from what
        made them, and those before them over a link."""
        here = memory == self.home or any(op.moved.cache_read and not op.requests for op in node.ops)
        for one in direct:
            yield from one.inputs if one.kind == "cache_write" and not here else (one,)

    def _send(self, source: Made, memory: str, wanted: int, order: tuple[int, ...]) -> list[int]:
        """What a task made crosses once, whoever wants it; all crossings of it so far."""
        key = source.task, memory
        done, gone = self._sent.setdefault(key, []), self._sent_bytes.get(key, 0)
        if (n := min(wanted, source.written_bytes - gone)) > 0:
            done.append(self._over(source.memory, memory, n, (source.task,), "activations", order))
            self._sent_bytes[key] = gone + n
        return done

    def _over(
        self, one: str, other: str, n_bytes: int, after: tuple[int, ...], what: str, order: tuple[int, ...]
    ) -> int:
        name, wire = wire_between(self.spec, self.where, one, other)
        link = Link(wire.gbps, wire.latency_ns, wire.pj_per_bit or 0, "ring")
        task = Task(f"{name} to {other}", bits_ps(link, n_bytes), after, latency_ps(link))
        self.work.append(Work(task, what, order, Price(task.ps), name, n_bytes))
        return len(self.work) - 1


def wire_between(spec: ComposedSystem, where: str, one: str, other: str) -> tuple[str, Wire]:
    """The link of two memories. Raises UserError if there is none."""
    for name, wire in spec.links.items():
        if {*wire.between} == {one, other}:
            return name, wire
    raise UserError(
        f"{where}: units of {one} and {other} exchange data and no link joins these memories; add one below links, or "
        "let these operators run on units of one memory"
    )


def _inputs(direct: Iterable[Made]) -> Iterable[Made]:
    """What holds the activations that an operator reads: writing the cache leaves none, and behind the choice of
    experts stands what it was made from."""
    for one in direct:
        if one.kind == "cache_write":
            yield from one.inputs
            continue
        yield one
        if one.kind == "router":
            yield from (source for gate in one.inputs for source in gate.inputs)


def _before_the_step(op: Op) -> int:
    """Elements of the cache that it reads of tokens before this step: the others come from what made them."""
    if not op.requests or not op.moved.cache_read:
        return op.moved.cache_read
    return op.kv_heads * op.head_dim * sum(max(seen(at, op.window) - at.new, 0) for at in op.requests)


def _bytes(elements: int, op: Op) -> int:
    return ceil_div(elements * op.bits.activation, BITS_PER_BYTE)


def joined(flows: Sequence[Sequence[Work]], serial: bool) -> list[Work]:
    """The tasks of all parts of a batch in one list: layer by layer, of each operator the parts in turn."""
    order = sorted((work.order, part, i) for part, works in enumerate(flows) for i, work in enumerate(works))
    place = {(part, i): n for n, (_, part, i) in enumerate(order)}
    found = []
    for n, (_, part, i) in enumerate(order):
        work = flows[part][i]
        after = {place[part, before] for before in work.task.after} | ({n - 1} if serial and n else set())
        found.append(work._replace(task=work.task._replace(after=tuple(sorted(after)))))
    return found
