"""A model on an AttAcc system: the box and the decoder of its file and its model, and whether the model fits."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.attacc import AttAccSystem, StudyGpu
from pimloom.arch.document import SET
from pimloom.arch.error import UserError
from pimloom.arch.link import Fabric
from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted
from pimloom.arch.routing import Routing
from pimloom.arch.system import System
from pimloom.arch.units import BITS_PER_BYTE, Time
from pimloom.mappers.attacc.layout import CHANNELS, Placement
from pimloom.systems.devices.attacc.box import Box, Decoder, Experts, Stacks
from pimloom.systems.devices.attacc.gpu import Gpu
from pimloom.systems.devices.attacc.prompt import Prompt, prompts_step
from pimloom.systems.devices.attacc.step import HOSTS, Step, decode_step
from pimloom.systems.devices.formats import refuse_quantized
from pimloom.systems.reference.attacc import AS_RELEASED, PHYSICAL, Slips
from pimloom.workload.need import kv_bytes_per_token, parameters
from pimloom.workload.op import Bits

TAKEN: dict[str, tuple[object, ...]] = {  # fields of a model, and the values that the study models
    "num_shared_experts": (0,), "sliding_window": (None,), "parallel_attention": (False,),
    "norm_placement": ("pre",), "qk_norm": ("none",), "kv_lora_rank": (None,), "attn_logit_softcapping": (False,),
    "attention_sinks": (False,), "scaled_embedding": (False,), "final_logit_softcapping": (False,),
}  # fmt: skip

LIMITED, UNLIMITED_CK = ("nCCDAB", "nCCDSB"), 4  # [secondary A] presets _NPC: distances of MACs without the power limit


class Boxed(NamedTuple):
    """A model in a box. decoders: its layers, by whether they have experts; kv_bytes: of a token in all layers;
    room_bytes: for keys and values."""

    box: Box
    decoders: tuple[Decoder, ...]
    slips: Slips
    weight_bytes: int
    kv_bytes: int
    room_bytes: int
    memory_bytes: int

    def decode(self, contexts: Sequence[int]) -> Step:
        """The next token of requests with these contexts. Raises UserError."""
        each = [decode_step(self.box, decoder, len(contexts), contexts, self.slips) for decoder in self.decoders]
        return Step.sum(each)

    def prefill(self, prompts: Sequence[Prompt]) -> Step:
        """Prompts, or pieces of them. Raises UserError."""
        return Step.sum([prompts_step(self.box, decoder, prompts, self.slips) for decoder in self.decoders])

    def lacks(self, tokens: int) -> str | None:
        """A sentence if keys and values of so many tokens do not fit."""
        need, fits = tokens * self.kv_bytes, self.room_bytes // self.kv_bytes
        if need <= self.room_bytes:
            return None
        return f"keys and values of {tokens:,} tokens need {need:,} bytes, there are {self.room_bytes:,}: {fits:,} fit"

    def check(self, tokens: int) -> None:
        """Raise UserError unless keys and values of so many tokens fit."""
        if said := self.lacks(tokens):
            raise UserError(f"{said}; take fewer requests or shorter ones")


def boxed(system: System, llm: LlmSpec, released: bool, tp: int = 1) -> Boxed:
    """tp: above 1 in place of the GPUs of the system's file. Raises UserError for a model that the study does not
    model, that these GPUs do not divide, or that does not fit."""
    refuse_quantized(system, llm)
    spec = system.of_kind(AttAccSystem)
    option = "--tp " if tp not in (1, spec.gpus) else "--set gpus="  # where the user gave their number
    if tp > 1:
        spec = replace(spec, gpus=tp)
        is_set = option == "--tp " or system.where("gpus").startswith("--set")
        _check_divides(llm, tp, f"{option}{tp}" if is_set else f"{system.name} has {tp} GPUs, and {tp}")
    for field, values in TAKEN.items():
        if (value := getattr(llm, field)) not in values:
            raise UserError(f"{llm.name}: {field} is {value}; {system.name} runs models with {field} {values[0]}")
    heads = llm.num_attention_heads, llm.num_key_value_heads
    if released and (llm.num_experts > 1 or heads[0] != heads[1]):
        grouped = f"{heads[0]} heads that share {heads[1]} heads of keys"
        what = f"{llm.num_experts} experts" if llm.num_experts > 1 else grouped
        raise UserError(f"--fidelity released: {llm.name} has {what}, which the authors' code does not; leave it out")
    gpu, size = spec.gpu, spec.element_bits // BITS_PER_BYTE
    link, cost = spec.link, spec.collective_us
    one = gpu_of(gpu, 2 * link.gbps / BITS_PER_BYTE)
    beside = _stacks(system, spec), _host(system, spec)
    box = Box(one, spec.gpus, *beside, element_bytes=size, fabric=Fabric(link), collective_us=cost)
    weights, kv = parameters(llm) * size, kv_bytes_per_token(llm, bits=Bits(*[spec.element_bits] * 3))
    there = spec.gpus * gpu.memory_bytes
    if weights > there:
        raise UserError(
            f"{llm.name}: needs {weights:,} bytes for its weights, {counted(spec.gpus, 'GPU')} of {system.name} hold "
            f"{there:,}; {_more(llm, -(-weights // gpu.memory_bytes), option)}"
        )
    stacks = spec.gpus * spec.stacks.each * CHANNELS * beside[0].part.organization.capacity_bytes if beside[0] else 0
    host = HOSTS * spec.host.memory_bytes if spec.host else 0
    room = stacks or host or there - weights
    decoders, slips = _decoders(llm, spec.routing), AS_RELEASED if released else PHYSICAL
    return Boxed(box, decoders, slips, weights, kv, room, there + stacks + host)


def _decoders(llm: LlmSpec, routing: Routing) -> tuple[Decoder, ...]:
    dense = sum(llm.is_dense(layer) for layer in range(llm.num_hidden_layers))
    whole = Decoder(
        dense, llm.hidden_size, llm.num_attention_heads, llm.intermediate_size, llm.gated_ffn,
        llm.num_key_value_heads, llm.head_dim,
    )  # fmt: skip
    experts = Experts(llm.num_experts, llm.num_experts_per_tok, routing)
    sparse = whole._replace(layers=llm.num_hidden_layers - dense, ffn=llm.expert_intermediate_size, experts=experts)
    return tuple(decoder for decoder in (whole, sparse) if decoder.layers)


def _check_divides(llm: LlmSpec, tp: int, given: str) -> None:
    heads, kv, width = llm.num_attention_heads, llm.num_key_value_heads, llm.hidden_size
    for what, whole in (("heads", heads), ("width", width), ("heads of keys", kv)):
        if whole % tp:
            fit = ", ".join(str(n) for n in range(1, kv + 1) if heads % n == width % n == kv % n == 0)
            how = "" if given.startswith("--") else " (--set gpus=N)"
            colon = "" if how else ":"
            raise UserError(f"{given}{colon} does not divide the {what} of {llm.name}, {whole}; take one of {fit}{how}")


def _more(llm: LlmSpec, least: int, option: str) -> str:
    """How many GPUs would hold it and divide its heads of keys."""
    heads = llm.num_key_value_heads
    fit = next((n for n in range(least, heads + 1) if heads % n == 0 and llm.hidden_size % n == 0), None)
    return "take a smaller model" if fit is None else f"take {fit} ({option}{fit})"


def _stacks(system: System, spec: AttAccSystem) -> Stacks | None:
    s = spec.stacks
    if not s.each:
        if s.pipelined or s.co_processing:
            on = [f"stacks.{name}" for name in ("pipelined", "co_processing") if getattr(s, name)]
            off = " and ".join(f"{place}=false" for place in on)
            said = f"{' and '.join(on)} {'need' if len(on) > 1 else 'needs'} stacks"
            raise UserError(f"{system.where('stacks.each')}: {said}; set {off}, too, or take attacc_gpu")
        return None
    part = system.memory
    if not s.power_limited:
        for place in (f"dram.timing.{name}" for name in LIMITED):
            if system.where(place).startswith(SET):
                said = f"without the power limit MACs are {UNLIMITED_CK} clocks apart"
                raise UserError(f"{SET} {place}: {said}; set stacks.power_limited=true, or leave it out")
        free = {name: Time(UNLIMITED_CK) for name in LIMITED}
        part = replace(part, timing={**part.timing, **free})
    return Stacks(part, Placement(s.placement), s.power_limited, s.each, s.pipelined, s.co_processing)


def _host(system: System, spec: AttAccSystem) -> Gpu | None:
    if spec.host is None:
        return None
    if spec.stacks.each:
        raise UserError(
            f"{system.where('stacks.each')}: stacks attend, and so does the host; set stacks.each=0, or leave host out"
        )
    return gpu_of(spec.host, spec.host.link_gb_s)


def gpu_of(one: StudyGpu, link_gb_s: float) -> Gpu:
    """As layers are priced on it; link_gb_s: of its links, both ways together."""
    return Gpu(one.cores, one.peak_tflops, one.memory_gb_s, link_gb_s, one.l1_bytes, one.l2_bytes)
