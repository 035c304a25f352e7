"""The chapter on the transceiver: light, a failover, and collectives on a ring of GPUs."""

from pimloom.arch.optics import Optics, load_optics
from pimloom.arch.units import BITS_PER_BYTE, KIB, PS_PER_MS, PS_PER_NS, PS_PER_US
from pimloom.cycle_sim.ocs_ring import Ring, collective, node_ring, recovered
from pimloom.reports.fabric.budget_figure import budget_figure
from pimloom.reports.figures import lines
from pimloom.reports.infinitehbd.findings import CLUSTER, Row
from pimloom.reports.page import Column, Figure, Section, TableData
from pimloom.systems.fabric.budget import budget_rows

PART = "ocstrx"
RINGS = (16, 32)  # GPUs, of the testbed that is recalled
SIZES = tuple(KIB << step for step in range(0, 22, 3))
LARGE = SIZES[-1]


def share_of_rate(ring: Ring, n_bytes: int) -> float:
    """Bits that each GPU has to send in an all-reduce, over what its link could in the time it takes."""
    sent = 2 * (ring.gpus - 1) * n_bytes * BITS_PER_BYTE / ring.gpus
    return sent * PS_PER_NS / (ring.gbps * collective(ring, n_bytes).end_ps)


def ring_of(part: Optics, gpus: int, bypassed: int = 0) -> Ring:
    """A ring of so many GPUs; its first hop between nodes passes over `bypassed` faulty ones."""
    nodes = gpus // CLUSTER.gpus_per_node
    return node_ring(part, CLUSTER.gpus_per_node, [1 + bypassed, *[1] * (nodes - 2)])


def transceiver() -> Section:
    """Insertion loss, failover, collectives."""
    part = load_optics(PART).value
    intro = (
        "One module, three paths, one live at a time. What control the modules have, and all times but that of the "
        "switch, are assumed; `pimloom explain optics` names each source."
    )
    return Section("Transceiver", "transceiver", intro, [*_budget(part), _failover(part), *_collectives(part)])


def _budget(part: Optics) -> list[Figure | TableData]:
    columns = [
        Column("item", "item"),
        Column("db", "typical", "dB", format="+.2f"),
        Column("dbm", "power behind it", "dBm", format="+.2f"),
        Column("worst_db", "at any temperature", "dB", format="+.2f"),
        Column("worst_dbm", "power behind it", "dBm", format="+.2f"),
    ]
    return [budget_figure(part), TableData("Link budget to the next node", columns, budget_rows(part), SOURCES)]


SOURCES = (
    "The switch's loss is recalled with low confidence; powers of sender and receiver are assumed from IEEE 802.3, "
    "connectors and fibre from what is typical. The sender has the most power that the standard allows, so the margin "
    "is that of a good one. Last line: the power that the receiver needs, and the margin."
)


def _failover(part: Optics) -> TableData:
    at, rows = 0, list[Row]()
    for cause, ps in part.failover_ps.items():
        at += ps
        rows.append({"what": cause, "us": ps / PS_PER_US, "until": at / PS_PER_US, "share": 100.0 * ps})
    for row in rows:
        row["share"] /= at
    return TableData(
        "From the loss of a path to work on another one",
        [
            Column("what", "step"),
            Column("us", "takes", "µs", format=",.0f"),
            Column("until", "over after", "µs", format=",.0f"),
            Column("share", "share", "%", format=".2f"),
        ],
        rows,
        "Only `reconfigure` is sourced (60 to 80 µs, its worst case); the rebuild of communicators dominates.",
    )


def _collectives(part: Optics) -> list[Figure | TableData]:
    series = {f"{gpus} GPUs": [(n / KIB, 100 * share_of_rate(ring_of(part, gpus), n)) for n in SIZES] for gpus in RINGS}
    chart = lines(
        "All-reduce on a ring: share of the link rate that is used",
        series,
        xlabel="Message [KiB]",
        ylabel="Share of the rate [%]",
        log_x=True,
        caption="Latencies and bits alone: no protocol, no copy, no kernel launch, so large messages come near 100 %.",
    )
    rows = [_lost(part, gpus, bypassed) for gpus in RINGS for bypassed in (1, 2)]
    columns = [
        Column("gpus", "GPUs"),
        Column("bypassed", "nodes bypassed then"),
        Column("whole_ms", "without a fault", "ms", format=".3f"),
        Column("longer_us", "hop longer by", "µs", format=".3f"),
        Column("lost_ms", "lost by the fault", "ms", format=",.1f"),
    ]
    return [
        chart,
        TableData(
            f"A path fails in the middle of an all-reduce of {LARGE // KIB**3} GiB",
            columns,
            rows,
            "The collective starts anew on the ring that bypasses the lost node, with another node in its place.",
        ),
    ]


def _lost(part: Optics, gpus: int, bypassed: int) -> Row:
    before, after = ring_of(part, gpus), ring_of(part, gpus, bypassed)
    whole = collective(before, LARGE).end_ps
    found = recovered(part, before, after, LARGE, whole // 2)
    longer = part.hop_ps(1 + bypassed) - part.hop_ps(1)
    return {
        "gpus": gpus,
        "bypassed": bypassed,
        "whole_ms": whole / PS_PER_MS,
        "longer_us": longer / PS_PER_US,
        "lost_ms": found.lost_ps / PS_PER_MS,
    }
