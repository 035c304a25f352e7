"""Requests that were served as a timeline: iterations by replica and stage, and each request from arrival to end."""

from pimloom.arch.name_units import counted
from pimloom.arch.units import S_PER_PS
from pimloom.systems.serving.results.outcome import Online
from pimloom.systems.timeline import Event, Track, trace_json


def timeline(found: Online) -> str:
    """A Perfetto file. An iteration lies on a track of its replica from when it forms until it ends: that of its stage,
    if it is of one; else beside those that are on other stages meanwhile."""
    tracks, events = dict[Track, None](), list[Event]()
    columns, lanes = found.by_iteration, dict[int, list[float]]()
    for i, (replica, start, end) in enumerate(
        zip(columns["replica"], columns["start_s"], columns["end_s"], strict=True)
    ):
        if (stage := columns.get("stage", {i: None})[i]) is None:
            beside = lanes.setdefault(replica, [])
            lane = next((n for n, until in enumerate(beside) if until <= start), len(beside))
            beside[lane : lane + 1] = [end]
            said = f", {lane + 1} at a time" if lane else ""
        else:
            said = f" of stage {stage + 1}"
        track = Track(f"iterations{said}", f"replica {replica}")
        tracks[track] = None
        names = ("requests", "new_tokens", "context_tokens", "waiting", "blocks_used")
        args = {name: columns[name][i] for name in names}
        events.append(Event(track, counted(int(args["requests"]), "request"), _ps(start), _ps(end) - _ps(start), args))
    ends = ("arrival_s", "first_scheduled_s", "first_token_s", "completion_s")
    for i, times in enumerate(zip(*(found.by_request[name] for name in ends), strict=True)):
        track, at = Track(f"request {i}", "requests"), [_ps(time) for time in times]
        tracks[track] = None
        args = {name: found.by_request[name][i] for name in ("prompt_tokens", "output_tokens", "preemptions")}
        for name, start, end in zip(("waits", "prompt", "decode"), at, at[1:], strict=False):
            if end > start:
                events.append(Event(track, name, start, end - start, args))
    title = f"{found.workload['name']}: {found.model} on {found.system}, {found.scheduler}"
    return trace_json(list(tracks), events, {"title": title})


def _ps(seconds: float) -> int:
    return round(seconds / S_PER_PS)
