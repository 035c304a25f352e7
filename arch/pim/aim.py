"""AiM-style PIM commands for GDDR6: all banks of a channel activate, multiply-accumulate and close together.

Rows appended to `gddr6`. AiM's names are ACT16, MAC16, PREA (our PREab), WRA16, WRGB, RDMAC16, WRMAC16, TMOD.
Rules [secondary AIM]: arkhadem/aim_simulator@0f28a07, `src/dram/impl/GDDR6.cpp`, restated; checked against its
measured cycle counts in `tests/test_aim_golden.py`. Waits count CK.
"""

from pimloom.arch.command import Command, Level, Role, Row, Rule, Standard

CHANNEL = Level.CHANNEL
ANY, OPEN, CLOSED = Row

TIMINGS = {
    "tRCDMAC": "ACTab to MACab",
    "nCLREG": "RDMAC to first data",
    "nCWLREG": "WRMAC to first data",
    "nCWLGB": "WRGB to first data",
    "nRTWREG": "RDMAC to WRGB, data bus turn-around; other writes the same pause on the pins",
    "nGBACT": "last WRGB to the ACTab that may use the buffer",
    "nPREIO": "PREab to WRGB or RDMAC",
    "nMACRES": "MACab to RDMAC of its result",
    "nRESMAC": "RDMAC to the next MACab",
    "nMODCH": "TMOD to any command",
}

MAC = "each bank: accumulate one column times one buffer entry"
WRITE_END = "nCWL + nBL + tWR + tRP"  # from WRAab to the end of the precharge behind it
COMMANDS = (
    Command("ACTab", Role.ACTIVATE, CHANNEL, CLOSED, OPEN, "tRCDMAC", "open the same row of all banks"),
    Command("MACab", Role.MULTIPLY, CHANNEL, OPEN, ANY, "tCCD_L", MAC),
    Command("WRAab", Role.SCATTER, CHANNEL, OPEN, CLOSED, WRITE_END, "write all banks, then close the rows"),
    Command("WRGB", Role.LOAD, CHANNEL, ANY, ANY, "nCWLGB + nBL", "write one entry of the global buffer"),
    Command("RDMAC", Role.RESULTS, CHANNEL, ANY, ANY, "nCLREG + nBL", "read the result register of all banks"),
    Command("WRMAC", Role.BIAS, CHANNEL, ANY, ANY, "nCWLREG + nBL", "write the accumulator (bias) of all banks"),
    Command("TMOD", Role.MODE, CHANNEL, ANY, ANY, "nMODCH", "enter or leave register mode"),
)

ACTS = ("ACT", "ACTab")
BUS_IN, BUS_OUT = ("WRGB", "WRMAC", "WRAab"), ("RDMAC",)
BANK_READS, BANK_WRITES = ("RD", "RDA"), ("WR", "WRA")
OTHERS = ("ACT", "PRE", "PREab", "RD", "WR", "RDA", "WRA", "REFab")
MINE = tuple(c.name for c in COMMANDS)

RULES = (
    # interface: one burst at a time, turn-around in both directions
    Rule(CHANNEL, BANK_READS + BUS_OUT, BUS_OUT, "nBL"),
    Rule(CHANNEL, BUS_OUT, BANK_READS, "nBL"),
    Rule(CHANNEL, BANK_WRITES + BUS_IN, BUS_IN, "nBL"),
    Rule(CHANNEL, BUS_IN, BANK_WRITES, "nBL"),
    Rule(CHANNEL, BANK_READS, ("WRAab",), "nRTW"),
    Rule(CHANNEL, BANK_READS, ("WRGB",), "nRTW + nCWL - nCWLGB"),  # the same pause on the pins
    Rule(CHANNEL, BANK_READS, ("WRMAC",), "nRTW + nCWL - nCWLREG"),
    Rule(CHANNEL, BUS_OUT, ("WRGB",), "nRTWREG"),
    Rule(CHANNEL, BUS_OUT, ("WRMAC",), "nRTWREG + nCWLGB - nCWLREG"),
    Rule(CHANNEL, BUS_OUT, (*BANK_WRITES, "WRAab"), "nRTWREG + nCWLGB - nCWL"),
    Rule(CHANNEL, BANK_WRITES, BUS_OUT, "nCWL + nBL + tWTR_L"),
    Rule(CHANNEL, ("WRAab",), BANK_READS + BUS_OUT, "nCWL + nBL + tWTR_L"),
    Rule(CHANNEL, ("WRGB",), BANK_READS + BUS_OUT, "nCWLGB + nBL + tWTR_S"),
    Rule(CHANNEL, ("WRMAC",), BANK_READS + BUS_OUT, "nCWLREG + nBL + tWTR_L"),
    # column path of all banks
    Rule(CHANNEL, BANK_READS + ("MACab",), ("MACab",), "tCCD_L"),
    Rule(CHANNEL, ("MACab",), BANK_READS, "tCCD_L"),
    Rule(CHANNEL, ("WRAab",), ("MACab",), "nCWL + nBL + tWTR_L"),
    Rule(CHANNEL, ("WRGB",), ("ACTab",), "nGBACT"),
    Rule(CHANNEL, ("PREab",), ("WRGB", "RDMAC"), "nPREIO"),
    Rule(CHANNEL, ("MACab",), BUS_OUT, "nMACRES"),
    Rule(CHANNEL, BUS_OUT, ("MACab",), "nRESMAC"),
    # row cycle of all banks
    Rule(CHANNEL, ACTS, ("MACab",), "tRCDMAC"),
    Rule(CHANNEL, ACTS, ("WRAab",), "tRCDWR"),
    Rule(CHANNEL, ("ACTab",), BANK_READS, "tRCDRD"),
    Rule(CHANNEL, ("ACTab",), BANK_WRITES, "tRCDWR"),
    Rule(CHANNEL, ("ACTab",), ("PRE", "PREab"), "tRAS"),
    Rule(CHANNEL, ("MACab",), ("PRE", "PREab"), "tRTP"),
    Rule(CHANNEL, ("ACTab",), ACTS, "tRC"),
    Rule(CHANNEL, ("ACT",), ("ACTab",), "tRC"),
    Rule(CHANNEL, ("PRE", "PREab"), ("ACTab",), "tRP"),
    Rule(CHANNEL, ("RDA",), ("ACTab",), "tRTP + tRP"),
    Rule(CHANNEL, ("WRA",), ("ACTab",), "nCWL + nBL + tWR + tRP"),
    Rule(CHANNEL, ("WRAab",), ACTS + ("REFab",), "nCWL + nBL + tWR + tRP"),
    # refresh and mode
    Rule(CHANNEL, ("ACTab",), ("REFab",), "tRC"),
    Rule(CHANNEL, ("REFab",), MINE, "tRFC"),
    Rule(CHANNEL, ("TMOD",), OTHERS + MINE, "nMODCH"),
)

STANDARD = Standard(
    "aim",
    TIMINGS,
    COMMANDS,
    RULES,
    unmodelled=(
        "tFAW and tRRD do not count ACTab: AiM supplies the current for sixteen banks [secondary AIM]",
        "WR and WRMAC to MACab, MACab to WRMAC: the AiM simulator has no such rule [secondary AIM]",
        "ACT4, PRE4, MAC (one bank), AF16, EWMUL16, RDCP, WRCP, RDAF16: PIM-GPT uses none of them",
    ),
)
