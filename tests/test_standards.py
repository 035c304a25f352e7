"""The DRAM standards and speed grades of a memory controller: distances typed from their sources, rules that bite."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from pimloom.arch.command import STREAM, Level, Rule
from pimloom.arch.error import UserError
from pimloom.arch.standard import given, join_tables
from pimloom.arch.system import HERE, load_part
from pimloom.arch.table import Table, bend, compile_table, rule_rows, standard_of
from pimloom.cycle_sim.dram.stream import issue
from tests.sleeping_rules import SLEEPING_IN_PARTS

# A bank is a letter: (pseudo channel, bank group, bank). b shares a's group, c to g are in other groups than a.
BANKS = {"a": (0, 0, 0), "b": (0, 0, 1), "c": (0, 1, 0), "d": (0, 2, 0), "e": (0, 3, 0), "f": (0, 1, 1), "x": (1, 0, 0)}
QUIET = 100_000  # by then nothing of what came before is felt


@cache
def table_of(name: str) -> Table:
    return compile_table(load_part(name).value)


def stream_of(table: Table, orders: list[tuple[str, tuple[int, int, int], int]]) -> np.ndarray:
    """STREAM of (command, bank, release)."""
    rows = [(table.cmd(cmd), pch, 0, bg, bank, 0, 0, 1, release, 0) for cmd, (pch, bg, bank), release in orders]
    return np.array(rows, STREAM)


def orders_of(before: str, sequence: str) -> list[tuple[str, tuple[int, int, int], int]]:
    """The commands of `before`, and long after them those of the sequence, each as early as it may."""
    texts = [*filter(None, before.split(";")), *sequence.split(";")]
    first = len(texts) - len(sequence.split(";"))
    words = [(*text.split(), "a") for text in texts]
    return [(word[0], BANKS[word[1]], QUIET if i == first else 0) for i, word in enumerate(words)]


def distance(table: Table, before: str, sequence: str) -> int:
    """Clocks from the first to the last command of the sequence."""
    found = issue(table, [stream_of(table, orders_of(before, sequence))], refresh=False).issue_ck[0]
    return int(found[-1] - found[-len(sequence.split(";"))])


OPEN = "ACT a; ACT b; ACT c"
# The sequences, and in each part the clocks from their first to their last command.
SEQUENCES = {
    "ACT to RD": ("", "ACT a; RD a"),
    "ACT to WR": ("", "ACT a; WR a"),
    "RD to RD, same group": (OPEN, "RD a; RD b"),
    "RD to RD, other group": (OPEN, "RD a; RD c"),
    "WR to WR, same group": (OPEN, "WR a; WR b"),
    "WR to WR, other group": (OPEN, "WR a; WR c"),
    "RD to WR": (OPEN, "RD a; WR c"),
    "WR to RD, same group": (OPEN, "WR a; RD b"),
    "WR to RD, other group": (OPEN, "WR a; RD c"),
    "RD to PRE": (OPEN, "RD a; PRE a"),
    "RD to PREab": (OPEN, "RD a; PREab"),
    "WR to PRE": (OPEN, "WR a; PRE a"),
    "PRE to ACT": (OPEN, "PRE a; ACT a"),
    "PREab to ACT": (OPEN, "PREab; ACT a"),
    "ACT to PRE": ("", "ACT a; PRE a"),
    "ACT to ACT, same bank": ("", "ACT a; RDA a; ACT a"),
    "RDA to ACT": (OPEN, "RDA a; ACT a"),
    "WRA to ACT": (OPEN, "WRA a; ACT a"),
    "ACT to ACT, same group": ("", "ACT a; ACT b"),
    "ACT to ACT, other group": ("", "ACT a; ACT c"),
    "fifth ACT": ("", "ACT a; ACT c; ACT d; ACT e; ACT f"),
    "PRE to REFab": ("ACT a", "PRE a; REFab"),
    "REFab to ACT": ("", "REFab; ACT a"),
    "REFab to REFab": ("", "REFab; REFab"),
    "SRE to SRX": ("", "SRE; SRX"),
    "SRX to ACT, after SRE": ("", "SRE; SRX; ACT a"),
    "REFab to SRE": ("", "REFab; SRE"),
    "PRE to PRE": (OPEN, "PRE a; PRE c"),
    "REFpb to ACT, same bank": ("", "REFpb a; ACT a"),
    "REFpb to ACT, other bank": ("", "REFpb a; ACT c"),
    "REFpb to REFpb, other bank": ("", "REFpb a; REFpb c"),
    "REFpb to REFab": ("", "REFpb a; REFab"),
    "ACT to REFpb, other bank": ("", "ACT a; REFpb c"),
    "PRE to REFpb": ("ACT a", "PRE a; REFpb a"),
    "REFab to REFpb": ("", "REFab; REFpb a"),
    "ACT to ACT, other pseudo channel": ("", "ACT a; ACT x"),
}
CLOCKS = {
    "ddr4_2400": (
        16, 16, 6, 4, 6, 4, 10, 25, 19, 9, 9, 34, 16, 16, 39, 55, 25, 50, 6, 4, 26, 16, 420, 420, 12, 444, 420, 1,
    ),
    "ddr4_3200": (
        22, 22, 8, 4, 8, 4, 12, 32, 24, 12, 12, 44, 22, 22, 52, 74, 34, 66, 8, 4, 34, 22, 560, 560, 9, 585, 560, 1,
    ),
    "ddr5_4800": (
        34, 34, 12, 8, 24, 8, 14, 64, 46, 18, 18, 112, 34, 34, 77, 111, 52, 146, 12, 8, 32, 34,
        710, 710, 24, 734, 710, 2,
    ),
    "ddr5_6400": (
        46, 46, 16, 8, 32, 8, 14, 84, 60, 24, 24, 148, 46, 46, 103, 149, 70, 194, 16, 8, 32, 46,
        946, 946, 32, 978, 946, 2,
    ),
    "gddr6_16000": (
        30, 18, 4, 2, 4, 2, 29, 20, 18, 4, 4, 38, 30, 30, 60, 90, 34, 68, 8, 8, 32, 30, 240, 240, 8, 254, 240, 1,
        120, 16, 16, 120, 8, 30, 240,
    ),
    "hbm2_2400": (
        17, 14, 4, 2, 4, 2, 15, 18, 16, 6, 6, 27, 17, 17, 40, 57, 23, 44, 5, 5, 20, 17, 421, 421, 15, 446, 421, 1,
        193, 10, 10, 193, 5, 17, 421, 2,
    ),
    "hbm3_6400": (
        26, 14, 4, 2, 4, 2, 22, 22, 18, 6, 6, 34, 26, 26, 48, 74, 32, 60, 8, 8, 32, 26, 560, 560, 20, 593, 560, 2,
        320, 13, 13, 320, 8, 26, 560, 2,
    ),
    "lpddr5_6400": (
        15, 15, 4, 2, 4, 2, 12, 21, 16, 8, 8, 39, 15, 17, 34, 49, 23, 54, 4, 4, 16, 15, 168, 168, 12, 186, 168, 2,
        96, 7, 72, 96, 4, 15, 168,
    ),
}  # fmt: skip


parts = pytest.mark.parametrize("name", CLOCKS)


@parts
def test_distances_are_what_the_sources_say(name: str) -> None:
    """An engine that issues as early as the rules let it: blocked at n - 1, legal at n."""
    found = {key: distance(table_of(name), *SEQUENCES[key]) for key in list(SEQUENCES)[: len(CLOCKS[name])]}
    assert found == dict(zip(SEQUENCES, CLOCKS[name], strict=False))


def test_commands_of_two_clocks_hold_the_bus_in_the_clock_before_their_own() -> None:
    ddr5, lpddr5, hbm3 = (table_of(name) for name in ("ddr5_4800", "lpddr5_6400", "hbm3_6400"))
    assert [distance(ddr5, OPEN, f"PRE a; {cmd} c") for cmd in ("RD", "WR", "RDA", "WRA", "PREab")] == [2, 2, 2, 2, 2]
    assert [distance(ddr5, OPEN, f"{cmd} c; PRE a") for cmd in ("RD", "WR", "RDA", "WRA")] == [1, 1, 1, 1]
    assert [distance(table, "ACT c", "RD c; ACT a") for table in (ddr5, lpddr5, hbm3)] == [2, 2, 1]
    assert [distance(table, "ACT c", "ACT a; PRE c") for table in (ddr5, lpddr5, hbm3)] == [1, 1, 1]
    assert distance(hbm3, "ACT c", "PRE c; ACT x") == 2


def test_precharge_of_all_banks_of_lpddr5_takes_longer_than_of_one() -> None:
    table = table_of("lpddr5_6400")
    for pre, clocks in (("PRE a", 15), ("PREab", 17)):
        assert {distance(table, "ACT a", f"{pre}; {then}") for then in ("ACT", "REFab", "REFpb", "SRE")} == {clocks}


# Every rule bites: with its wait longer by a clock, some stream of these issues at other clocks.


RARE = (
    ("ACT a", "RDA a; REFab"),
    ("ACT a", "RDA a; SRE"),
    ("ACT a", "RDA a; REFpb a"),
    ("", "ACT a; ACT c; ACT d; ACT e; REFpb f"),
)


def rules_of(name: str) -> list[Rule]:
    part = load_part(name).value
    return [rule for rule in given(standard_of(part), part.timing.keys())[1] if not rule.sibling]


def walk(rng: Random, names: tuple[str, ...], banks: list[tuple[int, int, int]]) -> Iterator[tuple]:
    """Legal commands on a few banks, some kinds more often than others for a while."""
    opened = dict.fromkeys(banks, False)
    for _ in range(12):
        few, kinds = rng.sample(banks, rng.randint(1, len(banks))), rng.sample(names, rng.randint(2, 6))
        for _ in range(25):
            cmd, bank = rng.choice(kinds), rng.choice(few)
            home = [b for b in banks if b[0] == bank[0]]
            if cmd in ("RD", "WR", "RDA", "WRA") and not opened[bank]:
                cmd = "ACT"
            if (cmd in ("ACT", "REFpb") and opened[bank]) or (cmd in ("REFab", "SRE") and any(opened[b] for b in home)):
                cmd = rng.choice(("PRE", "PREab", "RDA", "WRA")) if opened[bank] else "PREab"
            for b in home if cmd == "PREab" else [bank]:
                opened[b] = {"ACT": True, "PRE": False, "PREab": False, "RDA": False, "WRA": False}.get(cmd, opened[b])
            if cmd != "SRX":
                yield cmd, bank, 0
            if cmd == "SRE":
                yield "SRX", bank, 0


@cache
def streams(name: str) -> list[np.ndarray]:
    table, org = table_of(name), load_part(name).value.organization
    banks = list(product(range(org.pseudo_channels), range(org.bank_groups), range(2)))
    some = [banks[: 2 * org.bank_groups], banks[:3], banks]
    walks = [list(walk(Random(f"{name} {i}"), table.names, some[i % 3])) for i in range(18)]
    for orders in (orders_of(*texts) for texts in (*SEQUENCES.values(), *RARE)):
        if {cmd for cmd, *_ in orders} <= set(table.names) and {bank for _, bank, _ in orders} <= set(banks):
            walks.append(orders)
    return [stream_of(table, orders) for orders in walks]


def clocks_of(table: Table, name: str) -> Iterator[list[int]]:
    return (issue(table, [stream], refresh=False).issue_ck[0].tolist() for stream in streams(name))


@parts
def test_every_rule_bites_but_those_that_may_sleep(name: str) -> None:
    table, rules = table_of(name), rules_of(name)
    right = list(clocks_of(table, name))
    assert len(rules) == len(table.rules.wait)
    asleep = {
        str(rule)
        for i, rule in enumerate(rules)
        if all(found == wanted for found, wanted in zip(clocks_of(bend(table, i, 1), name), right, strict=True))
    }
    assert asleep == {rule for part, rule in SLEEPING_IN_PARTS if part == name}


# What a speed grade promises: GB/s, ns from ACT to the last bit read, % of the time in refresh
PROMISED = {
    "ddr4_2400": (19.2, 36 * 0.833, 4.49),
    "ddr4_3200": (25.6, 30.0, 4.49),
    "ddr5_4800": (19.2, 76 * 0.416, 7.57),
    "ddr5_6400": (25.6, 100 * 0.312, 7.57),
    "gddr6_16000": (32.0, 30.0, 6.32),
    "hbm2_2400": (38.4, 36 * 0.833, 8.99),
    "hbm3_6400": (51.2, 33.75, 8.97),
    "lpddr5_6400": (12.8, 42.5, 5.38),
}


@parts
def test_what_a_speed_grade_promises(name: str) -> None:
    part, (peak, latency, refresh) = load_part(name).value, PROMISED[name]
    org, burst_ns = part.organization, part.cycles("nBL") * part.tCK_ps / 1000
    assert part.peak_gb_s == pytest.approx(peak)
    assert org.pseudo_channels * org.access_bits / 8 / burst_ns == pytest.approx(peak, rel=0.003)
    found = issue(table_of(name), [stream_of(table_of(name), orders_of("", "ACT a; RD a"))], refresh=False)
    assert (found.end_ck[0][1] - QUIET) * part.tCK_ps / 1000 == pytest.approx(latency)
    assert 100 * part.cycles("tRFC") / part.cycles("tREFI") == pytest.approx(refresh, abs=0.005)


# Ranks


def two_ranks(name: str, capacity: int) -> Table:
    more = {"organization.ranks": "2", "organization.capacity_bytes": str(capacity)}
    return compile_table(load_part(name, more).value)


@pytest.mark.parametrize(
    ("name", "capacity", "waits"),
    [  # RD to RD, RD to WR, WR to RD (0: the burst of WR is over by then), WR to WR of another rank
        ("ddr4_3200", 16 * 2**30, (6, 12, 0, 6)),
        ("ddr4_2400", 16 * 2**30, (6, 10, 2, 6)),
        ("ddr5_4800", 16 * 2**30, (10, 12, 8, 10)),
        ("lpddr5_6400", 2 * 2**30, (4, 12, 0, 4)),
    ],
)
def test_ranks_share_the_data_pins(name: str, capacity: int, waits: tuple[int, ...]) -> None:
    table = two_ranks(name, capacity)
    reads, writes = (tuple(map(table.cmd, names)) for names in (("RD", "RDA"), ("WR", "WRA")))
    found = [(row.level, row.wait, row.after, row.before) for row in rule_rows(table.rules) if row.sibling]
    turns = ((reads, reads), (reads, writes), (writes, reads), (writes, writes))
    assert found == [(Level.RANK, wait, *turn) for wait, turn in zip(waits, turns, strict=True)]
    assert len(table.rules.wait) == len(table_of(name).rules.wait) + 4
    assert table.rules.size.tolist() == [1, 1, 2, *(2 * table_of(name).rules.size[3:]).tolist()]


def test_stack_ids_of_hbm3(tmp_path: Path) -> None:
    """Two of them share the pins of a pseudo channel: tCCD_R from RD to RD, other bank groups' distances else; each has
    an activation window and a refresh of its own. The timing is asked for where there are several."""
    more = {"organization.ranks": "2", "organization.capacity_bytes": str(2 * 2**30)}
    said = "missing key tCCD_R (RD to RD, other stack ID of the same pseudo channel), which 2 ranks need"
    with pytest.raises(UserError, match=re.escape(said)):
        load_part("hbm3_6400", more)
    text = (HERE / "parts" / "hbm3_6400.yaml").read_text()
    (tmp_path / "part.yaml").write_text(text.replace("  tRRD_S:", "  tCCD_R: 3 nCK\n  tRRD_S:"))
    table = compile_table(load_part(str(tmp_path / "part.yaml"), more).value)
    assert table.rules.size.tolist() == [1, 2, 4, 16, 64] and int(table.rules.sibling.sum()) == 1

    def last(*commands: tuple[str, int, int]) -> int:
        """Clocks from the first to the last command; rows stand open before RD and WR."""
        behind = commands[-1][0] in ("RD", "WR")
        opened = [("ACT", rank, group) for rank in (0, 1) for group in (0, 1) if behind]
        stream = np.zeros(len(opened) + len(commands), STREAM)
        for row, (name, rank, group) in zip(stream, [*opened, *commands], strict=True):
            row["cmd"], row["rank"], row["bg"], row["count"] = table.cmd(name), rank, group, 1
        stream["release"][len(opened)] = 500
        clocks = issue(table, [stream], refresh=False).issue_ck[0]
        return int(clocks[-1] - clocks[len(opened)])

    assert [last(("RD", 0, 0), ("RD", *other)) for other in ((0, 0), (0, 1), (1, 0), (1, 1))] == [4, 2, 3, 3]
    assert [last(("WR", 0, 0), ("WR", *other)) for other in ((0, 0), (0, 1), (1, 0))] == [4, 2, 2]
    assert [last(("RD", 0, 0), ("WR", *other)) for other in ((0, 1), (1, 0))] == [22, 22]
    assert [last(("WR", 0, 0), ("RD", *other)) for other in ((0, 0), (0, 1), (1, 0))] == [22, 18, 18]
    assert [last(("ACT", 0, 0), ("ACT", rank, 1)) for rank in (0, 1)] == [8, 2]
    assert [last(("REFab", 0, 0), ("ACT", rank, 1)) for rank in (0, 1)] == [560, 2]


# What is optional


def test_rows_of_timings_that_a_part_does_not_give_are_left_out() -> None:
    part = load_part("lpddr5_6400").value
    names = {}
    for without in (("tRFCpb", "tREFIpb", "tPBR2ACT", "tPBR2PBR"), ("tCKESR", "tXS")):
        timing = {name: value for name, value in part.timing.items() if name not in without}
        names[without[0]] = compile_table(msgspec.structs.replace(part, timing=timing)).names[8:]
    assert names == {"tRFCpb": ("SRE", "SRX"), "tCKESR": ("REFpb",)}
    for name in ("ddr4", "ddr5", "gddr6_refpb", "hbm2_refpb", "hbm3", "lpddr5"):
        found = join_tables(name, None)
        assert {cmd for rule in found.rules for cmd in rule.after + rule.before} == {cmd.name for cmd in found.commands}
    for name in ("gddr6_14000", "gddr6_aim", "gddr6_pim_gpt", "hbm2_2000"):
        assert not {"REFpb", "SRE", "SRX"} & set(compile_table(load_part(name).value).names)


@pytest.mark.parametrize(
    ("line", "instead", "sentence"),
    [
        ("  tXS: ", "", "missing key tXS (SRX to ACT or refresh, the way out of self-refresh), which tCKESR needs"),
        ("  tRREFD: ", "", "missing key tRREFD (REFpb to ACT or REFpb of another bank), which tREFIpb needs"),
        ("  tRFCpb: ", "  tRFCpb: 0 ns", "at $.timing.tRFCpb: expected more than 0"),
        ("io_pj_per_bit: ", "io_pj_per_bit: 0.0\ndevices: 3", "at $.devices: expected a divisor of the 64 data pins"),
    ],
)
def test_parts_that_do_not_agree_with_themselves(tmp_path: Path, line: str, instead: str, sentence: str) -> None:
    lines = (HERE / "parts" / "hbm3_6400.yaml").read_text().splitlines()
    changed = [instead if text.startswith(line) else text for text in lines]
    (tmp_path / "part.yaml").write_text("\n".join(changed) + "\n")
    with pytest.raises(UserError, match=re.escape(sentence)):
        load_part(str(tmp_path / "part.yaml"))
