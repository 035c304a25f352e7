"""Checks that run in every simulation: what goes in comes out, what is counted twice agrees, nothing is NaN."""

from collections import Counter

import numpy as np

from pimloom.arch.part import Part
from pimloom.arch.program import PimStep
from pimloom.arch.table import Table
from pimloom.cycle_sim.machine import Outcome
from pimloom.mappers.decode import Plan
from pimloom.mappers.layout import Packed


class ConservationError(ArithmeticError):
    """Two counts of the same thing differ: a fault of the model, never a result."""


def check_conservation(table: Table, part: Part, mapped: Plan, out: Outcome, bank: Counter[str]) -> None:
    """Raise ConservationError unless a finished run adds up.

    Column accesses = hits + misses, recounted stream by stream; weight columns read = weight columns placed; elements
    sent and received fit the bursts that carried them; step times fill the latency; refreshes fit the time.
    """
    _same("time of all steps [ps]", out.time_ps.total(), out.end_ps)
    accesses = bank["MACab"] + bank["WR"] + bank["WRAab"]
    hits = sum(_hits(table, step) * out.executions[key] for key, step in out.steps.items())
    _same("column accesses and row hits + misses", accesses, hits + bank["ACTab"] + bank["ACT"])
    for name, layout in _matrices(mapped).items():
        step = next(step for step in out.steps.values() if step.name == name)
        _same(f"{name}: columns read and placed", _count(table, step, "MACab"), _columns(layout))
        _same(f"{name}: operand bursts", _count(table, step, "WRGB"), sum(layout.chunks) // mapped.geo.lane)
        _same(f"{name}: results", _count(table, step, "RDMAC"), layout.slots * len(layout.chunks))
    if out.refreshes:
        due = out.end_ps // (table.rules.refi * part.tCK_ps)
        if not due - 9 <= out.refreshes <= due:
            raise ConservationError(f"{out.refreshes} refreshes, but {due} fell due")
    for name, value in {"latency [ps]": out.end_ps, "values moved": out.sent_values + out.received_values}.items():
        if value <= 0:
            raise ConservationError(f"{name} is {value}, though work was done")


def _same(what: str, one: int, other: int) -> None:
    if one != other:
        raise ConservationError(f"{what}: {one} is not {other}")


def _matrices(mapped: Plan) -> dict[str, Packed]:
    layer = mapped.layer()
    found = dict(zip(("QKV", "projection", "FFN1", "FFN2"), layer.weights, strict=True))
    return found | ({"LM head": mapped.head} if mapped.head else {})


def _columns(layout: Packed) -> int:
    return layout.slots * sum(layout.chunks) // layout.geo.lane


def _count(table: Table, step: PimStep, command: str) -> int:
    return int(step.stream["count"][step.stream["cmd"] == table.cmd(command)].sum())


def _hits(table: Table, step: PimStep) -> int:
    """Column accesses that find their row already used: all but the first behind each row opening."""
    opens = np.isin(step.stream["cmd"], [table.cmd(name) for name in ("ACT", "ACTab")])
    access = np.isin(step.stream["cmd"], [table.cmd(name) for name in ("MACab", "WR", "WRAab")])
    row_of = np.cumsum(opens)[access]
    counts = step.stream["count"][access]
    first = np.flatnonzero(np.diff(row_of, prepend=0))
    return int(counts.sum()) - len(first)
