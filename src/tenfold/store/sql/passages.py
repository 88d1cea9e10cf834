"""Answers a question from the store: finds the passages that match it, and chooses which lines of them to show.

The index finds the passages that hold a term and says how much they speak of it (BM25). Here the terms are put
together, and the hits are made.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain

from msgspec import Struct

from tenfold.store.base import Hit
from tenfold.store.search.entry_text import GAP, PlainText, read_plain_text, split_excerpt
from tenfold.store.search.newer_first import Scored, arrange_series, rank_near_ties
from tenfold.store.search.terms import build_index_text, parse_question, split_passages
from tenfold.store.sql.database import IndexSearch, StoredEntry
from tenfold.store.sql.stored_entries import read_stored_entries
from tenfold.store.sql.word_search import SNIPPET_LENGTH

NEWEST_LIMIT = 2_048
"""Passages of a common term that are looked at: the newest ones. In the others the rarer terms decide."""
_POOL_SIZE = 128
"""Passages that are scored, at least, and the most entries that raise their neighbours."""
_SAMPLE_SIZE = 64
"""Passages of a term, the newest ones, of which the mean of FTS5's scores is taken."""
_SERIES_POOL = 32
"""Entries, the best ones, among which printed values of one name are looked for."""
_HITS_PER_EXTRA = 2
"""One passage more for as many hits: lines of the next best passages of the entries that are shown in any case."""
_COVERAGE_BONUS = 3
"""How much what speaks of all that was asked counts above what repeats a little of it: up to four times as much."""
_LINE_LENGTH = 200
"""Characters of a line that are shown or left out together."""
_RAISES = {1: 0.5, 2: 0.25}
"""The share of an entry's score that those so many places before and after it have too: an answer stands behind its
question, a tool's output behind its call, and often neither repeats the other's words."""
_LINE_SHARES = (0.125, 0.5, 1.0, 0.5, 0.125)
"""How much of their neighbours' weight lines share: what stands beside a match is shown before what stands far off."""
_PASSAGE_SHARE = 0.1
"""How much of its passage's score a line has by itself."""
NEXT_MESSAGE = "\n[next message]\n"
"""Stands in a hit before what was said right after it: a question and its answer, a call and its output."""
_SPACE = re.compile(r"\s+")
_LINES = re.compile(rf"\S(?:[^\n]{{0,{_LINE_LENGTH - 2}}}(?=\s|\Z)|[^\n]{{0,{_LINE_LENGTH - 1}}})")
_COUNT_ENTRIES = (
    "SELECT CAST(coalesce(sum(h.entries), 0) AS BIGINT) FROM session s JOIN head h ON h.session = s.id WHERE s.ns = ?"
)
_COUNT_SESSION_ENTRIES = "SELECT CAST(coalesce(sum(entries), 0) AS BIGINT) FROM head WHERE session = ?"
_SELECT_PLACES = "SELECT seq, seg, pos, session FROM entry WHERE seq IN list(?)"
_PAIRS = 64
_SELECT_PAIRS = (
    "SELECT n.seg, n.pos, n.seq FROM (VALUES "  # noqa: S608 - constants
    f"{', '.join(['(CAST(? AS BIGINT), CAST(? AS BIGINT))'] * _PAIRS)}) w"
    " JOIN entry n ON n.seg = w.column1 AND n.pos = w.column2"
)
_SELECT_SEQS = "SELECT seq FROM entry WHERE ns = ? AND id IN list(?)"


class _Passage(Struct, frozen=True):
    """A passage of an entry that is about to be shown."""

    source: StoredEntry
    plain: PlainText
    start: int
    stop: int
    score: float = 0.0

    @property
    def text(self) -> str:
        """The passage itself, out of the entry's text."""
        return self.plain.text[self.start : self.stop]


class _TermPassages(Struct, frozen=True):
    """The passages that hold a term: those in the index, newest first, and the others with their scores."""

    indexed: Sequence[int]
    late: Mapping[int, float]


class _MatchedTerms:
    """Which of a question's terms each passage holds, and how rare each of them is among so many `entries`."""

    def __init__(self, found: Mapping[str, _TermPassages], entries: int) -> None:
        self._sets: dict[int, int] = {}
        sets = self._sets
        for number, passages in enumerate(found.values()):
            term = 1 << number
            for key in chain(passages.late, passages.indexed):
                sets[key] = sets.get(key, 0) | term
        total = max(len(self._sets), entries)
        sizes = {term: len(passages.late) + len(passages.indexed) for term, passages in found.items()}
        self.rarity = {term: math.log(1 + (total - size + 0.5) / (size + 0.5)) for term, size in sizes.items()}

    def count_terms(self, key: int) -> int:
        """Counts the terms that a passage holds."""
        return self._sets.get(key, 0).bit_count()

    def apply_coverage(self, key: int, score: float) -> float:
        """Raises a score that is summed up over the terms that a passage holds, by how many of them it holds."""
        return score * (1 + _COVERAGE_BONUS * self.count_terms(key) / max(1, len(self.rarity)))

    def estimate(self, key: int) -> float:
        """Returns what a passage of usual length counts that says each of its terms once."""
        terms = self._sets.get(key, 0)
        rarities = (rarity for number, rarity in enumerate(self.rarity.values()) if terms >> number & 1)
        return self.apply_coverage(key, sum(rarities))

    def list_promising(self, most: int) -> list[int]:
        """Returns the passages with the highest estimates: `most` of them, and all that are equal to the last."""
        sizes = Counter(self._sets.values())
        examples = dict(zip(self._sets.values(), self._sets, strict=True))
        chosen: set[int] = set()
        count = 0
        for terms in sorted(sizes, key=lambda terms: -self.estimate(examples[terms])):
            if count >= most:
                break
            chosen.add(terms)
            count += sizes[terms]
        return [key for key, terms in self._sets.items() if terms in chosen]


class _SnippetLine(Struct, frozen=True):
    """A line of a passage that may be shown in the hit of an `entry`. `order` sorts the lines of a hit.

    `label` is "old" or "new" in an edit. `continues` is true if the line goes on where the one before it was cut.
    """

    entry: str
    order: tuple[int, int, int]
    text: str
    passage_score: float
    label: str
    continues: bool


class _PassageReader:
    """Reads passages by their keys, and each entry only once."""

    def __init__(self, index: IndexSearch, without: Collection[str]) -> None:
        self._index, self._without = index, without
        self._entries: dict[int, tuple[StoredEntry, PlainText, list[tuple[int, int]]] | None] = {}

    def read(self, key: int, score: float = 0.0) -> _Passage | None:
        """Reads a passage. None if its entry is left out or damaged, or has no text there."""
        seq, number = self._index.split_key(key)
        if seq not in self._entries:
            source = next(read_stored_entries(self._index.db, (seq,), self._index.scope), None)
            self._entries[seq] = None
            if source is not None and source.entry.id not in self._without:
                plain = read_plain_text(source.entry)
                self._entries[seq] = (source, plain, split_passages(plain.text))
        found = self._entries[seq]
        if found is None or number >= len(found[2]):
            return None
        passage = _Passage(*found[:2], *found[2][number], score)
        return None if passage.text.isspace() else passage

    def list_keys(self, key: int) -> range:
        """Returns the keys of all passages of the entry that this one is of."""
        seq, number = self._index.split_key(key)
        found = self._entries.get(seq)
        return range(key - number, key - number + (len(found[2]) if found else 0))


def search_passages(index: IndexSearch, words: str, limit: int, without: Collection[str] = ()) -> list[Hit]:
    """Finds the best hits for a question. Does not move the watermark.

    A passage counts by the terms it holds, by their rarity and by how much it speaks of them. Those that hold more of
    the terms count more. An entry counts as its best passage does, and has a share of what its neighbours count.
    Near ties are sorted newest first, and repeated text is shown once.

    A hit shows the lines of its best passages that match the question best: `SNIPPET_LENGTH` characters per hit on
    average, and more for a better hit. If short hits leave characters over, the next message follows behind
    `NEXT_MESSAGE`.
    """
    terms = parse_question(words)
    left_out = _find_seqs(index, without)
    found = _find_terms(index, terms, left_out)
    matched = _MatchedTerms(found, _count_entries(index) if found else 0)
    most = max(_POOL_SIZE, 4 * limit)
    scores = _score_passages(index, found, matched, most)
    reader = _PassageReader(index, without)
    raised = _raise_neighbors(index, scores, matched, most)
    ranked = rank_near_ties(index.add_meanings(words, raised, left_out) if terms else raised)
    ranked, series = _arrange_series(reader, ranked, matched)
    chosen = _choose_passages(reader, ranked, scores, matched, limit)
    lines = _sort_lines(index, [line for passage in chosen for line in _split_lines(passage)], matched.rarity)
    ends = _find_ends(chosen, lines)
    snippets = _build_snippets(lines, ends, _list_following_lines(index, reader, chosen), limit * SNIPPET_LENGTH)
    newest = index.split_key(series[0])[0] if series else None
    hits: dict[str, Hit] = {}
    for passage in chosen:
        source, id_ = passage.source, passage.source.entry.id
        score = round(passage.score, 2)
        latest_of = len(series) if source.order == newest else 0
        place = (source.session, id_, source.position, source.kind)
        hits.setdefault(id_, Hit(*place, snippets.get(id_, ""), score, latest_of=latest_of))
    return list(hits.values())


def _count_entries(index: IndexSearch) -> int:
    """Counts the entries that are searched."""
    namespace, session = index.scope.namespace, index.scope.session
    query, value = (_COUNT_ENTRIES, namespace) if session is None else (_COUNT_SESSION_ENTRIES, session)
    return int(index.db.execute(query, (value,)).fetchone()[0])


def _find_seqs(index: IndexSearch, entries: Collection[str]) -> frozenset[int]:
    """Returns the row numbers of the entries with these ids."""
    values = (index.scope.namespace, index.db.bind_list(entries))
    rows = index.db.execute(_SELECT_SEQS, values) if entries else ()
    return frozenset(seq for (seq,) in rows)


def _rank(scored: Scored) -> tuple[float, int]:
    key, score = scored
    return round(score, 6), key


def _find_terms(index: IndexSearch, terms: Sequence[str], left_out: Collection[int]) -> dict[str, _TermPassages]:
    """Finds the newest passages that hold each term, apart from those of the entries that are left out.

    Terms that none holds are left out, or corrected if they are half of all the terms or more.
    """
    found = _find_known_terms(index, terms)
    unknown = [term for term in terms if term not in found]
    if 2 * len(unknown) >= len(terms):
        corrected = (correct_word(index, term) for term in unknown)
        found |= _find_known_terms(index, [term for term in corrected if term])
    return {term: _leave_out(index, passages, left_out) for term, passages in found.items()} if left_out else found


def _find_known_terms(index: IndexSearch, terms: Sequence[str]) -> dict[str, _TermPassages]:
    late = index.list_late_passages()
    late_matches = index.match_texts([text for _, text in late], terms) if late else {}
    found: dict[str, _TermPassages] = {}
    for term in terms:
        scores = {late[number][0]: score for number, score in late_matches.get(term, ())}
        passages = _TermPassages(index.find_passages(term, NEWEST_LIMIT), scores)
        if passages.indexed or passages.late:
            found[term] = passages
    return found


def _leave_out(index: IndexSearch, passages: _TermPassages, seqs: Collection[int]) -> _TermPassages:
    return _TermPassages(
        [key for key in passages.indexed if index.split_key(key)[0] not in seqs],
        {key: score for key, score in passages.late.items() if index.split_key(key)[0] not in seqs},
    )


def _score_passages(
    index: IndexSearch, found: Mapping[str, _TermPassages], matched: _MatchedTerms, most: int
) -> dict[int, float]:
    """Scores the passages that promise most, by how much they speak of each term.

    FTS5's scores of a term are scaled to 1 on average. What is left is frequency and length, without the rarity: FTS5
    takes that from the whole store, and it is next to 0 for a term that more than half of the passages hold.
    """
    scores = dict.fromkeys(matched.list_promising(most), 0.0)
    for term, passages in found.items():
        sample = passages.indexed[:_SAMPLE_SIZE]
        weights = index.weigh_passages(term, scores.keys() & passages.indexed | set(sample))
        for weighed, counted in ((passages.late, passages.late), (weights, sample)):
            mean = sum(weighed.get(key, 0.0) for key in counted) / max(1, len(counted))
            for key in scores.keys() & weighed.keys() if mean else ():
                scores[key] += matched.rarity[term] * weighed[key] / mean
    return {key: matched.apply_coverage(key, score) for key, score in scores.items()}


def _raise_neighbors(
    index: IndexSearch, scores: Mapping[int, float], matched: _MatchedTerms, most: int
) -> list[Scored]:
    """Returns the best passage of each entry, and what the entry counts with the shares of its neighbours.

    Neighbours are on the same path of the same session. Only the `most` best entries raise others.
    """
    best: dict[int, Scored] = {}
    for key, score in scores.items():
        seq, _ = index.split_key(key)
        if seq not in best or score > best[seq][1]:
            best[seq] = (key, score)
    pool = nlargest(most, best.values(), key=_rank)
    strengths = {index.split_key(key)[0]: score for key, score in pool}
    raised = dict(pool)
    distances = [sign * each for each in _RAISES for sign in (-1, 1)]
    for seq, near, distance, session in _list_neighbors(index, strengths, distances):
        first = index.build_key(session, near)
        key, own = best.get(near) or (first, matched.estimate(first))
        raised[key] = raised.get(key, own) + _RAISES[abs(distance)] * strengths[seq]
    return list(raised.items())


def _list_neighbors(
    index: IndexSearch, seqs: Collection[int], distances: Sequence[int]
) -> Iterator[tuple[int, int, int, int]]:
    """Yields which entries stand so many places from these on a stretch: (entry, neighbour, distance, session).

    The places are reckoned here: above row-level security, PostgreSQL uses no index for a sum.
    """
    sought: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for seq, seg, pos, session in index.db.execute(_SELECT_PLACES, (index.db.bind_list(seqs),)):
        for distance in distances:
            sought.setdefault((seg, pos + distance), []).append((seq, distance, session))
    places = list(sought)
    for start in range(0, len(places), _PAIRS):
        chunk = places[start : start + _PAIRS]
        padded = [*chunk, *[(-1, -1)] * (_PAIRS - len(chunk))]
        for seg, pos, near in index.db.execute(_SELECT_PAIRS, [value for place in padded for value in place]):
            for seq, distance, session in sought[seg, pos]:
                yield seq, near, distance, session


def _arrange_series(
    reader: _PassageReader, ranked: list[Scored], matched: _MatchedTerms
) -> tuple[list[Scored], list[int]]:
    """Does what `arrange_series` does, with those of the best passages that hold the most terms, at least half.

    Of those that are equal, each place in the ranking becomes that of the newest.
    """
    most = max((matched.count_terms(key) for key, _ in ranked[:_SERIES_POOL]), default=0)
    if 2 * most < len(matched.rarity) or not most:
        return ranked, []
    keys = [key for key, _ in ranked[:_SERIES_POOL] if matched.count_terms(key) == most]
    texts = {key: passage.text for key in sorted(keys) if (passage := reader.read(key))}
    newest = {text.strip(): key for key, text in texts.items()}
    ranked = [(newest[texts[key].strip()] if key in texts else key, score) for key, score in ranked]
    return arrange_series(ranked, texts, list(matched.rarity))


def _choose_passages(
    reader: _PassageReader, ranked: Sequence[Scored], scores: Mapping[int, float], matched: _MatchedTerms, limit: int
) -> list[_Passage]:
    """Chooses a passage from each of the best `limit` entries, and then the best of their other passages."""
    said: set[str] = set()
    out: list[_Passage] = []
    keys: list[int] = []
    for key, score in ranked:
        passage = reader.read(key, score)
        if passage is not None and (text := passage.text.strip()) not in said:
            said.add(text)
            out.append(passage)
            keys.append(key)
        if len(out) >= limit:
            break
    others = [
        (key, scores.get(key) or matched.estimate(key))
        for shown in keys
        for key in reader.list_keys(shown)
        if key != shown and matched.count_terms(key)
    ]
    more = (reader.read(*each) for each in nlargest(limit // _HITS_PER_EXTRA, others, key=_rank))
    return [*out, *(each for each in more if each and each.text.strip() not in said)]


def _split_lines(passage: _Passage, entry: str = "") -> Iterator[_SnippetLine]:
    """Splits a passage into lines, to be shown in the hit of its own entry or of the one before it."""
    id_, number = entry or passage.source.entry.id, 0
    for label, text in split_excerpt(passage.plain, passage.start, passage.stop):
        end = 0
        for match in _LINES.finditer(text):
            clean = _SPACE.sub(" ", match.group()).strip()
            if clean:
                order = (passage.source.order, passage.start, number)
                continues = end > 0 and "\n" not in text[end : match.start()]
                yield _SnippetLine(id_, order, clean, passage.score, label, continues)
                number += 1
            end = match.end()


def _sort_lines(index: IndexSearch, lines: Sequence[_SnippetLine], rarity: Mapping[str, float]) -> list[_SnippetLine]:
    """Sorts the lines by the rarity of the terms that they and the lines near them hold."""
    rarities = [0.0] * len(lines)
    for term, rows in index.match_texts([build_index_text(line.text) for line in lines], rarity).items():
        for number, _ in rows:
            rarities[number] += rarity[term]
    weights: list[float] = []
    for number, line in enumerate(lines):
        weight = _PASSAGE_SHARE * line.passage_score
        for share, near in zip(_LINE_SHARES, range(number - 2, number + 3), strict=True):
            if 0 <= near < len(lines) and lines[near].order[:2] == line.order[:2]:
                weight += share * rarities[near]
        weights.append(weight)
    order = sorted(range(len(lines)), key=lambda number: -weights[number])
    return [lines[number] for number in order]


def _find_ends(chosen: Sequence[_Passage], lines: Sequence[_SnippetLine]) -> frozenset[tuple[int, int, int]]:
    """Returns the orders of the lines with which a message ends."""
    last = {line.order[:2]: line.order for line in sorted(lines, key=lambda line: line.order)}
    final = [(each.source.order, each.start) for each in chosen if not each.plain.text[each.stop :].strip()]
    return frozenset(last[place] for place in final if place in last)


def _build_snippets(
    lines: Sequence[_SnippetLine],
    ends: Collection[tuple[int, int, int]],
    following: Iterable[_SnippetLine],
    budget: int,
) -> dict[str, str]:
    """Builds the snippet of each entry within the budget of characters. `lines` are sorted, the best first.

    Each entry gets its best line first. Then come the best lines of all, and then the beginnings of the next messages.
    """
    first = {line.entry: line for line in reversed(lines)}
    taken = {line.order: line for line in first.values()}
    said = {line.text for line in taken.values()}
    budget -= sum(len(line.text) for line in taken.values())
    for line in lines:
        if line.text not in said and len(line.text) <= budget:
            taken[line.order] = line
            said.add(line.text)
            budget -= len(line.text) + 1
    for line in following:
        if len(line.text) > budget:
            break
        taken[line.order] = line
        budget -= len(line.text) + 1
    out: dict[str, str] = {}
    last: dict[str, _SnippetLine] = {}
    owned = {line.order[0] for line in lines}
    cut = {id_ for id_, line in _find_last_lines(taken.values(), owned).items() if line.order not in ends}
    for line in sorted(taken.values(), key=lambda li: li.order):
        previous = last.get(line.entry)
        opening = f"{GAP}\n" if previous is None and line.order[1:] != (0, 0) else ""
        if line.entry in cut and line.order[0] not in owned:
            opening = f"\n{GAP}"
            cut.remove(line.entry)
        out[line.entry] = out.get(line.entry, "") + opening + _join_line(previous, line)
        last[line.entry] = line
    return {id_: f"{text}\n{GAP}" if id_ in cut else text for id_, text in out.items()}


def _find_last_lines(taken: Iterable[_SnippetLine], owned: Collection[int]) -> dict[str, _SnippetLine]:
    """Returns the last line that is shown of each entry itself, and not of the message after it."""
    own = sorted((line for line in taken if line.order[0] in owned), key=lambda line: line.order)
    return {line.entry: line for line in own}


def _list_following_lines(
    index: IndexSearch, reader: _PassageReader, chosen: Sequence[_Passage]
) -> Iterator[_SnippetLine]:
    """Yields the lines that follow each shown entry, for the best entry first, unless they are shown anyway."""
    entries = {passage.source.order: passage.source.entry.id for passage in chosen}
    rows = _list_neighbors(index, entries, (1,))
    followers = {seq: index.build_key(session, near) for seq, near, _, session in rows}
    for seq, id_ in entries.items():
        follows = reader.read(followers[seq]) if seq in followers else None
        if follows is not None and follows.source.order not in entries:
            yield from _split_lines(follows, id_)


def _join_line(previous: _SnippetLine | None, line: _SnippetLine) -> str:
    """Returns a line with what separates it from the previous one, and with its label where that begins."""
    glue, label = "", f"[{line.label}] " if line.label else ""
    if previous is not None and previous.order[0] != line.order[0]:
        glue = NEXT_MESSAGE
    elif previous is not None:
        follows = previous.order == (*line.order[:2], line.order[2] - 1)
        glue = (" " if line.continues else "\n") if follows else f"\n{GAP}\n"
        label = "" if follows and previous.label == line.label else label
    return f"{glue}{label}{line.text}"


# -- misspelt words ----------------------------------------------------------------------------------------------------

MIN_LENGTH = 5
"""Letters of the shortest word that is corrected: among shorter ones nearly every word has a neighbour."""
_LETTERS_PER_EDIT = 5
"""One wrong letter is allowed, and two in a word of twice this length."""
_MAX_EDITS = 2
_MAX_STEMS, _MAX_PASSAGES = 4, 3
"""Stems, and passages of each, among which the word is looked for."""
_MAX_ENDING = 6
"""Letters of the longest ending that the index cuts off a word."""
_WORD = re.compile(r"\w+")


def correct_word(index: IndexSearch, word: str) -> str:
    """Returns the word of these sessions that differs from a misspelt one by a letter or two, "" if there is none.

    A letter may be missing, added or another one, or two neighbours may be swapped, but not the first letter. Words
    with digits are left alone, since another number is another thing.
    """
    if len(word) < MIN_LENGTH or not word.replace("_", "").isalpha():
        return ""
    for stem in _find_similar_stems(index, word):
        for key in index.find_stem(stem, _MAX_PASSAGES):
            words = set(_WORD.findall(_read_passage(index, key)))
            near = [each for each in words if each[0] == word[0] and abs(len(each) - len(word)) <= _MAX_EDITS]
            edits, best = min(((count_edits(each, word)[-1], each) for each in near), default=(len(word), ""))
            if edits <= _count_allowed(word):
                return best
    return ""


def _read_passage(index: IndexSearch, key: int) -> str:
    """Returns what the index was given of a passage, "" if its session is not searched."""
    seq, number = index.split_key(key)
    for source in read_stored_entries(index.db, (seq,), index.scope):
        text = read_plain_text(source.entry).text
        places = split_passages(text)
        start, stop = places[number] if number < len(places) else (0, 0)
        return build_index_text(text[start:stop])
    return ""


def _find_similar_stems(index: IndexSearch, word: str) -> list[str]:
    """Returns the indexed stems that the beginning of a word resembles, the most similar first."""
    lengths = max(2, len(word) - _MAX_ENDING), len(word) + _MAX_EDITS
    found = [
        (edits, -len(stem), stem)
        for stem in index.list_similar_terms(word[0], lengths)
        if len(set(stem) - set(word)) <= _MAX_EDITS and (edits := min(count_edits(stem, word))) <= _count_allowed(stem)
    ]
    return [stem for *_, stem in sorted(found)[:_MAX_STEMS]]


def _count_allowed(word: str) -> int:
    return min(_MAX_EDITS, max(1, len(word) // _LETTERS_PER_EDIT))


def count_edits(one: str, other: str) -> list[int]:
    """Counts the letters to change between a word and each beginning of another one, "" the first and all of it last.

    Two neighbours that are swapped count once.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row
