"""What a user is told beside a result, in a sentence each."""

from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted
from pimloom.arch.system import System
from pimloom.energy.npu_pim import activate_note
from pimloom.systems.devices.npu_pim.parallel import smallest_batch
from pimloom.systems.devices.traits import traits
from pimloom.systems.serving.decoding import cut_requests
from pimloom.systems.serving.machine import Batch
from pimloom.systems.serving.workload import Workload


def energy_notes(system: System) -> list[str]:
    """Where the currents of a memory leave little or no energy for an ACT."""
    if system.spec.kind == "npu_pim" and system.spec.energy and system.part and (why := activate_note(system.part)):
        return [why]
    return []


def unplaced_notes(system: System, by: str) -> list[str]:
    """Where requests of a list are placed, and none lies in one channel, as there is no PIM that works in it."""
    return [] if channelled(system) else [f"{by} is not used, as on {system.name} no request lies in one channel"]


def channelled(system: System) -> bool:
    """Whether each request lies in one channel, where PIM works on it."""
    kind = traits(system.kind)
    return kind.channels and kind.in_banks(system)


def undivided_notes(system: System, llm: LlmSpec, batch: Batch, tp: int, pp: int) -> list[str]:
    """Where there are too few requests for sub-batches in the batch, or in its smallest micro-batch."""
    spec = system.spec
    if spec.kind != "npu_pim":
        return []
    requests = smallest_batch(system, llm, *batch, tp=tp, pp=pp)
    if requests >= (n := spec.interleave.sub_batches):
        return []
    which = f"the batch of {requests} runs" if pp == 1 else f"micro-batches, the smallest of {requests}, run"
    return [f"{which} undivided, as {n} sub-batches need more"]


def long_notes(llm: LlmSpec, longest: int) -> list[str]:
    """What becomes of contexts of a list that are longer than the model's positions or its window."""
    most, window = llm.max_position_embeddings, llm.widest_window
    if window and longest > window:
        return [f"{llm.name} attends to the last {window:,} tokens; of longer contexts only those are simulated"]
    if longest > most:
        return [f"{llm.name} has positions for {counted(most, 'token')}; contexts of up to {longest:,} are simulated"]
    return []


def one_note(workload: Workload) -> str:
    """What a trace comes to without options that say how much of it."""
    return (
        f"of {workload.name} one iteration is simulated, and no prompt is computed; --iterations N simulates so many, "
        "--chunk N all requests with their prompts"
    )


def cut_notes(llm: LlmSpec, workload: Workload) -> list[str]:
    """What becomes of requests that are longer than the model's positions."""
    if not (cut := cut_requests(llm, workload)):
        return []
    return [
        f"{cut:,} of {counted(len(workload.prompt_tokens), 'request')} of {workload.name} go beyond the "
        f"{llm.max_position_embeddings:,} positions of {llm.name}: their contexts stop growing there"
    ]
