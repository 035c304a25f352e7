"""Prompts on the GPUs of an AttAcc system: the same tiles and links, with a row for each token [design].

The stacks do not attend in prompts; what they get of keys and values goes over beside the next layer and takes no time
here.
"""

from pimloom.systems.devices.attacc.gpu import Matrix, activation, all_reduce, norm, product, softmax
from pimloom.systems.devices.attacc.step import Box, Decoder, Step
from pimloom.systems.reference.attacc import PHYSICAL, Slips


def prompt_step(box: Box, decoder: Decoder, batch: int, tokens: int, slips: Slips = PHYSICAL) -> Step:
    """Prompts of `batch` requests, so many tokens each, through all layers; attention to all tokens before is half."""
    gpu, n, size, rows = box.gpu, box.gpus, box.element_bytes, batch * tokens
    width, ffn, head_dim = decoder.width // n, decoder.ffn / n, decoder.width // decoder.heads
    heads = batch * decoder.heads // n
    up = product(gpu, Matrix(rows, ffn, decoder.width), size, slips)
    parts = {
        "qkv": product(gpu, Matrix(rows, 3 * width, decoder.width), size, slips),
        "score": product(gpu, Matrix(tokens, tokens / 2, head_dim, heads), size, slips),
        "softmax": softmax(gpu, tokens / 2, heads * tokens, size, slips),
        "context": product(gpu, Matrix(tokens, head_dim, tokens / 2, heads), size, slips),
        "projection": product(gpu, Matrix(rows, decoder.width, width), size, slips),
        "up": up,
        "down": product(gpu, Matrix(rows, decoder.width, ffn), size, slips),
        "activation": activation(gpu, rows * ffn, size, gated=decoder.gated),
    } | ({"gate": up} if decoder.gated else {})
    parts |= {f"norm {i}": norm(gpu, rows * decoder.width, size) for i in (1, 2)}
    parts |= {f"all-reduce {i}": all_reduce(gpu, n, rows * decoder.width * size) for i in (1, 2)}
    return Step.of({name: part.seconds for name, part in parts.items()}, parts, n, decoder.layers)
