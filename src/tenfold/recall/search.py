"""Searches by words or by a question.

A model asks in sentences, and hardly any message contains every word of a sentence. So two searches are put together:
one for messages that contain all the words, and one for passages that answer the question best.
"""

from __future__ import annotations

from tenfold.store.base import Hit, Store
from tenfold.store.word_search import parse_query

ANSWER_LIMIT = 40
"""The most hits taken from the second search. Lower ones answer nothing, and reading them takes time."""


def search_store(store: Store, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
    """Finds the best hits for words or a question.

    Hits that contain all the words come first, and among them those that also answer best. A phrase in double quotes is
    searched for exactly as it is, and so is a single word that some message contains. Raises `UsageError` without a
    word.
    """
    exact = store.search(namespace, words, session=session, limit=limit)
    if exact and len(parse_query(words)) == 1:
        return exact
    all_words = {hit.entry: hit for hit in exact}
    some_words = {
        hit.entry: hit
        for hit in store.search_passages(namespace, words, session=session, limit=min(limit, ANSWER_LIMIT))
    }
    both = [hit for entry, hit in some_words.items() if entry in all_words]
    more = [hit for entry, hit in all_words.items() if entry not in some_words]
    rest = [hit for entry, hit in some_words.items() if entry not in all_words]
    return [*both, *more, *rest][:limit]
