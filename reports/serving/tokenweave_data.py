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


class Rates(NamedTuple):
    """Requests one after the other [tokens/s, prompts counted]: as it was, without any all-reduce, woven."""

    baseline: float
    alone: float
    woven: float


HYBRID, UNITS, OFFSET = 2048, (8, 8), 256  # of an iteration: the most in its tables for 1024:128, for all taken alike
RATES = (  # figure_12a.csv but for ShareGPT, whose lengths are not in it, and Mixtral's 512:128, which is an outlier
    ("Llama-3.3-70B", (512, 128), Rates(17777.75, 22043.13, 21295.18)),
    ("Llama-3.3-70B", (1024, 128), Rates(18032.29, 22470.9, 22397.34)),
    ("Llama-3.3-70B", (2048, 128), Rates(19399.38, 24123.47, 23387.64)),
    ("Qwen2.5-72B", (512, 128), Rates(17299.04, 21373.55, 20761.59)),
    ("Qwen2.5-72B", (1024, 128), Rates(17617.54, 21828.4, 21885.27)),
    ("Qwen2.5-72B", (2048, 128), Rates(18854.4, 23359.29, 22859.51)),
    ("Mixtral-8x22B", (1024, 128), Rates(27444.84, 30369.0, 30513.02)),
    ("Mixtral-8x22B", (2048, 128), Rates(28251.53, 32322.93, 32189.12)),
)
TOKENS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)  # figure_4.csv, of 8,192 elements each [us]
NORM_US = (8.35, 9.6, 11.9, 18.3, 29.92, 51.84, 96.29, 184.19, 361.09, 712.42)
FUSED_US = (17.09, 21.7, 30.08, 45.06, 75.36, 137.09, 258.24, 502.34, 987.33, 1965.6)
ELEMENTS = 8192
