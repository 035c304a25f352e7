"""Lines of `make bench` about memory controllers: the traces of which their CPU times are known, and longer ones.

A peer that is given by `--peer` is run here, as a whole program like ours. Else its seconds are those that were once
measured on another machine, where only the order of magnitude compares: DRAMsim3's of the whole program, Ramulator's
of its simulation alone. The configurations are those of the reference data.
"""

import json
import os
import resource
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.foreign.dramsim3 import load_dramsim3
from pimloom.arch.foreign.ramulator2 import load_ramulator2
from pimloom.arch.memory import Memory
from pimloom.arch.part_memory import part_memory
from pimloom.arch.policy import load_policy
from pimloom.arch.system import load_part
from pimloom.cycle_sim.memory.simulate import Chunk, simulate
from pimloom.systems.memory.patterns import pattern_chunks
from tests.bench_commands import Line, least, pimloom, words_of
from tests.reference_data import data_folder, missing

REQUESTS = 200_000
SEEDS = {"sequential": 0, "random": 2, "mixed": 3, "row-conflict": 0, "sparse": 5}
LEAST = {"sequential": 4, "random": 4, "mixed": 4, "row-conflict": 10, "sparse": 10}  # times the published speed


class Published(NamedTuple):
    """CPU seconds of a reference simulator by pattern, in the order of SEEDS."""

    tool: str
    case: str
    cpu_s: tuple[float, ...]


PUBLISHED = (
    Published("dramsim3", "ddr4_seq", (0.77, 1.02, 0.75, 8.43, 3.92)),
    Published("dramsim3", "hbm2_seq", (0.35, 1.95, 0.52, 5.34, 2.34)),
    Published("dramsim3", "gddr6_seq", (0.42, 2.79, 0.58, 7.45, 2.16)),
    Published("ramulator2", "ddr4_seq", (0.62, 0.66, 0.46, 6.56)),
    Published("ramulator2", "hbm2_seq", (0.33, 0.89, 0.39, 8.14)),
)


def memory_lines(peers: Mapping[str, str] = {}) -> list[Line]:
    """All lines. peers: what runs one on a trace, by name."""
    lines = list[Line]()
    if absent := [why for published in PUBLISHED if (why := missing(f"{published.tool}/{published.case}"))]:
        lines.append(Line("traces of the reference simulators", absent[0]))
    for published in PUBLISHED if not absent else ():
        for kind, theirs in zip(SEEDS, published.cpu_s, strict=False):
            lines.append(_case(published, kind, theirs, peers.get(published.tool)))
    return [*lines, *(Line(*line) for line in (*_channels(), _banks(), _long()))]


def _case(published: Published, kind: str, recorded_s: float, peer: str | None) -> Line:
    """A trace through the warm engine and through whole commands. Least CPU time of a few runs [s]."""
    folder = data_folder() / published.tool / published.case
    config = folder / ("config.ini" if published.tool == "dramsim3" else "config.yaml")
    memory = load_dramsim3(config) if published.tool == "dramsim3" else load_ramulator2(config)
    chunks = list(pattern_chunks(memory, kind, REQUESTS, SEEDS[kind]))
    with tempfile.TemporaryDirectory() as place:
        trace, out = Path(place, "requests.trc"), Path(place, "out.json")
        trace.write_text("".join(_line(*row) for c in chunks for row in zip(*(x.tolist() for x in c), strict=True)))
        engine = min(_cpu(memory, chunks) for _ in range(4))
        ours = least(pimloom("trace", str(config), str(trace), "--json", str(out), "--quiet"))
        theirs = recorded_s, f"{recorded_s} s elsewhere"
        if peer:
            cycles = json.loads(out.read_text())["cycles"]
            values = {"config": config, "trace": trace, "cycles": cycles, "out": place}
            found = least(words_of(peer, values), cwd=Path(place))
            theirs = found.cpu_s, str(found)
    what = f"{published.tool} {published.case.partition('_')[0]} {kind}"
    whole = peer or published.tool == "dramsim3"  # like with like: of the other only the engine's time is known
    ratio = f", {theirs[0] / (ours.cpu_s if whole else engine):.1f} x"
    shown = f"{engine:.3f} s{'' if whole else ratio}", f"{ours}{ratio if whole else ''}"
    return Line(what, shown[0], f"≥ {LEAST[kind]} x", shown[1], theirs[1])


def _line(address: int, write: int, when: int) -> str:
    return f"{address:#x} {'WRITE' if write else 'READ'} {when}\n"


def _cpu(memory: Memory, chunks: list[Chunk]) -> float:
    start = time.process_time()
    simulate(memory, chunks)
    return time.process_time() - start


def _channels() -> list[tuple[str, str, str]]:
    """Wall time of two channels on one thread and on two."""
    policy = load_policy("default").value
    memory = part_memory("ddr4_3200", load_part("ddr4_3200").value, policy, channels=2)
    chunks = list(pattern_chunks(memory, "random", 2_000_000, 1))
    wall = []
    for threads in (1, 2):
        simulate(memory, chunks[:1], threads=threads)
        start = time.perf_counter()
        simulate(memory, chunks, threads=threads)
        wall.append(time.perf_counter() - start)
    cores = len(os.sched_getaffinity(0))
    return [("2 channels, 2 M requests", f"{wall[0]:.2f} s on 1 thread, {wall[1]:.2f} s on 2", f"{cores} cores here")]


def _banks() -> tuple[str, str, str]:
    """CPU time of a command with few and with many banks, which all have requests."""
    part, policy, found = load_part("ddr4_3200").value, load_policy("default").value, []
    policy = replace(policy, read_entries=512, write_entries=512)
    for ranks in (1, 16):
        org = part.organization
        org = replace(org, ranks=ranks, capacity_bytes=org.capacity_bytes * ranks)
        memory = part_memory("ddr4_3200", replace(part, organization=org), policy)
        chunks = list(pattern_chunks(memory, "random", REQUESTS, 1))
        commands = sum(sum(tally.commands.values()) for tally in simulate(memory, chunks))
        found.append(f"{min(_cpu(memory, chunks) for _ in range(4)) / commands * 1e9:.0f} ns")
    return "a command, 512 + 512 requests in queues", f"{found[0]} with 16 banks, {found[1]} with 256", "–"


def _long(requests: int = 10_000_000) -> tuple[str, str, str]:
    """A long run from a generator: speed, and the memory that it adds."""
    memory = part_memory("ddr4_3200", load_part("ddr4_3200").value, load_policy("default").value)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    simulate(memory, pattern_chunks(memory, "mixed", requests, 1))
    seconds = time.perf_counter() - start
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return f"{requests / 1e6:.0f} M mixed requests", f"{requests / seconds / 1e6:.2f} M/s, {more:.0f} MiB more", "–"
