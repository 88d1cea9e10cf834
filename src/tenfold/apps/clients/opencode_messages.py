"""Adds a compacted view to an opencode session: the two messages that opencode writes when it compacts, and the view.

opencode sends nothing before its newest compaction: a user message with a part of that type, and the answer to it that
is marked as a summary.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from tenfold.apps.clients.view_copy import COMPACTED_NOTE, ViewCopy
from tenfold.formats.opencode import APPLIED_ID, FORMAT, render_messages
from tenfold.formats.output_pieces import OutputPiece, join_results

Json = dict[str, Any]
_ANSWER_KEYS: tuple[str, ...] = ("mode", "agent", "path", "modelID", "providerID")
"""What every answer repeats."""


def add_to_opencode(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the document with a compaction and the view behind its messages, which stay as they are."""
    document = json.loads(data)
    infos = [message["info"] for message in document["messages"]]
    asked: Json = next((info for info in reversed(infos) if info.get("role") == "user"), {})
    answer: Json = next((info for info in reversed(infos) if info.get("role") == "assistant"), {})
    newest = max((int(info.get("time", {}).get("created") or 0) for info in infos), default=0)
    ids = _IdMaker(max(copy.time // 1000, newest + 1), copy.mark)
    builder = _MessageBuilder(document["info"]["id"], ids, asked, answer, copy.tokens)
    added = [
        builder.build({"info": {"role": "user"}, "parts": [{"type": "compaction", "auto": False}]}),
        builder.build(
            {"info": {"role": "assistant"}, "parts": [{"type": "text", "text": COMPACTED_NOTE}]}, is_summary=True
        ),
    ]
    for piece in join_results(copy.build_pieces(FORMAT)):
        added += [builder.build(each) for each in _parse(piece)]
    document["messages"] += added
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _parse(piece: OutputPiece) -> Iterator[Json]:
    yield from [json.loads(piece.raw)] if piece.exact else render_messages(piece)


class _IdMaker:
    """Makes ids in opencode's order of time: 12 digits for the millisecond and a counter, and 14 more characters."""

    def __init__(self, millis: int, mark: str) -> None:
        self.millis = millis
        self._mark = mark
        self._count = 0

    def make(self, kind: str) -> str:
        """Makes the next id of a kind: `msg` or `prt`."""
        self._count += 1
        moment = (self.millis * 4096 + self._count) & 0xFFFF_FFFF_FFFF
        rest = hashlib.sha256(f"{self._mark}{self._count}".encode()).hexdigest()[:7]
        return f"{kind}_{moment:012x}{APPLIED_ID}{rest}"


class _MessageBuilder:
    """Completes messages of the view with what opencode expects of every one."""

    def __init__(self, session: str, ids: _IdMaker, asked: Json, answer: Json, tokens: int) -> None:
        self._session, self._ids, self._asked, self._answer = session, ids, asked, answer
        self._tokens = {"input": tokens, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        self._question = ""

    def build(self, message: Json, *, is_summary: bool = False) -> Json:
        """Builds a message with new ids, behind those built before."""
        own = self._ids.make("msg")
        old: Json = message["info"]
        millis = self._ids.millis
        info: Json
        kept: Json
        if old["role"] == "user":
            self._question = own
            kept = {key: self._asked[key] for key in ("agent", "model") if key in self._asked}
            info = {"role": "user", "time": {"created": millis}} | kept
        else:
            kept = {
                key: self._answer[key]
                for key in ("mode", "agent", "path", "modelID", "providerID")
                if key in self._answer
            }
            calls = any(part.get("type") == "tool" for part in message["parts"])
            info = {"parentID": self._question, "role": "assistant"}
            info |= kept
            info |= {"cost": 0, "tokens": self._tokens, "finish": "tool-calls" if calls else "stop"}
            info |= {"time": {"created": millis, "completed": millis}} | ({"summary": True} if is_summary else {})
        parts = []
        for part in message["parts"]:
            end = {"id": self._ids.make("prt"), "messageID": own, "sessionID": self._session}
            parts.append({key: value for key, value in part.items() if key not in end} | end)
        return {"info": info | {"id": own, "sessionID": self._session}, "parts": parts}
