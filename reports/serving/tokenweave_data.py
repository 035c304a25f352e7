"""What TokenWeave measured on eight H100: its authors' artifact, microsoft/tokenweave@f483d1c, MIT [secondary]."""

from typing import NamedTuple


class Measured(NamedTuple):
    """A prompt of so many tokens [ms]: as it was, without any all-reduce, woven; execution units of collectives behind
    attention and behind the FFN, and tokens that the first part has more."""

    tokens: int
    baseline: float
    alone: float
    woven: float
    units: tuple[int, int]
    offset: int


PROMPTS = {  # figure_11a.csv and the tables of splits
    "Llama-3.3-70B": (
        Measured(1024, 53.66, 41.94, 46.16, (4, 4), 0),
        Measured(2048, 94.23, 74.92, 76.73, (8, 8), 0),
        Measured(4096, 179.48, 144.9, 142.23, (4, 4), 0),
        Measured(8192, 356.02, 289.55, 279.76, (8, 4), 256),
        Measured(16384, 744.11, 610.22, 585.34, (8, 8), 256),
        Measured(32768, 1639.86, 1371.36, 1326.04, (8, 4), 0),
        Measured(65536, 3917.74, 3338.34, 3282.36, (4, 4), 0),
    ),
    "Qwen2.5-72B": (
        Measured(1024, 54.27, 42.47, 47.64, (4, 8), 0),
        Measured(2048, 97.05, 77.77, 79.01, (4, 8), 0),
        Measured(4096, 183.34, 149.09, 146.7, (8, 8), 256),
        Measured(8192, 358.48, 292.64, 288.43, (8, 4), 0),
        Measured(16384, 754.61, 624.04, 607.88, (8, 4), 0),
        Measured(32768, 1656.13, 1393.44, 1368.79, (8, 8), 0),
        Measured(65536, 3977.56, 3410.28, 3219.79, (8, 8), 256),
    ),
    "Mixtral-8x22B": (
        Measured(1024, 42.94, 36.42, 69.14, (2, 4), 0),
        Measured(2048, 68.16, 57.12, 69.89, (8, 8), 0),
        Measured(4096, 121.36, 102.21, 107.71, (8, 8), 256),
        Measured(8192, 230.65, 195.63, 199.44, (8, 4), 256),
        Measured(16384, 470.99, 405.14, 399.22, (8, 4), 256),
        Measured(32768, 1024.03, 891.27, 874.91, (8, 4), 128),
        Measured(65536, 2383.09, 2109.83, 2104.19, (8, 4), 0),
    ),
}
TOKENS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)  # figure_4.csv, of 8,192 elements each [us]
NORM_US = (8.35, 9.6, 11.9, 18.3, 29.92, 51.84, 96.29, 184.19, 361.09, 712.42)
FUSED_US = (17.09, 21.7, 30.08, 45.06, 75.36, 137.09, 258.24, 502.34, 987.33, 1965.6)
ELEMENTS = 8192
