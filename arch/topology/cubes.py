"""TPUv4: cubes of electrical links, joined by optical circuit switches; no twisted tori, no faults of switches."""

from dataclasses import dataclass

TPUV4_CUBE = 4 * 4 * 4  # [secondary] TPUv4: a rack of 64 is the unit of its optical switches


@dataclass(frozen=True)
class Cubes:
    """Cubes of `cube_gpus`; larger groups join whole healthy cubes.

    slices: within a cube, groups are fixed slices, and one with any fault is lost; else any healthy GPUs of a cube.
    The paper does not say which [design].
    """

    name: str
    summary: str
    cube_gpus: int
    slices: bool


CUBES = (
    Cubes("tpuv4", "TPUv4, cubes of 64; any healthy GPUs of a cube (rule a)", TPUV4_CUBE, slices=False),
    Cubes("tpuv4-slices", "TPUv4, cubes of 64; fixed slices, lost with any fault (rule b)", TPUV4_CUBE, slices=True),
)
