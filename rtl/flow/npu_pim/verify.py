"""`pimloom rtl verify npu_pim_channel`: its controller on random requests, then a whole channel with numbers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pimloom.arch.part import Part
from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.table import bend, compile_table, standard_of
from pimloom.rtl.flow.npu_pim.channel import all_mismatches, draw_words, filled, run_channel
from pimloom.rtl.flow.npu_pim.cosim import Ran, gates, mismatches, model, states
from pimloom.rtl.flow.npu_pim.traffic import Size, Traffic, draw_traffic, small
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.verified import Verified, wave_file
from pimloom.rtl.npu_pim.channel import controller, mode_of

CLOCKS = 3000  # of a case
WHOLE = Size(ranks=1, rows=4, refi_ck=1000)  # a channel with numbers: few cells
WHOLE_CK, ACCESSES, TILES = 2000, 80, 10


def draw_cases(spec: PimChannel, commands: int, seed: int) -> tuple[list[Traffic], list[Ran]]:
    """Cases until the model has issued so many commands; every second one keeps PIM busy."""
    cases, found = list[Traffic](), list[Ran]()
    while sum(len(x.commands) for x in found) < commands:
        number = (seed << 20) + len(cases)
        cases.append(draw_traffic(spec, number, CLOCKS // 12, CLOCKS // (60 if number % 2 else 200) + 1))
        found.append(model(spec, cases[-1], CLOCKS))
    return cases, found


def coverage(spec: PimChannel, cases: Sequence[Traffic], found: Sequence[Ran]) -> dict[str, int | None]:
    """The rules of the part's tables, and the number of the first case whose clocks change with a wait one longer."""
    table, rules = compile_table(spec.device()), standard_of(spec.device()).rules
    felt: dict[str, int | None] = {}
    for i, rule in enumerate(rules):
        bent = bend(table, i, 1)
        both = enumerate(zip(cases, found, strict=True))
        felt[str(rule)] = next(
            (n for n, (x, want) in both if mismatches(spec, want, model(spec, x, CLOCKS, bent))), None
        )
    return felt


def verify_npu_pim(
    name: str,
    part: Part,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Callable[[int, int], None],
) -> Verified:
    """Commands and answers of a small controller, one by one; then numbers of a small channel, bit for bit."""

    progress(0, 3)
    spec = small(part, mode_of(part))
    cases, theirs = draw_cases(spec, commands, seed)
    ours, seconds = gates(spec, cases, CLOCKS, simulator=simulator)
    wrong = [said for a, b in zip(theirs, ours, strict=True) for said in mismatches(spec, a, b)]
    progress(1, 3)
    whole = small(part, mode_of(part), WHOLE)
    traffic = filled(whole, draw_traffic(whole, seed, ACCESSES, TILES))
    job: Any = (whole, controller()[1], traffic, draw_words(whole, traffic, seed), WHOLE_CK)
    found = run_channel(*job, simulator=simulator, waves=waves)
    wrong += all_mismatches(whole, [found])
    if wrong and not waves:
        waves = wave_file("npu_pim_channel", name, seed)
        run_channel(*job, simulator=simulator, waves=waves)
    progress(2, 3)
    table = coverage(spec, cases, theirs)
    reached = {f"state: {name}": case for name, case in states(spec, cases, CLOCKS).items()}
    asleep = {rule: "in none of these cases" for rule, case in table.items() if case is None}
    issued = sum(len(x.commands) for x in (*theirs, found.model))
    cycles = CLOCKS * len(cases) + WHOLE_CK
    progress(3, 3)
    return Verified(
        "npu_pim_channel", name, simulator, issued, len(wrong), len(table) - len(asleep), len(table), asleep,
        cycles, cycles / (seconds + found.seconds), wrong[0] if wrong else None, str(waves) if waves else None,
        table | reached,
    )  # fmt: skip
