"""Study `cent`: the results that CENT's authors ship, from host instructions on, and what its slips are worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pimloom.arch.cent import CentSystem
from pimloom.arch.files import prepare_folder
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.arch.units import J_PER_MJ, NS_PER_MS, PS_PER_MS
from pimloom.arch.version import __version__
from pimloom.cycle_sim.cent import near_memory_cyc, next_ns, shared_ns
from pimloom.reports.cent.further import HARD_ENERGY, PRINTED, against_gpus, components, of_cores
from pimloom.reports.figures import grouped_bars, lines
from pimloom.reports.page import Claim, ClaimLine, Column, Figure, Page, Section, TableData
from pimloom.reports.published import read_published
from pimloom.reports.reproduction import (
    PREDICTED,
    Rows,
    assumptions,
    claim,
    compared,
    counting,
    gated,
    passed_cards,
    reproduction_section,
    rows_of,
    write_study,
)
from pimloom.systems.asked import Asked
from pimloom.systems.devices.cent.asked import EVERY, cent_work
from pimloom.systems.devices.cent.outcome import CentOutcome
from pimloom.systems.devices.cent.placed import placed
from pimloom.systems.pool import run_all

HERE, SYSTEM = Path(__file__).parent, "cent"
FIDELITIES = "released", "physical"
SOFT, HARD_FORM = 0.02, 1e-6  # tolerances [design]
QUANTITIES = {"latency_s": "s", "tokens_per_s": "tokens/s", "energy_per_token_mj": "mJ", "power_w": "W"}
SAID = {
    "latency_s": "latency",
    "tokens_per_s": "throughput",
    "energy_per_token_mj": "energy of a token",
    "power_w": "power",
}
SHOWN_SHARE = 0.005  # of a token's energy: less is not drawn
Progress = Callable[[int, int], None]


class Run(NamedTuple):
    """A configuration: what is published of it, as released, and corrected."""

    published: Mapping[str, Any]
    released: CentOutcome
    physical: CentOutcome

    @property
    def name(self) -> str:
        """In a table."""
        p = self.published
        return f"{p['model']}, {p['devices']} devices, {p['stages']} x {p['tensor']}"


def run_study(out: str | Path, progress: Progress, every: int = EVERY) -> Path:
    """Run all configurations and write the report into folder `out`; returns the page. Raises GateError, when all is
    written, if a hard gate does not hold."""
    folder = prepare_folder(out)
    rows = _shipped()
    count = counting(2 * len(rows) + 1, progress)
    gates = _gates()
    count()
    jobs = [(i, fidelity) for i in reversed(range(len(rows))) for fidelity in FIDELITIES]  # the largest models first
    found = dict[tuple[int, str], CentOutcome]()
    for job, outcome in run_all(partial(_run, rows, every), jobs):
        found[job] = outcome
        count()
    runs = [Run(row, *(found[i, fidelity] for fidelity in FIDELITIES)) for i, row in enumerate(rows)]
    checks = [*gates, *(check for run in runs for check in _soft(run))]
    page = _page(runs, checks, every)
    both = [(run.name, each) for run in runs for each in (run.released, run.physical)]
    points, results = [_flat(*one) for one in both], [each.to_dict() for _, each in both]
    written = write_study(folder, page, points, results, checks)
    return gated(written, checks)


def _shipped() -> list[dict[str, Any]]:
    rows = rows_of(HERE, "shipped.csv")
    whole = ("devices", "stages", "tensor")
    return [{k: v if k == "model" else int(v) if k in whole else float(v) for k, v in row.items()} for row in rows]


def _run(rows: Sequence[Mapping[str, Any]], every: int, job: tuple[int, str]) -> CentOutcome:
    row, fidelity = rows[job[0]], job[1]
    piped = row["stages"] == load_llm(row["model"]).num_hidden_layers
    tp = None if piped else row["tensor"]
    asked = Asked(
        SYSTEM,
        row["model"],
        devices=row["devices"],
        pp=row["stages"],
        tp=tp,
        fidelity=fidelity,
        every=every,
        lm_head=True,
    )
    return cent_work(asked).run(lambda done, total: None)


def _gates() -> list[dict[str, object]]:
    """What must hold to the printed digit."""
    paper, system, llm = read_published(HERE), load_system(SYSTEM, {"devices": "8"}), load_llm("llama-2-7b")
    spec, wide = system.of_kind(CentSystem), load_llm("llama-2-13b")
    found = placed(system, llm, None, None, released=True)
    cost, bits = found.token(128), spec.element_bits
    cycles = round(cost.layer.pim * PS_PER_MS / system.memory.tCK_ps)
    near = sum(near_memory_cyc(spec.near_memory, llm.hidden_size, llm.num_attention_heads, 1, 128).values())
    ways = (
        next_ns(spec.link, 8, llm.hidden_size, bits),
        shared_ns(spec.link, 20, 20, wide.hidden_size, wide.intermediate_size, bits),
    )
    ours = {
        "layer_cycles": (float(cycles), 0.0, "exact"),
        "layer_energy": (sum(cost.energy_pj.values()) / 1e9, HARD_ENERGY, "0.1 %"),
        "near_memory": (near, HARD_FORM, "1e-6"),
        "link_pipeline": (ways[0] / NS_PER_MS, HARD_FORM, "1e-6"),
        "link_tensor": (ways[1] / NS_PER_MS, HARD_FORM, "1e-6"),
    }
    checks = []
    for id, (value, tolerance, said) in ours.items():
        line = paper[id]
        checks.append(compared(
            line.quantity, value, line.low or 0.0, line.unit, tolerance, said, "FAIL", line.tag, basis=line.basis
        ))
    return [*checks, *components(cost.energy_pj, found.used_devices)]


def _soft(run: Run) -> list[dict[str, object]]:
    """The shipped results, within a tolerance."""
    ours = _values(run.released)
    return [
        compared(f"{run.name}: {SAID[name]}", ours[name], run.published[name], unit, SOFT, f"{SOFT:.0%}", "deviates",
               "secondary", basis=PREDICTED)
        for name, unit in QUANTITIES.items()
    ]  # fmt: skip


def _values(found: CentOutcome) -> dict[str, float]:
    return {
        "latency_s": found.latency_s, "tokens_per_s": found.tokens_per_s,
        "energy_per_token_mj": found.energy_per_token_j / J_PER_MJ, "power_w": found.power_w,
    }  # fmt: skip


def against(check: Mapping[str, object]) -> str:
    """The reference of a check: results that the authors ship, or their simulator."""
    return "shipped results" if check["tag"] == "secondary" else "the simulator"


def _page(runs: Sequence[Run], checks: Rows, every: int) -> Page:
    system = load_system(SYSTEM)
    deepest = max(abs(float(str(check["deviation"]))) for check in checks if check["tolerance"] != PRINTED)
    seven = next(run for run in runs if run.published["stages"] == 32 and run.published["model"] == "llama-2-7b")
    return Page(
        "CENT: Llama 2 on CXL devices of PIM",
        "Host instructions of every layer on AiM channels, clock by clock, with the CXL link and the near-memory unit "
        "of each device, beside the results that the authors ship.",
        [
            reproduction_section(_intro(deepest), checks, "tolerance"),
            Section("Latency against throughput", "trade", TRADE, [_trade(runs), _table(runs)]),
            Section("Where the time goes", "time", TIME, [_over_context(seven), of_cores()]),
            Section("What the slips are worth", "slips", SLIPS, [_causes(seven), _slips(runs)]),
            Section("Against GPUs", "gpus", GPUS, [against_gpus()]),
            assumptions(HERE),
        ],
        passed_cards(checks, against),
        {
            "pimloom": __version__,
            "system": f"{SYSTEM}, digest {system.digest}",
            "contexts": f"every {every} tokens",
            "made by": "pimloom report cent",
        },
        _claim(seven),
    )


def _intro(deepest: float) -> str:
    return (
        "The layer's instructions, commands and clocks are those of the authors' generator and simulator, none left "
        f"over. Beyond printed digits the largest deviation is {deepest:.2f} %. The shipped results come from an "
        "earlier revision of the AiM simulator, which explains the last tenths."
    )


TRADE = (
    "More devices for each layer answer a request sooner; more stages answer more requests. A stage takes one request "
    "at a time, so throughput is stages over the time of a token."
)
TIME = (
    "A token's time grows with its context: scores and values in the banks, exponentials in the near-memory unit, "
    "which serves the layers of its device one after the other. Its cores take roots, reciprocals and the sums of "
    "rotations; for the last the authors count fewer cycles than a program of ours has instructions."
)
SLIPS = (
    "As released the clocks with and without an open row are divided by the channels twice, so standby is 32 times too "
    "low; values that cross the link count as bits; the rotation of Q and K multiplies 16 times the columns that hold "
    "something; where several devices share a layer, keys are dealt over the banks of all, of which one device "
    "computes scores, so that most are missing; layers that do not divide over stages count as if they did. The "
    "second column has all corrected."
)
GPUS = "Not compared: no independent figures of the GPUs are in the code, so that these stand here without ours."


def _claim(run: Run) -> Claim:
    ours, shipped = _values(run.released), run.published
    names = ("tokens_per_s", "energy_per_token_mj")
    found = [
        ClaimLine(f"{run.name}, {SAID[name]}", f"{ours[name]:,.1f}", f"{shipped[name]:,.1f}", QUANTITIES[name])
        for name in names
    ]
    held = [abs(ours[name] / shipped[name] - 1) <= SOFT for name in names]
    said = claim(found, held, "The same instructions take the same clocks, and cost the same.", "See the deviations.")
    return replace(said, heading="Authors' simulator, one configuration", theirs="as shipped")


def _trade(runs: Sequence[Run]) -> Figure:
    series: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        found = run.released
        series.setdefault(str(run.published["model"]), []).append((found.latency_s, found.tokens_per_s))
    return lines(
        "Throughput over the latency of a request", {name: sorted(each) for name, each in series.items()},
        xlabel="latency of 4,096 tokens [s]", ylabel="throughput [tokens/s]", log_x=True, log_y=True,
        caption="Each point is a configuration: from one stage of all devices, left, to a stage for each layer, right.",
    )  # fmt: skip


def _table(runs: Sequence[Run]) -> TableData:
    return TableData(
        "All configurations, as released",
        [
            Column("configuration", "model, devices, stages x devices of each"),
            Column("latency_s", "latency", "s", format=",.2f"),
            Column("tokens_per_s", "throughput", "tokens/s", format=",.1f"),
            Column("energy_per_token_mj", "energy of a token", "mJ", format=",.1f"),
            Column("power_w", "power", "W", format=",.1f"),
        ],
        [{"configuration": run.name, **_values(run.released)} for run in runs],
    )


def _over_context(run: Run) -> Figure:
    points = run.physical.points
    parts = {"channels": "pim_s", "near-memory unit": "near_memory_s", "link": "link_s"}
    series = {name: [(p.context, getattr(p, field) * 1e3) for p in points] for name, field in parts.items()}
    return lines(
        f"A token of {run.name}", series, xlabel="context [tokens]", ylabel="time of all layers [ms]",
        caption="Corrected. Embedding, LM head and sampling come on top.",
    )  # fmt: skip


def _causes(run: Run) -> Figure:
    whole = run.physical
    causes = [cause for cause, j in whole.energy_by_cause_j.items() if j > SHOWN_SHARE * whole.energy_per_token_j]
    series = {
        said: [found.energy_by_cause_j[cause] / J_PER_MJ for cause in causes]
        for said, found in (("as released", run.released), ("corrected", run.physical))
    }
    names = [cause.replace("_", " ") for cause in causes]
    return grouped_bars(f"Energy of a token, {run.name}", names, series, xlabel="cause", ylabel="energy [mJ]")


def _slips(runs: Sequence[Run]) -> TableData:
    rows = []
    for run in runs:
        a, b = _values(run.released), _values(run.physical)
        rows.append(
            {
                "configuration": run.name,
                "released_mj": a["energy_per_token_mj"],
                "corrected_mj": b["energy_per_token_mj"],
                "energy": 100 * (b["energy_per_token_mj"] / a["energy_per_token_mj"] - 1),
                "latency": 100 * (b["latency_s"] / a["latency_s"] - 1),
            }
        )
    return TableData(
        "As released and corrected",
        [
            Column("configuration", "model, devices, stages x devices of each"),
            Column("released_mj", "energy of a token, as released", "mJ", format=",.1f"),
            Column("corrected_mj", "corrected", "mJ", format=",.1f"),
            Column("energy", "difference", "%", format="+.1f"),
            Column("latency", "difference of latency", "%", format="+.2f"),
        ],
        rows,
    )


def _flat(name: str, found: CentOutcome) -> dict[str, object]:
    kept = ("fidelity", "model", "devices", "stages", "tensor", "context")
    return {"configuration": name, **{k: getattr(found, k) for k in kept}, **_values(found)}
