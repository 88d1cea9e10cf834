"""A user's own prompt, with places for persona, earlier summary and messages.

All places are filled in one pass, so braces in a conversation are never taken for a place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenfold.errors import UsageError

PLACES = ("persona", "existing_summary", "messages")
"""The places of the published template."""
NO_SUMMARY = "(no prior summary)"
"""Stands for an earlier summary if there is none."""
_OTHER_PLACES = ("allotment", "focus", "structure")
_PLACE = re.compile(r"\{([A-Za-z_]+)\}")


def interpolate(template: str, values: Mapping[str, str]) -> str:
    """Returns the template with each place in `values` filled wherever it occurs. Other places stay."""
    return _PLACE.sub(lambda found: values.get(found.group(1), found.group()), template)


def find_places(template: str) -> list[str]:
    """Returns the names of a template's places, in order."""
    return _PLACE.findall(template)


def check_template(template: str) -> str:
    """Returns the template itself. Raises `UsageError` for a place that nothing fills."""
    unknown = sorted({name for name in find_places(template) if name not in (*PLACES, *_OTHER_PLACES)})
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in (*PLACES, *_OTHER_PLACES))
        wrong = ", ".join(f"{{{name}}}" for name in unknown)
        raise UsageError(f"the prompt names {wrong}, which nothing fills; the places there are: {known}")
    return template
