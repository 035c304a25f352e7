"""What users set: texts `KEY=VALUE`, as `--set` takes them."""

from collections.abc import Sequence

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
