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

ENDS_FIRST = "WRAab closes the row; the ACTab in between waits for the end of the write and tRP"
WINDOW = "ACTs at their shortest distance, tRRD_S, already take longer than tFAW"
NO_TIMER = "its wait is 0 or 1, and commands on a bus are a clock apart"
LONGER_RULE = "another rule between the same commands waits longer"
NEUPIMS = {
    "RD RDA → RD RDA, same rank: tCCD_S": NO_TIMER,
    "WR WRA → WR WRA, same rank: tCCD_S": NO_TIMER,
    "WR WRA → RD RDA, other rank: nCWL + nBL + nRTRS - nCL": NO_TIMER,
    "ACT → G_ACT, same bank group: tRRD_L": LONGER_RULE,
    "ACT → G_ACT, same rank: tRRD_S": LONGER_RULE,
    "G_ACT → G_ACT, same bank group: tRC": CLOSES_FIRST,
    "PIM_GEMV → G_ACT, same channel: tRTP + tRP": CLOSES_FIRST,
}

ASLEEP_AS_EMITTED = {  # part -> rule: reason; with the part's own timings
    "gddr6_14000": {"ACT → ACT, same channel, 4th latest: tFAW": WINDOW},
    "gddr6_16000": {"REFpb → ACT REFpb, same channel, 4th latest: tFAW": SHORT_WINDOW},
    "gddr6_aim": {
        "RDMAC → WR WRA WRAab, same channel: nRTWREG + nCWLGB - nCWL": NO_TIMER,
        "WRAab → MACab, same channel: nCWL + nBL + tWTR_L": ENDS_FIRST,
    },
    "gddr6_aim_isr": {
        "ACT → ACT, same channel, 4th latest: tFAW": NO_TIMER,
        "RDMAC16 → WR WRA WRA16, same channel: nRTWREG + nCWLGB - nCWL": NO_TIMER,
        "RDAF16 → WR WRA WRA16, same channel: nRTWREG + nCLAF - nCLREG + nCWLGB - nCWL": NO_TIMER,
        "WRA16 → MAC16, same channel: nCWL + nBL + tWTR_L": ENDS_FIRST,
        "ACT ACT4 → ACT4, same bank group: tRRD_L": LONGER_RULE,
        "ACT4 → ACT, same bank group: tRRD_L": LONGER_RULE,
    },
    "gddr6_pim_gpt": {"WRAab → MACab, same channel: nCWL + nBL + tWTR_L": ENDS_FIRST},
    "hbm2_2000": {"ACT → ACT, same pseudo channel, 4th latest: tFAW": WINDOW},
    "hbm2_2400": {"ACT → ACT, same pseudo channel, 4th latest: tFAW": WINDOW},
    "hbm2_neupims": NEUPIMS,
    "hbm2_neupims_written": NEUPIMS,
    "hbm3_6400": {"ACT → ACT, same rank, 4th latest: tFAW": WINDOW},
}
