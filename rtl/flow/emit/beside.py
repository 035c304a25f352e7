"""What tools want beside Verilog: a FuseSoC core, a view of waves, waivers of lint."""

import json
from collections.abc import Iterable

from pimloom.arch.version import __version__
from pimloom.rtl.flow.emit.design import Design

WAIVERS = {
    "DECLFILENAME": "one file holds the block and all modules below it",
    "PROCASSINIT": "registers have the value of reset at power-up, too, as FPGAs and simulators give it",
    "UNOPTFLAT": "bits of a vector come from other bits of it; no bit comes from itself",
    "UNUSEDSIGNAL": "bits of a product, sum or record that the block does not need are there in the source's width",
    "WIDTHEXPAND": "operands of a sum are extended with zeros to its width, as Verilog does",
    "WIDTHTRUNC": "of a shift only the bits that the wire has are kept",
}


def waivers(block: str) -> str:
    """Verilator's configuration: what -Wall would say of the block's file, and why it is meant. Other files of a design
    are not in it."""
    lines = list[str]()
    for rule, why in WAIVERS.items():
        lines += [f"// {why}", *(f'lint_off -rule {rule} -file "{name}"' for name in (f"{block}.v", f"*/{block}.v"))]
    return "`verilator_config\n" + "\n".join(lines) + "\n"


def core(design: Design, files: Iterable[str]) -> str:
    """FuseSoC core description, CAPI2. What the block was made from stands in its description."""
    top, version = design.top, __version__.partition("+")[0]
    sets = {
        "rtl": ([f for f in files if f.endswith(".v")], "verilogSource"),
        "lint": ([f for f in files if f.endswith(".vlt") and f != "ports.vlt"], "vlt"),
        "rules": ([f for f in files if f.endswith(".sv") and not f.endswith("_formal.sv")], "systemVerilogSource"),
        "constraints": ([f for f in files if f.endswith(".sdc")], "SDC"),
    }
    sets = {name: found for name, found in sets.items() if found[0]}
    lines = ["CAPI=2:", f"name: pimloom:rtl:{top}:{version}"]
    lines += [f"description: {json.dumps(f'{design.summary}, by pimloom {__version__}')}", "filesets:"]
    for name, (found, kind) in sets.items():
        lines += [f"  {name}:", f"    files: [{', '.join(found)}]", f"    file_type: {kind}"]
    checked = ", ".join(name for name in sets if name != "constraints")
    lines += [
        "targets:",
        f"  default:\n    filesets: [rtl]\n    toplevel: {top}",
        f"  lint:\n    filesets: [{checked}]\n    toplevel: {top}",
        "    default_tool: verilator\n    tools:\n      verilator:\n        mode: lint-only",
        "        verilator_options: [-Wall, --assert]",
    ]
    return "\n".join(lines) + "\n"


def view(design: Design) -> str:
    """GTKWave save file: clock, reset, and every port."""
    shown = [f"{design.top}.{name}" + (f"[{bits - 1}:0]" if bits > 1 else "") for name, bits in design.ports().items()]
    return "\n".join(["[timestart] 0", f"[treeopen] {design.top}.", "@22", *shown]) + "\n"
