"""The machine jumps from step to step and looks timings up; here it is ticked, and run through the engine in one go."""

from itertools import count, pairwise
from math import gcd
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.program import AsicStep, PimStep, Step
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.arch.units import mhz_to_ps
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.machine import Event, Machine
from pimloom.mappers.decode import Decoder
from pimloom.mappers.geometry import geometry
from pimloom.mappers.plan import plan
from tests.naive import Order, simulate
from tests.streams import Writer, draw_clocks, draw_size, table_of, to_array

# Refreshes often, so that they fall into steps, between them, and under the ASIC's.
PART = load_part("gddr6_pim_gpt", {"timing.tREFI": "291500 ps", "timing.tRFC": "61 ns"}).value
TABLE = compile_table(PART)
CLOCKS = {name: PART.cycles(name) for name in PART.timing}
TINY = msgspec.structs.replace(
    load_llm("gpt2"), hidden_size=64, num_attention_heads=4, num_key_value_heads=4, head_dim=16,
    intermediate_size=256, num_hidden_layers=2,
)  # fmt: skip


def latency_cyc(step):
    """Long and short, some so long that several refreshes fall due meanwhile."""
    return 1 + step.elements % 7 + 900 * (step.op == "softmax" and step.elements % 3 == 0)


def program(tokens, part=PART, spec=TINY):
    decoder = Decoder(plan(spec, geometry(part, 2), 64), compile_table(part))
    return [s for t in tokens for layer in range(spec.num_hidden_layers) for s in decoder.layer_steps(t, layer)]


def run(steps, mhz=1000, table=TABLE, tck_ps=500, refresh=True, traced=True, latency=latency_cyc):
    """(machine, events) of a program."""
    machine = Machine(table, tck_ps, mhz_to_ps(mhz), latency, refresh=refresh)
    events: list[Event] = []
    machine.run(steps, events if traced else None)
    return machine, events


# Clock by clock.


def tick(steps, tck_ps, clock_ps, refresh=True):
    """[(start, end)] in ps: the state machine of the specification on a common clock, commands by the naive oracle.

    The next instruction when both nodes are idle, on an edge of its own node; a refresh whenever it is due and legal.
    """
    times: list[tuple[int, int]] = []
    todo, next_time, busy = list(steps), 0, False
    due, ready, refreshed = CLOCKS["tREFI"], 0, None
    for now in count(step=gcd(tck_ps, clock_ps)):
        ck = now // tck_ps
        if refresh and now % tck_ps == 0 and ck >= max(due, ready):
            due, ready, refreshed = due + CLOCKS["tREFI"], ck + CLOCKS["tRFC"], ck
        if busy and now >= next_time:
            busy = False
        if busy or now % (clock_ps if todo and isinstance(todo[0], AsicStep) else tck_ps):
            continue
        if not todo:
            return times
        step, busy = todo.pop(0), True
        if isinstance(step, AsicStep):
            next_time = now + latency_cyc(step) * clock_ps
        else:
            found = simulate(
                "gddr6+aim", (1, 1, 4, 4), CLOCKS, [orders(step.stream)],
                refresh=refresh, due=due - ck, refreshed=None if refreshed is None else refreshed - ck,
            )  # fmt: skip
            assert found.error is None
            due += len(found.refreshes) * CLOCKS["tREFI"]
            ready = ck + found.ready[0] if refresh else 0
            refreshed = ck + found.refreshes[-1][0] if found.refreshes else refreshed
            next_time = now + found.idle * tck_ps
        times.append((now, next_time))
    raise AssertionError


def orders(stream):
    fields = ("pch", "rank", "bg", "bank", "row", "col", "count", "release")
    return [Order(TABLE.names[r["cmd"]], *(int(r[f]) for f in fields)) for r in stream]


@pytest.mark.parametrize("refresh", [True, False])
@pytest.mark.parametrize("mhz", [1000, 500, 333, 100])
def test_jumping_is_ticking(mhz, refresh):
    steps = program([1, 2])[: 40 if mhz == 333 else None]  # 333 MHz has no common clock but 1 ps
    machine, events = run(steps, mhz, refresh=refresh)
    assert [(e.start_ps, e.end_ps) for e in events] == tick(steps, 500, mhz_to_ps(mhz), refresh)
    assert (machine.outcome.refreshes > 3) == refresh


# In one go.


def in_one_go(events, table, tck_ps):
    """One engine run of all PIM steps, released when the machine started them; must be the machine's very clocks."""
    parts, issued, refreshes = [], [], []
    for event in events:
        if isinstance(event.step, PimStep):
            start = event.start_ps // tck_ps
            stream = event.step.stream.copy()
            stream["release"] += start
            parts.append(stream)
            issued.append(event.issued.issue_ck[0] + start)
            refreshes += [*event.idle_refresh_ck, *(event.issued.refresh_ck[:, 0] + start)]
            assert event.end_ps == (start + event.issued.idle_ck) * tck_ps  # what was looked up is what is traced
    whole = issue(table, [np.concatenate(parts)])
    assert whole.issue_ck[0].tolist() == np.concatenate(issued).tolist()
    assert whole.refresh_ck[:, 0].tolist() == refreshes
    return refreshes


@pytest.mark.parametrize("mhz", [1000, 333, 100])
def test_a_program_in_one_go(mhz):
    machine, events = run(program([1, 2, 3, 31, 32, 33, 34]), mhz)
    assert len(in_one_go(events, TABLE, 500)) == machine.outcome.refreshes > 30


@pytest.mark.parametrize("name", ["gddr6_pim_gpt", "gddr6_aim"])
def test_a_program_of_the_real_parts_in_one_go(name):
    part = load_part(name).value
    spec = msgspec.structs.replace(TINY, hidden_size=1088, num_attention_heads=17, num_key_value_heads=17, head_dim=64)
    table = compile_table(part)
    machine, events = run(program([1, 33, 34], part, spec), table=table)
    assert len(in_one_go(events, table, 500)) == machine.outcome.refreshes > 5


@pytest.mark.parametrize("kv_heads", [1, 4])
def test_a_program_with_shared_keys_windows_and_experts_in_one_go(kv_heads):
    """Eight query heads; a row stays open for as many of them as the buffer takes."""
    part = load_part("gddr6_pim_gpt").value
    spec = msgspec.structs.replace(
        TINY, model_type="mixtral", num_attention_heads=8, num_key_value_heads=kv_heads, head_dim=80, norm="rmsnorm",
        gated_ffn=True, activation="silu", num_experts=4, num_experts_per_tok=3, sliding_window=40,
        full_attention_layers=(1,),
    )  # fmt: skip
    table = compile_table(part)
    machine, events = run(program([1, 33, 41, 64], part, spec), table=table)
    assert len(in_one_go(events, table, 500)) == machine.outcome.refreshes > 2


def random_program(rng):
    """(table, steps, tCK): a random part, and a few random steps again and again between ASIC steps; None: illegal.

    Timings are at least 1, so that no command is over in the clock in which it issues.
    """
    size, clocks = draw_size(rng, "gddr6+aim"), draw_clocks(rng, "gddr6+aim")
    clocks = {name: max(ck, 1) for name, ck in clocks.items()}
    clocks["tREFI"] = clocks["tRFC"] + rng.choice((rng.randint(1, 60), rng.randint(60, 400)))
    table, banks = table_of("gddr6+aim", size, clocks), list(np.ndindex(*size))
    steps: list[Step] = []
    for key in range(rng.randint(1, 4)):
        written = Writer(rng, "gddr6+aim", size, banks, clocks).write(rng.randint(1, 12))
        stream = to_array([*written, Order("PREab")], table)
        try:
            issue(table, [stream], refresh=False)
        except UserError:
            return None
        steps.append(PimStep(f"PIM {key}", key, stream, False, 0, 0))
    steps += [AsicStep("add", "add", rng.choice((0, 3, 40))) for _ in range(rng.randint(0, 2))]
    steps += [AsicStep("long", "softmax", 3 * rng.randint(0, 3)) for _ in range(rng.randint(0, 1))]
    return table, [steps[0], *(rng.choice(steps) for _ in range(rng.randint(1, 30)))], rng.choice((500, 1000, 750))


def check_random_program(rng):
    """True if the program is legal; then it has been compared."""
    made = random_program(rng)
    if made is None:
        return False
    table, steps, tck_ps = made
    try:
        _, events = run(steps, rng.choice((1000, 333, 100)), table, tck_ps)
    except UserError as error:  # steps that keep rows open for nine intervals
        assert "comes too late" in str(error)
        return False
    in_one_go(events, table, tck_ps)
    return True


@settings(max_examples=35)
@given(st.integers(0, 2**64 - 1))  # a seed: hypothesis draws so many numbers ten times slower
def test_random_programs_of_random_parts_in_one_go(seed):
    assume(check_random_program(Random(seed)))


def test_a_refresh_that_comes_too_late():
    """Rows stay open for nine intervals; REFab is legal 24 clocks after PREab."""
    stream = to_array([Order("ACTab"), Order("PREab", release=9 * 583 - 24)], TABLE)
    steps = [PimStep("long", 0, stream, False, 0, 0), PimStep("next", 1, stream[:0], False, 0, 0)]
    with pytest.raises(UserError, match="^REFab at CK 5247 comes too late: 8 refreshes are postponed already; "):
        run(steps)
    stream["release"] -= stream["release"] > 0
    machine, _ = run(steps)
    assert machine.outcome.refreshes == 1


# Nothing but the steps counts.


def test_looking_up_changes_nothing():
    """Steps that all have a key of their own are never looked up."""
    steps = program([1, 2, 3, 31, 32, 33, 34]) * 3
    one_by_one = [s._replace(key=i) if isinstance(s, PimStep) else s for i, s in enumerate(steps)]
    (fast, events), (slow, others) = run(steps), run(one_by_one)
    assert [(e.start_ps, e.end_ps) for e in events] == [(e.start_ps, e.end_ps) for e in others]
    for field in ("end_ps", "refreshes", "time_ps", "quiet_ps", "asic_steps", "sent_values", "received_values"):
        assert getattr(fast.outcome, field) == getattr(slow.outcome, field)
    assert fast.outcome.engine_calls < slow.outcome.engine_calls
    assert sum(fast.outcome.executions.values()) == sum(slow.outcome.executions.values())


def test_the_same_again_and_with_no_trace():
    steps = program([1, 2, 3])
    (one, events), (two, others), (three, _) = run(steps), run(steps), run(steps, traced=False)
    assert [e.start_ps for e in events] == [e.start_ps for e in others]
    for other in (two, three):
        assert all(getattr(one.outcome, f) == getattr(other.outcome, f) for f in vars(one.outcome) if f != "steps")


def test_in_pieces():
    """`run` goes on where it stopped."""
    steps = program([1, 2])
    machine, events = run(steps[:17])
    machine.run(steps[17:], events)
    assert machine.outcome.end_ps == run(steps)[0].outcome.end_ps == events[-1].end_ps


@pytest.mark.parametrize("mhz", [1000, 333])
def test_without_refresh(mhz):
    machine, events = run(program([1, 2, 3]), mhz, refresh=False)
    out, edges = machine.outcome, sum(b.start_ps - a.end_ps for a, b in pairwise(events))
    assert out.refreshes == 0 and out.engine_calls == 0
    assert not any(e.issued and len(e.issued.refresh_ck) for e in events)
    assert out.end_ps == sum(out.quiet_ps.values()) + edges and (edges > 0) == (mhz == 333)
    assert run(program([1, 2, 3]), mhz)[0].outcome.end_ps > out.end_ps


@pytest.mark.parametrize("mhz", [1000, 333, 100])
def test_every_picosecond_belongs_to_a_step(mhz):
    machine, events = run(program([1, 2, 3]), mhz)
    assert sum(machine.outcome.time_ps.values()) == machine.outcome.end_ps
    assert all(0 <= b.start_ps - a.end_ps < mhz_to_ps(mhz) for a, b in pairwise(events))
    assert all(e.start_ps % (500 if e.issued else mhz_to_ps(mhz)) == 0 for e in events)


def test_a_refresh_costs_its_own_time_less_what_the_asic_hides():
    """GPT2-small: a layer lasts about one tREFI, so refreshes meet the same step, here softmax, again and again."""
    part = load_part("gddr6_pim_gpt").value
    table, spec = compile_table(part), load_llm("gpt2")
    decoder = Decoder(plan(spec, geometry(part, 8), 1024), table)
    steps = [s for t in range(500, 512) for s in decoder.layer_steps(t) * 12]
    machine, events = run(steps, table=table, latency=lambda step: -(-step.elements // 128))
    refreshed = [ck * 500 for ck in in_one_go(events, table, 500)]
    asic = [e for e in events if e.issued is None]
    beside = [min(e.end_ps, at + 455_000) - max(e.start_ps, at) for at in refreshed for e in asic]
    hidden = sum(overlap for overlap in beside if overlap > 0)
    out = machine.outcome
    assert out.end_ps == sum(out.quiet_ps.values()) + 455_000 * len(refreshed) - hidden
    assert len(refreshed) > 120 and hidden > 0
