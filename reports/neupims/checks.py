"""What the NeuPIMs study found, and our values beside the published ones with a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.energy.area import second_row_buffer
from pimloom.reports.neupims.points import Cell, Point, Scope, machine, resolved
from pimloom.reports.published import Published, read_published, span
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.npu_pim.usage import Usage, memory_w, usage

NEAR, LISTS = 0.10, 0.20  # tolerances, chosen before the first run: of means; of the released simulator's ratios
Rows = list[dict[str, object]]


def published() -> dict[str, Published]:
    """All lines of paper.csv by id."""
    return read_published(Path(__file__).parent)


@dataclass(frozen=True)
class Findings:
    """Everything the study computed; None where a machine could not run."""

    scope: Scope
    results: Mapping[Point, Served | str]

    def served(self, point: Point) -> Served | None:
        """The result of a point."""
        found = self.results.get(resolved(point))
        return found if isinstance(found, Served) else None

    def ratio(self, mine: Point, other: Point) -> float | None:
        """Tokens per second of one over those of another."""
        a, b = self.served(mine), self.served(other)
        return a.tokens_per_s / b.tokens_per_s if a and b else None

    def over(self, mine: str, other: str, cell: Cell, fidelity: str = "physical") -> float | None:
        """Throughput of a contender over another's."""
        return self.ratio(Point(mine, cell, fidelity), Point(other, cell, fidelity))

    def all_over(self, mine: str, other: str, cells: Sequence[Cell] | None = None) -> list[float]:
        """`over` in each cell of the matrix where both run."""
        found = (self.over(mine, other, cell) for cell in (self.scope.cells if cells is None else cells))
        return [ratio for ratio in found if ratio is not None]

    def mean_over(self, mine: str, other: str) -> float | None:
        """Mean of `over` over all cells; None unless both run in each, as a mean of some says nothing of all."""
        ratios = self.all_over(mine, other)
        return fmean(ratios) if len(ratios) == len(self.scope.cells) else None

    def use(self, who: str) -> Usage | None:
        """Utilisation in the cell of Table 4."""
        return self.usage_of(Point(who, self.scope.utilisation, one_stage=True))

    def usage_of(self, point: Point) -> Usage | None:
        """Utilisation of a point's machine."""
        found = self.served(point)
        return usage(found, machine(resolved(point))) if found else None

    def refusals(self) -> dict[str, list[Point]]:
        """Sentences of machines that could not run, and the points."""
        found: dict[str, list[Point]] = {}
        for point, said in self.results.items():
            if isinstance(said, str):
                found.setdefault(said, []).append(point)
        return found


def reproduction_rows(found: Findings) -> Rows:
    """One dict per check, in the order of paper.csv."""
    paper = published()
    rows = [*_means(found), *_trends(found), *_ablation(found), *_released(found), *_machine(found)]
    order = list(paper)
    for row in rows:
        line, ours = paper[str(row["id"])], row.pop("compare")
        assert isinstance(ours, list)
        row["deviation"] = line.deviation(ours) if ours else None
        row |= {"tag": line.tag, "published": line.text, "unit": line.unit, "check": line.quantity}
        row |= {"version": line.version, "basis": line.basis}
    return sorted(rows, key=lambda row: order.index(str(row["id"])))


def _row(id: str, values: Sequence[float | None], tolerance: str, ok: bool | None, pattern: str = ".2f") -> dict:
    """A check; without values, or without `ok`, it is only reported."""
    known = [value for value in values if value is not None]
    verdict = "report only" if ok is None or not known else "pass" if ok else "deviates"
    ours = span(known, pattern) if known else "could not be run"
    return {"id": id, "ours": ours, "compare": known, "tolerance": tolerance, "verdict": verdict}


def _near(id: str, value: float | None, tolerance: float) -> dict:
    line = published()[id]
    assert line.low is not None
    ok = None if value is None else abs(value / line.low - 1) <= tolerance
    return _row(id, [value], f"±\u00a0{100 * tolerance:.0f}\u00a0%", ok)


def _means(found: Findings) -> Rows:
    least_most = found.all_over("served", "pim")
    line = published()["over_pim_range"]
    assert line.low and line.high
    inside = all(line.low * (1 - NEAR) <= ratio <= line.high * (1 + NEAR) for ratio in least_most)
    return [
        _row("over_gpu", [found.mean_over("served", "gpu")], "none: our GPU is a roofline", None),
        _near("over_npu", found.mean_over("served", "npu"), NEAR),
        _near("over_pim", found.mean_over("served", "pim"), NEAR),
        _near("pim_over_npu", found.mean_over("pim", "npu"), NEAR),
        _row("over_pim_range", least_most, f"all inside, ±\u00a0{100 * NEAR:.0f}\u00a0%", inside),
    ]


def _trends(found: Findings) -> Rows:
    """Growth of NeuPIMs over NPU+PIM from the smallest to the largest batch, from Alpaca to ShareGPT."""
    cells, grows, longer = found.scope.cells, list[float](), list[float]()
    least, most = min(c.batch for c in cells), max(c.batch for c in cells)
    for cell in cells:
        mine = found.over("served", "pim", cell)
        small = found.over("served", "pim", cell._replace(batch=least))
        short = found.over("served", "pim", cell._replace(data="alpaca"))
        if mine and small and cell.batch == most > least:
            grows.append(mine / small)
        if mine and short and cell.data == "sharegpt":
            longer.append(mine / short)
    return [
        _row("grows_with_batch", grows, "all above 1", min(grows, default=0) > 1),
        _row("grows_with_length", longer, "all above 1", min(longer, default=0) > 1),
    ]


def _ablation(found: Findings) -> Rows:
    """The steps of Fig. 13, physical."""

    def steps(mine: str, other: str, cells: Sequence[Cell]) -> list[float]:
        return found.all_over(mine, other, cells)

    cells = found.scope.ablation
    small, large = [c for c in cells if c.batch < 256], [c for c in cells if c.batch >= 256]
    drb, packed = steps("drb", "pim", cells), steps("packed", "drb", cells)
    hurts = steps("neupims", "packed", small)
    helps = [min(found.over("neupims", other, cell) or 0 for other in ("pim", "drb", "packed")) for cell in large]
    return [
        _near("drb", fmean(drb) if drb else None, NEAR),
        _row("packing", packed, "all above 1", min(packed, default=0) > 1),
        _row("interleaving_small", hurts, "all below 1", max(hurts, default=2) < 1),
        _row("interleaving_large", helps, "all above 1", min(helps, default=0) > 1),
    ]


RELEASED = {
    "drb": ("drb", "pim"),
    "packing": ("packed", "drb"),
    "interleaving": ("neupims", "packed"),
    "over_pim": ("neupims", "pim"),
    "pim_over_npu": ("pim", "npu"),
}


def _released(found: Findings) -> Rows:
    """Our `released` on our lists beside the released simulator on the authors'."""
    rows = []
    for name, (mine, other) in RELEASED.items():
        for batch in (64, 256):
            cells = [cell for cell in found.scope.ablation if cell.batch == batch]
            value = found.over(mine, other, cells[0], "released") if cells else None
            rows.append(_near(f"released_{name}_{batch}", value, LISTS))
    return rows


def _machine(found: Findings) -> Rows:
    """Utilisation, power, energy, area: definitions of the paper are not known, so no verdict."""
    uses = {who: found.use(who) for who in ("pim", "neupims")}
    why = "none: its definition is not known"
    rows = [_row(f"npu_use_{who}", [100 * u.arrays if u else None], why, None, ".1f") for who, u in uses.items()]
    rows += [_row(f"pim_use_{who}", [100 * u.comp if u else None], why, None, ".1f") for who, u in uses.items()]
    power, energy = list[float | None](), list[float | None]()
    for cell in found.scope.cells:
        mine, other = (found.served(Point(who, cell)) for who in ("served", "npu"))
        watts = [memory_w(served) if served else None for served in (mine, other)]
        if watts[0] and watts[1]:
            power.append(watts[0] / watts[1])
        if watts[0] and watts[1] and mine and other:
            energy.append(watts[0] * other.tokens_per_s / (watts[1] * mine.tokens_per_s))
    why = "none: the paper's powers are a picture"
    rows += [_row("memory_power", power, why, None), _row("energy", energy, why, None)]
    return [*rows, _row("area", area_percent(), "none: an estimate with assumed inputs", None, ".1f") | {"compare": []}]


def area_percent() -> list[float]:
    """Area of the second row buffer, as a share of a bank [%]: the least and the most."""
    system = machine(Point("neupims", Cell("", "", 0)))
    bank = system.of_kind(NpuPimSystem).bank
    assert bank
    return [100 * part for part in second_row_buffer(system.memory, bank)]
