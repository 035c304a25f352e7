"""Every kind of bad input: exit code 2, one line that names place and remedy, nothing printed, nothing written."""

import json
import os
import pty
import re
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from pimloom.arch.system import HERE
from pimloom.failing import say
from tests.command import ENVIRONMENT, PIMLOOM, Done, call, snapshot, spawn
from tests.slow import slow
from tests.sweep_place import wait

RUN = ("run", "pim_gpt", "--model", "gpt2", "--generate", "1")
GPU = ("run", "gpu_a100", "--model", "gpt2", "--prompt", "4", "--generate", "1")
INSTANT = ("--set", "peak_tflops=1e9", "--set", "memory_gb_s=1e9", "--set", "launch_us=0")
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 1, "n_positions": 1024}
DEEPSEEK = json.loads((Path(__file__).parent / "models" / "deepseek-v2-lite.json").read_text())
LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a system and a part of the user's own, good models and all kinds of bad files."""
    monkeypatch.chdir(tmp_path)
    part = (HERE / "parts/gddr6_pim_gpt.yaml").read_text()
    system = (HERE / "systems/pim_gpt.yaml").read_text().replace("part: gddr6_pim_gpt", "part: part.yaml")
    texts = {
        "part.yaml": part,
        "system.yaml": system,
        "not.yaml": "a: [1, 2\nb: 3\n",
        "empty.yaml": "",
        "list.yaml": "- 1\n",
        "unknown.yaml": system.replace("  adders:", "  adder: 3 # x\n  adders:"),
        "duplicate.yaml": system.replace("  channels: 8", "  channels: 8\n  channels: 8"),
        "typed.yaml": system.replace("refresh: true", "refresh: 3"),
        "kind.yaml": system.replace("kind: pim", "kind: pmi"),
        "bare.yaml": part.replace("tRP: 12 ns", "tRP: 12"),
        "negative.yaml": part.replace("tRP: 12 ns", "tRP: -12 ns"),
        "nan.yaml": part.replace("tRP: 12 ns", "tRP: .nan"),
        "missing.yaml": re.sub("  tRP: .*\n", "", part),
        "surplus.yaml": part.replace("  tRP:", "  tRQ: 1 ns # x\n  tRP:"),
        "capacity.yaml": part.replace("rows: 16384", "rows: 8192"),
        "gpt2.json": json.dumps(GPT2),
        "heads.json": json.dumps(GPT2 | {"n_head": 5}),
        "narrow.json": json.dumps(GPT2 | {"n_head": 8}),
        "long.json": json.dumps(GPT2 | {"n_embd": 2048, "n_head": 16, "n_layer": 24, "n_positions": 10_000}),
        "model_type.json": json.dumps(GPT2 | {"model_type": "gpt5"}),
        "nan.json": json.dumps(GPT2 | {"n_layer": float("nan")}),
        "text.json": json.dumps(GPT2 | {"n_layer": "1"}),
        "empty.json": "",
        "not.json": "{'a': 1}",
        "twice.json": '{"model_type": "gpt2",\n "n_embd": 64, "n_embd": 64}',
        "deepseek.json": json.dumps(DEEPSEEK),
        "swish.json": json.dumps(LLAMA | {"model_type": "llama", "hidden_act": "swish"}),
        "in_the_way": "a file",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("folder").mkdir()


def with_part(name: str) -> tuple[str, ...]:
    return *RUN, "--set", f"dram.part={name}"


def with_model(name: str, *more: str) -> tuple[str, ...]:
    return "run", "pim_gpt", "--model", name, *more


def with_set(*settings: str) -> tuple[str, ...]:
    return *RUN, *(word for setting in settings for word in ("--set", setting))


def with_system(name: str) -> tuple[str, ...]:
    return "run", name, "--model", "gpt2", "--generate", "1"


SYSTEMS = (
    "known systems: attacc, attacc_gpu, attacc_host, cent, duplex, gpu_a100, gpu_h100, neupims, npu_only, npu_pim, "
    "pim_gpt, t4, xeon_6154"
)
STUDIES = "known studies: attacc, cent, duplex, infinitehbd, neupims, peers, pim-gpt, rtl, serving"
PRESETS = (
    "presets: glam-143b, gpt2, gpt2-large, gpt2-medium, gpt2-xl, gpt3-13b, gpt3-175b, gpt3-30b, gpt3-7b, "
    "gpt3-large, gpt3-medium, gpt3-small, gpt3-xl"
)
WINDOW = "expected FROM:TO in µs with 0 <= FROM < TO, such as 0:20"
UNIT = "expected a time with its unit, such as 12 ns, got"
FITS = "there are 4,294,967,296: at most 9,216 tokens fit"
INT = "Invalid value for '--generate'"

BAD: list[tuple[tuple[str, ...], str]] = [
    # commands and options
    (("rnu",), "No such command 'rnu'."),
    (("run",), "Missing argument 'system'."),
    (("run", "pim_gpt"), "Missing option '--model'."),
    ((*RUN, "--bogus"), "No such option: --bogus"),
    (("list", "parts"), "Got unexpected extra argument(s) (parts)"),
    # files that are not there or not readable
    (with_system("none.yaml"), "none.yaml: no such file"),
    (with_system("folder/none.yml"), "folder/none.yml: no such file"),
    (with_part("none.yaml"), "none.yaml: no such file"),
    (with_model("none.json"), "none.json: no such file"),
    (with_model("folder"), "folder/config.json: no such file"),
    (with_model("none/config.json"), "none/config.json: no such file"),
    (with_system("empty.yaml"), "empty.yaml: the file is empty"),
    (with_model("empty.json"), "empty.json: the file is empty"),
    (with_system("not.yaml"), "not.yaml:2: not YAML: expected ',' or ']', but got ':'"),
    (with_system("list.yaml"), "list.yaml:1: at $: expected a mapping with key 'kind' (one of pim,"),
    (with_model("not.json"), "not.json:1: not JSON: Expecting property name enclosed in double quotes"),
    # YAML: keys, types, units
    (with_system("unknown.yaml"), "unknown.yaml:11: at $.npu: unknown key 'adder', expected one of clock_mhz, mult"),
    (with_system("duplicate.yaml"), "duplicate.yaml:7: at $.dram: duplicate key 'channels', first on line 6"),
    (with_system("typed.yaml"), "typed.yaml:7: at $.dram.refresh: expected true or false, got 3"),
    (with_system("kind.yaml"), "kind.yaml:3: at $.kind: expected one of pim, roofline, npu_pim, composed, cent"),
    (with_part("bare.yaml"), f"bare.yaml:27: at $.timing.tRP: {UNIT} 12"),
    (with_part("negative.yaml"), "negative.yaml:27: at $.timing.tRP: expected a time >= 0, got -12 ns"),
    (with_part("nan.yaml"), "nan.yaml:27: at $.timing.tRP: expected a finite number, got .nan"),
    (with_part("missing.yaml"), "missing.yaml: at $.timing: missing key tRP (PRE to ACT of the same bank)"),
    (with_part("surplus.yaml"), "surplus.yaml: at $.timing.tRQ: gddr6 has no such timing; it has nBL, nCL,"),
    (with_part("capacity.yaml"), "at $.organization.capacity_bytes: banks x rows x row make 268435456, not 536870912"),
    # names
    (with_system("pim-gpt"), f"unknown system 'pim-gpt'; nearest: pim_gpt; {SYSTEMS}"),
    (with_system("[red]x[/red]"), f"unknown system '[red]x[/red]'; {SYSTEMS}"),
    (with_part("gddr6_pimgpt"), "unknown part 'gddr6_pimgpt'; nearest: gddr6_pim_gpt"),
    (with_part("gddr6_14000"), "--set dram.part: expected a part with a PIM unit, such as gddr6_pim_gpt, got"),
    (with_model("gtp2-xl"), f"model 'gtp2-xl': no such preset or file; nearest: gpt2-xl, gpt3-xl; {PRESETS}"),
    (
        ("report", "pimgpt", "--out", "o"),
        f"unknown study 'pimgpt'; nearest: pim-gpt; {STUDIES}",
    ),
    (("report", "neupim", "--out", "o"), f"unknown study 'neupim'; nearest: neupims; {STUDIES}"),
    (("explain", "dram.timing.tCDD_L"), "no field 'dram.timing.tCDD_L'; nearest: dram.timing.tCCD_L"),
    # models
    (with_model("heads.json"), "at $.n_head: expected a divisor of n_embd = 64, such as 4 or 8, got 5"),
    (with_model("narrow.json"), "narrow: head_dim 8 must be a multiple of the 16 banks of a channel"),
    (with_model("model_type.json"), "at $.model_type: expected one of deepseek_v2, deepseek_v3, falcon, gemma"),
    (with_model("nan.json"), "nan.json: at $.n_layer: expected int from 1 to 2147483647, got NaN"),
    (with_model("text.json"), 'at $.n_layer: expected int from 1 to 2147483647, got "1"'),
    (with_model("twice.json"), "twice.json:2: duplicate key 'n_embd', first on line 2"),
    (with_model("deepseek.json"), "deepseek: PIM-GPT has no rule for a compressed cache (MLA): it would need products"),
    (with_model("swish.json"), "swish: PIM-GPT's ASIC has no unit for activation 'swish'; expected gelu, gelu_new, "),
    (
        with_model("long.json", "--generate", "10000"),
        f"long with 10,000 tokens needs 4,416,602,112 bytes of PIM memory, {FITS}",
    ),
    (with_model("gpt2", "--generate", "1025"), "--generate 1025: gpt2 has positions for 1,024 tokens; take fewer"),
    (("run", "t4", "--model", "gpt2", "--generate", "500000"), "gpt2 has positions for 1,024 tokens; take fewer"),
    # tokens
    ((*RUN, "--generate", "0"), "--generate: expected at least 1 token, got 0"),
    ((*RUN, "--generate", "-4"), "--generate: expected at least 1 token, got -4"),
    ((*RUN, "--generate", "1.5"), INT),
    ((*RUN, "--generate", "many"), INT),
    # --set
    (with_set("npu.clock_mhz"), "--set npu.clock_mhz: expected KEY=VALUE, such as npu.clock_mhz=500"),
    (with_set("=500"), "--set =500: expected KEY=VALUE"),
    (with_set("dram.chanels=4"), "--set dram.chanels: no such key in gddr6_pim_gpt.yaml; nearest: dram.channels, "),
    (with_set("npu.clock=500"), "--set npu.clock: no such key in pim_gpt.yaml; nearest: npu.clock_mhz"),
    (
        with_set("dram.timing.tRCDD=1 ns"),
        "--set dram.timing.tRCDD: no such key in gddr6_pim_gpt.yaml; nearest: dram.tim",
    ),
    (with_set("npu.clock_mhz=500", "npu.clock_mhz=500"), "--set npu.clock_mhz: given twice"),
    (with_set("npu=500"), "--set npu: is a mapping, set one of its keys: clock_mhz, multipliers"),
    (with_set("dram.timing=1"), "--set dram.timing: is a mapping, set one of its keys: nBL, nCL"),
    (with_set("dram.timing.tRP=12"), f"--set dram.timing.tRP: {UNIT} 12"),
    (with_set("dram.timing.tRP=-1 ns"), "--set dram.timing.tRP: expected a time >= 0, got -1 ns"),
    (with_set("dram.timing.tRP=.nan"), "--set dram.timing.tRP: expected a finite number, got .nan"),
    (with_set("dram.timing.tRP=13 ns"), "at $.timing.tRC: expected at least tRAS + tRP"),
    (with_set("dram.timing.tRFC=0 ns"), "--set dram.timing.tRFC: expected more than 0"),
    (with_set("dram.timing.tCCD_L=0 ns"), "--set dram.timing.tCCD_L: expected more than 0"),
    (with_set("dram.io_pj_per_bit=0"), "dram.io_pj_per_bit is 0: to leave interface energy out, set energy.interface"),
    (with_set("npu.clock_mhz="), "--set npu.clock_mhz: expected number >= 0.1 and <= 100000, got null"),
    (with_set("npu.clock_mhz=1e-300"), "--set npu.clock_mhz: expected number >= 0.1 and <= 100000, got 1e-300"),
    (with_set("npu.clock_mhz=!!python/object/apply:os.system [ls]"), "tags are not allowed, got !!python/object/apply"),
    (with_set("npu.clock_mhz=&a 500"), "--set npu.clock_mhz: anchors and aliases are not allowed, write the value out"),
    (with_set("kind=roofline"), "--set kind: expected one of pim, got roofline"),
    ((*with_system("t4"), "--set", "power_w=1e308", "--set", "launch_us=1e9"), "power_w: expected number >= 1e-06"),
    # outputs
    (
        ("report", "pim-gpt", "--out", "in_the_way"),
        "cannot write to in_the_way: a file of that name is in the way; choos",
    ),
    (("report", "pim-gpt", "--out", "in_the_way/o"), "cannot write to in_the_way/o: not a directory; choose another"),
    ((*RUN, "--json", "none/r.json"), "--json none/r.json: there is no folder none; make it first"),
    ((*RUN, "--json", "folder"), "--json folder: is a folder; name a file in it"),
    (("list", "--json", "none/l.json"), "cannot write none/l.json: no such file or directory; choose another place"),
    ((*RUN, "--timeline", "folder"), "--timeline folder: is a folder; name a file in it"),
    ((*RUN, "--timeline", "none/t.json"), "--timeline none/t.json: there is no folder none; make it first"),
    ((*RUN, "--timeline", "t.json", "--json", "t.json"), "--timeline t.json: is the file of --json too; name another"),
    (("run", "t4", "--model", "gpt2", "--timeline", "t.json"), "t4 is a roofline: it issues no commands to draw"),
    *(
        ((*RUN, "--timeline", "t.json", "--window", w), WINDOW)
        for w in ("5", "5:1", "-1:5", "a:b", "0:nan", "0:1e99999999", "")
    ),
    (("run", "pim_gpt", "--model", "gpt2", "--prompt", "1025"), "gpt2 has positions for 1,024 tokens; take fewer"),
    (("run", "t4", "--model", "gpt2", "--prompt", "1025"), "gpt2 has positions for 1,024 tokens; take fewer"),
    ((*RUN, "--window", "1:0"), "--window 1:0: belongs to --timeline FILE; name one"),
    (("fabric", "cost", "--gpu-usd", "nan", "--fault-ratio", "0.1"), "expected a number from 0 to 1,000,000,000,"),
    (("fabric", "cost", "--gpu-usd", "-1", "--fault-ratio", "0.1"), "a number from 0 to 1,000,000,000, got -1"),
    (("rtl", "power", "bf16_mul", "--clock-mhz", "nan"), "expected a number from 0.001 to 100,000, got nan"),
    (("trace", "ddr4", "--pattern", "strided", "--seed", "3"), "--seed 3: pattern strided without --gap draws"),
    ((*GPU, "--set", "peak_tflops=1e-300"), "peak_tflops: expected number >= 1e-06 and <= 1000000000, got 1e-300"),
    ((*GPU, "--set", "launch_us=1e300"), "--set launch_us: expected number >= 0 and <= 1000000000, got 1e300"),
    ((*GPU, *INSTANT), "gpu_a100: no operator takes 0.5 ns; lower peak_tflops or memory_gb_s"),
]


def assert_refused(done: Done, said: str) -> None:
    assert (done.code, done.out) == (2, ""), done
    assert done.err.count("\n") == 1 and done.err.endswith("\n")
    assert re.match(r"pimloom( \w+)*: ", done.err) and said in done.err


@pytest.mark.parametrize(
    ("arguments", "said"), BAD, ids=lambda value: None if isinstance(value, str) else " ".join(value)
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    before = snapshot(Path())
    done = call(*arguments)
    assert_refused(done, said)
    assert snapshot(Path()) == before


@pytest.mark.parametrize("nth", [9, 20, 48])
def test_the_same_in_a_process_of_its_own(nth: int) -> None:
    arguments, said = BAD[nth]
    before = snapshot(Path())
    done = spawn(*arguments)
    assert done == call(*arguments)
    assert_refused(done, said)
    assert snapshot(Path()) == before


def test_debug_shows_the_traceback() -> None:
    done = spawn("run", "none", "--model", "gpt2", "--debug")
    assert done.code == 2 and "Traceback" in done.err and "UserError: unknown system 'none'" in done.err


def test_an_internal_error_names_the_option_that_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    for shown, where in ((False, " (--debug shows where)"), (True, "")):
        assert say(ZeroDivisionError("x"), shown) == 1
        assert capsys.readouterr().err == f"pimloom: internal error: ZeroDivisionError: x{where}\n"


def test_a_full_disk_is_no_internal_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PIMLOOM, "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "pimloom: cannot write the output: No space left on device\n")


def test_a_system_and_a_part_of_ones_own() -> None:
    run = ("--model", "gpt2.json", "--json", "-")
    mine, theirs = (json.loads(call("run", system, *run).out) for system in ("system.yaml", "pim_gpt"))
    differ = {key for key in mine if mine[key] != theirs[key]}
    assert differ == {"system"}, "the same values under another name"
    Path("part.yaml").rename("folder/part.yaml")  # a path in a file starts at that file
    Path("system.yaml").rename("folder/s.yml")
    assert call("run", "folder/s.yml", "--model", "gpt2.json", "--set", "dram.timing.tRP=10 ns").code == 0


EVIL = """[red]<script>alert("1")</script> 'x'|r [31m [/b]"""


def test_hostile_names_are_printed_as_they_stand() -> None:
    folder = Path(EVIL.replace("/", "\u2215"))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(GPT2))
    run = ("--model", folder, "--generate", "1")
    printed = call("run", "t4", *run).out
    shown = re.sub(r"\s+", "", str(folder))
    assert shown in re.sub(r"\s+", "", printed.replace("tokensvalueunit", ""))
    assert json.loads(call("run", "t4", *run, "--json", "-").out)["model"] == str(folder)
    assert_refused(call("run", "t4", "--model", folder / "none\x1b[31m.json"), r"none\x1b[31m.json: expected a name of")
    assert_refused(call("run", folder, "--model", "gpt2"), "unknown system")
    system = folder / f"{folder}.yaml"
    system.write_text((HERE / "systems/pim_gpt.yaml").read_text())
    assert call("run", system, *run, "--timeline", "t.json", "--window", "0:1").code == 0
    assert str(folder) in json.loads(Path("t.json").read_text())["otherData"]["title"]


def test_hostile_names_on_a_terminal() -> None:
    """With a progress bar, which has markup of its own."""
    Path("[b]x[").mkdir()
    Path("[b]x[/config.json").write_text(json.dumps(GPT2))
    ours, theirs = pty.openpty()
    command = [*PIMLOOM, "run", "pim_gpt", "--model", "[b]x[", "--generate", "200", "--json", "r.json"]
    with subprocess.Popen(command, env=ENVIRONMENT | {"TERM": "xterm"}, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                seen += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    assert process.returncode == 0
    assert b"[b]x[ on pim_gpt" in seen and b"internal error" not in seen


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_closes_ends_what_nohup_did_not_start(ignored: bool) -> None:
    command = [*PIMLOOM, "trace", "ddr4", "--pattern", "random", "--requests", "1e8", "--commands", "log.csv", "-q"]
    hang_up = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, preexec_fn=hang_up) as run:  # noqa: PLW1509
        wait(lambda: list(Path().glob(".*.part")), "begins to write")
        run.send_signal(signal.SIGHUP)
        if ignored:
            time.sleep(0.3)
            assert run.poll() is None and list(Path().glob(".*.part"))
            run.terminate()
        _, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (128 + (signal.SIGTERM if ignored else signal.SIGHUP), b"")
    assert not [*Path().glob("*.part"), *Path().glob(".*.part"), *Path().glob("log.csv")]


def _heed_interrupts() -> None:
    """A job that a shell put in the background inherits SIGINT ignored, and Python then leaves it so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for child processes in /proc")
@pytest.mark.parametrize(
    ("number", "whole_group"),
    [
        (signal.SIGINT, True),
        (signal.SIGTERM, False),
        slow(signal.SIGINT, False),
        slow(signal.SIGTERM, True),
        slow(signal.SIGHUP, True),
    ],
)
def test_interrupted_report(number: signal.Signals, whole_group: bool) -> None:
    Path("o").mkdir()
    Path("o/index.html").write_text("old")
    command = [*PIMLOOM, "report", "pim-gpt", "--out", "o"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        env=ENVIRONMENT,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509  (no threads here)
    ) as run:
        workers: list[int] = []
        end = time.monotonic() + 60
        while len(workers) < min(2, os.cpu_count() or 1) and time.monotonic() < end:
            time.sleep(0.05)
            workers = [int(n) for n in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
        (os.killpg if whole_group else os.kill)(run.pid, number)
        out, err = run.communicate(timeout=60)
    said = "pimloom: interrupted; nothing half-written\n" if number == signal.SIGINT else ""
    assert (run.returncode, out, err) == (128 + number, "", said)
    assert workers and not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert snapshot(Path("o")) == {"index.html": b"old"}
