"""What a field of a system means, its value in every part or system, where that comes from, and which rules use it."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from pimloom.arch.aim import AimDevice
from pimloom.arch.attacc import AttAccSystem, StackArea, StudyGpu, StudyHost, StudyStacks
from pimloom.arch.cent import CentEnergy, CentSystem, CxlLink, NearMemory, Sram
from pimloom.arch.composition import (
    ALL,
    KINDS,
    PARTS,
    PHASES,
    ArraysUnit,
    ComposedSystem,
    GemvUnit,
    Overlap,
    PartMemory,
    PlainMemory,
    RooflineUnit,
    Wire,
)
from pimloom.arch.duplex import DramPim, DuplexEnergy, DuplexSpec, Links, LogicPim, load_duplex
from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.error import UserError
from pimloom.arch.link import Link
from pimloom.arch.load import Source, nearest, read_sheet, tree_of
from pimloom.arch.memory import Policy
from pimloom.arch.names import BELONGS, find
from pimloom.arch.neupims import Faults
from pimloom.arch.npu_energy import BankLayout, NpuEnergy
from pimloom.arch.npu_pim import Arrays, Interleave, Packing, PimDram
from pimloom.arch.optics import Hop, Lanes, Optical, Optics, SwitchTimes, load_optics
from pimloom.arch.part import Organization, Part, PimUnit
from pimloom.arch.pim_channel import Controller
from pimloom.arch.pim_system import Dram, EnergyMode, Npu, Workload
from pimloom.arch.policy import load_policy
from pimloom.arch.routing import Routing
from pimloom.arch.system import RooflineSystem, list_names, load_part, load_system
from pimloom.arch.table import standard_of
from pimloom.arch.training import Recipe, Training, TrainingGpu, load_training
from pimloom.arch.units import PS_PER_NS, PS_PER_US, Time
from pimloom.reports.explain_result import explain_result, result_fields
from pimloom.reports.explain_standard import standards

FOLDERS: Mapping[type, str] = {
    Part: "parts", Optics: "parts", Policy: "controllers", Training: "gpus", DuplexSpec: "duplex_devices",
}  # fmt: skip
INNER = {"device.part.": "duplex_devices", "aim.dram.": "aim_devices"}  # below which a device's part has its fields
NAMED = ("memories", "units", "links")  # below these a composed system has names of its own


class Value(NamedTuple):
    """A field's value in one part or system."""

    where: str
    value: str
    source: str
    file: str


class Explanation(NamedTuple):
    """Everything known of a field."""

    field: str
    meaning: str
    values: list[Value]
    rules: list[str]


def explain(field: str) -> Explanation:
    """Explain a dotted field such as `dram.timing.tCCD_L` or `npu.clock_mhz`. Raises UserError with near names."""
    if below := next((below for below in INNER if field.startswith(below)), None):
        return _of_inner(field, below)
    meanings, listed_as = all_fields(), general(field)
    if listed_as not in meanings:
        names = [name for folder in BELONGS for name in list_names(folder)]
        near = nearest(field, [*meanings, *result_fields(), *_runs(), *names]) or _around(field)
        listed = "`pimloom explain` lists those of systems, CONVENTIONS.md those of results"
        raise UserError(f"no field {field!r}{near}; {listed}")
    return Explanation(field, meanings[listed_as], _values(listed_as), _rules(field))


def _of_inner(field: str, below: str) -> Explanation:
    """A field of the part of a device: what it is of all parts, and what it has in that one."""
    parts = {tree_of(read_sheet(find(INNER[below], name)))["part"] for name in list_names(INNER[below])}
    plain = f"dram.{field.removeprefix(below)}"
    try:
        found = explain(plain)
    except UserError as error:
        raise UserError(str(error).replace("dram.", below)) from None
    if not (values := [value for value in found.values if value.where in parts]):
        named = ", ".join(sorted(parts))
        raise UserError(f"no field {field!r}: {named} has none; `pimloom explain {plain}` has others")
    return Explanation(field, found.meaning, values, _rules(plain, parts))


def _around(field: str) -> str:
    """What tells the fields beside one that is not there."""
    for n in range(field.count("."), 0, -1):
        above = ".".join(field.split(".")[:n])
        if fields_below(above) or explain_result(above):
            return f"; `pimloom explain {above}` tells what is there"
    return ""


def general(field: str) -> str:
    """A field of a composed system as it is listed: NAME for the name of its own, and one entry for what runs where.

    >>> general("units.pim.lanes"), general("runs.decode.gemm"), general("npu.clock_mhz")
    ('units.NAME.lanes', 'runs', 'npu.clock_mhz')
    """
    head, *rest = field.split(".")
    if head in NAMED and rest:
        return ".".join([head, "NAME", *rest[1:]])
    return head if field in _runs() else field


def _runs() -> list[str]:
    """All keys below `runs`."""
    return [f"runs.{phase}.{kind}" for phase in PHASES for kind in (*KINDS, *PARTS, ALL)]


def fields_below(prefix: str) -> dict[str, str]:
    """The fields whose names go on after `prefix` and a dot, with their meanings."""
    asked = prefix.rstrip(".")
    begins = general(asked) + "."
    head, _, name = asked.partition(".")
    if f"{head}.NAME.{name}" in all_fields():  # a key whose NAME was left out
        return {}
    return {
        f"{asked}.{name.removeprefix(begins)}": meaning
        for name, meaning in all_fields().items()
        if name.startswith(begins)
    }


@lru_cache(maxsize=1)
def all_fields() -> Mapping[str, str]:
    """Every field that can be explained or set, with its meaning."""
    found: dict[str, str] = {}
    for prefix, struct in (
        ("dram", Dram),
        ("dram", Part),
        ("dram.organization", Organization),
        ("dram.pim_unit", PimUnit),
        ("npu", Npu),
        ("energy", EnergyMode),
        ("workload", Workload),
        ("controller", Policy),
        ("", RooflineSystem),
        ("dram", PimDram),
        ("npu", Arrays),
        ("controller", Controller),
        ("interleave", Interleave),
        ("packing", Packing),
        ("link", Link),
        ("faults", Faults),
        ("energy", NpuEnergy),
        ("bank", BankLayout),
        ("optics", Optics),
        ("optics.lanes", Lanes),
        ("optics.timing", SwitchTimes),
        ("optics.optical", Optical),
        ("optics.hop", Hop),
        ("gpu", TrainingGpu),
        ("recipe", Recipe),
        ("", AttAccSystem),
        ("gpu", StudyGpu),
        ("stacks", StudyStacks),
        ("stacks.area", StackArea),
        ("host", StudyHost),
        ("", CentSystem),
        ("link", CxlLink),
        ("near_memory", NearMemory),
        ("energy", CentEnergy),
        ("energy.global_buffer", Sram),
        ("energy.shared_buffer", Sram),
        ("energy.instruction_buffer", Sram),
        ("aim", AimDevice),
        ("", DuplexSystem),
        ("routing", Routing),
        ("device", DuplexSpec),
        ("device.logic_pim", LogicPim),
        ("device.bank_pim", DramPim),
        ("device.bank_group_pim", DramPim),
        ("device.links", Links),
        ("device.links.node", Link),
        ("device.links.network", Link),
        ("device.energy", DuplexEnergy),
        ("", ComposedSystem),
        ("memories.NAME", PartMemory),
        ("memories.NAME", PlainMemory),
        ("units.NAME", ArraysUnit),
        ("units.NAME", GemvUnit),
        ("units.NAME", RooflineUnit),
        ("links.NAME", Wire),
        ("peers", Link),
        ("overlap", Overlap),
    ):
        for name, meaning in struct.MEANING.items():
            found.setdefault(f"{prefix}.{name}" if prefix else name, meaning)
    for name in list_names("parts"):
        standard = standard_of(load_part(name).value)
        for timing, meaning in {**standard.timings, **standard.optional}.items():
            found.setdefault(f"dram.timing.{timing}", meaning)
    return found | {name: "DRAM standard: commands, rules, what is not modelled" for name in standards()}


def _values(field: str) -> list[Value]:
    values = []
    head, _, rest = field.partition(".")
    if head == "controller":
        for name in list_names("controllers"):
            policy = load_policy(name)
            values += _value(name, policy.value, policy.sources, rest) if rest in Policy.__struct_fields__ else []
    if head == "optics":
        for name in list_names("optics"):
            optics = load_optics(name)
            values += _value(name, optics.value, optics.sources, rest)
    elif head == "device":
        for name in list_names("duplex_devices"):
            device = load_duplex(name)
            values += _value(name, device.spec, device.sources, rest)
    elif head in ("gpu", "recipe"):
        for name in list_names("gpus"):
            training = load_training(name)
            values += _value(name, training.value, training.sources, field)
    elif head == "dram" and rest not in (*Dram.__struct_fields__, *PimDram.__struct_fields__):
        for name in list_names("parts"):
            part = load_part(name)
            values += _value(name, part.value, part.sources, rest)
    else:
        for name in list_names("systems"):
            system = load_system(name)
            if system.kind != "roofline" or "." not in field:
                values += _value(name, system.spec, system.sources, field)
    return values


def _value(where: str, struct: Any, sources: Mapping[str, Source], place: str) -> list[Value]:
    found = struct
    for key in place.split("."):
        found = found.get(key) if isinstance(found, dict) else getattr(found, key, None)
    if found is None and not isinstance(struct, Policy):
        return []
    source = sources.get(place)
    plain = {True: "true", False: "false", None: "null"}
    text = plain[found] if isinstance(found, bool | None) else str(msgspec.to_builtins(found, enc_hook=str))
    if isinstance(struct, Optics) and isinstance(found, Time):
        text = f"{found.ps / PS_PER_US:g} us"
    elif place.startswith("timing."):
        ck = struct.cycles(place.removeprefix("timing."))
        text = f"{ck} nCK = {ck * struct.tCK_ps / PS_PER_NS:g} ns"
    elif hasattr(found, "unit"):
        text = f"{found:g} {found.unit}"
    elif isinstance(found, float):
        text = f"{found:.15g}"
    folder = FOLDERS.get(type(struct), "systems")
    file = f"arch/{folder}/{where}.yaml:{source.line}" if source and source.line else ""
    return [Value(where, text, source.text if source else "", file)]


def _rules(field: str, parts: Iterable[str] = ()) -> list[str]:
    """The rules and command durations whose sums name the timing, of these parts or of all."""
    timing = field.removeprefix("dram.timing.")
    if timing == field:
        return []
    uses = re.compile(rf"\b{re.escape(timing)}\b")
    found: dict[str, None] = {}
    for name in parts or list_names("parts"):
        standard = standard_of(load_part(name).value)
        for rule in standard.rules:
            if uses.search(rule.wait):
                found[str(rule)] = None
    return list(found)
