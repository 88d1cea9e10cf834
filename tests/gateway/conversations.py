"""Conversations in the form of each API, written by hand, each message with a mark that is found again in the store."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import httpx

from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import get_text
from tenfold.store.base import DEFAULT_NAMESPACE, Store

Json = dict[str, Any]
PATHS: Mapping[str, str] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "generate": "/v1beta/models/gemini-2.5-pro:generateContent",
}
KINDS = tuple(PATHS)
MODELS = {"chat": "gpt-4o", "responses": "gpt-5-mini", "messages": "claude-opus-4-6", "generate": "gemini-2.5-pro"}
SYSTEM = "You look at the parts of a program. Be brief."
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_MARK = re.compile(r"<<([\w-]+:\d+)>>")


class Talk:
    """One client's conversation in the form of one API. Each message holds the next mark, as in `<<a:3>>`."""

    def __init__(self, kind: str, tag: str = "a", *, system: str = SYSTEM, tools: int = 1) -> None:
        self.kind, self.tag, self.system = kind, tag, system
        self.items: list[Json] = []
        self.extra: Json = {}
        self.headers: dict[str, str] = {"authorization": "Bearer sk-one"}
        self.tools = [f"look{n or ''}" for n in range(tools)]
        self._count = 0
        if kind == "chat":
            self.items.append({"role": "system", "content": system})

    def mark(self) -> str:
        """The next mark."""
        self._count += 1
        return f"<<{self.tag}:{self._count}>>"

    @property
    def marks(self) -> Counter[str]:
        """The marks that stand in the list now."""
        return find_marks(json.dumps(self.items))

    def copy(self) -> Talk:
        """A conversation that goes on by itself from here."""
        return copy.deepcopy(self)

    def add_user(self, text: str = "Look at the next part.") -> None:
        """The user says something."""
        said = f"{text} {self.mark()}"
        if self.kind == "generate":
            self.items.append({"role": "user", "parts": [{"text": said}]})
        else:
            self.items.append({"role": "user", "content": said})

    def add_answer(self, text: str = "That is done.") -> None:
        """The model says something."""
        said = f"{self.mark()} {text}"
        if self.kind == "generate":
            self.items.append({"role": "model", "parts": [{"text": said}]})
        elif self.kind == "responses":
            content = [{"type": "output_text", "text": said, "annotations": []}]
            self.items.append(
                {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
            )
        else:
            self.items.append({"role": "assistant", "content": said})

    def add_step(self, words: int = 40) -> None:
        """The model calls a tool, and the tool answers with so many words."""
        call, path = f"{self.tag}{self._count}", f"src/part{self._count}.py"
        self.add_call(call, path, f"{self.mark()} {fill_words(call, words)}")

    def add_call(self, call: str, path: str, result: str) -> None:
        """The model calls a tool by an id that ends so, and the tool answers."""
        if self.kind == "chat":
            function = {"name": "look", "arguments": json.dumps({"path": path})}
            calls = [{"id": f"call_{call}", "type": "function", "function": function}]
            self.items.append({"role": "assistant", "content": None, "tool_calls": calls})
            self.items.append({"role": "tool", "tool_call_id": f"call_{call}", "content": result})
        elif self.kind == "responses":
            made = {"call_id": f"call_{call}", "name": "look", "arguments": json.dumps({"path": path})}
            self.items.append({"id": f"fc_{call}", "type": "function_call", "status": "completed", **made})
            self.items.append({"type": "function_call_output", "call_id": f"call_{call}", "output": result})
        elif self.kind == "messages":
            use = {"type": "tool_use", "id": f"toolu_{call}", "name": "look", "input": {"path": path}}
            self.items.append({"role": "assistant", "content": [use]})
            given = {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": [build_text(result)]}
            self.items.append({"role": "user", "content": [given]})
        else:
            self.items.append({"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"path": path}}}]})
            response = {"name": "look", "response": {"output": result}}
            self.items.append({"role": "user", "parts": [{"functionResponse": response}]})

    def add_steps(self, count: int, words: int = 40) -> None:
        """Several steps."""
        for _ in range(count):
            self.add_step(words)

    def build_fields(self) -> Json:
        """The request as a value."""
        model, names = MODELS[self.kind], self.tools
        if self.kind == "chat":
            tools = [{"type": "function", "function": {"name": n, "parameters": PARAMETERS}} for n in names]
            return {"model": model, "tools": tools, "messages": self.items, **self.extra}
        if self.kind == "responses":
            listed = [{"type": "function", "name": n, "parameters": PARAMETERS} for n in names]
            fixed = {"model": model, "instructions": self.system, "store": False, "tools": listed}
            return {**fixed, "input": self.items, **self.extra}
        if self.kind == "messages":
            listed = [{"name": n, "description": "Looks.", "input_schema": PARAMETERS} for n in names]
            fixed = {"model": model, "max_tokens": 500, "system": self.system, "tools": listed}
            return {**fixed, "messages": self.items, **self.extra}
        declared = [{"functionDeclarations": [{"name": n, "parameters": PARAMETERS} for n in names]}]
        return {
            "systemInstruction": {"parts": [{"text": self.system}]},
            "tools": declared,
            "contents": self.items,
            **self.extra,
        }

    def build_body(self) -> bytes:
        """The request's bytes."""
        fields = {k: v for k, v in self.build_fields().items() if v not in ([], None)}
        return json.dumps(fields).encode()

    def send(self, url: str, **headers: str) -> httpx.Response:
        """Sends the whole conversation, as every client does."""
        return post(url, self.kind, self.build_body(), {**self.headers, **headers})


def build_text(text: str) -> Json:
    """A block of text, as Anthropic has it."""
    return {"type": "text", "text": text}


def post(url: str, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """Sends a body to the path of an API."""
    given = {"authorization": "Bearer sk-one", "content-type": "application/json", **(headers or {})}
    return httpx.post(f"{url}{PATHS[kind]}", content=body, headers=given, timeout=500)


def fill_words(tag: str, words: int) -> str:
    """Words that differ from one to the next."""
    return " ".join(f"{tag}x{n}" if n % 7 == 0 else "value" for n in range(words))


def find_marks(text: str) -> Counter[str]:
    """The marks in a text."""
    return Counter(_MARK.findall(text))


def read_marks(store: Store, session: str) -> Counter[str]:
    """The marks of all messages of a session, on every branch: a number above 1 is a message that stands twice."""
    found: Counter[str] = Counter()
    for entry in store.read_entries(DEFAULT_NAMESPACE, session):
        if isinstance(entry, MessageEntry) and entry.message.origin != "tenfold":
            found += find_marks(get_text(entry.message))
    return found


def list_sessions(store: Store) -> list[str]:
    """The sessions of a store that hold a message."""
    return [row.info.id for row in store.list_sessions(DEFAULT_NAMESPACE) if row.entry_count]


def read_stored(store: Store) -> dict[str, Counter[str]]:
    """The marks of each session."""
    return {session: read_marks(store, session) for session in list_sessions(store)}
