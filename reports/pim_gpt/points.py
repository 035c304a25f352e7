"""The simulations behind the PIM-GPT study, each distinct one run once, on all cores."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.result import Result
from pimloom.systems.devices.simulate import run_digest, simulate
from pimloom.systems.pool import run_all

MODELS = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt3-small", "gpt3-medium", "gpt3-large", "gpt3-xl")
SHAPES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt3-large", "gpt3-xl")  # gpt3-small, -medium repeat gpt2's
TOKENS = 1024
CLOCKS_MHZ = (1000, 500, 200, 100)
CHANNELS = (8, 16, 32)
BASELINES = ("t4", "xeon_6154")
SERIAL = (("dram.timing.nMACRES", "2 nCK"), ("dram.timing.nRESMAC", "2 nCK"))
V1 = (("energy.k_act", "1"), ("energy.k_rd", "1"))
LM_HEAD = (("workload.lm_head", "true"),)
Overrides = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One simulation: a system, a model, and what is set differently."""

    system: str
    model: str
    overrides: Overrides = ()


def clock(mhz: int) -> Overrides:
    """Overrides for an ASIC clock."""
    return () if mhz == CLOCKS_MHZ[0] else (("npu.clock_mhz", str(mhz)),)


def channels(n: int) -> Overrides:
    """Overrides for a number of channels."""
    return () if n == CHANNELS[0] else (("dram.channels", str(n)),)


def all_points() -> list[Point]:
    """Every simulation of the study, the base of each model first."""
    variants = [clock(mhz) for mhz in CLOCKS_MHZ] + [channels(n) for n in CHANNELS[1:]]
    points = [Point("pim_gpt", model, v) for v in variants for model in MODELS]
    points += [Point("pim_gpt", model, v) for v in (LM_HEAD, SERIAL) for model in ("gpt2", "gpt3-xl")]
    return points + [Point(system, model) for system in BASELINES for model in MODELS]


def simulate_point(point: Point, tokens: int = TOKENS) -> Result:
    """Run one point."""
    return simulate(load_system(point.system, dict(point.overrides)), load_llm(point.model), tokens)


def run_points(
    points: Iterable[Point], tokens: int = TOKENS, done: Callable[[], None] = lambda: None
) -> dict[Point, Result]:
    """Run points on all cores; models of equal shape share one simulation. Calls `done` once per point."""
    twins: dict[tuple[str, Overrides, str], list[Point]] = {}
    for point in dict.fromkeys(points):
        shape = msgspec.structs.replace(load_llm(point.model), name="", max_position_embeddings=1)
        twins.setdefault((point.system, point.overrides, str(shape)), []).append(point)
    results: dict[Point, Result] = {}
    firsts = {group[0]: group for group in twins.values()}
    for first, result in run_all(partial(simulate_point, tokens=tokens), firsts):
        for point in firsts[first]:
            results[point] = _named(result, point, tokens)
            done()
    return results


def _named(result: Result, point: Point, tokens: int) -> Result:
    system, spec = load_system(point.system, dict(point.overrides)), load_llm(point.model)
    return msgspec.structs.replace(result, model=spec.name, spec_digest=run_digest(system, spec, tokens))
