"""What is advised would run; places that a file may leave out are among the nearest; padded widths are said."""

import json
from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.padded import padded_notes
from tests.command import call

CONFIG = Path(__file__).resolve().parent.parent / "arch/models/mixtral-8x7b.json"
QUICK: dict[str, Any] = {"memory": "ideal", "contention": False}


def model(folder: Path, **changed: Any) -> Path:
    file = folder / "mine.json"
    file.write_text(json.dumps(json.loads(CONFIG.read_text()) | {"num_hidden_layers": 2} | changed))
    return file


def run(llm: str | Path, tp: int | None = None, **settings: Any) -> Any:
    return pimloom.run("duplex", model=llm, prompt=3, generate=1, tp=tp, set=QUICK | settings)


@pytest.mark.parametrize(("tp", "near"), [(3, (2, 4)), (12, (8, 16)), (17, (16, 32)), (64, (32,))])
def test_devices_that_do_not_divide_the_heads_have_neighbours_that_do(tp: int, near: tuple[int, ...], tmp_path: Path):
    llm = model(tmp_path)
    said = f"tp={tp}: 32 heads .8 of keys. of mine do not come out even over {tp} devices; nearest: "
    with pytest.raises(UserError, match=f"{said}{' or '.join(map(str, near))}$"):
        run(llm, tp)
    assert [run(llm, n).tp for n in near] == list(near)


def test_experts_that_do_not_come_out_even_are_cut_instead(tmp_path: Path) -> None:
    llm = model(tmp_path, num_local_experts=6)
    said = "6 experts of mine: expected to come out even over 4 devices; set expert_tp=true, or nodes to 3"
    with pytest.raises(UserError, match=f"^{said}$"):
        run(llm, expert_tp=False)
    assert run(llm, expert_tp=True).nodes == 1 and run(llm, expert_tp=False, nodes=3).nodes == 3
    with pytest.raises(UserError, match="nodes: 6 experts of mine: .* over 16 devices; nearest: 3 or 6"):
        run(llm, expert_tp=False, nodes=4)  # which cut experts would not mend


@pytest.mark.parametrize(
    ("place", "near"),
    [
        ("device.part.one_buss", "one_bus"),
        ("device.part.timing.tFAWR", "timing.tFAW_R, "),
        ("device.part.timing.tFA", "timing.tFAW"),
    ],
)
def test_places_that_a_part_may_leave_out_are_near(place: str, near: str) -> None:
    with pytest.raises(UserError, match=rf"no such key in hbm3_duplex_5200.yaml; nearest: {near}"):
        load_system("duplex", {place: "1"})


def test_a_width_that_devices_do_not_divide_is_said(tmp_path: Path) -> None:
    odd = model(tmp_path, intermediate_size=14337)
    said = "mine: intermediate_size of its experts, 14,337 does not come out even over 4 devices; each takes 3,585"
    asked = ("--model", odd, "--prompt", "3", "--generate", "1")
    for options in (("run", "duplex", "--set", "memory=ideal"), ("run", "gpu_a100", "--tp", "4", "--batch", "1")):
        assert said in call(*options, *asked).err
    found = pimloom.compare(["gpu_a100", "gpu_h100"], model=odd, generate=1, tp=4)
    assert f"gpu_a100, gpu_h100: {said}." in found.notes


@pytest.mark.parametrize(
    ("system", "settings", "tp", "width", "told"),
    [
        ("duplex", {"expert_tp": "false"}, 4, 14337, False),  # experts are whole
        ("duplex", {"expert_tp": "false", "nodes": "3"}, 8, 14336, True),  # 24 devices for 8 experts: 3 share one
        ("duplex", {"expert_tp": "false", "nodes": "3"}, 8, 14337, False),
        ("duplex", {"arrangement": "hetero", "co_processing": "false"}, 2, 14337, False),  # one of each kind
        ("gpu_a100", {}, 2, 14337, True),
        ("gpu_a100", {}, 1, 14337, False),
        ("attacc", {}, 8, 14337, False),  # cuts by a rule of its own
    ],
)
def test_a_width_counts_only_where_it_is_cut(
    system: str, settings: dict[str, str], tp: int, width: int, told: bool, tmp_path: Path
) -> None:
    made, there = load_llm(str(model(tmp_path, intermediate_size=width))), load_system(system, settings)
    assert bool(padded_notes(there, made, tp)) == told
    assert padded_notes(there, load_llm("gpt2"), tp) == []  # 3,072 of all tokens


def test_one_way_to_write_numbers_in_a_table() -> None:
    done = call("compare", "pim_gpt,xeon_6154", "--model", "gpt2-xl", "--generate", "1", "--prompt", "2")
    assert done.code == 0 and "e+0" not in done.out
    (row,) = [
        line for line in done.out.splitlines() if "mJ" not in line and line.startswith(" xeon_6154") and "of" in line
    ]
    energy = float(row.split()[6].replace(",", ""))  # behind the sign of a bound
    assert energy >= 1e4 and f" ≤ {energy:,.0f} " in row


def test_keys_of_a_systems_device_are_explained() -> None:
    told = call("explain", "duplex").out
    for key in ("device.stacks", "device.logic_pim.macs", "device.energy.static_w", "expert_tp"):
        assert f" {key} " in told
        load_system("duplex", {key: {"expert_tp": "true", "device.energy.static_w": "1"}.get(key, "5")})
    assert " aim.channels " in call("explain", "cent").out and "device." not in call("explain", "gpu_a100").out


def test_an_empty_program_is_none(tmp_path: Path) -> None:
    file = tmp_path / "empty.aim"
    file.write_text("# nothing\n")
    done = call("aim", file)
    assert done.code == 2 and "empty.aim: the program is empty, expected lines such as AiM MAC_ABK" in done.err


def test_devices_are_said_once_to_all_commands() -> None:
    said = "--tp 8: --set devices says so, too; leave one of the two out"
    asked = ("duplex", "--model", "mixtral-8x7b", "--tp", "8", "--set", "devices=4")
    for done in (
        call("run", *asked, "--prompt", "3"),
        call("serve", *asked, "--arrivals", "poisson:4/s", "--requests", "2"),
    ):
        assert done.code == 2 and said in done.err


@pytest.mark.parametrize(("arrangement", "devices"), [("together", 6), ("hetero", 12), ("split", 12)])
def test_devices_that_hold_a_model_are_counted_in_all_pools(arrangement: str, devices: int) -> None:
    settings: dict[str, Any] = {"arrangement": arrangement, "co_processing": False}
    with pytest.raises(UserError, match=f"of each of 4 devices, .*; take {devices} .set=.'devices': '{devices}'..$"):
        run("gpt3-175b", **settings)
    assert run("gpt3-175b", **settings, devices=devices).devices == devices
    with pytest.raises(UserError, match="no room for keys and values|do not come out even"):
        run("gpt3-175b", **settings, devices=devices - 2)
