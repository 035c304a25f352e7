"""What a kind of system has that a user may ask for, so that nothing above asks what kind it is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import msgspec

from pimloom.arch.attacc import AttAccSystem
from pimloom.arch.cent import CentSystem
from pimloom.arch.composition import ComposedSystem
from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import PimSystem, RooflineSystem, System
from pimloom.systems.devices.cells import (
    CENT,
    NPU_PIM,
    PIM_GPT,
    CellsOfCause,
    attacc_cells,
    composed_cells,
    duplex_cells,
    roofline_cells,
)

Cells = Callable[[System, int], dict[str, CellsOfCause]]


class Deployed(NamedTuple):
    """What there is of a system: in words, its nodes, and the devices of all of them."""

    said: str | None = None
    nodes: int | None = None
    devices: int | None = None


class Traits(NamedTuple):
    """A kind of system, for its sentences `what` it is.

    sequence: whether one sequence has a result of its own: always, unless requests are given; alone, without
    options of a batch; never; or it has a result of its own altogether. channels: requests live in channels, and
    policies place them; pipelines: groups of devices one behind the other; released: its own simulator can be
    reproduced; departures: by settings of the system, each of which is one; lists: an iteration of a list of
    contexts has a result of its own; not_here:
    what of embedding, LM head and sampling is not done on it; static: what its static power is; shared: whether
    several devices can share a layer of a system; own_devices: how many do unless asked otherwise, as its own file
    has it, at own_place; deployed: what there is of a system with so many; beyond: contexts beyond a model's
    positions are simulated, with a note; parts: whether a device may hold some of a model's layers; stages: what
    else there is; more: how a model has more memory; cells: those of the energy ledger, by cause, with so many devices
    that share each layer; in_banks: whether attention, or all products, run in banks; any_width: whether weights of
    few bits, sparse attention and prefixes that several requests share have a cost; exact_routing: whether the mean
    over all choices of experts is priced, not a draw; lm_head_at: the key of its own file that says whether it has an
    LM head.
    """

    what: str
    sequence: Literal["always", "alone", "never", "own"]
    channels: bool
    pipelines: bool
    released: bool
    lists: bool
    cells: Cells
    not_here: str = ""
    static: str = ""
    shared: Callable[[System], bool] = lambda system: True
    own_devices: Callable[[System], int] = lambda system: 1
    own_place: str = ""
    deployed: Callable[[System, int], Deployed] = lambda system, tp: Deployed()
    departures: bool = False
    beyond: bool = False
    parts: bool = True
    stages: str = ""
    more: str = "more devices (--tp)"
    in_banks: Callable[[System], bool] = lambda system: False
    any_width: bool = False
    exact_routing: bool = False
    lm_head_at: str = ""


def _duplex(spec: DuplexSystem, devices: int) -> Deployed:
    return Deployed(spec.deployed(devices), spec.nodes, spec.nodes * devices)


TRAITS = {
    "pim": Traits(
        "one device",
        "always",
        channels=False,
        pipelines=False,
        released=False,
        lists=False,
        cells=lambda system, tp: PIM_GPT,
        shared=lambda system: False,
        in_banks=lambda system: True,
        lm_head_at="workload.lm_head",
        more="a smaller model",
        not_here="embedded tokens come from outside, and the next token is chosen there",
    ),
    "roofline": Traits(
        "a roofline",
        "alone",
        channels=False,
        pipelines=False,
        released=False,
        lists=True,
        cells=roofline_cells,
        any_width=True,
        exact_routing=True,
        shared=lambda system: system.of_kind(RooflineSystem).link is not None,
    ),
    "composed": Traits(
        "composed",
        "never",
        channels=False,
        pipelines=False,
        released=False,
        lists=False,
        cells=composed_cells,
        shared=lambda system: system.of_kind(ComposedSystem).peers is not None,
    ),
    "cent": Traits(
        "CXL devices of AiM",
        "own",
        not_here="the energy of embedding, LM head and sampling is not known, and left out",
        channels=False,
        pipelines=True,
        released=True,
        lists=False,
        parts=False,
        cells=lambda system, tp: CENT,
        in_banks=lambda system: True,
        deployed=lambda system, tp: Deployed(devices=system.of_kind(CentSystem).devices),
        stages="and its layers are stages by themselves",
    ),  # fmt: skip
    "attacc": Traits(
        "GPUs with stacks that attend",
        "own",
        channels=False,
        pipelines=False,
        released=True,
        lists=False,
        cells=attacc_cells,
        shared=lambda system: False,
        own_devices=lambda system: system.of_kind(AttAccSystem).gpus,
        own_place="gpus",
        beyond=True,
        parts=False,
        stages="on GPUs that share each layer",
        more="more GPUs (--set gpus=N)",
    ),
    "duplex": Traits(
        "xPUs beside memory that computes",
        "never",
        channels=False,
        pipelines=False,
        released=False,
        lists=False,
        cells=duplex_cells,
        own_devices=lambda system: system.of_kind(DuplexSystem).devices,
        own_place="devices",
        deployed=lambda system, tp: _duplex(system.of_kind(DuplexSystem), tp),
    ),
    "npu_pim": Traits(
        "an NPU",
        "never",
        channels=True,
        pipelines=True,
        released=True,
        lists=True,
        departures=True,
        cells=lambda system, tp: NPU_PIM,
        in_banks=lambda system: system.of_kind(NpuPimSystem).dram.row_buffers != "none",
        static="static is energy.static_w x time; memory's standby, which it may hold, is in DRAM, too",
    ),
}


def devices_of(system: System, tp: int) -> int:
    """All devices of a system of which `tp` share each layer: of all nodes, or as many as its file has.

    >>> from pimloom.arch.system import load_system
    >>> [devices_of(load_system(name), 4) for name in ("gpu_a100", "cent")]
    [4, 32]
    """
    return traits(system.kind).deployed(system, tp).devices or tp


def traits(kind: str) -> Traits:
    """Of a kind of system."""
    return TRAITS[kind]


def has_outside(system: System, asked: bool | None) -> bool:
    """Whether steps include embedding, LM head and sampling: as given, else not, except that PIM-GPT has its LM head by
    `workload.lm_head`."""
    if asked is not None:
        return asked
    return bool(traits(system.kind).lm_head_at) and system.of_kind(PimSystem).workload.lm_head


def settled(system: System, asked: bool | None) -> tuple[System, dict[str, bool]]:
    """What decides a result of a choice of the above: the system, in whose own file PIM-GPT has it, and by its name the
    choice that differs from the default."""
    if asked is None or asked == has_outside(system, None):
        return system, {}
    if not traits(system.kind).lm_head_at:
        return system, {"outside": asked}
    own = system.of_kind(PimSystem)
    workload = msgspec.structs.replace(own.workload, lm_head=asked)
    return replace(system, spec=msgspec.structs.replace(own, workload=workload)), {}
