"""The memory engine against DRAMsim3 and Ramulator 2.1: each command, request, counter and joule of their runs.

The runs are those of the reference data, the tables in section 6 of its specification `memory_controllers.md`; what the
oracles say of four small cases is in `tests/golden/memory`, for a checkout without them.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pimloom.arch.error import UserError
from pimloom.arch.foreign.dramsim3 import load_dramsim3
from pimloom.arch.foreign.ramulator2 import load_ramulator2
from pimloom.arch.memory import Memory
from pimloom.arch.table import bend, rule_rows
from pimloom.cycle_sim.memory.channel import Tally
from pimloom.cycle_sim.memory.patterns import generate, pattern
from pimloom.cycle_sim.memory.simulate import Chunk, simulate
from tests.memory_run import (
    dramsim3_counters,
    dramsim3_latencies,
    dramsim3_trace,
    ramulator_counters,
    ramulator_trace,
    run,
)
from tests.reference_data import folders, lines, needed, ours_alone, read_yaml, reference_cases
from tests.resolve_dramsim3 import unresolved
from tests.slow import slow
from tests.test_naive_controllers import GOLDEN, NAMES, first_in_first_out, kept, ramulator_statistics


def dramsim3_requests(folder: Path) -> list[tuple[int, bool, int]]:
    rows = (line.split() for line in lines(folder / "input.trc"))
    return [(int(address, 16), op == "WRITE", int(cycle)) for address, op, cycle in rows]


def ramulator_requests(folder: Path) -> list[tuple[int, bool]]:
    return [(int(address, 16), op == "ST") for op, address in map(str.split, lines(folder / "input.trc"))]


def idle_clocks(folder: Path) -> int:
    found = json.loads((folder / "run.json").read_text())
    return found["cycles_simulated"] - found["cycles_all_done"]


def total(value: float | dict[str, float]) -> float:
    """The tool gives some energies rank by rank."""
    return sum(value.values()) if isinstance(value, dict) else value


def same_as_dramsim3(memory: Memory, tally: Tally, said: dict) -> None:
    for key, value in dramsim3_counters(memory, tally).items():
        if "_energy" in key or "average" in key:
            assert value == pytest.approx(total(said[key]), rel=1e-9), key
        else:
            assert value == said[key], key


@pytest.mark.parametrize("case", reference_cases("dramsim3"))
def test_dramsim3_case(case):
    memory, requests = load_dramsim3(case / "config.ini"), dramsim3_requests(case)
    if json.loads((case / "run.json").read_text()).get("livelock"):
        with pytest.raises(UserError, match="DRAMsim3 livelocks"):
            run(memory, requests)
        return
    got = run(memory, requests, idle_clocks(case))
    log = [line.split() for line in lines(case / "requests.log")]
    assert got.accept == [int(row[4]) for row in log]
    assert first_in_first_out(requests, got.done) == [int(row[5]) for row in log]
    statistics = json.loads((case / "dramsim3.json").read_text())
    for channel, tally in enumerate(got.tallies):
        rows = [line.split() for line in lines(case / f"ch_{channel}cmd.trace")]
        want = [(int(r[0]), NAMES[r[1]], *map(int, r[2:6]), int(r[6], 16), int(r[7], 16)) for r in rows]
        assert dramsim3_trace(memory, got.rows, channel) == want
        said = statistics[str(channel)]
        same_as_dramsim3(memory, tally, said)
        assert dramsim3_latencies(tally) == {int(key): n for key, n in (said["read_latency"] or {}).items()}


@pytest.mark.parametrize("case", reference_cases("ramulator2"))
def test_ramulator_case(case):
    memory = load_ramulator2(case / "config.yaml")
    got = run(memory, ramulator_requests(case), idle_clocks(case))
    log = [line.split() for line in lines(case / "requests.log")]
    assert got.accept == [int(row[3]) for row in log]
    assert got.done == [int(row[4]) for row in log]
    statistics = ramulator_statistics(read_yaml(case / "stats.yaml"))
    for channel, (tally, said) in enumerate(zip(got.tallies, statistics, strict=True)):
        header, *rows = csv.reader(lines(case / f"cmd.csv.ch{channel}"))
        ranked = "Rank" in header or "PseudoChannel" in header
        want = [(int(clock), command, *map(int, place), min(int(kind), 0)) for clock, command, *place, kind, _ in rows]
        assert ramulator_trace(memory, got.rows, channel, ranked) == want
        for key, value in ramulator_counters(tally).items():  # the tool prints fractions with six digits
            assert (float(f"{value:.6g}") if isinstance(value, float) else value) == said[key], key


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_own_case(path, tmp_path):
    want, is_dramsim3 = kept(path.stem), path.stem.startswith("dramsim3")
    file = tmp_path / "config"
    file.write_text(unresolved(want["config"]) if is_dramsim3 else yaml.safe_dump(want["config"]))
    memory = (load_dramsim3 if is_dramsim3 else load_ramulator2)(file)
    got = run(memory, want["requests"], want["extra"])
    assert (got.accept, got.done) == (want["accept"], want["done"])
    if is_dramsim3:
        assert [list(row) for row in dramsim3_trace(memory, got.rows, 0)] == want["trace"]
        same_as_dramsim3(memory, got.tallies[0], want["counters"])
    else:
        trace = [[*row[:-1], min(row[-1], 0)] for row in want["trace"]]
        assert [list(row) for row in ramulator_trace(memory, got.rows, 0)] == trace
        for key, value in ramulator_counters(got.tallies[0]).items():
            assert value == pytest.approx(want["counters"][key], rel=1e-6), key


def in_pieces(memory: Memory, requests: list) -> None:
    """Handed over at once, and in 17 chunks."""
    whole, pieces = (run(memory, requests, parts=n) for n in (1, 17))
    assert (whole.rows, whole.accept, whole.done) == (pieces.rows, pieces.accept, pieces.done)


@pytest.mark.parametrize("case", reference_cases("dramsim3"))
def test_a_trace_in_pieces_is_the_same_trace_for_dramsim3(case):
    in_pieces(load_dramsim3(case / "config.ini"), dramsim3_requests(case))


@pytest.mark.parametrize("case", reference_cases("ramulator2"))
def test_a_trace_in_pieces_is_the_same_trace_for_ramulator(case):
    in_pieces(load_ramulator2(case / "config.yaml"), ramulator_requests(case))


# The tables of section 6: 200,000 requests

SEEDS = {"sequential": 0, "random": 2, "mixed": 3, "row-conflict": 0, "sparse": 5}
TABLE_6_1 = """
ddr4 sequential    1204433   1702   1693 200000     0  193     0 198305 200000     0  284.84
ddr4 random         993861 200611 200594 200000     0  159     0     11 200000     0  527.75
ddr4 mixed          988342  23357  23330 132439 66148  158     0 175384 133354 66646  435.90
ddr4 row-conflict 15523924 200369 200368 200000     0 2487     0      0 200000     0 3129.49
ddr4 sparse       19970931 200375 200348 200000     0 3200     0      4 200000     0   83.94
hbm2 sequential     435049   6693   6677 200000     0  111 11260 193415 200000     0  145.46
hbm2 random        1628798 200545 200529 199999     0  417 68878     27 200000     0  770.94
hbm2 mixed          528215  28918  28903 128683 64034  135 24868 164027 133204 66796  222.87
hbm2 row-conflict 10330897 200884 200883 200000     0 2648     0      0 200000     0 2080.98
hbm2 sparse       19970897 200732 200717 200000     0 5120  2135      4 200000     0   54.39
gddr6 sequential    610465   1635   1620 200000     0   51     0 198368 200000     0  156.93
gddr6 random       2647256 199929 199913 200000     0  223     0     74 200000     0 1505.94
gddr6 mixed         776069  29052  29036 132769 66080   65     0 169893 133530 66470  338.05
gddr6 row-conflict 15799582 200409 200408 200000    0 1331     0      0 200000     0 3183.60
gddr6 sparse      19971001 200402 200386 200000     0 1683     0      6 200000     0   75.61
"""  # cycles, ACT, PRE, RD, WR, REF, dual, row hits, reads done, writes done, mean read latency
TABLE_6_2 = """
ddr4 sequential    2211.8   11.4 890.9   0.0  205.4   861.2  242.9 1836
ddr4 random        3387.1 1348.1 890.9   0.0  169.2   945.9   33.0 3408
ddr4 mixed         2137.5  157.0 589.9 248.9  168.2   940.8   32.7 2163
ddr4 row-conflict 17413.2 1346.5 890.9   0.0 2647.3  5201.3 7327.3 1122
ddr4 sparse       25310.6 1346.5 890.9   0.0 3406.2 18996.1  670.9 1267
hbm2 sequential     201.3    5.5 160.8   0.0    6.8    26.7    1.5  463
hbm2 random         457.7  166.1 160.8   0.0   25.4   100.0    5.5  281
hbm2 mixed          238.2   23.9 103.5  68.4    8.2    32.4    1.8  451
hbm2 row-conflict  1107.1  166.3 160.8   0.0  161.1   450.8  168.0  107
hbm2 sparse        1931.0  166.2 160.8   0.0  311.5  1224.2   68.3   97
gddr6 sequential    835.8   14.2 403.9   0.0   15.6   397.1    5.0 1369
gddr6 random       3950.2 1736.0 403.9   0.0   68.3  1620.3  121.7 1492
gddr6 mixed        1172.8  252.3 268.1 121.3   19.9   504.8    6.3 1511
gddr6 row-conflict 12906.6 1740.2 403.9  0.0  407.5  7129.6 3225.4  817
gddr6 sparse      15813.3 1740.1 403.9   0.0  515.3 12979.3  174.6  792
"""  # total, act, read, write, ref, act_stb, pre_stb [10^6 mW x CK], mean [mW]
TABLE_6_4 = """
ddr4 sequential    1492523   1733      0  238 199968     0  238 198235   1733      0
ddr4 random         935293 199967 198323  148 199959     0  148      1   1658 198320
ddr4 mixed         1003200  27886  25389  160 133319 66404  160 169279   9137  21310
ddr4 row-conflict 15515943 199968 199093  874 199967     0 2486      0    875 199093
hbm2 sequential     396159   6456   3240  202 199968     0  202 193512   3216   3240
hbm2 random         664908 199964 195527  340 199963     0  340      4   4444 195527
hbm2 mixed          445672  25758  22307  228 133260 65081  228 169672   8829  19840
hbm2 row-conflict 10546384 199968 197942 2025 199967     0 5406      0   2026 197942
"""  # cycles until drained; at the last accept ACT, PREpb, PREab, RD, WR, REFab, hits, misses, conflicts


def of_table(table: str) -> Iterator[tuple[str, str, list[str]]]:
    for device, kind, *cells in map(str.split, table.strip().splitlines()):
        yield device, kind, cells


def cases_of(table: str) -> list[Any]:
    """Rows of a table; patterns of many clocks only in the slow suite."""
    return [slow(*row) if row[1] in ("row-conflict", "sparse") else row for row in of_table(table)]


def tally_of(memory: Memory, kind: str) -> Tally:
    made = pattern(kind, memory.address, memory.offset_bits, SEEDS[kind])
    chunk = Chunk(*np.zeros((3, 200_000), np.int64))
    generate(made, *chunk)
    found: Tally = simulate(memory, [chunk])[0]
    return found


@pytest.mark.reference
@pytest.mark.parametrize(("device", "kind", "cells"), cases_of(TABLE_6_1))
def test_dramsim3_tables(device, kind, cells):
    kinds = ("act", "pre", "read", "write", "ref")
    counted = ["num_cycles", *(f"num_{kind}_cmds" for kind in kinds), "hbm_dual_cmds"]
    causes = ("total", "act", "read", "write", "ref", "act_stb", "pre_stb")
    energies = {row[:2]: row[2] for row in of_table(TABLE_6_2)}
    memory = load_dramsim3(needed(f"dramsim3/{device}_seq/config.ini"))
    n = dramsim3_counters(memory, tally_of(memory, kind))
    found = [n[key] for key in counted] + [n["num_read_row_hits"] + n["num_write_row_hits"]]
    found += [n["num_reads_done"], n["num_writes_done"], f"{n['average_read_latency']:.2f}"]
    assert [str(value) for value in found] == cells
    mean = f"{n['total_energy'] / n['num_cycles']:.0f}"
    joules = [f"{n[f'{cause}_energy'] / 1e6:.1f}" for cause in causes]
    assert [*joules, mean] == energies[device, kind]


@pytest.mark.reference
@pytest.mark.parametrize(("device", "kind", "cells"), cases_of(TABLE_6_4))
def test_ramulator_table(device, kind, cells):
    """The paper counts until the last accept; what the buffers hold, 32 reads and 32 writes, is served after that."""
    tally = tally_of(load_ramulator2(needed(f"ramulator2/{device}_seq/config.yaml")), kind)
    assert str(tally.cycles) == cells[0]
    n = {**tally.commands, **tally.counters}
    names = ("ACT", "PRE", "PREab", "RD", "WR", "REFab", "row_hits", "row_misses", "row_conflicts")
    for name, cell in zip(names, cells[1:], strict=True):
        assert 0 <= n.get(name, 0) - int(cell) <= 64, name


# Every rule matters

SLEEPING = {  # previous > next, level: rules that no DDR4 case feels -> why; the random cases feel them
    "dramsim3": {
        "no DDR4 case refreshes bank by bank": """ACT > REFpb 3, ACT > REFpb 4, RDA > REFpb 4, REFpb > ACT 3,
            REFpb > ACT 4, REFpb > REFpb 3, REFpb > REFpb 4""",
        "the two refreshes of ddr4_closepage wait for reads": "WRA > REFab SRE 2",
        "no rank sleeps": "SRE > SRX 2, SRX > ACT REFab REFpb SRE 2",
    },
    "ramulator2": {
        "there is one command a clock in any case": "WR WRA > RD RDA 2 sibling",
        "nothing precharges automatically": "RDA > REFab 2, WRA > REFab 2, RDA > ACT 4, WRA > ACT 4",
        "REFab stands between them": "PREab > ACT 2",
        "each refresh comes late enough, or waits longer for an ACT": "RD > PREab 2, WR > PREab 2",
    },
}


@pytest.mark.reference
@pytest.mark.parametrize("tool", SLEEPING)
def test_a_clock_more_is_felt(tool):
    """A rule that is one clock longer changes the commands of some DDR4 case, or stands above with a reason."""
    ours_alone()
    kinds: dict[str, tuple[Any, Any, str]] = {
        "dramsim3": (load_dramsim3, dramsim3_requests, "config.ini"),
        "ramulator2": (load_ramulator2, ramulator_requests, "config.yaml"),
    }
    load, read, file = kinds[tool]
    cases = [case for case in folders(tool) if case.name.startswith("ddr4")]
    known = [(load(case / file), read(case), idle_clocks(case)) for case in cases]
    before = [run(*parts).rows for parts in known]
    table, asleep, felt = known[0][0].table, set(), Counter[int]()
    for i, row in enumerate(rule_rows(table.rules)):
        bent = bend(table, i, 1)
        for j in sorted(range(len(known)), key=lambda j: -felt[j]):  # first those that have felt most
            memory, *rest = known[j]
            if run(memory._replace(table=bent), *rest).rows != before[j]:
                felt[j] += 1
                break
        else:
            after, nexts = (" ".join(table.names[c] for c in side) for side in (row.after, row.before))
            sibling = " sibling" if row.sibling and tool == "ramulator2" else ""
            asleep.add(f"{after} > {nexts} {row.level}{sibling}")
    assert asleep == {rule.strip() for rules in SLEEPING[tool].values() for rule in rules.split(",")}
