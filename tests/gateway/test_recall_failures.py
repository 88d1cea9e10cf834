"""A lookup's request that fails: the client sees the provider's error, or that its answer was cut."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from tenfold.store.location import open_store
from tests.gateway.recall_setting import FAILURES, TALKS, Provider, look_up, serve_recall
from tests.models.loopback import Got, Served

pytestmark = [pytest.mark.parametrize("wire", TALKS), pytest.mark.costly(2)]
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
SPOKEN = look_up(text="Let me look that up. ", speaks_first=True)


@both_ways
@pytest.mark.parametrize("status", [429, 500])
def test_an_error_of_the_provider_passes(wire: str, *, streamed: bool, status: int) -> None:
    talk = TALKS[wire]
    failing = Served(status=status, error="come back later")
    with (
        Provider(look_up(), failing) as provider,
        serve_recall(provider) as (url, _),
        pytest.raises(FAILURES, match="come back later") as caught,
    ):
        talk.ask(url, talk.build_history(), streamed=streamed)
    assert getattr(caught.value, "status_code", None) == status or getattr(caught.value, "code", None) == status


@both_ways
@pytest.mark.parametrize("status", [429, 500])
def test_an_error_behind_a_text_is_seen(wire: str, *, streamed: bool, status: int) -> None:
    talk = TALKS[wire]
    failing = Served(status=status, error="come back later")
    with (
        Provider(SPOKEN, failing) as provider,
        serve_recall(provider) as (url, _),
        pytest.raises(FAILURES, match="come back later"),
    ):
        talk.ask(url, talk.build_history(), streamed=streamed)


@both_ways
@pytest.mark.parametrize("first", [look_up(), SPOKEN], ids=["silent", "spoken"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_cut_in_any_round_is_seen(wire: str, first: Served, at: int, *, streamed: bool) -> None:
    talk = TALKS[wire]
    answers = [first, Served("It is done, all of it.")]
    answers[at - 1] = replace(answers[at - 1], breaks=3)
    with Provider(*answers) as provider, serve_recall(provider) as (url, gateway):
        with pytest.raises(Exception) as caught:
            talk.ask(url, talk.build_history(), streamed=streamed)
        assert isinstance(caught.value, (*FAILURES, httpx.HTTPError)) or "HTTPError" in str(type(caught.value).__mro__)
    assert b"tenfold_gateway_cut_responses_total 1.0" in gateway.log.render_metrics()


@both_ways
def test_a_fault_in_a_lookup_leaves_what_was_said(wire: str, *, streamed: bool, tmp_path: Path) -> None:
    talk = TALKS[wire]

    def answer(_: Got) -> Served:
        with closing(sqlite3.connect(tmp_path / "log.db")) as other:
            other.executescript("DROP TABLE entry")
        return SPOKEN

    with (
        closing(open_store(tmp_path / "log.db")) as store,
        Provider(answer) as provider,
        serve_recall(provider, store=store) as (url, gateway),
    ):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    assert (final.text, final.calls) == ("Let me look that up. ", [])
    assert final.stop in ("stop", "end_turn", "completed", "STOP")
    assert len(provider.rounds) == 1
    assert b"tenfold_gateway_faults_total 1.0" in gateway.log.render_metrics()
