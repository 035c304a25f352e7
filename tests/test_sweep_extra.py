"""Sweeps without the libraries that only they need."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
from importlib import abc

class Without(abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {gone!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {gone!r} else real(name, package)
sys.meta_path.insert(0, Without())
from pimloom.cli import main
for words in {commands!r}:
    sys.argv = ["pimloom", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""
EXTRA = ("pyarrow", "distributed", "dask", "optuna", "lark", "SALib", "plotly", "itables")


def call(gone: tuple[str, ...], *commands: str) -> tuple[int, str, str]:
    program = WITHOUT.format(gone=gone, commands=[command.split() for command in commands])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("missing", ["pyarrow", "plotly"])
def test_a_missing_library_is_named_with_the_extra_that_has_it(missing: str, tmp_path: object) -> None:
    sentence = f"pimloom: {missing} is missing; install it with: pip install 'pimloom[sweep]'\n"
    assert call((missing,), f"sweep run examples/sweep.yaml --out {tmp_path}/designs") == (2, "", sentence)


def test_all_else_goes_without_them() -> None:
    one, two = "run pim_gpt --model gpt2 --generate 2", "compare pim_gpt,npu_only --model gpt2 --prompt 4 --generate 2"
    code, out, said = call(EXTRA, one, "sweep --help", two)
    assert (code, said) == (0, "")
    assert "gpt2" in out and "Usage: pimloom sweep" in out and "npu_only" in out
