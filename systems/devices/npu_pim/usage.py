"""Utilisation of a device's NPU, PIM and memory over an iteration, from the counts behind its energy and its stages."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import System
from pimloom.arch.table import compile_table
from pimloom.arch.units import J_PER_PJ, S_PER_PS
from pimloom.energy.npu_pim import command_pj
from pimloom.mappers.interleave import stages_of
from pimloom.systems.devices.npu_pim.parts import on_arrays
from pimloom.systems.devices.npu_pim.served import Served

ON_PIM = ("logit", "attend")
ON_NPU = ("npu_mac", "npu_vector", "npu_scratchpad")


class Usage(NamedTuple):
    """Shares of the iteration [1].

    arrays: multiply-accumulates done over those that all arrays could do; gemm: time in which an operator of the
    arrays runs; comp: channel-clocks in which a COMP computes; attention: the longer of logit and attend, which
    overlap: at least so long PIM works; bus: channel-clocks in which the data bus carries a read or a write.
    """

    arrays: float
    gemm: float
    comp: float
    attention: float
    bus: float


def usage(found: Served, system: System) -> Usage | None:
    """Utilisation of one device; None for a GPU, or a pipeline, of which the counts are not known, or where
    multiply-accumulates take no energy.

    Multiply-accumulates, COMPs, reads and writes of all layers are what their energy says: energy / energy of one.
    """
    if system.kind != "npu_pim" or found.iteration_energy_by_cause_j is None:
        return None
    spec, part = system.of_kind(NpuPimSystem), system.memory
    joules = found.iteration_energy_by_cause_j
    clocks = found.iteration_cyc
    each = command_pj(part, spec.energy.comp_reads if spec.energy else 0, spec.npu.element_bits)

    one = {command.cause: each[command.name] for command in compile_table(part).counted if command.name in each}

    def count(cause: str) -> float:
        return joules.get(cause, 0.0) / (one[cause] * J_PER_PJ)

    if spec.energy is None or not spec.energy.pj_per_mac:
        return None
    macs = joules["npu_mac"] / (spec.energy.pj_per_mac * spec.energy.logic_scale * J_PER_PJ)
    npu, channels = spec.npu, spec.dram.channels
    comp = count("comp") * part.cycles("nCOMP") if spec.dram.row_buffers != "none" else 0.0
    moved = (count("read") + count("write")) * part.cycles("nBL")
    return Usage(
        arrays=macs / (npu.arrays * npu.rows**2 * clocks),
        gemm=_running(found, on_arrays) / clocks,
        comp=comp / (channels * clocks),
        attention=_running(found, ON_PIM.__contains__, max) / clocks,
        bus=moved / (channels * clocks),
    )


def _running(found: Served, named: Callable[[str], bool], together: Callable[[list[int]], int] = sum) -> int:
    """Cycles of an iteration in which one of the operators so named runs, those of a stage taken `together`."""
    runs = {stage.name: stage.times(found.layers) for stage in stages_of(found.stages_cyc)}
    kinds = [(kind.runs, kind.operators_cyc) for kind in found.layer_kinds] or [(runs, found.operators_cyc)]
    cycles = 0
    for times, operators in kinds:
        for stage, n in times.items():
            mine = [c for key, c in operators.items() if key.split(".")[0] == stage and named(key.split(".")[1])]
            cycles += n * together([0, *mine])
    return cycles


def memory_w(found: Served) -> float | None:
    """Power of a device's memory over the iteration [W]."""
    if found.iteration_energy_by_cause_j is None or found.pp > 1:
        return None
    joules = grouped_j(found.iteration_energy_by_cause_j)["memory"]
    return joules / (found.iteration_cyc * found.clock_ps * S_PER_PS)


def grouped_j(joules: Mapping[str, float]) -> dict[str, float]:
    """Energy of a device by who takes it [J]."""
    groups = dict.fromkeys(("memory", "NPU", "static", "links", "whole GPU"), 0.0)
    named = {"npu_static": "static", "link": "links", "power x time": "whole GPU"}
    for cause, part in joules.items():
        groups[named.get(cause, "NPU" if cause in ON_NPU else "memory")] += part
    return groups
