"""Departures of NeuPIMs' simulator from physics, by name. What each changes: `systems/reference/neupims.py`."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Departures of NeuPIMs' simulator from physics: true reproduces it; none unless asked for."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "gemv_frees_row": "PIM_GEMV holds its row for tRTP after issue, however many COMPs it stands for",
        "gemv_answers_early": "the result of a PIM_GEMV is read nCL + nBL after issue, however many COMPs",
        "gwrites_overlap": "GWRITEs of one bank need no distance",
        "gact_counts_little": "a G_ACT after an ACT waits tRRD only, and for the first bank only that it opens",
        "gact_closes_early": "tRAS does not bind rows that G_ACT opened in a single row buffer",
        "headers_early": "a PIM_HEADER issues before the commands of its tile have come",
        "slack_stale": "a refresh in the next clock seems a whole interval away; time left for reads does not age",
        "pim_dispatched_singly": "in blocked mode one PIM command leaves the NPU in a clock, for all channels together",
        "requests_by_channel": "PIM takes the requests of a batch channel by channel, not in the order of the list",
        "hashed_lines": "the lines of a memory block leave in the order of a hash set",
        "blocks_shifted": "a block of the NPU's memory begins an element late, so that it touches a line more; without "
        "PIM its addresses go on over the weights of all devices",
        "interconnect": "requests and responses pass the simulator's interconnect, two steps and a wait for the next "
        "clock each way; requests of NPU and PIM for a channel share a buffer there",
        "queues_in_order": "tasks and stores leave in the order of the program, one of each in a cycle, whatever is "
        "ready; a block takes the next addresses when it leaves",
        "ends_seen_late": "an operator starts a cycle after the last response of the one before has come, a stage two "
        "cycles after, and the cycles between stages are not in the total",
        "vectors_by_row": "LayerNorm, Add and activations load, compute and store each row of the batch by itself, and "
        "their parameters each time",
        "strip_stored": "a GEMM stores all places of a tile of rows, but only as many outputs as there are rows",
        "bias_by_rows": "a GEMM loads a bias for each tile of rows, not of outputs, and no step waits for it",
        "weights_first": "a GEMM loads the weights of a depth before its activations",
        "stores_when_idle": "with queues_in_order, a tile of a GEMM is stored as soon as no step that adds to it runs",
        "adds_by_tile": "partial results of attend are added, and stored as if for a whole head, for each tile of V",
        "vector_sizes_lost": "LayerNorm, Add and GELU see no elements; softmax beside PIM takes bytes for elements",
        "one_queue": "requests of NPU and PIM share a queue in front of each channel unless sub-batches interleave",
        "header_counts_rounded": "PIM_HEADER announces COMPs rounded to a power of two",
        "gwrites_of_row_0": "GWRITEs read row 0, where the addresses of the NPU begin, too",
        "attend_not_stored": "results of attend of one row of tokens are not written",
        "same_rows": "all heads of a request read the same rows of V",
        "attend_waits_for_all": "no request's product with V starts before the logits of all requests are there",
        "halves_by_number": "sub-batches take equal numbers of a channel's requests in list order, not equal estimates",
        "silent_devices": "devices that share a layer exchange nothing",
        "narrow_window": "without PIM only 96 requests of a channel may be on their way or wait to be collected",
        "attention_serial": "without PIM attention takes one request and head at a time",
        "arrays_drain": "without PIM weights enter the arrays only when the step before has its result, and the loads "
        "of an operator leave one a clock",
        "starts_early": "a step of the arrays may start before its operands come, vector work beside other work",
        "cache_overallotted": "caches take the rows of all devices' heads, weights none",
        "header_rows_wrap": "the row of a PIM_HEADER for K goes through an address of 32 bits",
    }

    gemv_frees_row: bool = False
    gemv_answers_early: bool = False
    gwrites_overlap: bool = False
    gact_counts_little: bool = False
    gact_closes_early: bool = False
    headers_early: bool = False
    slack_stale: bool = False
    pim_dispatched_singly: bool = False
    requests_by_channel: bool = False
    hashed_lines: bool = False
    blocks_shifted: bool = False
    interconnect: bool = False
    queues_in_order: bool = False
    ends_seen_late: bool = False
    vectors_by_row: bool = False
    strip_stored: bool = False
    bias_by_rows: bool = False
    weights_first: bool = False
    stores_when_idle: bool = False
    adds_by_tile: bool = False
    vector_sizes_lost: bool = False
    one_queue: bool = False
    header_counts_rounded: bool = False
    gwrites_of_row_0: bool = False
    attend_not_stored: bool = False
    same_rows: bool = False
    attend_waits_for_all: bool = False
    halves_by_number: bool = False
    silent_devices: bool = False
    narrow_window: bool = False
    attention_serial: bool = False
    arrays_drain: bool = False
    starts_early: bool = False
    cache_overallotted: bool = False
    header_rows_wrap: bool = False
