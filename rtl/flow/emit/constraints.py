"""Timing constraints of a block: its clock by domain, and a share of the period for what lies outside its ports."""

from typing import NamedTuple

from amaranth.lib.wiring import Flow

from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.optics import Optics
from pimloom.arch.pim_system import PimSystem
from pimloom.arch.system import load_system
from pimloom.arch.units import PS_PER_NS, mhz_to_ps
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.emit.design import Design

OUTSIDE = 5  # a fifth of the period is spent outside, before an input and after an output (assumed)
SYSTEMS = {"npu": "neupims", "asic": "pim_gpt"}  # whose clock a unit of a domain has


class Clock(NamedTuple):
    """name: of the clock in the constraints. source: where the period is from, in words."""

    name: str
    period_ps: int
    source: str


def clock_of(design: Design) -> Clock:
    """The clock of a block: of a memory its tCK, of a core with several phases as many tCK, of a transceiver its
    control clock, of a unit of an NPU or ASIC that of a system; or the one that the user named."""
    domain = BLOCKS[design.block].domain
    name = {"dram": "dram_ck", "npu": "npu_clk", "asic": "asic_clk", "optics": "optics_clk"}[domain]
    if design.clock_mhz:
        return Clock(name, mhz_to_ps(design.clock_mhz), f"--clock-mhz {design.clock_mhz:g}")
    if domain in SYSTEMS:
        system = load_system(SYSTEMS[domain])
        npu = system.of_kind(NpuPimSystem).npu if domain == "npu" else system.of_kind(PimSystem).npu
        mhz = npu.clock_mhz
        return Clock(name, mhz_to_ps(mhz), f"example: {mhz:g} MHz of system {system.name}; --clock-mhz names another")
    if isinstance(design.part, Optics):
        return Clock(name, design.part.clock_ps, f"control clock of {design.part_name}")
    phases = int(design.sizes.get("phases", 1))
    times = f"{phases} x " if phases > 1 else ""
    return Clock(name, phases * design.part.tCK_ps, f"{times}tCK of {design.part_name}")


def constraints(design: Design) -> str:
    """Synopsys Design Constraints, in the subset that OpenSTA reads."""
    clock, top = clock_of(design), design.top
    period, share = clock.period_ps / PS_PER_NS, clock.period_ps / PS_PER_NS / OUTSIDE
    inputs = " ".join(name for name in design.ports(Flow.In) if name != "clk")
    at, kind = (
        (" [get_ports {clk}]", "one clock") if design.clocked else ("", "combinational, between flip-flops outside")
    )
    return (
        f"# {top}: {kind}, {clock.name}: {period:g} ns ({clock.source})\n"
        f"create_clock -name {clock.name} -period {period:g}{at}\n"
        f"# assumed: a fifth of the period is spent outside, before each input and after each output\n"
        f"set_input_delay {share:g} -clock [get_clocks {{{clock.name}}}] [get_ports {{{inputs}}}]\n"
        f"set_output_delay {share:g} -clock [get_clocks {{{clock.name}}}] "
        f"[get_ports {{{' '.join(design.ports(Flow.Out))}}}]\n"
    )
