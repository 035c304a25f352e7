"""Options of `pimloom run`: of all systems, then those of systems that serve batches."""

from pathlib import Path
from typing import Annotated

import typer

from pimloom.commands.completing import names
from pimloom.commands.counts import count, seed
from pimloom.systems.asked import COMPARED, GENERATED

EXAMPLES = """Examples:

\b
  pimloom run pim_gpt --model gpt2-xl --set npu.clock_mhz=500 --json -
  pimloom run neupims --model gpt3-7b --tp 4 --requests sharegpt --batch 256
  pimloom run npu_only --model llama-3-8b --tp 4 --prompt 2048 --generate 64 --batch 8 --every 8
  pimloom run npu_pim --model gpt3-7b --requests batch.csv --fidelity released
  pimloom run gpu_a100 --model gpt3-7b --requests trace.csv --batch 64
  pimloom run cent --model llama-2-7b --devices 8 --pp 32 --context 4096
"""

Systems = Annotated[
    str,
    typer.Argument(help="System name (see `pimloom list`) or path to a system YAML.", autocompletion=names("systems")),
]
Model = Annotated[
    str,
    typer.Option(help="Model name, a Hugging Face config.json, or its folder.", autocompletion=names("models")),
]
Generate = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=count,
        help=f"Tokens to generate, of each request; else {GENERATED} (attacc 128, cent 3584).",
    ),
]
Prompt = Annotated[
    int | None,
    typer.Option(
        metavar="P",
        parser=count,
        help="Tokens of a prompt, whose end is the first of those: on PIM-GPT one by one, else at once.",
    ),
]
Chunk = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=count,
        help="Most tokens of prompts in one iteration of a batch; else 2048. With --requests: "
        "compute their prompts beside decode, at most so many tokens in an iteration; else they are taken as there.",
    ),
]
Pieces = Annotated[
    int,
    typer.Option(metavar="N", parser=count, help="Most tokens of prompts in one iteration of a batch."),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a value; may be repeated.")
]
PoolSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value, of all pools; of one pool prefill:KEY=VALUE or decode:KEY=VALUE. May be repeated.",
    ),
]
SystemSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SYSTEM:KEY=VALUE", help="Override a value of a system; may be repeated."),
]
Prices = Annotated[
    str | None,
    typer.Option(metavar="USD[:USD...]", help="Price of a device [$/h]: one for all systems, or each in their order."),
]
Timeline = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a Perfetto timeline of a window of the run.")
]
Window = Annotated[str | None, typer.Option(metavar="FROM:TO", help="Window of the timeline [µs]; else 0:20.")]
LM_HEAD = "--lm-head/--no-lm-head"
LmHead = Annotated[
    bool | None,
    typer.Option(
        LM_HEAD,
        help="Include embedding, LM head and sampling, or leave them out. Default: left out on every system (PIM-GPT: "
        "workload.lm_head of its file).",
    ),
]
Tokens = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help=f"Tokens to generate, of each request; else {COMPARED}."),
]
Equal = Annotated[int, typer.Option(metavar="N", parser=count, help="Equal requests at once.")]
Devices = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="Devices that share each layer; else as each system has it."),
]
Ends = Annotated[
    bool,
    typer.Option(
        LM_HEAD,
        help="With embedding, LM head and sampling on all systems, or on none.",
    ),
]
Check = Annotated[bool, typer.Option("--check", help="Run the legality monitor on every command trace.")]
Seed = Annotated[
    int, typer.Option(metavar="N", parser=seed, help="Seed of the requests of a data set; recorded in the result.")
]

Requests = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Batch of a system that serves many: sharegpt, alpaca, CSV with seq_len[,ch_idx] or "
        "timestamp,prompt_tokens,output_tokens, ShareGPT JSON.",
    ),
]
Tp = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="Devices that share each layer of a batch; else 1."),
]
Pp = Annotated[
    int | None,
    typer.Option(metavar="P", parser=count, help="Pipeline stages, which share the layers; else 1, on cent as many."),
]
CxlDevices = Annotated[
    int | None, typer.Option(metavar="N", parser=count, help="CXL devices, on cent; else as its file has it.")
]
Context = Annotated[
    int | None, typer.Option(metavar="N", parser=count, help="Tokens of prompt and answer, on cent; else 4096.")
]
Layers = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="Layers of an iteration of a batch; else all of the model."),
]
Fidelity = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="physical, or released: with the faults of the system's own simulator."),
]
Batch = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=count,
        help="Requests of such a prompt, those of a data set at once, or at most of a trace.",
    ),
]
Iterations = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="Decode iterations of a batch; else 1."),
]
Every = Annotated[
    int | None,
    typer.Option(
        metavar="K", parser=count, help="Simulate one in K iterations, interpolate the others; else 1 (cent 128)."
    ),
]
Policy = Annotated[
    str | None, typer.Option(metavar="NAME", help="Channels of a batch: min-load or round-robin; else min-load.")
]

Placement = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Of PIM: each request's KV cache lies in one channel, by min-load or round-robin, and has "
        "the room there; else anywhere.",
    ),
]  # fmt: skip

# Of `pimloom serve`: vLLM's versions, pools, shares, operators that overlap, work beside requests.
CacheManager = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="KV cache of models in which some layers have a window: by-layer (blocks for each layer), "
        "hybrid (vLLM's groups of layers) or uniform (earlier vLLM: all layers keep all tokens).",
    ),
]  # fmt: skip
Preallocate = Annotated[
    int | None,
    typer.Option(
        metavar="N", parser=count, help="Of vllm-v1: tokens whose blocks are taken before they are needed; 64, as in "
        "vLLM 0.8.5. Later versions have none: 0.",
    ),
]  # fmt: skip
ReserveFull = Annotated[
    bool,
    typer.Option(
        "--scheduler-reserve-full-isl",
        help="Of vllm-v1: a request comes in where blocks for all of it are free, not just for its next chunk; so does "
        "vLLM 0.19.",
    ),
]
Transfer = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN", help="Of pools: caches leave `after` their prompt, or its `layers` one by one; else after."
    ),
]
MixedPool = Annotated[
    bool,
    typer.Option("--mixed", help="Of splitwise: machines of a pool without room leave work to those of the other."),
]
Shares = Annotated[
    str | None,
    typer.Option(
        metavar="SHARES", help="Of semi-pd: parts of a machine for prompts and decode [%], prefill=50,decode=50; with "
        "window=50 (iterations) they follow --slo, by step=5, at most max=4 of them, percentile=90.",
    ),
]  # fmt: skip
Overlap = Annotated[
    str | None,
    typer.Option(
        metavar="HOW", help="Operators overlap: nanoflow (parts=2), tokenweave (units=132,collective=8), or serial, "
        "with --link between --tp rooflines; sub-batches (parts=2) of an NPU beside PIM.",
    ),
]  # fmt: skip
FineTune = Annotated[
    str | None,
    typer.Option(
        metavar="HOW", help="Fill iterations up to the time per output token of --slo with fine-tuning: sequence=1024 "
        "tokens, at most one pass of one sequence in each, rank=16 of adapters.",
    ),
]  # fmt: skip
