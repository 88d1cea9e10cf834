"""Recall as tools for the model itself: schemas for every wire, and one handler that answers the calls.

Answers are bounded in tokens and come in parts, and are redacted never: what is read back is exact. Search snippets
are redacted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenfold.errors import NotFound, UsageError
from tenfold.log.base import Store
from tenfold.recall.asking import asked
from tenfold.recall.expand import Line, expand
from tenfold.record.message import calls_of, text_of

SEARCH, READ, EXPAND = "recall_search", "recall_read", "recall_expand"
_DESCRIPTIONS: Mapping[str, tuple[str, str, str]] = {
    SEARCH: ("words", "Find earlier messages of this conversation that you no longer see.", "Words, or a question."),
    READ: ("entry", "Read one earlier message exactly as it was.", "The entry id that a search result or stub names."),
    EXPAND: ("block", "Show the messages that a summary stands for.", "The block id in the summary's opening tag."),
}
PART = "Which part of a long answer, from 1; its last line says how many there are."
HITS = 5
"""Messages that one search names: those after them seldom hold what was looked for."""
FOUND = 1_000
"""Tokens of one search's answer, at most: little enough to search twice."""
Count = Callable[[Sequence[str]], list[int]]


class RecallTools:
    """Schemas and handler over one session of a store. Offer both to the model, or neither."""

    def __init__(self, store: Store, namespace: str, session: str, *, count: Count, cap: int = 4_000) -> None:
        """`cap` bounds each answer, in tokens as `count` counts them; what is longer is given in parts."""
        self._store, self._namespace, self._session, self._count, self._cap = store, namespace, session, count, cap

    def described(self) -> dict[str, str]:
        """What each tool is for, by its name."""
        return {name: description for name, (_, description, _) in _DESCRIPTIONS.items()}

    def schemas(self, wire: str = "openai-chat") -> list[dict[str, object]]:
        """The tool definitions as that wire's request wants them. Raises `UsageError` for an unknown wire."""
        out: list[dict[str, object]] = []
        for name, (key, description, meaning) in _DESCRIPTIONS.items():
            properties = {key: {"type": "string", "description": meaning}}
            if name != SEARCH:
                properties["part"] = {"type": "integer", "description": PART}
            schema: dict[str, object] = {"type": "object", "properties": properties, "required": [key]}
            match wire:
                case "openai-chat":
                    function = {"name": name, "description": description, "parameters": schema}
                    out.append({"type": "function", "function": function})
                case "openai-responses":
                    out.append({"type": "function", "name": name, "description": description, "parameters": schema})
                case "anthropic":
                    out.append({"name": name, "description": description, "input_schema": schema})
                case "gemini":
                    out.append({"name": name, "description": description, "parameters": schema})
                case _:
                    raise UsageError(f"no wire is called {wire!r}: anthropic, openai-chat, openai-responses or gemini")
        return out

    def handle(self, name: str, arguments: Mapping[str, object]) -> str:
        """The answer to one call, as text for the tool result. Wrong names and ids are answered, not raised."""
        if name not in _DESCRIPTIONS:
            return f"there is no tool {name!r}; there are {', '.join(_DESCRIPTIONS)}"
        key = _DESCRIPTIONS[name][0]
        value = arguments.get(key)
        if not isinstance(value, str) or not value.strip():
            return f"{name} needs the argument {key!r}, a string"
        if name == SEARCH:
            return self.search(value) or f"nothing in this conversation holds {value!r}"
        try:
            found = expand(self._store, self._namespace, value, session=self._session)
        except NotFound as exc:
            return str(exc)
        parts = self._parts("\n\n".join(rendered(line) for line in found))
        wanted = arguments.get("part", 1)
        if not isinstance(wanted, int) or not 1 <= wanted <= len(parts):
            return f"{name}: 'part' is a number from 1 to {len(parts)}, and not {wanted!r}"
        if len(parts) == 1:
            return parts[0]
        more = f'; {name}({key}="{value}", part={wanted + 1}) goes on' if wanted < len(parts) else ""
        return f"{parts[wanted - 1]}\n[part {wanted} of {len(parts)}{more}]"

    def search(self, words: str) -> str:
        """What one search brings back: a line for each of the `HITS` best hits, `FOUND` tokens in all; "" for none.

        Raises `UsageError` where there is no word.
        """
        hits = asked(self._store, self._namespace, words, session=self._session, limit=HITS)
        heads = [f"{h.entry} ({h.kind}, position {h.position}): " for h in hits]
        text = "\n".join(head + hit.snippet for head, hit in zip(heads, hits, strict=True))
        lines = self._start(text, min(FOUND, self._cap)).split("\n")
        cut = bool(hits) and len(lines[-1]) <= len(heads[len(lines) - 1])  # an id cut in two names nothing
        return "\n".join(lines[:-1] if cut else lines)

    def _parts(self, text: str) -> list[str]:
        """The text in parts of at most `cap` tokens each, room for a last line included."""
        if self._count([text])[0] <= self._cap:
            return [text]
        parts: list[str] = []
        while text:
            parts.append(self._start(text, max(1, self._cap - _LAST_LINE)))
            text = text[len(parts[-1]) :]
        return parts

    def _start(self, text: str, room: int) -> str:
        """As much of the text's beginning as that many tokens hold."""
        part = text[: room * _LONGEST]
        while (size := self._count([part])[0]) > room and len(part) > 1:
            part = part[: max(1, len(part) * room // (size + 1))]
        return part


_LAST_LINE = 60
"""Tokens of the line under a part: two ids of 36 characters at most two to a token, and some words."""
_LONGEST = 40
"""Characters that one token stands for at most, runs of spaces and rules apart."""


def rendered(line: Line) -> str:
    """One line of an expansion as text: where it stands, who said it, what was said and called."""
    calls = "".join(f"\n[call {c.name} {c.arguments}]" for c in calls_of(line.message))
    return f"[{line.position} {line.entry} {line.message.role}]\n{text_of(line.message)}{calls}"
