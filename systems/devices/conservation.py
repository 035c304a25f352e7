"""Checks that run in every simulation: what goes in comes out, what is counted twice agrees, nothing is NaN."""

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from pimloom.arch.command import ACCESSES, POSTPONED_MAX, SENDS, Role
from pimloom.arch.part import Part
from pimloom.arch.program import PimStep
from pimloom.arch.table import Table
from pimloom.arch.units import J_PER_PJ, ceil_div
from pimloom.cycle_sim.machine import Outcome
from pimloom.mappers.decode import PRODUCTS
from pimloom.mappers.layout import Packed
from pimloom.mappers.plan import Plan
from pimloom.systems.devices.result import Result


class ConservationError(ArithmeticError):
    """Two counts of the same thing differ: a fault of the model, never a result."""


def check_conservation(
    table: Table,
    part: Part,
    mapped: Plan,
    out: Outcome,
    bank: Counter[str],
    channels: int,
    refresh: bool,
    generated: int,
) -> None:
    """Raise ConservationError unless a finished run, which generated so many tokens, adds up.

    Column accesses = hits + misses, recounted stream by stream; weight columns read = weight columns placed; elements
    sent and received are those of the model and fit, step by step, the bursts that carried them; step times fill the
    latency; refreshes fit the time.
    """
    _same("time of all steps [ps]", out.time_ps.total(), out.end_ps)
    accesses, misses = table.total(bank, ACCESSES), table.total(bank, {Role.ACTIVATE})
    opens, access = table.having(Role.ACTIVATE), table.having(*ACCESSES)
    hits = sum(_hits(step, opens, access) * out.executions[key] for key, step in out.steps.items())
    _same("column accesses and row hits + misses", accesses, hits + misses)
    for name, (layout, runs) in _matrices(mapped, generated).items():
        key, step = next((key, step) for key, step in out.steps.items() if step.name == name)
        _same(f"{name}: runs", out.executions[key], runs)
        _same(f"{name}: columns read and placed", _count(step, table.having(Role.MULTIPLY)), _columns(layout))
        _same(f"{name}: operand bursts", _count(step, table.having(Role.LOAD)), sum(layout.chunks) // mapped.geo.lane)
        results = layout.slots * len(layout.chunks) * mapped.geo.bursts
        _same(f"{name}: results", _count(step, table.having(Role.RESULTS)), results)
    _check_moved(table, mapped, out, channels, generated)
    due = out.end_ps // (table.rules.refi * part.tCK_ps) if refresh else 0
    if not max(due - POSTPONED_MAX, 0) <= out.refreshes <= due:
        raise ConservationError(f"{out.refreshes} refreshes, but {due} fell due")
    if out.end_ps <= 0:
        raise ConservationError(f"the latency is {out.end_ps} ps, though work was done")


def _check_moved(table: Table, mapped: Plan, out: Outcome, channels: int, generated: int) -> None:
    """What had to cross the interface did: each step's bursts have room for its values, and those are all there are."""
    sent, received = Counter[str](), Counter[str]()
    sends, returns = table.having(*SENDS), table.having(Role.RESULTS)
    for key, step in out.steps.items():
        values = out.executions[key] * (1 if step.one_channel else channels) * mapped.geo.lane
        sent[step.name] += values * _count(step, sends)
        received[step.name] += values * _count(step, returns)
    for what, needed, carried in (("sent", out.sent_values, sent), ("received", out.received_values, received)):
        for name, n in needed.items():
            if n > carried[name]:
                raise ConservationError(f"{name}: {n} values {what}, but its bursts carried {carried[name]}")
    inputs, results = _needed(mapped, channels, generated)
    _same("values sent", out.sent_values.total(), inputs)
    _same("values received", out.received_values.total(), results)


def _needed(mapped: Plan, channels: int, generated: int) -> tuple[int, int]:
    """Values that a run sends and receives: x to every channel, K, V and p once; results with their partial sums."""
    spec, tokens, matrices = mapped.spec, mapped.tokens, _matrices(mapped, generated).values()
    inputs = channels * sum(runs * w.n_in for w, runs in matrices)
    results = sum(runs * w.n_out * len(w.chunks) for w, runs in matrices)
    for window, layers in Counter(map(spec.window_of, range(spec.num_hidden_layers))).items():
        seen = [min(t, window or t) for t in range(1, tokens + 1)]
        probabilities = spec.num_attention_heads * sum(seen)
        inputs += layers * (tokens * (channels * mapped.q_dim + 2 * mapped.kv_dim) + probabilities)
        results += layers * (probabilities + mapped.q_dim * sum(ceil_div(n, mapped.geo.row) for n in seen))
    return inputs, results


def check_energy(result: Result, each_pj: Mapping[str, Mapping[str, float]]) -> None:
    """Raise ConservationError unless commands × pJ, recounted, are the ledger, and no cause with commands is free.

    each_pj: command -> cause -> pJ. Background and ASIC energy, which are power × time, are left out.
    """
    counts, ledger = result.command_counts or {}, result.energy_by_cause_j or {}
    for cause in {cause for causes in each_pj.values() for cause in causes}:
        worked = [(n, each_pj[name][cause]) for name, n in counts.items() if cause in each_pj.get(name, {})]
        pj = math.fsum(n * each for n, each in worked)
        if not math.isclose(pj * J_PER_PJ, ledger[cause], rel_tol=1e-9):
            raise ConservationError(f"energy of {cause}: {pj * J_PER_PJ} J is not {ledger[cause]} J")
        if worked and pj <= 0:
            raise ConservationError(f"energy of {cause} is {pj} pJ for {sum(n for n, _ in worked)} commands")


def _same(what: str, one: int, other: int) -> None:
    if one != other:
        raise ConservationError(f"{what}: {one} is not {other}")


def _matrices(mapped: Plan, generated: int) -> dict[str, tuple[Packed, int]]:
    """A matrix of each name, and how many products of it there are: of experts those of the tokens that go to them, of
    the LM head one for each `generated` token."""
    found: dict[str, tuple[Packed, int]] = {}
    for kind, layers in Counter(mapped.kinds.values()).items():
        for operator, (layout, *others) in mapped.layer(kind).matrices.items():
            used = mapped.spec.num_experts_per_tok if others else 1
            name, _ = PRODUCTS[operator]
            found[name] = layout, found.get(name, (layout, 0))[1] + layers * used * mapped.tokens
    return found | ({"LM head": (mapped.head, generated)} if mapped.head else {})


def _columns(layout: Packed) -> int:
    return layout.slots * sum(layout.chunks) // layout.geo.lane


def _count(step: PimStep, which: np.ndarray) -> int:
    """Commands of these opcodes, bool[opcodes]."""
    return int(step.stream["count"][which[step.stream["cmd"]]].sum())


def _hits(step: PimStep, opens: np.ndarray, access: np.ndarray) -> int:
    """Column accesses that find their row already used: all but the first behind each row opening."""
    accesses = access[step.stream["cmd"]]
    row_of = np.cumsum(opens[step.stream["cmd"]])[accesses]
    counts = step.stream["count"][accesses]
    first = np.flatnonzero(np.diff(row_of, prepend=0))
    return int(counts.sum()) - len(first)
