"""The porch: what it imports, how little its help needs, and what it says when the engine is compiled first."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from pimloom.arch.version import __version__
from pimloom.cycle_sim.compiled import library

SLOW = ("numba", "numpy", "matplotlib", "pandas", "msgspec", "yaml", "rich")
OURS = 21  # modules, each of which takes some 0.5 ms
MODULES = """
import sys
sys.argv = ["pimloom", *sys.argv[1:]]
from pimloom.__main__ import run
try:
    run()
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


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("main()", 0, "pimloom {version}\n"),
        ("sys.argv[1] = 'trce'; main()", 2, ""),
        ("sys.stderr = None; main()", 0, "pimloom {version}\n"),
        ("with suppress(SystemExit): run()\nsys.exit(7)", 7, "pimloom {version}\n"),
        ("sys.setprofile(lambda *_: None)\nwith suppress(SystemExit): main()\nsys.exit(7)", 7, "pimloom {version}\n"),
    ],
)
def test_a_process_ends_with_its_code(text, code, said):
    begin = "import sys\nfrom contextlib import suppress\nfrom pimloom.__main__ import main, run\n"
    ran = subprocess.run([sys.executable, "-c", begin + text, "--version"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (code, said.format(version=__version__))


def test_a_profile_of_a_command_is_written():
    command = [sys.executable, "-m", "cProfile", "-m", "pimloom", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "function calls" in ran.stdout and not ran.stderr


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


NEVER = {"asyncio", "concurrent", "logging", "matplotlib", "numba", "pandas", "rich", "scipy", "yaml", "zstandard"}
QUICK = {  # what a command does without, beside NEVER
    ("list", "--json", "-"): {"numpy", "pimloom.arch.system", "pimloom.arch.yaml_text"},
    ("run", "pim_gpt", "-q", "--model", "gpt2", "--generate", "1", "--set", "npu.clock_mhz=500"): {
        "pimloom.arch.yaml_text", "pimloom.arch.aim_file", "pimloom.arch.composition_load",
    },
    ("trace", "hbm2_2000", "-q", "--channels", "8", "--controller", "dramsim3", "--pattern", "random", "--requests=2"):
        {"pimloom.arch.system", "pimloom.arch.llm", "pimloom.arch.yaml_text"},
}  # fmt: skip


@pytest.mark.parametrize("command", QUICK, ids=lambda command: command[0])
def test_a_command_imports_no_library_that_it_does_without(command):
    """Without its table, once its files were composed."""
    modules(*command)
    found = modules(*command)
    unused = {name for name in found for other in NEVER | QUICK[command] if f"{name}.".startswith(f"{other}.")}
    assert f"pimloom.commands.{'catalogue' if command[0] == 'list' else command[0]}" in found and not unused


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


def test_a_kernel_that_is_not_there_is_compiled_once_and_it_is_said(tmp_path):
    """Without a terminal, too. A small one is not there: compiled it is as all others are."""
    missing = ["pimloom.cycle_sim.advance:refresh_until"]
    own = shutil.copytree(library.kept_in(), tmp_path / "kernels", ignore=shutil.ignore_patterns("*.lock", "tmp*"))
    for name, _, *kinds in library.listed():
        if name in missing:
            (own / library.place(name, kinds).name).unlink()
    command = [sys.executable, "-m", "pimloom", "run", "pim_gpt", "--model", "gpt2", "--generate", "1", "--json", "-"]
    environment = os.environ | {"PIMLOOM_CACHE": str(tmp_path), "PIMLOOM_KERNELS": ""}
    said = []
    for _ in range(2):
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        said.append(re.findall(r"^pimloom: note: compiling (\S+) once", ran.stderr, re.MULTILINE))
    assert [sorted(names) for names in said] == [[name.removeprefix("pimloom.") for name in missing], []]
