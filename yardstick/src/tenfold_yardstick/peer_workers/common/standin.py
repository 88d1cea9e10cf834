"""The stand-ins for the language model that peers summarize with. Both are deterministic and extractive.

`sentences` returns the first and the last sentence of each message, shortened evenly until all fit into the allotment.
If even that is too much, messages are left out from the middle outwards. `names` returns nothing but the names, paths,
ids and numbers in the messages, the newest first: nobody could go on from that, and a score that counts words is high.
So the two tell how much of a peer's score is the stand-in's. They know nothing of any peer and nothing of Tenfold. The
environment variable `PEER_STANDIN` says which of them answers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from serving import tokens

SHARE = 4
"""A summary may take a quarter of the budget. The rest is for what a peer keeps unchanged."""

LONGEST = 240
"""The most characters of one sentence. A log line or a blob without a full stop is no sentence."""

SHORTEST = 32
"""Below this many characters a shortened sentence says nothing, so messages are left out instead."""

_SENTENCE = re.compile(r"(?<=\D[.!?])\s+|\n+")
_MARKUP = re.compile(r"</?[A-Za-z_][^<>]*>")
"""A line of nothing but markup is a peer's frame around a message, not a sentence."""

_SPEAKER = re.compile(
    r"^\s*(?:\d+[.)]\s*)?(?:<(?:message|event|user|assistant|tool)\b"
    r"|\[?(?:human|ai|user|assistant|model|tool|agent|system)\b[^:\n\]]{0,60}[\]:])",
    re.IGNORECASE,
)
"""A line that names who speaks: `Human: ...`, `[Tool result] ...`, `3. [user] ...`, `<message type="ai">`."""

_NAME = re.compile(r"(?=[\w./@-]*(?:[\d_/]|\w\.\w|[a-z][A-Z]))[\w/@][\w./@-]{2,199}(?<![.-])")
"""A path, a dotted name, a word with a digit, an underscore or a capital inside, or a number, of three or more."""


def allotment(budget: int) -> int:
    """Returns the tokens that a summary may take if the whole may take `budget`."""
    return max(1, budget // SHARE)


def split_messages(prompt: str) -> list[str]:
    """Splits a conversation that was rendered into one text. A new message begins at each line that names a speaker."""
    found: list[list[str]] = []
    for line in prompt.splitlines():
        if _SPEAKER.match(line) or not found:
            found.append([])
        found[-1].append(line)
    return ["\n".join(lines) for lines in found]


def summary(messages: str | Sequence[str], allowed: int) -> str:
    """Returns what the chosen stand-in writes of the messages, in at most `allowed` tokens.

    Args:
        messages: The texts of the messages, or the one text that a peer rendered them into.
        allowed: The most tokens of the answer, at least 1.
    """
    texts = split_messages(messages) if isinstance(messages, str) else list(messages)
    return _STANDINS[os.environ.get("PEER_STANDIN", "sentences")](texts, allowed)


def quote_sentences(texts: Sequence[str], allowed: int) -> str:
    """Returns the first and last sentence of each message, one message a line, in at most `allowed` tokens."""
    ends = [pair for text in texts if (pair := _ends(text))]
    length = LONGEST
    while True:
        written = "\n".join(_line(pair, length) for pair in ends)
        over = tokens(written) / allowed
        if over <= 1 or not ends:
            return written
        if length > SHORTEST:
            length = max(SHORTEST, min(length - 1, int(length / over)))
        elif len(ends) == 1:
            return _clip_text(written, allowed)
        else:
            ends = _drop_middle(ends, max(1, min(len(ends) - 1, int(len(ends) / over))))


def list_names(texts: Sequence[str], allowed: int) -> str:
    """Returns the names in the messages, the newest first, one a line and each once, in at most `allowed` tokens."""
    names = dict.fromkeys(name for text in reversed(texts) for name in _NAME.findall(text))
    written: list[str] = []
    for name in names:
        allowed -= tokens(f"{name}\n")
        if allowed < 0:
            break
        written.append(name)
    return "\n".join(written)


_STANDINS = {"sentences": quote_sentences, "names": list_names}


def _ends(text: str) -> tuple[str, ...]:
    said = [piece.strip() for piece in _SENTENCE.split(text) if piece.strip() and not _MARKUP.fullmatch(piece.strip())]
    return tuple(dict.fromkeys((said[0], said[-1]))) if said else ()


def _line(pair: tuple[str, ...], length: int) -> str:
    return " ... ".join(each if len(each) <= length else each[:length].rstrip() + "..." for each in pair)


def _drop_middle(ends: list[tuple[str, ...]], keep: int) -> list[tuple[str, ...]]:
    first = keep // 2
    return ends[:first] + ends[len(ends) - (keep - first) :]


def _clip_text(text: str, allowed: int) -> str:
    while text and tokens(text) > allowed:
        text = text[: len(text) * 3 // 4]
    return text
