"""Numbers through AiM's banks, buffers and registers: against plain loops, bit for bit, and against float32."""

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.cycle_sim.aim.banks import BF16, AimBanks, sigmoid
from pimloom.systems.memory.aim.data import AimData
from pimloom.systems.memory.aim.instruction_line import Shape
from tests.command import call

SHAPE = Shape(2, 16, 16384, 64, 64)
BOTH, FIRST = "3", "2"  # masks: both channels; channel 0


def rounded(x: float | np.float32) -> float:
    """To bfloat16, to even, by its bits."""
    bits = int(np.float32(x).view(np.uint32))
    bits += 0x7FFF + (bits >> 16 & 1)
    return float(np.uint32(bits & 0xFFFF0000).view(np.float32))


def dot(weights: np.ndarray, inputs: np.ndarray, start: float, width: str) -> float:
    """MACs column by column: a tree of sixteen products, then the accumulator, which rounds each time."""
    total = np.float32(start)
    for column, entry in zip(weights.astype(np.float32), inputs.astype(np.float32), strict=True):
        level = [a * b for a, b in zip(column, entry, strict=True)]
        while len(level) > 1:
            level = [level[i] + level[i + 1] for i in range(0, len(level), 2)]
        total = total + level[0]
        total = np.float32(rounded(total)) if width == "bf16" else total
    return rounded(total)


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(BF16)


@pytest.mark.parametrize("width", ["bf16", "float32"])
def test_a_product_of_all_banks_is_the_loop_bit_for_bit(width) -> None:
    banks, x, bias = AimBanks(2, 16, 64, accumulators=3, accumulator=width), drawn(1, 1, 64, 16), drawn(2, 3, 2, 16)
    for row in range(3):
        banks.row(row)[:] = drawn(10 + row, 2, 16, 64, 16)
    banks.load([0, 1], x)
    for k in range(3):
        banks.set([0, 1], bias[k])
    for row in range(3):
        banks.multiply([0, 1], row, 64)
    for row in range(3):
        found = banks.results([0, 1])
        right = [[dot(banks.row(row)[c, b], x[0], bias[row, c, b], width) for b in range(16)] for c in range(2)]
        assert found.astype(np.float32).tolist() == right


def test_one_more_accumulator_than_a_bank_has_is_refused() -> None:
    banks = AimBanks(1, 16, 4, accumulators=2)
    with pytest.raises(ValueError, match="2 accumulators of a bank are set already"):
        for _ in range(3):
            banks.set([0], np.zeros((1, 16), BF16))


def test_bfloat16_accumulators_lose_and_wide_ones_do_not() -> None:
    """256 columns of about the same sum: half an ulp each time against one rounding in the end."""
    errors = {}
    for width in ("bf16", "float32"):
        banks = AimBanks(1, 16, 256, accumulator=width)
        banks.row(0)[:] = w = np.abs(drawn(5, 1, 16, 256, 16))
        banks.load([0], x := np.abs(drawn(6, 1, 256, 16)))
        banks.multiply([0], 0, 256)
        right = np.einsum("bcl,cl->b", w[0].astype(float), x[0].astype(float))
        errors[width] = np.abs(banks.results([0])[0].astype(float) / right - 1).max()
    assert errors["float32"] < 2**-8 < 0.03 < errors["bf16"] < 0.1  # measured: 0.057


def test_the_sigmoid_is_that_of_its_table() -> None:
    x = np.linspace(-30, 30, 7001, dtype=np.float32)
    error = np.abs(sigmoid(x) - 1 / (1 + np.exp(-x.astype(float))))
    assert error[np.abs(x) < 10].max() < 2e-5 and error.max() < 5e-5 and sigmoid(0) == 0.5


def ran(lines: list[str], host: np.ndarray, device: AimData | None = None) -> np.ndarray:
    return (device or AimData(SHAPE)).run([*lines, "AiM EOC"], host)


def test_what_the_host_writes_comes_back() -> None:
    host = drawn(1, 5, 16).astype(np.float32)
    lines = ["W GPR 3", "W MEM 1 4 9", "W MEM 1 4 9", "W MEM 0 4 9", "W GPR 0", "R MEM 1 4 9", "R MEM 1 4 9"]
    assert (ran([*lines, "R GPR 3", "R MEM 0 4 9", "R GPR 7"], host)
            == np.stack([host[1], host[2], host[0], host[3], np.zeros(16)])).all()  # fmt: skip


def test_a_product_with_bias_function_and_sum() -> None:
    device = AimData(SHAPE)
    device.banks.row(7)[:, :, :4] = w = drawn(1, 2, 16, 4, 16)
    host = drawn(2, 6, 16).astype(np.float32)
    lines = [*(f"W GPR {i}" for i in range(6)), f"AiM WR_GB 4 0 {BOTH}", f"AiM WR_BIAS 4 {BOTH}"]
    lines += [f"AiM MAC_ABK 4 {BOTH} 7", f"AiM RD_MAC 10 {BOTH}", f"AiM AF {BOTH}", f"AiM RD_AF 12 {BOTH}"]
    lines += ["AiM EWADD 2 10 12", *(f"R GPR {i}" for i in (12, 13, 10, 11))]
    found = ran(lines, host, device)
    sums = np.array([[dot(w[c, b], host[:4], host[4 + c, b], "bf16") for b in range(16)] for c in range(2)])
    made = np.vectorize(rounded)(sigmoid(sums))
    assert (found == np.concatenate([made, np.vectorize(rounded)(sums + made)])).all()


def test_one_bank_neighbours_and_both_rows_of_a_program() -> None:
    """MACs that follow one WR_BIAS go on in one accumulator; CFR 0 takes the neighbour instead of the buffer."""
    device = AimData(SHAPE)
    for row in (0, 1):
        device.banks.row(row)[:] = drawn(row, 2, 16, 64, 16)
    rows = [device.banks.row(row)[0] for row in (0, 1)]
    start = [f"AiM WR_BIAS 8 {FIRST}"]
    lines = [*start, "W CFR 0 1", f"AiM MAC_ABK 3 {FIRST} 0", f"AiM MAC_ABK 2 {FIRST} 1", f"AiM RD_MAC 0 {FIRST}"]
    lines += [*start, f"AiM MAC_SBK 3 {FIRST} 15 0", f"AiM RD_MAC 1 {FIRST}", "R GPR 0", "R GPR 1"]
    both, one = ran(lines, np.zeros((0, 16)), device)
    for bank in range(0, 16, 2):
        first = dot(rows[0][bank, :3], rows[0][bank + 1, :3], 0, "bf16")
        assert both[bank] == dot(rows[1][bank, :2], rows[1][bank + 1, :2], first, "bf16") and both[bank + 1] == 0
    assert one.tolist() == [0.0] * 15 + [dot(rows[0][15, :3], rows[0][0, :3], 0, "bf16")]


@pytest.mark.parametrize(("groups", "every"), [(0, False), (1, True)])
def test_elementwise_products_and_copies(groups, every) -> None:
    device = AimData(SHAPE)
    device.banks.row(2)[:] = drawn(3, 2, 16, 64, 16)
    before = device.banks.row(2)[0].copy()
    lines = [f"W CFR 1 {groups}", f"AiM EWMUL 2 {FIRST} 2", f"AiM COPY_BKGB 2 {FIRST} 2 2"]
    ran([*lines, f"AiM COPY_GBBK 2 {FIRST} 9 5"], np.zeros((0, 16)), device)
    product = (before[0].astype(np.float32) * before[1].astype(np.float32))[:2].astype(BF16)
    assert (device.banks.row(2)[0, 2, :2] == product).all() and (device.banks.row(5)[0, 9, :2] == product).all()
    assert (device.banks.row(2)[0, 14] == before[14])[:2].all() != every
    assert (device.banks.row(2)[0, 2, 2:] == before[2, 2:]).all()


def test_one_element_of_each_bank() -> None:
    device = AimData(SHAPE)
    lines = ["W GPR 0", "W GPR 1", f"AiM WR_ABK 0 {FIRST} 4", f"AiM WR_ABK 1 {FIRST} 4", f"AiM RD_SBK 5 {FIRST} 3 4"]
    host = np.arange(32.0).reshape(2, 16)
    assert ran([*lines, "R GPR 5"], host, device)[0, :3].tolist() == [3, 19, 0]
    assert (device.banks.row(4)[0, :, 0, 1] == np.arange(16, 32)).all() and not device.banks.row(4)[1].any()


@pytest.mark.parametrize(("lines", "said"), [
    (["W GPR 0"], "line 1: W GPR: no vector is left in the data"),
    ([], "data: 1 vectors are left; expected one for each W MEM and W GPR"),
    (["AiM WR_BIAS 63 3"], "line 1: expected registers below 64, got 63 to 64"),
    (["", "AiM MAC_ABK 65 3 0"], "line 2: MAC_ABK: expected at most the 64 columns of a row, got 65"),
    (["W CFR 2 1", "AiM AF 3"], "line 2: AF: function 1 has no table; expected CFR 2 to be 0, the sigmoid"),
])  # fmt: skip
def test_what_has_no_data_is_refused(lines, said) -> None:
    with pytest.raises(UserError, match=said):
        ran(lines, np.zeros((0 if lines else 1, 16)))


def test_the_command(tmp_path) -> None:
    program, data, read = (tmp_path / name for name in ("p.aim", "in.npy", "out.npy"))
    program.write_text("W GPR 0\nW MEM 31 3 8\nAiM WR_GB 1 0 1\nAiM MAC_ABK 1 1 8\nAiM RD_MAC 1 1\nR GPR 1\nAiM EOC\n")
    np.save(data, np.stack([np.arange(16), np.full(16, 2)]))
    done = call("aim", program, "--data", data, "--read", read, "-q")
    assert (done.code, np.load(read)[0, 3], np.load(read).shape) == (0, 240, (1, 16))
    np.save(data, np.zeros((1, 16)))
    done = call("aim", program, "--data", data, "--read", read, "-q")
    said = f"pimloom: {program}:2: W MEM: no vector is left in the data; expected one for each\n"
    assert (done.code, done.err) == (2, said)
