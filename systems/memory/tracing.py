"""What a trace is asked for: the memory and its controllers, the requests, the logs of what they do."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from pimloom.arch.document import NEAREST
from pimloom.arch.error import UserError
from pimloom.arch.files import write_atomic
from pimloom.arch.load import load_tree, nearest
from pimloom.arch.memory import Memory, Policy
from pimloom.arch.part import Part
from pimloom.arch.policy import complaints, load_policy
from pimloom.arch.unread import check_policy, check_traced
from pimloom.arch.version import __version__
from pimloom.cycle_sim.memory.patterns import UNDRAWN
from pimloom.systems.asked import Progress, Work
from pimloom.systems.settings import parse_settings

if TYPE_CHECKING:
    from pimloom.systems.memory.outcome import Outcome

RAMULATOR = {"memory_system", "frontend", "MemorySystem", "Frontend"}  # keys of its files, of 2.1 and of 2.0
MOST_REQUESTS = 10**10  # of a pattern
LONGEST_IDLE_CK = 10**12  # about ten minutes of simulated time


class Wanted(NamedTuple):
    """The options of `pimloom trace`, as typed."""

    memory: str
    requests_file: Path | None = None
    controller: str | None = None
    pattern: str | None = None
    requests: str | None = None  # 1e5
    seed: int | None = None  # 0
    gap: float | None = None
    stride: int | None = None
    channels: int = 1
    mapping: str | None = None
    settings: Sequence[str] | None = None
    idle: int = 0
    commands: Path | None = None
    request_log: Path | None = None
    timeline: Path | None = None
    window: str | None = None  # 0:2000
    json: str | None = None
    quiet: bool = False


def trace_work(wanted: Wanted) -> Work["Outcome"]:
    """A trace through the controllers of a memory. Raises UserError."""
    from pimloom.cycle_sim.memory.simulate import simulate
    from pimloom.systems.memory.fingerprint import Fingerprint
    from pimloom.systems.memory.outcome import outcome

    _check_use(wanted)
    memory, controller = find_memory(wanted)

    def run(progress: Progress) -> "Outcome":
        warnings = list(memory.warnings)
        with ExitStack() as stack:
            chunks = requests_of(wanted, memory, memory.policy.quirks == "none", warnings.append, progress)
            log, chunks, draw = logs_of(wanted, memory, chunks, stack, warnings.append)
            start, seen = time.perf_counter(), Fingerprint()
            tallies = simulate(memory, seen.watch(chunks), extra_ck=wanted.idle, log=log)
            wall_s = time.perf_counter() - start
            draw()
        seed = wanted.seed or 0 if wanted.pattern else None
        asked = {"requests": seen.hexdigest(), "idle": wanted.idle}
        return outcome(
            memory, controller, tallies, wall_s=wall_s, seed=seed, warnings=warnings, version=__version__, asked=asked
        )

    return Work(f"requests on {memory.name}", run)


def _check_use(wanted: Wanted) -> None:
    """Raise UserError if an option would change nothing, or the clocks to go on are none."""
    made = {"--requests": wanted.requests, "--seed": wanted.seed, "--gap": wanted.gap, "--stride": wanted.stride}
    file = wanted.requests_file
    for option, value in made.items():
        if value is not None and file is not None:
            raise UserError(f"{option} {value}: belongs to a --pattern, and {file} is a trace; leave one out")
    if wanted.seed is not None and wanted.pattern in UNDRAWN and not wanted.gap:
        gap = "without --gap" if wanted.gap is None else f"with --gap {wanted.gap}"
        raise UserError(f"--seed {wanted.seed}: pattern {wanted.pattern} {gap} draws nothing; leave it out")
    if wanted.window is not None and wanted.timeline is None:
        raise UserError(f"--window {wanted.window}: belongs to --timeline FILE; name one")
    if not 0 <= wanted.idle <= LONGEST_IDLE_CK:
        raise UserError(f"--idle {wanted.idle}: expected clocks >= 0 and <= {LONGEST_IDLE_CK}")


def find_memory(wanted: Wanted) -> tuple[Memory, str]:
    """The memory system and the name of its controller. Raises UserError."""
    device, controller = wanted.memory, wanted.controller
    parts, policies = _split(parse_settings(wanted.settings or (), "controller.page=closed"))
    tool = _tool_of(device)
    if tool is None:
        from pimloom.arch.part_memory import MAPPING, part_memory

        loaded = _policy(controller or "default", policies)
        if wanted.channels < 1 or wanted.channels > 1024:
            raise UserError(f"--channels {wanted.channels}: expected 1 to 1024")
        if wanted.channels & (wanted.channels - 1):
            raise UserError(f"--channels {wanted.channels}: expected a power of two")
        name = _part_name(device)
        part = _part(name, parts)
        check_traced(part, loaded, parts)
        check_policy(loaded, policies)
        stem = Path(name).stem if name.endswith((".yaml", ".yml")) else name
        mapping = MAPPING if wanted.mapping is None else wanted.mapping
        return part_memory(stem, part, loaded, wanted.channels, mapping), controller or "default"
    for option, given in (("--channels", wanted.channels != 1), ("--mapping", wanted.mapping), ("--set dram.", parts)):
        if given:
            raise UserError(f"{option}: {device} is {tool}'s own file; change it there")
    memory = _load_tool(tool, device)
    if controller not in (None, tool):
        other = _policy(controller or "", policies)
        check_policy(other, policies)
        return memory._replace(policy=other), str(controller)
    changed = load_policy_over(memory.policy, policies)
    check_policy(changed, policies)
    return memory._replace(policy=changed), tool


def load_policy_over(policy: Policy, overrides: Mapping[str, str]) -> Policy:
    """The policy with some fields replaced, each read as from a YAML file. Raises UserError."""
    if not overrides:
        return policy
    free = {"structure": policy.structure, "quirks": policy.quirks} | dict(overrides)
    read = _policy("ramulator2" if policy.structure == "buffered" else "default", free)
    changed = replace(policy, **{field: getattr(read, field) for field in overrides})
    for field, said in complaints(changed):
        raise UserError(f"--set controller.{field}: {said}")
    return changed


def _policy(name: str, overrides: Mapping[str, str]) -> Policy:
    try:
        return load_policy(name, overrides).value
    except UserError as error:
        said, _, near = str(error).replace("--set ", "--set controller.", 1).partition(NEAREST)
        below = ", ".join(f"controller.{key}" for key in near.split(", ") if key)
        raise UserError(f"{said}{NEAREST if below else ''}{below}") from None


def _tool_of(device: str) -> str | None:
    """Which reference simulator's file this is; None: a part of ours."""
    if device.endswith(".ini"):
        return "dramsim3"
    if device.endswith((".yaml", ".yml")):
        tree, _ = load_tree(Path(device))
        if isinstance(tree, dict) and RAMULATOR & set(tree):
            return "ramulator2"
    return None


def _load_tool(tool: str, file: str) -> Memory:
    if tool == "dramsim3":
        from pimloom.arch.foreign.dramsim3 import load_dramsim3

        return load_dramsim3(file)
    from pimloom.arch.foreign.ramulator2 import load_ramulator2

    return load_ramulator2(file)


def _part_name(device: str) -> str:
    """A part, or the first part of a standard that has the standard's name."""
    from pimloom.arch.names import elsewhere, list_names
    from pimloom.arch.part_file import load_part

    known = list_names("parts")
    if device in known or device.endswith((".yaml", ".yml")):
        return device
    of_standard = [name for name in known if load_part(name).value.standard == device.lower()]
    if of_standard:
        return of_standard[0]
    if Path(device).exists():
        raise UserError(f"{device}: expected a part, a DRAMsim3 .ini or a .yaml file")
    standards = dict.fromkeys(load_part(name).value.standard for name in known)
    where = elsewhere(device) or nearest(device, [*standards, *known])
    raise UserError(f"unknown part {device!r}{where}; known parts: {', '.join(known)}")


def _part(name: str, overrides: Mapping[str, str]) -> Part:
    from pimloom.arch.part_file import load_part

    try:
        return load_part(name, overrides).value
    except UserError as error:  # its places are below dram. for the user
        said, nearest_, names = str(error).partition("; nearest: ")
        if said.startswith("--set "):
            said, names = said.replace("--set ", "--set dram.", 1), names and f"dram.{names.replace(', ', ', dram.')}"
        raise UserError(f"{said}{nearest_}{names}") from None


def _split(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the part (below `dram.`) and of the controller (below `controller.`)."""
    found: dict[str, dict[str, str]] = {"dram": {}, "controller": {}}
    for key, text in settings.items():
        head, _, rest = key.partition(".")
        if head not in found or not rest:
            raise UserError(f"--set {key}: expected dram.FIELD or controller.FIELD; `pimloom explain` lists them")
        found[head][rest] = text
    return found["dram"], found["controller"]


def requests_of(wanted: Wanted, memory: Memory, strict: bool, warn: Any, progress: Progress) -> Iterator[Any]:
    """The requests in chunks."""
    if wanted.requests_file is not None and wanted.pattern not in (None, "file"):
        raise UserError(f"--pattern {wanted.pattern}: {wanted.requests_file} is a trace; leave one out")
    if wanted.requests_file is None and wanted.pattern in (None, "file"):
        raise UserError("give a trace file or a --pattern: `pimloom trace ddr4_3200 requests.trc`")
    if wanted.requests_file is not None:
        from pimloom.systems.memory.trace_file import read_trace, trace_size

        total = trace_size(wanted.requests_file)
        return read_trace(
            wanted.requests_file,
            limit_bytes=memory.capacity_bytes,
            wraps=not strict,
            ordered=strict,
            warn=warn,
            progress=lambda done: progress(done, total),
        )
    from pimloom.systems.memory.patterns import parse_count, pattern_chunks

    count = parse_count("1e5" if wanted.requests is None else wanted.requests)
    if count > MOST_REQUESTS:
        raise UserError(f"--requests {wanted.requests}: expected at most {MOST_REQUESTS:.0e}, hours of simulation")
    made = pattern_chunks(memory, wanted.pattern or "", count, wanted.seed or 0, gap=wanted.gap, stride=wanted.stride)
    return _counted(made, count, progress)


def _counted(chunks: Iterable[Any], total: int, progress: Progress) -> Iterator[Any]:
    done = 0
    for chunk in chunks:
        progress(done, total)
        yield chunk
        done += len(chunk.address)


def logs_of(
    wanted: Wanted, memory: Memory, chunks: Iterator[Any], stack: ExitStack, warn: Callable[[str], None]
) -> tuple[Any, Iterator[Any], Callable[[], None]]:
    """The logs asked for as one (None: none), the chunks that they watch, and what writes the timeline in the end."""
    if not (wanted.commands or wanted.request_log or wanted.timeline):
        return None, chunks, lambda: None
    from pimloom.systems.memory.logs import CommandLog, RequestLog, Tee
    from pimloom.systems.memory.timeline import WindowLog, timeline

    logs: list[Any] = []
    if wanted.commands:
        logs.append(stack.enter_context(CommandLog(wanted.commands, memory)))
    if wanted.request_log:
        requests = stack.enter_context(RequestLog(wanted.request_log))
        logs.append(requests)
        chunks = requests.watch(chunks)
    if not (file := wanted.timeline):
        return Tee(*logs), chunks, lambda: None
    window = wanted.window or "0:2000"
    from_ck, to_ck = parse_clocks(window)
    kept = WindowLog(from_ck, to_ck)

    def draw() -> None:
        commands, requests = kept.rows()
        if not len(commands) and not len(requests):
            warn(f"--window {window}: nothing happens there; the timeline is empty")
        write_atomic(file, timeline(memory, kept, f"{wanted.memory}, clocks {window}"))

    return Tee(*logs, kept), kept.watch(chunks), draw


def parse_clocks(text: str) -> tuple[int, int]:
    """`FROM:TO` in clocks. Raises UserError unless 0 <= FROM < TO."""
    low, _, high = text.partition(":")
    digits = text.isascii() and low.isdecimal() and high.isdecimal()
    if digits and len(text) < 40 and int(low) < int(high) < 2**62:
        return int(low), int(high)
    raise UserError(f"--window {text}: expected FROM:TO in clocks with 0 <= FROM < TO, such as 0:2000")
