"""The porch: what it imports, how little its help needs, and what it says when the engine is compiled first."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from pimloom.arch.system import load_system
from pimloom.commands.progress import COMPILING, progress_bar
from pimloom.systems.asked import Asked
from tests.test_without_energy import TWO

SLOW = ("numba", "numpy", "matplotlib", "pandas", "msgspec", "yaml", "rich")
OURS = 20  # modules, each of which takes some 0.5 ms
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


def test_the_help_imports_little():
    """How long it takes is a line of the bench: of the CPU time nearly all is Python's and typer's."""
    found = modules("--help") - modules_of_python()
    ours = {name for name in found if name.split(".")[0] == "pimloom"}
    others = {name.split(".")[0] for name in found} - {"pimloom", *sys.stdlib_module_names}
    assert others <= {"typer", "annotated_doc", "shellingham"} and len(ours) <= OURS


def modules_of_python() -> set[str]:
    """What Python has imported before it does anything, the finder of an installed checkout, too."""
    told = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    ran = subprocess.run(told, capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_a_first_run_says_that_it_compiles_terminal_or_not(capsys):
    """A stand-in for a kernel whose cache on disk is empty or not."""
    for kept, quiet, said in (({}, False, f"{COMPILING}\n"), ({}, True, ""), ({"x": 1}, False, "")):
        file = SimpleNamespace(_load_index=lambda kept=kept: kept)
        kernel = SimpleNamespace(_cache=SimpleNamespace(_cache_file=file))
        with progress_bar("title", quiet, kernel):
            pass
        assert capsys.readouterr().err == said


def test_only_what_runs_an_engine_says_that_it_compiles(tmp_path):
    """Rooflines, composed ones too, run none; PIM beside banks runs that of a channel, arrays that of an NPU."""
    from pimloom.systems.serving.asked import kernel_of
    from pimloom.systems.serving.equal_asked import comparison_work, generation_work

    two = tmp_path / "two.yaml"
    two.write_text(TWO)
    pim, arrays = "examples/systems/pim_card.yaml", "examples/systems/hbm3_npu.yaml"
    names = (str(two), "gpu_a100", pim, "pim_gpt", arrays, "npu_only")
    kernels = [kernel_of([load_system(name)]) for name in names]
    assert kernels[:2] == [None, None] and kernels[2] is kernels[3] is not kernels[4] is kernels[5] is not None
    asked = Asked(system="gpu_a100", model="gpt2", generate=2, prompt=4, batch=1)
    assert generation_work(asked).kernel is None
    equal = {"batch": 1, "prompt": 4, "generate": 2, "chunk": 2048, "every": 1, "tp": 1}
    both = [comparison_work([*some], "gpt2", 1, False, **equal).kernel for some in (names[:2], names[1:4:2])]
    assert both == [None, kernels[3]]
