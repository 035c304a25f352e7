"""One step of each phase of a run with all its spans, for drawings and tables."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

from pimloom.arch.error import UserError
from pimloom.systems.devices.device import Device
from pimloom.systems.devices.run import Run
from pimloom.systems.viewed import Viewed
from pimloom.workload.batch import Batch

if TYPE_CHECKING:
    import pandas

BARS = 3000  # of a system that are drawn, at most
FEW = 8  # tokens of a prompt that are shown where a device takes them one by one


class Shown(NamedTuple):
    """A system's iteration at the end of a prompt, if there is one, and the decode iteration in the middle."""

    system: str
    prefill: Run | None
    decode: Run | None


def shown(
    device: Device, system: str, prompts: Batch | None, decode: Batch | None, known: Mapping[Batch, Run] = {}
) -> Shown:
    """prompts: the last iteration of prompts, of which a device that takes tokens one by one shows the last few. known:
    steps that it took already."""
    batches = (prompts and few(device, prompts), decode)
    return Shown(system, *(None if batch is None else known.get(batch) or device.step(batch) for batch in batches))


def few(device: Device, prompts: Batch) -> Batch:
    """Of prompts the last few tokens where a device takes them one by one, else all."""
    if not device.in_order:
        return prompts
    return Batch(tuple(at._replace(new=min(at.new, FEW)) for at in prompts.requests))


def until_ps(runs: Sequence[Run]) -> int:
    """Until when a drawing shows steps: the slowest two layers, or as much of them as no system has more than BARS
    spans in, but at least a whole layer of every system."""
    whole = max(run.end_ps for run in runs)
    ends = [sorted(span.start_ps for span in run.spans)[BARS] for run in runs if len(run.spans) > BARS]
    wanted = min(max(layers_end_ps(run, 2) for run in runs), *ends, whole)
    return max(wanted, *(layers_end_ps(run, 1) for run in runs))


def layers_end_ps(run: Run, layers: int) -> int:
    """When so many layers have ended, the first of them. A layer has as many spans of each operator as come to one of
    what most operators have: of norms two, of scores by heads many, of what only some layers have none."""
    ends: dict[str, list[int]] = {}
    for span in run.spans:
        ends.setdefault(span.operator, []).append(span.end_ps)
    found = Counter(len(mine) for mine in ends.values())
    each = max(sorted(found), key=lambda n: found[n])
    last = {name: layers * (len(mine) // each) for name, mine in ends.items()}
    return max(sorted(ends[name])[min(n, len(ends[name])) - 1] for name, n in last.items() if n)


class WithSpans(Viewed, msgspec.Struct, frozen=True, dict=True):
    """A result that can show its steps. They are simulated when they are asked for, and are no field. of_prompts: what
    the step of the prompts is."""

    of_prompts: ClassVar[str] = "the end of a prompt"

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
        beginning of its step. Of prompts the last iteration of one, of decode the iteration in the middle; of a
        data set or a trace the middle one of those that were simulated, with a prompt in it and without."""
        return spans_of([self.shown]).drop(columns="system")

    def _drawings(self) -> Sequence[str]:
        from pimloom.systems.devices.drawn import drawn

        if "show" not in self.__dict__:
            return ()
        try:
            return drawn([self.shown], self.of_prompts)
        except UserError:  # `spans` says why; the result itself is there
            return ()


def spans_of(shown: Sequence[Shown]) -> "pandas.DataFrame":
    """A row for each span of the steps: `system`, and as `WithSpans.spans`."""
    import pandas

    rows = [
        (one.system, phase, span.operator, span.resource, span.start_ps, span.end_ps)
        for one in shown
        for phase, run in (("prefill", one.prefill), ("decode", one.decode))
        if run is not None
        for span in run.spans
    ]
    return pandas.DataFrame(rows, columns=["system", "phase", "operator", "resource", "start_ps", "end_ps"])
