"""What users set: texts `KEY=VALUE`, as `--set` takes them."""

from collections.abc import Sequence
from pathlib import Path

from pimloom.arch.error import UserError


def parse_settings(settings: Sequence[str], such_as: str = "npu.clock_mhz=500") -> dict[str, str]:
    """`KEY=VALUE` texts as a dict. Raises UserError for one without `=`, or a key given twice."""
    found: dict[str, str] = {}
    for text in settings:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise UserError(f"--set {text}: expected KEY=VALUE, such as {such_as}")
        if key.strip() in found:
            raise UserError(f"--set {key.strip()}: given twice")
        found[key.strip()] = value.strip()
    return found


def settings_by_pool(settings: Sequence[str], pools: Sequence[str]) -> list[list[str]]:
    """The `KEY=VALUE` settings of each pool, from `POOL:KEY=VALUE` texts; without a pool a text is of all. Raises
    UserError for an unknown pool.

    >>> settings_by_pool(["prefill:power_w=300", "launch_us=1"], ["prefill", "decode"])
    [['power_w=300', 'launch_us=1'], ['launch_us=1']]
    """
    found: list[list[str]] = [[] for _ in pools]
    for text in settings:
        key, sign, value = text.partition("=")
        pool, colon, place = key.partition(":")
        if colon and pool.strip() not in pools:
            raise UserError(f"--set {text}: no pool {pool.strip()}; expected one of {', '.join(pools)}")
        for name, own in zip(pools, found, strict=True):
            if not colon or name == pool.strip():
                own.append(f"{place}{sign}{value}" if colon else text)
    return found


def settings_by_system(settings: Sequence[str], systems: Sequence[str]) -> list[list[str]]:
    """The `KEY=VALUE` settings of each system, from `SYSTEM:KEY=VALUE` texts. SYSTEM is the path as given, or the name
    alone. Raises UserError for an unknown system, or if the system is missing and there are several.

    >>> settings_by_system(["t4:power_w=60", "b.yaml:gpus=1"], ["t4", "a/b.yaml"])
    [['power_w=60'], ['gpus=1']]
    """
    found: list[list[str]] = [[] for _ in systems]
    names = [Path(system).stem for system in systems]
    for text in settings:
        key, sign, value = text.partition("=")
        system, colon, place = key.rpartition(":")
        known = [n for n in range(len(systems)) if system in (systems[n], names[n], Path(systems[n]).name)]
        if not colon:
            if len(systems) > 1:
                said = f"expected its system before it, such as {names[0]}:{text}, or another of {', '.join(names)}"
                raise UserError(f"--set {text}: {said}")
            known, place = [0], key
        if not known:
            raise UserError(f"--set {text}: no system {system}; expected one of {', '.join(names)}")
        for n in known:
            found[n].append(f"{place}{sign}{value}")
    return found
