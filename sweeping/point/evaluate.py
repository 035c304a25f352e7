"""A design point becomes a row: resolve the system, simulate, and say what came out, or why nothing did."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from pimloom.arch.error import UserError, one_line
from pimloom.arch.llm import LlmSpec
from pimloom.cycle_sim.runs import Known, Run
from pimloom.sweeping.definition.sweep import Scalar
from pimloom.sweeping.point.code import code_digest
from pimloom.sweeping.point.decode import decode
from pimloom.sweeping.point.own import own_result
from pimloom.sweeping.point.prompts import from_prompts
from pimloom.sweeping.point.results import cells_of, flat
from pimloom.sweeping.point.row import Outcome, Row, row_of
from pimloom.sweeping.point.serving import Own, served_point
from pimloom.sweeping.point.shared import Base, resolved
from pimloom.sweeping.point.workload import Work
from pimloom.systems.devices.area import area_by_part_mm2, area_mm2
from pimloom.systems.devices.positions import positions
from pimloom.systems.devices.simulate import simulate
from pimloom.systems.devices.traits import traits


class Found(NamedTuple):
    """The row of a point, and the runs of command streams that were computed for it: (key, seven integers)."""

    row: Row
    steps: list[tuple[bytes, Run]]


def evaluate(base: Base, point: Mapping[str, Scalar], known: Known | None = None) -> Found:
    """The row of a point; a fault of it is a row with `error`. Never raises an Exception.

    known: runs of command streams, which one process keeps for all its points; what the point adds to them is in
    `steps`, too, and `known.add(steps)` takes it in elsewhere. It saves time and changes nothing.
    """
    began, error, found = time.perf_counter(), None, None
    known = known or Known()
    try:
        found = _simulated(*base.of(point), known)
    except UserError as said:
        error = one_line(said)
    except Exception as fault:
        error = one_line(f"{type(fault).__name__}: {fault}")
    steps, known.new = known.new, []
    return Found(row_of(base, point, found, error, time.perf_counter() - began), steps)


def _simulated(base: Base, point: Mapping[str, Scalar], known: Known) -> Outcome:
    if base.code != code_digest():
        raise UserError(f"this worker runs other code ({code_digest()}) than the sweep ({base.code}): install the same")
    if base.served:
        keys = base.given(point)
        work, is_set = Work(str(keys["model"])), bool(base.settings(point))
        own = Own(lambda more: resolved(base, point, work, more), is_set)
        return Outcome(*served_point(own, base.models[work.model], keys, base.traces, base.seed))
    work = base.work(point)
    system, model = resolved(base, point, work), base.models[work.model]
    if work.requests is None and not traits(base.kind).beyond:
        _check_positions(model, work, computed=not base.decodes)
    if base.own or base.prompts:
        values, digest = (
            own_result(system, model, base.given(point), base.settings(point))
            if base.own
            else from_prompts(system, model, work)
        )
        more = {"lm_head": int(values["lm_head"]), **cells_of(values["energy_by_cell"])}
        return Outcome(_flat(values) | more, digest)
    if base.decodes:
        given = base.requests[work.requests] if work.requests else None
        values, digest = decode(system, model, work, given, base.seed)
        return Outcome(values | {"lm_head": 0}, digest)
    if work.batch not in (None, 1):
        raise UserError(f"workload.batch: {system.name} runs one sequence at a time, got {work.batch}")
    result = simulate(system, model, work.generate, seed=base.seed, prompt=work.prompt, known=known)
    values = _flat(result.as_dict()) | {"lm_head": int(result.workload.lm_head), **cells_of(result.energy_by_cell)}
    if system.part is not None:
        values["area_mm2"] = area_mm2(system)
        values |= _flat({"area_by_part_mm2": area_by_part_mm2(system)})
    return Outcome(values, result.spec_digest)


def _check_positions(llm: LlmSpec, work: Work, *, computed: bool) -> None:
    """Raise UserError for more tokens than the model has positions for. computed: prompts are, and with them
    comes the first token."""
    longest = positions(work.prompt, work.generate) if computed else work.prompt + work.generate
    if work.context is not None and work.context > llm.max_position_embeddings:
        said = f"{llm.name} has positions for {llm.max_position_embeddings:,} tokens; take fewer"
        raise UserError(f"workload.context {work.context}: {said}")
    if longest > llm.max_position_embeddings:
        raise UserError(
            f"workload.prompt {work.prompt}, workload.generate {work.generate}: {llm.name} has positions for "
            f"{llm.max_position_embeddings:,} tokens; take fewer"
        )


def _flat(result: Mapping[str, Any]) -> dict[str, float | int | str | None]:
    """The numbers of a result, those of its parts as `energy_by_cause_j.mac`; cells of energy have sources, too."""
    found: dict[str, float | int | str | None] = {}
    for name, value in result.items():
        if name == "energy_by_cell":
            continue
        if isinstance(value, Mapping):
            found |= {f"{name}.{flat(key)}": each for key, each in value.items()}
        else:
            found[name] = value
    return found
