"""What `pimloom run` and `pimloom.run` do: one sequence, or a batch of requests, as the system has it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.system import load_system
from pimloom.systems.devices.traits import traits

if TYPE_CHECKING:
    from pimloom.systems.devices.npu_pim.served import Served
    from pimloom.systems.devices.result import Result
    from pimloom.systems.serving.decoding import Decoded
    from pimloom.systems.serving.generation import Generated

# What each side needs is imported inside: numba would slow the other one down.

WINDOW = "0:20"
OUT = "leave it out"
SEQUENCE = "write --prompt P --generate N instead, for one sequence"


class Run(NamedTuple):
    """Options of `pimloom run`; None where not given."""

    system: str
    model: str
    settings: Sequence[str] = ()
    generate: int | None = None
    prompt: int | None = None
    requests: str | None = None
    batch: int | None = None
    chunk: int | None = None
    iterations: int | None = None
    every: int | None = None
    policy: str | None = None
    tp: int | None = None
    pp: int | None = None
    layers: int | None = None
    fidelity: str | None = None
    json: str | None = None
    timeline: Path | None = None
    window: str | None = None
    check: bool = False
    seed: int = 0
    quiet: bool = False


class Ran(NamedTuple):
    """The result, and what prints it for a person."""

    found: "Result | Generated | Served | Decoded"
    show: Callable[[], object]


def run_any(wanted: Run) -> Ran:
    """Run as asked. Raises UserError."""
    batched = {name: getattr(wanted, name) for name in ("requests", "batch", "chunk", "iterations", "every", "policy")}
    batched |= {name: getattr(wanted, name) for name in ("tp", "pp", "layers", "fidelity")}
    given = any(value is not None for value in batched.values())
    if wanted.window is not None and wanted.timeline is None:
        raise UserError(f"--window {wanted.window}: belongs to --timeline FILE; name one")
    if not 0 <= wanted.seed < 1 << 64:
        raise UserError(f"--seed {wanted.seed}: expected a whole number from 0 to 2^64 - 1")
    sequence = traits(load_system(wanted.system).spec.kind).sequence
    if (sequence == "always" and wanted.requests is None) or (sequence == "alone" and not given):
        return _sequence(wanted, batched)
    from_prompts = wanted.requests is None and (wanted.prompt is not None or wanted.generate is not None)
    return _generation(wanted) if from_prompts else _batch(wanted)


def _sequence(wanted: Run, batched: Mapping[str, object]) -> Ran:
    alone = {name: value for name, value in batched.items() if name not in ("batch", "tp", "pp") or value != 1}
    _refuse(alone, f"{wanted.system} runs one sequence at a time", {"requests": SEQUENCE})
    from pimloom.reports.terminal.show import show_result
    from pimloom.running import RunFiles, Tokens, run_command

    tokens = Tokens(wanted.prompt or 0, 1024 if wanted.generate is None else wanted.generate)
    files = RunFiles(wanted.json, wanted.timeline, WINDOW if wanted.window is None else wanted.window)
    result = run_command(
        wanted.system,
        wanted.model,
        tokens,
        wanted.settings,
        files,
        check=wanted.check,
        seed=wanted.seed,
        quiet=wanted.quiet,
    )
    return Ran(result, lambda: show_result(result))


def _batch(wanted: Run) -> Ran:
    alone = {"generate": wanted.generate, "prompt": wanted.prompt, "timeline": wanted.timeline}
    alone |= {"check": wanted.check or None, "chunk": wanted.chunk}
    _refuse(alone, f"{wanted.system} decodes a batch", {})
    from pimloom.serving import Asked, serve_command

    shares = (1 if wanted.tp is None else wanted.tp, 1 if wanted.pp is None else wanted.pp)
    many = (wanted.requests, wanted.batch, wanted.iterations, wanted.every, wanted.policy, wanted.seed)
    asked = Asked(*many, *shares, wanted.layers, wanted.fidelity)
    answer = serve_command(wanted.system, wanted.model, wanted.settings, asked, json=wanted.json, quiet=wanted.quiet)
    return Ran(answer.found, answer.show)


def _generation(wanted: Run) -> Ran:
    """Equal requests from their prompts on."""
    other = {"iterations": wanted.iterations, "policy": wanted.policy, "timeline": wanted.timeline}
    other |= {"check": wanted.check or None, "pp": None if wanted.pp == 1 else wanted.pp}
    _refuse(other, f"{wanted.system} takes equal requests from their prompts on", {})
    from pimloom.generating import Asked, generate_command

    tokens = (wanted.prompt or 0, 1024 if wanted.generate is None else wanted.generate)
    pieces = (wanted.batch, wanted.chunk, wanted.every, wanted.tp, wanted.layers)
    asked = Asked(*tokens, *pieces, wanted.fidelity)
    answer = generate_command(wanted.system, wanted.model, wanted.settings, asked, json=wanted.json, quiet=wanted.quiet)
    return Ran(answer.found, answer.show)


def _refuse(options: Mapping[str, Any], why: str, instead: Mapping[str, str]) -> None:
    """Raise UserError for the first of the options that is given."""
    for option, value in options.items():
        if value is not None:
            named = f"--{option}" if value is True else f"--{option} {value}"
            raise UserError(f"{named}: {why}; {instead.get(option, OUT)}")
