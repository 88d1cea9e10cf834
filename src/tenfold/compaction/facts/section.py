"""Renders the facts section: the facts that code adds to a summary, as plain text within a token budget.

Must-keep facts come first, with the newest values and what the user said in passing; the rest shares what is left. Text
from tools is on one line after `tool:`, so that it never reads as the user's instruction. `facts/parse.py` reads the
section back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import IntEnum, auto

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.fact_lines import (
    MAX_CONTENT_CHARS,
    add_number,
    quote_line,
    render_line,
    render_source,
    split_outcome,
)
from tenfold.compaction.facts.identifiers import find_numbers
from tenfold.compaction.facts.instructions import ACK_NOTE
from tenfold.compaction.facts.ledger import find_retold_literals
from tenfold.compaction.facts.merge import WRITTEN_KINDS, is_significant
from tenfold.compaction.facts.section_headings import HEADING_BY_LINE, HEADING_INDEX, HEADINGS, NUMBERED_HEADINGS, TITLE
from tenfold.compaction.facts.shell import is_read_only
from tenfold.compaction.facts.tool_results import format_cause, is_success
from tenfold.core.record.block import MUST_KEEP, Fact, FactKind
from tenfold.core.text.excerpts import Count, excerpt, normalize_key
from tenfold.core.text.redaction import redact

_SAID_KINDS: frozenset[FactKind] = frozenset({"rule", "correction", "remark"})
_MULTILINE_KINDS: frozenset[FactKind] = frozenset({"request", "rule", "correction", "remark", "claimed", "todo"})


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


RETOLD_NOTE = " (see also the later rule about "
"""Begins the note behind a rule of which a later one may change a part."""


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
    """Renders facts into at most `budget` tokens: must-keep facts and the newest values, then by rank and recency.

    `is_visible(fact)` is True for a fact that the view shows anyway: it is left out and counts as visible. A request
    too long for its share is shown by head and tail. How much of a long text is shown goes by the larger of `budget`
    and `usual_budget`. With a `words_budget`, that many tokens of it are for all that the user said, word for word and
    numbered: the first message, then the newest.
    """
    visible: list[Fact] = []
    candidates: list[Fact] = []
    for fact in _without_redundant(facts):
        if is_visible(fact):
            visible.append(fact)
        elif (fact.kind, fact.live) in HEADING_INDEX:
            candidates.append(fact)
    files = Counter(HEADING_INDEX[f.kind, True] for f in candidates if f.live and f.kind in WRITTEN_KINDS)
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
    facts = [fact for fact, _ in lines]
    values = _find_newest_values(facts)
    ranked = sorted(
        (pair for pair in lines if id(pair[0]) not in covered),
        key=lambda pair: (words.get(id(pair[0]), _rank_fact(pair[0], values)), -pair[0].position, -pair[0].line),
    )
    chosen, text, size = _fit_ranked(ranked, budget, order, count)
    while size > budget and chosen:
        chosen = chosen[:-1]
        text, size = _render_and_count(chosen, order, count)
    return chosen, text, size


def _without_redundant(facts: Sequence[Fact]) -> list[Fact]:
    """Removes most lines of a settled run of errors, and what a command's line says anyway.

    The first and the last line of a run stay. Lines that name an error come before a linter's. Lines that differ only
    in the folder of their path count once.
    """
    commands = [fact for fact in facts if fact.kind == "command"]
    command_texts = {text for fact in commands for text in (fact.note.removeprefix("ok: "), fact.text)}
    facts = [fact for fact in facts if not (fact.kind == "identifier" and fact.text in command_texts)]
    causes = {(fact.position, split_outcome(fact.note)[1]) for fact in commands}
    runs: dict[tuple[tuple[int, int], str], list[Fact]] = {}
    for fact in facts:
        if fact.kind == "error" and not fact.live:
            runs.setdefault((fact.order, fact.note), []).append(fact)
    kept: set[int] = set()
    for run in runs.values():
        unique = {_without_folders(fact.text): fact for fact in reversed(run)}
        lines = sorted(unique.values(), key=run.index)
        errors = [fact for fact in lines if "rror" in fact.text]
        best = errors if len(errors) > 1 else [*errors, *(fact for fact in lines if fact not in errors)][:2]
        kept |= {id(best[0]), id(best[-1])}
    kept -= {id(fact) for run in runs.values() for fact in run if (fact.position, format_cause(fact.text)) in causes}
    return [fact for fact in facts if fact.kind != "error" or fact.live or id(fact) in kept]


def _without_cause(fact: Fact) -> Fact:
    """Returns a command's fact without its error line; any other fact as it is."""
    return replace(fact, note=split_outcome(fact.note)[0]) if fact.kind == "command" else fact


def _without_folders(line: str) -> str:
    """Returns an error line without the folders of the path it begins with."""
    place, space, rest = line.partition(" ")
    return place.rpartition("/")[2] + space + rest


def is_must_keep(fact: Fact) -> bool:
    """Tells whether a compaction must keep this fact in view: a must-keep kind that is not settled."""
    return fact.live and fact.kind in MUST_KEEP


MAX_VALUE_SENTENCES = 9
"""How many of the model's newest sentences with a number rank high. Prices, counts and limits are often only there."""


def _find_newest_values(facts: Iterable[Fact]) -> set[int]:
    """Returns the `id`s of the `MAX_VALUE_SENTENCES` newest sentences in which the model states a number."""
    sentences = sorted((f for f in facts if _has_value(f) and find_numbers(f.text)), key=lambda f: f.order)
    return {id(fact) for fact in sentences[-MAX_VALUE_SENTENCES:]}


class FactRank(IntEnum):
    """The order in which facts get room: those whose loss costs most come first. Within a rank the newest does."""

    REQUEST = auto()  # what the agent is working on
    RULE = auto()  # what always holds: who breaks it is corrected again
    FIRST_WORDS = auto()  # the task as the user gave it, where a model writes notes
    WORDS = auto()  # what else the user said, where a model writes notes
    PLAN = auto()  # what is done and what comes next
    PASSING_REMARK = auto()  # what the user said in passing, and the newest numbers of the model: said only once
    STATE = auto()  # changed files and unresolved errors: the project itself would show them, at the cost of looking
    EARLIER_REQUEST = auto()  # why things are as they are
    OUTCOME = auto()  # decisions, and the commands that failed, checked or committed something
    DETAIL = auto()  # other commands, identifiers, and errors that are settled
    FILE_READ = auto()  # a file that can be read again
    ACKNOWLEDGEMENT = auto()  # a request that asked for nothing new
    PRINTED_IDENTIFIER = auto()  # an identifier that only a tool printed: most are never used
    LOOK = auto()  # a command that changed nothing


def _rank_fact(fact: Fact, values: Container[int]) -> FactRank:
    """Ranks a fact for admission. The `values`, and those that changed, rank with what the user said in passing."""
    if id(fact) in values or fact.was:
        return FactRank.PASSING_REMARK
    if is_must_keep(fact):
        return _rank_must_keep(fact)
    match fact.kind:
        case "request":
            return FactRank.ACKNOWLEDGEMENT if fact.note == ACK_NOTE else FactRank.EARLIER_REQUEST
        case "decision":
            return FactRank.OUTCOME
        case "command" if is_read_only(fact.key):
            return FactRank.LOOK
        case "command" if not is_success(fact.note) or is_significant(fact.key):
            return FactRank.OUTCOME
        case "identifier" if fact.note == "tool":
            return FactRank.PRINTED_IDENTIFIER
        case "file_read":
            return FactRank.FILE_READ
        case _:
            return FactRank.DETAIL


def _rank_must_keep(fact: Fact) -> FactRank:
    match fact.kind:
        case "request":
            return FactRank.REQUEST
        case "todo":
            return FactRank.PLAN
        case "remark":
            return FactRank.PASSING_REMARK
        case "rule" | "correction" | "claimed":
            return FactRank.RULE
        case _:
            return FactRank.STATE


def _choose_words(facts: Sequence[Fact], budget: int, count: Count) -> dict[int, FactRank]:
    """Returns what the user said before, with its rank, by `id`: the first message and the newest that fit."""
    if not budget:
        return {}
    said = [fact for fact in facts if fact.kind == "request" and not fact.live and fact.note != ACK_NOTE]
    said.sort(key=lambda fact: fact.order, reverse=True)
    said = [*said[-1:], *said[:-1]]
    sizes = count([add_number(fact, render_line(fact, fact.text)) + "\n" for fact in said]) if said else []
    chosen: dict[int, FactRank] = {}
    for fact, size in zip(said, sizes, strict=True):
        if size <= budget:
            budget -= size
            chosen[id(fact)] = FactRank.WORDS if chosen else FactRank.FIRST_WORDS
    return chosen


def _fit_lines(facts: Iterable[Fact], budget: int, count: Count, words: Container[int] = ()) -> list[tuple[Fact, str]]:
    """Returns each fact with its line. A fact that would exceed its share is shortened with a visible gap.

    A command does not repeat an unresolved error.
    """
    facts = list(facts)
    error_causes = {(fact.position, format_cause(fact.text)) for fact in facts if fact.kind == "error" and fact.live}
    content_chars = _get_content_chars(budget, sum(bool(fact.content) for fact in facts))
    retold = find_retold_literals([fact for fact in facts if fact.live and fact.kind in ("rule", "correction")])

    def render_in_full(fact: Fact) -> str:
        repeats = (fact.position, split_outcome(fact.note)[1]) in error_causes
        shown = _without_cause(fact) if repeats else fact
        return render_line(shown, fact.text, content_chars) + render_retold(fact)

    def render_retold(fact: Fact) -> str:
        return f'{RETOLD_NOTE}"{redact(retold[id(fact)])}")' if id(fact) in retold else ""

    lines = [render_in_full(fact) for fact in facts]
    out: list[tuple[Fact, str]] = []
    for fact, line, size in zip(facts, lines, count(lines) if lines else [], strict=True):
        share = int(budget * _get_share(fact) / 20)
        is_too_long = size > share and fact.kind in _MULTILINE_KINDS and id(fact) not in words
        short = render_line(fact, _shorten_fact(fact, share, size)) + render_retold(fact) if is_too_long else line
        out.append((fact, short))
    return out


def _get_content_chars(budget: int, files: int) -> int:
    """Returns how many characters of its changes each file may show: more where the section has room for it.

    All files together get four tenths of the section, at four characters a token.
    """
    return min(max(MAX_CONTENT_CHARS, budget * 16 // (10 * max(files, 1))), _MOST_CONTENT_CHARS)


_MOST_CONTENT_CHARS = 480


def _shorten_fact(fact: Fact, share: int, size: int) -> str:
    """Shortens the text of a fact of `size` tokens to about `share`."""
    if fact.kind == "todo":
        return _shorten_todos(fact.text, len(fact.text) * share // size)
    return excerpt(fact.text, max(len(fact.text) * share // size - 20, MIN_SHOWN_CHARS))


def _get_share(fact: Fact) -> float:
    """Returns how many twentieths of the section one fact may take."""
    if fact.kind != "request":
        return 6
    return 8 if fact.live else 1


def _shorten_todos(text: str, limit: int) -> str:
    """Shortens a long list to about `limit` characters: open items first, and the number of items left out."""
    lines = text.split("\n")
    open_lines = [line for line in lines if "[x]" not in line[:8].lower()]
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
        if fact.kind == "request" and (fact.live or id(fact) in words) and line == render_line(fact, fact.text)
    ]
    rules = {normalize_key(fact.text): fact for fact, _ in pairs if fact.kind in _SAID_KINDS}
    out: dict[int, int] = {}
    for fact, _ in pairs:
        if fact.kind in _SAID_KINDS:
            holder = next(
                (other for other in requests if other.position == fact.position and fact.text in other.text), None
            )
        elif fact.kind == "request" and not fact.live and id(fact) not in words:
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
    last_change = max((number for number, (fact, _) in enumerate(ranked) if fact.content), default=-1)
    changes = [pair for pair in ranked[: last_change + 1] if pair[0].content]
    steps = [(fact, _render_path(fact) if fact.content else line) for fact, line in ranked[: last_change + 1]]
    steps += [*changes, *ranked[last_change + 1 :]]
    sizes = count([line + "\n" for _, line in steps]) if steps else []
    heading_sizes = dict(zip(HEADING_BY_LINE, count([line + "\n" for line in HEADING_BY_LINE]), strict=True))
    remaining = budget - count([TITLE + "\n"])[0]
    if any(fact.kind in WRITTEN_KINDS for fact, _ in ranked):
        remaining -= count([_render_more(len(ranked)) + "\n"])[0]
    chosen: dict[int, tuple[Fact, str]] = {}
    used: dict[int, int] = {}
    open_headings: set[str] = set()
    for (fact, line), size in zip(steps, sizes, strict=True):
        heading = HEADINGS[HEADING_INDEX[fact.kind, fact.live]].line
        cost = size - used.get(id(fact), 0) + (0 if heading in open_headings else heading_sizes[heading])
        run = f"{heading} {fact.note}"
        if _is_joinable(fact) and run in open_headings:
            cost = count([ERROR_SEPARATOR + quote_line(redact(fact.text))])[0]
        if cost <= remaining:
            remaining -= cost
            open_headings |= {heading, run}
            chosen[id(fact)], used[id(fact)] = (fact, line), size
    return list(chosen.values())


def _render_path(fact: Fact) -> str:
    """Returns the line of a file without what was changed in it."""
    return render_line(replace(fact, content=""), fact.text)


def _render_more(number: int) -> str:
    return f"- ({number} more)"


def _has_value(fact: Fact) -> bool:
    return fact.kind == "identifier" and fact.note == "model" and " " in fact.text


ERROR_SEPARATOR = " | "
"""Separates the settled errors of one command on one line, so that the command is named once."""
_MAX_LINE_CHARS = 480
"""Longest such line, in characters. An error further from its command is no longer read with it."""


def _is_joinable(fact: Fact) -> bool:
    return fact.kind == "error" and not fact.live and bool(fact.note)


def _join_error_lines(pairs: Sequence[tuple[Fact, str]]) -> list[str]:
    """Returns the lines in order. Settled errors of one command are put on the line of its first."""
    first_lines: dict[str, int] = {}
    lines: list[str] = []
    for fact, line in pairs:
        at = first_lines.get(fact.note, -1) if _is_joinable(fact) else -1
        if at >= 0 and len(lines[at]) + len(more := ERROR_SEPARATOR + quote_line(redact(fact.text))) <= _MAX_LINE_CHARS:
            end = len(lines[at]) - len(render_source(fact.note))
            lines[at] = lines[at][:end] + more + lines[at][end:]
            continue
        first_lines[fact.note] = len(lines)
        lines.append(line)
    return lines


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
        pairs = [(fact, add_number(fact, line)) for fact, line in under[place]] if is_numbered else under[place]
        lines.extend(_join_error_lines(pairs))
        if (unshown := order.files.get(place, 0) - len(under[place])) > 0:
            lines.append(_render_more(unshown))
    return "\n".join(lines)
