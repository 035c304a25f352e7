"""Nodes of Duplex devices that share a model, or of GPUs with the same memory and the same links."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from pimloom.arch.name_units import counted
from pimloom.arch.part import Positive
from pimloom.arch.routing import Routing


class DuplexSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes of devices: non-expert layers are cut over the devices of a node, nodes serve different requests, experts
    are dealt to all devices."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "device": "Duplex device: a name in arch/duplex_devices or a path; its fields below device.",
        "nodes": "nodes [1]",
        "devices": "devices of a node [1]",
        "pim": "what computes beside the xPU: logic (Logic-PIM), bank_group or bank (on the DRAM dies), or none (GPUs)",
        "arrangement": "together: every device does all; hetero: half of them are GPUs, the others PIM alone, which "
        "do all experts and decode attention; split: half of them for prompts, the others for decode",
        "co_processing": "both processors at once: experts split between them, decode attention beside that of prompts",
        "expert_tp": "each expert cut over all devices of a node",
        "router": "rule that splits the experts: idlest_to_pim (paper), busiest_to_xpu, optimum (of up to 16); with "
        "_alone each expert by itself, without memory spaces",
        "memory": "simulated: command by command; ideal: every path at its full rate",
        "controller": "memory controller of the pins: a name in arch/controllers or a path",
        "contention": "whether both processors of a device meet on the command buses of a channel",
    }

    description: str
    kind: Literal["duplex"]
    device: str
    nodes: Positive
    devices: Positive
    pim: Literal["logic", "bank_group", "bank", "none"]
    arrangement: Literal["together", "hetero", "split"]
    co_processing: bool
    expert_tp: bool
    router: Literal[
        "idlest_to_pim", "busiest_to_xpu", "optimum", "idlest_to_pim_alone", "busiest_to_xpu_alone", "optimum_alone"
    ]
    memory: Literal["simulated", "ideal"]
    controller: str
    contention: bool
    routing: Routing

    def deployed(self, devices: int) -> str:
        """What there is, in words."""
        nodes = counted(self.nodes, "node")
        beside = "nothing" if self.pim == "none" else self.pim
        return f"{nodes} of {counted(devices, 'device')}, {beside} beside the xPU, {self.arrangement}"
