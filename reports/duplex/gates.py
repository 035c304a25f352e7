"""Hard gates of the Duplex study: what follows from its device and its models without a step."""

from collections.abc import Iterator

from pimloom.arch.duplex import Duplex, load_duplex
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.units import BYTES_PER_GB, FLOP_PER_TFLOP, S_PER_PS, S_PER_US
from pimloom.cycle_sim.link import all_reduce
from pimloom.energy.duplex import COLUMN_BITS, COLUMN_PJ
from pimloom.mappers.experts import alone, busiest_to_xpu, contiguous, idlest_to_pim, optimum, read_units
from pimloom.reports.duplex.measured import rows_of
from pimloom.reports.reproduction import compared
from pimloom.systems.devices.duplex.layers import ELEMENT_BYTES, Processors
from pimloom.systems.devices.duplex.memory import XPU, IdealDram
from pimloom.systems.devices.duplex.room import block_bytes, expert_bytes, requests_that_fit
from pimloom.systems.devices.duplex.variants import ESTIMATED_SHARE
from pimloom.workload.need import kv_bytes_per_token
from pimloom.workload.shard import cut

OF_S_GB_S = "3352"  # [secondary S] bandwidth of its ideal memory
MODELS = ("mixtral-8x7b", "glam-143b", "grok-1", "opt-66b", "llama-3-70b")
HETERO = ((2048, 4096), (4096, 4096), (8192, 4096))  # [paper] prompts and answers; two of four devices hold experts
BILLION, KILO = 1e9, 1e3
OF_S_OP_PER_BYTE = 989.4e12 / (ESTIMATED_SHARE * 3.352e12)  # [secondary S] peak of the xPU over its estimated bandwidth
LOGIC_OP_PER_BYTE, LOGIC_TIMES = 8, 4  # [paper]


def gates() -> list[dict[str, object]]:
    """Our value of each, beside the published one."""
    ours = dict(_values())
    return [
        compared(
            row["check"], ours[row["check"]], float(row["published"]), row["unit"], float(row["tolerance"]),
            f"{float(row['tolerance']):.2%}" if float(row["tolerance"]) else "exact", "FAIL", row["tag"],
            basis="echoed" if row["tag"] == "secondary" else "derived",
        )
        for row in rows_of("gates.csv")
    ]  # fmt: skip


def _values() -> Iterator[tuple[str, float]]:
    device = load_duplex()
    yield "area added to a logic die", device.logic_area_mm2
    yield "its share of the logic die", 100 * device.logic_area_share
    yield "Logic-PIM of a stack", device.logic_flops / device.spec.stacks / FLOP_PER_TFLOP
    yield "Logic-PIM's operations for each byte", device.logic_op_per_byte
    yield "bandwidth of Logic-PIM of a device", device.logic_bytes_s / (KILO * BYTES_PER_GB)
    models = {name: load_llm(name) for name in MODELS}
    for name, llm in models.items():
        yield f"parameters of {name}", block_bytes(llm) / ELEMENT_BYTES / BILLION
        yield f"K and V of a token of {name}", kv_bytes_per_token(llm)
    yield from _ideal(load_duplex(overrides={"xpu_gb_s": OF_S_GB_S}), models["mixtral-8x7b"], models["glam-143b"])
    mixtral, memory = models["mixtral-8x7b"], 2 * device.spec.memory_bytes
    for prompt, answer in HETERO:
        fit = requests_that_fit(memory, expert_bytes(mixtral), mixtral, prompt + answer)
        yield f"hetero: requests of {prompt} + {answer} tokens", int(fit)
    for where, path in (("the xPU", "xpu"), ("Logic-PIM", "logic"), ("a bank group", "bank_group"), ("a bank", "bank")):
        yield f"bit of a column on the way to {where}", COLUMN_PJ[path] / COLUMN_BITS


def _ideal(device: Duplex, mixtral: LlmSpec, glam: LlmSpec) -> Iterator[tuple[str, float]]:
    at, mine, layers = Processors(device, IdealDram(device)), cut(mixtral, 4), mixtral.num_hidden_layers
    qkv = at.linear(XPU, 32, mixtral.hidden_size, (mine.heads + 2 * mine.kv_heads) * mixtral.head_dim)
    out = at.linear(XPU, 32, mine.heads * mixtral.head_dim, mixtral.hidden_size)
    yield "ideal memory, Mixtral 32: QKV", layers * qkv.time_s / S_PER_US
    yield "ideal memory, Mixtral 32: projection", layers * out.time_s / S_PER_US

    def messages(llm: LlmSpec, batch: int, devices: int, of_experts: int) -> float:
        """Two all-reduces of a layer, and one more of those whose experts are cut."""
        one = all_reduce(device.spec.links.fabric(), ELEMENT_BYTES * batch * llm.hidden_size, devices)
        return (2 * llm.num_hidden_layers + of_experts) * one.ps * S_PER_PS / S_PER_US

    for batch, devices in ((32, 4), (32, 8), (64, 4)):
        yield f"messages, Mixtral {batch}, {devices} devices", messages(mixtral, batch, devices, 0)
        yield f"messages, Mixtral {batch}, {devices} devices with ET", messages(mixtral, batch, devices, layers)
    sparse = sum(not glam.is_dense(layer) for layer in range(glam.num_hidden_layers))
    yield "messages, GLaM 32, 8 devices with ET", messages(glam, 32, 8, sparse)


def routers() -> Iterator[dict[str, object]]:
    """The time of each rule on a device, in that of reading an expert's weights, by S's estimate of times."""
    for row in rows_of("routers.csv"):
        tokens = [int(n) for n in row["tokens"].split()]
        xpu = [read_units(n, OF_S_OP_PER_BYTE) for n in tokens]
        low = [read_units(n, LOGIC_OP_PER_BYTE, LOGIC_TIMES, ESTIMATED_SHARE) for n in tokens]
        splits = {
            "busiest_to_xpu": busiest_to_xpu(tokens, xpu, low, contiguous(len(tokens))),
            "idlest_to_pim": idlest_to_pim(tokens, xpu, low, alone(len(tokens))),
            "optimum": optimum(xpu, low, alone(len(tokens))),
        }
        for rule, split in splits.items():
            what = f"router {rule}: {', '.join(row['tokens'].split())} tokens"
            theirs = float(row[rule])
            yield compared(what, split.time, theirs, "reads", 0.0, "exact", "FAIL", "derived", basis="derived")
