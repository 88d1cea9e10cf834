"""The protocol of a model: something that answers a Summarize Ask. Nothing else in the library calls a model."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tenfold.core.record.ask import Answer, SummaryAsk


class Model(Protocol):
    """Answers Asks, possibly from several threads at once. Each call runs in a thread of its own.

    A model makes one call. The driver takes care of timeouts and retries, and abandons a call that takes too long.
    """

    def answer(self, ask: SummaryAsk) -> Answer:
        """Answers one Ask. A failed call returns an Answer with `error` set and raises nothing."""
        ...


@runtime_checkable
class AsyncModel(Protocol):
    """A model that can also be awaited. The async side then awaits it, and cancelling cancels the call."""

    async def aanswer(self, ask: SummaryAsk) -> Answer:
        """See `Model.answer`."""
        ...
