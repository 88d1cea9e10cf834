"""What each format's lines mean: who speaks, what belongs together, what stays silent."""

from __future__ import annotations

import json

import pytest

from tenfold.core.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting, Usage, get_message
from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.formats import FORMATS, ExportItem, ReplacementMessage, read_data, render_sessions
from tests import sessions
from tests.formats.made import CLAUDE, FILES, PI_3, TAU2


def read_entries(name: str) -> tuple[Entry, ...]:
    """The entries of a made-up file's first session."""
    return read_data(FILES[name][1], file="f")[0].entries


def describe_entries(found: tuple[Entry, ...]) -> list[str]:
    """Role and origin of messages, kind of the rest."""
    out = []
    for entry in found:
        message = get_message(entry)
        if message is not None:
            status = "" if message.status == "ok" else f" {message.status}"
            out.append(f"{message.role}/{message.origin}{status}")
        elif isinstance(entry, Setting):
            out.append(f"{entry.key}={entry.value}")
        elif isinstance(entry, CustomEntry):
            out.append(entry.kind)
    return out


def get_usages(found: tuple[Entry, ...]) -> list[Usage]:
    """The usages, in order."""
    return [e.usage for e in found if isinstance(e, MessageEntry) and e.usage is not None]


MEANT = {
    "pi-1": (
        "user/human, assistant/model, tool/tool, user/tool, assistant/model aborted, assistant/model error, "
        "compaction, model=p/m-2, user/human"
    ),
    "pi-3": (
        "user/human, assistant/model, user/human, user/harness, user/harness, thinking=high, label, user/human, "
        "user/harness, assistant/model"
    ),
    "claude": (
        "summary, user/human, assistant/model, tool/tool, tool/tool, user/harness, user/human, "
        "file-history-snapshot, assistant/model, user/harness, user/tool, system:compact_boundary, "
        "compact_summary, user/human, assistant/model"
    ),
    "codex-new": (
        "system/harness, user/harness, user/human, model=gpt-x, assistant/model, event_msg:token_count, "
        "tool/tool, tool/tool, assistant/model, event_msg:token_count, user/human, user/harness, "
        "response_item:ghost_snapshot"
    ),
    "codex-old": (
        "state, system/harness, user/harness, user/human, assistant/model, tool/tool, tool/tool, assistant/model"
    ),
    "swe-0": "system/harness, user/harness, assistant/harness, user/human, assistant/model, user/tool, assistant/model",
    "swe-1": "system/harness, user/human, assistant/model, tool/tool, assistant/model",
    "gemini-session": "user/human, assistant/model, tool/tool, tool/tool, info, assistant/model",
    "contents": "user/human, assistant/model, tool/tool, tool/tool, assistant/model",
    "scenario": "user/human, assistant/model, tool/tool, tool/tool, assistant/model",
    "tau2": "assistant/model, user/human, assistant/model, tool/tool, tool/tool, assistant/model",
    "events": "user/human, assistant/model, tool/tool, tool/tool, observation:agent_state_changed, assistant/model",
    "request": "system/harness, user/human, assistant/model, tool/tool, assistant/model",
    "chat-lines": "system/harness, user/human, assistant/model, tool/tool, assistant/model",
    "cline": "user/human, assistant/model, tool/tool, tool/tool, user/human, assistant/model",
    "responses": "system/harness, user/harness, user/human, assistant/model, tool/tool, tool/tool, assistant/model",
}


@pytest.mark.parametrize("name", list(MEANT))
def test_who_speaks(name: str) -> None:
    assert ", ".join(describe_entries(read_entries(name))) == MEANT[name]


@pytest.mark.parametrize(
    "name", ["claude", "codex-new", "codex-old", "gemini-session", "contents", "tau2", "events", "responses", "cline"]
)
def test_parallel_calls_are_one_answer_and_each_result_knows_its_call(name: str) -> None:
    messages = [m for e in read_entries(name) if (m := get_message(e)) is not None]
    calls = next(get_tool_calls(m) for m in messages if get_tool_calls(m))
    assert len(calls) == 2
    results = [r for m in messages if (r := get_tool_result(m)) is not None]
    assert [(r.call_id, r.name) for r in results] == [(c.id, c.name) for c in calls]


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("pi-1", Usage.build(16, 2, 10, 1, "m-1")),
        ("claude", Usage.build(12, 9, 7, 2, "m")),
        ("codex-new", Usage.build(100, 7, 40, 0, "gpt-x")),
        ("gemini-session", Usage.build(50, 4, 9, 0, "g")),
        ("tau2", Usage.build(10, 2)),
        ("events", Usage.build(20, 3, 5, 0, "m")),
    ],
)
def test_usage_counts_the_whole_prompt(name: str, usage: Usage) -> None:
    assert get_usages(read_entries(name))[0] == usage


def test_usage_stands_on_the_answer_it_belongs_to() -> None:
    on = [e.message.role for n in FILES for e in read_entries(n) if isinstance(e, MessageEntry) and e.usage is not None]
    assert on
    assert set(on) == {"assistant"}


def test_pi_parts() -> None:
    first, answer, result, ran, *_, pictured = [m for e in read_entries("pi-1") if (m := get_message(e)) is not None]
    assert first.parts == (Text("paint the shed"),)
    assert answer.parts == (Thinking("which colour?", "sig"), ToolCall("c1", "look", '{"at":"shed"}'))
    assert get_text(result) == "it is green"
    assert get_text(ran) == "$ date\ntoday\n[exit code 1]"
    assert pictured.parts == (Image("image/png", "QUJD"),)


def test_pi_trees_branch_where_they_branched() -> None:
    by_source = {
        e.source_id: e for e in read_entries("pi-3") if not isinstance(e, CustomEntry) and hasattr(e, "source_id")
    }
    assert by_source["c"].parent == by_source["d"].parent == by_source["b"].id
    branch = by_source["d"]
    assert isinstance(branch, BranchSummary)
    assert branch.previous_leaf == "c"


def test_a_run_is_an_exchange_of_a_person() -> None:
    found = read_entries("pi-3")
    by_source = {getattr(e, "source_id", ""): e for e in found}
    assert by_source["b"].run == by_source["a"].id
    assert by_source["e"].run == by_source["a"].id
    assert by_source["j"].run == by_source["h"].id


def test_times_are_what_the_file_says_or_absent() -> None:
    assert read_entries("pi-3")[0].time == 1_893_553_445_678_000
    assert [e.time for e in read_entries("pi-1")][:2] == [1_893_553_446_000_000, None]
    assert [e.time for e in read_entries("cline")][:2] == [1_893_553_445_678_000, None]
    assert {e.time for e in read_entries("swe-0")} == {None}
    assert read_entries("events")[1].time == 1_893_553_445_500_000


def test_claude_code_lines_of_one_message_are_one_and_its_ids_resolve() -> None:
    answer = read_entries("claude")[2]
    assert isinstance(answer, MessageEntry)
    assert [type(p) for p in answer.message.parts] == [Text, ToolCall, ToolCall]
    assert answer.source_id == "c"
    assert answer.message.native is not None
    assert answer.message.native.body.count(b"\n") == 1


def test_claude_code_sidechains_are_sessions_of_their_own() -> None:
    main, side = read_data(CLAUDE, file="f")
    assert (main.info.id, main.info.parent, main.info.title) == ("cc", "", "About a shed")
    assert (side.info.id, side.info.parent) == ("cc/ag", "cc")
    assert describe_entries(side.entries) == ["user/human", "assistant/model"]
    alone = FORMATS["claude-code"].render_file(side.info, side.entries)
    assert [json.loads(line)["uuid"] for line in alone.splitlines()] == ["s1", "s2"]


def test_claude_code_compaction_keeps_what_it_compacted_on_the_path() -> None:
    found = read_data(CLAUDE, file="f")[0].entries
    parents = {e.id: e.parent for e in found}
    path = [found[-1].id]
    while (before := parents[path[-1]]) is not None:
        path.append(before)
    assert len(path) == len(found)
    resumed = CLAUDE.split(b"\n")
    start = next(n for n, line in enumerate(resumed) if b"compact_boundary" in line)
    rest = read_data(b"\n".join(resumed[start:]), file="f")[0].entries
    assert describe_entries(rest) == ["system:compact_boundary", "user/harness", "user/human", "assistant/model"]


def test_claude_code_summary_without_its_past_is_shown() -> None:
    line = next(x for x in CLAUDE.split(b"\n") if b"isCompactSummary" in x)
    rest = CLAUDE.split(line + b"\n")[1]
    assert describe_entries(read_data(line + b"\n" + rest, file="f")[0].entries)[0] == "user/harness"


def test_a_stub_carries_the_id_that_the_next_line_points_at() -> None:
    recorded = read_data(CLAUDE, file="f")[0]
    stub = ReplacementMessage(_make_summary(), source_id="d", parent="a")
    items: list[ExportItem] = [recorded.entries[0], stub, *recorded.entries[8:]]
    found = [json.loads(x) for x in FORMATS["claude-code"].render_file(recorded.info, items).splitlines()]
    assert [x.get("uuid") for x in found[:3]] == [None, "d", "e"]
    assert found[2]["parentUuid"] == "d"
    assert found[2] == json.loads(recorded.entries[8].message.native.body)  # type: ignore[union-attr]


def test_pointers_at_dropped_lines_go_to_the_line_before() -> None:
    recorded = read_data(PI_3, file="f")[0]
    kept = [e for e in recorded.entries if getattr(e, "source_id", "") in ("a", "h", "j")]
    found = [json.loads(x) for x in FORMATS["pi"].render_file(recorded.info, kept).splitlines()]
    assert [(x["id"], x.get("parentId")) for x in found[1:]] == [("a", None), ("h", "a"), ("j", "h")]


def test_two_stubs_of_one_range_get_an_id_each() -> None:
    recorded = read_data(PI_3, file="f")[0]
    items: list[ExportItem] = [
        ReplacementMessage(_make_summary(), "b", ""),
        ReplacementMessage(_make_summary(), "b", ""),
        *recorded.entries[3:],
    ]
    again = read_data(FORMATS["pi"].render_file(recorded.info, items), file="f")[0]
    assert len(again.entries) == 2 + len(recorded.entries[3:])


def _make_summary() -> Message:
    return Message("user", (Text("what went before"),), "tenfold")


def test_tau2_device_tools_are_the_users_own() -> None:
    _, second = read_data(TAU2, file="f")
    assert describe_entries(second.entries)[-3:] == ["user_tool_call", "user_tool_result", "assistant/model"]
    assert describe_entries(second.entries)[3:5] == ["tool/tool", "tool/tool"]


def test_openhands_arguments_are_the_models_own_text() -> None:
    answer = get_message(read_entries("events")[1])
    assert answer is not None
    assert answer.parts == (
        Text("I look"),
        ToolCall("c1", "do_run", '{"raw":  1}'),
        ToolCall("c2", "do_read", '{"raw":  1}'),
    )
    last = get_message(read_entries("events")[-1])
    assert last is not None
    assert get_text(last) == "done"


def test_cline_files_are_documents() -> None:
    first = get_message(read_entries("cline")[0])
    assert first is not None
    assert first.parts == (Text("see"), Document("/w/a", "text/plain", "AAA"))


def test_gemini_calls_without_ids_are_paired() -> None:
    messages = [m for e in read_entries("contents") if (m := get_message(e)) is not None]
    assert len({c.id for c in get_tool_calls(messages[1])}) == 2


@pytest.mark.parametrize("name", ["tau2", "events", "claude"])
def test_a_container_with_a_changed_session_keeps_the_others(name: str) -> None:
    found = read_data(FILES[name][1], file="f")
    data = render_sessions([(found[0].info, found[0].entries[:2]), *((r.info, r.entries) for r in found[1:])])
    again = read_data(data, file="f")
    assert [r.info.id for r in again] == [r.info.id for r in found]
    assert len(again[0].entries) == 2
    assert [describe_entries(r.entries) for r in again[1:]] == [describe_entries(r.entries) for r in found[1:]]


@pytest.mark.parametrize("name", list(FILES))
def test_a_session_from_elsewhere_can_be_written_in_any_format(name: str) -> None:
    form, _ = FILES[name]
    foreign = read_data(FILES["swe-1" if form != "swe-agent" else "chat"][1], file="f")[0]
    texts = [get_text(m) for e in foreign.entries if (m := get_message(e)) is not None]
    again = read_data(FORMATS[form].render_file(foreign.info, foreign.entries), file="f", format=form)[0]
    found = [get_text(m) for e in again.entries if (m := get_message(e)) is not None]
    assert [text for text in found if text] == [text for text in texts if text]


def test_a_grown_file_begins_with_the_same_entries() -> None:
    for name in ("pi-3", "codex-new", "chat-lines"):
        data = FILES[name][1]
        cut = data[: data.rstrip(b"\n").rindex(b"\n") + 1]
        short, long = read_data(cut, file="f")[0], read_data(data, file="f")[0]
        assert long.entries[: len(short.entries)] == short.entries


COUNTS = {
    "pi/before-compaction.jsonl": (1, 990, 2),
    "claude-code/large-conversation.jsonl": (1, 352, 2),
    "gemini-cli/NotFollowingUserIntent.json": (1, 127, 0),
    "openhands-events/sample.jsonl": (5, 434, 0),
    "openhands-requests/django__django-11299.json": (1, 100, 0),
    "swe-agent/django__django-11885.traj": (1, 103, 0),
    "swe-agent/marshmallow-1867.function_calling.traj": (1, 28, 0),
    "tau2/toolorchestra_retail_gpt-5_1trial.json": (114, 2534, 0),
    "cline/session.messages.json": (1, 32, 0),
}


@pytest.mark.parametrize("name", list(COUNTS))
def test_recorded_files_hold_what_was_counted_in_them(name: str) -> None:
    sessions.require_sessions()
    found = sessions.read(sessions.FOLDER / name)
    messages = sum(get_message(e) is not None for r in found for e in r.entries)
    silent = sum(isinstance(e, CustomEntry) for r in found for e in r.entries)
    assert (len(found), messages, silent) == COUNTS[name]
    assert all(not r.problems for r in found)
