"""Weights of branches that kernels are compiled with: what is counted, and that nothing but speed follows from it."""

import ctypes
import json
from importlib import import_module
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import pytest

from pimloom.cycle_sim.compiled import library, weights

# the sum of the odd numbers among words[1] … words[n], n = words[0]; -1 if n is below zero. No branch of `unused`.
TEXT = """
define i32 @kernel(ptr %words, ptr %results) {
  %n = load i64, ptr %words
  %none = icmp slt i64 %n, 0
  br i1 %none, label %bad, label %loop, !prof !0
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %step ]
  %sum = phi i64 [ 0, %0 ], [ %more, %step ]
  %over = icmp sge i64 %i, %n
  br i1 %over, label %end, label %body
body:
  %next = add i64 %i, 1
  %at = getelementptr i64, ptr %words, i64 %next
  %x = load i64, ptr %at
  %odd = trunc i64 %x to i1
  br i1 %odd, label %add, label %step
add:
  br label %step
step:
  %by = phi i64 [ %x, %add ], [ 0, %body ]
  %more = add i64 %sum, %by
  br label %loop
end:
  store i64 %sum, ptr %results
  ret i32 1
bad:
  ret i32 -1
}
define internal void @unused(i1 %flag) {
  br i1 %flag, label %left, label %right
left:
  ret void
right:
  ret void
}
!0 = !{!"branch_weights", i32 7, i32 1}
"""
GIVEN: tuple[list[int], ...] = ([1, 2, 3, 5, 8], [4, 4], [])
ODD = [9, 0, 0]
COUNTS = [3, 0, 7, 3, 4, 3, 0, 0]  # of each branch: not taken, taken
KINDS = ("int",) * 6
summed: Any = None  # the kernel, while it is trained
told: list[int] = []


def words(numbers: list[int]) -> list[int]:
    return [len(numbers), *numbers, *[0] * (5 - len(numbers))]


def trains() -> None:
    told[:] = [summed(*words(numbers)) for numbers in GIVEN]


def idles() -> None:
    """Calls nothing."""


def target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(reloc="pic")


def trained(trainer: str) -> Any:
    module = llvm.parse_assembly(TEXT)
    return weights.weighted(module, target(), f"{__name__}:summed", KINDS, f"{__name__}:{trainer}")


def test_branches_get_the_weights_that_a_job_of_the_kernel_counts():
    text = str(trained("trains"))
    assert told == ODD
    branches = [line for line in text.split("\n") if line.startswith("  br i1")]
    kept = dict(line.split(" = ") for line in text.split("\n") if line.startswith("!"))
    found = [kept[line.rpartition(", !prof ")[2]] if "!prof" in line else None for line in branches]
    assert found == [
        *(f'!{{!"branch_weights", i32 {taken}, i32 {other}}}' for other, taken in ((3, 0), (7, 3), (4, 3))),
        None,
    ]


def test_the_weighted_kernel_does_the_same():
    engine = library.engine_of(target().emit_object(trained("trains")))
    code = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("kernel"))
    call = library.called(code, "summed")
    assert [call(words(numbers), None)() for numbers in GIVEN] == ODD


def test_a_trainer_that_calls_another_kernel_is_an_error():
    with pytest.raises(RuntimeError, match=f"{__name__}:idles does not call {__name__}:summed"):
        trained("idles")


def test_weights_of_any_count_are_numbers_of_31_bits_in_its_proportion():
    counts = [3 << 40, 1 << 40, 5, (1 << 31) - 1, 0, 1 << 31, 0, 0]
    text = weights.with_weights(TEXT, counts)
    llvm.parse_assembly(text).verify()
    pairs = [line.split("i32 ")[1:] for line in text.split("\n") if "branch_weights" in line][1:]
    found = [(int(other.rstrip("}")), int(taken.rstrip(", "))) for taken, other in pairs]
    assert all(0 <= n < 1 << 31 for pair in found for n in pair)
    for (other, taken), (low, high) in zip(found, zip(counts[::2], counts[1::2], strict=True), strict=False):
        assert abs(other * high - taken * low) <= low + high


def test_who_is_trained_is_a_kernel_and_who_trains_is_there():
    known = json.loads(library.TRAINED.read_text())
    assert set(known) <= {name for name, *_ in library.listed()} and list(known) == sorted(known)
    for trainer in known.values():
        room, _, function = trainer.partition(":")
        assert callable(getattr(import_module(room), function))


def test_an_edit_of_a_trainer_makes_another_file(monkeypatch):
    name, _, *kinds = next(row for row in library.listed() if library.trainer(row[0]))
    file = library.place(name, kinds)
    monkeypatch.setattr(library, "_trained", lambda name: ["another"])
    assert library.place(name, kinds) != file
