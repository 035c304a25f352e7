"""AiM's DMA, controllers and rules against a machine that ticks, written from their words."""

import itertools
import json
import tracemalloc
from random import Random

import numpy as np
import pytest

from pimloom.arch.aim import COMMANDS, MASK, ROW
from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.cycle_sim.aim import simulate as aim
from pimloom.cycle_sim.aim.kernels import state
from pimloom.cycle_sim.aim.simulate import Found, Queues, simulate
from pimloom.systems.memory.aim import trace_file
from pimloom.systems.memory.aim.instruction_line import Shape
from pimloom.systems.memory.aim.trace_file import parse_program
from tests import naive_aim
from tests.aim_programs import EVERY_INSTRUCTION, draw_program
from tests.command import call
from tests.slow import slow

NAMES = {  # timings of the oracle, and ours that follow each
    "CL": ("nCL",), "RCDRD": ("tRCDRD",), "RCDMAC": ("tRCDMAC", "tRCDMACsb"), "RCDEWMUL": ("tRCDEWMUL",),
    "RCDAF": ("tRCDAF",), "RCDCP": ("tRCDCP",), "RCDWR": ("tRCDWR",), "RCDWRCP": ("tRCDWRCP",),
    "RP": ("tRP", "nPREPRE"), "RAS": ("tRAS",), "RC": ("tRC",), "WR": ("tWR",), "RTP": ("tRTP",), "CWL": ("nCWL",),
    "CCDS": ("tCCD_S", "nCCD"), "CCDL": ("tCCD_L", "nCCDab", "nMACRES", "nRESMAC"), "RRDS": ("tRRD_S",),
    "RRDL": ("tRRD_L",), "WTRS": ("tWTR_S",), "WTRL": ("tWTR_L",), "MOD": ("nMODCH",), "CLREG": ("nCLREG", "nCLAF"),
    "CWLREG": ("nCWLREG",), "CWLGB": ("nCWLGB",), "RFC": ("tRFC",), "REFI": ("tREFI",),
}  # fmt: skip
QUEUES = Queues(33, 26, 7)
SHAPE = Shape(4, 16, 16384, 64, 2048)
TWO = SHAPE._replace(channels=2)


def draw_timings(rng: Random) -> dict[str, int]:
    """Half of them drawn, within what a part may have."""
    t = dict(naive_aim.T)
    for name in NAMES:
        if rng.random() < 0.5:
            t[name] = rng.randint(1, rng.choice((3, 12, 60)))
    t["WTRL"] = min(t["WTRL"], t["WR"] + t["RP"])
    for name in ("WTR", "RRD", "CCD"):
        t[f"{name}S"] = min(t[f"{name}S"], t[f"{name}L"])
    t["CWL"], t["CWLGB"] = min(t["CWL"], t["CL"] + 5), min(t["CWLGB"], t["CLREG"] + 5)
    t["RFC"], t["REFI"] = min(t["RFC"], 60), rng.choice((400, 900, 7800))
    t["RC"] = max(t["RC"], t["RAS"] + t["RP"], t["RRDL"])
    return t


def part_of(t: dict[str, int]):
    timing = {f"timing.{ours}": f"{t[name]} nCK" for name, every in NAMES.items() for ours in every}
    timing["timing.nRTW"] = f"{t['CL'] + t['BL'] + 3 - t['CWL'] + t['WPRE']} nCK"
    timing["timing.nRTWREG"] = f"{t['CLREG'] + t['BL'] + 3 - t['CWLGB'] + t['WPRE']} nCK"
    return load_part("gddr6_aim_isr", timing).value


def ours(lines: list[str], part, channels: int, queues: Queues = QUEUES):
    log: list[np.ndarray] = []
    program = parse_program("\n".join(lines), SHAPE._replace(channels=channels))
    try:
        found = simulate(part, channels, queues, program.rows, log.append)
    except UserError as error:
        assert "stands still" in str(error)
        with pytest.raises(UserError) as unwatched:
            simulate(part, channels, queues, program.rows)
        assert str(unwatched.value) == str(error)
        return None, [], []
    assert same(simulate(part, channels, queues, program.rows), found)
    rows = np.concatenate(log).tolist()
    commands = [
        [(at, COMMANDS[op], bank, row) for at, where, op, bank, row in rows if where == c] for c in range(channels)
    ]
    return found.cycles, commands, found.left.tolist()


def same(a: Found, b: Found) -> bool:
    return all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True))


def theirs(lines: list[str], t: dict[str, int], channels: int, refresh: bool = False):
    cycles, every = naive_aim.run(lines, t, channels, refresh)
    commands = [[(at, {"PREA": "PREab"}.get(n, n), bank, row) for at, n, bank, row in c.log] for c in every]
    return (cycles, commands, [len(c.active) for c in every]) if cycles else (None, [], [])


@pytest.mark.parametrize("chunk", [0, *map(slow, range(1, 58))])
def test_random_programs(chunk: int) -> None:
    """Every command of every channel at its clock, with the part's timings and with others."""
    for seed in range(28 * chunk, 28 * chunk + 28):
        rng = Random(f"aim {seed}")
        channels = rng.choice((1, 1, 2, 3, 4))
        lines, t = draw_program(rng, channels), draw_timings(rng) if seed % 2 else naive_aim.T
        try:
            expected = theirs(lines, t, channels)
        except TimeoutError:  # more clocks than the oracle has time for
            continue
        assert ours(lines, part_of(t), channels) == expected, seed


@pytest.mark.parametrize("chunk", [0, *map(slow, range(1, 43))])
def test_random_programs_with_refresh(chunk: int) -> None:
    refreshed = 0
    for seed in range(21 * chunk, 21 * chunk + 21):
        rng = Random(f"aim refresh {seed}")
        channels = rng.choice((1, 1, 2, 3))
        lines, t = [], draw_timings(rng)
        for _ in range(rng.choice((1, 3, 6))):
            lines += draw_program(rng, channels)[:-1]
        try:
            expected = theirs([*lines, "AiM EOC"], t, channels, refresh=True)
        except TimeoutError:
            continue
        found = ours([*lines, "AiM EOC"], part_of(t), channels, QUEUES._replace(refresh=True))
        assert found == expected, seed
        refreshed += sum(name == "REFab" for channel in found[1] for _, name, _, _ in channel)
    assert refreshed > 20


@pytest.mark.parametrize("chunk", [0, *map(slow, range(1, 40))])
def test_channels_ahead_of_the_host_with_queues_of_any_size(chunk: int) -> None:
    """Equal requests in one step, as where somebody watches each command (`ours`)."""
    for seed in range(25 * chunk, 25 * chunk + 25):
        rng = Random(f"aim ahead {seed}")
        channels, t, lines = rng.choice((1, 2, 3, 4)), draw_timings(rng), list[str]()
        for _ in range(rng.choice((1, 2, 5))):
            lines += draw_program(rng, channels)[:-1]
        entries = rng.choice((1, 2, 3, 5, 16, 33, 70, 200))
        drain_from = rng.randint(1, entries)
        queues = Queues(entries, drain_from, rng.randint(1, drain_from), rng.random() < 0.5)
        ours([*lines, "AiM EOC"], part_of(t), channels, queues)


def test_rows_that_open_and_close_for_ever_are_told() -> None:
    part = load_part("gddr6_aim_isr", {"timing.tRAS": "4 nCK", "timing.tRC": "200 nCK"}).value
    program = parse_program("R MEM 0 0 3\nAiM MAC_ABK 8 1 0\nAiM EOC", TWO._replace(channels=1))
    with pytest.raises(UserError, match="instruction 3: channel 0 stands still: a row is opened for one request"):
        simulate(part, 1, QUEUES, program.rows)


def test_rows_that_open_and_close_until_a_refresh_come_to_an_end() -> None:
    timing = {"timing.tRAS": "4 nCK", "timing.tREFI": "4000000 nCK"}
    program = parse_program("R MEM 0 0 3\nAiM MAC_ABK 8 1 0\nAiM EOC", TWO._replace(channels=1))
    found = simulate(load_part("gddr6_aim_isr", timing).value, 1, QUEUES._replace(refresh=True), program.rows)
    assert 4_000_000 < found.cycles < 4_000_500
    assert {name: found.counts[0][name] for name in ("RD", "MAC16", "REFab")} == {"RD": 1, "MAC16": 8, "REFab": 1}


@pytest.mark.parametrize("watch", [None, lambda log: None])
def test_the_instruction_that_is_told_does_not_depend_on_channels_ahead(watch) -> None:
    part = load_part("gddr6_aim_isr", {"timing.tRAS": "4 nCK"}).value
    busy = "AiM MAC_ABK 1000000 1 0\n" * 3
    program = parse_program(f"R MEM 0 0 3\nAiM MAC_ABK 8 2 0\n{busy}AiM EOC", TWO)
    with pytest.raises(UserError, match="instruction 4: channel 0 stands still: a row is opened"):
        simulate(part, 2, QUEUES, program.rows, watch)


def test_lines_without_an_instruction_take_no_memory() -> None:
    tracemalloc.start()
    pieces = itertools.chain(([f"# clock {i} of the trace"] for i in range(5000)), [["AiM EOC"]])
    assert trace_file._program("p", pieces, SHAPE).rows.shape == (1, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_every_instruction_once() -> None:
    cycles, every = naive_aim.run(EVERY_INSTRUCTION)
    found, commands, _ = ours(EVERY_INSTRUCTION, load_part("gddr6_aim_isr").value, 32)
    assert found == cycles == 689 and [len(c) for c in commands] == [sum(c.counts.values()) for c in every]


def test_refresh_that_leaves_no_time_is_told() -> None:
    part = load_part("gddr6_aim_isr", {"timing.tREFI": "60 nCK", "timing.tRFC": "20 nCK"}).value
    with pytest.raises(UserError, match="expected time to serve a request between refreshes of channel 1"):
        simulate(part, 2, QUEUES._replace(refresh=True), parse_program("AiM MAC_ABK 8 1 0\nAiM EOC", TWO).rows)


@pytest.mark.parametrize("field", Queues._fields[:3])
def test_each_size_of_the_queues_decides_something(field: str) -> None:
    lines = [f"{'R' if i < 20 else 'W'} MEM 0 {i % 16} {i * 7 % 5}" for i in range(60)] + ["AiM EOC"]
    part = load_part("gddr6_aim_isr").value
    other = QUEUES._replace(**{field: getattr(QUEUES, field) // 3})
    assert ours(lines, part, 1, other) != ours(lines, part, 1)


@pytest.mark.parametrize("seed", range(6))
def test_channels_in_the_same_masks_are_simulated_once(seed: int, monkeypatch) -> None:
    part, rng, sizes = load_part("gddr6_aim_isr").value, Random(f"alike {seed}"), list[int]()
    rows = parse_program("\n".join(draw_program(rng, 3)), SHAPE._replace(channels=3)).rows
    kinds = [*range(3), *(rng.randrange(3) for _ in range(6))]
    rng.shuffle(kinds)
    many = rows.copy()
    for row, mask in zip(many, rows[:, MASK], strict=True):
        row[MASK] = sum((mask >> (2 - kind) & 1) << (8 - c) for c, kind in enumerate(kinds))
    watched = simulate(part, 9, QUEUES, many, lambda log: None)
    state_of = aim._state

    def counted(part, channels, queues):
        sizes.append(channels)
        return state_of(part, channels, queues)

    monkeypatch.setattr(aim, "_state", counted)
    found, few = simulate(part, 9, QUEUES, many), simulate(part, 3, QUEUES, rows)
    assert same(found, watched) and max(sizes) <= 3
    assert found.cycles == few.cycles and found.counts == tuple(few.counts[kind] for kind in kinds)


def test_a_log_that_fills_changes_nothing(monkeypatch) -> None:
    part, rng = load_part("gddr6_aim_isr").value, Random("log")
    lines = draw_program(rng, 4)
    whole = ours(lines, part, 4)
    monkeypatch.setattr("pimloom.cycle_sim.aim.simulate.LOG", 7)
    monkeypatch.setattr("pimloom.cycle_sim.aim.simulate.PIECE", 3)
    assert ours(lines, part, 4) == whole


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("AiM MAC_ABK 64 0xff", "MAC_ABK: expected operands opsize mask row, got 2: 64 0xff"),
        ("AiM MAC_ABK 64 0x10 0", "MAC_ABK: expected a mask of some of 4 channels, 0x1 to 0xf, got 0x10"),
        ("AiM MAC_ABK 64 0 0", "MAC_ABK: expected a mask of some of 4 channels, 0x1 to 0xf, got 0x0"),
        ("AiM MAC_ABK 64 15 16384", "MAC_ABK: expected a row from 0 to 16383, got 16384"),
        ("AiM MAC_ABK 0 15 0", "MAC_ABK: expected an opsize from 1 to 1048576, got 0"),
        ("AiM MAC_SBK 1 15 16 0", "MAC_SBK: expected a bank from 0 to 15, got 16"),
        ("AiM WR_ABK 0 3 5", "WR_ABK: expected a mask of one channel, got 0x3"),
        ("AiM SYNC 1", "SYNC: expected no operands, got 1: 1"),
        ("AiM MACABK 1 1 1", "unknown instruction 'MACABK'; nearest: MAC_ABK"),
        ("AiM WR_GB x 0 15", "WR_GB: expected a number for opsize, got 'x'"),
        ("AiM WR_GB -1 0 15", "WR_GB: expected an opsize from 1 to 1048576, got -1"),
        ("AiM MAC_ABK 64 15 -3", "MAC_ABK: expected a row from 0 to 16383, got -3"),
        ("AiM MAC_ABK 64 15 " + "9" * 30, f"MAC_ABK: expected a row from 0 to 16383, got {'9' * 30}"),
        ("AiM MAC_ABK 64 15 " + "9" * 99, "MAC_ABK: expected a number of at most 40 digits for row, got 9999"),
        ("AiM WR_BIAS 2048 15", "WR_BIAS: expected a gpr from 0 to 2047, got 2048"),
        ("AiM EWADD 1 2048 0", "EWADD: expected a gpr from 0 to 2047, got 2048"),
        ("AiM RD_MAC 2047 3", "RD_MAC: expected registers below 2048, got 2047 to 2048"),  # a register a channel
        ("AiM WR_GB 65 1984 15", "WR_GB: expected registers below 2048, got 1984 to 2048"),  # one a column
        ("AiM EWADD 2 0 2047", "EWADD: expected registers below 2048, got 2047 to 2048"),
        ("R GPR 4000", "R GPR: expected a gpr from 0 to 2047, got 4000"),
        ("W CFR 0 -1", "W CFR 0: expected a value from 0 to 1, got -1"),
        ("AiM", "AiM: expected an instruction behind it: WR_SBK"),
        ("R MEM 4 0 0", "R MEM: expected a channel from 0 to 3, got 4"),
        ("W MEM 0 0", "W MEM: expected operands channel bank row, got 2: 0 0"),
        ("W CFR 3 0", "W CFR: there is no register 3; expected 0, 1, 2"),
        ("W CFR 2 8", "W CFR 2: expected a value from 0 to 7, got 8"),
        ("W ROM 1", "expected MEM, GPR or CFR behind W, got 'ROM'"),
        ("LD 0x40", "expected R, W or AiM, got 'LD'"),
    ],
)
def test_a_wrong_line_is_one_sentence_with_its_place(line: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_program(f"# comment\n\n{line}\nAiM EOC\n", SHAPE)
    assert str(error.value).startswith(f"the program:3: {said}")


def test_forms_of_a_line() -> None:
    rows = parse_program("AiM,MAC_ABK,64,0xf,7,\n,AiM,ISR_MAC_ABK,64,15,7 # the same\nAiM EOC", SHAPE).rows
    assert rows[0].tolist() == rows[1].tolist() == [state.MAC16, 64, 15, -1, 7]


def test_a_function_has_a_row_of_its_own() -> None:
    text = "AiM AF 1\nW CFR 2 3\nAiM AF 1\nW CFR 2 0\nAiM AF 1\nW CFR 2 3\nAiM AF 1\nAiM EOC"
    rows = parse_program(text, SHAPE).rows
    assert rows[rows[:, 0] == state.AF16, ROW].tolist() == [2**29 + f for f in (0, 3, 0, 3)]


def test_without_an_end_and_behind_it() -> None:
    for text, said in (("", "the program is empty"), ("W GPR 0\n", "ends without AiM EOC")):
        with pytest.raises(UserError, match=said):
            parse_program(text, SHAPE)
    assert parse_program("AiM EOC\nW GPR 0\n# no\nAiM SYNC\n", SHAPE).unread == 2
    with pytest.raises(UserError, match="the program:3: expected R, W or AiM, got 'nonsense'"):
        parse_program("AiM EOC\nW GPR 0\nnonsense\n", SHAPE)


def test_a_read_that_the_end_cuts_off_is_told(tmp_path) -> None:
    file = tmp_path / "p.aim"
    for n, cycles, said in ((1, 3, "channel 2 ends while 1 read or write has a row open"), (2, 92, "")):
        file.write_text("R MEM 2 0 5\n" * n + "AiM EOC\n")
        found = json.loads(call("aim", file, "--json", "-", "--quiet").out)
        assert (found["cycles"], len(found["warnings"])) == (cycles, 2 - n)
        assert "".join(found["warnings"]).startswith(said)


def test_the_command(tmp_path) -> None:
    file, log = tmp_path / "p.aim", tmp_path / "c.csv"
    file.write_text("\n".join(EVERY_INSTRUCTION))
    found = call("aim", file, "--json", "-", "--channel", "31", "--commands", log, "--quiet")
    plain = json.loads(found.out)
    assert (found.code, plain["cycles"], plain["commands"]["PREA"]) == (0, 689, 2)
    lines = log.read_text().splitlines()
    assert lines[0] == "cycle,channel,command,bank,row" and len(lines) - 1 == sum(plain["commands_of_all"].values())
    assert plain["active_cycles"] + plain["precharged_cycles"] == 689
    other = json.loads(call("aim", file, "--json", "-", "--set", "dram.timing.nMODCH=40 nCK", "--quiet").out)
    assert other["cycles"] > 689 and other["spec_digest"] != plain["spec_digest"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--config", "gddr6_aim2"), "unknown aim_device 'gddr6_aim2'; nearest: gddr6_aim; known"),
        (("--channel", "32"), "--channel 32: expected a channel from 0 to 31"),
        (("--set", "channels=0"), "--set channels: "),
        (("--set", "part=gddr6_14000"), "expected a part with all commands of AiM, as gddr6_aim_isr; it lacks ACT16"),
        (("--set", "dram.timing.tRPX=3 nCK"), "--set dram.timing.tRPX: "),
        (("--set", "drain_below=27"), "drain_below: expected at most drain_from = 26, got 27"),
        (("--commands", "-"), "--commands -: expected a file"),
        (("--commands", "c.txt"), "--commands c.txt: it is CSV; expected a name that ends in .csv"),
        (("--data", "d.npy"), "--data d.npy: expected --read FILE, too"),
        (("--data", "p.aim", "--read", "r.npy"), "--data p.aim: no such file; expected a .npy file of numbers[n, 16]"),
        (("--set", "refresh=sometimes"), "--set refresh: "),
    ],
)
def test_what_is_refused(tmp_path, options, said) -> None:
    file = tmp_path / "p.aim"
    file.write_text("AiM EOC\n")
    found = call("aim", file, *options)
    assert found.code == 2 and found.out == "" and said in found.err and found.err.count("\n") == 1
