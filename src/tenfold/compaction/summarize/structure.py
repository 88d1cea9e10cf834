"""The headings a summary is written under, by the name that a policy gives its structure.

The names and their order are defined here. The text about each heading is in `prompts/sections.md`, and arrives in
`SummarySettings.sections`.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from tenfold.compaction.facts.merge import WRITTEN_KINDS
from tenfold.core.record.block import FactKind
from tenfold.errors import UsageError

_SIX_HEADINGS = (
    "## Goal",
    "## Constraints & Preferences",
    "## Progress",
    "## Key Decisions",
    "## Next Steps",
    "## Critical Context",
)
STRUCTURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "": (),
        "four": ("## Current State", "## Key Information", "## Context & Decisions", "## Exact Next Steps"),
        "six": _SIX_HEADINGS,
        "seven": (
            "## Task State",
            "## Files",
            "## Tool History",
            "## Errors",
            "## Decisions",
            "## User Guidance",
            "## Next Steps",
        ),
        "prefix": ("## Original Request", "## Early Progress", "## Context for Suffix"),
        "branch": _SIX_HEADINGS[:-1],
    }
)
"""The structures by name. `four`: spec/threshold.md 13, `six`, `prefix` and `branch`: spec/tail.md A25, `seven`:
spec/tiers.md B10. The empty name is free prose."""

HEADING_KINDS: Mapping[str, frozenset[FactKind]] = MappingProxyType(
    {
        **dict.fromkeys(("## Goal", "## Original Request", "## Task State"), frozenset({"request"})),
        **dict.fromkeys(("## Constraints & Preferences", "## User Guidance"), frozenset({"rule", "correction"})),
        **dict.fromkeys(("## Progress", "## Early Progress", "## Current State"), WRITTEN_KINDS),
        **dict.fromkeys(("## Key Decisions", "## Decisions", "## Context & Decisions"), frozenset({"decision"})),
        **dict.fromkeys(("## Next Steps", "## Exact Next Steps"), frozenset({"todo"})),
        **dict.fromkeys(
            ("## Critical Context", "## Key Information", "## Context for Suffix"), frozenset({"identifier"})
        ),
        "## Files": WRITTEN_KINDS | {"file_read"},
        "## Tool History": frozenset({"command"}),
        "## Errors": frozenset({"error"}),
    }
)
"""Which facts fill a heading that a model left out."""


def get_headings(name: str) -> tuple[str, ...]:
    """Returns the headings of a structure, in order. Raises `UsageError` that names the nearest valid name."""
    found = STRUCTURES.get(name)
    if found is None:
        close_matches = get_close_matches(name, STRUCTURES, n=1)
        suggestion = f"; did you mean {close_matches[0]!r}?" if close_matches else ""
        known = ", ".join(repr(each) for each in STRUCTURES)
        raise UsageError(f"no structure of summaries is called {name!r}{suggestion} There are: {known}")
    return found


def render_guide(headings: tuple[str, ...], sections: str) -> str:
    """Returns the part of a prompt about these headings: how to use them, then what belongs under each.

    `sections` is the text of `prompts/sections.md`. A heading it does not know gets no text. "" without headings.
    """
    if not headings:
        return ""
    text_by_heading: dict[str, list[str]] = {"": []}
    current = ""
    for line in sections.split("\n"):
        current = line.strip() if line.startswith("## ") else current
        text_by_heading.setdefault(current, []).append(line)
    preamble = "\n".join(text_by_heading[""]).strip()
    parts = ["\n".join(text_by_heading.get(heading, [heading])).strip() for heading in headings]
    return "\n\n".join(part for part in (preamble, "\n".join(parts)) if part)
