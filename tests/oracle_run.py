"""Compare engine and oracle on many random streams: `python -m tests.oracle_run N SEED`, N over all machines."""

import re
import sys
import time
from collections import Counter
from random import Random

from rich.progress import track

from pimloom.arch.error import UserError
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.dram.stream import Issue, issue
from tests import naive
from tests.naive import Outcome
from tests.streams import STANDARDS, Case, draw_case

SAYS = {"stuck": r" needs (an open row|its row open|closed rows), but ", "starved": r" comes too late: "}


def run_engine(case: Case, table=None) -> Issue | str:
    """The engine's result, or its sentence."""
    table = table or case.table()
    options = {} if case.refreshed is None else {"refreshed_ck": case.refreshed}
    try:
        return issue(table, case.arrays(table), refresh=case.refresh, due_ck=case.due, apart_ck=case.apart, **options)
    except UserError as error:
        return str(error)


def difference(case: Case, expected: Outcome | None = None, table=None) -> str | None:
    """What engine (with another table, where given) and oracle do not agree on; None if on everything."""
    expected, table = expected or case.oracle(), table or case.table()
    found = run_engine(case, table)
    if expected.error:
        kind, stream, row = expected.error
        name = f"command {row}" + (f" of stream {stream}" if len(case.streams) > 1 else "")
        agree = isinstance(found, str) and re.match(rf"{name} \(.*\){SAYS[kind]}", found)
        return None if agree else f"error: engine {found}, oracle {expected.error}"
    if isinstance(found, str):
        return f"error: engine {found}, oracle none"
    last = [end - table.rules.done[s["cmd"]] for end, s in zip(found.end_ck, case.arrays(table), strict=True)]
    pairs = {
        "first": ([x.tolist() for x in found.issue_ck], expected.first),
        "last": ([x.tolist() for x in last], expected.last),
        "refresh": ([tuple(x) for x in found.refresh_ck.tolist()], expected.refreshes),
        "idle": (found.idle_ck, expected.idle),
        "ready": ([naive.FAR if t == FAR else t for t in found.ready_ck.tolist()], expected.ready),
    }
    if not case.refresh:  # the engine then knows no refresh node
        del pairs["ready"]
    wrong = [f"{name}: engine {a}, oracle {b}" for name, (a, b) in pairs.items() if a != b]
    return wrong[0] if wrong else None


def shrink(case: Case) -> Case:
    """Leave out commands as long as the difference stays of its kind."""

    def kind(c: Case) -> str:
        return (difference(c) or "").split(":")[0]

    wanted = kind(case)
    places = [(s, i) for s, stream in enumerate(case.streams) for i in reversed(range(len(stream)))]
    for s, i in places * 2:
        streams = [[*x[:i], *x[i + 1 :]] if k == s else x for k, x in enumerate(case.streams)]
        if kind(less := case._replace(streams=streams)) == wanted:
            case = less
    return case


def compare(n: int, seed: int, tell=lambda cases: cases) -> str:
    """Compare `n` cases; a summary in one line, or AssertionError with the smallest case found."""
    start, kinds, commands = time.perf_counter(), Counter[str](), 0
    machines = list(STANDARDS)
    for i in tell(range(n)):
        case = draw_case(Random(f"{seed} {i}"), machines[i % len(machines)])
        expected = case.oracle()
        if difference(case, expected):
            small = shrink(case)
            raise AssertionError(f"seed {seed} case {i}: {difference(small)}\n{small}")
        kinds[expected.error[0] if expected.error else "done"] += 1
        commands += sum(order.count for stream in case.streams for order in stream)
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return f"{n} cases equal ({found}), {commands} commands, seed {seed}, {time.perf_counter() - start:.0f} s"


if __name__ == "__main__":
    n, seed = int(sys.argv[1]), int(sys.argv[2])
    print(compare(n, seed, lambda cases: track(cases, "engine = oracle?")))
