"""The machine jumps from step to step and looks timings up; here it is ticked, and run through the engine in one go."""

from itertools import count
from math import gcd
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.part import compile_table
from pimloom.arch.program import AsicStep, PimStep
from pimloom.arch.system import load_part
from pimloom.arch.units import mhz_to_ps
from pimloom.cycle_sim.dram import issue
from pimloom.cycle_sim.machine import Machine
from pimloom.mappers.decode import Decoder, plan
from pimloom.mappers.geometry import geometry
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


def run(steps, mhz=1000, table=TABLE, tck_ps=500, refresh=True, traced=True):
    """(machine, events) of a program."""
    machine, events = Machine(table, tck_ps, mhz_to_ps(mhz), latency_cyc, refresh=refresh), []
    machine.run(steps, events if traced else None)
    return machine, events


# Clock by clock.


def tick(steps, tck_ps, clock_ps, refresh=True):
    """[(start, end)] in ps: the state machine of the specification on a common clock, commands by the naive oracle.

    The next instruction when both nodes are idle, on an edge of its own node; a refresh whenever it is due and legal.
    """
    times, todo, next_time, busy = [], list(steps), 0, False
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
    assert len(in_one_go(events, TABLE, 500)) == machine.outcome.refreshes > 50


@pytest.mark.parametrize("name", ["gddr6_pim_gpt", "gddr6_aim"])
def test_a_program_of_the_real_parts_in_one_go(name):
    part = load_part(name).value
    spec = msgspec.structs.replace(TINY, hidden_size=1088, num_attention_heads=17, num_key_value_heads=17, head_dim=64)
    table = compile_table(part)
    machine, events = run(program([1, 33, 34], part, spec), table=table)
    assert len(in_one_go(events, table, 500)) == machine.outcome.refreshes > 5


def random_program(rng):
    """A random part and a few random steps, again and again, in between ASIC steps of random length; None: illegal."""
    size, clocks = draw_size(rng, "gddr6+aim"), draw_clocks(rng, "gddr6+aim")
    clocks["tREFI"] = clocks["tRFC"] + rng.choice((rng.randint(1, 60), rng.randint(60, 400)))
    table, banks = table_of("gddr6+aim", size, clocks), list(np.ndindex(*size))
    steps = []
    for key in range(rng.randint(1, 4)):
        written = Writer(rng, "gddr6+aim", size, banks, clocks).write(rng.randint(1, 12))
        stream = to_array([*written, Order("PREab")], table)
        try:
            issue(table, [stream], refresh=False)
        except UserError:
            return None
        steps.append(PimStep(f"PIM {key}", key, stream, False, 0, 0))
    steps += [AsicStep("ASIC", "add", rng.choice((0, 3, 40))) for _ in range(rng.randint(0, 2))]
    steps += [AsicStep("wait", "softmax", 3 * rng.randint(0, 3))] if rng.randrange(3) == 0 else []
    return table, [rng.choice(steps) for _ in range(rng.randint(2, 30))], rng.choice((500, 1000, 750)), rng


@settings(max_examples=400)
@given(st.randoms(use_true_random=False))
def test_random_programs_of_random_parts_in_one_go(rng):
    check_random_program(rng)


def check_random_program(rng):
    made = random_program(rng)
    assume(made)
    table, steps, tck_ps, _ = made
    try:
        _, events = run(steps, rng.choice((1000, 333, 100)), table, tck_ps)
    except UserError as error:
        assert "comes too late" in str(error)
        return assume(False)
    if any(isinstance(s, PimStep) for s in steps):
        in_one_go(events, table, tck_ps)
