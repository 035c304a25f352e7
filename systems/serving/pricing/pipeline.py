"""Stages of a pipeline as one device: all layers once, and once what stands before and behind them."""

from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

from pimloom.systems.devices.device import Device
from pimloom.systems.devices.run import Run
from pimloom.workload.batch import Batch


class Pipeline:
    """A step through all stages, one after the other. ends: a stage with embedding, LM head and sampling, if the model
    has them; inner: one without; times: as many layers as it has are in all stages. A stage's memory is that of `ends`,
    which has most to hold."""

    def __init__(self, ends: Device, inner: Device, times: Fraction) -> None:
        self.ends, self.inner, self.times = ends, inner, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ends, name)

    def step(self, batch: Batch, *where: Any) -> Run:
        """Raises UserError."""
        ends: Any = self.ends
        inner: Any = self.inner
        first = ends.step(batch, *where)
        other, more = first if inner is ends else inner.step(batch, *where), self.times - 1
        joules = first.device_j
        if joules is not None and other.device_j is not None:
            causes = dict.fromkeys([*joules, *other.device_j])
            joules = {each: joules.get(each, 0.0) + float(more) * other.device_j.get(each, 0.0) for each in causes}
        least = {name: ps + round(more * other.least_ps.get(name, 0)) for name, ps in first.least_ps.items()}
        end_ps = first.end_ps + round(more * other.end_ps)
        found: Run = replace(first, end_ps=end_ps, device_j=joules, least_ps=least)
        return found

    def between(self) -> "Pipeline":
        """Of both stages, where they have one, the device whose steps are read between."""
        ends, inner = (getattr(each, "between", lambda each=each: each)() for each in (self.ends, self.inner))
        return self if ends is self.ends else Pipeline(ends, ends if self.inner is self.ends else inner, self.times)


def pipeline(ends: Device, inner: Device, times: Fraction) -> Device:
    """See Pipeline, which has all that a device has."""
    return cast(Device, Pipeline(ends, inner, times))
