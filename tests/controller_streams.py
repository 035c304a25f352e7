"""Memories and requests for tests of the controller."""

import numpy as np

from pimloom.arch.part_memory import MAPPING, part_memory
from pimloom.arch.policy import load_policy
from pimloom.arch.system import load_part
from pimloom.cycle_sim.dram.kernels.device import COMMANDS
from pimloom.cycle_sim.memory.addresses import address_map, decode

BY_BANK = ("lpddr5_6400", "hbm2_2400", "hbm3_6400", "gddr6_16000")  # parts with REFpb
PARTS = ("ddr4_3200", "ddr5_4800", *BY_BANK)


def policy_of(**fields):
    return load_policy("default", {k: "null" if v is None else str(v).lower() for k, v in fields.items()}).value


def memory_of(part, policy, timing=None, ranks=1, channels=1, mapping=MAPPING):
    changes = {f"timing.{name}": f"{value} nCK" for name, value in (timing or {}).items()}
    if ranks > 1:
        capacity = load_part(part).value.organization.capacity_bytes * ranks
        changes |= {"organization.ranks": str(ranks), "organization.capacity_bytes": str(capacity)}
    return part_memory(part, load_part(part, changes).value, policy, channels, mapping)


def place(memory, requests):
    """(channel, bank, row, column) of each request."""
    found = np.empty((4, len(requests)), np.int64)
    decode(address_map(memory).piece, np.array([r[0] for r in requests], np.int64), found)
    return found.T.tolist()


def commands_of(found):
    """(clock, channel, command, bank, row, column), by channel."""
    rows = [(clock, channel, COMMANDS[c], *where) for clock, channel, c, *where, _ in found.rows]
    return sorted(rows, key=lambda row: row[1])


def stream(memory, rng, n):
    """n requests to few rows, columns and banks, some in a row, with bursts and pauses: (address, write, clock)."""
    at, few = memory.offset_bits, []
    for field, bits in memory.address:
        wide = 1 << min(bits, 5 if field == "bank" else 40)
        few.append((at, [rng.randrange(wide) for _ in range(rng.choice([1, 2, 3, 8]))]))
        at += bits
    writes, pause, run_on = rng.choice([0, 0.3, 0.5, 0.9, 1]), rng.choice([0, 1, 5, 20]), rng.choice([0, 0, 0.8])
    found: list[tuple] = []
    t = address = 0
    for _ in range(n):
        t += rng.choice([0, 0, 0, 0, 0, rng.randrange(pause + 1), rng.randrange(pause + 1)])
        t += rng.randrange(300) if rng.random() < 0.05 else 0
        if rng.random() < run_on:
            address = (address + memory.access_bytes) % memory.capacity_bytes
        elif not found or rng.random() > 0.1:
            address = sum(rng.choice(values) << bit for bit, values in few)
        found.append((address, int(rng.random() < writes), t))
    return found
