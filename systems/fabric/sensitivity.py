"""How far the MFU ratio to DGX hangs on what nobody states: bandwidth, batch, schedule, efficiency."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as changed

from pimloom.arch.fabric_cost import Hbd
from pimloom.systems.fabric.mfu import BASELINE, Row, Search, best_mfu, domains, on_dgx

LOSS = 0.05  # [design] of efficiency, for each 8 GPUs more in a tensor-parallel group
CHUNKS = 8  # [design] most chunks of an interleaved stage


class Case(NamedTuple):
    """One line: what differs, how is searched, and the bandwidth of the fabric and of DGX [GB/s]."""

    case: str
    search: Search
    hbd_gb_s: float
    baseline_gb_s: float


def cases(search: Search, ours_gb_s: float, dgx_gb_s: float) -> Iterator[Case]:
    """Every case: as asked; half the bandwidth; both alike with wider TP over batches; interleaved, both at half."""
    half = ours_gb_s / 2
    yield Case("as asked", search, ours_gb_s, dgx_gb_s)
    yield Case("half the bandwidth", search, half, dgx_gb_s)
    wide = replace(search, tensor=(*search.tensor, 2 * max(search.tensor)))
    lossy = changed(search.training, gpu=changed(search.training.gpu, efficiency_loss=LOSS))
    halved = [] if search.batch % 2 else [search.batch // 2]
    for batch in (*halved, search.batch, 2 * search.batch):
        for name, training in (("", search.training), (f", loss {LOSS:.0%}", lossy)):
            alike = replace(wide, batch=batch, training=training)
            yield Case(f"equal bandwidth{name}", alike, ours_gb_s, ours_gb_s)
    loop = replace(search, most_chunks=CHUNKS)
    yield Case("interleaved, equal half", replace(loop, schedule="interleaved"), half, half)
    yield Case("ideal formula, equal half", replace(loop, schedule="interleaved-ideal"), half, half)


def sensitivity_rows(search: Search, gpus: int, hbd: Hbd | None = None, baseline: Hbd | None = None) -> list[Row]:
    """The ratio of a fabric's best MFU (InfiniteHBD's) to DGX's for every case; None where nothing fits.

    Keys: case, gpus, arch, batch, schedule, interleave (most v), most_tp, efficiency_loss, hbd_gb_s,
    baseline_hbd_gb_s, mfu, baseline_mfu, ratio_to_dgx8.
    """
    ours, dgx = hbd or domains("infinitehbd-k2")[0], baseline or domains(BASELINE)[0]
    rows = []
    for case in cases(search, ours.gb_s, dgx.gb_s):
        mfu = best_mfu(case.search, replace(ours, gb_s=case.hbd_gb_s), gpus)
        least = best_mfu(on_dgx(case.search), replace(dgx, gb_s=case.baseline_gb_s), gpus)
        rows.append(
            {
                "case": case.case,
                "gpus": gpus,
                "arch": ours.arch,
                "batch": case.search.batch,
                "schedule": case.search.schedule,
                "interleave": case.search.most_chunks,
                "most_tp": max(case.search.tensor),
                "efficiency_loss": case.search.training.gpu.efficiency_loss,
                "hbd_gb_s": case.hbd_gb_s,
                "baseline_hbd_gb_s": case.baseline_gb_s,
                "mfu": mfu,
                "baseline_mfu": least,
                "ratio_to_dgx8": mfu / least if mfu and least else None,
            }
        )
    return rows
