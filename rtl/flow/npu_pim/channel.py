# amaranth: UnusedElaboratable=no
"""Random requests and words through a whole PIM channel in gates: clocks as the cycle model's, numbers as
`numbers`."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.pim_channel import PimChannel
from pimloom.rtl.flow.npu_pim.cosim import BENCH, Ran, given_of, mismatches, model, ran
from pimloom.rtl.flow.npu_pim.numbers import BF16, Happened, Numbers
from pimloom.rtl.flow.npu_pim.traffic import ACCESS, Traffic
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.npu_pim.channel import NpuPimChannel
from pimloom.rtl.npu_pim.plan import Plan
from pimloom.rtl.ports import pack
from pimloom.rtl.verilog import to_verilog

TOP = "npu_pim_channel"
FILL_CK = 3  # of a write, about


class Found(NamedTuple):
    """What a channel did with a case: clocks, words that were read and results, bfloat16[n, elements or banks], and
    what they should be; wall time without the simulator's start [s]."""

    ran: Ran
    model: Ran
    read: np.ndarray
    result: np.ndarray
    want_read: np.ndarray
    want_result: np.ndarray
    seconds: float


def filled(spec: PimChannel, traffic: Traffic) -> Traffic:
    """The traffic behind writes of all rows that PIM reads; PIM waits until most of them have issued."""
    org, rows = spec.part.organization, np.unique(traffic.pim["row"]).tolist()
    places = [(1, b, row, col, 0) for row in rows for b in range(org.banks) for col in range(org.columns)]
    pim, data = traffic.pim.copy(), traffic.data.copy()
    for later in (pim, data):
        later["when"] += FILL_CK * len(places)
    return Traffic(pim, np.concatenate([np.array(places, ACCESS), data]))


def draw_words(spec: PimChannel, traffic: Traffic, seed: int) -> np.ndarray:
    """bfloat16[accesses, elements]: what each write brings."""
    elements = spec.part.organization.access_bits // 16
    return np.random.default_rng(seed).normal(size=(len(traffic.data), elements)).astype(BF16)


def run_channel(
    spec: PimChannel,
    lanes: int,
    traffic: Traffic,
    words: np.ndarray,
    clocks: int,
    *,
    simulator: Simulator = "verilator",
    waves: Path | None = None,
    verilog: str | None = None,
    kept: int | None = None,
) -> Found:
    """One case through the gates. kept: rows that the banks hold, None: all of the part. verilog: of such a channel."""
    kept = kept or spec.part.organization.rows
    channel = NpuPimChannel(spec, lanes, kept)
    plan = channel.plan
    given = given_of(spec, [traffic], clocks) | {
        "words": words.view(np.uint8),
        "wr": np.array([plan.op.wr, (len(plan.table.names) - 1).bit_length()]),
    }
    found = simulate(verilog or to_verilog(channel, TOP), TOP, BENCH, given, simulator=simulator, waves=waves)
    ours = ran(spec, traffic, clocks, 0, found)
    read, result = (np.ascontiguousarray(found[name]).view(BF16) for name in ("read", "result"))
    elements = spec.part.organization.access_bits // 16
    numbers = Numbers(plan, elements, lanes, kept)
    want_read, want_result = _expected(plan, numbers, traffic, words, found)
    theirs = model(spec, traffic, clocks)
    return Found(ours, theirs, read, result, want_read, want_result, float(found["seconds"]))


def _expected(
    plan: Plan, numbers: Numbers, traffic: Traffic, words: np.ndarray, found: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Words and results of the commands in the order of issue; a WR writes the newest word that came for it."""
    columns, newest = pack(plan.column(), traffic.data).tolist(), dict[int, np.ndarray]()
    gemvs = iter(traffic.pim["comps"][traffic.pim["cmd"] == plan.op.gemv].tolist())
    fields = {name: field for name, field in plan.command()}
    read, result = list[np.ndarray](), list[np.ndarray]()
    events = [(t, 0, i) for _, t, port, i, _ in found["taken"].tolist() if port == 1 and traffic.data["write"][i]]
    events += [(t, 1, word) for _, t, word in found["issued"].tolist()]
    for _, is_command, what in sorted(events, key=lambda event: event[:2]):
        if not is_command:
            newest[columns[what]] = words[what]
            continue
        cmd, bank, row, col = (what >> x.offset & ((1 << x.width) - 1) for x in fields.values())
        comps = next(gemvs) if cmd == plan.op.gemv else 0
        word = newest[what >> fields["bank"].offset] if cmd == plan.op.wr else None
        for value in numbers.do(Happened(cmd, bank, row, col, comps, word)):
            (read if cmd == plan.op.rd else result).append(value)
    return np.array(read, BF16), np.array(result, BF16)


def wrong_numbers(found: Found) -> list[str]:
    """A sentence for every word and result that differs bit for bit, of those that came in time, and all wrong
    clocks."""
    wrong = []
    for kind, got, want in (("word", found.read, found.want_read), ("result", found.result, found.want_result)):
        for i, (ours, theirs) in enumerate(zip(got.view(np.uint16), want.view(np.uint16), strict=False)):
            if not np.array_equal(ours, theirs):
                at = int(np.flatnonzero(ours != theirs)[0])
                wrong.append(f"{kind} {i}, element {at}, is {ours[at]:#x}, model says {theirs[at]:#x}")
    return wrong


def all_mismatches(spec: PimChannel, cases: Sequence[Found]) -> list[str]:
    """Sentences of all cases, clocks first."""
    return [said for x in cases for said in (*mismatches(spec, x.model, x.ran), *wrong_numbers(x))]
