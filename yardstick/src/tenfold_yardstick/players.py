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

from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import Counter, measure_messages
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import ModelCost
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.core.view.units import VisibleMessage
from tenfold.core.wire import WIRES
from tenfold.errors import UsageError
from tenfold.session import Session, SessionAddress
from tenfold.session.conversation import Stamps
from tenfold.session.drive import Answerer
from tenfold.store.ids import ContentIdGenerator
from tenfold.store.sqlite.store import SqliteStore
from tenfold.testing.chats import MODEL, get_counter, render_view
from tenfold.testing.methods import BASELINES, Method, UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import EvalSession
from tenfold_yardstick.methods import ALL, load_method

PREFIX_TOKENS = 6_000
"""The assumed tokens of system prompt and tools, which session files seldom hold.

It is the same for every method. A coding agent's take 3,000 to 12,000 tokens; the first report in the pi session says
2,775.
"""
SUMMARY_TOKENS = 1_500
"""The tokens of a written summary, as in the recorded compactions of the pi session (1,000 to 2,000)."""
TRIGGER_SHARE, TARGET_SHARE, TAIL_SHARE = 0.85, 0.40, 0.25
"""Shares of the window, for methods without a trigger of their own.

The first is where they act, the same as `tenfold`. The second is the size that they are asked for, the same as
`tenfold`. The third is what the hand-written summary keeps behind it.
"""
MODEL_SUFFIX = "+model"
"""The suffix of a policy whose summaries a model writes."""


MessageKey = bytes | int | tuple[int, str]


class ReplayMessage(NamedTuple):
    """One message as it is sent: a key that is equal for the same message in the next request, and its tokens."""

    key: MessageKey
    tokens: int


class ReplayRequest(Struct, frozen=True):
    """What a player sends: the messages in order, and the tokens of the model calls that it made to compact them.

    `seconds` is how long that took, if the player knows it better than a clock around it. `unable` is the reason why a
    method gave no result when it was asked, "" if it gave one, and None if it was not asked or has a trigger of its
    own.
    """

    messages: Sequence[ReplayMessage]
    summary_input: int = 0
    summary_output: int = 0
    seconds: float | None = None
    unable: str | None = None


class Recording(Struct, frozen=True):
    """A session as a replay needs it. Each message is decoded and counted once.

    `chat_messages` are the same messages in their original form, index for index. `answer_indexes` are the answers of
    the model: each request sent the messages before one of them. `prefix` counts the tokens sent besides the messages.
    """

    name: str
    chat_messages: tuple[ChatMessage, ...]
    messages: tuple[Message, ...]
    tokens: tuple[int, ...]
    answer_indexes: tuple[int, ...]
    prefix: int = PREFIX_TOKENS


class Player(Protocol):
    """A method in the course of one session."""

    def prepare_request(self, new_indexes: range) -> ReplayRequest:
        """Returns the messages to send, after the messages of these new indexes have been added."""
        ...

    def record_usage(self, prompt_tokens: int) -> None:
        """Records the prompt tokens that the provider reports for that request."""
        ...


PlayerFactory = Callable[[Recording, int], Player]
"""Creates a player for a recording and a window in tokens."""


def build_recording(session: EvalSession, *, prefix: int = PREFIX_TOKENS) -> Recording:
    """Returns the requests of a session: one for each answer that follows at least one message."""
    chat = session.messages
    messages = _decode_messages([msgspec.json.encode(message) for message in chat])
    answers = tuple(i for i, m in enumerate(messages) if m.role == "assistant" and i)
    return Recording(
        session.name, chat, tuple(messages), tuple(measure_messages(messages, get_counter())), answers, prefix
    )


def hash_message(message: Message) -> bytes:
    """Returns a digest of all that a provider reads of a message: its role and its parts, ids included."""
    return hashlib.blake2b(msgspec.json.encode((message.role, message.parts)), digest_size=16).digest()


def _decode_messages(raw: Sequence[bytes]) -> list[Message]:
    """Decodes each item into one message. If an item decodes into several messages, their parts are joined."""
    wire = WIRES["openai-chat"]
    whole = wire.decode(raw)
    if len(whole) == len(raw):
        return whole
    return [_join_parts(wire.decode([item])) for item in raw]


def _join_parts(messages: Sequence[Message]) -> Message:
    first = messages[0]
    return msgspec.structs.replace(first, parts=tuple(part for m in messages for part in m.parts), native=None)


# -- Tenfold -----------------------------------------------------------------------------------------------------------


class PolicyPlayer:
    """Runs a policy of Tenfold in an in-memory session.

    It is checked before every request and learns each prompt's size.
    """

    def __init__(self, recording: Recording, window: int, *, policy: str, model: StandInModel | None = None) -> None:
        """Creates the session. `model` writes the summaries, else code does."""
        self._recording, self._window, self._model = recording, window, model
        ids = ContentIdGenerator(recording.name.encode())
        place = SessionAddress(SqliteStore(":memory:"), ids.generate())
        answerer, stamps = Answerer(model=model), Stamps(ids.generate)
        self._keys: dict[tuple[int, int, int], bytes] = {}
        self._session = Session.create(
            place, build_policy(policy, get_counter()), model=MODEL, answerer=answerer, stamps=stamps
        )

    def prepare_request(self, new_indexes: range) -> ReplayRequest:
        """See `Player.before`."""
        session, track = self._session, self._recording
        session.append(*track.messages[new_indexes.start : new_indexes.stop])
        spent = self._compact_if_due()
        visible = list(session.view.get_visible_messages())
        tokens = session.conversation.get_measures().token_cache.measure(visible)
        pieces = [ReplayMessage(self._get_key(s), size) for s, size in zip(visible, tokens, strict=True)]
        return ReplayRequest(pieces, spent.input_tokens, spent.output_tokens)

    def _compact_if_due(self) -> ModelCost:
        """Does what the policy's trigger says before the request, and returns what a model took for it."""
        check = self._session.compactor.build_call(window=self._window, floor=self._recording.prefix)
        is_due = self._session.compactor.is_check_due(check)
        return self._session.compact(check).spent if is_due else ModelCost()

    def record_usage(self, prompt_tokens: int) -> None:
        """See `Player.after`."""
        self._session.requests.record_usage(
            Usage(ProviderTokens(prompt_tokens), model=MODEL, overhead=Counted(self._recording.prefix))
        )

    def _get_key(self, shown: VisibleMessage) -> bytes:
        """Returns a key made from the content: a provider sees no difference if a later Block repeats a message."""
        if (
            not shown.is_original and shown.position == shown.original_position
        ):  # the marker of a call, whose text may change
            return hash_message(shown.message)
        known = self._keys.get(shown.key)
        if known is None:
            known = self._keys[shown.key] = hash_message(shown.message)
        return known


class StandInModel:
    """A stand-in model whose summaries are as long as real ones but empty of content: it shows what they cost.

    Every answer has the requested headings and at most `MAX_SUMMARY_TOKENS` tokens.
    """

    _LINE = "The work went on in this order, as described.\n"

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._line_tokens = counter.count([self._LINE])[0]

    def answer(self, ask: SummaryAsk) -> Answer:
        """See `llm.model.Model`."""
        headings = _find_headings(ask.prompt)
        room = min(SUMMARY_TOKENS, ask.max_tokens * 9 // 10)
        frame = sum(self._counter.count([f"{h}\n" for h in headings]))
        lines = max(1, (room - frame) // (self._line_tokens * max(1, len(headings))))
        text = "\n".join(f"{h}\n{self._LINE * lines}" for h in headings) or self._LINE * lines
        read_tokens, written_tokens = self._counter.count([f"{ask.system}\n{ask.prompt}", text])
        return Answer(text, spent=ModelCost(1, read_tokens, written_tokens, "stand-in", 0.0))


def _find_headings(prompt: str) -> list[str]:
    """Returns the headings that a prompt asks for. They stand before the material, which begins with a tag."""
    return [line for line in prompt.partition("\n<")[0].splitlines() if line.startswith("## ")]


# -- a method that knows one budget ------------------------------------------------------------------------------------


class MethodPlayer:
    """Runs a compared method where `tenfold` would act, and asks it for the size that `tenfold` aims at.

    The method gets its own last result and the messages since then. If it cannot compact, the list is sent unchanged.
    """

    def __init__(self, recording: Recording, window: int, *, method: Method) -> None:
        self._recording, self._method = recording, method
        self._trigger_tokens = int(window * TRIGGER_SHARE)
        self._budget = max(1, int(window * TARGET_SHARE) - recording.prefix)
        self._messages: list[tuple[ChatMessage, ReplayMessage]] = []
        self._sizes: dict[bytes, int] = {}
        self._refused_length = 0  # messages at the last refusal; the same list is not tried again

    def prepare_request(self, new_indexes: range) -> ReplayRequest:
        """See `Player.before`."""
        for index in new_indexes:
            key, tokens = hash_message(self._recording.messages[index]), self._recording.tokens[index]
            self._sizes[key] = tokens
            self._messages.append((self._recording.chat_messages[index], ReplayMessage(key, tokens)))
        size = self._recording.prefix + sum(piece.tokens for _, piece in self._messages)
        if size <= self._trigger_tokens or len(self._messages) == self._refused_length:
            return ReplayRequest(self._list_sent())
        try:
            result = self._method.compact([message for message, _ in self._messages], budget=self._budget)
        except UnableError as error:
            self._refused_length = len(self._messages)
            return ReplayRequest(self._list_sent(), unable=str(error) or "it gives no reason")
        self._refused_length = 0
        self._messages = list(zip(result.messages, self._count_messages(result.messages), strict=True))
        return ReplayRequest(self._list_sent(), result.spent_input, result.spent_output, result.seconds, "")

    def record_usage(self, prompt_tokens: int) -> None:
        """Learns nothing."""

    def read_view(self) -> str:
        """Reads what the last request showed."""
        return render_view([message for message, _ in self._messages])

    def _list_sent(self) -> list[ReplayMessage]:
        return [piece for _, piece in self._messages]

    def _count_messages(self, chat_messages: Sequence[ChatMessage]) -> list[ReplayMessage]:
        """Returns the messages of a method's result with their tokens.

        Only messages not seen before have to be counted.
        """
        messages = _decode_messages([msgspec.json.encode(message) for message in chat_messages])
        keys = [hash_message(message) for message in messages]
        strange = [i for i, key in enumerate(keys) if key not in self._sizes]
        for index, tokens in zip(strange, measure_messages([messages[i] for i in strange], get_counter()), strict=True):
            self._sizes[keys[index]] = tokens
        return [ReplayMessage(key, self._sizes[key]) for key in keys]


# -- what people write by hand -----------------------------------------------------------------------------------------


class UnchangedPlayer:
    """Sends everything, whatever the window."""

    def __init__(self, recording: Recording, window: int) -> None:
        del window
        self._recording = recording
        self._messages: list[ReplayMessage] = []

    def prepare_request(self, new_indexes: range) -> ReplayRequest:
        """See `Player.before`."""
        self._messages.extend(ReplayMessage(i, self._recording.tokens[i]) for i in new_indexes)
        return ReplayRequest(self._messages)

    def record_usage(self, prompt_tokens: int) -> None:
        """Learns nothing."""


class SlidingTailPlayer(UnchangedPlayer):
    """Sends the system prompt and the newest messages that fit into the window, chosen anew for each request."""

    def __init__(self, recording: Recording, window: int) -> None:
        super().__init__(recording, window)
        self._head_end = next(
            (i for i, m in enumerate(recording.messages) if m.role != "system"), len(recording.messages)
        )
        self._token_sums = [0, *accumulate(recording.tokens)]
        self._tail_budget = window - recording.prefix - self._token_sums[self._head_end]

    def prepare_request(self, new_indexes: range) -> ReplayRequest:
        """See `Player.before`."""
        everything = super().prepare_request(new_indexes).messages
        first = bisect_left(
            self._token_sums, self._token_sums[new_indexes.stop] - self._tail_budget, self._head_end, new_indexes.stop
        )
        start = _find_step_start(self._recording, first, new_indexes.stop)
        return ReplayRequest([*everything[: self._head_end], *everything[max(start, self._head_end) :]])


class SummarizingPlayer(UnchangedPlayer):
    """When the window is nearly full, has a model summarize everything but the newest quarter of the window."""

    def __init__(self, recording: Recording, window: int) -> None:
        super().__init__(recording, window)
        self._window = window
        self._kept_from = 0  # the first message that is sent unchanged
        self._summary: list[ReplayMessage] = []
        self._token_sums = [0, *accumulate(recording.tokens)]

    def prepare_request(self, new_indexes: range) -> ReplayRequest:
        """See `Player.before`."""
        super().prepare_request(new_indexes)
        summary_input = 0
        request_tokens = self._count_tokens(new_indexes.stop)
        if request_tokens > self._window * TRIGGER_SHARE:
            tail = int(self._window * TAIL_SHARE)
            first = bisect_left(
                self._token_sums, self._token_sums[new_indexes.stop] - tail, self._kept_from, new_indexes.stop
            )
            start = _find_step_start(self._recording, first, new_indexes.stop)
            if start > self._kept_from:
                summary_input = (
                    sum(p.tokens for p in self._summary) + self._token_sums[start] - self._token_sums[self._kept_from]
                )
                self._kept_from, self._summary = start, [ReplayMessage((start, "summary"), SUMMARY_TOKENS)]
        return ReplayRequest(
            [*self._summary, *self._messages[self._kept_from :]], summary_input, SUMMARY_TOKENS if summary_input else 0
        )

    def _count_tokens(self, end: int) -> int:
        return (
            self._recording.prefix
            + sum(p.tokens for p in self._summary)
            + self._token_sums[end]
            - self._token_sums[self._kept_from]
        )


def _find_step_start(recording: Recording, first: int, end: int) -> int:
    """Returns the first index from `first` on where no step is split, or else the beginning of the last step."""
    later = next((i for i in range(first, end) if recording.messages[i].role != "tool"), None)
    if later is not None:
        return later
    return next((i for i in range(end - 1, -1, -1) if recording.messages[i].role != "tool"), 0)


_BASELINE_NAMES = ("keep-last", "truncate-middle", "mask-10")
MANUAL_PLAYERS: Mapping[str, PlayerFactory] = {
    "none": UnchangedPlayer,
    "sliding-tail": SlidingTailPlayer,
    "summarize": SummarizingPlayer,
}
"""The simple methods that everyone writes first, applied before each request."""


def get_player_factories(names: Sequence[str], others: Sequence[Method] = ()) -> dict[str, PlayerFactory]:
    """Returns the factories of the players with these names, in order, each once. "all" stands for every player.

    A policy's name with `+model` has a stand-in model write its summaries. `others` are methods without a trigger of
    their own, for instance peers. Raises `UsageError`, with the known names, for an unknown name.
    """
    known: dict[str, PlayerFactory] = dict(MANUAL_PLAYERS)
    for policy in ("tenfold", *(p for p in POLICIES if p != "tenfold")):
        known[policy] = partial(PolicyPlayer, policy=policy)
        known[policy + MODEL_SUFFIX] = partial(PolicyPlayer, policy=policy, model=StandInModel(get_counter()))
    for method in (*(BASELINES[name] for name in _BASELINE_NAMES), *others):
        known[method.name] = partial(MethodPlayer, method=method)
    chosen: dict[str, PlayerFactory] = {}
    for name in names:
        if ":" in name:
            known[name] = partial(MethodPlayer, method=load_method(name))
        if name != ALL and name not in known:
            raise UsageError(f"no method is called {name!r}; there are {ALL}, {', '.join(known)}")
        chosen |= known if name == ALL else {name: known[name]}
    return chosen
