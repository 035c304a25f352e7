# amaranth: UnusedElaboratable=no
"""A PIM instruction set with other names runs through mapper, engine, oracle, energy, numbers and gates.

So nobody knows a command by its name; what is left that does is listed.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from pimloom.arch import standard
from pimloom.arch.command import Role
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.part import Part
from pimloom.arch.pim_system import EnergyMode
from pimloom.arch.system import load_part, load_system
from pimloom.arch.table import Table, bend, compile_table
from pimloom.energy.pim import command_energy_pj
from pimloom.mappers import gemv
from pimloom.mappers.geometry import geometry
from pimloom.mappers.layout import Packed, RowAligned
from pimloom.rtl.flow.channel import BF16, make_product, mismatches, run_product, shrink_banks
from pimloom.rtl.pim_channel import PimChannel
from pimloom.systems.devices.functional import Memory
from pimloom.systems.devices.simulate import simulate
from tests import naive, streams, toy_pim
from tests.oracle_run import difference
from tests.simulators import needs

ROOT = Path(__file__).parent.parent
GROUPS, BANKS = 2, 2


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Part:
    """The part; its table is found beside those of arch/pim."""
    shipped = standard._module
    monkeypatch.setattr(standard, "_module", lambda *file: toy_pim.STANDARD if file[1] == "toy" else shipped(*file))
    monkeypatch.setitem(naive.MACHINES, "toy", toy_pim.Toy)
    monkeypatch.setitem(streams.STANDARDS, "toy", ("gddr6", "toy"))
    return shrink_banks(toy_pim.toy_part(), GROUPS, BANKS)


HOST = (  # what no mapper sends, all in row 0
    "FANOUT DOT GATHER RD GATHER GATHER RD WR SPREAD WR FEED RD PREab ACT WRA FANOUT PREab ACT RDA FANOUT RD GATHER WR "
    "PREab FEED ACT PRE FANOUT SPREAD RD DOT PREab ACT FEED WR PRE"
)


def drawn(rng: Random, part: Part, table: Table) -> list[naive.Order]:
    """What the mapper makes of a few products and writes, in any order, and a host's commands before or behind."""
    geo, found = geometry(part, 1)._replace(rows=streams.ROWS), []
    w = Packed(geo, rng.randint(1, 2 * geo.row), rng.randint(1, 8))
    v = RowAligned(geo, rng.randint(1, geo.row), rng.randint(1, 4))
    for _ in range(rng.randint(1, 6)):
        token = rng.randrange(min(w.n_out, v.n_in))
        made = (
            gemv.product(table, w),
            gemv.weighted_sum(table, v, token + 1),
            gemv.write_k(table, w, token),
            gemv.write_v(table, v, token),
            gemv.write_columns(table, geo, [(rng.randrange(4), 0, rng.randrange(9), rng.randint(1, 9))]),
        )
        found += [naive.Order(table.names[row["cmd"]], *row.tolist()[1:9]) for row in rng.choice(made)]
    host = [naive.Order(name) for name in HOST.split()]
    return rng.choice((found, found + host, host + found))


def cases(part: Part, n: int) -> list[streams.Case]:
    rng, size = Random(7), (1, 1, GROUPS, BANKS)
    return [
        streams.Case("toy", size, streams.draw_clocks(rng, "toy"), [drawn(rng, part, compile_table(part))])
        for _ in range(n)
    ]


def test_mapper_and_engine_against_the_oracle_and_no_rule_sleeps(toy: Part) -> None:
    drawn_cases = cases(toy, 40)
    expected = [case.oracle() for case in drawn_cases]
    assert {want.error[0] for want in expected if want.error} <= {"starved"}
    assert [difference(case, want) for case, want in zip(drawn_cases, expected, strict=True)] == [None] * 40
    asleep = []
    first = len(standard.join_tables("gddr6", None).rules)
    for i, rule in enumerate(toy_pim.RULES, start=first):
        pairs = zip(drawn_cases, expected, strict=True)
        if not any(difference(case, want, bend(case.table(), i, 1)) for case, want in pairs):
            asleep.append(str(rule))
    assert asleep == []


def test_energy_by_role(toy: Part) -> None:
    """VDD x mA x ns of the part's data sheet: 1.25 V; 122, 142, 530, 470 mA; tCK 0.5 ns, a burst of 2 CK."""
    one = command_energy_pj(toy, EnergyMode(16, 3, True))
    read, burst_pj = 1.25 * (530 - 142), 256 * 5.5
    assert one["FANOUT"] == pytest.approx({"activate": 16 * 1.25 * 122 * (21 + 24) * 0.5})
    assert one["DOT"] == pytest.approx({"read": 3 * read * 1.0, "mac": 149.29 * 1.0})
    assert one["SPREAD"] == pytest.approx({"write": 1.25 * (470 - 142) * 1.0, "interface": burst_pj})
    assert one["FEED"] == one["GATHER"] == pytest.approx({"interface": burst_pj})


def test_a_whole_model_adds_up(toy: Part) -> None:
    """Conservation, energy and the monitor are checked in the run; values moved and columns read are as with AiM."""
    system, llm = load_system("pim_gpt"), load_llm("gpt2")
    part = toy_pim.toy_part()
    found = simulate(replace(system, part=part), llm, 3, check=True)
    aim = simulate(system, llm, 3)
    assert found.command_counts is not None and aim.command_counts is not None
    same = {"DOT": "MACab", "FEED": "WRGB", "GATHER": "RDMAC", "SPREAD": "WRAab", "FANOUT": "ACTab", "WR": "WR"}
    assert {ours: found.command_counts[ours] for ours in same} == {o: aim.command_counts[a] for o, a in same.items()}
    assert found.interface_bytes == aim.interface_bytes and found.row_hit_rate == aim.row_hit_rate
    assert found.energy_by_cause_j is not None and set(found.energy_by_cause_j) == set(aim.energy_by_cause_j or ())


@pytest.mark.parametrize("banks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_numbers_come_out_and_the_gates_agree(toy: Part, banks: int) -> None:
    rng, small = np.random.default_rng(3), msgspec.structs.replace(toy.organization, columns=8)
    part = shrink_banks(msgspec.structs.replace(toy, organization=small), banks, banks)
    w, x = rng.normal(size=(80, 3 * banks**2)).astype(BF16), rng.normal(size=80).astype(BF16)
    job, y = make_product(part, w, x), x.astype(float) @ w.astype(float)
    assert np.abs(job.results.astype(float).reshape(-1) - y).max() < 2**-8 * np.abs(y).max()
    assert mismatches(job, run_product(job, simulator=needs("icarus"))) == []


def test_a_value_for_each_bank_is_written_where_the_mapper_says(toy: Part) -> None:
    geo, table = geometry(toy, 1), compile_table(toy)
    v = RowAligned(geo, 20, 8)
    memory, values = Memory(table, geo, v.rows), np.arange(1, 9).reshape(2, 4).astype(BF16)
    memory.write_all_banks(gemv.write_v(table, v, 17), v.place(17, 0).lane, values)
    read = np.zeros((20, 8))
    for i in range(20):
        for j in range(8):
            read[i, j] = memory.cells[v.place(i, j)]
    assert read[17].tolist() == values.reshape(-1).tolist() and np.count_nonzero(read) == 8


@pytest.mark.parametrize("lacks", [Role.LOAD, Role.MULTIPLY, Role.RESULTS])
def test_a_part_that_lacks_a_role_is_refused(toy: Part, lacks: Role) -> None:
    table = compile_table(toy)
    kept = tuple(c._replace(role=Role.MODE) if c.role is lacks else c for c in table.commands)
    with pytest.raises(UserError, match=f"no command of this part {re.escape(lacks)} of a channel at once; it has ACT"):
        gemv.product(replace(table, commands=kept), Packed(geometry(toy, 1), 4, 4))


def test_newton_has_no_product_of_pim_gpt_and_no_gates(toy: Part) -> None:
    newton = load_part("hbm2_neupims", {"pim": "newton"}).value
    with pytest.raises(UserError, match="loads the next entry of the vector buffer from the pins of a channel"):
        gemv.instructions(compile_table(newton))
    gates = msgspec.structs.replace(toy, standard=newton.standard, pim="newton", timing=newton.timing)
    with pytest.raises(UserError, match="no path for what GWRITE does: it copies a row into the vector buffer"):
        PimChannel(gates)


# No command is typed outside its table.


ROOMS = [
    "arch", "cycle_sim", "energy", "mappers", "pimloom", "reports", "rtl", "sweeping", "systems", "verilog_tidy",
    "workload",
]  # fmt: skip
OWN = ("arch/pim/", "arch/dram/", "arch/foreign/")  # the tables; other tools' commands
PIM = ("aim", "newton", "neupims")
DRAM = ("ddr4", "ddr5", "gddr6", "gddr6_refpb", "hbm2", "hbm2_refpb", "hbm3", "lpddr5")
KERNELS = "the kernels' own names; places.py finds a part's command for each by its role"
CONTROLLERS = "memory controllers choose among JEDEC's commands, and their kernels have a place for each"
PROGRAMS = "machines of one standard: their programs are made of its commands, and their studies price each"
OF_ONE = ("arch/aim.py", "cycle_sim/aim/", "cycle_sim/attacc/", "energy/cent.py", "mappers/cent_layer.py")
LEFT = {
    "pim": {
        "cycle_sim/npu_pim/": KERNELS,
        "energy/attacc.py": PROGRAMS,
        "mappers/attacc/": PROGRAMS,
        "mappers/cent.py": PROGRAMS,
        "reports/attacc/": PROGRAMS,
        "systems/devices/attacc/data.py": PROGRAMS,
        "systems/devices/cent/pins.py": PROGRAMS,
        **dict.fromkeys(OF_ONE, PROGRAMS),
    },
    "dram": {
        "cycle_sim/npu_pim/": KERNELS,
        "cycle_sim/dram/kernels/": CONTROLLERS,
        "cycle_sim/memory/": CONTROLLERS,
        "systems/memory/": CONTROLLERS,
        "systems/devices/cent/": PROGRAMS,
        "systems/devices/duplex/": PROGRAMS,
        **dict.fromkeys(OF_ONE, PROGRAMS),
    },
}
NAMES = {
    folder: frozenset(command.name for name in names for command in standard._module(folder, name).commands)
    for folder, names in {"pim": PIM, "dram": DRAM}.items()
}


WORDS: dict[type[ast.AST], str] = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg"}


@cache
def phrases(text: str) -> list[tuple[int, list[str]]]:
    """Words of each identifier and each string of a program."""
    found = []
    for node in ast.walk(ast.parse(text)):
        said = node.value if isinstance(node, ast.Constant) else getattr(node, WORDS.get(type(node), ""), None)
        words = re.findall(r"\w+", said) if isinstance(said, str) else []
        found += [(getattr(node, "lineno", 0), words)] if words else []
    return found


def typed(text: str, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Where a program names a command: identifiers, and strings of nothing else. Sentences may."""
    for line, words in phrases(text) if names.intersection(re.findall(r"\w+", text)) else ():
        if names.issuperset(words):
            yield line, " ".join(words)


@pytest.mark.parametrize("folder", NAMES)
def test_no_command_is_typed_outside_its_table(folder: str) -> None:
    found: dict[str, list[str]] = {}
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        file = path.relative_to(ROOT).as_posix()
        found[file] = [f"{file}:{line}: {said}" for line, said in typed(path.read_text(), NAMES[folder])]
    left = LEFT[folder]
    elsewhere = [said for file, all_said in found.items() if not file.startswith((*OWN, *left)) for said in all_said]
    assert not elsewhere, "\n".join(elsewhere)
    for place in (f"arch/{folder}/", *left):
        assert any(said for file, said in found.items() if file.startswith(place)), f"{place}: take it off the list"


def test_names_are_found_alone_but_not_in_sentences() -> None:
    lines = 'x = f.COMP\n"MACab"\n"ACTab TMOD"\nf(PIM_GEMV=1)\n"a COMP of one bank"\n"COMPLETE"'
    assert sorted(line for line, _ in typed(lines, NAMES["pim"])) == [1, 2, 3, 4]
