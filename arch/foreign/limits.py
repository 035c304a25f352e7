"""Sizes above which a file is refused rather than simulated for ever."""

LONGEST_CK = 10_000_000  # of one wait [CK]
MOST_BANKS = 4096  # of a channel [1]
MOST_ADDRESS_BITS = 62
