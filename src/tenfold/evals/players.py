"""The players: the methods that a replay compares, each asked before every request of a session what to send.

A player refers to the messages of a `Recording` by index, so no message is rendered or counted twice. Tenfold's
policies run in a real `Session`, as they do behind `before_model`. The other players are what people write by hand.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from tenfold.drive import Answerer
from tenfold.errors import UsageError
from tenfold.evals.cases import MODEL, ChatMessage, Conversation, counter
from tenfold.evals.methods import ALL, BASELINES, Method, Unable
from tenfold.log.ids import IDS
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Counter, sizes
from tenfold.policies import POLICIES
from tenfold.record.ask import Answer, Summarize
from tenfold.record.block import Spent
from tenfold.record.entry import Usage
from tenfold.record.message import Message
from tenfold.session import Place, Session
from tenfold.settings import policy_for
from tenfold.view.units import Shown
from tenfold.wire import WIRES

PREFIX = 6_000
"""The assumed tokens of system prompt and tools, which session files seldom hold.

It is the same for every method. A coding agent's take 3,000 to 12,000 tokens; the first report in the pi session says
2,775.
"""
SUMMARY = 1_500
"""The tokens of a written summary, as in the recorded compactions of the pi session (1,000 to 2,000)."""
ACT, TARGET, TAIL = 0.85, 0.40, 0.25
"""Shares of the window, for methods without a trigger of their own.

The first is where they act, the same as `tenfold`. The second is the size that they are asked for, the same as
`tenfold`. The third is what the hand-written summary keeps behind it.
"""
WRITTEN = "+model"
"""The suffix of a policy whose summaries a model writes."""


Key = bytes | int | tuple[int, str]


class Piece(NamedTuple):
    """One message as it is sent: a key that is equal for the same message in the next request, and its tokens."""

    key: Key
    tokens: int


class Sent(Struct, frozen=True):
    """What a player sends: the messages in order, and the tokens of the model calls that it made to compact them.

    `seconds` is how long that took, if the player knows it better than a clock around it. `unable` is the reason why a
    method gave no result when it was asked, "" if it gave one, and None if it was not asked or has a trigger of its
    own.
    """

    pieces: Sequence[Piece]
    summary_input: int = 0
    summary_output: int = 0
    seconds: float | None = None
    unable: str | None = None


class Track(Struct, frozen=True):
    """A session as a replay needs it. Each message is decoded and counted once.

    `chat_messages` are the same messages in their original form, index for index. `answer_indexes` are the answers of
    the model: each request sent the messages before one of them. `prefix` counts the tokens sent besides the messages.
    """

    name: str
    chat: tuple[ChatMessage, ...]
    messages: tuple[Message, ...]
    tokens: tuple[int, ...]
    requests: tuple[int, ...]
    prefix: int = PREFIX


class Player(Protocol):
    """A method in the course of one session."""

    def before(self, new: range) -> Sent:
        """Returns the messages to send, after the messages of these new indexes have been added."""
        ...

    def after(self, prompt: int) -> None:
        """Records the prompt tokens that the provider reports for that request."""
        ...


Start = Callable[[Track, int], Player]
"""Creates a player for a recording and a window in tokens."""


def track_of(conversation: Conversation, *, prefix: int = PREFIX) -> Track:
    """Returns the requests of a session: one for each answer that follows at least one message."""
    chat = conversation.messages
    messages = _decoded([msgspec.json.encode(message) for message in chat])
    answers = tuple(i for i, m in enumerate(messages) if m.role == "assistant" and i)
    return Track(conversation.name, chat, tuple(messages), tuple(sizes(messages, counter())), answers, prefix)


def key_of(message: Message) -> bytes:
    """Returns a digest of all that a provider reads of a message: its role and its parts, ids included."""
    return hashlib.blake2b(msgspec.json.encode((message.role, message.parts)), digest_size=16).digest()


def _decoded(raw: Sequence[bytes]) -> list[Message]:
    """Decodes each item into one message. If an item decodes into several messages, their parts are joined."""
    wire = WIRES["openai-chat"]
    whole = wire.decode(raw)
    if len(whole) == len(raw):
        return whole
    return [_joined(wire.decode([item])) for item in raw]


def _joined(messages: Sequence[Message]) -> Message:
    first = messages[0]
    return msgspec.structs.replace(first, parts=tuple(part for m in messages for part in m.parts), native=None)


# -- Tenfold -----------------------------------------------------------------------------------------------------------


class OfPolicy:
    """Runs a policy of Tenfold in an in-memory session.

    It is checked before every request and learns each prompt's size.
    """

    def __init__(self, track: Track, window: int, *, policy: str, model: StandIn | None = None) -> None:
        """Creates the session. `model` writes the summaries; without it they are written by code."""
        self._track, self._window, self._model = track, window, model
        place = Place(MemoryStore(), IDS.new())
        answerer = Answerer(model=model)
        self._keys: dict[tuple[int, int, int], bytes] = {}
        self._session = Session.create(place, policy_for(policy, counter()), model=MODEL, answerer=answerer)

    def before(self, new: range) -> Sent:
        """See `Player.before`."""
        session, track = self._session, self._track
        session.append(*track.messages[new.start : new.stop])
        check = session.call(window=self._window, floor=track.prefix)
        spent = Spent()
        if session.due(check):
            spent = session.compact(check).spent
        visible = list(session.view.shown())
        tokens = session.bench().sizes.each(visible)
        pieces = [Piece(self._key(s), size) for s, size in zip(visible, tokens, strict=True)]
        return Sent(pieces, spent.input_tokens, spent.output_tokens)

    def after(self, prompt: int) -> None:
        """See `Player.after`."""
        self._session.used(Usage(prompt, model=MODEL, apart=self._track.prefix))

    def _key(self, shown: Shown) -> bytes:
        """Returns a key made from the content: a provider sees no difference if a later Block repeats a message."""
        if not shown.original and shown.at == shown.of:  # the marker of a call, whose text may change
            return key_of(shown.message)
        known = self._keys.get(shown.key)
        if known is None:
            known = self._keys[shown.key] = key_of(shown.message)
        return known


class StandIn:
    """A stand-in model whose summaries are as long as real ones but empty of content: it shows what they cost.

    Every answer has the requested headings and at most `SUMMARY_TOKENS` tokens.
    """

    _LINE = "The work went on in this order, as described.\n"

    def __init__(self, count: Counter) -> None:
        self._count = count
        self._line = count.count([self._LINE])[0]

    def answer(self, ask: Summarize) -> Answer:
        """See `llm.model.Model`."""
        headings = _headings(ask.prompt)
        room = min(SUMMARY, ask.max_tokens * 9 // 10)
        frame = sum(self._count.count([f"{h}\n" for h in headings]))
        lines = max(1, (room - frame) // (self._line * max(1, len(headings))))
        text = "\n".join(f"{h}\n{self._LINE * lines}" for h in headings) or self._LINE * lines
        read_tokens, written_tokens = self._count.count([f"{ask.system}\n{ask.prompt}", text])
        return Answer(text, spent=Spent(1, read_tokens, written_tokens, "stand-in", 0.0))


def _headings(prompt: str) -> list[str]:
    """Returns the headings that a prompt asks for. They stand before the material, which begins with a tag."""
    return [line for line in prompt.partition("\n<")[0].splitlines() if line.startswith("## ")]


# -- a method that knows one budget ------------------------------------------------------------------------------------


class OfMethod:
    """Runs a compared method where `tenfold` would act, and asks it for the size that `tenfold` aims at.

    The method gets its own last result and the messages since then. If it cannot compact, the list is sent unchanged.
    """

    def __init__(self, track: Track, window: int, *, method: Method) -> None:
        self._track, self._method = track, method
        self._most = int(window * ACT)
        self._budget = max(1, int(window * TARGET) - track.prefix)
        self._list: list[tuple[ChatMessage, Piece]] = []
        self._sizes: dict[bytes, int] = {}
        self._refused = 0  # messages at the last refusal; the same list is not tried again

    def before(self, new: range) -> Sent:
        """See `Player.before`."""
        for index in new:
            key, tokens = key_of(self._track.messages[index]), self._track.tokens[index]
            self._sizes[key] = tokens
            self._list.append((self._track.chat[index], Piece(key, tokens)))
        size = self._track.prefix + sum(piece.tokens for _, piece in self._list)
        if size <= self._most or len(self._list) == self._refused:
            return Sent(self._shown())
        try:
            result = self._method.compact([message for message, _ in self._list], budget=self._budget)
        except Unable as error:
            self._refused = len(self._list)
            return Sent(self._shown(), unable=str(error) or "it gives no reason")
        self._refused = 0
        self._list = list(zip(result.messages, self._pieces(result.messages), strict=True))
        return Sent(self._shown(), result.spent_input, result.spent_output, result.seconds, "")

    def after(self, prompt: int) -> None:
        """Learns nothing."""

    def _shown(self) -> list[Piece]:
        return [piece for _, piece in self._list]

    def _pieces(self, given: Sequence[ChatMessage]) -> list[Piece]:
        """Returns the messages of a method's result with their tokens.

        Only messages not seen before have to be counted.
        """
        messages = _decoded([msgspec.json.encode(message) for message in given])
        keys = [key_of(message) for message in messages]
        strange = [i for i, key in enumerate(keys) if key not in self._sizes]
        for index, tokens in zip(strange, sizes([messages[i] for i in strange], counter()), strict=True):
            self._sizes[keys[index]] = tokens
        return [Piece(key, self._sizes[key]) for key in keys]


# -- what people write by hand -----------------------------------------------------------------------------------------


class Unchanged:
    """Sends everything, whatever the window."""

    def __init__(self, track: Track, window: int) -> None:
        del window
        self._track = track
        self._pieces: list[Piece] = []

    def before(self, new: range) -> Sent:
        """See `Player.before`."""
        self._pieces.extend(Piece(i, self._track.tokens[i]) for i in new)
        return Sent(self._pieces)

    def after(self, prompt: int) -> None:
        """Learns nothing."""


class SlidingTail(Unchanged):
    """Sends the system prompt and the newest messages that fit into the window, chosen anew for each request."""

    def __init__(self, track: Track, window: int) -> None:
        super().__init__(track, window)
        self._head = next((i for i, m in enumerate(track.messages) if m.role != "system"), len(track.messages))
        self._sums = [0, *accumulate(track.tokens)]
        self._room = window - track.prefix - self._sums[self._head]

    def before(self, new: range) -> Sent:
        """See `Player.before`."""
        everything = super().before(new).pieces
        first = bisect_left(self._sums, self._sums[new.stop] - self._room, self._head, new.stop)
        start = _whole(self._track, first, new.stop)
        return Sent([*everything[: self._head], *everything[max(start, self._head) :]])


class Summarized(Unchanged):
    """When the window is nearly full, has a model summarize everything but the newest quarter of the window."""

    def __init__(self, track: Track, window: int) -> None:
        super().__init__(track, window)
        self._window = window
        self._kept = 0  # the first message that is sent unchanged
        self._summary: list[Piece] = []
        self._sums = [0, *accumulate(track.tokens)]

    def before(self, new: range) -> Sent:
        """See `Player.before`."""
        super().before(new)
        summary_input = 0
        request_tokens = self._size(new.stop)
        if request_tokens > self._window * ACT:
            tail = int(self._window * TAIL)
            first = bisect_left(self._sums, self._sums[new.stop] - tail, self._kept, new.stop)
            start = _whole(self._track, first, new.stop)
            if start > self._kept:
                summary_input = sum(p.tokens for p in self._summary) + self._sums[start] - self._sums[self._kept]
                self._kept, self._summary = start, [Piece((start, "summary"), SUMMARY)]
        return Sent([*self._summary, *self._pieces[self._kept :]], summary_input, SUMMARY if summary_input else 0)

    def _size(self, end: int) -> int:
        return self._track.prefix + sum(p.tokens for p in self._summary) + self._sums[end] - self._sums[self._kept]


def _whole(track: Track, first: int, end: int) -> int:
    """Returns the first index from `first` on where no step is split, or else the beginning of the last step."""
    later = next((i for i in range(first, end) if track.messages[i].role != "tool"), None)
    if later is not None:
        return later
    return next((i for i in range(end - 1, -1, -1) if track.messages[i].role != "tool"), 0)


_ONE_BUDGET = ("keep-last", "truncate-middle", "mask-10")
BY_HAND: Mapping[str, Start] = {"none": Unchanged, "sliding-tail": SlidingTail, "summarize": Summarized}
"""The simple methods that everyone writes first, applied before each request."""


def starts(names: Sequence[str], others: Sequence[Method] = ()) -> dict[str, Start]:
    """Returns the factories of the players with these names, in order, each once. "all" stands for every player.

    A policy's name with `+model` has a stand-in model write its summaries. `others` are methods without a trigger of
    their own, for instance peers. Raises `UsageError`, with the known names, for an unknown name.
    """
    known: dict[str, Start] = dict(BY_HAND)
    for policy in ("tenfold", *(p for p in POLICIES if p != "tenfold")):
        known[policy] = partial(OfPolicy, policy=policy)
        known[policy + WRITTEN] = partial(OfPolicy, policy=policy, model=StandIn(counter()))
    for method in (*(BASELINES[name] for name in _ONE_BUDGET), *others):
        known[method.name] = partial(OfMethod, method=method)
    chosen: dict[str, Start] = {}
    for name in names:
        if name != ALL and name not in known:
            raise UsageError(f"no method is called {name!r}; there are {ALL}, {', '.join(known)}")
        chosen |= known if name == ALL else {name: known[name]}
    return chosen
