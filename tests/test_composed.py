"""Systems that a YAML composes: what overlaps, what crosses links, what fits and what is refused; a unit of a test."""

import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from pimloom.arch.composition import UNITS
from pimloom.arch.composition_check import placed
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import System, load_system
from pimloom.systems.devices.composed.price import MODULES, Price
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.run import LIMITS, Run
from pimloom.systems.serving.generation import generate
from pimloom.systems.serving.stepping import Wanted
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ops
from pimloom.workload.op import Op

GPT2, MIXTRAL = load_llm("gpt2"), load_llm("tests/models/mixtral-8x7b.json")
EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "systems"
TOY = """
description: a processor, PIM on a card, and a link
kind: composed
element_bits: 16
memories:
  card: {part: gddr6_pim_gpt, channels: 8, pj_per_bit: 3}
  host: {gb_s: 100, bytes: 640000000000, pj_per_bit: 10}
units:
  pim: {type: gemv, memory: card, at: bank, lanes: 16, power_w: 7}
  cpu: {type: roofline, memory: host, peak_tflops: 0.2, peak_share: 0.5, memory_share: 0.9, launch_us: 1, power_w: 100}
links:
  pcie: {between: [host, card], gbps: 256, latency_ns: 500, pj_per_bit: 5}
peers: {gbps: 400, latency_ns: 700, pj_per_bit: 4, topology: ring}
runs:
  prefill: {cache_write: pim, all: cpu}
  decode: {gemm: pim, score: pim, value: pim, cache_write: pim, all: cpu}
overlap: serial
"""
FIELDS = ("card: {part: gddr6_pim_gpt, channels: 8, ", "card: {part: lpddr5_6400, channels: 64, ")


def toy(folder: Path, *changes: tuple[str, str], text: str = TOY) -> Path:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "toy.yaml").write_text(text)
    return folder / "toy.yaml"


def run(path: Path, batch: Batch, llm: Any = GPT2, tp: int = 1, layers: int = 2, **settings: str) -> Run:
    changed = {name.replace("__", "."): value for name, value in settings.items()}
    return checked(device_of(load_system(str(path), changed), llm, Share(tp, layers, outside=True)).step(batch))


def checked(found: Run) -> Run:
    """Whatever runs: integers, one thing at a time on each resource, nothing faster than its work."""
    assert isinstance(found.end_ps, int) and max(span.end_ps for span in found.spans) <= found.end_ps
    for resource in found.resources:
        mine = [span for span in found.spans if span.resource == resource]
        assert all(a.end_ps <= b.start_ps for a, b in zip(mine, mine[1:], strict=False))
    assert set(found.least_ps) <= set(LIMITS) and all(ps <= found.end_ps for ps in found.least_ps.values())
    return found


def test_serial_runs_one_thing_at_a_time(tmp_path: Path) -> None:
    spans = run(toy(tmp_path), Batch.decode([64, 30])).spans
    assert all(a.end_ps <= b.start_ps for a, b in zip(spans, spans[1:], strict=False))
    crossed = [span for span in spans if span.resource == "pcie to card" and span.operator == "activations"]
    assert crossed[0].end_ps - crossed[0].start_ps == 2 * 768 * 2 * 8 * 1000 // 256  # two vectors, to qkv_proj


@pytest.mark.parametrize("how", ["serial", "concurrent", "{sub_batches: 2}", "{heads: pipelined}"])
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_products_are_those_of_the_model_however_they_overlap(how: str, phase: str, tmp_path: Path) -> None:
    batch = Batch.decode([90, 64, 33]) if phase == "decode" else Batch.prefill([40, 8, 21])
    found = run(toy(tmp_path, ("overlap: serial", f"overlap: {how}")), batch, layers=12)
    assert found.macs == sum(op.macs * op.times for op in ops(GPT2, batch))


def test_overlap_helps_where_units_have_something_to_share(tmp_path: Path) -> None:
    batch = Batch.decode([500] * 8)
    took = {
        how: run(toy(tmp_path, ("overlap: serial", f"overlap: {how}"), ("launch_us: 1", "launch_us: 0")), batch).end_ps
        for how in ("serial", "concurrent", "{sub_batches: 2}", "{heads: pipelined}")
    }
    assert took["concurrent"] <= took["serial"]
    assert min(took["{sub_batches: 2}"], took["{heads: pipelined}"]) < took["concurrent"]


def test_what_crosses_the_link(tmp_path: Path) -> None:
    """Of a decoded token in a layer: norm to QKV; K, V and q stay; scores and probabilities; o; FFN there and back."""
    h, heads, context = 768, 12, 64
    found = run(toy(tmp_path), Batch.decode([context]), layers=1)
    layer = h + 2 * heads * context + h + h + 2 * 4 * h + h
    head = h + GPT2.vocab_size  # the last norm to the LM head, logits to sampling
    assert found.link_bytes == 2 * (layer + head)


@pytest.mark.parametrize("how", ["concurrent", "{heads: pipelined}"])
@pytest.mark.parametrize("context", [0, 40])
def test_what_attends_elsewhere_does_not_wait_for_writes_to_the_cache(how: str, context: int, tmp_path: Path) -> None:
    """The host has made the keys of new tokens itself; those before them were written in earlier steps."""
    path = toy(tmp_path, ("overlap: serial", f"overlap: {how}"))
    spans = run(path, Batch.prefill([32], [context]), layers=1).spans
    (write,) = (span for span in spans if span.operator == "self_attn.cache")
    made = next(span for span in spans if span.operator == "self_attn.qkv_proj")
    score = next(span for span in spans if span.operator == "self_attn.score")
    cached = [span for span in spans if span.operator == "cache"][:1]  # keys; values follow the softmax
    assert [span.start_ps for span in cached] == [made.end_ps] * bool(context)
    ready = max([made.end_ps, *(span.end_ps + 500_000 for span in cached)])  # and the latency of the link
    assert score.start_ps == ready < write.end_ps
    decode = run(path, Batch.decode([context + 32]), layers=1).spans
    named = {span.operator: span for span in decode}
    assert named["self_attn.score"].start_ps >= named["self_attn.cache"].end_ps  # reads them where they are written


def test_keys_that_only_the_cache_has_are_waited_for(tmp_path: Path) -> None:
    """A compressed cache: its matrix takes the new tokens from there, too."""
    logic = FIELDS, ("at: bank,", "at: logic_die,"), ("decode: {gemm: pim, ", "decode: {")
    path = toy(tmp_path, ("overlap: serial", "overlap: concurrent"), *logic)
    spans = run(path, Batch.prefill([32]), load_llm("tests/models/deepseek-v2-lite.json"), layers=1).spans
    named = {(span.operator, span.resource): span for span in spans}
    assert named["cache", "pcie to host"].start_ps >= named["self_attn.cache", "pim"].end_ps
    assert named["self_attn.kv_b_proj", "cpu"].start_ps >= named["cache", "pcie to host"].end_ps


def test_energy_is_power_and_bits(tmp_path: Path) -> None:
    found = run(toy(tmp_path), Batch.decode([64]))
    assert found.device_j is not None and found.device_j["pcie"] == pytest.approx(found.link_bytes * 8 * 5e-12)
    busy: Counter[str] = Counter()
    for span in found.spans:
        busy[span.resource] += span.end_ps - span.start_ps
    assert found.device_j["pim"] == pytest.approx(7e-12 * busy["pim"])
    assert found.device_j["card"] + found.device_j["host"] > 0
    part = load_system(str(toy(tmp_path))).parts["card"]
    open_ps, closed_ps = busy["pim"], found.end_ps - busy["pim"]
    drawn = part.VDD * (part.current["IDD3N"] * open_ps + part.current["IDD2N"] * closed_ps)  # mA x V x ps: 1e-15 J
    assert found.device_j["background"] == pytest.approx(8 * drawn * 1e-15)
    none = run(toy(tmp_path, ("gddr6_pim_gpt", "gddr6_aim")), Batch.decode([64])).device_j
    assert none is not None and "background" not in none
    assert run(toy(tmp_path, (", power_w: 7", "")), Batch.decode([64])).device_j is None


def test_experts_are_dealt_by_their_price(tmp_path: Path) -> None:
    both = ("gemm: pim, score", "gemm: pim, experts: [pim, cpu], score")
    large = ("channels: 8", "channels: 16"), ("peak_tflops: 0.2", "peak_tflops: 20"), ("gb_s: 100", "gb_s: 3000")
    alone = run(toy(tmp_path, ("serial", "concurrent"), *large), Batch.decode([9] * 6), MIXTRAL, layers=1)
    shared = run(
        toy(tmp_path, ("overlap: serial", "overlap: {experts: co-processed}"), both, *large),
        Batch.decode([9] * 6), MIXTRAL, layers=1,
    )  # fmt: skip
    where = {span.resource for span in shared.spans if span.operator == "mlp.experts.down_proj"}
    assert where == {"pim", "cpu"} and shared.macs == alone.macs and shared.end_ps < alone.end_ps


def test_experts_that_all_go_to_one_unit_take_as_long_as_there_without_a_choice(tmp_path: Path) -> None:
    slow = ("peak_tflops: 0.2", "peak_tflops: 0.00001")
    plain = run(toy(tmp_path, ("serial", "concurrent"), slow), Batch.decode([9] * 6), MIXTRAL, layers=1)
    both = ("gemm: pim, score", "gemm: pim, experts: [cpu, pim], score")
    dealt = run(
        toy(tmp_path, ("overlap: serial", "overlap: {experts: co-processed}"), both, slow),
        Batch.decode([9] * 6), MIXTRAL, layers=1,
    )  # fmt: skip
    assert dealt.end_ps == plain.end_ps and dealt.commands == plain.commands and dealt.link_bytes == plain.link_bytes


def test_the_lm_head_runs_once_for_a_prompt_in_chunks(tmp_path: Path) -> None:
    system = load_system(str(toy(tmp_path)))
    wanted = Wanted(1, 24, 1, 8, 1, 1, 1, "physical", True)
    chunks = [Batch.prefill([8], [old], ends=old == 16) for old in (0, 8, 16)]
    steps = [device_of(system, GPT2, Share(1, 1, outside=True)).step(batch) for batch in chunks]
    assert [sum(span.operator == "lm_head" for span in step.spans) for step in steps] == [0, 0, 1]
    assert generate(system, GPT2, wanted).prompt_s == pytest.approx(sum(step.time_s for step in steps), rel=1e-12)


@pytest.mark.parametrize("at", ["bank_group", "logic_die"])
def test_units_in_the_logic_of_a_part_without_pim(at: str, tmp_path: Path) -> None:
    """lpddr5_6400: 256 bits every 4 clocks of 1250 ps in each of 4 groups, every 2 clocks on the die; refresh."""
    path = toy(tmp_path, FIELDS, ("at: bank,", f"at: {at},"))
    (span, *_) = (s for s in run(path, Batch.decode([64])).spans if s.operator == "self_attn.qkv_proj")
    accesses = -(-768 * 2304 // (16 * 64 * (4 if at == "bank_group" else 1)))
    clocks = accesses * (4 if at == "bank_group" else 2) + 2 * -(-(768 + 2304) * 16 // (256 * 64))
    assert span.end_ps - span.start_ps == -(-clocks * 3125 // (3125 - 168)) * 1250


CHANGES = {  # every key of the toy: another value, with which another run comes out, or a sentence says why not
    "element_bits": ("8", "elements of 16 bits"), "memories.card.part": ("gddr6_aim", ""),
    "memories.card.channels": ("16", ""), "memories.card.pj_per_bit": ("4", ""), "memories.host.gb_s": ("50", ""),
    "memories.host.bytes": ("1000", "has 1,000 bytes"), "memories.host.pj_per_bit": ("11", ""),
    "units.pim.type": ("roofline", "unknown key"), "units.pim.memory": ("host", "no unit has it"),
    "units.pim.at": ("logic_die", ""), "units.pim.lanes": ("8", "16 multipliers"), "units.pim.power_w": ("8", ""),
    "units.cpu.type": ("gemv", "unknown key"), "units.cpu.memory": ("card", "no unit has it"),
    "units.cpu.peak_tflops": ("0.1", ""), "units.cpu.peak_share": ("0.4", ""), "units.cpu.memory_share": ("0.4", ""),
    "units.cpu.launch_us": ("2", ""), "units.cpu.power_w": ("99", ""),
    "links.pcie.between[0]": ("card", "two different memories"), "links.pcie.between[1]": ("host", "two different"),
    "links.pcie.gbps": ("128", ""), "links.pcie.latency_ns": ("400", ""), "links.pcie.pj_per_bit": ("6", ""),
    "peers.gbps": ("300", ""), "peers.latency_ns": ("800", ""), "peers.pj_per_bit": ("5", ""),
    "peers.topology": ("tree", "one of ring"),
    "runs.prefill.cache_write": ("cpu", "is to write keys and values into card"), "runs.prefill.all": ("pim", "cannot"),
    "runs.decode.gemm": ("cpu", ""), "runs.decode.score": ("cpu", "keys and values lie in one memory"),
    "runs.decode.value": ("cpu", "keys and values lie in one memory"),
    "runs.decode.cache_write": ("cpu", "is to write keys"), "runs.decode.all": ("pim", "cannot run embedding"),
    "overlap": ("{sub_batches: 2}", ""), "routing.drawn": ("false", "no experts"), "routing.zipf": ("1", "no experts"),
    "routing.counts": ("[1]", "no experts"), "routing.seed": ("1", "no experts"),
}  # fmt: skip


def test_every_key_decides_or_is_refused(tmp_path: Path) -> None:
    path = toy(tmp_path)
    sources = load_system(str(path)).sources
    scalars = {p for p in sources if not any(q.startswith((f"{p}.", f"{p}[")) for q in sources)}
    part = {p for p in scalars if p.startswith("memories.card.") and p.removeprefix("memories.card.") not in
            ("part", "channels", "pj_per_bit")}  # fmt: skip
    assert scalars - part - {"kind", "description"} == CHANGES.keys()

    def both(settings: dict[str, str]) -> tuple[Run, Run]:
        made = device_of(load_system(str(path), settings), GPT2, Share(2, 2, outside=True))
        return made.step(Batch.decode([64, 500])), made.step(Batch.prefill([20]))

    plain = both({})
    for place, (value, why) in CHANGES.items():
        if why:
            with pytest.raises(UserError, match=why) as caught:
                both({place: value})
            assert "\n" not in str(caught.value)
        else:
            assert both({place: value}) != plain, place


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("score: pim, ", ""), (", all: cpu}\noverlap", "}\noverlap")], "no unit for embedding (embed_tokens)"),
        ([("all: cpu}\noverlap", "scor: cpu}\noverlap")], "unknown key 'scor', expected one of embedding"),
        ([("  pcie:", "  pcie2: {between: [card, host], gbps: 1, latency_ns: 0}\n  pcie:")], "pcie2 joins these"),
        ([("gemm: pim, score", "gemm: [pim, cpu], score")], "two units for one kind of operator need a rule"),
        ([("memory: host", "memory: card"), ("  host: {gb_s: 100, bytes: 640000000000, pj_per_bit: 10}\n", ""),
          ("links:\n  pcie: {between: [host, card], gbps: 256, latency_ns: 500, pj_per_bit: 5}\n", ""),
          ("serial", "concurrent")], "cpu and pim share the channels of card in prefill; expected serial"),
        ([("links:\n  pcie: {between: [host, card], gbps: 256, latency_ns: 500, pj_per_bit: 5}\n", "")],
         "exchange data and no link joins these memories"),
        ([("peers:", "  spare: {between: [host, other], gbps: 1, latency_ns: 0}\npeers:"),
          ("memories:\n", "memories:\n  other: {gb_s: 1, bytes: 640000000000}\n"),
          ("units:\n", "units:\n  late: {type: roofline, memory: other, peak_tflops: 1, peak_share: 1, "
                       "memory_share: 1, launch_us: 0}\n"),
          ("runs:\n", "runs:\n  verify: {all: late}\n")],
         "links.spare: no phase runs on units of both host and other; leave it out"),
        ([FIELDS], "its part has no PIM commands"),
        ([("  prefill: {cache_write: pim, all: cpu}\n", "  prefill: {all: cpu}\n"),
          ("  decode: {gemm: pim, score: pim, value: pim, cache_write: pim, all: cpu}\n", "")],
         "units.pim: nothing runs on it, and runs has no decode; name it below runs, or leave it out"),
        ([("  cpu:", "  peers:"), ("all: cpu}", "all: peers}")],
         "units.peers: the link of peers has this name, too"),
        ([("  cpu:", "  background:"), ("all: cpu}", "all: background}")], "the energy of standby has this name, too"),
        ([("  pcie:", "  card:")], "links.card: memories.card has this name, too; rename one of them"),
        ([("  pcie:", "  'p c':")], "links.p c: expected a name of letters, digits, _ and -"),
        ([FIELDS, ("at: bank, lanes: 16", "at: logic_die, lanes: 17")],
         "units.pim.lanes: a column access of card has 16"),
        ([("part: gddr6_pim_gpt", "part: hbm2_neupims"), ("lanes: 16", "lanes: 16, pim_precharge: bank")],
         "units.pim.at: PIM of card (neupims) is simulated beside arrays of the same memory only"),
        ([("overlap: serial", "overlap: {experts: co-processed}")], "no phase names two units for experts"),
        ([("prefill: {cache_write: pim, all: cpu}", "prefil: {all: cpu}")], "unknown key 'prefil'"),
        ([("kind: composed", "kind: compsed")], "got compsed; nearest: composed"),
        ([("kind: composed\n", "")], "missing key 'kind' (expected one of pim, roofline, npu_pim, composed, "),
        ([("type: gemv", "type: gemvv")], "type: expected one of arrays, gemv, roofline, got gemvv; nearest: gem"),
        ([("type: gemv, ", "")], "units.pim: missing key 'type' (expected one of arrays, gemv, roofline)"),
        ([("at: bank", "at: bnak")], "got bnak; nearest: bank"),
        ([("overlap: serial", "overlap: serail")], "got serail; nearest: serial"),
    ],
)  # fmt: skip
def test_what_is_refused(changes: list[tuple[str, str]], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run(toy(tmp_path, *changes), Batch.decode([9]))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert re.match(r"\S+/toy\.yaml:\d+: at \$(\.\w+|: missing)", str(caught.value))


def test_what_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r":\d+: at \$.memories.card: has 4,294,967,296 bytes, .* weights and .* there"):
        run(toy(tmp_path), Batch.decode([9]), MIXTRAL, layers=32)
    with pytest.raises(UserError, match="divisor of the 12 heads"):
        run(toy(tmp_path), Batch.decode([9]), tp=5)
    with pytest.raises(UserError, match="has no key peers"):
        run(toy(tmp_path, ("peers: {gbps: 400, latency_ns: 700, pj_per_bit: 4, topology: ring}\n", "")),
            Batch.decode([9]), tp=2)  # fmt: skip
    with pytest.raises(UserError, match="a step of verify, and runs has no verify"):
        run(toy(tmp_path), Batch.verify([9], 3))


class Fixed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A unit of this test: every operator takes as long."""

    type: Literal["fixed"]
    memory: str
    ns: int
    power_w: float | None = None


class FixedUnit:
    fuses, heads = False, 1

    def __init__(self, system: System, name: str, llm: Any) -> None:
        self._ps = system.spec.units[name].ns * 1000  # type: ignore[union-attr]

    def refuses(self, op: Op) -> str | None:
        return "it knows no softmax" if op.kind == "softmax" else None

    def price(self, ops: Any) -> Price:
        return Price(self._ps)


unit = FixedUnit


def test_a_unit_that_only_this_test_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UNITS, "fixed", Fixed)
    monkeypatch.setitem(MODULES, "fixed", __name__)
    text = TOY.replace("pim: {type: gemv, memory: card, at: bank, lanes: 16, power_w: 7}",
                       "pim: {type: fixed, memory: card, ns: 70}")  # fmt: skip
    found = run(toy(tmp_path, text=text), Batch.decode([64]), layers=2)
    assert {span.end_ps - span.start_ps for span in found.spans if span.resource == "pim"} == {70_000}
    with pytest.raises(UserError, match="pim cannot run softmax .*: it knows no softmax"):
        run(toy(tmp_path, ("all: cpu}\noverlap", "softmax: pim, all: cpu}\noverlap"), text=text), Batch.decode([64]))


@pytest.mark.parametrize("name", ["phone", "pim_card", "hbm3_npu"])
def test_examples_have_a_source_for_every_number(name: str) -> None:
    system = load_system(str(EXAMPLES / f"{name}.yaml"))
    assert list(placed(system.spec))  # type: ignore[arg-type]
    assert {source.file for source in system.sources.values()} >= {str(EXAMPLES / f"{name}.yaml")}
    lines = (EXAMPLES / f"{name}.yaml").read_text().splitlines()
    numbers = [line for line in lines if re.match(r" *\w+: [\d.]+", line)]
    assert len(numbers) >= 7 and all(re.search(r"# .*\w{3}", line) for line in numbers)


@pytest.mark.parametrize("name", ["phone", "pim_card"])
def test_examples_run(name: str) -> None:
    path = EXAMPLES / f"{name}.yaml"
    slow, fast = (run(path, Batch.decode([n])).end_ps for n in (900, 100))
    assert slow > fast and run(path, Batch.prefill([64])).end_ps > fast
