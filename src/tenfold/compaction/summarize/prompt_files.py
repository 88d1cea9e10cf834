"""Loads the prompt files that ship with the package. Everything else receives their text.

This is the only module of this package that reads files (through importlib.resources).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from msgspec.structs import replace

from tenfold.compaction.summarize.ladder import PROMPT_FIELDS, SummarySettings

_SHARED = ("told", "directive")


@cache
def load_prompts() -> dict[str, str]:
    """Returns the packaged prompt texts by name, with shared paragraphs filled in: `PROMPT_FIELDS`, and `directive`."""
    folder = files("tenfold.compaction.summarize.prompts")

    def read_text(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8").strip()

    shared = {name: read_text(f"shared/{name}.md") for name in _SHARED}
    texts = {name: read_text(f"{name}.md") for name in PROMPT_FIELDS if name not in shared}
    return {**{name: body.replace("{directive}", shared["directive"]) for name, body in texts.items()}, **shared}


def with_prompts(settings: SummarySettings) -> SummarySettings:
    """Returns the settings with the packaged text for each empty prompt; the same object if none is empty."""
    if all(getattr(settings, name) for name in PROMPT_FIELDS):
        return settings
    texts = load_prompts()
    return replace(settings, **{name: getattr(settings, name) or texts[name] for name in PROMPT_FIELDS})
