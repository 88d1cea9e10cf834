"""Counts the tokens of texts and messages: a rule of thumb, a real byte-pair vocabulary, and whole messages.

A counter counts plain text. Everything else (images, files, opaque parts, the overhead of a message) is sized here by
rule, the same for every counter. Correcting a count towards what a provider reports is the job of `reading.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple, Protocol, assert_never

from msgspec import Struct

from tenfold.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult

MESSAGE_OVERHEAD = 4
"""The overhead of one message (role, start and end marks). OpenAI's cookbook on counting chat tokens gives 3 plus 1 for
the role; two public agents (spec/blocks.md C5, spec/tiers.md B4) charge 4.
"""

PIXELS_PER_TOKEN = 750
IMAGE_TOKENS = 1_600
"""Anthropic's vision page: width x height / 750, after scaling down to about 1,600 tokens. An image of unknown size is
charged this maximum. (Claude from 4.7 on allows larger images, up to about 4,800 tokens. They are undercounted here
until the first usage is reported.)
"""

PAGE_TOKENS = 1_500
PAGE_BYTES = 50_000
"""Anthropic's PDF page: 1,500 to 3,000 tokens a page by density. Public measurements give 2,100 for a page of text,
1,600 for a scanned one (Claude) and 560 (Gemini). The provider's correction is applied on top, so the lower end is
charged. Where the number of pages is unknown, 50,000 bytes count as one page. That is an assumption (documents of text
and figures), not a measurement.
"""

AUDIO_TOKENS_PER_SECOND = 10
WAV_BYTES_PER_SECOND = 32_000
MP3_BYTES_PER_SECOND = 8_000
"""OpenAI's guide on realtime costs: audio in user messages is one token for 100 ms. The seconds follow from the bytes,
at the rates of 16-bit speech at 16 kHz and of MP3 at 64 kbit/s. Recordings of higher quality are shorter than that, and
so are counted too high.
"""

OPAQUE_BYTES_PER_TOKEN = 4
MAX_CHUNK_CHARACTERS = 1 << 20
"""Characters counted at once. Limits the working copy of a very large text to a few megabytes."""

_INLINE_TEXT = ("text/", "application/json", "application/xml")
_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    "\U00020000-\U0003ffff]+"
)
_CHUNK_BOUNDARY = re.compile(r"\n(?=[A-Za-z0-9])")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Counter(Protocol):
    """Counts plain texts. Stored counts are filed under `name`, so another name means other numbers."""

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
    """

    name: Literal["chars4"] = "chars4"

    def count(self, texts: Sequence[str]) -> list[int]:
        """Returns the tokens of each text by the rule above: exact arithmetic, no vocabulary."""
        return [-(-len(text) // 4) if text.isascii() else _count_by_rule(text) for text in texts]


class BytePairCounter(Struct, frozen=True):
    """Counts with a real byte-pair vocabulary from the package `toktok-rs`. It needs no download.

    The vocabulary is loaded at the first count, which takes about half a second, once per process. `count` raises
    ImportError where the package is not installed. `choose_counter` checks that first, and falls back visibly.
    """

    encoding: Literal["o200k", "cl100k"] = "o200k"

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


class ModelFamily(Struct, frozen=True):
    """The counter for models whose name begins with `prefix`, and how far off it is.

    `factor` is the model's tokens per counted token, used until usage is reported. `evidence` says where it comes from.
    """

    prefix: str
    encoding: Literal["o200k", "cl100k"]
    factor: float
    evidence: str


_OPENAI = "the family's own vocabulary (toktok-rs equals tiktoken, bench/tokenizers.py)"
_CLAUDE = "no public vocabulary; growth between reported usages is 1.23 to 1.25 x o200k (docs/meter.md)"
_CLAUDE_NEW = "no public vocabulary; a public rebuild of the tokenizer since 4.7 counts 1.60 x o200k (docs/meter.md)"
FAMILIES: tuple[ModelFamily, ...] = (
    ModelFamily("gpt-3.5", "cl100k", 1.0, _OPENAI),
    ModelFamily("gpt-4", "cl100k", 1.0, _OPENAI),
    ModelFamily("gpt-4o", "o200k", 1.0, _OPENAI),
    ModelFamily("gpt-4.1", "o200k", 1.0, _OPENAI),
    ModelFamily("gpt-4.5", "o200k", 1.0, _OPENAI),
    ModelFamily("gpt-", "o200k", 1.0, _OPENAI),
    ModelFamily("chatgpt-", "o200k", 1.0, _OPENAI),
    ModelFamily("codex-", "o200k", 1.0, _OPENAI),
    ModelFamily("o1", "o200k", 1.0, _OPENAI),
    ModelFamily("o3", "o200k", 1.0, _OPENAI),
    ModelFamily("o4", "o200k", 1.0, _OPENAI),
    ModelFamily("claude-", "o200k", 1.6, _CLAUDE_NEW),
    ModelFamily("claude-2", "o200k", 1.25, _CLAUDE),
    ModelFamily("claude-3", "o200k", 1.25, _CLAUDE),
    ModelFamily("claude-instant", "o200k", 1.25, _CLAUDE),
    *(ModelFamily(f"claude-{size}-4", "o200k", 1.25, _CLAUDE) for size in ("opus", "sonnet", "haiku")),
    *(ModelFamily(f"claude-opus-4-{minor}", "o200k", 1.6, _CLAUDE_NEW) for minor in (7, 8)),
)
_UNKNOWN_EVIDENCE = "not a known family: corrected like the older Claude models, to be on the safe side"
UNKNOWN_FAMILY = ModelFamily("", "o200k", 1.25, _UNKNOWN_EVIDENCE)
CHARACTERS_FACTOR = 1.35
"""Tokens per counted token of `chars4`: 1.28 to 1.42 over 43 whole requests of a coding agent (docs/meter.md)."""

_PROVIDER_PREFIX = re.compile(r"^[a-z][a-z-]*:(?=.)")
_ROUTER_PREFIXES = ("models/", "anthropic.", "us.anthropic.", "eu.anthropic.", "apac.anthropic.", "global.anthropic.")


@lru_cache(maxsize=256)
def normalize_model_name(model: str) -> str:
    """Returns a model's own name in lower case.

    A prefix of a provider, router or cloud (`openai:`, `anthropic/`, `us.anthropic.`) is removed. Routers write
    `claude-sonnet-4.5` for `claude-sonnet-4-5`. The result has the vendor's spelling.
    """
    name = _PROVIDER_PREFIX.sub("", model.strip().lower(), count=1).rsplit("/", 1)[-1]
    for prefix in _ROUTER_PREFIXES:
        name = name.removeprefix(prefix)
    return name.replace(".", "-") if name.startswith("claude-") else name


@lru_cache(maxsize=256)
def find_family(model: str | None) -> ModelFamily:
    """Returns the row of FAMILIES with the longest matching prefix, or `UNKNOWN_FAMILY`."""
    name = normalize_model_name(model or "")
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

    Where that is not installed, returns `FALLBACK_CHOICE` with its note.
    """
    family = find_family(model)
    note = "" if family.factor == 1.0 else f"{family.encoding}: {family.evidence}"
    return CounterChoice(BytePairCounter(family.encoding), note) if is_bpe_installed() else FALLBACK_CHOICE


def get_family_factor(model: str | None, counter: str) -> float:
    """Returns what a count is multiplied by until usage is reported.

    It is the factor of the model's family, or for `chars4` one factor for all models.
    """
    return CHARACTERS_FACTOR if counter == "chars4" else find_family(model).factor


def measure_messages(messages: Sequence[Message], counter: Counter, *, overhead: int = MESSAGE_OVERHEAD) -> list[int]:
    """Returns the tokens of each message, `overhead` included. Counts all texts in one batch.

    Counted: text, thinking, a call's name and raw arguments, a result's tool name and content, inline documents. Sized
    by rule: images (by pixels, never by base64 length), files, opaque parts. A thinking signature is not counted,
    because a provider reads what it signs and not the signature.
    """
    texts: list[str] = []
    owners: list[int] = []
    totals = [overhead] * len(messages)
    for index, message in enumerate(messages):
        for part in message.parts:
            for piece in _extract_countable(part):
                if isinstance(piece, int):
                    totals[index] += piece
                elif piece:
                    texts.append(piece)
                    owners.append(index)
    for owner, tokens in zip(owners, counter.count(texts), strict=True):
        totals[owner] += tokens
    return totals


def count_image_tokens(image: Image) -> int:
    """Returns an image's tokens by its pixels, at most `IMAGE_TOKENS`, which is also charged for unknown sizes."""
    if image.width <= 0 or image.height <= 0:
        return IMAGE_TOKENS
    return min(IMAGE_TOKENS, -(-image.width * image.height // PIXELS_PER_TOKEN))


def count_document_tokens(document: Document) -> int:
    """Returns the tokens of an attached file, without its inline text.

    Counts by pages, else by bytes; a bare url counts as one page.
    """
    if document.pages > 0:
        return document.pages * PAGE_TOKENS
    if document.data:
        size = len(document.data) * 3 // 4
        if document.media_type.startswith(_INLINE_TEXT):
            return -(-size // 4)
        return -(-size // PAGE_BYTES) * PAGE_TOKENS
    return PAGE_TOKENS if document.url else 0


def count_opaque_tokens(part: OpaquePart) -> int:
    """Returns an opaque part's tokens by its bytes.

    A recording counts by the seconds that its bytes make. A generated image counts by bytes, at most as one image.
    """
    size = len(part.raw)
    if part.kind == "input_audio":
        rate = WAV_BYTES_PER_SECOND if b'"wav"' in part.raw else MP3_BYTES_PER_SECOND
        return -(-(size * 3 // 4) * AUDIO_TOKENS_PER_SECOND // rate)
    tokens = -(-size // OPAQUE_BYTES_PER_TOKEN)
    return min(IMAGE_TOKENS, tokens) if part.kind == "image_generation_call" else tokens


def _extract_countable(part: Part) -> Iterator[str | int]:
    match part:
        case Text():
            yield part.text
        case Thinking():
            yield part.text
        case ToolCall():
            yield part.name
            yield part.arguments
        case ToolResult():
            yield part.name
            for inner in part.content:
                yield from _extract_countable(inner)
        case Image():
            yield count_image_tokens(part)
        case Document():
            yield part.name
            yield part.text or count_document_tokens(part)
        case OpaquePart():
            yield count_opaque_tokens(part)
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
