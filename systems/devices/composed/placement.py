"""Where a composition keeps weights, keys and values, and whether they fit there."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from pimloom.arch.composition import ComposedSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.systems.devices.composed.nodes import units_of
from pimloom.workload.batch import Batch
from pimloom.workload.op import LINKS, Op

SAMPLES = {"prefill": Batch.prefill([2]), "decode": Batch.decode([2]), "verify": Batch.verify([3], 2)}
COMPRESSED = "self_attn.kv_b_proj"  # one matrix, which decode takes in two parts


def first_layers(ops: Sequence[Op], layers: int) -> Iterator[Op]:
    """The operators of the first layers, and those before and behind all."""
    for op in ops:
        here = tuple(layer for layer in op.layers if layer < layers)
        if here or not op.layers:
            yield replace(op, layers=here)


def memory_bytes(system: System, spec: ComposedSystem, name: str) -> int:
    """Size of a memory."""
    memory = spec.memories[name]
    if name in system.parts:
        return memory.channels * system.parts[name].organization.capacity_bytes  # type: ignore[union-attr]
    return memory.bytes  # type: ignore[union-attr]


def home_of(system: System, spec: ComposedSystem, made: Mapping[str, Sequence[Op]]) -> str:
    """The memory of keys and values: of the unit that multiplies by them in decode, or in the first phase there is.

    Raises UserError if that is not one memory, or if a unit of another one is to write them.
    """
    phase = "decode" if "decode" in made else next(iter(made))
    wanted = {
        op.kind: spec.units[units_of(spec, phase, op)[0]].memory for op in made[phase] if op.kind in ("score", "value")
    }
    if len(set(wanted.values())) > 1:
        raise UserError(
            f"{system.where(f'runs.{phase}')}: score runs at {wanted['score']}, value at {wanted['value']}; keys and "
            "values lie in one memory, expected units of one"
        )
    home = wanted["score"]
    for at, ops in made.items():
        for op in ops:
            (name,) = units_of(spec, at, op) if op.kind == "cache_write" else (None,)
            if name is not None and spec.units[name].memory != home:
                raise UserError(
                    f"{system.where(f'runs.{at}')}: {name} is to write keys and values into {home}, not its memory; "
                    f"expected cache_write on a unit of {home}"
                )
    return home


def weights(spec: ComposedSystem, made: Mapping[str, Sequence[Op]]) -> dict[str, int]:
    """Bytes of weights in each memory: of all operators that run there in any phase, once."""
    found: dict[tuple[str, tuple[int, ...], str], int] = {}
    for phase, ops in made.items():
        here: dict[tuple[str, tuple[int, ...], str], int] = {}
        table = {
            spec.units[unit].memory for op in ops if op.name == "embed_tokens" for unit in units_of(spec, phase, op)
        }
        for op in ops:
            for unit in units_of(spec, phase, op) if op.kind not in LINKS else ():
                memory = spec.units[unit].memory
                shared = op.name == "lm_head" and not op.held and memory not in table
                elements = (op.n_in * op.n_out if shared else op.parameters) * op.times
                name = COMPRESSED if op.name.startswith(COMPRESSED) else op.name
                key = memory, op.layers, name
                here[key] = here.get(key, 0) + ceil_div(elements * op.bits.weight, BITS_PER_BYTE)
        for key, n in here.items():
            found[key] = max(found.get(key, 0), n)
    total = dict.fromkeys(spec.memories, 0)
    for (memory, _, _), n in found.items():
        total[memory] += n
    return total


def check_fits(system: System, spec: ComposedSystem, llm: LlmSpec, held: Mapping[str, int], home: str, kv: int) -> None:
    """Raise UserError unless the weights of each memory, and `kv` bytes of keys and values at home, fit into it."""
    for name, n in held.items():
        there, cache = memory_bytes(system, spec, name), kv if name == home else 0
        if n + cache > there:
            of_cache = f" and {cache:,} of keys and values" if cache else ""
            more = "more channels" if name in system.parts else "a larger one (`bytes`)"
            more += ", more devices (--tp)" if spec.peers else ""
            raise UserError(
                f"{system.where(f'memories.{name}')}: has {there:,} bytes, {llm.name} needs {n:,} of weights{of_cache} "
                f"there; take {more}{', fewer requests or fewer tokens' if n <= there else ' or a smaller model'}"
            )
