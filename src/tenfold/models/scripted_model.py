"""A model that follows a script: the public fake for tests, demos and replays. It never uses the network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from msgspec import Struct

from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import ModelCost


class ScriptedReply(Struct, frozen=True):
    """One scripted reply. `error` makes it a failed call, and `finish` "length" a truncated answer.

    A failed call may be `retryable`, and say after how many seconds (`retry_after`). `delay` in seconds is passed to
    the model's `sleep` before the reply. With `time.sleep`, a long delay makes a model that hangs.
    """

    text: str = ""
    finish: str = "stop"
    error: str = ""
    retryable: bool = False
    retry_after: float = 0.0
    delay: float = 0.0
    spent: ModelCost = ModelCost(calls=1)


class ScriptedModel:
    """Stands in for a language model in your tests: it gives the replies that you wrote, in order.

    A string is a reply with that text. `asks` holds what the model was asked. After the last reply every Ask fails
    with an error that says so; with `repeat`, the last reply comes again. `sleep` is called for delays, in seconds;
    without it, there are none. Several threads may use one model.
    """

    def __init__(
        self,
        answers: Sequence[ScriptedReply | str],
        *,
        sleep: Callable[[float], None] | None = None,
        repeat: bool = False,
    ) -> None:
        self._replies = [ScriptedReply(text=answer) if isinstance(answer, str) else answer for answer in answers]
        self._sleep = sleep
        self._repeat = repeat
        self._lock = threading.Lock()
        self._asks: list[SummaryAsk] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.asks)} of {len(self._replies)} replies given>"

    @property
    def asks(self) -> tuple[SummaryAsk, ...]:
        """The Asks received so far, in order."""
        with self._lock:
            return tuple(self._asks)

    def answer(self, ask: SummaryAsk) -> Answer:
        """Returns the next reply of the script."""
        with self._lock:
            number = len(self._asks)
            self._asks.append(ask)
        if number < len(self._replies):
            reply = self._replies[number]
        elif self._repeat and self._replies:
            reply = self._replies[-1]
        else:
            have = len(self._replies)
            return Answer(error=f"Ask {number + 1}, but the script has {have} replies: add one or pass repeat=True")
        if reply.delay and self._sleep is not None:
            self._sleep(reply.delay)
        if reply.error:
            return Answer(
                error=reply.error, retryable=reply.retryable, retry_after=reply.retry_after, spent=reply.spent
            )
        return Answer(text=reply.text, finish_reason=reply.finish, spent=reply.spent)
