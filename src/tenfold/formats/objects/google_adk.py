"""The contents of Google's ADK and of google-genai: `types.Content`, as Gemini's messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from google.genai.types import Content

from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput

_TO_STANDARD = str.maketrans("-_", "+/")


class GoogleAdkConverter:
    """Converts contents. One of them is one message of Gemini. See `Converter`."""

    wire = "gemini"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. Bytes become base64 in its usual alphabet, which every provider reads."""
        if not isinstance(message, Content):
            raise BadInput(f"{name_type(message)} is no content of Google's ADK: pass google.genai.types.Content")
        item = message.model_dump(mode="json", by_alias=True, exclude_none=True, fallback=str)
        for holder, key in _find_bytes(item):
            holder[key] = holder[key].translate(_TO_STANDARD)
        return [item]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Content]:
        """See `Converter.build`."""
        return [Content.model_validate_json(msgspec.json.encode(message)) for message in messages]


def _find_bytes(item: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Finds the fields of a content that hold bytes. Pydantic writes them in the alphabet of addresses."""
    for part in item.get("parts", ()):
        if "thoughtSignature" in part:
            yield part, "thoughtSignature"
        for holder in (part, *part.get("functionResponse", {}).get("parts", ())):
            if "data" in holder.get("inlineData", ()):
                yield holder["inlineData"], "data"


CONVERTER = GoogleAdkConverter()
