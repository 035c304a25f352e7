"""Equal requests of a design point from their prompts on, as `pimloom run` has them."""

from typing import Any

from msgspec.structs import asdict

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.sweeping.point.workload import Work
from pimloom.systems.devices.area import area_by_part_mm2, area_mm2, of_devices
from pimloom.systems.devices.traits import traits
from pimloom.systems.serving.generation import generate
from pimloom.systems.serving.stepping import CHUNK, Wanted


def from_prompts(system: System, llm: LlmSpec, work: Work) -> tuple[dict[str, Any], str]:
    """Results by the name of their field, and the digest of what decides them. Raises UserError."""
    if work.pp > 1:
        raise UserError(f"workload.pp: prompts of {system.name} are simulated without pipelines, got {work.pp}")
    if work.fidelity == "released" and (work.prompt or not traits(system.kind).released):
        raise UserError(f"workload.fidelity: no simulator of {system.name} computes prompts; expected physical")
    if (layers := work.layers or llm.num_hidden_layers) > llm.num_hidden_layers:
        raise UserError(f"workload.layers: expected 1 to {llm.num_hidden_layers}, the layers of {llm.name}")
    found = generate(
        system,
        llm,
        Wanted(
            batch=work.batch or 1,
            prompt=work.prompt,
            generate=work.generate,
            chunk=work.chunk or CHUNK,
            every=work.every,
            tp=work.tp if work.tp > 1 else traits(system.kind).own_devices(system),
            layers=layers,
            fidelity=work.fidelity,
            outside=work.lm_head,
        ),
    )
    values = asdict(found)
    one = area_mm2(system)
    values["area_mm2"] = None if one is None else one * work.tp
    values["area_by_part_mm2"] = of_devices(area_by_part_mm2(system), work.tp)
    return values, found.spec_digest
