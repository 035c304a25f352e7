"""The checks of every run: they pass what is right, and name whatever single quantity has been tampered with."""

from collections import Counter
from collections.abc import Callable, Hashable
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from pimloom.arch.llm import load_llm
from pimloom.arch.part import Part
from pimloom.arch.system import load_system
from pimloom.arch.table import Table
from pimloom.cycle_sim.machine import Outcome
from pimloom.energy.ledger import Ledger
from pimloom.energy.pim import pim_energy
from pimloom.mappers.plan import Plan
from pimloom.systems.devices import simulate as module
from pimloom.systems.devices.conservation import ConservationError, check_conservation, check_energy
from pimloom.systems.devices.result import Result
from pimloom.systems.devices.simulate import simulate

TOKENS = 4
MATRICES = ("QKV", "projection", "FFN1", "FFN2", "LM head")
REFI_PS = 6_825_000


class Finished(NamedTuple):
    """The arguments of check_conservation."""

    table: Table
    part: Part
    mapped: Plan
    out: Outcome
    bank: Counter[str]
    channels: int
    refresh: bool
    generated: int


def small(refresh: str = "true") -> Result:
    system = load_system("pim_gpt", {"workload.lm_head": "true", "dram.refresh": refresh})
    return simulate(system, load_llm("gpt2"), TOKENS)


def finished(refresh: str) -> Finished:
    seen: list[Finished] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "check_conservation", lambda *arguments: seen.append(Finished(*arguments)))
        small(refresh)
    (one,) = seen
    return one


@pytest.fixture(scope="module")
def run() -> Finished:
    return finished("true")


@pytest.fixture(scope="module")
def quiet() -> Finished:
    return finished("false")


def tampered(run: Finished, change: Callable[[Outcome], None]) -> Finished:
    """The run with `change` applied to a copy of its outcome; commands of a bank are counted anew."""
    out = deepcopy(run.out)
    change(out)
    bank: Counter[str] = Counter()
    for key, step in out.steps.items():
        for row in step.stream:
            bank[run.table.names[row["cmd"]]] += int(row["count"]) * run.out.executions[key]
    return run._replace(out=out, bank=bank)


def refused(run: Finished, change: Callable[[Outcome], None], said: str) -> None:
    with pytest.raises(ConservationError, match=said):
        check_conservation(*tampered(run, change))


def setting(**values: int) -> Callable[[Outcome], None]:
    def change(out: Outcome) -> None:
        for name, value in values.items():
            setattr(out, name, value)

    return change


def adding(counter: str, key: Hashable, n: int) -> Callable[[Outcome], None]:
    def change(out: Outcome) -> None:
        getattr(out, counter)[key] += n

    return change


def fewer(run: Finished, name: str, command: str, rows: slice = slice(1)) -> Callable[[Outcome], None]:
    """One `command` less in the stream of step `name`."""

    def change(out: Outcome) -> None:
        key = next(key for key, step in out.steps.items() if step.name == name)
        stream = out.steps[key].stream.copy()
        stream["count"][np.flatnonzero(stream["cmd"] == run.table.cmd(command))[rows]] -= 1
        out.steps[key] = out.steps[key]._replace(stream=stream)

    return change


def nothing(_: Outcome) -> None:
    """Change nothing."""


def test_a_sound_run_passes(run: Finished, quiet: Finished) -> None:
    for each in (run, quiet):
        check_conservation(*each)
        check_conservation(*tampered(each, nothing))
        assert tampered(each, nothing).bank == each.bank
    assert (quiet.refresh, quiet.out.refreshes) == (False, 0) and run.out.end_ps > quiet.out.end_ps


# What a run counts.


def test_a_step_whose_time_is_off_by_a_picosecond(run: Finished) -> None:
    for name in ("QKV", "softmax", "LM head"):
        for wrong in (1, -1):
            refused(run, adding("time_ps", name, wrong), r"^time of all steps \[ps\]: \d+ is not \d+$")
    refused(run, setting(end_ps=run.out.end_ps + 1), "^time of all steps")


def test_refreshes(run: Finished, quiet: Finished) -> None:
    due = run.out.end_ps // REFI_PS
    assert due > 40
    for right in (due, due - 8):
        check_conservation(*tampered(run, setting(refreshes=right)))
    for wrong in (0, due - 9, due + 1, 3 * due):
        refused(run, setting(refreshes=wrong), f"^{wrong} refreshes, but {due} fell due$")
    refused(quiet, setting(refreshes=1), "^1 refreshes, but 0 fell due$")


@pytest.mark.parametrize("what", ["sent", "received"])
@pytest.mark.parametrize("wrong", [1, -1])
def test_a_value_more_or_less_than_the_model_has(run: Finished, what: str, wrong: int) -> None:
    """In steps whose bursts have room for one more: p to all channels, and 393 results of 128 banks for 50257."""
    name = {"sent": "p V", "received": "LM head"}[what]
    refused(run, adding(f"{what}_values", name, wrong), rf"^values {what}: \d+ is not \d+$")


def test_carried_values_are_counted_from_the_bursts(run: Finished) -> None:
    """Of one token and layer: inputs whole, p in six passes of one burst, K once, V and results of all 128 banks."""
    layers, head = 12 * TOKENS, TOKENS
    sent = {
        "QKV": layers * 8 * 768,
        "projection": layers * 8 * 768,
        "FFN1": layers * 8 * 768,
        "FFN2": layers * 8 * 3072,
        "K write": layers * 768,
        "V write": layers * 8 * 6 * 16,
        "score": layers * 8 * 768,
        "p V": layers * 8 * 6 * 16,
        "LM head": head * 8 * 768,
    }
    received = {
        "QKV": layers * 128 * 18,
        "projection": layers * 128 * 6,
        "FFN1": layers * 128 * 24,
        "FFN2": layers * 128 * 6 * 3,
        "score": layers * 128 * 12,
        "p V": layers * 128 * 6,
        "LM head": head * 128 * 393,
    }
    for what, room in (("sent", sent), ("received", received)):
        for name, carried in room.items():
            over = carried + 1 - getattr(run.out, f"{what}_values")[name]
            said = f"^{name}: {carried + 1} values {what}, but its bursts carried {carried}$"
            refused(run, adding(f"{what}_values", name, over), said)


def test_executions(run: Finished) -> None:
    """A step that is said to have run once more or once less than its commands were counted."""
    for name in MATRICES:
        key = next(key for key, step in run.out.steps.items() if step.name == name)
        for wrong in (1, -1):
            refused(run, adding("executions", key, wrong), "^column accesses and row hits [+] misses: ")


@pytest.mark.parametrize("command", ["MACab", "WR", "WRAab", "ACT", "ACTab"])
@pytest.mark.parametrize("wrong", [1, -1])
def test_hits_and_misses_are_the_accesses(run: Finished, command: str, wrong: int) -> None:
    bank = run.bank + Counter()
    bank[command] += wrong
    with pytest.raises(ConservationError, match="^column accesses and row hits [+] misses: "):
        check_conservation(*run._replace(bank=bank))


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize(
    ("command", "said"), [("MACab", "columns read and placed"), ("WRGB", "operand bursts"), ("RDMAC", "results")]
)
def test_a_weight_stream_that_loses_a_command(run: Finished, name: str, command: str, said: str) -> None:
    refused(run, fewer(run, name, command), f"^{name}: {said}: ")


def test_a_run_that_took_no_time(quiet: Finished) -> None:
    def change(out: Outcome) -> None:
        out.time_ps.clear()
        out.end_ps = 0

    refused(quiet, change, r"^the latency is 0 ps, though work was done$")


# Energy, on round numbers.

EACH_PJ = {"MACab": {"read": 100.0, "mac": 50.0}, "ACTab": {"activate": 2000.0}, "ACT": {"activate": 1000.0}}
COUNTS = {"MACab": 1000, "ACTab": 10, "ACT": 3, "PREab": 10}
LEDGER_J = {"background": 7e-9, "read": 100e-9, "mac": 50e-9, "activate": 23e-9, "asic": 9e-9}


@pytest.fixture(scope="module")
def result() -> Result:
    return msgspec.structs.replace(small(), command_counts=COUNTS, energy_by_cause_j=LEDGER_J)


def without(result: Result, **changes: Any) -> Result:
    return msgspec.structs.replace(result, **changes)


def test_a_sound_ledger_passes(result: Result) -> None:
    check_energy(result, EACH_PJ)
    close = {cause: joules * (1 + 1e-12) for cause, joules in LEDGER_J.items()}
    check_energy(without(result, energy_by_cause_j=close), EACH_PJ)


@pytest.mark.parametrize("cause", ["read", "mac", "activate"])
@pytest.mark.parametrize("wrong", [1 + 1e-6, 1 - 1e-6, 0.0, 2.0])
def test_a_ledger_entry_that_is_off(result: Result, cause: str, wrong: float) -> None:
    ledger = LEDGER_J | {cause: LEDGER_J[cause] * wrong}
    with pytest.raises(ConservationError, match=f"^energy of {cause}: .* J is not "):
        check_energy(without(result, energy_by_cause_j=ledger), EACH_PJ)


@pytest.mark.parametrize(("command", "cause"), [("MACab", "mac"), ("ACTab", "activate")])
def test_a_command_more_or_less(result: Result, command: str, cause: str) -> None:
    for wrong in (1, -1):
        counts = COUNTS | {command: COUNTS[command] + wrong}
        with pytest.raises(ConservationError, match="^energy of "):
            check_energy(without(result, command_counts=counts), {command: EACH_PJ[command]})


def test_work_for_nothing(result: Result) -> None:
    free = EACH_PJ | {"MACab": {"read": 100.0, "mac": 0.0}}
    ledger = LEDGER_J | {"mac": 0.0}
    with pytest.raises(ConservationError, match="^energy of mac is 0.0 pJ for 1000 commands$"):
        check_energy(without(result, energy_by_cause_j=ledger), free)
    idle = {name: n for name, n in COUNTS.items() if name != "MACab"}
    none = ledger | {"read": 0.0}
    check_energy(without(result, energy_by_cause_j=none, command_counts=idle), free)


# Both are part of every run.


def test_simulate_checks_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    count = module._bank_counts
    monkeypatch.setattr(module, "_bank_counts", lambda *arguments: count(*arguments) + Counter({"MACab": 1}))
    with pytest.raises(ConservationError, match="^column accesses"):
        small()


@pytest.mark.parametrize("cause", ["activate", "read", "write", "refresh", "mac", "interface"])
def test_simulate_checks_its_energy(monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    def wrong(*arguments: Any) -> Ledger:
        pj = pim_energy(*arguments).pj
        return Ledger(pj | {cause: pj[cause] * (1 + 1e-6)})

    monkeypatch.setattr(module, "pim_energy", wrong)
    with pytest.raises(ConservationError, match=f"^energy of {cause}: "):
        small()


def test_weight_steps_run_once_for_every_token_and_layer(run: Finished) -> None:
    """Even when the bank's commands are counted with the same wrong number of runs."""
    for name in ("QKV", "FFN2"):
        (key,) = (key for key, step in run.out.steps.items() if step.name == name)
        out = deepcopy(run.out)
        out.executions[key] += 20
        wrong = tampered(run._replace(out=out), lambda _: None)
        with pytest.raises(ConservationError, match=f"^{name}: runs: "):
            check_conservation(*wrong)
