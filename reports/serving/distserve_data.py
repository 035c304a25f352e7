"""What DistServe's authors profiled and measured of OPT on A100s of 80 GB: LLMServe/DistServe, Apache-2.0 [secondary].

Times of iterations are their fits: simdistserve/estimators, of DistServe's engine at 82831f1 (OPT-13B) and 7057aef
(OPT-66B), of vLLM's at 0bba606. Limits, placements and the servers' options are those of its evaluation.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.systems.serving.schedulers.live import Iteration
from pimloom.workload.need import kv_bytes_per_token, parameters

PS_PER_MS = 10**9
MANY = 95  # requests from which the second fit of decode holds
REQUESTS = Path(__file__).parent / "distserve_sharegpt_0_300.csv"  # lengths of its runs, in order; times are drawn


class Fit(NamedTuple):
    """[ms]: a prompt iteration by its tokens and the sum of their squares, a decode one by its contexts and its
    requests, fewer than MANY and more (None: as fewer)."""

    prompt: tuple[float, float, float]
    few: tuple[float, float, float]
    many: tuple[float, float, float] | None = None

    def ps(self, made: Iteration) -> int:
        """Time of an iteration."""
        if max(made.new) > 1 or not min(made.cached):
            a, b, c = self.prompt
            return round((a + b * sum(made.new) + c * sum(n * n for n in made.new)) * PS_PER_MS)
        a, b, c = self.many if self.many and len(made.new) >= MANY else self.few
        return round((a + b * (sum(made.cached) + len(made.new)) + c * len(made.new)) * PS_PER_MS)


Engine = Mapping[int, Fit]  # by devices that share a layer


class Study(NamedTuple):
    """A model, limits [s], devices that share a layer of prompts, of decode and of vLLM, stages of decode; engines."""

    llm: LlmSpec
    ttft_s: float
    tpot_s: float
    prompts: int
    decode: int
    stages: int
    vllm: int
    theirs: Engine
    vllms: Engine

    @property
    def devices(self) -> int:
        """Of prompts and decode."""
        return self.prompts + self.decode * self.stages

    def blocks(self, devices: int) -> int:
        """Blocks of keys and values beside the weights."""
        left = MEMORY * devices - 2 * parameters(self.llm)
        return int(left / kv_bytes_per_token(self.llm)) // BLOCK


MEMORY, BLOCK = 80e9 * 0.92, 16  # of a device [B]; tokens
VLLM_REQUESTS, VLLM_TOKENS = 1024, 65536  # of an iteration of vLLM
PROMPTS, PROMPT_TOKENS, DECODES = 128, 32768, 1024  # of an iteration of DistServe: prompts, their tokens; requests
OPT_13B = replace(  # [recalled]
    load_llm("opt-66b"), name="OPT-13B", num_hidden_layers=40, hidden_size=5120, num_attention_heads=40,
    num_key_value_heads=40, head_dim=128, intermediate_size=20480,
)  # fmt: skip
OF_13B = Study(
    OPT_13B, 0.25, 0.1, prompts=2, decode=1, stages=1, vllm=1,
    theirs={
        1: Fit((18.10, 0.10191, 7.122e-6), (19.93, 6.269e-4, 0.03851), (7.166, 5.798e-4, 0.15831)),
        2: Fit((14.74, 0.06858, 2.450e-6), (13.29, 3.411e-4, 0.06296), (10.64, 3.118e-4, 0.08563)),
    },
    vllms={
        1: Fit((23.627, 0.15055, 8.653e-6), (19.563, 4.941e-4, 0.05061), (16.839, 4.390e-4, 0.14)),
        2: Fit((19.601, 0.06468, 6.037e-6), (20.450, 1.870e-4, 0.07263), (14.956, 3.809e-4, 0.09316)),
    },
)  # fmt: skip
OF_66B = Study(
    replace(load_llm("opt-66b"), name="OPT-66B"), 0.4, 0.1, prompts=4, decode=2, stages=2, vllm=4,
    theirs={
        2: Fit((39.144, 0.24930, 2.0435e-5), (48.288, 9.424e-4, 0.12755), (28.728, 4.745e-4, 0.29618)),
        4: Fit((26.765, 0.13759, 7.561e-6), (30.760, 4.520e-4, 0.06328), (27.471, 4.047e-4, 0.12481)),
    },
    vllms={4: Fit((30.690, 0.15205, 3.2864e-5), (32.985, 5.788e-4, 0.11317), (34.050, 3.554e-4, 0.16257))},
)  # fmt: skip
PROFILED: Engine = {  # 3261c76: a later commit has 1.5 times each coefficient of prompts
    1: OF_13B.vllms[1]._replace(prompt=(15.752, 0.10036, 5.769e-6))
}
SEARCHED = 0.2, 0.1  # limits [s] of the search of its README and of the simulation of its figure 11
FIGURE_11 = {"DistServe": 89.7, "vLLM on two": 89.5, "vLLM on one": 49.0}  # % at 2 requests/s a device, figure_11a.json
README = 1.56  # requests/s of a device


class Measured(NamedTuple):
    """A run: means over its requests [ms], and what part of them held its limits [%], where its file was counted."""

    requests: int
    rate: float
    ttft_ms: float
    tpot_ms: float
    held: float | None = None


RUNS = {  # simdistserve/benchmarks/alignment/data-ground-truth@20a1633, opt-13b-sharegpt
    "DistServe": Measured(300, 6.0, 107.6, 57.4),  # distserve-c21d11-300-6.exp: on three devices
    "vLLM": Measured(100, 1.0, 161.2, 34.2, 86.0),  # vllm-100-1.exp: on one
}
