"""Steps of a result as timelines for notebooks."""

from collections.abc import Sequence
from html import escape

from pimloom.arch.units import PS_PER_US
from pimloom.systems.devices.run import Run
from pimloom.systems.devices.shown import Shown, until_ps
from pimloom.systems.timeline_svg import Bar, timeline_svg


def drawn(shown: Sequence[Shown], prompts: str = "the end of a prompt") -> list[str]:
    """HTML of one step of each phase: of several systems below one another on one time axis. prompts: what that of the
    prompts shows."""
    found = []
    for phase, title in (("prefill", f"Timeline of {prompts}"), ("decode", "Timeline of a decode step")):
        runs = {one.system: run for one in shown if (run := getattr(one, phase)) is not None and run.spans}
        if runs:
            found.append(_drawn(title, runs))
    return found


def _drawn(title: str, runs: dict[str, Run]) -> str:
    until, lanes = until_ps(list(runs.values())), dict[str, list[Bar]]()
    for system, run in runs.items():
        for span in run.spans:
            name = f"{system}: {span.resource}" if len(runs) > 1 else span.resource
            lanes.setdefault(name, []).append(Bar(span.start_ps, span.end_ps, span.operator))
    whole = ", ".join(f"{name} {run.end_ps / PS_PER_US:,.4g} µs" for name, run in runs.items())
    part = any(run.end_ps > until for run in runs.values())
    said = f"the first {until / PS_PER_US:,.4g} µs; the whole step: {whole}" if part else whole
    return f"<div>{escape(title)}: {escape(said)}</div>{timeline_svg(title, lanes, until)}"
