"""Who gets in: the token once, a key of the store where others can reach the pages, and no page of another site."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from tenfold.apps.inspector.application import Inspector
from tenfold.errors import UsageError
from tenfold.store.access import create_key
from tenfold.store.base import Store
from tests.inspector.conftest import Keeper
from tests.inspector.sessions import make_session

HOST = "http://127.0.0.1"


def test_the_token_opens_the_pages_once(inspector: Inspector, store: Store) -> None:
    make_session(store)
    token = inspector.gate.token
    with TestClient(inspector.application, base_url=HOST) as owner:
        assert owner.get("/").status_code == 401
        opened = owner.get(f"/?token={token}&next=/session%3Fid=work")
        assert opened.status_code == 200
        assert opened.url.path == "/session"
        assert owner.get("/").status_code == 200
    with TestClient(inspector.application, base_url=HOST) as other:
        assert other.get(f"/?token={token}").status_code == 401
        assert other.get("/?token=").status_code == 401
        assert "tenfold inspect" in other.get("/").text


@pytest.mark.parametrize(
    "target", ["//elsewhere.example/", "https://elsewhere.example/", "/\\\\elsewhere.example/", ""]
)
def test_the_token_leads_nowhere_else(inspector: Inspector, target: str) -> None:
    with TestClient(inspector.application, base_url=HOST, follow_redirects=False) as owner:
        answer = owner.get("/", params={"token": inspector.gate.token, "next": target})
    assert answer.headers["location"] == "/"


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(inspector: Inspector) -> None:
    with TestClient(inspector.application, base_url=HOST, follow_redirects=False) as owner:
        given = owner.get(f"/?token={inspector.gate.token}").headers["set-cookie"].lower()
    assert "httponly" in given
    assert "samesite=strict" in given


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://elsewhere.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1:9999"},
    ],
)
def test_another_sites_page_is_refused(client: TestClient, store: Store, headers: dict[str, str]) -> None:
    session = make_session(store)
    before = session.read_instructions()
    for method, path in (("GET", "/"), ("POST", "/session/instructions/add")):
        assert client.request(method, path, headers=headers, data={"id": "work", "text": "Obey me."}).status_code == 403
    session.refresh()
    assert session.read_instructions() == before


def test_another_name_for_this_machine_is_refused(client: TestClient) -> None:
    assert client.get("/", headers={"host": "rebound.example"}).status_code == 400


def test_every_answer_carries_the_policy(client: TestClient, store: Store) -> None:
    make_session(store)
    for path in ("/", "/session?id=work", "/session?id=nowhere", "/nowhere", "/static/inspector.js"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff", path
        assert ("max-age" in headers["cache-control"]) == path.startswith("/static/"), path


def test_no_form_changes_anything_by_opening_its_address(client: TestClient, store: Store) -> None:
    session = make_session(store)
    before = session.leaf
    for path in ("/session/instructions/add", "/session/instructions/drop"):
        assert client.get(f"{path}?id=work&text=x").status_code == 405
    for path in ("compact", "undo", "redo", "pin", "purge"):
        client.get(f"/session/{path}?id=work&to=10%25&at=1&confirmed=yes")
    session.refresh()
    assert session.leaf == before


def test_a_visitor_with_a_key_sees_its_namespace_alone(store: Store, keeper: Keeper) -> None:
    make_session(store, "ours", namespace="a")
    make_session(store, "theirs", namespace="b")
    key, text = create_key("ann", "a", 1)
    store.save_key(key)
    shared = Inspector(store, keeper, host="0.0.0.0")  # noqa: S104 - it is asked directly and listens nowhere
    with TestClient(shared.application, base_url="http://pages.example") as visitor:
        assert visitor.get("/").status_code == 401
        assert visitor.post("/sign-in", data={"key": "tf_wrong"}).status_code == 401
        listed = visitor.post("/sign-in", data={"key": text})
        assert listed.status_code == 200
        assert "ours" in listed.text
        assert "theirs" not in listed.text
        assert visitor.get("/session?id=theirs").status_code == 404
        assert visitor.get("/session/message?id=theirs&at=0").status_code == 404
        assert visitor.post("/session/instructions/add", data={"id": "ours", "text": "Be kind."}).status_code == 200
    assert [(each.actor, each.source, each.action) for each in store.read_record()][-1] == (
        "ann",
        "inspector",
        "rule added",
    )


def test_a_key_that_reads_only_changes_nothing_and_a_revoked_one_ends(store: Store, keeper: Keeper) -> None:
    session = make_session(store, "ours", namespace="a")
    key, text = create_key("ann", "a", 1)
    store.save_key(replace(key, is_read_only=True))
    shared = Inspector(store, keeper, host="0.0.0.0")  # noqa: S104 - the same
    with TestClient(shared.application, base_url="http://pages.example") as visitor:
        visitor.post("/sign-in", data={"key": text})
        page = visitor.get("/session?id=ours").text
        assert "Compact…" not in page
        before = session.leaf
        for path in ("compact", "undo", "redo", "pin", "purge", "instructions/add"):
            answer = visitor.post(f"/session/{path}", data={"id": "ours", "text": "x", "confirmed": "yes", "to": "10%"})
            assert (answer.status_code, "may only read" in answer.text) == (400, True), path
        session.refresh()
        assert session.leaf == before


def test_pages_that_others_can_reach_need_keys(store: Store, keeper: Keeper) -> None:
    with pytest.raises(UsageError, match="tenfold keys create"):
        Inspector(store, keeper, host="0.0.0.0")  # noqa: S104 - the same
