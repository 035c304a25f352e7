"""The porch: what it says when the engine is compiled first."""

from types import SimpleNamespace

from pimloom.running import COMPILING, progress_bar


def test_a_first_run_says_that_it_compiles_terminal_or_not(capsys):
    """A stand-in for a kernel whose cache on disk is empty or not."""
    for kept, quiet, said in (({}, False, f"{COMPILING}\n"), ({}, True, ""), ({"x": 1}, False, "")):
        file = SimpleNamespace(_load_index=lambda kept=kept: kept)
        kernel = SimpleNamespace(_cache=SimpleNamespace(_cache_file=file))
        with progress_bar("title", quiet, kernel):
            pass
        assert capsys.readouterr().err == said
