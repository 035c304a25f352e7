"""A system to simulate: one YAML file that names its parts, with everything a user may `--set`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import asdict

from pimloom.arch.digest import decisive, digest, plain
from pimloom.arch.document import NEAREST, SET, nearest
from pimloom.arch.error import UserError
from pimloom.arch.inner_device import made_of, own
from pimloom.arch.llm import LlmSpec
from pimloom.arch.load import Loaded, Sheet, Source, choice_of, load_sheet, read_sheet, tree_of
from pimloom.arch.names import HERE as HERE
from pimloom.arch.names import find as find
from pimloom.arch.names import find_optics as find_optics
from pimloom.arch.names import is_optics as is_optics
from pimloom.arch.names import list_names as list_names
from pimloom.arch.part import Part
from pimloom.arch.part_channel import one_channel, without_pim
from pimloom.arch.part_file import load_part as load_part
from pimloom.arch.part_file import part_of
from pimloom.arch.part_file import part_sheet as part_sheet
from pimloom.arch.pim_stream import can_attend
from pimloom.arch.pim_system import PimSystem as PimSystem
from pimloom.arch.roofline import RooflineSystem as RooflineSystem
from pimloom.arch.routing import Routing
from pimloom.arch.unread import check_read, check_used

if TYPE_CHECKING:  # of each kind, what is its own is imported where a system is of that kind
    from pimloom.arch.aim_file import LoadedAim
    from pimloom.arch.attacc import AttAccSystem
    from pimloom.arch.cent import CentSystem
    from pimloom.arch.composition import ComposedSystem
    from pimloom.arch.duplex import Duplex
    from pimloom.arch.duplex_system import DuplexSystem
    from pimloom.arch.npu_pim import NpuPimSystem

KINDS: Mapping[str, tuple[str, str]] = {  # where the struct of each is, and its name
    "pim": ("pim_system", "PimSystem"),
    "roofline": ("roofline", "RooflineSystem"),
    "npu_pim": ("npu_pim", "NpuPimSystem"),
    "composed": ("composition", "ComposedSystem"),
    "cent": ("cent", "CentSystem"),
    "attacc": ("attacc", "AttAccSystem"),
    "duplex": ("duplex_system", "DuplexSystem"),
}
OF_DRAM = ("part", "pim_precharge")  # keys of a system below `dram.` that its file may leave out
Spec = TypeVar(
    "Spec",
    PimSystem, RooflineSystem, "NpuPimSystem", "ComposedSystem", "CentSystem", "AttAccSystem", "DuplexSystem",
)  # fmt: skip


def struct_of_kind(kind: str) -> type[msgspec.Struct]:
    """What a system of one of KINDS says."""
    module, name = KINDS[kind]
    found: type[msgspec.Struct] = getattr(import_module(f"pimloom.arch.{module}"), name)
    return found


@dataclass(frozen=True)
class System:
    """A resolved system: its own spec, its part if it has one, and the source of every value by dotted place. parts: of
    a composed system, by the names of its memories. aim, duplex: of a system that is made of such devices, one."""

    name: str
    spec: "PimSystem | RooflineSystem | NpuPimSystem | ComposedSystem | CentSystem | AttAccSystem | DuplexSystem"
    part: Part | None
    sources: Mapping[str, Source]
    parts: Mapping[str, Part] = field(default_factory=dict)
    aim: "LoadedAim | None" = None
    duplex: "Duplex | None" = None

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return self.spec.kind

    def of_kind(self, struct: type[Spec]) -> Spec:
        """The spec of a system that is of this kind. Raises UserError if it is of another."""
        if not isinstance(self.spec, struct):
            kinds = [kind for kind, (_, name) in KINDS.items() if name == struct.__name__]
            raise UserError(f"{self.name}: expected a system of kind {', '.join(kinds)}, got {self.kind}")
        return self.spec

    def where(self, place: str) -> str:
        """How an error names a place: by its line, by `--set`, or where nobody wrote it by the system."""
        file, line, _ = self.sources.get(place, ("", 0, ""))
        return f"{SET} {place}" if file == SET else f"{file}:{line}: at $.{place}" if line else f"{self.name}: {place}"

    @property
    def memory(self) -> Part:
        """The part of a system that has one. Raises UserError if it has none."""
        if self.part is None:
            raise UserError(f"{self.name}: expected a system with a memory part, it has none")
        return self.part

    @cached_property
    def digest(self) -> str:
        """Digest of all resolved values; names, descriptions and how a value was written do not count."""
        spec = asdict(self.spec) | {"description": ""}
        if spec.get("host", ...) is None:
            del spec["host"]  # without one, a system is what it was before there were any
        if spec.get("routing") == Routing():
            del spec["routing"]
        if "dram" in spec:
            spec["dram"] = asdict(spec["dram"]) | {"part": ""}  # a name or a path: what stands behind it follows
        if "memories" in spec:
            spec["memories"] = {name: asdict(memory) | {"part": ""} for name, memory in spec["memories"].items()}
        if self.aim:
            spec["aim"] = asdict(self.aim.spec) | {"description": "", "part": ""}
        if self.duplex:
            one = asdict(self.duplex.spec) | {"description": "", "part": ""}
            spec["device"] = [one, decisive(self.duplex.part)]
        parts = {name: decisive(part) for name, part in self.parts.items()}
        return digest(spec, self.part and decisive(self.part), *([parts] if parts else []))


def spec_digest(system: System, model: LlmSpec, **asked: Any) -> str:
    """Digest of everything that decides a result: system, model and request (tokens, seeds, options), as parsed
    values."""
    return digest(system.digest, model.decisive(), plain(asked))


def load_system(name: str, overrides: Mapping[str, str] | None = None, command: str | None = None) -> System:
    """Read a system by name or path, with `--set` overrides by dotted place. command: `run` or `serve`; overrides that
    only other commands read are refused. Raises UserError."""
    sheet = read_sheet(find("systems", name))
    check_read(system_kind(sheet), overrides or {}, command)
    return resolve(sheet, overrides or {})


def resolve(sheet: Sheet, overrides: Mapping[str, str], part: Callable[[str], Sheet] = part_sheet) -> System:
    """A system from the text of its file, with `--set` overrides. Raises UserError.

    part: the text of a part by name, or by the path that `dram.part` comes to.
    """
    check_read(system_kind(sheet), overrides)
    found = _resolved(sheet, overrides, part)
    check_used(found, overrides)
    return found


def _resolved(sheet: Sheet, overrides: Mapping[str, str], part: Callable[[str], Sheet]) -> System:
    path, kind = Path(sheet.path), system_kind(sheet)
    if kind == "composed":
        from pimloom.arch.composition_load import compose

        composed = compose(sheet, overrides, part)
        return System(path.stem, composed.spec, None, composed.sources, composed.parts)
    if kind == "cent":
        return _of_aim(sheet, overrides)
    if kind == "duplex":
        return _of_duplex(sheet, overrides)
    mine, below = split_overrides(overrides, tree_of(sheet))
    if kind == "roofline":
        baseline = load_sheet(sheet, RooflineSystem, mine)
        return System(path.stem, baseline.value, None, baseline.sources)
    loaded: Loaded[Any] = load_sheet(sheet, struct_of_kind(kind), mine)
    spec: PimSystem | NpuPimSystem | AttAccSystem = loaded.value
    device = spec.dram.part
    if device is None:
        return System(path.stem, spec, None, loaded.sources)
    if device.endswith((".yaml", ".yml")) and loaded.sources["dram.part"].file != SET:
        device = str(path.parent / device)  # a path in a file starts at that file
    try:
        sheet_of_part = part(device)
    except UserError as error:
        raise (UserError(f"--set dram.part: {error}") if loaded.sources["dram.part"].file == SET else error) from None
    if spec.kind == "npu_pim" and spec.dram.row_buffers == "blocked" and "pim" not in below:
        tree = tree_of(sheet_of_part)
        if isinstance(tree, dict) and not tree.get("pim"):
            raise UserError(_lacks_pim(path, device))
        below = {"pim": "newton"} | below
    try:
        found = part_of(sheet_of_part, below)
    except UserError as error:
        raise below_dram(error, tree_of(sheet)) from None
    if spec.kind == "npu_pim":
        memory = _npu_memory(found.value, spec, below, path)
        found, spec = Loaded(memory.part, found.sources), memory.spec
    elif spec.kind == "pim" and found.value.pim_unit is None:
        where = f"{SET} dram.part" if loaded.sources["dram.part"].file == SET else f"{path}: at $.dram.part"
        raise UserError(f"{where}: expected a part with a PIM unit, such as gddr6_pim_gpt, got {spec.dram.part}")
    sources = dict(loaded.sources) | {f"dram.{place}": source for place, source in found.sources.items()}
    return System(path.stem, spec, found.value, sources)


def _of_aim(sheet: Sheet, overrides: Mapping[str, str]) -> System:
    """A system of AiM devices; overrides of the device stand below `aim.`."""
    from pimloom.arch.aim_file import load_aim
    from pimloom.arch.cent import CentSystem

    loaded = load_sheet(sheet, CentSystem, own("aim", overrides))
    aim = made_of("aim", loaded.value.aim, load_aim, sheet, loaded.sources, overrides)
    return System(Path(sheet.path).stem, loaded.value, aim.part, loaded.sources, aim=aim)


def _of_duplex(sheet: Sheet, overrides: Mapping[str, str]) -> System:
    """A system of Duplex devices; overrides of the device stand below `device.`."""
    from pimloom.arch.duplex import load_duplex
    from pimloom.arch.duplex_system import DuplexSystem

    loaded = load_sheet(sheet, DuplexSystem, own("device", overrides))
    duplex = made_of("device", loaded.value.device, load_duplex, sheet, loaded.sources, overrides)
    return System(Path(sheet.path).stem, loaded.value, None, loaded.sources, duplex=duplex)


def system_kind(sheet: Sheet) -> str:
    """The kind of a system. Raises UserError if there is none such."""
    return choice_of(sheet, "kind", tuple(KINDS))


def kind_named(name: str) -> str:
    """The kind of a system by name or path, whose other keys are not looked at. Raises UserError."""
    return system_kind(read_sheet(find("systems", name)))


def below_dram(error: UserError, tree: dict[str, Any]) -> UserError:
    """An error about a part's place in a system, where it stands below `dram.` for the user, as some of its own do."""
    said, _, names = str(error).partition(NEAREST)
    if not said.startswith("--set "):
        return error
    place, _, why = said.removeprefix("--set ").partition(":")
    own = nearest(place, tree.get("dram", {})).removeprefix(NEAREST) if why.startswith(" no such key") else ""
    close = [f"dram.{name}" for name in dict.fromkeys([*own.split(", "), *names.split(", ")]) if name]
    return UserError(f"--set dram.{place}:{why}{NEAREST if close else ''}{', '.join(close[:3])}")


class _NpuMemory(NamedTuple):
    """The part of an NPU's memory, and the system whose channels are of that part."""

    part: Part
    spec: "NpuPimSystem"


def _npu_memory(part: Part, spec: "NpuPimSystem", overrides: Mapping[str, str], path: Path) -> _NpuMemory:
    """Without PIM any part, its pseudo channels as channels; else one of a kind with PIM. Raises UserError."""
    dram, n = spec.dram, part.organization.pseudo_channels
    if dram.row_buffers != "none" and not can_attend(part, dual=dram.row_buffers == "dual"):
        raise UserError(_lacks_pim(path, dram.part))
    if (dram.lanes == 0) != (dram.row_buffers == "none"):
        raise UserError(f"dram.lanes: expected 0 with row_buffers none and more otherwise, got {dram.lanes}")
    if dram.row_buffers != "none":
        if n > 1:
            raise UserError(f"dram.organization.pseudo_channels: expected 1 with PIM, got {n}")
        return _NpuMemory(one_channel(part), spec)
    found = without_pim(part)
    for place in overrides:
        if place.startswith("timing.") and place.removeprefix("timing.") not in found.timing:
            raise UserError(f"--set dram.{place}: a timing of PIM, which this system does not have; leave it out")
    for place, number in (("channels", dram.channels), ("organization.pseudo_channels", n)):
        if number & (number - 1):
            raise UserError(f"dram.{place}: expected a power of two, got {number}")
    channels = msgspec.structs.replace(dram, channels=dram.channels * n)
    return _NpuMemory(one_channel(found), msgspec.structs.replace(spec, dram=channels))


def _lacks_pim(path: Path, device: str) -> str:
    have = [name for name in list_names("parts") if load_part(name).value.pim in ("newton", "neupims")]
    said = f"expected a part with Newton's or NeuPIMs' PIM ({', '.join(have)}), got {device}"
    return f"{path}: at $.dram.part: {said}; an NPU with any memory is npu_only"


def part_places(sheet: Sheet) -> list[str]:
    """The places at which a system names its parts."""
    kind, tree = system_kind(sheet), tree_of(sheet)
    if kind == "composed":
        from pimloom.arch.composition_load import part_places as of_memories

        return of_memories(tree)
    return [] if kind in ("roofline", "duplex", "cent") or "dram" not in tree else ["dram.part"]


def split_overrides(overrides: Mapping[str, str], tree: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Overrides of the system itself, and those of its part (below `dram.`, without that prefix)."""
    mine: dict[str, str] = {}
    parts: dict[str, str] = {}
    dram = tree.get("dram", {})
    for place, text in overrides.items():
        head, _, rest = place.partition(".")
        if head == "dram" and isinstance(dram, dict) and rest and rest not in (*dram, *OF_DRAM):
            parts[rest] = text
        else:
            mine[place] = text
    return mine, parts
