"""Steps of several systems beside one another, as figures and for Perfetto."""

from collections.abc import Callable, Sequence

from pimloom.arch.units import PS_PER_US
from pimloom.reports.page import Figure
from pimloom.reports.spans import Span, spans
from pimloom.systems.devices.run import Run
from pimloom.systems.devices.shown import Shown, until_ps
from pimloom.systems.operator_kinds import operator_kind
from pimloom.systems.timeline import Event, Track, trace_json


def prompt_figure(shown: Sequence[Shown]) -> Figure | None:
    """The ends of the prompts; None without prompts."""
    return _figure("The end of a prompt", shown, lambda one: one.prefill)


def decode_figure(shown: Sequence[Shown]) -> Figure | None:
    """The decode steps; None without any."""
    return _figure("A decode step", shown, lambda one: one.decode)


def _figure(title: str, shown: Sequence[Shown], of: Callable[[Shown], Run | None]) -> Figure | None:
    runs = {one.system: run for one in shown if (run := of(one)) is not None and run.spans}
    if not runs:
        return None
    rows: dict[str, list[Span]] = {}
    until = until_ps(list(runs.values()))
    for system, run in runs.items():
        for resource in dict.fromkeys(span.resource for span in run.spans):
            mine = [span for span in run.spans if span.resource == resource and span.start_ps < until]
            rows[f"{system}: {resource}"] = [
                Span(s.start_ps / PS_PER_US, min(s.end_ps, until) / PS_PER_US, operator_kind(s.operator)) for s in mine
            ]
    whole = ", ".join(f"{system} {run.end_ps / PS_PER_US:,.0f} µs" for system, run in runs.items())
    caption = f"Until {until / PS_PER_US:,.4g} µs. The whole step: {whole}."
    return spans(title, rows, xlabel="time [µs]", caption=caption)


def trace(shown: Sequence[Shown]) -> str:
    """All steps for Perfetto: a process for each system and step."""
    tracks, events = list[Track](), list[Event]()
    for one in shown:
        for name, run in (("prompt", one.prefill), ("decode", one.decode)):
            if run is None:
                continue
            group = f"{one.system}, {name}"
            tracks += [Track(resource, group) for resource in dict.fromkeys(span.resource for span in run.spans)]
            events += [
                Event(Track(s.resource, group), s.operator, s.start_ps, s.end_ps - s.start_ps) for s in run.spans
            ]
    return trace_json(tracks, events)
