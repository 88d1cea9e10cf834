"""Entries to bytes and back: every version ever written loads, and nothing else does.

`fixtures/schema_N.bin` holds the rows that schema N wrote, each with its length in front. `facts_1.bin` is a Block of
schema 1 with facts of every kind. A release that raises `SCHEMA` adds one and leaves the older ones as they are:

    PYTHONPATH=src python -m tests.record.test_codec
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tenfold.core.record.block import (
    OWN_BLOCK,
    Block,
    BlockPart,
    KeptOriginal,
    ModelCost,
    Replacement,
    Run,
    Substitute,
    fold_facts,
)
from tenfold.core.record.codec import SCHEMA_VERSION, compute_chain_hash, decode_entry, encode_entry, hash_body
from tenfold.core.record.entry import (
    Attempt,
    BranchSummary,
    CustomEntry,
    Entry,
    MessageEntry,
    Pin,
    Retraction,
    Setting,
    Tombstone,
    Usage,
    get_message,
)
from tenfold.core.record.fact import (
    BlankFact,
    ChangedFile,
    Claim,
    CommandRun,
    Correction,
    Failure,
    FileRead,
    Remark,
    Request,
    Rule,
    TodoList,
)
from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    NativeBytes,
    OpaquePart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.core.record.token_reading import Counted
from tenfold.errors import RecordError

FIXTURES = Path(__file__).parent / "fixtures"
NATIVE = NativeBytes("anthropic", b'{"type":"text"}', b",\n", b'{"content":[', b"]}", "g1", 1, 2)
PARTS = (
    Text("a line\nand Ünïcode 中文 🧠"),
    Thinking("why", "sig=="),
    ToolCall("c1", "read", '{ "path" : "src/a.py" }'),
    Image("image/png", "aGk=", "", 640, 480),
    Document("spec.pdf", "application/pdf", "", "aGk=", "", 3),
    OpaquePart("server_tool_use", b'{"x": 1.0}'),
)
RESULT = ToolResult("c1", "read", (Text("out"), Image(url="https://example.com/a.png"), OpaquePart("x", b"{}")), True)
ENTRIES: tuple[Entry, ...] = (
    MessageEntry(
        "e0",
        None,
        "r",
        1,
        Message("assistant", PARTS, "model", "aborted", NATIVE),
        Usage.build(10, 2, 3, 4, "m"),
        "src0",
    ),
    MessageEntry("e1", "e0", "r", None, Message("tool", (RESULT,), "tool")),
    Block(
        "e2",
        "e1",
        "r",
        2,
        "tenfold",
        "o200k",
        (
            Replacement(
                0,
                1,
                (Run(0, 1),),
                (KeptOriginal(0), Substitute(Message("user", (Text("s"),), "tenfold"), 1)),
                "truncate",
            ),
            Replacement(
                0, 1, (BlockPart(OWN_BLOCK, 0, 0, 1),), (), "summary", 1, (Counted(3),), "two messages by none"
            ),
        ),
        (Rule("Always so.", 0, live=False),),
        "extractive",
        "b0",
        "manual to 10",
        Counted(100),
        Counted(10),
        1,
        2,
        ("a note",),
        ModelCost(1, 2, 3, "m", 0.5),
    ),
    Attempt("e3", "e2", "r", 3, "tenfold", "failed", "why", Counted(100), Counted(10), ModelCost(1)),
    BranchSummary("e4", "e3", "r", 4, Message("user", (Text("left"),), "tenfold"), "e1", "src4"),
    Retraction("e5", "e4", "r", 5, "e2"),
    Pin("e6", "e5", "r", 6, "e1", 1, False),
    Setting("e7", "e6", "r", 7, "model", "m2", NATIVE, "src7"),
    CustomEntry("e8", "e7", "r", None, "session", NATIVE, "src8"),
    Tombstone("e9", "e8", "r", 8, "said", b"\x01" * 32, 9, Message("user", (Text("purged"),), "tenfold")),
)


def split_rows(data: bytes) -> list[bytes]:
    """The rows of a fixture file."""
    found: list[bytes] = []
    while data:
        size = int.from_bytes(data[:4])
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


@pytest.mark.parametrize("schema", range(1, SCHEMA_VERSION + 1))
def test_every_schema_ever_written_loads(schema: int) -> None:
    found = split_rows((FIXTURES / f"schema_{schema}.bin").read_bytes())
    assert [row[0] for row in found] == [schema] * len(ENTRIES)
    assert [decode_entry(row) for row in found] == list(ENTRIES)


def test_facts_that_schema_1_wrote_have_types_of_their_own() -> None:
    block = decode_entry((FIXTURES / "facts_1.bin").read_bytes())
    assert isinstance(block, Block)
    assert block.facts == (
        Request("Fix it.", 0, live=False),
        Request("Thanks.", 2, live=False, is_acknowledgement=True),
        Request("Go on.", 4, line=1, number=7),
        Rule("Always so.", 0),
        Rule("You may push.", 1, live=False, effect="permits"),
        Rule("Never so.", 1, live=False, end="revoked"),
        Rule("The limit is 300 euros.", 2, live=False, effect="states"),
        Rule("Kirjoita lyhyesti.", 2, effect="quotes"),
        Correction("Not that.", 3),
        Remark("Näin on.", 3),
        Claim("Always run it.", 4, about="rule"),
        FileRead("a.py", 5),
        ChangedFile("b.py", 5, content="x -> y"),
        ChangedFile("c.py", 5, change="created", is_unconfirmed=True),
        ChangedFile("d.py", 5, change="deleted"),
        ChangedFile("f.py", 5, change="renamed", old_path="e.py", is_edited=True),
        ChangedFile(".", 5, live=False),
        CommandRun("pytest", 6, command="$ pytest", outcome="exit 1"),
        CommandRun("git commit", 6, command="$ git commit", outcome="ok: 1507f8b"),
        Failure("ValueError: x", 6, live=False, source="$ pytest"),
        TodoList("[ ] one", 7),
        TodoList("- [x] two", 7, name="todo:plan.md"),
        BlankFact("", 8),
        BlankFact("", 8),
        BlankFact("", 8),
        BlankFact("", 9),
    ), "facts of a kind that is no more, and those that were purged, keep their places"
    assert len(fold_facts([(1, block)])) == len(block.facts) - 4


def test_the_present_schema_writes_what_its_fixture_holds() -> None:
    assert split_rows((FIXTURES / f"schema_{SCHEMA_VERSION}.bin").read_bytes()) == [encode_entry(e) for e in ENTRIES]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: type(e).__name__)
def test_entries_come_back_equal_and_write_the_same_bytes(entry: Entry) -> None:
    data = encode_entry(entry)
    assert decode_entry(data) == entry
    assert encode_entry(decode_entry(data)) == data


def test_what_is_not_as_tenfold_writes_it_is_an_error_with_its_path() -> None:
    good = encode_entry(ENTRIES[1])
    with pytest.raises(RecordError, match="empty record"):
        decode_entry(b"")
    with pytest.raises(RecordError, match="schema 200 is not one this release reads"):
        decode_entry(bytes([200]) + good[1:])
    with pytest.raises(RecordError, match=r"tenfold verify"):
        decode_entry(good[:-3])
    value = msgspec.msgpack.decode(good[1:])
    value["message"]["role"] = "wizard"
    with pytest.raises(RecordError, match=r"\$\.message\.role"):
        decode_entry(good[:1] + msgspec.msgpack.encode(value))
    del value["message"]
    with pytest.raises(RecordError, match="missing required field `message`"):
        decode_entry(good[:1] + msgspec.msgpack.encode(value))


def test_the_chain_covers_parent_and_body_and_a_tombstone_stands_for_what_it_was() -> None:
    entry, other = ENTRIES[0], ENTRIES[1]
    body = encode_entry(entry)
    chained = compute_chain_hash(b"p" * 32, entry, body)
    assert chained != compute_chain_hash(b"q" * 32, entry, body)
    assert chained != compute_chain_hash(b"p" * 32, other, encode_entry(other))
    tomb = Tombstone("e0", None, "r", 1, "said", hash_body(body), 5)
    assert compute_chain_hash(b"p" * 32, tomb, encode_entry(tomb)) == chained


def test_only_some_entries_put_a_message_before_a_model() -> None:
    shown = [type(e).__name__ for e in ENTRIES if get_message(e) is not None]
    assert shown == ["MessageEntry", "MessageEntry", "BranchSummary", "Tombstone"]


def test_the_readable_text_of_a_message() -> None:
    message = Message("user", (*PARTS, Document("n", text="inline")), "human")
    assert get_text(message) == f"{PARTS[0].text}\ninline"
    assert [c.id for c in get_tool_calls(message)] == ["c1"]
    assert get_tool_result(message) is None
    tool = Message("tool", (RESULT,), "tool")
    assert (get_text(tool), get_tool_result(tool)) == ("out", RESULT)


if __name__ == "__main__":
    data = b"".join(len(row).to_bytes(4) + row for row in map(encode_entry, ENTRIES))
    (FIXTURES / f"schema_{SCHEMA_VERSION}.bin").write_bytes(data)
