"""The result of equal requests on an AttAcc system. Its field names are a contract; see CONVENTIONS.md."""

from pimloom.energy.cells import EnergyCell
from pimloom.systems.devices.shown import WithSpans


class AttAccOutcome(WithSpans, frozen=True, kw_only=True):
    """`batch` equal requests: prompts on the GPUs, then decode steps. Times of all layers.

    step: mean decode step, from the first token behind the prompt's own, None if there is none; by part: of what the
    GPUs, the stacks and the links do, less what hides. tokens_per_s: of decode. energy: of the box, of the mean step
    and a token of it. fits: requests of this length whose keys and values have room. attention: what attends in decode
    steps, stacks, host or GPUs. spans: of all layers; what runs beside something else stands behind it, less what
    hides. energy_by_cell: of the mean step, None without one. lm_head: embedding, LM head and sampling are never in it.
    """

    system: str
    model: str
    fidelity: str
    gpus: int
    stacks: int
    placement: str | None
    attention: str
    batch: int
    prompt_tokens: int
    generated_tokens: int
    prefill_s: float
    prefill_j: float
    step_s: float | None
    step_by_part_s: dict[str, float]
    tokens_per_s: float | None
    latency_s: float
    step_j: float | None
    step_by_part_j: dict[str, float]
    energy_per_token_j: float | None
    fits: int
    notes: list[str]
    spec_digest: str
    version: str
    wall_s: float
    lm_head: bool = False
    energy_by_cell: dict[str, EnergyCell] | None

    @property
    def mean_s(self) -> float:
        """Of a result that has a decode step, its time."""
        return _there(self.step_s)

    @property
    def mean_j(self) -> float:
        """The same, its energy."""
        return _there(self.step_j)


def _there(value: float | None) -> float:
    if value is None:
        raise ValueError("no decode step: the prompt gives the only token")
    return value
