"""Every operator of every model has the kind by which drawings colour it."""

from pathlib import Path

import pytest

from pimloom.arch.llm import load_llm
from pimloom.systems.operator_kinds import KINDS, OTHER, operator_kind
from pimloom.systems.timeline_svg import COLOURS
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ops
from pimloom.workload.op import LINKS
from pimloom.workload.shard import Shard

MODELS = ("gpt2", "tests/models/mixtral-8x7b.json", "tests/models/deepseek-v3.json", "tests/models/gemma-2-9b.json")
OUTSIDE = {"embedding", "sampling"}


@pytest.mark.parametrize("model", [name for name in MODELS if name == "gpt2" or Path(name).exists()])
@pytest.mark.parametrize("tp", [1, 2])
def test_operators_have_the_kind_of_their_work(model: str, tp: int) -> None:
    for op in ops(load_llm(model), Batch.decode([8]), Shard(tp=tp)):
        kind = operator_kind(op.name)
        if op.kind in LINKS:
            wanted = "links"
        elif op.kind in OUTSIDE or op.name.startswith("lm_head"):
            wanted = "embedding and LM head"
        elif op.kind in ("score", "value", "softmax"):
            wanted = "attention"
        elif op.kind == "norm" or op.name.endswith("residual"):
            wanted = OTHER
        elif op.kind == "gemm":
            wanted = "QKV and projection" if op.name.startswith("self_attn") else "FFN"
        else:
            continue
        assert kind == wanted, op.name


def test_names_beyond_the_operators_of_a_model() -> None:
    assert operator_kind("self_attn.attention") == "attention"
    links = ("mlp.experts.dispatch", "mlp.experts.combine", "lm_head.all_gather", "mlp.all_reduce")
    assert {operator_kind(name) for name in links} == {"links"}
    assert set(COLOURS) == {*KINDS.values(), OTHER} and len(set(COLOURS.values())) == len(COLOURS)
