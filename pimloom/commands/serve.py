"""The `pimloom serve` command: its options, and what it and its function do."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pimloom.arch.error import UserError
from pimloom.commands import run_options
from pimloom.commands.completing import names
from pimloom.commands.counts import count
from pimloom.commands.output import Json, Quiet, output

if TYPE_CHECKING:
    from pimloom.systems.asked import Work
    from pimloom.systems.serving.options.wanted import Wanted
    from pimloom.systems.serving.results.goodput import Goodput
    from pimloom.systems.serving.results.outcome import Online

BEYOND = 3  # exit code: errors of prices may exceed their limit

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

EXAMPLE = (
    "Example:  pimloom serve gpu_a100 --model llama-3-8b --arrivals poisson:4/s --requests 500 --slo ttft=1s,tpot=50ms"
)
Systems = Annotated[
    str,
    typer.Argument(
        help="System name or path to a system YAML; or pools of them, prefill=NAME*N:ppN,decode=NAME*N, and --link.",
        autocompletion=names("systems"),
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Requests: CSV of Azure, BurstGPT, Splitwise or timestamp,prompt_tokens,output_tokens; JSON lines of "
        "Mooncake, LLMServingSim or APEX; ShareGPT JSON; plain, .gz or .zst.",
    ),
]
Arrivals = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Draw arrivals: poisson:RATE/s, gamma:RATE/s,cv=X, uniform:RATE/s, burst (all at 0), closed:CLIENTS.",
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Lengths without a trace: sharegpt, alpaca or PROMPT:OUTPUT; else sharegpt."),
]
Requests = Annotated[
    int | None, typer.Option(metavar="N", parser=count, help="How many are drawn; of a trace the first N.")
]
Named = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="vllm-v1, vllm-v0, sarathi, orca, lightllm, faster-transformer, static, vidur-vllm or vidur-sarathi; of "
        "pools vllm-v1, distserve or splitwise; of one machine in shares semi-pd.",
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N", parser=count, help="Most tokens of an iteration; else 2048 (sarathi 512), or the model's "
        "positions where prompts are not cut in chunks.",
    ),
]  # fmt: skip
Batch = Annotated[int | None, typer.Option(metavar="N", parser=count, help="Most requests that run at once; else 256.")]
BlockSize = Annotated[int, typer.Option(metavar="N", parser=count, help="Tokens of a block of KV cache.")]
BlocksThere = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="Blocks of KV cache; else as many as fit beside the weights."),
]
PrefixCache = Annotated[
    bool | None,
    typer.Option(
        "--prefix-cache/--no-prefix-cache",
        help="Of vllm-v1: share blocks of equal beginnings; else where the trace says what is equal.",
    ),
]
LongPrompt = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="Of vllm-v1: most tokens of one request in an iteration."),
]
Chunked = Annotated[bool, typer.Option("--chunked", help="Of vllm-v0: cut prompts in chunks.")]
Swap = Annotated[
    int | None,
    typer.Option(
        metavar="N", parser=count, help="Of vllm-v0: who has to yield moves its cache to N blocks of the host; else it "
        "is computed once more.",
    ),
]  # fmt: skip
Cut = Annotated[bool, typer.Option("--cut", help="Cut prompts of requests that are longer than the model.")]
Replicas = Annotated[int, typer.Option(metavar="N", parser=count, help="Copies of the model, behind a router.")]
Router = Annotated[str, typer.Option(metavar="NAME", help="round-robin or least-waiting.")]
LinkOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPEED", help="Link between pools: nvlink3, 400Gb/s, or with latency and energy 400Gb/s,600ns,5pJ/bit."
    ),
]
Tp = Annotated[int, typer.Option(metavar="N", parser=count, help="Devices that share each layer.")]
Pp = Annotated[int, typer.Option(metavar="P", parser=count, help="Pipeline stages, which share the layers.")]
Layers = Annotated[
    int | None, typer.Option(metavar="N", parser=count, help="Layers that are simulated; else all of the model.")
]
LmHead = Annotated[
    bool | None,
    typer.Option(
        run_options.LM_HEAD, help="With embedding, LM head and sampling, or without; else with, where the system can."
    ),
]
Slo = Annotated[
    str | None,
    typer.Option(metavar="LIMITS", help="ttft=1s,tpot=50ms,latency=10s: tell the share of requests that hold them."),
]
GoodputOption = Annotated[
    bool, typer.Option("--goodput", help="Find the highest rate at which the share of requests holds --slo.")
]
Rate = Annotated[
    str | None, typer.Option(metavar="LOW:HIGH", help="Between which rates [1/s] --goodput looks; times are stretched.")
]
Share = Annotated[float, typer.Option(metavar="X", help="Share of requests that must hold --slo for --goodput.")]
Price = Annotated[
    str | None,
    typer.Option(
        metavar="USD",
        help="Price of a device for an hour: 1.29, of pools, or target and drafts, 1.29:2.69; tell "
        "output tokens for a dollar.",
    ),
]
Speculate = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Check drafts: draft=MODEL,gamma=4,alpha=0.7 (alpha=0.8:0.6 by place, spread, on=SYSTEM, streams), "
        "medusa, prism,draft=..., or mirror,draft=...,on=SYSTEM,exit=LAYER,rho=0.8.",
    ),
]
Branches = Annotated[
    str | None,
    typer.Option(
        metavar="HOW", help="Go on in N branches behind each prompt: 8, or 8,stop=4,spread=0.5 until 4 have ended."
    ),
]
ModeOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How branches go on: multiverse, hogwild, threadweaver, parathinker, parscale, ets or sart; else each to "
        "its end.",
    ),
]
SharedKv = Annotated[
    bool, typer.Option("--shared-kv", help="Branches read their prompt's keys and values once; else each has a copy.")
]
Weights = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="Of the layers' matrices: int4 (scales of 128), int4:64, int8.")
]
Density = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE", help="Part of attention that is computed: 0.19,selection=0.11 of prompts, phase=all."
    ),
]
Timeline = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a Perfetto timeline of all iterations and requests.")
]
Html = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write a page of it all, index.html, and results.json into a folder.")
]
ExactOption = Annotated[
    bool, typer.Option("--exact", help="Simulate every different iteration; else most prices are interpolated.")
]
SampleSize = Annotated[
    int,
    typer.Option(
        metavar="N",
        parser=count,
        help="Simulated iterations of each kind of phase, to measure errors of interpolated prices; more if "
        "they exceed --price-error.",
    ),
]
PriceError = Annotated[
    float,
    typer.Option(metavar="X", help="Largest error of interpolated prices, as a share; exit code 3 beyond it."),
]


@app.command(epilog=EXAMPLE)
def serve(
    system: Systems,
    model: run_options.Model,
    trace: Trace = None,
    arrivals: Arrivals = None,
    lengths: Lengths = None,
    requests: Requests = None,
    scheduler: Named = "vllm-v1",
    batch_tokens: BatchTokens = None,
    batch: Batch = None,
    block_size: BlockSize = 16,
    blocks: BlocksThere = None,
    prefix_cache: PrefixCache = None,
    long_prompt: LongPrompt = None,
    kv_manager: run_options.CacheManager = "by-layer",
    num_preallocate_tokens: run_options.Preallocate = None,
    scheduler_reserve_full_isl: run_options.ReserveFull = False,
    chunked: Chunked = False,
    swap: Swap = None,
    policy: run_options.Placement = None,
    cut: Cut = False,
    replicas: Replicas = 1,
    router: Router = "round-robin",
    link: LinkOption = None,
    transfer: run_options.Transfer = None,
    mixed: run_options.MixedPool = False,
    shares: run_options.Shares = None,
    overlap: run_options.Overlap = None,
    finetune: run_options.FineTune = None,
    tp: Tp = 1,
    pp: Pp = 1,
    layers: Layers = None,
    lm_head: LmHead = None,
    slo: Slo = None,
    goodput: GoodputOption = False,
    rate: Rate = None,
    share: Share = 0.9,
    price: Price = None,
    speculate: Speculate = None,
    branches: Branches = None,
    mode: ModeOption = None,
    shared_kv: SharedKv = False,
    weights: Weights = None,
    density: Density = None,
    exact: ExactOption = False,
    sample: SampleSize = 5,
    price_error: PriceError = 0.02,
    settings: run_options.PoolSettings = None,
    json: Json = None,
    timeline: Timeline = None,
    html: Html = None,
    seed: run_options.Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Serve requests as they arrive, under the rules of a serving program's scheduler, on any system: latencies,
    throughput, energy."""
    asked = locals()
    from pimloom.reports.terminal.online import show_served
    from pimloom.systems.serving.options.wanted import Wanted

    found = run_serve(Wanted(**asked))
    output(found, json, None if quiet else lambda: show_served(found))
    if found.pricing is not None and found.pricing.holds is False:
        beyond = f"errors of prices may exceed --price-error {price_error:g}"
        print(f"pimloom: {beyond}; all outputs are written", file=sys.stderr)
        raise typer.Exit(BEYOND)


def run_serve(wanted: "Wanted") -> "Online | Goodput":
    """Serve; outputs are checked first. Raises UserError."""

    from pimloom.commands.outputs import check_outputs
    from pimloom.commands.progress import progress_bar
    from pimloom.commands.running import PAGE_FILES, check_folder
    from pimloom.commands.working import worked
    from pimloom.systems.serving.online.asked import online_work

    named = {"--trace": wanted.trace, "the system": wanted.system, "--model": wanted.model}
    read = {what: file for what, file in named.items() if file is not None and Path(file).is_file()}
    for option, name in (("--timeline", wanted.timeline), ("--html", wanted.html)):
        if name is not None and wanted.goodput:
            raise UserError(f"{option} {name}: draws one run, and --goodput makes many; leave one of the two out")
    written = {"--json": wanted.json, "--timeline": wanted.timeline}

    def prepare() -> "Work[Online | Goodput]":
        if wanted.html is not None:
            check_folder(wanted.html)
        if wanted.trace is None:
            work = online_work(wanted)
        else:
            with progress_bar(f"reading {wanted.trace.name}", wanted.quiet) as reading:
                work = online_work(wanted, reading=reading)
        if wanted.html is not None:
            for name in PAGE_FILES[:2]:
                check_outputs(written | {"--html": wanted.html / name}, read)
        return work

    found = worked(prepare, written, wanted.quiet, read)
    if wanted.timeline is not None or wanted.html is not None:
        _draw(wanted, found)
    return found


def _draw(wanted: "Wanted", found: "Online | Goodput") -> None:
    """The timeline and the page."""
    from pimloom.arch.files import write_atomic
    from pimloom.reports.served.page import write_page
    from pimloom.reports.serving_timeline import timeline
    from pimloom.systems.serving.results.goodput import Goodput

    assert not isinstance(found, Goodput)
    if wanted.timeline is not None:
        write_atomic(wanted.timeline, timeline(found))
    if wanted.html is not None:
        write_page(wanted.html, found)
