"""Which systems take weights of few bits, sparse attention, and prefixes that several requests share."""

from pimloom.arch.error import UserError, of_option
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.systems.devices.traits import traits

REMEDY = "a roofline takes it"


def refuse(system: System, *, weights: bool = False, density: bool = False, shared: bool = False) -> None:
    """Raise UserError for what a system cannot do of these."""
    if traits(system.kind).any_width:
        return
    banks = traits(system.kind).in_banks(system)
    if weights:
        why = "multiply elements of one width, and nothing there turns narrower ones into it or has their scales"
        raise of_option("weights", None, f"the {'banks' if banks else 'arrays'} of {system.name} {why}; {REMEDY}")
    if density:
        why = "rows of banks hold tokens side by side, and a row is opened for one that is kept"
        said = why if banks else "its attention is simulated token by token, in full"
        raise of_option("density", None, f"{system.name}: {said}; {REMEDY}")
    if shared:
        why = "a row of a bank is multiplied with one query at a time, once for each branch"
        said = why if banks else "its attention is simulated request by request"
        raise of_option("shared_kv", None, f"{system.name}: {said}; leave it out, or take a roofline")


def refuse_quantized(system: System, llm: LlmSpec) -> None:
    """Raise UserError for a quantised checkpoint on a system whose elements have one width."""
    if llm.quantization is None or traits(system.kind).any_width:
        return
    where = "banks" if traits(system.kind).in_banks(system) else "arrays"
    raise UserError(
        f"{llm.name}: quantised as {llm.quantization.method}, and the {where} of {system.name} multiply elements of "
        f"one width; {REMEDY}, or set quantization_config to null in its config.json: weights as wide as elements"
    )
