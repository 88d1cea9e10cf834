"""Each stage on made-up views: what exactly becomes of what, what stays, and that no stage makes the view larger."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tenfold.compaction.plan.draft import UNWRITTEN_SUMMARY, Draft, DraftPiece, Goal, build_replacements, start_draft
from tenfold.compaction.plan.pipeline import Plan, Stage, build_plan
from tenfold.compaction.plan.stages import (
    ClearStage,
    MergeStage,
    SummarizePrefixStage,
    SupersededReadsStage,
    TruncateStage,
    condense,
)
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.block import Block, KeptOriginal, Substitute
from tenfold.core.record.entry import MessageEntry, Pin
from tenfold.core.record.message import (
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.fold import View
from tenfold.designs.tiers.stages import SummarizeOlderStage
from tests.engine.making import (
    COUNTER,
    FILLER,
    build_path,
    build_policy,
    build_view,
    get_blocks,
    make_call,
    make_edit_step,
    make_measures,
    make_read_step,
    make_reply,
    make_result,
    make_system_message,
    make_user_message,
    make_work,
    open_session,
)

GOAL = Goal(NO_TOKENS, NO_TOKENS, NO_TOKENS, NO_TOKENS, Counted(60), Counted(60))
STAGES: tuple[Stage, ...] = (
    SupersededReadsStage(),
    TruncateStage(),
    ClearStage(),
    SummarizePrefixStage(),
    SummarizeOlderStage(keep_recent_messages=0),
)


def make_draft(view: View | list[Message]) -> Draft:
    view = view if isinstance(view, View) else build_view(view)
    return start_draft(view, make_measures().token_cache.measure, lambda messages: measure_messages(messages, COUNTER))


def apply_stage(stage: Stage, view: View | list[Message], goal: Goal = GOAL) -> Draft:
    return stage.apply(make_draft(view), goal)


def get_changes(draft: Draft) -> list[tuple[int, int, str]]:
    return [(p.first, p.last, p.kind) for p in draft.pieces if p.is_changed]


def get_texts(piece: DraftPiece) -> list[str]:
    return [get_text(s.message) if isinstance(s, Substitute) else f"keep {s.position}" for s in piece.shown_items]


def build_pinned_view(messages: list[Message], *positions: int) -> View:
    path = build_path(messages)
    for position in positions:
        path.append(Pin(f"pin-{position}", None, "", 0, path.get_entry(position).id, position))
    return View.from_path(path)


# -- superseded reads -------------------------------------------------------------------------------------------------


def test_a_read_is_superseded_by_a_later_read_or_change_of_the_same_file_only() -> None:
    history = [
        make_user_message("go"),
        *make_read_step(1, "a.py"),
        *make_read_step(2, "b.py"),
        *make_read_step(3, "a.py"),
        *make_edit_step(4, "b.py"),
        *make_read_step(5, "c.py"),
    ]
    draft = apply_stage(SupersededReadsStage(), history)
    assert get_changes(draft) == [(1, 2, "superseded-reads"), (3, 4, "superseded-reads")]
    first = draft.pieces[1]
    assert first.shown_items[0] == KeptOriginal(1)
    assert isinstance(first.shown_items[1], Substitute)
    assert first.shown_items[1].original_position == 2
    assert get_texts(first)[1].startswith("[superseded: a.py was read or changed again later; ")
    assert first.tokens == sum(first.sizes) < first.tokens_before


def test_what_replaces_a_superseded_read_names_the_file_and_leaves_its_folder_to_the_call() -> None:
    path = "/home/me/project/src/app.py"
    draft = apply_stage(
        SupersededReadsStage(),
        [make_user_message("go"), *make_read_step(1, path), *make_edit_step(2, path), *make_read_step(3, "b.py")],
    )
    assert path in get_tool_calls(draft.pieces[1].get_visible_messages()[0].message)[0].arguments
    assert get_texts(draft.pieces[1])[1].startswith("[superseded: app.py was read or changed again later; ")


def test_a_failed_read_is_not_superseded() -> None:
    history = [
        make_user_message("go"),
        make_call("x", "read", '{"path": "a"}'),
        make_result("x", FILLER * 9, error=True),
        *make_read_step(2, "a"),
    ]
    assert get_changes(apply_stage(SupersededReadsStage(), history)) == []


@pytest.mark.parametrize(
    ("call", "output"),
    [
        (make_call("x", "read", '{"path": "a.py"}'), "Error: EACCES: permission denied, open 'a.py'"),
        (make_call("x", "edit", '{"path": "a.py", "old": "a"}'), "Error: old_string not found; nothing was changed"),
        (make_call("x", "bash", '{"command": "sed -i s/a/b/ a.py"}'), "sed: no write permission\nexit code: 4"),
        (make_call("x", "read_text_file", '{"path": "a.py", "head": 3}'), "0 nothing else"),
        (make_call("x", "read_file", '{"path": "a.py", "start_line_one_indexed": 9}'), "0 nothing else"),
        (make_call("x", "view_file", '{"path": "a.py", "StartLine": 9, "EndLine": 12}'), "0 nothing else"),
        (make_call("x", "bash", '{"command": "head -3 a.py && touch b.py"}'), "0 nothing else"),
        (make_call("x", "read", '{"path": "a.py"}'), "File unchanged since last read; see the earlier output."),
    ],
)
def test_a_call_that_failed_or_read_a_part_supersedes_nothing(call: Message, output: str) -> None:
    history = [make_user_message("go"), *make_read_step(1, "a.py"), call, make_result("x", output), make_reply("ok")]
    assert get_changes(apply_stage(SupersededReadsStage(), history)) == []


def test_a_change_that_was_made_before_a_command_failed_supersedes() -> None:
    call = make_call("x", "bash", '{"command": "sed -i s/a/b/ a.py && pytest"}')
    draft = apply_stage(
        SupersededReadsStage(),
        [make_user_message("go"), *make_read_step(1, "a.py"), call, make_result("x", "1 failed\nexit code: 1")],
    )
    assert get_changes(draft) == [(1, 2, "superseded-reads")]


# -- truncate, clear --------------------------------------------------------------------------------------------------


def test_truncate_keeps_head_and_tail_and_states_the_gap() -> None:
    body = "\n".join(f"line {n} of the output, which is long enough" for n in range(400))
    draft = apply_stage(
        TruncateStage(), [make_user_message("go"), make_call("x"), make_result("x", body), make_reply("ok")]
    )
    assert get_changes(draft) == [(1, 2, "truncate")]
    kept = get_texts(draft.pieces[1])[1]
    assert kept.startswith("line 0 of")
    assert kept.endswith("line 399 of the output, which is long enough")
    head, _, rest = kept.partition("\n[... ")
    gone = int(rest.split(" lines removed")[0].replace(",", ""))
    assert gone == 400 - head.count("\n") - 1 - rest.partition("...]\n")[2].count("\n") - 1


def test_truncate_leaves_what_is_below_its_bound() -> None:
    assert get_changes(apply_stage(TruncateStage(), [make_user_message("go"), *make_read_step(1, "a", words=20)])) == []


def test_truncate_bounds_one_endless_line() -> None:
    draft = apply_stage(
        TruncateStage(), [make_user_message("go"), make_call("x"), make_result("x", "x" * 90_000), make_reply("ok")]
    )
    assert draft.tokens < 1_000


SCREEN = Image(media_type="image/png", data="aGk=")


def test_truncate_keeps_what_is_no_text() -> None:
    body = Text("\n".join(f"line {n} of the output, which is long enough" for n in range(400)))
    result = Message("tool", (ToolResult("x", "read", (body, SCREEN)),), "tool")
    written = Message("user", (body, SCREEN), "tool")
    draft = apply_stage(
        TruncateStage(), [make_user_message("go"), make_call("x"), result, make_reply("ls"), written, make_reply("ok")]
    )
    for say in (show for piece in draft.pieces for show in piece.shown_items if isinstance(show, Substitute)):
        output = get_tool_result(say.message)
        assert [type(part) for part in (output.content if output else say.message.parts)] == [Text, Image]
        assert " lines removed ...]" in get_text(say.message)
    assert get_changes(draft) == [(1, 2, "truncate"), (4, 4, "truncate")]


def test_clear_names_what_is_no_text() -> None:
    result = Message("tool", (ToolResult("x", "read", (Text(FILLER * 9), SCREEN, SCREEN)),), "tool")
    draft = apply_stage(ClearStage(), [make_user_message("go"), make_call("x"), result, make_reply("ok")])
    assert get_texts(draft.pieces[1])[1].startswith("[output removed: 1 lines and 2 parts not of text, ")


def test_clear_names_size_and_first_line_and_leaves_errors() -> None:
    history = [
        make_user_message("go"),
        *make_read_step(1, "a"),
        make_call("e", "sh"),
        make_result("e", FILLER * 9, error=True),
        make_reply("ok"),
    ]
    draft = apply_stage(ClearStage(), history)
    assert get_changes(draft) == [(1, 2, "clear")]
    assert get_texts(draft.pieces[1])[1].startswith("[output removed: 20 lines, ")
    assert "first line: 0 nothing else" in get_texts(draft.pieces[1])[1]


def test_parallel_results_are_elided_one_by_one_and_the_rest_of_the_step_is_kept() -> None:
    call = Message("assistant", (ToolCall("a", "read"), ToolCall("b", "read")), "model")
    results = [
        Message("tool", (ToolResult(i, "read", (Text(t),)),), "tool") for i, t in (("a", FILLER * 20), ("b", "ok"))
    ]
    draft = apply_stage(ClearStage(), [make_user_message("go"), call, *results, make_reply("done")])
    assert get_changes(draft) == [(1, 3, "clear")]
    assert [type(s) for s in draft.pieces[1].shown_items] == [KeptOriginal, Substitute, KeptOriginal]


@pytest.mark.parametrize(
    ("recall", "words"), [("none", ""), ("cli", "`tenfold expand id-0002`"), ("tool", 'entry="id-0002"')]
)
def test_stubs_name_the_way_back_where_there_is_one(recall: str, words: str) -> None:
    goal = replace(GOAL, recall=recall)
    text = get_texts(
        apply_stage(ClearStage(), [make_user_message("go"), *make_read_step(1, "a"), make_reply("ok")], goal).pieces[1]
    )[1]
    assert words in text
    assert ("id-0002" in text) == bool(words)


def test_eliding_stops_at_the_target_and_spares_the_tail() -> None:
    history = [make_user_message("go"), *[m for n in range(8) for m in make_read_step(n, f"f{n}")], make_reply("ok")]
    whole = make_draft(history).tokens
    draft = apply_stage(ClearStage(), history, replace(GOAL, stage_target=whole - 800))
    assert get_changes(draft) == [(1, 2, "clear"), (3, 4, "clear")]
    spared = apply_stage(ClearStage(), history, replace(GOAL, tail_budget=whole))
    assert get_changes(spared) == []
    tail = apply_stage(ClearStage(), history, replace(GOAL, tail_budget=1_100))
    assert get_changes(tail)[-1][1] < 14


# -- one line per step ------------------------------------------------------------------------------------------------


def condense_at(history: list[Message], index: int) -> str:
    """The one line for the step at an index, "" if it is no shorter or is none."""
    draft = make_draft(history)
    piece = condense.condense_step(draft, draft.pieces[index], GOAL)
    return get_texts(piece)[0] if piece is not None else ""


def test_what_is_no_step_or_short_does_not_become_a_line() -> None:
    history = [make_user_message("go " * 90), *make_work(1), make_reply("ok")]
    assert condense_at(history, 0) == condense_at(history, len(make_draft(history).pieces) - 1) == ""


def test_a_step_becomes_one_line_with_what_was_called_and_how_it_ended() -> None:
    history = [
        make_user_message("go"),
        *make_read_step(1, "a.py"),
        make_call("e", "sh", "{}", "Trying."),
        make_result("e", FILLER * 9, error=True),
    ]
    lines = [condense_at([*history, make_reply("A long tale. " * 40)], index) for index in (1, 2, 3)]
    assert lines[:2] == [
        '[step] read({"path": "a.py"}) -> ok, 1,909 characters',
        "[step] Trying.; sh({}) -> failed, 828 characters",
    ]
    assert lines[2].startswith("[step] A long tale. A long tale.")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("cd /w &&\n  make check", "cd /w && make check"),
        (["bash", "-lc", "sed -n '1,9p' a.py"], "sed -n '1,9p' a.py"),
        (["apply_patch", "*** Begin Patch\n*** Update File: a.py\n+it's\n*** End Patch"], "apply_patch a.py"),
    ],
)
def test_a_line_tells_a_command_as_it_would_be_typed(command: object, told: str) -> None:
    call = make_call("c", "shell", json.dumps({"command": command}))
    history = [make_user_message("go"), call, make_result("c", "Done. " + FILLER * 9), make_reply("ok")]
    assert condense_at(history, 1) == f"[step] shell({told}) -> ok, 834 characters"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("FAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed\nexit code: 1", "exit 1"),
        ("FAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed", "failed"),
        ("error: no such table\nserving on port 1", "errors in output"),
        ("3 passed in 0.11s", "ok: 3 passed"),
    ],
)
def test_a_line_tells_what_came_of_a_command_where_no_format_flags_it(output: str, told: str) -> None:
    call = make_call("c", "shell", json.dumps({"command": "pytest tests"}))
    body = "\n".join([FILLER] * 9 + [output])
    history = [make_user_message("go"), call, make_result("c", body), make_reply("ok")]
    assert condense_at(history, 1) == f"[step] shell(pytest tests) -> {told}, {len(body):,} characters"


# -- summaries --------------------------------------------------------------------------------------------------------


def test_a_summary_covers_the_prefix_and_the_tail_fills_the_target() -> None:
    history = [make_system_message(), make_user_message("start " * 30), *make_work(8), make_user_message("the request")]
    draft = apply_stage(SummarizePrefixStage(), history, replace(GOAL, target=1_500))
    ((first, last, _),) = [c for c in get_changes(draft) if c[2] == "summary"]
    assert first == 1
    assert 0 < draft.tokens <= 1_500
    piece = next(p for p in draft.pieces if p.kind == "summary")
    assert piece.shown_items[-1] == Substitute(UNWRITTEN_SUMMARY)
    assert piece.sizes[-1] == piece.summary_budget == GOAL.facts_budget + GOAL.summary_overhead
    assert draft.pieces[0].kind == draft.pieces[-1].kind == "keep"
    assert last < len(history) - 3


def test_a_summary_keeps_the_request_and_fitting_user_messages() -> None:
    history = [
        make_user_message("old " * 400),
        make_user_message("a small wish"),
        *make_work(4)[1:],
        make_user_message("the request"),
    ]
    draft = apply_stage(SummarizePrefixStage(), history, replace(GOAL, user_budget=50))
    assert get_changes(draft) == [(0, len(history) - 1, "summary")]
    assert draft.pieces[0].shown_items == (
        KeptOriginal(1),
        KeptOriginal(len(history) - 1),
        Substitute(UNWRITTEN_SUMMARY),
    )


def test_merging_puts_a_parent_over_the_oldest_summaries_of_a_level() -> None:
    session = open_session([make_user_message("go")], build_policy())
    view = session.view
    for number in range(5):
        view = add_summary(view, number)
    draft = apply_stage(MergeStage(4), view, replace(GOAL, facts_budget=300))
    ((first, last, kind),) = get_changes(draft)
    assert kind == "summary"
    merged = next(p for p in draft.pieces if p.is_changed)
    assert sum(u.block_part is not None for u in merged.units) == 4
    assert build_replacements(draft)[0].level == 1
    assert last < max(u.last for u in view.units)
    assert first == view.units[1].first
    assert get_changes(apply_stage(MergeStage(5), view, GOAL)) == []


def add_summary(view: View, number: int) -> View:
    """The view after one more exchange, that exchange alone being covered by a summary of its own."""
    start_at = view.length
    for offset, message in enumerate([*make_read_step(number, f"f{number}"), make_reply("Done. " * 30)]):
        entry = MessageEntry(f"s-{number}-{offset}", None, "", 0, message)
        view.path.append(entry)
        view = view.extend((entry,))
    draft = make_draft(view)
    index = next(i for i, p in enumerate(draft.pieces) if p.first == start_at)
    draft = draft.with_piece(
        index,
        condense.build_summary(draft, draft.pieces[index:], draft.protected, Counted(120)),
        until=len(draft.pieces),
    )
    block = Block(f"b-{number}", None, "", 0, "p", COUNTER.name, build_replacements(draft))
    view.path.append(block)
    return view.extend((block,))


# -- what is held -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES, ids=lambda s: s.name)
def test_what_is_held_stays_in_view_word_for_word(stage: Stage) -> None:
    history = [
        make_system_message(),
        make_user_message("first"),
        *make_read_step(1, "a"),
        *make_work(6),
        *make_read_step(90, "a"),
        make_user_message("the request"),
        *make_read_step(91, "b"),
    ]
    view = build_pinned_view(history, 3, 8)
    plan = build_plan(make_draft(view), replace(GOAL, target=100, stage_target=100, narrative_budget=40), (stage,))
    shown = [
        s
        for p in plan.draft.pieces
        for s in (p.shown_items if p.is_changed else tuple(KeptOriginal(m.position) for m in p.get_visible_messages()))
    ]
    kept = {s.position for s in shown if isinstance(s, KeptOriginal)}
    assert {0, 2, 3, history.index(make_user_message("the request"))} <= kept
    assert {7, 8} <= kept or {8, 9} <= kept


@pytest.mark.parametrize("stage", [*STAGES, MergeStage()], ids=lambda s: s.name)
def test_no_stage_touches_the_open_step_or_needs_anything_to_be_there(stage: Stage) -> None:
    for history in ([], [make_user_message("go")], [make_call("open")], [make_system_message()]):
        draft = make_draft(history)
        assert build_plan(draft, GOAL, (stage,)).draft.pieces == draft.pieces
    draft = apply_stage(stage, [*make_work(6), make_call("open")])
    assert all(p.last < draft.view.length - 1 for p in draft.pieces)


# -- plans ------------------------------------------------------------------------------------------------------------


def test_stages_stop_when_the_target_is_reached() -> None:
    draft = make_draft([*make_work(8), make_user_message("go on")])
    goal = replace(GOAL, target=draft.tokens - 500, stage_target=draft.tokens - 500)
    plan = build_plan(draft, goal, STAGES)
    assert [s.stage for s in plan.stage_results] == ["superseded-reads"]
    assert plan.tokens_after <= goal.stage_target


@pytest.mark.parametrize(
    "stage", [ClearStage(), TruncateStage(max_tokens=10, max_lines=2), SupersededReadsStage()], ids=lambda s: s.name
)
def test_a_planned_summary_is_left_alone_by_the_stages_after_it(stage: Stage) -> None:
    for history in (make_read_step(3, "a.py"), [*make_read_step(3, "a.py"), *make_read_step(4, "a.py")], make_work(2)):
        planned = build_plan(
            make_draft([make_system_message(), *history]),
            replace(GOAL, target=1, stage_target=1),
            (SummarizePrefixStage(),),
        ).draft
        assert any(p.summary_budget for p in planned.pieces) == any(p.kind == "summary" for p in planned.pieces)
        after = stage.apply(planned, replace(GOAL, target=1, stage_target=1))
        assert [p for p in after.pieces if p.summary_budget] == [p for p in planned.pieces if p.summary_budget]


class Larger:
    """A stage that makes the view larger."""

    name = "larger"
    structural = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002
        piece = draft.pieces[0]
        return draft.with_piece(
            0, replace(piece, kind="larger", shown_items=(KeptOriginal(0),), tokens=piece.tokens + 99)
        )


def test_a_stage_that_does_not_shrink_the_view_is_discarded_and_said_so() -> None:
    plan = build_plan(make_draft(make_work(4)), GOAL, (Larger(), ClearStage()))
    assert [(s.stage, s.kept) for s in plan.stage_results] == [("larger", False), ("clear", True)]
    assert "stage larger: " in plan.explain()
    assert "(discarded: it saves nothing)" in plan.explain()
    assert "larger" not in {p.kind for p in plan.draft.pieces}


def test_explain_prints_every_range_once_with_its_tokens() -> None:
    view = build_pinned_view([make_system_message(), *make_work(6), make_user_message("go"), make_call("open")], 6)
    plan: Plan = build_plan(
        make_draft(view), replace(GOAL, target=1_200, stage_target=1_200), (SupersededReadsStage(), ClearStage())
    )
    lines = plan.explain().splitlines()
    assert lines[0] == f"plan: {plan.tokens_before:,} -> at most {plan.tokens_after:,} tokens (target 1,200)"
    told: list[int] = []
    for line in lines:
        head = line.strip().split("  ")[0]
        if line.startswith("  ") and head != "open step":
            first, _, last = head.partition("..")
            told.extend(range(int(first), int(last or first) + 1))
    assert told == [n for p in plan.draft.pieces for n in range(p.first, p.last + 1)]
    assert "(system prompt)" in plan.explain()
    assert "(pinned)" in plan.explain()
    assert "(current request)" in plan.explain()
    assert lines[-1].startswith("  open step  keep  ")


def test_an_elision_over_an_older_block_lies_one_level_higher() -> None:
    session = open_session(make_work(8), build_policy(stages=(TruncateStage(max_tokens=100, max_lines=6),)))
    session.compact(to=3_000)
    session.compactor.use_policy(build_policy(stages=(ClearStage(),)))
    session.compact(to=1_000)
    first, second = get_blocks(session)
    twice = {(r.first, r.last) for r in first.replacements}
    levels = {r.level for r in second.replacements if (r.first, r.last) in twice}
    assert levels == {1}
    assert {r.level for r in first.replacements} == {0}


def test_a_cleared_output_quotes_what_a_program_said_last_and_no_prompt() -> None:
    output = (
        "collected 30 items\n" + "tests pass one after the other\n" * 60 + "Ran 30 tests: OK\n(Open file: n/a)\nbash-$"
    )
    steps = [make_call("c1"), make_result("c1", output), *make_work(6)]
    session = open_session([make_user_message("Test it."), *steps], build_policy(stages=(ClearStage(),)))
    assert session.compact(to=1_000).status == "compacted"
    texts = [get_text(message) for message in session.view.get_messages()]
    assert any("first line: collected 30 items; last line: Ran 30 tests: OK]" in text for text in texts), texts
