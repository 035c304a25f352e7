"""The result of equal requests on an AttAcc system. Its field names are a contract; see CONVENTIONS.md."""

import msgspec

from pimloom.systems.viewed import Viewed


class AttAccOutcome(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """`batch` equal requests: prompts on the GPUs, then decode steps. Times of all layers.

    step: mean decode step, from the first token behind the prompt's own; by part: of what the GPUs, the stacks and the
    links do, less what hides. tokens_per_s: of decode. energy: of the box, of the mean step and a token of it.
    fits: requests of this length whose keys and values have room.
    """

    system: str
    model: str
    fidelity: str
    gpus: int
    stacks: int
    placement: str | None
    batch: int
    prompt_tokens: int
    generated_tokens: int
    prefill_s: float
    prefill_j: float
    step_s: float
    step_by_part_s: dict[str, float]
    tokens_per_s: float
    latency_s: float
    step_j: float
    step_by_part_j: dict[str, float]
    energy_per_token_j: float
    fits: int
    notes: list[str]
    spec_digest: str
    version: str
    wall_s: float
