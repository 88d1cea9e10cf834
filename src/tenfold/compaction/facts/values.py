"""The ledger of values: for each subject its latest value, and what it was before.

The user and the model state values in sentences ("the port of the gateway is now 8081"); tools print them as
`name: value` or `name=value`. A printed name means what its command means by it, so it counts for this command only,
unless somebody has stated a value for the same subject.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from msgspec.structs import replace

from tenfold.core.record.block import Fact
from tenfold.core.text.excerpts import Keep, excerpt, flatten
from tenfold.core.text.memoize import memoize
from tenfold.core.text.redaction import redact_cached
from tenfold.core.text.sentences import FENCE, split_sentences

PRINTED_MARK = " | "
"""Separates, in the key of a printed value, the subject from the command that printed it."""
_MAX_PRINTED_CHARS = 12_000
_MAX_PRINTED = 40
"""Most printed values read of one output."""
_NUMBER = r"[-+]?[$\u20ac\u00a3]?\d[\w:/%-]*(?:[.,]\d[\w:/%-]*)*(?: ?(?:%|[a-zA-Z\u00b5]{1,8}(?=[\s.,;)]|$)))?"
_QUOTED = r"`[^`\n]{1,40}`|\"[^\"\n]{1,40}\"|'[^'\n]{1,40}'"
_WORDS = r"[^\s.,;:!?()\n]+(?: [^\s.,;:!?()\n]+){0,2}(?=[.,;:!?()\n]|$)"
_SUBJECT = r"(?P<subject>[^\W_][\w/'\u2019-]*(?: [\w/'\u2019.-]+){0,6}?)"
_NOW = (
    r"(?:is|are|stands at|has become) (?:now|currently|set to|at)|(?:ist|sind|betr\u00e4gt|liegt) (?:jetzt|nun|bei)"
    r"|(?:est|sont) (?:maintenant|d\u00e9sormais)|(?:est\u00e1|es|son) ahora|ahora es|(?:\u00e9|est\u00e1) agora"
    r"|agora \u00e9|(?:\u00e8|sono) ora"
    r"|is nu|(?:jest|wynosi) teraz|\u0442\u0435\u043f\u0435\u0440\u044c(?: \u0440\u0430\u0432\u043d\u0430?\u043e?)?"
)
_SHORT_VALUE = rf"(?P<value>{_NUMBER}|{_QUOTED})"
_START = r"(?:^|[.;!?,:] +|\bthe )(?:the |our )?"
_CHANGE = (
    r"\b(?:set|changed?|rais(?:e|ed)|lower(?:ed)?|bump(?:ed)?|increas(?:e|ed)|reduced?|mov(?:e|ed)|updated?"
    r"|switch(?:ed)?) (?:the |our )?"
)
_CHANGED = (
    r"(?:went|rose|fell|dropped|changed|moved|was (?:raised|lowered|changed|set|moved|bumped|increased|reduced))"
    r" (?:up |down )?"
)
_FROM = r"(?:from \S+(?: \S+)? )?"
_CJK_NOW = r"(?:\u73b0\u5728\u662f|\u73b0\u4e3a|\u6539\u4e3a|\u306f\u73fe\u5728|\u306f\u4eca)"
_STATEMENTS = (
    re.compile(rf"{_START}{_SUBJECT} (?:{_NOW}) (?:now )?(?P<value>{_NUMBER}|{_QUOTED}|{_WORDS})", re.IGNORECASE),
    re.compile(rf"{_START}{_SUBJECT} (?:is|are|=|\u2192|->|ist|est|es) {_SHORT_VALUE}", re.IGNORECASE),
    re.compile(rf"^(?:[-*] +)?(?:the |our )?{_SUBJECT}: {_SHORT_VALUE}\W*$", re.IGNORECASE),
    re.compile(rf"{_CHANGE}{_SUBJECT} {_FROM}to {_SHORT_VALUE}", re.IGNORECASE),
    re.compile(rf"{_START}{_SUBJECT} {_CHANGED}{_FROM}to {_SHORT_VALUE}", re.IGNORECASE),
    re.compile(rf"(?P<subject>[\u3040-\u30ff\u3400-\u9fff\w]{{1,20}}?){_CJK_NOW} ?(?P<value>{_NUMBER})"),
)
_STATEMENT_HINT = re.compile(
    r"\d|`|\"|\bnow\b|jetzt|nun\b|maintenant|d\u00e9sormais|ahora|agora|\bora\b|\bnu\b|teraz"
    r"|\u0442\u0435\u043f\u0435\u0440\u044c"
)
_PRINTED_NUMBER = r"([-+]?[$\u20ac\u00a3]?\d+(?:[.,]\d+)*(?: ?(?:%|[a-zA-Z]{1,8}))?)"
_PRINTED_LABEL = r"(?:^[ \t]*(?:[-*] )?|[,;|] *)([A-Za-z][\w-]*(?: [\w-]+){0,4})[ \t]*[:=][ \t]*"
_PRINTED = (
    re.compile(rf"(?:^|[\s,;|(\[])([A-Za-z][\w.-]{{1,40}})={_PRINTED_NUMBER}(?=[\s,;|)\]]|$)", re.MULTILINE),
    re.compile(rf"{_PRINTED_LABEL}{_PRINTED_NUMBER}(?=[ \t]*(?:[,;|]|$))", re.MULTILINE),
)
_FILLER_WORDS = (
    "the a an of for in on at to our my your its this that is are now new current currently latest value der die das"
    " des le la les du de el los il lo den het and with"
)
_FILLER = frozenset(_FILLER_WORDS.split())
_NO_SUBJECT_WORDS = (
    "it this that there he she they we you i which what who here one line lines step page code signal pgid exit status"
    " date time duration elapsed took start started at real user sys pid size failures errors from if all"
)
_NO_SUBJECT = frozenset(_NO_SUBJECT_WORDS.split())
_TIME_WORD = re.compile(r"\b(?:time|duration|elapsed|date|seconds|pid|pgid|pids|timestamp|exit code)\b", re.IGNORECASE)

Speaker = Literal["user", "model", "tool"]


class StatedValue(NamedTuple):
    """A subject with its value, as one text gives it. `key` names the subject whatever the order of its words."""

    key: str
    subject: str
    value: str


class ValueCollector:
    """Collects the values of one extraction, in the order in which they were told."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def read_prose(self, position: int, text: str, speaker: Speaker) -> None:
        """Reads what the user or the model wrote."""
        for each in find_stated_values(text):
            self.facts.append(_build_fact(each, each.key, position, speaker))

    def read_output(self, position: int, text: str, command: str) -> None:
        """Reads what a command printed. A printed value is shown only once it changes."""
        for each in find_printed_values(text):
            key = f"{each.key}{PRINTED_MARK}{flatten(command)}"
            self.facts.append(replace(_build_fact(each, key, position, "tool"), live=False))


def _build_fact(each: StatedValue, key: str, position: int, speaker: Speaker) -> Fact:
    return Fact("value", f"{each.subject} = {each.value}", key, position, note=speaker)


@memoize
def find_stated_values(text: str) -> tuple[StatedValue, ...]:
    """Returns the values that sentences state, in order; of one subject the last. Questions state nothing."""
    if not _STATEMENT_HINT.search(text):
        return ()
    found: dict[str, StatedValue] = {}
    for sentence in split_sentences(FENCE.sub("\n", redact_cached(text))):
        if len(sentence) > 400 or sentence.endswith("?") or not _STATEMENT_HINT.search(sentence):
            continue
        for clause in re.split(r";\s+|,?\s{1,9}(?:and|und|et|y)\s{1,9}(?=the\b|[A-Z])", sentence):
            match = next((match for shape in _STATEMENTS if (match := shape.search(clause.strip()))), None)
            if match and (value := _build_value(match["subject"], match["value"])):
                found.pop(value.key, None)
                found[value.key] = value
    return tuple(found.values())


@memoize
def find_printed_values(text: str) -> tuple[StatedValue, ...]:
    """Returns the numbers that a program printed behind a name, of one name the last."""
    text = redact_cached(excerpt(text, _MAX_PRINTED_CHARS, Keep.EDGE_WORDS))
    found: dict[str, StatedValue] = {}
    for shape in _PRINTED:
        for name, number in shape.findall(text):
            value = _build_value(name, number)
            if value and not _TIME_WORD.search(name):
                found.pop(value.key, None)
                found[value.key] = value
    return tuple(found.values())[-_MAX_PRINTED:]


def build_value_key(text: str) -> str:
    """Returns the key of a subject: its words but for fillers, in alphabetical order."""
    subject = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.partition(" = ")[0]).lower()
    return " ".join(sorted({word for word in re.findall(r"[^\W_]+", subject) if word not in _FILLER}))


def _build_value(subject: str, value: str) -> StatedValue | None:
    key = build_value_key(subject)
    if not key or len(key) > 60 or key.isdigit() or not _NO_SUBJECT.isdisjoint(subject.lower().split()):
        return None
    shown = re.sub(r"^(?:the|a|an|our) ", "", flatten(subject), flags=re.IGNORECASE)
    return StatedValue(key, shown, flatten(value).strip("`\"' .,;:"))


def split_value(fact: Fact) -> tuple[str, str]:
    """Returns the subject and the value of a value fact."""
    subject, _, value = fact.text.partition(" = ")
    return subject, value


def join_values(older: Fact, newer: Fact) -> Fact:
    """Joins two values of one subject: the newer one holds, the older one is what it was before.

    If a model tells another value than the tool whose output it has just read, nothing says which one holds.
    """
    (_, before), (subject, value) = split_value(older), split_value(newer)
    if before == value:
        return replace(newer, was=newer.was or older.was, live=older.live or newer.live)
    if {older.note, newer.note} == {"tool", "model"} and newer.position - older.position <= 1:
        return replace(newer, text=f"{subject} = {before} ({older.note}) or {value} ({newer.note})", live=True)
    return replace(newer, was=newer.was or f"{before} [{older.position}]", live=True)
