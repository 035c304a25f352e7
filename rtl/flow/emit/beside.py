"""What tools want beside Verilog: constraints, a FuseSoC core, a view of waves, waivers of lint."""

from collections.abc import Iterable

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


def constraints(block: str, period_ns: float, clocked: bool, inputs: Iterable[str]) -> str:
    """Synopsys Design Constraints that OpenSTA reads, too: the clock, and a fifth of it for what lies outside. inputs:
    ports beside the clock."""
    if not clocked:
        return (
            f"# {block} is combinational: the longest path from port to port within a clock of the part\n"
            f"set_max_delay {period_ns:g} -from [all_inputs] -to [all_outputs]\n"
        )
    return (
        f"# {block}: command clock of the part [ns]; a fifth of it for what is at the ports (assumed)\n"
        f"create_clock -name clk -period {period_ns:g} [get_ports clk]\n"
        f"set_input_delay {period_ns / 5:g} -clock clk [get_ports {{{' '.join(inputs)}}}]\n"
        f"set_output_delay {period_ns / 5:g} -clock clk [all_outputs]\n"
    )


def core(block: str, version: str, files: Iterable[str]) -> str:
    """FuseSoC core description, CAPI2."""
    files = list(files)
    rtl = [f for f in files if f.endswith(".v")]
    lines = ["CAPI=2:", f"name: pimloom:rtl:{block}:{version}", f"description: {block}, made by pimloom", "filesets:"]
    sets = {
        "rtl": (rtl, "verilogSource"),
        "lint": ([f for f in files if f.endswith(".vlt") and f != "ports.vlt"], "vlt"),
        "rules": ([f for f in files if f.endswith(".sv")], "systemVerilogSource"),
        "constraints": ([f for f in files if f.endswith(".sdc")], "SDC"),
    }
    sets = {name: found for name, found in sets.items() if found[0]}
    for name, (found, kind) in sets.items():
        lines += [f"  {name}:", f"    files: [{', '.join(found)}]", f"    file_type: {kind}"]
    checked = ", ".join(name for name in sets if name != "constraints")
    lines += [
        "targets:",
        f"  default:\n    filesets: [rtl]\n    toplevel: {block}",
        f"  lint:\n    filesets: [{checked}]\n    toplevel: {block}",
        "    default_tool: verilator\n    tools:\n      verilator:\n        mode: lint-only",
        "        verilator_options: [-Wall, --assert]",
    ]
    return "\n".join(lines) + "\n"


def view(block: str, ports: Iterable[tuple[str, int]], clocked: bool) -> str:
    """GTKWave save file: clock, reset, and every port."""
    names = [("clk", 1), ("rst", 1)] if clocked else []
    names += [p for p in ports if p[0] not in ("clk", "rst")]
    shown = [f"{block}.{name}" + (f"[{bits - 1}:0]" if bits > 1 else "") for name, bits in names]
    return "\n".join(["[timestart] 0", f"[treeopen] {block}.", "@22", *shown]) + "\n"
