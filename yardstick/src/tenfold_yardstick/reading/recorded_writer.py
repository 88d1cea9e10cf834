"""A model whose texts are recorded, so that a view that it wrote can be made again without a provider."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct

from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.models.model import Model


class RecordedText(Struct, frozen=True):
    """A text that a model wrote, under the hash of the Ask that it answers."""

    ask: str
    text: str
    model: str = ""


class PendingAsk(Struct, frozen=True):
    """An Ask that nobody has answered yet, with its hash."""

    hash: str
    ask: SummaryAsk


class RecordedWriter:
    """Answers an Ask with the recorded text, else by asking `model`, whose text is recorded then.

    `new_texts` are those written since it was made. Without a model, an unknown Ask fails, and the first that failed
    since the last `clear_failure` is in `pending_asks`: what follows a failure is only asked because of it.
    """

    def __init__(self, texts: Mapping[str, str], *, model: Model | None = None, name: str = "") -> None:
        self._texts = dict(texts)
        self._model, self._name = model, name
        self._lock = threading.Lock()
        self.new_texts: list[RecordedText] = []
        self.pending_asks: list[PendingAsk] = []
        self.failure = ""

    def answer(self, ask: SummaryAsk) -> Answer:
        """See `Model.answer`."""
        key = hash_ask(ask)
        with self._lock:
            text = self._texts.get(key)
        if text is not None:
            return Answer(text=text)
        if self._model is None:
            return self._fail(PendingAsk(key, ask))
        answer = self._model.answer(ask)
        with self._lock:
            if answer.error:
                self.failure = self.failure or answer.error
            elif answer.finish_reason == "stop":
                self._texts[key] = answer.text
                self.new_texts.append(RecordedText(key, answer.text, self._name))
        return answer

    def clear_failure(self) -> None:
        """Forgets what failed before. Called before each compaction."""
        self.failure = ""

    def _fail(self, pending: PendingAsk) -> Answer:
        reason = "no recording holds the text that a model would write, and no writer is named"
        with self._lock:
            if not self.failure:
                self.failure = reason
                self.pending_asks.append(pending)
        return Answer(error=reason)


def hash_ask(ask: SummaryAsk) -> str:
    """Returns a hash of all that decides what a model answers: the texts and the length allowed."""
    return sha256(msgspec.json.encode((ask.system, ask.prompt, ask.max_tokens))).hexdigest()
