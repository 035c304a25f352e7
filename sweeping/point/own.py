"""A design point of a system whose runs have results of their own, as `pimloom run` has them."""

import re
from collections.abc import Mapping
from math import fsum
from typing import Any

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.sweeping.definition.sweep import Scalar
from pimloom.sweeping.point.workload import KEYS
from pimloom.systems.asked import Asked
from pimloom.systems.devices.attacc.asked import box_work
from pimloom.systems.devices.attacc.outcome import AttAccOutcome
from pimloom.systems.devices.cent.asked import request_work
from pimloom.systems.devices.cent.outcome import CentOutcome, shares

MEANS = ("token_s", "pim_s", "link_s", "near_memory_s")  # over the contexts of a request on CENT


def own_result(
    system: System, llm: LlmSpec, given: Mapping[str, Scalar], settings: Mapping[str, str]
) -> tuple[dict[str, Any], str]:
    """Results by the name of their field, and the digest of what decides them. Raises UserError.

    given: keys of the workload; what is not given is as in a run, but for the prompt, of which there is none.
    settings: what the point sets in the system.
    """
    length: dict[str, Any] = {} if "context" in given else {"prompt": 0}
    asked = Asked(**(length | dict(given) | {"system": system.name, "model": llm.name}))
    try:
        found = _ran(system, llm, asked, settings)
    except UserError as error:
        raise UserError(_named(str(error), system.kind)) from None
    values = msgspec.structs.asdict(found)
    more = _of_box(found) if isinstance(found, AttAccOutcome) else _of_request(found)
    return values | more, found.spec_digest


def _ran(system: System, llm: LlmSpec, asked: Asked, settings: Mapping[str, str]) -> AttAccOutcome | CentOutcome:
    if system.kind == "attacc":
        return box_work(system, llm, asked).run(_unheard)
    return request_work(system, llm, asked).run(_unheard)


def _named(said: str, kind: str) -> str:
    """What an option is called in a sweep."""
    keys = "|".join(KEYS[kind])
    return re.sub(rf"--({keys})\b", r"workload.\1", said).replace("--set ", "").replace("--devices", "devices")


def _unheard(done: int, total: int) -> None:
    """A point has no progress of its own."""


def _of_box(found: AttAccOutcome) -> dict[str, Any]:
    steps = found.generated_tokens - (found.prompt_tokens > 0)
    energy = found.prefill_j + steps * (found.step_j or 0.0)
    return {"energy_j": energy, "power_w": energy / found.latency_s}


def _of_request(found: CentOutcome) -> dict[str, Any]:
    return {name: _mean(found, name) for name in MEANS} | {"energy_j": found.energy_per_token_j * found.context}


def _mean(found: CentOutcome, name: str) -> float:
    counted = shares([point.context for point in found.points], found.fidelity == "released")
    return fsum(share * getattr(point, name) for share, point in zip(counted, found.points, strict=True))
