"""What else the authors' simulator has: constants, distances of commands, ratios, runs beside those of steps.csv."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from pimloom.arch.attacc import AttAccSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_part, load_system
from pimloom.arch.table import Table, compile_table
from pimloom.arch.units import S_PER_MS
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.trace import TRACE
from pimloom.energy import attacc as energy
from pimloom.mappers.attacc.counts import count_commands
from pimloom.mappers.attacc.layout import Placement, Work, lay_out
from pimloom.reports.attacc.measured import PART, cycles_of, rows_of
from pimloom.reports.reproduction import PREDICTED, compared
from pimloom.systems.devices.attacc.box import Box, Decoder, Stacks, nvlink3
from pimloom.systems.devices.attacc.boxed import boxed
from pimloom.systems.devices.attacc.gpu import A100A, HOST
from pimloom.systems.devices.attacc.outcome import AttAccOutcome
from pimloom.systems.devices.attacc.step import decode_step, mean_step
from pimloom.systems.reference.attacc import AS_RELEASED

Check = dict[str, object]
GPT = Decoder(96, 12_288, 96, 4 * 12_288, False)  # GPT-3 175B
FARTHEST = 600  # clocks; longer than any distance of rules.csv
WITHOUT_LIMIT, TABLE_MS, TABLE_J, HOST_MS, HOST_J = 0.728, 17.08, 11.516, 434.32, 20.002  # [derived] its runs
FIRST, LAST, CYCLES_FIRST, CYCLES_LAST, STEP_CK = 2049, 2161, 3930, 4098, 24  # [derived] three heads; each 16 tokens
PIPELINED, CO_PROCESSED, AT_LIMIT, LIMIT_S = 1.15, 1.10, 56, 0.03  # [secondary] up to; more; within 30 ms
ADDED, DIE_MM2 = 10.84, 121  # [secondary] of a DRAM die [%]; that die
OF_GAIN, GAIN = 0.05, "gain, "  # [design]; what its checks begin with
LONG, SHORT = 2048, 128  # [design] tokens of a prompt and of its answer
BATCHES, CONTEXT, REQUESTS = (1, 4, 16, 32, 54), 2048, 71  # as many as the stacks have room for


def checks(cycles: Sequence[tuple[dict[str, str], int]], batch_1: AttAccOutcome) -> list[Check]:
    """All of them. cycles: of the rows of cycles.csv; batch_1: stacks with all options."""
    return [
        *constants(), *areas(), *distances(), *three_heads(), *without_limit(cycles), *more_steps(batch_1), *gains(),
        *headlines(),
    ]  # fmt: skip


def constants() -> list[Check]:
    """Energy of a byte, or of an operation."""
    ways = [energy.way(place).of_bytes(1) for place in ("gpu", "bank", "bg", "buffer")]
    wires = [wire.of_bytes(1) for wire in (energy.PjPerBit(nvlink3().near.pj_per_bit or 0), energy.L2, energy.L1)]
    ours = (*ways, *wires, energy.REGISTER_PJ_PER_BYTE, energy.SRAM_PJ_PER_BYTE, energy.MULTIPLY_ADD_PJ)
    return [
        compared(f"energy: {row['what']}", mine, float(row["value"]), row["unit"], 1e-9, "exact", "FAIL", "secondary",
                 basis="echoed")
        for row, mine in zip(rows_of("constants.csv"), ours, strict=True)
    ]


def areas() -> list[Check]:
    """What the units add to a DRAM die, of its area."""
    area = load_system("attacc").of_kind(AttAccSystem).stacks.area
    ours = 100 * area.dram_die_mm2 / DIE_MM2 if area else 0.0
    return [compared("area added to a DRAM die", ours, ADDED, "%", 5e-4, "0.05%", "FAIL", "secondary", basis="echoed")]


def distances() -> list[Check]:
    """The least clocks at which the monitor lets a command follow another one on the same banks."""
    table = compile_table(load_part(PART).value)
    return [
        compared(
            f"{row['first']} to {row['then']}", _distance(table, row["first"], row["then"]), int(row["clocks"]), "CK",
            0, "exact", "FAIL", "secondary", basis="echoed",
        )
        for row in rows_of("rules.csv")
    ]  # fmt: skip


def _distance(table: Table, first: str, then: str) -> int:
    trace = np.zeros(2, TRACE)
    trace["cmd"] = table.cmd(first), table.cmd(then)

    def is_legal(apart: int) -> bool:
        trace["clock"] = 0, apart
        return not any(found.kind in ("rule", "bus") for found in check_trace(table, trace))

    return 1 + bisect_left(range(1, FARTHEST), True, key=is_legal)


def three_heads() -> list[Check]:
    """A stack with three heads, as the context grows; what 16 tokens add."""
    row = {"heads": "3", "head_dim": "128", "element_bytes": "2", "limited": "yes", "placement": "bank"}
    first, last = (cycles_of({**row, "context": str(context)}) for context in (FIRST, LAST))
    steps, org = (LAST - FIRST) // 16, load_part(PART).value.organization
    macs = [
        count_commands(lay_out(org, Placement.BANK, work), work, as_released=True)["MAC"]
        for work in (Work(1, context, 128, 2) for context in (FIRST, LAST))
    ]
    each = (macs[1] - macs[0]) / steps * load_part(PART).value.cycles("nCCDAB")
    said = "three heads of 128"
    return [
        compared(f"bank: {said}, {FIRST} tokens", first, CYCLES_FIRST, "CK", 0.03, "3%", "deviates", "derived",
                 basis=PREDICTED),
        compared(f"bank: {said}, {LAST} tokens", last, CYCLES_LAST, "CK", 0.03, "3%", "deviates", "derived",
                 basis=PREDICTED),
        compared("MACs of 16 tokens more, clocks in a channel", each, STEP_CK, "CK", 0, "exact", "FAIL", "derived",
                 basis="derived"),
    ]


def without_limit(cycles: Sequence[tuple[dict[str, str], int]]) -> list[Check]:
    """Clocks of 188 heads at banks without the power limit over those with it."""
    of = {row["limited"]: n for row, n in cycles if row["placement"] == "bank" and row["heads"] == "188"}
    if len(of) < 2:
        return []
    what, off = "188 heads at banks: without the power limit, over with it", 0.02 / WITHOUT_LIMIT
    ours = of["no"] / of["yes"]
    return [
        compared(what, ours, WITHOUT_LIMIT, "1", off, "0.02", "deviates", "derived", ".3f", basis=PREDICTED),
    ]


def more_steps(batch_1: AttAccOutcome) -> list[Check]:
    """Its run of batch 1 on its table of cycles, and attention on the host, as `attacc_host` has it."""
    host = mean_step(Box(A100A, 8, host=HOST), GPT, 54, 2048, 128, AS_RELEASED)
    host_s, host_j = sum(host.seconds.values()), sum(host.joules.values())
    rows = (
        ("stacks, all options, batch 1, its table", batch_1.mean_s, TABLE_MS, batch_1.mean_j, TABLE_J),
        ("8 GPUs, attention on the host, batch 54", host_s, HOST_MS, host_j, HOST_J),
    )
    found = list[Check]()
    for name, seconds, ms, joules, j in rows:
        found += [
            compared(f"{name}: step", seconds / S_PER_MS, ms, "ms", 0.02, "2%", "deviates", "derived",
                     basis=PREDICTED),
            compared(f"{name}: energy", joules, j, "J", 0.01, "1%", "deviates", "derived", basis=PREDICTED),
        ]
    return found


def gains() -> list[Check]:
    """Of options, and within a time limit: the paper's beside ours of one model."""
    part = load_part(PART).value
    options = (False, False), (True, False), (True, True)
    stacks = [Stacks(part, pipelined=pipelined, co_processing=both) for pipelined, both in options]
    boxes = [Box(A100A, 8), *(Box(A100A, 8, each) for each in stacks)]
    s = [[sum(decode_step(box, GPT, n, CONTEXT).seconds.values()) for n in BATCHES] for box in boxes]
    rates = [_at_limit(box, REQUESTS) for box in (boxes[0], boxes[-1])]
    rows = (
        ("projections beside attention, at most", max(a / b for a, b in zip(s[1], s[2], strict=True)), PIPELINED),
        ("feed-forward weights on the stacks, too, at most", max(a / b for a, b in zip(s[2], s[3], strict=True)),
         CO_PROCESSED),
        ("throughput within 30 ms a token, at most", rates[1] / rates[0], AT_LIMIT),
    )  # fmt: skip
    return [_gain(f"GPT-3 175B, {CONTEXT:,} tokens: {what}", ours, theirs, "×") for what, ours, theirs in rows]


def headlines() -> list[Check]:
    """Throughput and energy of a token over eight GPUs, each with the requests that fit; the paper's mix of requests is
    not known, and neither is ours where the weights do not fit at 16 bits."""
    found = []
    for row in rows_of("headline.csv"):
        said = said_of(row["model"])
        pairs = ("throughput over DGX_Base", "over_base", "×"), ("energy of a token saved", "energy_saved_percent", "%")
        ours = _over_gpus(row["id"])
        for nth, (what, key, unit) in enumerate(pairs):
            found.append(_gain(said + what, ours and ours[nth], float(row[key]), unit))
    return found


def said_of(model: str) -> str:
    """How the rows of `headlines` begin that are of a model, behind GAIN; those of `gains` name models, too."""
    return f"{model}, {LONG:,} + {SHORT} tokens, as many requests as fit: "


def _over_gpus(model: str) -> tuple[float, float] | None:
    """Throughput over that of GPUs alone, and energy of a token saved [%]; None where it does not fit on them."""
    rates, joules, llm = list[float](), list[float](), load_llm(model)
    for system in ("attacc", "attacc_gpu"):
        try:
            found = boxed(load_system(system), llm, False)
        except UserError:
            return None
        n = found.room_bytes // found.kv_bytes // (LONG + SHORT)
        step = found.decode([LONG + SHORT // 2] * n)
        rates.append(n / sum(step.seconds.values()))
        joules.append(sum(step.joules.values()) / n)
    return rates[0] / rates[1], 100 * (1 - joules[0] / joules[1])


def _gain(what: str, ours: float | None, theirs: float, unit: str) -> Check:
    """Beside the paper's, as a third party notes it."""
    if ours is None:
        said = {"ours": "does not fit", "verdict": "report only", "deviation": None}
        return compared(GAIN + what, theirs, theirs, unit, OF_GAIN, "", "", "secondary", ".2f", basis=PREDICTED) | said
    return compared(GAIN + what, ours, theirs, unit, OF_GAIN, f"{OF_GAIN:.0%}", "deviates", "secondary", ".2f",
                    basis=PREDICTED)


def _at_limit(box: Box, most: int) -> float:
    """Tokens a second of as many requests as are answered in time."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(decode_step(box, GPT, middle, CONTEXT).seconds.values()) <= LIMIT_S
        low, high = (middle, high) if fits else (low, middle - 1)
    return low / sum(decode_step(box, GPT, low, CONTEXT).seconds.values())
