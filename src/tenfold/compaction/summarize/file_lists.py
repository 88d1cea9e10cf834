"""Renders the lists of files that stand last in a summary of the preset `tail`; `facts.file_footer` reads them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tenfold.compaction.facts.file_footer import FOOTER_TAGS
from tenfold.compaction.summarize.asking import clean_text
from tenfold.core.record.block import Fact, FactKind, FileLists
from tenfold.core.text.excerpts import Count

_LISTED_KINDS: frozenset[FactKind] = frozenset({"file_read", "file_modified", "file_created"})


class Footer(Struct, frozen=True):
    """A rendered footer, and the paths that are in it."""

    text: str = ""
    paths: frozenset[str] = frozenset()


def render_footer(files: FileLists, *, budget: int | None = None, count: Count | None = None) -> Footer:
    """Renders the two lists as blocks with a blank line before each; "" if both are empty.

    With `budget` in tokens, as many paths of each as fit. How many are not listed is always said.
    """
    limit = max(len(files.read), len(files.modified))
    while True:
        lists = zip(FOOTER_TAGS, (files.read, files.modified), strict=True)
        text = "".join(_render_list(tag, paths, limit) for (tag, _), paths in lists)
        if not limit or budget is None or count is None or count([text])[0] <= budget:
            return Footer(text, frozenset((*files.read[:limit], *files.modified[:limit])))
        limit = limit * 3 // 4


def _render_list(tag: str, paths: tuple[str, ...], limit: int) -> str:
    if not paths:
        return ""
    shown = [_render_path(path) for path in paths[:limit]]
    shown += [f"({len(paths) - limit:,} more)"] if len(paths) > limit else []
    return f"\n\n<{tag}>\n" + "\n".join(shown) + f"\n</{tag}>"


def _render_path(path: str) -> str:
    return " ".join(clean_text(path).splitlines()).replace("<", "%3C")


def split_at_footer(facts: Sequence[Fact], footer: Footer) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Splits facts into those that the footer tells, and all others. It does not tell deletions and renames apart."""

    def is_listed(fact: Fact) -> bool:
        return fact.kind in _LISTED_KINDS and fact.text in footer.paths

    return tuple(f for f in facts if is_listed(f)), tuple(f for f in facts if not is_listed(f))
