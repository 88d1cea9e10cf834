"""Compacts a conversation, and looks by words alone for what its view still says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

import msgspec

import tenfold
from tests.kinds.talk import Fact, Json, Kind, Talk, build_talk, load_kind

SHARES = (10, 20)
NEAR = 250
"""Characters to each side of a value within which stands what it is the value of."""
_SECTION = re.compile(r"^# Facts \(.*?(?=^</tenfold-summary>)", re.MULTILINE | re.DOTALL)
_SUMMARY = "<tenfold-summary"
_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)
_DOT = re.compile(r"(?<![\w.])(?:\d{1,2}|pp?|s|nr|no|vgl|ca|bzw|dr|st|approx|kl|d|z)\. ?(?=\w)")


class View(msgspec.Struct, frozen=True):
    """What the model sees at a share of the tokens. `tokens_before` are those of the whole conversation."""

    kind: Kind
    talk: Talk
    messages: list[Json]
    tokens_before: int

    @property
    def text(self) -> str:
        """All that the view says, message by message."""
        return join_texts(self.messages)

    @property
    def rules(self) -> list[str]:
        """The lines of the section with the rules of the user."""
        section = re.search(r"^## Rules \(user\)\n((?:- .*\n?|  .*\n?)*)", self.text, re.MULTILINE)
        return re.findall(r"^- .*", section[1], re.MULTILINE) if section else []

    @property
    def told_actions(self) -> list[str]:
        """The lines of summaries that tell what was done, one action each."""
        summaries = [each["content"] for each in self.messages if _SUMMARY in (each["content"] or "")]
        return re.findall(r"^(?:\[\d+\])?[ ]*- .*", "\n".join(summaries), re.MULTILINE)

    def list_kept(self) -> list[Fact]:
        """The facts of the kind that the view still says."""
        return [fact for fact in self.kind.facts if is_kept(fact.kept, self.text)]


@cache
def get_talk(name: str) -> tuple[Kind, Talk]:
    """A kind and its conversation, built once."""
    kind = load_kind(name)
    return kind, build_talk(kind)


@cache
def get_view(name: str, share: int) -> View:
    """The view of a kind at a share of its tokens, in percent, compacted once."""
    kind, talk = get_talk(name)
    result = tenfold.compact(talk.messages, to=f"{share}%")
    if result.outcome.status != "compacted":
        raise RuntimeError(result.outcome.reason)
    return View(kind, talk, list(result.messages), result.outcome.tokens_before)


def join_texts(messages: list[Json]) -> str:
    """What messages say, with the arguments of their tool calls."""
    parts: list[str] = []
    for each in messages:
        parts.append(each["content"] or "")
        parts += [f"{call['function']['name']} {call['function']['arguments']}" for call in each.get("tool_calls", ())]
    return "\n".join(parts)


@cache
def flatten(text: str) -> str:
    """A text without its layout: one width and case of letters, no marks of Markdown, one blank for any space."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", re.sub(r"[*`|]|(?<=\|)[ :-]+(?=\|)", " ", plain))


def find_words(alternatives: str, plain: str) -> Iterator[int]:
    """Where any of the words that a bar separates stands."""
    pattern = "|".join(re.escape(flatten(words)) for words in alternatives.split("|"))
    return (
        found.start() for found in re.finditer(rf"(?:(?<![0-9a-zà-ÿ])|(?=[^\W0-9a-zà-ÿ]))(?:{pattern})(?![0-9])", plain)
    )


def has_words(alternatives: str, plain: str) -> bool:
    """Whether any of the words that a bar separates stands in a flattened text."""
    return any(True for _ in find_words(alternatives, plain))


def is_kept(kept: tuple[str, ...], text: str) -> bool:
    """Whether the value stands in the text with the words that say what it is, all of them near it."""
    plain = flatten(text)
    value, *about = kept
    for place in find_words(value, plain):
        near = plain[max(place - NEAR, 0) : place + NEAR]
        if all(has_words(words, near) for words in about):
            return True
    return False


def find_stale(view: View) -> list[str]:
    """The stale values that a reader must take for current.

    So it is where the current value stands nowhere, where the story ends with the stale one, or where a rule of the
    user has it. A stale value is no harm if the current one stands beside it or comes after it.
    """
    plain, story = flatten(view.text), flatten(_SECTION.sub("", view.text))
    found = []
    for fact in view.kind.facts:
        if not fact.stale or not has_words(fact.stale, plain):
            continue
        last = max(find_words(fact.stale, story), default=0)
        rules = [rule for rule in map(flatten, view.rules) if has_words(fact.stale, rule)]
        ends = [story[max(last - NEAR, 0) :]] if has_words(fact.stale, story) else []
        if not all(has_words(fact.kept[0], text) for text in (plain, *ends, *rules)):
            found.append(f"{fact.question} {fact.stale}")
    return found


def list_strange_rules(view: View) -> list[str]:
    """The rules in the section of the user's rules that no user gave."""
    return [rule for rule in view.rules if not any(flatten(words) in flatten(rule) for words in view.kind.rules)]


def list_told_as_run(view: View) -> list[str]:
    """The lines of the summary that tell of a command in a fence, or list a file of one, as if it had been done."""
    answers = [each["content"] or "" for each in view.talk.messages if each["role"] == "assistant"]
    fenced = "".join(block for text in answers for block in _FENCE.findall(text)).split("\n")
    advice = {line.strip()[:24] for line in fenced if len(line) > 6} | set(view.kind.fenced_files)
    return [line for line in view.told_actions if any(words in line for words in advice)]


def list_missing_changes(view: View) -> list[str]:
    """What the calls changed in the world and the view does not say: the objects."""
    changes = [turn.change for turn in view.kind.turns if turn.change]
    return [thing for thing, outcome in changes if not is_kept((outcome, thing), view.text)]


def list_bare_rows(view: View) -> list[str]:
    """The rows of tables in the view whose header does not stand before them."""
    plain, found = flatten(view.text), []
    for header, rows in _list_tables(view.talk):
        for row in rows:
            place = plain.find(row)
            if place >= 0 and header not in plain[max(place - 1200, 0) : place]:
                found.append(row)
    return found


_UP_TO_END = re.compile(r"[^?!]*[?!]?")


def list_torn(view: View) -> list[str]:
    """The places in the view where a sentence breaks off, or begins, at a dot that ends no sentence."""
    plain, source, found = flatten(view.text), flatten(join_texts(view.talk.messages)), set()
    dots = {dot.end() for dot in _DOT.finditer(source)}
    sides = {(source[max(dot - 16, 0) : dot].strip().partition(" ")[2], source[dot : dot + 14]) for dot in dots}
    for left, right in sides:
        for place in find_all(left, plain):
            after = _UP_TO_END.match(plain[place + len(left) :][:9])[0]  # type: ignore[index] # it matches anything
            after = after.partition("[")[0].rstrip()
            if left + after not in source and not after.lstrip().startswith(("...", "…", "[")):
                found.add(f"{left} /{after}")
        begins = [plain[place - 5 : place] for place in find_all(right, plain)]
        if begins and dots.issuperset(find_all(right, source)):
            found |= {f"/ {right}" for begin in begins if begin + right not in source}
    return sorted(found)


def find_all(words: str, plain: str) -> list[int]:
    """Where words begin at the beginning of a word."""
    places, place = [], plain.find(words)
    while place >= 0:
        if place == 0 or not plain[place - 1].isalnum():
            places.append(place)
        place = plain.find(words, place + 1)
    return places


def _list_tables(talk: Talk) -> Iterator[tuple[str, list[str]]]:
    """Each table's header, and its rows by their first two cells, flattened."""
    for each in talk.messages:
        for block in re.findall(r"(?:^\|.+\|$\n?){3,}", each["content"] or "", re.MULTILINE):
            lines = [[cell.strip() for cell in row.split("|")] for row in _ROW.findall(block)]
            yield _join_cells(lines[0]), [_join_cells(cells[:2]) for cells in lines[2:]]


def _join_cells(cells: list[str]) -> str:
    return flatten(" | ".join(cells)).strip()
