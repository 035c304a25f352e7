"""Options of `pimloom serve` that would change nothing, as what they belong to is not asked for."""

from pimloom.arch.error import UserError
from pimloom.systems.serving.options.named import ONLY, TOKENS
from pimloom.systems.serving.options.wanted import Wanted

FIELDS = {  # of limits, by option; what an option is where it is not given is in `Wanted`
    "chunked": "chunked", "swap": "host", "long_prompt": "threshold", "prefix_cache": "prefix",
    "num_preallocate_tokens": "ahead", "scheduler_reserve_full_isl": "whole",
}  # fmt: skip
WHOLE = ("orca", "faster-transformer", "static")  # whole prompts, however long


def check_only(wanted: Wanted) -> None:
    """Raise UserError for an option of another scheduler."""
    for name, field in FIELDS.items():
        given, scheduler = getattr(wanted, name), ONLY[field]
        if given is not None and given is not False and scheduler != wanted.scheduler:
            option = name.replace("_", "-")
            raise UserError(f"--{option}: belongs to --scheduler {scheduler}, not {wanted.scheduler}; leave it out")


def check_strays(wanted: Wanted) -> None:
    """Raise UserError for the first of them."""
    pools, budget = "=" in wanted.system, TOKENS if wanted.batch_tokens is None else wanted.batch_tokens
    draws = wanted.arrivals is not None or wanted.speculate or wanted.branches
    sampled = wanted.sample and not wanted.exact
    for name, idle, belongs in (
        ("seed", wanted.trace is not None and not draws and not sampled, "nothing is drawn beside the trace"),
        ("share", not wanted.goodput, "belongs to --goodput"),
        ("router", wanted.replicas == 1 and not pools, "chooses among --replicas N, and there is one"),
        ("sample", wanted.exact, "--exact interpolates no price"),
        ("price_error", wanted.exact, "--exact interpolates no price"),
        ("price_error", not wanted.sample, "--sample 0 measures no error"),
        ("long_prompt", (wanted.long_prompt or 0) >= budget, f"an iteration has no more than {budget:,} tokens"),
        ("batch_tokens", wanted.scheduler in WHOLE, f"{wanted.scheduler} counts requests, not tokens"),
    ):
        if idle and (value := getattr(wanted, name)) != Wanted._field_defaults[name]:
            raise UserError(f"--{name.replace('_', '-')} {value}: {belongs}; leave it out")
