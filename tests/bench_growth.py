"""Lines of `make bench` on growth: the exponent with which the CPU time of a whole command grows with its work."""

from collections.abc import Iterator
from math import log

from tests.bench_commands import Line, least, pimloom

TIMES = 4  # as much work in the second run


def growth_lines() -> Iterator[Line]:
    """Each command with some work and with four times as much, less what it takes with next to none."""
    for what, command, none, work, target in (
        ("run pim_gpt --model gpt3-xl, {:,} tokens", _tokens, 1, 512, "exponent ≤ 1.05"),
        ("trace ddr4_3200 --pattern random, {:,} requests", _requests, 1, 500_000, "exponent ≤ 1.05"),
        ("fabric waste --draws 1, {:,} GPUs on a trace", _gpus, 2880, 32_768, "exponent ≤ 1.1"),
    ):
        start, some, more = (least(command(size)) for size in (none, work, TIMES * work))
        exponent = log((more.cpu_s - start.cpu_s) / (some.cpu_s - start.cpu_s)) / log(TIMES)
        yield Line(what.format(TIMES * work), f"exponent {exponent:.2f}", target, str(more))
    trace = least(_requests(2))
    yield Line("trace ddr4_3200 of two requests", "", "≤ 0.4 s, ≤ 120 MiB", str(trace))
    for words, target in ((("list",), "≤ 0.25 s"), (("--help",), "≤ 0.15 s"), (_words(_tokens(1)), "≤ 0.4 s")):
        yield Line(f"pimloom {' '.join(words)}", "", target, str(least(pimloom(*words))))


def _words(command: list[str]) -> tuple[str, ...]:
    return tuple(command[3:])


def _tokens(n: int) -> list[str]:
    return pimloom("run", "pim_gpt", "--model", "gpt3-xl", "--generate", str(n), "--quiet")


def _requests(n: int) -> list[str]:
    return pimloom("trace", "ddr4_3200", "--pattern", "random", "--requests", str(n), "--quiet")


def _gpus(n: int) -> list[str]:
    return pimloom("fabric", "waste", "--gpus", str(n), "--servers", str(n // 8), "--draws", "1", "--quiet")
