"""Which assumption each published ratio would need: what the other machine would have to be."""

from pimloom.arch.llm import load_llm
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.units import BITS_PER_BYTE
from pimloom.reports.neupims.checks import Findings, published
from pimloom.reports.neupims.points import Cell, Point, machine, there
from pimloom.reports.page import Column, Section, TableData
from pimloom.systems.devices.npu_pim.served import Served

ATTENTION = {
    "npu": ("NPU-only", "over_npu", "attention_serial", "attention of a layer on the arrays"),
    "pim": ("NPU+PIM", "over_pim", "pim_dispatched_singly", "attention of a layer on PIM"),
}


def needed(found: Findings) -> Section:
    """For each ratio the time of attention, or the share of a roofline, from which it would follow."""
    rows: list[dict[str, object]] = []
    cells = [cell for cell in found.scope.cells if cell.data == "sharegpt"]
    for cell in dict.fromkeys((*cells, found.scope.departures)):
        mine = found.served(Point("served", cell))
        if mine is None or mine.pp > 1:
            continue
        rows += [_attention(found, mine, who, cell) for who in ATTENTION if there(who)]
        rows += _gpu(found, mine, cell)
    table = TableData(
        "What the published ratios would need, physical",
        [
            Column("cell", "model, data set, batch"),
            Column("ratio", "NeuPIMs over"),
            Column("ours", "ours", "×", format=".2f"),
            Column("published", "published", "×", format=".1f"),
            Column("what", "what would have to be different"),
            Column("is", "is", align="right"),
            Column("needs", "would have to be", align="right"),
            Column("bound", "at full bandwidth", align="right"),
        ],
        [row for row in rows if row],
        "Attention in NPU cycles of a layer; all else stays as simulated. At full bandwidth: K and V read once over "
        "all channels. A dash: no time would do, or there is none.",
    )
    return Section("What the published ratios would need", "needed", _words(found), [table])


def _words(found: Findings) -> str:
    """What the table comes to, in the cell in which faults are switched."""
    cell, said = found.scope.departures, list[str]()
    for who, (title, id, fault, _) in ATTENTION.items():
        line, ours = published()[id], found.over("served", who, cell)
        turned = found.ratio(Point("served", cell), Point(who, cell, flip=fault))
        if ours is None or line.low is None:
            continue
        text = (
            f"Over {title} the paper has {line.low:g} ×; on {cell.text} requests the repaired rules give {ours:.2f} ×."
        )
        if turned is not None:
            how = (
                "within a tenth of" if abs(turned / line.low - 1) <= 0.1 else "beyond" if turned > line.low else "below"
            )
            text += f" With `{fault}` alone turned on it is {turned:.2f} ×, {how} the published mean."
        said.append(text)
    said.append(
        "No constant was moved to reach a published ratio. Where the last columns ask for a baseline that is slower "
        "than its memory and its commands make it, the published ratio needs such an assumption, and no rule of the "
        "specification supplies it."
    )
    return "\n\n".join(said)


def _attention(found: Findings, mine: Served, who: str, cell: Cell) -> dict[str, object]:
    title, id, _, what = ATTENTION[who]
    other, wanted = found.served(Point(who, cell)), published()[id].low
    if other is None or wanted is None:
        return {}
    layers = other.layers
    rest = other.iteration_cyc / layers - other.stages_cyc["B"]
    needs = wanted * mine.iteration_cyc * mine.clock_ps / (other.clock_ps * layers) - rest
    full = full_bandwidth_cyc(other, Point(who, cell))
    return {
        "cell": cell.text,
        "ratio": title,
        "ours": mine.tokens_per_s / other.tokens_per_s,
        "published": wanted,
        "what": what,
        "is": f"{other.stages_cyc['B']:,} cycles",
        "needs": f"{needs:,.0f} cycles" if needs > 0 else "–",
        "bound": f"{full:,.0f} cycles",
    }


def full_bandwidth_cyc(found: Served, point: Point) -> float:
    """Cycles in which the data buses of all channels carry K and V of all requests of a layer once."""
    system, llm = machine(point), load_llm(point.cell.model)
    spec, part = system.of_kind(NpuPimSystem), system.memory
    kv_heads = max(llm.num_key_value_heads // found.tp, 1)
    cache_bytes = 2 * found.tokens * kv_heads * llm.head_dim * spec.npu.element_bits // BITS_PER_BYTE
    access_bytes = part.organization.access_bits // BITS_PER_BYTE
    return cache_bytes / access_bytes * part.cycles("nBL") / spec.dram.channels


def _gpu(found: Findings, mine: Served, cell: Cell) -> list[dict[str, object]]:
    other, wanted = found.served(Point("gpu", cell)), published()["over_gpu"].low
    if other is None or wanted is None:
        return []
    ratio = mine.tokens_per_s / other.tokens_per_s
    return [
        {
            "cell": cell.text,
            "ratio": "GPU-only",
            "ours": ratio,
            "published": wanted,
            "what": "share of its roofline that the GPU reaches",
            "is": "100 %",
            "needs": f"{100 * ratio / wanted:.0f} %",
            "bound": "–",
        }
    ]
