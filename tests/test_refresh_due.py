"""Refreshes of every standard under every policy: what falls due issues, as late as the standard allows at most."""

from random import Random
from typing import Any

import pytest

import pimloom
from pimloom.arch.names import list_names
from pimloom.arch.part_file import load_part
from pimloom.arch.table import bend, rule_rows
from pimloom.cycle_sim.memory.patterns import PATTERNS
from pimloom.systems.memory.outcome import outcome
from tests.controller_streams import BY_BANK, PARTS, memory_of, policy_of, stream
from tests.memory_run import run
from tests.slow import slow

ALLOWED = {"ddr5_4800": 4}  # postponed REFab: JESD79-5; eight in the other standards
IN_PIECES = ("hbm3_attacc_", "hbm3_duplex_")  # names of parts
POLICIES = ("all_bank", "staggered", "per_bank")


def check(part: str, policy: str, pattern: str, requests: int, more: dict[str, Any]) -> None:
    org = load_part(part).value.organization
    found = pimloom.trace(
        part, pattern=pattern, requests=requests, set={"controller.refresh": policy} | more, idle=3000
    )
    cycles = load_part(part).value.cycles
    banks = org.bank_groups * org.banks_per_group
    nodes = org.pseudo_channels * org.ranks
    every, name = (cycles("tREFIpb"), "REFpb") if policy == "per_bank" else (cycles("tREFI"), "REFab")
    turns = every // nodes if policy != "all_bank" else every  # one of all nodes in turn falls due in so many clocks
    due = (found.cycles - 1) // turns * (1 if policy != "all_bank" else nodes)
    allowed = ALLOWED.get(part, 8) * (every * banks if policy == "per_bank" else every)
    assert found.refreshes_due == due > 0
    assert due - nodes * banks <= found.commands.get(name, 0) <= due
    assert found.refresh_lag_max_cycles is not None and found.refresh_lag_max_cycles <= allowed
    assert not [said for said in found.warnings if "fell due" in said]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("part", PARTS)
def test_what_falls_due_issues(part: str, policy: str) -> None:
    if policy != "per_bank" or part in BY_BANK:
        check(part, policy, "random", 3000, {})


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("part", [name for name in list_names("parts") if name != "ocstrx"])
def test_what_falls_due_issues_under_every_pattern(part: str, policy: str, pattern: str) -> None:
    has = load_part(part).value.timing
    if part.startswith(IN_PIECES) and pattern in ("row-conflict", "mixed", "hazard"):
        pytest.skip("patterns that choose a rank need its address bits side by side")
    if "tREFIpb" in has or policy != "per_bank":
        for page in ("open", "closed", "adaptive"):
            check(part, policy, pattern, 200_000 if pattern == "hazard" else 20_000, {"controller.page": page})


def starved(postponed: int = 8) -> Any:
    """LPDDR5 whose REFpb follow an ACT later than an ACT does, as long as ACTs come each four clocks: never."""
    memory = memory_of("lpddr5_6400", policy_of(refresh="per_bank"))
    rules = rule_rows(memory.table.rules)
    names = memory.table.names
    act, ref = names.index("ACT"), names.index("REFpb")
    near = [i for i, row in enumerate(rules) if act in row.after and ref in row.before and row.wait == 4]
    assert near
    table = memory.table
    for rule in near:
        table = bend(table, rule, 20)
    return memory._replace(table=table, postponed=postponed)


@pytest.mark.parametrize("postponed", [8, slow(2)])
def test_a_refresh_that_would_starve_is_forced(postponed: int) -> None:
    memory = starved(postponed)
    rng, banks = Random(1), 16
    requests = [(rng.randrange(memory.capacity_bytes // 32) * 32, 0, 0) for _ in range(12_000)]
    tally = run(memory, requests).tallies[0]
    assert tally.counters["refresh_lag_max"] > 2 * 195
    assert tally.counters["refresh_lag_max"] <= postponed * banks * 195
    assert tally.counters["refreshes_due"] - tally.commands["REFpb"] <= postponed * banks


def test_what_is_late_or_left_out_is_a_warning() -> None:
    """As DRAMsim3 has it: of two ranks only the first is refreshed."""
    policy = policy_of(refresh="all_bank", quirks="dramsim3")
    memory = memory_of("ddr4_3200", policy, ranks=2)
    requests = stream(memory, Random(2), 40)
    requests.append((0, 0, 40 * 12_480))
    tallies = run(memory, requests).tallies
    told = outcome(memory, "x", tallies, wall_s=1.0, seed=None, warnings=[], version="0", asked={})
    due = 2 * ((told.cycles - 1) // 12_480)
    assert told.refreshes_due == due and told.commands["REFab"] == due // 2
    (said,) = told.warnings[:1]
    assert said.startswith(f"{due // 2} of {due} REFab that fell due have issued")
    assert "allows 8 to be postponed" in said
    ours = run(memory._replace(policy=policy_of(refresh="all_bank")), requests).tallies
    assert not outcome(memory, "x", ours, wall_s=1.0, seed=None, warnings=[], version="0", asked={}).warnings


def test_the_table_has_the_standards_distances() -> None:
    """JESD209-5 at 6,400 Mb/s, CK of 1.25 ns: REFpb to ACT of another bank 7 (tPBR2ACT), to REFpb 72 (tPBR2PBR); an
    ACT before a REFpb of another bank 4 (tRRD), not tPBR2ACT."""
    memory = memory_of("lpddr5_6400", policy_of(refresh="per_bank"))
    names, rows = memory.table.names, rule_rows(memory.table.rules)
    act, ref = names.index("ACT"), names.index("REFpb")

    def waits(first: int, second: int) -> list[int]:
        return sorted(row.wait for row in rows if first in row.after and second in row.before and row.level <= 2)

    assert waits(act, ref)[-1] == 4 and 7 in waits(ref, act) and 72 in waits(ref, ref)
