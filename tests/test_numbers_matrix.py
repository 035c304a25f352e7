"""One answer: equal requests said in two ways give equal numbers, and every cause moves its effect the way it must.

Each case is drawn with a fixed seed. A few run daily, all of them with the slow tests.
"""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

import pimloom
from pimloom.arch.error import UserError
from tests.slow import slow

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "systems"
LLAMA = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 1536, "num_attention_heads": 8,
    "num_key_value_heads": 8, "num_hidden_layers": 2, "vocab_size": 512, "max_position_embeddings": 2048,
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
MISTRAL = LLAMA | {"model_type": "mistral", "sliding_window": 16}
MODELS = {"dense": LLAMA, "experts": MIXTRAL, "window": MISTRAL}
SHALLOW = LLAMA | {"num_hidden_layers": 1}
SYSTEMS = (
    "gpu_a100", "gpu_h100", "t4", "xeon_6154", "npu_only", "npu_pim", "neupims", "pim_gpt", "attacc", "attacc_gpu",
    "duplex", "phone.yaml", "pim_card.yaml", "hbm3_npu.yaml",
)  # fmt: skip
SECONDS = ("npu_only", "npu_pim", "neupims", "hbm3_npu.yaml")  # that a layer is simulated in
OF_LATENCY = ("latency_s", "time_to_first_token_s", "time_per_output_token_s", "energy_per_token_j")


class Case(NamedTuple):
    """A workload of equal requests on a system."""

    system: str
    model: str
    prompt: int
    generate: int
    batch: int
    lm_head: bool


def drawn(seed: int) -> Case:
    """A case of this seed."""
    random = Random(seed)
    return Case(
        random.choice(SYSTEMS), random.choice(list(MODELS)), random.randint(2, 48), random.randint(2, 5),
        random.choice([1, 1, 2, 3]), random.random() < 0.5,
    )  # fmt: skip


def some(daily: int, all_of_them: int) -> list[Any]:
    """Seeds, of which the first few are tried daily, if they are not of a system that takes seconds."""
    return [
        pytest.param(seed, marks=() if seed < daily and drawn(seed).system not in SECONDS else pytest.mark.slow)
        for seed in range(all_of_them)
    ]


def path_of(system: str) -> str:
    """Where a system stands, if it is an example."""
    return str(EXAMPLES / system) if system.endswith(".yaml") else system


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the models."""
    folder = tmp_path_factory.mktemp("models")
    configs = MODELS | {"shallow": SHALLOW}
    for name, config in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    return {name: folder / f"{name}.json" for name in configs}


def mean(value: Any) -> float | None:
    """Of a spread, or the number itself."""
    return getattr(value, "mean", value)


def figures(result: Any) -> dict[str, Any]:
    """Figures that `run`, `compare` and `serve` all have."""
    return {name: mean(getattr(result, name)) for name in OF_LATENCY}


def answer(ask: Callable[..., Any], case: Case, model: Path, **more: Any) -> dict[str, Any] | None:
    """Figures of a case, None if the system refuses it."""
    try:
        result = ask(case, model, **more)
    except UserError:
        return None
    return None if getattr(result, "reason", None) else figures(result)


def same(first: dict[str, Any], second: dict[str, Any], rel: float = 1e-9) -> None:
    """Raise AssertionError for a figure that differs: times are whole picoseconds, sums of floats may round."""
    for name, value in first.items():
        assert second[name] == (value if value is None else pytest.approx(value, rel=rel)), name


def run(case: Case, model: Path) -> Any:
    side_by_side: dict[str, Any] = {} if case.system == "pim_gpt" else {"batch": case.batch, "every": 1, "chunk": 4096}
    return pimloom.run(
        path_of(case.system), model=model, prompt=case.prompt, generate=case.generate, lm_head=case.lm_head,
        **side_by_side,
    )  # fmt: skip


def compare(case: Case, model: Path, **more: Any) -> Any:
    found = pimloom.compare(
        [path_of(case.system)], model=model, prompt=case.prompt, generate=case.generate, batch=case.batch,
        lm_head=case.lm_head, every=1, chunk=4096, **more,
    )  # fmt: skip
    return found.systems[0]


def serve(case: Case, model: Path, **more: Any) -> Any:
    requests: dict[str, Any] = {
        "arrivals": "burst", "lengths": f"{case.prompt}:{case.generate}", "requests": case.batch,
    }  # fmt: skip
    return pimloom.serve(
        path_of(case.system), model=model, lm_head=case.lm_head, exact=True, batch_tokens=4096, **(requests | more)
    )


@pytest.mark.parametrize("seed", some(10, 150))
def test_run_compare_and_serve_have_one_answer(seed: int, models: dict[str, Path]) -> None:
    case = drawn(seed)
    model = models[case.model]
    if case.system in ("attacc", "attacc_gpu"):  # boxes of GPUs run equal requests as a line of their own
        answers = [answer(ask, case, model) for ask in (compare, serve)]
    else:
        if case.system == "pim_gpt":  # one request after the other, which `run` does not take side by side
            case = case._replace(batch=1)
        answers = [answer(ask, case, model) for ask in (run, compare, serve)]
    assert len({each is None for each in answers}) == 1, answers  # all can, or none can
    for other in answers[1:]:
        if other is not None and answers[0] is not None:
            same(answers[0], other)


@pytest.mark.parametrize("seed", some(2, 20))
def test_a_trace_in_a_file_is_the_arrivals_it_holds(seed: int, models: dict[str, Path], tmp_path: Path) -> None:
    case = drawn(1000 + seed)._replace(system=["gpu_a100", "phone.yaml", "duplex", "npu_only"][seed % 4])
    trace = tmp_path / "trace.csv"
    with trace.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["timestamp", "prompt_tokens", "output_tokens"])
        rows.writerows([[0, case.prompt, case.generate]] * case.batch)
    burst = serve(case, models[case.model])
    read = serve(case, models[case.model], trace=trace, arrivals=None, lengths=None, requests=None)
    same(figures(burst), figures(read))


SHIPPED = sorted(path.stem for path in (ROOT / "arch" / "systems").glob("*.yaml"))


@pytest.mark.parametrize("system", [slow(system) if system in SECONDS else system for system in SHIPPED])
def test_a_shipped_system_is_its_file(system: str, models: dict[str, Path], tmp_path: Path) -> None:
    copied = tmp_path / f"{system}.yaml"
    copied.write_text((ROOT / "arch" / "systems" / f"{system}.yaml").read_text())
    asked: dict[str, Any] = {"model": models["dense"], "generate": 2}
    two = [figures_of_run(pimloom.run(each, prompt=8, **asked)) for each in (system, copied)]
    assert two[0] == two[1] and two[0]["system"] == system
    alike = [pimloom.compare([each], model=models["dense"], prompt=8, generate=2) for each in (system, copied)]
    assert alike[0].systems == alike[1].systems and alike[0].spec_digest == alike[1].spec_digest


def figures_of_run(result: Any) -> dict[str, Any]:
    """All fields but the time that the simulation itself took."""
    return {name: value for name, value in result.to_dict().items() if name != "wall_s"}


class Place(NamedTuple):
    """A number of a system's file, at its line, and another value for it. slower: whether that takes more time."""

    system: str
    place: str
    line: str
    other: str
    slower: bool


PLACES = [
    Place("gpu_a100", "memory_gb_s", r"memory_gb_s: 1555", "700", True),
    Place("gpu_a100", "peak_tflops", r"peak_tflops: 312", "3", True),
    Place("t4", "launch_us", r"launch_us: [\d.]+", "50", True),
    Place("pim_gpt", "npu.clock_mhz", r"clock_mhz: [\d.]+", "100", True),
    Place("npu_only", "npu.arrays", r"arrays: 8", "1", True),
    Place("npu_only", "dram.channels", r"channels: 32", "8", True),
    Place("neupims", "npu.vector_lanes", r"vector_lanes: 128", "8", True),
    Place("phone.yaml", "memories.dram.channels", r"channels: 4", "8", False),
    Place("phone.yaml", "units.npu.peak_share", r"peak_share: [\d.]+", "0.01", True),
    Place("pim_card.yaml", "links.pcie.gbps", r"gbps: 252", "2", True),
    Place("pim_card.yaml", "links.pcie.latency_ns", r"latency_ns: 500", "50000", True),
    Place("hbm3_npu.yaml", "units.npu.clock_mhz", r"clock_mhz: 1000", "100", True),
    Place("attacc", "gpu.memory_gb_s", r"memory_gb_s: [\d.]+", "100", True),
    Place("attacc", "collective_us", r"collective_us: [\d.]+", "50", True),
]
DAILY = [at for at in PLACES if at.place in ("memory_gb_s", "npu.clock_mhz", "gpu.memory_gb_s", "links.pcie.gbps")]


@pytest.mark.parametrize("at", [
    pytest.param(at, id=f"{at.system}-{at.place}", marks=() if at in DAILY else pytest.mark.slow) for at in PLACES
])  # fmt: skip
def test_a_key_that_is_set_is_the_key_in_the_file(at: Place, models: dict[str, Path], tmp_path: Path) -> None:
    """And it moves the time the way it must, under `run`, `compare`, `serve` and in a sweep."""
    source = EXAMPLES / at.system if at.system.endswith(".yaml") else ROOT / "arch" / "systems" / f"{at.system}.yaml"
    text = source.read_text()
    key = at.place.rpartition(".")[2]
    edited, count = re.subn(at.line, f"{key}: {at.other}", text, count=1)
    assert count == 1, at
    for part in re.findall(r"part: (\S+\.yaml)", text):
        (tmp_path / part).write_text((EXAMPLES / part).read_text())
    (tmp_path / source.name).write_text(edited)
    model = models["dense"]
    asked: dict[str, Any] = {"model": model, "prompt": 16, "generate": 3}
    usual = pimloom.run(path_of(at.system), **asked)
    by_set = pimloom.run(path_of(at.system), set={at.place: at.other}, **asked)
    by_file = pimloom.run(tmp_path / source.name, **asked)
    assert figures_of_run(by_set) == figures_of_run(by_file)
    assert by_set.spec_digest != usual.spec_digest
    assert (by_set.latency_s > usual.latency_s) == at.slower and by_set.latency_s != usual.latency_s
    burst: dict[str, Any] = {"model": model, "arrivals": "burst", "lengths": "16:3", "requests": 2, "exact": True}
    plain = pimloom.serve(path_of(at.system), **burst)
    two = [
        pimloom.serve(path_of(at.system), set={at.place: at.other}, **burst),
        pimloom.serve(tmp_path / source.name, **burst),
    ]
    assert figures(two[0]) == figures(two[1]) and two[0].spec_digest == two[1].spec_digest
    assert (two[0].latency_s.mean > plain.latency_s.mean) == at.slower
    rows = pimloom.compare([tmp_path / source.name], **asked)
    ours = pimloom.compare([path_of(at.system)], **asked)
    taken = [found.systems[0].latency_s or 0.0 for found in (rows, ours)]
    assert (taken[0] > taken[1]) == at.slower
    workload: dict[str, Any] = {"model": str(model), "prompt": 16, "generate": 3}
    if at.system in ("npu_only", "neupims"):  # a sweep simulates their prompts only with `chunk`
        workload["chunk"] = 2048
    table = pimloom.sweep(
        {
            "system": path_of(at.system), "workload": workload,
            "axes": {at.place: [json.loads(at.other)]},
            "objectives": {"latency_s": "min"},
        },
        workers=1,
    )  # fmt: skip
    assert table["latency_s"].tolist() == [pytest.approx(by_set.latency_s, rel=1e-12)]
    assert table["spec_digest"].tolist() == [by_set.spec_digest]


@pytest.mark.parametrize("seed", some(6, 60))
def test_more_work_takes_longer(seed: int, models: dict[str, Path]) -> None:
    """More tokens to read, more tokens to write, more layers, more requests: each takes more time and energy."""
    case = drawn(2000 + seed)._replace(batch=2, model="dense")
    if case.system in ("attacc", "attacc_gpu"):  # which have no LM head
        case = case._replace(lm_head=False)
    model = models[case.model]
    usual = answer(serve, case, model)
    assert usual is not None
    for more in (
        case._replace(prompt=case.prompt + 256),
        case._replace(generate=case.generate + 3),
    ):
        longer = answer(serve, more, model)
        assert longer is not None and longer["latency_s"] > usual["latency_s"], more
        if usual["energy_per_token_j"] is not None:
            whole = [found["energy_per_token_j"] * of.generate for found, of in ((usual, case), (longer, more))]
            assert whole[1] > whole[0], more
    less = answer(serve, case, models["shallow"])
    assert less is not None and less["latency_s"] < usual["latency_s"]
    many = serve(case._replace(batch=6), model)
    assert many.time_s > serve(case, model).time_s
