"""Islands: GPUs behind switches of their own, in units of a fixed size. A group stays within one island."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Islands:
    """`unit_gpus` consecutive GPUs are a domain; any healthy ones of it form a group of at most that many."""

    name: str
    summary: str
    unit_gpus: int


ISLANDS = (
    Islands("nvl36", "NVLink switches over 36 GPUs", 36),  # [secondary] NVIDIA GB200 NVL36
    Islands("nvl72", "NVLink switches over 72 GPUs", 72),  # [secondary] NVIDIA GB200 NVL72; no spares modelled
    Islands("nvl576", "two levels of NVLink switches over 576 GPUs", 576),  # [secondary] NVIDIA NVL576
    Islands("dgx8", "NVLink switches over 8 GPUs, a server", 8),  # [secondary] NVIDIA DGX H100
)
