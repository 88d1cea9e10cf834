"""The prompt for one batch, and the places that a user's own prompt may have."""

from __future__ import annotations

from importlib.resources import files

from tenfold.compaction.summarize.prompt_files import load_prompts
from tenfold.compaction.summarize.write import find_places
from tenfold.errors import UsageError

PLACES = ("persona", "existing_summary", "messages")
"""The places of the published template."""
_OTHER_PLACES = ("allotment", "focus", "structure")


BATCH_PROMPT: str = (
    (files("tenfold.designs.clip") / "prompts" / "batch.md")
    .read_text(encoding="utf-8")
    .strip()
    .replace("{directive}", load_prompts()["directive"])
)
"""The packaged prompt: a structured request."""


def check_template(template: str) -> str:
    """Returns the template itself. Raises `UsageError` for a place that nothing fills."""
    unknown = sorted({name for name in find_places(template) if name not in (*PLACES, *_OTHER_PLACES)})
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in (*PLACES, *_OTHER_PLACES))
        wrong = ", ".join(f"{{{name}}}" for name in unknown)
        raise UsageError(f"the prompt names {wrong}, which nothing fills; the places there are: {known}")
    return template
