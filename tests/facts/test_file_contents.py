"""What an edit changed stands beside the file in the facts section, and is read back from there."""

from __future__ import annotations

from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import render_facts
from tenfold.core.record.fact import ChangedFile
from tests.summarize.making import estimate_tokens


def test_a_changed_file_is_shown_with_its_newest_changes_that_have_room_and_read_back() -> None:
    oldest, first, newest = "x" * 290, "in f: return x -> return x * 2", "in g: (new) return f(1)"
    fact = ChangedFile("src/a.py", 4, content=f"{oldest}\n{first}\n{newest}")
    section = render_facts([fact], budget=150, count=estimate_tokens)
    shown = f"{first}; {newest}"
    assert f"- src/a.py (changed: {shown})" in section.text
    (read,) = parse_facts(section.text)
    assert isinstance(read, ChangedFile)
    assert (read.kind, read.text, read.content) == ("file_modified", "src/a.py", shown)
