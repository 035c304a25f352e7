"""Pools and the link between them, as a user writes them."""

import re
from typing import NamedTuple

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError
from pimloom.arch.link_names import named_links

SPLIT = r"\s*:\s*(?:tp|pp)\s*\d{1,6}"
ONE = rf"\s*=\s*([^*,=]+?)\s*(?:\*\s*(\d{{1,6}}))?((?:{SPLIT})*)\s*"
WRITTEN = re.compile(rf"\s*prefill{ONE},\s*decode{ONE}")
NUMBER = r"(\d+\.?\d*)"
LINK = re.compile(rf"{NUMBER}Gb/s(?:,{NUMBER}ns)?(?:,{NUMBER}pJ/bit)?", re.ASCII)
SUCH_AS = "prefill=gpu_a100*2,decode=neupims*4"
SIDES = ("prefill", "decode")
AFTER, LAYERS = "after", "layers"
TRANSFERS = (AFTER, LAYERS)


class Pool(NamedTuple):
    """A system by name, and how many copies of the model on it; of each the devices that share a layer, and the stages
    of its pipeline, None: as the other pool has them, by an option for both."""

    system: str
    replicas: int
    tp: int | None = None
    pp: int | None = None


class Link(NamedTuple):
    """Between the pools, one way. latency_ns: of a cache, on its way; pj_per_bit: None: not known."""

    gbps: float
    latency_ns: float = 0.0
    pj_per_bit: float | None = None


class Pools(NamedTuple):
    """Both, and the link."""

    prefill: Pool
    decode: Pool
    link: Link


def parse_link(text: str) -> Link:
    """A link from a name in arch/fabrics/links.yaml, or from a rate with optional latency and energy. Raises UserError.

    >>> parse_link("nvlink3"), parse_link("25Gb/s,2000ns")
    (Link(gbps=2400, latency_ns=600, pj_per_bit=1.3), Link(gbps=25.0, latency_ns=2000.0, pj_per_bit=None))
    """
    if text in (named := named_links()):
        return Link(*(named[text][key] for key in Link._fields))
    found = LINK.fullmatch(text)
    if not found or not float(found[1]) > 0:
        raise UserError(
            f"--link {text}: expected Gb/s above 0, such as 400Gb/s or 400Gb/s,600ns,5pJ/bit, or a name: "
            f"{', '.join(named)}{nearest(text, named)}"
        )
    return Link(float(found[1]), float(found[2] or 0), None if found[3] is None else float(found[3]))


def parse_pools(text: str, link: str | None) -> Pools | None:
    """As a user writes a system; None if it is one system alone. Raises UserError.

    >>> parse_pools("prefill=a*2:tp2:pp4, decode=b", "400Gb/s")[:2]
    (Pool(system='a', replicas=2, tp=2, pp=4), Pool(system='b', replicas=1, tp=None, pp=None))
    """
    if "=" not in text:
        if link is not None:
            said = f"is between pools, such as {SUCH_AS}; leave it out, or --set link.gbps=... of a system"
            raise UserError(f"--link {link}: {said}")
        return None
    if not (match := WRITTEN.fullmatch(text)):
        raise UserError(f"{text}: {_wrong(text)}; expected one system, or pools such as {SUCH_AS}")
    if link is None:
        raise UserError(f"{text}: expected --link, which carries keys and values, such as --link 400Gb/s")
    one, two = (_pool(text, *match.groups()[at : at + 3]) for at in (0, 3))
    return Pools(one, two, parse_link(link))


def _pool(text: str, system: str, replicas: str | None, split: str) -> Pool:
    found = dict[str, int]()
    for key, number in re.findall(r"(tp|pp)\s*(\d+)", split):
        if key in found:
            raise UserError(f"{text}: {key} of a pool is given twice")
        found[key] = int(number)
    if ":" in system and not system.endswith((".yaml", ".yml")):
        at = system.index(":")
        raise UserError(f"{text}: expected :tpN or :ppN behind {system[:at]} and its *N, got {system[at:]!r}")
    pool = Pool(system, int(replicas or 1), **found)
    if 0 in pool:
        raise UserError(f"{text}: expected at least one of each, such as {SUCH_AS}")
    return pool


def _wrong(text: str) -> str:
    """The first part of pools that is wrong, and how."""
    parts = [part.partition("=")[::2] for part in text.split(",")]
    names = [name.strip() for name, _ in parts]
    for name, (_, written) in zip(names, parts, strict=True):
        if name not in SIDES:
            return f"{name!r} is no pool{nearest(name, SIDES)}"
        if names.count(name) > 1:
            return f"{name} is given twice"
        if why := _wrong_side(written):
            return f"{name}: {why}"
    missing = [name for name in SIDES if name not in names]
    return f"there is no {missing[0]}" if missing else f"{SIDES[0]} comes before {SIDES[1]}"


def _wrong_side(written: str) -> str:
    system, star, rest = written.partition("*")
    if not system.partition(":")[0].strip():
        return "no system is named"
    count = rest.partition(":")[0].strip()
    if star and not re.fullmatch(r"\d{1,6}", count):
        return f"{count!r} is no number of copies, from 1 to 999999"
    places = [each.strip() for each in (rest if star else system).split(":")[1:]]
    odd = [each for each in places if not re.fullmatch(r"(tp|pp)\s*\d{1,6}", each)]
    return f"':{odd[0]}' is neither :tpN nor :ppN" if odd else ""
