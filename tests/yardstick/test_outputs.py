"""What `tenfold eval` writes besides what it prints, whose methods it takes, and what its exit code says."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tenfold.apps.cli.main import run
from tenfold_yardstick.cases import find_cuts, read_sessions
from tenfold_yardstick.method_comparison import get_group
from tenfold_yardstick.methods import get_methods
from tenfold_yardstick.plots import choose_highlighted
from tenfold_yardstick.quality import measure_quality
from tests.shape.scan import ROOT

SESSION = str(ROOT / "examples" / "sessions" / "desk.openai-chat.json")
MINE = """
def newest(messages, budget):
    return [*messages[:1], *messages[-4:]]

def broken(messages, budget):
    raise KeyError("the key of the index")

def text(messages, budget):
    return "a summary"
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "methods_of_mine.py").write_text(MINE)


def quality(*options: str) -> int:
    return run(["eval", "quality", SESSION, "--budgets", "4k", *options])


def test_tables_are_written_as_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quality("--methods", "keep-last", "--csv", "tables") == 0
    files = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert "future-use-recall.csv" in files
    with (tmp_path / "tables" / "future-use-recall.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0][:2] == ["method", "area"]
    assert rows[1][0] == "keep-last"
    assert rows[1][1] in capsys.readouterr().out


def test_charts_are_written_in_three_formats(tmp_path: Path) -> None:
    assert quality("--methods", "keep-last", "--figures", "figures") == 0
    beginnings = {path.name: path.read_bytes()[:60] for path in (tmp_path / "figures").iterdir()}
    assert beginnings["recall-by-tokens.png"].startswith(b"\x89PNG")
    assert beginnings["recall-by-tokens.pdf"].startswith(b"%PDF")
    assert b"<?xml" in beginnings["recall-by-tokens.svg"]


@pytest.mark.parametrize("option", ["--csv", "--figures"])
def test_a_folder_with_files_is_refused_before_anything_is_measured(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert quality("--methods", "keep-last", option, "full") == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_a_function_of_mine_is_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert quality("--methods", "methods_of_mine:newest,keep-last") == 0
    assert "methods_of_mine:newest" in capsys.readouterr().out


def test_a_named_policy_of_the_settings_is_a_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tenfold.toml").write_text('[tenfold.presets.careful]\npolicy = "tail"\n')
    assert quality("--methods", "careful") == 0
    assert "careful" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "why"), [("broken", "KeyError: 'the key of the index'"), ("text", "it returned str")])
def test_a_method_that_could_not_run_ends_with_an_exit_code(
    name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quality("--methods", f"methods_of_mine:{name},keep-last") == 4
    said = capsys.readouterr()
    assert f"could not run: methods_of_mine:{name} ({why}" in said.err
    assert "keep-last" in said.out, "what could run is shown"


@pytest.mark.parametrize("name", ["methods_of_mine:none", "no_such_module:compact", "methods_of_mine:MINE"])
def test_what_is_no_function_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert quality("--methods", name) == 2
    assert "give MODULE:FUNCTION" in capsys.readouterr().err


def test_a_function_of_mine_is_replayed_too(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(
        ["eval", "replay", SESSION, "--methods", "none,methods_of_mine:newest", "--windows", "4k", "--prices", ""]
    )
    assert code == 0, capsys.readouterr().err
    assert "methods_of_mine:newest" in capsys.readouterr().out


def test_a_function_of_mine_is_none_of_tenfolds_and_drawn_in_colour() -> None:
    quality_ = measure_quality(
        find_cuts(read_sessions(Path(SESSION), "desk")[0]),
        [*get_methods(["methods_of_mine:newest", "keep-last"])],
        budgets=(4_000,),
    )
    assert get_group("methods_of_mine:newest") == "peer"
    assert "methods_of_mine:newest" in choose_highlighted(quality_)
