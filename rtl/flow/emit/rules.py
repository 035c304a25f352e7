"""The rules of a part as SystemVerilog assertions beside its sequencer, told from the command bus alone.

Nothing is taken from the sequencer: clocks since the commands that arm a rule are counted up, node by node, and the
rule says how many there must be when a command that waits issues.
"""

from collections.abc import Iterator, Sequence

from amaranth.lib.data import StructLayout

from pimloom.arch.command import Level, Role, Row
from pimloom.arch.part import Part
from pimloom.arch.standard import clocks
from pimloom.arch.table import RuleRow, Table, rule_rows, standard_of
from pimloom.rtl.binding import can_bind, groups
from pimloom.rtl.command import COORDINATES, command_layout
from pimloom.rtl.flow.emit.formal import CHECK, bound, checked

HEAD = """// Assertions of the rules of {part} on the command bus of {block}, to which they are bound below.
// Those that are not asserted are named, with the reason.
module {name} (
  input wire clk,
  input wire rst,
{ports}
);
"""


def rule_notes(part: Part, table: Table) -> dict[str, str]:
    """A comment for the timers of each rule, by `rule_N`: the rule, its clocks, what its timings mean."""
    found, ck = standard_of(part), {name: part.cycles(name) for name in part.timing}
    notes = {}
    for i, rule in enumerate(found.rules):
        means = "; ".join(f"{n}: {said}" for n, said in found.timings.items() if n in rule.wait.split())
        wait = max(clocks(rule.wait, ck), 0)
        source = f"{found.name}, rule {i}"
        notes[f"rule_{i}"] = f"{source}: {rule} = {wait} CK{' (' + means + ')' if means else ''}"
    return notes


MOMENTS = (Role.FIRST_MULTIPLY, Role.LAST_MULTIPLY)  # from which rules count, though nothing issues then


def assertions(
    part: Part, part_name: str, table: Table, block: str, layout: StructLayout | None = None, outside: str = "buses__{}"
) -> str:
    """The text of `BLOCK_rules.sv`. For one bus; of two, each rule is checked on the buses of its commands.

    layout: of a command with its bank counted through a channel, None: that of the sequencer, on whose buses moments
    within commands are commands, too; on a channel's they are not, and rules from them are named and not asserted.
    outside: name of bus {} at the block.
    """
    rules, shown = table.rules, layout is None
    buses = range(int(rules.bus.max()) + 1 if shown else 1)
    layout = layout or command_layout(table)
    width = layout.size
    names = [f"buses__{b}__{n}" for b in buses for n in ("valid", "command")]
    ports = ",\n".join(f"  input wire {'' if n.endswith('valid') else f'[{width - 1}:0] '}{n}" for n in names)
    lines = [CHECK + HEAD.format(part=part_name, block=block, name=f"{block}_rules", ports=ports)]
    for b in buses:
        lines += _decoded(table, layout, b)
    moments = set() if shown else {c for c, command in enumerate(table.commands) if command.role in MOMENTS}
    for i, (rule, said) in enumerate(zip(rule_rows(rules), standard_of(part).rules, strict=True)):
        if moments & {*rule.after, *rule.before}:
            lines.append(f"  // not asserted, for the bus does not show when it begins: {said}")
        elif not can_bind(rules, rule):
            lines.append(f"  // never waits on one bus, whose commands are a clock apart: {said} = {rule.wait} CK")
        elif rule.wait > 0 and rule.after and rule.before:
            lines += _rule(table, i, rule, str(said), [int(n) for n in rules.size], buses)
    lines += _rows(table, buses, again=not shown)
    inner = [outside.format(b) + n for b in buses for n in ("__valid", "__command")]
    wired = ", ".join(f".{n}({at})" for n, at in zip(("clk", "rst", *names), ("clk", "rst", *inner), strict=True))
    lines += ["endmodule", "", *bound(block, "rules", wired)]
    return "\n".join(lines)


def _decoded(table: Table, layout: StructLayout, bus: int) -> Iterator[str]:
    size = table.rules.size
    word = f"buses__{bus}__command"

    def bits(name: str) -> str:
        field = layout[name]
        return f"{word}[{field.offset + field.width - 1}:{field.offset}]" if field.width else "1'b0"

    yield f"  wire [31:0] cmd_{bus} = 32'({bits('cmd')});"
    place, flat = "0", COORDINATES[0] not in dict(layout)
    for level, name in enumerate(() if flat else COORDINATES, start=1):
        fan = int(size[level] // size[level - 1])
        place = f"({place}) * {fan} + 32'({bits(name)})"
    if flat:
        place = f"32'({bits('bank')})"
    yield f"  wire [31:0] bank_{bus} = {place};"
    yield f"  wire [31:0] row_{bus} = 32'({bits('row')});"


def _is(bus: int, opcodes: Sequence[int], table: Table) -> str:
    mine = [c for c in opcodes if table.rules.bus[c] == bus]
    found = " || ".join(f"cmd_{bus} == {c}" for c in mine)
    return f"(buses__{bus}__valid && ({found}))" if mine else "1'b0"


def _rule(table: Table, i: int, rule: RuleRow, said: str, size: list[int], buses: range) -> Iterator[str]:
    nodes, banks = size[rule.level], size[Level.BANK] // size[rule.level]
    yield f"  // {said} = {rule.wait} CK"
    most = rule.wait + 1
    fan = size[rule.level] // size[rule.level - 1] if rule.level else 1
    yield f"  for (genvar n = 0; n < {nodes}; n++) begin : rule_{i}"
    yield f"    reg [{most.bit_length() - 1}:0] since [0:{rule.window - 1}];"

    def at(b: int) -> str:
        return f"bank_{b} / {banks}"

    arms = []
    for b in buses:
        if (after := _is(b, rule.after, table)) != "1'b0":
            where = f"{at(b)} != n && ({at(b)}) / {fan} == n / {fan}" if rule.sibling else f"{at(b)} == n"
            arms.append(f"({after} && {where})")
    waits = list[str]()
    for level, before in groups(table.rules, rule):  # a wider command waits at each node in its scope
        wide = size[Level.BANK] // size[level]
        node = "n" if level == rule.level else f"n / {size[rule.level] // size[level]}"
        waits += [f"({w} && bank_{b} / {wide} == {node})" for b in buses if (w := _is(b, before, table)) != "1'b0"]
    across = [f"({a} && {w})" for a in arms for w in waits if a.partition("__")[2][0] != w.partition("__")[2][0]]
    yield f"    wire arms = {' || '.join(arms)};"
    yield f"    wire waits = {' || '.join(waits)};"
    yield "    always @(posedge clk) begin"
    for k in range(rule.window):
        old = f"since[{k}]"
        up = f"({old} == {most} ? {old} : {old} + 1'b1)"
        new = "1" if k == 0 else f"(since[{k - 1}] == {most} ? {most} : since[{k - 1}] + 1'b1)"
        yield f"      since[{k}] <= rst ? {most} : arms ? {new} : {up};"
    yield "    end"
    yield "    initial begin"
    yield from (f"      since[{k}] = {most};" for k in range(rule.window))
    yield "    end"
    yield checked(f"!waits || since[{rule.window - 1}] >= {rule.wait}", f'$error("rule {i} broken: {said}")')
    if across and rule.window == 1:  # two buses: both in one clock
        yield checked(f"!({' || '.join(across)})", f'$error("rule {i} broken in one clock: {said}")')
    yield "  end"


def _rows(table: Table, buses: range, again: bool) -> Iterator[str]:
    """Every bank in the scope of a command has its row as the command needs it. again: a channel's controller opens a
    group of banks in which one was closed for a copy, while the others still hold the very row that it opens."""
    rules, size = table.rules, [int(n) for n in table.rules.size]
    for buffer in range(int(rules.buffer.max()) + 1):
        yield f"  // rows of buffer {buffer}"
        yield f"  for (genvar n = 0; n < {size[Level.BANK]}; n++) begin : rows_{buffer}"
        yield f"    reg is_open = 0; reg [{max(rules.rows - 1, 1).bit_length() - 1}:0] row = 0;"
        for b in buses:
            own = rules.buffer, rules.buffer
            for what, column, (first, last) in (("leaves", rules.leaves, own), ("needs", rules.needs, rules.needed)):
                for word, state in (("open", Row.OPEN), ("closed", Row.CLOSED)):
                    hits = [
                        f"({_is(b, [c], table)} && bank_{b} / {size[Level.BANK] // size[rules.scope[c]]} == "
                        f"n / {size[Level.BANK] // size[rules.scope[c]]})"
                        for c in range(len(table.names))
                        if first[c] <= buffer <= last[c] and column[c] == state and rules.bus[c] == b
                    ]
                    yield f"    wire {what}_{word}_{b} = {' || '.join(hits) or 0};"
            same = f" || leaves_open_{b} && row == row_{b}" if again and buffer else ""
            message = '$error("row rule broken: a command needs {} %0d{}", n)'
            yield checked(
                f"!needs_open_{b} || is_open && row == row_{b}", message.format("another row open in bank", "")
            )
            yield checked(f"!needs_closed_{b} || !is_open{same}", message.format("bank", " closed"))
        yield "    always @(posedge clk) begin"
        for b in buses:
            yield f"      if (leaves_open_{b}) begin is_open <= 1; row <= row_{b}; end"
            yield f"      if (leaves_closed_{b}) is_open <= 0;"
        yield "      if (rst) is_open <= 0;"
        yield "    end"
        yield "  end"
