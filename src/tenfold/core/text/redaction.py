"""Removes secrets from text that leaves the store: summaries, snippets, terminal output, reports.

It recognises the forms of keys and tokens, values labelled as secret, secrets in command lines, and sentences that tell
a password, a PIN or a card number. It does not check whether a key is real, and it does not change stored originals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenfold.core.text.memoize import memoize
from tenfold.core.text.secret_keys import mask_keys
from tenfold.core.text.secret_labels import is_labelled_secret, mask_command_secrets, mask_labelled_secrets
from tenfold.core.text.secret_phrases import OTHER_PASSWORD_WORDS, mask_told_secrets
from tenfold.core.text.secret_values import MASK

__all__ = ["MASK", "redact", "redact_cached", "redact_value"]


def redact(text: str) -> str:
    """Replaces secrets by `[redacted]`: keys of a known form, and values that a label, command or sentence gives away.

    >>> redact("export DB_PASS=x7Kp2mQ9 && ./run.sh")
    'export DB_PASS=[redacted] && ./run.sh'
    """
    if len(text) < _SHORTEST_TEXT:
        return text
    if "\\u" in text:
        plain = _ESCAPED_CHARACTER.sub(lambda found: chr(int(found[1], 16)), text)
        shown = _redact_plain(plain)
        return text if shown == plain else shown
    return _redact_plain(text)


def _redact_plain(text: str) -> str:
    has_breaks = "\\" in text and not any(map(text.__contains__, _STAND_INS.values()))
    for escape, stand_in in _STAND_INS.items() if has_breaks else ():
        text = text.replace(escape, stand_in)
    text = mask_keys(text)
    spans = _find_spans(text)
    if spans:
        ends = [0, *(end for _, end in spans)]
        text = (
            "".join(
                text[before:start] + _redact_span(text[start:end])
                for before, (start, end) in zip(ends, spans, strict=False)
            )
            + text[ends[-1] :]
        )
    for escape, stand_in in _STAND_INS.items() if has_breaks else ():
        text = text.replace(stand_in, escape)
    return text


def _redact_span(text: str) -> str:
    folded = text.casefold()
    text = mask_labelled_secrets(text, folded)
    text = mask_command_secrets(text)
    return mask_told_secrets(text, folded)


def _find_spans(text: str) -> list[tuple[int, int]]:
    """Finds the stretches around every word that a secret may follow or precede. They begin and end at spaces."""
    folded = text.casefold()
    hint = _HINT if folded.isascii() else _HINT_IN_ANY_LANGUAGE
    if len(folded) != len(text):  # the positions are not the same
        return [(0, len(text))] if hint.search(folded) else []
    spans: list[tuple[int, int]] = []
    for position in (found.start() for found in hint.finditer(folded)):
        if spans and position + _MARGIN <= spans[-1][1]:
            continue
        start, end = position - _MARGIN, position + 2 * _MARGIN
        start = _find_space_before(text, start) if start > 0 else 0
        space = _SPACE.search(text, end) if end < len(text) else None
        end = space.start() if space else len(text)
        if spans and start <= spans[-1][1]:
            start = spans.pop()[0]
        spans.append((start, end))
    return spans


def _find_space_before(text: str, position: int) -> int:
    return max(text.rfind(space, 0, position) for space in (" ", "\n", "\x1e")) + 1


def redact_value(label: str, value: str) -> str:
    """Redacts a value that has a separate label, such as a field of an object or an argument of a tool call."""
    return MASK if is_labelled_secret(label, value) else redact(value)


redact_cached = memoize(redact)
"""`redact` with a cache, for texts that are shown again and again, such as facts."""
_ESCAPED_CHARACTER = re.compile(r"\\u((?!00[0-7]|d[89a-f])[0-9a-f]{4})", re.IGNORECASE)
"""A character that JSON wrote as its number, ASCII and halves of pairs aside."""
_STAND_INS = {r"\n": "\x1e", r"\t": "\x1f", r"\r": "\x1d"}
"""Spaces that stand for the line breaks and tabs of JSON, which would otherwise run into the words after them."""
_SPACE = re.compile(r"\s")
_MARGIN = 150
"""Characters before a hint that are searched; after it, twice as many. Command lines and sentences are shorter."""
_AFTER_LABEL = r"[:= \t\n\x1e\"'`\\\])>|(,*]"
_PLAIN_HINTS = [
    "credential", "authorization", "cookie", "connect.sid", "signature=", '"kty', ":5432:", ":*:", "://", "bearer",
    "basic ", "identified", "sudo -", "mysql", "7z ", "net user", "securestring", "seed phrase", "recovery phrase",
    "mnemonic", "security code", "verification code", "access code", "door code", "one-time code", "kennwort",
    "wachtwoord", "parola", "senha", "heslo", "zugangsdaten",
]  # fmt: skip
_HINTS = {
    **dict.fromkeys(("token", "secret", "auth", "psk", "_pat", "pin", "otp", "login", "pw", "pwd"), _AFTER_LABEL),
    "pass": rf"(?:{_AFTER_LABEL}|word|wor[td]|wd|code|phrase|e |in |out|-)",
    "key": rf"(?:{_AFTER_LABEL}|gen|-data|_base)",
    "-": r"(?:[pawubn][ \"']|-user)",
    "sess": "(?:id|ionid|ion=)",
    "cv": "[vc]",
    **dict.fromkeys(_PLAIN_HINTS, ""),
}
"""What stands beside a secret in casefolded text: a word, and a pattern of what must follow it."""
_RAREST_FIRST = 'zqjx7k"*:_5vbwypgfcu-mdhlrnisoate '
"""The characters of the hints by how often a text has them."""


def _build_hint_pattern(words: Mapping[str, str]) -> re.Pattern[str]:
    """Builds a pattern that matches where any of the words stands, and looks for the rarest character of each first."""
    branches: dict[str, list[str]] = {}
    for word, tail in words.items():
        at = min(range(len(word)), key=lambda index: _RAREST_FIRST.find(word[index]))
        before = f"(?<={re.escape(word[: at + 1])})" if at else ""
        branches.setdefault(word[at], []).append(before + re.escape(word[at + 1 :]) + tail)
    return re.compile("|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in branches.items()))


_HINT = _build_hint_pattern(_HINTS)
_HINT_IN_ANY_LANGUAGE = _build_hint_pattern({**_HINTS, **dict.fromkeys(OTHER_PASSWORD_WORDS, "")})
_SHORTEST_TEXT = 7
"""Length of the shortest text that can hold a label and a secret: `PIN:123`."""
