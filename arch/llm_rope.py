"""Positions of a model whose rotations are scaled (`rope_scaling`, or `rope_parameters` of transformers 5).

The rule is vLLM's for the longest context of a model, `_get_and_verify_max_len` [recalled]: kinds that stretch the
positions multiply by `factor`, yarn from `original_max_position_embeddings` on; for the others, and for Gemma 3,
`max_position_embeddings` has the factor in it.
"""

from collections.abc import Iterator
from math import isfinite
from typing import Any

from pimloom.arch.document import nearest
from pimloom.arch.llm_config import Config
from pimloom.arch.llm_types import EXTRA_POSITIONS

STRETCHED = ("linear", "dynamic", "yarn", "ntk")  # by `factor`
AS_GIVEN = ("default", "llama3", "longrope", "su", "mrope", "proportional")
KINDS = (*STRETCHED, *AS_GIVEN)
ORIGINAL = "original_max_position_embeddings"
PLACES = ("rope_scaling", "rope_parameters")
MOST = 2**31 - 1


def scale_positions(config: Config, fields: dict[str, Any]) -> None:
    """Replace `max_position_embeddings` in `fields` by the scaled number of positions; unknown kinds are refused."""
    if config.model_type in EXTRA_POSITIONS:
        return  # learned
    config.read.update((*PLACES, ORIGINAL))
    found = set[int]()
    for place, scaling in _scalings(config):
        if (derived := _derived(config, place, scaling, fields["max_position_embeddings"])) is not None:
            found.add(derived)
    given = fields["max_position_embeddings"]
    if found and min(found) != given and not config.model_type.startswith("gemma3"):
        fields["max_position_embeddings"] = min(found)
        of = f"{given:,} of max_position_embeddings"
        config.notes.append(f"{min(found):,} positions, scaled by rope_scaling from {of}")


def _scalings(config: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pairs of a place and a scaling: one for all layers, or one for each kind of layers."""
    for place in PLACES:
        value = config.tree.get(place)
        if value is None:
            continue
        if not isinstance(value, dict):
            config.refuse(place, "an object or null")
        elif value and all(isinstance(each, dict) for each in value.values()):
            yield from ((f"{place}.{key}", each) for key, each in value.items())
        else:
            yield place, value


def _derived(config: Config, place: str, scaling: dict[str, Any], positions: int) -> int | None:
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if not isinstance(kind, str) or kind not in KINDS:
        key = "rope_type" if "rope_type" in scaling else "type"
        config.refuse(f"{place}.{key}", f"one of {', '.join(KINDS)}", nearest(str(kind), KINDS))
        return None
    if "rope_type" not in scaling and "type" not in scaling and "factor" in scaling:
        config.refuse(f"{place}.rope_type", f"one of {', '.join(KINDS)}, as there is a factor")
        return None
    if kind in AS_GIVEN:
        return positions
    if "factor" not in scaling and not (kind == "dynamic" and "alpha" in scaling):  # which leaves positions as they are
        config.refuse(f"{place}.factor", f"a number of at least 1, which {kind} scales by")
        return None
    factor = scaling.get("factor", 1.0)
    if type(factor) not in (int, float) or not isfinite(factor) or factor < 1:
        config.refuse(f"{place}.factor", "a number of at least 1")
        return None
    if kind == "yarn":
        first = scaling.get(ORIGINAL, config.tree.get(ORIGINAL))
        if first is not None and (type(first) is not int or not 1 <= first <= MOST):
            config.refuse(f"{place}.{ORIGINAL}", f"int from 1 to {MOST}")
            return None
        positions = first or positions
    return min(int(positions * factor), MOST)
