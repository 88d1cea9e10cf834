"""Turns recorded sessions into test cases: a conversation in OpenAI Chat form and a place to cut it.

The messages before the cut are compacted, and the messages after it are the real future. A cut lies only where the
agent is about to call its model and no tool call is open, because that is where a compaction happens.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.core.meter.counters import Counter, choose_counter, measure_messages
from tenfold.core.record.entry import CustomEntry, Entry
from tenfold.core.record.message import Message, get_tool_calls, get_tool_result
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path as LogPath
from tenfold.core.wire import WIRES
from tenfold.errors import BadInput
from tenfold.formats import ParsedSession, read_file

ChatMessage = dict[str, object]
"""A message of OpenAI Chat as JSON: role, content, tool_calls, tool_call_id."""
MODEL = "gpt-4o"
"""The model whose vocabulary (o200k) counts the tokens of all methods."""
CUT_SHARES = (0.5, 0.75)
"""Where a session is cut, as shares of its messages."""
COMPACTION = "compaction"
_CHAT = "openai-chat"
_SUMMARY_KINDS = frozenset({"compaction", "compact_summary"})
_MIN_FUTURE = 4
"""How many messages must follow a cut at least. With fewer there is too little future to measure."""


class EvalSession(Struct, frozen=True):
    """A session in chat form.

    `legal_cuts` are the indexes where it may be cut, and `real_summaries` are the compactions that it really had.
    `native_messages` lists, for each chat message, the messages of the session's own format that it was made from.
    """

    name: str
    messages: tuple[ChatMessage, ...]
    legal_cuts: tuple[int, ...]
    real_summaries: tuple[RealSummary, ...]
    model: str
    native_messages: tuple[tuple[Message, ...], ...] = ()


class RealSummary(Struct, frozen=True):
    """A summary that a model wrote when the session was really compacted before the message at `index`.

    The messages from `kept_from` on were kept.
    """

    index: int
    kept_from: int
    text: str


class Case(Struct, frozen=True):
    """One cut of one session: `messages[:cut]` is compacted, and `messages[cut:]` is the real future.

    `session` is the file's name (see `name_files`), followed by `#n` if the file holds several. `kind` is "50%", "75%"
    or "compaction". `summary` is the real summary of a "compaction", which kept the messages from `kept_from` on.
    `native_messages` lists, for each message, the messages of the session's own format that it was made from.
    """

    session: str
    cut: int
    kind: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ChatMessage, ...] = ()
    model: str = ""
    summary: str = ""
    kept_from: int = 0
    native_messages: tuple[tuple[Message, ...], ...] = ()

    @property
    def past(self) -> tuple[ChatMessage, ...]:
        """The messages that are compacted."""
        return self.messages[: self.cut]

    @property
    def future(self) -> tuple[ChatMessage, ...]:
        """The messages that really followed."""
        return self.messages[self.cut :]


# -- making cases -----------------------------------------------------------------------------------------------------


def list_cases(files: Sequence[Path]) -> list[Case]:
    """Returns every cut of every session of the files, in order. Raises whatever `read_file` raises."""
    names = name_files(files)
    return [case for path in files for one in read_sessions(path, names[path]) for case in find_cuts(one)]


def name_files(files: Sequence[Path]) -> dict[Path, str]:
    """Gives each file a short, unique name: its own, after as many of its folders as tell it apart."""
    parts = {path: path.absolute().parts for path in files}
    ends = Counts(whole[-count:] for whole in parts.values() for count in range(1, len(whole) + 1))
    alone = {path: [n for n in range(1, len(whole)) if ends[whole[-n:]] == 1] for path, whole in parts.items()}
    return {path: "/".join(whole[-alone[path][0] :]) if alone[path] else str(path) for path, whole in parts.items()}


def read_sessions(path: Path, name: str = "", *, format: str | None = None) -> list[EvalSession]:
    """Reads the sessions of a file in chat form.

    Each session is its main path, with broken calls repaired as Tenfold's view would repair them.

    Args:
        path: The file.
        name: What to call the file; its own name by default.
        format: The file's format; detected by default.
    """
    found = read_file(path, format=format)
    file = name or path.name
    names = [file if len(found) == 1 else f"{file}#{number}" for number in range(len(found))]
    return [_build_session(recorded, name) for recorded, name in zip(found, names, strict=True)]


def find_cuts(session: EvalSession) -> list[Case]:
    """Returns the cases of one session: at fixed shares of its messages, and where it was really compacted."""
    cases_by_cut: dict[int, Case] = {}
    for real in session.real_summaries:
        cut = _find_last_cut(session, real.index)
        if cut:
            kept = max((i for i in session.legal_cuts if i <= real.kept_from), default=0)
            cases_by_cut[cut] = _build_case(session, cut, COMPACTION, summary=real.text, kept_from=kept)
    for share in CUT_SHARES:
        cut = _find_last_cut(session, int(len(session.messages) * share))
        if cut and cut not in cases_by_cut:
            cases_by_cut[cut] = _build_case(session, cut, f"{share:.0%}")
    return [cases_by_cut[cut] for cut in sorted(cases_by_cut)]


def _build_case(session: EvalSession, cut: int, kind: str, *, summary: str = "", kept_from: int = 0) -> Case:
    name, messages, model = session.name, session.messages, session.model
    return Case(name, cut, kind, messages, (), model, summary, kept_from, session.native_messages)


def _find_last_cut(session: EvalSession, limit: int) -> int:
    """Returns the last legal cut up to `limit` that leaves both a past and a future, or 0 if there is none."""
    last = len(session.messages) - _MIN_FUTURE
    return max((i for i in session.legal_cuts if 0 < i <= min(limit, last)), default=0)


def _build_session(recorded: ParsedSession, name: str) -> EvalSession:
    entries = _find_main_path(recorded.entries)
    messages_in_view = list(View.from_path(LogPath(entries)).get_visible_messages())
    items = WIRES[_CHAT].encode([s.message for s in messages_in_view]).items
    messages = tuple(msgspec.json.decode(item.raw, type=ChatMessage) for item in items)
    first = [messages_in_view[item.indices[0]] if item.indices else None for item in items]
    at = [s.position if s is not None else 0 for s in first]
    legal = tuple(_find_legal_cuts([s.message if s is not None else None for s in first]))
    real = tuple(_find_real_summaries(entries, at))
    own = tuple(_group_native_messages([s.message for s in messages_in_view], [item.indices for item in items]))
    return EvalSession(name, messages, legal, real, recorded.info.model, own)


def _group_native_messages(
    messages: Sequence[Message], sources: Sequence[tuple[int, ...]]
) -> Iterator[tuple[Message, ...]]:
    """Groups the messages in view by the chat message made from them.

    A message that became none joins the one before.
    """
    following = [next((of[0] for of in sources[at + 1 :] if of), len(messages)) for at in range(len(sources))]
    last = 0
    for end in following:
        yield tuple(messages[last:end])
        last = end


def _find_main_path(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the entries from the root to the newest one, without other branches: what the model was last sent."""
    by_id = {entry.id: entry for entry in entries}
    path: list[Entry] = []
    entry = entries[-1] if entries else None
    while entry is not None:
        path.append(entry)
        entry = by_id.get(entry.parent) if entry.parent is not None else None
    return path[::-1]


def _find_legal_cuts(messages: Sequence[Message | None]) -> Iterator[int]:
    """Yields the indexes where the model is about to answer: assistant messages before which no call is open."""
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if message is None:
            continue
        if message.role == "assistant" and not waiting and index:
            yield index
        waiting.update(call.id for call in get_tool_calls(message))
        result = get_tool_result(message)
        if result is not None:
            waiting.discard(result.call_id)


def _find_real_summaries(entries: Sequence[Entry], positions: Sequence[int]) -> Iterator[RealSummary]:
    """Yields the summaries that the session's own tool had a model write, by index into the chat messages."""
    places = {
        entry.source_id or entry.id: position for position, entry in enumerate(entries) if hasattr(entry, "source_id")
    }
    for position, entry in enumerate(entries):
        if not isinstance(entry, CustomEntry) or entry.kind not in _SUMMARY_KINDS:
            continue
        text, kept = _read_summary(entry.native.body, position, places)
        if text:
            yield RealSummary(sum(a < position for a in positions), sum(a < kept for a in positions), text)


def _read_summary(body: bytes, position: int, positions: Mapping[str, int]) -> tuple[str, int]:
    """Returns the summary in a compaction line, and the position from which on messages were kept beside it."""
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError as exc:
        raise BadInput(f"a compaction line cannot be read: {exc}") from exc
    if not isinstance(found, dict):
        return "", position
    kept = position
    if isinstance(index := found.get("firstKeptEntryIndex"), int):
        kept = index - 1  # pi also counts the header line
    elif (source := found.get("firstKeptEntryId")) in positions:
        kept = positions[str(source)]
    text = found.get("summary")
    if not isinstance(text, str):
        message = found.get("message")
        text = get_message_text(message) if isinstance(message, dict) else ""
    return text, kept


# -- reading messages -------------------------------------------------------------------------------------------------


def get_message_text(message: ChatMessage) -> str:
    """Returns all that a model reads of a message: its text, and its calls' names and unescaped arguments."""
    parts = [*_iter_content_texts(message.get("content"))]
    for name, arguments in get_message_calls(message):
        parts.append(name)
        parts.append(format_arguments(arguments))
    return "\n".join(part for part in parts if part)


def get_message_calls(message: ChatMessage) -> Iterator[tuple[str, str]]:
    """Yields the name and the raw arguments of each tool call of a message."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield str(function.get("name", "")), str(function.get("arguments", ""))


def format_arguments(arguments: str) -> str:
    """Returns a call's arguments unescaped, a line for each key and value.

    If they are not JSON, returns them as they are.
    """
    try:
        return "\n".join(_iter_strings(msgspec.json.decode(arguments)))
    except msgspec.DecodeError:
        return arguments


def get_role(message: ChatMessage) -> str:
    """Returns the message's role."""
    return str(message.get("role", ""))


def count_message_tokens(messages: Sequence[ChatMessage]) -> list[int]:
    """Returns the tokens of each message by the one counter that all methods are measured with."""
    raw = [msgspec.json.encode(message) for message in messages]
    owners: list[int] = []
    decoded: list[Message] = []
    for index, each in enumerate(raw):
        for message in WIRES[_CHAT].decode([each]):
            owners.append(index)
            decoded.append(message)
    totals = [0] * len(messages)
    for owner, tokens in zip(owners, measure_messages(decoded, get_counter()), strict=True):
        totals[owner] += tokens
    return totals


def count_total_tokens(messages: Sequence[ChatMessage]) -> int:
    """Returns the tokens of all the messages together."""
    return sum(count_message_tokens(messages))


def get_counter() -> Counter:
    """Returns the counter that all measures share."""
    return choose_counter(MODEL).counter


def _iter_content_texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                yield str(part.get("text") or part.get("refusal") or "")


def _iter_strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{key}: " + "\n".join(_iter_strings(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from _iter_strings(inner)
    else:
        yield value if isinstance(value, str) else msgspec.json.encode(value).decode()
