"""How operators of an iteration overlap, as a user writes it."""

import re
from collections.abc import Mapping

from pimloom.arch.document import nearest
from pimloom.arch.error import of_option
from pimloom.arch.system import System
from pimloom.systems.devices.device import Device
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.serving.notes import channelled
from pimloom.systems.serving.overlap.device import Overlap, Overlapped
from pimloom.systems.serving.overlap.waves import Units

KINDS = ("serial", "nanoflow", "tokenweave", "sub-batches")
KEYS = {
    "serial": (),
    "nanoflow": ("parts",),
    "tokenweave": ("units", "collective", "offset"),
    "sub-batches": ("parts",),
}
UNITS = {"units": 132, "collective": 8}  # multiprocessors of an H100, and those of a collective [secondary: TokenWeave]
MOST = 4096
SUCH_AS = "such as nanoflow, nanoflow,parts=2, tokenweave,units=108, serial or sub-batches,parts=2"


def parse_overlap(text: str) -> tuple[str, Mapping[str, int]]:
    """The kind, and what was given of it. Raises UserError.

    >>> parse_overlap("tokenweave, units=108")
    ('tokenweave', {'units': 108})
    """
    kind, *words = (word.strip() for word in text.split(","))
    if kind not in KINDS:
        raise of_option("overlap", text, f"expected {', '.join(KINDS)}, {SUCH_AS}{nearest(kind, KINDS)}")
    found = dict[str, int]()
    for word in words:
        key, _, value = (part.strip() for part in word.partition("="))
        if key not in KEYS[kind]:
            known = ", ".join(KEYS[kind]) or "nothing"
            raise of_option("overlap", text, f"{kind} takes {known}, {SUCH_AS}, got {word!r}")
        if key in found:
            raise of_option("overlap", text, f"{key} is given twice")
        least = 0 if key == "offset" else 1
        if not re.fullmatch(r"\d{1,4}", value, re.ASCII) or not least <= int(value) <= MOST:
            raise of_option("overlap", text, f"{key}: expected a whole number of {least} to {MOST}, got {value!r}")
        found[key] = int(value)
    return kind, found


def settings_of(kind: str, given: Mapping[str, int], system: System) -> list[str]:
    """Sub-batches are a setting of an NPU beside PIM. Raises UserError for a system that does not overlap so."""
    if kind != "sub-batches":
        if system.kind != "roofline":
            raise of_option(
                "overlap",
                kind,
                f"{system.name} has no operators at their roofline; take a roofline, or sub-batches of an NPU beside "
                "PIM",
            )
        return []
    if not channelled(system):
        raise of_option("overlap", "sub-batches", f"{system.name} has no PIM beside its NPU; take neupims or npu_pim")
    return [f"interleave.sub_batches={given.get('parts', 2)}"]


def overlap_of(text: str) -> Overlap:
    """The same with all that nobody gave. Raises UserError."""
    kind, given = parse_overlap(text)
    units = None
    if kind == "tokenweave":
        asked = UNITS | dict(given)
        if asked["collective"] >= asked["units"]:
            raise of_option("overlap", text, f"collective: expected fewer than all {asked['units']} units")
        units = Units(asked["collective"], asked["units"])
    return Overlap(kind, given.get("parts"), units, given.get("offset", 0))


def overlapped(text: str, device: Device) -> Device:
    """The device whose operators overlap so. Raises UserError."""
    assert isinstance(device, RooflineDevice)
    return Overlapped(device, overlap_of(text))
