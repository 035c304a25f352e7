"""What a training step depends on: the GPU, the recipe, the fabric as a GPU sees it, and how work is split."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, get_args

import msgspec

from pimloom.arch.fabric_cost import Hbd, Rate
from pimloom.arch.llm import LlmSpec
from pimloom.arch.load import Loaded, load_yaml
from pimloom.arch.names import find
from pimloom.arch.part import Positive
from pimloom.arch.units import ceil_div

Schedule = Literal["1f1b", "interleaved", "interleaved-ideal"]
SCHEDULES: tuple[str, ...] = get_args(Schedule)
"""`interleaved-ideal` is m + (PP − 1) / v for any m: below what is possible where m < PP (see cycle_sim/schedule)."""

Few = Annotated[int, msgspec.Meta(gt=0, le=1024)]
Factor = Annotated[float, msgspec.Meta(ge=0, le=1024)]
Share = Annotated[float, msgspec.Meta(ge=0.001, le=1)]
Tokens = Annotated[int, msgspec.Meta(gt=0, le=10**8)]
SERVER = 8  # GPUs; matrix products split further are narrower


class TrainingGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU without its scale-up fabric."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "peak_tflops": "peak arithmetic rate [TFLOPS]",
        "efficiency": "share of the peak that matrix products reach with TP 8 [1]",
        "efficiency_loss": "efficiency with more: efficiency / (1 + loss × (TP - 8) / 8) [1]",
        "memory_bytes": "memory [bytes]",
        "memory_share": "share of the memory that can be filled [1]",
        "dcn_gb_s": "bandwidth of the data-centre network, each way [GB/s]",
    }

    peak_tflops: Rate
    efficiency: Share
    efficiency_loss: Factor
    memory_bytes: Positive
    memory_share: Share
    dcn_gb_s: Rate

    def reached_tflops(self, tp: int) -> float:
        """Rate of a GPU in matrix products that `tp` GPUs share [TFLOPS]; fewer than a server gain nothing."""
        more = max(tp - SERVER, 0) / SERVER
        return self.peak_tflops * self.efficiency / (1 + self.efficiency_loss * more)

    @property
    def memory_limit_bytes(self) -> float:
        """Bytes that can be filled."""
        return self.memory_bytes * self.memory_share


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a model is trained."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "sequence_tokens": "tokens of a sequence [1]",
        "element_bytes": "an activation on a link [bytes]",
        "state_bytes": "kept of a weight on every replica [bytes]",
        "sharded_bytes": "kept of a weight, split among the replicas [bytes]",
        "gradient_bytes": "a weight's gradient on a link [bytes]",
        "activation_bytes": "activations of a layer for each token and channel [bytes]",
        "activation_share": "share of the activations that is kept until the backward pass [1]",
        "all_reduces": "all-reduces of a tensor-parallel layer, both passes together; half with parallel attention [1]",
        "all_to_alls": "all-to-alls of an expert-parallel layer, both passes together [1]",
        "expert_imbalance": "tokens of the busiest rank of experts over the mean, where experts are split [1]",
    }

    sequence_tokens: Tokens
    element_bytes: Few
    state_bytes: Few
    sharded_bytes: Factor
    gradient_bytes: Few
    activation_bytes: Factor
    activation_share: Share
    all_reduces: Few
    all_to_alls: Few
    expert_imbalance: Annotated[float, msgspec.Meta(ge=1, le=1024)]


class Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`arch/gpus/*.yaml`."""

    description: str
    gpu: TrainingGpu
    recipe: Recipe


def load_training(name: str, overrides: Mapping[str, str] | None = None) -> Loaded[Training]:
    """Read a GPU and its recipe by name or path, with overrides such as `gpu.dcn_gb_s`. Raises UserError."""
    return load_yaml(find("gpus", name), Training, overrides or {})


class Split(NamedTuple):
    """How GPUs share the work: sizes of the tensor-, pipeline-, data- and expert-parallel groups.

    Experts are split among `ep` of the `dp` replicas. A stage's layers are `chunks` (v) pieces of the pipeline's loop,
    and a micro-batch is `micro_batch` (b) sequences.
    """

    tp: int
    pp: int
    dp: int
    ep: int = 1
    chunks: int = 1
    micro_batch: int = 1


@dataclass(frozen=True)
class Job:
    """A model, trained on `gpus` GPUs with `batch` sequences a step. all_to_all: the network that carries it."""

    model: LlmSpec
    training: Training
    hbd: Hbd
    gpus: int
    batch: int
    schedule: Schedule = "1f1b"
    all_to_all: Literal["dcn", "hbd"] = "dcn"

    def micro_batches(self, split: Split) -> int:
        """Micro-batches of a replica (m); the split divides the batch."""
        return self.batch // (split.dp * split.micro_batch)

    def stage_layers(self, pp: int) -> int:
        """Layers of a stage: a model is padded to a multiple of `pp` layers; padding holds no weight, does no work."""
        return ceil_div(self.model.num_hidden_layers, pp)
