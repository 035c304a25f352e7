"""The porch: what it imports, how long its help takes, and what it says when the engine is compiled first."""

import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pimloom.commands.progress import COMPILING, progress_bar

SLOW = ("numba", "numpy", "matplotlib", "pandas", "msgspec", "yaml", "rich")
HELP_S = 0.1  # of CPU over Python's own start
MODULES = """
import sys
sys.argv = ["pimloom", *sys.argv[1:]]
from pimloom.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("MODULES", *sorted(sys.modules))
"""


def modules(*arguments: str) -> set[str]:
    """What a command has imported in the end."""
    ran = subprocess.run([sys.executable, "-c", MODULES, *arguments], capture_output=True, text=True, check=True)
    return set(ran.stdout.rpartition("MODULES")[2].split())


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("report", "--help"), ("fabric", "--help")])
def test_a_help_imports_nothing_slow(arguments):
    found = modules(*arguments)
    slow = set(SLOW) if arguments == ("--help",) else {"numba", "matplotlib", "pandas"}
    assert not found & slow and "typer" in found


OTHERS = {
    "pim_gpt": (
        "pimloom.cycle_sim.npu", "pimloom.cycle_sim.npu_pim", "pimloom.energy.npu_pim", "pimloom.mappers.npu_pim",
        "pimloom.systems.devices.npu_pim", "pimloom.systems.serving", "pimloom.systems.fabric", "pimloom.fabric",
        "pimloom.commands.fabric", "pimloom.sweeping", "pimloom.rtl", "pimloom.reports.terminal.decoding",
    ),
    "npu_only": (
        "pimloom.fabric", "pimloom.commands.fabric", "pimloom.systems.fabric", "pimloom.sweeping",
        "pimloom.commands.sweep", "pimloom.rtl", "pimloom.commands.rtl", "pimloom.reports.sweep",
        "pimloom.reports.fabric", "pimloom.reports.rtl",
    ),
}  # fmt: skip


@pytest.mark.parametrize("system", OTHERS)
def test_a_run_imports_no_other_kind_of_system(system):
    layers = ("--layers", "1") if system == "npu_only" else ()
    found = modules("run", system, "--model", "gpt2", "--generate", "1", *layers, "-q")
    entered = {name for name in found for other in OTHERS[system] if f"{name}.".startswith(f"{other}.")}
    assert "pimloom.systems.devices" in found and not entered


def cpu_s(*command: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_help_is_quick():
    """The least of five runs each, in CPU time: what other processes do is not ours."""
    start, whole = (min(cpu_s(*command) for _ in range(5)) for command in (("-c", ""), ("-m", "pimloom", "--help")))
    assert whole - start <= HELP_S


def test_a_first_run_says_that_it_compiles_terminal_or_not(capsys):
    """A stand-in for a kernel whose cache on disk is empty or not."""
    for kept, quiet, said in (({}, False, f"{COMPILING}\n"), ({}, True, ""), ({"x": 1}, False, "")):
        file = SimpleNamespace(_load_index=lambda kept=kept: kept)
        kernel = SimpleNamespace(_cache=SimpleNamespace(_cache_file=file))
        with progress_bar("title", quiet, kernel):
            pass
        assert capsys.readouterr().err == said
