"""How requests are served."""

from typing import NamedTuple

from pimloom.systems.serving.options.named import Limits
from pimloom.systems.serving.sharing.finetuning import FineTuning
from pimloom.systems.serving.transforms.transform import Transform


class Plan(NamedTuple):
    """How requests are served. stages: of a pipeline, whose step the device makes; exact: whether
    every different iteration is simulated; sample: how many of those that are not are simulated of each kind of
    phase, to measure the error of prices; price_error: its limit;
    transform: of decoding; finetuning: what fills iterations up to so many ps."""

    scheduler: str
    limits: Limits
    replicas: int
    router: str
    stages: int
    exact: bool
    sample: int
    seed: int
    transform: Transform | None = None
    clients: int = 0
    finetuning: FineTuning | None = None
    limit_ps: float = 0.0
    price_error: float = 0.02
