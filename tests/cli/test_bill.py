"""`tenfold bill`: what the stored sessions cost, with and without Tenfold."""

from __future__ import annotations

import json
from contextlib import closing, redirect_stdout
from pathlib import Path

import pytest

from tenfold.apps.cli.main import run
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.text.terminal_safe import strip_controls
from tenfold.session import Session, SessionAddress
from tenfold.store.base import SessionInfo
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import Cli
from tests.cli.test_terminal import Terminal

WINDOW = 20_000


def converse(store: SqliteStore, name: str, model: str, *, cut_after: int = 60) -> None:
    """Has a conversation that is compacted, with reports as Anthropic's that the cache was read and written."""
    policy = build_policy("tenfold", CharacterCounter())
    info = SessionInfo(name, model=model, window=WINDOW, client=f"client {name}")
    session = Session.create(SessionAddress(store, name), policy, model=model, info=info)
    messages: list[dict[str, str]] = []
    before: list[str] = []
    for number in range(cut_after):
        messages.append({"role": "user", "content": f"{number}: " + "look at the next part of it, please. " * 60})
        sent = session.before_model({"model": model, "messages": messages}, window=WINDOW)
        texts = [str(message["content"]) for message in sent["messages"]]
        same = len(before) if texts[: len(before)] == before else 0
        read, written = (sum(len(text) // 4 for text in part) for part in (texts[:same], texts[same:]))
        session.after_model(
            {
                "input_tokens": 0,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "output_tokens": 3,
            }
        )
        before = texts
        messages.append({"role": "assistant", "content": f"done {number}"})


@pytest.fixture
def billed(tenfold: Cli) -> Cli:
    tenfold.store.parent.mkdir()
    with closing(SqliteStore(tenfold.store)) as store:
        converse(store, "long", "claude-sonnet-4-5")
        converse(store, "unknown", "nobody:made-this", cut_after=3)
    return tenfold


def test_the_bill_names_its_denominators_and_what_it_does_not_know(billed: Cli) -> None:
    said = billed.run_ok("bill").out
    for part in (
        "of the input tokens",
        "of the input bill",
        "of the whole bill",
        "of the session so far",
        "would not have fitted the window",
        "claude-sonnet-4-5: in $3, cached $0.3, written $3.75, answers $15",
        "genai-prices",
        "No price is known for 3 requests by nobody:made-this",
    ):
        assert part in said
    record = billed.run_json("bill")
    assert {line["name"] for line in record["lines"]} == {"long", "unknown"}
    assert record["total"]["saving"] == pytest.approx(sum(line["saving"] for line in record["lines"]))
    assert record["unknown_prices"] == ["nobody:made-this"]


@pytest.mark.parametrize(
    ("by", "names"),
    [("model", {"claude-sonnet-4-5", "nobody:made-this"}), ("client", {"client long", "client unknown"})],
)
def test_a_line_for_each(billed: Cli, by: str, names: set[str]) -> None:
    assert {line["name"] for line in billed.run_json("bill", "--by", by)["lines"]} == names


def test_since_and_session_choose_what_is_billed(billed: Cli) -> None:
    assert "nothing to bill" in billed.run_ok("bill", "--since", "2999-01-01").out
    assert [line["name"] for line in billed.run_json("bill", "--session", "long", "--since", "1d")["lines"]] == ["long"]
    for wrong in (("--since", "soon"), ("--by", "colour"), ("--plot", "bill.txt")):
        assert billed("bill", *wrong).code == 2


def test_minutes_and_months_are_told_apart(billed: Cli) -> None:
    """30m were 30 months, though `tenfold sessions` writes 1m for a minute."""
    refused = billed("bill", "--since", "30m")
    assert refused.code == 2
    assert "write 30min or 30mo" in refused.err
    for age in ("30min", "30mo"):
        assert len(billed.run_json("bill", "--since", age)["lines"]) == 2


def test_without_a_price_no_dollars_are_saved_and_an_empty_store_says_what_is_billed(tenfold: Cli) -> None:
    """It said "Saved $0.00", and to install what is installed."""
    said = tenfold.run_ok("bill").out
    assert "only requests made through chat, run, serve, wrap or a library host report their tokens" in said
    with closing(SqliteStore(tenfold.store)) as store:
        converse(store, "unknown", "nobody:made-this", cut_after=3)
    said = tenfold.run_ok("bill").out
    assert "$" not in said
    assert "Saved 0 tokens" in said
    assert "pip install" not in said


def test_a_plot_is_drawn_in_each_format(billed: Cli, tmp_path: Path) -> None:
    for suffix, start in (("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        file = tmp_path / f"bill.{suffix}"
        billed.run_ok("bill", "--plot", file)
        assert file.read_bytes().startswith(start)
    assert b"Oblique" not in (tmp_path / "bill.svg").read_bytes(), "the title is no formula between dollar signs"
    assert billed("bill", "--plot", tmp_path / "bill.svg").code != 0  # it is not replaced unasked


def test_a_session_of_another_program_saves_nothing(tenfold: Cli, tmp_path: Path) -> None:
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 9_000,
        "cache_creation_input_tokens": 900,
        "output_tokens": 7,
    }
    common = {"sessionId": "s", "timestamp": "2026-11-01T10:00:00.000Z", "version": "2.1"}
    said = {"role": "assistant", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "Done."}]}
    lines = [
        {**common, "type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "Do it."}},
        {
            **common,
            "type": "assistant",
            "uuid": "u2",
            "parentUuid": "u1",
            "message": {**said, "id": "m", "usage": usage},
        },
    ]
    file = tmp_path / "s.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    tenfold.run_ok("import", file)
    total = tenfold.run_json("bill", "--since", "2026-11-01")["total"]
    assert (total["answers"], total["sent"]["cached"], total["saving"], total["saved_tokens"]) == (1, 9_000, 0, 0)
    assert tenfold.run_json("bill", "--since", "2026-11-02")["lines"] == []


def test_the_bill_fits_sixty_columns_and_a_loss_is_red(billed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteStore(billed.store)) as store:
        converse(store, "short", "claude-sonnet-4-5", cut_after=33)  # compacted just before its end
    screen = Terminal()
    for name, value in (("COLUMNS", "60"), ("TERM", "xterm"), ("COLORTERM", "truecolor")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    with redirect_stdout(screen):
        assert run(["bill", "--session", "short"]) == 0
    (loss,) = (line for line in screen.getvalue().splitlines() if "Saved" in line)
    assert strip_controls(loss).startswith("Saved -$")
    assert "\x1b[31m" in loss
    assert max(len(strip_controls(line).rstrip()) for line in screen.getvalue().splitlines()) <= 60
