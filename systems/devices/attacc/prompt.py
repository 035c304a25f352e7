"""Prompts on the GPUs of an AttAcc system: the same tiles and links, with a row for each token [design].

The stacks do not attend in prompts; what they get of keys and values goes over beside the next layer, takes no time
here and draws on the links.
"""

from collections import Counter
from collections.abc import Sequence

from pimloom.systems.devices.attacc.box import Box, Decoder
from pimloom.systems.devices.attacc.gpu import Cost, Matrix, product, softmax
from pimloom.systems.devices.attacc.linear import added, linear_parts
from pimloom.systems.devices.attacc.step import Step, check_box, transfer
from pimloom.systems.reference.attacc import PHYSICAL, Slips

Prompt = tuple[int, int]  # new tokens, and those before them whose keys are there


def prompts_step(box: Box, decoder: Decoder, prompts: Sequence[Prompt], slips: Slips = PHYSICAL) -> Step:
    """Prompts, or pieces of them, through all layers; each token attends to those before it. Raises UserError."""
    check_box(box, decoder, len(prompts))
    gpu, n, size, head = box.gpu, box.gpus, box.element_bytes, decoder.head_dim
    rows, alike = sum(new for new, _ in prompts), Counter(prompts)
    parts = linear_parts(box, decoder, rows, slips)

    def matrix(new: int, n_out: float, n_in: float, count: int) -> Cost:
        """Query heads that share keys multiply with them together."""
        return product(gpu, Matrix(new * decoder.sharers, n_out, n_in, count * decoder.groups // n), size, slips)

    seen = {prompt: prompt[1] + (prompt[0] + 1) / 2 for prompt in alike}  # on average; a token sees itself
    parts |= {
        "score": added(matrix(at[0], seen[at], head, count) for at, count in alike.items()),
        "softmax": added(
            softmax(gpu, seen[at], count * decoder.heads // n * at[0], size, slips) for at, count in alike.items()
        ),
        "context": added(matrix(at[0], head, seen[at], count) for at, count in alike.items()),
    }
    if box.stacks and not slips.prompts_for_free:
        parts["transfer"] = transfer(box, 2 * rows * (decoder.groups // n) * head * size)._replace(seconds=0.0)
    return Step.of({name: part.seconds for name, part in parts.items()}, parts, n, decoder.layers)
