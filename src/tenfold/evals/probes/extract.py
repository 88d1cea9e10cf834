"""Collects the probes of a past: runs every extractor, and holds the extractor of what was said.

Rules, corrections, decisions and tasks are sentences and are found by their wording. Each extractor prefers a few right
probes to many: a probe about something worthless would reward a view that keeps everything.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tenfold.evals.probes.acting import acted
from tenfold.evals.probes.anchored import Shown, judge
from tenfold.evals.probes.kinds import ChatMessage, Kind, Probe, content_words, halves, words
from tenfold.evals.probes.naming import named
from tenfold.evals.probes.reading import human, said, sentences, text_of

_RULE = re.compile(
    r"\b(?:never|always|must|must(?:n't| not)|from now on|make sure|ensure|avoid|at (?:most|least)|no more than|"
    r"under an? \w+|no longer than|not allowed|forbidden|critical rule|prefer|"
    r"should (?:always|never|only|not)|"
    r"shouldn't|only (?:use|the|by|when|if|show)|leave .{2,60}? (?:alone|as (?:they are|it is|is))|"
    r"(?:every|each) \w+ (?:gets?|has|needs?|goes))\b|"
    r"(?:^|[,;:.(]|\bplease|\band|\bbut|\bso) *(?:do not|don'?t|no) (?!such|problem|idea|one\b|know\b|"
    r"think|remember|have the|see\b|get\b|"
    r"understand|want\b|need to worry|worr(?:y|ies))\w+|\bkeep (?:the|it|them|both|to|all|old)\b|"
    r"\buse (?:plain|only)\b|\bi hate\b|"
    r"^(?:critical |hard )?(?:rule|constraint)\b",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"^(?:no\b|nope\b|wait\b|actually\b|sorry\b|ah+\b,? no|stop\b|careful\b|small change|correction\b)|"
    r"\b(?:instead|revert|undo|take that back|put it back|that's (?:not|wrong)|"
    r"is(?:n't| not) (?:what|right)|(?:rather than|should be|not) .{1,40}(?: instead|, not )|"
    r"i (?:said|meant|actually want)|"
    r"why (?:do|did|would|are|does) (?:you|it|we)|you (?:havn?e?'?n?t|haven't|forgot|missed|didn'?t|broke|still)|"
    r"is(?:n't| not) that|isn't)\b|\w(?:'d| would) rather\b|\bcorrection from my side\b",
    re.IGNORECASE,
)
_DECIDES = re.compile(
    r"\b(?:(?:i|we)(?:'ve| have)? (?:decided|chose|settled on|opted)|decided (?:to|on|against)|"
    r"(?:i|we)(?:'ll| will| am|'m) (?:go(?:ing)? with|keep(?:ing)?|stick(?:ing)? (?:with|to)|leave|leaving) |"
    r"we(?:'ll| will) use |let'?s (?:use|go with|keep|stick|leave|rename|call|drop)|decision:|"
    r"settled on|the (?:best|right|simplest) (?:approach|way|solution|fix) (?:is|would be))",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:please|can you|could you|help|fix|implement|add|make|change|find|read|create|write|i want|i need|let'?s|"
    r"your task|refactor|rename|cancel|exchange|refund|return|update|remove|check|tell|show|look)\b",
    re.IGNORECASE,
)
"""Words of a sentence that asks for something."""
_WORDS = (4, 60)
"""The words that a probed sentence may have. A shorter one says nothing by itself, and a longer one was pasted."""


def probes_of(past: Sequence[ChatMessage]) -> tuple[Probe, ...]:
    """Returns every probe of a past, ordered by where its answer stands. The result is deterministic.

    A probe that the whole past does not answer by the same rule is left out, for instance an error a thousand lines
    below its command. So a view that keeps everything scores 1, and every miss is a real loss.
    """
    common = Counter(word for message in past for word in set(words(text_of(message))))
    found = [*acted(past), *_said(past, common), *named(past)]
    whole = Shown(past)
    kept = [probe for probe in _distinct(found) if judge(probe, whole) == "present"]
    return tuple(sorted(kept, key=lambda probe: (probe.at, probe.kind, probe.text)))


def _distinct(found: Sequence[Probe]) -> Iterator[Probe]:
    seen: dict[tuple[str, object, object], Probe] = {}
    for probe in found:
        seen[probe.kind, probe.answer, probe.anchor if probe.rivals else ()] = probe
    yield from seen.values()


def _said(past: Sequence[ChatMessage], common: Counter[str]) -> Iterator[Probe]:
    user_texts = [(at, text) for at, message in enumerate(past) if (text := human(message))]
    for number, (at, text) in enumerate(user_texts):
        found = sentences(text)
        for index, sentence in enumerate(found):
            kind = _kind(sentence, first=number == 0, opening=index == 0)
            if kind is not None:
                yield from _sentence(kind, at, _with_next(found, index), common)
    yield from _tasks(user_texts, common)
    for at, message in enumerate(past):
        if message.get("role") == "assistant":
            for sentence in sentences(_unfenced(said(message))):
                if _DECIDES.search(sentence) and not sentence.endswith("?"):
                    yield from _sentence("decision", at, sentence, common)


def _kind(sentence: str, *, first: bool, opening: bool) -> Kind | None:
    """Classifies a user's sentence. Nothing in the first message is a correction, since nothing was done before it."""
    question = sentence.rstrip().endswith("?")
    corrects = _CORRECTS.search(sentence)
    if corrects and not first and (opening or corrects.start() > 0 or not question):
        return "correction"
    if question:
        return None
    if _RULE.search(sentence):
        return "constraint"
    return "decision" if _DECIDES.search(sentence) else None


def _with_next(found: Sequence[str], index: int) -> str:
    """Returns the sentence, with the next one added if it is too short to be told from others."""
    sentence = found[index]
    if len(content_words(sentence)) < _WORDS[0] and index + 1 < len(found):
        return f"{sentence} {found[index + 1]}"
    return sentence


def _tasks(asked: Sequence[tuple[int, str]], common: Counter[str]) -> Iterator[Probe]:
    """Probes the first and the last request of the user."""
    requests = [asked[0], asked[-1]] if len(asked) > 1 else asked
    for at, text in requests:
        long = [s for s in sentences(text) if len(content_words(s)) >= _WORDS[0] <= len(s.split())]
        sentence = next((s for s in long if _ASKS.search(s)), long[0] if long else "")
        yield from _sentence("task", at, sentence, common)


def _sentence(kind: Kind, at: int, sentence: str, common: Counter[str]) -> Iterator[Probe]:
    sentence = " ".join(sentence.split()[: _WORDS[1]])
    if len(content_words(sentence)) >= _WORDS[0] - 1:
        answer, anchor = halves(sentence, common)
        yield Probe(kind, at, sentence, answer, anchor)


def _unfenced(text: str) -> str:
    return re.sub(r"```.*?(?:```|\Z)|<(\w+)>.*?</\1>", "\n", text, flags=re.DOTALL)
