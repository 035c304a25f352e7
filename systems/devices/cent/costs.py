"""What a token takes of a CENT system."""

from typing import NamedTuple

BETWEEN = ("ends_ms", "host_ms", "power_mw", "busy_ms")  # of a token between two, beside its layer and energy


class Drawn(NamedTuple):
    """A device in a program: energy by cause [pJ], and time of its channels [ms]."""

    pj: dict[str, float]
    ms: float


class LayerTime(NamedTuple):
    """A token in one layer [ms]: in the channels, over the link, in the near-memory unit for all layers of a device."""

    pim: float
    link: float
    near_memory: float

    @property
    def all(self) -> float:
        """One after the other."""
        return self.pim + self.link + self.near_memory


class TokenCost(NamedTuple):
    """A token of one request: its layer, what stands before and behind the layers and the host [ms]; energy of all
    devices by cause [pJ], without what they draw while they wait; of what works at once, by the time of a layer in the
    channels [mW]; busy: time of the channels at work, of all devices together [ms]."""

    layer: LayerTime
    ends_ms: float
    host_ms: float
    layers: int
    energy_pj: dict[str, float]
    power_mw: float
    busy_ms: float

    @property
    def of_layers(self) -> "TokenCost":
        """Without embedding, last norm and LM head, and sampling on the host."""
        return self._replace(ends_ms=0.0, host_ms=0.0)

    @property
    def token_ms(self) -> float:
        """Until the next token of the same request."""
        return self.layer.all * self.layers + self.ends_ms + self.host_ms


def mixed(low: TokenCost, high: TokenCost, part: float) -> TokenCost:
    """A token between two."""

    def mean(a: float, b: float) -> float:
        return a + part * (b - a)

    layer = LayerTime(*(mean(a, b) for a, b in zip(low.layer, high.layer, strict=True)))
    joules = {cause: mean(pj, high.energy_pj[cause]) for cause, pj in low.energy_pj.items()}
    ends, host, power, busy = (mean(getattr(low, n), getattr(high, n)) for n in BETWEEN)
    return TokenCost(layer, ends, host, low.layers, joules, power, busy)
