"""What `pimloom compare` and `pimloom.compare` do: one workload on several systems, a table and a page."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.files import prepare_folder
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.outputs import check_outputs
from pimloom.progress import progress_bar
from pimloom.reports.terminal.comparison import show_comparison
from pimloom.serving import layers_of
from pimloom.systems.serving.comparing import Comparison, compare
from pimloom.systems.serving.stepping import Wanted


class Asked(NamedTuple):
    """Options of `pimloom compare`."""

    prompt: int
    generate: int
    batch: int
    chunk: int
    every: int
    tp: int
    layers: int | None


class Answer(NamedTuple):
    """The result, and what prints it for a person."""

    found: Comparison
    show: Callable[[], None]


def compare_command(
    systems: Sequence[str], model: str, asked: Asked, *, json: str | None, html: Path | None, quiet: bool
) -> Answer:
    """Compare as asked. Raises UserError."""
    check_outputs({"--json": json})
    if html is not None:
        _check_folder(html)
    if not systems:
        raise UserError("systems: expected names or paths, separated by commas, such as pim_gpt,npu_only")
    if twice := [name for name in systems if systems.count(name) > 1]:
        raise UserError(f"systems: {twice[0]} is named twice; name it once")
    llm = load_llm(model)
    layers = layers_of(llm, asked.layers)
    wanted = Wanted(
        batch=asked.batch,
        prompt=asked.prompt,
        generate=asked.generate,
        chunk=asked.chunk,
        every=asked.every,
        tp=asked.tp,
        layers=layers,
        fidelity="physical",
    )
    loads = [partial(load_system, name) for name in systems]
    with progress_bar(f"{llm.name} on {len(systems)} systems", quiet, _kernel(systems)) as progress:
        found, shown = compare(loads, llm, wanted, progress)
    check_outputs({"--json": json})  # once more: by now its inputs have been read
    page = None
    if html is not None:
        from pimloom.reports.compare.page import write_page

        page = write_page(html, found, shown)
    return Answer(found, partial(show_comparison, found, page))


def _check_folder(html: Path) -> None:
    """Make the page's folder before the work. Raises UserError if it cannot be made."""
    try:
        prepare_folder(html)
    except UserError as error:
        raise UserError(f"--html {html}: {str(error).replace('--out', '--html')}") from None


def _kernel(systems: Sequence[str]) -> object:
    """What must be compiled before an NPU runs for the first time; None without one."""
    if not any(load_system(name).kind == "npu_pim" for name in systems):
        return None
    from pimloom.cycle_sim.npu_pim.kernels.machine import run_all

    return run_all
