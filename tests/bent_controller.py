"""A PIM channel's controller in gates whose rules wait as a file says that the simulation reads at its start."""

from pathlib import Path
from typing import NamedTuple

from amaranth.hdl import Instance, Module, Mux, Signal, Value, signed

from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.table import RuleRow, rule_rows
from pimloom.rtl.flow.npu_pim.cosim import TOP
from pimloom.rtl.npu_pim import deadlines
from pimloom.rtl.npu_pim.controller import Controller
from pimloom.rtl.npu_pim.deadlines import Arming, Deadlines
from pimloom.rtl.timer import Timer
from pimloom.rtl.verilog import to_verilog

MOST = 127  # clocks more that a rule may wait
BEND = """
module bend(output [7:0] rule, output signed [7:0] by);
  reg [15:0] word, words [0:0];
  initial begin $readmemh("{file}", words); word = words[0]; end
  assign {{rule, by}} = word;
endmodule
"""


class Bendable(NamedTuple):
    """The gates; rules that only wait together, as they arm one counter; the file that bends one of the sets."""

    verilog: str
    together: list[list[int]]
    file: Path

    def bend(self, number: int, by: int) -> None:
        """Lets the rules of a set wait so many clocks more."""
        self.file.write_text(f"{number:02x}{by & 0xFF:02x}\n")


class _Bent(Controller):
    """All counters of its rules have room for longer waits."""

    def __init__(self, spec: PimChannel) -> None:
        super().__init__(spec)
        self.number, self.by = Signal(8), Signal(signed(8))
        self.of_table = rule_rows(self.table.rules)
        rules = self.deadlines
        arms = {key: [_rows_of(rules, key[0], key[2], arm) for arm in key[2]] for key in rules.counters}
        windows = [{i} for i, row in enumerate(self.of_table) if row.window > 1 and _binds(rules, row)]
        self.together = _joined([*windows, *(rows for found in arms.values() for rows in found)])
        gates = {i for i, row in enumerate(self.of_table) if _binds(rules, row) and row.wait > 1}
        assert gates == {rule for own in self.together for rule in own}
        for key, counter in rules.counters.items():
            counter.left = Signal(range((1 << len(counter.left)) + MOST))
            counter.waits = tuple(self.wait(w, rows) for w, rows in zip(counter.waits, arms[key], strict=True))

    def wait(self, wait: int, rows: set[int]) -> Value:
        number = next(n for n, own in enumerate(self.together) if rows <= set(own))
        return wait + Mux(self.number == number, self.by, 0)

    def timer(self, window: int, wait: int) -> Timer:
        """Of the one rule with such a window."""
        (row,) = (i for i, r in enumerate(self.of_table) if (r.window, r.wait) == (window, wait))
        found = Timer(window, wait + MOST)
        found.wait = self.wait(wait, {row}).as_unsigned()
        return found

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.submodules.bend = Instance("bend", o_rule=self.number, o_by=self.by)
        return m


def bendable(spec: PimChannel, folder: Path, monkeypatch) -> Bendable:
    """The controller of a channel."""
    controller, file = _Bent(spec), folder / "bend.hex"
    monkeypatch.setattr(deadlines, "Timer", controller.timer)
    text = to_verilog(controller, TOP) + BEND.format(file=file)
    return Bendable(text, controller.together, file)


def _binds(rules: Deadlines, row: RuleRow) -> bool:
    return bool(rules.plan.used.intersection(row.after) and rules.plan.used.intersection(row.before))


def _rows_of(rules: Deadlines, level: int, counter: tuple[Arming, ...], arm: Arming) -> set[int]:
    """The rules for whose sake a counter is armed so."""
    (after,), sibling, wait = arm
    waiting = {opcode for (opcode, at), found in rules.of.items() if (at, found) == (level, counter)}
    return {
        i
        for i, row in enumerate(rule_rows(rules.rules))
        if (row.level, row.sibling, row.window, row.wait) == (level, sibling, 1, wait)
        and after in row.after and waiting.intersection(row.before)
    }  # fmt: skip


def _joined(sets: list[set[int]]) -> list[list[int]]:
    """Unions of those that meet."""
    found = list[set[int]]()
    for each in sets:
        meet = [x for x in found if x & each]
        found = [x for x in found if not x & each] + [each.union(*meet)]
    return sorted(map(sorted, found))
