"""Counts the tokens of texts and messages: a rule of thumb, a real byte-pair vocabulary, and whole messages.

A counter counts plain text. Everything else (images, files, recordings, opaque parts) is sized by the rules of the
model that the counter was chosen for, in `media_counts.py`. Correcting a count towards what a provider reports is the
job of `reading.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, Protocol, assert_never

from msgspec import Struct

from tenfold.core.meter.media_counts import NO_MEDIA, MediaTokens, count_part, count_sealed
from tenfold.core.meter.model_names import normalize_model_name
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.record.token_reading import Counted
from tenfold.core.text.memoize import memoize_short

MESSAGE_OVERHEAD = Counted(4)
"""The overhead of one message (role, start and end marks). OpenAI's cookbook on counting chat tokens gives 3 plus 1 for
the role; two public agents (spec/blocks.md C5, spec/tiers.md B4) charge 4.
"""

MAX_CHUNK_CHARACTERS = 1 << 20
"""Characters counted at once. Limits the working copy of a very large text to a few megabytes."""

_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    "\U00020000-\U0003ffff]+"
)
_CHUNK_BOUNDARY = re.compile(r"\n(?=[A-Za-z0-9])")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Counter(Protocol):
    """Counts plain texts. Stored counts are filed under `name`, so another name means other numbers.

    A counter with a further attribute `model` has images, files and recordings counted as that model counts them.
    """

    @property
    def name(self) -> str:
        """The counter's name, for instance `chars4`."""
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Returns the tokens of each text, in order."""
        ...


class CharacterCounter(Struct, frozen=True):
    """Counts without any package: a quarter of a token per character, rounded up, and a whole one per CJK character.

    CJK means Han, kana, hangul and their full-width forms. Measured on the synthetic sentences in docs/meter.md, each
    takes 0.5 to 0.9 tokens with the o200k vocabulary and 0.9 to 1.4 with cl100k. A quarter would be far too low.
    `model` is the model by whose rules images, files and recordings are counted ("": as for an unknown model).
    """

    name: Literal["chars4"] = "chars4"
    model: str = ""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Returns the tokens of each text by the rule above: exact arithmetic, no vocabulary."""
        return [-(-len(text) // 4) if text.isascii() else _count_by_rule(text) for text in texts]


class BytePairCounter(Struct, frozen=True):
    """Counts with a real byte-pair vocabulary from the package `toktok-rs`. It needs no download.

    The vocabulary is loaded at the first count, which takes about half a second, once per process. `count` raises
    ImportError where the package is not installed. `choose_counter` checks that first, and falls back visibly. `model`
    is the model by whose rules images, files and recordings are counted ("": as for an unknown model).
    """

    encoding: Literal["o200k", "cl100k"] = "o200k"
    model: str = ""

    @property
    def name(self) -> str:
        """The encoding's name."""
        return self.encoding

    def count(self, texts: Sequence[str]) -> list[int]:
        """Returns the exact tokens of each text. Special tokens count as ordinary text, lone surrogates as U+FFFD."""
        encoding = f"{self.encoding}_base"
        if all(len(text) <= MAX_CHUNK_CHARACTERS for text in texts):
            return _count_texts(texts, encoding)
        return [sum(_count_texts([piece], encoding)[0] for piece in _split_text(text)) for text in texts]


class CounterChoice(NamedTuple):
    """A counter, and a note that says why it was chosen ("" where nothing needs explaining)."""

    counter: Counter
    note: str


class ErrorBounds(Struct, frozen=True):
    """How far a corrected count may lie from the provider's: shares of it, for a count that is too high or too low."""

    below: float
    above: float


class ModelFamily(Struct, frozen=True):
    """The counter for models whose name begins with `prefix`, and how far off it is.

    `factor` is the model's tokens per counted token, used until usage is reported, and `bounds` how far the provider's
    count may lie from that. `evidence` says where they come from.
    """

    prefix: str
    encoding: Literal["o200k", "cl100k"]
    factor: float
    bounds: ErrorBounds
    evidence: str


def _build_families(
    names: str, encoding: Literal["o200k", "cl100k"], factor: float, bounds: ErrorBounds, evidence: str
) -> tuple[ModelFamily, ...]:
    return tuple(ModelFamily(name, encoding, factor, bounds, evidence) for name in names.split())


_OPENAI = (
    "the family's own vocabulary (toktok-rs equals tiktoken, yardstick/bench/tokenizers.py); no recorded run has "
    "usage, so that 5 % for the marks between messages is an assumption"
)
_CLAUDE = (
    "no public vocabulary; growth between reported usages is 1.23 to 1.25 x o200k in whole runs, and 1.03 to 1.51 x in "
    "stretches of 10,000 tokens (docs/meter.md)"
)
_CLAUDE_NEW = (
    "no public vocabulary; a public rebuild of the tokenizer since 4.7 counts 1.60 x o200k, from 1.25 as before to a "
    "quarter more for JSON (docs/meter.md)"
)
_OWN = ErrorBounds(0.05, 0.05)
_NEAR = ErrorBounds(0.18, 0.21)
_FAR = ErrorBounds(0.25, 0.25)
FAMILIES: tuple[ModelFamily, ...] = (
    *_build_families("gpt-3.5 gpt-4", "cl100k", 1.0, _OWN, _OPENAI),
    *_build_families("gpt-4o gpt-4.1 gpt-4.5 gpt- chatgpt- codex- o1 o3 o4", "o200k", 1.0, _OWN, _OPENAI),
    *_build_families("claude-", "o200k", 1.6, _FAR, _CLAUDE_NEW),
    *_build_families("claude-2 claude-3 claude-instant", "o200k", 1.25, _NEAR, _CLAUDE),
    *_build_families("claude-opus-4 claude-sonnet-4 claude-haiku-4", "o200k", 1.25, _NEAR, _CLAUDE),
    *_build_families("claude-opus-4-7 claude-opus-4-8", "o200k", 1.6, _FAR, _CLAUDE_NEW),
)
_UNKNOWN_EVIDENCE = (
    "not a known family: corrected like the older Claude models, to be on the safe side; the known families lie from "
    "1.0 to 1.6"
)
UNKNOWN_FAMILY = ModelFamily("", "o200k", 1.25, ErrorBounds(0.25, 0.3), _UNKNOWN_EVIDENCE)
CHARACTERS_FACTOR = 1.35
"""Tokens per counted token of `chars4`: 1.28 to 1.42 over 43 whole requests of a coding agent (docs/meter.md)."""
CHARACTERS_BOUNDS = ErrorBounds(0.3, 0.25)
"""From OpenAI's models, whose tokens are 4 % more than `chars4` counts, to Claude's since 4.7 (1.60 x as many)."""


def find_family(model: str | None) -> ModelFamily:
    """Returns the row of FAMILIES with the longest matching prefix, or `UNKNOWN_FAMILY`."""
    return _find_family(model or "")


@memoize_short(256)
def _find_family(model: str) -> ModelFamily:
    name = normalize_model_name(model)
    rows = [row for row in FAMILIES if name.startswith(row.prefix)]
    return max(rows, key=lambda row: len(row.prefix), default=UNKNOWN_FAMILY)


def is_bpe_installed() -> bool:
    """Whether the vocabulary package is installed. Does not load it."""
    return importlib.util.find_spec("toktok") is not None


FALLBACK_CHOICE = CounterChoice(
    CharacterCounter(),
    "tokens are estimated from characters, because the package toktok-rs is not installed here (it has no wheel for "
    "every platform, musl among them); readings are coarser until usage is reported",
)


def choose_counter(model: str | None) -> CounterChoice:
    """Chooses the counter for a model: its family's vocabulary.

    Where that is not installed, it is one that counts characters, with the note of `FALLBACK_CHOICE`.
    """
    family, name = find_family(model), model or ""
    if not is_bpe_installed():
        return CounterChoice(CharacterCounter(model=name), FALLBACK_CHOICE.note)
    note = "" if family.factor == 1.0 else f"{family.encoding}: {family.evidence}"
    return CounterChoice(BytePairCounter(family.encoding, name), note)


def get_family_factor(model: str | None, counter: str) -> float:
    """Returns what a count is multiplied by until usage is reported.

    It is the factor of the model's family, or for `chars4` one factor for all models. What a counter of the caller
    counts is taken as it is.
    """
    if counter == "chars4":
        return CHARACTERS_FACTOR
    return find_family(model).factor if is_own_vocabulary(counter) else 1.0


def find_bounds(model: str, counter: str) -> ErrorBounds:
    """Returns how far the factor of a model's family has been off, for counts by that counter."""
    return CHARACTERS_BOUNDS if counter == "chars4" else find_family(model).bounds


def is_own_vocabulary(counter: str) -> bool:
    """Whether a name is that of a vocabulary that `BytePairCounter` counts with, or "" for whichever one is used."""
    return counter in ("o200k", "cl100k", "")


class MessageSize(NamedTuple):
    """The tokens of a message, and what of them is not text."""

    tokens: Counted
    media: MediaTokens


def get_media_model(counter: Counter) -> str:
    """Returns the model by whose rules a counter's images, files and recordings are counted, "" for an unknown one."""
    model = getattr(counter, "model", "")
    return model if isinstance(model, str) else ""


def measure_messages(
    messages: Sequence[Message], counter: Counter, *, overhead: Counted = MESSAGE_OVERHEAD
) -> list[Counted]:
    """Returns the tokens of each message, `overhead` included. Counts all texts in one batch.

    Counted: text, thinking, a call's name and raw arguments, a result's tool name and content, inline documents. Sized
    by the rules of the counter's model: images (by pixels, never by base64 length), files, recordings. Other opaque
    parts are sized by their bytes. Thinking counts as its text or as what its signature seals, whichever is more: the
    text beside sealed thinking is a summary of it (`count_sealed`).
    """
    return [size.tokens for size in measure_with_media(messages, counter, overhead=overhead)]


def measure_with_media(
    messages: Sequence[Message], counter: Counter, *, overhead: Counted = MESSAGE_OVERHEAD
) -> list[MessageSize]:
    """Returns what `measure_messages` does, and of each message what is not text, with its bounds."""
    texts: list[str] = []
    owners: list[int] = []
    thinking: list[tuple[int, _Sealed]] = []
    totals = [overhead] * len(messages)
    media: dict[int, MediaTokens] = {}
    model = get_media_model(counter)
    for index, message in enumerate(messages):
        for part in message.parts:
            for piece in _extract_countable(part, model):
                if isinstance(piece, _Sealed):
                    thinking.append((index, piece))
                elif isinstance(piece, MediaTokens):
                    totals[index] += piece.counted_tokens
                    media[index] = media.get(index, NO_MEDIA) + piece
                elif piece:
                    texts.append(piece)
                    owners.append(index)
    counted = counter.count([*texts, *(each.text for _, each in thinking)])
    for owner, tokens in zip(owners, counted[: len(texts)], strict=True):
        totals[owner] += tokens
    for (owner, each), tokens in zip(thinking, counted[len(texts) :], strict=True):
        totals[owner] += max(tokens, each.tokens)
    return [MessageSize(tokens, media.get(index, NO_MEDIA)) for index, tokens in enumerate(totals)]


def has_media(message: Message) -> bool:
    """Whether a message holds anything that is not counted as text."""
    return any(isinstance(piece, MediaTokens) for part in message.parts for piece in _extract_countable(part, ""))


class _Sealed(NamedTuple):
    """The text of thinking, and the tokens that its signature seals."""

    text: str
    tokens: int


def _extract_countable(part: Part, model: str) -> Iterator[str | MediaTokens | _Sealed]:
    match part:
        case Text():
            yield part.text
        case Thinking():
            yield _Sealed(part.text, count_sealed(len(part.signature)))
        case ToolCall():
            yield part.name
            yield part.arguments
        case ToolResult():
            yield part.name
            for inner in part.content:
                yield from _extract_countable(inner, model)
        case Image() | Document() | OpaquePart():
            if isinstance(part, Document):
                yield part.name
                yield part.text
            counted = count_part(part, model)
            if counted is not None:
                yield counted
        case _:
            assert_never(part)


def _count_by_rule(text: str) -> int:
    whole = 0 if text.isascii() else sum(len(run) for run in _CJK.findall(text))
    return whole + -(-(len(text) - whole) // 4)


MIN_BATCH_TEXTS = 8
"""With fewer texts than this, one thread counts them; from here on, every core does."""


class _Vocabulary(NamedTuple):
    count_one: Callable[[str], int]
    count_many: Callable[[Sequence[str], str], list[int]]


@cache
def _load_vocabulary(encoding: str) -> _Vocabulary:
    """Loads the package's two ways to count: one text (7 microseconds for 1 KB), or a batch (42 microseconds).

    `batch_count` asks the system on each call how many cores there are (20 system calls), which is too much for a
    single new message. The loaded encoding has no public name (toktok-rs 0.3). Without it, everything is counted in
    batches.
    """
    package = importlib.import_module("toktok")
    many = package.batch_count
    loaded = getattr(package, "_encoding", None)
    return _Vocabulary(loaded(encoding).count if loaded else lambda text: many([text], encoding)[0], many)


def _count_texts(texts: Sequence[str], encoding: str) -> list[int]:
    vocabulary = _load_vocabulary(encoding)
    try:
        if len(texts) < MIN_BATCH_TEXTS:
            return [vocabulary.count_one(text) for text in texts]
        return vocabulary.count_many(texts, encoding)
    except UnicodeEncodeError:
        return _count_texts([_SURROGATE.sub("\ufffd", text) for text in texts], encoding)


def _split_text(text: str) -> Iterator[str]:
    """Splits a large text before a letter or digit that begins a line, where both vocabularies split as well."""
    start = 0
    while len(text) - start > MAX_CHUNK_CHARACTERS:
        cut = _CHUNK_BOUNDARY.search(
            text, start + MAX_CHUNK_CHARACTERS - MAX_CHUNK_CHARACTERS // 8, start + MAX_CHUNK_CHARACTERS
        )
        end = cut.end() if cut else start + MAX_CHUNK_CHARACTERS
        yield text[start:end]
        start = end
    yield text[start:]
