"""`pimloom fabric mfu`: how much of the GPUs' peak a training step uses, by fabric and scale."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pimloom.answer import Answer
from pimloom.arch.error import UserError
from pimloom.commands.fabric.options import Arch, Csv
from pimloom.commands.output import Json, Quiet, answer
from pimloom.systems.fabric.asked import domains_asked, read_counts

if TYPE_CHECKING:
    from pimloom.systems.fabric.mfu import Search

CHUNKS = 8  # v at most, where interleaved schedules are asked for without a number


class Schedules(StrEnum):
    """Those of `pimloom.arch.training`."""

    ONE = "1f1b"
    LOOP = "interleaved"
    IDEAL = "interleaved-ideal"


class Network(StrEnum):
    """What carries an all-to-all."""

    DCN = "dcn"
    HBD = "hbd"


def mfu(
    model: Annotated[str, typer.Option(help="Model name, a Hugging Face config.json, or its folder.")],
    gpus: Annotated[str, typer.Option(metavar="N,N", help="GPUs of the cluster, a,b,c.")] = "1024,8192,131072",
    arch: Arch = "infinitehbd-k2,dgx8",
    gpu: Annotated[str, typer.Option(metavar="NAME", help="GPU and recipe: a name in arch/gpus, or a YAML.")] = "h100",
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=10**7, help="Sequences of a step.")] = 2048,
    micro_batch: Annotated[str, typer.Option(metavar="N,N", help="Sequences of a micro-batch; the best counts.")] = "1",
    tp: Annotated[str, typer.Option(metavar="N,N", help="TP that is tried, within the domain.")] = "8,16,32,64",
    schedule: Annotated[
        Schedules, typer.Option(help="Pipeline schedule; interleaved-ideal is a formula that none can meet if m < PP.")
    ] = Schedules.ONE,
    interleave: Annotated[
        int | None, typer.Option(metavar="V", min=1, max=64, help="Most chunks of a stage; 8 if interleaved.")
    ] = None,
    all_to_all: Annotated[Network, typer.Option(help="Network that carries a MoE's all-to-alls.")] = Network.DCN,
    hbd_gb_s: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]X", help="Other GB/s of a GPU each way; without NAME, of all but dgx8."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another value of the GPU or the recipe (repeatable)."),
    ] = None,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Show how the ratio hangs on bandwidth, batch and schedule.")
    ] = False,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw MFU against scale as FILE.svg.")] = None,
    json: Json = None,
    csv: Csv = None,
    quiet: Quiet = False,
) -> Answer:
    """MFU of the best TP × PP × DP × EP that fits, for each number of GPUs and fabric, and its ratio to DGX."""
    from pimloom.arch.llm import load_llm
    from pimloom.arch.training import load_training
    from pimloom.commands.fabric.writing import check_files, write_figure, write_rows
    from pimloom.reports.fabric.mfu_figure import mfu_figure
    from pimloom.reports.terminal.fabric.mfu import show_mfu, show_sensitivity
    from pimloom.systems.fabric.mfu import Search
    from pimloom.systems.fabric.mfu_values import mfu_values
    from pimloom.systems.settings import parse_settings

    check_files(json, csv, figure)
    if (llm := load_llm(model)).quantization is not None:
        raise UserError(f"{llm.name}: quantised weights are not trained; set quantization_config to null")
    search = Search(
        llm,
        load_training(gpu, parse_settings(settings or (), such_as="gpu.dcn_gb_s=100")).value,
        batch,
        schedule.value,
        _chunks(schedule, interleave),
        tuple(read_counts(tp, "--tp")),
        tuple(read_counts(micro_batch, "--micro-batch")),
        all_to_all.value,
    )
    counts = read_counts(gpus, "--gpus")
    if sensitivity and figure:
        raise UserError("--figure: draws MFU against scale; leave out --sensitivity, or --figure")
    value = mfu_values(search, gpu, domains_asked(arch, hbd_gb_s or ()), counts, sensitivity)
    write_rows(csv, value["rows"])
    if figure is not None:
        write_figure(figure, mfu_figure(value["rows"]))
    show = show_sensitivity if sensitivity else show_mfu
    told = answer(Answer(value, lambda: show(value), value["rows"]), json, quiet)
    if not quiet:
        _say_notes(search)
    return told


def _say_notes(search: "Search") -> None:
    """What of the model's file has no effect, and where training takes more tokens than it has positions for."""
    seen, trained = search.model.max_position_embeddings, search.training.recipe.sequence_tokens
    more = [f"{search.model.name} has positions for {seen} tokens; {trained} are used"] if trained > seen else []
    for said in (*search.model.notes, *more):
        print(f"pimloom: note: {said}", file=sys.stderr)


def _chunks(schedule: Schedules, interleave: int | None) -> int:
    if schedule is Schedules.ONE:
        if interleave not in (None, 1):
            raise UserError(f"--interleave {interleave}: 1f1b has 1 chunk; with --schedule interleaved it has more")
        return 1
    return interleave or CHUNKS
