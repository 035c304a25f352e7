"""The transceiver again, ticked clock by clock in the plainest Python, from the English rules alone.

A module is one dictionary of facts; nothing is computed ahead. Nothing is shared with `cycle_sim/ocs.py`.
"""

from typing import Any


def tick_all(table: Any, asks: dict[int, int], light: dict[int, dict[int, bool]], clocks: int) -> dict[str, Any]:
    """asks: entry by clock; light: by clock, paths that turn on or off. Per clock: (state, path), and what ended.

    ends[clock]: list of (clock in which the request came, entry taken or None, why, where it ended).
    """
    has_light = [True] * table.paths
    dark_for = [0] * table.paths  # clocks in a row without light, this one included
    using, target, gone = 0, None, 0  # entry in use; entry that is switched to; clocks of the switch that are over
    served_by_switch, waiting = None, None  # clocks in which those requests came
    bad_for = 0  # clocks in a row in which the live path has failed
    states, failovers = list[Any](), list[Any]()
    ends: list[list[Any]] = [[] for _ in range(clocks)]

    def path_of(entry):
        return table.entries[entry][0]

    for now in range(clocks):
        for path, on in light.get(now, {}).items():
            has_light[path] = on
        dark_for = [0 if lit else n + 1 for lit, n in zip(has_light, dark_for, strict=True)]
        failed = [n >= table.detect + 1 for n in dark_for]
        newcomer = now if now in asks else None

        if target is not None and gone == table.blackout + table.retrain:  # the first live clock
            using, target = target, None
            if served_by_switch is not None:
                if failed[path_of(using)]:
                    ends[now].append((served_by_switch, None, "path failed", "switch"))
                else:
                    ends[now].append((served_by_switch, using, "", "switch"))
            served_by_switch = None

        if target is None:
            states.append(("live", path_of(using)))
        elif gone < table.blackout:
            states.append(("blackout", path_of(target)))
        else:
            states.append(("retrain", path_of(target)))

        if newcomer is not None and not asks[now] < len(table.entries):
            ends[now].append((now, None, "no such entry", "arrival"))
            newcomer = None
        if newcomer is not None and waiting is not None:
            ends[now].append((waiting, None, "superseded", "kept"))
            waiting = None

        start = None  # entry of the switch that begins in the next clock
        if target is not None:
            if newcomer is not None:
                waiting = newcomer
        else:
            judged, where = (newcomer, "arrival") if newcomer is not None else (waiting, "kept")
            waiting = None
            if judged is not None:
                entry = asks[judged]
                if failed[path_of(entry)]:
                    entry = table.entries[entry][1]
                if failed[path_of(entry)]:
                    ends[now].append((judged, None, "path failed", where))
                elif path_of(entry) == path_of(using):
                    ends[now].append((judged, entry, "", where))
                    using = entry
                else:
                    start, served_by_switch = entry, judged

        bad_for = bad_for + 1 if target is None and failed[path_of(using)] else 0
        if start is None and bad_for >= table.decide:
            backup = table.entries[using][1]
            if not failed[path_of(backup)]:
                start = backup
                first_dark = now - dark_for[path_of(using)] + 1
                failovers.append((using, backup, first_dark, now + 1))

        if start is not None:
            target, gone, bad_for = start, 0, 0
        elif target is not None:
            gone += 1
    idle = target is None and waiting is None
    return {"states": states, "ends": ends, "failovers": failovers, "idle": idle}
