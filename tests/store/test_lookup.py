"""What a person types names one session: its whole id, the beginning of it, or its title or file. Nothing looser."""

from __future__ import annotations

import pytest

from tenfold.errors import NotFoundError
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.store.lookup import find_session
from tenfold.store.sqlite.store import SqliteStore

INFOS = (
    SessionInfo("support-4"),
    SessionInfo("support-42", title="the parcel"),
    SessionInfo("01a2005b-7d4e-7003-8000-000000000001", file="/logs/a.jsonl", source_id="019bd7ff-first"),
    SessionInfo("01a2005b-7d4e-7003-8000-000000000002", file="/logs/two.jsonl", title="one"),
    SessionInfo("01a2005b-7d4e-7003-8000-000000000003", file="/logs/two.jsonl", title="\x1b[31mother"),
    SessionInfo("parcel.json", file="/logs/elsewhere.json"),
    SessionInfo("last-words", file="/logs/parcel.json"),
)


def find(name: str) -> str:
    store = SqliteStore(":memory:")
    for info in INFOS:
        store.create(DEFAULT_NAMESPACE, info)
    return find_session(store, name).info.id


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("support-4", "support-4"),  # though another begins with it
        ("support-42", "support-42"),
        ("01a2005b-7d4e-7003-8000-000000000003", INFOS[4].id),
        ("the parcel", "support-42"),
        ("/logs/a.jsonl", INFOS[2].id),
        ("a.jsonl", INFOS[2].id),
        ("019bd7ff-first", INFOS[2].id),
        ("019bd7ff", INFOS[2].id),
        ("parcel.json", "parcel.json"),  # an id comes before a file
        ("elsewhere.json", "parcel.json"),
    ],
)
def test_a_session_is_found_by_its_id_or_name(name: str, id_: str) -> None:
    assert find(name) == id_


@pytest.mark.parametrize("name", ["", "7d4e-7003", "42", "jsonl", "THE PARCEL", "9bd7ff", "logs/a.jsonl.old"])
def test_the_middle_of_an_id_or_a_name_names_nothing(name: str) -> None:
    with pytest.raises(NotFoundError, match="`tenfold sessions` lists them, `last` is the newest"):
        find(name)


def test_what_names_several_lists_them() -> None:
    with pytest.raises(NotFoundError) as caught:
        find("01a2005b")
    first, *lines = str(caught.value).splitlines()
    assert first == "3 sessions have an id that begins with '01a2005b'; name one of them:"
    assert sorted(line.split()[0] for line in lines) == sorted(info.id for info in INFOS[2:5])
    with pytest.raises(NotFoundError, match=r"2 sessions are called 'two\.jsonl'; name one of them:") as caught:
        find("two.jsonl")
    assert "other (two.jsonl)" in str(caught.value)
    assert "\x1b" not in str(caught.value)
