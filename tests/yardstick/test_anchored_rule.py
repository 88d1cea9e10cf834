"""The script that holds the anchored rule against published runs, on two made-up contexts in their format."""

from __future__ import annotations

import json
from pathlib import Path

from yardstick.scripts.anchored_rule import format_report, read_contexts


def write_run(folder: Path, name: str, text: str, *, recalled: bool) -> None:
    facts = [
        {"fact_id": "F1", "question": "Where does the heron sleep?", "keywords": ["Oak Tree"], "compacted": True},
        {"fact_id": "F2", "question": "Which gate leads to the lake?", "keywords": ["north"]},
    ]
    verdicts = [{"fact_id": "F1", "recalled": recalled}, {"fact_id": "F2", "recalled": True}]
    files = {
        f"contexts/{name}.json": [{"role": "user", "content": text}],
        f"contexts/{name}_meta.json": {"facts": facts},
        f"judgments/{name}_bs1.json": {"batches": [{"verdicts": verdicts}]},
        f"judgments/{name}_bs5.json": {"batches": [{"verdicts": verdicts[1:]}]},
    }
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(body))


def test_both_tests_are_held_against_what_was_recalled(tmp_path: Path) -> None:
    apart = "the oak tree. " + "nothing here. " * 80 + "The heron is asleep somewhere, who knows where it does sleep."
    write_run(
        tmp_path / "compaction_v5_a",
        "one",
        "The heron does sleep in the oak tree; the north gate leads to the lake.",
        recalled=True,
    )
    write_run(tmp_path / "compaction_v5_a", "two", apart + " The north gate leads to the lake.", recalled=False)
    found = read_contexts(tmp_path)
    assert [[(f.bare, f.anchored, f.recalled, f.compacted) for f in cell] for cell in found] == [
        [(True, True, 1, True), (True, True, 1, False)],
        [(True, False, 0, True), (True, True, 1, False)],
    ]


def test_the_agreement_is_a_correlation(tmp_path: Path) -> None:
    write_run(
        tmp_path / "compaction_v5_a",
        "one",
        "The heron does sleep in the oak tree; the north gate leads to the lake.",
        recalled=True,
    )
    write_run(tmp_path / "compaction_v5_a", "two", "Nothing but an oak tree.", recalled=False)
    lines = format_report(read_contexts(tmp_path)).splitlines()
    assert lines[0] == "2 contexts, 4 facts; compacted facts recalled: 0.50"
    assert lines[1] == "bare: r -0.33 per fact, 1.00 per context; compacted facts shown: 1.00"
    assert lines[2] == "anchored: r 0.58 per fact, 1.00 per context; compacted facts shown: 0.50"


def test_a_folder_without_runs_has_no_contexts(tmp_path: Path) -> None:
    assert read_contexts(tmp_path) == []
