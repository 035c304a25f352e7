"""What the Duplex paper says of orders, means and maxima, beside the grid of decode steps."""

from collections.abc import Iterator, Mapping
from statistics import fmean

from pimloom.arch.duplex import load_duplex
from pimloom.reports.duplex.edap import OP_PER_BYTE, UNITS, figure, normalised
from pimloom.reports.duplex.grid import GridPoint
from pimloom.reports.reproduction import PREDICTED
from pimloom.systems.devices.duplex.memory import BANK, BANK_GROUP, LOGIC

Ratios = Mapping[tuple[GridPoint, str], Mapping[str, float]]  # of a point and a system, over the GPU
PE, ET = "Duplex+PE", "Duplex+PE+ET"
PAPER = {  # [paper] of a wider grid with prompts: what, printed
    "mean throughput of PE+ET": 2.07, "mean energy of PE+ET": 1 - 0.2819, "most throughput of Duplex alone": 2.51,
    "most throughput of PE+ET": 2.67, "most throughput of PE+ET over Duplex": 1.36,
    "Mixtral: most throughput of PE+ET over Bank-PIM": 1.80, "Mixtral: mean throughput of PE+ET over Bank-PIM": 1.49,
}  # fmt: skip


def signs(ours: Ratios) -> Iterator[dict[str, object]]:
    """What should come first, by the simulator of the authors [derived R]."""
    for point in dict.fromkeys(point for point, _ in ours):
        if point.model == "mixtral-8x7b":
            duplex, twice = ours[point, "Duplex"]["step"], ours[point, "2xGPU"]["step"]
            yield _order(f"{_named(point)}: step of Duplex over 2xGPU", duplex / twice)
        most = max(ours[point, name]["energy"] for name in ("Duplex", PE, ET, "Bank-PIM"))
        yield _order(f"{_named(point)}: most energy of a system with PIM, over the GPU", most)


def products() -> Iterator[dict[str, object]]:
    """Figure 8: units in banks are the best up to 4 Op/B, Logic-PIM from 8 on, and always better than bank groups."""
    found = normalised(list(figure(load_duplex())))
    for ops in OP_PER_BYTE:
        best = BANK if ops <= 4 else LOGIC
        others = min(found[units, ops] for units in UNITS if units != best)
        yield _order(f"figure 8: {best} over the next at {ops} Op/B", found[best, ops] / others, "paper")
        ratio = found[LOGIC, ops] / found[BANK_GROUP, ops]
        yield _order(f"figure 8: logic over bank group at {ops} Op/B", ratio, "paper")


def means(ours: Ratios) -> Iterator[dict[str, object]]:
    """Report only: the paper's are of a wider grid, and with prompts."""
    by = {name: [of for (_, system), of in ours.items() if system == name] for name in ("Duplex", PE, ET, "Bank-PIM")}
    mixtral = [
        of["throughput"] / ours[point, "Bank-PIM"]["throughput"]
        for (point, system), of in ours.items()
        if system == ET and point.model == "mixtral-8x7b"
    ]
    over = [a["throughput"] / b["throughput"] for a, b in zip(by[ET], by["Duplex"], strict=True)]
    found = {
        "mean throughput of PE+ET": fmean(of["throughput"] for of in by[ET]),
        "mean energy of PE+ET": fmean(of["energy"] for of in by[ET]),
        "most throughput of Duplex alone": max(of["throughput"] for of in by["Duplex"]),
        "most throughput of PE+ET": max(of["throughput"] for of in by[ET]),
        "most throughput of PE+ET over Duplex": max(over),
        "Mixtral: most throughput of PE+ET over Bank-PIM": max(mixtral),
        "Mixtral: mean throughput of PE+ET over Bank-PIM": fmean(mixtral),
    }
    for what, theirs in PAPER.items():
        yield {
            "check": f"{what}, decode alone; the paper with prompts", "verdict": "report only",
            "ours": f"{found[what]:.3f}", "published": f"{theirs:.3f}", "unit": "×",
            "deviation": 100 * (found[what] / theirs - 1), "tolerance": "report only", "tag": "paper",
            "basis": PREDICTED,
        }  # fmt: skip


def _order(what: str, ratio: float, tag: str = "derived") -> dict[str, object]:
    return {
        "check": what, "verdict": "pass" if ratio < 1 else "deviates", "ours": f"{ratio:.3f}", "published": "below 1",
        "unit": "×", "deviation": 0.0 if ratio < 1 else 100 * (ratio - 1), "tolerance": "order", "tag": tag,
        "basis": PREDICTED,
    }  # fmt: skip


def _named(point: GridPoint) -> str:
    model, batch, length = point
    return f"{model} {batch}/{length}"
