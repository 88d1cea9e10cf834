"""The only place that exists both sync and async: it runs an engine generator to its end, answering its Asks.

What it may call is handed to it as an `Answerer`; retries, time-outs and cancellation are decided here and nowhere
deeper. It writes nothing: the session appends what a Verdict holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import assert_never

from msgspec import Struct

from tenfold.engine import Effects
from tenfold.errors import TenfoldError
from tenfold.llm.model import Model
from tenfold.record.ask import Answer, Ask, Consult, Read, Summarize, Verdict
from tenfold.record.entry import Entry

Before = Callable[[Consult], Answer | None]
"""A before-hook: may cancel, supply a summary text, or add a focus; None has no say."""


class Answerer(Struct, frozen=True):
    """Everything an Ask may need: a model, the before-hooks in order, and a way to read entries.

    `report` is told of a hook that raised; the hook is then ignored.
    """

    model: Model | None = None
    before: tuple[Before, ...] = ()
    read: Callable[[Sequence[int]], Sequence[Entry]] | None = None
    report: Callable[[str], None] | None = None

    def answer(self, ask: Ask) -> Answer:
        """The answer to one Ask. What fails comes back as an Answer with its error, never as an exception."""
        match ask:
            case Summarize():
                return self._summarized(ask)
            case Consult():
                return self._consulted(ask)
            case Read():
                if self.read is None:
                    return Answer(error="nothing to read from")
                try:
                    return Answer(entries=tuple(self.read(ask.positions)))
                except (TenfoldError, OSError) as exc:
                    return _failed(exc)
            case _:
                assert_never(ask)

    def _summarized(self, ask: Summarize) -> Answer:
        if self.model is None:
            return Answer(error="no model is configured")
        try:
            return self.model.answer(ask)
        except Exception as exc:  # noqa: BLE001 - a user's model may raise anything, and no run may fail for a summary
            return _failed(exc)

    def _consulted(self, ask: Consult) -> Answer:
        said = Answer()
        for hook in self.before:
            try:
                advice: object = hook(ask)  # a hook is a user's code, and not all of it is typed
            except Exception as exc:  # noqa: BLE001 - a user's hook may raise anything; it is reported and ignored
                self._say(f"a before-hook raised {type(exc).__name__}: {exc}; it was ignored")
                continue
            if advice is None:
                continue
            if not isinstance(advice, Answer):
                self._say(f"a before-hook gave a {type(advice).__name__}, not an Answer or None; it was ignored")
                continue
            if advice.cancel:
                return advice
            said = Answer(text=advice.text or said.text, focus=advice.focus or said.focus)
        return said

    def _say(self, what: str) -> None:
        if self.report is not None:
            self.report(what)


def _failed(exc: Exception) -> Answer:
    return Answer(error=f"{type(exc).__name__}: {exc}")


def run(effects: Effects, answerer: Answerer) -> Verdict:
    """Runs to the end, answering independent Asks on threads."""
    asks = _next(effects, None)
    while not isinstance(asks, Verdict):
        if len(asks) == 1:
            answers: tuple[Answer, ...] = (answerer.answer(asks[0]),)
        else:
            with ThreadPoolExecutor(max_workers=len(asks), thread_name_prefix="tenfold-ask") as pool:
                answers = tuple(pool.map(answerer.answer, asks))
        asks = _next(effects, answers)
    return asks


async def arun(
    effects: Effects, answerer: Answerer, *, answer: Callable[[Summarize], Awaitable[Answer]] | None = None
) -> Verdict:
    """Runs to the end without holding the event loop: the engine's own work and every Ask run in threads.

    `answer` stands for the answerer's model, for hosts whose model call is a coroutine; hooks and reads stay the
    answerer's. Cancelling leaves no Block.
    """

    async def one(ask: Ask) -> Answer:
        if answer is None or not isinstance(ask, Summarize):
            return await asyncio.to_thread(answerer.answer, ask)
        try:
            return await answer(ask)
        except Exception as exc:  # noqa: BLE001 - a user's model may raise anything, and no run may fail for a summary
            return _failed(exc)

    asks = await asyncio.to_thread(_next, effects, None)
    while not isinstance(asks, Verdict):
        answers = tuple(await asyncio.gather(*(one(ask) for ask in asks)))
        asks = await asyncio.to_thread(_next, effects, answers)
    return asks


def _next(effects: Effects, answers: tuple[Answer, ...] | None) -> tuple[Ask, ...] | Verdict:
    try:
        return next(effects) if answers is None else effects.send(answers)
    except StopIteration as stop:
        verdict = stop.value
        assert isinstance(verdict, Verdict)
        return verdict
