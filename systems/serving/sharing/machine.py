"""What a share of a machine is: of a processor at its roofline a part of its rate, of an NPU so many arrays."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pimloom.arch.error import UserError
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import System
from pimloom.arch.units import S_PER_PS
from pimloom.systems.devices.device import Device
from pimloom.systems.devices.run import Run
from pimloom.systems.serving.sharing.controller import WHOLE
from pimloom.systems.serving.sharing.written import Shares
from pimloom.workload.batch import Batch

MEMORY = "memory bandwidth"
BY_SHARE = ("npu_static", "background")  # causes that run with time, whoever works


class Metered:
    """A device that tells the time of its memory at its full rate [s] as the first cause of energy, for whoever takes
    it out again."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def between(self) -> "Metered":
        """Of the device whose steps are read between."""
        return Metered(getattr(self._device, "between", lambda: self._device)())

    def step(self, batch: Batch) -> Run:
        """See `Device`."""
        run = self._device.step(batch)
        busy_s = run.least_ps.get(MEMORY, 0) * S_PER_PS / run.devices
        return replace(run, device_j={MEMORY: busy_s} | dict(run.device_j or {}))


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
