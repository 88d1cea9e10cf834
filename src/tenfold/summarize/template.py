"""A prompt of the user's own, with places for what is put in: persona, earlier summary, messages.

Each place is filled in one pass, so that braces in a conversation are never taken for a place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenfold.errors import UsageError

PLACES = ("persona", "existing_summary", "messages")
"""The places of the published template."""
NO_SUMMARY = "(no prior summary)"
"""What stands for an earlier summary where there is none."""
_ALSO = ("allotment", "focus", "structure")
_PLACE = re.compile(r"\{([A-Za-z_]+)\}")


def interpolate(template: str, given: Mapping[str, str]) -> str:
    """The template with every occurrence of each given place filled; other places stay."""
    return _PLACE.sub(lambda found: given.get(found.group(1), found.group()), template)


def places(template: str) -> list[str]:
    """The names of its places, in order."""
    return _PLACE.findall(template)


def checked(template: str) -> str:
    """The template itself. Raises `UsageError` for a place that nothing fills."""
    unknown = sorted({name for name in places(template) if name not in (*PLACES, *_ALSO)})
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in (*PLACES, *_ALSO))
        wrong = ", ".join(f"{{{name}}}" for name in unknown)
        raise UsageError(f"the prompt names {wrong}, which nothing fills; the places there are: {known}")
    return template
