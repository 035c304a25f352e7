"""How long stages and operators of a simulated layer took."""

from collections.abc import Iterable, Iterator

from pimloom.systems.devices.npu_pim.exchange import ON_PIM
from pimloom.systems.devices.npu_pim.layer import LayerProgram


def stage_times(
    layer: LayerProgram, operators: tuple[tuple[str, int, int], ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Clocks of the stages, each until the next one starts, and of the operators by stage."""
    stages: dict[str, int] = {}
    times: dict[str, int] = {}
    begin, at, between_ck = 0, 0, layer.shard.rules.between_stages_ck
    for name, last in layer.stages.items():
        for title, start, end in merged(operators[at : max(last) + 1]):
            key, n = f"{name}.{title}", 2
            while key in times:
                key, n = f"{name}.{title}.{n}", n + 1
            times[key] = end - start
        at = max(last) + 1
        end = operators[at][1] if at < len(operators) else max(operators[o][2] for o in last) + between_ck
        stages[name], begin = end - begin, end
    return stages, times


def total(layer: LayerProgram, total_ck: int) -> int:
    """Clocks of all stages."""
    return layer.shard.rules.counted_ck(total_ck, len(layer.stages))


def merged(operators: Iterable[tuple[str, int, int]]) -> Iterator[tuple[str, int, int]]:
    """Operators of a stage, those of PIM for all requests together: from the first start to the last end."""
    spans: dict[str, tuple[int, int]] = {}
    for title, start, end in operators:
        if title in ON_PIM:
            first, last = spans.get(title, (start, end))
            spans[title] = min(first, start), max(last, end)
        else:
            yield title, start, end
    yield from ((title, *span) for title, span in spans.items())
