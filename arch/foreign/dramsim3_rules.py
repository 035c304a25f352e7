"""DRAMsim3's tables of waits between commands as commands and `Rule`s.

Facts of umd-memsys/DRAMsim3@29817593, `src/timing.cc`. A wait at or below 0 is none.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pimloom.arch.command import Command, Level, Role, Row, Rule
from pimloom.arch.foreign.dramsim3_config import GDDR, HBM, Config

READS, WRITES = ("RD", "RDA"), ("WR", "WRA")
BANK, RANK = Level.BANK, Level.RANK
ANY, OPEN, CLOSED = Row


class Waits(NamedTuple):
    """Waits [CK] of one command after another in the same bank, in others of its group, of its rank, of its channel."""

    bank: int = 0
    group: int = 0
    rank: int = 0
    channel: int = 0


class Pairs(NamedTuple):
    """`before` waits for `after`."""

    after: tuple[str, ...]
    before: tuple[str, ...]
    waits: Waits


def commands(config: Config) -> tuple[Command, ...]:
    """The commands, on one bus, or where two may issue in a clock on a row and a column bus."""
    n = config.number
    row, column = ("row", "column") if config.flag["hbm_dual_cmd"] else ("command", "command")
    read, write = str(n["read_delay"]), str(n["write_delay"])
    opened = min(_row_to_column(config))
    return (
        Command("ACT", Role.ACTIVATE, BANK, CLOSED, OPEN, str(max(opened, 0)), "open a row", row),
        Command("PRE", Role.PRECHARGE, BANK, ANY, CLOSED, str(n["tRP"]), "close a bank", row),
        Command("RD", Role.READ, BANK, OPEN, ANY, read, "read one burst", column),
        Command("WR", Role.WRITE, BANK, OPEN, ANY, write, "write one burst", column),
        Command("RDA", Role.READ, BANK, OPEN, CLOSED, read, "read one burst, then close the bank", column),
        Command("WRA", Role.WRITE, BANK, OPEN, CLOSED, write, "write one burst, then close the bank", column),
        Command("REFab", Role.REFRESH, RANK, CLOSED, ANY, str(n["tRFC"]), "refresh all banks of a rank", row),
        Command("REFpb", Role.REFRESH, BANK, CLOSED, ANY, str(n["tRFCb"]), "refresh a bank", row, 0, "refresh_bank"),
        Command("SRE", Role.SLEEP, RANK, CLOSED, ANY, str(n["tCKESR"]), "enter self-refresh", row),
        Command("SRX", Role.WAKE, RANK, CLOSED, ANY, str(n["tXS"]), "leave self-refresh", row),
    )


def rules(config: Config) -> tuple[Rule, ...]:
    """All rules with a wait; waits in integers."""
    n = config.number
    found: list[Rule] = []
    for pairs in (*_column_to_column(config), *_row(config)):
        found += [Rule(level, pairs.after, pairs.before, str(w), 1, s) for level, w, s in _placed(config, pairs.waits)]
    found += _rank_wide(config)
    found.append(Rule(RANK, ("ACT",), ("ACT",), str(n["tFAW"]), 4))
    if config.protocol in GDDR:
        found.append(Rule(RANK, ("ACT",), ("ACT",), str(n["t32AW"]), 32))
    return _merged([rule for rule in found if int(rule.wait) > 0])


def wraps(config: Config) -> int:
    """The furthest below 0 [CK] that a wait between column commands is, where one may issue so early that the sum is
    below clock 0; else 0."""
    lowest = min(min(_there(config, pairs.waits)) for pairs in _column_to_column(config))
    return lowest if lowest < -max(1, min(_row_to_column(config))) else 0


def _row_to_column(config: Config) -> tuple[int, int]:
    """Waits [CK] from ACT to a read and to a write."""
    n = config.number
    if config.protocol in (*GDDR, *HBM):
        return n["tRCDRD"], n["tRCDWR"]
    return n["tRCD"] - n["AL"], n["tRCD"] - n["AL"]


def _column_to_column(config: Config) -> Iterator[Pairs]:
    n = config.number
    burst, turn = n["burst_cycle"], n["burst_cycle"] + n["tRTRS"]
    far = max(burst, n["tCCD_S"])
    near = max(burst, n["tCCD_L"]) if n["bankgroups"] > 1 else far
    to_read_far = n["write_delay"] + n["tWTR_S"]
    to_read_near = n["write_delay"] + n["tWTR_L"] if n["bankgroups"] > 1 else to_read_far
    to_write = n["RL"] + turn - n["WL"]
    waits = {
        (READS, READS): Waits(near, near, far, turn),
        (READS, WRITES): Waits(to_write, to_write, to_write, n["read_delay"] + turn - n["write_delay"]),
        (WRITES, READS): Waits(to_read_near, to_read_near, to_read_far, n["write_delay"] + turn - n["read_delay"]),
        (WRITES, WRITES): Waits(near, near, far, burst),
    }
    for (after, before), w in waits.items():
        yield Pairs(after[:1], before, w)
        yield Pairs(after[1:], before, w._replace(bank=0))  # that bank is closed: an ACT comes between


def _row(config: Config) -> Iterator[Pairs]:
    """Waits between commands of one bank that open or close it; tRRD, tPPD, and bank refresh with all its gaps."""
    n = config.number
    read, write = _row_to_column(config)
    near = n["tRRD_L"] if n["bankgroups"] > 1 else n["tRRD_S"]
    after_read = n["AL"] + n["tRTP"]
    after_write = n["write_delay"] + n["tWR"]
    yield Pairs(("ACT",), READS, Waits(read))
    yield Pairs(("ACT",), WRITES, Waits(write))
    yield Pairs(("ACT",), ("PRE",), Waits(n["tRAS"]))
    yield Pairs(("ACT",), ("ACT",), Waits(n["tRC"], near, n["tRRD_S"]))
    yield Pairs(("ACT",), ("REFpb",), Waits(0, n["tRC"], n["tRC"]))
    yield Pairs(("RD",), ("PRE",), Waits(after_read))
    yield Pairs(("WR",), ("PRE",), Waits(after_write))
    yield Pairs(("RDA",), ("ACT",), Waits(after_read + n["burst_cycle"] + n["tRP"]))
    yield Pairs(("RDA",), ("REFpb",), Waits(after_read + n["tRP"]))
    yield Pairs(("WRA",), ("ACT", "REFpb"), Waits(after_write + n["tRP"]))
    yield Pairs(("PRE",), ("ACT", "REFpb"), Waits(n["tRP"]))
    yield Pairs(("REFpb",), ("ACT",), Waits(0, n["tRFC"], n["tRFC"]))
    yield Pairs(("REFpb",), ("REFpb",), Waits(0, n["tREFI"], n["tREFI"]))
    if config.protocol in (*GDDR, "LPDDR4"):
        yield Pairs(("PRE",), ("PRE",), Waits(0, n["tPPD"], n["tPPD"]))


def _rank_wide(config: Config) -> Iterator[Rule]:
    """Waits before and after the commands of a whole rank, which need every bank of it ready."""
    n = config.number
    closed = {"RDA": n["AL"] + n["tRTP"], "WRA": n["write_delay"] + n["tWR"], "PRE": 0}
    for name, clocks in closed.items():
        yield Rule(RANK, (name,), ("REFab", "SRE"), str(clocks + n["tRP"]))
    yield Rule(RANK, ("REFab",), ("ACT", "REFab", "SRE"), str(n["tRFC"]))
    yield Rule(RANK, ("SRE",), ("SRX",), str(n["tCKESR"]))
    yield Rule(RANK, ("SRX",), ("ACT", "REFab", "REFpb", "SRE"), str(n["tXS"]))


def _placed(config: Config, waits: Waits) -> Iterator[tuple[Level, int, bool]]:
    """Level, wait and sibling of the fewest rules that say exactly these waits.

    A wait that no nearer place undercuts stands one level higher, for all below it; else it binds siblings only.
    Places that the device does not have undercut nothing.
    """
    places, exists = [w if w > 0 else 0 for w in waits], _exist(config)
    sibling = (BANK, BANK, Level.BANK_GROUP, RANK)
    around = (BANK, Level.BANK_GROUP, RANK, Level.CHANNEL)
    said = 0
    for place in (3, 2, 1, 0):
        if not exists[place] or places[place] <= said:
            continue
        nearer = [places[p] for p in range(place) if exists[p]]
        if all(w >= places[place] for w in nearer):
            said = places[place]
            yield around[place], said, False
        else:
            yield sibling[place], places[place], True


def _exist(config: Config) -> tuple[bool, ...]:
    """Whether the device has each of the places of `Waits`."""
    n = config.number
    return True, n["banks_per_group"] > 1, n["bankgroups"] > 1, n["ranks"] > 1


def _there(config: Config, waits: Waits) -> list[int]:
    return [wait for wait, exists in zip(waits, _exist(config), strict=True) if exists]


def _merged(rules: list[Rule]) -> tuple[Rule, ...]:
    """Rules that differ only in `before`, then only in `after`, in one."""
    by_after: dict[Rule, tuple[str, ...]] = {}
    for rule in rules:
        key = rule._replace(before=())
        by_after[key] = by_after.get(key, ()) + rule.before
    by_before: dict[Rule, tuple[str, ...]] = {}
    for key, before in by_after.items():
        rest = key._replace(after=(), before=before)
        by_before[rest] = by_before.get(rest, ()) + key.after
    return tuple(rule._replace(after=after) for rule, after in by_before.items())
