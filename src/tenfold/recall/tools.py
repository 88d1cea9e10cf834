"""Tools with which the model itself can look up earlier messages: schemas for every wire, and a handler.

Every answer is limited in tokens, and a long one comes in parts. What is read back is exact and never redacted. Search
snippets are redacted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tenfold.core.record.message import ToolCall, get_text, get_tool_calls
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.wire import DEFAULT_WIRE, get_wire
from tenfold.errors import NotFoundError
from tenfold.recall.expand import ExpandedMessage, expand, find_entry_id, is_entry_number
from tenfold.recall.search import search_store
from tenfold.store.base import MAIN, Hit, Store
from tenfold.store.search.entry_text import list_arguments

SEARCH, READ, EXPAND = "recall_search", "recall_read", "recall_expand"
_DESCRIPTIONS: Mapping[str, tuple[str, str, str]] = {
    SEARCH: (
        "words",
        "Find earlier messages that you no longer see: first those with all the words, then those that answer best.",
        "Words, or a question.",
    ),
    READ: (
        "entry",
        "Read an earlier message exactly as it was.",
        "The number of a search result, or the entry id that a stub names.",
    ),
    EXPAND: ("block", "Show what a summary stands for.", "The block id in the summary's opening tag."),
}
AROUND_DESCRIPTION = "How many messages before and after it to read as well."
PART_DESCRIPTION = "Which part of a long answer, from 1; its last line says how many there are."
SEARCH_BUDGET = 1_000
"""The token budget of one search's answer: small enough to search twice."""
_KIND_NAMES = {"said": "message", "block": "summary", "branch": "summary of a branch"}
CountTokens = Callable[[Sequence[str]], list[int]]


def describe_tools() -> dict[str, str]:
    """Returns what each tool is for, by its name."""
    return {name: description for name, (_, description, _) in _DESCRIPTIONS.items()}


def describe_parameters(name: str) -> dict[str, str]:
    """Returns what each parameter of a tool means, by its name, the required one first."""
    key, _, meaning = _DESCRIPTIONS[name]
    around = {"around": AROUND_DESCRIPTION} if name == READ else {}
    return {key: meaning, **around} | ({"part": PART_DESCRIPTION} if name != SEARCH else {})


class RecallTools:
    """The schemas and the handler for one session of a store. Offer both to the model, or neither."""

    def __init__(  # noqa: PLR0913 - where it looks, and how much it may answer
        self,
        store: Store,
        namespace: str,
        session: str,
        *,
        count: CountTokens,
        head: str = MAIN,
        cap: int = 4_000,
        prefix: str = "recall_",
        is_path_only: bool = False,
    ) -> None:
        """`cap` limits each answer, in tokens as `count` counts them. A longer answer comes in parts.

        Without a `session`, all sessions of the namespace are meant, and entries are named by their ids. `prefix` is
        how the names of the tools begin where they are offered under other names than `build_schemas` gives. With
        `is_path_only` nothing is found but what is on the path of `head`, else also the session's other branches.
        """
        self._store, self._namespace, self._session, self._head = store, namespace, session, head
        self._count, self._cap, self._prefix = count, cap, prefix
        self._only = head if is_path_only else ""

    def __repr__(self) -> str:
        where = f"session {self._session!r}, head {self._head!r}" if self._session else f"all of {self._namespace!r}"
        return f"<{type(self).__name__} of {where}>"

    @staticmethod
    def build_schemas(wire: str = DEFAULT_WIRE) -> list[dict[str, Any]]:
        """Builds the tool definitions for a request of that wire. Raises `UnknownFormat` for an unknown wire."""
        build_tool = get_wire(wire).profile.build_tool
        out: list[dict[str, Any]] = []
        for name, (key, description, _) in _DESCRIPTIONS.items():
            properties = {
                parameter: {"type": "string" if parameter == key else "integer", "description": meaning}
                for parameter, meaning in describe_parameters(name).items()
            }
            schema: dict[str, object] = {"type": "object", "properties": properties, "required": [key]}
            out.append(build_tool(name, description, schema))
        return out

    def handle(self, name: str, arguments: Mapping[str, object]) -> str:
        """Answers one call, as text for the tool result.

        A wrong name or id gives an answer that says so, not an exception.
        """
        name, arguments = replace_surrogates((name, dict(arguments)))  # a model may write half of an emoji
        if name not in _DESCRIPTIONS:
            return f"there is no tool {name!r}; there are {', '.join(_DESCRIPTIONS)}"
        key, shown_name = _DESCRIPTIONS[name][0], self._prefix + name.removeprefix("recall_")
        value = arguments.get(key)
        if name == READ and isinstance(value, int):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            return f"{shown_name} needs the argument {key!r}, a string"
        if name == SEARCH:
            with suppress(NotFoundError):  # a session that was never used is in no store
                if found := self.search(value):
                    return found
            return f"nothing in this conversation holds {value!r}"
        around = arguments.get("around", 0)
        if not isinstance(around, int) or around < 0:
            return f"{shown_name}: 'around' is a number of messages, and not {around!r}"
        try:
            text = self._expand(value.strip(), min(around, sys.maxsize // 2))
        except NotFoundError as exc:
            return str(exc)
        parts = self._split_text(text)
        number = arguments.get("part", 1)
        if not isinstance(number, int) or not 1 <= number <= len(parts):
            return f"{shown_name}: 'part' is a number from 1 to {len(parts)}, and not {number!r}"
        if len(parts) == 1:
            return parts[0]
        named = f'{key}="{value}"' + (f", around={around}" if around else "")
        more = f"; {shown_name}({named}, part={number + 1}) goes on" if number < len(parts) else ""
        return f"{parts[number - 1]}\n[part {number} of {len(parts)}{more}]"

    def _expand(self, name: str, around: int) -> str:
        if not self._session and is_entry_number(name):
            raise NotFoundError(
                f"{name} is the number of an entry in a session: name the session too, or the entry's id"
            )
        entry = find_entry_id(self._store, self._namespace, self._session, name, head=self._head)
        messages = expand(self._store, self._namespace, entry, session=self._session, head=self._only, around=around)
        return "\n\n".join(map(render_expanded, messages))

    def search(self, words: str) -> str:
        """Returns the result of one search, or "" if there are no hits.

        It has the best hits, each with the number or id that `READ` takes, within `SEARCH_BUDGET` tokens in all. Raises
        `UsageError` without a word.
        """
        budget, text = min(SEARCH_BUDGET, self._cap), ""
        session = self._session or None
        for hit in search_store(self._store, self._namespace, words, session=session, head=self._only):
            where = "" if self._session else f", session {hit.session}"
            head = f"{self._name_entry(hit)} ({describe_hit(hit)}{where}):"
            longer = f"{text}\n{head}\n{hit.snippet}" if text else f"{head}\n{hit.snippet}"
            cut = self._cut_to_budget(longer, budget)
            if len(cut) <= len(longer) - len(hit.snippet):  # a hit whose name was cut is of no use
                break
            text = cut
        return text

    def _name_entry(self, hit: Hit) -> str:
        """Returns the hit's number if it is on the head's path of the session, else its id."""
        if not self._session:
            return hit.entry
        try:
            found = find_entry_id(self._store, self._namespace, self._session, str(hit.position), head=self._head)
        except NotFoundError:
            return hit.entry
        return str(hit.position) if found == hit.entry else hit.entry

    def _split_text(self, text: str) -> list[str]:
        """Splits the text into parts of at most `cap` tokens, which leave space for a last line."""
        if self._count([text])[0] <= self._cap:
            return [text]
        parts: list[str] = []
        while text:
            parts.append(self._cut_to_budget(text, max(1, self._cap - _LAST_LINE_TOKENS)))
            text = text[len(parts[-1]) :]
        return parts

    def _cut_to_budget(self, text: str, budget: int) -> str:
        """Returns as much of the beginning of the text as fits the token budget."""
        part = text[: budget * _MAX_TOKEN_LENGTH]
        while (size := self._count([part])[0]) > budget and len(part) > 1:
            part = part[: max(1, len(part) * budget // (size + 1))]
        return part


_LAST_LINE_TOKENS = 60
"""Tokens of the line under a part: two ids of 36 characters, at two characters a token, and some words."""
_MAX_TOKEN_LENGTH = 40
"""The most characters that one token stands for, apart from runs of spaces and rules."""


def describe_hit(hit: Hit) -> str:
    """Says what a hit is, and that it is the latest of several values."""
    kind = _KIND_NAMES.get(hit.kind, hit.kind)
    return f"{kind}, latest of {hit.latest_of} values" if hit.latest_of else kind


def render_expanded(item: ExpandedMessage) -> str:
    """Renders one expanded message: its position, entry and role, its text, and its tool calls."""
    calls = "".join(f"\n{render_call(call)}" for call in get_tool_calls(item.message))
    return f"[{item.position} {item.entry} {item.message.role}]\n{get_text(item.message)}{calls}"


def render_call(call: ToolCall) -> str:
    """Renders a call with its arguments as they are; an edit's arguments each by itself, the texts with their label."""
    values = list_arguments(call.arguments)
    if not any(value.label for value in values):
        return f"[call {call.name} {call.arguments}]"
    lines = (f"[{v.label}]\n{v.text}" if v.label else f"{v.key}: {v.text}" for v in values)
    return "\n".join((f"[call {call.name}]", *lines))
