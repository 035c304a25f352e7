"""Standard streams that are closed, full, or that nobody reads: one line at most, and the right exit code."""

import os
import subprocess

import pytest

from tests.command import ENVIRONMENT, PIMLOOM
from tests.slow import slow

CLOSED = "pimloom: cannot write the output: stdout is closed\n"
FULL = "pimloom: cannot write the output: No space left on device\n"
STREAMS = {  # shell redirection -> exit code and stderr of a command that works, and prints something
    ">&-": (2, CLOSED),
    ">/dev/full": (2, FULL),
    "| true": (0, ""),
    "2>/dev/full": (0, ""),
    "2>&-": (0, ""),
    ">&- 2>&-": (2, ""),
    ">/dev/full 2>/dev/full": (2, ""),
    "<&-": (0, ""),
    "<&- >&- 2>&-": (2, ""),
}
FEW = (">&-", "2>/dev/full", ">&- 2>&-", "<&-")  # in the quick suite, of a command that prints nothing on stdout
QUICK = ("list",)
WORKING = ("--help", "list --json -", "explain", "run --help", "--version", "rtl list", "fabric cost --arch all")
FAILING = ("nonsense", "list --nonsense", "explain nonsense", "sweep status /nowhere", "run t4 --model nonsense")
SLOW = (
    "run pim_gpt --model gpt2 --generate 1",
    "run gpu_a100 --model gpt3-7b --requests alpaca --batch 4 --json -",
    "trace ddr4 --pattern random --requests 100",
    "fabric waste --arch nvl72 --gpus 2880 --tp 32 --fault-ratio 0.01",
    "sweep status --help",
)


def shell(command, redirection):
    """Exit code of the command (not of what reads it), stdout, stderr."""
    wait = " | sh -c 'exec <&-; sleep 0.2'" if redirection == "| true" else ""
    line = f"{' '.join(PIMLOOM)} {command} {'' if wait else redirection}{wait}; echo ${{PIPESTATUS[0]}} >&3"
    ours, theirs = os.pipe()
    script = f"exec 3>&{theirs}; {line}"
    with os.fdopen(ours) as code:
        done = subprocess.run(
            ["bash", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, pass_fds=(theirs,), check=False
        )
        os.close(theirs)
        return int(code.read()), done.stdout, done.stderr


@pytest.mark.parametrize("redirection", STREAMS)
@pytest.mark.parametrize("command", [*QUICK, *(pytest.param(c, marks=pytest.mark.slow) for c in WORKING + SLOW)])
def test_a_command_that_works(command, redirection):
    code, err = STREAMS[redirection]
    found = shell(command, redirection)
    assert (found[0], found[2]) == (code, err)
    assert bool(found[1]) == (code == 0 and redirection != "| true")


@pytest.mark.parametrize("redirection", [each if each in FEW else slow(each) for each in STREAMS])
@pytest.mark.parametrize("command", ["nonsense", *(pytest.param(c, marks=pytest.mark.slow) for c in FAILING)])
def test_a_command_that_fails(command, redirection):
    code, out, err = shell(command, redirection)
    assert (code, out, err.count("\n")) == (2, "", 0 if "2>" in redirection else 1)


def test_a_file_does_not_become_stdout(tmp_path):
    """With stdout closed the first file that is opened would be descriptor 1, and be written what is printed."""
    code, _, err = shell(f"list --json {tmp_path / 'list.json'}", ">&-")
    assert (code, err) == (2, CLOSED)
    assert (tmp_path / "list.json").read_text().startswith("{")
    code, _, err = shell(f"run t4 --model gpt2 --generate 1 -q --json {tmp_path / 'run.json'}", ">&- 2>&-")
    assert (code, err) == (0, "") and (tmp_path / "run.json").read_text().startswith("{")
