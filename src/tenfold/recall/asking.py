"""Search by words or by a question: messages that hold all of the words, and behind them those that answer best.

A store finds what holds every word it is given, and what holds some of a question's words in any of their endings. A
model asks in sentences, of which hardly a message holds every word.
"""

from __future__ import annotations

from tenfold.log.base import Hit, Store
from tenfold.log.words import parse

ANSWERS = 40
"""Passages that answer a question in part, at most: what ranks below is no answer, and reading it takes time."""


def asked(store: Store, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
    """The best hits for words or a question. Those that hold all the words come first, the best answers among them.

    Double quotes group a phrase, which is looked for as it stands, and so is a single word that some message holds.
    Raises `UsageError` where there is no word.
    """
    exact = store.search(namespace, words, session=session, limit=limit)
    if exact and len(parse(words)) == 1:
        return exact
    whole = {hit.entry: hit for hit in exact}
    some = {hit.entry: hit for hit in store.ask(namespace, words, session=session, limit=min(limit, ANSWERS))}
    both = [hit for entry, hit in some.items() if entry in whole]
    more = [hit for entry, hit in whole.items() if entry not in some]
    rest = [hit for entry, hit in some.items() if entry not in whole]
    return [*both, *more, *rest][:limit]
