"""What kernels of serving keep in arrays, and where."""

from typing import NamedTuple

import numpy as np

NEVER = 1 << 62  # as in `schedulers.live`
JOULES = 6  # as in `pricing.costs`
NOT_YET = -1
NOBODY = -1

# requests[r, …]: as in `LiveRequest`; NAMED: how many of its blocks have their identity; NEXT: who waits behind it
NUMBER, ARRIVAL, PROMPT, LAST, CACHED, KNOWN, PREFILL, BLOCKS = range(8)
FIRST_SCHEDULED, FIRST_TOKEN, LAST_TOKEN, COMPLETION, RESTARTS, HIT, LOST, AGAIN, NAMED, NEXT, N_REQUEST = range(8, 19)

# limits[…] of a scheduler. RULE: which one; MOST: of an iteration, its requests or of one its tokens; LEAK, SERVED,
# CUTS: of FasterTransformer `leak`, of Sarathi whether it serves by arrival, and whether a restart cuts a prompt;
# WHOLE, SHARES: of vLLM v1, whether blocks for all that is known of a request must be free when it comes in, and
# whether blocks have identities; UNWINDOWED, WINDOWED, MOST_WINDOWED: as in `Blocks`, whose units TOTAL and FREE count
RULE, TOTAL, SIZE, CAP, MOST, BUDGET, WATERMARK, AHEAD, MOST_BLOCKS, LONGEST, RESERVED = range(11)
LEAK, SERVED, CUTS, WHOLE, SHARES, UNWINDOWED, WINDOWED, MOST_WINDOWED, N_LIMITS = range(11, 20)
VLLM_V1, VLLM_V0, SARATHI, VIDUR_VLLM, ORCA, TOGETHER, STATIC = range(7)

# at[…]: where a replica is. FREE, HOLDERS: of its blocks; HEAD, TAIL, WAITING: who waits; RUNNING: how many run, or are
# idle; UNDER_WAY, OLDEST: iterations, and the slot of the first; UNFINISHED, NEXT_ON: batches that wait to go on, and
# the first of them; SLOT: of the iteration that forms; GAPS: how many there are; FOLLOWED: whether ends are told;
# ENDED: requests that did when an iteration ended last; REPLICA: its number; FREE_HEAD, FREE_TAIL: of free blocks with
# identities; UNTIL: when to stop
PHASE, DUE, FREE, HOLDERS, HEAD, TAIL, WAITING, RUNNING, UNDER_WAY, OLDEST = range(10)
UNFINISHED, NEXT_ON, SLOT, GAPS, FOLLOWED, ENDED, REPLICA, FREE_HEAD, FREE_TAIL, UNTIL, N_AT = range(10, 21)
TOP, FORM, PRICE, START = range(4)  # phases

# slots[s, …]: an iteration: its end, how many requests, new tokens, those with what is cached; its kind; its row;
# members[s, i, …]: a request of it
END_AT, MEMBERS, NEW_OF, ALL_OF, KIND_OF, ROW_OF, N_SLOT = range(7)
ONLY_DECODE, ONLY_PROMPT, MIXED, N_KINDS = range(4)  # kinds: all requests decode, all are prompts, both
WHO, NEW, BEFORE, N_MEMBER = range(4)

# blocks[b, …]: neighbours in the free list, how many use it, its identity, neighbours of the same identity
BACK, BEHIND, USERS, NAME, SAME_BACK, SAME_BEHIND, N_BLOCK = range(7)

# rows[i, …]: of an iteration that has formed; ONCE_MORE: tokens that are computed again; CAME: that came when it ended
STARTED, TOOK, ENDS, ON, MANY, TOKENS, CONTEXTS, LEFT_WAITING, HELD, ONCE_MORE, CAME, N_ROW = range(12)

# counts[…] of all replicas, SHOWN and NEXT_SHOWN for each kind: iterations that the sample has seen, and the one that
# it takes next
N_ROWS, SHOWN, NEXT_SHOWN, N_COUNTS = 0, 1, 1 + N_KINDS, 1 + 2 * N_KINDS

# what is returned: all is done until then; requests have ended; no room for rows or gaps; no price; one is to be kept
DONE, TOLD, FULL, NO_PRICE, KEEP = range(5)


class Replica(NamedTuple):
    """One replica. order: who runs, or is idle; left: room for as many; groups[s, i], grown[s]: batches that stay
    together, and their lengths and caches; free: ticks at which stages are free; gaps: ticks between tokens. With
    identities: spans, names, held: see `kernels.prefix`; by_name[name]: the oldest and the newest block."""

    limits: np.ndarray
    at: np.ndarray
    order: np.ndarray
    left: np.ndarray
    groups: np.ndarray
    grown: np.ndarray
    slots: np.ndarray
    members: np.ndarray
    free: np.ndarray
    gaps: np.ndarray
    spans: np.ndarray
    names: np.ndarray
    held: np.ndarray
    blocks: np.ndarray
    by_name: np.ndarray


class Shared(NamedTuple):
    """Of all replicas. joules: of each row; by_request: energies; by_cause: work [ps], then energies; time_ps: of
    iterations of each kind."""

    requests: np.ndarray
    counts: np.ndarray
    rows: np.ndarray
    joules: np.ndarray
    by_request: np.ndarray
    by_cause: np.ndarray
    time_ps: np.ndarray
