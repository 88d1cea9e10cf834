"""How long to wait between tries of a model call, as values: the drivers do the waiting and the calling."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Generator

from msgspec import Struct
from msgspec.structs import replace

from tenfold.record.ask import Answer, Summarize
from tenfold.summarize.ladder import added


class Patience(Struct, frozen=True):
    """Exponential back-off with jitter. Times in seconds.

    The pause before the second try is `first`, doubled for each further one up to `most`, of which up to a half is
    taken off at random, and never less than the provider asked for. A provider that asks for more than `most` is not
    waited for. `sleep`, `asleep` and `draw` (a number from 0 to 1) are for tests.
    """

    first: float = 1.0
    most: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random

    def pause(self, failed: int, asked: float) -> float:
        """How long to wait after so many failed tries, the last of which was told to wait `asked` seconds."""
        most: float = min(self.first * 2.0 ** (failed - 1), self.most)
        return max(most * (1.0 - self.draw() / 2), asked)

    def calls(self, ask: Summarize) -> Generator[float, Answer, Answer]:
        """Yields the pause before each call, is sent its Answer, and returns what is the Answer to the Ask.

        Only failures that are `retryable` are tried again, `ask.tries` times in all; what the tries cost is added up.
        """
        answer = yield 0.0
        for failed in range(1, ask.tries):
            late = answer.timed_out and not ask.repeat_late
            if late or not (answer.error and answer.retryable) or answer.retry_after > self.most:
                break
            before = answer.spent
            answer = yield self.pause(failed, answer.retry_after)
            answer = replace(answer, spent=added(before, answer.spent))
            if answer.error and failed == ask.tries - 1:
                answer = replace(answer, error=f"{answer.error} (tried {ask.tries} times)")
        return answer
