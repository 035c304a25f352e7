"""Utilisation of an NPU counts the work that is done: of experts those that get rows."""

import numpy as np
import pytest
from msgspec.structs import replace

from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import load_system
from pimloom.systems.devices.npu_pim.parallel import serve_on_devices
from pimloom.systems.devices.npu_pim.usage import usage

EXPERTS = LlmSpec(
    name="experts", model_type="opt", num_hidden_layers=3, hidden_size=256, num_attention_heads=4,
    num_key_value_heads=2, head_dim=64, intermediate_size=384, vocab_size=1000, max_position_embeddings=4096,
    activation="relu", gated_ffn=True, norm="layernorm", attention_bias=False, ffn_bias=False, num_experts=8,
    num_experts_per_tok=2, sliding_window=None, tie_word_embeddings=False, parallel_attention=False,
)  # fmt: skip
TOKENS = np.array([100, 30])
WIDE = 128 * 128 * 8  # multiply-accumulates of all arrays in a cycle


def served(name, llm, **settings):
    system = load_system(name, settings)
    return serve_on_devices(system, llm, TOKENS, None, tp=1, pp=1, layers=3, fidelity="physical"), system


@pytest.mark.parametrize(("name", "attention"), [("npu_pim", 0), ("npu_only", 2 * 130 * 4 * 64)])
def test_two_tokens_use_four_of_eight_experts(name, attention):
    """Two rows through Q, K, V, output and router, four rows of an expert each with three matrices; without PIM the
    arrays attend, too."""
    found, system = served(name, EXPERTS)
    rows = 2 * (256 * (4 + 2 + 2 + 4) * 64 + 256 * 8) + 4 * 3 * 256 * 384
    told = usage(found, system)
    assert told is not None
    assert told.arrays == pytest.approx(3 * (rows + attention) / (WIDE * found.iteration_cyc))
    assert 0 < told.gemm < 1 and (told.comp > 0) == (name == "npu_pim")


def test_unlike_layers_run_as_often_as_there_are_of_them():
    """Times of operators, with layers told apart by a window that never fills, and with equal ones."""
    wide = replace(EXPERTS, sliding_window=4000, full_attention_layers=(1,))
    one, other = (usage(*served("npu_pim", llm)) for llm in (EXPERTS, wide))
    assert one == pytest.approx(other)


def test_nothing_is_known_of_what_takes_no_energy():
    found, system = served("npu_pim", EXPERTS, **{"energy.pj_per_mac": "0"})
    assert usage(found, system) is None
