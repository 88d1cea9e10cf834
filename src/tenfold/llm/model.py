"""What a model is to Tenfold: something that answers a Summarize Ask. Nothing else in the library calls a model."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tenfold.record.ask import Answer, Summarize


class Model(Protocol):
    """Answers Asks, one at a time or from several threads; each call gets a thread that nobody else needs.

    Time-outs and retries are the driver's: a model makes one call. One that cannot be waited for is left behind.
    """

    def answer(self, ask: Summarize) -> Answer:
        """The answer to one Ask. A failed call is an Answer with `error` set, not an exception."""
        ...


@runtime_checkable
class AsyncModel(Protocol):
    """A model that can also be awaited: then the async side does so, and cancelling it cancels the call itself."""

    async def aanswer(self, ask: Summarize) -> Answer:
        """See `Model.answer`."""
        ...
