"""Embedding, LM head and sampling in a sweep over several systems: on all of them, or on none."""

from collections.abc import Mapping

import msgspec

from pimloom.arch.error import UserError
from pimloom.sweeping.definition.sweep import WORKLOAD, Sweep
from pimloom.sweeping.point.shared import Base, resolved
from pimloom.sweeping.point.workload import Work
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.traits import settled, traits
from pimloom.systems.serving.devices import tp_of

KEY = "lm_head"
PLACES = {KEY, WORKLOAD + KEY}
OUT = "embedding, LM head and sampling are left out on all systems"
WITH = "embedding, LM head and sampling are in the results of all systems"


def settle_head(bases: Mapping[str, Base], sweep: Sweep) -> tuple[dict[str, Base], str]:
    """The bases with one choice for all systems, and a note on it; unchanged and without a note where the sweep says
    it, or serves on pools. Requests that arrive have them if all systems can; other work does not, as in `compare`."""
    if any(_is_said(base) for base in bases.values()):
        return dict(bases), ""
    served = next(iter(bases.values())).served
    lacking = [name for name, base in bases.items() if served and not _can(base, sweep.alone(name))]
    choice = served and not lacking
    why = f", as {' and '.join(lacking)} cannot have them" if lacking else ""
    found = {
        # of other work PIM-GPT by its file, and CENT as its own simulator, might have them
        name: msgspec.structs.replace(base, workload=base.workload | {KEY: choice})
        if served or base.kind in ("pim", "cent")
        else base
        for name, base in bases.items()
    }
    return found, f"{WITH if choice else OUT}{why}"


def _is_said(base: Base) -> bool:
    said = {*base.workload, *base.units, *base.set}
    return not said.isdisjoint({*PLACES, "pools", f"{WORKLOAD}pools", traits(base.kind).lm_head_at} - {""})


def _can(base: Base, sweep: Sweep) -> bool:
    """Whether a system can have them, at the first value of each axis. True for a point that it cannot run at all."""
    point = {axis.place: axis.values[0] if axis.values else axis.low or 0.0 for axis in sweep.axes}
    given = base.given(point)
    llm, tp, layers = base.models[str(given["model"])], given.get("tp", 1), given.get("layers")
    try:
        system = resolved(base, point, Work(llm.name))
        count = layers if isinstance(layers, int) else llm.num_hidden_layers
        share = Share(tp_of(system, tp if isinstance(tp, int) and tp > 1 else None), count, outside=False)
        device_of(system, llm, share)
    except UserError:
        return True
    try:
        device_of(settled(system, True)[0], llm, share._replace(outside=True))
    except UserError:
        return False
    return True
