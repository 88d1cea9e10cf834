"""Aider's listing of files stands behind the history at each turn: it comes whole, and the rest is compacted."""

from __future__ import annotations

import json

from tenfold.store.location import open_store
from tests.gateway.conversations import Json, Talk, list_sessions, read_stored
from tests.gateway.serving import RawUpstream, serve_gateway

WINDOW = 16_000
FILES = "I have *added these files to the chat* so you can go ahead and edit them.\n\n"


def test_the_listing_of_files_comes_whole_and_the_rest_is_compacted() -> None:
    talk, store = Talk("chat"), open_store(":memory:")
    talk.tools = []
    listing: Json = {"role": "user", "content": FILES + "src/x.py def f(): pass; " * 400}
    agreed: Json = {"role": "assistant", "content": "Ok, any changes I propose will be to those files."}
    with (
        RawUpstream() as upstream,
        serve_gateway(upstream.url, store=store, window=WINDOW, summary_model="none") as gateway,
    ):
        for number in range(40):
            talk.add_user("word " * 200)
            moved = talk.copy()
            listing["content"] += f"src/new{number}.py "
            moved.items[-1:-1] = [dict(listing), agreed]
            moved.send(gateway.url)
            sent = upstream.requests[-1].body
            assert json.loads(sent)["messages"][-3:] == moved.items[-3:]
            assert len(sent) < WINDOW * 4
            if number < 8:
                assert sent == moved.build_body(), "what fits goes as it came"
            talk.add_answer("word " * 200)
        assert 1 <= gateway.gateway.log.totals.compactions <= 8
    (session,) = list_sessions(store)
    assert set(read_stored(store)[session].values()) == {1}, "one line of one session"
    assert sum(read_stored(store)[session].values()) == 79
    assert store.verify("default") == []
    store.close()
