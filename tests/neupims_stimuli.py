"""The one-channel stimuli of NeuPIMs' ground truth (specification 7.4), and how they are offered."""

from dataclasses import replace
from typing import Any

from tests.naive_neupims import Request

BASE_ROW, DATA_ROW, ROW_ELEMENTS, BANKS, LANES = 513, 20_000, 512, 32, 16


def up(a, b):
    return -(-a // b)


def pim_tile(mode, row, comps, results, header):
    """One header, then `results` results of `comps` COMPs each."""
    found = [Request("P_HEADER", row=row, comps=header, results=results)]
    for i in range(results):
        last = i == results - 1
        if mode == "DUAL":
            found.append(Request("COMPS_READRES", row=row, count=comps, last=last))
        else:
            found += [Request("COMP", row=row) for _ in range(comps)]
            found.append(Request("READRES", row=row, last=last))
    return found


def power_of_two(n):
    """The next one up."""
    return 1 << (n - 1).bit_length()


def gwrite(n):
    return [Request("GWRITE") for _ in range(n)]


def tile(mode, n, comps, results, row=BASE_ROW):
    found = gwrite(1)
    for i in range(n):
        found += pim_tile(mode, row + i, comps, results, power_of_two(comps * results))
    return found


def gemv(mode, n, k, row=BASE_ROW):
    found = []
    for at in range(0, k, ROW_ELEMENTS):
        comps = up(min(ROW_ELEMENTS, k - at), LANES)
        found += tile(mode, up(n, BANKS), comps, 1, row)
        row += up(n, BANKS)
    return found


def logit(mode, seq, width, dk, row=BASE_ROW):
    found, chunks = [], up(width, ROW_ELEMENTS)
    for c in range(chunks):
        found += gwrite(1)
        rest = width % ROW_ELEMENTS
        heads = up(rest, dk) if c == chunks - 1 and rest else ROW_ELEMENTS // dk
        for t in range(up(seq, BANKS)):
            header = 1 << (heads * dk // LANES).bit_length() - 1
            found += pim_tile(mode, row + t * chunks + c, dk // LANES, heads, header)
    return found


def attend(mode, seq, heads, dk, row=BASE_ROW):
    found, chunks = [], up(seq, ROW_ELEMENTS)
    for _ in range(heads):
        for c in range(chunks):
            found += [Request("GWRITE", column=8)]
            rest = seq % ROW_ELEMENTS
            n = up(rest, LANES) if c == chunks - 1 and rest else ROW_ELEMENTS // LANES
            for t in range(up(dk, BANKS)):
                found += pim_tile(mode, row + t * chunks + c, n, 1, power_of_two(n))
    return found


def mha(mode, seq, heads, dk, row=BASE_ROW):
    width = heads * dk
    k_rows = up(seq, BANKS) * up(width, ROW_ELEMENTS)
    return logit(mode, seq, width, dk, row) + attend(mode, seq, heads, dk, row + k_rows)


def data(kind, n):
    """Request i of `read n` and `write n`."""
    return [Request(kind, i // 16 % 32, DATA_ROW + i // 512, i % 16) for i in range(n)]


def stimulus(text):
    """(mode, PIM requests, data requests) of a line such as `DUAL tile 1 8 4`."""
    mode, name, *numbers = text.split()
    n = [int(x) for x in numbers]
    if name in ("read", "write"):
        return mode, [], data(name.upper(), n[0])
    if name == "mharead":
        return mode, mha(mode, *n[1:]), data("READ", n[0])
    if name == "gwrite":
        return mode, gwrite(n[0]), []
    made: dict[str, Any] = {"tile": tile, "gemv": gemv, "logit": logit, "attend": attend, "mha": mha}
    return mode, made[name](mode, *n), []


def run(channel, pim, plain, most=10**7):
    """(clock of the last PIM response, of the last other response): each clock responses are collected, then two of
    each kind are offered."""
    pim, plain = [replace(x) for x in pim], [replace(x) for x in plain]
    wanted = sum(x.kind != "P_HEADER" for x in pim) + len(plain)
    i = j = t = found = 0
    last = {True: 0, False: 0}
    while found < wanted:
        for x in channel.collect():
            last[x.kind not in ("READ", "WRITE")] = t
            found += 1
        for _ in range(2):
            if i < len(pim) and channel.offer(pim[i], t):
                i += 1
        for _ in range(2):
            if j < len(plain) and channel.offer(plain[j], t):
                j += 1
        channel.tick(t)
        t += 1
        assert t < most, "it never ends"
    return last[True], last[False]
