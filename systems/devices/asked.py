"""What a user asks of a system that runs one sequence."""

from decimal import Decimal

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.arch.units import PS_PER_US
from pimloom.systems.asked import GENERATED, Asked, Progress, Work
from pimloom.systems.devices.positions import check_positions, positions
from pimloom.systems.devices.result import Result
from pimloom.systems.devices.simulate import Window, simulate
from pimloom.systems.settings import parse_settings

LONGEST_WINDOW_US = 2000  # about a million events


def sequence_work(asked: Asked, window: Window | None) -> Work[Result]:
    """A prompt and what is generated behind it. window: filled with what happens in it. Raises UserError."""
    system, llm = load_system(asked.system, parse_settings(asked.settings or ()), "run"), load_llm(asked.model)
    prompt, generate = asked.prompt or 0, GENERATED if asked.generate is None else asked.generate
    total = positions(prompt, generate)
    check_positions(llm, prompt, generate, default=asked.generate is None)

    def run(progress: Progress) -> Result:
        return simulate(
            system,
            llm,
            generate,
            seed=asked.seed,
            check=asked.check,
            window=window,
            progress=lambda done: progress(done, total),
            prompt=prompt,
            lm_head=asked.lm_head,
        )

    return Work(f"{llm.name} on {system.name}", run, lambda: llm.notes)


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
