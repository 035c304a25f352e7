# amaranth: UnusedElaboratable=no
"""What is proved by trying all there is: the functions of one bfloat16."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl import bf16
from pimloom.rtl.asic import unary
from pimloom.rtl.asic.pipeline import Pipeline, Wire, combine, widen
from pimloom.rtl.flow.scenes.functions import bits, words
from pimloom.rtl.flow.scenes.scene import mismatches, play, stream_scene
from pimloom.rtl.flow.scenes.values import BF16
from pimloom.rtl.verilog import to_verilog

TRUNCATING = "truncating"  # a twin: leaves out the last rounding


class Exhaustive(NamedTuple):
    """differing(twin): inputs for which the block, or a broken twin, is not as the model says; inputs: their number."""

    statement: str
    inputs: int
    differing: Callable[[Any], int]
    twins: tuple[Any, ...]


def function_of(name: str) -> Exhaustive:
    """A function unit against its line of `cycle_sim/asic_math.py`."""

    def differing(twin: str | None) -> int:
        function = getattr(unary, name)
        unit = Pipeline(bf16.WIDTH, bf16.WIDTH, _truncating(function)) if twin else unary.Unary(function, wide=False)
        x = np.arange(2**bf16.WIDTH).astype(np.uint16)
        y = getattr(asic, f"{name}_bf16")(x.view(BF16))
        scene = stream_scene({"i": words(x)}, {"o": bits(y)}, len(x), lambda port, i: f"{name}({x[i]:#x})", (1.0,))
        top = f"asic_{name}"
        return len(mismatches(scene, play(to_verilog(unit, top), top, scene)))

    return Exhaustive(
        f"For every bfloat16 the unit gives what `{name}_bf16` of the model gives, bit for bit.",
        2**bf16.WIDTH,
        differing,
        (TRUNCATING,),
    )


def _truncating(function: Callable[[Wire], Wire]) -> Callable[[Wire], Wire]:
    return lambda x: combine(lambda y: y[bf16.DROPPED :], function(widen(x)))
