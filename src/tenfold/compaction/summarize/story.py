"""Writes a range as a story without a model: what was asked, said and done, in order, with content.

The range is split into passages: a sentence of the user or the assistant, a tool call with its outcome, a line of a
result, a line of an earlier summary. Those that tell the most are chosen (`coverage`), and rendered in their order.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, takewhile
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from tenfold.compaction.facts.edit_content import describe_edit
from tenfold.compaction.facts.shell import normalize_command, strip_directory_change
from tenfold.compaction.facts.tool_calls import NO_TOOL_NAMES, ToolAction, ToolNames, is_lookup
from tenfold.compaction.facts.tool_results import has_failed, is_success
from tenfold.compaction.facts.user_words import split_pasted
from tenfold.compaction.summarize.coverage import (
    CALL_KINDS,
    EARLIER_ITEM,
    NEWEST_CALL,
    NEWEST_HEAD,
    Passage,
    PassageChoice,
    PassageKind,
    weigh_passages,
)
from tenfold.compaction.summarize.narrative import NarratedCall, NarrativeItem, build_items
from tenfold.compaction.summarize.result_lines import MAX_LINE_CHARS, list_result_lines
from tenfold.core.record.message import Message
from tenfold.core.text.excerpts import Count, collapse_spaces, excerpt, flatten, is_prose, strip_markdown
from tenfold.core.text.json_text import extract_prose
from tenfold.core.text.redaction import redact_cached
from tenfold.core.text.sentences import FENCE, split_sentences
from tenfold.core.wire.marks import strip_harness_text

MAX_SENTENCE_CHARS = 320


def write_story(  # noqa: PLR0913 - what is told, what is known already, and the room
    items: Sequence[tuple[int, Message]],
    *,
    budget: int,
    count: Count,
    earlier: Sequence[str] = (),
    kept: Mapping[int, str] = MappingProxyType({}),
    told: str = "",
    tools: ToolNames = NO_TOOL_NAMES,
) -> str:
    """Writes the messages, and earlier summaries before them, in at most `budget` tokens. "" if nothing fits.

    The user's messages at the positions in `kept` stay in view: only their place is told, and the text given there,
    which the view leaves out. The user's sentences that `told` holds are left out, and each term that it holds counts
    as told. `tools` names tools that act, or look something up, against what their name says.
    """
    narrative = [_mark_kept(item, kept) for item in build_items(items)]
    mended = _find_mended(narrative)
    hidden = frozenset(position for position, text in kept.items() if text)
    passages, weights = weigh_passages(
        [*_split_earlier(earlier, mended), *_split_items(narrative, told, mended, hidden, tools)]
    )
    choice = PassageChoice(passages, weights, count, told)
    text, limit = "", budget
    for _ in range(_FILL_ROUNDS):
        choice.fill(limit)
        longer = _render_story(passages, choice.chosen, narrative)
        size = count([longer])[0]
        while size > budget and choice.chosen:
            choice.drop_last()
            longer = _render_story(passages, choice.chosen, narrative)
            size = count([longer])[0]
        if len(longer) <= len(text):
            break
        text, limit = longer, choice.spent + budget - size
    return text


_KEPT_TEXT = "(the message that stands above)"


def _mark_kept(item: NarrativeItem, kept: Mapping[int, str]) -> NarrativeItem:
    return replace(item, text=kept[item.first] or _KEPT_TEXT) if item.speaker == "user" and item.first in kept else item


_FILL_ROUNDS = 3
"""How often the tokens that the estimate of the marks had held back are given out."""


# -- passages ----------------------------------------------------------------------------------------------------------


def _find_mended(narrative: Sequence[NarrativeItem]) -> dict[str, int]:
    """Finds the calls that succeeded when they were last made, by key, each with the number of that item.

    All commands of a chain that succeeded did.
    """
    last_runs: dict[str, tuple[int, str]] = {}
    for number, item in enumerate(narrative):
        for call in item.calls:
            key = _build_call_key(call.action)
            is_chain = call.action.verb == "shell" and is_success(call.note)
            parts = [f"$ {part}" for part in key.removeprefix("$ ").split(" && ")] if is_chain else []
            last_runs |= dict.fromkeys((key, *parts), (number, call.note))
    return {key: number for key, (number, note) in last_runs.items() if is_success(note)}


def _build_call_key(action: ToolAction) -> str:
    """Returns what makes two calls the same: the command, the tool and its file, or the tool and all its arguments."""
    if action.verb == "shell":
        return action.source
    return action.label if action.effects else f"{action.source} {action.arguments}"


_MENDED = " (later ok)"
"""Stands behind a failure of a command that succeeded when it last ran, which the story need not tell otherwise."""
_FAILED_LINE = re.compile(r"[^-\n]{0,40}- (?P<label>.{1,400}?) -> (?:exit \d+|failed|errors)[^;\n]*")


def _split_earlier(texts: Sequence[str], mended: Mapping[str, int]) -> Iterator[Passage]:
    for line in (line for text in texts for line in text.split("\n")):
        found = _FAILED_LINE.match(line)
        keys = (found["label"], f"$ {normalize_command(found['label'])}") if found else ()
        if found and _MENDED not in line and any(key in mended for key in keys):
            line = line[: found.end()] + _MENDED + line[found.end() :]  # noqa: PLW2901 - the same line, brought up to date
        if line.strip() and not line.endswith(_KEPT_TEXT):  # another message may stand above by now
            kind = PassageKind.REQUEST if "] User: " in line else PassageKind.EARLIER
            yield Passage(EARLIER_ITEM, line.rstrip(), kind)


def _split_items(
    narrative: Sequence[NarrativeItem], told: str, mended: Mapping[str, int], hidden: Container[int], tools: ToolNames
) -> Iterator[Passage]:
    """Splits each item into passages: what was said, what the user passed on, and the calls.

    The user's sentences that `told` holds are left out. Of an item whose position is in `hidden`, the text is what an
    excerpt in view leaves out: it is worth telling as far as the work comes back to it.
    """
    answers = _find_answers(narrative)
    told = collapse_spaces(told)
    for number, item in enumerate(narrative):
        kinds = _get_sentence_kinds(item, is_answer=number in answers)
        own, pasted = _split_words(item)
        lines_said = "".join(f"{line.rstrip()}\n" for line in item.text.split("\n")) if item.speaker == "user" else ""
        factor = _ANSWER_FACTOR if number in answers else _USER_FACTOR if item.speaker == "user" else 1.0
        for place, piece in enumerate(_split_text(own)):
            kind = kinds[min(place, 1)]
            if piece.is_head:
                kind = PassageKind.HEAD
            elif item.speaker == "user":
                if _is_told(piece.text, lines_said, told):
                    continue
                if item.first in hidden:
                    kind = PassageKind.PASTED
                elif piece.text.endswith(_QUESTION_MARKS):
                    kind = PassageKind.QUESTION
            yield Passage(number, piece.text, kind, NEWEST_HEAD if piece.is_item else None, factor)
        for piece in _split_text(pasted):
            kind = PassageKind.HEAD if piece.is_head else PassageKind.PASTED
            yield Passage(number, piece.text, kind, NEWEST_HEAD if piece.is_item else None)
        for call in item.calls:
            is_mended = mended.get(_build_call_key(call.action), -1) > number
            yield from _split_call(number, call, tools, is_mended=is_mended)


def _split_words(item: NarrativeItem) -> tuple[str, str]:
    """Returns what the speaker of an item said, and what of it is only passed on, such as a log or a document.

    What a program put beside the user's words in tags is passed on as well.
    """
    if item.speaker != "user":
        return item.text, ""
    said = strip_harness_text(item.text)
    parts = split_pasted(said)
    own, pasted = ("\n".join(text for text, is_own in parts if is_own is wanted) for wanted in (True, False))
    context = item.text if not said else "" if said == item.text.strip() else item.text.replace(said, "")
    return own, "\n".join(text for text in (pasted, context) if text)


def _is_told(sentence: str, lines: str, told: str) -> bool:
    """Tells whether a sentence is told already, and nothing follows on its line that may refer to it.

    `lines` is the text that it is from, without blanks at the ends of its lines, each of which has its line break.
    What only opens it, such as "Rules for today:", need not be told.
    """
    said = sentence.rpartition(": ")[2]
    said = said if len(said) >= _MIN_TOLD_CHARS else sentence
    return len(said) >= _MIN_TOLD_CHARS and said in told and f"{said}\n" in lines


_USER_FACTOR, _ANSWER_FACTOR = 1.2, 1.4
"""How much more the words of the user, and what they got as an answer, are worth than what was said on the way."""
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_MIN_TOLD_CHARS = 20
"""A shorter sentence may stand in a longer one by chance."""


def _find_answers(narrative: Sequence[NarrativeItem]) -> frozenset[int]:
    """Finds the assistant's last words before each of the user's messages, and the last of all."""
    out: set[int] = set()
    last: int | None = None
    for number, item in enumerate(narrative):
        if item.speaker == "assistant" and item.text.strip():
            last = number
        elif item.speaker == "user" and last is not None:
            out.add(last)
            last = None
    return frozenset(out if last is None else {*out, last})


def _get_sentence_kinds(item: NarrativeItem, *, is_answer: bool) -> tuple[PassageKind, PassageKind]:
    """Returns the kinds of an item's first sentence and of the others."""
    match item.speaker:
        case "user":
            return PassageKind.REQUEST, PassageKind.USER
        case "assistant" if is_answer:
            return PassageKind.ANSWER, PassageKind.SENTENCE
        case "assistant":
            return PassageKind.SENTENCE, PassageKind.SENTENCE
        case "unconfirmed":
            return PassageKind.EARLIER, PassageKind.EARLIER
        case _:
            return PassageKind.RESULT, PassageKind.RESULT


_ITEM = re.compile(r"[-*\u2022|+]\s?|\d{1,2}[.)]\s|\[[ xX]\]")
_LIST_NUMBER = re.compile(r"\d{1,2}[.)]")


class _Piece(NamedTuple):
    """A sentence, whether it opens a list or table, and whether it stands under what does."""

    text: str
    is_head: bool = False
    is_item: bool = False


def _split_text(text: str) -> Iterator[_Piece]:
    """Yields the sentences of what somebody said. Some agents say it as the values of a JSON object.

    What ends in a colon is the head of what follows it, and the first row of a table that of the others.
    """
    head, has_head, was_row = "", False, False
    for sentence in split_sentences(extract_prose(redact_cached(text))):  # the whole: a secret may have several lines
        if block := FENCE.fullmatch(sentence):
            if code := _shorten_block(sentence, block[1]):
                if head:
                    yield _Piece(head, is_head=True)
                yield _Piece(f"`{code}`", is_item=bool(head) or has_head)
                head = ""
            continue
        line = flatten(sentence)
        words = strip_markdown(line)
        if not any(c.isalnum() for c in words) or _LIST_NUMBER.fullmatch(words):
            continue
        is_row = line.startswith("|")
        is_item = bool(head) or (has_head and _ITEM.match(line) is not None)
        if head:
            yield _Piece(head, is_head=True)
        shown = excerpt(words, MAX_SENTENCE_CHARS)
        if (words.endswith((":", "\uff1a")) and len(words) < MAX_LINE_CHARS) or (is_row and not was_row):
            head, has_head = shown, True
        else:
            head, has_head = "", is_item
            yield _Piece(shown, is_item=is_item)
        was_row = is_row
    if head:
        yield _Piece(head)


def _shorten_block(block: str, fence: str) -> str:
    """Returns the first whole lines of a fenced block on one line, and says how many follow; "" of an empty one."""
    lines = [flatten(line) for line in block.strip().split("\n")[1:] if line.strip() and line.strip() != fence]
    shown = list(takewhile(lambda length: length <= MAX_LINE_CHARS, accumulate(len(line) + 3 for line in lines)))
    first = lines[: max(len(shown), 1)]
    more = [f"... ({len(lines) - len(first)} more lines)"] if len(lines) > len(first) else []
    return " / ".join([excerpt(line, MAX_LINE_CHARS) for line in first] + more)


def _get_label(call: NarratedCall) -> str:
    return excerpt(strip_directory_change(flatten(call.action.label)), MAX_LINE_CHARS)


def _split_call(number: int, call: NarratedCall, tools: ToolNames, *, is_mended: bool) -> Iterator[Passage]:
    """Yields the call with its outcome, then what it changed, or the lines of its output.

    A short output is told with the call: without it, that a command ran says nothing.
    """
    changes = [text for effect in call.action.effects if (text := describe_edit(call.action, effect))]
    is_change = any(effect.verb != "read" for effect in call.action.effects)
    is_failure = has_failed(call.note)
    is_action = call.action.verb == "other" and not is_lookup(call.action.source, tools)  # such as a booking
    has_result = is_change or is_action or ": " in call.note  # such as a commit
    kind = PassageKind.FAILURE if is_failure else PassageKind.CHANGE if has_result else PassageKind.CALL
    thoughts = _list_thoughts(call)
    label = call.action.source if thoughts else _get_label(call)
    mended = _MENDED if is_failure and is_mended else ""
    outcome = redact_cached(f"{label} -> {call.note or 'no result'}{mended}")
    lines = [] if is_change and not is_failure else _list_output(call)
    if is_failure and call.error:
        lines = list(dict.fromkeys([_quote_line(call.error), *lines]))
    is_short = lines and len(lines) <= _FEW_LINES and sum(map(len, lines)) <= _FEW_CHARS
    if is_short:
        yield Passage(number, f"{outcome}; {_quote_output(lines)}", kind)
    else:
        yield Passage(number, outcome, kind, lines=len(lines))
    for sentence in thoughts:
        yield Passage(number, sentence, PassageKind.THOUGHT, NEWEST_CALL)
    if is_short:
        return
    if is_change and not is_failure:
        for text in changes:
            yield Passage(number, redact_cached(flatten(text)), PassageKind.CONTENT, NEWEST_CALL)
    for place, line in enumerate(lines):
        is_error = is_failure and call.error and not place
        kind = PassageKind.FAILURE if is_error else PassageKind.RESULT
        yield Passage(number, line, kind, NEWEST_CALL)


def _list_output(call: NarratedCall) -> list[str]:
    """Lists the lines that a call returned, but for those in which a terminal repeats the command."""
    echo = flatten(call.action.label)[:MAX_LINE_CHARS]
    return [line for line in list_result_lines(call.result) if not echo or echo not in line]


def _list_thoughts(call: NarratedCall) -> list[str]:
    """Lists the sentences that the model wrote as arguments of a tool, such as one for thinking or for messages."""
    if call.action.verb != "other":
        return []
    texts = (value for value in call.action.arguments.values() if isinstance(value, str))
    return [
        piece.text
        for text in texts
        if len(text) > _LEAST_THOUGHT_CHARS and is_prose(text)
        for piece in _split_text(text)
    ]


_LEAST_THOUGHT_CHARS = 120
_FEW_LINES, _FEW_CHARS = 6, 260


def _quote_line(line: str) -> str:
    return excerpt(redact_cached(flatten(line)), MAX_LINE_CHARS)


# -- rendering ---------------------------------------------------------------------------------------------------------


def _render_story(passages: Sequence[Passage], chosen: Iterable[int], narrative: Sequence[NarrativeItem]) -> str:
    lines: list[str] = []
    by_item: dict[int, list[int]] = {}
    for index in sorted(chosen):
        by_item.setdefault(passages[index].item, []).append(index)
    for item, indexes in by_item.items():
        if item == EARLIER_ITEM:
            lines += [passages[index].text for index in indexes]
        else:
            lines += _render_item(narrative[item], passages, indexes)
    return "\n".join(lines)


_SPEAKERS = {
    "user": "User",
    "assistant": "Assistant",
    "tool": "tool",
    "summary": "summary",
    "unconfirmed": "summary of unknown source",
}


def _render_item(item: NarrativeItem, passages: Sequence[Passage], chosen: Sequence[int]) -> list[str]:
    """Renders the words of an item on one line, and each of its calls on one more. `chosen` are indexes, in order."""
    words: list[int] = []
    passed_on: list[int] = []
    calls: list[list[Passage]] = []
    for index in chosen:
        passage = passages[index]
        if passage.parent is None and passage.kind in CALL_KINDS:
            calls.append([passage])
        elif passage.parent == NEWEST_CALL:
            calls[-1].append(passage)
        else:
            (passed_on if passage.kind is PassageKind.PASTED else words).append(index)
    text, head = _join_passages(passages, words), f"[{item.first}] {_SPEAKERS[item.speaker]}:"
    said = [text if item.speaker in ("user", "assistant") else f'"{text}"'] if text else []
    said += [f'(passed on: "{_join_passages(passages, passed_on)}")'] if passed_on else []
    rendered = [_render_call(parts) for parts in calls]
    if said:
        return [f"{head} {' '.join(said)}", *(f"  - {line}" for line in rendered)]
    return [f"[{item.first}] - {line}" for line in rendered]


def _join_passages(passages: Sequence[Passage], indexes: Sequence[int]) -> str:
    """Joins passages of one item, with a mark where others between them are left out."""
    gaps = ("" if before is None or at == before + 1 else f" {GAP}" for before, at in pairwise([None, *indexes]))
    return "".join(f"{gap} {passages[at].text}" for gap, at in zip(gaps, indexes, strict=True)).removeprefix(" ")


GAP = "\u2026"
"""Stands for sentences that are left out."""


def _render_call(passages: Sequence[Passage]) -> str:
    call, *details = passages
    said = " ".join(each.text for each in details if each.kind is PassageKind.THOUGHT)
    shown = [each.text for each in details if each.kind is not PassageKind.THOUGHT]
    if shown and len(shown) < call.lines:  # else it would read as all that there was
        shown.append("...")
    return "; ".join(part for part in (call.text, shown and _quote_output(shown), said and f"it says: {said}") if part)


def _quote_output(lines: Sequence[str]) -> str:
    """Quotes what a tool printed or was given, so that it never reads as what somebody says."""
    return f'tool: "{" | ".join(lines)}"'
