"""Assertions that simulators and solvers read alike, and what SymbiYosys is asked of a block: `make prove`.

Yosys reads neither concurrent assertions nor `bind`: each check is an immediate assertion in a clocked process, and
where FORMAL is defined a module of its own holds the block and its checks.
"""

from collections.abc import Iterator, Sequence

from amaranth.lib.wiring import Component, Flow

from pimloom.rtl.ports import ports_of

# A check with the message of simulators, which solvers have no use for. HOST: of what drives the block, so assumed.
CHECK = """`ifndef PIMLOOM_BLOCK
`ifdef FORMAL
`define PIMLOOM_BLOCK(holds, message) assert (holds)
`define PIMLOOM_HOST(holds, message) assume (holds)
`else
`define PIMLOOM_BLOCK(holds, message) assert (holds) else message
`define PIMLOOM_HOST(holds, message) assert (holds) else message
`endif
`endif
"""
WITH_SBY = ("sequencer", "sequencer_axi")  # a channel with its cells is too much for a solver
SBY = """# make prove: the checks of {checks} for any input in the first {depth} clocks after a reset, and that commands
# issue in them: a block that does nothing breaks no rule. A greater depth takes longer, each clock more than the last.
[tasks]
bmc
cover

[options]
bmc: mode bmc
cover: mode cover
depth {depth}

[engines]
smtbmc yices

[script]
read_verilog -formal {top}.v
read_verilog -sv -formal {checks} {top}_formal.sv
prep -flatten -top {top}_formal

[files]
{files}
"""
DEPTH = 20  # clocks: minutes for 16 banks; of any depth is what `pimloom rtl prove` says


def checked(holds: str, message: str, who: str = "BLOCK") -> str:
    """A line of SystemVerilog: `holds` is true at each rising edge without reset, or `message` is printed."""
    return f"    always @(posedge clk) if (!rst) `PIMLOOM_{who}({holds}, {message});"


def bound(block: str, name: str, wired: str) -> Iterator[str]:
    """Lines that put a module of checks, `BLOCK_NAME`, beside each instance of the block."""
    yield from ("`ifndef FORMAL", f"bind {block} {block}_{name} {name} ({wired});", "`endif", "")


def formal(component: Component, top: str, checks: Sequence[str]) -> str:
    """The text of `TOP_formal.sv`: the block between free inputs, its checks, and a reset in the first clock. checks:
    the texts of their files."""
    ports, outs = ports_of(component), list[str]()
    ins = ["  input wire clk"]
    for name, (flow, bits) in ports.items():
        width = f"[{bits - 1}:0] " if bits > 1 else ""
        if flow is Flow.In:
            ins.append(f"  input wire {width}{name}")
        else:
            outs.append(f"  wire {width}{name};")
    wired = ", ".join(f".{name}({name})" for name in ("clk", "rst", *ports))
    beside = [line.replace(f"bind {top} ", "  ") for text in checks for line in text.splitlines() if "bind " in line]
    valid = [name for name in ports if name.startswith("bus") and name.endswith("valid")]
    return "\n".join([
        f"// {top} and its checks, for SymbiYosys: {top}.sby.",
        f"module {top}_formal (", ",\n".join(ins), ");", *outs,
        "  reg started = 0;", "  always @(posedge clk) started <= 1;", "  wire rst = !started;",
        f"  {top} block ({wired});", *beside,
        *(f"  always @(posedge clk) if (!rst) cover ({name});" for name in valid), "endmodule", "",
    ])  # fmt: skip


def sby(top: str, checks: Sequence[str]) -> str:
    """The text of `TOP.sby`. checks: names of the files of checks."""
    files = "\n".join([f"{top}.v", *checks, f"{top}_formal.sv"])
    return SBY.format(top=top, checks=" ".join(checks), files=files, depth=DEPTH)
