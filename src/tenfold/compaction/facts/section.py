"""Renders the facts section: the facts that code adds to a summary, as plain text within a token budget.

Must-keep facts come first; earlier requests and files that were read share what is left. Text from tools is on one line
after `tool:`, so that it never reads as the user's instruction. `facts/parse.py` reads the section back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from enum import IntEnum, auto
from itertools import accumulate, takewhile

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.fact_lines import MAX_CONTENT_CHARS, add_number, render_line
from tenfold.compaction.facts.section_headings import HEADING_INDEX, HEADINGS, NUMBERED_HEADINGS, TITLE
from tenfold.core.record.fact import (
    MUST_KEEP,
    ChangedFile,
    Claim,
    Correction,
    Fact,
    FileRead,
    Remark,
    Request,
    Rule,
    TodoList,
)
from tenfold.core.text.excerpts import Count, excerpt, normalize_key

_SAID = (Rule, Correction, Remark)
_OF_LINES = (Request, *_SAID, Claim, TodoList)


class FactsSection(Struct, frozen=True):
    """A rendered section of `tokens` tokens.

    `visible` are the facts that this text or the rest of the view shows, `unshown` must-keep facts that did not fit.
    `footer` are the lists of files of a policy that puts them at the end; its tokens are not in `tokens`.
    """

    text: str
    visible: tuple[Fact, ...]
    unshown: tuple[Fact, ...]
    tokens: int
    footer: str = ""


class _ReadingOrder(Struct, frozen=True):
    """Where each fact stands in reading order, by `id`, and how many changed files there are, by heading.

    With `is_numbered`, the user's words stand first, with the numbers of their messages.
    """

    places: Mapping[int, int]
    files: Mapping[int, int]
    is_numbered: bool = False


MIN_SHOWN_CHARS = 160
"""A long rule or request is not shortened below this many characters, since the rest would say nothing."""


def _is_never_visible(_fact: Fact) -> bool:
    return False


def render_facts(
    facts: Sequence[Fact],
    *,
    budget: int,
    count: Count,
    is_visible: Callable[[Fact], bool] = _is_never_visible,
    usual_budget: int = 0,
    words_budget: int = 0,
) -> FactsSection:
    """Renders facts into at most `budget` tokens: must-keep facts, then by rank and recency.

    `is_visible(fact)` is True for a fact that the view shows anyway: it is left out and counts as visible. A request
    too long for its share is shown by head and tail. How much of a long text is shown goes by the larger of `budget`
    and `usual_budget`. With a `words_budget`, that many tokens of it are for all that the user said, word for word and
    numbered: the first message, then the newest.
    """
    visible: list[Fact] = []
    candidates: list[Fact] = []
    for fact in facts:
        if (fact.kind, fact.live) in HEADING_INDEX:
            (visible if is_visible(fact) else candidates).append(fact)
    files = Counter(HEADING_INDEX[f.kind, True] for f in candidates if isinstance(f, ChangedFile))
    words = _choose_words(candidates, words_budget, count)
    offered = len(words)
    while True:
        lines = _fit_lines(candidates, max(budget, usual_budget), count, words)
        order = _ReadingOrder({id(f): at for at, (f, _) in enumerate(lines)}, files, is_numbered=bool(words_budget))
        covered = _find_covered(lines, words)
        chosen, text, size = _choose_lines(lines, covered, words, budget, order, count)
        shown = {id(fact) for fact, _ in chosen}
        if shown.issuperset(words):
            break
        # A rule whose message has no room needs a line of its own, for which other messages may have to go.
        is_second = len(words) < offered
        words = {} if is_second else {key: rank for key, rank in words.items() if key in shown}
    shown |= {fact for fact, other in covered.items() if other in shown}
    kept = tuple(fact for fact in facts if id(fact) in shown) + tuple(visible)
    unshown = tuple(fact for fact in candidates if is_must_keep(fact) and id(fact) not in shown)
    return FactsSection(text=text, visible=kept, unshown=unshown, tokens=size)


def _choose_lines(
    lines: Sequence[tuple[Fact, str]],
    covered: Container[int],
    words: Mapping[int, FactRank],
    budget: int,
    order: _ReadingOrder,
    count: Count,
) -> tuple[list[tuple[Fact, str]], str, int]:
    """Returns the lines that fit the budget, by rank and recency, with their text and its tokens."""
    ranked = sorted(
        (pair for pair in lines if id(pair[0]) not in covered),
        key=lambda pair: (words.get(id(pair[0]), _rank_fact(pair[0])), -pair[0].position, -pair[0].line),
    )
    chosen, text, size = _fit_ranked(ranked, budget, order, count)
    while size > budget and chosen:
        chosen = chosen[:-1]
        text, size = _render_and_count(chosen, order, count)
    return chosen, text, size


def is_must_keep(fact: Fact) -> bool:
    """Tells whether a compaction must keep this fact in view: a must-keep kind that is not settled."""
    return fact.live and fact.kind in MUST_KEEP


class FactRank(IntEnum):
    """The order in which facts get room: those whose loss costs most come first. Within a rank the newest does."""

    REQUEST = auto()  # what the agent is working on
    RULE = auto()  # what always holds: who breaks it is corrected again
    FIRST_WORDS = auto()  # the task as the user gave it, where a model writes notes
    WORDS = auto()  # what else the user said, where a model writes notes
    PLAN = auto()  # what is done and what comes next
    REMARK = auto()  # what the user said in a language without cues
    STATE = auto()  # changed files and unresolved errors: the project itself would show them, at the cost of looking
    EARLIER_REQUEST = auto()  # why things are as they are
    FILE_READ = auto()  # a file that can be read again
    ACKNOWLEDGEMENT = auto()  # a request that asked for nothing new


def _rank_fact(fact: Fact) -> FactRank:
    match fact:
        case Request(live=True):
            return FactRank.REQUEST
        case Request():
            return FactRank.ACKNOWLEDGEMENT if fact.is_acknowledgement else FactRank.EARLIER_REQUEST
        case Rule() | Correction() | Claim():
            return FactRank.RULE
        case TodoList():
            return FactRank.PLAN
        case Remark():
            return FactRank.REMARK
        case FileRead():
            return FactRank.FILE_READ
        case _:
            return FactRank.STATE


def _choose_words(facts: Sequence[Fact], budget: int, count: Count) -> dict[int, FactRank]:
    """Returns what the user said before, with its rank, by `id`: the first message and the newest that fit."""
    if not budget:
        return {}
    said = [f for f in facts if isinstance(f, Request) and not f.live and not f.is_acknowledgement]
    said.sort(key=lambda fact: fact.order, reverse=True)
    said = [*said[-1:], *said[:-1]]
    sizes = count([add_number(fact, render_line(fact, fact.text)) + "\n" for fact in said]) if said else []
    chosen: dict[int, FactRank] = {}
    for fact, size in zip(said, sizes, strict=True):
        if size <= budget:
            budget -= size
            chosen[id(fact)] = FactRank.WORDS if chosen else FactRank.FIRST_WORDS
    return chosen


def _fit_lines(facts: Sequence[Fact], budget: int, count: Count, words: Container[int] = ()) -> list[tuple[Fact, str]]:
    """Returns each fact with its line. A fact that would exceed its share is shortened with a visible gap."""
    content_chars = _get_content_chars(budget, sum(_has_content(fact) for fact in facts))
    lines = [render_line(fact, get_shown_text(fact), content_chars) for fact in facts]
    out: list[tuple[Fact, str]] = []
    for fact, line, size in zip(facts, lines, count(lines) if lines else [], strict=True):
        share = int(budget * _get_share(fact) / 20)
        is_too_long = size > share and isinstance(fact, _OF_LINES) and id(fact) not in words
        out.append((fact, render_line(fact, _shorten_fact(fact, share, size)) if is_too_long else line))
    return out


def _get_content_chars(budget: int, files: int) -> int:
    """Returns how many characters of its changes each file may show: more where the section has room for it.

    All files together get four tenths of the section, at four characters a token.
    """
    return min(max(MAX_CONTENT_CHARS, budget * 16 // (10 * max(files, 1))), _MOST_CONTENT_CHARS)


_MOST_CONTENT_CHARS = 480


def _shorten_fact(fact: Fact, share: int, size: int) -> str:
    """Shortens the text of a fact of `size` tokens to about `share`."""
    if isinstance(fact, TodoList):
        return _shorten_todos(fact.text, len(fact.text) * share // size)
    return excerpt(fact.text, max(len(fact.text) * share // size - 20, MIN_SHOWN_CHARS))


def _get_share(fact: Fact) -> float:
    """Returns how many twentieths of the section one fact may take."""
    if not isinstance(fact, Request):
        return 6
    return 8 if fact.live else 1


def get_shown_text(fact: Fact) -> str:
    """Returns the text of a fact; of a to-do list, with its finished items on one line, the newest if they are many."""
    if not isinstance(fact, TodoList):
        return fact.label
    lines = fact.text.split("\n")
    done = [_DONE_MARK.sub("", line) for line in lines if _is_done(line)]
    if len(done) < _LEAST_FOLDED:
        return fact.text
    shown = list(takewhile(lambda length: length <= _DONE_CHARS, accumulate(len(item) + 2 for item in reversed(done))))
    newest = done[len(done) - max(len(shown), 1) :]
    folded = f"[x] ({len(done)} done{', the last' if len(newest) < len(done) else ''}) {'; '.join(newest)}"
    return "\n".join([folded, *(line for line in lines if not _is_done(line))])


_LEAST_FOLDED, _DONE_CHARS = 3, 200
"""The number of finished items from which on they share a line, and about how many characters of them it has."""
_DONE_MARK = re.compile(r"^\s*+(?:[-*]\s++)?\[[xX]\]\s*+")


def _is_done(line: str) -> bool:
    return "[x]" in line[:8].lower()


def _shorten_todos(text: str, limit: int) -> str:
    """Shortens a long list to about `limit` characters: open items first, and the number of items left out."""
    lines = text.split("\n")
    open_lines = [line for line in lines if not _is_done(line)]
    available = max(limit - 40, 40)
    kept: list[str] = []
    for line in open_lines:
        if available < len(line):
            break
        kept.append(line)
        available -= len(line) + 1
    done_count = len(lines) - len(open_lines)
    return "\n".join([*kept, f"({done_count} done and {len(open_lines) - len(kept)} open items not shown)"])


def _find_covered(pairs: Sequence[tuple[Fact, str]], words: Container[int] = ()) -> dict[int, int]:
    """Returns facts that need no line of their own, each with the fact whose line holds its words (both by `id`).

    Those are rules within the current request or the `words` of the user, and earlier requests that are kept as rules.
    """
    requests = [
        fact
        for fact, line in pairs
        if isinstance(fact, Request) and (fact.live or id(fact) in words) and line == render_line(fact, fact.text)
    ]
    rules = {normalize_key(fact.text): fact for fact, _ in pairs if isinstance(fact, _SAID)}
    out: dict[int, int] = {}
    for fact, _ in pairs:
        holder: Fact | None
        if isinstance(fact, _SAID):
            holder = next(
                (other for other in requests if other.position == fact.position and fact.text in other.text), None
            )
        elif isinstance(fact, Request) and not fact.live and id(fact) not in words:
            holder = rules.get(normalize_key(fact.text))
            holder = None if holder is None or holder.position != fact.position else holder
        else:
            continue
        if holder is not None:
            out[id(fact)] = out.get(id(holder), id(holder))
    return out


def _fit_ranked(
    ranked: Sequence[tuple[Fact, str]], budget: int, order: _ReadingOrder, count: Count
) -> tuple[list[tuple[Fact, str]], str, int]:
    """Returns the ranked facts that fit, their text and its tokens."""
    text, size = _render_and_count(ranked, order, count)
    if size <= budget:
        return list(ranked), text, size
    chosen = _choose_facts(ranked, budget, count)
    return chosen, *_render_and_count(chosen, order, count)


def _choose_facts(ranked: Sequence[tuple[Fact, str]], budget: int, count: Count) -> list[tuple[Fact, str]]:
    """Chooses facts by rank as long as their lines, and the headings they open, fit.

    All changed files get a line before what was changed in any of them is told.
    """
    last_change = max((number for number, (fact, _) in enumerate(ranked) if _has_content(fact)), default=-1)
    changes = [pair for pair in ranked[: last_change + 1] if _has_content(pair[0])]
    steps = [(fact, _render_path(fact, line)) for fact, line in ranked[: last_change + 1]]
    steps += [*changes, *ranked[last_change + 1 :]]
    sizes = count([line + "\n" for _, line in steps]) if steps else []
    heading_sizes = count([heading.line + "\n" for heading in HEADINGS])
    remaining = budget - count([TITLE + "\n"])[0]
    if any(isinstance(fact, ChangedFile) for fact, _ in ranked):
        remaining -= count([_render_more(len(ranked)) + "\n"])[0]
    chosen: dict[int, tuple[Fact, str]] = {}
    used: dict[int, int] = {}
    open_headings: set[int] = set()
    for (fact, line), size in zip(steps, sizes, strict=True):
        heading = HEADING_INDEX[fact.kind, fact.live]
        cost = size - used.get(id(fact), 0) + (0 if heading in open_headings else heading_sizes[heading])
        if cost <= remaining:
            remaining -= cost
            open_headings.add(heading)
            chosen[id(fact)], used[id(fact)] = (fact, line), size
    return list(chosen.values())


def _has_content(fact: Fact) -> bool:
    return isinstance(fact, ChangedFile) and bool(fact.content)


def _render_path(fact: Fact, line: str) -> str:
    """Returns the line of a file without what was changed in it, and that of any other fact."""
    return render_line(replace(fact, content=""), fact.label) if isinstance(fact, ChangedFile) else line


def _render_more(number: int) -> str:
    return f"- ({number} more)"


def _render_and_count(chosen: Sequence[tuple[Fact, str]], order: _ReadingOrder, count: Count) -> tuple[str, int]:
    text = _render_section(chosen, order)
    return (text, count([text])[0]) if text else ("", 0)


def _render_section(chosen: Sequence[tuple[Fact, str]], order: _ReadingOrder) -> str:
    if not chosen:
        return ""
    under: dict[int, list[tuple[Fact, str]]] = {}
    for pair in chosen:
        under.setdefault(HEADING_INDEX[pair[0].kind, pair[0].live], []).append(pair)
    lines = [TITLE]
    for place in sorted(under, key=lambda place: (order.is_numbered and HEADINGS[place].kind != "request", place)):
        heading = HEADINGS[place]
        is_numbered = order.is_numbered and heading.kind == "request"
        lines.append(NUMBERED_HEADINGS[heading.live].line if is_numbered else heading.line)
        under[place].sort(key=lambda pair: (pair[0].order, order.places[id(pair[0])]))
        lines.extend(
            add_number(fact, line) if is_numbered and isinstance(fact, Request) else line for fact, line in under[place]
        )
        if (unshown := order.files.get(place, 0) - len(under[place])) > 0:
            lines.append(_render_more(unshown))
    return "\n".join(lines)
