"""A controller's policy: one YAML file in `arch/controllers`, or a user's own."""

from collections.abc import Mapping

from pimloom.arch.error import UserError
from pimloom.arch.load import Loaded, load_yaml
from pimloom.arch.memory import Policy
from pimloom.arch.system import find


def load_policy(name_or_path: str, overrides: Mapping[str, str] | None = None) -> Loaded[Policy]:
    """Read a policy by name or path, with `--set` overrides by place. Raises UserError."""
    path = find("controllers", name_or_path)
    loaded = load_yaml(path, Policy, overrides or {})
    policy = loaded.value
    if policy.drain_low > policy.drain_high:
        source = loaded.sources["drain_low"]
        where = f"{source.file} drain_low" if source.line == 0 else f"{source.file}:{source.line}: at $.drain_low"
        raise UserError(f"{where}: expected at most drain_high = {policy.drain_high:g}, got {policy.drain_low:g}")
    return loaded
