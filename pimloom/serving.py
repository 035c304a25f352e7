"""What `pimloom run` does with a batch of requests: read their list, run a decode iteration, print its stages."""

from collections.abc import Sequence
from pathlib import Path

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.load import nearest
from pimloom.arch.npu_pim import Faults, NpuPimSystem
from pimloom.arch.system import RooflineSystem, load_system
from pimloom.arch.units import J_PER_MJ, J_PER_PJ, J_PER_UJ
from pimloom.reports.npu_pim.gpu import serve_gpu
from pimloom.reports.npu_pim.requests import read_requests
from pimloom.reports.npu_pim.serve import Served, serve
from pimloom.running import check_writable, parse_settings, progress_bar
from pimloom.show import show_line, show_rows

MOST_CHANNELS = 256  # that a request list may name where none matters
FIDELITIES = {"released": "true", "physical": "false"}


def serves(system: str, batched: bool) -> bool:
    """Whether a system serves a batch: an NPU always, a roofline if options of a batch are given."""
    spec = load_system(system).spec
    return isinstance(spec, NpuPimSystem) or (batched and isinstance(spec, RooflineSystem))


def serve_command(
    system: str,
    model: str,
    settings: Sequence[str],
    *,
    requests: Path | None,
    tp: int,
    layers: int | None,
    fidelity: str,
    json: str | None,
    quiet: bool,
) -> Served:
    """Run one decode iteration as `pimloom run` was asked to. Raises UserError."""
    if json not in (None, "-"):
        check_writable(Path(json or ""), "--json")
    if fidelity not in FIDELITIES:
        known = ", ".join(FIDELITIES)
        raise UserError(f"--fidelity {fidelity}: expected one of {known}{nearest(fidelity, FIDELITIES)}")
    if requests is None:
        raise UserError("--requests: expected a CSV file with the columns seq_len,ch_idx (or seq_len)")
    llm = load_llm(model)
    if layers is not None and not 1 <= layers <= llm.num_hidden_layers:
        raise UserError(f"--layers {layers}: expected 1 to {llm.num_hidden_layers}, the layers of {llm.name}")
    layers = layers or llm.num_hidden_layers
    overrides = parse_settings(settings)
    if isinstance(load_system(system).spec, RooflineSystem):
        if fidelity == "released":
            raise UserError(f"--fidelity {fidelity}: {system} is a roofline, it has no faults to turn on; leave it out")
        tokens, _ = read_requests(requests, MOST_CHANNELS)
        return serve_gpu(load_system(system, overrides), llm, tokens, tp=tp, layers=layers)
    faults = {f"faults.{name}": FIDELITIES[fidelity] for name in Faults.__struct_fields__}
    hardware = load_system(system, faults | overrides)
    assert isinstance(hardware.spec, NpuPimSystem)
    tokens, channel = read_requests(requests, hardware.spec.dram.channels)
    with progress_bar(f"{llm.name} on {hardware.name}", quiet):
        return serve(hardware, llm, tokens, channel, tp=tp, layers=layers, fidelity=fidelity)


def show_served(found: Served) -> None:
    """Print stages and operators."""
    show_line(
        f"{found.model} on {found.system}, {found.fidelity}: {found.batch} requests of {found.tokens:,} tokens, "
        f"tensor parallel over {found.tp}"
    )
    rows = [
        {"name": f"stage {name}", "cyc": cyc, "share": cyc / found.total_cyc} for name, cyc in found.stages_cyc.items()
    ]
    rows += [{"name": name, "cyc": cyc, "share": cyc / found.total_cyc} for name, cyc in found.operators_cyc.items()]
    columns = (("name", "one layer", ""), ("cyc", "cycles|r", ",d"), ("share", "share|r", ".1%"))
    show_rows(columns, rows)
    show_line(
        f"all stages {found.total_cyc:,} cycles of {found.clock_ps} ps; {found.layers} layers "
        f"{found.iteration_cyc:,} cycles; {found.tokens_per_s:,.0f} tokens/s"
    )
    if found.energy_pj_by_cause is not None:
        _show_energy(found)


def _show_energy(found: Served) -> None:
    simulated, iteration = found.energy_pj_by_cause, found.iteration_energy_by_cause_j
    joules, per_token_j, watts = found.iteration_energy_j, found.energy_per_token_j, found.power_w
    assert simulated and iteration and joules and per_token_j and watts
    rows = [
        {"cause": cause, "uj": simulated[cause] * J_PER_PJ / J_PER_UJ, "mj": part / J_PER_MJ, "share": part / joules}
        for cause, part in iteration.items()
    ]
    columns = (
        ("cause", "energy, one device", ""),
        ("uj", "as simulated, µJ|r", ",.2f"),
        ("mj", f"{found.layers} layers, mJ|r", ",.3f"),
        ("share", "share|r", ".1%"),
    )
    show_rows(columns, rows)
    show_line(
        f"{found.layers} layers {joules / J_PER_MJ:,.2f} mJ and {watts:,.1f} W a device; "
        f"{per_token_j / J_PER_MJ:,.3f} mJ a token, tensor parallel over {found.tp}"
    )
