"""What a model is to Tenfold: something that answers a Summarize Ask. Nothing else in the library calls a model."""

from __future__ import annotations

from typing import Protocol

from tenfold.record.ask import Answer, Summarize


class Model(Protocol):
    """Answers Asks, one at a time or from several threads. The async side runs `answer` in a worker thread."""

    def answer(self, ask: Summarize) -> Answer:
        """The answer to one Ask. A failed call is an Answer with `error` set, not an exception."""
        ...
