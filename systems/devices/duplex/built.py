"""A model on the devices of a Duplex system: what is made of its file, and what the study does not define."""

from typing import NamedTuple

from pimloom.arch.duplex import Duplex
from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.near import next_to
from pimloom.arch.policy import load_policy
from pimloom.arch.routing import Routing
from pimloom.arch.system import System
from pimloom.mappers.memory_spaces import SPACES
from pimloom.systems.devices.device import Share
from pimloom.systems.devices.duplex.beside import APART, measured
from pimloom.systems.devices.duplex.layers import Processors
from pimloom.systems.devices.duplex.memory import IdealDram, SimulatedDram
from pimloom.systems.devices.duplex.room import Room
from pimloom.systems.devices.duplex.stage import Stages
from pimloom.systems.devices.duplex.variants import Variant
from pimloom.workload.shard import cut


class Built(NamedTuple):
    """split: devices are two pools, of which stages and room are one; devices: of both, in all nodes; asked: how tokens
    choose their experts."""

    stages: Stages
    room: Room
    split: bool
    devices: int
    asked: Routing


def built(system: System, llm: LlmSpec, share: Share) -> Built:
    """Raises UserError for what is not defined, does not come out even or does not fit."""
    spec, device = system.of_kind(DuplexSystem), system.duplex
    assert device is not None
    _check(system, spec, device, llm, share)
    devices = share.tp if share.tp > 1 else spec.devices
    each = _each(spec, llm, devices, system.where("devices") if devices == spec.devices else f"--tp {devices}")
    variant = Variant(
        system.name,
        None if spec.pim == "none" else spec.pim,
        spec.co_processing,
        spec.expert_tp,
        apart=spec.arrangement == "hetero",
    )
    memory = IdealDram(device) if spec.memory == "ideal" else SimulatedDram(device, spec.controller)
    beside = measured(device.part) if spec.contention and spec.co_processing else APART
    stages = Stages(llm, variant, Processors(device, memory), spec.nodes, each, spec.router, beside)
    room = Room(stages, share.layers, bool(share.outside))
    if not room.tokens:
        option = "--set devices=" if devices == spec.devices else "--tp "
        raise UserError(room.too_large(option, 2 if spec.arrangement == "split" else 1))
    room.check_experts()
    return Built(stages, room, spec.arrangement == "split", spec.nodes * devices, spec.routing)


def _each(spec: DuplexSystem, llm: LlmSpec, devices: int, where: str) -> int:
    """Devices of a node that share a layer, of two pools those of one. Raises UserError unless heads come out even."""
    halves = 1 if spec.arrangement == "together" else 2
    if devices % halves:
        raise UserError(f"{where}: {spec.arrangement} takes halves of the devices; take an even number")
    heads, kv = llm.num_attention_heads, llm.num_key_value_heads
    try:
        cut(llm, devices // halves)
    except UserError:
        fit = (halves * n for n in range(1, heads + 1) if heads % n == 0 and (kv % n == 0 or n % kv == 0))
        said = f"{heads} heads ({kv} of keys) of {llm.name} do not come out even over {devices // halves} devices"
        raise UserError(f"{where}: {said}; nearest: {next_to(devices, fit)}") from None
    return devices // halves if spec.arrangement == "split" else devices


def _check(system: System, spec: DuplexSystem, device: Duplex, llm: LlmSpec, share: Share) -> None:
    if llm.kv_lora_rank:
        rank = f"kv_lora_rank {llm.kv_lora_rank}"
        raise UserError(f"{llm.name}: {system.name} has no place for a compressed cache ({rank}); take another model")
    if share.fidelity != "physical":
        raise UserError(f"--fidelity {share.fidelity}: {system.name} has no faults to turn on; leave it out")
    if spec.pim == "none" and spec.co_processing:
        raise UserError(f"{system.where('pim')}: none leaves nothing beside the xPU; set co_processing=false, too")
    if spec.arrangement == "hetero" and (spec.pim == "none" or spec.co_processing):
        why = "needs a pim" if spec.pim == "none" else "has both processors on no device"
        instead = "arrangement=together" if spec.pim == "none" else "co_processing=false, too"
        raise UserError(f"{system.where('arrangement')}: hetero {why}; set {instead}")
    part = device.part.organization
    stacks = device.spec.stacks * device.spec.channels * part.capacity_bytes
    if device.spec.memory_bytes > stacks:
        said = f"{device.spec.memory_bytes:,}, its stacks have {stacks:,}"
        raise UserError(f"{system.name}: device.memory_bytes is {said}; set device.memory_bytes={stacks}, too")
    if spec.memory == "simulated" and load_policy(spec.controller).value.quirks == "dramsim3":
        said = "DRAMsim3 loses accesses of two pseudo channels in one clock; take ramulator2 or default"
        raise UserError(f"{system.where('controller')}: {said}")
    if spec.memory == "simulated" and device.spec.xpu_gb_s is not None:
        said = "device.xpu_gb_s is the rate of an ideal memory; set memory=ideal, or the clock of the part"
        raise UserError(f"{system.name}: {said}")
    _check_banks(system, spec, device)
    if spec.router == "busiest_to_xpu" and spec.pim not in ("logic", "none"):
        said = f"busiest_to_xpu estimates the times of Logic-PIM, pim is {spec.pim}"
        raise UserError(f"{system.where('router')}: {said}; take another router")


def _check_banks(system: System, spec: DuplexSystem, device: Duplex) -> None:
    """Raise UserError for more banks at once than a rank, or a pseudo channel, has; for bundles that are not one a
    memory space."""
    org = device.part.organization
    rank = org.bank_groups * org.banks_per_group
    units = {"bank": device.spec.bank_pim, "bank_group": device.spec.bank_group_pim}
    asked = {"logic": ("bundle_banks", float(device.spec.bundle_banks), rank)}
    for pim, unit in units.items():
        asked[pim] = f"{pim}_pim.times_bandwidth", device.banks_at_once(unit), org.ranks * rank
    place, at_once, there = asked.get(spec.pim, ("", 0.0, 0))
    if at_once > there:
        raise UserError(f"{system.name}: device.{place}: {at_once:g} banks at once, there are {there}; lower it")
    bundle, banks = device.spec.bundle_banks, org.ranks * rank
    if spec.pim == "logic" and spec.co_processing and banks != SPACES * bundle:
        said = f"{banks} banks of a pseudo channel in bundles of {bundle}; co-processing has {SPACES} memory spaces"
        raise UserError(f"{system.name}: device.bundle_banks: {said}, a bundle each; set co_processing=false, too")
