"""Each stage on made-up views: what exactly becomes of what, what stays, and that no stage makes the view larger."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tenfold.meter.counters import sizes
from tenfold.plan.draft import TO_BE_WRITTEN, Draft, Goal, Piece, replacements, start
from tenfold.plan.plan import Plan, Stage, pick
from tenfold.plan.stages import Clear, DropMiddle, Merge, OneLine, SummarizePrefix, SupersededReads, Truncate, condense
from tenfold.record.block import Block, Keep, Say
from tenfold.record.entry import Pin, Said
from tenfold.record.message import Image, Message, Text, ToolCall, ToolResult, calls_of, result_of, text_of
from tenfold.view.path import Path
from tenfold.view.view import View
from tests.engine.making import (
    COUNTER,
    FILLER,
    bench,
    blocks,
    called,
    edited,
    gave,
    opened,
    path_of,
    policy,
    read,
    said,
    system,
    user,
    view_of,
    work,
)

GOAL = Goal(target=0, stop=0, tail=0, users=0, facts=60, narrative=60)
STAGES: tuple[Stage, ...] = (
    SupersededReads(), Truncate(), Clear(), OneLine(), DropMiddle(), SummarizePrefix(), SummarizePrefix(keep_tail=False)
)  # fmt: skip


def draft_of(view: View | list[Message]) -> Draft:
    view = view if isinstance(view, View) else view_of(view)
    return start(view, bench().sizes.each, lambda messages: sizes(messages, COUNTER))


def applied(stage: Stage, view: View | list[Message], goal: Goal = GOAL) -> Draft:
    return stage.apply(draft_of(view), goal)


def changed(draft: Draft) -> list[tuple[int, int, str]]:
    return [(p.first, p.last, p.kind) for p in draft.pieces if p.changed]


def texts(piece: Piece) -> list[str]:
    return [text_of(s.message) if isinstance(s, Say) else f"keep {s.position}" for s in piece.show]


def pinned(messages: list[Message], *positions: int) -> View:
    path = path_of(messages)
    for position in positions:
        path.append(Pin(f"pin-{position}", None, "", 0, path.at(position).id, position))
    return View.of(path)


# -- superseded reads -------------------------------------------------------------------------------------------------


def test_a_read_is_superseded_by_a_later_read_or_change_of_the_same_file_only() -> None:
    history = [user("go"), *read(1, "a.py"), *read(2, "b.py"), *read(3, "a.py"), *edited(4, "b.py"), *read(5, "c.py")]
    draft = applied(SupersededReads(), history)
    assert changed(draft) == [(1, 2, "superseded-reads"), (3, 4, "superseded-reads")]
    first = draft.pieces[1]
    assert first.show[0] == Keep(1)
    assert isinstance(first.show[1], Say)
    assert first.show[1].of == 2
    assert texts(first)[1].startswith("[superseded: a.py was read or changed again later; ")
    assert first.tokens == sum(first.sizes) < first.before


def test_what_replaces_a_superseded_read_names_the_file_and_leaves_its_folder_to_the_call() -> None:
    path = "/home/me/project/src/app.py"
    draft = applied(SupersededReads(), [user("go"), *read(1, path), *edited(2, path), *read(3, "b.py")])
    assert path in calls_of(draft.pieces[1].shown()[0].message)[0].arguments
    assert texts(draft.pieces[1])[1].startswith("[superseded: app.py was read or changed again later; ")


def test_a_failed_read_is_not_superseded() -> None:
    history = [user("go"), called("x", "read", '{"path": "a"}'), gave("x", FILLER * 9, error=True), *read(2, "a")]
    assert changed(applied(SupersededReads(), history)) == []


@pytest.mark.parametrize(
    ("call", "output"),
    [
        (called("x", "read", '{"path": "a.py"}'), "Error: EACCES: permission denied, open 'a.py'"),
        (called("x", "edit", '{"path": "a.py", "old": "a"}'), "Error: old_string not found; nothing was changed"),
        (called("x", "bash", '{"command": "sed -i s/a/b/ a.py"}'), "sed: no write permission\nexit code: 4"),
        (called("x", "read_text_file", '{"path": "a.py", "head": 3}'), "0 nothing else"),
        (called("x", "read_file", '{"path": "a.py", "start_line_one_indexed": 9}'), "0 nothing else"),
        (called("x", "view_file", '{"path": "a.py", "StartLine": 9, "EndLine": 12}'), "0 nothing else"),
        (called("x", "bash", '{"command": "head -3 a.py && touch b.py"}'), "0 nothing else"),
        (called("x", "read", '{"path": "a.py"}'), "File unchanged since last read; see the earlier output."),
    ],
)
def test_a_call_that_failed_or_read_a_part_supersedes_nothing(call: Message, output: str) -> None:
    history = [user("go"), *read(1, "a.py"), call, gave("x", output), said("ok")]
    assert changed(applied(SupersededReads(), history)) == []


def test_a_change_that_was_made_before_a_command_failed_supersedes() -> None:
    call = called("x", "bash", '{"command": "sed -i s/a/b/ a.py && pytest"}')
    draft = applied(SupersededReads(), [user("go"), *read(1, "a.py"), call, gave("x", "1 failed\nexit code: 1")])
    assert changed(draft) == [(1, 2, "superseded-reads")]


# -- truncate, clear --------------------------------------------------------------------------------------------------


def test_truncate_keeps_head_and_tail_and_states_the_gap() -> None:
    body = "\n".join(f"line {n} of the output, which is long enough" for n in range(400))
    draft = applied(Truncate(), [user("go"), called("x"), gave("x", body), said("ok")])
    assert changed(draft) == [(1, 2, "truncate")]
    kept = texts(draft.pieces[1])[1]
    assert kept.startswith("line 0 of")
    assert kept.endswith("line 399 of the output, which is long enough")
    head, _, rest = kept.partition("\n[... ")
    gone = int(rest.split(" lines removed")[0].replace(",", ""))
    assert gone == 400 - head.count("\n") - 1 - rest.partition("...]\n")[2].count("\n") - 1


def test_truncate_leaves_what_is_below_its_bound() -> None:
    assert changed(applied(Truncate(), [user("go"), *read(1, "a", words=20)])) == []


def test_truncate_bounds_one_endless_line() -> None:
    draft = applied(Truncate(), [user("go"), called("x"), gave("x", "x" * 90_000), said("ok")])
    assert draft.tokens < 1_000


SCREEN = Image(media="image/png", data="aGk=")


def test_truncate_keeps_what_is_no_text() -> None:
    body = Text("\n".join(f"line {n} of the output, which is long enough" for n in range(400)))
    result = Message("tool", (ToolResult("x", "read", (body, SCREEN)),), "tool")
    written = Message("user", (body, SCREEN), "tool")
    draft = applied(Truncate(), [user("go"), called("x"), result, said("ls"), written, said("ok")])
    for say in (show for piece in draft.pieces for show in piece.show if isinstance(show, Say)):
        output = result_of(say.message)
        assert [type(part) for part in (output.content if output else say.message.parts)] == [Text, Image]
        assert " lines removed ...]" in text_of(say.message)
    assert changed(draft) == [(1, 2, "truncate"), (4, 4, "truncate")]


def test_clear_names_what_is_no_text() -> None:
    result = Message("tool", (ToolResult("x", "read", (Text(FILLER * 9), SCREEN, SCREEN)),), "tool")
    draft = applied(Clear(), [user("go"), called("x"), result, said("ok")])
    assert texts(draft.pieces[1])[1].startswith("[output removed: 1 lines and 2 parts not of text, ")


def test_clear_names_size_and_first_line_and_leaves_errors() -> None:
    history = [user("go"), *read(1, "a"), called("e", "sh"), gave("e", FILLER * 9, error=True), said("ok")]
    draft = applied(Clear(), history)
    assert changed(draft) == [(1, 2, "clear")]
    assert texts(draft.pieces[1])[1].startswith("[output removed: 20 lines, ")
    assert "first line: 0 nothing else" in texts(draft.pieces[1])[1]


def test_parallel_results_are_elided_one_by_one_and_the_rest_of_the_step_is_kept() -> None:
    call = Message("assistant", (ToolCall("a", "read"), ToolCall("b", "read")), "model")
    results = [
        Message("tool", (ToolResult(i, "read", (Text(t),)),), "tool") for i, t in (("a", FILLER * 20), ("b", "ok"))
    ]
    draft = applied(Clear(), [user("go"), call, *results, said("done")])
    assert changed(draft) == [(1, 3, "clear")]
    assert [type(s) for s in draft.pieces[1].show] == [Keep, Say, Keep]


@pytest.mark.parametrize(
    ("recall", "words"), [("none", ""), ("cli", "`tenfold expand id-0002`"), ("tool", 'entry="id-0002"')]
)
def test_stubs_name_the_way_back_where_there_is_one(recall: str, words: str) -> None:
    goal = replace(GOAL, recall=recall)
    text = texts(applied(Clear(), [user("go"), *read(1, "a"), said("ok")], goal).pieces[1])[1]
    assert words in text
    assert ("id-0002" in text) == bool(words)


def test_eliding_stops_at_the_target_and_spares_the_tail() -> None:
    history = [user("go"), *[m for n in range(8) for m in read(n, f"f{n}")], said("ok")]
    whole = draft_of(history).tokens
    draft = applied(Clear(), history, replace(GOAL, stop=whole - 800))
    assert changed(draft) == [(1, 2, "clear"), (3, 4, "clear")]
    spared = applied(Clear(), history, replace(GOAL, tail=whole))
    assert changed(spared) == []
    tail = applied(Clear(), history, replace(GOAL, tail=1_100))
    assert changed(tail)[-1][1] < 14


# -- one line per step, drop middle -----------------------------------------------------------------------------------


def test_a_step_becomes_one_line_with_what_was_called_and_how_it_ended() -> None:
    history = [user("go"), *read(1, "a.py"), called("e", "sh", "{}", "Trying."), gave("e", FILLER * 9, error=True)]
    draft = applied(OneLine(), [*history, said("A long tale. " * 40)])
    assert changed(draft) == [(1, 2, "one-line"), (3, 4, "one-line"), (5, 5, "one-line")]
    assert texts(draft.pieces[1]) == ['[step] read({"path": "a.py"}) -> ok, 1,909 characters']
    assert texts(draft.pieces[2]) == ["[step] Trying.; sh({}) -> failed, 828 characters"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("cd /w &&\n  make check", "cd /w && make check"),
        (["bash", "-lc", "sed -n '1,9p' a.py"], "sed -n '1,9p' a.py"),
        (["apply_patch", "*** Begin Patch\n*** Update File: a.py\n+it's\n*** End Patch"], "apply_patch a.py"),
    ],
)
def test_a_line_tells_a_command_as_it_would_be_typed(command: object, told: str) -> None:
    call = called("c", "shell", json.dumps({"command": command}))
    draft = applied(OneLine(), [user("go"), call, gave("c", FILLER * 9), said("ok")])
    assert texts(draft.pieces[1]) == [f"[step] shell({told}) -> ok, 828 characters"]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("FAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed\nexit code: 1", "exit 1"),
        ("FAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed", "errors in output"),
        ("3 passed in 0.11s", "ok: 3 passed"),
    ],
)
def test_a_line_tells_what_came_of_a_command_where_no_format_flags_it(output: str, told: str) -> None:
    call = called("c", "shell", json.dumps({"command": "pytest tests"}))
    body = "\n".join([FILLER] * 9 + [output])
    draft = applied(OneLine(), [user("go"), call, gave("c", body), said("ok")])
    assert texts(draft.pieces[1]) == [f"[step] shell(pytest tests) -> {told}, {len(body):,} characters"]


def test_one_line_stops_at_the_target() -> None:
    history = work(8)
    whole = draft_of(history).tokens
    draft = applied(OneLine(), history, replace(GOAL, stop=whole - 900))
    assert whole - 900 >= draft.tokens > whole - 1_600


def test_the_middle_is_dropped_between_the_first_exchange_and_the_tail() -> None:
    history = [
        user("first"),
        said("one"),
        user("second"),
        *[m for n in range(8) for m in read(n, "a")],
        user("last"),
        said("x"),
    ]
    draft = applied(DropMiddle(), history, replace(GOAL, target=700))
    ((first, last, kind),) = changed(draft)
    assert (first, kind) == (2, "drop-middle")
    assert draft.tokens <= 700
    assert last < len(history) - 3
    assert texts(draft.pieces[2])[-1].startswith(f"[{last - first + 1} messages removed here, ")


# -- summaries --------------------------------------------------------------------------------------------------------


def test_a_summary_covers_the_prefix_and_the_tail_fills_the_target() -> None:
    history = [system(), user("start " * 30), *work(8), user("the request")]
    draft = applied(SummarizePrefix(), history, replace(GOAL, target=1_500))
    ((first, last, _),) = [c for c in changed(draft) if c[2] == "summary"]
    assert first == 1
    assert 0 < draft.tokens <= 1_500
    piece = next(p for p in draft.pieces if p.kind == "summary")
    assert piece.show[-1] == Say(TO_BE_WRITTEN)
    assert piece.sizes[-1] == piece.allotment == GOAL.facts + GOAL.frame
    assert draft.pieces[0].kind == draft.pieces[-1].kind == "keep"
    assert last < len(history) - 3


def test_summarize_all_covers_everything_closed_and_keeps_the_request_and_fitting_user_messages() -> None:
    history = [user("old " * 400), user("a small wish"), *work(4)[1:], user("the request")]
    draft = applied(SummarizePrefix(keep_tail=False), history, replace(GOAL, users=50))
    assert changed(draft) == [(0, len(history) - 1, "summary")]
    assert draft.pieces[0].show == (Keep(1), Keep(len(history) - 1), Say(TO_BE_WRITTEN))


def test_merging_puts_a_parent_over_the_oldest_summaries_of_a_level() -> None:
    session = opened([user("go")], policy(stages=(SummarizePrefix(keep_tail=False),)))
    view = session.view
    for number in range(5):
        view = summarized(view, number)
    draft = applied(Merge(), view, replace(GOAL, fan_out=4, facts=300))
    ((first, last, kind),) = changed(draft)
    assert kind == "summary"
    merged = next(p for p in draft.pieces if p.changed)
    assert sum(u.ref is not None for u in merged.units) == 4
    assert merged.level == 1
    assert last < max(u.last for u in view.units)
    assert first == view.units[1].first
    assert changed(applied(Merge(), view, replace(GOAL, fan_out=5))) == []


def summarized(view: View, number: int) -> View:
    """The view after one more exchange, that exchange alone being covered by a summary of its own."""
    start_at = view.length
    for offset, message in enumerate([*read(number, f"f{number}"), said("Done. " * 30)]):
        entry = Said(f"s-{number}-{offset}", None, "", 0, message)
        view.path.append(entry)
        view = view.extend((entry,))
    draft = draft_of(view)
    index = next(i for i, p in enumerate(draft.pieces) if p.first == start_at)
    draft = draft.swap(index, condense.summarized(draft, draft.pieces[index:], {}, 120), until=len(draft.pieces))
    block = Block(f"b-{number}", None, "", 0, "p", COUNTER.name, replacements(draft))
    view.path.append(block)
    return view.extend((block,))


# -- what is held -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES, ids=lambda s: s.name)
def test_what_is_held_stays_in_view_word_for_word(stage: Stage) -> None:
    history = [system(), user("first"), *read(1, "a"), *work(6), *read(90, "a"), user("the request"), *read(91, "b")]
    view = pinned(history, 3, 8)
    plan = pick(draft_of(view), replace(GOAL, target=100, stop=100, narrative=40), (stage,))
    shown = [s for p in plan.draft.pieces for s in (p.show if p.changed else tuple(Keep(m.at) for m in p.shown()))]
    kept = {s.position for s in shown if isinstance(s, Keep)}
    assert {0, 2, 3, history.index(user("the request"))} <= kept
    assert {7, 8} <= kept or {8, 9} <= kept


@pytest.mark.parametrize("stage", [*STAGES, Merge()], ids=lambda s: s.name)
def test_no_stage_touches_the_open_step_or_needs_anything_to_be_there(stage: Stage) -> None:
    for history in ([], [user("go")], [called("open")], [system()]):
        draft = draft_of(history)
        assert pick(draft, GOAL, (stage,)).draft.pieces == draft.pieces
    draft = applied(stage, [*work(6), called("open")])
    assert all(p.last < draft.view.length - 1 for p in draft.pieces)


# -- plans ------------------------------------------------------------------------------------------------------------


def test_stages_stop_when_the_target_is_reached() -> None:
    draft = draft_of([*work(8), user("go on")])
    goal = replace(GOAL, target=draft.tokens - 500, stop=draft.tokens - 500)
    plan = pick(draft, goal, STAGES)
    assert [s.stage for s in plan.steps] == ["superseded-reads"]
    assert plan.tokens_after <= goal.stop


@pytest.mark.parametrize(
    "stage", [OneLine(), Clear(), Truncate(over=10, lines=2), SupersededReads()], ids=lambda s: s.name
)
def test_a_planned_summary_is_left_alone_by_the_stages_after_it(stage: Stage) -> None:
    for history in (read(3, "a.py"), [*read(3, "a.py"), *read(4, "a.py")], work(2)):
        planned = pick(draft_of([system(), *history]), replace(GOAL, target=1, stop=1), (SummarizePrefix(),)).draft
        assert any(p.allotment for p in planned.pieces) == any(p.kind == "summary" for p in planned.pieces)
        after = stage.apply(planned, replace(GOAL, target=1, stop=1))
        assert [p for p in after.pieces if p.allotment] == [p for p in planned.pieces if p.allotment]


class Larger:
    """A stage that makes the view larger."""

    name = "larger"
    structural = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002
        piece = draft.pieces[0]
        return draft.swap(0, replace(piece, kind="larger", show=(Keep(0),), tokens=piece.tokens + 99))


def test_a_stage_that_does_not_shrink_the_view_is_discarded_and_said_so() -> None:
    plan = pick(draft_of(work(4)), GOAL, (Larger(), Clear()))
    assert [(s.stage, s.kept) for s in plan.steps] == [("larger", False), ("clear", True)]
    assert "stage larger: " in plan.explain()
    assert "(discarded: it saves nothing)" in plan.explain()
    assert "larger" not in {p.kind for p in plan.draft.pieces}


def test_explain_prints_every_range_once_with_its_tokens() -> None:
    view = pinned([system(), *work(6), user("go"), called("open")], 6)
    plan: Plan = pick(draft_of(view), replace(GOAL, target=1_200, stop=1_200), (SupersededReads(), OneLine()))
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
    session = opened(work(8), policy(stages=(Truncate(over=100, lines=6),)))
    session.compact(to=3_000)
    session.policy = policy(stages=(Clear(),))
    session.compact(to=1_000)
    first, second = blocks(session)
    twice = {(r.first, r.last) for r in first.replacements}
    levels = {r.level for r in second.replacements if (r.first, r.last) in twice}
    assert levels == {1}
    assert {r.level for r in first.replacements} == {0}


def test_draft_path_is_untouched_by_planning() -> None:
    path: Path = path_of(work(6))
    pick(draft_of(View.of(path)), GOAL, STAGES)
    assert path.length == len(work(6))
