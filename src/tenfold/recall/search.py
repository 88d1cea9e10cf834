"""Searches by words or by a question.

A model asks in sentences, and hardly any message contains every word of a sentence. So two searches are put together:
one for messages that contain all the words, and one for passages that answer the question best.
"""

from __future__ import annotations

from collections.abc import Collection

from tenfold.recall.expand import open_path
from tenfold.record.block import BlockPart
from tenfold.store.base import HIT_LIMIT, Hit, Store
from tenfold.store.word_search import parse_query
from tenfold.view.fold import View

ANSWER_LIMIT = 40
"""The most hits taken from the second search. Lower ones answer nothing, and reading them takes time."""


def search_store(
    store: Store, namespace: str, words: str, *, session: str | None = None, limit: int = HIT_LIMIT
) -> list[Hit]:
    """Finds the best hits for words or a question.

    Hits that contain all the words come first, and among them those that also answer best. A phrase in double quotes is
    searched for exactly as it is, and so is a single word that some message contains. A summary that is in view is no
    hit, because whoever searches has read it. Raises `UsageError` without a word.
    """
    visible: dict[str, frozenset[str]] = {}
    while True:
        without = frozenset[str]().union(*visible.values())
        hits = _search_both(store, namespace, words, session=session, limit=limit, without=without)
        new = {hit.session for hit in hits if hit.kind == "block"} - visible.keys()
        if not new:
            return hits
        visible |= {name: find_visible_blocks(store, namespace, name) for name in new}


def find_visible_blocks(store: Store, namespace: str, session: str) -> frozenset[str]:
    """Returns the ids of the Blocks that show something in the view of one of the session's heads."""
    found: set[str] = set()
    for head, leaf in store.read_heads(namespace, session).items():
        state = store.open(namespace, session, head)
        path = open_path(store, namespace, store.locate(namespace, state.leaf or leaf))
        for position, entry in state.snapshot_entries.items():
            path.cache_entry(position, entry)
        view = View.from_snapshot(state.snapshot, path) if state.snapshot else View.from_path(path)
        found |= {path.get_entry(ref.block).id for ref in view.range_refs if isinstance(ref, BlockPart)}
    return frozenset(found)


def _search_both(
    store: Store, namespace: str, words: str, *, session: str | None, limit: int, without: Collection[str]
) -> list[Hit]:
    exact = store.search(namespace, words, session=session, limit=limit, without=without)
    if exact and len(parse_query(words)) == 1:
        return exact
    most = min(limit, ANSWER_LIMIT)
    all_words = {hit.entry: hit for hit in exact}
    some_words = {
        hit.entry: hit for hit in store.search_passages(namespace, words, session=session, limit=most, without=without)
    }
    both = [hit for entry, hit in some_words.items() if entry in all_words]
    more = [hit for entry, hit in all_words.items() if entry not in some_words]
    rest = [hit for entry, hit in some_words.items() if entry not in all_words]
    return [*both, *more, *rest][:limit]
