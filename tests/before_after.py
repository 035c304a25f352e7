"""What pimloom computes, recorded before a change and compared after it, byte for byte but for versions and wall times.

    python -m tests.before_after record before --studies pim-gpt,infinitehbd
    ... change the code ...
    python -m tests.before_after record after --studies pim-gpt,infinitehbd
    python -m tests.before_after compare before after

A record has the tables and `results.json` of the studies asked for, the table of a sweep of a thousand points, and of
runs of all commands what they print as JSON, every file that they write, and the sentence of those that are refused.
"""

import argparse
import csv
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.command import call

STUDIES = ("pim-gpt", "neupims", "rtl", "infinitehbd")
PASSING = ("version", "wall_s", "requests_per_s", "seconds", "code_digest")  # fields of JSON that may differ
PASSING_COLUMNS = (*PASSING, "point", "base_digest", "host", "finished_utc")  # and columns of tables
FIELD = re.compile(rf'("(?:{"|".join(PASSING)})": )("[^"]*"|[-+.\deE]+)')
MOST_SHOWN = 20

SWEEP = """\
system: pim_gpt
workload: {model: gpt2, generate: 128}
axes:
  dram.channels: [4, 8, 12, 16]
  npu.clock_mhz: {from: 100, to: 1060, step: 40}
  dram.timing.tCCD_L: {from: 1, to: 2.8, step: 0.2, unit: ns}
constraints: ["power_w < 75"]
objectives: {tokens_per_s: max, energy_per_token_j: min}
"""
INPUTS = {
    "sweep.yaml": SWEEP,
    "contexts.csv": "seq_len\n8\n300\n77\n1024\n513\n64\n901\n18\n",
    "placed.csv": "seq_len,ch_idx\n128,0\n640,3\n300,3\n77,31\n",
    "arrivals.csv": "timestamp,prompt_tokens,output_tokens\n"
    + "".join(f"{0.002 * n:.3f},{20 + 37 * n % 300},{3 + n % 7}\n" for n in range(40)),
    "cycles.trc": "".join(f"0x{(n * 7919 % 4096) * 64:X} {'WRITE' if n % 3 else 'READ'} {5 * n}\n" for n in range(900)),
    "loads.trc": "".join(f"{'LD' if n % 4 else 'ST'} 0x{(n * 104729 % 65536) * 64:x}\n" for n in range(900)),
}
NPU = "--model gpt3-7b --layers 2"
RUNS = f"""\
list
explain
explain dram.timing.tCCD_L
explain faults
explain ddr5
rtl list
run pim_gpt --model gpt2 --generate 96 --check --timeline timeline.json --window 3:40
run pim_gpt --model gpt2-medium --prompt 130 --generate 9 --set dram.channels=4 --set npu.clock_mhz=333
run pim_gpt --model gpt2 --generate 40 --set dram.timing.tRFC=455ns --seed 7
run pim_gpt --model gpt2 --generate 20 --set dram.part=gddr6_aim
run t4 --model gpt2-xl --generate 64 --prompt 64
run xeon_6154 --model gpt3-small --generate 32
run gpu_a100 --model llama-3-8b --prompt 200 --generate 7
run gpu_a100 {NPU} --requests alpaca --batch 16 --tp 2
run gpu_a100 --model gpt3-7b --requests ../arrivals.csv --batch 6 --iterations 30
run neupims {NPU} --requests ../contexts.csv
run neupims {NPU} --requests sharegpt --batch 40 --tp 4 --seed 3
run neupims {NPU} --requests ../contexts.csv --fidelity released
run neupims {NPU} --requests ../contexts.csv --tp 4 --fidelity released --set interleave.sub_batches=1
run neupims --model gpt3-7b --requests alpaca --batch 24 --tp 4 --pp 2 --layers 4
run neupims {NPU} --tp 4 --requests ../arrivals.csv --batch 12 --iterations 40 --every 20 --policy round-robin
run npu_pim {NPU} --requests ../contexts.csv
run npu_pim {NPU} --tp 4 --requests ../contexts.csv --fidelity released
run npu_pim --model llama-3-8b --layers 1 --requests ../placed.csv --tp 8
run npu_only {NPU} --requests ../contexts.csv --tp 4
run npu_only {NPU} --requests sharegpt --batch 20 --tp 4 --seed 1
run neupims {NPU} --generate 5
run pim_gpt --model llama-3-8b --generate 5
trace ddr4_3200 ../cycles.trc --idle 100 --commands commands.csv --request-log log.csv
trace hbm2 --pattern random --requests 2000 --seed 5 --timeline timeline.json --window 0:900
trace lpddr5_6400 --pattern mixed --requests 2000 --channels 2 --mapping row,bank,column,bank_group,channel
trace ddr5 --pattern hazard --requests 2000 --set controller.page=closed --set dram.timing.tRFC=350ns
trace gddr6_16000 ../loads.trc --controller ramulator2 --commands commands.csv
trace ddr4_2400 --pattern strided --stride 4096 --requests 1500 --controller dramsim3
trace hbm3_6400 --pattern sparse --requests 500 --gap 40
trace ddr4_3200 --pattern nothing
fabric waste --gpus 960 --tp 16,32 --draws 3 --csv rows.csv
fabric waste --arch infinitehbd-k3,nvl72 --fault-ratio 0:0.1:0.05 --draws 20 --job-gpus 2048 --figure figure.svg
fabric cost --set ocstrx.usd=500 --csv rows.csv --figure figure.svg
fabric cost --parts
fabric cost --gpu-usd 30000 --fault-ratio 0.02,0.05 --draws 10
fabric mfu --model llama-3.1-405b --gpus 1024,8192 --csv rows.csv --figure figure.svg
fabric mfu --model llama-3.1-405b --gpus 1024 --sensitivity
fabric switch --events ../events.yaml --timeline timeline.json --csv rows.csv
fabric place --nodes 240 --tp 32 --job-gpus 800 --faulty 17,103-105 --figure rings.svg --csv rows.csv
fabric place --nodes 48 --tp 16 --job-gpus 96 --fault-ratio 0.1 --seed 4 --algorithm aligned --optimum
fabric faults --synthesise trace.json --servers 100 --seed 1 --csv rows.csv
"""


def record(folder: Path, studies: Sequence[str]) -> None:
    """Fill an empty folder with a record. Raises FileExistsError if it is there."""
    folder.mkdir(parents=True)
    here = Path.cwd()
    for name, text in inputs(here).items():
        (folder / name).write_text(text, encoding="utf-8")
    for number, line in enumerate(RUNS.splitlines()):
        place = folder / f"run{number:02d}"
        place.mkdir()
        os.chdir(place)
        began, done = time.perf_counter(), call(*line.split(), "--json", "-")
        os.chdir(here)
        said = f"pimloom {line}\nexit code {done.code}\n{done.err}"
        (place / "said.txt").write_text(said, encoding="utf-8")
        (place / "out.json").write_text(done.out, encoding="utf-8")
        print(f"{time.perf_counter() - began:7.1f} s  {done.code}  {line}", flush=True)
    swept = folder / "swept"
    _must("sweep", folder / "sweep.yaml", "--out", swept, "--quiet")
    _must("sweep", "export", swept, "--csv", folder / "sweep.csv")
    for study in studies:
        _must("report", study, "--out", folder / study, "--quiet")


def inputs(repository: Path) -> dict[str, str]:
    """Names and texts of the files that the runs read."""
    events = (repository / "examples" / "ocs_events.yaml").read_text(encoding="utf-8")
    return INPUTS | {"events.yaml": events}


def _must(*arguments: str | Path) -> None:
    began, done = time.perf_counter(), call(*arguments)
    print(f"{time.perf_counter() - began:7.1f} s  {done.code}  {' '.join(map(str, arguments))}", flush=True)
    if done.code:
        sys.exit(done.err)


def differences(before: Path, after: Path) -> Iterator[str]:
    """A sentence for each file of two records that is in one only, or says other things."""
    there, here = (dict(_kept(folder)) for folder in (before, after))
    for name in sorted(there.keys() | here.keys()):
        if name not in here or name not in there:
            yield f"{name}: only in {before if name in there else after}"
        elif (old := lasting(there[name])) != (new := lasting(here[name])):
            yield f"{name}: {first_difference(old, new)}"


def _kept(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a record that can be compared: no folders of sweeps, no pages."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.parts[0] != "swept" and path.suffix != ".html":
            yield name.as_posix(), path


def lasting(path: Path) -> str:
    """The text of a file without what differs from run to run: versions, wall times, digests of the code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return FIELD.sub(r"\1null", text)
    if path.suffix == ".csv":
        rows = list(csv.reader(text.splitlines()))
        stay = [place for place, name in enumerate(rows[0] if rows else []) if name not in PASSING_COLUMNS]
        return "\n".join(",".join(row[place] for place in stay) for row in rows)
    return text


def first_difference(old: str, new: str) -> str:
    """Where two texts part: the line, and both of them around the place."""
    lines = zip(old.splitlines(), new.splitlines(), strict=False)
    for number, (one, other) in enumerate(lines, start=1):
        if one != other:
            at = max(len(os.path.commonprefix((one, other))) - MOST_SHOWN, 0)
            end = at + 3 * MOST_SHOWN
            return f"line {number}: {one[at:end]!r} became {other[at:end]!r}"
    return f"{len(old)} characters became {len(new)}"


def main() -> None:
    """`record DIR [--studies NAME,NAME]` or `compare DIR DIR`; exit code 1 if the two differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.before_after", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="run everything and keep what came out")
    recorder.add_argument("folder", type=Path)
    recorder.add_argument("--studies", default="", help=f"any of {', '.join(STUDIES)}; a long time each")
    comparer = commands.add_parser("compare", help="say what differs between two records")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    asked = parser.parse_args()
    if asked.command == "record":
        studies = [name for name in asked.studies.split(",") if name]
        if unknown := set(studies) - set(STUDIES):
            parser.error(f"no such study: {', '.join(sorted(unknown))}; known: {', '.join(STUDIES)}")
        record(asked.folder, studies)
        return
    found = list(differences(asked.before, asked.after))
    print("\n".join(found) or "nothing differs")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
