"""Keys that a system's file or part has, but the system does not read: why, and what to set instead."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pimloom.arch.command import Role, Row
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.part_channel import without_pim
from pimloom.arch.source import SET
from pimloom.arch.standard import join_tables, read_timings

if TYPE_CHECKING:
    from pimloom.arch.aim import AimDevice
    from pimloom.arch.attacc import AttAccSystem
    from pimloom.arch.composition import ComposedSystem
    from pimloom.arch.duplex_system import DuplexSystem
    from pimloom.arch.memory import Policy
    from pimloom.arch.npu_pim import NpuPimSystem
    from pimloom.arch.pim_system import PimSystem
    from pimloom.arch.roofline import RooflineSystem
    from pimloom.arch.routing import Routing
    from pimloom.arch.system import System

NO_CURRENTS = "its energy does not use currents of the part; leave it out"
RINGS = "its devices form rings, as in its authors' simulator; leave it out"
CURRENTS = ("VDD", "current.", "devices")
FIXED: Mapping[str, Mapping[str, str]] = {  # kind: place, or what places start with: why
    "roofline": {"routing.seed": "it takes the exact mean of all draws; leave it out"},
    "cent": {
        "energy.instruction_buffer.write_mw": "instructions are loaded before the first token; leave it out",
        "aim.dram.io_pj_per_bit": "energy.dq_pj_per_bit is the energy of its pins; set that",
        "aim.dram.pim_unit.mac_power_mw": "the power of a MAC is energy.mac_factor x energy.read_mw; set these",
        **{f"aim.dram.{key}": NO_CURRENTS for key in CURRENTS},
        "aim.registers": "only instructions that pimloom aim reads name registers; leave it out",
        "aim.dram.timing.tRCDMACsb": "its programs have no MAC of one bank; leave it out",
    },
    "attacc": {
        "dram.io_pj_per_bit": "the energy of wires in its stacks is fixed; leave it out",
        **{f"dram.{key}": NO_CURRENTS for key in CURRENTS},
    },
    "duplex": {
        "device.part.io_pj_per_bit": "the energy of a column includes the wires of its stacks; leave it out",
        **{f"device.part.{key}": NO_CURRENTS for key in CURRENTS},
        "device.logic_die_mm2": "only pimloom report duplex uses it; leave it out",
        "device.links.node.topology": RINGS,
        "device.links.network.topology": RINGS,
    },
    "pim": {"npu.sram_bytes": "it documents the synthesised area and limits nothing; leave it out"},
}
AREA = "an area, which {} does not report; pimloom compare"
BANK = "the area of a second row buffer, which {} does not report; pimloom report neupims does"
ENDS = "{} takes --lm-head or --no-lm-head; give one of them"
AT_REST = "power at rest, which {} does not charge; pimloom serve does"
OF_OTHERS: Mapping[str, Mapping[str, Mapping[str, str]]] = {  # kind, place: why, of commands that do not read it
    "run": {"pim": {"dram.current.IDD2N": AT_REST}, "roofline": {"idle_w": AT_REST}},
    "compare": {"pim": {"dram.current.IDD2N": AT_REST, "workload.lm_head": ENDS}, "roofline": {"idle_w": AT_REST}},
    "serve": {"pim": {"workload.lm_head": ENDS}},
    "sweep": {"pim": {"dram.current.IDD2N": AT_REST}, "roofline": {"idle_w": AT_REST}},
    "served sweep": {},
}
WITH_AREA = {"compare": ("pim", "attacc", "duplex"), "sweep": ("pim",), "served sweep": ("pim",)}  # kinds of systems
AREAS: Mapping[str, Mapping[str, str]] = {  # what other commands do not report
    "pim": {"npu.area_mm2": f"{AREA} and sweeps do"},
    "attacc": {"stacks.area.": f"{AREA} does"},
    "duplex": {"device.logic_area_mm2.": f"{AREA} does"},
    "npu_pim": {"bank.": BANK},
}
OF_PIM = {  # of a Duplex device, which another processor beside the xPU does not read
    "logic": ("device.logic_pim.", "device.bundle_banks"),
    "bank_group": ("device.bank_group_pim.",),
    "bank": ("device.bank_pim.",),
}
OF_COMMANDS = ("controller", "device.part.one_bus")  # of Duplex, which an ideal memory does not read
IDEAL = "an ideal memory has no commands; set memory=simulated, or leave it out"
REFRESHED = ("timing.tRFC", "timing.tREFI")
BY_BANK = ("timing.tRFCpb", "timing.tREFIpb", "timing.tRREFD", "timing.tPBR2ACT", "timing.tPBR2PBR", "current.IDD5PB")
ASLEEP = ("timing.tCKESR", "timing.tXS", "current.IDD6")
ROWS = frozenset({Role.ACTIVATE, Role.MULTIPLY, Role.PRECHARGE})
OF_DOTS = {"nGEMV", "nTREE"}  # not rules, but times of dot products in the units beside the banks
OF_AIM = ROWS | {Role.LOAD, Role.RESULTS, Role.SCATTER, Role.WRITE}  # PIM-GPT and units at banks: K and V are written
OF_ARRAYS = frozenset({Role.ACTIVATE, Role.PRECHARGE, Role.READ, Role.WRITE})
OF_DUPLEX = ROWS | {Role.READ}
OF_ATTACC = {"bank": "AB", "bg": "SB", "buffer": "PB"}  # a placement of units, and how its commands of rows end


class Unread(NamedTuple):
    """A key that is not read: its dotted place, and why. A place that ends with a dot stands for all keys below it.

    because: the key that causes it. Unless an override sets that key, a file with the unread key is refused, too.
    """

    place: str
    why: str
    because: str = ""

    def names(self, place: str) -> bool:
        """Whether this covers a place."""
        return place == self.place or (self.place.endswith(".") and place.startswith(self.place))


def check_read(kind: str, overrides: Iterable[str], command: str | None = None) -> None:
    """Raise UserError for an override that systems of this kind do not read, or that `command` does not read."""
    found = [Unread(place, f"{kind} does not read it: {why}") for place, why in FIXED.get(kind, {}).items()]
    if command is not None and command in OF_OTHERS:
        areas = {} if kind in WITH_AREA.get(command, ()) else AREAS.get(kind, {})
        places = {**OF_OTHERS[command].get(kind, {}), **areas}
        found += [Unread(place, f"not read: {why.format(command)}") for place, why in places.items()]
    refuse(found, overrides)


def check_used(system: "System", overrides: Iterable[str]) -> None:
    """Raise UserError for an override, or a key of the system's file, that has no effect because of other keys."""
    if system.kind not in BY_KIND:
        return
    rules = [*BY_KIND[system.kind](system), *_draws(system)]
    refuse(rules, overrides)
    for rule in rules:
        if rule.because and not system.where(rule.because).startswith(SET):
            for place, source in system.sources.items():
                if source.line and source.file == system.sources["kind"].file and rule.names(place):
                    raise UserError(f"{system.where(place)}: {rule.why}")


def refuse(unread: Iterable[Unread], overrides: Iterable[str], below: str = "") -> None:
    """Raise UserError for an override that one of `unread` covers. below: prefix of the places in the error."""
    rules = list(unread)
    for place in overrides:
        for rule in rules:
            if rule.names(place):
                raise UserError(f"--set {below}{place}: {rule.why}")


def _draws(system: "System") -> Iterator[Unread]:
    """A seed of draws where nothing is drawn."""
    routing: Routing | None = getattr(system.spec, "routing", None)
    if routing is not None and not routing.drawn:
        why = "not read with routing.drawn=false; set routing.drawn=true, or leave it out"
        yield Unread("routing.seed", why)


def _roofline(system: "System") -> Iterator[Unread]:
    spec: RooflineSystem = system.spec  # type: ignore[assignment]
    if not spec.launch_us:
        yield Unread("kernels_per_layer", "not read with launch_us=0; set launch_us, too, or leave it out")


def _pim(system: "System") -> Iterator[Unread]:
    spec: PimSystem = system.spec  # type: ignore[assignment]
    if not spec.dram.refresh:
        for place in REFRESHED:
            yield Unread(f"dram.{place}", "not read with dram.refresh=false; set dram.refresh=true, or leave it out")
    if not spec.energy.interface:
        why = "not read with energy.interface=false; set energy.interface=true, or leave it out"
        yield Unread("dram.io_pj_per_bit", why)
    yield from _timings(system.part, "dram.", _sent(system.part, OF_AIM, refreshed=spec.dram.refresh))


def _attacc(system: "System") -> Iterator[Unread]:
    spec: AttAccSystem = system.spec  # type: ignore[assignment]
    if not spec.stacks.each:
        why = f"{system.name} has no stacks; take attacc, which has some, or leave it out"
        places = ("dram.", "stacks.placement", "stacks.power_limited", "stacks.area.")
        yield from (Unread(place, why, "stacks.each") for place in places)
        return
    if system.part is None:
        yield Unread("stacks.each", "stacks need dram.part; set it, too, or take attacc", "kind")
        return
    others = tuple(end for placement, end in OF_ATTACC.items() if placement != spec.stacks.placement)
    plain, table = (join_tables(system.part.standard, pim) for pim in (None, system.part.pim))
    own = table.commands[len(plain.commands) :]
    sent = {c.name for c in own if not (c.role in ROWS and c.name.endswith(others))}
    yield from _timings(system.part, "dram.", frozenset({*sent, plain.refresh}))


def _duplex(system: "System") -> Iterator[Unread]:
    spec: DuplexSystem = system.spec  # type: ignore[assignment]
    assert system.duplex is not None
    unread = [(place, f"pim={spec.pim}", f"pim={pim}") for pim in OF_PIM if pim != spec.pim for place in OF_PIM[pim]]
    if not spec.co_processing:
        unread.append(("router", "co_processing=false", "co_processing=true"))
    if spec.nodes == 1:
        unread.append(("device.links.network.", "nodes=1", "nodes=2"))
    for place, why, instead in unread:
        yield Unread(place, f"not read with {why}; set {instead}, or leave it out")
    if spec.memory == "ideal":
        yield from (Unread(place, f"not read with memory=ideal: {IDEAL}") for place in OF_COMMANDS)
    else:
        part = system.duplex.part
        yield from _timings(part, "device.part.", _sent(part, OF_DUPLEX, refreshed=True))


def _npu_pim(system: "System") -> Iterator[Unread]:
    spec: NpuPimSystem = system.spec  # type: ignore[assignment]
    part, buffers = system.memory, "dram.row_buffers"
    if spec.dram.row_buffers == "none":
        why = "not read: there is no PIM with dram.row_buffers=none; take npu_pim or neupims, or leave it out"
        places = ("controller.pim_queue_entries", "controller.pim_floor_ck", "dram.pim_precharge", "dram.pim_unit.")
        yield from (Unread(place, why, buffers) for place in (*places, "packing.constants", "energy.comp_reads"))
    else:
        why = "not read: PIM multiplies matrices by vectors; leave it out"
        yield Unread("npu.gemv_load_cyc", why)
        sent = frozenset(command.name for command in join_tables(part.standard, part.pim).commands)
        for name in _unbound(part.standard, part.pim, frozenset(part.timing), sent) - OF_DOTS:
            yield Unread(f"dram.timing.{name}", f"not read with dram.row_buffers={spec.dram.row_buffers}; leave it out")
    if spec.dram.row_buffers == "blocked":
        why = "not read with dram.row_buffers=blocked, where PIM never yields; set dual, or leave it out"
        yield Unread("controller.pim_floor_ck", why, buffers)
    if spec.energy is None:
        yield from _energies("dram.", "the system has no key energy, and so no energy")
    elif not system.memory.current:
        yield from _energies("dram.", "its part has no currents, and so no energy")


def _cent(system: "System") -> Iterator[Unread]:
    assert system.aim is not None
    yield from _of_aim(system.aim.spec, "aim.")


def _composed(system: "System") -> Iterator[Unread]:
    from pimloom.arch.composition_check import hands_over

    spec: ComposedSystem = system.spec  # type: ignore[assignment]
    together = hands_over(spec, system.parts)
    for name, part in system.parts.items():
        below = f"memories.{name}."
        if together:
            yield from _energies(below, "arrays beside PIM have no energy model")
            continue
        yield Unread(f"{below}io_pj_per_bit", f"not read: the energy of a bit is {below}pj_per_bit; set that")
        dynamic = ("IDD0", "IDD4R", "IDD4W", "IDD5PB", "IDD6")
        why = f"only currents of standby and refresh are read; set {below}pj_per_bit for accesses"
        yield from (Unread(f"{below}current.{idd}", f"not read: {why}") for idd in dynamic)
        if not part.current:
            why = "not read: its part has no currents; leave it out"
            yield from (Unread(f"{below}{key}", why) for key in CURRENTS)
        users = {key: unit for key, unit in spec.units.items() if unit.memory == name}
        beside = [key for key, unit in users.items() if getattr(unit, "at", "") == "bank"]
        if beside:
            why = f"the power of its MAC units is units.{beside[0]}.power_w; set that"
            yield Unread(f"{below}pim_unit.mac_power_mw", f"not read: {why}")
            yield from _timings(part, below, _sent(part, OF_AIM, refreshed=True))
        else:
            yield Unread(f"{below}pim_unit.", "not read: no unit computes beside the banks; leave it out")
        if any(unit.type == "arrays" for unit in users.values()):
            yield from _timings(part, below, _sent(part, OF_ARRAYS, refreshed=True))
        if all(unit.type == "roofline" or getattr(unit, "at", "bank") != "bank" for unit in users.values()):
            read = {"tRFC", "tREFI", "tCCD_S", "tCCD_L", "nBL", "tRAS", "tRP", "tRC"}
            why = "not read: no unit of this memory sends commands one by one; leave it out"
            yield from (Unread(f"{below}timing.{timing}", why) for timing in part.timing if timing not in read)


BY_KIND: Mapping[str, Callable[["System"], Iterable[Unread]]] = {
    "roofline": _roofline,
    "pim": _pim,
    "attacc": _attacc,
    "duplex": _duplex,
    "npu_pim": _npu_pim,
    "cent": _cent,
    "composed": _composed,
}


def _energies(below: str, why: str) -> Iterator[Unread]:
    for key in (*CURRENTS, "io_pj_per_bit", "pim_unit.mac_power_mw"):
        yield Unread(f"{below}{key}", f"not read: {why}; leave it out")


def _sent(part: Part | None, roles: Collection[Role], refreshed: bool) -> frozenset[str]:
    """The commands of a part with these roles; reads and writes leave their row open."""
    assert part is not None
    table = join_tables(part.standard, part.pim)
    closing = {c.name for c in table.commands if c.role in (Role.READ, Role.WRITE) and c.leaves is Row.CLOSED}
    found = {c.name for c in table.commands if c.role in roles} - closing
    return frozenset(found | {table.refresh} if refreshed else found)


def _timings(part: Part | None, below: str, commands: frozenset[str]) -> Iterator[Unread]:
    """Timings of a part that bind none of these commands."""
    assert part is not None
    for name in _unbound(part.standard, part.pim, frozenset(part.timing), commands):
        yield Unread(f"{below}timing.{name}", "not read: it binds no command that this system sends; leave it out")


@lru_cache(maxsize=64)
def _unbound(standard: str, pim: str | None, timing: frozenset[str], commands: frozenset[str]) -> frozenset[str]:
    checked = {"nBL", "tRAS", "tRP", "tRC", "tRFC", "tREFI"}  # sums that a part must keep
    return timing - read_timings(standard, pim, timing, commands) - checked


def _of_aim(spec: "AimDevice", below: str) -> Iterator[Unread]:
    if spec.refresh == "none":
        for place in REFRESHED:
            why = f"not read with {below}refresh=none; set {below}refresh=all_bank, too, or leave it out"
            yield Unread(f"{below}dram.{place}", why)


def check_aim(spec: "AimDevice", overrides: Iterable[str]) -> None:
    """Raise UserError for an override that `pimloom aim` does not read: it counts clocks and commands."""
    no_energy = _energies("dram.", "pimloom aim counts clocks and commands and reports no energy")
    row = "not read: the global buffer of instructions has the columns of a row; leave it out"
    refuse([*no_energy, Unread("dram.pim_unit.global_buffer_bytes", row), *_of_aim(spec, "")], overrides)


def check_switch(overrides: Iterable[str]) -> None:
    """Raise UserError for an override of an optical part that `pimloom fabric switch` does not read."""
    places = ("lanes.", "optical.", "hop.", "bundle_modules", "power_w", "core_power_w", "cost_usd")
    why = "not read: pimloom fabric switch follows light and data through one module; leave it out"
    best = Unread("timing.reconfigure_best", "not read: switches take the worst case, timing.reconfigure; set that")
    refuse([*(Unread(place, why) for place in places), best], overrides)


def check_policy(policy: "Policy", overrides: Iterable[str]) -> None:
    """Raise UserError for an override of a controller that has no effect because of its other keys."""
    refuse(_of_policy(policy), overrides, "controller.")


def _of_policy(policy: "Policy") -> Iterator[Unread]:
    if policy.page != "adaptive":
        why = f"not read with page={policy.page}; set controller.page=adaptive, or leave it out"
        yield Unread("page_timeout_ck", why)
    if policy.structure == "buffered":
        for place in ("queues", "queue_entries", "requests_per_ck", "arbiter", "drain_idle"):
            yield Unread(place, "not read with structure=buffered, which has no command queues; leave it out")
        if policy.page == "open":
            yield Unread("row_hit_cap", "not read with page=open here; set controller.page=closed, or leave it out")


def check_traced(part: Part, policy: "Policy", overrides: Iterable[str]) -> None:
    """Raise UserError for an override of a part that `pimloom trace` does not read, as it sends no PIM commands."""
    refuse(_traced(part, policy), overrides, "dram.")


def _traced(part: Part, policy: "Policy") -> Iterator[Unread]:
    of_pim = "not read: pimloom trace sends no command of PIM; leave it out"
    yield Unread("pim_unit.", of_pim)
    for name in part.timing.keys() - without_pim(part).timing.keys():
        yield Unread(f"timing.{name}", of_pim)
    if not part.current:
        yield from _energies("", "the part has no currents, and so a trace has no energy")
    if policy.refresh == "none":
        for place in REFRESHED:
            yield Unread(place, "not read with controller.refresh=none; set controller.refresh, too, or leave it out")
    if policy.refresh != "per_bank":
        for place in BY_BANK:
            why = "not read: refreshes are of all banks; set controller.refresh=per_bank, or leave it out"
            yield Unread(place, why)
    if policy.self_refresh_after_ck is None:
        for place in ASLEEP:
            why = "not read with controller.self_refresh_after_ck=null; set that, too, or leave it out"
            yield Unread(place, why)
