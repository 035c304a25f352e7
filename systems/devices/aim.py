"""The AiM simulator's MAC benchmark, replayed on our AiM part."""

import numpy as np

from pimloom.arch.system import load_part
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.dram import issue
from pimloom.mappers.gemv import Emitter, instructions

FRONT_END_CK = 3  # accept, schedule and report: its simulator counts from the host, we from the first command


def macab_stream(table: Table, rows: int = 1024, columns: int = 64) -> np.ndarray:
    """`rows` times: open a row of all banks, `columns` MACs; a precharge between rows, none behind the last."""
    out, do = Emitter(), instructions(table)
    for row in range(rows):
        if row:
            out.add(do.precharge)
        out.add(do.activate, row)
        out.add(do.multiply, row, 0, columns)
    return out.stream()


def macab_cycles() -> int:
    """Cycles of `micro_macab_1024_16banks`: to the issue of the last MAC, and the front end."""
    table = compile_table(load_part("gddr6_aim").value)
    stream = macab_stream(table)
    found = issue(table, [stream], refresh=False)
    last = int(found.end_ck[0][-1]) - int(table.rules.done[stream["cmd"][-1]])
    return last + FRONT_END_CK
