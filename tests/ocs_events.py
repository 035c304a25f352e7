"""Random path tables and events of a transceiver, biased so that everything meets everything."""

from random import Random

from pimloom.arch.optics import SwitchTable
from pimloom.cycle_sim.ocs import Light, Request


def draw_table(rng: Random, longest: int = 6) -> SwitchTable:
    paths = rng.choice([2, 3, 3, 3])
    n = rng.randint(1, 6)
    entries = tuple((rng.randrange(paths), rng.randrange(n)) for _ in range(n))
    detect, retrain = rng.randint(0, longest), rng.randint(0, longest)
    return SwitchTable(detect, rng.randint(1, longest), rng.randint(1, longest), retrain, paths, entries)


def draw_events(rng: Random, table: SwitchTable, clocks: int) -> list[Request | Light]:
    """In busy stretches and quiet ones."""
    found: list[Request | Light] = []
    lit = [True] * table.paths
    for clock in range(clocks):
        busy = clock // 40 % 3
        if rng.random() < (0.03, 0.15, 0.6)[busy]:
            found.append(Request(clock, rng.randrange(len(table.entries) + (rng.random() < 0.1))))
        for path in range(table.paths):
            if rng.random() < (0.08 if lit[path] else 0.15) * (1, 0.5, 0.2)[busy]:
                lit[path] = not lit[path]
                found.append(Light(clock, path, lit[path]))
    return found
