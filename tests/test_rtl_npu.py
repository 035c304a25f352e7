# amaranth: UnusedElaboratable=no
"""Systolic arrays in gates: what leaves, and when, against arrays that move operands and against ordered sums."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pimloom.rtl.flow.npu.edges import Edges, edges
from pimloom.rtl.flow.npu.gemm import Job, draw_jobs, product, tiles
from pimloom.rtl.flow.npu.systolic import Left, mismatches, model_cyc, run_array
from pimloom.rtl.flow.scenes.values import BF16
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.npu import element
from pimloom.rtl.npu.element import OutputElement, WeightElement
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.systolic import Systolic
from pimloom.rtl.verilog import to_verilog
from tests import naive_systolic
from tests.command import call
from tests.simulators import needs
from tests.slow import slow


def integers(shape: ArrayShape, seed: int, n: int) -> list[Job]:
    """Jobs whose every sum is exact."""
    rng, found = np.random.default_rng(seed), []
    for i in range(n):
        m, k, columns = rng.integers(1, 2 * max(shape[:2]) + 2, 3).tolist()
        a, b = rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, columns))
        found.append(Job(a.astype(BF16), b.astype(BF16), bool(i % 2)))
    return found


def moved(shape: ArrayShape, job: Job) -> list[tuple[int, int, float]]:
    """Clock, column and value of what leaves an array that really moves its operands; it raises Hazard."""
    kind = naive_systolic.WeightStationary if shape.dataflow == "ws" else naive_systolic.OutputStationary
    a, b = job.a.astype(int), job.b.astype(int)
    array = kind(a, b, shape.rows, shape.columns, [tile.start for tile in tiles(shape, job)])
    found, clock = [], 0
    while array.busy():
        found += [(clock, column, value) for column, (_, value) in array.tick(clock).items()]
        clock += 1
    return sorted(found)


@pytest.mark.parametrize(
    "shape", [ArrayShape(4, 4, "ws"), ArrayShape(3, 2, "ws"), ArrayShape(4, 4, "os"), ArrayShape(2, 5, "os")], ids=str
)
def test_what_is_expected_is_what_an_array_does_that_moves_its_operands(shape: ArrayShape) -> None:
    for job in integers(shape, 5, 24):
        given, at = edges(shape, [job]), np.argwhere
        told = [(c, j, float(given.x[c, j].view(np.float32))) for c, j in at(given.valid).tolist()]
        assert told == moved(shape, job)
        assert given.ends == [model_cyc(shape, job)]


def gates(shape: ArrayShape, jobs: list[Job]) -> tuple[Edges, Left]:
    given = edges(shape, jobs)
    return given, run_array(shape, given, needs("icarus"))


def products(shape: ArrayShape, jobs: list[Job], given: Edges, left: Left) -> list[np.ndarray]:
    """What an accumulator outside makes of the values that left, in the order in which they did."""
    found = []
    for number, job in enumerate(jobs):
        total: dict[tuple[int, int], np.float32] = {}
        seen = np.zeros((len(tiles(shape, job)), shape.columns), int)
        cut, now = tiles(shape, job), np.zeros(shape.columns, int)
        for clock, j in np.argwhere(left.valid & (given.origin == number)).tolist():
            each = len(job.a) if shape.dataflow == "ws" else cut[now[j]].rows
            while seen[now[j], j] == each:
                now[j] += 1
                each = len(job.a) if shape.dataflow == "ws" else cut[now[j]].rows
            tile, nth = cut[now[j]], int(seen[now[j], j])
            row = nth if shape.dataflow == "ws" else tile.row + tile.rows - 1 - nth
            value, at = left.x[clock, j].view(np.float32), (row, tile.column + j)
            total[at] = value if at not in total else np.float32(total[at] + value)
            seen[now[j], j] += 1
        m, _, n = job.size
        found.append(np.array([[total[i, j] for j in range(n)] for i in range(m)], np.float32))
    return found


def in_order(shape: ArrayShape, job: Job) -> np.ndarray:
    """Sums of normal numbers by numpy alone: +0 and the products of a tile, from the left; tiles (ws) likewise."""
    a, b = job.a.astype(np.float32), job.b.astype(np.float32)
    step = shape.rows if shape.dataflow == "ws" else a.shape[1]
    parts = []
    for k in range(0, a.shape[1], step):
        part = np.zeros((len(a), b.shape[1]), np.float32)
        for i in range(k, min(k + step, a.shape[1])):
            part = part + a[:, i, None] * b[i]
        parts.append(part)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def normal(shape: ArrayShape, sizes: list[tuple[int, int, int]]) -> list[Job]:
    rng = np.random.default_rng(3)
    return [
        Job(rng.normal(size=(m, k)).astype(BF16), rng.normal(size=(k, n)).astype(BF16), overlapped)
        for m, k, n in sizes
        for overlapped in (False, True)
    ]


@pytest.mark.parametrize("dataflow", ["ws", slow("os")])
def test_an_array_of_4x4_makes_the_products_of_numpy_in_the_clocks_of_the_model(dataflow: Any) -> None:
    """Whole tiles, and partial ones at both edges; special numbers among the drawn."""
    shape = ArrayShape(4, 4, dataflow)
    jobs = [*normal(shape, [(8, 8, 8), (5, 6, 7)]), *draw_jobs(shape, np.random.default_rng(1), 60)]
    given, left = gates(shape, jobs)
    assert mismatches(shape, jobs, given, left) == []
    for job, found in zip(jobs[:4], products(shape, jobs[:4], given, left), strict=True):
        assert (found == in_order(shape, job)).all() and (found == product(shape, job)).all()


@pytest.mark.slow
@pytest.mark.parametrize("dataflow", ["ws", "os"])
def test_an_array_of_8x8(dataflow: Any) -> None:
    shape = ArrayShape(8, 8, dataflow)
    jobs = normal(shape, [(8, 8, 8), (3, 9, 10)])
    given, left = gates(shape, jobs)
    assert mismatches(shape, jobs, given, left) == []
    for job, found in zip(jobs, products(shape, jobs, given, left), strict=True):
        assert (found == in_order(shape, job)).all()


@pytest.mark.slow
@pytest.mark.parametrize("dataflow", ["ws", "os"])
@pytest.mark.parametrize("rows, columns", [(16, 16), (1, 1), (3, 7), (9, 2)])
def test_arrays_of_other_sizes(rows: int, columns: int, dataflow: Any) -> None:
    fits: dict[str, Any] = {"simulator": needs("icarus"), "commands": 300}  # Verilator builds 256 elements for minutes
    sizes = ArrayShape(rows, columns, dataflow)._asdict()
    (found,) = verify("systolic", "gddr6_pim_gpt", **fits, seed=2, sizes=sizes)
    assert (found.mismatches, found.first_mismatch, found.part) == (0, None, f"{rows}x{columns} {dataflow}")
    assert found.commands >= 300


MUTANTS = [  # of an element's source
    (WeightElement, "valid & ~falls & ~first", "valid & ~falls"),  # a weight is used again by the next tile
    (WeightElement, "(next_.fall != 0)", "(next_.fall > 1)"),
    (WeightElement, "self.left.valid & Mux(first, next_.valid, has_weight)", "self.left.valid"),
    (WeightElement, "Mux(first, next_.x, held)", "held"),
    (WeightElement, "self.sum.valid | active", "active"),
    (OutputElement, "empty.eq(self.left.last)", "empty.eq(0)"),
    (OutputElement, "Mux(ends, self.go, ", "Mux(ends, 0, "),
    (OutputElement, "~moves & self.go", "0"),
    (OutputElement, "result.valid & ~moves)", "result.valid)"),
    (OutputElement, "both = self.left.valid & self.above.valid", "both = self.left.valid"),
]


def broken(kind: type, old: str, new: str) -> type:
    """The element with a change in its source."""
    source = inspect.getsource(kind)
    assert source.count(old) == 1
    names: dict[str, Any] = dict(vars(element))
    exec(
        source.replace(old, new)
        .replace("super().__init__", "Component.__init__")
        .replace("__init__(ports", "__init__(self, ports"),
        names,
    )
    return names[kind.__name__]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "old", "new"),
    MUTANTS,
)
def test_a_broken_element_is_caught(kind: type, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ArrayShape(2, 3, "ws" if kind is WeightElement else "os")
    monkeypatch.setattr(f"pimloom.rtl.npu.systolic.{kind.__name__}", broken(kind, old, new))
    jobs = list(draw_jobs(shape, np.random.default_rng(4), 100))
    assert mismatches(shape, jobs, *gates(shape, jobs))


def test_a_mismatch_says_what_and_where() -> None:
    shape = ArrayShape(2, 2, "ws")
    jobs = integers(shape, 1, 2)
    given = edges(shape, jobs)
    clock, column = np.argwhere(given.valid)[3].tolist()
    valid, x = given.valid.copy(), given.x ^ np.uint32(clock == 0)
    valid[clock, column] = False
    left = Left(valid, x, 1.0)
    (said,) = mismatches(shape, jobs, given, left)
    assert said == f"nothing leaves column {column} in CK {clock}, model says {given.x[clock, column]:#x}"
    late = given._replace(ends=[given.ends[0] + 1, *given.ends[1:]])
    model = model_cyc(shape, jobs[0])
    assert f"GEMM 0 takes {model + 1} clocks, model says {model}" in mismatches(shape, jobs, late, left)


# --- what is emitted


@pytest.mark.slow
def test_an_element_and_a_row_are_written_once(tmp_path: Path) -> None:
    done = call(
        "rtl", "emit", "systolic", "--rows", "32", "--columns", "16", "--dataflow", "os", "-q", "-o", tmp_path / "a.v"
    )
    text = (tmp_path / "a.v").read_text()
    assert done == (0, "", "") and text.startswith("// systolic, rows 32, columns 16, dataflow os, by pimloom ")
    assert "//   in  left [607:0]: 32 x (x [15:0], last [16], lowest [17], valid [18]), lowest first\n" in text
    modules = re.findall(r"^module ([^\s(]+)", text, re.MULTILINE)
    assert (
        modules[:3] == ["systolic", "systolic__os_row", "systolic__os_element"]
        and len(modules) == len(set(modules)) == 5
    )
    assert text.count("  systolic__os_row row_") == 32 and text.count("  systolic__os_element element_") == 16
    assert len(text.splitlines()) < 3000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("emit systolic --rows 257", "--rows 257: an array has 1 to 256 rows"),
        ("emit systolic --columns 0", "--columns 0: an array has 1 to 256 columns"),
        ("verify systolic --columns 300", "--columns 300: an array has 1 to 256 columns"),
        ("emit systolic --dataflow is", "'is' is not one of 'ws', 'os'"),
        (
            "emit timer --rows 4",
            "--rows 4: timer cannot have it; name a block that can: systolic, npu_tiles, npu_gemm",
        ),
        (
            "verify --dataflow os",
            "--dataflow os: all blocks cannot have it; name a block that can: systolic, npu_tiles, npu_gemm",
        ),
        ("synth npu_gemm", "npu_gemm is not for synthesis: its pads are cell arrays; its logic: systolic, npu_tiles"),
        ("emit systolyc --rows 4", "unknown block 'systolyc'; nearest: systolic"),
    ],
)
def test_arrays_that_cannot_be(words: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.v"
    done = call("rtl", *words.split(), *(["-o", str(file)] if words.startswith("emit") else []))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err and not file.exists()


def lint(folder: Path, text: str, top: str) -> None:
    (folder / f"{top}.v").write_text(text)
    words = [sys.executable, "-m", "verilator", "--lint-only", "-Wno-WIDTH", "--top", top, f"{top}.v"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def without_body(text: str, module: str) -> str:
    """The Verilog up to `module`, of which nothing but the ports is left."""
    before, body = text.split(f"module {module} (")
    ports = body.split(");")[0]
    return before + f"module {module} ({ports});\n/* verilator lint_off UNDRIVEN */\nendmodule\n"


@pytest.mark.parametrize(
    ("rows", "dataflow"), [(4, "ws"), *(slow(*one) for one in ((4, "os"), (128, "ws"), (128, "os")))]
)
def test_verilator_reads_what_is_emitted(rows: int, dataflow: Any, tmp_path: Path) -> None:
    """The element by itself, the array with elements that are but their ports: whole, one of 128 x 128 takes
    Verilator many minutes and all memory. Yosys writes widths that it minds."""
    text = to_verilog(Systolic(ArrayShape(rows, rows, dataflow)), "systolic")
    lint(tmp_path, text[text.index(f"module systolic__{dataflow}_element (") :], f"systolic__{dataflow}_element")
    lint(tmp_path, without_body(text, f"systolic__{dataflow}_element"), "systolic")
