"""Options of `pimloom serve` that would change nothing, as what they belong to is not asked for."""

from pimloom.arch.error import UserError
from pimloom.systems.serving.online.wanted import Wanted

WHOLE = ("orca", "faster-transformer", "static")  # whole prompts, however long


def check_strays(wanted: Wanted) -> None:
    """Raise UserError for the first of them."""
    pools = "=" in wanted.system
    for name, idle, belongs in (
        ("share", not wanted.goodput, "belongs to --goodput"),
        ("router", wanted.replicas == 1 and not pools, "chooses among --replicas N, and there is one"),
        ("sample", wanted.exact, "--exact reads no iteration between others"),
        ("sample", wanted.goodput, "--goodput does not tell the error of prices"),
        ("batch_tokens", wanted.scheduler in WHOLE, f"{wanted.scheduler} counts requests, not tokens"),
    ):
        if idle and (value := getattr(wanted, name)) != Wanted._field_defaults[name]:
            raise UserError(f"--{name.replace('_', '-')} {value}: {belongs}; leave it out")
