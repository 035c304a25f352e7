"""One front end before several channels, as DRAMsim3 and Ramulator 2 have it: a request that has to wait holds up all
that come behind it, and at most one is accepted in a clock."""

from typing import Any

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.queued.fields import MORE, REST


def front_end(run: Any, one: Any, now: int, ahead: int) -> Any:
    """The front end of channels that `run` serves, a function without a mark. one: channel c of a stack; now: place of
    its clock in `state`, which is `ahead` of the one in which it has just accepted a request."""
    serve = bare(run)  # a call would hand over what is known of forty arrays, for each request

    def together(chs, channel, address, write, when, bank, row, column, number, begin, end, next_ck, rest_ck, clocks):
        """Serve requests begin … end - 1 of the arrays, request i by channel[i] at clock when[i] or later, which is put
        off where it must wait. next_ck: the first clock for the next one.

        Returns (code, next request, its first clock): MORE: there may be more; REST: its channel has nothing to do
        for more than rest_ck clocks; others as `run`. clocks: of all channels together, until Python is to look at
        signals.
        """
        left, i = clocks, begin
        while i < end:
            c = channel[i]
            ch = one(chs, c)  # once for neighbours that go to the same
            while i < end and channel[i] == c:
                if left <= 0:
                    return MORE, i, next_ck
                left += ch.state[now]
                when[i] = max(when[i], next_ck)
                if when[i] - ch.state[now] > rest_ck:
                    return REST, i, next_ck
                code, _ = serve(ch, address, write, when, bank, row, column, number, i, i + 1, False, clocks)
                left -= ch.state[now]
                if code != MORE:
                    return code, i, next_ck
                next_ck = ch.state[now] - ahead + 1
                i += 1
        return MORE, end, next_ck

    return together
