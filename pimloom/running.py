"""What `pimloom run` does: read the arguments, simulate with a progress bar, write the timeline."""

import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.files import write_atomic
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.arch.units import PS_PER_US, S_PER_US
from pimloom.cycle_sim.advance import advance
from pimloom.outputs import check_outputs
from pimloom.progress import progress_bar
from pimloom.systems.devices.result import Result
from pimloom.systems.devices.simulate import Window, positions, simulate
from pimloom.systems.settings import parse_settings

LONGEST_WINDOW_US = 2000  # about a million events


class RunFiles(NamedTuple):
    """What a run writes: its result as JSON, `-` for stdout; a timeline of a window [µs]."""

    json: str | None
    timeline: Path | None
    window: str


class Tokens(NamedTuple):
    """Tokens of a prompt, and tokens to generate behind it."""

    prompt: int
    generate: int


def run_command(
    system: str,
    model: str,
    tokens: Tokens,
    settings: Sequence[str],
    files: RunFiles,
    *,
    check: bool,
    seed: int,
    quiet: bool,
) -> Result:
    """Simulate as `pimloom run` was asked to; outputs are checked first and written last. Raises UserError."""
    json, timeline, window = files
    check_outputs({"--json": json, "--timeline": timeline})
    frame = Window(*parse_window(window))
    total = positions(*tokens)
    hardware, spec = load_system(system, parse_settings(settings)), load_llm(model)
    check_outputs({"--json": json, "--timeline": timeline})
    with progress_bar(f"{spec.name} on {hardware.name}", quiet, advance if hardware.part else None) as progress:
        result = simulate(
            hardware,
            spec,
            tokens.generate,
            seed=seed,
            check=check,
            window=frame if timeline else None,
            progress=lambda t: progress(t, total),
            prompt=tokens.prompt,
        )
    if total > spec.max_position_embeddings and not quiet:
        most = spec.max_position_embeddings
        print(f"pimloom: note: {spec.name} has positions for {most} tokens; {total} are simulated", file=sys.stderr)
    if timeline and hardware.part:
        if not frame.events:
            ends = f"{result.latency_s / S_PER_US:,.1f} µs"
            raise UserError(f"--window {window}: nothing happens there, the run ends at {ends}")
        from pimloom.reports.terminal.show import tokens_said
        from pimloom.reports.trace import timeline as draw

        title = f"{spec.name} on {hardware.name}, {tokens_said(*tokens)}"
        write_atomic(timeline, draw(hardware.part, frame.events, (frame.start_ps, frame.end_ps), title))
    return result


def parse_window(text: str) -> tuple[int, int]:
    """`FROM:TO` in µs as ps. Raises UserError unless 0 <= FROM < TO."""
    try:
        low, high = (int(Decimal(part) * PS_PER_US) for part in text.split(":"))
    except (ValueError, ArithmeticError):
        low, high = 0, 0
    if not 0 <= low < high < 2**63:
        raise UserError(f"--window {text}: expected FROM:TO in µs with 0 <= FROM < TO, such as 0:20")
    if high - low > LONGEST_WINDOW_US * PS_PER_US:
        raise UserError(f"--window {text}: expected at most {LONGEST_WINDOW_US} µs: longer timelines fill no screen")
    return low, high
