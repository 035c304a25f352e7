"""The memory engine on a list of requests, with its answers in the words of DRAMsim3 and of Ramulator."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from pimloom.arch.memory import Memory
from pimloom.cycle_sim.dram.kernels.device import COMMANDS
from pimloom.cycle_sim.memory.channel import Tally
from pimloom.cycle_sim.memory.simulate import EVERY_CK, Chunk, simulate
from pimloom.energy.dram import dramsim3_mw_ck

CAUSES = {  # ours -> DRAMsim3's
    **{"activate": "act", "read": "read", "write": "write", "refresh": "ref", "refresh_bank": "refb"},
    **{"active_standby": "act_stb", "precharge_standby": "pre_stb", "self_refresh": "sref"},
}
COUNTED = {  # DRAMsim3's counters of commands
    **{"num_act_cmds": ("ACT",), "num_pre_cmds": ("PRE",), "num_read_cmds": ("RD", "RDA")},
    **{"num_write_cmds": ("WR", "WRA"), "num_ref_cmds": ("REFab",), "num_refb_cmds": ("REFpb",)},
    **{"num_srefe_cmds": ("SRE",), "num_srefx_cmds": ("SRX",)},
}
STATES = ("rank_active_cycles", "all_bank_idle_cycles", "sref_cycles")


class Kept:
    """A log that keeps all; rows as in `simulate.Log`."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.served: list[list[int]] = []

    def wanted_ck(self) -> tuple[int, int]:
        return EVERY_CK

    def commands(self, rows: np.ndarray) -> None:
        self.rows += rows.tolist()

    def requests(self, rows: np.ndarray) -> None:
        self.served += rows.tolist()


def run(memory: Memory, requests: list[tuple], extra: int = 0, parts: int = 1) -> SimpleNamespace:
    """requests: address, whether it writes, and its earliest clock (0 if left out), handed over in `parts` chunks."""
    columns = np.array([(*request, 0)[:3] for request in requests], np.int64).reshape(-1, 3).T
    chunks = [Chunk(*map(np.ascontiguousarray, part)) for part in np.array_split(columns, parts, axis=1)]
    log = Kept()
    tallies = simulate(memory, chunks, extra_ck=extra, log=log)
    assert [row[0] for row in log.served] == list(range(len(requests)))
    return SimpleNamespace(
        rows=log.rows, accept=[row[1] for row in log.served], done=[row[2] for row in log.served], tallies=tallies
    )


def place(memory: Memory, bank: int) -> tuple[int, int, int]:
    """Rank or pseudo channel, bank group and bank."""
    size = memory.table.rules.size.tolist()
    in_rank, in_group = size[4] // size[2], size[4] // size[3]
    return bank // in_rank, bank % in_rank // in_group, bank % in_group


def dramsim3_trace(memory: Memory, rows: list[list[int]], channel: int) -> list[tuple]:
    """Clock, command, channel, rank, group, bank, row, column; the channel of the controller's own commands is -1."""
    found = []
    for clock, number, c, bank, row, column, by in rows:
        rank, group, in_group = place(memory, bank)
        name = COMMANDS[c]
        where = (-1, rank, -1, -1, -1, -1) if name in ("REFab", "SRE") else (-1, rank, group, in_group, -1, -1)
        if number == channel:
            found.append((clock, name, *(where if by else (channel, rank, group, in_group, row, column))))
    return found


def ramulator_trace(memory: Memory, rows: list[list[int]], channel: int, ranked: bool = True) -> list[tuple]:
    """Clock, command, channel, a place in each level (`ranked`: of ranks too), and -1 for upkeep, 0 for a request."""
    found = []
    for clock, number, c, bank, row, column, by in rows:
        rank, group, in_group = place(memory, bank)
        name = COMMANDS[c]
        where = (-1, -1, -1, -1) if name in ("REFab", "PREab") else (group, in_group, row, column)
        if number == channel:
            found.append((clock, "PREpb" if name == "PRE" else name, channel, *[rank][:ranked], *where, -by))
    return found


def dramsim3_counters(memory: Memory, tally: Tally) -> dict[str, Any]:
    """Under the tool's names; energy in its unit, mW x CK."""
    n = tally.counters
    found: dict[str, Any] = {
        "num_cycles": tally.cycles,
        "hbm_dual_cmds": n["paired_commands"],
        "num_ondemand_pres": n["row_misses_closing"],
        "average_read_latency": (n["read_latency_sum"] - n["reads_done"]) / max(1, n["reads_done"]),
    }
    found |= {key: sum(tally.commands.get(name, 0) for name in names) for key, names in COUNTED.items()}
    same = ("reads_done", "writes_done", "read_row_hits", "write_row_hits")
    found |= {f"num_{name}": n[name] for name in same}
    for i, state in enumerate(STATES):
        found[state] = {str(rank): row[i] for rank, row in enumerate(tally.rank_ck)}
    assert memory.currents is not None
    energy = dramsim3_mw_ck(memory.currents, memory.clocks, memory.table.by_cause(tally.commands), tally.rank_ck)
    return (
        found
        | {f"{CAUSES[cause]}_energy": value for cause, value in energy.items()}
        | {"total_energy": sum(energy.values())}
    )


def dramsim3_latencies(tally: Tally) -> dict[int, int]:
    """How many reads took how long, in the tool's count: one less than from acceptance to callback."""
    return {int(clocks) - 1: int(tally.latency[clocks]) for clocks in np.flatnonzero(tally.latency)}


def ramulator_counters(tally: Tally) -> dict[str, Any]:
    """Under the tool's names."""
    n = tally.counters
    lengths = {kind: n[f"{kind}_queue_length_sum"] for kind in ("read", "write", "priority")}
    served = n["reads_done"] - n["forwarded"]
    found = {
        "cycles": tally.cycles,
        "num_read_reqs": n["reads_done"],
        "num_write_reqs": n["writes_done"],
        "num_read_reqs_served": served,
        "num_write_reqs_served": n["writes_done"] - n["merged"],
        "num_maintenance_reqs": n["upkeep_requests"],
        "num_maintenance_reqs_served": n["upkeep_served"],
        "num_read_reqs_forwarded": n["forwarded"],
        "num_write_reqs_coalesced": n["merged"],
        "read_latency": n["read_latency_sum"],
        "avg_read_latency": float(np.float32(n["read_latency_sum"] / max(1, served))),
        "queue_len": sum(lengths.values()),
    }
    found |= {name: n[name] for name in ("row_hits", "row_misses", "row_conflicts", "read_row_hits", "write_row_hits")}
    found |= {f"{kind}_queue_len": length for kind, length in lengths.items()}
    averages = {f"{name}_avg": found[name] / tally.cycles for name in found if name.endswith("queue_len")}
    return found | averages
