"""Speculation: what drafts gain on a processor, on an NPU beside PIM, and in banks."""

from collections.abc import Iterator
from math import fsum, prod
from random import Random
from typing import Any

from pimloom.arch.llm import load_llm
from pimloom.reports.serving.rows import Place, Row, row, step_s
from pimloom.reports.serving.sharing import online
from pimloom.systems.serving.transforms.written import DECAY, NODES, TOP1
from pimloom.workload.batch import Batch, Request
from pimloom.workload.decoding import chain, mirror, tree
from pimloom.workload.need import parameters

ALPHA, GAMMA, CONTEXT = 0.7, 4, 512  # [design] of the study
TARGETS = {  # target, draft, batches; NeuPIMs and its like by layers, whose steps are all alike
    "gpu_a100": (Place("gpu_a100", "gpt2-xl"), Place("gpu_a100", "gpt2"), (1, 8, 32, 128)),
    "npu_only": (Place("npu_only", "gpt3-xl", 2, False), Place("npu_only", "gpt3-small", 2, False), (8, 32)),
    "neupims": (Place("neupims", "gpt3-xl", 2, False), Place("neupims", "gpt3-small", 2, False), (8, 32)),
    "pim_gpt": (Place("pim_gpt", "gpt2-xl"), Place("pim_gpt", "gpt2"), (1,)),
    "cent": (Place("cent", "llama-2-7b"), Place("cent", "llama-2-7b"), (1, 8)),
}
LAYERS = {"gpt3-xl": 24, "gpt3-small": 12}  # of the whole models
VICUNA = Place("gpu_a100", "llama-2-7b")  # Vicuna-7B has its shape [recalled]


def chains() -> Iterator[Row]:
    """Rows of a check, and the gain with a draft on the same machine; CENT's draft takes no time."""
    reach = chain.reached([ALPHA] * GAMMA)
    outcomes = [[bool(i >> k & 1) for k in range(GAMMA)] for i in range(1 << GAMMA)]
    each = [(prod(ALPHA if ok else 1 - ALPHA for ok in one), (*one, False).index(False) + 1) for one in outcomes]
    off = abs(chain.tokens_per_step(reach) / fsum(chance * tokens for chance, tokens in each) - 1)
    yield row("Speculative decoding (base)", "tokens of a step: formula beside all outcomes", off, "0", "derived",
              digits=".1e", verdict="pass" if off < 1e-9 else "FAIL", tolerance="1e-9")  # fmt: skip
    for name, (target, draft, batches) in TARGETS.items():
        for batch in batches:
            one = step_s(target, Batch.decode([CONTEXT] * batch))
            check = step_s(target, Batch.verify([CONTEXT + GAMMA] * batch, GAMMA + 1)) / one
            small = 0.0 if name == "cent" else step_s(draft, Batch.decode([CONTEXT] * batch)) / one
            small *= LAYERS.get(draft.model, 1) / LAYERS.get(target.model, 1)
            said = f"{target}, batch {batch}"
            yield row("Speculative decoding (base)", f"time of {GAMMA + 1} rows that are checked", check, "no figure",
                      "derived", unit="steps", machine=said)  # fmt: skip
            free = "a draft that takes no time" if name == "cent" else f"{draft.model} drafts"
            yield row("Speculative decoding (base)", f"gain, gamma {GAMMA}, alpha {ALPHA}, {free}",
                      chain.speedup(reach, small, check), "no figure", "derived", unit="×", machine=said)  # fmt: skip


def medusa() -> Iterator[Row]:
    """A tree whose nodes all count as rows, and heads that read their weights."""
    q = tree.accuracies(TOP1, DECAY)
    nodes = tree.likeliest(q, NODES)
    tokens, rows = tree.tokens_per_step(nodes, q), len(nodes) + 1
    claim = "above 2.2; 2.3 to 3.6"
    yield row("Medusa", "tokens of a step, accuracies assumed", tokens, "no figure", "design")
    for batch in (1, 8, 32):
        check = Batch((Request("verify", rows, CONTEXT + rows, rows, pairs=tree.pairs(nodes)),) * batch)
        layers = step_s(VICUNA._replace(outside=False), Batch.decode([CONTEXT] * batch))
        head = step_s(VICUNA._replace(outside=True), Batch.decode([CONTEXT] * batch)) - layers
        heads = len(TOP1) * tree.head_weights(4096, 32000) / (4096 * 32000)
        base, step = layers + head, step_s(VICUNA._replace(outside=True), check) + heads * head
        yield row("Medusa", f"gain, {NODES} nodes", tokens * base / step, claim if batch == 1 else "no figure",
                  "paper", unit="×", machine=f"{VICUNA}, batch {batch}")  # fmt: skip
    cent = Place("cent", "llama-2-7b")
    longer = step_s(cent, Batch.verify([CONTEXT + rows], rows)) / step_s(cent, Batch.decode([CONTEXT]))
    yield row("Medusa", f"gain, {NODES} nodes, heads free", tokens / longer, "no figure", "derived", unit="×",
              machine=f"{cent}, batch 1")  # fmt: skip


def prism() -> Iterator[Row]:
    """Each place has a set of weights of its own, of the size of one draft: time of one set, memory of all."""
    alphas, target, draft = (0.9, 0.85, 0.8, 0.75), VICUNA.model, "gpt2-medium"  # [design] neither is published
    gamma, said = len(alphas), ":".join(map(str, alphas))
    asked: dict[str, Any] = {"arrivals": "closed:1", "lengths": f"{CONTEXT}:128", "requests": 4, "model": target}
    plain, drafted = (
        online(**asked, speculate=how) for how in (None, f"prism, draft={draft}, gamma={gamma}, alpha={said}")
    )
    assert plain.time_per_output_token_s is not None and drafted.time_per_output_token_s is not None
    yield row("PRISM", f"gain of decode, {gamma} sets of {draft}'s size, right with {said}",
              plain.time_per_output_token_s.mean / drafted.time_per_output_token_s.mean, "above 2.6", "paper", unit="×",
              machine=f"{VICUNA}, served one by one")  # fmt: skip
    cent, reach = Place("cent", target), chain.reached(alphas)
    check = Batch.verify([CONTEXT + gamma], gamma + 1)
    longer = step_s(cent, check) / step_s(cent, Batch.decode([CONTEXT]))
    yield row("PRISM", "the same, drafts that take no time", chain.speedup(reach, 0.0, longer), "no figure", "derived",
              unit="×", machine=f"{cent}, batch 1")  # fmt: skip
    sets = gamma * parameters(load_llm(draft)) / parameters(load_llm(target))
    yield row("PRISM", f"memory of the {gamma} sets", sets, "no figure", "derived", unit="of the target")


def mirrored() -> Iterator[Row]:
    """The draft on a machine of its own, which may be PIM."""
    random, worst = Random(1), 0.0
    for _ in range(200):
        times = mirror.Times(*(random.random() for _ in range(5)))
        hits = [random.random() < 0.6 for _ in range(50)]
        formula = len(hits) * mirror.step_time(times, sum(hits) / len(hits))
        worst = max(worst, abs(mirror.simulated(times, hits) / formula - 1))
    yield row("Mirror-SD", "formula beside events, largest difference", worst, "0", "derived", digits=".1e",
              verdict="pass" if worst < 1e-9 else "FAIL", tolerance="1e-9")  # fmt: skip
    target, kappa, rho, half = Place("gpu_a100", "llama-2-13b"), 4, 0.8, 0.5  # [design]
    reach = chain.reached([0.8] * GAMMA)
    one = step_s(target, Batch.decode([CONTEXT]))
    check = step_s(target, Batch.verify([CONTEXT + GAMMA], GAMMA + 1))
    for name in ("gpu_a100", "pim_gpt"):
        draft = Place(name, "gpt2-xl")
        rollout = GAMMA * step_s(draft, Batch.decode([CONTEXT]))
        alike = name == "gpu_a100"  # takes all candidates at once, PIM-GPT one after the other
        many = GAMMA * step_s(draft, Batch.decode([CONTEXT] * kappa)) if alike else kappa * rollout
        times = mirror.Times(half * check, (1 - half) * check, many, rollout)
        gain = chain.tokens_per_step(reach) * one / mirror.step_time(times, rho)
        yield row("Mirror-SD", f"gain, {kappa} candidates, rho {rho}, alpha 0.8, drafts on {name}", gain,
                  "2.8 to 5.8", "paper", unit="×", machine=str(target))  # fmt: skip
