"""Files whose lines form a tree hold more than the tree says: what is on several lines, or came in between, is read."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.entry import Entry, MessageEntry, get_message
from tenfold.core.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.formats import ParsedSession, read_data, read_file, render_sessions
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.formats.made import render_lines

Json = dict[str, Any]
CASES = Path(__file__).parent / "cases"
NO_RESULT = "no result was recorded"


def claude(own: str, parent: str | None, kind: str, content: object = None, **rest: object) -> Json:
    """A line of Claude Code. The answer that a line is a part of is named by the digits of `answer`."""
    line: Json = {"uuid": own, "parentUuid": parent, "sessionId": "s", "type": kind, "isSidechain": False}
    answer = rest.pop("answer", own)
    if kind == "user":
        line["message"] = {"role": "user", "content": content}
    elif kind == "assistant":
        line["message"] = {"id": f"msg_{answer}", "role": "assistant", "model": "m", "content": content}
    return line | rest


def call(id_: str) -> list[Json]:
    return [{"type": "tool_use", "id": id_, "name": "Read", "input": {"n": id_}}]


def result(id_: str) -> list[Json]:
    return [{"type": "tool_result", "tool_use_id": id_, "content": f"content of {id_}"}]


def queue(operation: str, content: str | None = None, **rest: object) -> Json:
    said = {} if content is None else {"content": content}
    return {"type": "queue-operation", "operation": operation, "sessionId": "s"} | said | rest


def make_queued(own: str, parent: str, prompt: object, mode: str = "prompt", **rest: object) -> Json:
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": mode} | rest
    return claude(own, parent, "attachment", attachment=attachment)


def read(*lines: Json) -> ParsedSession:
    """The one session of these lines. Written again, it is the file that it came from."""
    data = render_lines(*lines)
    (session,) = read_data(data, file="f.jsonl")
    assert render_sessions([(session.info, session.entries)]) == data
    return session


def list_path(session: ParsedSession) -> list[Message]:
    """The messages on the path to the last entry."""
    entries: dict[str | None, Entry] = {entry.id: entry for entry in session.entries}
    path: list[Message] = []
    entry: Entry | None = session.entries[-1]
    while entry is not None:
        message = get_message(entry)
        path.insert(0, message) if message is not None else None
        entry = entries.get(entry.parent)
    return path


def list_words(session: ParsedSession) -> list[str]:
    """The messages on the path: calls as `+id`, results as `-id`, texts as they are."""
    out: list[str] = []
    for message in list_path(session):
        found = get_tool_result(message)
        calls = [f"+{each.id}" for each in get_tool_calls(message)]
        out += [f"-{found.call_id}"] if found is not None else [*([get_text(message)] if not calls else []), *calls]
    return out


def open_stored(*files: bytes) -> list[str]:
    """The texts that a model is sent of a file that was read as it grew."""
    with closing(SqliteStore(":memory:")) as store:
        for data in files:
            (id_,) = import_sessions(read_data(data, file="f.jsonl"), store, DEFAULT_NAMESPACE, CharacterCounter())
        session = Session(SessionAddress(store, id_), build_policy("tenfold", CharacterCounter()))
        return [get_text(message) for message in session.view.get_messages()]


ASKED = claude("u", None, "user", "Read the files.")
GO_ON = claude("z", "r3", "user", "Thanks, go on.")


def test_results_of_parallel_calls_are_all_read() -> None:
    (session,) = read_file(CASES / "cc_parallel.jsonl")
    assert list_words(session)[1:-2] == ["+toolu_1", "+toolu_2", "+toolu_3", "-toolu_1", "-toolu_2", "-toolu_3"]
    assert NO_RESULT not in str(open_stored((CASES / "cc_parallel.jsonl").read_bytes()))


_STEP = {
    "a1": claude("a1", "u", "assistant", call("c1"), answer="m"),
    "a2": claude("a2", "a1", "assistant", call("c2"), answer="m"),
    "a3": claude("a3", "a2", "assistant", call("c3"), answer="m"),
    "r1": claude("r1", "a1", "user", result("c1")),
    "r2": claude("r2", "a2", "user", result("c2")),
    "r3": claude("r3", "a3", "user", result("c3")),
}
_ORDERS = [o for o in permutations(_STEP) if all(o.index(f"a{n}") < o.index(f"r{n}") for n in "123")]
_ORDERS = [o for o in _ORDERS if [name for name in o if name[0] == "a"] == ["a1", "a2", "a3"]]


@pytest.mark.parametrize("order", _ORDERS, ids=" ".join)
@pytest.mark.parametrize("last", ["r1", "r2", "r3"])
def test_results_that_come_while_the_answer_is_written_follow_their_calls(order: tuple[str, ...], last: str) -> None:
    session = read(ASKED, *(_STEP[name] for name in order), claude("z", last, "user", "Go on."))
    words = list_words(session)
    assert sorted(words[1:-1]) == ["+c1", "+c2", "+c3", "-c1", "-c2", "-c3"]
    assert words[0] == "Read the files."
    assert words[-1] == "Go on."
    open_calls: set[str] = set()
    for before, word in pairwise(words):
        assert not (word[0] == "+" and before[0] == "-" and open_calls), (
            "a call comes before the results of earlier ones"
        )
        if word[0] == "+":
            open_calls.add(word[1:])
        elif word[0] == "-":
            open_calls.remove(word[1:])


def test_the_size_of_a_request_is_reported_once() -> None:
    usage = {"usage": {"input_tokens": 900, "output_tokens": 5}}
    steps = [dict(_STEP[name]) for name in ("a1", "r1", "a2", "a3", "r2", "r3")]
    for step in steps:
        if step["type"] == "assistant":
            step["message"] = step["message"] | usage
    session = read(ASKED, *steps)
    assert [e.usage.prompt for e in session.entries if isinstance(e, MessageEntry) and e.usage] == [900]


def test_lines_of_hooks_between_parallel_results_hide_none_of_them() -> None:
    hooks = [claude(f"h{n}", f"r{n}", "attachment", attachment={"type": "hook_success"}) for n in (1, 2, 3)]
    started = claude("p1", "a1", "progress", data={"type": "hook_progress"})
    first = claude("r1", "p1", "user", result("c1"))
    steps = [_STEP["a1"], _STEP["a2"], _STEP["a3"], started, first, hooks[0], _STEP["r2"], _STEP["r3"], *hooks[1:]]
    for end in ("h1", "h2", "h3", "r1"):
        session = read(ASKED, *steps, claude("z", end, "user", "Go on."))
        assert list_words(session)[1:] == ["+c1", "+c2", "+c3", "-c1", "-c2", "-c3", "Go on."], end


def test_what_the_user_goes_back_to_stays_a_branch() -> None:
    left = claude("b", "u", "assistant", [{"type": "text", "text": "left"}])
    session = read(ASKED, left, claude("c", "u", "assistant", call("c1")), claude("r1", "c", "user", result("c1")))
    assert list_words(session) == ["Read the files.", "+c1", "-c1"]


@pytest.mark.parametrize("parent", ["r1", "r2"])
def test_parallel_results_of_pi_are_all_read(parent: str) -> None:
    def entry(own: str, before: str | None, **message: object) -> Json:
        return {"type": "message", "id": own, "parentId": before, "message": message}

    calls = [{"type": "toolCall", "id": f"c{n}", "name": "read", "arguments": {}} for n in (1, 2)]
    text = [{"type": "text", "text": "found"}]
    session = read(
        {"type": "session", "version": 3, "id": "s", "cwd": "/w"},
        entry("u", None, role="user", content="Read."),
        entry("a", "u", role="assistant", content=calls),
        entry("r1", "a", role="toolResult", toolCallId="c1", toolName="read", content=text),
        entry("r2", "a", role="toolResult", toolCallId="c2", toolName="read", content=text),
        entry("z", parent, role="user", content="Go on."),
    )
    assert list_words(session) == ["Read.", "+c1", "+c2", "-c1", "-c2", "Go on."]


def test_a_message_written_twice_is_one() -> None:
    (session,) = read_file(CASES / "cc_dup_uuid.jsonl")
    assert session.problems == ()
    assert [m.role for m in list_path(session)] == ["user", "assistant"] * 3 + ["user"]
    again = claude("u", None, "user", "Read the files.", timestamp="2030-01-01T00:00:00Z", version="9")
    assert list_words(read(ASKED, again)) == ["Read the files."], "the time around a message does not count"


def test_an_id_used_for_other_words_loses_none_of_them() -> None:
    session = read(
        ASKED,
        claude("a", "u", "assistant", [{"type": "text", "text": "one"}]),
        claude("u", None, "user", "Now the taxes."),
        claude("b", "u", "assistant", [{"type": "text", "text": "two"}]),
    )
    assert list_words(session) == ["Read the files.", "one", "Now the taxes.", "two"]


@pytest.mark.parametrize("parent", ["u", "b"])
def test_a_chain_through_a_repeated_line_of_a_hook_loses_nothing(parent: str) -> None:
    hook: Json = {"attachment": {"type": "hook_success", "content": "ok"}}
    session = read(
        ASKED,
        claude("h", "u", "attachment", **hook),
        claude("a", "h", "assistant", [{"type": "text", "text": "one"}]),
        claude("b", "a", "user", "And the second."),
        claude("h", parent, "attachment", **hook),
        claude("c", "h", "assistant", [{"type": "text", "text": "two"}]),
    )
    assert list_words(session) == ["Read the files.", "one", "And the second.", "two"]


def test_what_was_typed_during_a_turn_is_a_message_where_it_was_delivered() -> None:
    (session,) = read_file(CASES / "cc_queued_message.jsonl")
    typed = [m for m in list_path(session) if "floats" in get_text(m)]
    assert [(m.role, m.origin) for m in typed] == [("user", "human")]
    assert list_words(session).index("Also never use floats for money.") == 3


ANSWER = claude("a", "u", "assistant", call("c1"))
RESULT = claude("r", "a", "user", result("c1"))
DONE = claude("d", "r", "assistant", [{"type": "text", "text": "Noted."}])
TYPED = "Never use floats."


@pytest.mark.parametrize(
    ("between", "behind", "expected"),
    [
        ([queue("enqueue", TYPED), queue("dequeue")], [claude("q", "d", "user", TYPED)], [-1]),
        ([queue("enqueue", TYPED), queue("remove", TYPED)], [], []),
        ([queue("enqueue", TYPED), queue("remove")], [], []),
        ([queue("enqueue", TYPED), queue("popAll")], [], []),
        ([queue("enqueue", TYPED), queue("remove", TYPED, reason="absorbed_mid_turn")], [], [3]),
        ([queue("enqueue", TYPED), queue("dequeue")], [], [3]),
        ([queue("enqueue", "/model"), queue("dequeue")], [], []),
        ([queue("enqueue", "other"), queue("enqueue", TYPED), queue("remove", "other"), queue("dequeue")], [], [3]),
    ],
)
def test_a_queued_message_is_read_once_or_never(between: list[Json], behind: list[Json], expected: list[int]) -> None:
    at_end = bool(behind) and between[-1]["operation"] == "dequeue"
    lines = [ANSWER, *([] if at_end else between), RESULT, DONE, *(between if at_end else []), *behind]
    words = list_words(read(ASKED, *lines))
    assert words.count(TYPED) == len(expected)
    for place in expected:
        assert words[place] == TYPED
    assert "other" not in words


def test_messages_delivered_together_and_short_ones_are_told_apart() -> None:
    typed = ["ok", "Use\n  four spaces.", "look at this"]
    waiting = [queue("enqueue", text) for text in typed]
    taken = [queue("dequeue") for _ in typed]
    together = claude("q", "r", "user", "look at this\nUse\n  four spaces.")
    session = read(ASKED, ANSWER, *waiting, RESULT, *taken, together, claude("d", "q", "assistant", []))
    assert [text for text in list_words(session) if "\n" in text or text == "ok"] == [get_text_of(together), "ok"]
    alone = read(ASKED, ANSWER, queue("enqueue", typed[1]), RESULT, queue("dequeue"), DONE)
    assert typed[1] in list_words(alone), "its lines are kept"


@pytest.mark.parametrize(
    "lines",
    [
        [queue("enqueue", "[Pasted text #1]"), RESULT, queue("dequeue"), claude("q", "r", "user", "What was pasted.")],
        [
            queue("enqueue", "[Image #1] look"),
            RESULT,
            make_queued("q", "r", "look at it"),
            queue("remove", "[Image #1] look", reason="absorbed_mid_turn"),
        ],
        [
            queue("enqueue", "[Image #1] look"),
            RESULT,
            queue("remove", reason="absorbed_mid_turn"),
            make_queued("q", "r", "look at it"),
        ],
    ],
)
def test_a_message_whose_words_were_changed_on_the_way_is_not_doubled(lines: list[Json]) -> None:
    words = list_words(read(ASKED, ANSWER, *lines, claude("d", "q", "assistant", [{"type": "text", "text": "Seen."}])))
    assert len(words) == 5
    assert not any("#1" in text for text in words)


def get_text_of(line: Json) -> str:
    return str(line["message"]["content"])


def test_a_message_that_only_the_queue_has_is_read_once_as_the_file_grows() -> None:
    lines = [ASKED, ANSWER, queue("enqueue", TYPED), RESULT, queue("dequeue"), DONE, claude("e", "d", "user", "Go on.")]
    texts = open_stored(*(render_lines(*lines[:n]) for n in range(2, len(lines) + 1)))
    assert texts == open_stored(render_lines(*lines))
    assert texts.count(TYPED) == 1


@pytest.mark.parametrize("is_late", [True, False])
def test_a_message_that_was_attached_comes_once_whenever_the_queue_says_so(*, is_late: bool) -> None:
    gone = queue("remove", TYPED, reason="absorbed_mid_turn")
    attached = make_queued("q", "r", TYPED)
    between = [attached, gone] if is_late else [gone, attached]
    done = claude("d", "q", "assistant", [{"type": "text", "text": "Noted."}])
    assert list_words(read(ASKED, ANSWER, queue("enqueue", TYPED), RESULT, *between, done)).count(TYPED) == 1


def test_a_queued_message_with_an_image_is_a_message() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    session = read(ASKED, ANSWER, RESULT, make_queued("q", "r", [{"type": "text", "text": TYPED}, image]))
    (last,) = list_path(session)[-1:]
    assert (last.role, last.origin, get_text(last), len(last.parts)) == ("user", "human", TYPED, 2)


@pytest.mark.parametrize(
    "note",
    [
        make_queued("q", "r", "<task-notification>done</task-notification>", "task-notification"),
        make_queued("q", "r", "done", "task-notification"),
        make_queued("q", "r", "done", origin={"kind": "peer"}),
        claude("q", "r", "user", "done", origin={"kind": "task-notification"}),
    ],
)
def test_a_note_of_a_program_is_not_of_the_user(note: Json) -> None:
    (last,) = list_path(read(ASKED, ANSWER, RESULT, note))[-1:]
    assert (last.role, last.origin) == ("user", "harness")


def test_a_message_that_waits_is_named_and_read_when_it_is_delivered() -> None:
    lines = [ASKED, ANSWER, queue("enqueue", TYPED)]
    early = read(*lines)
    assert TYPED not in list_words(early)
    assert len(early.problems) == 1
    assert TYPED in early.problems[0]
    later = [*lines, RESULT, queue("dequeue"), make_queued("q", "r", TYPED), claude("d", "q", "assistant", [])]
    texts = open_stored(*(render_lines(*later[:n]) for n in range(3, len(later) + 1)))
    assert texts.count(TYPED) == 1


def test_a_file_read_at_every_byte_of_its_growth_is_one_session_without_doubles() -> None:
    data = render_lines(ASKED, *(_STEP[name] for name in ("a1", "r1", "a2", "a3", "r3", "r2")), GO_ON)
    steps = range(len(render_lines(ASKED)), len(data) + 1, 97)
    whole = open_stored(data)
    assert open_stored(*(data[:n] for n in steps), data) == whole


def test_a_file_that_grew_from_a_cut_line_is_exported_as_it_is() -> None:
    data = render_lines(ASKED, ANSWER, RESULT, DONE)
    with closing(SqliteStore(":memory:")) as store:
        for cut in (len(data) - 60, len(data) - 30, len(data)):
            ids = import_sessions(read_data(data[:cut], file="f"), store, DEFAULT_NAMESPACE, CharacterCounter())
            (row,) = store.list_sessions(DEFAULT_NAMESPACE)
            entries = store.read_entries(DEFAULT_NAMESPACE, ids[0])
            assert render_sessions([(row.info, entries)]) == data[:cut]


def test_an_id_used_thousands_of_times_is_read_in_linear_time() -> None:
    lines = [claude("u", None, "user", f"words {number}") for number in range(5_000)]
    assert len(list_path(read(*lines))) == 5_000


def test_many_answers_and_late_results_are_linked_in_linear_time() -> None:
    """Each answer comes before all results: a walk from every result to its answer would take the square of it."""
    count = 4_000
    answers = [claude(f"a{n}", f"a{n - 1}" if n else "u", "assistant", call(f"c{n}")) for n in range(count)]
    results = [claude(f"r{n}", f"r{n - 1}" if n else f"a{count - 1}", "user", result(f"c{n}")) for n in range(count)]
    session = read(ASKED, *answers, *results)
    assert len(session.entries) == 2 * count + 1
    assert json.dumps(list_words(session)).count("+c") == count


def test_a_file_on_one_line_is_recognised() -> None:
    data = render_lines(ASKED, ANSWER, RESULT, DONE).replace(b"\n", b"")
    (session,) = read_data(data, file="f.jsonl")
    assert list_words(session) == ["Read the files.", "+c1", "-c1", "Noted."]
    assert render_sessions([(session.info, session.entries)]) == data


def list_said(session: ParsedSession) -> list[str]:
    """What the messages of the path to the last entry say."""
    known: dict[str | None, Entry] = {entry.id: entry for entry in session.entries}
    path, entry = list[str](), known.get(session.entries[-1].id)
    while entry is not None:
        path += [get_text(message)] if (message := get_message(entry)) is not None else []
        entry = known.get(entry.parent)
    return path[::-1]


@pytest.mark.parametrize("past", [[], [claude("j", None, "user", "paint it"), claude("k", "j", "assistant", "done")]])
def test_a_summary_of_claude_code_is_a_message_where_nothing_before_it_is_on_its_path(past: list[Json]) -> None:
    (session,) = read_data(
        render_lines(
            *past,
            claude("b", None, "system", subtype="compact_boundary"),
            claude("c", "b", "user", "What was done so far", isCompactSummary=True),
            claude("d", "c", "assistant", "going on"),
        ),
        file="f",
    )
    assert list_said(session) == ["What was done so far", "going on"]
    summary = next(m for e in session.entries if (m := get_message(e)) and get_text(m) == "What was done so far")
    assert summary.origin == "harness"


def make_chat(session: str) -> list[Json]:
    """A session with its own ids, and a summary line before it."""
    names = [f"{session}{n}" for n in range(4)]
    lines = [
        claude(names[0], None, "user", f"paint {session}"),
        claude(names[1], names[0], "assistant", call(names[1])),
        claude(names[2], names[1], "user", result(names[1])),
        claude(names[3], names[2], "assistant", [{"type": "text", "text": f"{session} is done"}]),
    ]
    return [
        {"type": "summary", "summary": session, "leafUuid": "x"},
        *(line | {"sessionId": session} for line in lines),
    ]


@pytest.mark.parametrize("is_mixed", [False, True])
def test_several_sessions_in_one_file_are_as_many(*, is_mixed: bool) -> None:
    first, second = make_chat("A"), make_chat("B")
    lines = [line for pair in zip(first, second, strict=True) for line in pair] if is_mixed else [*first, *second]
    data = render_lines(*lines)
    sessions = read_data(data, file="f")
    assert render_sessions([(s.info, s.entries) for s in sessions]) == data
    assert [(s.info.id, s.info.source_id, s.info.parent) for s in sessions] == [("A", "A", ""), ("B", "B", "")]
    for name, session in zip("AB", sessions, strict=True):
        assert list_said(session) == [f"paint {name}", "", f"content of {name}1", f"{name} is done"]


def test_a_session_that_goes_on_under_another_name_stays_one() -> None:
    lines = [line | {"sessionId": "B"} if n > 2 else line for n, line in enumerate(make_chat("A"))]
    (session,) = read_data(render_lines(*lines), file="f")
    assert (session.info.id, len(list_said(session))) == ("B", 4)


def test_a_sidechain_belongs_to_the_session_that_its_lines_name() -> None:
    side = claude("x", None, "user", "look", isSidechain=True, agentId="agent") | {"sessionId": "B"}
    sessions = read_data(render_lines(*make_chat("A"), *make_chat("B"), side), file="f")
    assert [(s.info.id, s.info.parent) for s in sessions] == [("A", ""), ("B", ""), ("B/agent", "B")]


SAID = [
    claude("u1", None, "user", "What colour is the shed?"),
    claude("u2", "u1", "assistant", [{"type": "text", "text": "Green."}]),
    claude("u3", "u2", "user", "And the door?"),
    claude("u4", "u3", "assistant", [{"type": "text", "text": "Red."}]),
]
WORDS = ["What colour is the shed?", "Green.", "And the door?", "Red."]


def without_parents(line: Json, *, key: bool) -> Json:
    return line | {"parentUuid": None} if key else {name: each for name, each in line.items() if name != "parentUuid"}


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("kind", ["system", "an event that is new"])
@pytest.mark.parametrize("place", [2, 4])
def test_a_line_that_is_no_message_ends_no_conversation(kind: str, place: int, *, key: bool) -> None:
    silent = without_parents(claude("s", None, kind), key=key)
    session = read(*SAID[:place], silent, *SAID[place:])
    assert [get_text(message) for message in list_path(session)] == WORDS


@pytest.mark.parametrize("key", [True, False])
def test_where_no_message_names_a_parent_the_order_of_the_file_holds(*, key: bool) -> None:
    session = read(*(without_parents(line, key=key) for line in SAID))
    assert [get_text(message) for message in list_path(session)] == WORDS


def test_a_message_that_names_no_parent_at_all_follows_the_line_before_and_one_with_null_begins_anew() -> None:
    first, second, third, fourth = SAID
    session = read(first, second, without_parents(third, key=False), fourth)
    assert [get_text(message) for message in list_path(session)] == WORDS
    session = read(first, second, without_parents(third, key=True), fourth)
    assert [get_text(message) for message in list_path(session)] == WORDS[2:]


def test_lines_of_pi_without_parents_stand_in_the_order_of_the_file() -> None:
    said = [("user", "What colour is the shed?"), ("assistant", "Green."), ("user", "And the door?")]
    lines: list[Json] = [
        {"type": "message", "id": f"m{number}", "message": {"role": role, "content": [{"type": "text", "text": text}]}}
        for number, (role, text) in enumerate(said)
    ]
    session = read({"type": "session", "version": 3, "id": "s"}, *lines)
    assert session.info.format == "pi"
    assert [get_text(message) for message in list_path(session)] == [text for _, text in said]
