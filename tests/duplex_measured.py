"""What the simulator of Duplex's authors measures of decode steps, beside ours: `python -m tests.duplex_measured`.

S = HeliosZhou/LLMSimulator@f71dde4, run by this project [derived R]; paper = Yun et al., MICRO 2024.
"""

import sys
from collections.abc import Iterable, Iterator

from pimloom.arch.duplex import load_duplex
from pimloom.systems.devices.duplex.grid import GRID, GridPoint, GridRow, decode_grid

GPU = {  # (model, batch, length): GPU tokens/s, mJ per token, step [ms]
    ("mixtral-8x7b", 32, 256): (3356, 92.33, 9.523),
    ("mixtral-8x7b", 32, 1024): (3182, 98.33, 10.061),
    ("mixtral-8x7b", 32, 4096): (2712, 114.56, 11.790),
    ("mixtral-8x7b", 64, 256): (6608, 49.85, 9.686),
    ("mixtral-8x7b", 64, 1024): (5865, 55.90, 10.917),
    ("mixtral-8x7b", 64, 4096): (4544, 71.53, 14.132),
    ("glam-143b", 32, 512): (2399, 185.11, 13.352),
    ("glam-143b", 32, 2048): (2026, 232.44, 15.816),
    ("glam-143b", 128, 512): (7412, 80.34, 17.278),
    ("glam-143b", 128, 2048): (4763, 127.15, 26.848),
    ("grok-1", 32, 1024): (1841, 637.95, 17.397),
}
NAMES = ("2xGPU", "Duplex", "Duplex+PE", "Duplex+PE+ET", "Bank-PIM")
THROUGHPUT = {  # over that of the GPU
    ("mixtral-8x7b", 32, 256): (1.804, 2.892, 2.903, 2.999, 1.957),
    ("mixtral-8x7b", 32, 1024): (1.802, 2.860, 2.901, 3.107, 1.975),
    ("mixtral-8x7b", 32, 4096): (1.844, 2.916, 2.937, 3.086, 2.131),
    ("mixtral-8x7b", 64, 256): (1.787, 2.026, 2.033, 2.772, 1.136),
    ("mixtral-8x7b", 64, 1024): (1.800, 2.125, 2.131, 2.830, 1.221),
    ("mixtral-8x7b", 64, 4096): (1.830, 2.307, 2.314, 2.922, 1.435),
    ("glam-143b", 32, 512): (1.663, 2.816, 2.821, 3.369, 5.466),
    ("glam-143b", 32, 2048): (1.707, 2.913, 2.897, 3.373, 6.010),
    ("glam-143b", 128, 512): (1.872, 2.818, 2.819, 2.841, 3.453),
    ("glam-143b", 128, 2048): (1.909, 2.985, 2.978, 2.994, 4.693),
    ("grok-1", 32, 1024): (1.741, 2.489, 2.516, 2.409, 1.570),
}
ENERGY = {
    ("mixtral-8x7b", 32, 256): (0.993, 0.574, 0.572, 0.665, 0.305),
    ("mixtral-8x7b", 32, 1024): (0.995, 0.572, 0.571, 0.654, 0.303),
    ("mixtral-8x7b", 32, 4096): (0.994, 0.568, 0.568, 0.640, 0.296),
    ("mixtral-8x7b", 64, 256): (0.993, 0.600, 0.601, 0.703, 0.411),
    ("mixtral-8x7b", 64, 1024): (0.995, 0.594, 0.595, 0.685, 0.395),
    ("mixtral-8x7b", 64, 4096): (1.003, 0.587, 0.588, 0.659, 0.365),
    ("glam-143b", 32, 512): (1.041, 0.561, 0.560, 0.563, 0.285),
    ("glam-143b", 32, 2048): (1.033, 0.555, 0.555, 0.557, 0.276),
    ("glam-143b", 128, 512): (1.025, 0.569, 0.570, 0.585, 0.297),
    ("glam-143b", 128, 2048): (1.017, 0.558, 0.559, 0.568, 0.276),
    ("grok-1", 32, 1024): (1.038, 0.578, 0.577, 0.635, 0.310),
}
STEP = {
    ("mixtral-8x7b", 32, 256): (0.554, 0.346, 0.345, 0.333, 0.511),
    ("mixtral-8x7b", 32, 1024): (0.553, 0.350, 0.345, 0.322, 0.505),
    ("mixtral-8x7b", 32, 4096): (0.543, 0.343, 0.341, 0.324, 0.470),
    ("mixtral-8x7b", 64, 256): (0.558, 0.493, 0.491, 0.360, 0.880),
    ("mixtral-8x7b", 64, 1024): (0.555, 0.471, 0.469, 0.353, 0.818),
    ("mixtral-8x7b", 64, 4096): (0.545, 0.433, 0.431, 0.341, 0.694),
    ("glam-143b", 32, 512): (0.603, 0.355, 0.355, 0.297, 0.183),
    ("glam-143b", 32, 2048): (0.587, 0.343, 0.344, 0.296, 0.166),
    ("glam-143b", 128, 512): (0.535, 0.355, 0.354, 0.352, 0.290),
    ("glam-143b", 128, 2048): (0.524, 0.335, 0.336, 0.335, 0.213),
    ("grok-1", 32, 1024): (0.572, 0.401, 0.397, 0.414, 0.635),
}
PARTS_US = {  # Mixtral, batch 32, length 256; GLaM, 32, 512: median of QKV, attention, projection, FFN, experts, links
    ("mixtral-8x7b", "GPU"): (165.5, 97.1, 116.9, 0, 8760.2, 363.1),
    ("mixtral-8x7b", "2xGPU"): (80.7, 48.2, 73.3, 0, 4273.4, 782.0),
    ("mixtral-8x7b", "Duplex"): (165.5, 30.2, 118.6, 0, 2597.8, 363.1),
    ("mixtral-8x7b", "Duplex+PE"): (165.5, 32.1, 116.4, 0, 2582.5, 363.1),
    ("mixtral-8x7b", "Duplex+PE+ET"): (165.5, 32.1, 116.4, 0, 2293.5, 544.7),
    ("mixtral-8x7b", "Bank-PIM"): (165.5, 27.2, 114.3, 0, 4174.8, 363.1),
    ("glam-143b", "GPU"): (165.5, 640.3, 78.4, 212.5, 11451.3, 782.0),
    ("glam-143b", "Duplex"): (165.5, 195.9, 74.1, 219.7, 3283.0, 782.0),
    ("glam-143b", "Bank-PIM"): (165.5, 44.9, 77.9, 212.5, 1128.0, 782.0),
}
PARTS_AT = {("mixtral-8x7b", 32, 256), ("glam-143b", 32, 512)}
PARTS = ("qkv", "attention", "projection", "ffn", "experts", "communication")
PAPER = {  # (point, system, kind): the paper's, and S's [derived R]
    (("mixtral-8x7b", 64, 256), "Bank-PIM", "throughput"): (1.18, 1.14),
    (("mixtral-8x7b", 64, 256), "Duplex", "throughput"): (2.05, 2.03),
    (("mixtral-8x7b", 32, 4096), "Bank-PIM", "throughput"): (2.17, 2.13),
    (("mixtral-8x7b", 32, 4096), "Duplex+PE+ET", "energy"): (1 - 0.3328, 1 - 0.360),
    (("glam-143b", 32, 2048), "Duplex+PE+ET", "energy"): (1 - 0.4203, 1 - 0.443),
    (("grok-1", 32, 1024), "Duplex+PE+ET", "energy"): (1 - 0.3459, 1 - 0.365),
}
IDEAL_MS = {  # Mixtral's median step with an ideal memory: batch, length: GPU and NAMES
    (32, 256): (7.476, 4.356, 2.779, 2.779, 2.519, 4.789),
    (32, 1024): (7.971, 4.604, 2.891, 2.891, 2.638, 4.901),
    (32, 4096): (9.312, 5.274, 3.221, 3.221, 2.963, 5.231),
    (64, 256): (7.713, 4.527, 4.676, 4.625, 3.332, 7.448),
}
OF_S = {"xpu_gb_s": "3352", "part.timing.tRFC": "450 ns"}  # its bandwidth; its organisation, HBM3_16Gb_2R
KINDS = {"throughput": (THROUGHPUT, 0.1), "energy": (ENERGY, 0.05), "step": (STEP, 0.1)}  # and what may be missed


def key_of(point: GridPoint) -> tuple[str, int, int]:
    """The point as the tables have it."""
    return point.model, point.batch, point.length


def over(row: GridRow, gpu: GridRow) -> dict[str, float]:
    """Ratios to the GPU."""
    return {
        "throughput": row.tokens_per_s / gpu.tokens_per_s,
        "energy": row.mj_per_token / gpu.mj_per_token,
        "step": row.step_ms / gpu.step_ms,
    }


def ratios(rows: Iterable[GridRow]) -> Iterator[tuple[GridRow, dict[str, float]]]:
    """Every row but those of the GPU, with its ratios to it."""
    gpu: GridRow | None = None
    for row in rows:
        if row.system == "GPU":
            gpu = row
        elif gpu:
            yield row, over(row, gpu)


def _print_row(row: GridRow) -> None:
    values = row.tokens_per_s, row.mj_per_token, row.step_ms
    if row.system == "GPU":
        pairs = zip(values, GPU[key_of(row.point)], ("tok/s", "mJ", "ms"), strict=True)
        print("  ".join(f"{unit} {ours:.4g} S {theirs} ({ours / theirs - 1:+.1%})" for ours, theirs, unit in pairs))
    if key_of(row.point) in PARTS_AT and (row.point.model, row.system) in PARTS_US:
        measured = zip(PARTS, PARTS_US[row.point.model, row.system], strict=True)
        print("    us:", "  ".join(f"{part} {row.parts_us[part]:.1f} S {us}" for part, us in measured))
    print("    mJ:", "  ".join(f"{cause} {value:.2f}" for cause, value in row.mj.items()))


def compare(rows: Iterable[GridRow]) -> dict[str, tuple[int, int]]:
    """Print every value beside those of S and the paper; returns by kind how many are near S, of how many."""
    kept, near = [], {kind: [0, 0] for kind in KINDS}
    for row in rows:
        kept.append(row)
        print(f"{row.point.model} {row.point.batch}/{row.point.length} {row.system}", end=": ")
        if row.system != "GPU":
            ((_, found),) = ratios([next(gpu for gpu in reversed(kept) if gpu.system == "GPU"), row])
            for kind, (table, most) in KINDS.items():
                ours, theirs = found[kind], table[key_of(row.point)][NAMES.index(row.system)]
                inside = abs(ours / theirs - 1) <= most
                near[kind] = [near[kind][0] + inside, near[kind][1] + 1]
                said = f"{kind} {ours:.3f} S {theirs:.3f} ({ours / theirs - 1:+.1%}{'' if inside else ' MISS'})"
                if at := PAPER.get((key_of(row.point), row.system, kind)):
                    said += f" paper {at[0]:.3f} ({ours / at[0] - 1:+.1%})"
                print(said, end="  ")
            print()
        _print_row(row)
        sys.stdout.flush()
    for name in NAMES:
        mean = {kind: [found[kind] for row, found in ratios(kept) if row.system == name] for kind in KINDS}
        print(f"mean {name}:", "  ".join(f"{kind} {sum(v) / len(v):.2f}" for kind, v in mean.items()))
    return {kind: (inside, of) for kind, (inside, of) in near.items()}


if __name__ == "__main__":
    asked = GRID[: int(sys.argv[1])] if len(sys.argv) > 1 else GRID
    found = compare(decode_grid(load_duplex(overrides=OF_S), asked, router="busiest_to_xpu", contention=False))
    print(", ".join(f"{kind} {inside} of {of} within {KINDS[kind][1]:.0%}" for kind, (inside, of) in found.items()))
