"""What every store promises, asked of every store: the checks that others put their own stores to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tenfold.errors import BadInput, LostRace, NotFoundError, UsageError
from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore
from tenfold.testing import check_store
from tenfold.testing.store_checks import CHECKS, make_entry
from tests.store.build import NS, Growing, make_entry_id


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_it_is_promised_that(store: Store, check: Callable[[Store], None]) -> None:
    check(store)


def test_errors_say_what_helps(store: Store) -> None:
    first, leaf = (entry.id for entry in Growing(store).say("one", "two"))
    with pytest.raises(LostRace, match=leaf):
        store.append(NS, "s", [make_entry(50, first)], expected=None)
    with pytest.raises(LostRace, match="nothing was written"):
        store.append(NS, "s", [make_entry(50, first)], expected=first)
    with pytest.raises(BadInput, match=make_entry_id(60)):
        store.append(NS, "s", [make_entry(60, leaf), make_entry(60, make_entry_id(60))], expected=leaf)
    with pytest.raises(NotFoundError, match="tenfold sessions"):
        store.open(NS, "nowhere")
    with pytest.raises(UsageError, match="2 counts by chars4 for 1 entries"):
        store.append(NS, "s", [make_entry(50, leaf)], expected=leaf, counts={"chars4": [1, 2]})
    with pytest.raises(NotFoundError, match="several entries"):
        store.locate(NS, first[:3])


class Forgetful:
    """A store that does not keep what it promises: it forgets heads other than the main one, and finds nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        return getattr(self._store, name)

    def read_heads(self, namespace: str, session: str) -> dict[str, str]:
        heads = self._store.read_heads(namespace, session)
        return {name: leaf for name, leaf in heads.items() if name == "main"}

    def search(self, namespace: str, words: str, **options: Any) -> list[Any]:  # noqa: ANN401
        self._store.search(namespace, words, **options)
        return []


def test_a_store_that_breaks_a_promise_is_told_which() -> None:
    made: list[SqliteStore] = []

    def open_forgetful() -> Any:  # noqa: ANN401 - it stands in for a store
        made.append(SqliteStore(":memory:"))
        return Forgetful(made[-1])

    with pytest.raises(AssertionError) as caught:
        check_store(open_forgetful)
    said = str(caught.value)
    assert f" of {len(CHECKS)} promises are not kept:" in said
    assert "search finds what is there: AssertionError: 'tokenizer' finds [], and stands in [0]" in said
    assert "branches have paths of their own: " in said
    assert "entries come back as they were" not in said
    assert len(made) == len(CHECKS)


def test_a_store_that_keeps_all_is_told_what_was_checked() -> None:
    assert check_store(lambda: SqliteStore(":memory:")) == list(CHECKS)


def test_a_store_with_sessions_is_left_alone() -> None:
    store = SqliteStore(":memory:")
    log = Growing(store)
    log.say("mine")
    with closing(store), pytest.raises(UsageError, match="give it a function that opens an empty store"):
        check_store(lambda: store)
