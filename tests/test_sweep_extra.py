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
sys.argv = ["pimloom", *{words!r}]
main()
"""
EXTRA = ("pyarrow", "distributed", "dask", "optuna", "lark", "SALib", "plotly", "itables")


def call(gone: tuple[str, ...], *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(gone=gone, words=words)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("missing", ["pyarrow", "plotly"])
def test_a_missing_library_is_named_with_the_extra_that_has_it(missing: str, tmp_path: object) -> None:
    sentence = f"pimloom: {missing} is missing; install it with: pip install 'pimloom[sweep]'\n"
    assert call((missing,), "sweep", "run", "examples/sweep.yaml", "--out", f"{tmp_path}/designs") == (2, "", sentence)


def test_all_else_goes_without_them() -> None:
    code, out, said = call(EXTRA, "run", "pim_gpt", "--model", "gpt2", "--generate", "2")
    assert (code, said) == (0, "") and "gpt2" in out
    assert call(EXTRA, "sweep", "--help")[0] == 0
    code, out, said = call(EXTRA, "compare", "pim_gpt,npu_only", "--model", "gpt2", "--prompt", "4", "--generate", "2")
    assert (code, said) == (0, "")
