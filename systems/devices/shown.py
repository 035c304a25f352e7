"""One step of each phase of a run with all its spans, for drawings and tables."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pimloom.systems.devices.device import Device
from pimloom.systems.devices.run import Run
from pimloom.systems.viewed import Viewed
from pimloom.workload.batch import Batch

if TYPE_CHECKING:
    import pandas

FEW = 8  # tokens of a prompt that are shown where a device takes them one by one


class Shown(NamedTuple):
    """A system's iteration at the end of a prompt, if there is one, and the decode iteration in the middle."""

    system: str
    prefill: Run | None
    decode: Run | None


def shown(device: Device, system: str, prompts: Batch | None, decode: Batch | None) -> Shown:
    """prompts: the last iteration of prompts, of which a device that takes tokens one by one shows the last few."""
    if prompts and device.in_order:
        few = [min(at.new, FEW) for at in prompts.requests]
        prompts = Batch.prefill(few, [at.context - new for at, new in zip(prompts.requests, few, strict=True)])
    return Shown(system, *(None if batch is None else device.step(batch) for batch in (prompts, decode)))


class WithSpans(Viewed, msgspec.Struct, frozen=True, dict=True):
    """A result that can show its steps. They are simulated when they are asked for, and are no field."""

    def showing(self, show: Callable[[], Shown]) -> None:
        """show: what simulates the steps."""
        self.__dict__["show"] = show

    @property
    def shown(self) -> Shown:
        """The steps. Raises AttributeError for a result that was made of its fields alone."""
        if "show" not in self.__dict__:
            raise AttributeError("spans: this result was read or copied; run it again to see its steps")
        if "steps" not in self.__dict__:
            self.__dict__["steps"] = self.__dict__["show"]()
        steps: Shown = self.__dict__["steps"]
        return steps

    @property
    def spans(self) -> "pandas.DataFrame":
        """A row for each span: `phase` (prefill, decode), `operator`, `resource`, `start_ps` and `end_ps` from the
        beginning of its step. Of prompts the last iteration of one, of decode the iteration in the middle."""
        import pandas

        phases = (("prefill", self.shown.prefill), ("decode", self.shown.decode))
        rows = [
            (phase, span.operator, span.resource, span.start_ps, span.end_ps)
            for phase, run in phases
            if run is not None
            for span in run.spans
        ]
        return pandas.DataFrame(rows, columns=["phase", "operator", "resource", "start_ps", "end_ps"])
