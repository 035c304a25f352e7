"""What a mapper hands to a PIM channel: commands that arrive in order, before the controller adds its own."""

import numpy as np

PIM_COMMANDS = ("GWRITE", "PIM_HEADER", "COMP", "READRES", "PIM_GEMV")
GWRITE, HEADER, COMP, READRES, GEMV = range(len(PIM_COMMANDS))

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
"""One PIM command of a channel. cmd: place in PIM_COMMANDS; bank: of the channel, counted through; count: COMPs of a
PIM_GEMV; comps, results: all COMPs and results that a PIM_HEADER announces; last: the command ends its tile; head: the
attention head whose result it yields or feeds, -1 if none."""
