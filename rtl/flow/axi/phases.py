"""What must come of a script where a clock has several CK: a legal trace, each command in its first legal CK."""

import numpy as np

from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.dram.trace import COORDINATES, TRACE
from pimloom.cycle_sim.dram.words import describe
from pimloom.rtl.command import Fixed
from pimloom.rtl.flow.axi.host import Script
from pimloom.rtl.flow.axi.model import Seen, released
from pimloom.rtl.flow.cosim import Case


def late_or_illegal(script: Script, seen: Seen, phases: int) -> list[str]:
    """A sentence for each broken rule, and for each command, up to the first refresh, that is not in the first CK which
    is legal for it, from the clock on behind its push and behind the command before it."""
    case = released(script, seen)
    rules, rows = case.table.rules, case.streams[0]
    nodes = int(rules.size[rules.scope[rules.refresh]]) if rules.refresh >= 0 else 0
    mine = seen.issued[seen.issued[:, 1] >= nodes]
    if len(mine) != len(rows):
        return [f"{len(mine)} commands issued, {len(rows)} were taken"]
    clocks = seen.issued[:, 0] // phases
    wrong = ["two commands issue in one clock"] if len(np.unique(clocks)) < len(clocks) else []
    due_ck = rules.refi // phases * phases if nodes else None
    wrong += [broken.sentence for broken in check_trace(case.table, trace_of(case, seen, nodes), due_ck=due_ck)]
    before = np.concatenate([[-1], mine[:-1, 0] // phases])
    stream = rows.copy()
    stream["release"] = phases * np.maximum(before + 1, rows["release"])
    known = int((mine[:, 0] < (due_ck or 1 << 62)).sum())
    first = issue(case.table, [stream[:known]], refresh=False).issue_ck[0]
    for row, ck, want in zip(rows, mine[:, 0].tolist(), first.tolist(), strict=False):
        if ck != want:
            wrong.append(f"{describe(case.table, row)} issued at CK {ck}, first legal at CK {want}")
    return wrong


def trace_of(case: Case, seen: Seen, nodes: int) -> np.ndarray:
    """What issued, as a TRACE of the engine's commands."""
    trace, rows = np.zeros(len(seen.issued), TRACE), iter(case.streams[0])
    for record, (clock, source, _) in zip(trace, seen.issued.tolist(), strict=True):
        record["clock"] = clock
        if source < nodes:
            refresh = Fixed(case.table.rules, case.table.rules.refresh, source)
            record["cmd"] = refresh.opcode
            for name, value in refresh.coordinates().items():
                record[name] = value
        else:
            row = next(rows)
            for name in ("cmd", *COORDINATES, "row"):
                record[name] = row[name]
    return trace
