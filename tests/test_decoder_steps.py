"""What a decoder makes once for all tokens depends on none; what does is as large as the token's own operators say."""

from collections import Counter
from pathlib import Path

import pytest

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.program import AsicStep, PimStep
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.arch.units import ceil_div
from pimloom.mappers.decode import Decoder
from pimloom.mappers.geometry import geometry
from pimloom.mappers.plan import Plan
from pimloom.workload.batch import Batch
from pimloom.workload.derive import layer_ops
from pimloom.workload.op import Op

PART = load_part("gddr6_pim_gpt").value
TABLE, GEO = compile_table(PART), geometry(PART, 8)
GROWING = ("cache_write", "score", "softmax", "value")
FILES = (  # one of each kind of layer: parallel, soft-capped, sinks, windows, experts, norms of Q and K
    "falcon-7b", "falcon-40b", "gemma-2-9b", "gemma-3-1b", "gpt-oss-20b", "gpt2", "llama-3.2-1b",
    "mistral-7b-v0.1", "mixtral-8x7b", "olmo2-7b", "opt-6.7b", "phi-3-mini", "pythia-6.9b", "qwen3-30b-a3b",
    "stablelm-2-1_6b",
)  # fmt: skip
MODELS = {name: load_llm(Path(__file__).parent / f"models/{name}.json") for name in FILES}


def tokens(llm: LlmSpec) -> list[int]:
    """Around a full row, a full buffer and a full window."""
    edges = [1, 2, 16, 128, 257, 1000, *([llm.sliding_window] if llm.sliding_window else [])]
    return sorted({max(t + more, 1) for t in edges for more in (-1, 0, 1)})


def decoder_of(llm: LlmSpec) -> Decoder:
    return Decoder(Plan(llm, GEO, max(tokens(llm))), TABLE)


def softened(op: Op) -> bool:
    return op.function == "softcap"


@pytest.mark.parametrize("name", MODELS)
def test_other_operators_are_those_of_the_first_token(name: str) -> None:
    llm = MODELS[name]
    for layer in set(Plan(llm, GEO, 1).kinds.values()):
        first = layer_ops(llm, Batch.decode([1]), layer=layer)
        for t in tokens(llm):
            mine = layer_ops(llm, Batch.decode([t]), layer=layer)
            assert len(mine) == len(first)
            for op, once in zip(mine, first, strict=True):
                assert op == once if not softened(op) and op.kind not in GROWING else op.name == once.name


@pytest.mark.parametrize("name", MODELS)
def test_attention_sees_what_its_operators_say(name: str) -> None:
    llm = MODELS[name]
    decoder = decoder_of(llm)
    for layer in set(decoder.plan.kinds.values()):
        for t in tokens(llm):
            ops = {op.kind: op for op in layer_ops(llm, Batch.decode([t]), layer=layer) if op.kind in GROWING}
            steps = {step.name: step for step in decoder.timed_steps(t, layer)}
            softmax, score, value = steps["softmax"], steps["score"], steps["p V"]
            assert isinstance(softmax, AsicStep) and isinstance(score, PimStep) and isinstance(value, PimStep)
            of = ops["softmax"]
            assert softmax.elements == of.heads * (of.attended + of.biased)
            assert score.received_values == ops["score"].heads * ops["score"].attended
            assert value.sent_values == ops["value"].heads * ops["value"].attended
            assert score.key == ("score", ceil_div(ops["score"].attended, GEO.all_banks))
            if caps := [op for op in layer_ops(llm, Batch.decode([t]), layer=layer) if softened(op)]:
                assert steps["softcap of scores"] == AsicStep(
                    "softcap of scores", "softcap", caps[0].rows * caps[0].n_out
                )


@pytest.mark.parametrize("name", MODELS)
def test_the_baseline_reads_what_the_operators_read(name: str) -> None:
    llm = MODELS[name]
    decoder = decoder_of(llm)
    for layer in set(decoder.plan.kinds.values()):
        for t in tokens(llm):
            read = Counter[str]()
            for op in layer_ops(llm, Batch.decode([t]), layer=layer):
                read["weights"] += op.n_in * op.n_out * op.matrices if op.kind == "gemm" else 0
                read["cache"] += op.moved.cache_read
            assert decoder.moved_by_baseline(t, layer) == read.total()
