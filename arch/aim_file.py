"""An AiM device from its file, with its part."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pimloom.arch.aim import AimDevice
from pimloom.arch.document import SET
from pimloom.arch.error import UserError
from pimloom.arch.load import load_yaml
from pimloom.arch.names import find
from pimloom.arch.part import Part
from pimloom.arch.part_file import load_part

NOTHING: Mapping[str, str] = MappingProxyType({})


class LoadedAim(NamedTuple):
    """An AiM device with its part, and its name."""

    name: str
    spec: AimDevice
    part: Part


def load_aim(name_or_path: str, settings: Mapping[str, str] = NOTHING) -> LoadedAim:
    """A device by name or path; settings: of itself, and below `dram.` of its part. Raises UserError."""
    path = find("aim_devices", name_or_path)
    below = {key.removeprefix("dram."): text for key, text in settings.items() if key.startswith("dram.")}
    loaded = load_yaml(path, AimDevice, {key: text for key, text in settings.items() if not key.startswith("dram.")})
    spec, part = loaded.value, loaded.value.part
    if spec.drain_from > spec.queue_entries:
        said = f"expected at most queue_entries = {spec.queue_entries}, got {spec.drain_from}"
        where = f"{SET} " if loaded.sources["drain_from"].file == SET else f"{path}: at $."
        raise UserError(f"{where}drain_from: {said}")
    if spec.drain_below > spec.drain_from:
        said = f"expected at most drain_from = {spec.drain_from}, got {spec.drain_below}"
        raise UserError(f"{path}: at $.drain_below: {said}")
    if part.endswith((".yaml", ".yml")) and loaded.sources["part"].file != SET:
        part = str(path.parent / part)  # a path in a file starts at that file
    try:
        return LoadedAim(path.stem, spec, load_part(part, below).value)
    except UserError as error:
        said = str(error)
        raise UserError(f"--set dram.{said.removeprefix(SET + ' ')}" if said.startswith(SET) else said) from None
