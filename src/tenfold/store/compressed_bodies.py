"""Compresses the bodies of entries in a store. Hashes are of the plain bodies, whatever the compressor makes of them.

A message that came from outside stands in its entry twice: as its parts, and as the bytes in which it came. Compressed,
the two take little more than one. A compressed body begins with the first byte of zlib's format, a plain one with the
version of its schema, which is far below.
"""

from __future__ import annotations

import zlib

from tenfold.core.record.codec import SCHEMA_VERSION

_LEAST_BYTES = 512
"""Shorter bodies stay plain. Compressing them too would save a long session one hundredth of its size."""
_LEVEL = 1
"""The fastest. The usual level saves a tenth more and takes twice as long."""
_FIRST_BYTE = b"\x78"
_UNREADABLE = bytes([SCHEMA_VERSION])


def compress_body(body: bytes) -> bytes:
    """Returns a body as it is stored."""
    smaller = zlib.compress(body, _LEVEL) if len(body) >= _LEAST_BYTES else body
    return smaller if len(smaller) < len(body) else body


def restore_body(stored: bytes) -> bytes:
    """Returns the body that is stored like this. A damaged one gives bytes that are no record. Raises nothing."""
    if stored[:1] != _FIRST_BYTE:
        return stored
    try:
        return zlib.decompress(stored)
    except zlib.error:
        return _UNREADABLE + stored
