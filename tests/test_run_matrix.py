"""`pimloom.run` is `pimloom run`: every system with every kind of workload, the same result or the same refusal."""

import json
from typing import Any

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.system import list_names
from tests.command import call

WORKLOADS: dict[str, dict[str, Any]] = {
    "generate": {"generate": 2},
    "prompt": {"prompt": 6, "generate": 3},
    "batch": {"prompt": 5, "generate": 2, "batch": 3, "chunk": 4, "every": 2, "tp": 2},
    "list": {"requests": "list.csv"},
    "trace": {"requests": "trace.csv", "batch": 1, "iterations": 3},
    "many": {"requests": "trace.csv", "batch": 2, "iterations": 3, "every": 2, "tp": 2, "seed": 3},
}
SMALL = {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 8, "n_positions": 1024, "vocab_size": 2000}
FILES = {
    "config.json": json.dumps(SMALL),  # AttAcc's eight GPUs share its heads, too
    "list.csv": "seq_len\n9\n30\n",
    "trace.csv": "timestamp,prompt_tokens,output_tokens\n0,4,3\n0.0001,7,2\n",
}


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("system", list_names("systems"))
def test_the_api_is_the_command(system, workload, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    options = WORKLOADS[workload]
    said = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = call("run", system, "--model", "config.json", *said, "--json", "-")
    try:
        found = pimloom.run(system, model="config.json", **options).as_dict()
    except UserError as refused:
        assert done.code == 2 and done.out == "" and done.err.strip().startswith("pimloom: ")
        words = done.err.strip().removeprefix("pimloom: ").replace("--", "")
        assert words.split()[-3:] == str(refused).replace("--", "").split()[-3:]
    else:
        assert done.code == 0, done.err
        said_of, told = json.loads(done.out), json.loads(json.dumps(found))
        for result in (said_of, told):
            result.pop("wall_s", None)  # how long it took here
        assert said_of == told
