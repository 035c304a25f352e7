"""Kernels to machine code, by numba: `python -m pimloom.cycle_sim.compiled.build FILE NAME KIND …`.

The object code is numba's, behind a function of ours that takes words (see `arguments`) and leaves words; a C compiler
links it. Beware: `_nrt`, and what is imported from `numba.core`, are numba's own business.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}  # a wheel's user may have another processor

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.np import arrayobj, numpy_support

from pimloom.cycle_sim.compiled import kernel
from pimloom.cycle_sim.compiled.arguments import END, RESULTS
from pimloom.cycle_sim.compiled.indices import from_zero

WORD = ir.IntType(64)


def compile_kernel(function: Any, forceinline: bool) -> Any:
    """Without reference counts: nothing in a kernel is allocated."""
    options = {"nogil": True, "forceinline": forceinline, "_nrt": False}
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**options)(function)  # type: ignore[call-overload]


@global_compiler_lock
def object_code(name: str, kinds: tuple[str, ...]) -> bytes:
    """Machine code, not linked, of a kernel for these kinds of arguments; it has the one function `kernel`."""
    kernel.compiler = compile_kernel
    from_zero()
    module, _, function = name.partition(":")
    dispatcher = getattr(import_module(module), function)
    found, rest = list[Any](), iter(kinds)
    for kind in rest:
        found.append(_type(kind, rest))
    dispatcher.compile(tuple(found))
    compiled = dispatcher.overloads[tuple(found)]
    library = compiled.library.codegen.create_library("kernel")
    wrapper = library.create_ir_module("kernel")
    _write_wrapper(wrapper, compiled, found)
    library.add_ir_module(wrapper)
    library.add_linking_library(compiled.library)
    library.finalize()
    return _emit(library._final_module)


def _type(kind: str, rest: Iterator[str]) -> Any:
    if kind in ("int", "bool", "float"):
        return {"int": types.int64, "bool": types.boolean, "float": types.float64}[kind]
    first, _, second = kind.partition(":")
    if second.isdigit():
        return types.Array(numpy_support.from_dtype(np.dtype(first)), int(second), "C")
    fields = list[Any]()
    while (inner := next(rest)) != END:
        fields.append(_type(inner, rest))
    return types.NamedTuple(fields, getattr(import_module(first), second))


def _write_wrapper(module: Any, compiled: Any, found: list[Any]) -> None:
    """`kernel(words, results)`: returns how many results it left, or -1 after an error."""
    context = compiled.target_context
    pointer = WORD.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [pointer, pointer]), "kernel")
    builder = ir.IRBuilder(function.append_basic_block())
    words, results = function.args
    place = 0

    def word() -> Any:
        nonlocal place
        place += 1
        return builder.load(builder.gep(words, [ir.Constant(WORD, place - 1)]))

    def value(kind: Any) -> Any:
        if isinstance(kind, types.NamedTuple):
            return context.make_tuple(builder, kind, [value(field) for field in kind.types])
        if isinstance(kind, types.Array):
            return _array(context, builder, kind, word(), [word() for _ in range(kind.ndim)])
        if kind == types.boolean:
            return builder.icmp_signed("!=", word(), ir.Constant(WORD, 0))
        return builder.bitcast(word(), context.get_value_type(kind))

    values = [value(kind) for kind in found]
    signature = compiled.signature
    callee_type = context.call_conv.get_function_type(signature.return_type, found)
    callee = ir.Function(module, callee_type, compiled.fndesc.llvm_func_name)
    status, result = context.call_conv.call_function(builder, callee, signature.return_type, found, values)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(ir.Constant(ir.IntType(32), -1))
    left = list(_results(context, builder, signature.return_type, result))
    if len(left) > RESULTS:
        raise TypeError(f"a kernel returns {len(left)} numbers, more than {RESULTS}")
    for i, each in enumerate(left):
        builder.store(each, builder.gep(results, [ir.Constant(WORD, i)]))
    builder.ret(ir.Constant(ir.IntType(32), len(left)))


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    array, size = context.make_array(kind)(context, builder), context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides, step = list[Any](), ir.Constant(WORD, size)
    for length in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, length)
    arrayobj.populate_array(
        array,
        data=builder.inttoptr(data, context.get_data_type(kind.dtype).as_pointer()),
        shape=shape,
        strides=strides,
        itemsize=ir.Constant(WORD, size),
        meminfo=None,
    )
    return array._getvalue()


def _results(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[Any]:
    if isinstance(kind, types.Tuple | types.UniTuple):
        for i, field in enumerate(kind.types):
            yield from _results(context, builder, field, builder.extract_value(value, i))
    elif kind == types.boolean:
        yield builder.zext(value, WORD)
    elif isinstance(kind, types.Integer):
        yield context.cast(builder, value, kind, types.int64)
    elif not isinstance(kind, types.NoneType):
        raise TypeError(f"a kernel returns no {kind}")


def _emit(module: Any) -> bytes:
    """Only what `kernel` needs, position independent."""
    for function in module.functions:
        if not function.is_declaration and function.name != "kernel":
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    target = llvm.Target.from_triple(llvm.get_process_triple())
    made = target.create_target_machine(cpu="generic", opt=3, reloc="pic", codemodel="default")
    passes = llvm.create_pass_builder(made, llvm.create_pipeline_tuning_options(speed_level=2))
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, passes)
    found: bytes = made.emit_object(module)
    return found


def main(file: str, name: str, *kinds: str) -> None:
    """Write the kernel's machine code: a library, or without a C compiler that links what it would be linked from."""
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        made = Path(folder, "kernel.o")
        made.write_bytes(object_code(name, kinds))
        if cc := shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"):
            library = Path(folder, "kernel.so")
            linked = subprocess.run([cc, "-shared", "-o", library, made, "-lm"], check=False, capture_output=True)
            made = made if linked.returncode else library
        os.replace(made, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
