"""Searches by words or by a question.

A model asks in sentences, and hardly any message contains every word of a sentence. So two searches are put together:
one for messages that contain all the words, and one for passages that answer the question best.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from unicodedata import category

from tenfold.core.record.block import BlockPart
from tenfold.core.text.language import stem_word
from tenfold.core.view.fold import View
from tenfold.recall.expand import open_path
from tenfold.store.base import HIT_LIMIT, Hit, Store
from tenfold.store.search.entry_text import find_unfolded, fold_text
from tenfold.store.search.terms import parse_question
from tenfold.store.sql.word_search import parse_query
from tenfold.telemetry import trace_search

_LEAST_PART = 3
"""Letters from which on a word is also marked within a longer one. In Chinese nothing divides words: one is enough."""
ANSWER_LIMIT = 40
"""The most hits taken from the second search. Lower ones answer nothing, and reading them takes time."""


def search_store(
    store: Store, namespace: str, words: str, *, session: str | None = None, limit: int = HIT_LIMIT, head: str = ""
) -> list[Hit]:
    """Finds the best hits for words or a question.

    Hits that contain all the words come first, and among them those that also answer best. A phrase in double quotes is
    searched for exactly as it is, and so is a single word that some message contains. A summary that is in view is no
    hit, because whoever searches has read it. With a `head` of the session only its path is searched. Raises
    `UsageError` without a word.
    """
    with trace_search(namespace, session or "") as record:
        hits = _search_store(store, namespace, words, session, limit, head)
        record(len(hits))
        return hits


def _search_store(store: Store, namespace: str, words: str, session: str | None, limit: int, head: str) -> list[Hit]:
    visible: dict[str, frozenset[str]] = {}
    leaf = store.read_heads(namespace, session).get(head) if session is not None and head else None
    if head and leaf is None:
        return []
    while True:
        others = _list_others(store, namespace, session, leaf)
        without = others.union(*visible.values())
        hits = _search_both(store, namespace, words, session=session, limit=limit, without=without)
        new = {hit.session for hit in hits if hit.kind == "block"} - visible.keys()
        if not new and others == _list_others(store, namespace, session, leaf):  # else one has grown meanwhile
            return hits
        visible |= {name: find_visible_blocks(store, namespace, name, only=head) for name in new}


def _list_others(store: Store, namespace: str, session: str | None, leaf: str | None) -> frozenset[str]:
    if session is None or leaf is None:
        return frozenset()
    return store.list_other_branches(namespace, session, leaf)


def find_visible_blocks(store: Store, namespace: str, session: str, *, only: str = "") -> frozenset[str]:
    """Returns the ids of the Blocks that show something in the view of one of the session's heads, or of one alone."""
    found: set[str] = set()
    heads = store.read_heads(namespace, session)
    for head, leaf in heads.items() if not only else [(only, heads[only])]:
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


def locate_words(text: str, words: str) -> list[tuple[int, int]]:
    """Locates in a text what a search for these words goes by: (start, stop) of each place, in order, none overlapping.

    Where a word does not occur itself, its stem does: a search for "prices" marks "price".
    """
    folded, query = fold_text(text), parse_query(words)
    phrases = [spelling for spellings in query for spelling in spellings if len(query) == 1 or " " in spelling]
    stems = [stem for term in parse_question(words) for stem in (term, stem_word(term, "porter"))]
    patterns = [
        re.escape(each) if len(each) >= _LEAST_PART or category(each[0]) == "Lo" else rf"\b{re.escape(each)}\b"
        for each in sorted({*phrases, *stems}, key=len, reverse=True)
    ]
    matches = re.finditer("|".join(patterns), folded) if patterns else ()
    return [(find_unfolded(text, at.start()), find_unfolded(text, at.end())) for at in matches]
