"""The device's rules, every kind of them: random tables against their rules read word for word, and all parts' streams.

A random table has commands that act on any level, and rules with windows, between siblings, and with commands that wait
at several nodes; the literal reading looks through the whole history before each command.
"""

import csv
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

import pimloom.arch
from pimloom.arch.command import STREAM, Command, Level, Role, Row, Rule
from pimloom.arch.system import load_part
from pimloom.arch.table import Table, build_table, compile_table, rule_rows
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.stream import engine_of
from pimloom.cycle_sim.dram.trace import TRACE, expand
from pimloom.rtl.flow.stimulus import draw_cases, shrink
from tests.naive_history import History
from tests.slow import parts
from tests.streams import organization
from tests.test_monitor import earlier_is_illegal, part_of

RANKS = (1, 2, 4)
CASES = 100


class Drawn(NamedTuple):
    """A table of commands that need no rows, and a stream of them."""

    table: Table
    stream: np.ndarray


def draw(rng: Random) -> Drawn:
    size = (rng.choice((1, 1, 2)), rng.choice(RANKS), rng.randint(1, 3), rng.randint(1, 3))
    scope = {f"C{i}": rng.choice((*Level, Level.BANK)) for i in range(rng.randint(1, 6))}
    buses = rng.choice((("one",), ("one", "two")))
    commands = [
        Command(name, Role.MODE, level, Row.ANY, Row.ANY, f"{rng.randint(1, 9)}", "", rng.choice(buses))
        for name, level in scope.items()
    ]
    rules = []
    for _ in range(rng.randint(1, 8)):
        level = rng.choice(list(Level))
        after = tuple(n for n in scope if scope[n] >= level and rng.random() < 0.5)
        before = tuple(n for n in scope if rng.random() < 0.5)
        if after and before:
            siblings = level > Level.CHANNEL and rng.random() < 0.4
            rules.append(Rule(level, after, before, f"{rng.randint(0, 30)}", rng.choice((1, 1, 2, 3, 4)), siblings))
    table = build_table(tuple(commands), tuple(rules), {}, organization(size), "")
    stream = np.zeros(rng.randint(1, 30), STREAM)
    for row in stream:
        row["cmd"] = rng.randrange(len(scope))
        for name, limit in zip(("pch", "rank", "bg", "bank"), size, strict=True):
            row[name] = rng.randrange(limit)
        row["count"] = rng.choice((1, 1, 1, rng.randint(1, 9)))
        row["release"] = rng.choice((0, 0, 0, rng.randrange(60)))
    return Drawn(table, stream)


def literally(table: Table, stream: np.ndarray) -> tuple[list[int], list[int], int]:
    """Clocks of the first and the last command of each row, and in which all is over, from the rules' words."""
    rules, size = table.rules, table.rules.size.tolist()
    history = History(rule_rows(rules), table.names, size, rules.scope.tolist())
    fan = [n // m for n, m in zip(size, [1, *size], strict=False)]
    first, last, now, over = list[int](), list[int](), -1, 0
    for row in stream:
        cmd, name, bank = int(row["cmd"]), table.names[row["cmd"]], 0
        for level, coordinate in enumerate(("pch", "rank", "bg", "bank"), start=1):
            bank = bank * fan[level] + int(row[coordinate])
        bank = history.banks(name, bank)[0]
        for n in range(row["count"]):
            now = max(now + 1, int(row["release"]), history.legal_from(name, bank))
            history.add(now, name, bank)
            if n == 0:
                first.append(now)
            armed = rules.after_rule[rules.after_ptr[cmd] : rules.after_ptr[cmd + 1]]
            over = max(over, now + int(rules.done[cmd]), *(now + int(rules.wait[r]) for r in armed))
        last.append(now)
    return first, last, over


def test_rules_of_every_kind_bind_as_their_words_say():
    kinds, rng = set[tuple[bool, bool, bool]](), Random(0)
    for _ in range(CASES):
        table, stream = draw(rng)
        found = engine_of(table).issue([stream])
        last = found.end_ck[0] - table.rules.done[stream["cmd"]]
        assert (found.issue_ck[0].tolist(), last.tolist(), found.idle_ck) == literally(table, stream)
        one_by_one = np.repeat(stream, stream["count"])
        one_by_one["count"] = 1
        single = engine_of(table).issue([one_by_one])
        assert (single.idle_ck, single.end_ck[0][-1]) == (found.idle_ck, found.end_ck[0][-1])
        trace = expand(table, [one_by_one], *single[:3])
        assert not check_trace(table, trace)
        kinds |= {
            (row.sibling, row.window > 1, any(table.rules.scope[c] < row.level for c in row.before))
            for row in rule_rows(table.rules)
        }
    assert len(kinds) == 8


def test_a_command_that_comes_a_clock_earlier_breaks_a_rule():
    """Whatever the kind of rule: a command that did not follow at once was bound, or released late."""
    bound, rng = 0, Random(1)
    for _ in range(CASES):
        table, stream = draw(rng)
        stream["count"], stream["release"] = 1, 0
        trace = expand(table, [stream], *engine_of(table).issue([stream])[:3])
        bound += earlier_is_illegal(table, trace)
    assert bound > 300


@pytest.mark.parametrize("name", parts())
def test_streams_of_all_parts_are_legal_and_tight_on_any_number_of_ranks(name):
    """Two random streams that meet every rule; refresh on and off, timings drawn and the part's own."""
    bound = refreshes = 0
    for ranks in RANKS:
        part = part_of(name, ranks)
        for case in draw_cases(part, shrink(part, 2, 2), 2, 200, seed=ranks):
            found = engine_of(case.table).issue(case.streams, refresh=case.refresh, due_ck=case.due_ck)
            trace = expand(case.table, case.streams, *found[:3])
            due = case.table.rules.refi if case.due_ck is None else case.due_ck
            assert not check_trace(case.table, trace, due_ck=due if case.refresh else None)
            refreshes += len(found.refresh_ck)
        for stream in case.streams:
            stream["release"] = 0
        at_once = engine_of(case.table).issue(case.streams, refresh=False)
        bound += earlier_is_illegal(case.table, expand(case.table, case.streams, *at_once[:3]))
    assert bound > 10 and refreshes > 3


def tall_hbm2(folder: Path) -> str:
    """hbm2_2400 with two ranks in each pseudo channel; REFab, PREab and SRE are of the pseudo channel."""
    text = (Path(pimloom.arch.__file__).parent / "parts" / "hbm2_2400.yaml").read_text()
    text = text.replace("  ranks: 1", "  ranks: 2").replace("capacity_bytes: 1073741824", "capacity_bytes: 2147483648")
    (part := folder / "part.yaml").write_text(text)
    return str(part)


@pytest.mark.parametrize("refresh", ["all_bank", "staggered", "per_bank"])
def test_a_refresh_of_a_pseudo_channel_finds_the_rows_of_all_its_ranks_closed(tmp_path, refresh):
    part, log = tall_hbm2(tmp_path), tmp_path / "commands.csv"
    found = pimloom.trace(part, pattern="random", requests=5000, commands=log, set={"controller.refresh": refresh})
    trace = trace_of(part, log)
    assert len(trace) > 10_000 and set(trace["rank"].tolist()) == {0, 1}
    if refresh != "per_bank":  # one each tREFI for each of two pseudo channels
        due = 2 * found.cycles / load_part(part).value.cycles("tREFI")
        assert due - 2 <= found.commands["REFab"] <= due


def test_a_rank_does_not_sleep_alone_where_self_refresh_is_of_a_pseudo_channel(tmp_path):
    sleeps = {"controller.self_refresh_after_ck": 100}
    with pytest.raises(pimloom.UserError, match=r"controller.self_refresh_after_ck: SRE .* expected null"):
        pimloom.trace(tall_hbm2(tmp_path), pattern="random", requests=50, set=sleeps)


def test_a_refresh_of_two_ranks_takes_the_current_of_two(tmp_path):
    low, high = (pimloom.trace(part, pattern="random", requests=5000) for part in ("hbm2_2400", tall_hbm2(tmp_path)))
    one, two = ((found.energy_by_cause_pj or {})["refresh"] / found.commands["REFab"] for found in (low, high))
    assert two == pytest.approx(2 * one)


@pytest.mark.parametrize("refresh", ["all_bank", "staggered", "per_bank"])
def test_a_controller_of_several_stack_ids_obeys_their_rules(tmp_path, refresh):
    """Each stack ID is refreshed when its own rows are closed; before, REFab reached rows that were open in another."""
    text = (Path(pimloom.arch.__file__).parent / "parts" / "hbm3_6400.yaml").read_text()
    text = text.replace("  tRRD_S:", "  tCCD_R: 3 nCK\n  tRRD_S:")
    text = text.replace("  ranks: 1", "  ranks: 2").replace("capacity_bytes: 1073741824", "capacity_bytes: 2147483648")
    part, log = tmp_path / "part.yaml", tmp_path / "commands.csv"
    part.write_text(text)
    pimloom.trace(str(part), pattern="random", requests=5000, commands=log, set={"controller.refresh": refresh})
    trace, names = trace_of(str(part), log), compile_table(load_part(str(part)).value).names
    assert len(trace) > 10_000
    assert {"REFpb" if refresh == "per_bank" else "REFab"} < {names[c] for c in trace["cmd"]}


def trace_of(part: str, log: Path) -> np.ndarray:
    """The commands of a log, of two ranks in each pseudo channel; they break no rule."""
    table = compile_table(load_part(part).value)
    with log.open(newline="") as file:
        names, *lines = csv.reader(file)
    columns = dict(zip(names, zip(*lines, strict=True), strict=True))
    trace = np.zeros(len(lines), TRACE)
    trace["cmd"], trace["clock"] = [table.cmd(name) for name in columns["command"]], [*map(int, columns["cycle"])]
    trace["pch"], trace["rank"] = np.divmod([*map(int, columns["rank"])], 2)  # pseudo channels count as ranks
    for name, column in (("bg", "bank_group"), ("bank", "bank"), ("row", "row")):
        trace[name] = np.maximum([*map(int, columns[column])], 0)
    assert not check_trace(table, trace)
    return trace
