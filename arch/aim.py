"""AiM as a host sees it: its instructions, the commands that they end in, and the device whose channels they reach."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec

OPERANDS = {
    "opsize": "columns, a request for each",
    "gpr": "general-purpose register",
    "mask": "channels, the highest bit is channel 0",
    "bank": "bank of the channel, counted through its bank groups",
    "row": "row",
}


class Instruction(NamedTuple):
    """`AiM NAME operands`. command: of the part's table, empty where no channel sees it; blocks: the DMA waits until
    every channel has answered; registers: it needs register mode; alone: its mask names one channel."""

    operands: tuple[str, ...]
    command: str = ""
    blocks: bool = False
    registers: bool = False
    alone: bool = False


ONE, ALL = ("opsize", "mask", "bank", "row"), ("opsize", "mask", "row")
INSTRUCTIONS: Mapping[str, Instruction] = MappingProxyType(  # [secondary AIM] arkhadem/aim_simulator@0f28a07
    {
        "WR_SBK": Instruction(("gpr", "mask", "bank", "row"), "WR"),
        "RD_SBK": Instruction(("gpr", "mask", "bank", "row"), "RD"),
        "WR_ABK": Instruction(("gpr", "mask", "row"), "WRA16", alone=True),
        "WR_GB": Instruction(("opsize", "gpr", "mask"), "WRGB", registers=True),
        "WR_BIAS": Instruction(("gpr", "mask"), "WRMAC16", registers=True),
        "RD_MAC": Instruction(("gpr", "mask"), "RDMAC16", blocks=True, registers=True),
        "RD_AF": Instruction(("gpr", "mask"), "RDAF16", blocks=True, registers=True),
        "MAC_ABK": Instruction(ALL, "MAC16"),
        "MAC_SBK": Instruction(ONE, "MAC"),
        "EWMUL": Instruction(ALL, "EWMUL16"),
        "COPY_BKGB": Instruction(ONE, "RDCP"),
        "COPY_GBBK": Instruction(ONE, "WRCP"),
        "AF": Instruction(("mask",), "AF16"),
        "EWADD": Instruction(("opsize", "gpr", "gpr")),
        "SYNC": Instruction((), blocks=True),
        "EOC": Instruction((), blocks=True),
    }
)
PREFIX = "ISR_"  # may stand before a name
END, BARRIERS = "EOC", ("SYNC", "EOC")


class Register(NamedTuple):
    """A configuration register: what its value selects, and the largest."""

    meaning: str
    most: int


CFRS = {  # [secondary AIM] none but the last changes a clock
    0: Register("where MAC takes its vector from: the global buffer, or the next bank", 1),
    1: Register("the bank groups in which EWMUL multiplies: one, or all", 1),
    2: Register("the activation function of AF, each a row of its own", 7),
}
FUNCTION_CFR = 2
FUNCTION_ROW = 1 << 29  # [secondary AIM] row of the table of function 0, beyond those of the part
MOST_CHANNELS = 62  # a mask has a bit for each, in a word

COMMANDS = (  # that a channel's controller issues
    "ACT", "PRE", "ACT16", "PREab", "RD", "WR", "MAC", "RDCP", "WRCP", "MAC16", "EWMUL16", "AF16", "WRA16", "WRGB",
    "WRMAC16", "RDMAC16", "RDAF16", "TMOD", "REFab",
)  # fmt: skip
# An instruction as a row of integers: the command that each request ends with, or NOTHING if no channel sees it, or
# SYNC; requests for each channel; channels, the highest bit is channel 0; bank and row of those that name one
OP, TIMES, MASK, BANK, ROW, N_INSTRUCTION = range(6)
NOTHING, SYNC = -1, -2


class AimDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An AiM device: its part, its channels, and what stands before each."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "part": "memory device: a name in arch/parts or a path",
        "channels": "channels, each with a controller of its own [1]",
        "registers": "general-purpose registers of the DMA, 256 bits each [1]",
        "queue_entries": "requests of AiM that wait in a channel at most, and of reads, and of writes [1]",
        "drain_from": "writes are served when so many wait [1]",
        "drain_below": "reads are served again when fewer writes wait, and a read [1]",
        "refresh": "none, or all_bank: each channel owes a REFab every tREFI",
    }

    description: str
    part: str
    channels: Annotated[int, msgspec.Meta(ge=1, le=MOST_CHANNELS)]
    registers: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    queue_entries: Annotated[int, msgspec.Meta(ge=1, le=4096)]
    drain_from: Annotated[int, msgspec.Meta(ge=1, le=4097)]
    drain_below: Annotated[int, msgspec.Meta(ge=1, le=4097)]
    refresh: Literal["none", "all_bank"]
