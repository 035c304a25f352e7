"""What `pimloom aim` is asked for: the device, the program, the channel to tell of, a log of commands."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import asdict

from pimloom.arch.aim import AimDevice
from pimloom.arch.aim_file import load_aim
from pimloom.arch.compressed import file_size
from pimloom.arch.digest import decisive, digest
from pimloom.arch.error import UserError
from pimloom.arch.files import write_atomic
from pimloom.arch.part import Part
from pimloom.arch.units import BITS_PER_BYTE, BYTES_PER_GB, S_PER_PS
from pimloom.arch.unread import check_aim
from pimloom.arch.version import __version__
from pimloom.cycle_sim.aim.simulate import Queues, simulate
from pimloom.systems.asked import Progress, Work
from pimloom.systems.memory.aim.instruction_line import Shape
from pimloom.systems.memory.aim.outcome import AimOutcome
from pimloom.systems.memory.aim.trace_file import Program, read_program
from pimloom.systems.settings import parse_settings

if TYPE_CHECKING:
    from pimloom.systems.memory.aim.log import AimLog

COLUMN_OF_ALL, COLUMN_OF_ONE = ("MAC16", "EWMUL16"), ("MAC", "RD", "WR", "RDCP", "WRCP")
AS_AIM_WRITES = {"PREab": "PREA"}


@dataclass(frozen=True)
class Wanted:
    """The options of `pimloom aim`, as typed."""

    program: Path
    config: str = "gddr6_aim"
    settings: Sequence[str] | None = None
    channel: int = 0
    commands: Path | None = None
    data: Path | None = None
    read: Path | None = None
    json: str | None = None
    quiet: bool = False


class Device(NamedTuple):
    """An AiM device with its part, and its name."""

    name: str
    spec: AimDevice
    part: Part

    @property
    def queues(self) -> Queues:
        """What stands before its channels."""
        spec = self.spec
        return Queues(spec.queue_entries, spec.drain_from, spec.drain_below, spec.refresh == "all_bank")

    @property
    def shape(self) -> Shape:
        """What its instructions may name."""
        org = self.part.organization
        banks = org.pseudo_channels * org.ranks * org.bank_groups * org.banks_per_group
        return Shape(self.spec.channels, banks, org.rows, org.columns, self.spec.registers)


def aim_work(wanted: Wanted) -> Work[AimOutcome]:
    """A program on an AiM device. Raises UserError."""
    device = find_device(wanted.config, parse_settings(wanted.settings or (), "channels=16"))
    channel, channels = wanted.channel, device.spec.channels
    if not 0 <= channel < channels:
        raise UserError(f"--channel {channel}: expected a channel from 0 to {channels - 1}")
    size = file_size(wanted.program)

    for option, file, other in (("--data", wanted.data, "--read"), ("--read", wanted.read, "--data")):
        if file is not None and (wanted.read is None or wanted.data is None):
            raise UserError(f"{option} {file}: expected {other} FILE, too")

    def run(progress: Progress) -> AimOutcome:
        program = read_program(wanted.program, device.shape, lambda done: progress(min(done, size) // 2, size))
        if wanted.data is not None and wanted.read is not None:
            from pimloom.systems.memory.aim.data import run_data

            found = run_data(wanted.program, device.shape, device.part.organization.access_bits, wanted.data)
            text = BytesIO()
            np.save(text, found)
            write_atomic(wanted.read, text.getvalue())
        return _run(wanted, device, program, channel, progress)

    return Work(f"instructions on {device.name}", run)


def find_device(name: str, settings: Mapping[str, str]) -> Device:
    """A device by name or path; settings: of itself, and below `dram.` of its part. Raises UserError."""
    device = Device(*load_aim(name, settings))
    check_aim(device.spec, settings)
    return device


def _run(wanted: Wanted, device: Device, program: Program, channel: int, progress: Progress) -> AimOutcome:
    spec, start, n = device.spec, time.perf_counter(), len(program.rows)
    with ExitStack() as stack:
        watch = stack.enter_context(_log(wanted.commands)).commands if wanted.commands else None
        told = partial(_second_half, progress, n)
        found = simulate(device.part, spec.channels, device.queues, program.rows, watch, told)
    wall_s = time.perf_counter() - start
    total: dict[str, int] = {}
    for counts in found.counts:
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    time_s, open_ck = found.cycles * device.part.tCK_ps * S_PER_PS, int(found.open_ck[channel])
    return AimOutcome(
        config=device.name,
        part=spec.part,
        channels=spec.channels,
        cycles=found.cycles,
        tck_ps=device.part.tCK_ps,
        time_s=time_s,
        instructions=dict(sorted(program.counts.items())),
        channel=channel,
        commands=_named(found.counts[channel]),
        active_cycles=open_ck,
        precharged_cycles=found.cycles - open_ck,
        commands_of_all=_named(total),
        active_cycles_mean=float(np.mean(found.open_ck)),
        bandwidth_gb_s=_columns(device, total) / time_s / BYTES_PER_GB,
        warnings=_warnings(program, found.left),
        spec_digest=_digest(device, program, channel),
        version=__version__,
        wall_s=wall_s,
    )


def _log(file: Path) -> "AimLog":
    from pimloom.systems.memory.aim.log import AimLog

    return AimLog(file)


def _second_half(progress: Progress, n: int, done: int) -> None:
    progress(n + done, 2 * n)


def _named(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted((AS_AIM_WRITES.get(name, name), n) for name, n in counts.items()))


def _columns(device: Device, counts: Mapping[str, int]) -> int:
    """Bytes of all columns that were read or written."""
    every = sum(counts.get(name, 0) for name in COLUMN_OF_ALL) * device.shape.banks
    columns = every + sum(counts.get(name, 0) for name in COLUMN_OF_ONE)
    return columns * device.part.organization.access_bits // BITS_PER_BYTE


def _warnings(program: Program, left: np.ndarray) -> list[str]:
    n, long, said = program.unread, program.long, list[str]()
    if n:
        said.append(f"{n} instruction{'s' if n > 1 else ''} behind AiM EOC {'are' if n > 1 else 'is'} not read")
    if long:
        said.append(f"{long} instruction{'s have' if long > 1 else ' has'} more columns than a row has: it stays in it")
    if left.any():
        c = int(np.argmax(left > 0))
        what = f"{left[c]} read{'s or writes have' if left[c] > 1 else ' or write has'} a row open"
        said.append(f"channel {c} ends while {what} and no column yet: AiM EOC does not wait for such")
    return said


def _digest(device: Device, program: Program, channel: int) -> str:
    """Digest of all that decides a result. channel: whose figures are in it."""
    spec = asdict(device.spec) | {"description": "", "part": "", "registers": 0}
    rows = hashlib.sha256(program.rows.tobytes()).hexdigest()
    return digest(spec, decisive(device.part), rows, program.unread, program.long, channel)
