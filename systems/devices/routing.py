"""How a system's tokens choose experts: checks of its routing, and the note of a result."""

from math import fsum

from pimloom.arch.document import SET
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.routing import Routing
from pimloom.arch.system import System
from pimloom.systems.devices.traits import traits
from pimloom.workload.routing import busy_chances, dealt

SAMPLE = 4  # [design] tokens of the step that a note gives as an example


def routing_of(system: System) -> Routing | None:
    """The routing of a system; None if its kind does not run models with experts."""
    found: Routing | None = getattr(system.spec, "routing", None)
    return found


def check_routing(system: System, llm: LlmSpec) -> None:
    """Raise UserError for a routing that does not fit the model, or that is set and changes nothing."""
    if (routing := routing_of(system)) is None:
        return
    places = [place for place, source in system.sources.items() if source.file == SET and place.startswith("routing.")]
    if places and llm.num_experts == 1:
        raise UserError(f"--set {places[0]}: {llm.name} has no experts; leave it out")
    counts, where, least = routing.counts, system.where("routing.counts"), llm.num_experts_per_tok
    if not counts:
        return
    if len(counts) != llm.num_experts:
        raise UserError(f"{where}: counts of {len(counts)} experts, {llm.name} has {llm.num_experts}; give as many")
    if sum(n > 0 for n in counts) < least:
        raise UserError(f"{where}: each token takes {least} experts; give as many counts above 0")
    if routing.zipf:
        raise UserError(f"{system.where('routing.zipf')}: routing.counts set the shares, too; set one of the two")


def routing_notes(system: System, llm: LlmSpec, rows: int | None = None) -> list[str]:
    """A sentence on how tokens choose experts, and how many experts a step of `rows` tokens uses in one layer; empty
    for a model without experts."""
    routing, number = routing_of(system), llm.num_experts
    if routing is None or number == 1:
        return []
    of = rows or SAMPLE, llm.num_experts_per_tok, number
    step = f"a step of {of[0]:,} token{'s' * (of[0] > 1)}"
    if not routing.drawn:
        met = sum(n > 0 for n in dealt(*of, routing))
        return [f"tokens are distributed over experts (routing.drawn=false): {step} uses {met} of {number} in a layer"]
    by = f"by Zipf {routing.zipf:g}" if routing.zipf else "by routing.counts"
    shares = "all equally likely" if routing.uniform else by
    exact = traits(system.kind).exact_routing
    how = "the exact mean is priced" if exact else f"steps are draws, routing.seed={routing.seed}"
    met_s = f"uses {fsum(busy_chances(*of, routing)):.3g} of {number} in a layer in the mean"
    return [f"each token chooses its experts independently, {shares}: {step} {met_s}; {how}"]
