"""Instructions of AiM carried out on data, with what passes the pins of the channels on the way."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from pimloom.arch.aim import BANK, COMMANDS, MASK, NOTHING, OP, ROW, SYNC, TIMES
from pimloom.cycle_sim.aim.banks import BF16, AimBanks
from pimloom.cycle_sim.asic_math import Array

Spot = tuple[int, int, int]  # channel, bank, row


@dataclass
class Traffic:
    """What a piece of the program takes from outside the channels, and what it leaves there.

    written: rows that RD's counterpart WR fills, column by column; vectors: of each WRGB, bfloat16[channels or 1,
    entries, lanes]; bias(k): what the k-th WRMAC16 writes, zeros if None; scattered: of each WRA16, bfloat16[banks].
    """

    written: dict[Spot, Array] = field(default_factory=dict)
    vectors: Iterable[Array] = ()
    bias: Callable[[int], Array | None] = lambda k: None
    first: Callable[[int], int] = lambda k: 0
    scattered: Iterable[Array] = ()
    place: tuple[int, int] = (0, 0)  # column and lane of WRA16
    beside: bool = False
    results: list[Array] = field(default_factory=list)  # of RDMAC16, bfloat16[channels, banks]
    functions: list[Array] = field(default_factory=list)  # of RDAF16
    read: dict[Spot, list[Array]] = field(default_factory=dict)


def run_piece(banks: AimBanks, instructions: Array, t: Traffic) -> None:
    """Carry out instructions of AiM; `t` gives and takes what passes the pins."""
    vectors, scattered = iter(t.vectors), iter(t.scattered)
    written, members, n_macs, n_set = dict[Spot, int](), dict[int, Array](), 0, 0
    for op, times, mask, bank, row in instructions[:, [OP, TIMES, MASK, BANK, ROW]].tolist():
        if op in (NOTHING, SYNC):
            continue
        if (at := members.get(mask)) is None:
            at = members[mask] = np.flatnonzero(mask >> np.arange(banks.shape[0] - 1, -1, -1) & 1)
        name = COMMANDS[op]
        if name in ("WR", "RD"):
            spot = (channel := int(at[0]), bank, row)
            if name == "RD":
                of_spot = t.read.setdefault(spot, [])
                of_spot.append(banks.row(row)[channel, bank, len(of_spot)].copy())
            else:
                column = written[spot] = written.get(spot, -1) + 1
                banks.row(row)[channel, bank, column] = t.written[spot][column]
        elif name == "WRGB":
            banks.load(at, next(vectors)[:, :times])
        elif name == "WRMAC16":
            bias = t.bias(n_set)
            banks.set(at, np.zeros((len(at), banks.shape[1]), BF16) if bias is None else bias)
            n_set += 1
        elif name == "MAC16":
            banks.multiply(at, row, times, t.first(n_macs), beside=t.beside)
            n_macs += 1
        elif name == "WRA16":
            banks.row(row)[at, :, t.place[0], t.place[1]] = next(scattered)
        elif name == "RDMAC16":
            t.results.append(banks.results(at))
        elif name == "AF16":
            banks.apply(at, 0)
        elif name == "RDAF16":
            t.functions.append(banks.function_results(at))
        elif name == "EWMUL16":
            banks.products(at, row, times)
        elif name == "RDCP":
            banks.copy_out(at, bank, row, times)
        elif name == "WRCP":
            banks.copy_back(at, bank, row, times)
        else:
            raise ValueError(f"{name}: no instruction of a layer")
