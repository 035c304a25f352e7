"""What a kind of system has that a user may ask for, so that nothing above asks what kind it is."""

from typing import Literal, NamedTuple


class Traits(NamedTuple):
    """A kind of system, for its sentences `what` it is.

    sequence: whether one sequence has a result of its own: always, unless requests are given; alone, without options
    of a batch; never. channels: requests live in channels, and policies place them; pipelines: groups of devices one
    behind the other; released: its own simulator can be reproduced; lists: an iteration of a list of contexts has a
    result of its own; outside: its steps hold embedding, LM head and sampling, too;
    sending: what is left out where devices send one another something.
    """

    what: str
    sequence: Literal["always", "alone", "never"]
    channels: bool
    pipelines: bool
    released: bool
    lists: bool
    outside: bool = False
    sending: str = ""


TRAITS = {
    "pim": Traits("one device", "always", channels=False, pipelines=False, released=False, lists=False),
    "roofline": Traits("a roofline", "alone", channels=False, pipelines=False, released=False, lists=True,
                       sending="what devices send one another takes no time"),
    "composed": Traits("composed", "never", channels=False, pipelines=False, released=False, lists=False,
                       outside=True),
    "npu_pim": Traits("an NPU", "never", channels=True, pipelines=True, released=True, lists=True,
                      sending="static power is not counted while devices only send"),
}


def traits(kind: str) -> Traits:
    """Of a kind of system."""
    return TRAITS[kind]
