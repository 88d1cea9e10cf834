"""Writes a range as a story without a model: what was asked, said and done, in order, with content.

The range is split into passages: a sentence of the user or the assistant, a tool call with its outcome, a line of a
result, a line of an earlier summary. Passages compete for the budget by what they tell per token. A term counts fully
only once, so a passage that repeats what another one tells adds little: greedy maximum coverage under a budget (Lin and
Bilmes, "A Class of Submodular Functions for Document Summarization", 2011). Terms weigh more the rarer they are, and
what a tool printed weighs only if the conversation comes back to it.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from tenfold.facts.cue_language import detect_language
from tenfold.facts.current_request import is_acknowledgement
from tenfold.facts.edit_content import describe_edit
from tenfold.facts.shell import strip_directory_change
from tenfold.facts.tool_results import has_failed
from tenfold.record.message import Message
from tenfold.summarize.narrative import NarratedCall, NarrativeItem, build_items
from tenfold.summarize.result_lines import MAX_LINE_CHARS, list_result_lines
from tenfold.text.excerpts import Count, collapse_spaces, excerpt, flatten, is_prose, split_sentences
from tenfold.text.json_text import extract_prose
from tenfold.text.redaction import redact_cached

MAX_SENTENCE_CHARS = 320
MAX_RESULT_LINES = 8
"""Lines of one output that compete for the room."""
_MARK_TOKENS, _JOINT_TOKENS = 6, 1
"""Tokens that the mark of a line takes, and what joins a passage to the one before."""
_ANNOUNCEMENT_FACTOR = 0.7
_FULL_LENGTH = 10
"""Terms of a passage that has its whole base weight. Shorter ones, such as "Done.", say little."""
_SINGLE_SHARE = 0.5
"""What a term counts that the conversation never comes back to."""
_VALUE_FACTOR = 1.5
"""How much more a term with a digit counts: an amount, an id, a version has to be looked up if it is not told."""
_SPOKEN_SHARE, _UNSPOKEN_SHARE = 0.6, 0.12
"""What a term of a tool's output counts if people or the model use it as well, and if they never do."""
_REPEATED_SHARES, _MOST_TIMES = (1.0, 0.2, 0.04), 2
"""What a term still counts that has been told so often, up to so many times."""
_TERM = re.compile(r"[^\W_](?:[\w./:@#$%+-]*\w)?")
_OPENING_MARKS = "#*->| \t"


class PassageKind(Enum):
    """What a passage is."""

    INSTRUCTION = auto()  # what the user demands or forbids, also where it is no rule for good
    REQUEST = auto()  # the first sentence of what the user asked: the story is told along these
    USER = auto()  # more of what the user said
    REMARK = auto()  # thanks and agreement
    ANSWER = auto()  # the first of the last words before the user's next message: what came of a request
    SENTENCE = auto()
    ANNOUNCEMENT = auto()  # the last sentence before a call, which mostly says what the call shows
    THOUGHT = auto()  # what the model wrote as an argument of a call
    CALL = auto()
    FAILURE = auto()  # a call that failed
    CHANGE = auto()  # a call that changed something, or of whose result a part stands out
    CONTENT = auto()  # a line of what a change wrote
    RESULT = auto()  # a line that a tool printed: only its terms count
    EARLIER = auto()  # a line of an earlier summary, which was chosen before


_BASE_WEIGHTS: Mapping[PassageKind, float] = {
    PassageKind.INSTRUCTION: 8.0,
    PassageKind.REQUEST: 3.0,
    PassageKind.USER: 2.0,
    PassageKind.REMARK: 0.1,
    PassageKind.ANSWER: 1.5,
    PassageKind.SENTENCE: 1.0,
    PassageKind.ANNOUNCEMENT: 0.0,
    PassageKind.THOUGHT: 1.0,
    PassageKind.CALL: 0.2,
    PassageKind.FAILURE: 1.0,
    PassageKind.CHANGE: 1.0,
    PassageKind.CONTENT: 0.5,
    PassageKind.RESULT: 0.0,
    PassageKind.EARLIER: 0.8,
}
"""What telling a passage is worth besides its terms, in the weight of a term that occurs once."""


class Passage(Struct, frozen=True):
    """A piece of text that is told whole or not at all.

    `item` is the index of its narrative item. `parent` is the index of the passage that must be told with it: a line of
    a result needs its call. `factor` scales its value.
    """

    item: int
    text: str
    kind: PassageKind
    parent: int | None = None
    factor: float = 1.0


def write_story(
    items: Sequence[tuple[int, Message]],
    *,
    budget: int,
    count: Count,
    earlier: Sequence[str] = (),
    kept: frozenset[int] = frozenset(),
    told: str = "",
) -> str:
    """Writes the messages, and earlier summaries before them, in at most `budget` tokens. "" if nothing fits.

    Of the user's messages at the positions in `kept`, which stay in view, only the place is told. The user's sentences
    that `told` holds are left out, and of what else it says each term counts as told once.
    """
    narrative = [_mark_kept(item, kept) for item in build_items(items)]
    passages, weights = _weigh_passages([*_split_earlier(earlier), *_split_items(narrative, told)])
    choice = _Choice(passages, weights, count, told)
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


def _mark_kept(item: NarrativeItem, kept: frozenset[int]) -> NarrativeItem:
    return replace(item, text=_KEPT_TEXT) if item.speaker == "user" and item.first in kept else item


_FILL_ROUNDS = 3
"""How often the tokens that the estimate of the marks had held back are given out."""


# -- passages ----------------------------------------------------------------------------------------------------------

_EARLIER_ITEM = -1


def _split_earlier(texts: Sequence[str]) -> Iterator[Passage]:
    for line in (line for text in texts for line in text.split("\n")):
        if line.strip() and not line.endswith(_KEPT_TEXT):  # another message may stand above by now
            said = line.partition("] User: ")[2]
            kind = PassageKind.REQUEST if said else PassageKind.EARLIER
            yield Passage(_EARLIER_ITEM, line.rstrip(), PassageKind.INSTRUCTION if _is_binding(said, said) else kind)


def _is_binding(sentence: str, text: str) -> bool:
    """Tells whether a sentence of the user's `text` demands or forbids something, if only for once."""
    language = detect_language(collapse_spaces(text[:_MAX_READ_CHARS]))
    return language is not None and language.has("binding", sentence[:_MAX_READ_CHARS])


_MAX_READ_CHARS = 400
"""The beginning of a text tells its language."""


def _split_items(narrative: Sequence[NarrativeItem], told: str) -> Iterator[Passage]:
    """Splits each item. Parents are counted from the first passage of the item, and made absolute by the caller."""
    answers = _find_answers(narrative)
    told = collapse_spaces(told)
    for number, item in enumerate(narrative):
        factor = 0.9 + 0.2 * number / max(len(narrative) - 1, 1)
        if number >= len(narrative) - _LAST_ITEMS:
            factor *= _LAST_FACTOR
        kinds = _get_sentence_kinds(item, is_answer=number in answers)
        sentences = list(_split_text(item.text))
        for place, sentence in enumerate(sentences):
            if item.speaker == "user" and _is_told(sentence, item.text, told):
                continue
            kind = kinds[min(place, 1)]
            if item.speaker == "user" and _is_binding(sentence, item.text):
                kind = PassageKind.INSTRUCTION
            elif item.calls and place == len(sentences) - 1:
                kind = PassageKind.ANNOUNCEMENT
            boost = _ANSWER_FACTOR if number in answers else _USER_FACTOR if item.speaker == "user" else 1.0
            yield Passage(number, sentence, kind, factor=factor * boost)
        for call in item.calls:
            yield from _split_call(number, call, factor)


def _is_told(sentence: str, text: str, told: str) -> bool:
    """Tells whether a sentence of `text` is told already, and nothing follows on its line that may refer to it."""
    is_last = any(line.rstrip().endswith(sentence) for line in text.split("\n"))
    return is_last and len(sentence) >= _MIN_TOLD_CHARS and sentence in told


_USER_FACTOR, _ANSWER_FACTOR = 1.2, 1.4
"""How much more the words of the user, and what they got as an answer, are worth than what was said on the way."""
_MIN_TOLD_CHARS = 20
"""A shorter sentence may stand in a longer one by chance."""
_LAST_ITEMS, _LAST_FACTOR = 2, 3.0
"""The end of the story says where the work stands: its last items are told before others."""


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
        case "user" if is_acknowledgement(item.text):
            return PassageKind.REMARK, PassageKind.REMARK
        case "user":
            return PassageKind.REQUEST, PassageKind.USER
        case "assistant" if is_answer:
            return PassageKind.ANSWER, PassageKind.SENTENCE
        case "assistant":
            return PassageKind.SENTENCE, PassageKind.SENTENCE
        case _:
            return PassageKind.RESULT, PassageKind.RESULT


def _split_text(text: str) -> Iterator[str]:
    """Yields the sentences of what somebody said. Some agents say it as the values of a JSON object."""
    opening = ""
    for sentence in split_sentences(extract_prose(text)):
        words = opening + flatten(sentence.replace("**", "")).lstrip(_OPENING_MARKS)
        opening = f"{words} " if words.endswith((":", "\uff1a")) and len(words) < MAX_LINE_CHARS else ""
        if any(c.isalnum() for c in words) and not opening:  # what ends in a colon is told with what it opens
            yield excerpt(redact_cached(words), MAX_SENTENCE_CHARS)
    if opening:
        yield excerpt(redact_cached(opening.rstrip()), MAX_SENTENCE_CHARS)


def _split_call(number: int, call: NarratedCall, factor: float) -> Iterator[Passage]:
    """Yields the call with its outcome, then what it changed, or what it returned.

    A short output is told with the call: without it, that a command ran says nothing.
    """
    changes = [text for effect in call.action.effects if (text := describe_edit(call.action, effect))]
    is_change = any(effect.verb != "read" for effect in call.action.effects)
    is_failure = has_failed(call.note)
    has_result = is_change or ": " in call.note or call.action.verb == "other"  # such as a commit or a booking
    kind = PassageKind.FAILURE if is_failure else PassageKind.CHANGE if has_result else PassageKind.CALL
    label = excerpt(strip_directory_change(flatten(call.action.label)), MAX_LINE_CHARS)
    thoughts = _list_thoughts(call)
    if thoughts:
        label = call.action.source
    outcome = redact_cached(f"{label} -> {call.note or 'no result'}")
    lines = [] if is_change and not is_failure else list_result_lines(call.result)
    if is_failure and call.error:
        lines = list(dict.fromkeys([_quote_line(call.error), *lines]))
    is_short = lines and len(lines) <= _FEW_LINES and sum(map(len, lines)) <= _FEW_CHARS
    yield Passage(number, f"{outcome}; {_quote_output(lines)}" if is_short else outcome, kind, factor=factor)
    for sentence in thoughts:
        yield Passage(number, sentence, PassageKind.THOUGHT, _NEWEST_CALL, factor)
    if is_short:
        return
    if is_change and not is_failure:
        for text in changes:
            yield Passage(number, redact_cached(flatten(text)), PassageKind.CONTENT, _NEWEST_CALL, factor)
    for place, line in enumerate(lines):
        is_error = is_failure and call.error and not place
        kind = PassageKind.FAILURE if is_error else PassageKind.RESULT
        yield Passage(number, line, kind, _NEWEST_CALL, factor)


def _list_thoughts(call: NarratedCall) -> list[str]:
    """Lists the sentences that the model wrote as arguments of a tool, such as one for thinking or for messages."""
    if call.action.verb != "other":
        return []
    texts = (value for value in call.action.arguments.values() if isinstance(value, str))
    return [
        sentence
        for text in texts
        if len(text) > _LEAST_THOUGHT_CHARS and is_prose(text)
        for sentence in _split_text(text)
    ]


_LEAST_THOUGHT_CHARS = 120
_FEW_LINES, _FEW_CHARS = 6, 260
_NEWEST_CALL = -1
"""As a parent: the newest call before the passage."""


def _quote_line(line: str) -> str:
    return excerpt(redact_cached(flatten(line)), MAX_LINE_CHARS)


# -- choice ------------------------------------------------------------------------------------------------------------


class _Choice:
    """The passages chosen so far, by what they tell per token. `spent` is an estimate of their tokens."""

    def __init__(
        self, passages: Sequence[Passage], weights: Sequence[Mapping[str, float]], count: Count, told: str
    ) -> None:
        """`weights` are those of each passage's terms."""
        self._passages, self._weights, self._parents = passages, weights, _find_parents(passages)
        self._sizes = [size + _JOINT_TOKENS for size in count([p.text for p in passages])] if passages else []
        self._unit = math.log(2 + max((passage.item for passage in passages), default=0))
        self._told = Counter(set(_TERM.findall(told.lower())))
        self._begun: Counter[int] = Counter()
        self.chosen: dict[int, None] = {}
        self.spent = 0
        self._heap = [(-self._measure_worth(index), index) for index in range(len(passages))]
        heapq.heapify(self._heap)

    def fill(self, limit: int) -> None:
        """Chooses passages until none fits into `limit` tokens. A passage is valued anew when its turn comes."""
        skipped: list[tuple[float, int]] = []
        while self._heap and limit - self.spent > _JOINT_TOKENS:
            rank, index = heapq.heappop(self._heap)
            if index in self.chosen:
                continue
            if self.spent + self._get_cost(index) > limit:
                skipped.append((rank, index))
                continue
            now = -self._measure_worth(index)
            if self._heap and now > self._heap[0][0]:
                heapq.heappush(self._heap, (now, index))
                continue
            self._choose(index)
        self._heap += skipped
        heapq.heapify(self._heap)

    def drop_last(self) -> None:
        """Gives up the passages chosen last, a fiftieth of them at a time."""
        for index in list(self.chosen)[-max(1, len(self.chosen) // 50) :]:
            del self.chosen[index]

    def _choose(self, index: int) -> None:
        self.spent += self._get_cost(index)
        for each in (self._parents[index], index):
            if each is not None and each not in self.chosen:
                self.chosen[each] = None
                self._begun[self._passages[each].item] += 1
                self._told.update(self._weights[each].keys())

    def _get_cost(self, index: int) -> int:
        parent, item = self._parents[index], self._passages[index].item
        mark = 0 if self._begun[item] or item == _EARLIER_ITEM else _MARK_TOKENS
        with_parent = parent is not None and parent not in self.chosen
        return self._sizes[index] + mark + (self._sizes[parent] if parent is not None and with_parent else 0)

    def _measure_worth(self, index: int) -> float:
        """Returns what telling the passage now is worth per token."""
        passage, told = self._passages[index], self._told
        gain = 0.0
        for term, weight in self._weights[index].items():
            times = told.get(term, 0)
            gain += weight * _REPEATED_SHARES[min(times, _MOST_TIMES)]
        length = min(1.0, len(self._weights[index]) / _FULL_LENGTH)
        worth = (gain + _BASE_WEIGHTS[passage.kind] * self._unit * length) * passage.factor
        share = _ANNOUNCEMENT_FACTOR if passage.kind is PassageKind.ANNOUNCEMENT else 1.0
        return worth * share / self._get_cost(index)


def _find_parents(passages: Sequence[Passage]) -> list[int | None]:
    out: list[int | None] = []
    call: int | None = None
    for index, passage in enumerate(passages):
        if passage.kind in _CALL_KINDS and passage.parent is None:
            call = index
        out.append(call if passage.parent == _NEWEST_CALL else None)
    return out


_CALL_KINDS = frozenset({PassageKind.CALL, PassageKind.CHANGE, PassageKind.FAILURE})


def _weigh_passages(passages: Sequence[Passage]) -> tuple[list[Passage], list[dict[str, float]]]:
    """Returns the passages that compete, each with its terms and what telling them is worth.

    A term weighs by the number of items it occurs in, and in what a tool printed by whether people and the model speak
    of it. Of a long output, the lines with the heaviest terms compete.
    """
    terms = [tuple(dict.fromkeys(_TERM.findall(passage.text.lower()))) for passage in passages]
    items: dict[str, set[int]] = {}
    spoken: set[str] = set()
    for index, (passage, own) in enumerate(zip(passages, terms, strict=True)):
        place = passage.item if passage.item >= 0 else -1 - index
        for term in own:
            items.setdefault(term, set()).add(place)
        if passage.kind is not PassageKind.RESULT:
            spoken.update(own)
    total = 1 + max((passage.item for passage in passages), default=0)
    weights = {
        term: math.log(1 + total / len(places))
        * (1.0 if len(places) > 1 else _SINGLE_SHARE)
        * (_VALUE_FACTOR if any(map(str.isdigit, term)) else 1.0)
        for term, places in items.items()
    }
    weighed: list[dict[str, float]] = []
    for passage, own in zip(passages, terms, strict=True):
        if passage.kind is PassageKind.RESULT:
            shares = {True: _SPOKEN_SHARE, False: _UNSPOKEN_SHARE}
            weighed.append({term: weights[term] * shares[term in spoken] for term in own})
        else:
            weighed.append({term: weights[term] for term in own})
    chosen = _select_result_lines(passages, [sum(own.values()) for own in weighed])
    return [passages[index] for index in chosen], [weighed[index] for index in chosen]


def _select_result_lines(passages: Sequence[Passage], weights: Sequence[float]) -> list[int]:
    """Returns the indexes of all passages but the lightest lines of long outputs."""
    out: list[int] = []
    for is_output, group in groupby(range(len(passages)), lambda index: passages[index].kind is PassageKind.RESULT):
        indexes = list(group)
        if is_output and len(indexes) > MAX_RESULT_LINES:
            indexes = sorted(sorted(indexes, key=lambda index: -weights[index])[:MAX_RESULT_LINES])
        out += indexes
    return out


# -- rendering ---------------------------------------------------------------------------------------------------------


def _render_story(passages: Sequence[Passage], chosen: Iterable[int], narrative: Sequence[NarrativeItem]) -> str:
    lines: list[str] = []
    by_item: dict[int, list[int]] = {}
    for index in sorted(chosen):
        by_item.setdefault(passages[index].item, []).append(index)
    for item, indexes in by_item.items():
        if item == _EARLIER_ITEM:
            lines += [passages[index].text for index in indexes]
        else:
            lines += _render_item(narrative[item], [passages[index] for index in indexes])
    return "\n".join(lines)


_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "tool", "summary": "summary"}


def _render_item(item: NarrativeItem, passages: Sequence[Passage]) -> list[str]:
    """Renders the words of an item on one line, and each of its calls on one more."""
    words: list[str] = []
    calls: list[list[Passage]] = []
    for passage in passages:
        if passage.parent is None and passage.kind in _CALL_KINDS:
            calls.append([passage])
        elif passage.parent is not None:
            calls[-1].append(passage)
        else:
            words.append(passage.text)
    text = " ".join(words)
    quoted = f'"{text}"' if item.speaker in ("tool", "summary") else text
    head = f"[{item.first}] {_SPEAKERS[item.speaker]}:"
    rendered = [_render_call(parts) for parts in calls]
    if words:
        return [f"{head} {quoted}", *(f"  - {line}" for line in rendered)]
    return [f"[{item.first}] - {line}" for line in rendered]


def _render_call(passages: Sequence[Passage]) -> str:
    call, *details = passages
    said = " ".join(each.text for each in details if each.kind is PassageKind.THOUGHT)
    shown = [each.text for each in details if each.kind is not PassageKind.THOUGHT]
    return "; ".join(part for part in (call.text, shown and _quote_output(shown), said and f"it says: {said}") if part)


def _quote_output(lines: Sequence[str]) -> str:
    """Quotes what a tool printed or was given, so that it never reads as what somebody says."""
    return f'tool: "{" | ".join(lines)}"'
