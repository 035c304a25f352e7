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
