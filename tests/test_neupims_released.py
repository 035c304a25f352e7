"""NeuPIMs as released: every run of the reference data, request for request and clock for clock."""

import gzip
import re
from collections import Counter

import numpy as np
import pytest

from pimloom.arch.llm import load_llm
from pimloom.arch.neupims import Faults
from pimloom.arch.system import load_system
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels import hash_set
from pimloom.cycle_sim.npu_pim.machine import run
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.npu_pim.serve import PORTS
from tests.neupims_runs import FEW, SETTINGS, operator_times, ours, released_runs
from tests.reference_data import data_folder, needed

RUNS = released_runs()
PARAMETERS = [pytest.param(r, id=r.name, marks=[] if r.batch <= FEW else pytest.mark.slow) for r in RUNS]
every_run = pytest.mark.parametrize("released", PARAMETERS)
pytestmark = pytest.mark.reference
COMMANDS = {0: "RD", 2: "WR", 4: "ACT", 5: "PRE", 7: "REFab"}  # as the command trace numbers them
OPENED = ("ACT", "RD", "WR")  # commands of a row
BANKS_OF_RANK = 16


def test_there_are_runs():
    needed("neupims/summary.csv")
    assert RUNS


@every_run
def test_every_request_that_enters_the_memory(released):
    """Of 29 more runs one was off by a single request of 7.5 million: two blocks of two programs left in one cycle."""
    found = ours(released)["memory_requests"]
    assert abs(found - released.memory_requests) <= (1 if released.variant == "on" else 0)


@every_run
def test_every_stage(released):
    found = ours(released)
    if released.variant == "npu":
        pytest.skip("the branch without PIM prints no stages")
    differences = {s: found["stages_cyc"][s] - n for s, n in released.stages.items()}
    assert list(found["stages_cyc"]) == list(released.stages)
    if released.variant == "on":  # a request of one program a clock sooner, and stages differ by hundreds of cycles
        assert all(abs(d) <= 0.02 * released.stages[s] for s, d in differences.items()), differences
    else:
        assert not any(differences.values()), differences


@every_run
def test_the_total(released):
    """Without PIM, within 1 %: see docs/npu_pim.md."""
    tolerance = {"on": 0.015, "npu": 0.01}.get(released.variant, 0)
    assert ours(released)["total_cyc"] == pytest.approx(released.total, rel=tolerance, abs=0)


@every_run
def test_every_operator(released):
    """The operators of a stage take the cycles that the simulator logs; without PIM up to the fused attention."""
    needed("neupims/op_times.csv")
    logged = operator_times(released)
    if not logged:
        pytest.skip(f"{released.name} has no times of operators")
    if released.variant == "on":
        pytest.skip("the operators of two programs are logged in the order of their ends; the stages are compared")
    found = Counter((key.split(".")[1], n) for key, n in ours(released)["operators_cyc"].items())
    if released.variant == "npu":
        logged = logged[:2]
    assert not Counter(logged) - found


def blocks():
    """(first byte, bytes, lines, the first of them as swapped addresses) of each block of the traces."""
    for file in sorted((data_folder() / "neupims" / "rules").glob("*.trace.gz")):
        for line in gzip.decompress(file.read_bytes()).decode().splitlines():
            if found := re.match(r"BLK .* n (\d+) c0 (\d+) lines (\d+) : ?(.*)", line):
                elements, first, lines, shown = found.groups()
                yield int(first), 2 * int(elements), int(lines), [int(x.split("(")[0], 16) for x in shown.split()]


def swapped(line):
    """Of 64 B; bits from below: 5 of the channel, 4 of the column, which change places."""
    above, low = divmod(line, 512)
    return (above * 512 + low % 32 * 16 + low // 32) * 64


@pytest.mark.slow
def test_the_lines_of_every_block():
    needed("neupims/rules")
    wrap, seen = 5 * 4096**2 * 2 // 4, 0
    for first, size, lines, shown in blocks():
        if not size:
            continue
        touched = list(dict.fromkeys((first + at) % wrap // 64 for at in range(2, size + 1, 2)))
        assert len(touched) == lines
        addresses = np.array([swapped(line) for line in touched])
        hashes = np.array([hash_set.mixed(address) for address in addresses])
        room = np.zeros((3, 4 * lines + hash_set.LEAST_COUNTERS), np.int64)
        hash_set.order(hashes, lines, *room)
        assert addresses[room[2, : len(shown)]].tolist() == shown
        seen += 1
    assert seen


@pytest.mark.slow
def test_the_first_commands_of_two_channels():
    """Commands of channels 0 and 1 of off-b64-gml before tick 4,000."""
    expected: dict[int, list[tuple[int, str, int, int]]] = {0: [], 1: []}
    for line in needed("neupims/rules/off-b64-gml.ch0-1.commands.to4000.txt").read_text().splitlines():
        if line[:1].isdigit():
            tick, channel, command, rank, bank, row, *_ = map(int, line.split())
            name = COMMANDS[command]
            at = rank * BANKS_OF_RANK + (bank if name != "REFab" else 0)
            expected[channel].append((tick, name, at, row if name in OPENED else -1))
    logs = commands_of("off-7B-L-b64-gml")
    for channel, commands in expected.items():
        assert commands and logs[channel][: len(commands)] == commands


def commands_of(name):
    released = next(r for r in RUNS if r.name == name)
    settings = {f"faults.{fault}": "true" for fault in Faults.__struct_fields__} | {"interleave.sub_batches": "1"}
    system, tokens, channel = load_system(SETTINGS[released.variant][0], settings), [], []
    for line in released.requests.read_text().splitlines()[1:]:
        n, c = line.split(",")
        tokens.append(int(n))
        channel.append(int(c))
    laid = lay_out(system, load_llm(released.model), np.array(tokens), np.array(channel), tp=4, layers=1)
    logs = run(laid.spec, 32, laid.npu, laid.layer.builder, ports=PORTS, log=200_000).logs
    named = [[(t, f.COMMANDS[c], b, row) for t, c, b, row in log.tolist()] for log in logs]
    return [[(t, name, b, row if name in OPENED else -1) for t, name, b, row in log] for log in named]
