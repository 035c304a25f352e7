"""A layer's operators as a composition runs them: each on its unit, attention by heads, experts over two units."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.composition import ALL, PEERS, ComposedSystem
from pimloom.arch.units import ceil_div
from pimloom.systems.devices.composed.price import Price, Unit
from pimloom.workload.batch import Batch
from pimloom.workload.op import LINKS, Op

CORE = ("score", "softcap", "softmax", "value")
EXPERTS = "mlp.experts."


class Node(NamedTuple):
    """An operator, or several that are priced as one, on a unit. after: names of other nodes, or of those that an
    operator was split into."""

    name: str
    ops: tuple[Op, ...]
    unit: str
    after: tuple[str, ...]
    price: Price


def phase_of(batch: Batch) -> str:
    """By which phase a step runs where it does: its prompts decide, then its verifications."""
    there = {at.phase for at in batch.requests}
    return next(phase for phase in ("prefill", "verify", "decode") if phase in there)


def key_of(op: Op, known: Mapping[str, object]) -> str | None:
    """Under which of a phase's keys an operator is found; None: under none."""
    special = {"lm_head": op.name.startswith("lm_head"), "experts": op.name.startswith(EXPERTS)}
    keys = [key for key, is_it in special.items() if is_it and op.kind == "gemm"]
    return next((key for key in (*keys, op.kind, ALL) if key in known), None)


def units_of(spec: ComposedSystem, phase: str, op: Op) -> tuple[str, ...]:
    """The unit of an operator, or the two that share the experts; none if the system names none."""
    if op.kind in LINKS:
        return (PEERS,)
    where = spec.runs.get(phase, {})
    key = key_of(op, where)
    if key is None:
        return ()
    found = where[key]
    return (found,) if isinstance(found, str) else found


class Plan:
    """How the operators of one phase become nodes."""

    def __init__(self, spec: ComposedSystem, units: Mapping[str, Unit], phase: str) -> None:
        self._spec, self._units, self._phase = spec, units, phase

    def nodes(self, ops: Sequence[Op]) -> Iterator[Node]:
        """The nodes of one layer, or of what stands before or behind all layers, in an order in which they can run."""
        together = self._fused(ops)
        split = [] if self._spec.how.heads == "whole" else self._chains(ops)
        dealt = self._dealt(ops)
        for op in ops:
            if op.name in together:
                if op.kind == "value":
                    yield self._node([each for each in ops if together.get(each.name) == op.name])
            elif chain := next((chain for chain in split if op in chain), None):
                if op is chain[-1]:
                    yield from self._by_heads(chain)
            elif op.name in dealt:
                if op.name == f"{EXPERTS}down_proj":
                    yield from self._by_expert([each for each in ops if each.name in dealt], dealt[op.name])
            else:
                yield self._node([op])

    def _node(self, ops: Sequence[Op], unit: str | None = None) -> Node:
        unit = unit or units_of(self._spec, self._phase, ops[0])[0]
        price = Price(0) if unit == PEERS else self._units[unit].price(ops)
        return Node(ops[-1].name, tuple(ops), unit, ops[0].after, price)

    def _chains(self, ops: Sequence[Op]) -> list[list[Op]]:
        """Scores to values, as often as there are; those that more than one unit runs and more than one head has."""
        named = {op.name: op for op in ops}
        every = [
            [named[name] for core in CORE if (name := op.name.replace("score", core)) in named]
            for op in ops
            if op.kind == "score"
        ]
        return [
            chain
            for chain in every
            if chain[0].kv_heads > 1 and len({units_of(self._spec, self._phase, op) for op in chain}) > 1
        ]

    def _fused(self, ops: Sequence[Op]) -> dict[str, str]:
        """Operators of attention that one unit runs as one -> the last of them."""
        found: dict[str, str] = {}
        for op in ops:
            if op.kind != "score":
                continue
            core = [each for each in ops if each.name in [op.name.replace("score", name) for name in CORE]]
            units = {units_of(self._spec, self._phase, each) for each in core}
            if len(units) == 1 and self._units[units.pop()[0]].fuses:
                found |= dict.fromkeys([each.name for each in core], core[-1].name)
        return found

    def _by_heads(self, chain: Sequence[Op]) -> Iterator[Node]:
        """Groups of heads of keys, as large as the units of the chain work on at once."""
        requests, kv_heads = len(chain[0].requests), chain[0].kv_heads
        most = max(self._units[units_of(self._spec, self._phase, op)[0]].heads for op in chain)
        size = min(ceil_div(most, requests), kv_heads)
        for i in range(ceil_div(kv_heads, size)):
            here = min(size, kv_heads - i * size)
            before = chain[0].after
            for op in chain:
                node = self._node([_heads_of(op, here, kv_heads)])
                yield node._replace(name=f"{op.name}[{i}]", after=before)
                before = (f"{op.name}[{i}]",)

    def _dealt(self, ops: Sequence[Op]) -> dict[str, tuple[str, ...]]:
        """Operators of experts that two units share -> these."""
        mine = [op for op in ops if op.name.startswith(EXPERTS) and op.each]
        found = [units_of(self._spec, self._phase, op) for op in mine if op.kind == "gemm"]
        return {op.name: found[0] for op in mine} if found and len(found[0]) > 1 else {}

    def _by_expert(self, ops: Sequence[Op], units: tuple[str, ...]) -> Iterator[Node]:
        """The experts with most tokens first, each to the unit that is then done first with all of its own."""
        rows = ops[0].each
        dealt: list[list[int]] = [[] for _ in units]
        for i in sorted(range(len(rows)), key=lambda i: (-rows[i], i)):
            then = [self._gemms_ps(ops, [*dealt[u], i], unit) for u, unit in enumerate(units)]
            u = min(range(len(units)), key=lambda u: then[u])
            dealt[u].append(i)
        for unit, experts in zip(units, dealt, strict=True):
            before = ops[0].after
            for op in _of_experts(ops, experts) if experts else ():
                node = self._node([op], unit if op.kind == "gemm" else None)
                yield node._replace(name=f"{op.name}[{unit}]", after=before)
                before = (f"{op.name}[{unit}]",)

    def _gemms_ps(self, ops: Sequence[Op], experts: Sequence[int], unit: str) -> int:
        """Time of the products of some experts on a unit."""
        return sum(self._units[unit].price([op]).ps for op in _of_experts(ops, experts) if op.kind == "gemm")


def _of_experts(ops: Sequence[Op], experts: Sequence[int]) -> list[Op]:
    """The operators of some of the experts."""
    rows = tuple(ops[0].each[i] for i in sorted(experts))
    return [replace(op, rows=sum(rows), each=rows, held=0) for op in ops]


def _heads_of(op: Op, here: int, kv_heads: int) -> Op:
    """An operator of attention for so many of its heads of keys."""
    if op.kind == "activation":  # soft cap: a column for each query head
        return replace(op, n_in=op.n_in // kv_heads * here, n_out=op.n_out // kv_heads * here)
    heads = op.heads // kv_heads * here
    return replace(op, heads=heads, kv_heads=here, held=heads if op.held else 0)
