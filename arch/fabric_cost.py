"""What the network of a scale-up fabric is made of: parts, how many, and for how many GPUs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec

from pimloom.arch.document import SET, nearest, short
from pimloom.arch.error import UserError
from pimloom.arch.load import Loaded, load_yaml
from pimloom.arch.topology import topology
from pimloom.arch.topology.cluster import Cluster
from pimloom.arch.topology.khop import KHop

COMPONENTS = Path(__file__).parent / "fabrics" / "components.yaml"
HOPS = (2, 3)  # of the rings that `all` means

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(gt=0, le=10**9)]
Rate = Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part, bought and switched on."""

    MEANING: ClassVar[Mapping[str, str]] = {"usd": "price [$]", "w": "power [W]"}

    usd: Amount
    w: Amount


class Ring(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """InfiniteHBD: a node has as many slots as GPUs; K of them hold a bundle, the others a plain cable."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "links": "how the GPUs of a group are joined",
        "gb_s": "bandwidth of a GPU, each way [GB/s]",
        "per_bundle": "parts of a bundle, name: count [1]",
        "per_slot": "parts of a slot without a bundle, name: count [1]",
    }

    links: Literal["ring"]
    gb_s: Rate
    per_bundle: dict[str, Count]
    per_slot: dict[str, Count]


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fabric that is bought in one piece."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "links": "how the GPUs are joined",
        "gpus": "GPUs that the parts join [1]",
        "gb_s": "bandwidth of a GPU, each way [GB/s]",
        "parts": "parts, name: count [1]; null where no list is known",
    }

    links: Literal["switch", "torus"]
    gpus: Count
    gb_s: Rate
    parts: dict[str, Count] | None


class Components(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`arch/fabrics/components.yaml`: prices, and the lists of parts."""

    description: str
    parts: dict[str, Price]
    infinitehbd: Ring
    domains: dict[str, Domain]


@dataclass(frozen=True)
class Line:
    """`count` pieces of a part; `evidence` names the tags of its price and its count."""

    part: str
    count: int
    price: Price
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Bill:
    """All parts that join `gpus` GPUs with `gb_s` [GB/s] each, each way."""

    arch: str
    gpus: int
    gb_s: float
    lines: tuple[Line, ...]

    @property
    def evidence(self) -> tuple[str, ...]:
        """Tags of all numbers that enter, each once, in order of the alphabet."""
        return tuple(sorted({tag for line in self.lines for tag in line.evidence}))


def load_components(path: str | Path = COMPONENTS, overrides: Mapping[str, str] | None = None) -> Loaded[Components]:
    """Read prices and lists; `ocstrx.usd` is short for `parts.ocstrx.usd` in overrides. Raises UserError."""
    if path == COMPONENTS and not overrides:
        return _as_installed()
    return _load(Path(path), {_whole(place): text for place, text in (overrides or {}).items()})


@lru_cache(maxsize=1)
def _as_installed() -> Loaded[Components]:
    return _load(COMPONENTS, {})


def _load(path: Path, overrides: Mapping[str, str]) -> Loaded[Components]:
    loaded = load_yaml(path, Components, overrides)
    found = loaded.value
    for name, domain in found.domains.items():
        below = f"domains.{name}."
        if set_ := [place for place in overrides if domain.parts is None and place.startswith(below)]:
            raise UserError(f"--set {set_[0]}: not read: {name} has no list of parts, and so no cost; leave it out")
    lists = {"infinitehbd.per_bundle": found.infinitehbd.per_bundle, "infinitehbd.per_slot": found.infinitehbd.per_slot}
    lists |= {f"domains.{name}.parts": domain.parts or {} for name, domain in found.domains.items()}
    for place, parts in lists.items():
        for part in parts.keys() - found.parts.keys():
            where = f"{path}:{loaded.sources[f'{place}.{part}'].line}: at $.{place}"
            raise UserError(f"{where}: no price of {part!r}{nearest(part, found.parts)}; add it to parts")
    return loaded


def bill_names(components: Components) -> list[str]:
    """Architectures that `all` means: those with a list of parts."""
    return [f"infinitehbd-k{hops}" for hops in HOPS] + [n for n, d in components.domains.items() if d.parts]


@dataclass(frozen=True)
class Hbd:
    """A high-bandwidth domain as a GPU sees it: `gb_s` [GB/s] each way, among at most `gpus` GPUs (None: all)."""

    arch: str
    gb_s: float
    gpus: int | None
    links: Literal["ring", "switch", "torus"]


def hbd_of(components: Components, name: str) -> Hbd:
    """The domain of a fabric by the name of its topology. Raises UserError where no bandwidth is known."""
    found = _find(components, name)
    if isinstance(found, KHop):
        return Hbd(name, components.infinitehbd.gb_s, None, components.infinitehbd.links)
    return Hbd(name, found.gb_s, found.gpus, found.links)


def bill(loaded: Loaded[Components], name: str, gpus_per_node: int) -> Bill:
    """The parts of a fabric by the name of its topology; `gpus_per_node` (R) matters to rings only.

    Raises UserError: a name without a list of parts, more bundles than slots.
    """
    components = loaded.value
    found = _find(components, name)
    if isinstance(found, KHop):
        Cluster(gpus_per_node, gpus_per_node).check(found)
        ring = components.infinitehbd
        lines = _lines(loaded, "infinitehbd.per_bundle", ring.per_bundle, found.hops)
        lines += _lines(loaded, "infinitehbd.per_slot", ring.per_slot, gpus_per_node - found.hops)
        return Bill(name, gpus_per_node, ring.gb_s, lines)
    if found.parts is None:
        raise UserError(f"--arch {name}: no list of its parts is known; expected of {_known(components)}")
    key = _domain_of(name)
    return Bill(name, found.gpus, found.gb_s, _lines(loaded, f"domains.{key}.parts", found.parts, 1))


def _find(components: Components, name: str) -> Domain | KHop:
    if domain := components.domains.get(_domain_of(name)):
        return domain
    if name.startswith("infinitehbd-k"):
        fabric = topology(name)
        assert isinstance(fabric, KHop)
        return fabric
    known = list(components.domains)
    raise UserError(
        f"--arch {short(name)!r}: no parts and no bandwidth of it are known{nearest(name, known)}; "
        f"expected of {_known(components)}"
    )


def _domain_of(name: str) -> str:
    """Slices are a rule of placement: both rules of TPUv4 have the same parts."""
    return "tpuv4" if name == "tpuv4-slices" else name


def _known(components: Components) -> str:
    return ", ".join(["infinitehbd-kN", *(name for name, domain in components.domains.items() if domain.parts)])


def _lines(loaded: Loaded[Components], place: str, parts: Mapping[str, int], times: int) -> tuple[Line, ...]:
    prices = loaded.value.parts

    def tags(part: str) -> tuple[str, ...]:
        places = (f"{place}.{part}", f"parts.{part}.usd", f"parts.{part}.w")
        return tuple(dict.fromkeys(_tag(loaded, here) for here in places))

    return tuple(Line(part, count * times, prices[part], tags(part)) for part, count in parts.items() if times)


def _tag(loaded: Loaded[Components], place: str) -> str:
    source = loaded.sources[place]
    if source.file == SET:
        return SET
    match = re.match(r"\[(\w+)", source.text)
    return match[1] if match else "untagged"


def _whole(place: str) -> str:
    return place if place.split(".")[0] in Components.__struct_fields__ else f"parts.{place}"
