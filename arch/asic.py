"""The numbers inside the ASIC's function units: what the arithmetic model and the gates both read.

The PIM-GPT text names the methods (Taylor, Newton-Raphson, fast inverse square root); details are [design].
"""

import math

ADDERS = 256  # [recalled] adders of the array: 255 make the tree of one group, 1 accumulates the groups

TAYLOR = tuple(1 / math.factorial(order) for order in range(5, -1, -1))  # [secondary] "first six terms", highest first
INVERSE_LN2 = 1 / math.log(2)
LN2_HIGH = 0xB172 / 2**16  # 16 bits: times an exponent of 8 bits it is exact
LN2_LOW = math.log(2) - LN2_HIGH
EXP_CLAMP = 128.0  # beyond ±128 float32 has long over- or underflowed; a test of the exponent field

RECIPROCAL_GUESS = (-32 / 17, 48 / 17)  # slope and offset of the line nearest to 1 / d on [0.5, 1)
RECIPROCAL_STEPS = 3
RSQRT_MAGIC = 0x5F3759DF
RSQRT_STEPS = 1

GELU_LINEAR = 2 * math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715 * GELU_LINEAR
