"""The result of a trace: what the channels counted, as one row. Its field names are a contract; see CONVENTIONS.md."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from pimloom.arch.command import ACCESSES
from pimloom.arch.digest import digest
from pimloom.arch.memory import Memory
from pimloom.arch.units import BYTES_PER_GB, S_PER_PS
from pimloom.cycle_sim.memory.build import nodes_of, postponed_ck
from pimloom.cycle_sim.memory.channel import Tally
from pimloom.systems.memory.energy import energies
from pimloom.systems.viewed import Viewed


class Outcome(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """One trace on one memory system. Names end in their unit; cycles are CK of `tck_ps`.

    commands: of all channels, by name. row_hits: column commands that found their row open and used; under ramulator2
    requests whose first command did. row_hit_rate: of the column commands. read_latency: acceptance to last data; under
    dramsim3 and ramulator2 the mean is that tool's own. merged: requests that shared another one's access; forwarded:
    reads answered from a write that waits. bandwidth: bytes of the finished requests / time; pins: of the column
    commands. energy: null if the device gives no currents, or such as cannot be (see `warnings`); energy_mw_cycles:
    under dramsim3 its total in its own unit.
    refreshes_due: refreshes that fell due while their rank was awake, by the standard's interval; refresh_lag_max: the
    longest time from due to issue, or to the end of the run; null without refresh.
    rank_*: clocks of all ranks with a row open, all rows closed, asleep. requests_per_s: of the simulation, by wall_s.
    """

    memory: str
    controller: str
    channels: int
    requests: int
    reads: int
    writes: int
    cycles: int
    tck_ps: int
    time_s: float
    commands: dict[str, int]
    refreshes_due: int
    refresh_lag_max_cycles: int | None
    row_hits: int
    row_hit_rate: float | None
    read_latency_mean_cycles: float | None
    read_latency_p50_cycles: int | None
    read_latency_p99_cycles: int | None
    read_latency_max_cycles: int | None
    merged: int
    forwarded: int
    bandwidth_gb_s: float
    pins_gb_s: float
    peak_gb_s: float
    bandwidth_by_channel_gb_s: list[float]
    energy_pj: float | None
    energy_by_cause_pj: dict[str, float] | None
    energy_mw_cycles: float | None
    power_mw: float | None
    rank_active_cycles: int
    rank_precharged_cycles: int
    rank_self_refresh_cycles: int
    warnings: list[str]
    spec_digest: str
    version: str
    seed: int | None
    wall_s: float
    requests_per_s: float


def outcome(
    memory: Memory,
    controller: str,
    tallies: Sequence[Tally],
    *,
    wall_s: float,
    seed: int | None,
    warnings: Sequence[str],
    version: str,
    asked: Mapping[str, Any],
) -> Outcome:
    """Add up the channels of a run. asked: what decides it beside the memory, for `spec_digest`."""
    total = {name: sum(t.counters[name] for t in tallies) for name in tallies[0].counters}
    commands = {name: sum(t.commands.get(name, 0) for t in tallies) for t in tallies for name in t.commands}
    reads, writes = total["reads_done"], total["writes_done"]
    cycles = max(t.cycles for t in tallies)
    time_s = cycles * memory.tCK_ps * S_PER_PS
    accesses = memory.table.total(commands, ACCESSES)
    hits = total["read_row_hits"] + total["write_row_hits"]
    latency: np.ndarray = sum(t.latency for t in tallies)  # type: ignore[assignment]
    served = [t.counters["reads_done"] + t.counters["writes_done"] for t in tallies]

    lag = max(t.counters["refresh_lag_max"] for t in tallies)
    energy, remarks = energies(memory, tallies, cycles)

    def rate(requests: int) -> float:
        return requests * memory.access_bytes / time_s / BYTES_PER_GB if time_s else 0.0

    return Outcome(
        memory=memory.name,
        controller=controller,
        channels=memory.channels,
        requests=reads + writes,
        reads=reads,
        writes=writes,
        cycles=cycles,
        tck_ps=memory.tCK_ps,
        time_s=time_s,
        commands=dict(sorted(commands.items())),
        refreshes_due=total["refreshes_due"],
        refresh_lag_max_cycles=None if memory.policy.refresh == "none" else lag,
        row_hits=hits,
        row_hit_rate=hits / accesses if accesses else None,
        read_latency_mean_cycles=_mean(memory, total),
        read_latency_p50_cycles=_quantile(latency, 0.50),
        read_latency_p99_cycles=_quantile(latency, 0.99),
        read_latency_max_cycles=max(t.counters["read_latency_max"] for t in tallies) if reads else None,
        merged=total["merged"],
        forwarded=total["forwarded"],
        bandwidth_gb_s=rate(reads + writes),
        pins_gb_s=rate(accesses),
        peak_gb_s=memory.peak_gb_s * memory.channels,
        bandwidth_by_channel_gb_s=[rate(n) for n in served],
        **energy,
        rank_active_cycles=sum(rank[0] for t in tallies for rank in t.rank_ck),
        rank_precharged_cycles=sum(rank[1] for t in tallies for rank in t.rank_ck),
        rank_self_refresh_cycles=sum(rank[2] for t in tallies for rank in t.rank_ck),
        warnings=[*warnings, *_unissued(total), *_late(memory, total["refreshes_due"], commands, lag), *remarks],
        spec_digest=_digest(memory, asked),
        version=version,
        seed=seed,
        wall_s=wall_s,
        requests_per_s=(reads + writes) / wall_s if wall_s else 0.0,
    )


def _unissued(total: dict[str, int]) -> Iterator[str]:
    """Writes that DRAMsim3 calls done when it has accepted them, and has not written, or never will."""
    if n := total.get("unissued", 0):
        yield (
            f"{n} {'writes are' if n > 1 else 'write is'} done as DRAMsim3 has it, but the run ends before "
            f"{'their' if n > 1 else 'its'} WR: commands and energy of {'these' if n > 1 else 'this one'} are in no "
            "total"
        )


def _late(memory: Memory, due: int, commands: Mapping[str, int], lag_ck: int) -> Iterator[str]:
    """Warnings of refreshes that were later than the standard allows, or missing."""
    if memory.policy.refresh == "none":
        return
    name = "REFpb" if memory.policy.refresh == "per_bank" else "REFab"
    issued, every = commands.get(name, 0), postponed_ck(memory, 1)
    nodes = memory.channels * nodes_of(memory, "SRE" if name == "REFpb" else "REFab")
    each = int(memory.table.rules.size[4] // memory.table.rules.size[2]) if name == "REFpb" else 1
    if lag_ck > memory.postponed * every or due - issued > nodes * memory.postponed * each:
        yield (
            f"{issued:,} of {due:,} {name} that fell due have issued, the latest {lag_ck / every:,.1f} times "
            f"{'tREFIpb of all banks' if name == 'REFpb' else 'tREFI'} after it fell due; the standard allows "
            f"{memory.postponed} to be postponed: a real device may lose data"
        )


def _mean(memory: Memory, total: dict[str, int]) -> float | None:
    """Mean read latency [CK]; DRAMsim3 starts a clock later, Ramulator divides by the reads that DRAM served."""
    reads, latency = total["reads_done"], total["read_latency_sum"]
    if memory.policy.quirks == "ramulator2":
        served = reads - total["forwarded"]
        return latency / served if served else None
    if not reads:
        return None
    return latency / reads - (memory.policy.quirks == "dramsim3")


def _quantile(latency: np.ndarray, share: float) -> int | None:
    """The latency that `share` of the reads do not exceed [CK]; None if it is longer than any counted by itself."""
    total = int(latency.sum())
    if not total:
        return None
    place = int(np.searchsorted(np.cumsum(latency), share * total))
    return place if place < len(latency) - 1 else None


def _digest(memory: Memory, asked: Mapping[str, Any]) -> str:
    """Digest of all that decides a result: the device, its controllers, and what was asked of them."""
    device = {name: value for name, value in memory._asdict().items() if name not in ("name", "table", "warnings")}
    rules = [column.tolist() if isinstance(column, np.ndarray) else column for column in memory.table.rules]
    return digest(device, memory.table.names, rules, asked)
