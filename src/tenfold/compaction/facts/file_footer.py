"""The two lists of files at the end of a summary of the preset `tail`: what was only read, and what was modified.

Code makes them from facts, so they include deletions, renames and shell commands, and do not depend on what a model or
a hook says about files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tenfold.compaction.facts.file_states import list_paths
from tenfold.core.record.block import FileLists
from tenfold.core.record.fact import ChangedFile, Fact, FileRead

FOOTER_TAGS: tuple[tuple[str, type[FileRead | ChangedFile]], ...] = (
    ("read-files", FileRead),
    ("modified-files", ChangedFile),
)
"""The tag of each list, and what it is parsed as."""
_MORE = re.compile(r"\([\d,]+ more\)")


def merge_file_lists(lists: Iterable[FileLists]) -> FileLists:
    """Merges lists. A file that was modified is not listed as read."""
    all_lists = tuple(lists)
    modified = {path for each in all_lists for path in each.modified}
    read = {path for each in all_lists for path in each.read}
    return FileLists(tuple(sorted(read - modified)), tuple(sorted(modified)))


def list_files(facts: Sequence[Fact], *, until: int | None = None) -> FileLists:
    """Returns the files that these facts name. Facts from after position `until` are left out."""
    known = [f for f in facts if f.live and (until is None or f.position <= until)]
    modified = tuple(path for f in known if isinstance(f, ChangedFile) for path in list_paths(f))
    return merge_file_lists((FileLists(tuple(f.text for f in known if isinstance(f, FileRead)), modified),))


def parse_footer(text: str, *, position: int = -1) -> tuple[Fact, ...]:
    """Parses the lists at the end of a summary's text as facts about files. A text without them has none."""
    rest = text.rstrip().removesuffix("</summary>").rstrip()
    found: list[Fact] = []
    for tag, kind in reversed(FOOTER_TAGS):
        start = rest.rfind(f"<{tag}>\n")
        if start >= 0 and rest.endswith(f"\n</{tag}>"):
            paths = rest[start:].splitlines()[1:-1]
            found[:0] = [kind(path, position) for path in paths if not _MORE.fullmatch(path)]
            rest = rest[:start].rstrip()
    return tuple(found)


def without_footer(text: str) -> str:
    """Returns a summary's text without its lists of files, which are made anew."""
    for tag, _ in FOOTER_TAGS:
        *listed, rest = text.split(closing := f"\n</{tag}>")
        kept: list[str] = []
        for piece in listed:
            before, opening, _ = f"{piece}\n".partition(f"<{tag}>\n")
            kept.append(before.rstrip("\n") if opening else piece + closing)
        text = "".join((*kept, rest))
    return text
