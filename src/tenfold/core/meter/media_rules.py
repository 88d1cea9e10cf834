"""How many tokens each provider takes for an image, a page, a recording: rows, each with where it was read above it.

A row holds for the models whose name begins with its prefix; the longest prefix wins. `find_image_rule`,
`find_page_rule` and `find_recording_rule` find it. `media_counts.py` counts by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, prod, sqrt
from typing import TypeVar

from msgspec import Struct

from tenfold.core.meter.model_names import normalize_model_name
from tenfold.core.text.memoize import memoize_short


class FixedTokens(Struct, frozen=True):
    """Every image takes the same number of tokens."""

    ceiling: int

    def count(self, width: int, height: int) -> int:  # noqa: ARG002 - the size makes no difference here
        """Returns that number."""
        return self.ceiling


class VisualPatches(Struct, frozen=True):
    """Anthropic's rule: a token for each patch of 28 x 28 pixels that is begun.

    A larger image is first scaled down, to the largest size that has no edge above `max_edge` pixels and no more than
    `max_tokens` patches. The earlier rule of thumb, width x height / 750, is within 5 % of it for large images.
    """

    max_edge: int
    max_tokens: int

    @property
    def ceiling(self) -> int:
        """The most tokens that any image takes."""
        return self.max_tokens

    def count(self, width: int, height: int) -> int:
        """Returns the tokens of an image of that many pixels."""
        long, short = max(width, height), min(width, height)
        if self._is_within(long, short):
            return _count_squares(long, short, 28)
        fitting, too_large = 1, min(long, self.max_edge + 1)
        while too_large - fitting > 1:
            middle = (fitting + too_large) // 2
            if self._is_within(middle, _compute_side(short, middle, long)):
                fitting = middle
            else:
                too_large = middle
        return _count_squares(fitting, _compute_side(short, fitting, long), 28)

    def _is_within(self, long: int, short: int) -> bool:
        return -(-long // 28) * 28 <= self.max_edge and _count_squares(long, short, 28) <= self.max_tokens


class PatchBudget(Struct, frozen=True):
    """OpenAI's newer rule: patches of 32 x 32 pixels, times a factor of the model.

    A larger image is first scaled down, to at most `max_edge` pixels and `max_patches` patches.
    """

    factor: float
    max_patches: int
    max_edge: int = 2_048

    @property
    def ceiling(self) -> int:
        """The most tokens that any image takes."""
        return ceil(self.max_patches * self.factor)

    def count(self, width: int, height: int) -> int:
        """Returns the tokens of an image of that many pixels."""
        columns, rows = width / 32, height / 32
        scale = min(1.0, self.max_edge / max(width, height))
        if ceil(columns * scale) * ceil(rows * scale) > self.max_patches:
            scale = min(scale, sqrt(self.max_patches / (columns * rows)))
            scale *= min(floor(side * scale) / (side * scale) for side in (columns, rows) if side * scale >= 1)
        patches = prod(max(1, ceil(round(side * scale, 6))) for side in (columns, rows))
        return ceil(min(patches, self.max_patches) * self.factor)


class TileCount(Struct, frozen=True):
    """OpenAI's older rule: a base, and the same again for each tile of 512 x 512 pixels.

    The image is first scaled to at most 2,048 pixels, and then to at most 768 on its short side.
    """

    base: int
    tile: int

    @property
    def ceiling(self) -> int:
        """The most tokens that any image takes: 768 x 2,048 pixels are eight tiles."""
        return self.base + 8 * self.tile

    def count(self, width: int, height: int) -> int:
        """Returns the tokens of an image of that many pixels."""
        scale = min(1.0, 2_048 / max(width, height))
        scale *= min(1.0, 768 / (min(width, height) * scale))
        tiles = prod(max(1, ceil(round(side * scale, 6) / 512)) for side in (width, height))
        return self.base + self.tile * tiles


class SquareCrops(Struct, frozen=True):
    """Google's rule up to Gemini 2.5: 258 tokens for a small image, else for each square it is cut into.

    A square's side is two thirds of the image's short side, and 256 to 768 pixels.
    """

    tokens: int = 258

    @property
    def ceiling(self) -> int:
        """The most tokens that any image takes: at most 3,072 x 3,072 pixels are read, which are 16 squares."""
        return 16 * self.tokens

    def count(self, width: int, height: int) -> int:
        """Returns the tokens of an image of that many pixels."""
        if max(width, height) <= 384:
            return self.tokens
        scale = min(1.0, 3_072 / max(width, height))
        wide, high = ceil(width * scale), ceil(height * scale)
        side = min(768, max(256, floor(min(wide, high) / 1.5)))
        return min(16, _count_squares(wide, high, side)) * self.tokens


def _count_squares(width: int, height: int, side: int) -> int:
    return -(-width // side) * -(-height // side)


def _compute_side(short: int, part: int, whole: int) -> int:
    """Scales a side as the long one goes from `whole` to `part`. Halves are rounded to even, as the provider does."""
    return max(1, round(short * part / whole))


ImageSizing = FixedTokens | VisualPatches | PatchBudget | TileCount | SquareCrops
"""How a provider turns the pixels of an image into tokens: `count` of a size, and `ceiling`, the most of any."""


class ImageRule(Struct, frozen=True):
    """How models whose name begins with `prefix` count an image that is sent with this `detail` ("": with none).

    `unknown_tokens` is charged for an image of unknown size where its ceiling is no fair guess (0: the ceiling).
    """

    prefix: str
    detail: str
    sizing: ImageSizing
    unknown_tokens: int = 0


def _build_tile_rules(names: str, base: int, tile: int) -> tuple[ImageRule, ...]:
    sizings: dict[str, ImageSizing] = {"": TileCount(base, tile), "low": FixedTokens(base)}
    return tuple(ImageRule(n, detail, s) for n in names.split() for detail, s in sizings.items())


def _build_patch_rules(names: str, sizings: dict[str, PatchBudget]) -> tuple[ImageRule, ...]:
    """Builds the rows of models with patches. With detail "low", every image is brought to 512 x 512 pixels."""
    usual = sizings.get("high", sizings[""])
    rules: dict[str, ImageSizing] = {**sizings, "low": FixedTokens(ceil(16 * 16 * usual.factor))}
    return tuple(
        ImageRule(name, detail, sizing, min(usual.ceiling, sizing.ceiling))
        for name in names.split()
        for detail, sizing in rules.items()
    )


_UNCAPPED = PatchBudget(1.2, 30_000, 65_535)
"""An image with more patches than this is refused."""
_LARGE = PatchBudget(1.2, 10_000, 6_000)
IMAGE_RULES: tuple[ImageRule, ...] = (
    # not a known provider: counted like the older Claude models, which lie between the others
    ImageRule("", "", VisualPatches(1_568, 1_568)),
    # https://platform.claude.com/docs/en/build-with-claude/vision, read 2026-11-26
    ImageRule("claude-", "", VisualPatches(2_576, 4_784)),
    *(
        ImageRule(f"claude-{name}", "", VisualPatches(1_568, 1_568))
        for name in ("2", "3", "instant", "opus-4", "sonnet-4", "haiku-4")
    ),
    *(ImageRule(f"claude-opus-4-{minor}", "", VisualPatches(2_576, 4_784)) for minor in (7, 8)),
    # https://developers.openai.com/api/docs/guides/images-vision, read 2026-11-26
    *_build_tile_rules("gpt-4 chatgpt-4o", 85, 170),
    *_build_tile_rules("gpt-4o-mini", 2_833, 5_667),
    *_build_tile_rules("gpt-5 gpt-5-codex gpt-5.1 gpt-5.1-codex", 70, 140),
    *_build_tile_rules("o1 o3", 75, 150),
    *_build_tile_rules("computer-use-preview", 65, 129),
    *_build_patch_rules(
        "gpt-4.1-mini gpt-5-mini gpt-5-codex-mini gpt-5.1-codex-mini gpt-5.4-mini", {"": PatchBudget(1.62, 1_536)}
    ),
    *_build_patch_rules("gpt-4.1-nano gpt-5-nano gpt-5.4-nano", {"": PatchBudget(2.46, 1_536)}),
    *_build_patch_rules("o4-mini codex-mini", {"": PatchBudget(1.72, 1_536)}),
    # the same; the factor 1.2 as measured: https://community.openai.com/t/1372291
    *_build_patch_rules("gpt-5.2 gpt-5.3", {"": PatchBudget(1.2, 1_536)}),
    *_build_patch_rules("gpt-5.4", {"": PatchBudget(1.2, 2_500), "original": _LARGE}),
    *_build_patch_rules("gpt-5.5", {"": _LARGE, "high": PatchBudget(1.2, 2_500), "original": _LARGE}),
    *_build_patch_rules("gpt- gpt-5.", {"": _UNCAPPED, "high": PatchBudget(1.2, 2_500), "original": _UNCAPPED}),
    # the first: https://ai.google.dev/gemini-api/docs/tokens and .../image-understanding, the others:
    # https://ai.google.dev/gemini-api/docs/media-resolution, all read 2026-11-26
    *(
        ImageRule(prefix, detail, sizing)
        for prefix in ("gemini-1", "gemini-2")
        for detail, sizing in (("", SquareCrops()), ("low", FixedTokens(64)), ("medium", FixedTokens(256)))
    ),
    # https://ai.google.dev/gemini-api/docs/media-resolution, read 2026-11-26
    *(
        ImageRule("gemini-", detail, FixedTokens(tokens))
        for detail, tokens in (("", 1_120), ("low", 280), ("medium", 560), ("high", 1_120), ("ultra_high", 2_240))
    ),
)


class PageRule(Struct, frozen=True):
    """The tokens of a page of a PDF: what is charged, and the fewest and the most that are documented or measured."""

    prefix: str
    tokens: int
    low: int
    high: int


PAGE_RULES: tuple[PageRule, ...] = (
    # not a known provider: from Gemini's page to Claude's; charged like Claude's
    PageRule("", 1_500, 258, 4_600),
    # https://platform.claude.com/docs/en/build-with-claude/pdf-support: 1,500 to 3,000 tokens of text, and the page as
    # an image; measured: 1,592 to 2,481 (https://huggingface.co/datasets/JOHNISKING/pdf-token-cost, version 2 of
    # 2026-10-18). The lower end is charged, because the correction for the family comes on top
    PageRule("claude-", 1_500, 1_500, 4_600),
    # https://developers.openai.com/api/docs/guides/pdf-files: the text and an image of each page. The sum of a page of
    # text (461 tokens, measured as above) and an image of 768 x 1,086 pixels (910 to 1,105)
    *(
        PageRule(prefix, 1_500, 460, 4_000)
        for prefix in ("gpt-", "chatgpt-", "o1", "o3", "o4", "codex-", "computer-use-")
    ),
    # https://ai.google.dev/gemini-api/docs/tokens and .../image-understanding, read 2026-11-26
    *(PageRule(prefix, 258, 258, 1_300) for prefix in ("gemini-1", "gemini-2")),
    # https://ai.google.dev/gemini-api/docs/media-resolution, read 2026-11-26; measured as above: 560 to 561
    PageRule("gemini-", 560, 280, 1_120),
)


class RecordingRule(Struct, frozen=True):
    """The tokens of a second of sound and of a second of video."""

    prefix: str
    audio: int
    video: int


RECORDING_RULES: tuple[RecordingRule, ...] = (
    # OpenAI's guide on realtime costs: a token for 100 ms of a user's speech; no other provider than Google takes video
    RecordingRule("", 10, 290),
    # https://ai.google.dev/gemini-api/docs/tokens, read 2026-11-26: 32 a second of sound, 258 a frame, one a second
    *(RecordingRule(prefix, 32, 290) for prefix in ("gemini-1", "gemini-2")),
    # https://ai.google.dev/gemini-api/docs/media-resolution, read 2026-11-26: 70 a frame, one a second, 32 for sound
    RecordingRule("gemini-", 32, 102),
)
MAX_AUDIO_TOKENS_PER_SECOND = 32
"""The most that any provider takes for a second of sound."""

_Rule = TypeVar("_Rule", ImageRule, PageRule, RecordingRule)


def _find_rules(rows: Sequence[_Rule], model: str) -> list[_Rule]:
    """Returns the rows with the longest prefix that a model's name begins with."""
    name = normalize_model_name(model)
    longest = max(len(row.prefix) for row in rows if name.startswith(row.prefix))
    return [row for row in rows if len(row.prefix) == longest and name.startswith(row.prefix)]


@memoize_short(256)
def find_image_rule(model: str, detail: str = "") -> ImageRule:
    """Returns how a model counts an image sent with this detail. A detail that it does not know counts as none."""
    rules = {row.detail: row for row in _find_rules(IMAGE_RULES, model)}
    return rules.get(detail, rules[""])


@memoize_short(256)
def find_page_rule(model: str) -> PageRule:
    """Returns how a model counts a page of a PDF."""
    return _find_rules(PAGE_RULES, model)[0]


@memoize_short(256)
def find_recording_rule(model: str) -> RecordingRule:
    """Returns how a model counts recordings."""
    return _find_rules(RECORDING_RULES, model)[0]
