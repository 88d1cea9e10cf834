"""The budgets of the house: files, functions, mocks, broad excepts. Each exception is listed with its reason."""

from __future__ import annotations

import ast
import textwrap

from tests.shape import scan

FILE_LINES = 500
FUNCTION_LINES = 60
P90_LINES = 30

BROAD_EXCEPT_ALLOWED: dict[tuple[str, str], str] = {
    ("src/tenfold/archive.py", "refusal"): "runs a user's archive: one that raises has refused the batch",
    ("src/tenfold/cli/headless.py", "carried_out"): "runs a user's agent: what it raised stands in the last line",
    ("src/tenfold/designs/blocks_asking.py", "settling"): "runs a user's block strategy: what it raises is noted",
    ("src/tenfold/designs/clip.py", "compress"): "published: it never throws; runs a user's store and archive",
    ("src/tenfold/designs/tail_agent.py", "_given"): "runs a user's handler: one that raises is reported and ignored",
    ("src/tenfold/drive.py", "tell"): "runs a user's listener: one that raises is reported and ignored",
    ("src/tenfold/drive.py", "appended"): "runs a user's after-hook: one that raises is reported and ignored",
    ("src/tenfold/preparing.py", "_run"): "runs a compaction on a thread: what it raised is given where it is taken",
    ("src/tenfold/drive.py", "_consulted"): "runs a user's hook: one that raises is reported and ignored",
    ("src/tenfold/drive.py", "carry_out"): "runs a call on a thread: what it raised is raised where its result is read",
    ("src/tenfold/drive.py", "_acalled"): "runs a user's model: one that raises is a failed call, for the ladder",
}
"""(file, function) -> why. Two places may have one: what runs users' hooks, and the outermost edge of a program."""


def test_files_stay_within_their_budget() -> None:
    sizes = {scan.name(path): len(path.read_text("utf-8").splitlines()) for path in scan.python_files("src")}
    assert sizes, "no source was found: the test looks in the wrong place"
    assert {file: lines for file, lines in sizes.items() if lines > FILE_LINES} == {}


def test_functions_stay_within_their_budget() -> None:
    sizes = {
        f"{scan.name(path)}:{node.lineno} {node.name}": scan.length(node)
        for path in scan.python_files("src")
        for node in scan.functions(scan.tree(path))
    }
    assert {where: lines for where, lines in sizes.items() if lines > FUNCTION_LINES} == {}
    ordered = sorted(sizes.values())
    assert ordered[int(len(ordered) * 0.9)] <= P90_LINES


def test_nothing_is_mocked() -> None:
    found = [place for path in scan.python_files("tests") for place in scan.patches(scan.tree(path), scan.name(path))]
    assert found == []


def test_broad_excepts_are_listed_with_a_reason() -> None:
    found = [
        place for path in scan.python_files("src") for place in scan.broad_excepts(scan.tree(path), scan.name(path))
    ]
    unlisted = [place for place in found if (place.file, place.what) not in BROAD_EXCEPT_ALLOWED]
    assert unlisted == []
    stale = set(BROAD_EXCEPT_ALLOWED) - {(place.file, place.what) for place in found}
    assert stale == set(), "a listed exception is gone: take it off the list"
    assert all(BROAD_EXCEPT_ALLOWED.values())


def parsed(source: str) -> ast.Module:
    return ast.parse(textwrap.dedent(source))


def test_the_scan_sees_broad_excepts() -> None:
    module = parsed("""
        def one():
            try: ...
            except Exception: ...
        def two():
            try: ...
            except (ValueError, BaseException): ...
        def three():
            try: ...
            except: ...
        def four():
            try: ...
            except ValueError: ...
        def five():
            try: ...
            except BaseException:
                back()
                raise
    """)
    assert {place.what for place in scan.broad_excepts(module, "f")} == {"one", "two", "three"}


def test_the_scan_sees_mocks() -> None:
    module = parsed("""
        import unittest.mock
        from unittest import mock
        from unittest.mock import patch
        def test(monkeypatch, mocker):
            monkeypatch.setattr(a, "b", 1)
            monkeypatch.setenv("A", "b")
            mocker.patch("x")
    """)
    whats = sorted(place.what for place in scan.patches(module, "f"))
    assert whats == ["mocker.patch", "monkeypatch.setattr", "unittest.mock", "unittest.mock", "unittest.mock"]
