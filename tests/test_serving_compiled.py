"""Kernels of serving against Python's own schedulers and clock: every tick, every row, every bit of an energy."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.systems.devices.pim_gpt import PimGptDevice
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.serving.clock import compiled, names
from pimloom.systems.serving.clock.cluster import ROUTERS, serve
from pimloom.systems.serving.clock.compiled import Board, ClosedForm, CompiledReplica
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.clock.rules import RULES, limits_of
from pimloom.systems.serving.kernels import fields as f
from pimloom.systems.serving.online import compiled as machines
from pimloom.systems.serving.schedulers.faster_transformer import FasterTransformer
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.orca import Orca
from pimloom.systems.serving.schedulers.sarathi import Sarathi, VidurSarathi
from pimloom.systems.serving.schedulers.static import Static
from pimloom.systems.serving.schedulers.vidur_vllm import VidurVllm
from tests import serving_cases as stored
from tests.reference_data import folders, reference_cases
from tests.test_schedulers import LONGEST, MAKE, WINDOWS, Case, cases, pool, possible, requests_of, reserved

FORMS: dict[str, Callable[[], ClosedForm]] = {  # those of `serving_cases.LATENCIES`
    "lin": lambda: ClosedForm(4000, 0, 20, products=(1, 0, 64)),
    "roof": lambda: ClosedForm(0, 12000, 20, context=(1, 31, 32), pairs=(1, 4095, 4096)),
    "const": lambda: ClosedForm(10000),
    "tok": lambda: ClosedForm(5000, 0, 20),
}
ROWS = (f.ON, f.STARTED, f.TOOK, f.ENDS, f.MANY, f.TOKENS, f.CONTEXTS, f.LEFT_WAITING, f.HELD, f.ONCE_MORE)
FIELDS = (*compiled.KEPT.values(), "swaps")
PYTHONS = ("lightllm", "vllm-v0 swap", "vllm-v0 chunked")
HAVE_KERNELS = [name for name in MAKE if name not in PYTHONS]
STAGED: dict[str, Callable[[Case, int], Scheduler]] = {
    "vidur-vllm": lambda c, stages: VidurVllm(pool(c), c.watermark, c.cap * stages, c.budget, stages),
    "sarathi": lambda c, stages: Sarathi(pool(c), c.watermark, c.cap * stages, c.budget, stages),
    "vidur-sarathi": lambda c, stages: VidurSarathi(pool(c), c.watermark, c.cap * stages, c.budget, stages),
    "orca": lambda c, stages: Orca(pool(c), reserved(c), c.cap),
    "static": lambda c, stages: Static(pool(c), reserved(c), c.cap, LONGEST),
    "leak": lambda c, stages: FasterTransformer(pool(c), reserved(c), c.cap, leak=True),
}


def by_kernels(
    requests: list[LiveRequest],
    schedulers: Sequence[Scheduler],
    form: str,
    stages: int = 1,
    router: str = "round-robin",
) -> list[list[int]]:
    """Rows of iterations; requests and schedulers are told what came of them."""
    board, limits = Board(requests, FORMS[form](), len(requests)), [limits_of(one) for one in schedulers]
    replicas = [
        CompiledReplica(scheduler, mine, board, i, stages)
        for i, (scheduler, mine) in enumerate(zip(schedulers, limits, strict=True))
        if mine is not None
    ]
    serve(requests, replicas, ROUTERS[router](replicas))
    board.tell()
    for replica in replicas:
        replica.tell()
    found: list[list[int]] = board.shared.rows[: board.shared.counts[f.N_ROWS], list(ROWS)].tolist()
    return found


def by_python(
    requests: list[LiveRequest],
    schedulers: Sequence[Scheduler],
    form: str,
    stages: int = 1,
    router: str = "round-robin",
) -> list[list[int]]:
    """The same of Python."""
    price, rows = stored.LATENCIES[form], list[list[int]]()
    computed = {request.number: set[int]() for request in requests}  # places that were in its cache

    def replica(i: int, scheduler: Scheduler) -> Replica:
        def seen(made: Iteration) -> None:
            units = getattr(scheduler.blocks, "units", scheduler.blocks.total)
            context, held = sum(made.new) + sum(made.cached), units - scheduler.blocks.free
            counted = [len(made.new), sum(made.new), context, len(scheduler.waiting), held]
            again = 0
            for request, n, p in zip(made.requests, made.new, made.cached, strict=True):
                places = set(range(p, p + n))
                request.again += len(places & computed[request.number])
                again += len(places & computed[request.number])
                computed[request.number] |= set(range(p + n))
            rows.append([i, made.start, made.ticks, made.end, *counted, again])

        return Replica(scheduler, lambda made: price(made.new, made.cached), stages, seen)

    replicas = [replica(i, scheduler) for i, scheduler in enumerate(schedulers)]
    serve(requests, replicas, ROUTERS[router](replicas))
    return rows


def same(case: Case, make: Callable[[Case], Scheduler], n: int = 1, **how: Any) -> None:
    ours, theirs = requests_of(case), requests_of(case)
    made, known = [[make(case) for _ in range(n)] for _ in range(2)]
    assert by_kernels(ours, made, **how) == by_python(theirs, known, **how)
    for a, b in zip(ours, theirs, strict=True):
        assert [getattr(a, name) for name in FIELDS] == [getattr(b, name) for name in FIELDS]
    assert [list(one.gaps) for one in made] == [list(one.gaps) for one in known]
    assert [list(one.came) for one in made] == [list(one.came) for one in known]
    assert sum(sum(one.came) - len(one.gaps) for one in made) == sum(r.first_token >= 0 for r in ours)


@pytest.mark.parametrize("name", HAVE_KERNELS)
@given(case=cases(), form=st.sampled_from(sorted(FORMS)), room=st.sampled_from([1, 4096]))
@settings(max_examples=16)
def test_a_kernel_does_what_the_scheduler_does(name, case, form, room):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compiled, "ROOM", room)  # of the first arrays, which grow
        same(possible(case, name), MAKE[name], form=form)


@pytest.mark.parametrize("name", HAVE_KERNELS)
@given(case=cases(), window=st.sampled_from(WINDOWS))
@settings(max_examples=8)
def test_a_kernel_does_what_the_scheduler_does_with_windows(name, case, window):
    same(possible(case._replace(window=window), name), MAKE[name], form="lin")


@pytest.mark.parametrize("name", STAGED)
@given(case=cases(), stages=st.integers(1, 4), n=st.integers(1, 3), router=st.sampled_from(sorted(ROUTERS)))
@settings(max_examples=10)
def test_the_same_with_stages_and_replicas(name, case, stages, n, router):
    case = possible(case, {"leak": "faster-transformer"}.get(name, name))
    same(case, lambda c: STAGED[name](c, stages), n, form="lin", stages=stages, router=router)


def test_what_kernels_do_not_have_is_left_to_python():
    case = Case([], 100, 4, 4, 100, 1, 0)
    left = [name for name in MAKE if limits_of(MAKE[name](case)) is None]
    assert set(left) == set(MAKE) - set(HAVE_KERNELS)

    class Mine(Orca):
        """Another rule."""

    assert Orca in RULES and limits_of(Mine(pool(case), 9, 4)) is None


def stored_scheduler(case: Path) -> Scheduler:
    config = stored.config_of(case)
    return {
        "vidur": lambda: stored.vidur_scheduler(config),
        "vllm_v0": lambda: stored.vllm_v0_scheduler(config),
        "vllm_v1": lambda: stored.vllm_v1_scheduler(config, case),
    }[case.parent.name]()


COLUMNS = {"vidur": stored.VIDUR_COLUMNS, "vllm_v0": stored.V0_COLUMNS, "vllm_v1": stored.V1_COLUMNS}


@pytest.mark.parametrize("case", [one for name in COLUMNS for one in reference_cases(f"serving/{name}")])
def test_schedules_of_the_programs_themselves(case):
    config, requests = stored.config_of(case), stored.requests_of(case)
    schedulers = [stored_scheduler(case) for _ in range(config.get("replicas", 1))]
    if limits_of(schedulers[0]) is None:
        pytest.skip("a rule that kernels do not have")
    router = "least-waiting" if config.get("global") == "lor" else "round-robin"
    rows = by_kernels(requests, schedulers, config["latency"], config.get("pp", 1), router)
    assert stored.told(requests, COLUMNS[case.parent.name]) == stored.rows(case / "expected.csv")
    kept = [
        [int(row.get("replica", 0)), int(row["start"]), int(row["ticks"]), *numbers(row)]
        for row in stored.rows(case / "iterations.csv")
    ]
    assert sorted([*row[:3], *row[4:7]] for row in rows) == sorted(kept)


def numbers(row: stored.Row) -> list[int]:
    """Requests, new tokens, contexts."""
    new, cached = ([int(n) for n in row[name].split()] for name in ("new_tokens", "cached_tokens"))
    return [len(row["requests"].split()), sum(new), sum(new) + sum(cached)]


@pytest.mark.reference
def test_most_stored_schedules_are_ours_to_judge():
    every = [case for name in COLUMNS for case in folders(f"serving/{name}")]
    known = [case for case in every if limits_of(stored_scheduler(case)) is not None]
    assert len(known) >= len(every) / 2


MOONCAKE = Path(__file__).parents[1] / "examples" / "serving" / "mooncake_conversation_0_400.jsonl"
WINDOWED = str(Path(__file__).parent / "models" / "gemma-3-1b.json")
SERVED: list[dict[str, Any]] = [
    {"scheduler": name, "requests": 20}
    for name in ("vllm-v1", "vllm-v0", "sarathi", "orca", "faster-transformer", "static")
]
SERVED += [{"scheduler": name, "pp": 2, "requests": 20} for name in ("vidur-vllm", "vidur-sarathi")]
SERVED += [
    {"blocks": 30, "sample": 2},
    {"blocks": 30, "num_preallocate_tokens": 0, "scheduler_reserve_full_isl": True},
    {"blocks": 30, "scheduler": "vllm-v0"},
    {"model": WINDOWED, "blocks": 60, "lengths": "700:30", "layers": None},
    {"replicas": 3, "router": "least-waiting", "slo": "ttft=1ms"},
    {"arrivals": "closed:3", "replicas": 2},
    {"system": "pim_gpt", "requests": 4, "lengths": "8:4", "layers": None},
    {"trace": MOONCAKE, "lengths": None, "cut": True, "blocks": 260},
    {"trace": MOONCAKE, "lengths": None, "cut": True, "blocks": 300, "scheduler_reserve_full_isl": True, "replicas": 2},
    {"goodput": True, "slo": "ttft=2ms,tpot=1ms", "rate": "50:20000", "lengths": "64:16"},
]


@pytest.mark.parametrize("asked", SERVED, ids=lambda asked: " ".join(map(str, asked.values())))
def test_what_is_served_is_the_same_to_the_last_bit(asked, monkeypatch):
    options: dict[str, Any] = {"system": "gpu_a100", "model": "gpt2", "arrivals": "poisson:500/s"}
    options |= {"requests": 40, "layers": 2}
    options |= {"lengths": "alpaca"} | asked
    called = list[int]()
    replicas_of = machines.replicas_of

    def watched(*given: Any) -> Any:
        found = replicas_of(*given)
        called.append(len(found or ()))
        return found

    for device in (RooflineDevice, PimGptDevice):
        monkeypatch.setattr(device, "exact_steps", 0)  # so that prices are interpolated
    monkeypatch.setattr(machines, "replicas_of", watched)
    fast = pimloom.serve(**options)
    assert called and all(called)
    monkeypatch.setattr(machines, "replicas_of", lambda *given: None)
    slow = pimloom.serve(**options)
    assert json.dumps(fast.to_dict()) == json.dumps(slow.to_dict())


@pytest.mark.parametrize(
    "asked", [{"exact": True}, {"speculate": "medusa"}, {"branches": "2"}, {"scheduler": "lightllm"}]
)
def test_what_is_asked_beyond_kernels_is_pythons(asked, monkeypatch):
    made = list[object]()
    monkeypatch.setattr(CompiledReplica, "run_until", lambda self, until: made.append(self))
    options: dict[str, Any] = {"model": "gpt2", "layers": 2, "arrivals": "burst", "lengths": "8:3", "requests": 3}
    assert len(pimloom.serve("gpu_a100", **options | asked).requests) == 3 and not made


def test_identities_that_take_too_much_memory_are_pythons(monkeypatch):
    case = Case(
        [{"number": 0, "arrival": 0, "prompt": 160, "output": 1, "group": 0, "shared": 0}], 100, 16, 4, 100, 1, 0
    )
    requests, one = requests_of(case), MAKE["vllm-v1 prefix"](case)
    for room, some, fit in ((40, [one], True), (39, [one], False), (59, [one] * 2, False), (60, [one] * 2, True)):
        monkeypatch.setattr(names, "MOST", room)  # of ten blocks: two tables, and two of each replica
        assert names.fits(requests, some) == fit
    assert names.fits(requests, [MAKE["vllm-v1"](case)])


def test_a_sample_of_what_is_shown_is_even():
    """Each of 30 is kept in 8 of 30 runs, in the mean."""
    from pimloom.systems.serving.pricing.sampling import Stratum

    often = np.zeros(30)
    for seed in range(600):
        kind = Stratum(8, seed)
        for i in range(30):
            if kind.takes(1.0):
                kind.keep([i])  # type: ignore[list-item]
        assert kind.seen == 30 and len(kind.kept) == 8
        often[[kept[0] for kept in kind.kept]] += 1
    np.testing.assert_allclose(often / 600, 8 / 30, atol=0.08)
