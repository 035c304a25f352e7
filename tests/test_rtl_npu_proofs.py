# amaranth: UnusedElaboratable=no
"""What is proved of the NPU's sequencer and pads, and what its vector unit makes of vectors."""

from collections.abc import Iterable

import numpy as np
import pytest

from pimloom.rtl.blocks import BLOCKS, LONGEST
from pimloom.rtl.flow.npu.vector import vector_scene
from pimloom.rtl.flow.prove import prove
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.formal.pads import PAD_PROPERTIES
from pimloom.rtl.formal.tiles import TILE_PROPERTIES
from pimloom.rtl.npu.vector import Op, VectorUnit
from tests.simulators import needs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "properties"),
    [("npu_tiles", TILE_PROPERTIES), ("npu_gemm", PAD_PROPERTIES), ("systolic", ("results_ws", "results_os"))],
)
def test_every_property_holds_is_seen_and_fails_for_its_twins(block: str, properties: Iterable[str]) -> None:
    found = {proof.property: proof for proof in prove(block, "gddr6_pim_gpt")}
    assert list(found) == list(properties)
    for name, proof in found.items():
        searched = name.startswith(("progress", "results"))  # over all jobs, or two tiles, from reset
        assert proof.result == ("not violated" if searched else "proved"), name
        assert proof.covered and proof.twin_failed and proof.timings == "any inputs", name


def test_vectors_of_every_operation_are_drawn_in_runs() -> None:
    scene = vector_scene(VectorUnit(LONGEST), None, np.random.default_rng(0), 3000)
    last, op = scene.given["in.i"][:, 1] & 1, scene.given["in.i"][:, 1] >> 1
    assert set(op.tolist()) == set(Op) and last.sum() > 20 and scene.operations == len(op) == 3000
    ends = np.flatnonzero(last)
    assert all((op[first + 1 : end + 1] == op[end]).all() for first, end in zip([-1, *ends], ends, strict=False))
    assert (op[ends[1:]] == op[ends[:-1]]).any() and (op[ends[1:]] != op[ends[:-1]]).any()
    assert len(scene.given["in.inverse_n"]) == (op[ends] == Op.NORM).sum()


@pytest.mark.slow
def test_the_vector_unit_is_its_functions_whatever_comes_after_what() -> None:
    (found,) = verify("npu_vector", "gddr6_pim_gpt", simulator=needs("icarus"), commands=2000, seed=5)
    assert (found.mismatches, found.first_mismatch, found.commands) == (0, None, 2000)


def test_blocks_of_the_npu_are_listed() -> None:
    assert {"systolic", "npu_tiles", "npu_gemm", "npu_vector"} <= BLOCKS.keys()
    arrays = [name for name, block in BLOCKS.items() if "dataflow" in block.sizes]
    assert arrays == ["systolic", "npu_tiles", "npu_gemm"]
