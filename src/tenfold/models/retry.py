"""The retry rule of model calls: how long to wait, and when to give up. The drivers do the waiting and the calling."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Generator

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import add_costs


class RetryRule(Struct, frozen=True):
    """Exponential backoff with jitter. Times are in seconds.

    The pause before the second try is `first_pause`. It doubles for each further try, up to `max_pause`. Up to half of
    it is taken off at random, but a pause is never shorter than the provider requested. If the provider requests more
    than `max_pause`, there is no further try. `sleep`, `async_sleep` and `draw` (a number from 0 to 1) are replaced in
    tests.
    """

    first_pause: float = 1.0
    max_pause: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    async_sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random

    def compute_pause(self, failed_tries: int, requested: float) -> float:
        """Returns how long to wait after this many failed tries. The provider requested `requested` seconds."""
        longest: float = min(self.first_pause * 2.0 ** (failed_tries - 1), self.max_pause)
        return max(longest * (1.0 - self.draw() / 2), requested)

    def schedule_calls(self, ask: SummaryAsk) -> Generator[float, Answer, Answer]:
        """Yields the pause before each call, receives its Answer, and returns the final Answer.

        Only failures marked `retryable` are tried again, up to `ask.tries` tries in all. The costs of the tries are
        added up.
        """
        answer = yield 0.0
        for failed in range(1, ask.tries):
            late = answer.timed_out and not ask.can_retry_timeout
            if late or not (answer.error and answer.retryable) or answer.retry_after > self.max_pause:
                break
            before = answer.spent
            answer = yield self.compute_pause(failed, answer.retry_after)
            answer = replace(answer, spent=add_costs(before, answer.spent))
            if answer.error and failed == ask.tries - 1:
                answer = replace(answer, error=f"{answer.error} (tried {ask.tries} times)")
        return answer
