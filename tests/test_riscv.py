"""RISC-V cores of CENT's near-memory unit: instructions against plain integers and double precision, programs against
numpy, bit for bit."""

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from pimloom.cycle_sim.near_memory import NearMemoryUnit
from pimloom.cycle_sim.riscv import assemble, run

BF16 = ml_dtypes.bfloat16
WORDS = st.integers(0, 2**32 - 1)
NAN = 0x7FC00000
ODD = (0, 0x80000000, 1, 0x7F800000, 0xFF800000, 0x7FC12345, 0x00800000, 0x7F7FFFFF, 0x3F800000)
BITS = WORDS | st.sampled_from(ODD)


def after(text: str, register: str, **given_: ArrayLike) -> int:
    """What stands in a register of one core behind a program."""
    memory = np.zeros(64, np.uint8)
    store = "fsw" if register.startswith("f") else "sw"
    run(assemble(f"{text}\n{store} {register}, 60(zero)\nret"), memory, given_, 1)
    return int(memory.view(np.uint32)[15])


def signed(x: int) -> int:
    return x - 2**32 if x >= 2**31 else x


def as_float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def nearest(x: float) -> int:
    """The bits of the binary32 nearest to a double; the one NaN."""
    if math.isnan(x):
        return NAN
    with np.errstate(all="ignore"):
        return int(np.float64(x).astype(np.float32).view(np.uint32))


@settings(max_examples=25)
@given(a=BITS, b=BITS)
def test_integers(a: int, b: int) -> None:
    shift = b % 32
    expected = {
        "add": (a + b) % 2**32, "and": a & b, "or": a | b, "xor": a ^ b, "sll": (a << shift) % 2**32,
        "srl": a >> shift, "sra": (signed(a) >> shift) % 2**32, "slt": int(signed(a) < signed(b)),
    }  # fmt: skip
    small = signed(b) % 4096 - 2048
    for name, value in expected.items():
        assert after(f"{name} t2, a0, a1", "t2", a0=signed(a), a1=signed(b)) == value, name
        number = shift if name.startswith(("sl", "sr")) and name != "slt" else small
        by_register = after(f"{name} t2, a0, a1", "t2", a0=signed(a), a1=number)
        assert after(f"{name}i t2, a0, {number}", "t2", a0=signed(a)) == by_register, name


@settings(max_examples=25)
@given(a=BITS, b=BITS)
def test_floats_are_rounded_once(a: int, b: int) -> None:
    """Binary64 holds enough that what it gives, rounded to binary32, is rounded right (53 bits > 2 x 24 + 1)."""
    x, y = as_float(a), as_float(b)
    with np.errstate(all="ignore"):
        xs, ys = np.float64(x), np.float64(y)
        expected = {"fadd.s": xs + ys, "fsub.s": xs - ys, "fmul.s": xs * ys, "fdiv.s": xs / ys, "fsqrt.s": np.sqrt(xs)}
    for name, value in expected.items():
        operands = "ft2, ft0" if name == "fsqrt.s" else "ft2, ft0, ft1"
        text = f"fmv.w.x ft0, a0\nfmv.w.x ft1, a1\n{name} {operands}"
        assert after(text, "ft2", a0=signed(a), a1=signed(b)) == nearest(float(value)), name
    assert after("fcvt.s.w ft2, a0", "ft2", a0=signed(a)) == nearest(float(signed(a)))


def test_values_that_anybody_knows() -> None:
    two = "addi t0, zero, 2\nfcvt.s.w ft0, t0\n"
    assert after(f"{two}fsqrt.s ft1, ft0", "ft1") == 0x3FB504F3
    assert after(f"{two}addi t0, zero, 3\nfcvt.s.w ft1, t0\nfdiv.s ft2, ft0, ft1", "ft2") == 0x3F2AAAAB
    assert after(f"{two}addi t0, zero, -2\nfcvt.s.w ft1, t0\nfsqrt.s ft2, ft1", "ft2") == NAN
    assert after("lui t0, 0xfffff\naddi t0, t0, -1", "t0") == 0xFFFFEFFF
    assert after("addi zero, zero, 5", "zero") == 0


def test_memory_and_loops() -> None:
    """Cores add up every fourth halfword each; what is 0xffff stays a number without a sign."""
    program = assemble("""
        addi t1, zero, 0
    again:              # of a0, a1 times
        lhu t0, 0(a0)
        add t1, t1, t0
        addi a0, a0, 8
        addi a1, a1, -1
        blt zero, a1, again
        sh t1, 0(a2)
        bge a1, zero, out
        sw zero, 0(a2)
    out:
        ret
    """)
    numbers = np.array([1, 2, 3, 4, 10, 20, 30, 0xFFFF, 0, 0, 0, 0], np.uint16)
    memory = numbers.view(np.uint8).copy()
    count = run(program, memory, {"a0": [0, 2, 4, 6], "a1": 2, "a2": [16, 18, 20, 22]}, 4)
    assert memory.view(np.uint16)[8:].tolist() == [11, 22, 33, (4 + 0xFFFF) % 2**16]
    assert count == {"addi": 5, "lhu": 2, "add": 2, "blt": 2, "sh": 1, "bge": 1, "ret": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fma t0, t1\nret", "no such instruction"),
        ("add t0, t1, t9\nret", "no such instruction, register"),
        ("add t0, t1, ft1\nret", "ft1 is of another kind"),
        ("addi t0, t1, 2048\nret", "expected -2048 to 2047, got 2048"),
        ("slli t0, t1, 32\nret", "expected 0 to 31, got 32"),
        ("bne t0, t1, away\nret", "away"),
        ("lw t0, a0\nret", "offset"),
        ("add t0, t1\nret", "add t0, t1"),
        ("here:\nhere:\nret", "stands twice"),
        ("add t0, t1, t2", "expected ret at its end"),
        ("lw t0, 2(zero)\nret", "expected multiples of 4 within 64 bytes"),
        ("lw t0, 64(zero)\nret", "expected multiples of 4 within 64 bytes"),
        ("sh t0, -2(zero)\nret", "expected multiples of 2 within 64 bytes"),
        ("beq a0, zero, on\non:\nret", "cores take different ways"),
    ],
)
def test_programs_that_cannot_run(text: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        run(assemble(text), np.zeros(64, np.uint8), {"a0": [0, 1]}, 2)
    assert said in str(refused.value)


def test_a_program_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pimloom.cycle_sim.riscv.MOST", 100)
    with pytest.raises(ValueError, match="a program of 2 instructions does not end within 100"):
        run(assemble("on:\nbeq zero, zero, on\nret"), np.zeros(4, np.uint8), {}, 1)


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Bit for bit, with one NaN."""
    odd = np.isnan(expected.astype(np.float32))
    bits = np.where(odd, 0x7FC0, expected.view(np.uint16))
    return bool((found.view(np.uint16) == bits).all())


@settings(max_examples=25)
@given(st.lists(BITS, min_size=1, max_size=20), st.integers(1, 9))
def test_reciprocals_of_a_softmax(sums: list[int], cores: int) -> None:
    x = np.array(sums, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = np.repeat((np.float32(1) / x).astype(BF16)[:, None], 16, axis=1)
    assert same(NearMemoryUnit(cores).reciprocals(x), expected)


@settings(max_examples=25)
@given(st.lists(st.tuples(*[st.integers(0, 2**16 - 1)] * 4), min_size=1, max_size=20), st.integers(1, 9))
def test_sums_of_a_rotation(products: list[tuple[int, ...]], cores: int) -> None:
    four = np.array(products, np.uint16).view(BF16)
    with np.errstate(all="ignore"):
        p = four.astype(np.float32)
        expected = np.stack([p[:, 0] - p[:, 1], p[:, 2] + p[:, 3]], axis=-1).astype(BF16)
    assert same(NearMemoryUnit(cores).rotated(four), expected)


@settings(max_examples=25)
@given(st.floats(0, 2.0**100, width=32), st.integers(1, 2**20), st.sampled_from([1e-5, 1e-6]))
def test_root_of_a_norm(total: float, n: int, eps: float) -> None:
    expected = np.float32(1) / np.sqrt(np.float32(total) / np.float32(n) + np.float32(eps))
    assert same(NearMemoryUnit().root(np.float32(total), n, eps), np.full(16, expected, np.float32).astype(BF16))


@settings(max_examples=25)
@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=40))
def test_totals_go_lane_by_lane_and_through_a_tree(values: list[float]) -> None:
    lanes = [np.float32(0)] * 16
    for i, value in enumerate(values):
        lanes[i % 16] = np.float32(lanes[i % 16] + np.float32(value))
    while len(lanes) > 1:
        lanes = [np.float32(lanes[i] + lanes[i + 1]) for i in range(0, len(lanes), 2)]
    assert NearMemoryUnit().total(np.array(values, np.float32)) == pytest.approx(lanes[0], abs=2.0**-125, rel=0)


def test_what_a_core_executes() -> None:
    """The counts of docs/cent.md: 4,096 elements of a rotation on 8 cores, a head of a softmax, a norm."""
    unit = NearMemoryUnit()
    unit.rotated(np.ones((2048, 4), BF16))
    unit.reciprocals(np.ones(8, np.float32))
    unit.root(np.float32(1), 4096, 1e-5)
    assert [sum(unit.executed[name].values()) for name in ("root", "reciprocal", "rotation")] == [27, 27, 256 * 32 + 3]


def test_more_than_the_buffer_holds_goes_in_turns() -> None:
    four = np.arange(4 * 6000).reshape(-1, 4).astype(BF16)
    p = four.astype(np.float32)
    assert same(NearMemoryUnit().rotated(four), np.stack([p[:, 0] - p[:, 1], p[:, 2] + p[:, 3]], axis=-1).astype(BF16))
