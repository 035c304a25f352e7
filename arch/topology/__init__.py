"""Scale-up fabrics: how GPUs are joined into high-bandwidth domains. One file per family, numbers with their source.

A family is a frozen dataclass with `name` and `summary`; which groups of GPUs it can form is `mappers/fabric`'s.
"""

import re
from typing import TypeAlias

from pimloom.arch.document import nearest, short
from pimloom.arch.error import UserError
from pimloom.arch.topology.cubes import CUBES, Cubes
from pimloom.arch.topology.islands import ISLANDS, Islands
from pimloom.arch.topology.khop import KHop, khop
from pimloom.arch.topology.rings import SIP_RING, FixedRings
from pimloom.arch.topology.switch import BIG_SWITCH, BigSwitch

Topology: TypeAlias = BigSwitch | KHop | Islands | Cubes | FixedRings

NAMED: dict[str, Topology] = {one.name: one for one in (BIG_SWITCH, khop(2), khop(3), *ISLANDS, *CUBES, SIP_RING)}
"""What `all` means, in the order of tables and figures."""


def topology(name: str) -> Topology:
    """A fabric by name; `infinitehbd-kN` takes any N from 2 to 999. Raises UserError."""
    if found := NAMED.get(name):
        return found
    if match := re.fullmatch(r"infinitehbd-k(0|[1-9][0-9]{0,2})", name):
        if int(match[1]) < 2:
            raise UserError(f"--arch {name}: a node in the middle of a ring needs two bundles: expected K of 2 or more")
        return khop(int(match[1]))
    raise UserError(
        f"--arch {short(name)!r}: no such architecture{nearest(name, list(NAMED))}; "
        f"expected all, infinitehbd-kN with N of 2 to 999, or of {', '.join(NAMED)}"
    )


def topologies(names: str) -> list[Topology]:
    """Fabrics of a list `a,b,c`, or `all`; one that is named twice counts once. Raises UserError."""
    if names == "all":
        return list(NAMED.values())
    if "all" in (listed := names.split(",")):
        raise UserError(f"--arch {short(names)}: all stands alone; leave out the others")
    return list({name: topology(name) for name in listed}.values())
