"""A design point becomes a row: resolve the system, simulate, and say what came out, or why nothing did."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from pimloom.arch.error import UserError, one_line
from pimloom.reports.result import Result
from pimloom.reports.simulate import simulate
from pimloom.sweeping.definition.sweep import Scalar
from pimloom.sweeping.point.base import Base, resolved
from pimloom.sweeping.point.code import code_digest
from pimloom.sweeping.point.decode import decode
from pimloom.sweeping.point.results import flat
from pimloom.sweeping.point.row import Outcome, Row, row_of


class Found(NamedTuple):
    """The row of a point, and the sub-problems that were computed for it and not known before."""

    row: Row
    steps: list[Any]


def evaluate(base: Base, point: Mapping[str, Scalar], known: Any = None) -> Found:
    """The row of a point; a fault of it is a row with `error`. Never raises an Exception.

    known: sub-problems that are computed already.
    """
    began, error, found, steps = time.perf_counter(), None, None, list[Any]()
    try:
        found = _simulated(base, point, known, steps)
    except UserError as said:
        error = one_line(said)
    except Exception as fault:
        error = one_line(f"{type(fault).__name__}: {fault}")
    return Found(row_of(base, point, found, error, time.perf_counter() - began), steps)


def _simulated(base: Base, point: Mapping[str, Scalar], known: Any, steps: list[Any]) -> Outcome:
    if base.code != code_digest():
        raise UserError(f"this worker runs other code ({code_digest()}) than the sweep ({base.code}): install the same")
    work = base.work(point)
    system, model = resolved(base, point, work), base.models[work.model]
    if base.kind == "npu_pim" or base.kind == "roofline" and base.batched:
        given = base.requests[work.requests] if work.requests else None
        return Outcome(*decode(system, model, work, given, base.seed))
    if work.batch not in (None, 1):
        raise UserError(f"workload.batch: {system.name} runs one sequence at a time, got {work.batch}")
    result = simulate(system, model, work.generate, seed=base.seed, prompt=work.prompt)
    return Outcome(_flat(result), result.spec_digest)


def _flat(result: Result) -> dict[str, float | int | None]:
    """The numbers of a result, those of its parts as `energy_by_cause_j.mac`."""
    found: dict[str, float | int | None] = {}
    for name, value in result.as_dict().items():
        if isinstance(value, dict):
            found |= {f"{name}.{flat(key)}": each for key, each in value.items()}
        else:
            found[name] = value
    return found
