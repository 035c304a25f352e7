"""Machines that do several things at once: operators that overlap, fine-tuning beside requests, shares of phases."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import PS_PER_MS, S_PER_PS
from pimloom.systems.devices.device import device_of
from pimloom.systems.devices.traits import devices_of
from pimloom.systems.serving.online.prepared import Source, prepared
from pimloom.systems.serving.online.running import Progress, Service
from pimloom.systems.serving.online.shared import Machine, serve_shared
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.overlap.written import overlap_of, overlapped, parse_overlap, settings_of
from pimloom.systems.serving.results.limits import parse_slo
from pimloom.systems.serving.results.outcome import Online
from pimloom.systems.serving.sharing.finetuning import Filled, Fuller, parse_finetuning
from pimloom.workload.finetuning import Job
from pimloom.workload.requests.table import Requests

Serving = Callable[[Requests, Progress, bool, bool], Online]  # tried, sampled: as of `running.serve_online`


class Found(NamedTuple):
    """What serves, on which systems with how many devices each, what to note, and devices beside them that draft.
    after: what to note besides when it has served."""

    serve: Serving
    on: Sequence[tuple[System, int]]
    notes: Sequence[str] = ()
    drafting: int = 0
    after: Callable[[], Sequence[str]] = tuple

    @property
    def devices(self) -> int:
        """All of them."""
        return sum(count for _, count in self.on) + self.drafting


def overlapping(wanted: Wanted, llm: LlmSpec, requests: Requests, source: Source) -> Service:
    """On a machine whose operators overlap, if they do."""
    if not (text := wanted.overlap):
        return prepared(wanted, llm, requests, source)
    link = wanted.link
    kind, given = parse_overlap(text)
    settings = settings_of(kind, given, source.load(wanted.system, wanted.settings or ()))
    if link is not None:
        raise UserError(f"--link {link}: {wanted.system} has a link of its own; leave it out, or --set link.gbps=...")
    if kind == "sub-batches":
        return prepared(wanted._replace(settings=[*(wanted.settings or ()), *settings]), llm, requests, source)
    return prepared(
        wanted, llm, requests, source._replace(maker=device_of),
        wrap=lambda device, system: overlapped(text, device),
        more={"overlap": overlap_of(text)},
    )  # fmt: skip


def finetuning(wanted: Wanted, llm: LlmSpec, requests: Requests, source: Source) -> Service:
    """Beside tokens of fine-tuning, which fill iterations up."""
    text = wanted.finetune or ""
    job = parse_finetuning(text, llm)
    slo = None if wanted.slo is None else parse_slo(wanted.slo)
    if slo is None or slo.tpot is None:
        raise UserError("--finetune: expected a time per output token to fill iterations up to, --slo tpot=50ms")
    for name in ("overlap", "speculate", "branches", "mode"):
        if getattr(wanted, name):
            raise UserError(f"--{name}: beside --finetune tokens come one by one, an operator at a time; leave one out")
    if wanted.pp > 1:
        raise UserError(f"--pp {wanted.pp}: fine-tuning is on one stage; leave it out")
    by = prepared(
        wanted, llm, requests, source, wrap=lambda device, system: Fuller(device, job.more_bytes(llm, wanted.tp)),
        more={"finetune": job},
    )  # fmt: skip
    return by._replace(plan=by.plan._replace(finetuning=job, limit_ps=slo.tpot / S_PER_PS))


def unfilled(by: Service, llm: LlmSpec) -> Sequence[str]:
    """What to note where the limit leaves room for more than fine-tuning has to do in an iteration."""
    plan = by.plan
    if plan.finetuning is None:
        return ()
    length = plan.finetuning.sequence
    longest, limit = max(Filled(by.costs, Job(length), plan.limit_ps).passes()), plan.limit_ps
    if longest > limit:
        return ()
    more = "; a longer sequence fills more" if length < llm.max_position_embeddings else ""
    return (
        f"--finetune: an iteration has at most one pass of one sequence, {longest / PS_PER_MS:,.3g} ms by itself; "
        f"where requests leave more of the {limit / PS_PER_MS:,.3g} ms of --slo tpot, the rest is not filled{more}",
    )


def shared_out(wanted: Wanted, llm: LlmSpec, requests: Requests, source: Source) -> Found:
    """The same of both phases on shares of one machine."""
    name = wanted.scheduler
    if wanted.pp > 1 or wanted.replicas > 1:
        raise UserError(f"--scheduler {name}: shares out one machine; leave --pp and --replicas out")
    for option in ("speculate", "branches", "mode", "shared_kv", "transfer", "mixed", "overlap", "finetune", "policy"):
        if getattr(wanted, option):
            raise UserError(
                f"--{option.replace('_', '-')}: {name} takes tokens one by one on one machine; leave it out"
            )
    if requests.clients:
        raise UserError(f"--arrivals {wanted.arrivals}: {name} takes requests at times of their own; take another one")
    machine = Machine(wanted, llm, requests, source)
    by = machine.of(machine.shares.prefill)
    if by.slo is None and machine.shares.control:
        raise UserError("--shares window: expected limits that shares follow, --slo ttft=1s,tpot=50ms")
    notes = ["what does not run on arrays is not shared out"] if machine.arrays else []
    return Found(partial(serve_shared, machine), [(machine.system, devices_of(machine.system, by.named["tp"]))], notes)
