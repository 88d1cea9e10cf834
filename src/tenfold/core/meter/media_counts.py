"""Counts what is not text: images by their pixels, files by their pages, recordings by their length.

Whatever a provider counts is known exactly, within bounds, or not at all: an image by URL has no size that could be
read here. Each count says so by its bounds, and by the number of parts of unknown size.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tenfold.core.meter.media_headers import count_pdf_pages, is_pdf, read_image_size
from tenfold.core.meter.media_rules import (
    MAX_AUDIO_TOKENS_PER_SECOND,
    find_image_rule,
    find_page_rule,
    find_recording_rule,
)
from tenfold.core.record.message import Document, Image, Message, OpaquePart, ToolResult
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.core.wire.media import MediaKind
from tenfold.core.wire.registry import find_media_kind

OPAQUE_BYTES_PER_TOKEN = 4
TEXT_BYTES_PER_TOKEN = 4
PAGE_BYTES = 50_000
FEWEST_PAGE_BYTES = 2_000
MAX_PAGES = 1_000
"""Where the number of pages is unknown, 50,000 bytes count as one page. That is an assumption (documents of text and
figures), not a measurement. There is at least one page, and at most one for every 2,000 bytes: a page of plain text,
compressed. No provider takes more than 1,000 pages (Google; Anthropic takes 600).
"""

UNKNOWN_SECONDS = 600
MAX_AUDIO_SECONDS = 34_200
MAX_VIDEO_SECONDS = 3_600
"""A recording of which only a URL or id is known is charged as ten minutes, which is an assumption. Its ceiling is what
Google takes in a request: 9.5 hours of sound, an hour of video.
"""

_INLINE_TEXT = ("text/", "application/json", "application/xml")


_ENVELOPE_BYTES = 650
"""Bytes of sealed thinking that hold none of it: the header, the check, and what the provider keeps beside it."""


class ByteRates(Struct, frozen=True):
    """How many bytes a second of a recording takes: usually, at the least, and at the most."""

    usual: int
    least: int
    most: int


WAV_RATES = ByteRates(32_000, 8_000, 192_000)
SOUND_RATES = ByteRates(8_000, 2_000, 40_000)
VIDEO_RATES = ByteRates(125_000, 25_000, 1_250_000)
"""16-bit speech at 16 kHz (telephone: 8 bits at 8 kHz; studio: 16 bits, 48 kHz, two channels); MP3 at 64 kbit/s (16 to
320); video at 1 Mbit/s (0.2 to 10). The length of a recording is not read, so its size is unknown between these.
"""


class MediaTokens(Struct, frozen=True):
    """The tokens of what is not text. The true number lies from `low` to `high`; `unknown_parts` have no known size."""

    tokens: ProviderTokens = ProviderTokens(0)
    low: ProviderTokens = ProviderTokens(0)
    high: ProviderTokens = ProviderTokens(0)
    unknown_parts: int = 0

    @classmethod
    def build(cls, tokens: int, low: int, high: int, unknown_parts: int = 0) -> MediaTokens:
        """Builds it from the bare numbers of a provider's rule: here they become the provider's tokens."""
        return cls(ProviderTokens(tokens), ProviderTokens(low), ProviderTokens(high), unknown_parts)

    @property
    def counted_tokens(self) -> Counted:
        """What of a count they are. No counter counts what is not text, so a count takes the provider's own tokens."""
        return Counted(self.tokens)

    def __add__(self, other: MediaTokens) -> MediaTokens:
        """Returns the sum."""
        return MediaTokens(
            self.tokens + other.tokens,
            self.low + other.low,
            self.high + other.high,
            self.unknown_parts + other.unknown_parts,
        )


NO_MEDIA = MediaTokens()


def _build_exact(tokens: int) -> MediaTokens:
    return MediaTokens.build(tokens, tokens, tokens)


def count_image(image: Image, model: str = "") -> MediaTokens:
    """Returns the tokens that a model takes for an image, by its pixels and its detail, never by its bytes.

    The size is read from the header of its data. If it is unknown (a URL, a damaged header), the model's ceiling is
    charged: the most that any image takes.
    """
    rule = find_image_rule(model, image.detail)
    known = (image.width, image.height) if min(image.width, image.height) > 0 else read_image_size(image.data)
    if known is not None:
        return _build_exact(rule.sizing.count(*known))
    low, high = rule.sizing.count(1, 1), rule.sizing.ceiling
    return MediaTokens.build(rule.unknown_tokens or high, low, high, int(low < high))


def count_document(document: Document, model: str = "") -> MediaTokens:
    """Returns the tokens that a model takes for an attached file, without its inline text.

    A recording counts by its length, a text by its bytes, anything else by its pages.
    """
    kind = document.media_type.partition("/")[0]
    size = len(document.data) * 3 // 4
    if kind in ("audio", "video"):
        return _count_recording(kind, size, model, is_wav="wav" in document.media_type)
    if document.data and document.media_type.startswith(_INLINE_TEXT):
        return _build_exact(-(-size // TEXT_BYTES_PER_TOKEN))
    if not (document.data or document.url or document.pages):
        return NO_MEDIA
    rule = find_page_rule(model)
    pages = document.pages
    if pages <= 0 and document.data and is_pdf(document.data):
        pages = count_pdf_pages(document.data)
    if pages > 0:
        return MediaTokens.build(pages * rule.tokens, pages * rule.low, pages * rule.high)
    most_pages = min(MAX_PAGES, -(-size // FEWEST_PAGE_BYTES)) if document.data else MAX_PAGES
    guess = min(MAX_PAGES, max(1, -(-size // PAGE_BYTES)))
    return MediaTokens.build(guess * rule.tokens, rule.low, max(guess, most_pages) * rule.high, 1)


def count_opaque(part: OpaquePart, model: str = "") -> MediaTokens:
    """Returns the tokens of an opaque part: as an image, a file or a recording if it is one, else by its bytes."""
    size = len(part.raw)
    if part.kind == "redacted_thinking":
        return _build_exact(count_sealed(size))
    kind = find_media_kind(part.kind)
    if kind is None:
        tokens = -(-size // OPAQUE_BYTES_PER_TOKEN)
        if part.kind == "image_generation_call":
            tokens = min(find_image_rule(model).sizing.ceiling, tokens)
        return _build_exact(tokens)
    return _count_media_kind(kind, part, model)


def count_sealed(length: int) -> int:
    """Estimates the tokens of thinking that only its provider can read, by the length of its base64.

    Three quarters of it are bytes, of which some 650 are the envelope; four of the others make a token. So the client
    of OpenAI itself (Codex) estimates it. A signature that seals nothing, or an id, is shorter than the envelope.
    """
    return max(0, length * 3 // 4 - _ENVELOPE_BYTES) // 4


def _count_media_kind(kind: MediaKind, part: OpaquePart, model: str) -> MediaTokens:
    if kind == "image":
        return count_image(Image(url="unread"), model)
    if kind == "document":
        return count_document(Document(url="unread"), model)
    has_data = b'"data"' in part.raw
    return _count_recording(kind, len(part.raw) * 3 // 4 if has_data else 0, model, is_wav=b'"wav"' in part.raw)


def _count_recording(kind: str, size: int, model: str, *, is_wav: bool) -> MediaTokens:
    """Returns the tokens of a recording of that many bytes, 0 if only its URL or id is known."""
    rule = find_recording_rule(model)
    if kind == "video":
        rates, rate, most_rate, limit = VIDEO_RATES, rule.video, rule.video, MAX_VIDEO_SECONDS
    else:
        most_rate, limit = max(rule.audio, MAX_AUDIO_TOKENS_PER_SECOND), MAX_AUDIO_SECONDS
        rates, rate = WAV_RATES if is_wav else SOUND_RATES, rule.audio
    if not size:
        return MediaTokens.build(UNKNOWN_SECONDS * rate, rate, limit * most_rate, 1)
    tokens, low = -(-size * rate // rates.usual), size * rate // rates.most
    return MediaTokens.build(tokens, low, max(tokens, min(limit * most_rate, -(-size * most_rate // rates.least))), 1)


def count_media(messages: Iterable[Message], model: str = "") -> MediaTokens:
    """Returns the tokens of everything in the messages that is not text."""
    total = NO_MEDIA
    for message in messages:
        for part in message.parts:
            for inner in part.content if isinstance(part, ToolResult) else (part,):
                counted = count_part(inner, model)
                if counted is not None:
                    total += counted
    return total


def count_part(part: object, model: str) -> MediaTokens | None:
    """Returns the tokens of a part that is not text, None for one that is."""
    if isinstance(part, Image):
        return count_image(part, model)
    if isinstance(part, Document):
        return None if part.text else count_document(part, model)
    return count_opaque(part, model) if isinstance(part, OpaquePart) else None
