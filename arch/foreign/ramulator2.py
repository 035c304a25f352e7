"""A configuration that Ramulator 2.1 has exported (`.yaml`) as a `Memory`: its own rules, its own controller."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pimloom.arch.command import Command, Level, Role, Row, Rule
from pimloom.arch.document import short
from pimloom.arch.foreign.limits import LONGEST_CK, MOST_ADDRESS_BITS, MOST_BANKS
from pimloom.arch.foreign.ramulator2_file import FIRST, Config, read_config
from pimloom.arch.memory import Memory, Policy
from pimloom.arch.part import Organization
from pimloom.arch.policy import load_policy
from pimloom.arch.table import Table, build_table
from pimloom.arch.units import BITS_PER_BYTE

COLUMN = ("RD", "WR", "RDA", "WRA")
SCHEDULERS = {"FRFCFS": "fr_fcfs", "FRFCFS-RowHit": "fr_fcfs_row_hit"}
PAGES = {"Open": "open", "ClosedCAP": "closed"}
REFRESH = {"AllBank": "all_bank", "NoRefresh": "none"}
CLOCKS = {  # the tool's name -> ours, where it is not the tool's with another first letter
    **{"nBL": "nBL", "nCL": "nCL", "nCWL": "nCWL", "nRTPL": "tRTP", "nRFCab": "tRFC"},
    **{f"n{gap}{which}": f"t{gap}_{which}" for gap in ("CCD", "RRD", "WTR") for which in "SL"},
}
FIELDS = {
    **{Level.RANK: "rank", Level.PSEUDO_CHANNEL: "pseudo_channel"},
    **{Level.BANK_GROUP: "bank_group", Level.BANK: "bank"},
}


def load_ramulator2(path: str | Path) -> Memory:
    """Read a configuration exported by Ramulator 2.1; what has no effect is in `warnings`. Raises UserError."""
    config = read_config(Path(path))
    clocks = _clocks(config)
    address = _address(config)
    return Memory(
        name=Path(path).stem,
        table=_table(config, clocks),
        channels=len(config.system.controllers),
        tCK_ps=config.timing["tCK_ps"],
        clocks=clocks,
        access_bytes=_access_bytes(config),
        offset_bits=_access_bytes(config).bit_length() - 1,
        address=address,
        peak_gb_s=_peak_gb_s(config),
        policy=_policy(config),
        currents=None,
        warnings=tuple(f"{config.path}:{line}: {said}" for line, said in sorted(_remarks(config))),
    )


def rules(config: Config) -> tuple[Rule, ...]:
    """`timing_constraints` one by one, in their order; of a window, which counts by command, one for each previous."""
    place = f"{FIRST}.dram.timing_constraints"
    constraints = config.controller.dram.timing_constraints
    found = [_rule(config, f"{place}[{i}]", written) for i, written in enumerate(constraints)]
    return tuple(
        rule._replace(after=after)
        for rule in found
        for after in ([(a,) for a in rule.after] if rule.window > 1 else [rule.after])
    )


def commands(config: Config) -> tuple[Command, ...]:
    """The commands in the tool's order, on one bus, or on a row and a column bus under HBM12."""
    t, scope = config.timing, config.standard.scope
    row, column = ("row", "column") if config.controller.impl == "HBM12" else ("command", "command")
    read, written = config.controller.dram.read_latency, t["nCWL"] + t["nBL"] + t["nWR"]
    opened, closed = t.get("nRCD", t.get("nRCDRD", 0)), written + t["nRP"]
    known = {
        "ACT": (Role.ACTIVATE, Level.BANK, Row.CLOSED, Row.OPEN, opened, "open a row of one bank"),
        "PRE": (Role.PRECHARGE, Level.BANK, Row.ANY, Row.CLOSED, t["nRP"], "close the row of one bank"),
        "PREab": (Role.PRECHARGE, scope, Row.ANY, Row.CLOSED, t["nRP"], "close the rows of all banks"),
        "RD": (Role.READ, Level.BANK, Row.OPEN, Row.ANY, read, "read one burst"),
        "WR": (Role.WRITE, Level.BANK, Row.OPEN, Row.ANY, written, "write one burst"),
        "RDA": (Role.READ, Level.BANK, Row.OPEN, Row.CLOSED, read, "read one burst, then close the row"),
        "WRA": (Role.WRITE, Level.BANK, Row.OPEN, Row.CLOSED, closed, "write one burst, then close the row"),
        "REFab": (Role.REFRESH, scope, Row.CLOSED, Row.ANY, t.get("nRFCab", t.get("nRFC", 0)), "refresh all banks"),
        "REFpb": (Role.REFRESH, Level.BANK, Row.CLOSED, Row.ANY, t.get("nRFCpb", 0), "refresh one bank"),
    }
    found = []
    for name in config.standard.commands:
        role, where, needs, leaves, done, meaning = known[name]
        bus, cause = column if name in COLUMN else row, "refresh_bank" if name == "REFpb" else ""
        found.append(Command(name, role, where, needs, leaves, str(done), meaning, bus, charged_to=cause))
    return tuple(found)


def _rule(config: Config, place: str, written: list[Any]) -> Rule:
    """One rule from [level, [previous], [next], clocks, window, sibling]."""
    head, tail = written[:4], written[4:]
    right = (
        len(head) == 4 and len(tail) <= 2 and all(type(w) is kind for w, kind in zip(tail, (int, bool), strict=False))
    )
    if not right or any(type(w) is not kind for w, kind in zip(head, (int, list, list, int), strict=True)):
        shape = "[level, [previous], [next], clocks, window, sibling]"
        config.fail(place, f"expected {shape}, got {short(str(written))}")
    level, after, before, wait = head
    levels = config.standard.levels
    if not 0 <= level < len(levels):
        config.fail(place, f"expected a level >= 0 and <= {len(levels) - 1}, got {level}")
    if abs(wait) > LONGEST_CK:
        config.fail(place, f"expected at most {LONGEST_CK} clocks, got {wait}")
    window = tail[0] if tail else 1
    sibling = tail[1] if len(tail) > 1 else False
    if not 1 <= window <= 64 or sibling and window > 1:
        config.fail(place, f"expected a window >= 1 and <= 64, and 1 of a sibling, got {window}")
    names = [_names(config, place, side, levels[level]) for side in (after, before)]
    return Rule(levels[level], names[0], names[1], str(wait), window, sibling)


def _names(config: Config, place: str, numbers: list[Any], level: Level) -> tuple[str, ...]:
    known = config.standard.commands
    for number in numbers:
        if type(number) is not int or not 0 <= number < len(known):
            config.fail(place, f"expected commands >= 0 and <= {len(known) - 1}, got {short(str(number))}")
        if known[number] in ("REFab", "PREab") and level > config.standard.scope:
            config.fail(place, f"{known[number]} acts on a {_level(config.standard.scope)}, not on a {_level(level)}")
    if not numbers or len(set(numbers)) != len(numbers):
        config.fail(place, f"expected different commands, at least one, got {short(str(numbers))}")
    return tuple(known[number] for number in numbers)


def _level(level: Level) -> str:
    return level.name.lower().replace("_", " ")


def _access_bytes(config: Config) -> int:
    return config.standard.prefetch * config.controller.dram.channel_width // BITS_PER_BYTE


def _peak_gb_s(config: Config) -> float:
    """GB/s of a channel: a burst in its clocks on each pseudo channel."""
    burst_ns = config.timing["nBL"] * config.timing["tCK_ps"] / 1000
    return _access_bytes(config) / burst_ns * config.nodes.get(Level.PSEUDO_CHANNEL, 1)


def _table(config: Config, clocks: dict[str, int]) -> Table:
    dram, t = config.controller.dram, config.timing
    inner = {level: config.nodes.get(level, 1) for level in Level}
    banks = inner[Level.PSEUDO_CHANNEL] * inner[Level.RANK] * inner[Level.BANK_GROUP] * inner[Level.BANK]
    if banks > MOST_BANKS:
        config.fail(f"{FIRST}.dram.org.count", f"expected at most {MOST_BANKS} banks in a channel, got {banks}")
    columns = config.columns // config.standard.prefetch
    organization = Organization(
        pseudo_channels=inner[Level.PSEUDO_CHANNEL],
        ranks=inner[Level.RANK],
        bank_groups=inner[Level.BANK_GROUP],
        banks_per_group=inner[Level.BANK],
        rows=config.rows,
        columns=columns,
        access_bits=_access_bytes(config) * BITS_PER_BYTE,
        dq_bits=dram.channel_width * inner[Level.PSEUDO_CHANNEL],
        pin_gbps=config.standard.prefetch / t["nBL"] / t["tCK_ps"] * 1000,
        capacity_bytes=banks * config.rows * columns * _access_bytes(config),
    )
    return build_table(commands(config), rules(config), clocks, organization, "REFab")


def _clocks(config: Config) -> dict[str, int]:
    """The timing vector [CK] under our names; nCL + nBL is the tool's read latency."""
    t, place = config.timing, f"{FIRST}.dram.timing"
    for name in ("nBL", "nREFI", "tCK_ps"):
        if t[name] < 1:
            config.fail(f"{place}[{config.standard.timings.index(name)}]", f"expected {name} >= 1, got {t[name]}")
    found = {CLOCKS.get(name, f"t{name[1:]}"): t[name] for name in t if name not in ("rate", "tCK_ps")}
    if config.controller.refresh_manager.impl != "NoRefresh" and found["tREFI"] <= found["tRFC"]:
        said = f"expected nREFI above nRFC = {found['tRFC']}, got {found['tREFI']}: refresh would never end"
        config.fail(f"{place}[{config.standard.timings.index('nREFI')}]", said)
    latency = config.controller.dram.read_latency
    if latency < t["nBL"]:
        config.fail(f"{FIRST}.dram.read_latency", f"expected at least nBL = {t['nBL']}, got {latency}")
    return found | {"nCL": latency - t["nBL"]}


def _address(config: Config) -> tuple[tuple[str, int], ...]:
    """RoBaRaCoCh: column lowest, row highest; the channel's bits `interleave_bits` above the burst."""
    burst = _access_bytes(config)
    if burst & (burst - 1):
        config.fail(
            f"{FIRST}.dram.channel_width", f"expected a power of two, got {config.controller.dram.channel_width}"
        )
    if config.columns < config.standard.prefetch:
        config.fail(f"{FIRST}.dram.org.count", f"expected at least {config.standard.prefetch} columns: one burst")
    sizes = [("column", config.columns // config.standard.prefetch)]
    sizes += [(FIELDS[level], config.nodes[level]) for level in config.standard.levels if level in FIELDS]
    inside = [(name, size.bit_length() - 1) for name, size in (*sizes, ("row", config.rows)) if size > 1]
    channel = len(config.system.controllers).bit_length() - 1
    total = sum(bits for _, bits in inside)
    if total + channel + burst.bit_length() > MOST_ADDRESS_BITS:
        config.fail(f"{FIRST}.dram.org.count", f"expected addresses of at most {MOST_ADDRESS_BITS} bits")
    low = config.system.channel_mapper.interleave_bits
    if channel and low > total:
        config.fail("memory_system.channel_mapper.interleave_bits", f"expected at most {total}, got {low}")
    return tuple(_with_channel(inside, channel, low)) if channel else tuple(inside)


def _with_channel(inside: list[tuple[str, int]], channel: int, low: int) -> Iterator[tuple[str, int]]:
    """The fields with the channel's bits put in above the `low` lowest; a field may be cut in two."""
    for name, bits in inside:
        below = min(bits, low)
        if below:
            yield name, below
        low -= below
        if not low and channel:
            yield "channel", channel
            channel = 0
        if bits > below:
            yield name, bits - below


def _policy(config: Config) -> Policy:
    c, built_in = config.controller, load_policy("ramulator2").value
    if c.wr_low_watermark > c.wr_high_watermark:
        said = f"expected at most wr_high_watermark = {c.wr_high_watermark:g}, got {c.wr_low_watermark:g}"
        config.fail(f"{FIRST}.wr_low_watermark", said)
    return replace(
        built_in,
        read_entries=c.read_buffer_size,
        write_entries=c.write_buffer_size,
        scheduler=SCHEDULERS[c.scheduler.impl],
        page=PAGES[c.row_policy.impl],
        row_hit_cap=c.row_policy.cap or built_in.row_hit_cap,
        drain_high=c.wr_high_watermark,
        drain_low=c.wr_low_watermark,
        refresh=REFRESH[c.refresh_manager.impl],
    )


def _remarks(config: Config) -> Iterator[tuple[int, str]]:
    """Keys without effect here: line and what holds instead."""
    c, t, line = config.controller, config.timing, config.line
    front = config.frontend.get("impl", "External")
    if front != "External":
        yield line("frontend.impl"), f"frontend {short(str(front))} has no effect: requests come from elsewhere"
    ratio = config.frontend.get("clock_ratio", config.system.clock_ratio)
    if ratio != config.system.clock_ratio:
        said = "clock_ratio has no effect: requests arrive in clocks of the memory"
        yield line("memory_system.clock_ratio"), said
    if c.priority_buffer_size != 1568:
        yield line(f"{FIRST}.priority_buffer_size"), "priority_buffer_size has no effect: upkeep is never refused"
    if c.row_policy.cap is not None and c.row_policy.impl == "Open":
        yield line(f"{FIRST}.row_policy.cap"), "cap has no effect: row_policy is Open"
    if c.refresh_manager.debug:
        yield line(f"{FIRST}.refresh_manager.debug"), "debug has no effect"
    if c.controller_plugins:
        yield line(f"{FIRST}.controller_plugins"), "CmdTraceRecorder has no effect: it writes no file here"
    if c.dram.read_latency != t["nCL"] + t["nBL"]:
        said = f"read_latency = {c.dram.read_latency} holds, not nCL + nBL = {t['nCL'] + t['nBL']}"
        yield line(f"{FIRST}.dram.read_latency"), said
