"""Files that users give: compressed, too large, too deep, pipes, and arrays whose header is not true."""

import gzip
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from pimloom.arch import compressed, inputs
from pimloom.arch.document import LARGEST_BYTES, read_text
from pimloom.arch.error import UserError
from pimloom.arch.load import JSON_BYTES, load_json, load_tree
from pimloom.arch.scalar import DEEPEST
from pimloom.arch.units import MIB
from pimloom.cycle_sim.pim_math import LANES
from pimloom.systems.fabric.faults.events import read_faults
from pimloom.systems.memory.aim.data import _host
from pimloom.workload.requests.read import read
from tests.command import ENVIRONMENT, PIMLOOM, call

PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}
CSV = "timestamp,prompt_tokens,output_tokens\n0,8,4\n1,9,5\n"
TALK = [{"conversations": [{"from": "human", "value": "a" * 9}, {"from": "gpt", "value": "b" * 5}]}]
LINES = '{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [1]}\n'
FAULT = {"node_id": "a", "event_type": "fault_start", "fault_type": {"Level": "L", "Class": "C", "Desc": "D"}}
FAULTS = [{**FAULT, "event_time": 0.5}, {**FAULT, "event_time": 1.5, "event_type": "fault_end"}]


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("named", [True, False], ids=["suffix", "first bytes"])
def test_compressed_files_are_read_as_they_are(tmp_path, packed, named):
    """Requests, conversations, faults, a model: whatever reads text."""
    texts = {"a.csv": CSV, "b.json": json.dumps(TALK), "c.jsonl": LINES, "d.json": json.dumps(FAULTS)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        folder = tmp_path / "packed"
        folder.mkdir(exist_ok=True)
        path = folder / (name + packed if named else name)
        path.write_bytes(PACKED[packed](text.encode()))
        how: Callable[[Path], object] = read_faults if name[0] == "d" else read
        plain, found = how(tmp_path / name), how(path)
        assert repr(plain).replace(f"'{name}'", "") == repr(found).replace(f"'{path.name}'", "")


@pytest.mark.parametrize("packed", PACKED)
def test_serve_and_run_take_compressed_traces(tmp_path, packed):
    (tmp_path / f"t.csv{packed}").write_bytes(PACKED[packed](CSV.encode()))
    (tmp_path / "t.csv").write_text(CSV)
    found = []
    for name in ("t.csv", f"t.csv{packed}"):
        served = call("serve", "gpu_a100", "--model", "gpt2", "--trace", tmp_path / name, "--json", "-", "-q")
        batch = ("--requests", tmp_path / name, "--batch", "2", "--iterations", "2")
        ran = call("run", "gpu_a100", "--model", "gpt2", *batch, "--json", "-", "-q")
        assert (served.code, ran.code) == (0, 0), served.err + ran.err
        found.append((json.loads(served.out)["latency_s"], json.loads(ran.out)["time_s"]))
    assert found[0] == found[1]


@pytest.mark.parametrize("packed", PACKED)
def test_a_bomb_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch, packed):
    """Of a text by the size that it may have; of a memory trace, which may be of any size, by its growth."""
    bomb = tmp_path / f"bomb{packed}"
    bomb.write_bytes(PACKED[packed](b"0" * (40 * MIB)))
    with pytest.raises(UserError, match=r"bomb\.\w+: is larger than 256 KiB, the most that is read; leave out"):
        read_text(bomb)
    monkeypatch.setattr(compressed, "LEAST_BOMB_BYTES", 30 * MIB)
    monkeypatch.setattr(compressed, "MOST_GROWTH", 100)
    read_bytes = 0
    with pytest.raises(UserError, match=r"bomb\.\w+: grows more than 100-fold when it is decompressed; decompress it"):
        for block in compressed.read_blocks(bomb):
            read_bytes += len(block)
    assert 20 * MIB < read_bytes <= 30 * MIB


LARGE: dict[str, tuple[tuple[str, ...], str, str]] = {
    "system": (("run", "FILE.yaml", "--model", "gpt2"), "name: x\n" + "# a\n" * LARGEST_BYTES, "256 KiB"),
    "sweep": (("sweep", "FILE.yaml", "-q"), "name: x\n" + "# a\n" * MIB, "1 MiB"),
    "model": (("run", "gpu_a100", "--model", "FILE.json"), " " * (JSON_BYTES + 1), "32 MiB"),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_file_that_is_too_large_is_one_sentence_at_once(tmp_path, kind):
    command, text, most = LARGE[kind]
    file = tmp_path / next(word for word in command if "FILE" in word)
    file.write_text(text)
    began = time.process_time()
    done = call(*(str(file) if "FILE" in word else word for word in command))
    assert done.code == 2 and f"{file}: is larger than {most}" in done.err and done.err.count("\n") == 1
    assert time.process_time() - began < 2


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_has_a_limit(tmp_path, opening):
    closing = {"[": "]", '{"a":': "}"}[opening]
    loads: dict[str, Callable[[Path], object]] = {"yaml": load_tree, "json": load_json}
    for suffix, load in loads.items():
        for levels, fine in ((DEEPEST, True), (DEEPEST + 1, False), (900, False), (5_000, False)):
            (file := tmp_path / f"x.{suffix}").write_text(opening * levels + "1" + closing * levels)
            if fine:
                load(file)
                continue
            with pytest.raises(UserError, match="nested too deeply"):
                load(file)


ODD = ('{"a":1,"a":2}', '{"b":[{"a":1,"a":2}]}', "[NaN]", "[-Infinity]", "[1e999]", "[1E+9999]", f"[{'9' * 400}.0]")


@pytest.mark.parametrize("text", ODD)
def test_what_the_json_module_lets_pass_is_still_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UserError, match=r"x.json:1: (duplicate key 'a', first on line 1|expected a finite number)"):
        load_json(tmp_path / "x.json")


def test_many_keys_take_seconds_not_minutes(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({f"key{i}": i for i in range(100_000)}))
    began = time.process_time()
    assert len(load_json(tmp_path / "x.json")) == 100_000 and time.process_time() - began < 1


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_in_silence(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(inputs, "PATIENCE_MS", 20)
    os.mkfifo(tmp_path / "p")

    def write() -> None:
        time.sleep(0.2)
        (tmp_path / "p").write_text(CSV)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_text(tmp_path / "p") == CSV
    writer.join()
    said = f"pimloom: note: {tmp_path / 'p'} is an empty pipe; waiting for a program that writes to it\n"
    assert capfd.readouterr().err == said


def test_pipes_without_a_name_are_read_as_they_are_filled(tmp_path):
    """Slowly: nothing is said, and the first bytes may lack."""
    slow = f"(sleep 0.7; cat {tmp_path / 't'}) | {' '.join(PIMLOOM)} trace ddr4 - --json - -q"
    (tmp_path / "t").write_text("0x0 READ 0\n0x40 WRITE 1\n")
    done = subprocess.run(slow, shell=True, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["reads"] == 1 and not done.stderr


def test_a_pipe_that_is_looked_at_and_read_is_read_once(tmp_path):
    (tmp_path / "t").write_text(CSV)
    command = " ".join([*PIMLOOM, "run gpu_a100 --model gpt2 --batch 2 --iterations 2 -q --json - --requests"])
    words = ["bash", "-c", f"{command} <(cat {tmp_path / 't'})"]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["batch"] == 2, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("trace", "ddr4", "PIPE"),
        ("serve", "gpu_a100", "--model", "gpt2", "--trace", "PIPE"),
        ("run", "PIPE.yaml", "--model", "gpt2"),
        ("run", "gpu_a100", "--model", "PIPE.json"),
        ("aim", "PIPE"),
    ],
    ids=" ".join,
)
def test_every_command_says_that_it_waits_for_a_pipe(tmp_path, command):
    pipe = tmp_path / next(word for word in command if "PIPE" in word)
    os.mkfifo(pipe)
    words = [str(pipe) if "PIPE" in word else word for word in command]
    with subprocess.Popen([*PIMLOOM, *words], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        said = process.stderr.readline()
        process.terminate()
    assert said == f"pimloom: note: {pipe} is an empty pipe; waiting for a program that writes to it\n"


def npy(header: str, content: bytes = b"", version: bytes = b"\1\0", magic: bytes = b"\x93NUMPY") -> bytes:
    return magic + version + len(header).to_bytes(2 if version == b"\1\0" else 4, "little") + header.encode() + content


def described(descr: str = "'<f4'", order: object = False, shape: str = "(2, 16)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


ROWS = bytes(2 * LANES * 4)
WRONG = {
    "empty": b"",
    "magic only": b"\x93NUMPY",
    "no header": npy("", ROWS),
    "cut header": npy(described())[:30],
    "text": b"1,2,3\n",
    "not a dictionary": npy("[1, 2]\n", ROWS),
    "deep": npy("(" * 5000 + ")" * 5000, ROWS),
    "unknown version": npy(described(), ROWS, version=b"\7\0"),
    "unknown type": npy(described("'<q99'"), ROWS),
    "objects": npy(described("'|O'"), b"cos\nsystem\n(S'true'\ntR."),
    "texts": npy(described("'<U4'"), ROWS),
    "records": npy(described("[('a', '<f4')]"), ROWS),
    "complex": npy(described("'<c8'"), 2 * ROWS),
    "one dimension": npy(described(shape="(32,)"), ROWS),
    "no dimension": npy(described(shape="()"), ROWS),
    "other width": npy(described(shape="(4, 8)"), ROWS),
    "negative": npy(described(shape="(-2, 16)"), ROWS),
    "fractions": npy(described(shape="(2.0, 16)"), ROWS),
    "too few": npy(described(shape="(3, 16)"), ROWS),
    "too many": npy(described(shape="(1, 16)"), ROWS),
    "far too few": npy(described(shape=f"({10**18}, 16)"), ROWS),
    "beyond 64 bits": npy(described(shape=f"({10**30}, 16)"), ROWS),
    "wider than said": npy(described("'<f8'"), ROWS),
}


@pytest.mark.parametrize("kind", WRONG)
def test_an_array_whose_header_is_not_true_is_one_sentence(tmp_path, kind):
    (file := tmp_path / "x.npy").write_bytes(WRONG[kind])
    with pytest.raises(UserError, match=r"^--data .*x\.npy: .*expected a .npy file of numbers\[n, 16\]") as error:
        _host(file)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300 + len(str(file))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f4", ">f4", "<f2", "<i8", "u1"])
def test_an_array_is_as_numpy_reads_it(tmp_path, order, kind):
    array = np.arange(3 * LANES).reshape(3, LANES).astype(kind, order=order)
    np.save(tmp_path / "x.npy", array)
    assert np.array_equal(_host(tmp_path / "x.npy"), array) and _host(tmp_path / "x.npy").dtype == array.dtype
    np.save(tmp_path / "none.npy", array[:0])
    assert _host(tmp_path / "none.npy").shape == (0, LANES)
