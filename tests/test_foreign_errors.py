"""What the readers of DRAMsim3's and Ramulator 2.1's configurations warn of, and what they refuse, word for word."""

from pathlib import Path

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.foreign.dramsim3 import load_dramsim3
from tests.foreign import INI, YAML, changed, ini, ramulator
from tests.reference_data import needed


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("tRTP = 12", "tRTP_L = 12", "25: DRAMsim3 does not read [timing] tRTP_L: tRTP is 5"),
        ("tRTP = 12", "REFI = 7", "25: DRAMsim3 does not read [timing] REFI; nearest: tREFI, tREFIb"),
        ("VDD = 1.2", "IPP0 = 3", "31: DRAMsim3 does not read [power] IPP0: VPP takes no energy"),
        ("VDD = 1.2", "tRP = 3", "31: DRAMsim3 does not read [power] tRP, but [timing] tRP"),
        ("tRTP = 12", "tRC = 80", "25: DRAMsim3 does not read [timing] tRC: it is tRAS + tRP = 74"),
        ("tRTP = 12", "tCKE = 6", "25: tCKE has no effect in DRAMsim3: there is no power-down"),
        ("tRCD = 22", "tRCDRD = 22", "14: tRCDRD has no effect in DRAMsim3: DDR4 takes tRCD = 10"),
        ("VDD = 1.2", "[Thermal]\nx = 1\ny = 1", "32: [thermal] has no effect: temperatures are not modelled"),
        (
            "bankgroups = 4",
            "bankgroups = 1",
            "27: tCCD_L has no effect in DRAMsim3: with one bank group tCCD_S = 4 holds",
        ),
        ("tFAW = 34", "tFAW = 12", "23: tFAW = 12 never binds: four tRRD_S take 16"),
        (
            "tWTR_L = 12",
            "tWTR_L = 3",
            "22: tWTR_L = 3 is less than tWTR_S = 4: banks of one group would be the faster ones",
        ),
        ("tCK = 0.63", "tCK = 0.8335", "11: tCK = 0.8335 ns is rounded to 834 ps; cycles do not change, times do"),
        ("16384", "4096", "35: channel_size = 4096 becomes 8192 MB: a rank is larger"),
        ("16384", "17000", "35: channel_size = 17000 becomes 16384 MB: 2 whole ranks"),
        (
            "cmd_queue_size = 8",
            "refresh_policy = RANK_LEVEL_SIMULTANEOUS",
            "38: RANK_LEVEL_SIMULTANEOUS: DRAMsim3 refreshes the first of 2 ranks only",
        ),
    ],
)
def test_dramsim3_says_what_the_tool_ignores_and_replaces(old, new, line):
    assert f"a.ini:{line}" in ini(changed(INI, old, new)).warnings


@pytest.mark.parametrize(
    ("old", "new", "line", "clocks"),
    [  # of INIReader: strtol and strtod, a default where they find no number, the first of several values
        ("tRP = 22", "tRP = 2.5", "15: tRP = 2.5: DRAMsim3 reads 2", {"tRP": 2}),
        ("tRP = 22", "tRP = 22 CK", "15: tRP = 22 CK: DRAMsim3 reads 22", {"tRP": 22}),
        ("tRP = 22", "tRP = 010", "15: tRP = 010: DRAMsim3 reads 8", {"tRP": 8}),
        ("tRP = 22", "tRP = 0x10", "15: tRP = 0x10: DRAMsim3 reads 16", {"tRP": 16}),
        ("tRP = 22", "tRP =", "15: tRP has no value; DRAMsim3 takes its default, 10", {"tRP": 10}),
        ("tRP = 22", "tRP = ; clocks", "15: tRP has no value; DRAMsim3 takes its default, 10", {"tRP": 10}),
        ("tRP = 22", "TRCD = 3", "15: TRCD is given twice; DRAMsim3 takes 22, of line 14", {"tRCD": 22, "tRP": 10}),
        ("tRP = 22", " tRP = 3", "15: an indented line continues the value above it; DRAMsim3 takes 22, of line 14",
         {"tRCD": 22, "tRP": 10}),
        ("tCK = 0.63", "tCK = 0.666 (1/1.5)", "11: tCK = 0.666 (1/1.5): DRAMsim3 reads 0.666", {}),
    ],
)  # fmt: skip
def test_dramsim3_takes_what_the_tool_takes(old, new, line, clocks):
    found = ini(changed(INI, old, new))
    assert f"a.ini:{line}" in found.warnings
    assert {name: found.clocks[name] for name in clocks} == clocks and found.tCK_ps == (666 if "666" in new else 630)


def test_dramsim3_files_of_the_tool_load():
    """GDDR5X_8Gb_x32 and HBM_4Gb_x128 as DRAMsim3 itself runs them: tCK of 0.666, tRFC of its default."""
    folder = needed("cases/10_dramsim3_ini")
    found = {name: load_dramsim3(folder / f"{name}.ini") for name in ("GDDR5X_8Gb_x32", "HBM_4Gb_x128")}
    assert found["GDDR5X_8Gb_x32"].tCK_ps == 666 and found["HBM_4Gb_x128"].clocks["tRFC"] == 74
    assert any("tRFC has no value; DRAMsim3 takes its default, 74" in each for each in found["HBM_4Gb_x128"].warnings)


@pytest.mark.parametrize("wl", [49, 50, 60])
def test_dramsim3_warns_of_a_wait_that_may_end_before_clock_0(wl):
    """A write waits CL + burst + tRTRS - CWL = 27 - CWL for a read, which comes tRCD = 22 behind an ACT."""
    wrapped = "a wait of {} CK between reads and writes is none; in DRAMsim3 one that ends before clock 0 never ends"
    said = [f"a.ini:13: CWL: {wrapped.format(27 - wl)}"]
    assert [w for w in ini(changed(INI, "CWL = 16", f"CWL = {wl}")).warnings if "CWL" in w] == (said if wl > 49 else [])


def test_dramsim3_warns_of_defaults_without_a_line():
    said = "a.ini: channel_size = 1024 becomes 8192 MB: a rank is larger"
    assert said in ini(changed(INI, "channel_size = 16384", "")).warnings


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (INI, " \n", ": the file is empty"),
        ("[dram_structure]", "", ":2: protocol stands before the first [section]"),
        ("[timing]", "[timing", ":10: expected [section], got [timing"),
        ("tCK = 0.63", "tCK", ":11: expected key = value, got tCK"),
        ("tCK = 0.63", "tCK = nan", ":11: [timing] tCK: expected number >= 0.01 and <= 1000, got nan"),
        ("tRP = 22", "tRP = x22", ":15: [timing] tRP: expected int >= 0 and <= 10000000, got x22"),
        ("rows = 65536", "rows = 6", ":5: [dram_structure] rows: expected a power of two >= 1 and <= 16777216, got 6"),
        ("BL = 8", "BL = 0", ":8: [dram_structure] BL: expected a power of two >= 2 and <= 256, got 0"),
        ("16384", "24576", ":35: [system] channel_size: expected a power of two of ranks of 8192 MB, got 24576"),
        (
            "rochrababgco",
            "rorabgco",
            ":37: [system] address_mapping: expected each of ch, ra, bg, ba, ro, co once, most significant first, "
            "got rorabgco",
        ),
        (
            "tREFI = 12480",
            "tREFI = 560",
            ":18: [timing] tREFI: expected more than tRFC = 560: a rank would do nothing but refresh, got 560",
        ),
        (
            "cmd_queue_size = 8",
            "queue_structure = PER_BANKS",
            ":38: [system] queue_structure: expected one of PER_BANK, PER_RANK, got PER_BANKS; "
            "nearest: PER_BANK, PER_RANK",
        ),
        (
            "protocol = DDR4",
            "protocol = HMC",
            ":2: [dram_structure] protocol: expected one of DDR3, DDR4, GDDR5, GDDR5X, GDDR6, LPDDR, LPDDR3, LPDDR4, "
            "HBM, HBM2 (HMC is not supported), got HMC",
        ),
        (
            "protocol = DDR4",
            "",
            ": [dram_structure] protocol: expected one of DDR3, DDR4, GDDR5, GDDR5X, GDDR6, LPDDR, LPDDR3, LPDDR4, "
            "HBM, HBM2; it is missing",
        ),
    ],
)
def test_dramsim3_bad_files_are_one_line(old, new, line):
    with pytest.raises(UserError) as error:
        ini(changed(INI, old, new))
    assert str(error.value) == f"a.ini{line}"


AT = "at $.memory_system.controllers[0]"
EXPORT = "export the configuration first: python -m ramulator export SCRIPT.py -o FILE.yaml"
CONTROLLER = YAML[YAML.index("    - impl: GenericDDR") :]
RULE = "[1, [0], [0], 34, 4]"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("impl: External", "impl: SimpleO3", "2: frontend SimpleO3 has no effect: requests come from elsewhere"),
        ("1\nmem", "8\nmem", "6: clock_ratio has no effect: requests arrive in clocks of the memory"),
        ("1568", "8", "16: priority_buffer_size has no effect: upkeep is never refused"),
        ("debug: false", "debug: true", "22: debug has no effect"),
        ("ClosedCAP", "Open", "25: cap has no effect: row_policy is Open"),
        ("read_latency: 26", "read_latency: 27", "36: read_latency = 27 holds, not nCL + nBL = 26"),
        (
            "plugins: []",
            "plugins: [{impl: CmdTraceRecorder}]",
            "42: CmdTraceRecorder has no effect: it writes no file here",
        ),
    ],
)
def test_ramulator_says_what_has_no_effect(old, new, line):
    assert ramulator(changed(YAML, old, new)).warnings == (f"a.yaml:{line}",)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "impl: GenericDDR",
            "impl: HBM34",
            f"11: {AT}.impl: expected one of GenericDDR, HBM12, got HBM34; nearest: HBM12",
        ),
        ("impl: GenericDDR", "impl: HBM12", f"11: {AT}.impl: expected GenericDDR for DDR4, got HBM12"),
        ("FRFCFS-RowHit", "BLISS", f"18: {AT}.scheduler.impl: expected one of FRFCFS, FRFCFS-RowHit, got BLISS"),
        ("AllBank", "PerBank", f"20: {AT}.refresh_manager.impl: expected one of AllBank, NoRefresh, got PerBank"),
        ("interval: 0", "interval: 9", f"21: {AT}.refresh_manager.scatter_interval: expected one of 0, got 9"),
        ("RoBaRaCoCh", "DirectMapper", f"27: {AT}.addr_mapper.impl: expected one of RoBaRaCoCh, got DirectMapper"),
        (
            "plugins: []",
            "plugins: [{impl: PARA}]",
            f"42: {AT}.controller_plugins[0].impl: expected one of CmdTraceRecorder, got PARA",
        ),
        (
            "watermark: 0.2",
            "watermark: 0.9",
            f"12: {AT}.wr_low_watermark: expected at most wr_high_watermark = 0.8, got 0.9",
        ),
        ("e: 16", "e: 0", f"14: {AT}.read_buffer_size: expected int >= 1 and <= 4096, got 0"),
        ("[1, 2, 4", "[2, 2, 4", f"32: {AT}.dram.org.count[0]: expected 1: a controller drives one channel"),
        ("[1, 2, 4", "[1, 3, 4", f"32: {AT}.dram.org.count[1]: expected a power of two, got 3"),
        ("[1, 2, 4", "[1, 2", f"32: {AT}.dram.org.count: expected channel, rank, bank_group, bank, row, column, got 5"),
        ("[1, 2, 4", "[1, 512, 4", f"32: {AT}.dram.org.count: expected at most 4096 banks in a channel, got 8192"),
        (
            "12480, 2",
            "500, 2",
            f"33: {AT}.dram.timing[18]: expected nREFI above nRFC = 576, got 500: refresh would never end",
        ),
        ("width: 64", "width: 48", f"35: {AT}.dram.channel_width: expected a power of two, got 48"),
        (RULE, "[4, [0], [0], 34]", f"39: {AT}.dram.timing_constraints[1]: expected a level >= 0 and <= 3, got 4"),
        (RULE, "[1, [0], [8], 34]", f"39: {AT}.dram.timing_constraints[1]: expected commands >= 0 and <= 7, got 8"),
        (RULE, "[3, [0], [2], 52]", f"39: {AT}.dram.timing_constraints[1]: PREab acts on a rank, not on a bank"),
        (
            RULE,
            "[1, [0], 0, 34]",
            f"39: {AT}.dram.timing_constraints[1]: expected [level, [previous], [next], clocks, window, sibling], "
            "got [1, [0], 0, 34]",
        ),
        ("timing_constraints", "constraints", f"28: {AT}.dram: no timing_constraints; {EXPORT}"),
        (
            "memory_system",
            "MemorySystem",
            f"4: MemorySystem belongs to Ramulator 2.0, expected a file of 2.1; {EXPORT}",
        ),
        (
            CONTROLLER,
            CONTROLLER + CONTROLLER.replace("size: 16", "size: 17"),
            "43: at $.memory_system.controllers[1]: expected the same as controllers[0]: channels are equal here",
        ),
        (
            CONTROLLER,
            3 * CONTROLLER,
            "10: at $.memory_system.controllers: expected a power of two of controllers, got 3",
        ),
    ],
)
def test_ramulator_bad_files_are_one_line(old, new, line):
    with pytest.raises(UserError) as error:
        ramulator(changed(YAML, old, new))
    assert str(error.value) == f"a.yaml:{line}"


def test_ramulator_names_the_nearest_key():
    with pytest.raises(UserError, match=r"^a.yaml:14: .*unknown key 'read_bufer_size', .*; nearest: read_buffer_size"):
        ramulator(changed(YAML, "read_buffer_size", "read_bufer_size"))
