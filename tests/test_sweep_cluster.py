"""A sweep on a cluster of Dask's own commands, with real points."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from psutil import Process  # type: ignore[import-untyped]

from pimloom.sweeping.crew.cluster import QUIET, _local_cluster
from pimloom.sweeping.store.all_rows import open_store
from pimloom.sweeping.table import open_table
from tests.sweep_place import LONG_S, SWEEP, VOLATILE, port, same, wait


@pytest.mark.slow
def test_real_cluster_of_commands(tmp_path: Path) -> None:
    """`dask scheduler` and `dask worker` with its nanny, real points; a worker and the scheduler are killed."""
    at, processes = port(), list[subprocess.Popen[bytes]]()
    text = SWEEP.replace("gpt2", "config.json").replace("generate: 1", "generate: 64").replace("[4, 8]", "[2, 4, 8]")
    (tmp_path / "s.yaml").write_text(text % 10_000)
    shape = {"n_layer": 2, "n_embd": 256, "n_head": 4, "n_positions": 256, "vocab_size": 1000}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", **shape}))
    err = tmp_path / "err"

    def start(*words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", *map(str, words)]
        with (err if words[0] == "pimloom" else Path(os.devnull)).open("w") as file:
            processes.append(subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file))
        return processes[-1]

    def scheduler() -> subprocess.Popen[bytes]:
        return start("dask", "scheduler", "--host", "127.0.0.1", "--port", at, "--no-dashboard")

    def worker() -> subprocess.Popen[bytes]:
        return start("dask", "worker", f"tcp://127.0.0.1:{at}", "--nthreads", 1, "--no-dashboard")

    def keys() -> set[str]:
        return open_store(tmp_path / "s").keys()

    try:
        first, _ = scheduler(), worker()
        sweep = start("pimloom", "sweep", "s.yaml", "--scheduler", f"tcp://127.0.0.1:{at}")
        wait(keys)
        for pid in _below(processes[1].pid):
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)  # the nanny starts another one
        kept = len(keys())
        wait(lambda: len(keys()) > kept)
        first.kill()
        wait(lambda: "the scheduler is lost" in err.read_text())
        scheduler(), worker()
        assert sweep.wait(LONG_S) == 0, err.read_text()
        table = open_table(tmp_path / "s").table.frame
        assert len(table) == 300 and table["error"].isna().all()
        code = [sys.executable, "-m", "pimloom", "sweep", "s.yaml", "--out", "whole", "--quiet"]
        subprocess.run(code, cwd=tmp_path, check=True)
        same(table.drop(columns=VOLATILE), open_table(tmp_path / "whole").table.frame.drop(columns=VOLATILE))
    finally:
        for process in processes:
            for pid in _below(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait()


def _below(pid: int) -> list[int]:
    """A process's children, and theirs."""
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return children + [one for child in children for one in _below(child)]


def test_without_a_scheduler_nobody_else_can_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """And Dask's settings for TLS change nothing, as all is in this process."""
    monkeypatch.setattr("pimloom.sweeping.crew.cluster.QUIET", QUIET | {"distributed.comm.require-encryption": True})
    before = _listening()
    with _local_cluster(1) as cluster:
        added = _listening() - before
        assert cluster.scheduler_address.startswith("inproc://")
        assert {ip for ip, _ in added} == {"127.0.0.1"}
        for ip, number in added:
            with closing(HTTPConnection(ip, number, timeout=10)) as asked:
                for page in ("/", "/info/main/workers.html", "/health", "/json/counts.json", "/status"):
                    asked.request("GET", page)
                    answer = asked.getresponse()
                    assert answer.status == 404 and answer.read() is not None


def _listening() -> set[tuple[str, int]]:
    return {tuple(each.laddr) for each in Process().net_connections() if each.status == "LISTEN"}
