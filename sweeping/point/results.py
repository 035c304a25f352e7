"""The result columns of each kind of system: names, units and meanings."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pimloom.arch.composition import PEERS, STANDBY
from pimloom.energy.cells import CELLS, EnergyCell, sum_bounds
from pimloom.energy.gate_area import PARTS
from pimloom.energy.npu_pim import CAUSES
from pimloom.systems.devices.attacc.order import ORDER

PIM_CAUSES = ("background", "activate", "read", "write", "refresh", "mac", "interface", "asic")
NPU_CAUSES = (
    *CAUSES, "interface", "background", "second_row_buffer",
    "npu_mac", "npu_vector", "npu_scratchpad", "npu_static", "link",
)  # fmt: skip
OF_PIM = ("gwrite", "g_act", "comp", "readres")  # causes of PIM: 0 J without it, in a table of many systems
ROOFLINE_CAUSES = ("power_x_time", "link")
DUPLEX_CAUSES = ("column", "activate", "mac", "links", "static")
CENT_CAUSES = (
    "activate", "read", "write", "pim", "active_standby", "precharge_standby", "interface", "link", "memory_controller",
    "buffers_static", "buffers", "instruction_buffer", "near_memory", "control",
)  # fmt: skip
PIM_STEPS = (
    "LayerNorm 1", "QKV", "QKV partial sums and bias", "K write", "V write", "score", "softmax", "p V", "projection",
    "projection partial sums and residual", "LayerNorm 2", "FFN1", "FFN1 partial sums and bias", "activation", "FFN2",
    "FFN2 partial sums and residual", "final LayerNorm", "LM head", "LM head partial sums",
)  # fmt: skip

IDENTITY = ("point", "base_digest")
MADE_BY = ("spec_digest", "code_digest", "version", "seed", "wall_s", "host", "finished_utc")
OF_TABLES = ("feasible", "pareto")  # columns that a table of the rows has besides


class Column(NamedTuple):
    """A result column: its name, which ends in the unit, whether it holds integers, what it says, and whether it holds
    texts."""

    name: str
    integer: bool
    meaning: str
    text: bool = False


COMMON = (
    Column("latency_s", False, "simulated time of all tokens"),
    Column("time_to_first_token_s", False, "time until the first token is there: that of the prompt, if there is one"),
    Column("time_per_output_token_s", False, "mean time of the generated tokens behind the first, empty if none"),
    Column("time_per_token_s", False, "latency / generated tokens of a request, a prompt that is simulated included"),
    Column("tokens_per_s", False, "generated tokens of all requests per second"),
    Column("energy_j", False, "energy of all devices"),
    Column("energy_per_token_j", False, "energy of all devices per generated token"),
    Column("power_w", False, "energy of all devices / latency"),
    Column("area_mm2", False, "area of the logic of all devices, see docs/sweep.md"),
)
PIM = (
    Column("row_hit_rate", False, "1 - row openings / column accesses"),
    Column("data_movement_reduction", False, "values that a processor without PIM reads / values on our interface"),
    Column("data_movement_reduction_on_wires", False, "the same with whole bursts and padding"),
    Column("non_vmm_share", False, "ASIC time / all time"),
    Column("mac_utilisation", False, "clocks with a MAC / all clocks"),
    Column("interface_bytes", True, "bytes on the data pins of all channels"),
    Column("cycles", True, "clocks until the last step ends"),
    Column("tck_ps", True, "their length"),
    Column("memory_needed_bytes", True, "memory taken"),
    Column("memory_bytes", True, "memory there"),
    Column("max_tokens", True, "most tokens whose K and V fit"),
)
ROOFLINE = (
    Column("roofline_s", False, "time of operations or bytes"),
    Column("launch_s", False, "time of kernel launches"),
    Column("memory_bytes", True, "memory there"),
)
INTERPOLATION_ERROR = Column("interpolation_error", False, "standard error of decode's time, as a share of it")
DECODE = (
    Column("iterations", True, "decode iterations"),
    Column("simulated_iterations", True, "of these, simulated"),
    INTERPOLATION_ERROR,
    Column("batch_mean", False, "requests of an iteration"),
    Column("context_mean", False, "tokens of a request's context, at most the sliding window"),
    Column("sub_batches", True, "parts of the batch that take turns, as simulated"),
    Column("allreduce_s", False, "time of all all-reduces"),
    Column("allreduce_exposed_s", False, "what of it lengthens the run"),
    Column("link_bytes", True, "bytes over all links"),
    Column("link_j", False, "energy of all links"),
)
FROM_PROMPTS = (
    Column("time_to_first_token_max_s", False, "time until the first token of the last request"),
    Column("prompt_s", False, "time of all prompts"),
    Column("prompt_energy_j", False, "energy of all prompts"),
    Column("prompt_iterations", True, "iterations of prompts"),
    Column("decode_iterations", True, "iterations of decode"),
    Column("simulated_iterations", True, "of all iterations, different ones that were simulated"),
    INTERPOLATION_ERROR,
)
ATTACC = (
    Column("latency_s", False, "time of a request with its prompt"),
    Column("prefill_s", False, "time of all prompts"),
    Column("step_s", False, "time of a decode step, mean; empty where prompts give the only token"),
    Column("tokens_per_s", False, "generated tokens of all requests per second of decode steps"),
    Column("energy_j", False, "energy of the box, prompts and decode steps"),
    Column("prefill_j", False, "of it all prompts"),
    Column("step_j", False, "energy of a decode step, mean"),
    Column("energy_per_token_j", False, "energy of a decode step per token of it"),
    Column("power_w", False, "energy of the box / latency"),
    Column("gpus", True, "GPUs of the box"),
    Column("stacks", True, "stacks beside them, all together"),
    Column("fits", True, "requests of this length whose keys and values have room"),
)
CENT = (
    Column("latency_s", False, "time of a request, token by token"),
    Column("token_s", False, "time of a token, mean of the contexts that are simulated"),
    Column("pim_s", False, "of it in the channels, of all layers"),
    Column("link_s", False, "of it over the link, of all layers"),
    Column("near_memory_s", False, "of it in the near-memory units, of all layers"),
    Column("ends_s", False, "of it embedding, last norm and LM head"),
    Column("host_s", False, "of it sampling on the host"),
    Column("tokens_per_s", False, "tokens of all stages per second, each with a request"),
    Column("energy_j", False, "energy of a request, all devices"),
    Column("energy_per_token_j", False, "energy of a token, all devices"),
    Column("power_w", False, "power of the devices while all work"),
    Column("used_devices", True, "devices with a layer"),
    Column("stages", True, "groups of layers one behind the other"),
    Column("tensor", True, "devices that share each of them"),
    Column("layers_per_device", True, "layers side by side in a device"),
    Column("channels_per_layer", True, "what each has of it"),
)

LM_HEAD = Column("lm_head", True, "1: with embedding, LM head and sampling; 0: without")

UNKNOWN, BOUND = "energy_cells_unknown", "energy_bound"
BETWEEN = " + "  # the names of cells
ALL_KNOWN = "none"
ENERGY_COLUMNS = (
    Column("energy_cells", True, f"cells of the energy ledger, of {len(CELLS)}, that the energies of the row hold"),
    Column(UNKNOWN, False, "the other cells", text=True),
    Column(BOUND, False, "of the energies without the host's: estimate, upper, lower, or neither: a sum of both", True),
)
ENERGIES = (
    "energy_j", "energy_per_token_j", "energy_per_request_j", "requests_per_j", "power_w", "prompt_energy_j",
    "prefill_j", "step_j",
)  # fmt: skip

OF_A_PROMPT = ("time_to_first_token_s", "time_per_output_token_s")
NEED_FIGURES = ("energy_j", "energy_per_token_j", "power_w", "area_mm2")


def columns_of(kind: str, tree: Mapping[str, Any], *, batched: bool, prompts: bool) -> list[Column]:
    """Columns of the results of a kind of system, in order.

    tree: its file; batched: a roofline that serves batches; prompts: batches are simulated from their prompts on.
    """
    figures = "energy" in tree
    if kind == "composed":
        names = [name for place in ("units", "memories", "links") for name in tree.get(place) or ()]
        causes = _causes((*dict.fromkeys(names), PEERS, STANDBY))
        return [*_common(("area_mm2", "time_per_token_s")), *FROM_PROMPTS, *causes]
    if kind == "attacc":
        return [*ATTACC, *_parts("step_by_part_s", "time"), *_parts("step_by_part_j", "energy")]
    if kind == "cent":
        return [*CENT, *_causes(CENT_CAUSES)]
    if kind == "duplex":
        return [*_common(("area_mm2", "time_per_token_s")), *FROM_PROMPTS, *_causes(DUPLEX_CAUSES)]
    if prompts and kind == "roofline":
        return [*_common(("time_per_token_s", "area_mm2")), *FROM_PROMPTS, *_causes(ROOFLINE_CAUSES)]
    if prompts:
        found = [*_common(("time_per_token_s", *(() if figures else NEED_FIGURES))), *FROM_PROMPTS]
        return [*found, *_areas(), *_causes(NPU_CAUSES)] if figures else found
    if kind == "pim":
        steps = [Column(f"time_by_step_s.{flat(name)}", False, f"time of {name}") for name in PIM_STEPS]
        return [*COMMON, *PIM, *_areas(), *_causes(PIM_CAUSES), *steps]
    if kind == "npu_pim" and figures:
        return [*_common(OF_A_PROMPT), *DECODE, *_areas(), *_causes(NPU_CAUSES)]
    if kind == "npu_pim":
        return [*_common(OF_A_PROMPT + NEED_FIGURES), *DECODE]
    if batched:
        return [*_common((*OF_A_PROMPT, "area_mm2")), *DECODE]
    return [*_common(("area_mm2",)), *ROOFLINE]


def value_of(values: Mapping[str, float | int | str | None], column: str) -> float | int | str | None:
    """What a point has in a column; None where it has no data. Without PIM its causes take nothing."""
    cause = column.removeprefix("energy_by_cause_j.")
    if column not in values and cause in OF_PIM and values.get("energy_j") is not None:
        return 0.0
    return values.get(column)


def _common(without: tuple[str, ...]) -> list[Column]:
    return [column for column in COMMON if column.name not in without]


def flat(name: str) -> str:
    """A name as part of a column's name, without blanks."""
    return name.replace(" ", "_")


def _causes(names: Iterable[str]) -> list[Column]:
    return [Column(f"energy_by_cause_j.{name}", False, f"energy of {name}") for name in names]


def _parts(of: str, what: str) -> list[Column]:
    """Of a decode step on AttAcc; a part that its layers do not have is empty."""
    return [Column(f"{of}.{flat(name)}", False, f"{what} of {name} in a decode step") for name in ORDER]


def _areas() -> list[Column]:
    return [Column(f"area_by_part_mm2.{part}", False, f"area of {part}, by our own gates") for part in PARTS]


def cells_of(ledger: Mapping[str, EnergyCell] | None, *, rest_known: bool = True) -> dict[str, int | str]:
    """The columns of a ledger; none without one. rest_known: whether energy at rest is in it, or nothing is at rest.

    >>> from pimloom.energy.cells import Spent, ledger_of
    >>> cells_of(ledger_of([Spent(CELLS[:9], 1.0, "paper", "power_w", "upper")], absent=["host"]))
    {'energy_cells': 11, 'energy_cells_unknown': 'static links', 'energy_bound': 'neither'}
    """
    if ledger is None:
        return {}
    unknown = [cell for cell in CELLS if not ledger[cell].known]
    bounds = sum_bounds(ledger, rest_known=rest_known)
    bound = "neither" if len(bounds) > 1 else next(iter(bounds), "estimate")
    return {"energy_cells": len(CELLS) - len(unknown), UNKNOWN: BETWEEN.join(unknown) or ALL_KNOWN, BOUND: bound}
