"""`pimloom explain` of what has a name, keys that are not there, and options of other commands."""

import json

import pytest

from pimloom.arch.names import BELONGS, list_names
from pimloom.reports.explain_named import explain_named
from tests.command import call


@pytest.mark.parametrize("folder", BELONGS)
def test_all_that_has_a_name_is_explained(folder: str) -> None:
    for name in list_names(folder):
        found = explain_named(name)
        assert found and found.values and BELONGS[folder].format(name=name) in found.meaning
        assert all(value.where and value.file.startswith("arch/") for value in found.values)


def test_values_come_with_their_sources() -> None:
    plain = json.loads(call("explain", "attacc", "--json", "-").out)
    inner = json.loads(call("explain", "device.part.tCK_ps", "--json", "-").out)
    assert [value["where"] for value in inner["values"]] == ["hbm3_duplex_5200"]
    timing = json.loads(call("explain", "aim.dram.timing.tRCDMAC", "--json", "-").out)
    assert [value["where"] for value in timing["values"]] == ["gddr6_aim_isr"] and timing["rules"]
    assert "56 nCK" in timing["values"][0]["value"]
    (gpus,) = [value for value in plain["values"] if value["where"] == "gpus"]
    assert gpus == {"where": "gpus", "value": "8", "source": "[secondary A]", "file": "arch/systems/attacc.yaml:4"}
    assert "key" in call("explain", "attacc").out and "eight A100" in call("explain", "attacc").out


@pytest.mark.parametrize(("command", "said"), [
    ("explain attacx", "no field 'attacx'; nearest: attacc, attacc_gpu"),
    ("explain device.part.timing.tRFX", "no field 'device.part.timing.tRFX'; nearest: device.part.timing.tRFC, dev"),
    ("explain device.part.timing.nMODCH", "hbm3_duplex_5200 has none; `pimloom explain dram.timing.nMODCH` has others"),
    ("run attacc --model gpt3-175b --set foo=1", "no such key in attacc.yaml; expected one of description, kind, "),
    ("run attacc --model gpt3-175b --set gpu.zzz=1", "no such key in attacc.yaml; expected one of gpu.cores, gpu.peak"),
    ("run cent --model llama-2-7b --set aim.dram.organization.rows=5", "(with --set aim.dram.organization.rows)"),
    ("run cent --model llama-2-7b --set aim.foo=5", "--set aim.foo: no such key in gddr6_aim.yaml; expected one of de"),
    ("run cent --model llama-2-7b --devices 8 --tp 3", "--tp 3: expected 32 stages, one a layer, or stages x --tp = 8"),
    ("run attacc --model gpt3-175b --lm-head", "--lm-head: attacc is a box of GPUs"),
    ("compare attacc,cent --model gpt3-175b --context 5", "No such option: --context; `pimloom run` has it"),
    ("report cent --model x", "No such option: --model; `pimloom run`, `pimloom serve` and `pimloom compare` have it"),
    ("compare attacc --models x", "No such option: --models (Possible options: --model)"),
    ("compare pim_gpt --model gpt2 --prompt 2048", "gpt2 has positions for 1,024 tokens; take fewer"),
])  # fmt: skip
def test_what_is_said_of_a_mistake(command: str, said: str) -> None:
    done = call(*command.split())
    assert done.code == 2 and done.out == "" and said in done.err and done.err.count("\n") == 1


def test_contexts_beyond_the_positions_are_one_rule_in_both_commands() -> None:
    """On AttAcc they are simulated, with a note; other systems of a comparison say why they do not."""
    asked = ("--model", "gpt2-medium", "--prompt", "1020", "--generate", "8", "--every", "8", "--json", "-")
    alone = json.loads(call("run", "attacc", *asked).out)
    beside = json.loads(call("compare", "attacc_gpu,pim_gpt", *asked).out)
    assert alone["notes"][0] == "the model has positions for 1,024 tokens; contexts of up to 1,027 are simulated"
    assert [bool(one["reason"]) for one in beside["systems"]] == [False, True]
    assert any("contexts of up to 1,027 are simulated" in note for note in beside["notes"])
