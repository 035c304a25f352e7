"""One result row. Its field names are a contract with everyone who reads our JSON; see CONVENTIONS.md."""

import msgspec

from pimloom.energy.cells import EnergyCell
from pimloom.systems.devices.shown import WithSpans


class Workload(msgspec.Struct, frozen=True):
    """What was run: tokens of prompt and of generation, sequences at once, LM head included or not."""

    prompt_tokens: int
    generated_tokens: int
    batch: int
    lm_head: bool


class Result(WithSpans, frozen=True, kw_only=True):
    """One simulated run. Names end in their unit; a field that a system does not have is None (JSON null).

    time_to_first_token_s: the prompt, whose end is the first token. time_per_output_token_s: mean of the tokens behind
    it, None if there are none. time_per_token_s: latency_s / generated tokens, so the prompt's time is in it.
    time_by_step_s, energy_by_cause_j: parts of latency_s and energy_j. cycles: clocks [CK] of `tck_ps` until the last
    step ends. command_counts: commands of all channels. row_hit_rate: 1 - row misses / column accesses of a bank.
    data_movement_reduction: values a processor without PIM would read / values that cross our interface: inputs and q
    once per channel, softmax probabilities and results once; on_wires: the same with whole bursts and padding.
    non_vmm_share: ASIC time / all time, refresh left out. mac_utilisation: MAC clocks / all clocks.
    roofline_s, launch_s: the two parts of a baseline's latency. energy_by_cell: the same energy by cell of the ledger.
    """

    system: str
    model: str
    workload: Workload
    latency_s: float
    time_to_first_token_s: float
    time_per_output_token_s: float | None
    time_per_token_s: float
    tokens_per_s: float
    energy_j: float | None = None
    energy_per_token_j: float | None = None
    energy_by_cause_j: dict[str, float] | None = None
    energy_by_cell: dict[str, EnergyCell] | None = None
    power_w: float | None = None
    time_by_step_s: dict[str, float] | None = None
    row_hit_rate: float | None = None
    data_movement_reduction: float | None = None
    data_movement_reduction_on_wires: float | None = None
    non_vmm_share: float | None = None
    mac_utilisation: float | None = None
    interface_bytes: int | None = None
    cycles: int | None = None
    tck_ps: int | None = None
    command_counts: dict[str, int] | None = None
    memory_needed_bytes: int | None = None
    memory_bytes: int | None = None
    max_tokens: int | None = None
    roofline_s: float | None = None
    launch_s: float | None = None
    spec_digest: str
    version: str
    seed: int
