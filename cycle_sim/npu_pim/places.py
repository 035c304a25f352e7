"""Which command of a part's table is which of the kernels: found by what it does, not by its name."""

from pimloom.arch.command import Command, Level, Role, Row
from pimloom.arch.table import Table
from pimloom.cycle_sim.npu_pim.kernels import fields as f

PLACE = {
    Role.REFRESH: f.REFAB,
    Role.READ: f.RD,
    Role.WRITE: f.WR,
    Role.COPY: f.GWRITE,
    Role.ANNOUNCE: f.HEADER,
    Role.MULTIPLY: f.COMP,
    Role.RESULTS: f.READRES,
    Role.GEMV: f.GEMV,
    Role.FIRST_MULTIPLY: f.COMP_FIRST,
    Role.LAST_MULTIPLY: f.GEMV_END,
}
ACTIVATE = {Level.BANK: f.ACT, Level.BANK_GROUP: f.G_ACT}
PRECHARGE = (f.PRE, f.PIM_PRE)  # by row buffer


def names_of(table: Table) -> tuple[str, ...]:
    """Name of the command at each place of the kernels, of those that others repeat too; empty where there is none."""
    names = [""] * len(f.COMMANDS)
    for command in table.counted:
        place = place_of(command)
        if place >= 0 and not names[place]:
            names[place] = command.name
    return tuple(names)


def place_of(command: Command) -> int:
    """Place of a command in the kernels, -1 if they know none like it: they close rows by PRECHARGE alone, of a bank,
    and refresh all banks."""
    if command.role is Role.ACTIVATE:
        return ACTIVATE.get(command.scope, -1)
    if command.role is Role.PRECHARGE:
        return PRECHARGE[command.buffer] if command.scope is Level.BANK else -1
    if command.role is Role.REFRESH and command.scope is Level.BANK or command.leaves is not Row.ANY:
        return -1
    return PLACE.get(command.role, -1)
