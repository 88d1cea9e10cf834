"""Builds pictures and PDFs that hold nothing but their headers."""

from __future__ import annotations

import base64
from struct import pack


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def make_png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + pack(">II", width, height) + b"\x08\x06\0\0\0" + b"x" * 40


def make_gif(width: int, height: int) -> bytes:
    return b"GIF89a" + pack("<HH", width, height) + b"\0" * 40


def make_jpeg(width: int, height: int, *, before: int = 0, frame: int = 0xC0) -> bytes:
    """A JPEG with `before` bytes of other segments (an embedded preview, a colour profile) before its frame."""
    segments = b""
    while before > 0:
        size = min(before, 60_000)
        segments += b"\xff\xe1" + pack(">H", size + 2) + b"\xff" * size
        before -= size
    head = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0" + segments + b"\xff\xff"  # and a fill byte
    return head[:-1] + bytes((0xFF, frame)) + pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 40


def make_webp(kind: str, width: int, height: int) -> bytes:
    if kind == "VP8 ":
        body = b"\x30\x01\0\x9d\x01\x2a" + pack("<HH", width | 0x4000, height)
    elif kind == "VP8L":
        body = b"\x2f" + pack("<I", (width - 1) | (height - 1) << 14 | 1 << 28) + b"\0" * 8
    else:
        body = b"\x10\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + pack("<I", 1_000) + b"WEBP" + kind.encode() + pack("<I", len(body)) + body + b"\0" * 40


def make_pdf(pages: int, *, count: int | None = None, extra: bytes = b"") -> bytes:
    kids = b" ".join(b"%d 0 R" % (number + 3) for number in range(pages))
    declared = pages if count is None else count
    objects = [
        b"1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n",
        b"2 0 obj\n<< /Type /Pages /Kids [ " + kids + b" ] /Count %d >>\nendobj\n" % declared,
        *(b"%d 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]>>\nendobj\n" % (n + 3) for n in range(pages)),
    ]
    return b"%PDF-1.4\n" + b"".join(objects) + extra + b"trailer << /Root 1 0 R >>\n%%EOF"
