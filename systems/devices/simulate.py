"""Simulate one model on one system: compose mapper, machine and energy into one result row."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from typing import NamedTuple

import msgspec
import numpy as np

from pimloom.arch.command import ACCESSES, ON_THE_PINS, Role
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.part import Part
from pimloom.arch.program import PimStep
from pimloom.arch.system import PimSystem, RooflineSystem, System, spec_digest
from pimloom.arch.table import Table, compile_table
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, S_PER_PS, ceil_div
from pimloom.arch.version import __version__
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.dram.monitor import raise_if_illegal
from pimloom.cycle_sim.dram.stream import Issue
from pimloom.cycle_sim.dram.trace import TRACE, expand
from pimloom.cycle_sim.machine import Event, Machine, command_counts
from pimloom.cycle_sim.roofline import check_fits
from pimloom.cycle_sim.runs import Known
from pimloom.energy.ledger import EnergyError
from pimloom.energy.pim import CURRENTS, command_energy_pj, pim_energy
from pimloom.mappers.decode import Decoder
from pimloom.mappers.plan import Plan, max_tokens
from pimloom.systems.devices.boundary import energy_by_cell
from pimloom.systems.devices.conservation import check_conservation, check_energy
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.formats import refuse_quantized
from pimloom.systems.devices.pim_gpt import PimGptDevice
from pimloom.systems.devices.positions import positions
from pimloom.systems.devices.result import Result, Workload
from pimloom.systems.devices.shown import Shown, shown
from pimloom.systems.devices.traits import settled
from pimloom.workload.batch import Batch

Progress = Callable[[int], None]


class Options(NamedTuple):
    """What `simulate` takes beside system, model and tokens."""

    seed: int
    check: bool
    window: "Window | None"
    progress: Progress
    prompt: int
    known: Known | None
    lm_head: bool | None


@dataclass
class Window:
    """Steps that overlap start_ps to end_ps, as the machine runs them."""

    start_ps: int
    end_ps: int
    events: list[Event] = field(default_factory=list)

    def append(self, event: Event, /) -> None:
        """Keep the event if it overlaps the window."""
        if event.end_ps > self.start_ps and event.start_ps < self.end_ps:
            self.events.append(event)


def simulate(
    system: System,
    spec: LlmSpec,
    generate: int,
    *,
    seed: int = 0,
    check: bool = False,
    window: Window | None = None,
    progress: Progress = lambda tokens: None,
    prompt: int = 0,
    known: Known | None = None,
    lm_head: bool | None = None,
) -> Result:
    """Generate `generate` tokens behind `prompt` tokens, batch 1. `progress` hears of each token done, prompt included.

    PIM takes the tokens of a prompt one by one, each like a generated one; a roofline takes them all in one pass. The
    prompt's end is the first generated token, so `generate` - 1 passes follow; without a prompt the first pass, over
    the first position, gives it. Times and energies are of prompt and generation together.

    known: runs of command streams, shared between simulations: it saves time and changes nothing. lm_head: with
    embedding, LM head and sampling, as far as a system has them; None: as it has them by itself.
    check: every distinct command trace goes through the legality monitor. `seed` is recorded; nothing here is random.
    Raises UserError for what cannot run, ConservationError or EnergyError for a fault of the model itself.
    """
    if generate < 1:
        raise UserError(f"--generate: expected at least 1 token, got {generate}")
    if prompt < 0:
        raise UserError(f"--prompt: expected at least 0 tokens, got {prompt}")
    run = {"pim": _pim, "roofline": _roofline}.get(system.kind)
    if run is None:
        raise UserError(f"{system.name}: serves batches; take `pimloom run` or `pimloom.run` with a prompt or requests")
    refuse_quantized(system, spec)
    if system.kind == "pim":
        system, _ = settled(system, lm_head)
    result = run(system, spec, generate, Options(seed, check, window, progress, prompt, known, lm_head))
    result.showing(partial(_shown, system, spec, generate, prompt, lm_head))
    return result


def _shown(system: System, spec: LlmSpec, generate: int, prompt: int, lm_head: bool | None) -> Shown:
    """A step of each phase, on a device of its own."""
    most = positions(prompt, generate)
    device = device_of(system, spec, Share(1, spec.num_hidden_layers, tokens=most, outside=lm_head))
    middle = (max(prompt, 1) + most + 1) // 2 if generate > 1 else None if prompt else 1
    prompts, decode = Batch.prefill([prompt]) if prompt else None, Batch.decode([middle]) if middle else None
    return shown(device, system.name, prompts, decode)


def _pim(system: System, spec: LlmSpec, generate: int, options: Options) -> Result:
    window, tokens = options.window, positions(options.prompt, generate)
    whole = Share(1, spec.num_hidden_layers, tokens=tokens, outside=options.lm_head)
    if options.check:
        assert system.part is not None
        device = PimGptDevice(system, spec, whole, watch=partial(_monitor, compile_table(system.part)))
    else:
        device = PimGptDevice(system, spec, whole, known=options.known)
    machine, decoder, mapped = device.machine, device.decoder, device.mapped
    for t in range(1, tokens + 1):
        machine.run(decoder.first_steps, window if window and machine.end_ps < window.end_ps else None)
        for layer, times in () if window else mapped.runs:
            machine.run(decoder.timed_steps(t, mapped.kinds[layer]), times=times)
        for layer in range(spec.num_hidden_layers if window else 0):
            traced = window is not None and machine.end_ps < window.end_ps
            machine.run(decoder.layer_steps(t, layer if traced else mapped.kinds[layer]), window if traced else None)
        traced = window is not None and machine.end_ps < window.end_ps
        if t >= max(options.prompt, 1):  # within a prompt the next token is known
            machine.run(decoder.last_steps, window if traced else None)
        options.progress(t)
        if t == max(options.prompt, 1):
            first_ps = machine.end_ps
    machine.finish()
    return _pim_result(system, device.spec, device.part, mapped, decoder, machine, generate, first_ps, options)


def _monitor(table: Table, stream: np.ndarray, found: Issue, due_ck: int, refreshed_ck: int) -> None:
    """Check one run of the engine, with the REFab that may still have been running when it began."""
    trace = expand(table, [stream], found.issue_ck, found.end_ck, found.refresh_ck)
    on, running = due_ck < FAR, refreshed_ck > -FAR
    if running:
        earlier = np.zeros(1, TRACE)
        earlier["cmd"], earlier["clock"] = table.rules.refresh, refreshed_ck
        trace = np.concatenate([earlier, trace])
    raise_if_illegal(table, trace, due_ck=int(due_ck - table.rules.refi * running) if on else None)


def _pim_result(
    system: System,
    hardware: PimSystem,
    part: Part,
    mapped: Plan,
    decoder: Decoder,
    machine: Machine,
    generate: int,
    first_ps: int,
    options: Options,
) -> Result:
    out, channels, spec, table = machine.outcome, hardware.dram.channels, mapped.spec, machine.table
    steps, times = list(out.steps.values()), [out.executions[key] for key in out.steps]
    counts = command_counts(table, steps, times, channels)
    bank = _bank_counts(table, steps, times)
    check_conservation(table, part, mapped, out, bank, channels, hardware.dram.refresh, generate)
    if out.refreshes:
        counts[table.refresh] = out.refreshes * channels
    accesses, misses = table.total(bank, ACCESSES), table.total(bank, {Role.ACTIVATE})
    macs_ck = table.total(bank, {Role.MULTIPLY}) * int(table.rules.done[table.role(Role.MULTIPLY)])
    asic_ps, quiet_ps = sum(out.quiet_ps[name] for name in out.asic_steps), out.quiet_ps.total()
    baseline = sum(
        n * decoder.moved_by_baseline(t, layer)
        for layer, n in Counter(mapped.kinds.values()).items()
        for t in range(1, mapped.tokens + 1)
    )
    if mapped.head:
        baseline += mapped.head.n_in * mapped.head.n_out * generate
    interface = table.total(counts, ON_THE_PINS) * part.organization.access_bits // BITS_PER_BYTE
    row_bytes = mapped.geo.row * mapped.geo.element_bytes * mapped.geo.all_banks
    latency = out.end_ps * S_PER_PS
    result = Result(
        system=system.name,
        model=spec.name,
        workload=Workload(options.prompt, generate, 1, hardware.workload.lm_head),
        latency_s=latency,
        time_to_first_token_s=first_ps * S_PER_PS,
        time_per_output_token_s=(out.end_ps - first_ps) * S_PER_PS / (generate - 1) if generate > 1 else None,
        time_per_token_s=latency / generate,
        tokens_per_s=generate / latency,
        time_by_step_s={name: ps * S_PER_PS for name, ps in out.time_ps.items()},
        row_hit_rate=1 - misses / accesses,
        data_movement_reduction=baseline / (out.sent_values + out.received_values).total(),
        data_movement_reduction_on_wires=baseline * mapped.geo.element_bytes / interface,
        non_vmm_share=asic_ps / quiet_ps,
        mac_utilisation=macs_ck * part.tCK_ps / out.end_ps,
        interface_bytes=interface,
        cycles=ceil_div(out.end_ps, part.tCK_ps),
        tck_ps=part.tCK_ps,
        command_counts=dict(sorted(counts.items())),
        memory_needed_bytes=mapped.rows * row_bytes,
        memory_bytes=mapped.geo.rows * row_bytes,
        max_tokens=max_tokens(spec, mapped.geo, mapped.lm_head),
        spec_digest=run_digest(system, spec, generate, options.prompt, options.lm_head),
        version=__version__,
        seed=options.seed,
    )
    return account(result, system)


def run_digest(system: System, spec: LlmSpec, generate: int, prompt: int = 0, lm_head: bool | None = None) -> str:
    """Digest of everything that decides a result; the seed, which is only recorded, does not."""
    on_roofline = lm_head and system.kind == "roofline"  # PIM-GPT has it in its spec
    asked = {"lm_head": lm_head} if on_roofline else {}
    return spec_digest(system, spec, generate=generate, prompt=prompt, **asked)


def account(result: Result, system: System) -> Result:
    """The result with its energy by `system`'s currents and accounting; without energy if its part has no currents."""
    hardware, part = system.of_kind(PimSystem), system.memory
    assert result.command_counts is not None
    if any(name not in part.current for name in CURRENTS):
        return result
    time_ps, channels = round(result.latency_s / S_PER_PS), hardware.dram.channels
    try:
        ledger = pim_energy(part, hardware.energy, result.command_counts, time_ps, channels, hardware.npu.power_mw)
    except EnergyError as error:
        raise UserError(f"{system.name}: {error}; a value of the system is out of range") from None
    joules = ledger.total_pj * J_PER_PJ
    accounted = msgspec.structs.replace(
        result,
        energy_j=joules,
        energy_per_token_j=joules / result.workload.generated_tokens,
        energy_by_cause_j=ledger.joules(),
        energy_by_cell=energy_by_cell(system, ledger.joules()),
        power_w=joules / result.latency_s,
    )
    check_energy(accounted, command_energy_pj(part, hardware.energy))
    return accounted


def _bank_counts(table: Table, steps: list[PimStep], times: list[int]) -> Counter[str]:
    """Commands of one channel by name; a write to one bank counts like a lock-step command (specification 3.4)."""
    return command_counts(table, steps, times, 1)


def _roofline(system: System, spec: LlmSpec, generate: int, options: Options) -> Result:
    hardware = system.of_kind(RooflineSystem)
    if options.window is not None or options.check:
        asked = "--timeline" if options.window is not None else "--check"
        raise UserError(f"{asked}: {system.name} is a roofline: it issues no commands to draw or check; leave it out")
    prompt, end = options.prompt, positions(options.prompt, generate)
    check_fits(hardware, spec, end, ends=bool(options.lm_head))
    from pimloom.systems.devices.roofline_sequence import Passes  # which PIM-GPT does not need

    passes = Passes(system, spec, outside=bool(options.lm_head))
    first = [passes.prompt(prompt) if prompt else passes.token(1)]
    later = [passes.token(t) for t in range(max(prompt, 1) + 1, end + 1)]
    roofline, launch = _sums([*first, *later])
    options.progress(end)
    latency = roofline + launch
    energy = hardware.power_w * latency
    return Result(
        system=system.name,
        model=spec.name,
        workload=Workload(prompt, generate, 1, bool(options.lm_head)),
        latency_s=latency,
        time_to_first_token_s=sum(_sums(first)),
        time_per_output_token_s=sum(_sums(later)) / (generate - 1) if later else None,
        time_per_token_s=latency / generate,
        tokens_per_s=generate / latency,
        energy_j=energy,
        energy_per_token_j=energy / generate,
        energy_by_cause_j={"power x time": energy},
        energy_by_cell=energy_by_cell(system, {"power x time": energy}),
        power_w=hardware.power_w,
        time_by_step_s={"roofline": roofline, "kernel launch": launch},
        memory_bytes=hardware.memory_bytes,
        roofline_s=roofline,
        launch_s=launch,
        spec_digest=run_digest(system, spec, generate, prompt, options.lm_head),
        version=__version__,
        seed=options.seed,
    )


def _sums(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Rooflines and launches."""
    return fsum(roofline for roofline, _ in times), fsum(launch for _, launch in times)
