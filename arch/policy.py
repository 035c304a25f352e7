"""A controller's policy: one YAML file in `arch/controllers`, or a user's own."""

from collections.abc import Iterator, Mapping

from pimloom.arch.error import UserError
from pimloom.arch.load import Loaded, load_yaml
from pimloom.arch.memory import Policy
from pimloom.arch.names import find

BUFFERED = {  # what the `buffered` structure can do
    "unified": (False,),
    "page": ("open", "closed"),
    "refresh": ("none", "all_bank"),
    "self_refresh_after_ck": (None,),
    "quirks": ("none", "ramulator2"),
}
QUEUED = {"quirks": ("none", "dramsim3")}


def load_policy(name_or_path: str, overrides: Mapping[str, str] | None = None) -> Loaded[Policy]:
    """Read a policy by name or path, with `--set` overrides by place. Raises UserError."""
    path = find("controllers", name_or_path)
    loaded = load_yaml(path, Policy, overrides or {})
    for field, said in complaints(loaded.value):
        source = loaded.sources[field]
        where = f"{source.file} {field}" if source.line == 0 else f"{source.file}:{source.line}: at $.{field}"
        raise UserError(f"{where}: {said}")
    return loaded


def complaints(policy: Policy) -> Iterator[tuple[str, str]]:
    """Fields that do not go with the others, and what would."""
    if policy.drain_low > policy.drain_high:
        yield "drain_low", f"expected at most drain_high = {policy.drain_high:g}, got {policy.drain_low:g}"
    if policy.structure == "buffered" and not policy.drain_low:
        yield "drain_low", "expected more than 0 where structure is buffered: reads would never come after writes"
    if policy.drain_idle and policy.quirks == "none":
        yield (
            "drain_idle",
            f"expected 0 where quirks is none, got {policy.drain_idle}: the last would never leave",
        )
    for field, possible in (BUFFERED if policy.structure == "buffered" else QUEUED).items():
        value = getattr(policy, field)
        if value not in possible:
            known = " or ".join(map(_yaml, possible))
            yield field, f"expected {known} where structure is {policy.structure}, got {_yaml(value)}"


def _yaml(value: object) -> str:
    return {None: "null", False: "false", True: "true"}[value] if isinstance(value, bool | None) else str(value)
