"""Reads what the user said: the current request, standing rules, corrections. Also finds decisions and plan steps.

Only messages of origin human are read for rules. Missing a rule is worse than keeping too many: a short message that is
neither a plain acknowledgement nor a plain question is kept whole.
"""

from __future__ import annotations

import re

from tenfold.facts.current_request import HARNESS_MARKS, is_acknowledgement
from tenfold.record.block import Fact, FactKind
from tenfold.text.excerpts import (
    MAX_SEARCHED_CHARS,
    Keep,
    excerpt,
    flatten,
    is_prose,
    normalize_key,
    split_paragraphs,
    split_sentences,
)
from tenfold.text.memoize import memoize

SHORT_MESSAGE_CHARS = 300
WHOLE_MESSAGE_CHARS = 700
MAX_REQUEST_CHARS = 6000
_MAX_HEADING_CHARS = 20
"""Longest line, in characters, that counts as a heading and not as a decision."""
WEAK_NOTE = "said"
"""The `note` of a rule or correction said in passing: it is short and has no cue, has its cues in questions only, or
only announces what follows."""

ACK_NOTE = "ack"
"""The `note` of a request that only acknowledges. The request before it stays the current one."""

_RULE_CUE = re.compile(
    r"^(?-i:[A-Z]{3,15}(?:[ _-][A-Z]{3,15}){0,3}): "
    r"|\b(?:always|never|must(?:n't)?|mustn|don'?t|do not|should(?:n'?t)?|shall|prefer(?:s|red|ably|ences?)?|only"
    r"|from now on|make sure"
    r"|ensure|avoid|use|using|need(?:s)? to|have to|has to|required?|requirements?|rules?|remember|keep in mind"
    r"|note that"
    r"|important|please|instead of|rather than|without|before (?:you|we)|after (?:you|we)|when(?:ever)? (?:you|we|it)"
    r"|if (?:you|we|it|that|this|the|both|i)|unless|otherwise|each time|every time|i(?:'d| would)? (?:want|like|need"
    r"|expect|love)"
    r"|we (?:use|want|need)|let'?s|stick to|limit(?:ed)?|at (?:most|least)|no more than|cannot|can'?t|can (?:we|you)"
    r"|could (?:we|you)|would you|keep|leave|do it|forget|follow|according to|target|strategy|plan is|policy"
    r"|convention|standard"
    r"|whatever|in (?:the )?(?:format|style)|i would|constraint|goal|objective|budget|deadline|verbatim|exactly"
    r"|nobody|no one|banned|forbidden|prohibited|allowed|permitted|off[- ]limits|may (?:not|only)|nothing (?:but|else)"
    r"|(?:all|every|each) (?:\w+ ){1,5}(?:is|are|has|have|goes?|stays?)"
    r"|wait for|no (?!idea|problem|need|worr|doubt|clue|thanks|longer)\w+)\b"
    r"|不要|必须|必須|总是|總是|請|请|しないで|必ず|ください|\bnicht\b|\bimmer\b|\bbitte\b|\bnur\b|\bne pas\b"
    r"|\btoujours\b"
    r"|\bsiempre\b"
    r"|\bnunca\b"
    r"|нельзя|всегда|никогда|должн|반드시|하지 ?마",
    re.IGNORECASE,
)
_FIRM_CUE = re.compile(
    r"\b(?:always|never|must(?:n't)?|don'?t|do not|shall|only|from now on|avoid|cannot|can'?t|nobody|no one|banned"
    r"|forbidden|prohibited|(?:not|are|is) (?:allowed|permitted)|off[- ]limits|may (?:not|only)|nothing (?:but|else)"
    r"|at (?:most|least)|no more than|verbatim|exactly|leave|keep|touch|(?:all|every|each) \w+)\b",
    re.IGNORECASE,
)
"""Words that make a rule hold from then on, and not just for the present request."""
_CORRECTION_CUE = re.compile(
    r"^(?:no|nope|nah|wait|stop|hold on|hmm+|wrong|actually|sorry|but|not\b|wtf|ok\. uh|uh)\b"
    r"|\b(?:not (?:that|what|this|the|quite|our|definitely)|instead|actually|stop|wrong(?:ly)?|incorrect|why (?:did"
    r"|do|does|would|are|is)"
    r"|revert|undo|roll ?back|i (?:said|meant|told|asked)|that'?s not|this isn'?t|doesn'?t|didn'?t|haven'?t|hasn'?t"
    r"|isn'?t|aren'?t|wasn'?t"
    r"|still|wtf|wth|idiot|horrible|shit+y?|dumb|ugly|messy|i(?:'d)? (?:hate|don'?t like)|rather|shouldn'?t have"
    r"|broke|broken|breaks"
    r"|fail(?:s|ed|ing)?|not working|can'?t we|couldn'?t we|issue is|problem is|bug|definitely not|confus\w+"
    r"|misnomer|misunderst\w+|steering"
    r"|no longer|changed? my mind|how about|feedback|forgot|missed|missing|i thought|should be|supposed to|better"
    r"|remove|rename|too)\b"
    r"|不对|不是|错|違|やめて|\bfalsch\b|\bnein\b|неправильно|아니",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^(?:(?:ok|so+|and|alright|btw|hey|well|then)[,.\s]+)*(?:what|when|where|who|which|how|is|are|do|does|did|will"
    r"|was|were|any|have|has|why)\b",
    re.IGNORECASE,
)
_LOG_LINE = re.compile(r"^[ \t]*\[?\d\d:\d\d:\d\d[\d.,]*\]?[ \t]*\n[^\n]*(?:\n|\Z)", re.MULTILINE)
"""A line of a pasted log whose time stands on its own line above it."""


def extract_instructions(position: int, text: str, *, first: bool) -> list[Fact]:
    """Returns the facts of one human message: its request, then rules and corrections.

    `first` says that nothing was answered yet.
    """
    stripped = text.strip()
    return (
        []
        if not stripped or stripped.startswith(HARNESS_MARKS)
        else list(_extract_instructions(stripped, position, first=first))
    )


@memoize
def _extract_instructions(text: str, position: int, *, first: bool) -> tuple[Fact, ...]:
    request = excerpt(text, MAX_REQUEST_CHARS)
    facts = [
        Fact(
            kind="request",
            text=request,
            key=f"{position}",
            position=position,
            note=ACK_NOTE if is_acknowledgement(text) else "",
        )
    ]
    text = _LOG_LINE.sub("", text).strip()
    if len(text) > SHORT_MESSAGE_CHARS:
        facts.extend(_read_long_message(position, excerpt(text, MAX_SEARCHED_CHARS, Keep.EDGES), first=first))
    elif text:
        facts.extend(_read_short_message(position, text, first=first))
    return tuple(facts)


def _read_short_message(position: int, text: str, *, first: bool) -> list[Fact]:
    if is_acknowledgement(text):
        return []
    kind = _classify_text(text, first=first)
    if kind is None and text.endswith("?") and _QUESTION.match(text):
        return []
    return [_build_fact(position, text, kind or "rule", "" if kind else WEAK_NOTE)]


def _read_long_message(position: int, text: str, *, first: bool) -> list[Fact]:
    lines = [line for line in text.split("\n") if line.strip()]
    prose = [line for line in lines if is_prose(line)]
    if len(text) <= WHOLE_MESSAGE_CHARS and sum(map(len, prose)) >= 0.7 * sum(map(len, lines)):
        return [_build_fact(position, text, _classify_text(text, first=first) or "rule", "")]
    facts: list[Fact] = []
    few = sum(map(len, prose)) <= WHOLE_MESSAGE_CHARS
    for block in split_paragraphs(text):
        if few and all(is_prose(line) for line in block.split("\n")):
            facts.append(_build_fact(position, block.strip(), _classify_text(block, first=first) or "rule", ""))
        else:
            facts.extend(_read_paragraph(position, block, first=first))
    opening = next((line.strip() for line in prose), "")
    if opening and len(opening) <= SHORT_MESSAGE_CHARS and not any(opening in fact.text for fact in facts):
        facts.insert(0, _build_fact(position, opening, "rule", WEAK_NOTE))
    return facts


def _read_paragraph(position: int, block: str, *, first: bool) -> list[Fact]:
    """Keeps a short paragraph with a cue whole; of a longer one, the sentences with a cue."""
    lines = block.split("\n")
    if len(block) <= 400 and all(is_prose(line) for line in lines):
        kind = _classify_text(block, first=first)
        return [_build_fact(position, block.strip(), kind, "")] if kind else []
    facts: list[Fact] = []
    for line in lines:
        pieces = [line.strip()] if len(line) <= 400 else list(split_sentences(line))
        for piece in pieces:
            kind = _classify_text(piece, first=first) if is_prose(piece) else None
            if kind:
                facts.append(_build_fact(position, excerpt(piece, 600), kind, ""))
    return facts


def _classify_text(text: str, *, first: bool) -> FactKind | None:
    if not first and _has_cue(_CORRECTION_CUE, text):
        return "correction"
    return "rule" if _has_cue(_RULE_CUE, text) else None


def _has_cue(cue: re.Pattern[str], text: str) -> bool:
    return cue.search(text.replace("\u2019", "'")) is not None


def _build_fact(position: int, text: str, kind: FactKind, note: str) -> Fact:
    weak = kind == "rule" and (_is_question(text) or text.endswith(":"))
    return Fact(kind=kind, text=text, key=normalize_key(text), position=position, note=WEAK_NOTE if weak else note)


def is_firm(text: str) -> bool:
    """Tells whether a rule is meant to hold from then on. Wishes for the moment rank below it."""
    return _has_cue(_FIRM_CUE, text)


def _is_question(text: str) -> bool:
    """Tells whether all cues of a text are in questions: "could you tell me ...?" sets no lasting rule."""
    statements = (each for line in text.split("\n") for each in split_sentences(line) if not each.endswith("?"))
    return "?" in text and _has_cue(_RULE_CUE, text) and not any(_has_cue(_RULE_CUE, each) for each in statements)


def find_plan_steps(text: str) -> list[str]:
    """Returns the lines of the last numbered or checkbox list of at least three items, [] if there is none."""
    best: list[str] = []
    run: list[str] = []
    for line in text.split("\n"):
        if _LIST_ITEM.match(line):
            run.append(line.rstrip())
        elif line.strip() and not line.startswith((" ", "\t")):
            best, run = (run, []) if len(run) >= 3 else (best, [])
    return run if len(run) >= 3 else best


_LIST_ITEM = re.compile(r"^\s*(?:[-*]\s+\[[ xX~-]\]|\d{1,2}[.)])\s+\S")


def find_decisions(position: int, text: str) -> list[Fact]:
    """Returns the sentences in which a model or a user states a decision, at most six."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _DECISION_HINTS):
        return []
    found: list[Fact] = []
    for block in split_paragraphs(text):
        for sentence in split_sentences(block):
            if (
                _MAX_HEADING_CHARS < len(sentence) <= 400
                and not sentence.startswith("#")
                and not sentence.endswith((":", ":**", "?"))
                and _DECISION.search(sentence)
            ):
                line = flatten(sentence)
                found.append(Fact(kind="decision", text=line, key=normalize_key(line), position=position))
    return found[:6]


_DECISION_HINTS = (
    "decid",
    "decision",
    "agree",
    "go with",
    "we will ",
    "we'll ",
    "the plan is",
    "chose ",
    "settled on",
    "best approach",
    "root cause",
    "opted",
    "stick with",
    "the fix is",
    "conclusion",
)
_DECISION = re.compile(
    r"\b(?:decided|decision(?=:| is\b| was\b| to\b)|agreed|(?:let'?s|we'?ll|i'?ll|going to) go with|we will"
    r"|we'll (?:use|keep|move|have)|the plan is|i chose|we chose"
    r"|settled on|(?:the )?best approach|root cause|opted|stick with|the fix is|in conclusion)\b",
    re.IGNORECASE,
)
