"""Tools with which the model itself can look up earlier messages: schemas for every wire, and a handler.

Every answer is limited in tokens, and a long one comes in parts. What is read back is exact and never redacted. Search
snippets are redacted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenfold.errors import NotFoundError
from tenfold.recall.expand import ExpandedMessage, expand
from tenfold.recall.search import search_store
from tenfold.record.message import get_text, get_tool_calls
from tenfold.store.base import Store
from tenfold.wire import DEFAULT_WIRE, get_wire

SEARCH, READ, EXPAND = "recall_search", "recall_read", "recall_expand"
_DESCRIPTIONS: Mapping[str, tuple[str, str, str]] = {
    SEARCH: ("words", "Find earlier messages of this conversation that you no longer see.", "Words, or a question."),
    READ: ("entry", "Read one earlier message exactly as it was.", "The entry id that a search result or stub names."),
    EXPAND: ("block", "Show the messages that a summary stands for.", "The block id in the summary's opening tag."),
}
PART_DESCRIPTION = "Which part of a long answer, from 1; its last line says how many there are."
HIT_LIMIT = 5
"""Messages that one search returns. Those ranked lower seldom contain what was looked for."""
SEARCH_BUDGET = 1_000
"""The token budget of one search's answer: small enough to search twice."""
CountTokens = Callable[[Sequence[str]], list[int]]


class RecallTools:
    """The schemas and the handler for one session of a store. Offer both to the model, or neither."""

    def __init__(self, store: Store, namespace: str, session: str, *, count: CountTokens, cap: int = 4_000) -> None:
        """`cap` limits each answer, in tokens as `count` counts them. A longer answer comes in parts."""
        self._store, self._namespace, self._session, self._count, self._cap = store, namespace, session, count, cap

    def describe_tools(self) -> dict[str, str]:
        """Returns what each tool is for, by its name."""
        return {name: description for name, (_, description, _) in _DESCRIPTIONS.items()}

    def build_schemas(self, wire: str = DEFAULT_WIRE) -> list[dict[str, object]]:
        """Builds the tool definitions for a request of that wire. Raises `UnknownFormat` for an unknown wire."""
        build_tool = get_wire(wire).profile.build_tool
        out: list[dict[str, object]] = []
        for name, (key, description, meaning) in _DESCRIPTIONS.items():
            properties = {key: {"type": "string", "description": meaning}}
            if name != SEARCH:
                properties["part"] = {"type": "integer", "description": PART_DESCRIPTION}
            schema: dict[str, object] = {"type": "object", "properties": properties, "required": [key]}
            out.append(build_tool(name, description, schema))
        return out

    def handle(self, name: str, arguments: Mapping[str, object]) -> str:
        """Answers one call, as text for the tool result.

        A wrong name or id gives an answer that says so, not an exception.
        """
        if name not in _DESCRIPTIONS:
            return f"there is no tool {name!r}; there are {', '.join(_DESCRIPTIONS)}"
        key = _DESCRIPTIONS[name][0]
        value = arguments.get(key)
        if not isinstance(value, str) or not value.strip():
            return f"{name} needs the argument {key!r}, a string"
        if name == SEARCH:
            return self.search(value) or f"nothing in this conversation holds {value!r}"
        try:
            messages = expand(self._store, self._namespace, value, session=self._session)
        except NotFoundError as exc:
            return str(exc)
        parts = self._split_text("\n\n".join(render_expanded(line) for line in messages))
        number = arguments.get("part", 1)
        if not isinstance(number, int) or not 1 <= number <= len(parts):
            return f"{name}: 'part' is a number from 1 to {len(parts)}, and not {number!r}"
        if len(parts) == 1:
            return parts[0]
        more = f'; {name}({key}="{value}", part={number + 1}) goes on' if number < len(parts) else ""
        return f"{parts[number - 1]}\n[part {number} of {len(parts)}{more}]"

    def search(self, words: str) -> str:
        """Returns the result of one search, or "" if there are no hits.

        It has a line for each of the `HIT_LIMIT` best hits, within `SEARCH_BUDGET` tokens in all. Raises `UsageError`
        without a word.
        """
        hits = search_store(self._store, self._namespace, words, session=self._session, limit=HIT_LIMIT)
        heads = [f"{h.entry} ({h.kind}, position {h.position}): " for h in hits]
        text = "\n".join(head + hit.snippet for head, hit in zip(heads, hits, strict=True))
        lines = self._cut_to_budget(text, min(SEARCH_BUDGET, self._cap)).split("\n")
        cut = bool(hits) and len(lines[-1]) <= len(heads[len(lines) - 1])  # an id that was cut is of no use
        return "\n".join(lines[:-1] if cut else lines)

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


def render_expanded(item: ExpandedMessage) -> str:
    """Renders one expanded message: its position, entry and role, its text, and its tool calls."""
    calls = "".join(f"\n[call {c.name} {c.arguments}]" for c in get_tool_calls(item.message))
    return f"[{item.position} {item.entry} {item.message.role}]\n{get_text(item.message)}{calls}"
