"""vLLM v1's own scheduler: no phases; each request has tokens that are known and tokens that are computed, and a budget
of tokens closes the gap, first of those that run, then of those that wait.
"""

from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NOT_YET, Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.prefix_pool import PrefixPool

AHEAD = 64  # tokens whose blocks are taken before they are needed, in vLLM 0.8.5


class VllmV1(Scheduler):
    """pool: one block of it stays unused; cap: most requests that run (max_num_seqs); budget: tokens of an iteration
    (max_num_batched_tokens); longest: max_model_len; threshold: most tokens of a request in an iteration
    (long_prefill_token_threshold), 0: no such limit. `admit_by` has the rules of later versions."""

    blocks: Blocks | PrefixPool

    def __init__(self, pool: Blocks | PrefixPool, cap: int, budget: int, longest: int, threshold: int = 0) -> None:
        super().__init__()
        self.blocks, self.cap, self.budget, self.longest = pool, cap, budget, longest
        self.most = min(threshold, budget) if threshold else budget
        self.most_blocks = -(-longest // pool.size)
        self.admit_by(AHEAD, whole=False)
        self.shares = pool if isinstance(pool, PrefixPool) else None
        self.running: list[LiveRequest] = []

    def admit_by(self, ahead: int, *, whole: bool) -> None:
        """ahead: tokens whose blocks are taken before they are needed (num_preallocate_tokens; none in vLLM 0.19);
        whole: a request comes in only where blocks for all that is known of it are free, not just for its next chunk
        (scheduler_reserve_full_isl; so in vLLM 0.19). It takes those of the chunk all the same."""
        self.ahead, self.whole = -(-ahead // self.blocks.size), whole

    def form(self, now: int) -> Iteration | None:
        """Those that run; if none of them had to yield, those that wait, too."""
        batch, new, left, preempted = self._running()
        if not preempted and self.waiting:
            self._join(batch, new, left, now)
        return Iteration(batch, new) if batch else None

    def _running(self) -> tuple[list[LiveRequest], list[int], int, bool]:
        running, size, most, left = self.running, self.blocks.size, self.most, self.budget
        batch, new, preempted = list[LiveRequest](), list[int](), False
        while left and len(batch) < len(running):
            request = running[len(batch)]
            n = request.known - request.cached
            if request.decoding is not None:
                n += request.decoding.ahead(request)
                if n > min(most, left) and not request.decoding.trims:
                    n = request.known - request.cached  # a tree comes whole
            n = min(n, most, left)
            while request.cached + n > request.blocks * size and not self._slots(request, n):
                victim, preempted = self._last(len(batch), request), True
                self.blocks.release(victim)
                victim.restart()
                self.waiting.appendleft(victim)
                if victim is request:
                    return batch, new, left, preempted
            if self.shares:
                self.shares.fill(request, min(request.cached + n, request.known))
            batch.append(request)
            new.append(n)
            left -= n
        return batch, new, left, preempted

    def _last(self, first: int, request: LiveRequest) -> LiveRequest:
        """Who yields: the last of those that run, from number `first` on, whose blocks are room for a request."""
        at = next(
            i for i in range(len(self.running) - 1, first - 1, -1) if self.blocks.beside(self.running[i], request)
        )
        return self.running.pop(at)

    def _join(self, batch: list[LiveRequest], new: list[int], left: int, now: int) -> None:
        """First come first served, as long as there are blocks for the next tokens."""
        while self.waiting and left and len(self.running) < self.cap:
            request = self.waiting[0]
            hit = self.shares.found(request) if self.shares and not request.cached else []
            cached = len(hit) * self.blocks.size or request.cached  # it may come with a cache from elsewhere
            n = min(request.known - cached, self.most, left)
            if self.whole and not self._fits(request, hit) or not self._slots(request, n, hit):
                return
            request.cached = cached
            if request.first_scheduled == NOT_YET:
                request.first_scheduled, request.hit = now, cached
            if self.shares:
                self.shares.fill(request, cached + n)  # the next one that joins shares them already
            self.running.append(self.waiting.popleft())
            batch.append(request)
            new.append(n)
            left -= n

    def _free(self, request: LiveRequest, hit: list[int]) -> int:
        """Blocks that it may have beside those that it has hit."""
        return self.blocks.room(request) - (self.shares.idle(hit) if self.shares and hit else 0)

    def _fits(self, request: LiveRequest, hit: list[int]) -> bool:
        """Whether there are blocks for all that is known of one that waits."""
        need = -(-min(request.known, self.longest) // self.blocks.size)
        return need - request.blocks - len(hit) <= self._free(request, hit)

    def _slots(self, request: LiveRequest, n: int, hit: list[int] | None = None) -> bool:
        """Blocks for n tokens more, behind those that it has `hit`, and some ahead; False if too few are free."""
        pool, found = self.blocks, len(hit) if hit else 0
        need = -(-(request.cached + found * pool.size + n) // pool.size) - request.blocks - found
        free = self._free(request, hit or [])
        if need > free:
            return False
        if self.shares and hit:
            self.shares.share(request, hit)
        if need > 0:
            pool.take(request, min(need + self.ahead, free, self.most_blocks - request.blocks))
        return True

    def ran(self, iteration: Iteration, now: int) -> None:
        """Those that have ended, or are as long as the model with a token that they made, leave in batch order."""
        goes_on, _ = self.sampled(iteration, now)
        for request in goes_on:
            if request.known >= self.longest and request.first_token != NOT_YET:
                request.completion = now
        ended = [request for request in iteration.requests if request.completion != NOT_YET]
        if ended:
            self.running = [request for request in self.running if request.completion == NOT_YET]
        for request in ended:
            self.blocks.release(request)
