"""`spec_digest`: everything that decides a result and nothing else, the same in runs, traces, sweeps and switches."""

import gzip
import json
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.system import HERE, System, load_system
from pimloom.sweeping.definition.sweep import Axis
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of
from tests.command import call
from tests.slow import slow
from tests.test_sweep_evaluate import sweep

REQUESTS = "seq_len\n40\n60\n29\n7\n"
ARRIVALS = "timestamp,prompt_tokens,output_tokens\n0,30,4\n0.001,20,3\n0.002,9,5\n"
CONFIG = {
    "model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 2, "n_positions": 512, "vocab_size": 1000,
    "activation_function": "gelu_new", "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps(CONFIG))
    (tmp_path / "other.json").write_text(json.dumps(CONFIG | {"n_inner": 512}))
    (tmp_path / "r.csv").write_text(REQUESTS)
    (tmp_path / "t.csv").write_text(ARRIVALS)
    return tmp_path


def digest(*arguments: str | Path) -> str:
    done = call(*arguments, "--json", "-", "--quiet")
    assert done.code == 0, done.err
    found = json.loads(done.out)["spec_digest"]
    assert isinstance(found, str) and len(found) == 16
    return found


def all_differ(base: list[str], changes: list[list[str]]) -> str:
    """The digest of the first."""
    found = {" ".join(more): digest(*base, *more) for more in changes}
    for one, other in combinations(found, 2):
        assert found[one] != found[other], f"{one!r} and {other!r}"
    return found[" ".join(changes[0])]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("system", "changes"),
    [
        (
            "pim_gpt",
            [
                "npu.clock_mhz=500", "npu.power_mw=300", "dram.channels=4", "dram.refresh=false", "energy.k_act=1",
                "workload.lm_head=true", "dram.timing.tWR=13 ns", "dram.current.IDD0=123 mA", "dram.io_pj_per_bit=5",
                "dram.VDD=1.2 V", "dram.pim_unit.mac_power_mw=150",
            ],
        ),
        ("t4", ["power_w=71", "memory_gb_s=300", "launch_us=1", "memory_share=0.5"]),
    ],
)  # fmt: skip
def test_one_sequence(system: str, changes: list[str]) -> None:
    base = ["run", system, "--model", "model.json"]
    asked = ["--generate", "3"]
    others = [["--generate", "4"], [*asked, "--prompt", "1"], *([*asked, "--set", x] for x in changes)]
    plain = all_differ(base, [asked, *others])
    assert plain != digest("run", system, "--model", "other.json", *asked)
    for same in ([*asked, "--prompt", "0"], [*asked, "--seed", "4"]):
        assert digest(*base, *same) == plain


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("system", ["neupims", "npu_only", "gpu_a100"])
def test_a_list_of_contexts(system: str, here: Path) -> None:
    base = ["run", system, "--requests"]
    model = ["--model", "model.json"]
    place = "element_bits=8" if system == "gpu_a100" else "link.gbps=700"
    changes = [[], ["--layers", "1"], ["--tp", "2"], ["--set", place]]
    if system != "gpu_a100":
        changes += [["--fidelity", "released"], ["--pp", "2"], ["--set", "npu.vector_units=4"]]
    plain = all_differ([*base, "r.csv", *model], changes)
    (here / "swapped.csv").write_text("seq_len\n60\n40\n29\n7\n")
    (here / "again.csv").write_text(REQUESTS)
    assert digest(*base, "r.csv", "--model", "other.json") != plain
    assert digest(*base, "swapped.csv", *model) != plain
    assert digest(*base, "again.csv", *model, "--layers", "2", "--tp", "1") == plain


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("source", ["alpaca", "t.csv"])
@pytest.mark.parametrize("iterations", ["1", "4"])
def test_iterations_of_a_workload(source: str, iterations: str) -> None:
    base = ["run", "gpu_a100", "--model", "model.json", "--requests", source, "--iterations", iterations]
    changes = [["--batch", "3"], ["--batch", "2", "--tp", "2"], ["--batch", "2", "--layers", "1"]]
    seeded = ["--batch", "2", "--seed", "1"]
    all_differ([*base, "--batch", "2"], [change[2:] or change for change in changes] + [["--every", "2"]])
    plain = digest(*base, "--batch", "2")
    assert (digest(*base, *seeded) == plain) == (source == "t.csv")
    assert digest(*base[:-1], str(int(iterations) + 1), "--batch", "2") != plain


def test_policies_and_requests_of_a_workload(here: Path) -> None:
    base = ["run", "npu_pim", "--model", "model.json", "--batch", "2", "--requests"]
    (here / "later.csv").write_text(ARRIVALS.replace("0.002", "0.003"))
    (here / "longer.csv").write_text(ARRIVALS.replace("9,5", "9,6"))
    found = [
        digest(*base, *more)
        for more in (["t.csv"], ["t.csv", "--policy", "round-robin"], ["later.csv"], ["longer.csv"])
    ]
    assert len(set(found)) == 4
    assert digest(*base, "t.csv", "--policy", "min-load") == found[0]


def test_another_spelling_is_the_same(here: Path) -> None:
    """A file for a preset, its keys in another order, a default written out, a time in clocks, another description."""
    spec = here / "mine" / "config.json"
    spec.parent.mkdir()
    preset = json.loads((HERE / "models" / "gpt2.json").read_text())
    spec.write_text(json.dumps(dict(reversed(preset.items()))))
    text = (HERE / "systems" / "pim_gpt.yaml").read_text()
    part = (HERE / "parts" / "gddr6_pim_gpt.yaml").read_text()
    (here / "my_part.yaml").write_text(part.replace("description: GDDR6", "description: My GDDR6"))
    text = text.replace("gddr6_pim_gpt", "my_part.yaml").replace("description: PIM", "description: My PIM")
    (here / "my.yaml").write_text(text)
    base = digest("run", "pim_gpt", "--model", "gpt2", "--generate", "2")
    for system, model, *more in (
        ("pim_gpt", spec),
        ("my.yaml", "gpt2"),
        ("pim_gpt", "gpt2", "dram.timing.tRP=24 nCK"),
        ("pim_gpt", "gpt2", "dram.VDD=1250 mV"),
        ("pim_gpt", "gpt2", "npu.clock_mhz=1e3"),
        ("pim_gpt", "gpt2", "dram.channels=8"),
    ):
        settings = [word for setting in more for word in ("--set", setting)]
        assert digest("run", system, "--model", model, "--generate", "2", *settings) == base, (system, more)
    one, two = ({"npu.clock_mhz": 500, "dram.channels": 4}, {"dram.channels": 4, "npu.clock_mhz": 500})
    runs = [pimloom.run("pim_gpt", model="gpt2", generate=2, set=each) for each in (one, two)]
    assert runs[0].spec_digest == runs[1].spec_digest != base


@pytest.mark.usefixtures("here")
def test_a_row_of_a_sweep_has_the_digest_of_its_run() -> None:
    for system, work, point, command in (
        ("pim_gpt", {"generate": 2, "prompt": 1}, {"npu.clock_mhz": 500},
         ["--generate", "2", "--prompt", "1", "--set", "npu.clock_mhz=500"]),
        ("t4", {"generate": 2}, {"power_w": 60}, ["--generate", "2", "--set", "power_w=60"]),
        ("gpu_a100", {"requests": "r.csv", "tp": 2}, {"power_w": 60},
         ["--requests", "r.csv", "--tp", "2", "--set", "power_w=60"]),
        ("gpu_a100", {"requests": "alpaca", "batch": 2, "iterations": 3}, {"power_w": 60},
         ["--requests", "alpaca", "--batch", "2", "--iterations", "3", "--set", "power_w=60"]),
        ("npu_only", {"requests": "r.csv"}, {"npu.vector_units": 4},
         ["--requests", "r.csv", "--set", "npu.vector_units=4"]),
    ):  # fmt: skip
        axes = [Axis(place, (value, value + 1)) for place, value in point.items()]
        row = evaluate(base_of(sweep(system, work | {"model": "model.json"}, axes=axes)), point).row
        assert row["error"] is None
        assert row["spec_digest"] == digest("run", system, "--model", "model.json", *command), (system, work)


@pytest.mark.usefixtures("here")
def test_rows_of_growing_contexts_differ() -> None:
    def row(**work: Any) -> Any:
        given = {"model": "model.json", "batch": 2, "prompt": 5, "generate": 3} | work
        found = evaluate(base_of(sweep("gpu_a100", given, axes=[Axis("power_w", (60, 61))])), {"power_w": 60}).row
        assert found["error"] is None
        return found["spec_digest"]

    changes: list[dict[str, Any]] = [{}, {"batch": 3}, {"prompt": 6}, {"generate": 4}]
    changes += [{"tp": 2}, {"layers": 1}, {"every": 2}]
    assert len({row(**change) for change in changes}) == len(changes)
    assert row(model="other.json") != row() == row(layers=2, every=1)


def test_a_trace(here: Path) -> None:
    lines = "".join(f"0x{64 * i * 7919:x} {'READ' if i % 3 else 'WRITE'} {4 * i}\n" for i in range(50))
    (here / "a.trc").write_text(lines)
    (here / "b.trc").write_text(lines.replace("WRITE 0\n", "READ 0\n"))
    with gzip.open(here / "c.trc.gz", "wt") as packed:
        packed.write(lines)
    base = ["trace", "ddr4_3200"]
    changes: list[list[str]] = [
        ["a.trc", *more]
        for more in (
            [], ["--set", "dram.current.IDD0=66 mA"], ["--set", "controller.page=closed"], ["--channels", "2"],
            ["--set", "dram.timing.tRFC=400 ns"], ["--mapping", "row,column,bank,bank_group,channel"], ["--idle", "9"],
        )
    ] + [["b.trc"]]  # fmt: skip
    changes += [["--pattern", "random", "--requests", "50", *more] for more in ([], ["--seed", "1"], ["--gap", "9"])]
    changes += [["--pattern", "sequential", "--requests", n] for n in ("50", "51")]
    found = [digest(*base, *change) for change in changes]
    assert len(set(found)) == len(found)
    assert digest(*base, "c.trc.gz") == found[0]
    assert digest(*base, "--pattern", "random", "--requests", "5e1", "--seed", "0") == found[changes.index(
        ["--pattern", "random", "--requests", "50"]
    )]  # fmt: skip
    (here / "mine.yaml").write_text((HERE / "parts" / "ddr4_3200.yaml").read_text())
    assert digest("trace", "mine.yaml", "a.trc") == found[0]


def test_a_switch(here: Path) -> None:
    example = (Path(__file__).parents[1] / "examples" / "ocs_events.yaml").read_text()
    (here / "one.yaml").write_text(example)
    (here / "two.yaml").write_text(example.replace("12 ms", "12000 us # as long") + "# a comment\n")
    (here / "three.yaml").write_text(example.replace("12 ms", "13 ms"))
    base = ["fabric", "switch", "--events"]
    one = digest(*base, "one.yaml")
    assert digest(*base, "two.yaml") == one != digest(*base, "three.yaml")
    assert digest(*base, "one.yaml", "--set", "timing.retrain=3 ms") != one


@pytest.mark.parametrize("name", ["t4", slow("pim_gpt"), slow("neupims")])
def test_values_that_decide_are_all_in(name: str) -> None:
    """Whatever value of a system or its part changes, its digest does; descriptions and names of parts are labels."""
    system = load_system(name)
    labels, whole = ("kind", "description", "part", "standard", "pim"), (dict, msgspec.Struct)
    places = [p for p in system.sources if p.rpartition(".")[2] not in labels]
    places = [p for p in places if not isinstance(_value(system, p), whole)]
    changed = set()
    for place in places:
        now = str(_value(system, place))
        for text in ("1", "3", "64", "0.5", "false", "true", "0 nCK", "7 ns", "900 ns", "90 mA", "600 mA", "1.1 V"):
            try:
                other = load_system(name, {place: text})
            except UserError:  # no value for that place
                continue
            if str(_value(other, place)) != now:
                assert other.digest != system.digest, f"{place}={text}"
                changed.add(place)
    assert len(changed) > 0.7 * len(places), set(places) - changed


def _value(system: System, place: str) -> Any:
    keys, at = place.split("."), cast(Any, system.spec)
    if place.startswith("dram.") and not hasattr(at.dram, keys[1]):
        keys, at = keys[1:], system.part
    for key in keys:
        at = at[key] if isinstance(at, dict) else getattr(at, key)
    return at
