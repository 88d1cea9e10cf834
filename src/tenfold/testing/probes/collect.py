"""Collects the probes of a past: runs every extractor, and holds the extractor of what was said.

Rules, corrections, decisions and tasks are sentences and are found by their wording. Each extractor prefers a few right
probes to many: a probe about something worthless would reward a view that keeps everything.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tenfold.testing.probes.agent_actions import extract_actions
from tenfold.testing.probes.chat_text import get_human_text, get_own_text, get_text, split_sentences
from tenfold.testing.probes.kinds import (
    ChatMessage,
    Probe,
    ProbeKind,
    find_content_words,
    split_into_halves,
    split_words,
)
from tenfold.testing.probes.mentions import extract_mentions
from tenfold.testing.probes.presence import IndexedView, judge

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
_CORRECTION = re.compile(
    r"^(?:no\b|nope\b|wait\b|actually\b|sorry\b|ah+\b,? no|stop\b|careful\b|small change|correction\b)|"
    r"\b(?:instead|revert|undo|take that back|put it back|that's (?:not|wrong)|"
    r"is(?:n't| not) (?:what|right)|(?:rather than|should be|not) .{1,40}(?: instead|, not )|"
    r"i (?:said|meant|actually want)|"
    r"why (?:do|did|would|are|does) (?:you|it|we)|you (?:havn?e?'?n?t|haven't|forgot|missed|didn'?t|broke|still)|"
    r"is(?:n't| not) that|isn't)\b|\w(?:'d| would) rather\b|\bcorrection from my side\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:(?:i|we)(?:'ve| have)? (?:decided|chose|settled on|opted)|decided (?:to|on|against)|"
    r"(?:i|we)(?:'ll| will| am|'m) (?:go(?:ing)? with|keep(?:ing)?|stick(?:ing)? (?:with|to)|leave|leaving) |"
    r"we(?:'ll| will) use |let'?s (?:use|go with|keep|stick|leave|rename|call|drop)|decision:|"
    r"settled on|the (?:best|right|simplest) (?:approach|way|solution|fix) (?:is|would be))",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:please|can you|could you|help|fix|implement|add|make|change|find|read|create|write|i want|i need|let'?s|"
    r"your task|refactor|rename|cancel|exchange|refund|return|update|remove|check|tell|show|look)\b",
    re.IGNORECASE,
)
"""Words of a sentence that asks for something."""
_WORD_LIMITS = (4, 60)
"""The words that a probed sentence may have. A shorter one says nothing by itself, and a longer one was pasted."""


def collect_probes(past: Sequence[ChatMessage]) -> tuple[Probe, ...]:
    """Returns every probe of a past, ordered by where its answer stands. The result is deterministic.

    A probe that the whole past does not answer by the same rule is left out, for instance an error a thousand lines
    below its command. So a view that keeps everything scores 1, and every miss is a real loss.
    """
    common = Counter(word for message in past for word in set(split_words(get_text(message))))
    found = [*extract_actions(past), *_probe_statements(past, common), *extract_mentions(past)]
    whole = IndexedView(past)
    kept = [probe for probe in _drop_duplicates(found) if judge(probe, whole) == "present"]
    return tuple(sorted(kept, key=lambda probe: (probe.index, probe.kind, probe.text)))


def _drop_duplicates(probes: Sequence[Probe]) -> Iterator[Probe]:
    seen: dict[tuple[str, object, object], Probe] = {}
    for probe in probes:
        seen[probe.kind, probe.answer, probe.anchor if probe.rivals else ()] = probe
    yield from seen.values()


def _probe_statements(past: Sequence[ChatMessage], word_counts: Counter[str]) -> Iterator[Probe]:
    user_texts = [(at, text) for at, message in enumerate(past) if (text := get_human_text(message))]
    for number, (at, text) in enumerate(user_texts):
        found = split_sentences(text)
        for index, sentence in enumerate(found):
            kind = _classify_sentence(sentence, is_first_message=number == 0, is_first_sentence=index == 0)
            if kind is not None:
                yield from _probe_sentence(kind, at, _with_next_sentence(found, index, text), word_counts)
    yield from _probe_tasks(user_texts, word_counts)
    for at, message in enumerate(past):
        if message.get("role") == "assistant":
            for sentence in split_sentences(_without_fences(get_own_text(message))):
                if _DECISION.search(sentence) and not sentence.endswith("?"):
                    yield from _probe_sentence("decision", at, sentence, word_counts)


def _classify_sentence(sentence: str, *, is_first_message: bool, is_first_sentence: bool) -> ProbeKind | None:
    """Classifies a user's sentence. Nothing in the first message is a correction, since nothing was done before it."""
    question = sentence.rstrip().endswith("?")
    corrects = _CORRECTION.search(sentence)
    if corrects and not is_first_message and (is_first_sentence or corrects.start() > 0 or not question):
        return "correction"
    if question:
        return None
    if _RULE.search(sentence):
        return "constraint"
    return "decision" if _DECISION.search(sentence) else None


def _with_next_sentence(sentences: Sequence[str], index: int, text: str) -> str:
    """Returns the sentence, with the next one of its line added if it is too short to be told from others.

    What stands on another line of the `text`, such as the next item of a list, is another statement. Nothing says that
    a view has to show the two side by side.
    """
    sentence = sentences[index]
    if len(find_content_words(sentence)) < _WORD_LIMITS[0] and index + 1 < len(sentences):
        both = f"{sentence} {sentences[index + 1]}"
        return both if both in text else sentence
    return sentence


def _probe_tasks(user_texts: Sequence[tuple[int, str]], word_counts: Counter[str]) -> Iterator[Probe]:
    """Probes the first and the last request of the user."""
    requests = [user_texts[0], user_texts[-1]] if len(user_texts) > 1 else user_texts
    for at, text in requests:
        long = [s for s in split_sentences(text) if len(find_content_words(s)) >= _WORD_LIMITS[0] <= len(s.split())]
        sentence = next((s for s in long if _REQUEST.search(s)), long[0] if long else "")
        yield from _probe_sentence("task", at, sentence, word_counts)


def _probe_sentence(kind: ProbeKind, index: int, sentence: str, word_counts: Counter[str]) -> Iterator[Probe]:
    sentence = " ".join(sentence.split()[: _WORD_LIMITS[1]])
    if len(find_content_words(sentence)) >= _WORD_LIMITS[0] - 1:
        answer, anchor = split_into_halves(sentence, word_counts)
        yield Probe(kind, index, sentence, answer, anchor)


def _without_fences(text: str) -> str:
    return re.sub(r"```.*?(?:```|\Z)|<(\w+)>.*?</\1>", "\n", text, flags=re.DOTALL)
