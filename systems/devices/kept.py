"""A device that remembers its steps, for whoever asks for the same ones again."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pimloom.systems.devices.device import Capacity, Device
from pimloom.systems.devices.run import Run
from pimloom.workload.batch import Batch
from pimloom.workload.op import Op

MOST = 1 << 12  # steps that are kept


class Kept:
    """As the device is; steps of one that is `in_order` depend on what came before, and are not kept."""

    def __init__(self, device: Device) -> None:
        self.device, self.most_requests, self.in_order = device, device.most_requests, device.in_order
        self.outline: Any = getattr(device, "outline", None)
        self.channels: int = getattr(device, "channels", 1)
        self.exact_steps = device.exact_steps
        self.kv_pages: Any = getattr(device, "kv_pages", None)
        self._between: Kept | None = None
        self.steps = dict[tuple[Batch, tuple[int, ...] | None], Run]()

    def between(self) -> "Kept":
        """That whose steps are read between, if the device has such a one; it remembers its own."""
        if self._between is None:
            of: Device = getattr(self.device, "between", lambda: self.device)()
            self._between = self if of is self.device else Kept(of)
        return self._between

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """As the device says."""
        return self.device.can_run(ops)

    def step(self, batch: Batch, channel: np.ndarray | None = None) -> Run:
        """As the device does it, once; channel: where requests lie, on one whose channels matter. Raises UserError."""
        if self.in_order:
            return self.device.step(batch)
        key = (batch, None if channel is None else tuple(channel.tolist()))
        if (found := self.steps.get(key)) is None:
            device: Any = self.device
            found = device.step(batch) if channel is None else device.step(batch, channel)
            if len(self.steps) < MOST:
                self.steps[key] = found
        return found

    def check(self, batch: Batch) -> None:
        """As the device does."""
        self.device.check(batch)

    def capacity(self) -> Capacity:
        """That of the device."""
        return self.device.capacity()
