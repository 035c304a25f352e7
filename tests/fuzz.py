"""What the fuzz tests share: small good files, odd values, ways to spoil a text, and the rule that all must keep."""

import gzip
import json
import random
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pimloom.arch.system import HERE
from tests.command import Done, call
from tests.foreign import INI, YAML

LIMIT_S = 4.0  # of one call; one that simulates longer was understood, and is given up

TINY = {"model_type": "gpt2", "n_layer": 1, "n_embd": 256, "n_head": 4, "n_positions": 256, "vocab_size": 1000}
SWEEP = """system: pim_gpt
workload: {model: config.json, generate: [1, 2]}
axes:
  npu.clock_mhz: {from: 500, to: 1000, step: 500}
  dram.timing.tCCD_L: [2 nCK, 3 nCK]
constraints: ["power_w < 75", "1 <= npu.clock_mhz < 2000"]
objectives: {tokens_per_s: max, energy_per_token_j: min}
method: grid
"""
FAULTY = {"Level": "Node", "Class": "Hardware", "Desc": "GPU"}
FAULTS = [
    {"node_id": "3", "event_time": 0.5, "event_type": "fault_start", "fault_type": FAULTY},
    {"node_id": "3", "event_time": 1.5, "event_type": "fault_end", "fault_type": FAULTY},
    {"node_id": "7", "event_time": 2.0, "event_type": "fault_start", "fault_type": FAULTY},
    {"node_id": "7", "event_time": 2.25, "event_type": "fault_end", "fault_type": FAULTY},
]
EVENTS = (HERE.parent / "examples" / "ocs_events.yaml").read_text()
LIBRARY = HERE / "parts"
FILES = {  # name -> text of a good file, small enough to be quick
    "config.json": json.dumps(TINY, indent=1),
    "part.yaml": (LIBRARY / "gddr6_pim_gpt.yaml").read_text(),
    "ddr4.yaml": (LIBRARY / "ddr4_3200.yaml").read_text(),
    "system.yaml": (HERE / "systems" / "pim_gpt.yaml").read_text().replace("part: gddr6_pim_gpt", "part: part.yaml"),
    "t4.yaml": (HERE / "systems" / "t4.yaml").read_text(),
    "npu.yaml": (HERE / "systems" / "neupims.yaml").read_text(),
    "ocs.yaml": (LIBRARY / "ocstrx.yaml").read_text(),
    "batch.csv": "seq_len,ch_idx\n64,0\n32,1\n100,2\n",
    "arrivals.csv": "timestamp,prompt_tokens,output_tokens\n0.0,5,3\n0.5,7,2\n1.5,3,4\n",
    "requests.trc": "0x0 READ 0\n0x40 WRITE 3\n0x1000 READ 9\n0x0 READ 20\n",
    "loads.trc": "LD 0x40\nST 0x80\n",
    "program.aim": "AiM WR_ABK 1 1 0\nAiM EOC\n",
    "dram.ini": INI,
    "ramulator.yaml": YAML,
    "events.yaml": EVENTS,
    "faults.json": json.dumps(FAULTS, indent=1),
    "sweep.yaml": SWEEP,
}
READ_BY = {  # what reads which file
    "config.json": [
        "run pim_gpt --model config.json --generate 1 --json out",
        "run t4 --model config.json --generate 1",
    ],
    "part.yaml": ["run system.yaml --model config.json --generate 1", "rtl emit timer --part part.yaml -o out"],
    "ddr4.yaml": ["trace ddr4.yaml requests.trc --json out"],
    "system.yaml": ["run system.yaml --model config.json --generate 1 --json out"],
    "t4.yaml": ["run t4.yaml --model config.json --generate 1 --json out"],
    "npu.yaml": ["run npu.yaml --model gpt3-7b --tp 4 --layers 1 --requests batch.csv --json out"],
    "ocs.yaml": ["fabric switch --part ocs.yaml --events events.yaml --json out"],
    "batch.csv": ["run npu_only --model gpt3-7b --tp 4 --layers 1 --requests batch.csv --json out"],
    "arrivals.csv": [
        "run gpu_a100 --model gpt3-7b --tp 4 --requests arrivals.csv --batch 2 --json out",
        "serve gpu_a100 --model config.json --trace arrivals.csv --json out",
    ],
    "requests.trc": ["trace ddr4 requests.trc --json out --commands log.csv"],
    "loads.trc": ["trace ddr4 loads.trc --json out"],
    "program.aim": ["aim program.aim --json out --commands log.csv"],
    "dram.ini": ["trace dram.ini requests.trc --json out"],
    "ramulator.yaml": ["trace ramulator.yaml loads.trc --json out"],
    "events.yaml": ["fabric switch --events events.yaml --json out --timeline line.json"],
    "faults.json": ["fabric faults --faults faults.json --json out"],
    "sweep.yaml": ["sweep run sweep.yaml --out out --scheduler tcp://127.0.0.1:1"],  # where none is: nothing simulates
}
NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "0.5", "-0.0", "1e-320", "1e309", "nan", "inf", "-inf", "9" * 30, "1_000", "0x10",
    "1e6", "2147483648", "٣", "true", "null", "~", '""', "[]", "{}",
)  # fmt: skip
TEXTS = (
    "", " ", ".", "/", "-", "--", "nowhere", "config.json", "a,b", ",", ":", "1:0", "0:0.1:-1", "a\nb", "\x1b[31m",
    "é💥", "x" * 5000, "[", "{", "'", "%s", "=", "a=b", "npu.clock_mhz=0", "npu.clock_mhz=nan", "dram.channels=3",
    "*", "&a", "!!python/object/apply:os.system [touch pwned]",
)  # fmt: skip


def write_files(folder: Path) -> None:
    """The good files."""
    for name, text in FILES.items():
        (folder / name).write_text(text)


class TookLong(BaseException):
    """A call was understood and simulates; nothing is said of it."""


@contextmanager
def limited(seconds: float = LIMIT_S) -> Iterator[None]:
    """Give up after so long."""

    def stop(*_: object) -> None:
        raise TookLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def tried(words: list[str]) -> Done | None:
    """What a command leaves behind; None if it took too long."""
    try:
        with limited():
            return call(*words)
    except TookLong:
        return None


def broken(done: Done, folder: Path, asked: str = "") -> str:
    """How a finished command breaks the rule; empty if it keeps it. Removes what it wrote. asked: a file that it was
    told to write and does not read."""
    written = {path.name for path in folder.iterdir()} - FILES.keys() - {"designs"}
    for name in written:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    changed = [name for name, text in FILES.items() if name != asked and (folder / name).read_text() != text]
    said = []
    if done.code not in (0, 2, 130):
        said.append(f"exit code {done.code}")
    if "Traceback" in done.err + done.out:
        said.append("a traceback")
    if done.code and done.err.count("\n") != 1:
        said.append(f"{done.err.count(chr(10))} lines on stderr")
    if any(not (c.isprintable() or c == "\n") for c in done.err):
        said.append("unprintable characters on stderr")
    if done.code and written:
        said.append(f"wrote {sorted(written)}")
    if half := [name for name in written if name.endswith(".part")]:
        said.append(f"left {half}")
    if changed:
        said.append(f"changed {changed}")
    return "; ".join(said) and f"{'; '.join(said)}: {done.err[:300]!r}"


def whole(path: Path) -> bool:
    """Whether a file that a command wrote is complete."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if data.startswith(b"{"):
        return bool(json.loads(data))
    return data.endswith(b"endmodule\n" if data.startswith(b"//") else b"\n")


NUMBER = re.compile(r"(?<![\w.])-?\d[\d.]*(?:e-?\d+)?(?![\w.])")
WORD = re.compile(r"[A-Za-z_]\w+")


def spoiled(text: str, chance: random.Random) -> str:
    """The text with one thing about it changed."""
    lines = text.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    numbers, words = list(NUMBER.finditer(text)), list(WORD.finditer(text))
    match chance.randrange(10):
        case 0:
            return "".join(lines[:at] + lines[at + 1 :])
        case 1:
            return "".join([*lines[: at + 1], *lines[at:]])
        case 2:
            return text[: chance.randrange(len(text))]
        case 3:
            place = chance.randrange(len(text))
            return text[:place] + chance.choice("\"'{}[]:,#&*!|>%@`\t\x00\ufeff💥 -") + text[place + 1 :]
        case 4 if words:
            word = chance.choice(words)
            return text[: word.start()] + chance.choice((*NUMBERS, *TEXTS[:12])) + text[word.end() :]
        case 5:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            return "".join(lines)
    if not numbers:
        return spoiled(text, chance)
    number = chance.choice(numbers)
    return text[: number.start()] + chance.choice(NUMBERS) + text[number.end() :]
