"""What a share of a machine is: of a processor at its roofline a part of its rate, of an NPU so many arrays."""

from collections.abc import Mapping
from fractions import Fraction

from pimloom.arch.error import UserError
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import System
from pimloom.systems.serving.sharing.controller import WHOLE
from pimloom.systems.serving.sharing.written import Shares

BY_SHARE = ("npu_static", "background", "second_row_buffer", "refresh")  # causes that run with time, whoever works


def in_arrays(system: System, shares: Shares) -> int | None:
    """Arrays of an NPU, of which shares must be whole numbers; None: any share will do. Raises UserError for a machine
    without shares, or such shares."""
    if system.kind == "roofline":
        return None
    if system.kind != "npu_pim":
        raise UserError(f"--scheduler semi-pd: nothing of {system.name} can be shared out; take a roofline or an NPU")
    arrays = system.of_kind(NpuPimSystem).npu.arrays
    asked = {"prefill": shares.prefill, "decode": shares.decode} | (
        {"step": shares.control.step} if shares.control else {}
    )
    for key, share in asked.items():
        if share * arrays % WHOLE:
            raise UserError(
                f"--shares {key}={float(share):g}: {system.name} has {arrays} arrays; expected whole ones, so "
                f"multiples of {WHOLE / arrays:g} %"
            )
    if shares.prefill + shares.decode > WHOLE:
        raise UserError(
            f"--shares prefill={float(shares.prefill):g},decode={float(shares.decode):g}: an array of {system.name} "
            f"belongs to one of them; expected at most {WHOLE} % in all"
        )
    return arrays


def of_arrays(system: System, share: Fraction) -> Mapping[str, int]:
    """Settings of an NPU with that share of its arrays and vector units, of each at least one."""
    npu = system.of_kind(NpuPimSystem).npu
    return {f"npu.{key}": max(int(getattr(npu, key) * share / WHOLE), 1) for key in ("arrays", "vector_units")}
