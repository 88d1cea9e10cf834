"""The pytest plugin as a user has it: found by its entry point, idle until it is used, readable when a test fails."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.shape.scan import ROOT
from tests.yardstick.chats import make_long_past

pytest_plugins = ["pytester"]

SUITE = """
import json
import sys
from pathlib import Path

SESSION = json.loads(Path("memory/talk.json").read_text())


def test_nothing_is_loaded_before_it_is_asked_for():
    assert "tenfold.testing.plugin" in sys.modules
    assert [name for name in ("tenfold.testing.survival", "msgspec", "toktok", "typer") if name in sys.modules] == []


def test_good(survives):
    survives("tenfold", "talk.json", budget=2_000, rounds=2)


def test_drops_the_first_rule(survives):
    survives(lambda messages: messages[-6:], "talk.json", budget=2_000)


def test_orphans_a_call(survives):
    survives(lambda messages: [messages[0], messages[1], *messages[-6:]], "talk.json", budget=2_000)


def test_invents_a_path(survives):
    invented = {"role": "user", "content": "So far: src/invented/made_up.py was edited."}
    survives(lambda messages: [messages[0], invented, *messages[-6:]], "talk.json", budget=2_000)


def test_is_above_the_budget(survives):
    survives(lambda messages: messages, "talk.json", budget=2_000)
"""


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's project: a test in a folder of its own with its session, and Tenfold as an installed package."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["pytest11"]
    meta = pytester.mkdir("installed") / "tenfold-0.1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: tenfold\nVersion: 0.1.0\n")
    (meta / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    monkeypatch.setenv("PYTHONPATH", f"{meta.parent}:{ROOT / 'src'}")
    where = pytester.mkdir("memory")
    (where / "test_memory.py").write_text(SUITE)
    (where / "talk.json").write_text(json.dumps(make_long_past()))
    return where


def test_good_passes_and_each_fault_fails_with_what_to_do(pytester: pytest.Pytester, folder: Path) -> None:
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--junitxml=report.xml", folder)
    result.assert_outcomes(passed=2, failed=4)
    result.stdout.fnmatch_lines(
        [
            "*test_drops_the_first_rule*",
            "E *SurvivalError: talk.json: what has to survive its compaction does not",
            "E *constraint: 0 of 1 kept (0%) where 100% has to be",
            "E *lost, message 0 (user): Tidy up the parser, but never touch legacy_config.toml.",
            "E *next: carry over what is lost, word for word or nearly so; *",
            "*test_orphans_a_call*",
            "E *orphan call: 1, where none may be",
            "E *next: drop or keep a tool call together with its results*",
            "*test_invents_a_path*",
            "E *the path src/invented/made_up.py, message 1 of the result",
            "*test_is_above_the_budget*",
            "E *tokens where 2,000 were allowed: * too many",
            "*what survived compaction*",
            "memory/test_memory.py::test_good: talk.json: * -> * tokens: constraint 1/1",
        ]
    )
    result.stdout.no_fnmatch_line("*surviving.py:*")
    report = Path(pytester.path / "report.xml").read_text()
    assert '<property name="tenfold talk.json constraint" value="1/1"' in report


def test_what_was_kept_is_told_too_where_tests_run_in_another_process(pytester: pytest.Pytester, folder: Path) -> None:
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "1", "-k", "good", folder)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*what survived compaction*", "memory/test_memory.py::test_good: talk.json: * -> * tokens: constraint 1/1"]
    )
