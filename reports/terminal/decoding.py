"""Tables of one decode iteration, and of many."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from pimloom.arch.name_units import counted, some_layers
from pimloom.arch.units import J_PER_MJ, J_PER_PJ, J_PER_UJ, S_PER_MS, S_PER_PS, S_PER_US
from pimloom.mappers.interleave import Stage, stages_of
from pimloom.reports.compare.cells import cells_line
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.systems.devices.npu_pim.served import LayerKind, Served
from pimloom.systems.interpolation import error_note
from pimloom.systems.serving.decoding import Decoded

PROMPTS_ARE_THERE = "prompts: not computed: their keys and values are taken as there"
NOT_REST = "what comes after is not simulated"
NO_PIPELINE_ENERGY = "no energy of a pipeline: what devices take while they wait is not known"


def show_served(found: Served, of_energy: str | None = None) -> None:
    """Print stages, operators and energy of an iteration. of_energy: why there is none, or what is not in it."""
    plan = stages_of(found.stages_cyc)
    if found.workload is not None:
        show_source(found.workload)
        show_line(PROMPTS_ARE_THERE)
        if requests := found.workload["requests"]:
            there = f"with {found.batch:,} of {counted(requests, 'request')} in it"
            show_line(f"simulated: 1 iteration, {there}; {NOT_REST}")
    show_line(
        f"{found.model} on {found.system}, {found.fidelity}: {counted(found.batch, 'request')} of "
        f"{counted(found.tokens, 'token')} in all, tensor parallel over {found.tp}, without embedding and LM head"
        f"{some_layers(found.layers, found.model_layers)}"
    )
    if found.pp > 1:
        show_line(
            f"pipeline of {found.pp} stages of {counted(found.tp, 'device')}, {found.micro_batches} micro-batches, "
            f"whose layers are summed up here; bubble {found.bubble:.1%}"
        )
        show_line(NO_PIPELINE_ENERGY)
    show_line(_legend(plan))
    times = {f"stage {name}": cyc for name, cyc in found.stages_cyc.items()} | found.operators_cyc
    rows = [
        {"name": name, "cyc": cyc, "ms": _ms(found, cyc), "share": 100 * cyc / found.total_cyc}
        for name, cyc in times.items()
    ]
    shown = "one layer" if len(plan) == 3 else "two layers, each stage once"
    if found.layer_kinds:
        shown = f"layers of {len(found.layer_kinds)} kinds, one of each"
    columns = (
        ("name", shown, ""),
        ("cyc", "cycles|r", ",d"),
        ("ms", "ms|r", ",.4f"),
        ("share", "% of all stages|r", ".1f"),
    )
    show_rows(columns, rows)
    show_line(
        f"all stages {found.total_cyc:,} cycles of {found.clock_ps:,} ps, {_ms(found, found.total_cyc):,.4f} ms"
        + (f"; {_times(plan, found.layers)}" if found.pp == 1 and not found.layer_kinds else "")
    )
    for kind in found.layer_kinds:
        show_line(_kind(found, kind))
    show_line(
        f"{counted(found.layers, 'layer')} {found.iteration_cyc:,} cycles, {_ms(found, found.iteration_cyc):,.3f} ms; "
        f"{found.tokens_per_s:,.0f} tokens/s"
    )
    if found.tp > 1 and found.allreduce_s:
        show_line(
            f"all-reduces {found.allreduce_s / S_PER_US:,.1f} µs, {found.allreduce_exposed_s / S_PER_US:,.1f} µs of "
            "them exposed"
        )
    if found.energy_pj_by_cause is not None:
        _show_energy(found, shown)
        if found.energy_by_cell is not None:
            show_line(cells_line(found.energy_by_cell))
        if of_energy:
            show_line(of_energy)
    elif found.pp == 1:
        show_line(of_energy or "no energy: the system has no energy section, or its part gives no currents")


def _ms(found: Served, cycles: int) -> float:
    return cycles * found.clock_ps * S_PER_PS / S_PER_MS


def _legend(plan: tuple[Stage, ...]) -> str:
    """What happens in each stage, on one line."""
    if len(plan) == 3:
        return "stages: A LayerNorm and QKV; B attention; E projection and FFN"
    return "stages by sub-batch: " + "; ".join(f"{stage.name} {_does(stage)}" for stage in plan)


def _does(stage: Stage) -> str:
    """FFN: with the projection before it."""
    qkv = [str(i + 1) for i in stage.qkv]
    parts = [f"FFN {stage.through + 1}"] if stage.through is not None else []
    parts += [f"QKV {' to '.join([qkv[0], qkv[-1]][: len(qkv)])}"] if qkv else []
    parts += [f"MHA {stage.attention + 1}"] if stage.attention is not None else []
    return ", ".join(parts)


def _times(plan: tuple[Stage, ...], layers: int) -> str:
    """How often an iteration runs the stages."""
    if len(plan) == 3:
        return f"an iteration runs them {counted(layers, 'time')}"
    between = [stage for stage in plan if stage.runs == "between"]
    return (
        f"an iteration runs {between[0].name} to {between[-1].name} {between[0].times(layers)} times, the others once"
    )


def _kind(found: Served, kind: LayerKind) -> str:
    """A kind of layers: how often its stages run, and what they take once."""
    which = f"layer {kind.layer}" if kind.layer == kind.next_layer else f"layers {kind.layer} to {kind.next_layer}"
    runs = ", ".join(f"{name} {counted(n, 'time')}" for name, n in kind.runs.items() if n)
    return f"{which} and its like: {runs}; {sum(kind.stages_cyc.values()):,} cycles"


def _show_energy(found: Served, shown: str) -> None:
    simulated, iteration = found.energy_pj_by_cause, found.iteration_energy_by_cause_j
    joules, per_token_j, watts = found.iteration_energy_j, found.energy_per_token_j, found.power_w
    assert simulated and iteration and joules and per_token_j and watts
    rows = [
        {
            "cause": cause,
            "uj": simulated.get(cause, 0.0) * J_PER_PJ / J_PER_UJ,
            "mj": part / J_PER_MJ,
            "share": 100 * part / joules,
        }
        for cause, part in iteration.items()
    ]
    columns = (
        ("cause", "energy, one device", ""),
        ("uj", f"{shown.split(',')[0]}, µJ|r", ",.2f"),
        ("mj", f"{counted(found.layers, 'layer')}, mJ|r", ",.3f"),
        ("share", "%|r", ".1f"),
    )
    show_rows(columns, rows)
    show_line(
        f"{counted(found.layers, 'layer')} {joules / J_PER_MJ:,.2f} mJ and {watts:,.1f} W a device; "
        f"{per_token_j / J_PER_MJ:,.3f} mJ a token on {counted(found.tp, 'device')}"
    )


def show_source(source: Mapping[str, Any]) -> None:
    """Print where the requests came from."""
    skipped = source["warm_up_iterations"]
    before = f"; {counted(skipped, 'iteration')} before, not simulated" if skipped else ""
    placed = f"; placed by {source['policy']}" if source["policy"] else ""
    show_line(f"requests of {source['name']}: {source['note']}{placed}{before}")


def show_decoded(found: Decoded, of_energy: str | None = None) -> None:
    """Print throughput, latencies and energy. of_energy: why there is none, or what is not in it."""
    show_line(
        f"{found.model} on {found.system}, {found.fidelity}: {counted(found.iterations, 'iteration')} of "
        f"{found.batch_mean:,.1f} requests with contexts of {found.context_mean:,.1f} tokens, "
        f"tensor parallel over {found.tp}, {'with' if found.lm_head else 'without'} embedding and LM head"
        f"{some_layers(found.layers, found.model_layers)}"
    )
    if found.deployed:
        show_line(found.deployed)
    show_source(found.workload)
    if found.chunk is None:
        show_line(PROMPTS_ARE_THERE)
    else:
        show_line(f"prompts: computed beside decode, at most {found.chunk:,} tokens in an iteration")
    if (requests := found.workload["requests"]) and (ended := found.requests_finished) < requests:
        so_far = counted(found.iterations, "iteration")
        show_line(f"simulated: {so_far}, in which {ended:,} of {counted(requests, 'request')} end; {NOT_REST}")
    times = {
        "time per output token": found.token_time_s,
        "from arrival to the batch": found.wait_s,
        "from arrival to the first token": found.time_to_first_token_s,
        "from arrival to the last token": found.latency_s,
    }
    rows = [
        {"name": name} | (dict.fromkeys(("mean", "p50", "p99")) if value is None else asdict(value))
        for name, value in times.items()
    ]
    columns = (("name", "seconds", ""), *((name, f"{name}|r", ".4g") for name in ("mean", "p50", "p99")))
    show_rows(columns, rows)
    read = found.iterations - found.simulated_iterations
    show_line(
        f"{found.time_s:,.4g} s; {found.tokens_per_s:,.0f} tokens/s; "
        f"{counted(found.requests_finished, 'request')} finished; {counted(found.preemptions, 'preemption')}"
        + (f"; {counted(read, 'iteration')} interpolated, not simulated: an approximation" if read else "")
    )
    if of_time := error_note(found.interpolation_error):
        show_line(of_time)
    _show_joules(found, of_energy)


def _show_joules(found: Decoded, of_energy: str | None) -> None:
    if found.energy_j is None:
        none = "no energy: the system or its part does not give what it needs"
        show_line(NO_PIPELINE_ENERGY if found.pp > 1 else of_energy or none)
        return
    each = found.energy_per_token_j
    a_token = "" if each is None else f"; {each / J_PER_MJ:,.3f} mJ per output token"
    idle = ", without the idle time between arrivals" if found.workload["requests"] else ""
    show_line(f"energy {found.energy_j:,.4g} J of all devices in these iterations{idle}{a_token}")
    if found.energy_by_cell is not None:
        show_line(cells_line(found.energy_by_cell))
    if of_energy:
        show_line(of_energy)
