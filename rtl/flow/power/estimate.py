"""`pimloom rtl power`: a block's cells in a run of `rtl verify`, and what their changes take by the library.

The run is Icarus', which needs no compiler: Verilator's C++ of 30,000 traced nets takes minutes. The sum is our own:
OpenSTA as Debian packages it (2.0.17) reads no VCD, and its `set_power_activity -pins` ends in an undefined procedure.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from math import fsum
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.cache import cache_folder
from pimloom.arch.error import UserError
from pimloom.arch.files import at_once, write_json
from pimloom.arch.optics import Optics
from pimloom.arch.part import Part
from pimloom.rtl.flow.counted import LIBRARY
from pimloom.rtl.flow.power.liberty import Library, read_library
from pimloom.rtl.flow.power.netlist import Netlist, netlist
from pimloom.rtl.flow.simulator.run import instead
from pimloom.rtl.flow.synth import SCRIPTS
from pimloom.rtl.flow.verified import Verified
from pimloom.rtl.flow.verify import VERIFIERS
from pimloom.rtl.flow.yowasp import YOSYS, tool, tool_version, tools

SLEW_NS = 0.18  # [assumed] of every input's change: the second of the library's five, a gate that drives few others
CLOCK_MHZ = 100.0  # [design] where none is named: most blocks reach it in this library; power grows with it
BLOCKS = (  # those with a bench for the very block that `synth` maps, and no memories in it
    "sequencer", "float32_add", "float32_mul", "bf16_mul", "bf16_tree", "pim_unit", "timer", "systolic", "npu_tiles",
    "interleave", "asic_exp", "asic_reciprocal", "asic_rsqrt", "asic_gelu", "asic_silu", "asic_sum", "asic_partials",
)  # fmt: skip
CHUNK = 1 << 24  # bytes of a waveform at a time
FILES = ("power.ys", "map.abc", "ports", "walls.v", "memory.v")


class Power(NamedTuple):
    """What a block takes in a run; powers at clock_mhz, energies of one operation, both without wires and clock tree.

    activity: changes of a net in a clock, mean of all but the clock's. switching: charging of pins' capacitances;
    internal: in the cells. mismatches: results other than the model's.
    """

    block: str
    part: str
    library: str
    cells: int
    operations: int
    clocks: int
    mismatches: int
    first_mismatch: str | None
    activity: float
    clock_mhz: float
    switching_mw: float
    internal_mw: float
    leakage_mw: float
    power_mw: float
    energy_per_operation_nj: float


def available() -> bool:
    """Whether the library is there, which has the energies."""
    return LIBRARY.is_file()


def estimate_power(
    block: str,
    part_name: str,
    device: Part | Optics,
    *,
    commands: int,
    seed: int,
    clock_mhz: float = CLOCK_MHZ,
    sizes: Mapping[str, int | str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    note: Callable[[str], None] = lambda text: None,
) -> Power:
    """Power of a block in the run that `verify` makes of so many commands. Raises UserError for other blocks than
    BLOCKS, and without the library or Icarus."""
    if block not in BLOCKS:
        raise UserError(f"{block}: has memories, or no bench of its own as it is mapped; power of: {', '.join(BLOCKS)}")
    if not available():
        raise UserError(f"{LIBRARY} is missing, which has the energies; install it with: apt install qflow-tech-osu018")
    tool("iverilog")  # or say so before the minutes that mapping takes
    progress(0, 3)
    library = read_library(LIBRARY.read_text())
    made: list[Netlist] = []

    def gates(verilog: str, top: str) -> str:
        made.append(_mapped(verilog, top, library, note))
        progress(1, 3)
        return made[-1].verilog

    with at_once(), tempfile.TemporaryDirectory(prefix="pimloom-") as folder:
        waves = Path(folder) / "run.vcd"
        with instead(gates):
            run: Verified = VERIFIERS[block](
                part_name, device, "icarus", commands, seed, waves, lambda done, total: None, **(sizes or {})
            )
        progress(2, 3)
        changes = toggles(waves)
    found = _power(block, part_name, made[0], library, changes, run, clock_mhz)
    progress(3, 3)
    return found


def _mapped(verilog: str, top: str, library: Library, note: Callable[[str], None]) -> Netlist:
    """The netlist of Verilog, mapped as `synth` maps it; kept by content."""
    own = re.sub(rf"^module {re.escape(top)}\b", "module block", verilog, count=1, flags=re.MULTILINE)
    files = {name: (SCRIPTS / name).read_text() for name in FILES} | {"cells.lib": LIBRARY.read_text(), "block.v": own}
    key = sha256(json.dumps([tool_version(YOSYS), files], sort_keys=True).encode()).hexdigest()[:20]
    kept = cache_folder("power") / f"{top}-{key}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{top}-", dir=kept.parent) as text, tools(note, [YOSYS]) as at_hand:
            folder = Path(text)
            note(f"mapping {top} to {LIBRARY.stem}, once")
            for name, content in files.items():
                (folder / name).write_text(content)
            at_hand.run(YOSYS, "power.ys", folder=folder)
            write_json(kept, json.loads((folder / "netlist.json").read_text())["modules"]["block"], own=True)
    return netlist(json.loads(kept.read_text()), top, library)


def toggles(waveform: Path) -> dict[str, int]:
    """Changes of each signal of one bit, by its name; the values that a run begins with are none."""
    counts: Counter[bytes] = Counter()
    ids = dict[str, bytes]()
    with waveform.open("rb") as file:
        for line in file:
            words = line.split()
            if words[:1] == [b"$var"] and words[2] == b"1":
                ids.setdefault(words[4].decode(), words[3])
            elif words[:1] == [b"$enddefinitions"]:
                break
        rest = b""
        while chunk := file.read(CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            counts.update(line for line in lines if line[:1] in b"01" and line)
        counts.update([rest] if rest[:1] in b"01" and rest else [])
    return {name: max(0, counts[b"0" + each] + counts[b"1" + each] - 1) for name, each in ids.items()}


def _power(
    block: str,
    part: str,
    gates: Netlist,
    library: Library,
    changes: Mapping[str, int],
    run: Verified,
    clock_mhz: float,
) -> Power:
    switching, internal, told = 0.0, 0.0, 0
    clock = _clock(gates, library)
    clocks = changes.get(f"n{clock}", 0) // 2 if clock is not None else run.cycles
    clocks = clocks or run.cycles
    known = dict[tuple[str, str, float], float]()

    def of_pin(kind: str, pin: str, load: float) -> float:
        """Energy inside of a cell when a pin changes [pJ]: mean over the pins that may be the cause."""
        key = kind, pin, load
        if key not in known:
            tables = library.cells[kind].pins[pin].energies
            known[key] = fsum(table.at(load, SLEW_NS) for table in tables) / len(tables) if tables else 0.0
        return known[key]

    for net in gates.nets:
        times = changes.get(f"n{net}", 0)
        ends = gates.sinks.get(net, [])
        load = fsum(library.cells[kind].pins[pin].capacitance for kind, pin in ends)
        told += times * (net != clock)
        switching += times * load * library.volts**2 / 2
        internal += times * fsum(of_pin(kind, pin, 0.0) for kind, pin in ends)
        if net in gates.drivers:
            internal += times * of_pin(*gates.drivers[net], load)
    leakage_nw = fsum(library.cells[kind].leakage * n for kind, n in gates.kinds.items()) * library.leakage_nw
    mw = clock_mhz / clocks / 1000  # of pJ in the run: pJ x MHz = uW
    parts = {"switching_mw": switching * mw, "internal_mw": internal * mw, "leakage_mw": leakage_nw / 1e6}
    return Power(
        block=block, part=part, library=LIBRARY.stem, cells=sum(gates.kinds.values()), operations=run.commands,
        clocks=clocks, mismatches=run.mismatches, first_mismatch=run.first_mismatch,
        activity=told / max(1, len(gates.nets) - (clock is not None)) / clocks, clock_mhz=clock_mhz, **parts,
        power_mw=fsum(parts.values()), energy_per_operation_nj=(switching + internal) / 1000 / run.commands,
    )  # fmt: skip


def _clock(gates: Netlist, library: Library) -> int | None:
    """The net that the flip-flops' clocks are on, if there are any."""
    for net, ends in gates.sinks.items():
        for kind, pin in ends:
            state = library.cells[kind].state
            if state is not None and pin in state[1]:
                return net
    return None
