"""The built-in request patterns are those of the reference traces, byte for byte, and what users write is checked."""

import hashlib
import json

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.memory import Memory
from pimloom.arch.name_units import capacity
from pimloom.cycle_sim.memory.patterns import PATTERNS, _next
from pimloom.systems.memory.patterns import parse_count, pattern_chunks
from tests.foreign import reference
from tests.reference_data import lines, reference_cases

LAYOUTS = {
    "ds3_ddr4": (6, {"column": 7, "bank_group": 2, "bank": 2, "rank": 1, "channel": 0, "row": 16}),
    "ds3_hbm2_1ch": (6, {"column": 5, "channel": 0, "bank": 2, "bank_group": 2, "rank": 0, "row": 15}),
    "ds3_hbm2": (6, {"column": 5, "channel": 3, "bank": 2, "bank_group": 2, "rank": 0, "row": 15}),
    "ds3_gddr6": (8, {"column": 7, "bank_group": 0, "bank": 4, "rank": 0, "channel": 0, "row": 14}),
    "r2_ddr4": (6, {"column": 7, "rank": 1, "bank_group": 2, "bank": 2, "channel": 0, "row": 16}),
    "r2_hbm2": (5, {"column": 5, "pseudo_channel": 1, "bank_group": 2, "bank": 2, "channel": 0, "row": 16}),
    "r2_gddr6": (5, {"column": 6, "rank": 0, "bank_group": 2, "bank": 2, "channel": 0, "row": 14}),
}
NAMES = {"seq": "sequential", "rand": "random", "rowconf": "row-conflict", "mix": "mixed", "randrw": "random-rw"}
SHA256 = {  # of 200,000 requests
    ("ds3_ddr4", "seq", 0): "8d704deff155b7985e5d32bd04305fa484ab3580b0eed3f951a7bd2b5c0d6c47",
    ("ds3_ddr4", "sparse", 5): "765399d7f820d12afb31a838f974cc90833660a515201cd30cddf8c98e88dfe2",
    ("ds3_hbm2", "mix", 3): "2294fc68913c964b9a7199d04e05652341c02ab09121e8d09a0a6b0cf0f5e33d",
    ("ds3_gddr6", "rand", 2): "08efb4de9825258eeba65e90757a46d91779084e33e6c59e8550008a8ea74aae",
    ("r2_ddr4", "mix", 3): "ee4eba0f69bb9170a9718372280749902d46d642cd709d9f93a2e32ee98f49e1",
    ("r2_hbm2", "rowconf", 4): "b6de4a2423ade7cd2a9cb7dc7f67c3c29808f185377146642662d8afa891b882",
    ("r2_hbm2", "mix", 3): "ee7c94e47d4e8a73f6ab676ab6302356989e4b5bb12442d59782a9c15dd3734c",
}
SPLITMIX64 = (0x975835DE1C9756CE, 0xBFC846100BFC1E42, 0x987BBCBFDD7E532F)  # seed 2


def memory(layout: str) -> Memory:
    """Any memory, with the addresses of the layout."""
    offset_bits, fields = LAYOUTS[layout]
    return reference()._replace(name=layout, offset_bits=offset_bits, address=tuple(fields.items()))


def text(layout: str, kind: str, n: int, seed: int, **options) -> str:
    """The trace as a file."""
    lines: list[str] = []
    for chunk in pattern_chunks(memory(layout), NAMES.get(kind, kind), n, seed, chunk=77_777, **options):
        rows = zip(*(column.tolist() for column in chunk), strict=True)
        if layout.startswith("r2"):
            lines += [f"{'ST' if write else 'LD'} {address:#x}\n" for address, write, _ in rows]
        else:
            lines += [f"{address:#x} {'WRITE' if write else 'READ'} {when}\n" for address, write, when in rows]
    return "".join(lines)


def test_splitmix64():
    state = np.array([2], np.uint64)
    with np.errstate(over="ignore"):  # as Python it warns where machine code goes on
        assert tuple(int(_next(state)) for _ in SPLITMIX64) == SPLITMIX64


@pytest.mark.parametrize("case", SHA256, ids=lambda case: "-".join(map(str, case[:2])))
def test_long_traces_are_the_reference_ones(case):
    layout, kind, seed = case
    assert hashlib.sha256(text(layout, kind, 200_000, seed).encode()).hexdigest() == SHA256[case]


@pytest.mark.parametrize("case", [*reference_cases("dramsim3"), *reference_cases("ramulator2")])
def test_the_traces_of_all_cases(case):
    run = json.loads((case / "run.json").read_text())
    if "generator" not in run:
        pytest.skip("its requests are from no generator")
    _, layout, kind, n, seed, *more = run["generator"].split()
    gap = float(more[more.index("--gap") + 1]) if "--gap" in more else 0.0
    assert text(layout, kind, int(n), int(seed), gap=gap) == "".join(f"{line}\n" for line in lines(case / "input.trc"))


def test_strided_wraps_at_the_capacity_and_sequential_too():
    (chunk,) = pattern_chunks(memory("r2_gddr6"), "strided", 5, 0, stride=3 << 27)
    assert chunk.address.tolist() == [i * (3 << 27) % (1 << 29) for i in range(5)]
    (chunk,) = pattern_chunks(memory("r2_gddr6"), "strided", 3, 0)
    assert chunk.address.tolist() == [0, 32, 64]


@pytest.mark.parametrize("kind", PATTERNS)
def test_a_trace_is_the_same_in_any_chunks_and_keeps_within_the_capacity(kind):
    own = memory("r2_hbm2")
    whole, parts = (
        [np.concatenate(column) for column in zip(*pattern_chunks(own, kind, 1000, 7, gap=3.5, chunk=n), strict=True)]
        for n in (1000, 7)
    )
    assert all((a == b).all() for a, b in zip(whole, parts, strict=True))
    address, write, when = whole
    assert ((address >= 0) & (address < own.capacity_bytes)).all() and set(write.tolist()) <= {0, 1}
    assert (np.diff(when) >= 0).all() and when[-1] > 0


def test_fields_in_pieces():
    own = memory("r2_hbm2")
    split = own._replace(address=(("row", 3), *own.address[:-1], ("row", 13)))
    assert len(list(pattern_chunks(split, "random", 10, 0))) == 1
    with pytest.raises(UserError) as caught:
        pattern_chunks(split, "mixed", 10, 0)
    assert str(caught.value) == (
        "--pattern mixed: in an address of r2_hbm2, row comes in pieces; choose one of sequential, random, strided, "
        "sparse, random-rw, burst"
    )
    joined = own._replace(
        address=(("column", 5), ("rank", 1), ("pseudo_channel", 1), ("bank", 2), ("row", 9), ("row", 4))
    )
    assert len(list(pattern_chunks(joined, "mixed", 10, 0))) == 1


BAD: dict[str, tuple[tuple, dict]] = {
    "--pattern mixd: expected one of sequential, random, row-conflict, mixed, strided, sparse, random-rw, hazard, "
    "burst; nearest: mixed": (("mixd", 1, 0), {}),
    "--requests: expected a whole number of at least 1, got 0": (("random", 0, 0), {}),
    "--seed -1: expected a whole number from 0 to 2^64 - 1": (("random", 1, -1), {}),
    f"--seed {2**64}: expected a whole number from 0 to 2^64 - 1": (("random", 1, 2**64), {}),
    "--gap: expected a number of clocks of at least 0, got -1": (("random", 1, 0), {"gap": -1}),
    "--gap: expected a number of clocks of at least 0, got nan": (("random", 1, 0), {"gap": float("nan")}),
    "--gap: expected a number of clocks of at least 0, got inf": (("random", 1, 0), {"gap": float("inf")}),
    "--gap: 1000000 requests with 1e+10 clocks between them take more than 1e15 clocks": (
        ("random", 10**6, 0), {"gap": 1e10},
    ),
    "--gap: pattern burst expects more than 0 clocks between its requests, on average": (("burst", 1, 0), {"gap": 0.0}),
    "--stride: only the pattern strided has one, not random": (("random", 1, 0), {"stride": 64}),
    "--stride: expected bytes above 0 and below the capacity of 4 GiB, got 0": (("strided", 1, 0), {"stride": 0}),
    "--stride: expected bytes above 0 and below the capacity of 4 GiB, got 4294967296": (
        ("strided", 1, 0), {"stride": 1 << 32},
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", BAD)
def test_what_users_get_wrong(said):
    values, options = BAD[said]
    own = memory("r2_hbm2")
    own = own._replace(address=(*own.address[:-1], ("row", 17)))
    assert capacity(own.capacity_bytes) == "4 GiB"
    with pytest.raises(UserError) as caught:
        pattern_chunks(own, *values, **options)
    assert str(caught.value) == said


def test_counts():
    good = {"1": 1, " 200000 ": 200_000, "1e6": 10**6, "2.5E3": 2500, "1.0": 1, "9e18": 9 * 10**18}
    assert {written: parse_count(written) for written in good} == good
    for written in ("0", "-1", "1.5", "1e-3", "", "many", "nan", "inf", "-inf", "snan", "1e19", "1e999999999", "0x10"):
        with pytest.raises(UserError) as caught:
            parse_count(written, "--requests")
        assert str(caught.value) == (
            f"--requests: expected a whole number from 1 to 2^63 - 1, such as 200000 or 1e6, got {written}"
        )
