"""What a gateway says of money is what the ledger says: lookups are costs, and the client has a name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tenfold.apps.cli.gateway_commands import describe_totals
from tenfold.apps.gateway.client_marks import find_client
from tenfold.session.bill import build_bill, read_rows
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.gateway.conversations import Talk
from tests.gateway.recall_setting import TALKS, Provider, serve_recall
from tests.gateway.serving import build_script, run_loopback
from tests.models.loopback import Served

SEARCH = ("r1", "recall_search", {"words": "quokka"})


@pytest.mark.parametrize("wire", TALKS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_lookup_inside_the_gateway_is_on_the_bill(wire: str, tmp_path: Path, *, streamed: bool) -> None:
    talk = TALKS[wire]
    look, answer = Served(finish="tool", call=SEARCH, tokens=(3_000, 11)), Served("It is done.", tokens=(3_400, 7))
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        with Provider(look, answer) as provider, serve_recall(provider, store=store) as (url, gateway):
            talk.ask(url, talk.build_history(), streamed=streamed)
        totals = gateway.log.totals
        (line,) = build_bill(store, by="client").lines
    assert (line.answers, line.lookups, line.unpriced) == (1, 1, 0)
    assert (line.sent.input, line.looked_up.input) == (3_000, 3_400)
    assert (line.sent.output, line.looked_up.output) == (7, 11)  # the answer, and the call of the lookup before it
    assert line.unhidden.input > 4_000  # what is hidden would have been sent
    assert line.name not in ("", "library", "gateway")
    assert totals.dollars_paid == pytest.approx(line.total_paid)
    assert totals.dollars_without == pytest.approx(line.unhidden_paid.total, rel=0.02)
    said = describe_totals(totals, line, tmp_path / "log")
    assert f"{abs(line.saved_tokens):,} of {line.unhidden.input:,} input tokens" in said
    assert "of the whole bill" in said


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("codex_cli_rs/0.169.0 (Mac OS 15)", "codex_cli_rs"),
        ("claude-cli/2.1.332 (external, cli)", "claude-cli"),
        ("", "gateway"),
        ("\x1b[31m", "gateway"),
        ("x" * 500, "gateway"),
    ],
)
def test_a_client_is_called_as_it_calls_itself(agent: str, name: str) -> None:
    assert find_client({"user-agent": agent}) == name


def test_no_request_that_was_sent_whole_is_on_the_bill_as_a_shortened_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It compacts far below half of the window: a request went on whole meanwhile, and was billed as if it had not."""
    monkeypatch.setenv("TENFOLD_COMPACT_AT", "3000")
    monkeypatch.setenv("TENFOLD_DOWN_TO", "1200")
    with closing(SqliteStore(":memory:")) as store:
        with run_loopback(build_script(), store=store, window=64_000, summary_model="none") as (upstream, gateway):
            talk, whole = Talk("chat"), dict[int, int]()
            for _ in range(30):
                talk.add_user()
                talk.add_step(120)
                assert talk.send(gateway.url).status_code == 200
                whole[upstream.requests[-1].size // 4] = len(talk.build_body()) // 4
        (session,) = store.list_sessions(DEFAULT_NAMESPACE)
        rows = [row for row in read_rows(store, DEFAULT_NAMESPACE, session) if row.kind == "answer"]
    assert session.block_count > 1
    assert [row for row in rows if row.unhidden.input > whole[row.sent.input] * 1.1] == []
