"""What a mapper hands to a PIM channel: commands that arrive in order, before the controller adds its own.

They are named by what they do: which command of the part's table does it, the controller knows.
"""

import numpy as np

from pimloom.arch.command import Role
from pimloom.arch.part import Part
from pimloom.arch.table import compile_table

PIM_ROLES = (Role.COPY, Role.ANNOUNCE, Role.MULTIPLY, Role.RESULTS, Role.GEMV)
COPY, ANNOUNCE, MULTIPLY, RESULTS, GEMV = range(len(PIM_ROLES))

NEEDED = (Role.COPY, Role.ANNOUNCE)  # of every part; and results of its multiplications, one by one or fused


def can_attend(part: Part, *, dual: bool) -> bool:
    """Whether the part's commands do what streams ask for, with a row buffer of PIM (`dual`) or without."""
    roles = {command.role for command in compile_table(part).commands}
    return roles.issuperset((*NEEDED, Role.GEMV) if dual else (*NEEDED, Role.MULTIPLY, Role.RESULTS))


PIM_STREAM = np.dtype(
    [
        ("cmd", np.int64),
        ("bank", np.int64),
        ("row", np.int64),
        ("col", np.int64),
        ("count", np.int64),
        ("comps", np.int64),
        ("results", np.int64),
        ("last", np.int64),
        ("head", np.int64),
    ]
)
"""One PIM command of a channel. cmd: place in PIM_ROLES; bank: of the channel, counted through; count:
multiplications of a GEMV; comps, results: all multiplications and results that an ANNOUNCE tells of; last: the command
ends its tile; head: the attention head whose result it yields or feeds, -1 if none."""
