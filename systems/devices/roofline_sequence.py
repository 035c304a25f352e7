"""Passes of one sequence on a roofline: what `RooflineDevice` takes for them, without a step for each."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import S_PER_PS
from pimloom.systems.devices.device import Share
from pimloom.systems.devices.npu_pim.gpu import Work, layer_work
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.devices.run import Run
from pimloom.workload.batch import Batch
from pimloom.workload.derive import equal_layers


class PassTime(NamedTuple):
    """Seconds of a pass: its operators at their roofline, and launches."""

    roofline_s: float
    launch_s: float


class Passes:
    """Of a sequence alone on a roofline. outside: with embedding, LM head and sampling."""

    def __init__(self, system: System, llm: LlmSpec, *, outside: bool) -> None:
        self._device = RooflineDevice(system, llm, Share(1, llm.num_hidden_layers, outside=outside))
        self._llm, first = llm, self._device.step(Batch.decode([1]))
        self._fixed = _split(first)
        self._grows = self._layers_ps(1)

    def prompt(self, tokens: int) -> PassTime:
        """All tokens of a prompt at once."""
        return _seconds(*_split(self._device.step(Batch.prefill([tokens]))))

    def token(self, context: int) -> PassTime:
        """One token with its context, itself included."""
        roofline_ps, launch_ps = self._fixed
        return _seconds(roofline_ps + self._layers_ps(context) - self._grows, launch_ps)

    def _layers_ps(self, context: int) -> int:
        """Operators of all layers."""
        device = self._device
        return sum(
            n * sum(device.work_ps(work) for work in _at(lines, min(context, window or context)))
            for n, window, lines in _by_context(self._llm)
        )


def _split(run: Run) -> tuple[int, int]:
    launch_ps = run.least_ps["launches"]
    return run.end_ps - launch_ps, launch_ps


def _seconds(roofline_ps: int, launch_ps: int) -> PassTime:
    return PassTime(roofline_ps * S_PER_PS, launch_ps * S_PER_PS)


class Line(NamedTuple):
    """An operator with a context of one token and of two: its work is a line in the context."""

    one: Work
    two: Work


def _at(lines: Sequence[Line], context: int) -> Iterator[Work]:
    for one, two in lines:
        flops, elements, cached = (a + (b - a) * (context - 1) for a, b in zip(one[2:5], two[2:5], strict=True))
        yield one._replace(flops=flops, elements=elements, cached=cached)


@lru_cache(maxsize=64)
def _by_context(llm: LlmSpec) -> list[tuple[int, int | None, list[Line]]]:
    """Of each kind of layer: how many there are, their window, and their operators."""
    found = []
    for group in equal_layers(llm, range(llm.num_hidden_layers)):
        open_ended = replace(llm, sliding_window=None, full_attention_layers=())
        one, two = (layer_work(open_ended, 1, [n], None, group[0]) for n in (1, 2))
        found.append((len(group), llm.window_of(group[0]), [Line(*pair) for pair in zip(one, two, strict=True)]))
    return found
