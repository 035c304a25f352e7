"""The keys of a sweep's `workload`, which kinds of system take them, and what a valid value is."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.load import nearest
from pimloom.sweeping.definition.sweep import Scalar
from pimloom.systems.serving.batching import POLICIES

ALONE = ("model", "batch", "prompt", "generate")
SERVED = (*ALONE, "every", "tp", "layers", "requests", "iterations")
KEYS = {
    "pim": (*ALONE, "lm_head"),
    "roofline": (*SERVED, "chunk"),
    "npu_pim": (*SERVED, "chunk", "pp", "fidelity", "policy"),
    "composed": (*ALONE, "every", "tp", "layers", "chunk", "lm_head"),
    "duplex": (*ALONE, "every", "layers", "chunk", "lm_head"),  # axes `devices` and `nodes` in place of tp
    "attacc": (*ALONE, "every", "fidelity"),  # axis `gpus` in place of tp
    "cent": ("model", "prompt", "generate", "context", "every", "tp", "pp", "fidelity", "lm_head"),  # axis `devices`
}
OWN = ("attacc", "cent")  # kinds whose runs have results of their own
BATCHED = {"batch", "every", "tp", "layers", "requests", "iterations"}  # any of them: a roofline serves a batch
FIDELITIES = ("physical", "released")
_LEAST = {"batch": 1, "prompt": 0, "generate": 1, "every": 1, "tp": 1, "pp": 1, "layers": 1, "iterations": 1,
          "chunk": 1, "context": 1}  # fmt: skip
_WORDS = {"fidelity": FIDELITIES, "policy": POLICIES}
MOST = 2**20  # of any of these numbers; the longest context elsewhere, too


class Work(NamedTuple):
    """The workload of one design point; None where a key is not given and has no default."""

    model: str
    batch: int | None = None
    prompt: int = 0
    generate: int = 0
    every: int = 1
    tp: int = 1
    pp: int = 1
    layers: int | None = None
    fidelity: str = "physical"
    policy: str | None = None
    requests: str | None = None
    iterations: int | None = None
    lm_head: bool | None = None
    chunk: int | None = None
    context: int | None = None


def check_key(kind: str, key: str) -> None:
    """Raise UserError unless systems of this kind take this key."""
    if key not in KEYS[kind]:
        known = KEYS[kind]
        raise UserError(f"workload.{key}: unknown key, expected one of {', '.join(known)}{nearest(key, known)}")


def check_value(key: str, value: Scalar) -> None:
    """Raise UserError unless the value is one that the key can have."""
    if key in _LEAST:
        if type(value) is not int or not _LEAST[key] <= value <= MOST:
            raise UserError(f"workload.{key}: expected an int from {_LEAST[key]} to {MOST}, got {value}")
    elif key == "lm_head":
        if not isinstance(value, bool):
            raise UserError(f"workload.{key}: expected true or false, got {value}")
    elif not isinstance(value, str):
        raise UserError(f"workload.{key}: expected text, got {value}")
    elif key in _WORDS and value not in _WORDS[key]:
        known = _WORDS[key]
        raise UserError(f"workload.{key}: expected one of {', '.join(known)}, got {value}{nearest(value, known)}")


def check_together(keys: Iterable[str]) -> None:
    """Raise UserError where a key is missing, or two cannot stand together."""
    given = set(keys)
    if "model" not in given:
        raise UserError("workload: missing key 'model' (a preset or a config.json)")
    if given.isdisjoint(("requests", "generate", "context")):
        raise UserError("workload: missing key 'generate' (tokens to generate)")
    for key in ("prompt", "generate"):
        if "context" in given and key in given:
            raise UserError(f"workload.{key}: the context is prompt and answer together; leave one of the two out")
    for key in ("prompt", "generate", "chunk"):
        if "requests" in given and key in given:
            raise UserError(f"workload.{key}: the requests have their own lengths; leave it out")
    for key in ("iterations", "policy"):
        if key in given and "requests" not in given:
            raise UserError(f"workload.{key}: belongs to workload.requests, which is missing; leave it out")


def work_of(values: Mapping[str, Scalar]) -> Work:
    """A checked workload as fields."""
    return Work(**values)  # type: ignore[arg-type]
