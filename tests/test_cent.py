"""CENT: its mapping, link, near-memory unit and energy against its authors' code, and what is refused.

Golden values: Yufeng98/CENT@8c79786: a run of its generator's trace of one layer of Llama 2 7B, eight channels a layer,
128 tokens, on its AiM simulator; its closed forms; and the results that it ships.
"""

import json
from collections import Counter

import numpy as np
import pytest

from pimloom.arch.aim import COMMANDS, INSTRUCTIONS, NOTHING, SYNC
from pimloom.arch.cent import CentSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.cycle_sim.aim.simulate import Queues, simulate
from pimloom.cycle_sim.cent import near_memory_cyc, next_ns, shared_ns
from pimloom.energy.cent import Counted, Token, energies_pj
from pimloom.mappers.cent import Place, layer_of
from pimloom.mappers.cent_layer import layer_program
from pimloom.systems.asked import Asked
from pimloom.systems.devices.cent.asked import cent_work
from pimloom.systems.devices.cent.placed import placed
from pimloom.systems.devices.device import Share, device_of
from pimloom.workload.batch import Batch
from tests import naive_aim
from tests.command import call
from tests.slow import slow

SYSTEM = load_system("cent", {"devices": "8"})
SPEC, LLM = SYSTEM.of_kind(CentSystem), load_llm("llama-2-7b")
RELEASED = placed(SYSTEM, LLM, None, None, released=True)
COUNTS = {
    "MAC16": 3_178_752, "ACT16": 51_488, "PREab": 51_232, "WRMAC16": 51_776, "RDMAC16": 51_776, "WRGB": 80_384,
    "EWMUL16": 19_328, "WR": 29_952, "TMOD": 13_792, "RD": 6_912, "ACT": 2_576, "PRE": 2_064, "RDCP": 4_864,
    "WRCP": 4_864, "AF16": 2_752, "RDAF16": 2_752, "WRA16": 256,
}  # fmt: skip
ENERGY_UJ = {
    "activate": 2438.12, "read": 60.43, "write": 62.71, "pim": 4184.66, "active_standby": 49.26,
    "precharge_standby": 4.76, "interface": 315.12, "memory_controller": 568.56, "instruction_buffer": 4.50,
    "buffers_static": 0.60, "control": 0.64,
}  # fmt: skip
SHIPPED = [  # model, devices, stages, tensor, latency s, tokens/s, mJ a token, W; 512 + 3584 tokens
    ("llama-2-7b", 8, 1, 8, 6.80, 643.8, 99.5, 99.7),
    ("llama-2-7b", 8, 8, 1, 12.95, 2608.6, 75.3, 239.5),
    ("llama-2-7b", 8, 32, None, 45.37, 3005.0, 70.3, 240.6),
    ("llama-2-13b", 20, 1, 20, 11.07, 396.3, 333.8, 211.7),
    ("llama-2-13b", 20, 40, None, 41.06, 4111.4, 136.2, 627.9),
    ("llama-2-70b", 32, 1, 32, 39.99, 111.3, 1831.2, 326.3),
    ("llama-2-70b", 32, 8, 4, 51.95, 664.1, 790.8, 699.8),
    ("llama-2-70b", 32, 32, 1, 99.66, 1339.8, 733.6, 1091.4),
    ("llama-2-70b", 32, 80, None, 280.57, 1185.1, 693.0, 874.3),
]


@pytest.fixture(scope="module")
def golden():
    program = layer_program(RELEASED.layer, RELEASED.place, 128, released=True)
    return program, RELEASED._run(program)


def test_a_layer_is_that_of_the_generator_to_the_clock(golden) -> None:
    program, found = golden
    commands = Counter[str]()
    for counts in found.counts:
        commands.update(counts)
    assert (len(program), found.cycles, dict(commands)) == (42_231, 425_471, COUNTS)
    assert np.mean(found.open_ck) == 373_511 and found.cycles - np.mean(found.open_ck) == 51_960


def test_host_instructions_are_as_many_of_each(golden) -> None:
    program, _ = golden
    of = Counter(COMMANDS[op] if op >= 0 else op for op in program[:, 0].tolist())
    names = ("WR", "RD", "MAC16", "RDMAC16", "WRMAC16", "WRA16", "AF16", "RDAF16", "WRGB", "RDCP", "WRCP", "EWMUL16")
    wanted = (29_952, 6_912, 1_618, 1_618, 1_618, 256, 86, 86, 43, 12, 12, 10)
    assert tuple(of[name] for name in names) == wanted and (of[SYNC], of[NOTHING]) == (6, 2)  # 5 SYNC and EOC


def test_energy_by_cause_is_that_of_its_calculator() -> None:
    cost = RELEASED.token(128)
    one = {cause: pj / 8 / 1e6 for cause, pj in cost.energy_pj.items()}
    for cause, uj in ENERGY_UJ.items():
        assert one[cause] == pytest.approx(uj, rel=1e-3, abs=0.005), cause
    assert sum(cost.energy_pj.values()) / 1e9 == pytest.approx(61.5152, abs=5e-5)
    found = placed(SYSTEM, LLM, None, None, released=False).token(128)
    assert found.energy_pj["active_standby"] == pytest.approx(32 * cost.energy_pj["active_standby"], rel=0.01)
    assert found.energy_pj["link"] == 16 * cost.energy_pj["link"]


def test_with_the_standby_of_all_channels_a_token_costs_a_fifth_more(golden) -> None:
    program, found = golden
    commands = Counter[str]()
    for counts in found.counts:
        commands.update(counts)
    did = Counted(commands, 5_367, found.cycles, 373_511, 51_960, 32, 500, 256, 4096, 16, 16)
    whole = energies_pj(SPEC.energy, SPEC.near_memory, did, Token(4096, 32, 1, 128, 1))
    assert 8 * sum(whole.values()) / 1e9 == pytest.approx(74.9, abs=0.05)


def test_closed_forms() -> None:
    cycles = near_memory_cyc(SPEC.near_memory, 4096, 32, 1, 128)
    assert cycles == {"norm": 124, "softmax": 1464, "rotation": 3072}
    assert 4 * sum(cycles.values()) / 2e6 == pytest.approx(0.009320, rel=1e-6)
    wide = near_memory_cyc(SPEC.near_memory, 5120, 40, 1, 128)
    assert sum(wide.values()) / 2e6 == pytest.approx(0.00290525, rel=1e-6)
    assert next_ns(SPEC.link, 8, 4096, 16) / 1e6 == pytest.approx(0.000322389, rel=1e-6)
    assert shared_ns(SPEC.link, 20, 20, 5120, 13824, 16) / 1e6 == pytest.approx(0.009406222, rel=1e-6)


def test_a_token_is_the_sum_of_its_parts() -> None:
    """With the shipped clocks of an earlier revision: 0.2127925 ms in the channels, 0.237748 before and behind."""
    cost = RELEASED.token(128)
    shipped = cost._replace(layer=cost.layer._replace(pim=0.2127925), ends_ms=0.237748)
    assert shipped.token_ms == pytest.approx(7.505664, rel=1e-6)
    assert 32 / shipped.token_ms * 1000 == pytest.approx(4263.447, rel=1e-6)
    assert cost.layer.pim == pytest.approx(0.2127355, rel=1e-6) and cost.ends_ms == pytest.approx(0.237748, rel=2e-4)


@pytest.mark.parametrize("row", [SHIPPED[0], *map(slow, SHIPPED[1:])], ids=str)
def test_shipped_results(row) -> None:
    model, devices, pp, tp, *wanted = row
    asked = Asked("cent", model, devices=devices, pp=pp, tp=tp, fidelity="released")
    found = cent_work(asked).run(lambda done, total: None)
    got = found.latency_s, found.tokens_per_s, found.energy_per_token_j * 1e3, found.power_w
    assert got == pytest.approx(wanted, rel=0.005)


SMALL = Place(channels=4, banks=16, row=1024, column=16, block_channels=2, devices=1, latches=32, longest=4096)


@pytest.mark.parametrize("context", [1, 33])
def test_a_small_layer_runs_as_the_oracle_has_it(context) -> None:
    layer = layer_of(LLM)._replace(hidden=256, heads=8, kv_heads=8, ffn=512)
    program = layer_program(layer, SMALL, context)
    cycles, every = naive_aim.run(lines_of(program), channels=4)
    found = simulate(SYSTEM.memory, 4, Queues(33, 26, 7), program)
    assert found.cycles == cycles
    names = {"PREA": "PREab"}
    assert [dict(c) for c in found.counts] == [{names.get(n, n): k for n, k in c.counts.items()} for c in every]


def lines_of(program) -> list[str]:
    """The instructions as a host writes them."""
    names = {found.command: name for name, found in INSTRUCTIONS.items() if found.command}
    lines = []
    for op, times, mask, bank, row in program.tolist():
        if op in (NOTHING, SYNC):
            lines.append("AiM EWADD 1 0 0" if op == NOTHING else "AiM SYNC")
            continue
        name = names[COMMANDS[op]]
        given = {"opsize": times, "gpr": 0, "mask": mask, "bank": bank, "row": row}
        lines.append(" ".join(["AiM", name, *(str(given[key]) for key in INSTRUCTIONS[name].operands)]))
    return [*lines[:-1], "AiM EOC"]


@pytest.mark.parametrize(("field", "value"), [
    ("hidden", 8192), ("heads", 64), ("kv_heads", 16), ("head", 256), ("ffn", 12288),
])  # fmt: skip
def test_each_size_of_a_layer_decides_something(field, value) -> None:
    layer = layer_of(LLM)
    other = layer._replace(**{field: value})
    assert not np.array_equal(layer_program(layer, SMALL, 64), layer_program(other, SMALL, 64))


@pytest.mark.parametrize(("field", "value"), [
    ("channels", 8), ("banks", 32), ("row", 2048), ("column", 32), ("block_channels", 4), ("devices", 2),
    ("latches", 16), ("longest", 8192),
])  # fmt: skip
def test_each_size_of_the_device_decides_something(field, value) -> None:
    layer = layer_of(LLM)
    other = SMALL._replace(**{field: value})
    assert not np.array_equal(layer_program(layer, SMALL, 1500), layer_program(layer, other, 1500))


def test_a_device_takes_a_token_of_each_request() -> None:
    device = device_of(SYSTEM, LLM, Share(tp=1, layers=32, outside=True))
    one, many = device.step(Batch.decode([128])), device.step(Batch.decode([128] * 64))
    assert one.time_s == pytest.approx(7.5e-3, rel=0.01) and many.time_s == pytest.approx(2 * one.time_s, rel=1e-6)
    at_rest = ("precharge_standby", "buffers_static", "instruction_buffer")  # of devices that wait, too
    at_work = [{k: j for k, j in (run.device_j or {}).items() if k not in at_rest} for run in (one, many)]
    assert at_work[0] and at_work[1] == pytest.approx({k: 64 * j for k, j in at_work[0].items()})
    tokens = [device.step(Batch.decode([n])) for n in (1, 2, 3, 4)]
    prompt, end = device.step(Batch.prefill([4])), device.step(Batch.prefill([2], cached=[2]))
    assert prompt.time_s == pytest.approx(sum(run.time_s for run in tokens), rel=1e-6)
    assert end.energy_j == pytest.approx(sum(run.energy_j or 0 for run in tokens[2:]), rel=1e-6)
    assert prompt.spans[-1].end_ps == prompt.end_ps and prompt.busy["PIM"] < prompt.end_ps
    bare = device_of(SYSTEM, LLM, Share(tp=1, layers=32, outside=False)).step(Batch.decode([4]))
    assert {one.operator for one in tokens[3].spans} - {one.operator for one in bare.spans} == {
        "embedding, LM head", "sampling",
    }  # fmt: skip
    with pytest.raises(UserError, match=r"8 devices have .*; take \d+ devices or more"):
        device.check(Batch.decode([4096] * 64))


def test_the_command() -> None:
    options = ("--model", "llama-2-7b", "--devices", "8", "--pp", "32", "--context", "256")
    found = call("run", "cent", *options, "--json", "-")
    plain = json.loads(found.out)
    assert (plain["stages"], plain["tensor"], plain["layers_per_device"], plain["channels_per_layer"]) == (32, 1, 4, 8)
    assert [point["context"] for point in plain["points"]] == [1, 128, 256]
    assert plain["energy_per_token_j"] == pytest.approx(sum(plain["energy_by_cause_j"].values()))


@pytest.mark.parametrize(("options", "said"), [
    ("--model llama-2-7b --tp -1", "--tp -1: expected at least 1"),
    ("--model llama-2-7b --pp 0", "--pp 0: expected at least 1"),
    ("--model llama-2-7b --every 0", "--every 0: expected at least 1"),
    ("--model llama-2-7b --prompt -5 --generate 10", "--prompt -5: expected at least 0 tokens"),
    ("--model llama-2-7b --prompt 5 --generate 0", "--generate 0: expected at least 1 token"),
    ("--model llama-2-7b --seed 3", "--seed 3: cent draws nothing; leave it out"),
    ("--model llama-2-7b --set latches=1", "expected int >= 2"),
    ("--model llama-2-7b --context 8 --set near_memory.clock_mhz=1e-320", "energy of a token is not finite"),
    ("--model gpt2", "gpt2: a context of 4,096 tokens, the model has 1,024 positions; take --generate 512 or less"),
    ("--model llama-2-7b --prompt 1024", "the model has 4,096 positions; take --generate 3072 or less"),
    ("--model llama-2-7b --generate 4000", "the model has 4,096 positions; take --prompt 96 or less"),
    ("--model llama-2-7b --context 4097", "the model has 4,096 positions; take --context 4096 or less"),
    ("--model llama-2-7b --prompt 4096", "the model has 4,096 positions; take --context 4096 or less"),
    ("--model gpt2 --context 128", "gpt2: gated_ffn is False; CENT runs layers of Llama 2, with gated_ffn True"),
    ("--model llama-2-7b --devices 8 --pp 5", "--pp 5: expected 32 stages, one a layer, or stages x --tp = 8 devices"),
    ("--model llama-2-70b --devices 4", "4 devices have 68,719,476,736; take 9 devices or more"),
    ("--model llama-2-7b --devices 8 --batch 4", "--batch 4: cent takes requests one by one"),
    ("--model llama-2-7b --devices 8 --set devices=4", "--devices 8: --set devices says so, too"),
    ("--model llama-2-7b --fidelity as-is", "--fidelity as-is: expected physical or released"),
    ("--model llama-2-7b --context 9 --prompt 3", "--context 9: is --prompt and --generate together"),
    ("--model llama-2-7b --set aim.channelz=3", "--set aim.channelz: "),
])  # fmt: skip
def test_what_is_refused(options, said) -> None:
    found = call("run", "cent", *options.split())
    assert found.code == 2 and found.out == "" and said in found.err and found.err.count("\n") == 1


def test_other_systems_have_none_of_its_options() -> None:
    for options, said in (("--devices 8", "counts the devices of cent"), ("--context 8", "is the prompt and answer")):
        found = call("run", "pim_gpt", "--model", "gpt2", *options.split())
        assert found.code == 2 and said in found.err
