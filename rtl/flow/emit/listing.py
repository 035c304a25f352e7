"""What `pimloom rtl emit` writes, in words: the files of a folder, and a line for the block."""

from typing import Any

from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.emit.design import Design
from pimloom.rtl.flow.emit.formal import WITH_SBY

SUMS = "pimloom.sha256"  # as `sha256sum` reads it
FILES = {  # by name, {} being the top module: what the file is
    "{}.v": "Verilog of the block and of all modules below it",
    "{}.vlt": "Verilator configuration: what lint reports in {}.v, and why it is intended",
    "{}.sdc": "timing constraints: clock, delays at the ports",
    "{}.core": "FuseSoC core file",
    "{}.gtkw": "GTKWave view of the ports",
    "{}_rules.sv": "assertions of the part's timing and row rules, bound to the block",
    "{}_handshakes.sv": "assertions of the AXI4-Lite handshakes, bound to the block",
    "{}_formal.sv": "the block and its assertions between free inputs, for a solver",
    "{}.sby": "SymbiYosys: the assertions for any input, up to a depth",
    "test_{}.py": "cocotb bench: plays vectors.txt and compares every output",
    "vectors.txt": "recorded inputs and outputs, clock by clock",
    "ports.vlt": "Verilator configuration: ports that the bench sees",
    "run.py": "runs bench and lint, says which tool is missing",
    "Makefile": "make test, make lint, make prove, make clean",
    SUMS: "digests, by which a later emit replaces only files that nobody changed",
}


def names_of(block: str) -> list[str]:
    """Names of the files that the folder of a block has, {} being the top module."""
    others = {f"{{}}_{check}.sv" for check in ("rules", "handshakes") if check not in BLOCKS[block].checks}
    if block not in WITH_SBY:
        others |= {"{}_formal.sv", "{}.sby"}
    return [name for name in FILES if name not in others]


def files_named(block: str, top: str) -> list[str]:
    """Names of the files of a block whose top module has that name."""
    return [name.format(top) for name in names_of(block)]


def block_rows() -> list[dict[str, Any]]:
    """Each block: `summary`, the part that it `needs`, its options with their defaults (`sizes`), the domain of its
    clock, and the names of the `files` of its folder, NAME being the top module."""
    return [
        {
            "block": name,
            "summary": block.summary,
            "needs": block.needs,
            "sizes": dict(block.sizes),
            "clock_domain": block.domain,
            "files": files_named(name, "NAME"),
        }
        for name, block in BLOCKS.items()
    ]


SLOW = {"npu_pim_channel": ("a minute", "four minutes")}  # of a processor: the Verilog; the folder


def slow_note(block: str, folder: bool) -> str:
    """How long it takes about, where that is long. folder: with the run that is recorded."""
    verilog, run = SLOW.get(block, ("", ""))
    takes = run if folder else verilog
    return f"{block} takes about {takes}{', most of it to build its simulation' if folder else ''}" if takes else ""


def written(made: Design, out: str) -> str:
    """What was written, in a line: the file, the block, its top module, ports and latency."""
    ports, latency = made.ports(), made.latency()
    bits = f"{len(ports)} ports of {sum(ports.values()):,} bits"
    return f"{out}: {made.summary}; top module {made.top}, {bits}{', ' if latency else ''}{latency}"


def listed(made: Design, out: str, names: list[str], why: str) -> list[str]:
    """What was written into a folder, a line for the block and for each file. why: there is no bench, or nothing."""
    words = {kind.format(made.top): words.format(made.top) for kind, words in FILES.items()}
    width = max(map(len, names))
    lines = [written(made, out), *(f"  {name:{width}}  {words[name]}" for name in names)]
    return [*lines, f"no bench for {made.block}: {why}"] if why else lines
