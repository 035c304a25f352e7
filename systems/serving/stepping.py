"""Steps of equal requests from their prompts to their last token, each different one simulated once."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted
from pimloom.arch.system import System, spec_digest
from pimloom.arch.units import GIB
from pimloom.systems.devices.device import Capacity, Device, Share
from pimloom.systems.devices.positions import positions
from pimloom.systems.devices.run import Run
from pimloom.systems.devices.traits import settled, traits
from pimloom.systems.interpolation import bends, chosen, weights
from pimloom.systems.serving.beside import side_by_side
from pimloom.workload.batch import Batch

Part = tuple[int, int]  # new tokens of a request, and those before them
CHUNK = 2048  # tokens: vLLM's max_num_batched_tokens with chunked prefill [recalled]
Progress = Callable[[int, int], None]
Steps = tuple[list[Run], int, list[Run]]  # of prompts, how many of them were simulated; of decode


class Wanted(NamedTuple):
    """`batch` requests of `prompt` tokens, each of which generates `generate`; chunk: most tokens of prompts in one
    iteration; every: simulate each K-th decode iteration; outside: with embedding, LM head and
    sampling, None: without, but PIM-GPT by its file; the others as in vLLM and CONVENTIONS.md."""

    batch: int
    prompt: int
    generate: int
    chunk: int
    every: int
    tp: int
    layers: int
    fidelity: str
    outside: bool | None = None

    @property
    def share(self) -> Share:
        """What a device has of the model."""
        return Share(self.tp, self.layers, self.fidelity, longest(self), self.outside)

    def decisive(self) -> dict[str, int | str]:
        """What decides a comparison, by name, beside the systems."""
        given = self._asdict()
        if self.outside is None:
            del given["outside"]
        return given

    def digest(self, system: System, llm: LlmSpec) -> str:
        """Digest of what decides the result on a system: what it does anyhow is not in it."""
        system, outside = settled(system, self.outside)
        return spec_digest(system, llm, **self._replace(outside=None).decisive() | outside)


def chunked(batch: int, prompt: int, chunk: int) -> Iterator[list[tuple[int, Part]]]:
    """The prompts in iterations of at most `chunk` tokens, first come first served: (request, its part) of each.

    >>> [[(i, *part) for i, part in each] for each in chunked(2, 5, 4)]
    [[(0, 4, 0)], [(0, 1, 4), (1, 3, 0)], [(1, 2, 3)]]
    """
    made, left = list[tuple[int, Part]](), chunk
    for i in range(batch if prompt else 0):
        done = 0
        while done < prompt:
            new = min(prompt - done, left)
            made.append((i, (new, done)))
            done, left = done + new, left - new
            if not left:
                yield made
                made, left = [], chunk
    if made:
        yield made


def contexts_of(wanted: Wanted) -> list[int]:
    """Contexts of the decode iterations, the new token included; the first token comes with the prompt if there is
    one."""
    first = wanted.prompt + 1
    return list(range(first, first + wanted.generate - (wanted.prompt > 0)))


def longest(wanted: Wanted) -> int:
    """The longest context that is computed [tokens]."""
    return positions(wanted.prompt, wanted.generate)


class Simulated(NamedTuple):
    """Steps that were simulated, without their spans: of each iteration of prompts, and how many differ; of decode by
    context, each of which stands for so many iterations. kept: with their spans, those of the steps that are shown."""

    prompts: list[Run]
    different: int
    decode: dict[int, Run]
    weights: dict[int, float]
    kept: dict[Batch, Run]


def simulated(device: Device, system: System, llm: LlmSpec, wanted: Wanted, progress: Progress) -> Simulated:
    """All steps that `wanted` needs. Raises UserError."""
    if device.most_requests is not None and wanted.batch > device.most_requests:
        most = counted(device.most_requests, "request")
        raise UserError(f"--batch {wanted.batch}: {system.name} runs at most {most} at once")
    if wanted.batch > (capacity := device.capacity()).tokens:
        raise UserError(_no_room(capacity, system, llm, wanted.batch))
    contexts = contexts_of(wanted)
    at = chosen(contexts, wanted.every, bends(llm, contexts))
    asked = at[::-1]  # the largest may not fit
    prompts = [_prefill(each, wanted.prompt) for each in chunked(wanted.batch, wanted.prompt, wanted.chunk)]
    decode = [Batch.decode([n] * wanted.batch) for n in asked]
    if not decode and len(prompts) > 1 and not device.in_order:
        device.check(Batch.decode([wanted.prompt] * wanted.batch))
    kept = dict[Batch, Run]()
    if device.in_order:
        took, different, tokens = _in_order(device, prompts, decode, progress)
    else:
        took, different, tokens = _different(device, prompts, decode, progress, shown_of(wanted), kept)
    often = dict(zip(at, weights(contexts, at), strict=True))
    return Simulated(took, different, dict(zip(asked, tokens, strict=True)), often, kept)


def _no_room(capacity: Capacity, system: System, llm: LlmSpec, batch: int) -> str:
    """Why a batch does not fit."""
    shared = traits(system.kind).shared(system)
    if not capacity.tokens:
        weights, there = (n / GIB for n in (capacity.weight_bytes, capacity.memory_bytes))
        return (
            f"--model {llm.name}: its weights take {weights:,.2f} GiB, and {system.name} has {there:,.2f} GiB, which "
            f"leaves no room for keys and values; take {'more devices (--tp), ' * shared}a smaller model or more memory"
        )
    room = f"{system.name} has room for keys and values of {capacity.tokens:,} tokens in all"
    return f"--batch {batch}: {room}; lower it{' or take more devices (--tp)' * shared}"


def _different(
    device: Device,
    prompts: list[Batch],
    decode: list[Batch],
    progress: Progress,
    keep: Sequence[Batch | None],
    kept: dict[Batch, Run],
) -> Steps:
    """Equal steps once, on all cores; those to `keep` go into `kept` with their spans."""
    asked = [*decode, *dict.fromkeys(prompts)]

    def step(batch: Batch) -> Run:
        run = device.step(batch)
        if batch in keep:
            kept[batch] = run
        return run.without_spans()

    runs = list(side_by_side(step, asked, lambda done: progress(done, len(asked))))
    known = dict(zip(asked[len(decode) :], runs[len(decode) :], strict=True))
    return [known[each] for each in prompts], len(known), runs[: len(decode)]


def _in_order(device: Device, prompts: list[Batch], decode: list[Batch], progress: Progress) -> Steps:
    """Prompts, then decode with growing contexts; which come in falling order, and go so."""
    found = []
    for done, each in enumerate([*prompts, *reversed(decode)], 1):
        found.append(device.step(each).without_spans())
        progress(done, len(prompts) + len(decode))
    return found[: len(prompts)], len(prompts), found[len(prompts) :][::-1]


def shown_of(wanted: Wanted) -> tuple[Batch | None, Batch | None]:
    """The last iteration of prompts, if there is one, and the decode iteration in the middle."""
    every, contexts = list(chunked(wanted.batch, wanted.prompt, wanted.chunk)), contexts_of(wanted)
    prompts = _prefill(every[-1], wanted.prompt) if every else None
    return prompts, Batch.decode([contexts[len(contexts) // 2]] * wanted.batch) if contexts else None


def _prefill(iteration: list[tuple[int, Part]], prompt: int) -> Batch:
    """Only where a prompt ends its next token is wanted."""
    each = [Batch.prefill([new], [old], ends=new + old == prompt) for _, (new, old) in iteration]
    return Batch(tuple(at for part in each for at in part.requests))
