"""Rows of the study: our value beside the published one; and times of steps, each simulated once."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import load_system
from pimloom.reports.reproduction import PREDICTED
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.workload.batch import Batch

SHOWN = "report only"  # what is published has conditions that are not
Row = dict[str, object]


class Place(NamedTuple):
    """A model on a machine, with so many layers; None: all. outside: with embedding, LM head and sampling."""

    system: str
    model: str
    layers: int | None = None
    outside: bool | None = None

    def __str__(self) -> str:
        return f"{self.model} on {self.system}"


def row(
    system: str, what: str, ours: float, published: str, tag: str, *, digits: str = ".3g", unit: str = "",
    verdict: str = SHOWN, tolerance: str = "shown only", machine: str = "", basis: str = "",
) -> Row:  # fmt: skip
    """One of the table. tag: the evidence of what is published, or of the formula. basis: one of BASES; else derived
    where the tag is of a formula or of a choice of ours, and predicted where it is of a publication or a run."""
    return {
        "system": system, "what": what, "machine": machine, "ours": f"{ours:{digits}}", "published": published,
        "unit": unit, "verdict": verdict, "tolerance": tolerance, "tag": tag, "value": ours,
        "basis": basis or ("derived" if tag in ("derived", "design") else PREDICTED),
    }  # fmt: skip


def missing(system: str, why: str) -> Row:
    """A study that nobody computes yet."""
    return row(system, why, 0.0, "–", "–") | {"ours": "not computed", "value": None}


def within(ours: float, low: float, high: float) -> str:
    """The verdict."""
    return "pass" if low <= ours <= high else "deviates"


@cache
def placed(place: Place) -> Device:
    """The device."""
    llm = load_llm(place.model)
    share = Share(1, place.layers or llm.num_hidden_layers, outside=place.outside)
    return device_of(load_system(place.system), llm, share)


@cache
def step_s(place: Place, batch: Batch) -> float:
    """A step."""
    return placed(place).step(batch).time_s


def device_with(system: str, llm: LlmSpec, settings: Mapping[str, str] | None = None, **share: Any) -> Device:
    """A machine with settings of its own."""
    return device_of(load_system(system, settings), llm, Share(1, llm.num_hidden_layers, **share))


def latency_s(device: Device, batches: Iterable[Batch], every: int = 1, *, by_row: bool = False) -> float:
    """Of steps one after the other: one in `every` is simulated, and those with prompts; by_row: a row at a time."""
    total, last, rows = 0.0, 0.0, 0
    for i, batch in enumerate(batches):
        prompts = any(at.phase == "prefill" for at in batch.requests)
        if prompts or i % every == 0 or len(batch.requests) != rows:
            parts = [Batch((at,)) for at in batch.requests] if by_row else [batch]
            time = sum(device.step(part).time_s for part in parts)
            last = last if prompts else time
        else:
            time = last
        rows = len(batch.requests)
        total += time
    return total
