"""The edge of the summariser: reads the prompt files that ship with the package. The core receives their text.

This module, and no other of this package, reads files (through importlib.resources).
"""

from __future__ import annotations

from importlib.resources import files

from msgspec.structs import replace

from tenfold.summarize.ladder import Settings

NAMES = ("system", "first", "update", "repair")


def load_prompts() -> dict[str, str]:
    """The packaged prompt texts by name: system, first, update, repair."""
    folder = files("tenfold.summarize.prompts")
    return {name: (folder / f"{name}.md").read_text(encoding="utf-8").strip() for name in NAMES}


def with_prompts(settings: Settings) -> Settings:
    """The settings with the packaged text wherever a prompt is empty."""
    texts = load_prompts()
    return replace(
        settings,
        system=settings.system or texts["system"],
        first=settings.first or texts["first"],
        update=settings.update or texts["update"],
        repair=settings.repair or texts["repair"],
    )
