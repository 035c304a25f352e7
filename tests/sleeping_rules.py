"""Pairs of the rule tables that no stream can feel, each with its reason: (after, before, wait).

The command in the middle is always an ACT or ACTab: the first command leaves the row closed, the second needs it open.
"""

REFRESHED = "REFab needs and leaves all rows closed, and the ACT in between waits for tRFC itself"
CLOSES = "the ACT in between waits for the end of the write and tRP, which is later"

SLEEPING = {
    ("REFab", "RD", "tRFC"): REFRESHED,
    ("REFab", "WR", "tRFC"): REFRESHED,
    ("REFab", "RDA", "tRFC"): REFRESHED,
    ("REFab", "WRA", "tRFC"): REFRESHED,
    ("REFab", "MACab", "tRFC"): REFRESHED,
    ("REFab", "WRAab", "tRFC"): REFRESHED,
    ("WRA", "WRAab", "nBL"): CLOSES,
    ("WRAab", "WR", "nBL"): CLOSES,
    ("WRAab", "WRA", "nBL"): CLOSES,
    ("WRAab", "WRAab", "nBL"): CLOSES,
}

SHORT_WINDOW = "four commands at their shortest distance already take longer than the window"

SLEEPING_IN_PARTS = {  # (part, rule): reason
    ("gddr6_16000", "REFpb → ACT REFpb, same channel, 4th latest: tFAW"): SHORT_WINDOW,
    ("hbm2_2400", "ACT → ACT, same pseudo channel, 4th latest: tFAW"): SHORT_WINDOW,
    ("hbm3_6400", "ACT → ACT, same rank, 4th latest: tFAW"): SHORT_WINDOW,
}

CLOSES_FIRST = "PIM_PRECHARGE of each bank comes in between: it waits for tRTP, one a clock, and G_ACT for it and tRP"

SLEEPING_IN_GATES = {  # (PIM instruction set, rule): reason; of groups of several banks
    ("neupims", "PIM_GEMV → G_ACT, same channel: tRTP + tRP"): CLOSES_FIRST,
}
