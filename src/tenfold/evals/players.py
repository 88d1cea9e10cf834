"""The methods that a replay compares, each in the course of one session: asked before every request what to send.

A player works on the messages of a `Track` by their index, so nothing is rendered or counted twice. Tenfold's policies
run through a real `Session`, as they do behind `before_model`; the rest is what people write by hand.
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
"""Tokens of system prompt and tools, which session files seldom hold: assumed, the same for every method. A coding
agent's are 3,000 to 12,000; the pi session's own first report says 2,775."""
SUMMARY = 1_500
"""Tokens of a written summary, as the recorded compactions of the pi session have them (1,000 to 2,000)."""
ACT, TARGET, TAIL = 0.85, 0.40, 0.25
"""Shares of the window: where a method that has no trigger of its own acts (where `tenfold` does), what it is asked to
come down to (the same), and what the hand-written summary keeps behind it."""
WRITTEN = "+model"
"""Ends the name of a policy whose summaries a model writes."""


Key = bytes | int | tuple[int, str]


class Piece(NamedTuple):
    """One message as it is sent: what makes it the same message in the next request, and its tokens."""

    key: Key
    tokens: int


class Sent(Struct, frozen=True):
    """What a player sends: pieces in order, and the tokens of model calls it made to get there.

    `seconds` is how long that took where the player knows better than the clock around it. `unable` says why a method
    that was asked gave no result: "" where it gave one, None where it was not asked or has a trigger of its own.
    """

    pieces: Sequence[Piece]
    summary_input: int = 0
    summary_output: int = 0
    seconds: float | None = None
    unable: str | None = None


class Track(Struct, frozen=True):
    """A session as a replay needs it: each message once decoded and once counted.

    `chat` are the same messages as they came, index for index. `requests` are the indexes of the answers: a request
    sent what lies before one. `prefix` counts what is sent besides the messages.
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
        """The list to send, now that the messages of these indexes came after those given before."""
        ...

    def after(self, prompt: int) -> None:
        """Hears what the provider reports for that request, in tokens."""
        ...


Start = Callable[[Track, int], Player]
"""Makes a player for a track and a window in tokens."""


def track_of(conversation: Conversation, *, prefix: int = PREFIX) -> Track:
    """A session's requests: one for each answer that it holds behind some message."""
    chat = conversation.messages
    messages = _decoded([msgspec.json.encode(message) for message in chat])
    answers = tuple(i for i, m in enumerate(messages) if m.role == "assistant" and i)
    return Track(conversation.name, chat, tuple(messages), tuple(sizes(messages, counter())), answers, prefix)


def key_of(message: Message) -> bytes:
    """A digest of what a provider reads of a message: its role and its parts, ids and all."""
    return hashlib.blake2b(msgspec.json.encode((message.role, message.parts)), digest_size=16).digest()


def _decoded(raw: Sequence[bytes]) -> list[Message]:
    """A message for each item: of one that decodes into several, the parts are put together again."""
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
    """A policy of Tenfold over a session in memory, checked before every request and told what each one took."""

    def __init__(self, track: Track, window: int, *, policy: str, model: StandIn | None = None) -> None:
        """`model` writes the summaries; without one code does."""
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
        shown = list(session.view.shown())
        tokens = session.bench().sizes.each(shown)
        pieces = [Piece(self._key(s), size) for s, size in zip(shown, tokens, strict=True)]
        return Sent(pieces, spent.input_tokens, spent.output_tokens)

    def after(self, prompt: int) -> None:
        """See `Player.after`."""
        self._session.used(Usage(prompt, model=MODEL, apart=self._track.prefix))

    def _key(self, shown: Shown) -> bytes:
        """By what is said: a later Block may say again what an earlier one said, and a provider sees no difference."""
        if not shown.original and shown.at == shown.of:  # the marker of a call: what it says may change
            return key_of(shown.message)
        known = self._keys.get(shown.key)
        if known is None:
            known = self._keys[shown.key] = key_of(shown.message)
        return known


class StandIn:
    """Writes summaries that say nothing, of the length a model's have: for what they cost, not for what they hold.

    Every answer has the headings it was asked for and at most `SUMMARY` tokens.
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
        taken, given = self._count.count([f"{ask.system}\n{ask.prompt}", text])
        return Answer(text, spent=Spent(1, taken, given, "stand-in", 0.0))


def _headings(prompt: str) -> list[str]:
    """The headings that a prompt asks for: they stand before the material, which begins with a tag."""
    return [line for line in prompt.partition("\n<")[0].splitlines() if line.startswith("## ")]


# -- a method that knows one budget ------------------------------------------------------------------------------------


class OfMethod:
    """A method of the comparison, called where `tenfold` acts and asked for the size that it aims at.

    It gets its own last list and what came since. Where it cannot compact, the list goes out as it is.
    """

    def __init__(self, track: Track, window: int, *, method: Method) -> None:
        self._track, self._method = track, method
        self._most = int(window * ACT)
        self._budget = max(1, int(window * TARGET) - track.prefix)
        self._list: list[tuple[ChatMessage, Piece]] = []
        self._sizes: dict[bytes, int] = {}
        self._refused = 0  # messages at the last refusal: the same list is not tried again

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
            made = self._method.compact([message for message, _ in self._list], budget=self._budget)
        except Unable as error:
            self._refused = len(self._list)
            return Sent(self._shown(), unable=str(error) or "it gives no reason")
        self._refused = 0
        self._list = list(zip(made.messages, self._pieces(made.messages), strict=True))
        return Sent(self._shown(), made.spent_input, made.spent_output, made.seconds, "")

    def after(self, prompt: int) -> None:
        """Learns nothing."""

    def _shown(self) -> list[Piece]:
        return [piece for _, piece in self._list]

    def _pieces(self, given: Sequence[ChatMessage]) -> list[Piece]:
        """Messages that a method gave back, by what they say: most are the ones it got, and are counted already."""
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
    """Sends the system prompt and the newest messages that fit into the window, chosen afresh for each request."""

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
    """When the window is nearly full, has a model summarize all but the newest quarter of it."""

    def __init__(self, track: Track, window: int) -> None:
        super().__init__(track, window)
        self._window = window
        self._kept = 0  # the first message that is sent word for word
        self._summary: list[Piece] = []
        self._sums = [0, *accumulate(track.tokens)]

    def before(self, new: range) -> Sent:
        """See `Player.before`."""
        super().before(new)
        asked = 0
        taken = self._size(new.stop)
        if taken > self._window * ACT:
            tail = int(self._window * TAIL)
            first = bisect_left(self._sums, self._sums[new.stop] - tail, self._kept, new.stop)
            start = _whole(self._track, first, new.stop)
            if start > self._kept:
                asked = sum(p.tokens for p in self._summary) + self._sums[start] - self._sums[self._kept]
                self._kept, self._summary = start, [Piece((start, "summary"), SUMMARY)]
        return Sent([*self._summary, *self._pieces[self._kept :]], asked, SUMMARY if asked else 0)

    def _size(self, end: int) -> int:
        return self._track.prefix + sum(p.tokens for p in self._summary) + self._sums[end] - self._sums[self._kept]


def _whole(track: Track, first: int, end: int) -> int:
    """The first place from `first` on where no step is split; where there is none, the beginning of the last step."""
    later = next((i for i in range(first, end) if track.messages[i].role != "tool"), None)
    if later is not None:
        return later
    return next((i for i in range(end - 1, -1, -1) if track.messages[i].role != "tool"), 0)


_ONE_BUDGET = ("keep-last", "truncate-middle", "mask-10")
BY_HAND: Mapping[str, Start] = {"none": Unchanged, "sliding-tail": SlidingTail, "summarize": Summarized}
"""What everyone writes first, applied before each request."""


def starts(names: Sequence[str], others: Sequence[Method] = ()) -> dict[str, Start]:
    """How to start the methods of these names, in order, each once; "all" is every one there is.

    A policy's name with `+model` has a stand-in model write its summaries. `others` are methods with no trigger of
    their own, peers for instance. Raises `UsageError` naming those there are.
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
