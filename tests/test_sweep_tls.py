"""A scheduler that speaks TLS only, with the settings that docs/sweep.md gives."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.command import ENVIRONMENT
from tests.sweep_place import port

SCRIPTS = Path(sysconfig.get_path("scripts"))
DOCS = Path(__file__).parent.parent / "docs" / "sweep.md"
SWEEP = """
system: pim_gpt
workload: {model: gpt2, generate: 1}
axes: {npu.clock_mhz: [500, 1000]}
"""


def settings() -> dict[str, str]:
    """The variables of the documentation's block on TLS."""
    block = next(block for block in DOCS.read_text().split("```") if "--protocol tls" in block)
    return dict(re.findall(r"(DASK\w+)=(\S+)", block))


@pytest.mark.slow
def test_a_sweep_goes_through_a_scheduler_with_tls_and_not_without_a_certificate(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl for a certificate")
    key = ("-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem")
    made = ("openssl", "req", "-x509", *key, "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost")
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    shutil.copy(tmp_path / "cert.pem", tmp_path / "ca.pem")
    (tmp_path / "s.yaml").write_text(SWEEP)
    free, tls = str(port()), ENVIRONMENT | settings()
    assert len(settings()) == 8
    at = f"tls://127.0.0.1:{free}"
    commands = (
        ["scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", free, "--no-dashboard"],
        ["worker", at, "--nthreads", "1", "--nworkers", "1", "--no-dashboard"],
    )
    started = [
        subprocess.Popen([SCRIPTS / "dask", *words], cwd=tmp_path, env=tls, stderr=subprocess.DEVNULL)
        for words in commands
    ]

    def sweep(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
        command = [str(SCRIPTS / "pimloom"), "sweep", "s.yaml", "--json", "-", "--quiet", *options]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    try:
        done = sweep(tls, "--scheduler", at)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["finished"] == 2
        for address in (at, f"tcp://127.0.0.1:{free}"):
            refused = sweep(dict(os.environ), "--scheduler", address, "--out", "other")
            assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused
    finally:
        for process in started[::-1]:
            process.terminate()
            process.communicate(timeout=60)
