"""The preset `clip` as its document has it: one archive over any number of processes, true times, lists, tools."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tenfold.core.record.message import Message, get_text
from tenfold.core.wire.marks import (
    extract_summary_text,
    find_summary_mark,
    find_text_origin,
    hash_summary,
    render_summary,
    strip_harness_text,
)
from tenfold.designs import clip as design
from tenfold.designs.clip import CompactionConfig, MemoryReadTool, get_memory
from tests.designs.clip.making import (
    WINDOW,
    build_policy,
    get_archive,
    get_newest_block,
    make_answer,
    make_session,
    make_talk,
    make_user,
    run_rounds,
)
from tests.laws.conversations import Echo
from tests.shape.scan import ROOT

ORIGINAL = """[Context Summary — 40 messages compressed across 2 compaction cycles]

[Batch 1 — depth 1, 2026-01-02T10:00:00.000Z to 2026-01-02T10:20:00.000Z]
The user asked for a parser, and it was begun in src/parse.py.

[Batch 2 — depth 0, 2026-01-02T10:21:00.000Z to 2026-01-02T10:40:00.000Z]
The parser reads numbers. Names are still missing."""
"""An archive as the original design writes it: without a mark of ours."""


def make_items(first: int, last: int, *, wire: str = "openai-chat") -> list[dict[str, Any]]:
    """Items of a host's list, as numbered talk."""
    if wire == "gemini":
        return [
            {"role": "model" if m.role == "assistant" else "user", "parts": [{"text": get_text(m)}]}
            for m in make_talk(first, last)
        ]
    return [{"role": m.role, "content": get_text(m)} for m in make_talk(first, last)]


def read_text(item: dict[str, Any]) -> str:
    """The text of an item."""
    return str(item["content"]) if "content" in item else str(item["parts"][0]["text"])


def find_archives(history: Any) -> list[str]:  # noqa: ANN401 - items of any wire
    """The texts of the archives in a list."""
    return [text for item in history if "[Context Summary" in (text := read_text(item))]


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic", "gemini", "openai-responses"])
def test_one_archive_stands_after_five_rounds_each_with_a_new_compactor(wire: str) -> None:
    """Would catch an earlier archive that a new process takes for a system prompt, so that they pile up."""
    history: Any = []
    for number in range(5):
        made = design.create_compactor(CompactionConfig(chunk_size=4), model=Echo(), wire=wire)
        history = [*history, *make_items(number * 12, number * 12 + 12, wire=wire)]
        done = made.compress(history, "conv")
        assert not done.failed, done.reason
        assert done.batches_created > 0
        history = list(done.history)
        (text,) = find_archives(history)
        assert f"across {number + 1} compaction cycle" in text
    texts = [read_text(item) for item in history]
    assert "[Context Summary" in texts[0] + texts[1], "at the head, after a stub where the provider needs one"
    assert "earlier summaries omitted" in next(iter(find_archives(history)))


@pytest.mark.parametrize("role", ["system", "user"])
def test_an_archive_of_the_originals_own_form_is_set_aside_and_folded(role: str) -> None:
    model = Echo()
    made = design.create_compactor(CompactionConfig(keep_recent=2, clip_first=3), model=model)
    done = made.compress([{"role": role, "content": ORIGINAL}, *make_items(0, 6)], "conv")
    assert not done.failed, done.reason
    (text,) = find_archives(done.history)
    assert done.messages_compressed == 10, "the archive is no message"
    assert "across 3 compaction cycles]" in text
    assert "[Batch 2 — depth 0, 2026-01-02T10:21:00.000Z to 2026-01-02T10:40:00.000Z]\nThe parser reads" in text
    assert "[Batch 1 — depth 1, 2026-01-02T10:00:00.000Z to 2026-01-02T10:20:00.000Z]\nThe user asked" in text
    again = made.compress([*done.history, *make_items(6, 12)], "conv")
    assert len(find_archives(again.history)) == 1


def test_a_session_folds_an_archive_that_its_store_does_not_know() -> None:
    """Would catch an archive of another store that stays at the head for ever, beside one of its own."""
    session = make_session(name="earlier")
    run_rounds(session, 1)
    (known,) = [get_text(m) for m in session.view.get_messages() if m.origin == "tenfold"]
    for text in (known, ORIGINAL):
        other = make_session(build_policy(chunk_size=4), name="later")
        items = [{"role": "system", "content": "Be kind."}, {"role": "system", "content": text}, *make_items(50, 62)]
        sent = other.before_model({"messages": items}, window=WINDOW)["messages"]
        assert other.outcome is not None
        assert other.outcome.status == "compacted"
        assert sent[0]["content"] == "Be kind."
        (archive,) = find_archives(sent)
        assert len(get_archive(other)) > 1
        assert "across 2 compaction cycles]" in archive or "across 3 compaction cycles]" in archive
        assert not other.find_violations("openai-chat")


def test_the_archive_message_itself_starts_as_published() -> None:
    """Would catch a delimiter of our own before the text by which the design knows its archive."""
    session = make_session()
    run_rounds(session, 1)
    (text,) = [get_text(m) for m in session.view.get_messages() if m.origin == "tenfold"]
    assert text.startswith("[Context Summary — ")
    mark = find_summary_mark(text)
    assert mark is not None
    assert mark.block == session.view.find_newest_block().id  # type: ignore[union-attr]
    assert (extract_summary_text(text) or "").startswith("[Context Summary — ")
    changed = text.replace("messages compressed", "messages left out")
    assert find_summary_mark(changed) is None, "a changed text is no longer ours"
    done = design.create_compactor(model=Echo()).compress(make_items(0, 12), "conv")
    assert read_text(done.history[0]).startswith("[Context Summary — ")


@pytest.mark.parametrize(
    "text",
    [
        "[Context Summary of nothing]",
        "[Context Summary — 3 messages compressed]",
        "[Context Summary — 3 messages compressed] and on",
        ORIGINAL,
        "Another text.",
    ],
)
def test_whatever_a_summary_begins_with_it_is_ours_only_if_it_is_confirmed(text: str) -> None:
    """Would catch words of a model that come back as the user's."""
    written = render_summary("b", text)
    assert find_text_origin(written, lambda *_: True) == "tenfold"
    assert find_text_origin(written) == "harness"
    assert find_text_origin(written, lambda *_: False) == "harness"
    assert extract_summary_text(written) == text
    assert find_summary_mark(written) == ("b", hash_summary(text))
    assert strip_harness_text(f"{written}\n\nPlease go on.") == "Please go on."
    assert find_text_origin(f"{written}\n\nPlease go on.") == "human"


@pytest.mark.parametrize("to", [40, 150, 400, 900, 1_500])
def test_however_little_room_there_is_the_archive_has_its_first_line(to: int) -> None:
    session = make_session(build_policy(keep_recent=0))
    rules = [f"Never ever touch the file src/generated/part{n:03d}.py, whatever the reason may be." for n in range(40)]
    session.append(*make_talk(0, 3), *[m for text in rules for m in make_rule(text)], *make_talk(3, 12))
    outcome = session.compact(to=to)
    assert outcome.status == "compacted"
    archives = [get_text(m) for m in session.view.get_messages() if m.origin == "tenfold"]
    assert [text[:19] for text in archives] == ["[Context Summary — "]


def make_rule(text: str) -> list[Message]:
    """A rule of the user, and an answer."""
    return [make_user(text), make_answer("Understood.")]


def test_no_model_is_called_but_to_summarize() -> None:
    model = Echo()
    made = design.create_compactor(CompactionConfig(chunk_size=4), model=model)
    done = made.compress(make_items(0, 16), "conv")
    calls, session = model.calls, made.get_session("conv")
    assert calls == done.batches_created + sum(1 for b in made.list_batches("conv") if b.depth)
    made.list_batches("conv")
    MemoryReadTool(get_memory(session)).handle({"query": "alpha"})
    session.search("alpha")
    session.expand(get_newest_block(session).id, deep=True)
    session.preview(to=500)
    assert made.compress(done.history, "conv").history is done.history
    session.undo()
    assert model.calls == calls


def test_nothing_but_its_own_package_constructs_a_compactor() -> None:
    """Published: only the agent loop or the program that is composed does; here that is the user's code."""
    folder = ROOT / "src" / "tenfold"
    users = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\b(?:create_compactor|create_from_options|Compactor)\(", path.read_text("utf-8"))
    }
    assert users == {"designs/clip/compactor.py"}


def test_all_that_the_document_exposes_is_exported() -> None:
    exposed = "Compactor createCompactor SummaryBatch CompactionResult CompactionConfig interpolatePrompt"
    for name in (*exposed.split(), "DEFAULT_SUMMARIZATION_PROMPT", *design.__all__):
        assert getattr(design, name) is not None
