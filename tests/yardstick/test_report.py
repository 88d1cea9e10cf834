"""The tables of a quality result: drawn from its scores alone, every figure worked out by hand."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from tenfold_yardstick.future_recall import RecallScore
from tenfold_yardstick.gates import GateCounts
from tenfold_yardstick.quality_report import (
    Yardstick,
    build_age_table,
    build_budget_table,
    build_file_table,
    build_headline,
    build_kind_table,
    build_planted_table,
    build_probe_table,
    build_real_summary_table,
    build_repeat_table,
    build_rounds_table,
    build_tables,
    build_unable_table,
    build_validity_table,
    compute_lead,
)
from tenfold_yardstick.scores import ProbeScore, ProbeTally, Quality, compute_method_area


def make_recall(method: str, present: int, budget: int = 4_000, **other: object) -> RecallScore:
    made = RecallScore("s.jsonl", 9, "50%", method, budget, 1, 10, 90_000, present=present, tokens=budget)
    return replace(made, **other)


def make_probed(method: str, present: int, budget: int = 4_000, **other: object) -> ProbeScore:
    tallies = (ProbeTally("constraint", 1, 4, present, 1, 4), ProbeTally("number", 4, 6, 0, 0, 3))
    made = ProbeScore("s.jsonl", 9, "50%", method, budget, 1, budget, 90_000, tallies=tallies)
    return replace(made, **other)


def make_quality(recalls: list[RecallScore], probes: list[ProbeScore], **other: object) -> Quality:
    methods = tuple(dict.fromkeys([*(r.method for r in recalls), *(p.method for p in probes)]))
    made = Quality("1", "o200k", methods, (2_000, 4_000, 8_000), (1,), tuple(recalls), tuple(probes))
    return replace(made, **other)


TWO = [
    make_recall("keep-last", 2, kinds={"path": (2, 10)}, quarters={"1": (0, 6), "4": (2, 4)}),
    make_recall("keep-last", 4, 8_000),
    make_recall("keep-last", 10, 2_000),
    make_recall("tenfold", 6, within=9, kinds={"path": (6, 10)}, quarters={"1": (3, 6), "4": (3, 4)}),
    make_recall("tenfold", 8, 8_000, within=10),
    make_recall("tenfold", 0, 2_000, within=5),
]


def test_the_headline_is_the_area_over_4k_to_32k_the_best_first() -> None:
    found = build_headline(make_quality(TWO, []))
    cells = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert [row["method"] for row in cells] == ["tenfold", "keep-last"]
    assert [row["area"] for row in cells] == ["0.700", "0.300"], "2k is shown, and is not in the area"
    assert [row["95 %"] for row in cells] == ["0.70 to 0.70", "0.30 to 0.30"], "one session has nothing to vary"
    assert [row["with search"] for row in cells] == ["0.950", "-"]
    assert [(row["2k"], row["4k"], row["8k"]) for row in cells] == [
        ("0.000", "0.600", "0.800"),
        ("1.000", "0.200", "0.400"),
    ]
    assert found.note.startswith("The area is over 4k to 8k tokens, of 1 cuts of 1 sessions. ")
    assert "minus the best other, keep-last: +0.400" in found.note


def test_a_size_at_which_nothing_was_cut_is_blank() -> None:
    made = make_quality(TWO[-1:], [], rounds=(1, 3))
    (row,) = (dict(zip(build_headline(made).columns, row, strict=True)) for row in build_headline(made).rows)
    assert (row["area"], row["mean of files"], row["with search"]) == ("-", "-", "-"), "2k is no part of the area"
    assert (row["2k"], row["4k"], row["8k"]) == ("0.000", "-", "-")
    probes = [make_probed("tenfold", 4, 9_000, tenth=True, rounds=n) for n in (1, 3)]
    assert build_rounds_table(make_quality(TWO, probes, rounds=(1, 3))).rows[0][1:3] == ("-", "-")


def test_what_was_not_sent_is_counted() -> None:
    recalls = [
        make_recall("a", 0, over=True),
        make_recall("a", 0, 8_000, refused="orphan result"),
        make_recall("a", 5, 8_000, session="t.jsonl"),
        make_recall("a", 0, unable="no", session="t.jsonl"),
    ]
    found = build_headline(make_quality(recalls, []))
    assert dict(zip(found.columns, found.rows[0], strict=True))["not sent"] == "3/4"


def test_a_method_of_ones_own_has_a_column_among_the_files() -> None:
    own = [replace(r, method=name) for name in ("mine:newest", "careful") for r in TWO[:2]]
    found = build_file_table(make_quality([*TWO, *own], []))
    assert found.columns[3:] == ("tenfold", "mine:newest", "careful", "best baseline")


def test_only_the_named_budgets_and_the_fewest_rounds_are_in_the_headline() -> None:
    more = [
        make_recall("tenfold", 0, own=True),
        make_recall("tenfold", 0, tenth=True),
        make_recall("tenfold", 0, rounds=3),
    ]
    assert (
        build_headline(make_quality([*TWO, *more], [], rounds=(1, 3))).rows
        == build_headline(make_quality(TWO, [], rounds=(1, 3))).rows
    )


def test_the_headline_says_how_many_cuts_are_in_the_area_and_have_each_budget() -> None:
    short = [
        make_recall("tenfold", 3, 2_000, session="t.jsonl"),
        make_recall("tenfold", 3, 900, session="u.jsonl", tenth=True),
    ]
    note = build_headline(make_quality([*TWO, *short], [])).note
    assert "over 4k to 8k tokens, of 1 cuts of 1 sessions. " in note
    assert "below its past's size: 2k 2, 4k 1, 8k 1; at any size 3 cuts of 3 sessions." in note


def test_where_none_of_the_budgets_is_in_the_area_all_are() -> None:
    made = make_quality(
        [make_recall("tenfold", 6, 1_000), make_recall("tenfold", 8, 2_000)], [], budgets=(1_000, 2_000)
    )
    assert build_headline(made).rows[0][1] == "0.700"


def test_by_age_and_by_kind_a_missing_result_is_missed_and_a_method_without_any_is_left_out() -> None:
    def make_missed(method: str, budget: int) -> RecallScore:
        return make_recall(method, 0, budget, unable="no", kinds={"path": (0, 10)}, quarters={"1": (0, 10)})

    half = [make_recall("half", 8, kinds={"path": (8, 10)}, quarters={"1": (8, 10)})]
    made = make_quality([*half, make_missed("half", 8_000), make_missed("never", 4_000)], [])
    for table in (build_age_table, build_kind_table):
        assert table(made).rows == [("half", "0.400")]


def test_the_lead_is_over_the_best_that_is_not_tenfolds_own() -> None:
    own = [replace(r, method="tiers", present=10) for r in TWO[:2]]
    other = [replace(r, method="some/peer", present=5) for r in TWO[:2]]
    found = compute_lead(make_quality([*TWO, *own, *other], []))
    assert found is not None
    assert found.method == "some/peer"
    assert found.margin.value == pytest.approx(0.2)
    chosen = compute_lead(make_quality([*TWO, *own, *other], []), ["keep-last"])
    assert chosen is not None
    assert chosen.method == "keep-last"
    assert chosen.margin.value == pytest.approx(0.4)
    assert compute_lead(make_quality(TWO[:3], [])) is None
    assert compute_lead(make_quality(TWO[3:], [])) is None


def test_probes_by_type_at_a_tenth() -> None:
    probes = [make_probed("keep-last", 1, tenth=True), make_probed("tenfold", 4, tenth=True), make_probed("tenfold", 0)]
    found = build_probe_table(make_quality([], probes), 1)
    assert found.columns == ("method", "constraint", "number", "all")
    assert found.rows == [("tenfold", "1.00", "0.00", "0.400"), ("keep-last", "0.25", "0.00", "0.100")]
    assert "constraint 4, number 6" in found.note


def test_probes_by_type_after_the_most_compactions_have_a_table_of_their_own() -> None:
    probes = [make_probed("a", 4 - n // 5, tenth=True, rounds=n) for n in (1, 5, 10)]
    titles = {table.title: table.rows for table in build_tables(make_quality([], probes, rounds=(1, 5, 10)))}
    assert titles["Typed probes at a tenth of the past"] == [("a", "1.00", "0.00", "0.400")]
    assert titles["Typed probes at a tenth of the past, after 10 compactions"] == [("a", "0.50", "0.00", "0.200")]
    assert "Typed probes at a tenth of the past, after 5 compactions" not in titles


def test_probes_by_budget_and_age() -> None:
    probes = [make_probed("a", 1), make_probed("a", 3, 8_000), make_probed("a", 4, 9_000, tenth=True)]
    found = build_budget_table(make_quality([], probes))
    cells = dict(zip(found.columns, found.rows[0], strict=True))
    assert (cells["2k"], cells["4k"], cells["8k"], cells["10 %"]) == ("-", "0.100", "0.300", "0.400")
    assert (cells["oldest"], cells["2"], cells["newest"]) == ("1.000", "-", "0.000")
    assert (cells["bare words"], cells["stale"]) == ("0.700", "1")


def test_several_rounds_beside_each_other() -> None:
    often = (1, 3)
    probes = [make_probed("a", 4 - n, 9_000, tenth=True, rounds=n) for n in often]
    recalls = [make_recall("a", 10 - n, 9_000, tenth=True, rounds=n) for n in often]
    assert build_rounds_table(make_quality(recalls, probes)).rows == []
    found = build_rounds_table(make_quality(recalls, probes, rounds=often))
    assert found.columns == ("method", "needed 1x", "needed 3x", "probes 1x", "probes 3x", "rules 1x", "rules 3x")
    assert found.rows == [("a", "0.90", "0.70", "0.30", "0.10", "0.75", "0.25")]


def test_planted_rules_by_place() -> None:
    kept, lost = ({"top": (n, 1), "middle": (0, 1), "bottom": (1, 1)} for n in (1, 0))
    probes = [make_probed("a", 4, tenth=True, planted=each) for each in (kept, lost)]
    probes += [make_probed("a", 4, tenth=True, rounds=3, planted=lost), make_probed("gone", 0, tenth=True, unable="no")]
    found = build_planted_table(make_quality([], probes, rounds=(1, 3)))
    assert found.rows == [("a", "0.500", "0.000", "1.000", "0.000", "0.000", "1.000")]


def test_gates_false_facts_and_stale_answers_are_counted_over_all_results() -> None:
    probes = [
        make_probed("a", 1, false=2, gates={"orphan call": 3}),
        make_probed("a", 1, 8_000, gates={"orphan call": 1, "over budget": 1}),
        make_probed("b", 1),
        make_probed("b", 0, unable="no"),
    ]
    found = build_validity_table(make_quality([], probes))
    assert found.columns == ("method", "results", "orphan call", "over budget", "false", "stale")
    assert found.rows == [("b", "1", "0", "0", "0", "1"), ("a", "2", "2", "1", "2", "2")]


def test_what_was_run_twice_says_what_failed_first() -> None:
    fine = GateCounts("s", "a", 3, {}, {}, thinking=3)
    bad = GateCounts("t", "a", 2, {"two runs differ": 2}, {"two runs differ": "cut 4, message -1: why"}, unable=1)
    found = build_repeat_table(make_quality([], [], checked=(fine, bad)))
    assert found.rows == [("a", "5", "3", "1", "two runs differ 2")]
    assert found.note == "a in t: two runs differ, cut 4, message -1: why"


def test_what_could_not_run_is_listed_with_its_reason_and_scored_nowhere() -> None:
    probes = [make_probed("gone", 0, tenth=True, unable="it asks a\nserver"), make_probed("b", 1, tenth=True)]
    recalls = [make_recall("gone", 0, unable="it asks a\nserver"), make_recall("b", 5)]
    made = make_quality(recalls, probes)
    assert build_unable_table(made).rows == [("gone", "1/1", "it asks a server")]
    long = make_quality([], [make_probed("gone", 0, unable="no tool result of this size " * 9)])
    assert build_unable_table(long).rows[0][2].endswith(("size …", "this …", "of …", "result …", "tool …", "no …")), (
        "whole words"
    )
    for table in (
        build_headline(made),
        build_probe_table(made, 1),
        build_budget_table(made),
        build_planted_table(made),
        build_validity_table(made),
    ):
        assert [row[0] for row in table.rows] == ["b"], table.title


def test_the_size_of_the_real_summary_has_a_table_of_its_own() -> None:
    recalls = [make_recall("real-summary", 7, 900, own=True), make_recall("b", 5, 900, own=True), make_recall("b", 9)]
    probes = [make_probed("real-summary", 1, 900, own=True), make_probed("b", 4, 900, own=True)]
    found = build_real_summary_table(make_quality(recalls, probes))
    assert found.columns == ("method", "s.jsonl at 9, 0.9k", "pooled", "rules", "typed probes")
    assert found.rows == [
        ("real-summary", "0.700", "0.700", "0.250", "0.100"),
        ("b", "0.500", "0.500", "1.000", "0.400"),
    ]


def test_empty_tables_are_left_out_and_every_row_has_its_columns() -> None:
    drawn = build_tables(make_quality(TWO, [make_probed("tenfold", 4, tenth=True)]))
    assert [table.title for table in drawn] == [
        "Future-use recall",
        "Future-use recall by file",
        "Future-use recall by age (quarter of the past, 1 is the oldest)",
        "Future-use recall by kind",
        "Typed probes at a tenth of the past",
        "Typed probes by budget and age",
        "Planted rules by where they stood",
        "Validity, false facts, stale answers",
    ]
    assert all(len(row) == len(table.columns) for table in drawn for row in table.rows)


def test_the_result_comes_back_from_its_json() -> None:
    checked = (GateCounts("s", "a", 3, {"split step": 1}, {"split step": "cut 1"}),)
    made = make_quality(TWO, [make_probed("a", 1, gates={"orphan call": 1}, planted={"top": (1, 1)})], checked=checked)
    assert msgspec.json.decode(msgspec.json.encode(made), type=Quality) == made
    whole = Yardstick(quality=made, date="2026-11-22")
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Yardstick) == whole


def test_the_area_of_no_scores_is_nothing() -> None:
    assert compute_method_area([], lambda r: r.present) == 0.0
