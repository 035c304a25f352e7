"""CENT's layer on numbers against plain float32 numpy, and its products against plain loops, bit for bit."""

import msgspec
import numpy as np
import pytest

from pimloom.arch.llm import load_llm
from pimloom.cycle_sim.aim.banks import BF16
from pimloom.mappers.cent import Layer, Place, layer_of
from pimloom.mappers.cent_layer import layer_pieces, layer_program
from pimloom.systems.devices.cent.data import CentLayer, Weights
from tests.test_aim_data import dot

SIDE_BY_SIDE = Place(channels=4, banks=16, row=32, column=16, block_channels=2, devices=1, latches=4, longest=96)
ALONE = SIDE_BY_SIDE._replace(channels=3, block_channels=3, latches=32)
LAYER, GROUPED = Layer(128, 4, 4, 32, 208), Layer(128, 8, 2, 16, 80)
NARROW = LAYER._replace(ffn=112)
TOKENS = 34  # the last ones lie in a second row


def random_weights(layer: Layer, seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    q, kv, hidden, ffn = layer.heads * layer.head, layer.kv_heads * layer.head, layer.hidden, layer.ffn
    shapes = {
        "q_proj": (hidden, q), "k_proj": (hidden, kv), "v_proj": (hidden, kv), "o_proj": (q, hidden),
        "gate_proj": (hidden, ffn), "up_proj": (hidden, ffn), "down_proj": (ffn, hidden),
    }  # fmt: skip
    matrices = {name: (rng.normal(size=s) / s[0] ** 0.5).astype(np.float32) for name, s in shapes.items()}
    norms = [(1 + 0.1 * rng.normal(size=hidden)).astype(np.float32) for _ in range(2)]
    frequencies = 10000.0 ** -np.linspace(0, 1, layer.head // 2, endpoint=False)
    return Weights(matrices, norms[0], norms[1], frequencies.astype(np.float32))


def float32_layer(layer: Layer, w: Weights, tokens: np.ndarray) -> np.ndarray:
    """All tokens, one after the other, as Llama's code has it."""
    outputs, keys, values = [], [], []

    def norm(x, gains):
        return x / np.sqrt((x**2).mean() + 1e-5) * gains

    def turned(x, t):
        pairs = x.reshape(-1, layer.head // 2, 2)
        turn = np.exp(1j * t * w.frequencies)
        z = (pairs[..., 0] + 1j * pairs[..., 1]) * turn
        return np.stack([z.real, z.imag], axis=-1).reshape(-1, layer.head)

    for t, x in enumerate(tokens):
        into = norm(x, w.norm)
        q, k, v = (into @ w.matrices[f"{name}_proj"] for name in "qkv")
        q = turned(q, t)
        keys.append(turned(k, t))
        values.append(v.reshape(-1, layer.head))
        heads = []
        for head in range(layer.heads):
            mine = head * layer.kv_heads // layer.heads
            p = np.exp(np.array([key[mine] @ q[head] for key in keys]) / layer.head**0.5)
            heads.append(p / p.sum() @ np.array([value[mine] for value in values]))
        x = x + np.concatenate(heads) @ w.matrices["o_proj"]
        into = norm(x, w.second_norm)
        gate = into @ w.matrices["gate_proj"]
        outputs.append(x + gate / (1 + np.exp(-gate)) * (into @ w.matrices["up_proj"]) @ w.matrices["down_proj"])
    return np.array(outputs)


@pytest.mark.parametrize(
    ("layer", "place", "width", "mean", "most"),
    [
        pytest.param(NARROW, SIDE_BY_SIDE, "bf16", 0.009, 0.012, id="layers side by side", marks=pytest.mark.slow),
        pytest.param(NARROW, ALONE, "float32", 0.007, 0.010, id="wide accumulators, banks left over"),
        pytest.param(GROUPED, SIDE_BY_SIDE, "bf16", 0.009, 0.012, id="four query heads share keys"),
    ],
)
def test_a_layer_is_the_float32_layer(layer, place, width, mean, most) -> None:
    """Measured: 0.6 to 0.8 % on average, at most 1.1 %; that is 1.5 to 3 halves of bfloat16's last place."""
    weights = random_weights(layer, 3)
    x = np.random.default_rng(4).normal(size=(TOKENS, layer.hidden)).astype(BF16)
    device = CentLayer(layer, place, weights, width)
    found = np.array([device.run(token) for token in x]).astype(np.float32)
    right = float32_layer(layer, weights, x.astype(np.float32))
    errors = np.linalg.norm(found - right, axis=1) / np.linalg.norm(right, axis=1)
    assert errors.mean() < mean and errors.max() < most, (errors.mean(), errors.max())


def test_a_matrix_is_the_loop_bit_for_bit() -> None:
    """Pieces of a row, each going on where the last one's sums have come back."""
    weights = random_weights(LAYER, 5)
    device = CentLayer(LAYER, SIDE_BY_SIDE, weights)
    _, pieces = layer_pieces(LAYER, SIDE_BY_SIDE, 1)
    device._pieces = dict(pieces)
    x = np.random.default_rng(6).normal(size=LAYER.ffn).astype(BF16)
    found, _ = device._product("down_proj", x)
    matrix = weights.matrices["down_proj"].astype(BF16)
    for out in range(0, LAYER.hidden, 7):
        columns = np.zeros((14, 16), BF16), np.zeros((14, 16), BF16)
        columns[0].reshape(-1)[: LAYER.ffn], columns[1].reshape(-1)[: LAYER.ffn] = matrix[:, out], x
        assert float(found[out]) == dot(*columns, 0, "bf16")


@pytest.mark.parametrize("context", [1, 33, 64])
def test_the_pieces_are_the_whole_program(context) -> None:
    _, pieces = layer_pieces(LAYER, SIDE_BY_SIDE, context)
    whole = np.concatenate([rows for _, rows in pieces])
    assert np.array_equal(whole, layer_program(LAYER, SIDE_BY_SIDE, context)[:-1])


def test_nothing_moves_as_a_context_grows() -> None:
    assert layer_pieces(LAYER, SIDE_BY_SIDE, 1)[0] == layer_pieces(LAYER, SIDE_BY_SIDE, 96)[0]


def test_every_value_decides_something() -> None:
    """One weight of each matrix and norm changed: the first token's output changes."""
    weights, x = random_weights(GROUPED, 7), np.random.default_rng(8).normal(size=GROUPED.hidden).astype(BF16)
    plain = CentLayer(GROUPED, ALONE, weights).run(x)

    def changed(**fields) -> bool:
        return bool((CentLayer(GROUPED, ALONE, weights._replace(**fields)).run(x) != plain).any())

    for name, matrix in weights.matrices.items():
        other = matrix.copy()
        other[17, 5] += 64
        if name not in ("q_proj", "k_proj"):  # one token has all the attention
            assert changed(matrices={**weights.matrices, name: other}), name
    other = weights.norm.copy()
    other[100] += 8
    assert changed(norm=other) and changed(second_norm=other)


def test_a_layer_on_several_devices_has_no_data() -> None:
    with pytest.raises(ValueError, match="expected one device"):
        CentLayer(LAYER, SIDE_BY_SIDE._replace(devices=2), random_weights(LAYER, 1))


def test_sizes_of_a_published_layer_are_taken() -> None:
    llm = msgspec.structs.replace(load_llm("llama-2-7b"), hidden_size=128, num_attention_heads=4, intermediate_size=208)
    assert layer_of(llm).hidden == 128
