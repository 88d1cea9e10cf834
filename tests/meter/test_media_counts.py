from __future__ import annotations

import json

import pytest

from tenfold.core.meter.counters import BytePairCounter, choose_counter, measure_messages
from tenfold.core.meter.media_counts import MediaTokens, count_document, count_image, count_media, count_opaque
from tenfold.core.meter.media_rules import IMAGE_RULES
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, ToolResult
from tenfold.core.wire import WIRES
from tests.meter.pictures import encode, make_jpeg, make_pdf, make_png, make_webp

HD = encode(make_png(1_920, 1_080))


def count_pixels(width: int, height: int, model: str, detail: str = "") -> int:
    return count_image(Image(width=width, height=height, detail=detail), model).tokens


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        # the examples of Anthropic's vision page
        ("claude-sonnet-4-5", 200, 200, 64),
        ("claude-sonnet-4-5", 1_000, 1_000, 1_296),
        ("claude-3-5-sonnet-20241022", 1_092, 1_092, 1_521),
        ("anthropic/claude-opus-4.5", 3_840, 2_160, 1_560),
        ("claude-haiku-4-5", 1_075, 1_520, 1_551),
        ("claude-opus-4-7", 1_920, 1_080, 2_691),
        ("claude-opus-5-5", 3_840, 2_160, 4_784),
        # of OpenAI's images page
        ("gpt-4o", 1_024, 1_024, 765),
        ("gpt-4.1", 2_048, 4_096, 1_105),
        ("gpt-4o", 4_096, 8_192, 1_105),
        ("gpt-4o-mini", 1_024, 1_024, 2_833 + 4 * 5_667),
        ("gpt-5", 1_024, 1_024, 70 + 4 * 140),
        ("o3", 1_024, 1_024, 75 + 4 * 150),
        ("o4-mini", 1_024, 1_024, 1_762),
        ("gpt-5-mini", 1_800, 2_400, 2_353),
        ("gpt-4.1-nano", 1_800, 2_400, 3_572),
        ("gpt-5.4", 1_920, 1_080, 2_448),
        ("gpt-5.6-luna", 4_800, 6_400, 36_000),
        # of Google's pages
        ("gemini-2.5-pro", 384, 384, 258),
        ("gemini-2.5-flash", 960, 540, 6 * 258),
        ("models/gemini-2.0-flash", 1_920, 1_080, 6 * 258),
        ("gemini-3-pro", 4_000, 3_000, 1_120),
    ],
)
def test_an_image_counts_as_its_provider_counts_it(model: str, width: int, height: int, tokens: int) -> None:
    assert count_pixels(width, height, model) == tokens
    assert count_pixels(height, width, model) == tokens


def test_the_detail_decides_with_providers_that_have_one() -> None:
    assert count_pixels(1_920, 1_080, "gpt-4o", "low") == 85
    assert count_pixels(1_920, 1_080, "gpt-4o", "auto") == count_pixels(1_920, 1_080, "gpt-4o", "high") == 1_105
    assert count_pixels(1_920, 1_080, "gpt-5-nano", "low") == 630
    assert count_pixels(3_840, 2_160, "gpt-5.4", "original") > count_pixels(3_840, 2_160, "gpt-5.4", "high")
    assert count_pixels(3_840, 2_160, "gpt-5.5") == count_pixels(3_840, 2_160, "gpt-5.5", "original")
    assert count_pixels(1_920, 1_080, "gemini-3-pro", "ultra_high") == 2_240
    assert count_pixels(1_920, 1_080, "claude-sonnet-4-5", "low") == count_pixels(1_920, 1_080, "claude-sonnet-4-5")


@pytest.mark.parametrize(
    "size", [(1, 1), (31, 33), (1_920, 1_080), (1, 100_000), (8_000, 8_000), (2**31, 2**31), (2**31, 1)]
)
def test_no_size_gets_above_the_ceiling(size: tuple[int, int]) -> None:
    for rule in IMAGE_RULES:
        assert 0 < rule.sizing.count(*size) <= rule.sizing.ceiling, (rule.prefix, rule.detail)
        assert rule.sizing.count(*size) == rule.sizing.count(*reversed(size)), (rule.prefix, rule.detail)
        assert rule.unknown_tokens <= rule.sizing.ceiling, (rule.prefix, rule.detail)


def test_an_image_is_never_counted_by_its_bytes() -> None:
    large = encode(make_jpeg(280, 280) + b"x" * 3_000_000)
    assert count_image(Image("image/jpeg", large), "claude-sonnet-4-5") == MediaTokens.build(100, 100, 100)
    assert count_image(Image("image/webp", encode(make_webp("VP8L", 280, 280))), "claude-sonnet-4-5").tokens == 100


def test_an_image_of_unknown_size_is_charged_the_ceiling_and_said_to_be_unknown() -> None:
    for unknown in (Image(url="https://e.org/a.png"), Image(data="QQ=="), Image("image/png", HD[:20]), Image()):
        assert count_image(unknown, "claude-sonnet-4-5") == MediaTokens.build(1_568, 1, 1_568, 1)
    assert count_image(Image(url="u"), "gpt-4o") == MediaTokens.build(1_445, 255, 1_445, 1)
    assert count_image(Image(url="u", detail="low"), "gpt-4o") == MediaTokens.build(85, 85, 85)
    assert count_image(Image(url="u"), "gpt-5.6-sol") == MediaTokens.build(3_000, 2, 36_000, 1)
    assert count_image(Image(url="u"), "gemini-3-pro") == MediaTokens.build(1_120, 1_120, 1_120)


def test_a_pdf_counts_by_its_pages_and_a_text_by_its_bytes() -> None:
    data = encode(make_pdf(4))
    assert count_document(Document("", "application/pdf", data=data), "gemini-3-pro").tokens == 4 * 560
    assert count_document(Document("", "application/pdf", data=data), "gemini-2.5-pro").tokens == 4 * 258
    assert count_document(Document("a.pdf", data=data), "claude-sonnet-4-5") == MediaTokens.build(6_000, 6_000, 18_400)
    assert count_document(Document(pages=3, data="A" * 4_000_000), "gpt-5").tokens == 4_500
    assert count_document(Document(data="A" * 4_000, media_type="text/plain")) == MediaTokens.build(750, 750, 750)
    assert count_document(Document(name="empty")) == MediaTokens()


def test_a_file_of_unknown_pages_has_a_wide_interval() -> None:
    compressed = count_document(Document("", "application/pdf", data="A" * 400_000), "claude-sonnet-4-5")
    assert compressed == MediaTokens.build(6 * 1_500, 1_500, 150 * 4_600, 1)
    linked = count_document(Document(url="https://e.org/a.pdf"), "claude-sonnet-4-5")
    assert linked == MediaTokens.build(1_500, 1_500, 1_000 * 4_600, 1)


def make_recording(seconds: int, rate: int, form: str) -> OpaquePart:
    """A recording as OpenAI's formats carry it: base64 takes four characters for three bytes."""
    data = "A" * (seconds * rate * 4 // 3)
    return OpaquePart("input_audio", json.dumps({"input_audio": {"data": data, "format": form}}).encode())


def test_a_recording_is_unknown_and_charged_by_the_seconds_that_its_bytes_usually_make() -> None:
    for part in (make_recording(60, 32_000, "wav"), make_recording(60, 8_000, "mp3")):
        counted = count_opaque(part, "gpt-4o-audio-preview")
        assert counted.tokens == pytest.approx(600, abs=1)
        assert counted.unknown_parts == 1
        assert counted.low < counted.tokens / 3
        assert counted.high > counted.tokens * 3
    song = count_document(Document("", "audio/mp3", data="A" * 640_000), "gemini-3-pro")
    assert song.tokens == 60 * 32
    film = count_document(Document("", "video/mp4", url="gs://a/b.mp4"), "gemini-3-pro")
    assert film == MediaTokens.build(61_200, 102, 367_200, 1)


def test_an_image_or_file_by_id_is_no_handful_of_bytes() -> None:
    by_id = {
        "image": {"type": "image", "source": {"type": "file", "file_id": "f"}},
        "input_image": {"type": "input_image", "file_id": "f"},
    }
    for kind, block in by_id.items():
        counted = count_opaque(OpaquePart(kind, json.dumps(block).encode()), "claude-sonnet-4-5")
        assert counted == MediaTokens.build(1_568, 1, 1_568, 1)
    assert count_opaque(OpaquePart("input_file", b'{"file_id":"f"}'), "gpt-5") == MediaTokens.build(
        1_500, 460, 4_000_000, 1
    )
    assert count_opaque(OpaquePart("odd", b"x" * 9)) == MediaTokens.build(3, 3, 3)


def test_an_image_that_a_provider_drew_is_one_image() -> None:
    drawn = json.dumps({"type": "image_generation_call", "result": "A" * 1_900_000}).encode()
    assert count_opaque(OpaquePart("image_generation_call", drawn)).tokens == 1_568
    assert count_opaque(OpaquePart("image_generation_call", b'{"type":"image_generation_call"}')).tokens == 8


ANTHROPIC = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": HD}}
CHAT = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{HD}", "detail": "low"}}
RESPONSES = {"type": "input_image", "image_url": f"data:image/png;base64,{HD}", "detail": "low"}
GEMINI = {"inlineData": {"mimeType": "image/png", "data": HD}, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}


@pytest.mark.parametrize(
    ("wire", "message", "model", "tokens"),
    [
        ("anthropic", {"role": "user", "content": [ANTHROPIC]}, "claude-opus-4-7", 2_691),
        (
            "anthropic",
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [ANTHROPIC]}]},
            "claude-sonnet-4-5",
            1_560,
        ),
        ("openai-chat", {"role": "user", "content": [CHAT]}, "gpt-4o", 85),
        ("openai-responses", {"type": "message", "role": "user", "content": [RESPONSES]}, "gpt-5", 70),
        ("gemini", {"role": "user", "parts": [GEMINI]}, "gemini-3-pro", 280),
    ],
)
def test_inline_images_are_sized_in_each_wire(wire: str, message: object, model: str, tokens: int) -> None:
    raw = json.dumps(message).encode()
    decoded = WIRES[wire].decode([raw])
    assert count_media(decoded, model).tokens == tokens
    assert count_media(decoded, model).unknown_parts == 0
    bare = WIRES[wire].encode([Message(m.role, m.parts, m.origin) for m in decoded])
    if wire != "anthropic":
        assert b"low" in bare.items[0].raw.lower()  # the detail is sent again where a message is written anew


def test_a_message_is_measured_by_the_rules_of_the_counters_model() -> None:
    message = Message("user", (Text("look"), Image("image/png", HD), ToolResult("c", "f", (Image("", HD),))), "human")
    sizes = {
        model: measure_messages([message], choose_counter(model).counter)[0]
        for model in ("claude-sonnet-4-5", "claude-opus-4-7", "gpt-4o")
    }
    assert sizes["claude-opus-4-7"] - sizes["claude-sonnet-4-5"] == 2 * (2_691 - 1_560)
    assert sizes["claude-sonnet-4-5"] - sizes["gpt-4o"] == 2 * (1_560 - 1_105)
    assert measure_messages([message], BytePairCounter()) == [sizes["claude-sonnet-4-5"]]


def test_text_is_no_media() -> None:
    parts: tuple[Part, ...] = (Text("a"), Document("n", text="b"), ToolResult("c", "f", (Text("d"),)))
    assert count_media([Message("user", parts, "human")]) == MediaTokens()
