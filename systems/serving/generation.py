"""A batch of equal requests from their prompts to their last token, on a machine that serves batches."""

from collections.abc import Callable, Iterator
from math import fsum
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System, spec_digest
from pimloom.arch.version import __version__
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.devices.run import Run, total_j
from pimloom.systems.serving.decoding import side_by_side
from pimloom.workload.batch import Batch

Part = tuple[int, int]  # new tokens of a request, and those before them
Progress = Callable[[int, int], None]


class Wanted(NamedTuple):
    """`batch` requests of `prompt` tokens, each of which generates `generate`; chunk: most tokens of prompts in one
    iteration; every: simulate each K-th decode iteration; the others as in vLLM and CONVENTIONS.md."""

    batch: int
    prompt: int
    generate: int
    chunk: int
    every: int
    tp: int
    layers: int
    fidelity: str


class Generated(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts first, in the order of the requests, then one token of each request in every iteration; fields as in
    CONVENTIONS.md. A request's first token comes with the end of its prompt. Embeddings, the LM head and sampling are
    not in it. Energies are of all `tp` devices, None where the system or its part gives none."""

    system: str
    model: str
    fidelity: str
    batch: int
    prompt_tokens: int
    generated_tokens: int
    chunk: int
    tp: int
    layers: int
    latency_s: float
    prompt_s: float
    time_to_first_token_s: float
    time_to_first_token_max_s: float
    time_per_output_token_s: float | None
    tokens_per_s: float
    prompt_energy_j: float | None
    energy_j: float | None
    energy_per_token_j: float | None
    energy_by_cause_j: dict[str, float] | None
    power_w: float | None
    prompt_iterations: int
    decode_iterations: int
    simulated_iterations: int
    every: int
    decode_s: list[float]
    spec_digest: str
    version: str

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, fields in the order above."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Prompts(NamedTuple):
    """Iterations of prompts, what each took, and how many different ones there are."""

    iterations: list[list[tuple[int, Part]]]
    took: list[Run]
    different: int

    def first_s(self, wanted: Wanted) -> np.ndarray:
        """When the prompt of each request has ended [s]."""
        found, end = np.zeros(wanted.batch), 0.0
        for each, took in zip(self.iterations, self.took, strict=True):
            end += took.time_s
            for request, (new, old) in each:
                if new + old == wanted.prompt:
                    found[request] = end
        return found


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


def generate(system: System, llm: LlmSpec, wanted: Wanted, progress: Progress = lambda done, total: None) -> Generated:
    """Simulate each different iteration once, on a device whose steps depend on those before them every one; of decode
    each `every`-th, the first and the last, between which times and energies of the others are read from straight
    lines. Raises UserError."""
    check(llm, wanted)
    longest = max([1, wanted.prompt, *contexts_of(wanted)])
    device = device_of(system, llm, Share(wanted.tp, wanted.layers, wanted.fidelity, longest))
    return generated(device, system, llm, wanted, progress)


def generated(device: Device, system: System, llm: LlmSpec, wanted: Wanted, progress: Progress) -> Generated:
    """See `generate`. Raises UserError."""
    if device.most_requests is not None and wanted.batch > device.most_requests:
        raise UserError(f"--batch {wanted.batch}: {system.name} runs at most {device.most_requests} requests at once")
    iterations, contexts = list(chunked(wanted.batch, wanted.prompt, wanted.chunk)), contexts_of(wanted)
    simulated = sorted({*contexts[:: wanted.every], *contexts[-1:]}, reverse=True)  # the largest first: it may not fit
    decode = [Batch.decode([n] * wanted.batch) for n in simulated]
    steps = _all_in_order if device.in_order else _different
    prompts, tokens = steps(device, [_prefill(each) for each in iterations], decode, progress)
    by_context = dict(zip(simulated, tokens, strict=True))
    return _result(system, llm, wanted, Prompts(iterations, *prompts), contexts, by_context)


Steps = tuple[tuple[list[Run], int], list[Run]]  # of prompts, how many of them were simulated; of decode


def _different(device: Device, prompts: list[Batch], decode: list[Batch], progress: Progress) -> Steps:
    """Equal steps once, on all cores."""
    asked = [*decode, *dict.fromkeys(prompts)]
    runs = list(side_by_side(device.step, asked, lambda done: progress(done, len(asked))))
    known = dict(zip(asked[len(decode) :], runs[len(decode) :], strict=True))
    return ([known[each] for each in prompts], len(known)), runs[: len(decode)]


def _all_in_order(device: Device, prompts: list[Batch], decode: list[Batch], progress: Progress) -> Steps:
    """Prompts, then decode with growing contexts; which come in falling order, and go so."""
    found = []
    for done, each in enumerate([*prompts, *reversed(decode)], 1):
        found.append(device.step(each))
        progress(done, len(prompts) + len(decode))
    return (found[: len(prompts)], len(prompts)), found[len(prompts) :][::-1]


def _prefill(iteration: list[tuple[int, Part]]) -> Batch:
    new, old = ([part[i] for _, part in iteration] for i in (0, 1))
    return Batch.prefill(new, old)


def check(llm: LlmSpec, wanted: Wanted) -> None:
    for name, least in (("batch", 1), ("prompt", 0), ("generate", 1), ("chunk", 1), ("every", 1)):
        if getattr(wanted, name) < least:
            raise UserError(f"--{name} {getattr(wanted, name)}: expected at least {least}")
    most, total = llm.max_position_embeddings, wanted.prompt + wanted.generate
    if total > most:
        raise UserError(
            f"--prompt {wanted.prompt} --generate {wanted.generate}: {llm.name} has positions for {most:,} tokens; "
            "take fewer"
        )


def contexts_of(wanted: Wanted) -> list[int]:
    """Contexts of the decode iterations, the new token included; the first token comes with the prompt if there is
    one."""
    first = wanted.prompt + 1
    return list(range(first, first + wanted.generate - (wanted.prompt > 0)))


def _result(
    system: System, llm: LlmSpec, wanted: Wanted, prompts: Prompts, contexts: list[int], tokens: dict[int, Run]
) -> Generated:
    at = sorted(tokens)
    decode_s = np.interp(contexts, at, [tokens[n].time_s for n in at]) if at else np.zeros(0)
    decoded_s, prompt_s = decode_s.tolist(), fsum(took.time_s for took in prompts.took)
    first = prompts.first_s(wanted) + (0.0 if wanted.prompt else decoded_s[0])
    behind = decoded_s if wanted.prompt else decoded_s[1:]
    latency = prompt_s + fsum(decoded_s)
    prompt_j = total_j([(took.device_j, wanted.tp) for took in prompts.took])
    weights = zip(at, _weights(contexts, at), strict=True)
    decode_j = total_j([(tokens[n].device_j, wanted.tp * weight) for n, weight in weights])
    by_cause = total_j([(prompt_j, 1), (decode_j, 1)])
    joules = None if by_cause is None else fsum(by_cause.values())
    generated = wanted.batch * wanted.generate
    return Generated(
        system=system.name,
        model=llm.name,
        fidelity=wanted.fidelity,
        batch=wanted.batch,
        prompt_tokens=wanted.prompt,
        generated_tokens=wanted.generate,
        chunk=wanted.chunk,
        tp=wanted.tp,
        layers=wanted.layers,
        latency_s=latency,
        prompt_s=prompt_s,
        time_to_first_token_s=float(first.mean()),
        time_to_first_token_max_s=float(first.max()),
        time_per_output_token_s=fsum(behind) / len(behind) if behind else None,
        tokens_per_s=generated / latency,
        prompt_energy_j=None if prompt_j is None else fsum(prompt_j.values()),
        energy_j=joules,
        energy_per_token_j=None if joules is None else joules / generated,
        energy_by_cause_j=by_cause,
        power_w=None if joules is None else joules / latency,
        prompt_iterations=len(prompts.iterations),
        decode_iterations=len(contexts),
        simulated_iterations=prompts.different + len(at),
        every=wanted.every,
        decode_s=decoded_s,
        spec_digest=spec_digest(system, llm, **wanted._asdict()),
        version=__version__,
    )


def _weights(contexts: list[int], at: list[int]) -> list[float]:
    """How often each simulated context counts where the others are read from straight lines between them."""
    unit = np.eye(len(at))
    return [float(np.interp(contexts, at, row).sum()) for row in unit] if at else []
