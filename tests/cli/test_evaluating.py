"""`tenfold eval quality`: tables, one JSON object, and arguments that cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Cli

DESK = EXAMPLES / "desk.openai-chat.json"


def test_a_table_of_the_methods_named(tenfold: Cli) -> None:
    ran = tenfold("eval", "quality", DESK, "--methods", "tenfold,keep-last", "--budgets", "4k,8000")
    assert ran.code == 0, ran.err
    lines = [line.split("\t") for line in ran.out.splitlines()]
    assert lines[0] == ["Future-use recall"]
    assert lines[1][:2] == ["method", "area"]
    assert {"4k", "8k"} <= set(lines[1])
    assert {line[0] for line in lines[2:4]} == {"tenfold", "keep-last"}


def test_json_holds_every_score(tenfold: Cli) -> None:
    ran = tenfold("eval", "quality", DESK, "--methods", "keep-last", "--budgets", "4k", "--rounds", "2", "--json")
    assert ran.code == 0, ran.err
    made = json.loads(ran.out)
    assert made["methods"] == ["keep-last"]
    assert [(s["budget"], s["rounds"], s["kind"]) for s in made["recall"]] == [(4_000, 2, "50%"), (4_000, 2, "75%")]
    assert all(0 <= s["present"] <= s["needed"] for s in made["recall"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--methods", "keep-lost"], "keep-lost"),
        (["--budgets", "lots"], "lots"),
        (["--budgets", "0"], "no size"),
        (["--budgets", ","], "no budget"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(tenfold: Cli, arguments: list[str], said: str) -> None:
    ran = tenfold("eval", "quality", DESK, *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


def test_a_session_with_nothing_to_measure_is_said(tenfold: Cli, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]))
    ran = tenfold("eval", "quality", path, "--methods", "keep-last")
    assert ran.code == 0
    assert "nothing to measure" in ran.err
