"""Recall as tools for the model itself: schemas for every wire, and one handler that answers the calls.

Answers are bounded in tokens and redacted never: what is read back is exact. Search snippets are redacted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenfold.errors import NotFound, UsageError
from tenfold.log.base import Store
from tenfold.recall.expand import Line, expand
from tenfold.record.message import calls_of, text_of

SEARCH, READ, EXPAND = "recall_search", "recall_read", "recall_expand"
_DESCRIPTIONS: Mapping[str, tuple[str, str, str]] = {
    SEARCH: ("words", "Find earlier messages of this conversation that you no longer see.", "Words that must occur."),
    READ: ("entry", "Read one earlier message exactly as it was.", "The entry id that a search result or stub names."),
    EXPAND: ("block", "Show the messages that a summary stands for.", "The block id in the summary's opening tag."),
}
Count = Callable[[Sequence[str]], list[int]]


class RecallTools:
    """Schemas and handler over one session of a store. Offer both to the model, or neither."""

    def __init__(self, store: Store, namespace: str, session: str, *, count: Count, cap: int = 4_000) -> None:
        """`cap` bounds each answer, in tokens as `count` counts them."""
        self._store, self._namespace, self._session, self._count, self._cap = store, namespace, session, count, cap

    def described(self) -> dict[str, str]:
        """What each tool is for, by its name."""
        return {name: description for name, (_, description, _) in _DESCRIPTIONS.items()}

    def schemas(self, wire: str = "openai-chat") -> list[dict[str, object]]:
        """The tool definitions as that wire's request wants them. Raises `UsageError` for an unknown wire."""
        out: list[dict[str, object]] = []
        for name, (key, description, meaning) in _DESCRIPTIONS.items():
            schema: dict[str, object] = {
                "type": "object",
                "properties": {key: {"type": "string", "description": meaning}},
                "required": [key],
            }
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
            hits = self._store.search(self._namespace, value, session=self._session, limit=10)
            lines = [f"{h.entry} ({h.kind}, position {h.position}): {h.snippet}" for h in hits]
            return self._capped("\n".join(lines)) if lines else f"nothing in this conversation holds {value!r}"
        try:
            found = expand(self._store, self._namespace, value, session=self._session)
        except NotFound as exc:
            return str(exc)
        return self._capped("\n\n".join(rendered(line) for line in found))

    def _capped(self, text: str) -> str:
        total = self._count([text])[0]
        if total <= self._cap:
            return text
        note = f"\n[... cut here at {self._cap:,} of {total:,} tokens; read single entries for the rest]"
        kept, size = text, total + self._count([note])[0]
        while size > self._cap and kept:
            kept = kept[: len(kept) * self._cap // (size + 1)]
            size = self._count([kept + note])[0]
        return kept + note


def rendered(line: Line) -> str:
    """One line of an expansion as text: where it stands, who said it, what was said and called."""
    calls = "".join(f"\n[call {c.name} {c.arguments}]" for c in calls_of(line.message))
    return f"[{line.position} {line.entry} {line.message.role}]\n{text_of(line.message)}{calls}"
