"""`yardstick.scripts.measure`: what it measures, and how its stages come together."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold_yardstick.gates import GateCounts
from tests.yardstick.yardsticks import make_quality
from yardstick.scripts.measure import build_sources_table, find_session_paths, merge_gates


def test_a_folder_of_files_is_measured_as_well_as_one_of_folders(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text("{}")
    (tmp_path / "notes.md").write_text("not a session")
    (tmp_path / "more" / "deep").mkdir(parents=True)
    (tmp_path / "more" / "deep" / "two.traj").write_text("{}")
    (tmp_path / "none").mkdir()
    assert find_session_paths(tmp_path) == [tmp_path / "more", tmp_path / "one.jsonl"]


def test_a_folder_that_is_missing_or_holds_no_session_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="which is no folder"):
        find_session_paths(tmp_path / "gone")
    (tmp_path / "notes.md").write_text("not a session")
    with pytest.raises(SystemExit, match=r"nothing ends in \.jsonl, \.json, \.traj"):
        find_session_paths(tmp_path)


def test_gates_at_every_index_take_the_place_of_those_at_the_cuts() -> None:
    few, many = (GateCounts("one.jsonl", "tenfold", cuts, {}, {}) for cuts in (2, 80))
    other = GateCounts("one.jsonl", "tail", 2, {}, {})
    made = replace(make_quality(), checked=(few, other))
    found = merge_gates(made, replace(make_quality({"tenfold": 8}), checked=(many,)))
    assert found is not None
    assert found.checked == (many, other)
    assert merge_gates(made, None) is made


def test_each_file_is_listed_with_what_its_sessions_gave() -> None:
    made = make_quality(session="runs.json#3")
    other = make_quality(session="runs.json#4")
    both = replace(made, recall=made.recall + other.recall, probes=made.probes + other.probes)
    assert build_sources_table(both).rows == [("runs.json", "2", "2", "90,000", "2", "20")]
