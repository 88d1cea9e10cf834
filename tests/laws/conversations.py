"""Sessions over a memory store, made from a log, for the laws that need the engine; and models for them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.compact import Effects, take_reading
from tenfold.compaction.engine.policy import Policy, tenfold
from tenfold.compaction.summarize.ladder import OnFailure, SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.record.ask import Answer, EngineResult, SummaryAsk
from tenfold.core.record.block import ModelCost
from tenfold.core.record.entry import Entry, MessageEntry, get_message
from tenfold.core.record.message import Message, Part, Text, ToolResult
from tenfold.core.record.token_reading import Counted
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tests.laws import checks, strategies
from tests.laws.strategies import SILENT, TALK, Log
from tests.stores import open_law_store

COUNTER = CharacterCounter()
FILLER = "the quick report on part {n} says that nothing else was found in lib/part{n}.py and that it may go on. "


class WasAsked(BaseException):
    """Raised by a model that no one may ask. No `Exception`: what guards against a user's model must not hide it."""


class NeverAsk:
    """A model that no one may ask."""

    def answer(self, ask: SummaryAsk) -> Answer:
        raise WasAsked(ask.purpose)


class Echo:
    """A model whose answer depends on nothing but the Ask, so that order cannot matter. It counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, ask: SummaryAsk) -> Answer:
        self.calls += 1
        seal = hashlib.sha256(ask.prompt.encode()).hexdigest()[:6]
        names = ("alpha", "beta", "gamma", "delta")
        told = f"The work went on step by step, in the order {' '.join(names[int(c, 16) % 4] for c in seal)}."
        return Answer(text=told, spent=ModelCost(1, len(ask.prompt) // 4, len(told) // 4, "echo"))


class Broken:
    """A model whose every call fails after it was paid for."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, ask: SummaryAsk) -> Answer:
        self.calls += 1
        return Answer(error=f"the provider is down ({ask.purpose})", spent=ModelCost(1))


def make_policy(*, models: tuple[str, ...] = (), on_failure: OnFailure = "ladder") -> Policy:
    """The default policy, counting by characters. Without `models` everything is done by code."""
    return tenfold(COUNTER, summary=with_prompts(SummarySettings(models=models, on_failure=on_failure)))


def open_session(log: Sequence[Entry], using: Policy | None = None, answerer: Answerer | None = None) -> Session:
    """A session of its own store that holds this log."""
    place = SessionAddress(open_law_store(), "law")
    place.store.create(DEFAULT_NAMESPACE, SessionInfo("law"))
    if log:
        place.store.append(DEFAULT_NAMESPACE, "law", log, expected=None)
    return Session(place, using or make_policy(), answerer=answerer or Answerer())


def lengthen_log(log: Log, factor: int) -> Log:
    """The log with long texts and outputs, so that there is something to compact: `factor` sentences more in each."""
    return tuple(
        replace(e, message=lengthen_message(e.message, position, factor)) if isinstance(e, MessageEntry) else e
        for position, e in enumerate(log)
    )


def lengthen_message(message: Message, position: int, factor: int) -> Message:
    """The message with sentences added to its texts and its tool output."""
    more = FILLER.format(n=position) * factor
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                parts.append(Text(f"{text}. {more}"))
            case ToolResult(content=content):
                parts.append(replace(part, content=(*content, Text(more))))
            case _:
                parts.append(part)
    return replace(message, parts=tuple(parts))


def long_logs(*, least: int = 10, most: int = 30) -> st.SearchStrategy[Log]:
    """Logs without Blocks, of messages that are long enough to be worth compacting."""
    small = st.integers(0, 7)
    kinds = (*TALK, "user", "answer", "result", "result", *SILENT)
    moves = st.lists(st.tuples(st.sampled_from(kinds), small, small, small), min_size=least, max_size=most)
    return st.builds(lengthen_log, moves.map(strategies.play), st.sampled_from((8, 20, 40)))


def build_seeded_log(seed: int) -> Log:
    """A long log without Hypothesis."""
    kinds = ("user", "answer", "result", "result", "calls", "parallel", "thinking")
    return lengthen_log(strategies.build_seeded_log(seed, most=24, kinds=kinds), 20)


def extract_messages(log: Log) -> list[Message]:
    """The messages that a log says."""
    return [m for e in log if (m := get_message(e)) is not None]


def count_tokens(shown: Sequence[Message]) -> int:
    """What the messages take by the policy's counter."""
    return sum(measure_messages(shown, COUNTER))


def get_minimum_saving(session: Session, before: Sequence[Message], call: Call) -> int:
    """What a Block must save: the policy's minimum, or anything above the hard limit and where a target is named."""
    if call.to is not None or call.demand == "overflow":
        return 1
    reading = take_reading(session.view, session.policy, call, session.conversation.get_measures())
    limits = session.policy.trigger.get_limits(
        call.window or 1, output_reserve=call.output_reserve, floor=reading.floor
    )
    if limits.get_need(reading.tokens) == "hard":
        return 1
    return session.policy.get_minimum_shrink(Counted(count_tokens(before)))


def encode_view(session: Session) -> list[bytes]:
    """The view as bytes."""
    return [checks.BYTES.encode(m) for m in session.view.get_messages()]


def read_entries(session: Session) -> list[Entry]:
    """Everything in the session's store."""
    return session.address.store.read_entries(DEFAULT_NAMESPACE, session.address.session)


def record_answers(effects: Effects, known: dict[bytes, Answer]) -> Effects:
    """The same run, its answers filed by what was asked."""
    try:
        asks = next(effects)
        while True:
            answers = yield asks
            known.update((checks.BYTES.encode(ask), answer) for ask, answer in zip(asks, answers, strict=True))
            asks = effects.send(answers)
    except StopIteration as stop:
        verdict: EngineResult = stop.value
        return verdict
