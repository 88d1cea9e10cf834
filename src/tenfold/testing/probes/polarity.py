"""Tells whether a view says a rule or its opposite, and which rules of a past were revoked later.

The words alone do not tell: "you may push to main" and "never push to main" share all that carries meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from tenfold.testing.probes.chat_text import get_human_text, split_sentences
from tenfold.testing.probes.kinds import ChatMessage, Probe, Term, find_content_words
from tenfold.testing.probes.presence import IndexedView

_NEGATION = re.compile(
    r"\b(?:never|not|no|nobody|none|nothing|neither|nor|without|cannot|\w+n['\u2019]t|forbidden|banned|prohibited|"
    r"hands off|off[- ]limits|"
    r"nicht|nie|niemals|kein\w*|verboten|jamais|pas|interdit\w*|nunca|jam\u00e1s|prohibid\w*|n\u00e3o|proibid\w*|non|mai|"
    r"vietat\w*|niet|nooit|geen|verboden|nie|nigdy|zakazane|asla|yasak|\u043d\u0435|\u043d\u0438\u043a\u043e\u0433\u0434\u0430|"
    r"\u043d\u0435\u043b\u044c\u0437\u044f|\u0644\u0627|\u0645\u0645\u0646\u0648\u0639)\b|\u4e0d|\u7981\u6b62|"
    r"\u306a\u3044\u3067|\u3044\u3051|\uc9c0 \ub9c8|\uc548 |\u092e\u0924",
    re.IGNORECASE,
)
_REVOCATION = re.compile(
    r"\b(?:you (?:may|can|are allowed to|are free to)\b.*\b(?:now|again|after all|anyway)|"
    r"forget (?:the|that|what|about)|no longer (?:have|has|need|appl|hold|necessary|required)\w*|"
    r"do(?:n['\u2019]t| not) (?:have|need) to\b.*\bany ?more|"
    r"(?:changed|change) my mind|(?:rule|ban|restriction) (?:about .{1,40} )?(?:is|was) (?:lifted|gone|off|dropped))",
    re.IGNORECASE,
)
"""Words by which a user takes back a rule."""
_SENTENCE = re.compile(r"[.!?;\n\u3002\uff01\uff1f\u0964]+")
_MIN_SHARED_WORDS = 2


class Revocation(Struct, frozen=True):
    """A rule's probe, and the later sentence that revokes the rule."""

    rule: Probe
    sentence: str


def is_negated(text: str) -> bool:
    """Whether a sentence forbids or denies something."""
    return _NEGATION.search(text) is not None


def is_said_so(view: IndexedView, text: str, answer: Sequence[Term]) -> bool:
    """Whether a sentence of the view has the words of the answer and forbids or allows as `text` does.

    Where no sentence has most of the words, nothing speaks against it.
    """
    counted = [
        (sum(any(form in each for form in term) for term in answer), each) for each in _SENTENCE.split(view.text)
    ]
    most = max((count for count, _ in counted), default=0)
    if most * 2 <= len(answer):
        return True
    wanted = is_negated(text)
    return any(is_negated(sentence) == wanted for count, sentence in counted if count == most)


def find_revocations(past: Sequence[ChatMessage], rules: Sequence[Probe]) -> list[Revocation]:
    """Returns the rules that a later message of the user takes back, each with the first sentence that does."""
    sentences = [
        (at, sentence, set(find_content_words(sentence)))
        for at, message in enumerate(past)
        for sentence in split_sentences(get_human_text(message))
        if _REVOCATION.search(sentence)
    ]
    found = []
    for rule in rules:
        words = set(find_content_words(rule.text))
        by = next((s for at, s, own in sentences if at > rule.index and len(own & words) >= _MIN_SHARED_WORDS), None)
        if by is not None:
            found.append(Revocation(rule, by))
    return found
