"""Takes our own summaries out of a system prompt that stands beside the list of messages.

A policy may show its summary as system text. A wire that takes the system prompt separately carries it there, and a
host that goes on with the request it got back sends it again. So the summary is read from there, as other wires have it
read from the list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tenfold.core.wire.marks import HEAD_START, SummaryConfirmer, find_summary_mark
from tenfold.core.wire.profiles import Profile
from tenfold.core.wire.sdk_values import get_set_fields

_OPENING, _CLOSING = "<tenfold-summary", "</tenfold-summary>"
_SUMMARY = re.compile(rf"((?:{HEAD_START}.*?)?{_OPENING}.*?{_CLOSING})", re.DOTALL)
_TEXT_FIELDS = ("parts", "text")
"""The fields of a system prompt, or of a block of it, that may hold its text."""


def take_request_summaries(
    request: Mapping[str, Any], profile: Profile, confirm: SummaryConfirmer
) -> tuple[Mapping[str, Any], list[str]]:
    """Returns a request without the summaries in its system prompt that `confirm` knows, and those summaries.

    It is the same request if there are none.
    """
    fields = profile.request
    for holder in ("", *fields.settings_fields):
        settings = request.get(holder) if holder else request
        for name in fields.system_fields:
            value = settings.get(name) if isinstance(settings, Mapping) else getattr(settings, name, None)
            rest, found = take_summaries(value, confirm)
            if found:
                new = _set_field(settings, name, rest)
                return {**request, holder: new} if holder else new, found
    return request, []


def take_summaries(value: Any, confirm: SummaryConfirmer) -> tuple[Any, list[str]]:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """Returns a system prompt in whatever form, without the summaries that `confirm` knows, and those summaries.

    What is left is the same object if there are none, and something empty if there is nothing else.
    """
    if isinstance(value, str):
        return _take_from_text(value, confirm)
    if isinstance(value, list | tuple):
        pairs = [take_summaries(each, confirm) for each in value]
        found = [text for _, texts in pairs for text in texts]
        return ([rest for rest, texts in pairs if rest or not texts], found) if found else (value, [])
    for name in _TEXT_FIELDS:
        fields = get_set_fields(value) or {}
        rest, found = take_summaries(fields.get(name), confirm) if fields.get(name) else (None, [])
        if found:
            return ({**fields, name: rest} if rest else None), found
    return value, []


def _take_from_text(text: str, confirm: SummaryConfirmer) -> tuple[str, list[str]]:
    kept: list[str] = []
    found: list[str] = []
    end = 0
    last_opening = text.rfind(_OPENING, 0, max(0, text.rfind(_CLOSING)))
    last_closing = text.find(_CLOSING, last_opening) + len(_CLOSING)
    for match in _SUMMARY.finditer(text[:last_closing]) if last_opening >= 0 else ():  # each opening there has its end
        mark = find_summary_mark(match.group(1))
        if mark is not None and confirm(*mark, True):
            before = text[end : match.start()].rstrip()
            kept.append(before.lstrip() if found else before)
            found.append(match.group(1))
            end = match.end()
    rest = text[end:].lstrip() if found else ""
    return ("\n\n".join(filter(None, (*kept, rest))), found) if found else (text, [])


def _set_field(settings: Any, name: str, value: Any) -> Any:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """Returns a copy of the settings with another system prompt, or with none if the value is empty."""
    copy = getattr(settings, "model_copy", None)
    if copy is not None:
        return copy(update={name: value or None})
    return {key: value if key == name else each for key, each in settings.items() if value or key != name}
