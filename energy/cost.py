"""Price and power of a scale-up fabric's network, from its list of parts; and with faults, of the GPUs it loses."""

from dataclasses import dataclass
from fractions import Fraction

from pimloom.arch.fabric_cost import Bill


@dataclass(frozen=True)
class NetworkCost:
    """A network per GPU, and per GB/s of a GPU's bandwidth each way."""

    arch: str
    gb_s_per_gpu: float
    usd_per_gpu: float
    w_per_gpu: float

    @property
    def usd_per_gb_s(self) -> float:
        """Price of one GB/s [$]."""
        return self.usd_per_gpu / self.gb_s_per_gpu

    @property
    def w_per_gb_s(self) -> float:
        """Power of one GB/s [W]."""
        return self.w_per_gpu / self.gb_s_per_gpu


def network_cost(bill: Bill) -> NetworkCost:
    """Count times price and count times power of every line, over the GPUs that they join."""
    usd = sum((line.count * Fraction(line.price.usd) for line in bill.lines), Fraction())
    watts = sum((line.count * Fraction(line.price.w) for line in bill.lines), Fraction())
    return NetworkCost(bill.arch, bill.gb_s, float(usd / bill.gpus), float(watts / bill.gpus))


@dataclass(frozen=True)
class Aggregate:
    """A cluster with faults: the whole network, and the GPUs that stand idle.

    A faulty GPU and a wasted one (healthy, but in no group) are paid for and compute nothing [design].
    """

    gpus: int
    usable_gpus: float
    network_usd: float
    idle_gpu_usd: float
    network_w: float

    @property
    def usd(self) -> float:
        """C = G c_net + (faulty + wasted GPUs) c_GPU [$]."""
        return self.network_usd + self.idle_gpu_usd

    @property
    def usd_per_gpu(self) -> float:
        """C over all GPUs [$]."""
        return self.usd / self.gpus

    @property
    def network_w_per_usable_gpu(self) -> float | None:
        """Power of the whole network over the GPUs that compute [W]; None where none does."""
        return self.network_w / self.usable_gpus if self.usable_gpus > 0 else None


def aggregate(cost: NetworkCost, gpus: int, usable_gpus: float, gpu_usd: float) -> Aggregate:
    """Price of a cluster of `gpus` GPUs of `gpu_usd` each, of which `usable_gpus` are in groups, in the mean.

    Raises ValueError for less than none or more than all.
    """
    if not 0 <= usable_gpus <= gpus:
        raise ValueError(f"expected 0 to {gpus} usable GPUs, got {usable_gpus:g}")
    idle = gpus - usable_gpus
    return Aggregate(gpus, usable_gpus, gpus * cost.usd_per_gpu, idle * gpu_usd, gpus * cost.w_per_gpu)
