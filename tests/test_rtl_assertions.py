"""The assertions beside a sequencer: each rule's fires a clock too early, and at its clock no more."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pimloom.arch.command import Level
from pimloom.arch.system import load_part
from pimloom.arch.table import Table, bend, rule_rows
from pimloom.rtl.command import COORDINATES, command_layout
from pimloom.rtl.flow.cosim import Case
from pimloom.rtl.flow.coverage import feels
from pimloom.rtl.flow.emit.rules import assertions
from pimloom.rtl.flow.stimulus import draw_own_cases, engine, own_table, shrink
from tests.slow import slow
from tests.verilated import program

PARTS = ["hbm2_neupims", *map(slow, ("gddr6_aim", "hbm2_2400", "ddr5_4800", "lpddr5_6400"))]
COMMANDS, SEED = 1000, 3
MOST_CLOCKS = 1 << 20
TOP = """module sequencer (input wire clk, input wire rst, {ports});
endmodule
module top (input wire clk);
  reg [{width}:0] played [0:{most}];
  reg [{width}:0] now = 1;
  reg [31:0] i = 0;
  reg [31:0] last;
  initial begin
    $readmemh("played.hex", played);
    if (!$value$plusargs("last=%d", last)) $fatal;
  end
  always @(posedge clk) begin
    now <= played[i];
    i <= i + 1;
    if (now[0]) $display("case");
    if (i == last) $finish;
  end
  sequencer it (.clk(clk), .rst(now[0]), {wired});
endmodule
"""


class Given(NamedTuple):
    """A command on the bus of its opcode, `at` clocks after the case began."""

    at: int
    opcode: int
    bank: int
    row: int = 0


def words(table: Table, case: Sequence[Given]) -> Iterator[int]:
    """What stands on the ports in each clock, behind a clock of reset: bit 0; then valid and command, bus by bus."""
    layout, size, buses = command_layout(table), [int(n) for n in table.rules.size], int(table.rules.bus.max()) + 1
    width, offsets = layout.size, {name: field.offset for name, field in layout}  # worked out anew at each look
    at = {(given.at, int(table.rules.bus[given.opcode])): given for given in case}
    assert len(at) == len(case), "one command a clock on a bus"
    yield 1
    for clock in range(max(given.at for given in case) + 1):
        word, place = 0, 1
        for bus in range(buses):
            if given := at.get((clock, bus)):
                fields = {"cmd": given.opcode, "row": given.row, "col": 0}
                for level, name in enumerate(COORDINATES, start=1):
                    fields[name] = given.bank // (size[Level.BANK] // size[level]) % (size[level] // size[level - 1])
                command = sum(value << offsets[name] for name, value in fields.items())
                word |= (1 | command << 1) << place
            place += 1 + width
        yield word


def called(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


class Bench:
    """The assertions of a part's table, on Verilator."""

    def __init__(self, part_name: str, folder: Path) -> None:
        self.part = load_part(part_name).value
        self.table = own_table(self.part, shrink(self.part, 2, 2))
        self._folder = folder
        width, ports, wired, place = command_layout(self.table).size, [], [], 1
        for b in range(int(self.table.rules.bus.max()) + 1):
            ports += [f"input wire buses__{b}__valid", f"input wire [{width - 1}:0] buses__{b}__command"]
            wired += [f".buses__{b}__valid(now[{place}])", f".buses__{b}__command(now[{place + width}:{place + 1}])"]
            place += 1 + width
        top = TOP.format(ports=", ".join(ports), wired=", ".join(wired), width=place - 1, most=MOST_CLOCKS - 1)
        rules = assertions(self.part, part_name, self.table, "sequencer")
        self._program = program("assertions", {"top.sv": top, "rules.sv": rules})

    def heard(self, cases: Sequence[Sequence[Given]]) -> list[set[str]]:
        """What the assertions say of each case: numbers of rules, and `row`."""
        played = [word for case in cases for word in words(self.table, case)] + [0]
        assert len(played) <= MOST_CLOCKS
        (self._folder / "played.hex").write_text("\n".join(f"{word:x}" for word in played))
        said = called(self._folder, str(self._program), f"+last={len(played) - 1}", "+verilator+error+limit+999999")
        found: list[set[str]] = []
        for line in said.stdout.splitlines():
            if line.startswith("case"):
                found.append(set())
            elif broken := re.search(r"(?:rule (\d+)|(row) rule) broken", line):
                found[-1].add(broken[1] or broken[2])
        assert len(found) == len(cases) + 1, said.stdout[-500:] + said.stderr[-500:]
        return found[1:]  # the first is the bench's own reset


@pytest.fixture(scope="module", params=PARTS)
def bench(request, tmp_path_factory):
    return Bench(request.param, tmp_path_factory.mktemp("assertions"))


def pairs(table: Table) -> list[tuple[int, int, list[Given], list[Given]]]:
    """(rule, its wait, commands that arm it at clock 0 and next, the one that waits) of each pair of its commands."""
    found, size = [], [int(n) for n in table.rules.size]
    for i, rule in enumerate(rule_rows(table.rules)):
        each = size[Level.BANK] // size[rule.level]
        for a in rule.after if rule.wait > 1 else ():
            for b in rule.before:
                arm = [Given(k, a, each if rule.sibling else 0) for k in range(rule.window)]
                assert rule.wait > rule.window
                found.append((i, rule.wait, arm, [Given(0, b, 0)]))
    return found


def test_each_rule_fires_a_clock_early_and_not_at_its_clock(bench):
    rules, given = rule_rows(bench.table.rules), pairs(bench.table)
    cases = [
        [*arm, *(waits._replace(at=clock) for waits in last)]
        for _, wait, arm, last in given
        for clock in (wait - 1, wait)
    ]
    found = bench.heard(cases)
    assert {i for i, *_ in given} == {i for i, rule in enumerate(rules) if rule.wait > 1}
    for (rule, *_), early, due in zip(given, found[::2], found[1::2], strict=True):
        assert str(rule) in early
        assert str(rule) not in due


def on_the_buses(case: Case) -> list[Given]:
    """A stream as its table issues it, refreshes too."""
    (issued,), refreshed, _ = engine(case)
    table, size = case.table, [int(n) for n in case.table.rules.size]
    given = []
    for at, command in zip(issued.tolist(), case.streams[0], strict=True):
        bank = 0
        for level, name in enumerate(COORDINATES, start=1):
            bank = bank * (size[level] // size[level - 1]) + int(command[name])
        step = max(int(table.rules.gap[command["cmd"]]), 1)
        given += [
            Given(at + k * step, int(command["cmd"]), bank, int(command["row"])) for k in range(int(command["count"]))
        ]
    refresh = int(table.rules.refresh)
    each = size[Level.BANK] // size[table.rules.scope[refresh]]
    return [*given, *(Given(at, refresh, node * each) for at, node in refreshed.tolist())]


def test_a_sequencer_with_a_rule_a_clock_short_is_told(bench):
    """And one with all rules whole is not."""
    table, felt = bench.table, {}
    whole = list(draw_own_cases(bench.part, shrink(bench.part, 2, 2), COMMANDS, SEED))
    expected = [engine(case) for case in whole]
    for rule in range(len(table.rules.wait)):
        if table.rules.wait[rule] > 1 and (number := feels(whole, expected, rule, -1)) is not None:
            mutant = whole[number]._replace(table=bend(table, rule, -1))
            if engine(mutant).end == "done":
                felt[rule] = mutant
    found = bench.heard([on_the_buses(case) for case in (*whole, *felt.values())])
    assert found[: len(whole)] == [set()] * len(whole)
    for rule, said in zip(felt, found[len(whole) :], strict=True):
        assert str(rule) in said
    assert len(felt) > len(table.rules.wait) // 2, felt.keys()
