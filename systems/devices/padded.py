"""What is padded where devices that share a layer do not divide it."""

from collections.abc import Iterator

from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import ceil_div
from pimloom.systems.devices.traits import traits


def padded_notes(system: System, llm: LlmSpec, tp: int) -> list[str]:
    """A sentence for each width of a model that `tp` devices of a system cut unevenly: the larger parts count. Heads
    that do not come out even are refused; CENT and AttAcc deal by rules of their own."""
    if traits(system.kind).sequence == "own":
        return []
    return [
        f"{llm.name}: {what} {whole:,} does not come out even over {n} devices; each takes {ceil_div(whole, n):,}"
        for what, whole, n in _cuts(system, llm, tp)
        if whole % n
    ]


def _cuts(system: System, llm: LlmSpec, tp: int) -> Iterator[tuple[str, int, int]]:
    """Widths of feed-forward layers, and over how many devices each is cut."""
    here = experts = tp
    if system.kind == "duplex":
        spec = system.of_kind(DuplexSystem)
        here = tp if spec.arrangement == "together" else tp // 2
        experts = here if spec.expert_tp else max(spec.nodes * here // llm.num_experts, 1)
    layers = range(llm.num_hidden_layers)
    if any(llm.is_dense(layer) for layer in layers):
        yield "intermediate_size", llm.intermediate_size, here
    if not all(llm.is_dense(layer) for layer in layers):
        yield "intermediate_size of its experts,", llm.expert_intermediate_size, experts
