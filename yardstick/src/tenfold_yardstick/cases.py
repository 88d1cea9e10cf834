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

from tenfold.core.record.entry import CustomEntry, Entry
from tenfold.core.record.message import Message, get_tool_calls, get_tool_result
from tenfold.errors import BadInput
from tenfold.testing.chats import RecordedChat, read_chats
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage

CUT_SHARES = (0.5, 0.75)
"""Where a session is cut, as shares of its messages."""
COMPACTION = "compaction"
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
    """Reads the sessions of a file with the places where they may be cut. The arguments are those of `read_chats`."""
    return [_build_session(chat) for chat in read_chats(path, name, format=format)]


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
    return Case(session.name, cut, kind, session.messages, summary, kept_from, session.native_messages)


def _find_last_cut(session: EvalSession, limit: int) -> int:
    """Returns the last legal cut up to `limit` that leaves both a past and a future, or 0 if there is none."""
    last = len(session.messages) - _MIN_FUTURE
    return max((i for i in session.legal_cuts if 0 < i <= min(limit, last)), default=0)


def _build_session(chat: RecordedChat) -> EvalSession:
    first = [chat.visible[of[0]] if of else None for of in chat.sources]
    at = [s.position if s is not None else 0 for s in first]
    legal = tuple(_find_legal_cuts([s.message if s is not None else None for s in first]))
    real = tuple(_find_real_summaries(chat.entries, at))
    own = tuple(_group_native_messages([s.message for s in chat.visible], chat.sources))
    return EvalSession(chat.name, chat.messages, legal, real, own)


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
        text = get_text(message) if isinstance(message, dict) else ""
    return text, kept
