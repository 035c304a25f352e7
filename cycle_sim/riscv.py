"""RISC-V cores that run one program in lockstep: a part of RV32IF, from its assembly, instruction by instruction.

Registers hold 32 bits; x0 is zero. Numbers are IEEE 754 binary32, rounded to nearest even, with subnormals and the one
NaN 0x7fc00000 (The RISC-V Instruction Set Manual, volume I: chapters RV32I, "F"). Memory is little-endian, shared by
all cores; an access is aligned. All cores take the same way through a program: it gives each its share of the work by
what stands in its registers at the start. `ret` ends it.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint32]  # a register of all cores, or a value for each
MOST = 10_000_000  # instructions until a program counts as one that never ends

_ARGUMENTS = [f"{kind}{i}" for kind in ("a", "fa") for i in range(8)]
_INTEGER = ("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", *_ARGUMENTS[:8],
            *(f"s{i}" for i in range(2, 12)), "t3", "t4", "t5", "t6")  # fmt: skip
_FLOAT = (*(f"ft{i}" for i in range(8)), "fs0", "fs1", *_ARGUMENTS[8:],
          *(f"fs{i}" for i in range(2, 12)), "ft8", "ft9", "ft10", "ft11")  # fmt: skip
REGISTERS = {name: i for i, name in enumerate((*_INTEGER, *_FLOAT))}  # the latter from 32 on
N_INTEGER = len(_INTEGER)
_NAN = np.uint32(0x7FC00000)


def _signed(x: Words) -> NDArray[np.int32]:
    return x.view(np.int32)


def _float(x: Words) -> NDArray[np.float32]:
    return x.view(np.float32)


def _bits(x: NDArray[np.float32]) -> Words:
    bits, odd = x.view(np.uint32), x != x
    return np.where(odd, _NAN, bits) if odd.any() else bits


INTEGER: Mapping[str, Callable[[Words, Words], Words]] = {  # rd, rs1, rs2; with an i behind it: rd, rs1, immediate
    "add": lambda a, b: a + b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "sll": lambda a, b: a << (b & np.uint32(31)),
    "srl": lambda a, b: a >> (b & np.uint32(31)),
    "sra": lambda a, b: (_signed(a) >> (b & np.uint32(31)).view(np.int32)).view(np.uint32),
    "slt": lambda a, b: (_signed(a) < _signed(b)).astype(np.uint32),
}
FLOAT: Mapping[str, Callable[[Words, Words], Words]] = {  # fd, fs1, fs2
    "fadd.s": lambda a, b: _bits(_float(a) + _float(b)),
    "fsub.s": lambda a, b: _bits(_float(a) - _float(b)),
    "fmul.s": lambda a, b: _bits(_float(a) * _float(b)),
    "fdiv.s": lambda a, b: _bits(_float(a) / _float(b)),
}
UNARY: Mapping[str, Callable[[Words], Words]] = {  # of two registers, each integer or float
    "fsqrt.s": lambda a: _bits(np.sqrt(_float(a))),
    "fcvt.s.w": lambda a: _signed(a).astype(np.float32).view(np.uint32),
    "fmv.x.w": lambda a: a,
    "fmv.w.x": lambda a: a,
}
KINDS = {"fsqrt.s": "ff", "fcvt.s.w": "fx", "fmv.x.w": "xf", "fmv.w.x": "fx"}  # of the two
LOADS: Mapping[str, tuple[int, str]] = {"lw": (4, "x"), "lhu": (2, "x"), "flw": (4, "f")}  # bytes; register
STORES: Mapping[str, tuple[int, str]] = {"sw": (4, "x"), "sh": (2, "x"), "fsw": (4, "f")}
BRANCHES: Mapping[str, Callable[[Words, Words], NDArray[np.bool_]]] = {  # rs1, rs2, label
    "beq": lambda a, b: a == b,
    "bne": lambda a, b: a != b,
    "blt": lambda a, b: _signed(a) < _signed(b),
    "bge": lambda a, b: _signed(a) >= _signed(b),
}


class Instruction(NamedTuple):
    """name, registers (the written one first, if there is one) and immediate; of a branch the place that it goes to."""

    name: str
    registers: tuple[int, ...] = ()
    immediate: int = 0


def assemble(text: str) -> tuple[Instruction, ...]:
    """A program from its text: an instruction or a label a line, `#` begins a comment. Raises ValueError."""
    lines = [line for raw in text.splitlines() if (line := raw.partition("#")[0].strip())]
    labels, found, at = dict[str, int](), list[Instruction](), 0
    for line in lines:
        if line.endswith(":") and line[:-1] in labels:
            raise ValueError(f"{line!r}: stands twice")
        if line.endswith(":"):
            labels[line[:-1]] = at
        else:
            at += 1
    for line in lines:
        if not line.endswith(":"):
            found.append(_instruction(line, labels))
    if not found or found[-1].name != "ret":
        raise ValueError("a program: expected ret at its end")
    return tuple(found)


def _instruction(line: str, labels: Mapping[str, int]) -> Instruction:
    name, _, rest = line.partition(" ")
    operands = [each.strip() for each in rest.split(",")] if rest.strip() else []
    try:
        return _FORMS[_form(name)](name, operands, labels)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{line!r}: no such instruction, register, label or number ({error})") from None


def _form(name: str) -> str:
    tables = {"r": INTEGER, "f": FLOAT, "u": UNARY, "load": LOADS, "store": STORES, "branch": BRANCHES}
    if name.endswith("i") and name != "lui" and _plain(name) in INTEGER:
        return "i"
    return next((form for form, table in tables.items() if name in table), name)


def _plain(name: str) -> str:
    """Of an instruction with an immediate, that of two registers."""
    return name[:-1]


def _register(name: str, kind: str) -> int:
    number = REGISTERS[name]
    if (number < N_INTEGER) != (kind == "x"):
        raise ValueError(f"{name} is of another kind")
    return number


def _number(text: str, low: int, high: int) -> int:
    number = int(text, 0)
    if not low <= number < high:
        raise ValueError(f"expected {low} to {high - 1}, got {number}")
    return number


def _of_registers(name: str, operands: list[str], kinds: str) -> Instruction:
    return Instruction(name, tuple(_register(text, kind) for text, kind in zip(operands, kinds, strict=True)))


def _with_immediate(name: str, operands: list[str], labels: Mapping[str, int]) -> Instruction:
    rd, rs, text = operands
    shift = name[:-1] in ("sll", "srl", "sra")
    return Instruction(
        name, (_register(rd, "x"), _register(rs, "x")), _number(text, *((0, 32) if shift else (-2048, 2048)))
    )


def _of_memory(name: str, operands: list[str], labels: Mapping[str, int]) -> Instruction:
    value, place = operands
    match = re.fullmatch(r"(-?\w+)\((\w+)\)", place)
    if not match:
        raise ValueError(f"expected offset(register), got {place}")
    kind = (LOADS | STORES)[name][1]  # type: ignore[operator]
    return Instruction(name, (_register(value, kind), _register(match[2], "x")), _number(match[1], -2048, 2048))


def _branch(name: str, operands: list[str], labels: Mapping[str, int]) -> Instruction:
    a, b, label = operands
    return Instruction(name, (_register(a, "x"), _register(b, "x")), labels[label])


_FORMS: Mapping[str, Callable[[str, list[str], Mapping[str, int]], Instruction]] = {
    "r": lambda name, operands, labels: _of_registers(name, operands, "xxx"),
    "f": lambda name, operands, labels: _of_registers(name, operands, "fff"),
    "u": lambda name, operands, labels: _of_registers(name, operands, KINDS[name]),
    "i": _with_immediate,
    "load": _of_memory,
    "store": _of_memory,
    "branch": _branch,
    "lui": lambda name, of, labels: Instruction(name, (_register(of[0], "x"),), _number(of[1], 0, 1 << 20)),
    "ret": lambda name, operands, labels: _of_registers(name, operands, ""),
}


def run(
    program: tuple[Instruction, ...], memory: NDArray[np.uint8], given: Mapping[str, ArrayLike], cores: int
) -> Counter[str]:
    """Run a program on so many cores, from its first instruction to `ret`; memory changes in place. Returns what
    each core executed, by name.

    given: registers at the start by name, an integer or a float for all cores or one for each; others are zero. Raises
    ValueError for an access beyond memory or out of line, cores that part, and a program that does not end.
    """
    registers = np.zeros((len(REGISTERS), cores), np.uint32)
    for name, values in given.items():
        of_floats = REGISTERS[name] >= N_INTEGER
        registers[REGISTERS[name]] = np.asarray(values, np.float32 if of_floats else np.int32).view(np.uint32)
    executed, at = Counter[str](), 0
    with np.errstate(all="ignore"):  # infinities and NaN are values here
        for _ in range(MOST):
            instruction = program[at]
            executed[instruction.name] += 1
            if instruction.name == "ret":
                return executed
            at = _step(instruction, registers, memory, at)
            registers[0] = 0
    raise ValueError(f"a program of {len(program)} instructions does not end within {MOST}")


def _step(instruction: Instruction, registers: Words, memory: NDArray[np.uint8], at: int) -> int:
    """Carry one out; where the next stands."""
    name, numbers, immediate = instruction
    if name in BRANCHES:
        taken = BRANCHES[name](registers[numbers[0]], registers[numbers[1]])
        if (every := taken.all()) != taken.any():
            raise ValueError(f"{name} at {at}: cores take different ways")
        return immediate if every else at + 1
    if name in STORES or name in LOADS:
        _access(instruction, registers, memory)
    elif name == "lui":
        registers[numbers[0]] = immediate << 12
    elif name in UNARY:
        registers[numbers[0]] = UNARY[name](registers[numbers[1]])
    elif name in FLOAT or name in INTEGER:
        of = FLOAT[name] if name in FLOAT else INTEGER[name]
        registers[numbers[0]] = of(registers[numbers[1]], registers[numbers[2]])
    else:
        number = np.array(immediate, np.int32).view(np.uint32)
        registers[numbers[0]] = INTEGER[_plain(name)](registers[numbers[1]], number)
    return at + 1


def _access(instruction: Instruction, registers: Words, memory: NDArray[np.uint8]) -> None:
    name, (value, base), offset = instruction
    size = (LOADS[name] if name in LOADS else STORES[name])[0]
    places = registers[base] + np.uint32(offset & 0xFFFFFFFF)
    if (places & np.uint32(size - 1)).any() or places.max() > len(memory) - size:
        raise ValueError(f"{name} at {places.tolist()}: expected multiples of {size} within {len(memory)} bytes")
    whole = memory.view(np.uint32 if size == 4 else np.uint16)
    if name in LOADS:
        registers[value] = whole[places >> (size // 2)]
    else:
        whole[places >> (size // 2)] = registers[value]
