"""What all points of a sweep share, as plain data: a worker needs no file of the user's."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.load import Sheet, read_sheet, tree_of
from pimloom.arch.system import System, find, part_places, part_sheet, resolve, system_kind
from pimloom.arch.unread import check_read
from pimloom.sweeping.definition.sweep import SYSTEM, WORKLOAD, Axis, Scalar, Sweep
from pimloom.sweeping.point import serving
from pimloom.sweeping.point.code import code_digest
from pimloom.sweeping.point.digests import value_digest
from pimloom.sweeping.point.linked import Linked, linked_of
from pimloom.sweeping.point.requests import Given, read_given
from pimloom.sweeping.point.results import ENERGIES, ENERGY_COLUMNS, LM_HEAD, Column, columns_of
from pimloom.sweeping.point.traces import Trace, read_trace
from pimloom.sweeping.point.workload import BATCHED, OWN, Work, check_key, check_together, check_value, work_of
from pimloom.systems.devices.traits import traits

DEVICES = {"duplex": ("device", "device.part"), "cent": ("aim", "aim.part")}  # where systems name files of their own


class Base(msgspec.Struct, frozen=True, dict=True):
    """A sweep without its points. Files are here as text; a Base that has been through JSON gives the same rows.

    parts: by name, or by the path that a place such as `dram.part` comes to; parts_at: the names of each such place.
    models, requests, traces: all that points may name, by name. set, workload: what is fixed. units: place of each
    axis -> unit of its numbers; types: -> type of its values, since 8, 8.0 and '8' are three. linked: linked axes by
    name; their values are names of what they set.
    systems: of a sweep over several, the base of each without the axis `system`; `system` is the first of them then.
    head_note: of these, a note on embedding, LM head and sampling.
    No digest depends on the order of a mapping. code: see `code_digest`.
    """

    kind: str
    system: Sheet
    parts: dict[str, Sheet]
    models: dict[str, LlmSpec]
    requests: dict[str, Given]
    set: dict[str, str]
    workload: dict[str, int | float | str | bool]
    units: dict[str, str | None]
    types: dict[str, str]
    seed: int
    code: str
    linked: dict[str, Linked] = {}
    parts_at: dict[str, list[str]] = {}
    traces: dict[str, Trace] = {}
    systems: dict[str, "Base"] = {}
    head_note: str = ""

    @cached_property
    def head(self) -> str:
        """Digest of what decides a result in all points alike."""
        drawn = self.seed if self.served or "requests" in {*self.workload, *self._axes} else None
        return value_digest((self.system.text, self.set, self.workload, self.units, self.types, drawn, self.code))

    @cached_property
    def choices(self) -> dict[str, dict[str, str]]:
        """Key of the workload, or place -> name -> digest of what stands behind the name."""
        texts = {name: value_digest(sheet.text) for name, sheet in self.parts.items()}
        parts = {place: {name: texts[name] for name in names} for place, names in self.parts_at.items()}
        models = {name: value_digest(model.decisive() | {"name": model.name}) for name, model in self.models.items()}
        requests = {name: value_digest(given) for name, given in self.requests.items()}
        if self.served:
            traces = {name: value_digest(trace) for name, trace in self.traces.items()}
            return parts | {"model": models, "trace": traces}
        return parts | {"model": models, "requests": requests}

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The axes whose values are names of something that the base holds, in an order of their own."""
        if self.systems:
            return tuple(dict.fromkeys([SYSTEM, *(place for base in self.systems.values() for place in base.named)]))
        return tuple(p for p in sorted(self.units) if p in self.linked or p.removeprefix(WORKLOAD) in self.choices)

    @cached_property
    def digests(self) -> dict[tuple[Any, ...], str]:
        """What `digest_of` has found so far."""
        return {}

    @cached_property
    def columns(self) -> dict[str, str]:
        """Place of each axis -> its column in a row."""
        return {place: Axis(place, (), unit).column for place, unit in self.units.items()}

    def cells(self, point: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The axes' columns of a point's row."""
        return {self.columns[place]: value for place, value in point.items()}

    @cached_property
    def results(self) -> list[Column]:
        """The result columns of every row, in order; what the system has no data for is not among them.

        Nor is a result with the name of an axis, such as `power_w` of a roofline: the column holds the axis.
        """
        return [column for column in self.possible if column.name not in self.columns.values()]

    @cached_property
    def possible(self) -> list[Column]:
        """What the system has data for, whatever the axes are called."""
        if self.systems:
            found = {column.name: column for base in reversed(self.systems.values()) for column in base.possible}
            order = dict.fromkeys(column.name for base in self.systems.values() for column in base.possible)
            return [found[name] for name in order]
        tree = tree_of(self.system)
        if self.served:
            own = serving.columns(self.kind in ("pim", "npu_pim") and "energy" in tree)
        else:
            own = columns_of(self.kind, tree, batched=self.batched, prompts=self.prompts)
        energy = ENERGY_COLUMNS if any(column.name in ENERGIES for column in own) else ()
        return [*own, *energy, LM_HEAD]

    @cached_property
    def batched(self) -> bool:
        """Whether the workload asks for a batch; a roofline without is simulated token by token."""
        return not BATCHED.isdisjoint({*self.workload, *self._axes})

    @cached_property
    def served(self) -> bool:
        """Whether requests are served as they arrive."""
        return serving.is_served({*self.workload, *self._axes})

    @cached_property
    def prompts(self) -> bool:
        """Whether batches are simulated from their prompts on."""
        return not self.served and self._from_prompts

    @cached_property
    def _from_prompts(self) -> bool:
        return self.kind in ("composed", "duplex") or "chunk" in {*self.workload, *self._axes}

    @cached_property
    def decodes(self) -> bool:
        """Whether batches are decoded alone, their prompts taken as there."""
        if self.prompts or self.served:
            return False
        return self.kind == "npu_pim" or (self.kind == "roofline" and self.batched)

    @cached_property
    def own(self) -> bool:
        """Whether runs have a result of their own."""
        return self.kind in OWN

    @cached_property
    def leaves_prompts_out(self) -> bool:
        """Whether points have prompts that are taken as there, which `pimloom run` computes."""
        if self.systems:
            return any(base.leaves_prompts_out for base in self.systems.values())
        return self.decodes and ("prompt" in self._axes or bool(self.workload.get("prompt")))

    @cached_property
    def _axes(self) -> list[str]:
        return [place.removeprefix(WORKLOAD) for place in self.units if place.startswith(WORKLOAD)]

    @property
    def each(self) -> "tuple[Base, ...]":
        """The bases of all systems; without an axis `system` this one alone."""
        return tuple(self.systems.values()) or (self,)

    def of(self, point: Mapping[str, Scalar]) -> "tuple[Base, Mapping[str, Scalar]]":
        """The base of a point's system, and the point without `system`. Raises UserError for an unknown system."""
        if not self.systems:
            return self, point
        if (name := point.get(SYSTEM)) not in self.systems:
            raise UserError(f"system: expected one of {', '.join(self.systems)}, got {name}")
        return self.systems[str(name)], {place: value for place, value in point.items() if place != SYSTEM}

    def part(self, name: str) -> Sheet:
        """The text of a part. Raises UserError for one that no point names."""
        if name not in self.parts:
            raise UserError(f"part {name!r}: not among those of the sweep: {', '.join(self.parts)}")
        return self.parts[name]

    def settings(self, point: Mapping[str, Scalar]) -> dict[str, str]:
        """What the point sets in the system, as `--set` takes it."""
        mine = dict(self.set)
        for place, value in point.items():
            if place in self.linked:
                mine |= self.linked[place].settings(place, value)
            elif not place.startswith(WORKLOAD):
                mine[place] = Axis(place, (), self.units[place]).text(value)
        return mine

    def given(self, point: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Keys of the workload of a point, as they are given."""
        mine = {p.removeprefix(WORKLOAD): value for p, value in point.items() if p.startswith(WORKLOAD)}
        return self.workload | mine

    def work(self, point: Mapping[str, Scalar]) -> Work:
        """The workload of a point."""
        return work_of(self.given(point))


def base_of(sweep: Sweep) -> Base:
    """Read all files that points of the sweep may need. Raises UserError."""
    if sweep.by_system:
        return _of_several(sweep)
    if "=" in sweep.system:
        raise UserError(f"system {sweep.system}: expected one; pools of several are a key, workload.pools")
    sheet = read_sheet(find("systems", sweep.system))
    kind = system_kind(sheet)
    _check_device(kind, sweep, sheet)
    values, parts = _values(sweep), {place: _parts(sheet, sweep, place) for place in part_places(sheet)}
    served = serving.is_served(values)
    check_read(kind, [*sweep.set, *(axis.place for axis in sweep.axes)], "served sweep" if served else "sweep")
    for key, some in values.items():
        serving.check_key(key) if served else check_key(kind, key)
        for value in some:
            (serving.check_value if served else check_value)(key, value)
    (serving.check_together if served else check_together)(values)
    return Base(
        kind=kind,
        system=sheet,
        parts={name: part for found in parts.values() for name, part in found.items()},
        models={str(name): load_llm(str(name)) for name in values["model"]},
        requests={str(name): read_given(str(name)) for name in (() if served else values.get("requests", ()))},
        set=dict(sweep.set),
        workload=dict(sweep.workload),
        units={axis.place: axis.unit for axis in sweep.axes},
        types={axis.place: type(axis.values[0]).__name__ if axis.values else "float" for axis in sweep.axes},
        seed=sweep.seed,
        code=code_digest(),
        linked=linked_of(sweep.axes),
        parts_at={place: list(found) for place, found in parts.items()},
        traces={str(name): read_trace(str(name)) for name in values.get("trace", ())},
    )


def _of_several(sweep: Sweep) -> Base:
    """The base of a sweep over several systems. Raises UserError."""
    bases = dict[str, Base]()
    for name in sweep.by_system:
        try:
            bases[name] = base_of(sweep.alone(name))
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    from pimloom.sweeping.point.head import settle_head

    bases, note = settle_head(bases, sweep)
    first = next(iter(bases.values()))
    return msgspec.structs.replace(
        first,
        units={axis.place: axis.unit for axis in sweep.axes},
        types={SYSTEM: "str", **first.types},
        set=dict(sweep.set),
        workload=dict(sweep.workload),
        systems=bases,
        head_note=note,
    )


def _check_device(kind: str, sweep: Sweep, sheet: Sheet) -> None:
    """Raise UserError for a device in a file of its own: a point holds texts of systems and parts alone."""
    if not (places := DEVICES.get(kind, ())):
        return
    named: list[object] = [tree_of(sheet).get(places[0]), *(sweep.set.get(place) for place in places)]
    for axis in sweep.axes:
        for place in places:
            named += axis.sets.get(place, axis.values if place == axis.place else ())
    for name in map(str, named):
        if name.endswith((".yaml", ".yml")):
            raise UserError(f"{name}: sweeps take a device and its part by name; set their fields instead")


def _values(sweep: Sweep) -> dict[str, tuple[Scalar, ...]]:
    """Key of the workload -> all its values."""
    axes = {a.place.removeprefix(WORKLOAD): a.values for a in sweep.axes if a.place.startswith(WORKLOAD)}
    return {key: (value,) for key, value in sweep.workload.items()} | axes


def _parts(sheet: Sheet, sweep: Sweep, place: str) -> dict[str, Sheet]:
    """Every part that a point may name at a place."""
    axis = next((a.sets.get(place, a.values) for a in sweep.axes if place in (a.place, *a.sets)), ())
    named = [str(value) for value in axis] or [sweep.set[place]] if axis or place in sweep.set else []
    if not named:
        device = _own_part(sheet, place)
        own = device.endswith((".yaml", ".yml"))
        named = [str(Path(sheet.path).parent / device) if own else device]
    return {name: part_sheet(name) for name in named}


def _own_part(sheet: Sheet, place: str) -> str:
    found = tree_of(sheet)
    for key in place.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, str):
        resolve(sheet, {})  # says what is wrong with the file
    return str(found)


def resolved(base: Base, point: Mapping[str, Scalar], work: Work, more: dict[str, str] | None = None) -> System:
    """The system of a point; more: what is set besides. Raises UserError."""
    settings = base.settings(point) | (more or {})
    if work.lm_head is not None and (place := traits(base.kind).lm_head_at):
        settings |= {place: str(work.lm_head).lower()}
    if base.kind == "npu_pim":
        from pimloom.arch.neupims import Faults

        on = str(work.fidelity == "released").lower()
        settings = {f"faults.{name}": on for name in Faults.__struct_fields__} | settings
    return resolve(base.system, settings, base.part)
