"""The report as a page, the goals and the prose: computed from the result, and safe whatever stands in a session."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.apps.cli.main import run
from tenfold_yardstick.asked_sessions import BESIDE, AskedSession, read_asked_session
from tenfold_yardstick.goals import judge_goals
from tenfold_yardstick.gold_answers import AnswerCounts, count_answers
from tenfold_yardstick.gold_answers import build_tables as answers_tables
from tenfold_yardstick.method_comparison import build_total_tables, count_planted_rules
from tenfold_yardstick.methods import get_methods
from tenfold_yardstick.page import TERMS, render_page
from tenfold_yardstick.page import build_tables as tables_of
from tenfold_yardstick.plots import choose_highlighted, draw_charts
from tenfold_yardstick.quality_report import Yardstick, build_tables
from tenfold_yardstick.replay import SessionReplay
from tenfold_yardstick.scores import ProbeTally, Quality
from tenfold_yardstick.tables import Table
from tenfold_yardstick.verdict import build_behind_table, list_rankings, write_verdict
from tests.shape.scan import ROOT
from tests.yardstick.yardsticks import KEPT, OTHER, PEER, make_quality, make_replayed, make_yardstick
from yardstick.scripts.measure import remove_paths, render_document, render_table

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m{{ 7*7 }}"
VOID = {"meta", "img", "br", "hr", "link", "input"}
PAGE = ROOT / "docs" / "yardstick.md"
CHANGELOG = ROOT / "CHANGELOG.md"


class Read(HTMLParser):
    """What a browser would make of a page: its elements with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def make_hostile_yardstick() -> Yardstick:
    """Every name and reason is what someone wrote who means harm."""
    made = make_yardstick(HOSTILE)
    assert made.quality is not None
    lost = tuple(replace(p, unable=f"{HOSTILE} sk-ant-api03-{'Q7' * 20}") for p in made.quality.probes[-2:])
    return replace(made, quality=replace(made.quality, probes=made.quality.probes[:-2] + lost))


@cache
def read_whole_page() -> tuple[str, Read]:
    text = render_page(make_yardstick(), command="make yardstick", has_goals=True)
    return text, Read(text)


def test_the_page_holds_every_part_and_is_well_formed() -> None:
    _, read = read_whole_page()
    assert read.open == []
    assert sum(tag == "svg" for tag, _ in read.elements) == len(draw_charts(make_yardstick()))
    said = " ".join(read.said)
    for part in ("Goals", "Where another method is better", "Future-use recall", "window 10,000", "A turn", "Search"):
        assert part in said
    for fact in ("2026-11-22", "Tenfold 0.1.0", "o200k", "2 cores", "make yardstick", "1.4.7"):
        assert fact in said
    assert "is first of 6 methods" in said
    assert "reading.md" not in said, "links lead nowhere from a page that stands alone"


def test_the_reading_test_opens_the_page_and_the_document() -> None:
    _, read = read_whole_page()
    assert read.said.index("Can a reader go on from it?") < read.said.index("What a compaction keeps")
    text = render_document(make_yardstick(), ())
    assert text.index("## Can a reader go on from it?") < text.index("## Is Tenfold first?")
    assert "| tenfold | 0.750 |" in text
    assert "Can a reader" not in render_document(replace(make_yardstick(), reading=None), ())


def test_the_page_explains_its_columns_and_no_others() -> None:
    columns = {name for part in tables_of(make_yardstick()).values() for table in part for name in table.columns}
    assert set(TERMS) - columns == set()
    _, read = read_whole_page()
    assert [name for name, meaning in TERMS.items() if name not in read.said or meaning not in read.said] == []
    alone = Read(render_page(Yardstick(speed=make_yardstick().speed), command="make yardstick")).said
    assert TERMS["way"] in alone
    assert TERMS["refetch"] not in alone


def test_what_stands_in_a_session_is_text_on_the_page() -> None:
    text = render_page(make_hostile_yardstick(), command=f"tenfold eval {HOSTILE}", has_goals=True)
    read = Read(text)
    names = {tag for tag, _ in read.elements}
    assert names.isdisjoint({"script", "img", "link", "iframe", "object", "form"})
    attributes = [(name, value or "") for _, found in read.elements for name, value in found.items()]
    assert [name for name, _ in attributes if name.startswith("on")] == []
    assert [v for name, v in attributes if name in ("src", "href", "xlink:href") and not v.startswith("#")] == []
    assert "<script>alert(1)</script>" in " ".join(read.said)
    assert "{{ 7*7 }}" in " ".join(read.said)
    assert "\x1b" not in text
    assert "Q7Q7" not in text


def test_the_page_loads_nothing() -> None:
    text, _ = read_whole_page()
    assert re.findall(r"url\((?!#)|@import|https?://(?!www\.w3\.org/)", text) == []
    assert "default-src 'none'" in text


@pytest.mark.parametrize("part", ["quality", "replay", "speed", "search", ""])
def test_any_part_may_be_missing(part: str) -> None:
    made = Yardstick(**{part: getattr(make_yardstick(), part)}) if part else Yardstick()
    read = Read(render_page(made, command="make yardstick", has_goals=True))
    assert read.open == []
    assert "How to repeat this" in read.said
    anchors = [found["href"] for tag, found in read.elements if tag == "a"]
    shown = {"quality": "#recall", "replay": "#replay", "speed": "#speed", "search": "#search"}
    assert set(anchors) & set(shown.values()) == ({shown[part]} if part else set())


def test_probes_and_validity_are_shown_where_no_fact_was_needed() -> None:
    unneeded = replace(make_quality(), recall=())
    read = Read(render_page(Yardstick(unneeded), command="make yardstick"))
    titles = [table.title for table in build_tables(unneeded)]
    assert "Typed probes at a tenth of the past" in titles
    assert [title for title in titles if title not in read.said] == []
    assert [each.name for each in draw_charts(Yardstick(unneeded))] == ["probes-by-type"]
    assert choose_highlighted(unneeded)[0] == "tenfold"


# -- goals and prose ---------------------------------------------------------------------------------------------------


def get_verdicts(made: Yardstick) -> dict[str, tuple[str, str]]:
    return {goal.subject: (goal.result, goal.verdict) for goal in judge_goals(made)}


AREA = "future-use recall, area over the budgets, view alone"
BILL = "bill of a replay, window 10,000, claude-sonnet-4-5"
ALONE = "of the methods never refused no other is that near in recall; the next,"
LEAD = "how far that area is above the best of the other projects"


def test_goals_are_judged_from_the_result() -> None:
    found = get_verdicts(make_yardstick())
    assert found[AREA] == ("0.933; best other: tail 0.750", "met")
    assert found[LEAD] == (f"+0.283 ({PEER} 0.650)", "met")
    assert found["typed probes at 10 %: constraints"] == ("4 of 4 (100.0 %)", "met")
    assert found["typed probes at 10 %, after 10 compactions: constraints"][1] == "met"
    assert found["typed probes at 10 %: numbers"] == ("4 of 5 (80.0 %)", "met")
    assert found["typed probes at 10 %: errors"][1] == "not measured"
    assert found[BILL] == (f"$2.00; {ALONE} tail 0.750, $2.50", "met")
    assert found["overhead per turn at 10,000 messages: tenfold, given by `append`"][0].startswith("300 x")
    assert found["overhead per turn at 10,000 messages: tenfold, given by `sync`"][1] == "not met"
    assert found["what calls wait for a compaction, summary in the background"][1] == "met"
    assert found["search, recall at 10"] == ("1.000; BM25 0.000", "met")
    assert {verdict for _, verdict in get_verdicts(Yardstick()).values()} == {"not measured"}


def test_a_goal_that_is_missed_is_said() -> None:
    made = make_yardstick(kept=KEPT | {PEER: 9})
    found = get_verdicts(made)
    assert found[AREA] == (f"0.933; best other: {PEER} 0.983", "not met")
    assert found[LEAD][1] == "not met"
    assert found[BILL] == (f"$2.00; cheapest other: {PEER} 0.983, $1.00", "not met")
    assert made.quality is not None
    flawed = replace(made.quality.probes[0], false=3, gates={"orphan call": 2})
    assert flawed.method == "tenfold"
    bad = get_verdicts(replace(made, quality=replace(made.quality, probes=(flawed, *made.quality.probes[1:]))))
    assert bad["validity, all of Tenfold's policies"] == ("orphan call 2", "not met")
    assert bad["false facts, all of Tenfold's policies"][1] == "not met"


def test_stale_facts_are_those_of_the_policy_tenfold_and_the_other_presets_are_told() -> None:
    assert get_verdicts(make_yardstick())["stale facts, policy tenfold"] == (
        "0 in 2 views; other presets 0 in 2 views",
        "met",
    )
    made = make_quality()
    outdated = (ProbeTally("outcome", 1, 4, 1, 3, 4),)
    presets = tuple(replace(p, tallies=outdated) if p.method == "tail" else p for p in made.probes)
    found = get_verdicts(Yardstick(replace(made, probes=presets)))
    assert found["stale facts, policy tenfold"] == ("0 in 2 views; other presets 6 in 2 views", "met")
    ours = replace(made, methods=("tenfold",), probes=tuple(p for p in made.probes if p.method == "tenfold"))
    assert get_verdicts(Yardstick(ours))["stale facts, policy tenfold"] == ("0 in 2 views", "met")


def test_rules_planted_into_the_past_have_goals_and_places() -> None:
    found = get_verdicts(make_yardstick())
    for after in ("", ", after 10 compactions"):
        goal = found[f"planted constraints at 10 %{after}: top, middle, bottom"]
        assert goal == ("3 of 3: top 1 of 1, middle 1 of 1, bottom 1 of 1", "met")
    lost = make_yardstick(kept=KEPT | {"tenfold": 5, PEER: 6})
    assert get_verdicts(lost)["planted constraints at 10 %: top, middle, bottom"] == (
        "2 of 3: top 0 of 1, middle 1 of 1, bottom 1 of 1",
        "not met",
    )
    rows = {row[0]: row[1:] for row in build_behind_table(lost).rows}
    for after in ("", ", after 10 compactions"):
        assert rows[f"planted constraints at 10 %{after}: top"] == ("0.000", f"{PEER} 1.000", f"{PEER} 1.000", "2")
        assert f"planted constraints at 10 %{after}: middle" not in rows
    gone = make_quality()
    unable = replace(gone, probes=tuple(replace(p, planted={}, unable="no") for p in gone.probes))
    assert count_planted_rules(unable.probes, rounds=1) == {}
    half = (replace(unable.probes[0], session="two.jsonl"), *gone.probes)
    assert count_planted_rules(half, rounds=1)["tenfold"]["top"] == (1, 2), "without a result nothing is kept"
    unplanted = replace(gone, probes=tuple(replace(p, planted={}) for p in gone.probes))
    assert get_verdicts(Yardstick(unplanted))["planted constraints at 10 %: top, middle, bottom"][1] == "not measured"


def test_a_method_whose_requests_are_refused_is_not_the_cheapest() -> None:
    made = make_yardstick(kept=KEPT | {PEER: 8})
    assert made.replay is not None
    refused = tuple(replace(p, overflows=p.method == PEER) for p in made.replay.played)
    found = get_verdicts(replace(made, replay=replace(made.replay, played=refused)))
    assert found[BILL] == (f"$2.00; {ALONE} tail 0.750, $2.50", "met")


def test_the_prose_says_who_is_first_and_by_how_much() -> None:
    said = write_verdict(make_yardstick())
    assert said[0].endswith("does not show whether anybody could go on from them."), "what it cannot see stands first"
    first = "By this count, Tenfold's policy `tenfold` is first of 6 methods: an area of 0.933 over "
    assert said[1] == f"{first}1 cut of 1 session."
    assert said[2].startswith(f"`tenfold` is 0.283 above the best of the other projects, `{PEER}`")
    said = write_verdict(make_yardstick(kept=KEPT | {OTHER: 10}))
    assert "is number 2 of 6 methods" in said[1]
    assert said[2].startswith(f"`tenfold` is 0.067 below the best of the other projects, `{OTHER}`")
    assert write_verdict(Yardstick()) == []


def test_a_peer_has_the_place_of_the_better_stand_in_and_a_control_has_none() -> None:
    made = make_yardstick(kept=KEPT | {"name-list": 9, "full-past": 10, f"{PEER}+names": 9})
    said = write_verdict(made)
    assert said[0].endswith("a bare list of names has 0.983, and more than `tenfold` at 4k, 8k.")
    assert "is number 2 of 6 methods" in said[1]
    assert f"by up to 0.333 (`{PEER}`, 0.650 or 0.983)" in said[2]
    assert said[3].startswith(f"`tenfold` is 0.050 below the best of the other projects, `{PEER}+names`")
    assert get_verdicts(made)[AREA] == (f"0.933; best other: {PEER}+names 0.983", "not met")
    behind = {row[0]: row[1:] for row in build_behind_table(made).rows}
    assert behind["future-use recall at 4k"] == ("0.800", f"{PEER}+names 0.900", f"{PEER}+names 0.900", "1")


def test_many_sessions_of_one_file_do_not_decide() -> None:
    """Nine short chats of one file need as much as two long sessions of two others."""
    chats = [make_quality(KEPT | {"tenfold": 9}, session=f"chats.json#{n}") for n in range(9)]
    long = [make_quality(KEPT | {"tenfold": 0}, session=name) for name in ("a.jsonl", "b.jsonl")]
    whole = replace(chats[0], recall=tuple(r for each in (*chats, *long) for r in each.recall))
    said = write_verdict(replace(make_yardstick(), quality=whole))
    assert "is first of 6 methods" in said[1]
    assert said[2].startswith("Where each of the 3 files weighs the same, so that the 9 sessions of `chats.json` do")
    assert "it is number 5 with 0.428" in said[2]
    rows = {row[0]: row for row in next(t for t in build_tables(whole) if t.title.endswith("by file")).rows}
    assert rows["chats.json"][1:4] == ("9", "90", "0.983")
    assert rows["b.jsonl"][1:4] == ("1", "10", "0.150")


def test_where_another_is_better_is_listed_with_the_best_other_project() -> None:
    rows = {row[0]: row[1:] for row in build_behind_table(make_yardstick(kept=KEPT | {"tail": 9})).rows}
    assert rows["future-use recall at 4k"] == ("0.800", "tail 0.900", "-", "1")
    assert "future-use recall at 32k" not in rows, "level with the first"
    bill = next(row for what, row in rows.items() if what.startswith("bill"))
    assert bill == ("$2.00", f"{PEER} $1.00", f"{PEER} $1.00", "1")


def test_replays_are_held_against_methods_that_played_every_session_and_were_never_refused() -> None:
    slow = [
        make_replayed("tenfold", 2.0),
        make_replayed("tail", 2.0),
        make_replayed("none", 9.0, over=True),
        make_replayed(PEER, 1.0),
    ]
    slow[0] = replace(slow[0], blocked=0.4, longest=0.3, rewritten=5_000, read=8_000, compactions=2, peak=9_000)
    other = replace(make_replayed(OTHER, 1.0, session="two.jsonl"), blocked=0.0)
    again = [make_replayed(name, 1.0, session="two.jsonl") for name in ("tenfold", "tail", "none")]
    rows = {row[0]: row[1:] for row in build_behind_table(with_replayed(*slow, other, *again)).rows}
    where = "replays, window 10,000: "
    assert {what.removeprefix(where): row for what, row in rows.items() if what.startswith(where)} == {
        "time blocked in all": ("0.500 s", "tail 0.200 s", "-", "1"),
        "longest block": ("0.300 s", "tail 0.050 s", "-", "1"),
        "tokens rewritten": ("9,000", "tail 8,000", "-", "1"),
        "cached share": ("26.6%", "tail 28.1%", "-", "1"),
        "compactions": ("3", "tail 2", "-", "1"),
        "peak": ("9,000", "tail 8,000", "-", "1"),
    }, "none was refused, the two peers did not play both sessions"
    level = [make_replayed(name, 1.0) for name in ("tenfold", PEER)]
    assert [what for what, *_ in build_behind_table(with_replayed(*level)).rows if what.startswith(where)] == []
    refused = replace(level[0], overflows=1)
    shown = next(one for one in list_rankings(with_replayed(refused, level[1])) if one.measure.startswith(where))
    assert set(shown.values) == {"tenfold", PEER}, "where ours was refused it is still shown"


def with_replayed(*played: SessionReplay) -> Yardstick:
    made = make_yardstick().replay
    assert made is not None
    return replace(make_yardstick(), replay=replace(made, played=played))


def test_results_that_cannot_be_sent_and_the_price_of_a_miss_are_put_in_order() -> None:
    made = make_quality()
    costs = {"tenfold": 30, "tail": 20, OTHER: 10}
    scores = [replace(r, refetch=costs.get(r.method, 90)) for r in made.recall]
    scores = [replace(r, over=True) if (r.method, r.budget) == ("tenfold", 2_000) else r for r in scores]
    scores = [replace(r, unable="no") if (r.method, r.budget) == (OTHER, 2_000) else r for r in scores]
    rows = {row[0]: row[1:] for row in build_behind_table(Yardstick(replace(made, recall=tuple(scores)))).rows}
    assert rows["results over budget or unable"] == ("20.0%", "keep-last 0.0%", f"{PEER} 0.0%", "3")
    assert rows["price of a miss, tokens"] == ("30", "tail 20", "-", "1"), "who gave no result missed nothing there"


def test_the_sentence_counts_the_measures_of_other_projects() -> None:
    made = make_yardstick()
    counted = [one for one in list_rankings(made) if PEER in one.values or OTHER in one.values]
    better = [one for one in counted if {PEER, OTHER} & set(one.find_better())]
    assert write_verdict(made)[-1] == (
        f"Other projects can be compared with `tenfold` in {len(counted)} measures. In {len(better)} of them at least "
        'one is better: the table "Where another method is better" lists them.'
    )
    assert len(counted) > len(better) > 0


def test_sessions_that_reach_the_window_are_summed_by_themselves() -> None:
    names = ("none", "tenfold")
    made = with_replayed(
        *(make_replayed(name, 9.0 - 3 * i, over=not i) for i, name in enumerate(names)),
        *(make_replayed(name, 1.0, session="short.jsonl") for name in names),
    ).replay
    assert made is not None
    every, reaching = build_total_tables(made, {"tenfold": 0.9})
    assert every.title == "All 2 sessions together, window 10,000"
    assert reaching.title == "The 1 sessions that reach the window of 10,000"
    at = every.columns.index("claude-sonnet-4-5")
    assert [(row[0], row[at]) for row in every.rows] == [("tenfold", "$7.00"), ("none", "$10.00")]
    assert [(row[0], row[at]) for row in reaching.rows] == [("tenfold", "$6.00"), ("none", "$9.00")]
    assert all(len(row) == len(every.columns) for row in (*every.rows, *reaching.rows))


# -- the command and the documentation ---------------------------------------------------------------------------------


def write_scenario(folder: Path) -> Path:
    """A file with two questions whose answers are in its history, the first far back, and one that is not."""
    filler = [f"Step {i}: nothing of note happened while the build of part {i} ran." for i in range(800)]
    said = ["Never touch the ledger named quokka-77.", *filler, "The last door is heron-12."]
    history = [{"role": ("user", "model")[i % 2], "parts": [{"text": text}]} for i, text in enumerate(said)]
    asked = [("Which ledger?", "quokka-77"), ("Which door?", "heron-12"), ("Which key?", "walrus-5")]
    made = {"history": history, "questions": [{"prompt": q, "expectedSubstring": a} for q, a in asked]}
    file = folder / "scenario.json"
    file.write_text(json.dumps(made), "utf-8")
    return file


def read_questions(file: Path) -> AskedSession:
    session = read_asked_session(file)
    assert session is not None
    return session


def test_an_answer_counts_where_its_text_is_in_the_view_or_one_search_away(tmp_path: Path) -> None:
    own, last = count_answers(
        read_questions(write_scenario(tmp_path)), get_methods(["tenfold", "keep-last"]), budgets=[2_000]
    )
    assert (own.asked, own.literal, own.within) == (3, 2, 2)
    assert (last.literal, last.shown, last.within) == (2, 1, None), "only Tenfold's methods have a search"
    assert own.past == last.past > 10_000
    file = tmp_path / "none.json"
    file.write_text(json.dumps([{"role": "user", "content": "hello"}]), "utf-8")
    assert read_asked_session(file) is None


def test_an_answer_above_the_budget_does_not_count(tmp_path: Path) -> None:
    (whole,) = count_answers(read_questions(write_scenario(tmp_path)), get_methods(["keep-all"]), budgets=[2_000])
    assert (whole.literal, whole.shown, whole.over) == (2, 0, True)
    (fits,) = count_answers(read_questions(write_scenario(tmp_path)), get_methods(["keep-all"]), budgets=[whole.past])
    assert (fits.shown, fits.over) == (2, False)


def test_the_table_of_answers_says_how_many_were_asked_of_a_session_above_the_budget() -> None:
    large = [
        AnswerCounts("a", name, 5_000, 3, 2, 1, within, past=9_000) for name, within in (("tenfold", 2), ("b", None))
    ]
    small = [
        AnswerCounts("c", name, 5_000, 4, 4, 4, within, past=900) for name, within in (("tenfold", 4), ("b", None))
    ]
    (made,) = answers_tables([*large, *small])
    assert made.rows == [("tenfold", "5/6", "6/6", "0"), ("b", "5/6", "-", "0")]
    assert "7 questions" in made.note
    assert "history: 6. Sessions above 5k tokens were compacted; 2 of the questions" in made.note
    (goal,) = (goal for goal in judge_goals(Yardstick(gold=(*large, *small))) if "gold" in goal.subject)
    assert (goal.result, goal.verdict) == ("6 of 6, 2 of them of sessions above the budget", "met")
    apart = replace(large[0], within=1, source=BESIDE)
    (goal,) = (goal for goal in judge_goals(Yardstick(gold=(*large, *small, apart))) if "gold" in goal.subject)
    assert goal.result.endswith("; of files beside sessions 1 of 2, 2 above it")
    assert goal.verdict == "met", "judged are the bundled scenarios"
    assert len(answers_tables([*large, *small, apart])) == 2


def test_the_command_writes_the_page_beside_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "examples" / "sessions" / "logs.pi.jsonl"
    out = tmp_path / "report.html"
    arguments = [str(file), "--methods", "none,tenfold", "--windows", "20k", "--html", str(out)]
    assert run(["eval", "replay", *arguments]) == 0
    assert "logs.pi.jsonl, window 20,000" in capsys.readouterr().out
    text = out.read_text("utf-8")
    assert "tenfold eval replay FILES... --methods none,tenfold --windows 20k" in " ".join(Read(text).said)
    assert str(file.parent) not in text
    assert str(tmp_path) not in text


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong, why in (
        (tmp_path, "is a folder; name a file in it"),
        (tmp_path / "no" / "a.html", "there is no folder"),
    ):
        assert run(["eval", "search", str(tmp_path / "missing.json"), "--html", str(wrong)]) == 2
        assert why in capsys.readouterr().err


def test_the_command_draws_nothing_unless_asked() -> None:
    code = (
        "import sys, tenfold.apps.cli.main; print([n for n in ('matplotlib', 'jinja2', 'numpy') if n in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "[]\n"


def test_a_table_is_markdown_whatever_is_in_it() -> None:
    text = render_table(Table("T", ("a", "b"), [("x|y\nz", "12 %"), ("w", "-")], "n"), level=3)
    assert text == "### T\n\n| a | b |\n| --- | ---: |\n| x\\|y z | 12 % |\n| w | - |\n\nn\n"


def test_no_path_of_a_machine_comes_onto_the_page() -> None:
    assert (
        remove_paths("cannot open /home/someone/x/y.py, see langchain/trim")
        == "cannot open (a path), see langchain/trim"
    )
    assert "TENFOLD_SESSIONS=/path/to/sessions" in render_document(make_yardstick(), ())


def test_the_page_says_once_at_which_commit_it_was_measured_or_each_part_says_it() -> None:
    at = {"quality": "Measured on D at commit 5.", "replay": "Measured on D at commit 5."}
    one = render_document(make_yardstick(), (), measured=at)
    assert one.count("Measured on") == 1
    assert "\nMeasured on D at commit 5: quality, replay.\n" in one.split("\n## ")[0]
    parts = render_document(make_yardstick(), (), measured=at | {"speed": "Measured on E at commit 6."}).split("\n## ")
    assert "Not all parts were measured at one commit" in parts[0]
    lines = {part.splitlines()[0]: re.findall(r"^Measured on .*", part, re.MULTILINE) for part in parts}
    assert lines["What a compaction keeps"] == ["Measured on D at commit 5: quality."]
    assert lines["Speed and memory"] == ["Measured on E at commit 6: speed."]
    assert lines["Is Tenfold first?"] == [
        "Measured on D at commit 5: quality, replay.",
        "Measured on E at commit 6: speed.",
    ]


def test_the_committed_page_names_the_version_it_measured_and_its_tables_are_tables() -> None:
    text = PAGE.read_text("utf-8")
    versions = re.findall(r"^## (\d+\.\d+\.\d+)$", CHANGELOG.read_text("utf-8"), re.MULTILINE)
    assert re.findall(r"Tenfold (\d+\.\d+\.\d+); tokens counted", text)[0] in versions
    drawn = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(drawn) >= 8
    for table in drawn:
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
        assert len({len(row) for row in rows}) == 1, rows[0]
        assert all(re.fullmatch(r" -+:? ", cell) for cell in rows[1])
        assert len(rows) > 2
    pictures = re.findall(r"\]\((yardstick/[\w-]+\.png)\)", text)
    assert len(pictures) >= 5
    assert sorted(p.name for p in (PAGE.parent / "yardstick").iterdir()) == sorted(Path(p).name for p in pictures)


def test_the_page_of_the_documentation_follows_the_result() -> None:
    def read_second_line(made: Quality) -> str:
        return (
            render_document(replace(make_yardstick(), quality=made), ())
            .split("## Is Tenfold first?\n\n")[1]
            .split("\n")[1]
        )

    assert "is first of 6" in read_second_line(make_quality())
    assert "is number 2 of 6" in read_second_line(make_quality(KEPT | {"tail": 9}))
