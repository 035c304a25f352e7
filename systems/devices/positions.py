"""How many positions of a model a sequence takes, and whether it has them."""

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted


def positions(prompt: int, generate: int) -> int:
    """Positions that are computed: those of the prompt, at least one, and of each generated token but the last."""
    return max(prompt, 1) + generate - 1


def beyond(llm: LlmSpec, tokens: int) -> list[str]:
    """What to say of contexts that are longer than the model has positions for."""
    if tokens <= llm.max_position_embeddings:
        return []
    most = llm.max_position_embeddings
    return [f"the model has positions for {counted(most, 'token')}; contexts of up to {tokens:,} are simulated"]


def check_positions(llm: LlmSpec, prompt: int, generate: int, *, default: bool) -> None:
    """Raise UserError, by the names of the options, for more tokens than the model has positions for. default: nobody
    asked for so many to be generated."""
    most = llm.max_position_embeddings
    if positions(prompt, generate) > most:
        asked = f"--prompt {prompt} " * bool(prompt) + f"--generate {generate}" + " (the default)" * default
        raise UserError(f"{asked}: {llm.name} has positions for {counted(most, 'token')}; take fewer")
