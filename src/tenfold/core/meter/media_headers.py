"""Reads the size of an image and the pages of a PDF from their base64 data.

Of an image only the header is decoded, never the picture. Data that is cut short, damaged or forged gives "unknown",
never an exception. Four formats are read here because these are all that the providers take; an imaging library would
be a dependency of many megabytes for them.
"""

from __future__ import annotations

import binascii
import re
from struct import unpack

MAX_SEGMENTS = 512
"""How many segments of a JPEG are looked at. Cameras and editors write fewer than 100 before the picture begins."""
MAX_PAGE_TREE_NODES = 1_000
PAGE_TREE_WINDOW = 4_096
"""How many nodes of a PDF's page tree are looked at, and how many bytes around each."""
MIN_PAGE_BYTES = 64
"""No page of a PDF is smaller: a count that the file's bytes cannot hold is forged."""

_URL_SAFE = str.maketrans("-_", "+/")
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE_MARKERS = frozenset({0x01, *range(0xD0, 0xD8)})
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PAGE_TREE_NODE = re.compile(rb"/Type\s*/Pages(?![A-Za-z])")
_PAGE_COUNT = re.compile(rb"/Count\s+(\d{1,7})(?!\d)")
_LINEARIZED_PAGES = re.compile(rb"/Linearized\b[^>]{0,512}/N\s+(\d{1,7})(?!\d)")


class Base64Reader:
    """Reads slices of base64 data without decoding the rest. Takes both alphabets, and data broken into lines."""

    def __init__(self, data: str) -> None:
        has_breaks = any(character.isspace() for character in data[:128])
        self._data = "".join(data.split()) if has_breaks else data

    def read(self, offset: int, length: int) -> bytes:
        """Returns the bytes from an offset on: fewer at the end of the data, none where it is not base64."""
        first, skipped = divmod(offset, 3)
        characters = self._data[first * 4 : (first + -(-(skipped + length) // 3)) * 4].translate(_URL_SAFE)
        try:
            decoded = binascii.a2b_base64(characters + "=" * (-len(characters) % 4))
        except ValueError:  # binascii.Error is one: what cannot be decoded is of unknown size
            return b""
        return decoded[skipped : skipped + length]


def read_image_size(data: str) -> tuple[int, int] | None:
    """Returns the width and height in pixels of a PNG, JPEG, GIF or WebP image in base64. None if they are unknown."""
    reader = Base64Reader(data)
    head = reader.read(0, 32)
    size: tuple[int, int] | None = None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR" and len(head) >= 24:
        size = unpack(">II", head[16:24])
    elif head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        size = unpack("<HH", head[6:10])
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP" and len(head) >= 30:
        size = _read_webp_size(head)
    elif head.startswith(b"\xff\xd8"):
        size = _read_jpeg_size(reader)
    return size if size is not None and min(size) > 0 else None


def _read_webp_size(head: bytes) -> tuple[int, int] | None:
    """Reads the three kinds of WebP: lossy (the header of a VP8 frame), lossless, and extended."""
    kind = head[12:16]
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        width, height = unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and head[20] == 0x2F:
        (bits,) = unpack("<I", head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return None


def _read_jpeg_size(reader: Base64Reader) -> tuple[int, int] | None:
    """Goes from segment to segment up to the header of the first frame, and decodes only the heads of segments."""
    offset = 2
    for _ in range(MAX_SEGMENTS):
        head = reader.read(offset, 9)
        if len(head) < 4 or head[0] != 0xFF:
            return None
        marker = head[1]
        if marker == 0xFF:  # a fill byte
            offset += 1
        elif marker in _BARE_MARKERS:
            offset += 2
        elif marker in _FRAME_MARKERS:
            height, width = unpack(">HH", head[5:9]) if len(head) == 9 else (0, 0)
            return width, height
        else:
            (length,) = unpack(">H", head[2:4])
            if length < 2 or marker in (0xD9, 0xDA):  # the picture ended or began without a frame's header
                return None
            offset += 2 + length
    return None


def is_pdf(data: str) -> bool:
    """Whether base64 data begins like a PDF."""
    return Base64Reader(data).read(0, 5) == b"%PDF-"


def count_pdf_pages(data: str) -> int:
    """Counts the pages of a PDF in base64. Returns 0 if they are unknown, as where its objects are compressed.

    A page counts if it is an object of the file and in the count of the page tree. A file that is prepared for the web
    ("linearized") says at its beginning how many pages it has, compressed or not.
    """
    reader = Base64Reader(data)
    body = reader.read(0, len(data))
    if (linearized := _LINEARIZED_PAGES.search(body, 0, 2_048)) is not None:
        count = int(linearized[1])
        return count if count * MIN_PAGE_BYTES <= len(body) else 0
    if b"/ObjStm" in body:
        return 0
    pages = sum(1 for _ in _PAGE.finditer(body))
    return min(pages, _read_page_tree_count(body) or pages)


def _read_page_tree_count(body: bytes) -> int:
    """Returns the largest count of a page tree's nodes, which is the root's. 0 if none is found."""
    count = 0
    for index, node in enumerate(_PAGE_TREE_NODE.finditer(body)):
        if index >= MAX_PAGE_TREE_NODES:
            return 0
        before = body[max(0, node.start() - PAGE_TREE_WINDOW) : node.start()].rpartition(b" obj")[2]
        after = body[node.end() : node.end() + PAGE_TREE_WINDOW].partition(b"endobj")[0]
        count = max(count, *(int(found) for found in _PAGE_COUNT.findall(before + after)), 0)
    return count
