"""Programs of AiM's host instructions: those that a public simulator ran, and random ones."""

from random import Random

ALL = "0xffffffff"
END = ["AiM EOC"]

EVERY_INSTRUCTION = [
    *(f"W MEM {c} 2 {8 + c}" for c in range(4)),
    *(f"W GPR {i}" for i in range(8)),
    *(f"AiM WR_SBK {gpr} {mask} 0 0" for gpr in (0, 1) for mask in (1, 2, 4, 8)),
    *("AiM WR_GB 2 2 15", "AiM WR_BIAS 4 15"),
    *("W CFR 0 1", "AiM MAC_ABK 2 15 0", "W CFR 0 0", "AiM MAC_ABK 2 15 0"),
    *("W CFR 0 1", "AiM MAC_SBK 2 15 0 0", "W CFR 0 0", "AiM MAC_SBK 2 15 0 0"),
    *("W CFR 1 1", "AiM EWMUL 2 15 0", "W CFR 1 0", "AiM EWMUL 2 15 0"),
    *("W CFR 2 1", "AiM AF 15", "AiM RD_MAC 8 15", "AiM RD_AF 12 15", "AiM EWADD 4 8 12"),
    *("AiM COPY_BKGB 2 15 0 0", "AiM COPY_GBBK 2 15 0 0"),
    *(f"AiM RD_SBK {20 + i} {1 << i // 2} 0 0" for i in range(8)),
    *(f"AiM WR_ABK {4 + i} {1 << i} 5" for i in range(4)),
    *END,
]
MIXED = [f"AiM WR_BIAS 0 {ALL}", f"AiM MAC_ABK 64 {ALL} 0", f"AiM RD_MAC 0 {ALL}", f"AiM MAC_ABK 64 {ALL} 1"]
MEASURED = {  # cycles of arkhadem/aim_simulator@0f28a07 on its test/*.csv with test/example.yaml
    "all_isr": (EVERY_INSTRUCTION, 689),
    "micro_macab_1024_16banks": ([f"AiM MAC_ABK 64 {ALL} {row}" for row in range(1024)] + END, 231_383),
    "micro_rdmac_1024_16banks": ([f"AiM RD_MAC 0 {ALL}"] * 1024 + END, 3_106),
    "micro_wrab_1024_1bank": ([f"AiM WR_ABK 0 0x80000000 {row}" for row in range(1024)] + END, 103_393),
    "micro_wrbias_1024_16banks": ([f"AiM WR_BIAS 0 {ALL}"] * 1024 + END, 2_083),
    "micro_wrbias_mac_rdmac_mac_16banks": (MIXED * 1024 + END, 576_482),
}


def draw_program(rng: Random, channels: int) -> list[str]:
    """Instructions of all kinds, on few banks and rows, in bursts; or of one kind."""
    full, hot, rows = (1 << channels) - 1, rng.choice((2, 4, 16)), rng.choice((1, 2, 4))
    kinds = [_access, _single, _all_banks, _one_bank, _registers, _others]
    if rng.random() < 0.1:
        kinds = [rng.choice(kinds)]
    lines: list[str] = []
    for _ in range(rng.randint(1, 14)):
        mask = rng.choice((full, 1 << rng.randrange(channels), rng.randint(1, full)))
        lines += rng.choice(kinds)(rng, channels, mask, hot, rows)
    return lines + END


def _access(rng, channels, mask, hot, rows):
    places = channels, hot, rows
    n = rng.choice((1, 1, 5, 12, 40))
    return [" ".join([rng.choice("RW"), "MEM", *(str(rng.randrange(k)) for k in places)]) for _ in range(n)]


def _single(rng, channels, mask, hot, rows):
    names, n = ("WR_SBK", "RD_SBK"), rng.choice((1, 1, 5, 12, 40))
    return [f"AiM {rng.choice(names)} 0 {mask} {rng.randrange(hot)} {rng.randrange(rows)}" for _ in range(n)]


def _all_banks(rng, channels, mask, hot, rows):
    row, n, one = rng.randrange(rows), _size(rng), 1 << rng.randrange(channels)
    names = (f"MAC_ABK {n} {mask} {row}", f"EWMUL {n} {mask} {row}", f"WR_ABK 0 {one} {row}", f"AF {mask}")
    return [f"AiM {rng.choice(names)}"]


def _one_bank(rng, channels, mask, hot, rows):
    name = rng.choice(("MAC_SBK", "COPY_BKGB", "COPY_GBBK"))
    return [f"AiM {name} {_size(rng)} {mask} {rng.randrange(hot)} {rng.randrange(rows)}"]


def _registers(rng, channels, mask, hot, rows):
    return [f"AiM {rng.choice((f'WR_GB {_size(rng)} 0', 'WR_BIAS 0', 'RD_MAC 0', 'RD_AF 0'))} {mask}"]


def _others(rng, channels, mask, hot, rows):
    return [rng.choice(("AiM SYNC", "AiM EWADD 1 0 0", "W GPR 3", "W CFR 2 3", "W CFR 2 0", "R CFR 0 0"))]


def _size(rng):
    return rng.choice((1, 2, 3, 8, 36))
