"""What `pimloom run`, `pimloom compare` and their functions do: find out what is asked, work, and say what it took."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.files import prepare_folder, write_atomic
from pimloom.arch.system import kind_named, load_system
from pimloom.commands.outputs import check_outputs
from pimloom.commands.working import worked
from pimloom.systems.asked import Asked, Work
from pimloom.systems.devices.traits import traits

if TYPE_CHECKING:
    from pimloom.systems.devices.simulate import Window

# What each kind of system needs is imported inside: numba would slow the other ones down.

WINDOW = "0:20"
OUT = "leave it out"
COMMANDS = "of one sequence on PIM, such as pim_gpt"
PAGE_FILES = ("index.html", "results.json", "timeline.json")
DRAWS = "`pimloom compare {system} --model {model} --html DIR`"
LENGTHS = "does not go with --requests, which have lengths of their own"
ELSEWHERE = {  # options that only some kinds of systems or runs have: which, and what to write instead
    "timeline": (f"draws the commands {COMMANDS}", f"{DRAWS} draws operators"),
    "check": (f"checks the commands {COMMANDS}", OUT),
    "policy": ("places the requests of --requests in the channels of an NPU", OUT),
    "pp": ("makes a pipeline for --requests on an NPU", "write --tp N, or leave it out"),
    "devices": ("counts the devices of cent", "write --tp N, or leave it out"),
    "context": ("is the prompt and answer of a request on cent", "write --prompt P --generate N"),
    "iterations": ("counts iterations of --requests", "write --generate N"),
    "prompt": (LENGTHS, "leave one of the two out"),
    "generate": (LENGTHS, "leave one of the two out"),
}
OF_ONE = {  # the same on a system that has them
    "timeline": ("draws the commands of one sequence", "leave --requests out"),
    "check": ("checks the commands of one sequence", "leave --requests out"),
}
SEQUENCE = "write --prompt P --generate N instead, for one sequence"


class Own(NamedTuple):
    """A result of its own: what makes it and what shows it, as module and name; options of a batch that it takes, why
    not the others, and what to write instead of them, else nothing."""

    work: tuple[str, str]
    show: tuple[str, str]
    options: tuple[str, ...]
    why: str
    instead: Mapping[str, str] = {}


OWN = {  # kind of a system
    "cent": Own(
        ("pimloom.systems.devices.cent.asked", "cent_work"), ("pimloom.reports.terminal.cent", "show_cent"),
        ("tp", "pp", "devices", "context", "lm_head"), "{system} takes requests one by one through its stages",
    ),
    "attacc": Own(
        ("pimloom.systems.devices.attacc.asked", "attacc_work"), ("pimloom.reports.terminal.attacc", "show_attacc"),
        ("batch",), "{system} is a box of GPUs that share every layer of equal requests",
        {"tp": "write --set gpus=N"},
    ),
}  # fmt: skip


OF_OTHERS = (
    "requests", "batch", "chunk", "iterations", "policy", "tp", "pp", "devices", "context", "layers", "lm_head",
    "timeline",
)  # fmt: skip


class Ran(NamedTuple):
    """The result, and what prints it for a person."""

    found: Any
    show: Callable[[], object]


def run_any(asked: Asked) -> Ran:
    """Run one sequence, or a batch of requests, as the system has it. Raises UserError."""
    batched = {name: getattr(asked, name) for name in ("requests", "batch", "chunk", "iterations", "every", "policy")}
    batched |= {name: getattr(asked, name) for name in ("tp", "pp", "layers", "fidelity")}
    given = any(value is not None for value in batched.values())
    if asked.window is not None and asked.timeline is None:
        raise UserError(f"--window {asked.window}: belongs to --timeline FILE; name one")
    if not 0 <= asked.seed < 1 << 64:
        raise UserError(f"--seed {asked.seed}: expected a whole number from 0 to 2^64 - 1")
    sequence = traits(kind_named(asked.system)).sequence
    if sequence == "own":
        return _own(asked)
    _refuse_elsewhere({"devices": asked.devices, "context": asked.context}, asked)
    if (sequence == "always" and asked.requests is None) or (sequence == "alone" and not given):
        return _sequence(asked, batched)
    from_prompts = asked.requests is None and (asked.prompt is not None or asked.generate is not None)
    return _generation(asked) if from_prompts else _batch(asked)


def _own(asked: Asked) -> Ran:
    """What a kind of system has of its own."""
    takes = OWN[kind_named(asked.system)]
    other = {name: getattr(asked, name) for name in OF_OTHERS if name not in takes.options}
    if asked.lm_head is False:
        other.pop("lm_head", None)  # which it does anyhow
    _refuse(other | {"check": asked.check or None}, takes.why.format(system=asked.system), takes.instead)
    for name in (*takes.options, "every"):
        if name != "lm_head" and (value := getattr(asked, name)) is not None and value < 1:
            raise UserError(f"--{name} {value}: expected at least 1")
    if asked.seed:
        raise UserError(f"--seed {asked.seed}: {asked.system} draws nothing; leave it out")
    prepare = getattr(import_module(takes.work[0]), takes.work[1])
    found = worked(lambda: prepare(asked), {"--json": asked.json}, asked.quiet)
    show = getattr(import_module(takes.show[0]), takes.show[1])
    return Ran(found, lambda: show(found))


def _sequence(asked: Asked, batched: Mapping[str, object]) -> Ran:
    alone = {name: value for name, value in batched.items() if name not in ("batch", "tp", "pp") or value != 1}
    _refuse(alone, f"{asked.system} runs one sequence, token by token on one device", {"requests": SEQUENCE})
    from pimloom.reports.terminal.sequence import show_result
    from pimloom.systems.devices.asked import parse_window, sequence_work
    from pimloom.systems.devices.simulate import Window

    window = Window(*parse_window(_window(asked))) if asked.timeline else None
    written = {"--json": asked.json, "--timeline": asked.timeline}
    result = worked(lambda: sequence_work(asked, window), written, asked.quiet)
    if asked.timeline and window:
        _draw(asked, asked.timeline, window, result)
    return Ran(result, lambda: show_result(result, _energy(asked, result.energy_j)))


def _window(asked: Asked) -> str:
    return WINDOW if asked.window is None else asked.window


def _draw(asked: Asked, file: Path, window: "Window", result: Any) -> None:
    """Write the timeline of a run; a system without a DRAM part has none."""
    from pimloom.arch.units import S_PER_US
    from pimloom.reports.terminal.sequence import tokens_said
    from pimloom.reports.trace import timeline
    from pimloom.systems.settings import parse_settings

    if (part := load_system(asked.system, parse_settings(asked.settings or ())).part) is None:
        return
    if not window.events:
        ends = f"{result.latency_s / S_PER_US:,.1f} µs"
        raise UserError(f"--window {_window(asked)}: nothing happens there, the run ends at {ends}")
    said = tokens_said(result.workload.prompt_tokens, result.workload.generated_tokens)
    title = f"{result.model} on {result.system}, {said}"
    write_atomic(file, timeline(part, window.events, (window.start_ps, window.end_ps), title))


def _batch(asked: Asked) -> Ran:
    """Decode iterations."""
    alone = {"generate": asked.generate, "prompt": asked.prompt, "timeline": asked.timeline}
    alone |= {"check": asked.check or None}
    _refuse_elsewhere(alone, asked)
    from pimloom.reports.terminal.decoding import show_decoded, show_served
    from pimloom.systems.serving.asked import batch_work
    from pimloom.systems.serving.decoding import Decoded

    found = worked(lambda: batch_work(asked), {"--json": asked.json}, asked.quiet)
    if isinstance(found, Decoded):
        return Ran(found, lambda: show_decoded(found, _energy(asked, found.energy_j)))
    return Ran(found, lambda: show_served(found, _energy(asked, found.iteration_energy_j)))


def _energy(asked: Asked, joules: float | None) -> str | None:
    """Why there is no energy, or what is not in it, and what takes no time. joules: what the result has."""
    from pimloom.systems.devices.without_energy import energy_note
    from pimloom.systems.settings import parse_settings

    system = load_system(asked.system, parse_settings(asked.settings or ()))
    return energy_note(system, asked.tp or 1, told=joules is not None)


def _generation(asked: Asked) -> Ran:
    """Equal requests from their prompts on."""
    if asked.seed:
        raise UserError(f"--seed {asked.seed}: equal requests draw nothing; leave it out")
    other = {"iterations": asked.iterations, "policy": asked.policy, "timeline": asked.timeline}
    other |= {"check": asked.check or None, "pp": None if asked.pp == 1 else asked.pp}
    _refuse_elsewhere(other, asked)
    from pimloom.reports.terminal.generation import show_generated
    from pimloom.systems.serving.equal_asked import generation_work

    found = worked(lambda: generation_work(asked), {"--json": asked.json}, asked.quiet)
    return Ran(found, lambda: show_generated(found, _energy(asked, found.energy_j)))


def _refuse(options: Mapping[str, Any], why: str, instead: Mapping[str, str]) -> None:
    """Raise UserError for the first of the options that is given."""
    for option, value in options.items():
        if value is not None:
            raise UserError(f"{_named(option, value)}: {why}; {instead.get(option, OUT)}")


def _refuse_elsewhere(options: Mapping[str, Any], asked: Asked) -> None:
    """Raise UserError for the first of the options, which other systems or other runs have."""
    alone = traits(kind_named(asked.system)).sequence == "always"
    for option, value in options.items():
        if value is not None:
            has, instead = (OF_ONE if alone else {}).get(option) or ELSEWHERE[option]
            raise UserError(f"{_named(option, value)}: {has}; {instead.format(system=asked.system, model=asked.model)}")


def _named(option: str, value: object) -> str:
    option = option.replace("_", "-")
    return f"--{option}" if value is True else f"--no-{option}" if value is False else f"--{option} {value}"


def run_compare(
    systems: Sequence[str],
    model: str,
    layers: int | None,
    lm_head: bool,
    generate: int | None,
    tp: int | None,
    settings: Sequence[str] | None,
    price: str | None,
    json: str | None,
    html: Path | None,
    quiet: bool,
    **equal: Any,
) -> Ran:
    """Run one workload on several systems, and write a page into folder `html`. Raises UserError."""
    from pimloom.reports.terminal.comparison import show_comparison
    from pimloom.systems.serving.equal_asked import comparison_work

    def prepare() -> Work[Any]:
        if html is not None:
            check_folder(html)
        numbers = {name: number or 0 for name, number in equal.items()}
        work = comparison_work(systems, model, layers, lm_head, generate, tp, settings, price, **numbers)
        if html is not None:
            for name in PAGE_FILES:
                check_outputs({"--json": json, "--html": html / name})
        return work

    found = worked(prepare, {"--json": json}, quiet)
    page = None
    if html is not None:
        from pimloom.reports.compare.page import write_page

        shown = worked(lambda: Work("steps that are drawn", lambda progress: found.shown), {}, quiet)
        page = write_page(html, found, shown)
    return Ran(found, lambda: show_comparison(found, page))


def check_folder(html: Path) -> None:
    """Make the page's folder before the work. Raises UserError if it cannot be made."""
    try:
        prepare_folder(html)
    except UserError as error:
        raise UserError(f"--html {html}: {str(error).replace('--out', '--html')}") from None
