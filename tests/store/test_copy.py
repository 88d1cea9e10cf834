"""A store is copied to one of another kind: entries, heads, views and what was exported are the same there."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tenfold.core.record.entry import Usage
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path as EntryPath
from tenfold.store.base import SessionInfo, Store
from tenfold.store.copy import CopiedSession, copy_store
from tests.postgres import open_postgres_store
from tests.store.build import NS, Growing
from tests.stores import STORES, open_test_store

DIGEST = b"d" * 32
USAGE = Usage(ProviderTokens(100), ProviderTokens(5))


def fill(store: Store) -> None:
    """Sessions of two tenants: with forks, several heads, Blocks, an undo, a purge and what was exported."""
    log, other = Growing(store, "long", first=10), Growing(store, "other", namespace="team", first=5_000)
    for each in (log, other):
        each.say("Never touch config.toml.", "Yes.", *(f"message {n} of {each.session}" for n in range(12)))
        each.compact(1, 8)
        each.say("and on", "and on again")
        store.keep_request(each.namespace, each.session, "main", usage=USAGE, overhead=Counted(7))
        store.record_export(each.namespace, each.session, f"{each.session}.json", DIGEST)
    log.undo()
    side = log.fork(5, "side")
    side.number = 900
    side.say("on another branch", "and on there")
    store.purge(NS, "long", log.entries[6].id, now=1)
    store.create(NS, SessionInfo("empty", title="nothing yet"))


def read_all(store: Store) -> dict[tuple[str, str], object]:
    """All that a copy has to bring."""
    out: dict[tuple[str, str], object] = {}
    for namespace in store.list_namespaces():
        for row in store.list_sessions(namespace):
            session = row.info.id
            heads = store.read_heads(namespace, session)
            states = {head: store.open(namespace, session, head) for head in heads}
            views = {
                head: View.from_path(
                    EntryPath(store.read_range(namespace, session, state.leaf or "", 0, state.length - 1))
                ).get_messages()
                for head, state in states.items()
            }
            snapshots = {head: state.snapshot for head, state in states.items()}
            kept = {head: (state.pending_usage, state.overhead) for head, state in states.items()}
            exports = store.list_exports(namespace, session)
            entries = store.read_entries(namespace, session)
            out[namespace, session] = (row.info, entries, heads, views, snapshots, kept, exports)
    return out


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(STORES, 2)))
def test_all_of_a_store_is_in_its_copy(one: str, other: str, tmp_path: Path) -> None:
    with open_test_store(one, tmp_path) as source, open_test_store(other, tmp_path) as target:
        fill(source)
        copied = list(copy_store(source, target))
        assert [each.problem for each in copied] == [None, None, None]
        assert {(each.namespace, each.session) for each in copied} == {(NS, "long"), ("team", "other"), (NS, "empty")}
        assert read_all(target) == read_all(source)
        for namespace in (NS, "team"):
            assert target.verify(namespace) == []
        again = list(copy_store(source, target))
        assert [each.new_entries for each in again] == [0, 0, 0]
        assert target.search(NS, "message 3")[0].session == "long"


class Stopping:
    """A target that is stopped after so many appends."""

    def __init__(self, store: Store, appends: int) -> None:
        self._store, self._left = store, appends

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        return getattr(self._store, name)

    def append(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as the store's
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        self._store.append(*args, **options)


def test_an_interrupted_copy_goes_on(tmp_path: Path) -> None:
    with open_test_store("sqlite", tmp_path) as source, open_postgres_store() as target:
        fill(source)
        for appends in range(4):
            with pytest.raises(KeyboardInterrupt):
                list(copy_store(source, Stopping(target, appends), chunk_size=3))
        copied = list(copy_store(source, target, chunk_size=3))
        assert not [each for each in copied if each.problem]
        assert 0 < sum(each.new_entries for each in copied) < sum(each.entries for each in copied)
        assert read_all(target) == read_all(source)


def test_a_session_that_went_on_in_the_target_is_left_as_it_is(tmp_path: Path) -> None:
    with open_test_store("memory", tmp_path) as source, open_test_store("sqlite", tmp_path) as target:
        log = Growing(source)
        log.say("one", "two")
        list(copy_store(source, target))
        there = Growing(target)
        there.entries = list(log.entries)
        there.number = 700
        there.say("only there")
        (copied,) = copy_store(source, target)
        assert isinstance(copied, CopiedSession)
        assert copied.problem is not None
        assert "left as it is: it has 3 entries there and 2 here" in copied.problem.what
        assert len(target.read_entries(NS, "s")) == 3


def test_one_tenant_alone_can_be_copied(tmp_path: Path) -> None:
    with open_test_store("memory", tmp_path) as source, open_test_store("sqlite", tmp_path) as target:
        fill(source)
        list(copy_store(source, target, namespace="team"))
        assert target.list_namespaces() == ["team"]
