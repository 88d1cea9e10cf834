"""What a summary was made of, arranged so that its sentences can be checked: words, numbers, statements, outcomes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from tenfold.compaction.facts.current_request import get_user_words
from tenfold.compaction.facts.shell import is_read_only
from tenfold.compaction.facts.tool_calls import ToolAction, interpret_call, parse_text_action
from tenfold.compaction.facts.tool_results import is_success
from tenfold.compaction.summarize.negation import Clause, detect_language, find_stems, read_clauses
from tenfold.compaction.summarize.quantities import QuantityIndex
from tenfold.core.record.block import Fact
from tenfold.core.record.message import Message, Thinking, get_text, get_tool_calls
from tenfold.core.text.excerpts import (
    MAX_SEARCHED_CHARS,
    Keep,
    collapse_spaces,
    excerpt,
    has_words,
    is_prose,
    split_sentences,
    strip_escapes,
)

_USER_KINDS = frozenset({"request", "rule", "correction"})
_WRITTEN_KINDS = frozenset({"file_modified", "file_created", "file_deleted", "file_renamed"})
USER_NOUN = (
    r"(?:user|customer|human|(?:be)?nutzer(?:in)?|anwender(?:in)?|kund(?:e|in)|utilisat(?:eur|rice)|usuari[oa]|utente|gebruiker"
    r"|użytkownik|kullan\u0131c\u0131|пользовател\w+)"
)
USER_WORD = re.compile(rf"(?<!\w){USER_NOUN}(?!\w)|用户|ユーザー?|사용자|المستخدم|उपयोगकर्ता", re.IGNORECASE)
"""Names the user in a summary."""
_USER_HEADING = re.compile(
    r"^#+ .*\b(?:user|goal|constraints?|preferences?|guidance|requests?|rules?)\b", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[\w-]+")
_SED = re.compile(r"s([/|#,])((?:(?!\1).){1,200})\1((?:(?!\1).){0,200})\1")
_OLD_KEY, _NEW_KEY = (
    re.compile(r"^(?:old|search|before|find)", re.IGNORECASE),
    re.compile(r"^(?:new|repl|after)", re.IGNORECASE),
)
_VALUE = r"[^\s\"'`,;]{1,60}"
_CHANGE = re.compile(
    rf"\bfrom [\"'`]?(?P<a>{_VALUE})[\"'`]? to [\"'`]?(?P<b>{_VALUE})"
    rf"|(?<![^\s\"'`,;])(?P<c>{_VALUE})[\"'`]? ?(?:->|\u2192|=>) ?[\"'`]?(?P<d>{_VALUE})"
)
_MAX_LINE, _MAX_SENTENCE = 400, 2_000
"""Characters read of a line that a tool wrote, and of the longest sentence that is read as a statement."""
_LINE_START = re.compile(r"^[ \t]*\d{1,6}(?:\u2192|\t|:(?!\d)| ?\|)", re.MULTILINE)
"""The number that a tool sets before a line."""
_MAX_GAP = 3
"""Words that may stand between two words of code."""
_CHANGE_RECORD = re.compile(
    r"^(?:diff --git|[-+]{3}|rename (?:from|to)| (?:create|delete) mode|\s?[MADR]\s).*|^ ?.{1,200} \| +\d+ [-+]*$",
    re.MULTILINE,
)
"""A line by which a version control system tells that a file was changed."""
ESCAPED_BREAK = re.compile(r"\\[nrt]")
"""A line break or tab as it is written in code: its letter begins no name."""
_LINE_NUMBER = re.compile(r"(?<=\w):\d+(?:[:-]\d+)?\Z")
_HASH = re.compile(r"[0-9a-f]{7,39}")
_NAME_JOINTS = ("_", "-", ".")
_SHORT_DIRECTORY = re.compile(r"\A(?:[A-Z]{1,4}|\$\{?\w+\}?)/")
"""What a text may call a directory after saying which one it means."""
_PLACEHOLDER = re.compile(r"\.{3,}|\u2026|<[^<>]*>|\[[A-Z_]+\]|(?<![^\W_])(?:nn|NN)(?![^\W_])")
"""What stands for something else in code or in a path."""
_CAPITALS = re.compile(r"(?<![\w.=/-])\"?([A-Z]{1,8}(?::[A-Z])?)\"?(?![\w.=/-])")
_CALL_FORM = re.compile(r"([\w.]+)\((.*)\)")


class Statement(NamedTuple):
    """A clause of a source, its sentence, and the number of the user's message it is from; -1 for other speakers."""

    clause: Clause
    sentence: str
    message: int


class CommandOutcome(NamedTuple):
    """How a command ended: True if it succeeded, None if unknown. `has_failed` says whether an error of it is known."""

    command: str
    is_ok: bool | None
    has_failed: bool


class SourceText:
    """What a summary was made of.

    `calls` are the tool calls with their arguments, `changes` the arguments of those that change something. `numbers`
    are those of the messages.
    """

    def __init__(  # noqa: PLR0913  the views of one source, filled by `build_source`
        self,
        text: str,
        *,
        user_words: Sequence[str] = (),
        tool_words: Sequence[str] = (),
        other_words: Sequence[str] = (),
        calls: Sequence[str] = (),
        changes: Sequence[str] = (),
        edits: Sequence[tuple[str, str]] = (),
        facts: Sequence[Fact] = (),
        numbers: Sequence[int] = (),
    ) -> None:
        self.text = text
        self.calls, self.facts = calls, facts
        self._user_words, self._tool_words, self._other_words = user_words, tool_words, other_words
        self._changes, self._edits, self._numbers = changes, edits, numbers

    # -- words ---------------------------------------------------------------------------------------------------------

    def has_word(self, word: str) -> bool:
        """Tells whether `word` occurs as a whole word or in a true short form.

        That is the end of a longer path, a path joined from a directory and a name, the beginning of a hash, what names
        such as `mcp__browser__open` have in common up to a joint, a version with or without its `v`, or the same name
        in another case or with other separators.
        """
        forms = {word, word.removeprefix("./"), word.replace("\\", "/")}
        if re.match(r"v?\d", word):
            forms |= {word.removeprefix("v"), "v" + word.removeprefix("v")}
        if any(has_words(form, self.text, joints="") for form in forms):
            return True
        parts = _PLACEHOLDER.split(word)
        if len(parts) > 1:
            return all(part in self.text for part in parts)
        shared = word.rstrip("*")
        if shared.endswith(_NAME_JOINTS):
            return len(set(re.findall(rf"(?<![\w-]){re.escape(shared)}(\w+)", self.text))) > 1
        if _HASH.fullmatch(word) and re.search(rf"(?<![0-9a-f]){word}[0-9a-f]", self.text):
            return True
        if "/" in word and "://" not in word:
            rest = _SHORT_DIRECTORY.sub("", word)
            return self._has_joined_path(word) or (rest != word and self.has_word(rest))
        if "_" in word and re.search(rf"_{re.escape(word)}(?![A-Za-z0-9])", self.text):
            return True
        return fold_name(word) in self._folded_names or fold_name(word).removesuffix("s") in self._folded_names

    def _has_joined_path(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        stands_alone = re.search(rf"(?<![\w./-]){re.escape(name)}(?!\w)", self.text)
        return bool(directory and name and stands_alone) and has_words(directory, self.text, joints="")

    def has_span(self, span: str) -> bool:
        """Tells whether code in backticks occurs: as it is, or its words in order in one call or one line.

        What stands for other words, such as `FILE`, `<name>` or `...`, need not occur.
        """
        span = _LINE_NUMBER.sub("", collapse_spaces(span))
        if span.lower() in self._flat_text:
            return True
        span = ESCAPED_BREAK.sub(" ", span).strip()
        parts = [part for part in _PLACEHOLDER.split(self._blank_capitals(span)) if part]
        if len(parts) > 1:
            return all(part.strip() in self.text or self.has_span(part.strip()) for part in parts)
        span = "".join(parts).strip()
        words = span.split()
        if len(words) > 1 and (
            self.has_call(span) or any(_has_in_order(words, line) for line in self._find_lines(words))
        ):
            return True
        if len(words) > 1 or "(" in span:
            return all(self._has_code(code) or self._has_form(code) for code in span.split(";"))
        pieces = [piece for piece in re.split(r"[^\w./@-]+", span) if len(piece) > 1]
        return all(self._has_name(piece.rstrip("./-") or piece) for piece in pieces)

    def _blank_capitals(self, span: str) -> str:
        """Puts `...` for words in capitals that the source does not hold."""
        return _CAPITALS.sub(lambda word: word[0] if has_words(word[1], self.text) else "...", span)

    def _has_form(self, code: str) -> bool:
        """Tells whether code is the short form of a call or a signature: a known name with known arguments."""
        match = _CALL_FORM.fullmatch(code.strip())
        return match is not None and self._has_name(match[1]) and all(map(self._has_code, match[2].split(",")))

    def _has_name(self, name: str) -> bool:
        """Tells whether a name occurs; of one such as `Class.method`, whether its parts do."""
        parts = name.split(".")
        return self.has_word(name) or (
            "/" not in name and len(parts) > 1 and all(part.isidentifier() and self.has_word(part) for part in parts)
        )

    def _has_code(self, code: str) -> bool:
        """Tells whether the words of code stand one after the other, with at most a few others in between.

        So it may be set in other lines, in other quotation marks, or without the types that the source names.
        """
        words = _WORD.findall(code.lower())
        if not words or not all(word in self._places for word in words):
            return not words
        ends = set(self._places[words[0]])
        for word in words[1:]:
            steps = range(1, 2 if word.isdigit() else _MAX_GAP + 2)
            places = self._places[word]
            ends = {end + step for end in ends for step in steps if end + step in places}
        return bool(ends)

    @cached_property
    def _places(self) -> Mapping[str, frozenset[int]]:
        """Where each word of the source stands, counted in words."""
        places: dict[str, set[int]] = {}
        for place, word in enumerate(self._word_text.split()):
            places.setdefault(word, set()).add(place)
        return {word: frozenset(found) for word, found in places.items()}

    def has_call(self, command: str) -> bool:
        """Tells whether the words of a command occur, in this order, in one tool call."""
        return any(_has_in_order(command.split(), call) for call in self.calls)

    def has_quotation(self, quotation: str, *, by_user: bool = False) -> bool:
        """Tells whether the words of a quotation occur one after the other."""
        words = self._user_word_text if by_user else self._word_text
        parts = (
            " ".join(_WORD.findall(part.lower())) for part in re.split(r"\.{3}|\u2026|\[[^\]]{0,400}\]", quotation)
        )
        return all(f" {part} " in words for part in parts if part)

    @cached_property
    def _flat_text(self) -> str:
        return collapse_spaces(self.text).lower()

    @cached_property
    def _word_text(self) -> str:
        text = _LINE_START.sub("", self.text.lower())
        return f" {' '.join(_WORD.findall(text))} "

    @cached_property
    def _user_word_text(self) -> str:
        return f" {' '.join(_WORD.findall(' '.join(self._user_words).lower()))} "

    @cached_property
    def _folded_names(self) -> frozenset[str]:
        names = set(_NAME.findall(self.text.lower()))
        return frozenset(fold_name(name) for name in names) | frozenset(
            fold_name(part) for name in names if "-" in name for part in name.split("-")
        )

    def _find_lines(self, words: Sequence[str]) -> Iterator[str]:
        longest = max(words, key=len)
        return (line for line in self.text.split("\n") if longest in line)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all words of the source."""
        return find_stems(self.text)

    @cached_property
    def language(self) -> str:
        """The language that most of the source is in, "" if it does not tell."""
        return detect_language(self.text)

    # -- numbers, edits and outcomes -----------------------------------------------------------------------------------

    @cached_property
    def quantities(self) -> QuantityIndex:
        """The numbers, dates and times of the source."""
        return QuantityIndex(self.text + "".join(f"\nmessage {number}" for number in self._numbers))

    def find_swapped_change(self, sentence: str) -> str:
        """Returns a change "from A to B" in a sentence where the source knows only one from B to A; else ""."""
        for before, after in _find_changes(sentence):
            if (
                before != after
                and (after, before) in self._changed_values
                and (before, after) not in self._changed_values
            ):
                return f"from {before} to {after}"
        return ""

    @cached_property
    def _changed_values(self) -> frozenset[tuple[str, str]]:
        found = set(_find_changes(self.text))
        for old, new in self._edits:
            olds, news = set(map(_trim_value, _NAME.findall(old))), set(map(_trim_value, _NAME.findall(new)))
            found.update((a, b) for a in sorted(olds - news)[:40] for b in sorted(news - olds)[:40])
        return frozenset(found)

    @cached_property
    def written_files(self) -> tuple[str, ...]:
        """The files that are known to have been changed."""
        return tuple(fact.text for fact in self.facts if fact.kind in _WRITTEN_KINDS)

    def is_in_change(self, path: str) -> bool:
        """Tells whether a path, or at least its name, occurs in a call that changes something, or in a changed file."""
        name = path.rpartition("/")[2]
        return any(has_words(name, text, joints="") for text in (*self._changes, *self.written_files, self._records))

    @cached_property
    def _records(self) -> str:
        return "\n".join(match[0] for match in _CHANGE_RECORD.finditer(self.text))

    @cached_property
    def outcomes(self) -> tuple[CommandOutcome, ...]:
        """The latest outcome of each command, in order."""
        failed = {fact.note for fact in self.facts if fact.kind == "error"}
        return tuple(
            CommandOutcome(f"{fact.text}\n{fact.key}".lower(), _read_status(fact), fact.key in failed)
            for fact in self.facts
            if fact.kind == "command"
        )

    # -- statements ----------------------------------------------------------------------------------------------------

    @cached_property
    def user_statements(self) -> tuple[Statement, ...]:
        """What the user said, clause by clause."""
        return tuple(
            Statement(clause, sentence, number)
            for number, words in enumerate(self._user_words)
            for sentence in split_sentences(words)
            if len(sentence) <= _MAX_SENTENCE
            for clause in read_clauses(sentence)
        )

    @cached_property
    def user_stems(self) -> tuple[frozenset[str], ...]:
        """The stems of each message of the user."""
        return tuple(map(find_stems, self._user_words))

    @cached_property
    def tool_stems(self) -> tuple[frozenset[str], ...]:
        """The stems of each line that a tool or a harness wrote."""
        lines = (excerpt(words, MAX_SEARCHED_CHARS, Keep.EDGES).split("\n") for words in self._tool_words)
        return tuple({find_stems(line[:_MAX_LINE]) for each in lines for line in each})

    @cached_property
    def user_languages(self) -> frozenset[str]:
        """The languages in which the user wrote."""
        return frozenset(filter(None, map(detect_language, self._user_words)))

    @cached_property
    def statements_by_stem(self) -> Mapping[str, Sequence[Statement]]:
        """Every statement in prose, of whoever made it, under each of its stems."""
        found: dict[str, list[Statement]] = {}
        others = (
            Statement(clause, sentence, -1)
            for words in (*self._tool_words, *self._other_words)
            for line in excerpt(words, MAX_SEARCHED_CHARS, Keep.EDGES).split("\n")
            if is_prose(line)
            for sentence in split_sentences(line)
            if len(sentence) <= _MAX_SENTENCE
            for clause in read_clauses(sentence)
        )
        for statement in (*self.user_statements, *others):
            for stem in statement.clause.stems:
                found.setdefault(stem, []).append(statement)
        return found


def build_source(
    items: Iterable[tuple[int, Message]], facts: Iterable[Fact], earlier: str, wishes: Sequence[str] = ()
) -> SourceText:
    """Builds the source: messages with their calls and reasoning, facts, and the earlier summary.

    `wishes` are the user's words outside the messages, such as the focus of a compaction.
    """
    facts = tuple(facts)
    user_words: list[str] = [*_find_user_lines(earlier), *wishes]
    tool_words: list[str] = []
    other_words: list[str] = [earlier]
    calls: list[str] = []
    changes: list[str] = []
    edits: list[tuple[str, str]] = []
    numbers: list[int] = []
    for number, message in items:
        numbers.append(number)
        words = get_user_words(message)
        text = get_text(message)
        user_words.append(words)
        if words != text:
            (other_words if message.origin == "model" else tool_words).append(text)  # what is beside a user's words too
        other_words.extend(part.text for part in message.parts if isinstance(part, Thinking))
        text_call = parse_text_action(message) if message.origin == "model" and not get_tool_calls(message) else None
        for call in (*get_tool_calls(message), *((text_call,) if text_call else ())):
            arguments = (
                call.arguments.replace("\\n", "\n").replace("\\\\", "\\").replace("\\/", "/").replace('\\"', '"')
            )
            action = interpret_call(call)
            if "\\u" in arguments:  # as some programs write all but ASCII
                arguments = "\n".join(map(str, action.arguments.values())) or arguments
            calls.append(f"{call.name}\n{arguments}")
            if not _is_reading(action):
                changes.append(arguments)
                edits.extend(_find_edits(action, arguments))
    user_words.extend(fact.text for fact in facts if fact.kind in _USER_KINDS)
    fact_texts = [fact.text for fact in facts]
    calls.extend(fact.text for fact in facts if fact.kind == "command")
    text = strip_escapes("\n".join((*user_words, *tool_words, *other_words, *calls, *fact_texts)))
    return SourceText(
        text,
        user_words=[words for words in dict.fromkeys(user_words) if words],
        tool_words=tool_words,
        other_words=other_words,
        calls=calls,
        changes=changes,
        edits=edits,
        facts=facts,
        numbers=numbers,
    )


def fold_name(name: str) -> str:
    """Returns a name without what differs between spellings: case, underscores, hyphens, an empty pair of brackets."""
    return name.lower().removesuffix("()").replace("_", "").replace("-", "")


def _find_user_lines(earlier: str) -> Iterator[str]:
    """Yields the lines of an earlier summary that are about what the user wants."""
    is_users = False
    for line in earlier.split("\n"):
        if line.startswith("#"):
            is_users = bool(_USER_HEADING.match(line))
        elif is_users or USER_WORD.search(line):
            yield line


def _is_reading(action: ToolAction) -> bool:
    return action.verb == "read" or (action.verb == "shell" and is_read_only(action.source))


def _find_edits(action: ToolAction, arguments: str) -> Iterator[tuple[str, str]]:
    olds = [str(value) for key, value in action.arguments.items() if _OLD_KEY.match(key)]
    news = [str(value) for key, value in action.arguments.items() if _NEW_KEY.match(key)]
    yield from zip(olds, news, strict=False)
    if "sed" in arguments:
        yield from ((match[2], match[3]) for match in _SED.finditer(arguments))


def _find_changes(text: str) -> Iterator[tuple[str, str]]:
    for match in _CHANGE.finditer(text):
        yield _trim_value(match["a"] or match["c"]), _trim_value(match["b"] or match["d"])


def _trim_value(text: str) -> str:
    """Returns a value as it is compared: without punctuation around it, and of a number without its separators."""
    text = text.strip(".,;:()[]{}\"'`*")
    return re.sub(r"(?<=\d),(?=\d{3})", "", text).lower()


def _has_in_order(words: Sequence[str], text: str) -> bool:
    at = 0
    for word in words:
        at = text.find(word, at)
        if at < 0:
            return False
        at += len(word)
    return True


def _read_status(fact: Fact) -> bool | None:
    """Returns whether a command succeeded. Only a shell's command can be known to have: a tool may print its error."""
    if is_success(fact.note):
        return True if fact.key.startswith("$ ") else None
    return False if re.match(r"exit|failed|stopped", fact.note) else None


def count_shared(stems: frozenset[str], weights: Mapping[str, float], others: frozenset[str]) -> float:
    """Returns which part of the stems, by weight, the others share."""
    total = math.fsum(weights[stem] for stem in stems)  # exact, so the order of a set makes no difference
    return math.fsum(weights[stem] for stem in stems & others) / total if total else 0.0
