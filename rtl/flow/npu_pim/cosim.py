"""The same requests through the controller's gates and through the cycle model."""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import Role
from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.npu_pim.build import build
from pimloom.cycle_sim.npu_pim.kernels import engine
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.words import word_of
from pimloom.cycle_sim.npu_pim.places import names_of
from pimloom.cycle_sim.npu_pim.rules import device_of
from pimloom.rtl.flow.npu_pim.traffic import Traffic
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.npu_pim.controller import Controller
from pimloom.rtl.npu_pim.plan import plan_of
from pimloom.rtl.ports import pack
from pimloom.rtl.verilog import to_verilog

BENCH = "pimloom.rtl.flow.benches.controller"
TOP = "npu_pim_controller"
NEVER = -1


class Ran(NamedTuple):
    """What became of requests: commands (clock, opcode, bank, row that opens, else -1) in order; the clock in which
    each access, and each PIM command, was answered, NEVER without an answer; the clock in which PIM was stuck."""

    commands: list[tuple[int, int, int, int]]
    data_ck: np.ndarray
    pim_ck: np.ndarray
    stuck_ck: int


STATES: dict[str, Callable[[f.Channel], bool]] = {  # of the controller, as the model has them
    "reads and writes wait in bank queues": lambda ch: ch.state[f.QUEUED] > 0,
    "a bank queue is full": lambda ch: ch.state[f.FULL] != 0,
    "writes drain": lambda ch: ch.state[f.DRAIN] > 0,
    "the window is full": lambda ch: ch.state[f.HELD] >= ch.state[f.WINDOW],
    "a refresh is due": lambda ch: ch.state[f.DUE] > 0,
    "a refresh closes rows": lambda ch: ch.state[f.IN_REFRESH] >= 0,
    "PIM waits for the refresh": lambda ch: ch.state[f.SKIP] != 0,
    "a tile keeps its row": lambda ch: ch.state[f.RESERVED] >= 0,
    "a copy is under way": lambda ch: ch.state[f.COPYING] != 0,
    "PIM has the channel to itself": lambda ch: ch.state[f.BLOCKED] != 0,
}


def states(spec: PimChannel, cases: Sequence[Traffic], clocks: int) -> dict[str, int | None]:
    """The states of the controller that the spec has, and the number of the first case that comes to each."""
    found: dict[str, int | None] = dict.fromkeys(STATES)
    if spec.mode != "blocked":
        del found["PIM has the channel to itself"]
    for number, case in enumerate(cases):
        ch, _ = _fed(spec, case, clocks, compile_table(spec.device()), None)
        for t in range(clocks):
            if None not in found.values() or engine.run_alone(ch, t + 1) == engine.STUCK:
                break
            found |= {name: number for name, first in found.items() if first is None and STATES[name](ch)}
    return found


def model(spec: PimChannel, traffic: Traffic, clocks: int, rules: Table | None = None) -> Ran:
    """The cycle model, for that many clocks. rules: other waits between the commands of the part."""
    pim = traffic.pim
    table = rules or compile_table(spec.device())
    ch, opcode = _fed(spec, traffic, clocks, table, rules)
    code = engine.run_alone(ch, clocks)
    n = len(ch.done) if len(pim) + len(traffic.data) else 0
    opens = {place for place, c in opcode.items() if c in table.opcodes([Role.ACTIVATE])}
    log = ch.command[: ch.state[f.N_COMMANDS]].tolist()
    commands = [(t, opcode[c], b, row if c in opens else -1) for t, c, b, row in log if t < clocks]
    done = np.where((ch.left == 0) & (ch.done > 0) & (ch.done <= clocks), ch.done - 1, NEVER)[:n]
    return Ran(commands, done[len(pim) :], done[: len(pim)], int(ch.state[f.NOW]) if code == engine.STUCK else NEVER)


def _fed(
    spec: PimChannel, traffic: Traffic, clocks: int, table: Table, rules: Table | None
) -> tuple[f.Channel, dict[int, int]]:
    """The model's channel with all requests before its ports, and the table's opcodes by its own."""
    pim, data = traffic
    names = names_of(table)
    place = {table.cmd(name): i for i, name in enumerate(names) if name in table.names}
    opcode = {i: c for c, i in place.items()}
    n, every = len(pim) + len(data), max(len(pim), len(data), 1)
    ch = build(spec, every, ports=2, groups=max(n, 1), logging=True, log=clocks + 1)
    dot = np.zeros((max(len(pim), 1), f.N_DOT), np.int64)
    ch = ch._replace(dot=dot)
    if rules:
        ch = ch._replace(device=device_of(table, names))
    for i, x in enumerate(pim):
        header, gemv = (place[int(x["cmd"])] == kind for kind in (f.HEADER, f.GEMV))
        comps = int(x["comps"])
        dot[i] = (
            place[int(x["cmd"])], x["bank"], x["row"], x["col"], comps * gemv, comps * header, x["results"],
            x["last"], i, 0,
        )  # fmt: skip
        ch.left[i] = not header
        ch.order[0, i] = (-1 - i, x["when"], i, 0)
    for i, x in enumerate(data):
        word = word_of(int(x["write"]), int(x["bank"]), int(x["row"]), int(x["col"]))
        ch.order[1, i] = (word, x["when"], len(pim) + i, 0)
        ch.left[len(pim) + i] = 1
    ch.port[:, f.LAST_ONE] = len(pim), len(data)
    return ch, opcode


def gates(
    spec: PimChannel,
    cases: Sequence[Traffic],
    clocks: int,
    *,
    verilog: str | None = None,
    simulator: Simulator = "verilator",
    waves: Path | None = None,
) -> tuple[list[Ran], float]:
    """The controller's gates, for that many clocks in each case, and the wall time without the simulator's start [s].

    verilog: of another controller with the same ports.
    """
    text = verilog or to_verilog(Controller(spec), TOP)
    found = simulate(text, TOP, BENCH, given_of(spec, cases, clocks), simulator=simulator, waves=waves)
    return [ran(spec, case, clocks, i, found) for i, case in enumerate(cases)], float(found["seconds"])


def given_of(spec: PimChannel, cases: Sequence[Traffic], clocks: int) -> dict[str, np.ndarray]:
    """The cases as the bench takes them."""
    plan = plan_of(spec)
    return {
        "data": np.concatenate([pack(plan.access(), case.data) for case in cases]),
        "data.when": np.concatenate([case.data["when"] for case in cases]),
        "pim": np.concatenate([pack(plan.dot(), case.pim) for case in cases]),
        "pim.when": np.concatenate([case.pim["when"] for case in cases]),
        "sizes": np.array([[len(case.pim), len(case.data)] for case in cases]),
        "offers": np.array(plan.offers),
        "clocks": np.array(clocks),
    }


def ran(spec: PimChannel, traffic: Traffic, clocks: int, case: int, found: dict[str, np.ndarray]) -> Ran:
    """What the bench saw of a case."""
    plan = plan_of(spec)
    opens = {plan.op.act, plan.op.g_act}
    bits = {name: field for name, field in plan.command()}
    commands = []
    issued, taken, answers = (x[x[:, 0] == case, 1:] for x in (found["issued"], found["taken"], found["answers"]))
    for t, word in issued.tolist():
        cmd, bank, row = (word >> bits[x].offset & ((1 << bits[x].width) - 1) for x in ("cmd", "bank", "row"))
        commands.append((t, cmd, bank, row if cmd in opens else -1))
    answered = [np.where(ck < clocks, ck, NEVER) for ck in _answered(spec, traffic, taken, answers)]
    return Ran(commands, answered[0], answered[1], int(found["stuck"][case]))


def _answered(
    spec: PimChannel, traffic: Traffic, taken: np.ndarray, answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Clocks of the answers: reads by their column, the oldest first; PIM commands by their kind."""
    plan = plan_of(spec)
    data_ck, pim_ck = np.full(len(traffic.data), NEVER), np.full(len(traffic.pim), NEVER)
    kinds = {plan.op.gwrite: 1, plan.op.comp: 2, plan.op.readres: 3, plan.op.gemv: 4}
    waiting: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    columns = pack(plan.column(), traffic.data).tolist()
    events = [(t, 1, port, i, flag) for t, port, i, flag in taken.tolist()]
    events += [(t, 0, kind, column, n) for t, kind, column, n in answers.tolist()]
    for t, is_taken, a, b, c in sorted(events):
        if not is_taken:
            key = (0, b) if a == 0 else (a, 0)
            for _ in range(c):
                i = waiting[key].popleft() if waiting[key] else -1
                (pim_ck if a else data_ck)[i] = t
        elif a == 1 and c:
            data_ck[b] = t + 1
        elif a == 1:
            waiting[0, columns[b]].append(b)
        elif (kind := kinds.get(int(traffic.pim["cmd"][b]), -1)) >= 0:
            waiting[kind, 0].append(b)
    return data_ck, pim_ck


def mismatches(spec: PimChannel, want: Ran, got: Ran) -> list[str]:
    """A sentence for the first command that differs, and for each answer that does."""
    names = compile_table(spec.device()).names
    wrong = []
    for i, (a, b) in enumerate(zip(want.commands, got.commands, strict=False)):
        if a != b:
            wrong.append(f"command {i} is {_said(names, b)}, model says {_said(names, a)}")
            break
    else:
        if len(want.commands) != len(got.commands):
            wrong.append(f"{len(got.commands)} commands issued, model says {len(want.commands)}")
    for kind, ours, theirs in (("access", got.data_ck, want.data_ck), ("PIM command", got.pim_ck, want.pim_ck)):
        for i in np.flatnonzero(ours != theirs).tolist():
            wrong.append(f"{kind} {i} answered at CK {ours[i]}, model says {theirs[i]}")
    if want.stuck_ck != got.stuck_ck:
        wrong.append(f"PIM is stuck at CK {got.stuck_ck}, model says {want.stuck_ck}")
    return wrong


def _said(names: tuple[str, ...], command: tuple[int, int, int, int]) -> str:
    t, opcode, bank, row = command
    return f"{names[opcode]} of bank {bank}{f', row {row},' if row >= 0 else ''} at CK {t}"
