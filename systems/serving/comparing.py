"""One workload on several systems: what each takes, over one boundary of energy, and why the first is the first."""

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, ClassVar

import msgspec

from pimloom.arch.digest import digest, plain
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.version import __version__
from pimloom.energy.cells import CELLS, EnergyCell, Ranking, known_cells, ranking
from pimloom.systems import interpolation
from pimloom.systems.devices.area import area_by_part_mm2, area_note, area_of_all_mm2, of_devices
from pimloom.systems.devices.device import Device, device_of
from pimloom.systems.devices.drawn import drawn
from pimloom.systems.devices.padded import padded_notes
from pimloom.systems.devices.positions import beyond
from pimloom.systems.devices.routing import routing_notes
from pimloom.systems.devices.run import LIMITS, Run, behind
from pimloom.systems.devices.shown import Shown, spans_of
from pimloom.systems.devices.sizes import SIZES, ahead, by_size, leaders, memory_gb_s
from pimloom.systems.devices.traits import devices_of, traits
from pimloom.systems.devices.without_energy import energy_note
from pimloom.systems.serving.devices import named_settings
from pimloom.systems.serving.generation import Generated, check, generated
from pimloom.systems.serving.stepping import Progress, Simulated, Wanted, longest, simulated
from pimloom.systems.serving.why import why
from pimloom.systems.viewed import Viewed
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ops
from pimloom.workload.need import ONE, layer_need
from pimloom.workload.shard import Shard

if TYPE_CHECKING:
    import pandas

LAYERS = (
    "Times, energies and memory are of the decoder layers: embedding, LM head and sampling are left out on all systems."
)
WITH = "Times, energies and memory are of the whole model: embedding, LM head and sampling are in them."
WHOLE_MODEL = "its memory includes embedding and LM head"


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts, or decode, of a system. time_s: all of it. bound: the kind of work that by itself takes longest, and
    share of the time that it would take at its full rate; limits: the same of each kind. utilisation: share of the time
    in which each resource works on something."""

    time_s: float
    bound: str | None
    bound_share: float | None
    limits: dict[str, float]
    utilisation: dict[str, float]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A system of a comparison; `reason` says why it cannot run the workload, all else is None then.

    energy_by_cell: of all devices and tokens, by `energy.cells.CELLS`, and figures of several cells by their names. tp:
    devices that share each layer; devices: all of them, of which memory_*, area_* and usd_per_h are.
    tokens_per_s_by_size: by the names of `SIZES`; None where a size is not known. area_by_part_mm2: see
    `energy.gate_area`.
    """

    system: str
    reason: str | None = None
    tp: int | None = None
    time_to_first_token_s: float | None = None
    time_per_output_token_s: float | None = None
    latency_s: float | None = None
    tokens_per_s: float | None = None
    energy_per_token_j: float | None = None
    energy_by_cell: dict[str, EnergyCell] | None = None
    energy_by_cause_j: dict[str, float] | None = None
    power_w: float | None = None
    devices: int | None = None
    memory_gb_s: float | None = None
    usd_per_h: float | None = None
    tokens_per_s_by_size: dict[str, float | None] | None = None
    area_mm2: float | None = None
    area_by_part_mm2: dict[str, float | None] | None = None
    memory_needed_bytes: int | None = None
    memory_bytes: int | None = None
    simulated_iterations: int | None = None
    interpolation_error: float | None = None
    prefill: Phase | None = None
    decode: Phase | None = None
    spec_digest: str | None = None


class Comparison(Viewed, msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The same requests on several systems, in the order in which they were named. lm_head: whether embedding, LM head
    and sampling are in times, energies and memory, of all systems. tp: as asked; None: each system has its own.
    boundary: cells of energy that all systems know. first: the shortest latency, whatever its size; first_by_size: most
    tokens/s for each unit of a size, None where it is not known of all, open, or a tie of printed figures."""

    rows_in: ClassVar[str] = "systems"
    model: str
    batch: int
    prompt_tokens: int
    generated_tokens: int
    lm_head: bool
    chunk: int
    tp: int | None
    layers: int
    model_layers: int
    every: int
    boundary: list[str]
    systems: list[Compared]
    notes: list[str]
    first: str
    first_by_size: dict[str, str | None]
    why: str
    energy: Ranking
    spec_digest: str
    version: str

    @property
    def shown(self) -> list[Shown]:
        """Steps of the systems that ran. Raises AttributeError for a comparison that was made of its fields alone."""
        if "told" not in self.__dict__:
            raise AttributeError("spans: this comparison was read or copied; run it again to see its steps")
        return [one.shown for one in self.__dict__["told"]]

    @property
    def spans(self) -> "pandas.DataFrame":
        """As of a run on one system, with the name of each in `system`. Raises AttributeError as `shown`."""
        return spans_of(self.shown)

    def _drawings(self) -> Sequence[str]:
        return drawn(self.shown if "told" in self.__dict__ else ())


def compare(
    systems: Sequence[Callable[[], tuple[System, int]]],
    llm: LlmSpec,
    wanted: Wanted,
    tp: int | None = None,
    prices: Sequence[float | None] = (),
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Run the workload on each system. systems: functions that load each system and the number of devices that share
    each layer; tp: the common number, None: that of each system; prices: of a device of each system [$/h]. A system
    that cannot run the workload has a reason instead. Raises UserError if no system can run it."""
    found, every = list[Compared](), list[Generated]()
    loaded = [load() for load in systems]  # a system that is none is an error, not a row
    alone = [system for system, _ in loaded]
    check(llm, wanted, beside=alone)
    names = [system.name for system in alone]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"systems: two are called {twice[0]}; rename a file")
    for n, ((system, own), usd) in enumerate(zip(loaded, prices or [None] * len(loaded), strict=True)):

        def done(steps: int, total: int, n: int = n) -> None:
            progress(n * total + steps, len(loaded) * total)

        try:
            one, told = _one(system, llm, wanted._replace(tp=own), Shard(tp=wanted.tp), usd, done)
        except UserError as error:
            reason = named_settings(system, str(error).removeprefix(f"{system.name}: "))
            found.append(Compared(system=system.name, reason=reason))
            continue
        found.append(one)
        every.append(told)
    if not every:
        raise UserError("; ".join(f"{one.system} cannot run it: {one.reason}" for one in found))
    asked = plain(wanted.decisive() | {"tp": tp} | ({"prices": list(prices)} if any(prices) else {}))
    compared = _comparison(llm, alone, wanted, found, tp, digest([one.digest for one in alone], llm.decisive(), asked))
    compared.__dict__["told"] = every  # no field: their steps, of which some are simulated when they are asked for
    return compared


def _comparison(
    llm: LlmSpec, systems: Sequence[System], wanted: Wanted, found: list[Compared], tp: int | None, spec_digest: str
) -> Comparison:
    """Which system is first, by latency, by size and by energy."""
    ran = sorted((one for one in found if one.latency_s is not None), key=lambda one: one.latency_s or 0.0)
    least = ranking({one.system: one.energy_by_cell for one in ran}, wanted.batch * wanted.generate)
    by = leaders_by_size(systems, ran, least)
    reason = why(ran, len(found))
    return Comparison(
        model=llm.name,
        batch=wanted.batch,
        prompt_tokens=wanted.prompt,
        generated_tokens=wanted.generate,
        lm_head=bool(wanted.outside),
        chunk=wanted.chunk,
        tp=tp,
        layers=wanted.layers,
        model_layers=llm.num_hidden_layers,
        every=wanted.every,
        boundary=[cell for cell in CELLS if all(cell in _known(one) for one in ran)],
        systems=found,
        notes=notes(llm, systems, wanted, found, asked=tp is not None),
        first=ran[0].system,
        first_by_size={size: names[0] if len(names) == 1 else None for size, names in by.items()},
        why=" ".join(filter(None, (reason, ahead([one.system for one in ran], by)))),
        energy=least,
        spec_digest=spec_digest,
        version=__version__,
    )


def _known(one: Compared) -> Sequence[str]:
    return known_cells(one.energy_by_cell) if one.energy_by_cell else ()


def leaders_by_size(systems: Sequence[System], ran: Sequence[Compared], least: Ranking) -> dict[str, list[str]]:
    """For each size, the systems with most tokens/s per unit. `w` is the system with the least energy; `mm2` has none
    if the area of a system leaves logic out."""
    rates = {one.system: one.tokens_per_s_by_size or {} for one in ran}
    partial = any(area_note(system) for system in systems if system.name in rates)
    by = {size: [] if size == "mm2" and partial else leaders(rates, size) for size in SIZES}
    return by | {"w": [least.least] if least.least else []}


def _one(
    system: System, llm: LlmSpec, wanted: Wanted, asked: Shard, usd: float | None, progress: Progress
) -> tuple[Compared, Generated]:
    check(llm, wanted, beside=[system])
    device = device_of(system, llm, wanted.share)
    made = ops(llm, Batch.prefill([wanted.prompt]) if wanted.prompt else Batch.decode([1]), asked)
    if reason := device.can_run(made):
        raise UserError(reason)
    steps = simulated(device, system, llm, wanted, progress)
    told = generated(steps, system, llm, wanted)
    return _compared(device, system, llm, told, steps, wanted, usd), told


def _compared(
    device: Device, system: System, llm: LlmSpec, told: Generated, steps: Simulated, wanted: Wanted, usd: float | None
) -> Compared:
    room = device.capacity()
    alike = next(iter([*steps.prompts, *steps.decode.values()])).devices
    if told.devices and alike > 1:
        alike = told.devices  # those of all nodes
    tokens = layer_need(llm, Batch.decode([longest(wanted)] * wanted.batch), Shard(), wanted.layers).cache
    kept = int(tokens * room.cache_bytes_per_token / layer_need(llm, ONE, Shard(), wanted.layers).cache)
    devices, gb_s = devices_of(system, wanted.tp), memory_gb_s(system, wanted.tp)
    area, price = area_of_all_mm2(system, wanted.tp), None if usd is None else usd * devices
    sizes: dict[str, float | None] = {
        "device": devices,
        "memory_gb_s": gb_s,
        "w": told.power_w,
        "mm2": area,
        "usd_per_h": price,
    }
    return Compared(
        system=told.system,
        tp=wanted.tp,
        time_to_first_token_s=told.time_to_first_token_s,
        time_per_output_token_s=told.time_per_output_token_s,
        latency_s=told.latency_s,
        tokens_per_s=told.tokens_per_s,
        energy_per_token_j=told.energy_per_token_j,
        energy_by_cell=told.energy_by_cell,
        energy_by_cause_j=told.energy_by_cause_j,
        power_w=told.power_w,
        devices=devices,
        memory_gb_s=gb_s,
        usd_per_h=price,
        tokens_per_s_by_size=by_size(told.tokens_per_s, sizes),
        area_mm2=area,
        area_by_part_mm2=of_devices(area_by_part_mm2(system), wanted.tp) or None,
        memory_needed_bytes=alike * (room.weight_bytes + kept),
        memory_bytes=alike * room.memory_bytes,
        simulated_iterations=told.simulated_iterations,
        interpolation_error=told.interpolation_error,
        prefill=_phase([(run, 1.0) for run in steps.prompts]),
        decode=_phase([(steps.decode[n], weight) for n, weight in steps.weights.items()]),
        spec_digest=told.spec_digest,
    )


def _phase(steps: Sequence[tuple[Run, float]]) -> Phase | None:
    """Of steps that count so often each; None if there are none."""
    total = fsum(run.end_ps * weight for run, weight in steps)
    if not total:
        return None

    def share(of: Callable[[Run], Mapping[str, int]], name: str) -> float:
        return fsum(of(run).get(name, 0) * weight for run, weight in steps) / total

    limits = {name: share(lambda run: run.least_ps, name) for name in LIMITS}
    limits = {name: value for name, value in limits.items() if value}
    bound = max(limits, key=lambda name: limits[name], default=None)
    return Phase(
        time_s=fsum(run.time_s * weight for run, weight in steps),
        bound=bound,
        bound_share=limits[bound] if bound else None,
        limits=limits,
        utilisation={name: share(lambda run: run.busy, name) for name in behind([run for run, _ in steps]).resources},
    )


def notes(
    llm: LlmSpec, systems: Sequence[System], wanted: Wanted, found: Sequence[Compared], *, asked: bool
) -> list[str]:
    """What a reader must know to take the figures for what they are. asked: whether `tp` is what somebody asked for."""
    alike: dict[str, list[str]] = {}
    for system, row in zip(systems, found, strict=True):
        has, there = traits(system.kind), row.reason is None
        applies = {has.not_here: wanted.outside, WHOLE_MODEL: has.sequence == "own"}
        applies |= {has.static: "npu_static" in (row.energy_by_cause_j or {})}
        applies |= {area_note(system) or "": bool(row.area_mm2)}
        applies |= dict.fromkeys(beyond(llm, longest(wanted)), has.beyond)
        for said, is_so in applies.items():
            if said and is_so and there:
                alike.setdefault(said, []).append(system.name)
    for system, row in zip(systems, found, strict=True):
        told = row.energy_by_cell is not None
        for note in (energy_note(system, row.tp or 1, told=told), interpolation.error_note(row.interpolation_error)):
            if note and row.reason is None:
                alike.setdefault(note, []).append(system.name)
        chosen = routing_notes(system, llm, wanted.batch) if row.reason is None else []
        for note in [*chosen, *padded_notes(system, llm, row.tp or 1)]:
            alike.setdefault(note, []).append(system.name)
        if not asked and (row.tp or 1) > 1:
            alike.setdefault(f"{row.tp} devices share each layer, as its file has it", []).append(system.name)
    return [WITH if wanted.outside else LAYERS] + [f"{', '.join(names)}: {said}." for said, names in alike.items()]
