"""Departures of NeuPIMs' simulator stand beside the physics: each changes an answer of the rules, and no code asks."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.neupims import Faults
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import HERE, System, load_system
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.machine import Npu
from pimloom.cycle_sim.npu_pim.program import Builder, Operator
from pimloom.mappers.kv import Cache, Shape
from pimloom.systems.npu_rules import NpuRules
from pimloom.systems.reference.neupims import Released, rules_of

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = ("neupims", "npu_pim", "npu_only")
NEEDS = {"stores_when_idle": ["queues_in_order"]}  # departs only with it
CACHES = [Cache(1, 600, 700), Cache(0, 600, 700)]


def text_of(name: str, faults: str) -> str:
    return (HERE / "systems" / f"{name}.yaml").read_text() + faults


def system_of(name: str, *faults: str, **more: str) -> System:
    return load_system(name, {f"faults.{fault}": "true" for fault in faults} | more)


def built(fill: Callable[[Builder, Operator], None]) -> Any:
    b = Builder()
    op = b.operator("one", ())
    fill(b, op)
    return op.loads, op.stores, op.tasks, op.gates, op.follows


def answers(rules: NpuRules, system: System) -> dict[str, Any]:
    """What the rules say of a small example."""
    shape = Shape(heads=2, kv_heads=2, head_dim=64, row=512, banks=32, lanes=16, allotted=128)
    heads = Heads(2, 1, 64, 64, 128, 8, 2, lambda tokens, rows: tokens * rows)
    channel = np.zeros(4, np.int64)
    properties = [name for name, what in vars(NpuRules).items() if isinstance(what, property)]
    return {name: getattr(rules, name) for name in properties} | {
        "arrays": rules.arrays(),
        "address_bytes": rules.address_bytes(1 << 20, 4),
        "apart_bytes": rules.apart_bytes(64),
        "machine": rules.machine(Npu(128, 16, 1 << 20, False)),
        "channel": rules.channel(system.memory)._replace(part=system.memory),
        "pause": (rules.pause((), {}), rules.pause((3,), {"A": [3]}), rules.pause((2,), {"A": [3]})),
        "counted_ck": rules.counted_ck(1000, 3),
        "rows_cyc": rules.rows_cyc("add", 40, 256),
        "vector_rows": built(lambda b, op: rules.vector_rows(b, op, "norm", (40, 256, 256), 1)),
        "in_turn": list(rules.in_turn([0, 1], CACHES)),
        "fused_mha": built(lambda b, op: rules.fused_mha(b, op, [5, 300, 129], heads)),
        "logit": rules.logit(shape, 70, 5000).tolist(),
        "attend": rules.attend(shape, 600, 5000).tolist(),
        "logits_seen": rules.logits_seen(300),
        "stores_sums": (rules.stores_sums(1), rules.stores_sums(2)),
        "sum_cyc": rules.sum_cyc(3, 128),
        "allotted": rules.allotted(8, 2, 48, 32),
        "divide": [part.tolist() for part in rules.divide(channel, 2, lambda: [9, 1, 1, 1])],
    }


@pytest.mark.parametrize("name", SYSTEMS)
def test_none_on_is_the_physics(name: str) -> None:
    system = system_of(name)
    spec = system.of_kind(NpuPimSystem)
    assert type(rules_of(spec)) is NpuRules
    assert type(rules_of(system_of(name, "same_rows").of_kind(NpuPimSystem))) is Released
    assert answers(Released(spec), system) == answers(NpuRules(spec), system)


@pytest.mark.parametrize("fault", [name for name in Faults.__struct_fields__ if name != "interconnect"])
def test_each_changes_an_answer_of_a_system(fault: str) -> None:
    """By itself, but for what departs only together with another one."""
    with_it, differ = NEEDS.get(fault, []), list[str]()
    for name in SYSTEMS:
        off, on = system_of(name, *with_it), system_of(name, *with_it, fault)
        pair = [answers(rules_of(system.of_kind(NpuPimSystem)), system) for system in (off, on)]
        differ += [key for key in pair[0] if pair[0][key] != pair[1][key]]
    assert differ


def test_an_interconnect_knows_one_clock() -> None:
    on = system_of("neupims", "interconnect").of_kind(NpuPimSystem)
    assert rules_of(on).machine(Npu(128, 16, 1 << 20, False)).steps == on.controller.offers_per_ck
    slow = system_of("neupims", "interconnect", **{"npu.clock_mhz": "700"})
    with pytest.raises(UserError, match="with faults.interconnect expected the clock of the memory"):
        rules_of(slow.of_kind(NpuPimSystem)).check(slow.memory)


@pytest.mark.parametrize("room", ["cycle_sim", "mappers", "systems/devices", "systems/serving"])
def test_the_physics_reads_without_them(room: str) -> None:
    mechanisms = {"starts_early", "bias_by_rows", "weights_first"}  # of an NPU, of a GEMM
    for path in (ROOT / room).rglob("*.py"):
        named = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not named & {"faults", *Faults.__struct_fields__} - mechanisms, path


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_file_may_list_all_some_or_none(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    plain = load_system(name)
    for listed in ("", "faults: {}\n", "faults:\n" + "".join(f"  {f}: false\n" for f in Faults.__struct_fields__)):
        path.write_text(text_of(name, listed))
        assert load_system(str(path)).digest == plain.digest
        assert load_system(str(path), {"faults.same_rows": "true"}).digest == system_of(name, "same_rows").digest
    path.write_text(text_of(name, "faults: {same_rows: true}\n"))
    assert load_system(str(path)).digest == system_of(name, "same_rows").digest != plain.digest
    path.write_text(text_of(name, "faults: {same_row: true}\n"))
    with pytest.raises(UserError, match=r"at \$\.faults: unknown key 'same_row', .*nearest: same_rows"):
        load_system(str(path))
