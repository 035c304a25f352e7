"""What a model takes of the memory of Duplex devices, and how many tokens' keys and values fit beside its weights."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.mappers.experts import spaces_of
from pimloom.mappers.memory_spaces import KV_SPACES, SPACES, place
from pimloom.systems.devices.duplex.layers import ELEMENT_BYTES
from pimloom.systems.devices.duplex.memory import LOGIC
from pimloom.systems.devices.duplex.stage import Stages
from pimloom.systems.devices.duplex.variants import ROUTERS
from pimloom.workload.batch import Batch
from pimloom.workload.derive import equal_layers, layer_ops
from pimloom.workload.need import ONE, kv_bytes_per_token, layer_need, of_experts, outside, weights
from pimloom.workload.op import Bits
from pimloom.workload.shard import Shard

FP16 = Bits()
NOT_AT_ONCE = "co_processing=false"
NODE = 8  # devices of a node at most [paper]
MOST_NODES, MOST_DEVICES = 64, 64  # among which numbers that would do are looked for


def requests_that_fit(memory_bytes: int, weight_bytes: int, llm: LlmSpec, tokens: int, bits: Bits = FP16) -> float:
    """Requests of so many tokens each, not rounded, whose keys and values fit beside the weights; 0 if these do not."""
    return max(memory_bytes - weight_bytes, 0) / (kv_bytes_per_token(llm, bits=bits) * tokens)


def expert_bytes(llm: LlmSpec, bits: Bits = FP16) -> int:
    """Experts of all layers."""
    return weights(llm).experts * bits.weight // BITS_PER_BYTE


def block_bytes(llm: LlmSpec, bits: Bits = FP16) -> int:
    """Matrices of all layers, without embedding and LM head."""
    return weights(llm).blocks * bits.weight // BITS_PER_BYTE


@dataclass(frozen=True)
class Room:
    """The first `layers` layers of a model on the devices of `stages`; ends: with embedding and LM head."""

    stages: Stages
    layers: int
    ends: bool

    @property
    def has_spaces(self) -> bool:
        """Whether memory is divided into spaces, each for one processor at a time."""
        system = self.stages.system
        has = system.low == LOGIC and system.co_processing and not system.apart
        return has and ROUTERS[self.stages.router].spaces

    @cached_property
    def expert_bytes(self) -> int:
        """Of all layers, on a device that has some."""
        elements = _held(self.stages.llm, Shard(), self.layers, experts=True)
        return ceil_div(ELEMENT_BYTES * elements, self.stages.every)

    @cached_property
    def other_bytes(self) -> int:
        """Of all other weights, on a device that has some."""
        shard = Shard(tp=self.stages.half)
        elements = _held(self.stages.llm, shard, self.layers, experts=False)
        return ELEMENT_BYTES * (elements + self.ends * outside(self.stages.llm, shard))

    @property
    def weight_bytes(self) -> int:
        """Of all devices."""
        return self.stages.every * (self.expert_bytes + self.other_bytes)

    @property
    def memory_bytes(self) -> int:
        """Of all devices."""
        return self.stages.nodes * self.stages.devices * self._device_bytes

    @property
    def kv_bytes(self) -> int:
        """Of a token, on all devices of a node that keep some of it."""
        return self.stages.half * self._kept(ONE)

    @cached_property
    def tokens(self) -> int:
        """Whose keys and values fit, of requests that are spread over the nodes."""
        return self.stages.nodes * (self._kv_room // self._kept(ONE))

    def check(self, batch: Batch) -> None:
        """Raise UserError unless weights, and keys and values of a batch, fit."""
        for node in self.stages.dealt(batch):
            need, tokens = self._kept(node), sum(at.context for at in node.requests)
            if need > self._kv_room:
                fits = self._kv_room // self._kept(ONE)
                raise UserError(
                    f"keys and values of {tokens:,} tokens need {need:,} bytes on each device, there are "
                    f"{self._kv_room:,}: {fits:,} tokens fit; take fewer requests, shorter ones or more devices"
                )
            if self.has_spaces:
                self._place(node)

    def check_experts(self) -> None:
        """Raise UserError unless each memory space has room for its experts."""
        if self.has_spaces:
            self._place(Batch(()), f"more devices (--set nodes, --set devices) or {NOT_AT_ONCE}")

    def _place(self, node: Batch, instead: str = f"fewer requests, shorter ones or {NOT_AT_ONCE}") -> None:
        """Raise UserError unless each request finds a memory space."""
        alone = [(at, self._kept(Batch((at,)))) for at in node.requests]
        here = [size for at, size in alone if at.phase in ("decode", "verify")]
        prompts = [size for at, size in alone if at.phase not in ("decode", "verify")]
        try:
            place(self._spaces, self._expert_bytes, here, prompts, self._space_bytes, self.other_bytes)
        except UserError as error:
            raise UserError(f"{error}; take {instead}") from None

    @property
    def _experts(self) -> int:
        """On a device; of one that is cut, its part."""
        stages = self.stages
        return stages.llm.num_experts * stages.expert_tp // stages.every if self.expert_bytes else 0

    @cached_property
    def _spaces(self) -> tuple[int, ...]:
        """Of each expert of each layer: as the router groups those of a layer, in the next layer one space on, so that
        they fill all spaces, however few a device has. Layers never run at once."""
        of_layer = spaces_of(ROUTERS[self.stages.router].groups(self._experts))
        return tuple((space + turn) % SPACES for turn in range(self._sparse) for space in of_layer)

    @property
    def _sparse(self) -> int:
        """Layers that have experts."""
        return sum(not self.stages.llm.is_dense(layer) for layer in range(self.layers))

    @property
    def _expert_bytes(self) -> int:
        """Of one in one layer."""
        return self.expert_bytes // (self._experts * self._sparse) if self._experts else 0

    @property
    def _device_bytes(self) -> int:
        return self.stages.processors.device.spec.memory_bytes

    @property
    def _space_bytes(self) -> int:
        return self._device_bytes // SPACES

    @cached_property
    def _kv_room(self) -> int:
        """For keys and values, on each device that keeps some."""
        apart = self.stages.system.apart
        if apart and self.other_bytes > self._device_bytes:
            return 0
        left = self._device_bytes - self.expert_bytes - (0 if apart else self.other_bytes)
        if self.has_spaces:
            experts = [self._expert_bytes * self._spaces.count(space) for space in KV_SPACES]
            left = min(left, sum(max(self._space_bytes - taken, 0) for taken in experts))
        return max(left, 0)

    def _kept(self, batch: Batch) -> int:
        """Keys and values of requests on a device."""
        cache = layer_need(self.stages.llm, batch, Shard(tp=self.stages.half), self.layers).cache
        return ELEMENT_BYTES * cache

    def too_large(self, option: str, pools: int) -> str:
        """Why there is no room, and what has some. option: how devices of a node are asked for; pools: of devices, each
        of which is like this."""
        llm, stages = self.stages.llm, self.stages
        need, there = self.expert_bytes + self.other_bytes, self._device_bytes
        enough = next(self._larger(option, pools), None)
        how = "take a smaller model" if enough is None else f"take {enough}"
        devices = counted(stages.nodes * stages.devices * pools, "device")
        return (
            f"{llm.name}: its weights take {need:,} bytes of each of {devices}, which have {there:,}: no room for keys "
            f"and values; {how}"
        )

    def _larger(self, option: str, pools: int) -> Iterator[str]:
        """Numbers of nodes and devices on which the model has room: first more devices in as many nodes, larger nodes
        than usual last."""
        here = self.stages.nodes
        usual = ((nodes, devices) for nodes in range(1, MOST_NODES + 1) for devices in range(1, NODE + 1))
        alike = ((here, devices) for devices in range(1, NODE + 1))
        for nodes, devices in (*alike, *usual, *((here, devices) for devices in range(NODE + 1, MOST_DEVICES + 1))):
            if devices % 2 and self.stages.system.apart:
                continue
            try:
                found = replace(self, stages=replace(self.stages, nodes=nodes, devices=devices))
            except UserError:
                continue
            if found.tokens:
                more = f"--set nodes={nodes} --set devices=" if nodes != here else option
                yield f"{nodes * devices * pools} ({more}{devices * pools})"


def _held(llm: LlmSpec, shard: Shard, layers: int, *, experts: bool) -> int:
    """Elements of weights of a device's layers: of experts, or of all else."""
    groups = equal_layers(llm, range(layers))
    made = ((len(group), layer_ops(llm, ONE, shard, group[0])) for group in groups)
    return sum(n * op.parameters for n, found in made for op in found if of_experts(op) is experts)
