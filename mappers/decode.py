"""The steps of a token on PIM-GPT: a model's operators, products on the PIM channels and all else on the ASIC."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from pimloom.arch.program import AsicOp, AsicStep, PimStep, Step
from pimloom.arch.table import Table
from pimloom.arch.units import ceil_div
from pimloom.mappers.gemv import product, weighted_sum, write_k, write_v
from pimloom.mappers.layout import Packed, RowAligned
from pimloom.mappers.plan import ONE, Layer, Plan
from pimloom.workload.batch import Batch
from pimloom.workload.derive import layer_ops, ops
from pimloom.workload.op import Op

PRODUCTS = {  # of an operator: the name of its product, and of the additions behind it
    "self_attn.qkv_proj": ("QKV", "QKV partial sums and bias"),
    "self_attn.o_proj": ("projection", "projection partial sums and residual"),
    "mlp.up_proj": ("FFN1", "FFN1 partial sums and bias"),
    "mlp.gate_up_proj": ("FFN1", "FFN1 partial sums and bias"),
    "mlp.down_proj": ("FFN2", "FFN2 partial sums and residual"),
    "mlp.gate": ("router", "router partial sums and bias"),
    "mlp.experts.up_proj": ("expert FFN1", "expert FFN1 partial sums and bias"),
    "mlp.experts.gate_up_proj": ("expert FFN1", "expert FFN1 partial sums and bias"),
    "mlp.experts.down_proj": ("expert FFN2", "expert FFN2 partial sums and residual"),
    "mlp.shared_experts.up_proj": ("shared FFN1", "shared FFN1 partial sums and bias"),
    "mlp.shared_experts.gate_up_proj": ("shared FFN1", "shared FFN1 partial sums and bias"),
    "mlp.shared_experts.down_proj": ("shared FFN2", "shared FFN2 partial sums and bias"),
    "lm_head": ("LM head", "LM head partial sums"),
}
NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}
PLACES = {  # of a norm; the others stand where their names say
    "input_layernorm": "{} 1",
    "pre_feedforward_layernorm": "{} 2",
    "post_attention_layernorm": "{} behind attention",
    "post_feedforward_layernorm": "{} behind FFN",
    "self_attn.q_norm": "{} of Q",
    "self_attn.k_norm": "{} of K",
    "norm": "final {}",
}
SECOND_NORM = (
    "post_attention_layernorm"  # where norms stand before attention and FFN: Hugging Face's name for the FFN's
)


class Stage(NamedTuple):
    """An operator, and the sum of vectors behind it that the ASIC makes in one go with that of its partial results."""

    op: Op
    total: Op | None


def stages(found: Sequence[Op], parallel: bool) -> tuple[Stage, ...]:
    """A layer's operators in the order in which they run.

    The FFN's own norm of a parallel block waits until the FFN's turn.
    """
    order = [op for op in found if not (parallel and op.name == SECOND_NORM)]
    if len(order) < len(found):
        at = next(i for i, op in enumerate(order) if SECOND_NORM in op.after)
        order.insert(at, next(op for op in found if op.name == SECOND_NORM))
    made: list[Stage] = []
    for op in order:
        last = made[-1] if made else None
        if last and op.kind == "add" and not op.function and last.op.kind == "gemm" and last.op.name in op.after:
            made[-1] = Stage(last.op, op)
        else:
            made.append(Stage(op, None))
    return tuple(made)


class Kept(NamedTuple):
    """A layer's steps, operators in the places of those that grow with the context; values of its weights, and those
    of K and V of one token that are read."""

    steps: Sequence[Step | Op]
    weights: int
    read_each: int


def _grows(op: Op) -> bool:
    """Whether an operator's steps depend on the token: on its place, or on how many it sees."""
    return op.kind in ("cache_write", "score", "softmax", "value") or op.function == "softcap"


class Decoder:
    """Makes the steps of a token; streams that do not change from token to token are made once per layer."""

    def __init__(self, plan: Plan, table: Table) -> None:
        self.plan, self.table = plan, table
        self._made: dict[tuple, PimStep] = {}
        self._layers: dict[int, Layer] = {}
        self._alike: dict[int, Kept] = {}

    def timed_steps(self, t: int, layer: int = 0) -> list[Step]:
        """As `layer_steps`, but writes of K and V may be those of another token that take the same time."""
        return self._steps(t, layer, anywhere=True)

    def layer_steps(self, t: int, layer: int = 0) -> list[Step]:
        """Steps of one layer for the token at position t (1 = first), in order (specification 3.4).

        Residuals are added behind the product whose result they meet; those of a parallel block behind the FFN, to its
        input together, and its second norm, which takes the same input, finds mean and variance there and only
        normalises. A token goes to the first experts, each as large as the others.
        """
        return self._steps(t, layer, anywhere=False)

    def stages(self, t: int, layer: int = 0) -> tuple[Stage, ...]:
        """Operators of one layer for the token at position t."""
        spec = self.plan.spec
        return stages(layer_ops(spec, Batch.decode([t]), layer=layer), spec.parallel_attention)

    def _layer(self, index: int) -> Layer:
        if index not in self._layers:
            self._layers[index] = self.plan.layer(index)
        return self._layers[index]

    def _steps(self, t: int, layer: int, *, anywhere: bool) -> list[Step]:
        at, seen, steps = self._layer(layer), Batch.decode([t]).attended(self.plan.spec.window_of(layer)), list[Step]()
        for made in self._kept(layer).steps:
            steps += self._attention(made, at, t - 1, seen, anywhere) if isinstance(made, Op) else (made,)
        return steps

    def _kept(self, layer: int) -> Kept:
        """What a layer does for any token."""
        if layer not in self._alike:
            found, at = self.stages(1, layer), self._layer(layer)
            steps = [[stage.op] if _grows(stage.op) else self._of(stage, at) for stage in found]
            self._alike[layer] = Kept(
                [step for some in steps for step in some if not isinstance(step, AsicStep) or step.elements],
                sum(op.n_in * op.n_out * op.matrices for op, _ in found if op.kind == "gemm"),
                sum(op.moved.cache_read for op, _ in found),
            )
        return self._alike[layer]

    def _attention(self, op: Op, at: Layer, token: int, seen: int, anywhere: bool) -> Sequence[Step]:
        """Steps of an operator on the K and V of `seen` tokens, the last of them number `token`."""
        match op.kind:
            case "cache_write":
                return self._k_write(at.k, token, anywhere), self._v_write(at.v, token, anywhere)
            case "score":
                return (self._score(at.k, seen),)
            case "softmax":  # a sink is one more term of each head's sum
                return (AsicStep("softmax", "softmax", op.heads * (seen + op.biased)),)
            case "value":
                return (self._weighted_sum(at.v, seen),)
            case _:
                return (AsicStep("softcap of scores", "softcap", seen * op.n_out),)

    def _of(self, stage: Stage, at: Layer) -> Iterator[Step]:
        """Steps of an operator that is the same for every token, those without work included."""
        op, values = stage.op, stage.op.rows * stage.op.n_out
        match op.kind:
            case "gemm":
                yield from self._products(stage, at.matrices[op.name][: op.matrices])
            case "norm":
                yield self._norm(op)
            case "activation":
                yield AsicStep("activation", "activation", values)
                yield AsicStep("gate", "multiply", values * (op.terms - 1))
            case "rotary":
                yield AsicStep("rotary embedding", "rotary", values)
            case "router":
                yield AsicStep("choice of experts", "choose", op.n_in, op.n_out)
                yield AsicStep("softmax of experts", "softmax", op.n_out)  # of those chosen: their shares add up to 1
            case "add":
                if op.function == "weighted":
                    yield AsicStep("weights of experts", "multiply", op.terms * values)
                yield AsicStep(
                    "sum of experts" if op.function == "weighted" else "residual", "add", (op.terms - 1) * values
                )
            case _:
                raise AssertionError(op.kind)  # one device has no links, and a layer looks no token up

    def _norm(self, op: Op) -> AsicStep:
        spec, function = self.plan.spec, op.function
        second = op.name == SECOND_NORM and spec.norm_placement == "pre"
        place = "{} 2" if second else PLACES[op.name]
        again = second and spec.parallel_attention  # mean and variance of this input are there
        of: AsicOp = "normalise" if again else "rmsnorm" if function == "rmsnorm" else "layernorm"
        return AsicStep(place.format(NORMS[function]), of, op.rows * op.n_in)

    def _products(self, stage: Stage, matrices: Sequence[Packed]) -> Iterator[Step]:
        """Products with all matrices, then the partial results' sums with a bias and what `total` adds."""
        op, total = stage
        name, sums = PRODUCTS[op.name]
        yield from (self.product(name, w) for w in matrices)
        each = sum(len(w.chunks) - 1 + op.biased for w in matrices)
        yield AsicStep(sums, "add", op.n_out * (each + (total.terms - 1 if total else 0)))

    @cached_property
    def _outside(self) -> tuple[Op, ...]:
        """Operators before and behind all layers."""
        return tuple(op for op in ops(self.plan.spec, ONE) if not op.layers)

    @cached_property
    def first_steps(self) -> list[Step]:
        """Steps before the first layer, none without the LM head. Embedding and learned position come looked up and
        added from outside."""
        if self.plan.head is None:
            return []
        scaled = [op for op in self._outside if op.kind == "multiply"]
        return [AsicStep("scaled embedding", "multiply", op.rows * op.n_out) for op in scaled]

    @cached_property
    def last_steps(self) -> list[Step]:
        """Steps behind the last layer: norm, LM head and soft-capped logits if the LM head is mapped, else none."""
        head, steps = self.plan.head, list[Step]()
        if head is None:
            return steps
        for op in self._outside:
            if op.name == "norm":
                steps.append(self._norm(op))
            elif op.name == "lm_head":  # the first partial results count as terms, too
                name, sums = PRODUCTS[op.name]
                steps += [self.product(name, head), AsicStep(sums, "add", head.n_out * len(head.chunks))]
            elif op.name == "lm_head.softcap":
                steps.append(AsicStep("softcap of logits", "softcap", op.n_out))
        return steps

    def moved_by_baseline(self, t: int, layer: int = 0) -> int:
        """Values that a processor without PIM reads for one layer and token: its weights, K and V of what it sees."""
        kept = self._kept(layer)
        return kept.weights + kept.read_each * Batch.decode([t]).cached(self.plan.spec.window_of(layer))

    def product(self, name: str, w: Packed) -> PimStep:
        """The product with a matrix."""
        key = (name, w.first_row)  # in whatever banks: all run
        if key not in self._made:
            sent, received = self.plan.geo.channels * w.n_in, w.n_out * len(w.chunks)
            self._made[key] = PimStep(name, (name,), product(self.table, w), False, sent, received)
        return self._made[key]

    def _k_write(self, k: Packed, token: int, anywhere: bool) -> PimStep:
        place = token % k.n_out  # a window's keys lie in a ring
        key = ("K", place // self.plan.geo.all_banks)
        if not anywhere or key not in self._made:
            self._made[key] = PimStep("K write", key, write_k(self.table, k, place), True, self.plan.kv_dim, 0)
        return self._made[key]

    def _v_write(self, v: RowAligned, token: int, anywhere: bool) -> PimStep:
        key = ("V",)
        if not anywhere or key not in self._made:
            stream = write_v(self.table, v, token % v.n_in)
            self._made[key] = PimStep("V write", key, stream, False, self.plan.kv_dim, 0)
        return self._made[key]

    def _score(self, k: Packed, t: int) -> PimStep:
        slots, plan = ceil_div(t, self.plan.geo.all_banks), self.plan
        key = ("score", slots, k.first_row)
        if key not in self._made:
            stream = product(self.table, k, _heads(k, plan.head_width), slots, plan.sharing)
            self._made[key] = PimStep("score", ("score", slots), stream, False, 0, 0)
        sent, received = plan.geo.channels * plan.q_dim, plan.spec.num_attention_heads * t
        return self._made[key]._replace(sent_values=sent, received_values=received)

    def _weighted_sum(self, v: RowAligned, t: int) -> PimStep:
        accesses, geo, plan = ceil_div(t, self.plan.geo.lane), self.plan.geo, self.plan
        key = ("p V", accesses, v.first_row)
        if key not in self._made:
            stream = weighted_sum(self.table, v, t, plan.sharing)
            self._made[key] = PimStep("p V", ("p V", accesses), stream, False, 0, 0)
        sent, received = plan.spec.num_attention_heads * t, plan.q_dim * ceil_div(t, geo.row)
        return self._made[key]._replace(sent_values=sent, received_values=received)


def _heads(layout: Packed, width: int) -> list[list[int]]:
    """Per chunk, the widths of the heads or pieces of heads in it: each piece gives one partial result."""
    pieces: list[list[int]] = []
    for chunk, size in enumerate(layout.chunks):
        first, last = chunk * layout.geo.row, chunk * layout.geo.row + size
        edges = [first, *range(ceil_div(first + 1, width) * width, last, width), last]
        pieces.append([b - a for a, b in zip(edges, edges[1:], strict=False)])
    return pieces
