"""AttAcc: GPUs that share every layer, and stacks of HBM beside them that compute the attention of decode steps."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from pimloom.arch.link import Link
from pimloom.arch.part import NonNegative, Positive, PositiveFloat
from pimloom.arch.routing import Routing


class StudyGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A GPU, or a processor of the host, as the study models it: tiles that fit its caches, a roofline on what they
    fetch."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "cores": "streaming multiprocessors, or cores, which share peak_tflops [1]",
        "peak_tflops": "peak arithmetic rate at 16 bits [TFLOPS]",
        "memory_gb_s": "memory bandwidth [GB/s]",
        "memory_bytes": "memory [bytes]",
        "l1_bytes": "L1 cache of a multiprocessor [bytes]",
        "l2_bytes": "L2 cache [bytes]",
    }

    cores: Positive
    peak_tflops: PositiveFloat
    memory_gb_s: PositiveFloat
    memory_bytes: Positive
    l1_bytes: Positive
    l2_bytes: Positive


class StudyHost(StudyGpu, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A processor of the host, and its links to the GPUs."""

    MEANING: ClassVar[Mapping[str, str]] = {
        **StudyGpu.MEANING,
        "link_gb_s": "links of the host to the GPUs, both ways together [GB/s]",
    }

    link_gb_s: PositiveFloat


class StackArea(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a stack's units add to its dies."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "placement": "of the units whose area it is; of units elsewhere there is no figure",
        "dram_dies": "DRAM dies of a stack [1]",
        "dram_die_mm2": "what is added to each [mm2]",
        "buffer_die_mm2": "what is added to the buffer die [mm2]",
    }

    placement: Literal["bank", "bg", "buffer"]
    dram_dies: Positive
    dram_die_mm2: PositiveFloat
    buffer_die_mm2: PositiveFloat

    @property
    def mm2(self) -> float:
        """Of a stack."""
        return self.dram_dies * self.dram_die_mm2 + self.buffer_die_mm2


class StudyStacks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stacks beside each GPU. If there are any, they need a part (`dram.part`)."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "each": "stacks beside each GPU; 0: attention on the GPUs [1]",
        "placement": "where the GEMV units are: bank, bg (one a bank group), buffer (one a pseudo channel)",
        "power_limited": "whether the stacks' power limits how many units work at once",
        "pipelined": "projections of some heads while others attend",
        "co_processing": "feed-forward weights read by the stacks, too",
        "area": "what the units add to the dies; left out: no figure",
    }

    each: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    placement: Literal["bank", "bg", "buffer"] = "bank"  # [secondary] chosen by the paper
    power_limited: bool = True
    pipelined: bool = False
    co_processing: bool = False
    area: StackArea | None = None


class StudyDram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory of the stacks; every key of the part itself may be set below `dram.` as well."""

    MEANING: ClassVar[Mapping[str, str]] = {"part": "memory device: a name in arch/parts or a path"}

    part: str | None = None


class AttAccSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A box of GPUs with stacks that attend."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "gpus": "GPUs that share every layer [1]",
        "element_bits": "width of weights, activations and cache [bits]",
        "host": "one of the host's two processors, which attend in decode steps; left out: they do not",
        "link": "link of each GPU to all others of the box: a name in arch/fabrics/links.yaml, or its keys",
        "collective_us": "fixed time of a collective, for launch and barrier [µs]",
    }

    description: str
    kind: Literal["attacc"]
    gpus: Positive
    element_bits: Literal[8, 16]
    gpu: StudyGpu
    link: Link
    collective_us: NonNegative
    stacks: StudyStacks = StudyStacks()
    dram: StudyDram = StudyDram()
    host: StudyHost | None = None
    routing: Routing = Routing()
