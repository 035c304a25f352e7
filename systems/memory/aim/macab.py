"""The AiM simulator's benchmark of MACs in all banks, on our AiM device."""

from pimloom.arch.aim import END
from pimloom.cycle_sim.aim.simulate import simulate
from pimloom.systems.memory.aim.asked import find_device
from pimloom.systems.memory.aim.trace_file import parse_program


def macab_cycles(rows: int = 1024, columns: int = 64) -> int:
    """Cycles of its `micro_macab_1024_16banks`: `columns` MACs of each of `rows` rows in all banks and channels."""
    device = find_device("gddr6_aim", {})
    mask = (1 << device.spec.channels) - 1
    text = [f"AiM MAC_ABK {columns} {mask} {row}" for row in range(rows)] + [f"AiM {END}"]
    program = parse_program("\n".join(text), device.shape)
    return simulate(device.part, device.spec.channels, device.queues, program.rows).cycles
