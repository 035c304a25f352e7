"""One workload on several systems: what each takes, over one boundary of energy, and why the first is the first."""

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, ClassVar

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System, digest
from pimloom.arch.version import __version__
from pimloom.systems.devices.area import area_by_part_mm2, area_mm2, of_devices
from pimloom.systems.devices.boundary import PARTS, by_part, parts_of
from pimloom.systems.devices.device import Device, device_of
from pimloom.systems.devices.drawn import drawn
from pimloom.systems.devices.positions import beyond
from pimloom.systems.devices.run import LIMITS, Run, behind
from pimloom.systems.devices.shown import Shown, spans_of
from pimloom.systems.devices.traits import traits
from pimloom.systems.devices.without_energy import energy_note
from pimloom.systems.serving import interpolation
from pimloom.systems.serving.generation import Generated, check, generated
from pimloom.systems.serving.stepping import Progress, Simulated, Wanted, longest, simulated
from pimloom.systems.viewed import Viewed
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ops
from pimloom.workload.need import ONE, layer_need
from pimloom.workload.op import Op
from pimloom.workload.shard import Shard

if TYPE_CHECKING:
    import pandas

LAYERS = (
    "Times, energies and memory are of the decoder layers: embedding, LM head and sampling are left out on all "
    "systems, also where a run of one has them by itself."
)
WITH = "Times, energies and memory are of the whole model: embedding, LM head and sampling are in them."
WHOLE = "what it needs of memory holds embedding and LM head, too"
MOSTLY = 0.5  # of a phase's time: what takes less does not bound it


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

    energy_by_part_j: of all devices and tokens, by PARTS or WHOLE; a part that is not there has no figure. One
    device has no links. area_by_part_mm2: of all devices, see `energy.gate_area`. memory_*: of one device.
    """

    system: str
    reason: str | None = None
    time_to_first_token_s: float | None = None
    time_per_output_token_s: float | None = None
    latency_s: float | None = None
    tokens_per_s: float | None = None
    energy_per_token_j: float | None = None
    energy_by_part_j: dict[str, float] | None = None
    energy_by_cause_j: dict[str, float] | None = None
    power_w: float | None = None
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
    and sampling are in times, energies and memory, of all systems."""

    rows_in: ClassVar[str] = "systems"
    model: str
    batch: int
    prompt_tokens: int
    generated_tokens: int
    lm_head: bool
    chunk: int
    tp: int
    layers: int
    model_layers: int
    every: int
    boundary: list[str]
    systems: list[Compared]
    notes: list[str]
    first: str
    why: str
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
    systems: Sequence[Callable[[], System]],
    llm: LlmSpec,
    wanted: Wanted,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Run the workload on each system. systems: what loads each. Raises UserError for a workload that none can run;
    what one system cannot is its reason."""
    found, every = list[Compared](), list[Generated]()
    loaded = [load() for load in systems]  # a system that is none is an error, not a row
    check(llm, wanted, beside=loaded)
    names = [system.name for system in loaded]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"systems: two are called {twice[0]}; rename a file")
    made = ops(llm, Batch.prefill([wanted.prompt]) if wanted.prompt else Batch.decode([1]), Shard(tp=wanted.tp))
    for n, system in enumerate(loaded):

        def done(steps: int, total: int, n: int = n) -> None:
            progress(n * total + steps, len(loaded) * total)

        try:
            one, told = _one(system, llm, wanted, made, done)
        except UserError as error:
            found.append(Compared(system=system.name, reason=str(error).removeprefix(f"{system.name}: ")))
            continue
        found.append(one)
        every.append(told)
    if not every:
        raise UserError("; ".join(f"{one.system} cannot run it: {one.reason}" for one in found))
    ran = sorted((one for one in found if one.latency_s is not None), key=lambda one: one.latency_s or 0.0)
    linked = {part for one in found for part in one.energy_by_part_j or ()}
    compared = Comparison(
        model=llm.name,
        batch=wanted.batch,
        prompt_tokens=wanted.prompt,
        generated_tokens=wanted.generate,
        lm_head=bool(wanted.outside),
        chunk=wanted.chunk,
        tp=wanted.tp,
        layers=wanted.layers,
        model_layers=llm.num_hidden_layers,
        every=wanted.every,
        boundary=[part for part in PARTS if part != "links" or wanted.tp > 1 or "links" in linked],
        systems=found,
        notes=notes(llm, loaded, wanted, found),
        first=ran[0].system,
        why=why(ran, [one.name for one in loaded if wanted.tp > 1 and traits(one.kind).sending], len(found)),
        spec_digest=digest([system.digest for system in loaded], llm.decisive(), wanted.decisive()),
        version=__version__,
    )
    compared.__dict__["told"] = every  # no field: their steps, of which some are simulated when they are asked for
    return compared


def _one(
    system: System, llm: LlmSpec, wanted: Wanted, made: Sequence[Op], progress: Progress
) -> tuple[Compared, Generated]:
    check(llm, wanted, beside=[system])
    device = device_of(system, llm, wanted.share)
    if reason := device.can_run(made):
        raise UserError(reason)
    steps = simulated(device, system, llm, wanted, progress)
    told = generated(steps, system, llm, wanted)
    return _compared(device, system, llm, told, steps, wanted), told


def _compared(
    device: Device, system: System, llm: LlmSpec, told: Generated, steps: Simulated, wanted: Wanted
) -> Compared:
    room, mine, area = device.capacity(), Shard(tp=wanted.tp), area_mm2(system)
    kept = layer_need(llm, Batch.decode([longest(wanted)] * wanted.batch), mine, wanted.layers).cache
    kept = int(kept * room.cache_bytes_per_token / layer_need(llm, ONE, mine, wanted.layers).cache)
    return Compared(
        system=told.system,
        time_to_first_token_s=told.time_to_first_token_s,
        time_per_output_token_s=told.time_per_output_token_s,
        latency_s=told.latency_s,
        tokens_per_s=told.tokens_per_s,
        energy_per_token_j=told.energy_per_token_j,
        energy_by_part_j=None if told.energy_by_cause_j is None else by_part(told.energy_by_cause_j, parts_of(system)),
        energy_by_cause_j=told.energy_by_cause_j,
        power_w=told.power_w,
        area_mm2=None if area is None else area * wanted.tp,
        area_by_part_mm2=of_devices(area_by_part_mm2(system), wanted.tp) or None,
        memory_needed_bytes=room.weight_bytes + kept,
        memory_bytes=room.memory_bytes,
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


def why(ran: Sequence[Compared], sending_free: Sequence[str] = (), asked: int = 2) -> str:
    """Why the first of the systems that ran, the fastest first, is the first: where it gains on the next one.
    sending_free: systems whose devices send one another something in no time; asked: how many were to run it."""
    first = ran[0]
    if len(ran) == 1:
        return f"Only {first.system} can run this workload." if asked > 1 else f"{first.system} has none beside it."
    second = ran[1]
    assert first.latency_s is not None and second.latency_s is not None
    gains = {name: _time(second, name) - _time(first, name) for name in ("prefill", "decode")}
    gained = max(gains, key=lambda name: gains[name])
    if second.latency_s == first.latency_s:
        return f"{first.system} and {second.system} take equally long."
    said = {"prefill": "the prompts", "decode": "decode"}
    lost = [name for name, gain in gains.items() if gain < 0]
    but = f", though it loses {_ms(-gains[lost[0]])} in {said[lost[0]]}" if lost else ""
    unlike = first.system in sending_free and second.system not in sending_free
    free = f" What devices send takes no time on {first.system}, and is in that of {second.system}." * unlike
    return (
        f"{first.system} ends first, {second.latency_s / first.latency_s:.3g} times as fast as {second.system}: it "
        f"gains {_ms(gains[gained])} in {said[gained]}{but}. In {said[gained]} {_bounded(first, gained)}; "
        f"{_bounded(second, gained)}.{free}"
    )


def notes(llm: LlmSpec, systems: Sequence[System], wanted: Wanted, found: Sequence[Compared]) -> list[str]:
    """What a reader must know to take the figures for what they are."""
    alike: dict[str, list[str]] = {}
    for system, row in zip(systems, found, strict=True):
        has, there = traits(system.kind), row.reason is None
        applies = {has.not_here: wanted.outside, has.sending: wanted.tp > 1, WHOLE: has.sequence == "own"}
        applies |= {has.static: "static" in (row.energy_by_part_j or {})}
        applies |= dict.fromkeys(beyond(llm, longest(wanted)), has.beyond)
        for said, is_so in applies.items():
            if said and is_so and there:
                alike.setdefault(said, []).append(system.name)
    for system, row in zip(systems, found, strict=True):
        told = row.energy_by_part_j is not None
        for note in (energy_note(system, wanted.tp, told=told), interpolation.said(row.interpolation_error)):
            if note and row.reason is None:
                alike.setdefault(note, []).append(system.name)
        if row.reason is None and (own := traits(system.kind).own_devices(system)) > 1 == wanted.tp:
            alike.setdefault(f"{own} devices share each layer, as its file has it", []).append(system.name)
    return [WITH if wanted.outside else LAYERS] + [f"{', '.join(names)}: {said}." for said, names in alike.items()]


def _time(one: Compared, phase: str) -> float:
    found: Phase | None = getattr(one, phase)
    return found.time_s if found else 0.0


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.3g} ms"


def _bounded(one: Compared, phase: str) -> str:
    found: Phase | None = getattr(one, phase)
    if found is None or found.bound is None or found.bound_share is None:
        return f"nothing is known of what bounds {one.system}"
    rate = "" if found.bound == "launches" else " at full rate"
    share = f"would take {100 * found.bound_share:.0f} % of the time{rate} by itself"
    if found.bound_share < MOSTLY:
        return f"{one.system} mostly waits: {found.bound}, the most of its work, {share}"
    return f"{one.system} is bound by {found.bound}, which {share}"
