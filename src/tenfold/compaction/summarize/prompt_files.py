"""Loads the prompt files that ship with the package. Everything else receives their text.

This is the only module of this package that reads files (through importlib.resources).
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from msgspec.structs import replace

from tenfold.compaction.summarize.ladder import PROMPT_FIELDS, SummarySettings

_FOLDER = "tenfold.compaction.summarize.prompts"
_HEADING = re.compile(r"^(?=## )", re.MULTILINE)
_SHARED = ("told", "directive")


@cache
def load_prompt(package: str, name: str) -> str:
    """Returns the prompt `NAME.md` that lies in a package, as a policy's own prompts do."""
    return (files(package) / f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def load_prompts() -> dict[str, str]:
    """Returns the packaged prompt texts by name, with shared paragraphs filled in: `PROMPT_FIELDS`, and `directive`."""
    shared = {name: load_prompt(_FOLDER, f"shared/{name}") for name in _SHARED}
    texts = {name: load_prompt(_FOLDER, name) for name in PROMPT_FIELDS if name not in shared}
    return {**{name: body.replace("{directive}", shared["directive"]) for name, body in texts.items()}, **shared}


def with_sections(settings: SummarySettings, package: str) -> SummarySettings:
    """Returns the settings with what a package's `sections.md` says of headings that they say nothing of yet."""
    text = settings.sections or load_prompts()["sections"]
    known = text.split("\n")
    own = [part for part in _HEADING.split(load_prompt(package, "sections")) if part.partition("\n")[0] not in known]
    return replace(settings, sections="\n\n".join((text, *map(str.strip, own))))


def with_prompts(settings: SummarySettings) -> SummarySettings:
    """Returns the settings with the packaged text for each empty prompt; the same object if none is empty."""
    if all(getattr(settings, name) for name in PROMPT_FIELDS):
        return settings
    texts = load_prompts()
    return replace(settings, **{name: getattr(settings, name) or texts[name] for name in PROMPT_FIELDS})
