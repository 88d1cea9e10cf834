"""`tenfold retention` deletes what is too old or too much, says so first, and the file gets smaller."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tenfold.core.record.entry import Entry, MessageEntry, Pin
from tenfold.core.record.message import Message, Text
from tenfold.store.base import SessionInfo, SessionRow
from tenfold.store.ids import IDS, get_current_time
from tenfold.store.retention import RetentionRule, choose_expired, find_last_use, parse_age, parse_size
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import Cli

DAY = 86_400_000_000


def put(path: Path, session: str, age_days: int, *, pinned: bool = False, characters: int = 400_000) -> None:
    store = SqliteStore(path)
    store.create("default", SessionInfo(session))
    time = get_current_time() - age_days * DAY
    text = random.Random(session).randbytes(characters // 2).hex()  # noqa: S311  a text that can be repeated
    message = Message("user", (Text(text),), "human")
    said = MessageEntry(IDS.generate(), None, "", time, message)
    entries: list[Entry] = [said, Pin(IDS.generate(), said.id, "", time, said.id, 0)] if pinned else [said]
    store.append("default", session, entries, expected=None)
    store.close()


def list_sessions(tenfold: Cli) -> set[str]:
    return {each["session"] for each in tenfold.run_ok("sessions", "--json").objects}


def test_old_sessions_go_and_the_file_shrinks(tenfold: Cli) -> None:
    for number, age in enumerate((400, 200, 100, 10)):
        put(tenfold.store, f"session{number}", age)
    before = tenfold.store.stat().st_size
    dry = tenfold.run_ok("retention", "--older-than", "90d", "--dry-run")
    assert "would delete: 3 sessions" in dry.out
    assert len(list_sessions(tenfold)) == 4
    refused = tenfold("retention", "--older-than", "90d")
    assert refused.code == 2
    assert "--yes" in refused.err
    ran = tenfold.run_ok("retention", "--older-than", "90d", "--yes")
    assert "deleted: 3 sessions" in ran.out
    assert list_sessions(tenfold) == {"session3"}
    assert tenfold.store.stat().st_size < before / 2
    assert tenfold("verify").code == 0


def test_the_oldest_go_until_the_rest_is_small_enough(tenfold: Cli) -> None:
    for number, age in enumerate((40, 30, 20, 10)):
        put(tenfold.store, f"session{number}", age)
    limit = tenfold.store.stat().st_size * 6 // 10
    found = tenfold.run_ok("retention", "--keep-under", str(limit), "--yes", "--json").objects
    assert [each["session"] for each in found] == ["session0", "session1"]
    assert list_sessions(tenfold) == {"session2", "session3"}
    assert tenfold.store.stat().st_size < limit
    assert "nothing to delete" in tenfold.run_ok("retention", "--keep-under", str(limit), "--yes").out


def test_what_is_in_use_or_pinned_stays(tenfold: Cli) -> None:
    put(tenfold.store, "pinned", 400, pinned=True)
    put(tenfold.store, "used", 0)
    put(tenfold.store, "old", 400)
    assert "pinned" in tenfold.run_ok("retention", "--keep-under", "1KB", "--yes").err
    assert list_sessions(tenfold) == {"pinned", "used"}
    tenfold.run_ok("retention", "--older-than", "1y", "--pinned", "--yes")
    assert list_sessions(tenfold) == {"used"}


@pytest.mark.parametrize("arguments", [[], ["--older-than", "soon"], ["--keep-under", "a lot"], ["--older-than", "0d"]])
def test_a_rule_that_says_nothing_is_refused(tenfold: Cli, arguments: list[str]) -> None:
    assert tenfold("retention", *arguments).code == 2


def test_ages_and_sizes() -> None:
    assert (parse_age("90d"), parse_age("12h"), parse_age("2W")) == (7_776_000, 43_200, 1_209_600)
    assert [parse_size(size) for size in ("2GB", "1.5 MB", "4KiB", "7")] == [2 * 10**9, 1_500_000, 4096, 7]


def test_a_session_without_times_has_the_age_of_its_ids() -> None:
    leaf = IDS.generate()
    row = SessionRow(SessionInfo("s"), 1, 0, None, None, {"main": leaf})
    last_use = find_last_use(row)
    assert last_use is not None
    assert abs(last_use - get_current_time()) < 3_600_000_000
    unknown = SessionRow(SessionInfo("u"), 1, 0, None, None, {"main": "x"})
    rule = RetentionRule(seconds=60)
    assert choose_expired([unknown], {"u": 9}, rule, kept=(), now=get_current_time()) == []
